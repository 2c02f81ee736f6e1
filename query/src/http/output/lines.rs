//! Line formats: NDJSON and CSV.

use arrow::{array::RecordBatch, datatypes::SchemaRef};
use chrono_tz::Tz;
use tidelake_format::Result;

use super::{Encode, json::object};
use crate::http::text::{Column, csv_text};

/// One JSON object per line.
pub(in crate::http) struct NdJson {
    schema: SchemaRef,
    zone: Tz,
}

impl NdJson {
    pub(super) fn new(schema: SchemaRef, zone: Tz) -> Self {
        Self { schema, zone }
    }
}

impl Encode for NdJson {
    fn start(&mut self) -> Result<Vec<u8>> {
        Ok(Vec::new())
    }

    fn rows(&mut self, batch: &RecordBatch) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        let mut columns = columns(batch, &self.schema, self.zone)?;
        for row in 0..batch.num_rows() {
            object(self.schema.fields(), &mut columns, row, &mut out);
            out.push(b'\n');
        }
        Ok(out)
    }

    fn end(&mut self) -> Result<Vec<u8>> {
        Ok(Vec::new())
    }
}

/// A header line of names, then a line of values per row, separated by commas.
pub(in crate::http) struct Csv {
    schema: SchemaRef,
    zone: Tz,
}

impl Csv {
    pub(super) fn new(schema: SchemaRef, zone: Tz) -> Self {
        Self { schema, zone }
    }
}

impl Encode for Csv {
    fn start(&mut self) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        for (i, field) in self.schema.fields().iter().enumerate() {
            if i > 0 {
                out.push(b',');
            }
            csv_text(field.name().as_bytes(), &mut out);
        }
        out.push(b'\n');
        Ok(out)
    }

    fn rows(&mut self, batch: &RecordBatch) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        let mut columns = columns(batch, &self.schema, self.zone)?;
        for row in 0..batch.num_rows() {
            for (i, column) in columns.iter_mut().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                column.csv(row, &mut out);
            }
            out.push(b'\n');
        }
        Ok(out)
    }

    fn end(&mut self) -> Result<Vec<u8>> {
        Ok(Vec::new())
    }
}

fn columns<'a>(batch: &'a RecordBatch, schema: &'a SchemaRef, zone: Tz) -> Result<Vec<Column<'a>>> {
    batch.columns().iter().zip(schema.fields()).map(|(array, field)| Column::new(array, field, zone)).collect()
}
