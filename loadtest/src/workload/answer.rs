//! Answers of all protocols in a common form, so that one verification serves all.

use anyhow::{Context, Result, bail};
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::{cast, concat_batches};
use arrow::datatypes::{DataType, Float64Type, Int64Type, TimeUnit};

/// A table of values: columns of equal length, with their names.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Answer {
    /// Names, in the order of the select list.
    pub names: Vec<String>,
    /// Values, in the same order.
    pub columns: Vec<Column>,
}

/// Values of one column; `None` is null.
#[derive(Debug, Clone, PartialEq)]
pub enum Column {
    /// Integers of any width; times are milliseconds since 1970.
    Int(Vec<Option<i64>>),
    /// Floats of any width.
    Float(Vec<Option<f64>>),
    /// Texts.
    Text(Vec<Option<String>>),
}

/// One value of an [`Answer`].
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Absent.
    Null,
    /// An integer, or a time in milliseconds since 1970.
    Int(i64),
    /// A float.
    Float(f64),
    /// A text.
    Text(String),
}

impl Column {
    /// Number of values.
    pub fn len(&self) -> usize {
        match self {
            Self::Int(values) => values.len(),
            Self::Float(values) => values.len(),
            Self::Text(values) => values.len(),
        }
    }

    /// Whether there is no value.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value of one row; null beyond the last.
    pub fn value(&self, row: usize) -> Value {
        match self {
            Self::Int(values) => values.get(row).copied().flatten().map_or(Value::Null, Value::Int),
            Self::Float(values) => values.get(row).copied().flatten().map_or(Value::Null, Value::Float),
            Self::Text(values) => values.get(row).cloned().flatten().map_or(Value::Null, Value::Text),
        }
    }
}

impl Answer {
    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.columns.first().map_or(0, Column::len)
    }

    /// The column of a name.
    ///
    /// # Errors
    /// No such column; the message lists the existing columns.
    pub fn column(&self, name: &str) -> Result<&Column> {
        let index = self.names.iter().position(|found| found == name);
        index
            .and_then(|index| self.columns.get(index))
            .with_context(|| format!("column {name:?} is missing; found {:?}", self.names))
    }

    /// All values of one row.
    pub fn row(&self, row: usize) -> Vec<Value> {
        self.columns.iter().map(|column| column.value(row)).collect()
    }

    /// Converts Arrow batches of one schema; without batches, the answer has no columns.
    ///
    /// # Errors
    /// A column of a type other than number, text, boolean or time.
    pub fn from_batches(batches: &[RecordBatch]) -> Result<Self> {
        let Some(first) = batches.first() else { return Ok(Self::default()) };
        let all = concat_batches(&first.schema(), batches).context("batches of one answer differ in schema")?;
        let names = all.schema().fields().iter().map(|field| field.name().clone()).collect();
        let columns = all.columns().iter().map(from_array).collect::<Result<_>>()?;
        Ok(Self { names, columns })
    }

    /// Converts rows of JSON values (`[[1, "a"], …]`): a column is text if it holds a string, float if it holds a
    /// number with a point or exponent, else integer. Strings of `times` columns are times in RFC 3339.
    ///
    /// # Errors
    /// A row that is not an array of the right length, a value that is an array or object, an invalid time.
    pub fn from_json(names: Vec<String>, times: &[bool], rows: &[serde_json::Value]) -> Result<Self> {
        let mut columns = Vec::with_capacity(names.len());
        for index in 0..names.len() {
            let mut values = Vec::with_capacity(rows.len());
            for (number, row) in rows.iter().enumerate() {
                let row = row.as_array().with_context(|| format!("row {number}: expected an array"))?;
                if row.len() != names.len() {
                    bail!("row {number}: expected {} values, found {}", names.len(), row.len());
                }
                values.push(&row[index]);
            }
            let is_time = times.get(index).copied().unwrap_or(false);
            columns.push(from_values(&values, is_time).with_context(|| format!("column {:?}", names[index]))?);
        }
        Ok(Self { names, columns })
    }
}

fn from_array(array: &ArrayRef) -> Result<Column> {
    let array = match array.data_type() {
        DataType::Dictionary(_, values) => &cast(array, values)?,
        _ => array,
    };
    Ok(match array.data_type() {
        DataType::Timestamp(_, zone) => {
            let millis = cast(array, &DataType::Timestamp(TimeUnit::Millisecond, zone.clone()))?;
            Column::Int(cast(&millis, &DataType::Int64)?.as_primitive::<Int64Type>().iter().collect())
        }
        DataType::UInt64 | DataType::Boolean => {
            Column::Int(cast(array, &DataType::Int64)?.as_primitive::<Int64Type>().iter().collect())
        }
        kind if kind.is_integer() => {
            Column::Int(cast(array, &DataType::Int64)?.as_primitive::<Int64Type>().iter().collect())
        }
        kind if kind.is_floating() => {
            Column::Float(cast(array, &DataType::Float64)?.as_primitive::<Float64Type>().iter().collect())
        }
        // Sums of 64-bit integers have 128 bits in some engines.
        DataType::Decimal128(_, 0) => {
            Column::Int(cast(array, &DataType::Int64)?.as_primitive::<Int64Type>().iter().collect())
        }
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
            let text = cast(array, &DataType::Utf8)?;
            Column::Text(text.as_string::<i32>().iter().map(|value| value.map(str::to_owned)).collect())
        }
        DataType::Null => Column::Int(vec![None; array.len()]),
        other => bail!("a column of type {other} cannot be compared"),
    })
}

fn from_values(values: &[&serde_json::Value], is_time: bool) -> Result<Column> {
    use serde_json::Value::{Bool, Null, Number, String as Text};
    if is_time {
        let parse = |value: &&serde_json::Value| match value {
            Null => Ok(None),
            Text(text) => parse_time(text).map(Some),
            Number(number) => Ok(number.as_i64()),
            other => bail!("expected a time, found {other}"),
        };
        return Ok(Column::Int(values.iter().map(parse).collect::<Result<_>>()?));
    }
    if values.iter().any(|value| value.is_string()) {
        return Ok(Column::Text(values.iter().map(|value| value.as_str().map(str::to_owned)).collect()));
    }
    if values.iter().any(|value| value.is_f64()) {
        return Ok(Column::Float(values.iter().map(|value| value.as_f64()).collect()));
    }
    let parse = |value: &&serde_json::Value| match value {
        Null => Ok(None),
        Bool(value) => Ok(Some(i64::from(*value))),
        Number(number) => Ok(Some(number.as_i64().with_context(|| format!("{number} is no 64-bit integer"))?)),
        other => bail!("expected a single value, found {other}"),
    };
    Ok(Column::Int(values.iter().map(parse).collect::<Result<_>>()?))
}

/// A time in RFC 3339, or the same without a zone (then UTC), in milliseconds since 1970.
fn parse_time(text: &str) -> Result<i64> {
    if let Ok(time) = chrono::DateTime::parse_from_rfc3339(text) {
        return Ok(time.timestamp_millis());
    }
    let plain = text.replacen(' ', "T", 1);
    let time = chrono::NaiveDateTime::parse_from_str(&plain, "%Y-%m-%dT%H:%M:%S%.f")
        .with_context(|| format!("expected a time, found {text:?}"))?;
    Ok(time.and_utc().timestamp_millis())
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Int32Array, StringArray, TimestampNanosecondArray};
    use std::sync::Arc;

    #[test]
    fn arrow_and_json_give_the_same_answer() {
        let batch = RecordBatch::try_from_iter([
            ("ts", Arc::new(TimestampNanosecondArray::from(vec![1_563_249_700_000_000_000])) as ArrayRef),
            ("n", Arc::new(Int32Array::from(vec![None])) as ArrayRef),
            ("s", Arc::new(StringArray::from(vec!["a"])) as ArrayRef),
        ])
        .unwrap();
        let names = vec!["ts".to_owned(), "n".to_owned(), "s".to_owned()];
        for time in ["2019-07-16T04:01:40.000Z", "2019-07-16 04:01:40", "2019-07-16T06:01:40+02:00"] {
            let json = serde_json::json!([[time, null, "a"]]);
            let rows = json.as_array().unwrap();
            let answer = Answer::from_json(names.clone(), &[true, false, false], rows).unwrap();
            assert_eq!(answer, Answer::from_batches(std::slice::from_ref(&batch)).unwrap());
        }
        assert!(Answer::from_json(names, &[], &[serde_json::json!([1])]).is_err());
    }
}
