//! The fourth data set: rows of 32 524 bytes, as in TDengine's published measurement of writing wide rows.
//!
//! Columns: ts, a double, a bigint, five texts of 5000 bytes and three of 2500. The texts are random ASCII (128 characters), so
//! compression can save at most an eighth.

use std::{ops::Range, sync::Arc, sync::LazyLock};

use anyhow::{Result, ensure};
use arrow::{
    array::{ArrayRef, Float64Array, Int32Array, Int64Array, RecordBatch, StringBuilder, TimestampMillisecondArray},
    datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit},
};
use serde::{Deserialize, Serialize};

use crate::{
    workload::answer::{Answer, Value},
    workload::generate::random::{GAMMA, mix},
};

/// The database.
pub const DATABASE: &str = "wide";
/// The supertable.
pub const SUPERTABLE: &str = "rows";
/// The statement that creates the supertable.
pub const CREATE_SUPERTABLE: &str = "create table rows(ts timestamp, d double, n bigint, b1 binary(5000), \
                                     b2 binary(5000), b3 binary(5000), b4 binary(5000), b5 binary(5000), \
                                     t1 nchar(2500), t2 nchar(2500), t3 nchar(2500)) tags(id int);";
/// Bytes of one row, as the paper counts them.
pub const ROW_BYTES: u64 = 8 + 8 + 8 + 5 * 5000 + 3 * 2500;
/// Time of every first row, in milliseconds since 1970.
const FIRST_TS: i64 = 1_500_000_000_000;
/// Time between two rows of a subtable, in milliseconds.
const STEP_MS: i64 = 1_000;
/// The texts and their lengths.
const TEXTS: [(&str, usize); 8] =
    [("b1", 5000), ("b2", 5000), ("b3", 5000), ("b4", 5000), ("b5", 5000), ("t1", 2500), ("t2", 2500), ("t3", 2500)];

/// The paper's rows per second with one, two and three disks, and the disks' range of MB/s.
pub const PUBLISHED: [(usize, u64, [u64; 2]); 3] =
    [(1, 1_024, [80, 90]), (2, 1_929, [150, 190]), (3, 4_098, [380, 450])];

/// Columns of a batch: ts, d, n, the texts and the tag.
pub static SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| {
    let mut fields = vec![
        Field::new("ts", DataType::Timestamp(TimeUnit::Millisecond, None), false),
        Field::new("d", DataType::Float64, false),
        Field::new("n", DataType::Int64, false),
    ];
    fields.extend(TEXTS.map(|(name, _)| Field::new(name, DataType::Utf8, false)));
    fields.push(Field::new("id", DataType::Int32, false));
    Arc::new(Schema::new(fields))
});

/// A data set: `subtables` × `rows`, chosen by `seed`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wide {
    /// Number of subtables; their ids are 1..=subtables.
    pub subtables: u32,
    /// Rows per subtable.
    pub rows: u32,
    /// Random seed: equal seeds give equal rows.
    pub seed: u64,
}

impl Wide {
    /// Rows in all.
    pub fn len(&self) -> u64 {
        u64::from(self.subtables) * u64::from(self.rows)
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn key(&self, subtable: u32, number: u32, column: u64) -> u64 {
        let key = mix(mix(self.seed.wrapping_add(GAMMA)) ^ u64::from(subtable).wrapping_mul(GAMMA));
        mix(key.wrapping_add(GAMMA.wrapping_mul(u64::from(number) + 1)) ^ column.wrapping_mul(GAMMA))
    }

    /// The bigint of a row.
    fn whole(&self, subtable: u32, number: u32) -> i64 {
        (self.key(subtable, number, 100) >> 24).cast_signed()
    }

    /// One text of a row (0..8).
    fn text(&self, subtable: u32, number: u32, column: usize) -> String {
        let mut state = self.key(subtable, number, column as u64);
        let mut text = vec![0; TEXTS[column].1.next_multiple_of(8)];
        for eight in text.chunks_exact_mut(8) {
            state = state.wrapping_add(GAMMA);
            // Clear the highest bit of each byte: eight ASCII characters.
            eight.copy_from_slice(&(mix(state) & 0x7f7f_7f7f_7f7f_7f7f).to_le_bytes());
        }
        text.truncate(TEXTS[column].1);
        String::from_utf8(text).expect("ASCII")
    }

    /// Returns consecutive rows of one subtable.
    ///
    /// # Errors
    /// None that can happen with columns of one length.
    pub fn batch(&self, subtable: u32, numbers: Range<u32>) -> Result<RecordBatch> {
        let whole: Vec<i64> = numbers.clone().map(|number| self.whole(subtable, number)).collect();
        let mut columns: Vec<ArrayRef> = vec![
            Arc::new(TimestampMillisecondArray::from_iter_values(
                numbers.clone().map(|number| FIRST_TS + i64::from(number) * STEP_MS),
            )),
            Arc::new(Float64Array::from_iter_values(whole.iter().map(|n| *n as f64 / 1024.0))),
            Arc::new(Int64Array::from(whole)),
        ];
        for (column, (_, bytes)) in TEXTS.iter().enumerate() {
            let mut texts = StringBuilder::with_capacity(numbers.len(), numbers.len() * bytes);
            numbers.clone().for_each(|number| texts.append_value(self.text(subtable, number, column)));
            columns.push(Arc::new(texts.finish()));
        }
        columns.push(Arc::new(Int32Array::from_value(subtable.cast_signed(), numbers.len())));
        Ok(RecordBatch::try_new(SCHEMA.clone(), columns)?)
    }

    /// The statements whose answers [`Wide::check`] takes: row counts with a sum, and one complete row.
    pub fn questions(&self) -> [String; 2] {
        let texts: Vec<&str> = TEXTS.iter().map(|(name, _)| *name).collect();
        let (ts, id) = (FIRST_TS + i64::from(self.rows / 2) * STEP_MS, self.subtables.div_ceil(2));
        [
            format!("select id, count(*) as n, sum(n) as sum from {DATABASE}.{SUPERTABLE} group by id order by id"),
            format!("select {} from {DATABASE}.{SUPERTABLE} where id = {id} and ts = {ts}", texts.join(", ")),
        ]
    }

    /// Compares the answers to [`Wide::questions`] with the generator's rows.
    ///
    /// # Errors
    /// The first difference.
    pub fn check(&self, sums: &Answer, row: &Answer) -> Result<()> {
        ensure!(sums.rows() == self.subtables as usize, "expected {} subtables, found {}", self.subtables, sums.rows());
        for (at, id) in (1..=self.subtables).enumerate() {
            let sum: i64 = (0..self.rows).map(|number| self.whole(id, number)).sum();
            let expected = [Value::Int(id.into()), Value::Int(self.rows.into()), Value::Int(sum)];
            ensure!(sums.row(at) == expected, "expected {expected:?}, found {:?}", sums.row(at));
        }
        let (id, number) = (self.subtables.div_ceil(2), self.rows / 2);
        let texts: Vec<Value> = (0..TEXTS.len()).map(|column| Value::Text(self.text(id, number, column))).collect();
        ensure!(
            row.rows() == 1 && row.row(0) == texts,
            "row {number} of subtable {id} has other texts than were written"
        );
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::workload::answer::Column;
    use arrow::array::AsArray;

    const SET: Wide = Wide { subtables: 3, rows: 4, seed: 1 };

    #[test]
    fn a_row_is_as_wide_as_the_papers_and_its_texts_are_random() {
        let batch = SET.batch(2, 1..3).unwrap();
        let texts = &batch.columns()[3..11];
        let bytes: usize = texts.iter().map(|column| column.as_string::<i32>().values().len()).sum();
        assert_eq!((ROW_BYTES, bytes as u64), (32_524, 2 * (ROW_BYTES - 24)));
        let mut counts = [0_u32; 128];
        for column in texts {
            column.as_string::<i32>().values().iter().for_each(|byte| counts[usize::from(*byte)] += 1);
        }
        // 65 000 characters, some 508 of each.
        assert!(counts.iter().all(|count| (400..620).contains(count)), "{counts:?}");
        assert_ne!(texts[0].as_string::<i32>().value(0), texts[0].as_string::<i32>().value(1));
        assert_ne!(texts[0].as_string::<i32>().value(0), texts[1].as_string::<i32>().value(0));
    }

    #[test]
    fn answers_are_compared_with_the_generators_rows() {
        let sum = |id| (0..4).map(|number| SET.whole(id, number)).sum::<i64>();
        let sums = Answer {
            names: ["id", "n", "sum"].map(str::to_owned).to_vec(),
            columns: vec![
                Column::Int(vec![Some(1), Some(2), Some(3)]),
                Column::Int(vec![Some(4); 3]),
                Column::Int((1..=3).map(|id| Some(sum(id))).collect()),
            ],
        };
        let row = SET.batch(2, 2..3).unwrap().project(&(3..11).collect::<Vec<_>>()).unwrap();
        let row = Answer::from_batches(&[row]).unwrap();
        SET.check(&sums, &row).unwrap();
        let mut wrong = row.clone();
        wrong.columns[7] = Column::Text(vec![Some("x".into())]);
        assert!(SET.check(&sums, &wrong).unwrap_err().to_string().contains("other texts"));
        let mut wrong = sums;
        wrong.columns[1] = Column::Int(vec![Some(4), Some(3), Some(4)]);
        assert!(SET.check(&wrong, &row).is_err());
    }
}
