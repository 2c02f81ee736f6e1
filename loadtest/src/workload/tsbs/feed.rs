//! The rows in time order: as line protocol for some hosts, and as Arrow batches for all.

use std::{collections::BTreeSet, ops::Range, sync::Arc, sync::LazyLock};

use anyhow::Result;
use arrow::{
    array::{ArrayRef, DictionaryArray, Int32Array, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray},
    datatypes::{DataType, Field, Int32Type, Schema, SchemaRef, TimeUnit},
};

use super::{FIELDS, TAGS, Tsbs, Values, Walks};

/// Lines of some hosts, in time order.
#[derive(Debug)]
pub struct Feed {
    set: Tsbs,
    /// Table, tags and walks of each host.
    hosts: Vec<(String, Walks)>,
    step: u32,
    host: usize,
}

impl Feed {
    /// The lines of `hosts`.
    pub fn new(set: Tsbs, hosts: Range<u32>) -> Self {
        let hosts = hosts.map(|host| {
            let mut key = "cpu".to_owned();
            for (name, value) in TAGS.iter().zip(set.tags(host)) {
                key.push_str(&format!(",{name}={value}"));
            }
            (key, Walks::new(set.seed, host))
        });
        Self { set, hosts: hosts.collect(), step: 0, host: 0 }
    }

    /// Appends up to `lines` lines to a body; returns the numbers of lines and of values.
    pub fn next(&mut self, lines: usize, body: &mut Vec<u8>) -> (usize, usize) {
        let mut written = 0;
        while written < lines && self.step < self.set.steps && !self.hosts.is_empty() {
            let (key, walks) = &mut self.hosts[self.host];
            body.extend_from_slice(key.as_bytes());
            let mut before = b' ';
            for (name, value) in FIELDS.iter().zip(walks.next()) {
                body.push(before);
                body.extend_from_slice(name.as_bytes());
                body.push(b'=');
                push_number(value, body);
                body.push(b'i');
                before = b',';
            }
            body.push(b' ');
            body.extend_from_slice(self.set.ts(self.step).to_string().as_bytes());
            body.extend_from_slice(b"000000\n");
            written += 1;
            self.host += 1;
            if self.host == self.hosts.len() {
                (self.host, self.step) = (0, self.step + 1);
            }
        }
        (written, written * FIELDS.len())
    }
}

/// Appends a number of at most three digits.
fn push_number(value: u8, body: &mut Vec<u8>) {
    if value >= 100 {
        body.push(b'0' + value / 100);
    }
    if value >= 10 {
        body.push(b'0' + value / 10 % 10);
    }
    body.push(b'0' + value % 10);
}

/// Columns of a batch: ts, the fields and the tags. Every dictionary has all values of its tag, sorted, in each batch.
pub static SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| {
    let mut fields = vec![Field::new("ts", DataType::Timestamp(TimeUnit::Microsecond, None), false)];
    fields.extend(FIELDS.map(|name| Field::new(name, DataType::Int64, false)));
    let tag = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    fields.extend(TAGS.map(|name| Field::new(name, tag.clone(), false)));
    Arc::new(Schema::new(fields))
});

/// All rows in time order, as Arrow batches of whole steps.
#[derive(Debug)]
pub struct Batches {
    set: Tsbs,
    walks: Vec<Walks>,
    /// Values of each tag, and the index of each host's value.
    tags: Vec<(ArrayRef, Vec<i32>)>,
    step: u32,
    steps_per_batch: u32,
}

impl Batches {
    /// Batches of about `rows` rows.
    pub fn new(set: Tsbs, rows: u32) -> Self {
        let all: Vec<_> = (0..set.hosts).map(|host| set.tags(host)).collect();
        let tags = (0..TAGS.len()).map(|tag| {
            let values: BTreeSet<&str> = all.iter().map(|tags| tags[tag].as_str()).collect();
            let values: Vec<&str> = values.into_iter().collect();
            let indexes = all.iter().map(|tags| values.partition_point(|value| *value < tags[tag].as_str()) as i32);
            (Arc::new(StringArray::from(values.clone())) as ArrayRef, indexes.collect())
        });
        Self {
            set,
            walks: (0..set.hosts).map(|host| Walks::new(set.seed, host)).collect(),
            tags: tags.collect(),
            step: 0,
            steps_per_batch: rows.div_ceil(set.hosts.max(1)).max(1),
        }
    }

    fn batch(&mut self) -> Result<RecordBatch> {
        let steps = self.steps_per_batch.min(self.set.steps - self.step);
        let rows: Vec<Values> =
            (0..steps).flat_map(|_| self.walks.iter_mut().map(Walks::next).collect::<Vec<_>>()).collect();
        let times = (self.step..self.step + steps).flat_map(|step| {
            let micros = self.set.ts(step) * 1_000;
            std::iter::repeat_n(micros, self.walks.len())
        });
        let mut columns: Vec<ArrayRef> = vec![Arc::new(TimestampMicrosecondArray::from_iter_values(times))];
        for field in 0..FIELDS.len() {
            columns.push(Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| i64::from(row[field])))));
        }
        for (values, indexes) in &self.tags {
            let keys = Int32Array::from(indexes.repeat(steps as usize));
            columns.push(Arc::new(DictionaryArray::<Int32Type>::try_new(keys, values.clone())?));
        }
        self.step += steps;
        Ok(RecordBatch::try_new(SCHEMA.clone(), columns)?)
    }
}

impl Iterator for Batches {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        (self.step < self.set.steps && self.set.hosts > 0).then(|| self.batch())
    }
}
