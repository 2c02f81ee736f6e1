//! Writes rows as line protocol.

use std::{fmt::Write as _, io::Write};

use arrow::{
    array::{Array, ArrayRef, AsArray, RecordBatch},
    datatypes::{DataType, TimestampNanosecondType},
    util::display::{ArrayFormatter, FormatOptions},
};

/// Roles of a batch's columns.
#[derive(Debug, Clone)]
pub(super) struct Roles {
    /// The measurement.
    pub(super) table: String,
    /// Names of tag columns.
    pub(super) tags: Vec<String>,
    /// Name of the time column.
    pub(super) time: String,
}

/// Writes a batch as lines with nanosecond timestamps; rows without fields are skipped because they are not valid points.
pub(super) fn write(out: &mut impl Write, batch: &RecordBatch, roles: &Roles) -> anyhow::Result<()> {
    let schema = batch.schema();
    let at = schema.index_of(&roles.time)?;
    let time =
        arrow::compute::cast(batch.column(at), &DataType::Timestamp(arrow::datatypes::TimeUnit::Nanosecond, None))?;
    let time = time.as_primitive::<TimestampNanosecondType>();
    let is_tag = |name: &String| roles.tags.contains(name);
    let columns = || schema.fields().iter().zip(batch.columns()).enumerate().filter(|(i, _)| *i != at);
    let tags: Vec<_> = columns()
        .filter(|(_, (f, _))| is_tag(f.name()))
        .map(|(_, c)| Column::new(c.0.name(), c.1))
        .collect::<Result<_, _>>()?;
    let fields: Vec<_> = columns()
        .filter(|(_, (f, _))| !is_tag(f.name()))
        .map(|(_, c)| Column::new(c.0.name(), c.1))
        .collect::<Result<_, _>>()?;
    let mut line = String::new();
    for row in 0..batch.num_rows() {
        line.clear();
        escape(&mut line, &roles.table, &[',', ' ']);
        for tag in tags.iter().filter(|t| t.array.is_valid(row)) {
            line.push(',');
            escape(&mut line, tag.name, &[',', '=', ' ']);
            line.push('=');
            escape(&mut line, &tag.text.value(row).to_string(), &[',', '=', ' ']);
        }
        let mut separator = ' ';
        for field in fields.iter().filter(|f| f.array.is_valid(row)) {
            line.push(separator);
            separator = ',';
            escape(&mut line, field.name, &[',', '=', ' ']);
            line.push('=');
            field.write(&mut line, row)?;
        }
        if separator == ',' {
            writeln!(out, "{line} {}", time.value(row))?;
        }
    }
    Ok(())
}

struct Column<'a> {
    name: &'a str,
    array: &'a ArrayRef,
    text: ArrayFormatter<'a>,
}

impl<'a> Column<'a> {
    fn new(name: &'a str, array: &'a ArrayRef) -> anyhow::Result<Self> {
        static OPTIONS: FormatOptions<'static> = FormatOptions::new();
        Ok(Self { name, array, text: ArrayFormatter::try_new(array.as_ref(), &OPTIONS)? })
    }

    fn write(&self, line: &mut String, row: usize) -> anyhow::Result<()> {
        let text = self.text.value(row);
        match self.array.data_type() {
            DataType::Utf8 => {
                line.push('"');
                escape(line, self.array.as_string::<i32>().value(row), &['"', '\\']);
                line.push('"');
            }
            t if t.is_integer() => write!(line, "{text}i")?,
            _ => write!(line, "{text}")?,
        }
        Ok(())
    }
}

fn escape(out: &mut String, text: &str, special: &[char]) {
    for c in text.chars() {
        if special.contains(&c) {
            out.push('\\');
        }
        out.push(c);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Int64Array, StringArray, TimestampMillisecondArray};

    use super::*;

    #[test]
    fn rows_become_lines_with_escapes_and_without_nulls() {
        let batch = RecordBatch::try_from_iter_with_nullable([
            ("ts", Arc::new(TimestampMillisecondArray::from(vec![1, 2])) as ArrayRef, false),
            ("n", Arc::new(Int64Array::from(vec![Some(3), None])) as _, true),
            ("note", Arc::new(StringArray::from(vec![Some("a \"b\""), None])) as _, true),
            ("site name", Arc::new(StringArray::from(vec!["x,y", "z"])) as _, true),
        ])
        .unwrap();
        let roles = Roles { table: "my table".into(), tags: vec!["site name".into()], time: "ts".into() };
        let mut out = Vec::new();
        write(&mut out, &batch, &roles).unwrap();
        let expected = "my\\ table,site\\ name=x\\,y n=3i,note=\"a \\\"b\\\"\" 1000000\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
