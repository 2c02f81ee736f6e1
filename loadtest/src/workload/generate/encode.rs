//! Rows as the bytes of each protocol.

use super::digits::{Backward, push_int};
use super::{Device, Row, SUPERTABLE};
use arrow::array::{ArrayRef, Float32Builder, Int32Builder, RecordBatch, StringBuilder, TimestampMillisecondBuilder};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use arrow::error::ArrowError;
use std::sync::{Arc, LazyLock};

/// The texts that rows can be written as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Text {
    /// InfluxDB line protocol, one line a row:
    /// `devices,devid=1,devname=dev_1,devgroup=1 temperature=40i,humidity=12 1563249700000`.
    Line,
    /// One TDengine statement a request:
    /// `insert into dev1 using devices tags(1,'dev_1',1) values(1563249700000,40,12.000000)(…) dev2 using …;`.
    TdEngine,
    /// An OpenTSDB JSON array, two points a row (metrics `temperature` and `humidity`), with three tags.
    OpenTsdb,
}

impl Text {
    /// Starts a request body.
    pub fn begin(self, body: &mut Vec<u8>) {
        match self {
            Self::Line => {}
            Self::TdEngine => body.extend_from_slice(b"insert into"),
            Self::OpenTsdb => body.push(b'['),
        }
    }

    /// Appends a run of rows of one device.
    pub fn push(self, body: &mut Vec<u8>, device: &Device, rows: &[Row]) {
        match self {
            Self::Line => push_lines(body, device, rows),
            Self::TdEngine => push_insert(body, device, rows),
            Self::OpenTsdb => push_points(body, device, rows),
        }
    }

    /// Ends a request body that holds at least one row.
    pub fn end(self, body: &mut Vec<u8>) {
        match self {
            Self::Line => {}
            Self::TdEngine => body.push(b';'),
            Self::OpenTsdb => {
                if let Some(last) = body.last_mut() {
                    // The comma after the last point.
                    *last = b']';
                }
            }
        }
    }
}

fn push_lines(body: &mut Vec<u8>, device: &Device, rows: &[Row]) {
    let start = body.len();
    body.extend_from_slice(SUPERTABLE.as_bytes());
    body.extend_from_slice(b",devid=");
    push_int(body, i64::from(device.devid));
    body.extend_from_slice(b",devname=");
    body.extend_from_slice(device.devname.as_bytes());
    body.extend_from_slice(b",devgroup=");
    push_int(body, i64::from(device.devgroup));
    body.extend_from_slice(b" temperature=");
    let prefix = start..body.len();
    let mut text = Backward::new();
    for (number, row) in rows.iter().enumerate() {
        if number > 0 {
            body.extend_from_within(prefix.clone());
        }
        text.clear();
        text.push(b"\n");
        text.int(row.ts);
        text.push(b" ");
        text.float(row.humidity);
        text.push(b"i,humidity=");
        text.int(i64::from(row.temperature));
        body.extend_from_slice(text.text());
    }
}

fn push_insert(body: &mut Vec<u8>, device: &Device, rows: &[Row]) {
    body.extend_from_slice(b" dev");
    push_int(body, i64::from(device.devid));
    body.extend_from_slice(b" using ");
    body.extend_from_slice(SUPERTABLE.as_bytes());
    body.extend_from_slice(b" tags(");
    push_int(body, i64::from(device.devid));
    body.extend_from_slice(b",'");
    body.extend_from_slice(device.devname.as_bytes());
    body.extend_from_slice(b"',");
    push_int(body, i64::from(device.devgroup));
    body.extend_from_slice(b") values");
    let mut text = Backward::new();
    for row in rows {
        text.clear();
        text.push(b")");
        text.float_fixed(row.humidity);
        text.push(b",");
        text.int(i64::from(row.temperature));
        text.push(b",");
        text.int(row.ts);
        text.push(b"(");
        body.extend_from_slice(text.text());
    }
}

fn push_points(body: &mut Vec<u8>, device: &Device, rows: &[Row]) {
    let mut tags = Vec::new();
    tags.extend_from_slice(b",\"tags\":{\"devid\":\"");
    push_int(&mut tags, i64::from(device.devid));
    tags.extend_from_slice(b"\",\"devname\":\"");
    tags.extend_from_slice(device.devname.as_bytes());
    tags.extend_from_slice(b"\",\"devgroup\":\"");
    push_int(&mut tags, i64::from(device.devgroup));
    tags.extend_from_slice(b"\"}},");
    let mut text = Backward::new();
    for row in rows {
        text.clear();
        text.int(i64::from(row.temperature));
        text.push(b",\"value\":");
        text.int(row.ts);
        text.push(b"{\"metric\":\"temperature\",\"timestamp\":");
        body.extend_from_slice(text.text());
        body.extend_from_slice(&tags);
        text.clear();
        text.float(row.humidity);
        text.push(b",\"value\":");
        text.int(row.ts);
        text.push(b"{\"metric\":\"humidity\",\"timestamp\":");
        body.extend_from_slice(text.text());
        body.extend_from_slice(&tags);
    }
}

/// Columns of [`Batch`]: ts (ms), temperature, humidity, devid, devname, devgroup; nothing is null.
pub static SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| {
    Arc::new(Schema::new(vec![
        Field::new("ts", DataType::Timestamp(TimeUnit::Millisecond, None), false),
        Field::new("temperature", DataType::Int32, false),
        Field::new("humidity", DataType::Float32, false),
        Field::new("devid", DataType::Int32, false),
        Field::new("devname", DataType::Utf8, false),
        Field::new("devgroup", DataType::Int32, false),
    ]))
});

/// Rows as one Arrow batch, tags repeated on each row as columns of their own.
#[derive(Debug, Default)]
pub struct Batch {
    ts: TimestampMillisecondBuilder,
    temperature: Int32Builder,
    humidity: Float32Builder,
    devid: Int32Builder,
    devname: StringBuilder,
    devgroup: Int32Builder,
}

impl Batch {
    /// Appends a run of rows of one device.
    pub fn push(&mut self, device: &Device, rows: &[Row]) {
        let (devid, devgroup) = (device.devid.cast_signed(), device.devgroup.cast_signed());
        for row in rows {
            self.ts.append_value(row.ts);
            self.temperature.append_value(row.temperature);
            self.humidity.append_value(row.humidity);
            self.devname.append_value(&device.devname);
        }
        self.devid.append_value_n(devid, rows.len());
        self.devgroup.append_value_n(devgroup, rows.len());
    }

    /// The rows pushed since the last call, with [`SCHEMA`].
    ///
    /// # Errors
    /// None that can happen with columns of one length.
    pub fn finish(&mut self) -> Result<RecordBatch, ArrowError> {
        let columns: Vec<ArrayRef> = vec![
            Arc::new(self.ts.finish()),
            Arc::new(self.temperature.finish()),
            Arc::new(self.humidity.finish()),
            Arc::new(self.devid.finish()),
            Arc::new(self.devname.finish()),
            Arc::new(self.devgroup.finish()),
        ];
        RecordBatch::try_new(SCHEMA.clone(), columns)
    }
}

#[cfg(test)]
mod tests;
