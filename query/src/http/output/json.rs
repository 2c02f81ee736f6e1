//! Results as a JSON document: Tidelake's and TDengine's, which differ in their heads.

use std::io::Write;

use arrow::{
    array::RecordBatch,
    datatypes::{FieldRef, SchemaRef},
};
use chrono_tz::Tz;
use tidelake_format::Result;

use super::{Cut, Encode};
use crate::{
    http::text::{Column, json_text},
    wire::TYPE_NAME,
};

/// The form of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::http) enum Rows {
    /// `[1,"a"]`.
    Arrays,
    /// `{"n":1,"s":"a"}`.
    Objects,
}

/// A document `<head>"data":[…],"rows":n}`.
pub(in crate::http) struct Json {
    schema: SchemaRef,
    zone: Tz,
    head: Vec<u8>,
    rows: Rows,
    count: u64,
    cut: Cut,
}

impl Json {
    /// `{"columns":[{"name":…,"type":…}],"data":[[…]],"rows":n}`.
    pub(in crate::http) fn new(schema: SchemaRef, zone: Tz) -> Self {
        let mut head = b"{\"columns\":[".to_vec();
        for (i, field) in schema.fields().iter().enumerate() {
            if i > 0 {
                head.push(b',');
            }
            head.extend_from_slice(b"{\"name\":");
            json_text(field.name(), &mut head);
            head.extend_from_slice(b",\"type\":");
            json_text(type_of(field), &mut head);
            head.push(b'}');
        }
        head.extend_from_slice(b"],");
        Self::with_head(schema, zone, head, Rows::Arrays)
    }

    /// A document with the given head, which opens the object and ends with a comma.
    pub(in crate::http) fn with_head(schema: SchemaRef, zone: Tz, head: Vec<u8>, rows: Rows) -> Self {
        Self { schema, zone, head, rows, count: 0, cut: Cut::default() }
    }

    /// Adds `"truncated":true` to the document if `cut` truncated the rows.
    pub(super) fn cut(self, cut: Cut) -> Self {
        Self { cut, ..self }
    }
}

/// The SQL name of a wire field's type.
pub(in crate::http) fn type_of(field: &FieldRef) -> &str {
    field.metadata().get(TYPE_NAME).map_or("", String::as_str)
}

impl Encode for Json {
    fn start(&mut self) -> Result<Vec<u8>> {
        let mut out = std::mem::take(&mut self.head);
        out.extend_from_slice(b"\"data\":[");
        Ok(out)
    }

    fn rows(&mut self, batch: &RecordBatch) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        let fields = self.schema.fields();
        let mut columns: Vec<Column<'_>> = batch
            .columns()
            .iter()
            .zip(fields)
            .map(|(array, field)| Column::new(array, field, self.zone))
            .collect::<Result<_>>()?;
        for row in 0..batch.num_rows() {
            if self.count > 0 {
                out.push(b',');
            }
            self.count += 1;
            match self.rows {
                Rows::Arrays => {
                    out.push(b'[');
                    for (i, column) in columns.iter_mut().enumerate() {
                        if i > 0 {
                            out.push(b',');
                        }
                        column.json(row, &mut out);
                    }
                    out.push(b']');
                }
                Rows::Objects => object(fields, &mut columns, row, &mut out),
            }
        }
        Ok(out)
    }

    fn end(&mut self) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        // Writing to memory cannot fail.
        let truncated = if self.cut.is_made() { ",\"truncated\":true" } else { "" };
        let _ = write!(out, "],\"rows\":{}{truncated}}}", self.count);
        Ok(out)
    }
}

/// Appends a row as an object.
pub(super) fn object(fields: &[FieldRef], columns: &mut [Column<'_>], row: usize, out: &mut Vec<u8>) {
    out.push(b'{');
    for (i, (field, column)) in fields.iter().zip(columns).enumerate() {
        if i > 0 {
            out.push(b',');
        }
        json_text(field.name(), out);
        out.push(b':');
        column.json(row, out);
    }
    out.push(b'}');
}
