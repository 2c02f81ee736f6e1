//! Rollups: the aggregates of a data file per series and time bucket, in an object beside the file.
//!
//! A rollup is itself a data file, plain Parquet: one row per series and non-empty bucket, in the order of the data
//! file. Its columns are `ts` (start of the bucket), the series (index in the data file's manifest), the number of
//! rows, and for each field the number of non-null values, their sum, minimum and maximum.

use std::{ops::Range, sync::Arc};

use arrow::{
    array::{Array, ArrayRef, AsArray},
    compute::concat,
    datatypes::{DataType, Field, FieldRef, UInt32Type, UInt64Type},
};
use bytes::Bytes;
use futures::TryStreamExt;
use serde::{Deserialize, Serialize};

use crate::{
    error::{Error, Result},
    file::DataFile,
    ids::{ColumnId, DatabaseId, TableId},
    meta::{FileEntry, rollup_is},
    rows::ticks,
    schema::{Column, Role, Supertable, field_with_id},
    store::Store,
    tags::Aggregate,
    types::Type,
};

mod builder;
mod totals;

pub use totals::Totals;

pub(crate) use builder::RollupBuilder;

/// When and how a rollup is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RollupOptions {
    /// Bucket length in milliseconds; default one minute. Buckets begin at multiples of it since the epoch.
    pub width_ms: i64,
    /// A file with fewer rows gets no rollup: reading the file costs less than one more object; default 65 536.
    pub least_rows: u64,
    /// A file whose buckets have fewer rows on average gets no such rollup: it would be about as large as the file;
    /// default 8.
    pub least_rows_per_bucket: u64,
    /// Bucket length in milliseconds for files that have too few rows for `width_ms`; default one hour, 0 for none.
    /// Such a rollup has at most a twentieth of the bytes of its file.
    pub coarse_width_ms: i64,
    /// As `least_rows_per_bucket`, for `coarse_width_ms`; default 100.
    pub least_rows_per_coarse_bucket: u64,
}

impl Default for RollupOptions {
    fn default() -> Self {
        Self {
            width_ms: 60_000,
            least_rows: 1 << 16,
            least_rows_per_bucket: 8,
            coarse_width_ms: 3_600_000,
            least_rows_per_coarse_bucket: 100,
        }
    }
}

/// An encoded rollup, ready to be put.
#[derive(Debug, Clone)]
pub struct EncodedRollup {
    /// The bytes of the object.
    pub bytes: Bytes,
    /// Bucket length, in ticks.
    pub width: i64,
}

/// The key in the Parquet metadata that holds the bucket length in ticks.
const WIDTH_KEY: &str = "tidelake.rollup";
/// Column of the series' index in the data file's manifest.
const SERIES: ColumnId = ColumnId(1);
/// Column of the number of rows in the bucket.
const ROWS: ColumnId = ColumnId(2);
/// The first column id of an aggregate.
const FIRST_PART: u32 = 16;
/// The aggregates of a field, in column order.
const PARTS: [Aggregate; 4] = [Aggregate::Count, Aggregate::Sum, Aggregate::Min, Aggregate::Max];
/// Number of rows decoded at a time.
const BATCH_ROWS: usize = 1 << 16;

/// The column id of an aggregate of a field; `None` if rollups do not have that aggregate, or its id would be out of
/// range.
fn part_id(field: ColumnId, part: Aggregate) -> Option<ColumnId> {
    let at = PARTS.iter().position(|p| *p == part)?;
    let id = field.0.checked_mul(PARTS.len() as u32)?.checked_add(FIRST_PART + at as u32)?;
    (id < ColumnId::TBNAME.0).then_some(ColumnId(id))
}

/// The type of an aggregate of a field; `None` if the field's type has no such aggregate.
fn part_type(ty: Type, part: Aggregate) -> Option<Type> {
    match part {
        Aggregate::Count => Some(Type::UBigInt),
        Aggregate::Sum => Some(match ty {
            Type::TinyInt | Type::SmallInt | Type::Int | Type::BigInt => Type::BigInt,
            Type::UTinyInt | Type::USmallInt | Type::UInt | Type::UBigInt => Type::UBigInt,
            Type::Float | Type::Double => Type::Double,
            _ => return None,
        }),
        Aggregate::Min | Aggregate::Max if ty.is_numeric() || ty == Type::Timestamp => Some(ty),
        _ => None,
    }
}

/// The schema of the rollups of files with these columns, as a table without tags. `None` if an aggregate has no id.
fn table_of(table: TableId, columns: &[Column]) -> Option<Supertable> {
    let column = |id, name: String, role, ty| Column::new(id, name, role, ty);
    let mut shape = vec![
        columns.iter().find(|c| c.role == Role::Time)?.clone(),
        column(SERIES, "series".to_owned(), Role::Field, Type::UInt),
        column(ROWS, "rows".to_owned(), Role::Field, Type::UBigInt),
    ];
    for field in columns.iter().filter(|c| c.role == Role::Field) {
        for part in PARTS {
            let id = part_id(field.id, part)?;
            let Some(ty) = part_type(field.ty, part) else { continue };
            shape.push(column(id, format!("{}.{}", field.name, part.name()), Role::Field, ty));
        }
    }
    Some(Supertable { columns: shape, ..Supertable::without_columns(table, DatabaseId(0), "rollup") })
}

/// The buckets of a rollup; the values of the aggregates are read on demand.
#[derive(Debug)]
pub struct Rollup {
    file: Arc<DataFile>,
    width_ticks: i64,
    /// Per series of the data file: the index of its first bucket; then the number of all buckets.
    first_bucket: Vec<u32>,
    starts: Vec<i64>,
    /// Per bucket: the index of its first row in the data file; then the number of all rows.
    first_row: Vec<u64>,
}

impl Rollup {
    /// Reads the starts of the buckets of a rollup; `entry` is that of the data file.
    ///
    /// # Errors
    /// As [`DataFile::open`]; also [`Kind::Corrupt`](crate::Kind::Corrupt) when the rollup does not match the data
    /// file.
    pub async fn open(store: &Store, key: &str, entry: &FileEntry) -> Result<Arc<Self>> {
        let said = entry.rollup.ok_or_else(|| Error::internal("a file without a rollup").with("key", key))?;
        let (series, rows) = (usize::try_from(entry.series).unwrap_or(usize::MAX), entry.rows);
        let file = DataFile::open(store, key, said.bytes).await?;
        let bad = |what: &'static str| {
            Error::corrupt("rollup does not match its data file").with("key", key).with("found", what)
        };
        let width_ticks = said.width;
        if width_ticks <= 0 || file.value(WIDTH_KEY) != Some(&width_ticks.to_string()) {
            return Err(bad("different bucket length"));
        }
        let time = file.columns.iter().position(|c| *c == Some(ColumnId::TS)).ok_or_else(|| bad("no time column"))?;
        let time: FieldRef = Arc::new(file.schema().field(time).clone());
        let fields =
            [time, Arc::new(int("series", DataType::UInt32, SERIES)), Arc::new(int("rows", DataType::UInt64, ROWS))];
        let buckets = usize::try_from(file.rows()).ok().filter(|n| *n < u32::MAX as usize);
        let buckets = buckets.ok_or_else(|| bad("too many buckets"))?;
        let mut this = Self {
            file: file.clone(),
            width_ticks,
            first_bucket: Vec::with_capacity(series + 1),
            starts: Vec::with_capacity(buckets),
            first_row: Vec::with_capacity(buckets + 1),
        };
        let mut batches = std::pin::pin!(file.read(store, whole(&file), &fields, BATCH_ROWS)?);
        let mut row = 0u64;
        while let Some(batch) = batches.try_next().await? {
            if batch.columns().iter().any(|c| c.null_count() > 0) {
                return Err(bad("nulls"));
            }
            let of = batch.column(1).as_primitive::<UInt32Type>().values();
            let counts = batch.column(2).as_primitive::<UInt64Type>().values();
            let starts = ticks(batch.column(0)).ok_or_else(|| bad("wrong type of times"))?;
            for ((start, of), count) in starts.iter().zip(of).zip(counts) {
                let of = *of as usize;
                let goes_on = of + 1 == this.first_bucket.len();
                let ascends = this.starts.last().is_none_or(|last| last < start);
                if of >= series || of + 1 < this.first_bucket.len() || goes_on && !ascends {
                    return Err(bad("buckets out of order"));
                }
                if start.rem_euclid(width_ticks) != 0 || *count == 0 {
                    return Err(bad("misaligned or empty bucket"));
                }
                while this.first_bucket.len() <= of {
                    this.first_bucket.push(this.starts.len() as u32);
                }
                this.starts.push(*start);
                this.first_row.push(row);
                row = row.checked_add(*count).ok_or_else(|| bad("too many rows"))?;
            }
        }
        if row != rows {
            return Err(bad("different number of rows"));
        }
        if let Some(crc) = &said.crc {
            rollup_is(key, "checksum", crc, &file.checksum())?;
        }
        this.first_row.push(row);
        this.first_bucket.resize(series + 1, this.starts.len() as u32);
        Ok(Arc::new(this))
    }

    /// Bucket length, in ticks.
    pub fn width_ticks(&self) -> i64 {
        self.width_ticks
    }

    /// The buckets of a series, by its index in the data file's manifest; ascending in time.
    pub fn buckets(&self, series: usize) -> Range<usize> {
        self.first_bucket[series] as usize..self.first_bucket[series + 1] as usize
    }

    /// The start of each bucket, in ticks.
    pub fn starts(&self) -> &[i64] {
        &self.starts
    }

    /// The index of each bucket's first row in the data file, then the number of all rows.
    pub fn first_row(&self) -> &[u64] {
        &self.first_row
    }

    /// An aggregate of a field per bucket, in its stored type; `None` if the rollup does not have it.
    ///
    /// # Errors
    /// As [`DataFile::read`].
    pub async fn aggregate(&self, store: &Store, field: ColumnId, what: Aggregate) -> Result<Option<ArrayRef>> {
        let Some(id) = part_id(field, what) else { return Ok(None) };
        let Some(at) = self.file.columns.iter().position(|c| *c == Some(id)) else { return Ok(None) };
        let column: FieldRef = Arc::new(self.file.schema().field(at).clone());
        let read = self.file.read(store, whole(&self.file), &[column], BATCH_ROWS)?;
        let parts: Vec<ArrayRef> = read.map_ok(|batch| batch.column(0).clone()).try_collect().await?;
        Ok(Some(concat(&parts.iter().map(AsRef::as_ref).collect::<Vec<&dyn Array>>())?))
    }

    /// Every aggregate of the rollup, as (field, aggregate).
    pub(crate) fn parts(&self) -> impl Iterator<Item = (ColumnId, Aggregate)> {
        let ids = self.file.columns.iter().flatten().filter(|id| id.0 >= FIRST_PART && **id != ColumnId::TBNAME);
        ids.map(|id| {
            let (field, part) = ((id.0 - FIRST_PART) / PARTS.len() as u32, (id.0 - FIRST_PART) as usize % PARTS.len());
            (ColumnId(field), PARTS[part])
        })
    }

    /// The data file that stores the rollup.
    pub(crate) fn file(&self) -> &Arc<DataFile> {
        &self.file
    }

    /// Memory used, in bytes, without the aggregates.
    pub fn memory_bytes(&self) -> usize {
        self.file.memory_bytes() + self.first_bucket.len() * 4 + self.starts.len() * 16
    }
}

fn int(name: &str, ty: DataType, id: ColumnId) -> Field {
    field_with_id(name, ty, true, id)
}

#[expect(clippy::single_range_in_vec_init, reason = "one range of rows")]
fn whole(file: &DataFile) -> Vec<Range<u64>> {
    vec![0..file.rows()]
}

#[cfg(test)]
mod tests;
