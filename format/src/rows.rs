//! Rows in memory: the columnar shape shared by log segments, folding, merging and the scan of the log's tail.

mod columns;

use std::sync::{Arc, LazyLock};

use arrow::{
    array::{Array, ArrayRef, AsArray, RecordBatch, StringArray, UInt32Array},
    datatypes::{DataType, Field, FieldRef, Schema, SchemaRef, UInt32Type},
};
use hashbrown::HashMap;

use crate::{
    error::{Error, Result},
    ids::{ColumnId, TableId},
    schema::{Supertable, TBNAME, field_id, field_with_id},
    types::Precision,
};

pub(crate) use columns::ticks_of;
pub use columns::{series_of, ticks};

/// The name of the first column of a block's rows: an index into the block's series.
pub const SERIES: &str = "series";

/// Names and tags of some series of one supertable: n series × (1 + tags).
///
/// Columns: `tbname` (Utf8, not null, unique), then tags (nullable), each with its
/// [`FIELD_ID`](crate::schema::FIELD_ID). Columns are found by id, never by name or position; an absent tag is null.
#[derive(Debug, Clone, PartialEq)]
pub struct SeriesSet(RecordBatch);

impl SeriesSet {
    /// Wraps a batch of the shape described above.
    ///
    /// # Errors
    /// [`Kind::Corrupt`](crate::Kind::Corrupt) when the first column is not `tbname` Utf8 without nulls or a later one
    /// has no id.
    pub fn try_new(batch: RecordBatch) -> Result<Self> {
        let schema = batch.schema();
        let named = schema.fields().first().is_some_and(|f| f.name() == TBNAME && *f.data_type() == DataType::Utf8);
        if !named || batch.column(0).null_count() > 0 || schema.fields().iter().skip(1).any(|f| field_id(f).is_none()) {
            return Err(Error::corrupt("invalid series set: expected 'tbname' and tags with ids").with("found", schema));
        }
        Ok(Self(batch))
    }

    /// A set of series without tags.
    pub fn of_names(names: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        let names = StringArray::from_iter_values(names);
        let schema = Arc::new(Schema::new(vec![tbname_field()]));
        Self(RecordBatch::try_new(schema, vec![Arc::new(names)]).expect("one column of one type"))
    }

    /// Number of series.
    pub fn len(&self) -> usize {
        self.0.num_rows()
    }

    /// Whether there is no series.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The names, in order.
    pub fn names(&self) -> &StringArray {
        self.0.column(0).as_string()
    }

    /// The values of a tag, one per series; `None` when the set does not have it (all null).
    pub fn tag(&self, id: ColumnId) -> Option<&ArrayRef> {
        let at = self.0.schema_ref().fields().iter().position(|f| field_id(f) == Some(id))?;
        Some(self.0.column(at))
    }

    /// The underlying batch.
    pub fn batch(&self) -> &RecordBatch {
        &self.0
    }

    /// The schema of a series set with every tag of a table.
    pub fn schema_of(table: &Supertable, precision: Precision) -> SchemaRef {
        let tags = table.tags().map(|c| c.field(precision));
        Arc::new(Schema::new(std::iter::once(tbname_field()).chain(tags).collect::<Vec<_>>()))
    }
}

/// Bytes of the values of a batch of plain columns, without validity bitmaps.
///
/// Unlike [`RecordBatch::get_array_memory_size`] it excludes data outside a slice, and does not count the buffer shared
/// by all columns of a decoded segment or manifest once per column.
pub fn batch_bytes(batch: &RecordBatch) -> usize {
    let text = |offsets: &[i32]| match offsets {
        [first, .., last] => (last - first) as usize + 4 * offsets.len(),
        _ => 0,
    };
    let column = |array: &ArrayRef| match array.data_type() {
        DataType::Utf8 => text(array.as_string::<i32>().value_offsets()),
        DataType::Binary => text(array.as_binary::<i32>().value_offsets()),
        DataType::Boolean => array.len().div_ceil(8),
        other => array.len() * other.primitive_width().unwrap_or(16),
    };
    batch.columns().iter().map(column).sum()
}

/// Bytes of memory that blocks retain, each allocation counted once: a column may be part of a larger allocation.
pub fn held_bytes(blocks: &[Block]) -> usize {
    let columns = blocks.iter().flat_map(|b| b.rows.columns().iter().chain(b.series.batch().columns()));
    let mut held: HashMap<*const u8, usize> = HashMap::new();
    for column in columns {
        let data = column.to_data();
        let nulls = data.nulls().map(|nulls| nulls.buffer());
        held.extend(data.buffers().iter().chain(nulls).map(|b| (b.data_ptr().as_ptr().cast_const(), b.capacity())));
    }
    held.values().sum()
}

/// The field `tbname`: Utf8, not null; always the same `Arc`, so that comparison is cheap.
pub fn tbname_field() -> FieldRef {
    static MADE: LazyLock<FieldRef> =
        LazyLock::new(|| Arc::new(field_with_id(TBNAME, DataType::Utf8, false, ColumnId::TBNAME)));
    MADE.clone()
}

/// The field `series` of rows: UInt32, not null; always the same `Arc`.
pub fn series_field() -> FieldRef {
    static MADE: LazyLock<FieldRef> = LazyLock::new(|| Arc::new(Field::new(SERIES, DataType::UInt32, false)));
    MADE.clone()
}

/// Outcome of the rows of one request; the counts add up to all its rows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RowCounts {
    /// Rows stored, each under a distinct series and time. Whether they replace rows of earlier requests is not
    /// checked.
    pub written: u64,
    /// Rows replaced, column by column, by a later row of the same request with the same series and time.
    pub replaced: u64,
    /// Rows rejected.
    pub refused: u64,
}

impl RowCounts {
    /// The sum of the counts of two parts of a request.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            written: self.written + other.written,
            replaced: self.replaced + other.replaced,
            refused: self.refused + other.refused,
        }
    }
}

/// Rows of one supertable in arrival order, later ones newer.
///
/// `rows` has the columns (series, ts, fields): `series` UInt32 not null, an index into `series`; `ts` a timestamp in
/// the database's precision, not null, id [`ColumnId::TS`]; then fields, nullable, each with its id. A field that the
/// block does not have is absent from every row. A block may have series and no rows (a declaration).
#[derive(Debug, Clone, PartialEq)]
pub struct Block {
    /// The table of the rows.
    pub table: TableId,
    /// The series that `rows` refers to by index.
    pub series: SeriesSet,
    /// The rows.
    pub rows: RecordBatch,
}

impl Block {
    /// Checks the shape described above, including every index.
    ///
    /// # Errors
    /// [`Kind::Corrupt`](crate::Kind::Corrupt), naming the violated expectation.
    pub fn try_new(table: TableId, series: SeriesSet, rows: RecordBatch) -> Result<Self> {
        let bad = |what: &str| Error::corrupt(what.to_owned()).with("table", table.0).with("found", rows.schema());
        let schema = rows.schema();
        if schema.fields().len() < 2 || *schema.field(0).data_type() != DataType::UInt32 {
            return Err(bad("invalid block: expected 'series' UInt32 and the time column first"));
        }
        if !matches!(schema.field(1).data_type(), DataType::Timestamp(_, None))
            || field_id(schema.field(1)) != Some(ColumnId::TS)
        {
            return Err(bad("invalid block: second column is not the timestamp"));
        }
        if schema.fields().iter().skip(2).any(|f| field_id(f).is_none()) {
            return Err(bad("invalid block: field without column id"));
        }
        if rows.column(0).null_count() + rows.column(1).null_count() > 0 {
            return Err(bad("invalid block: null series or time"));
        }
        let indices: &UInt32Array = rows.column(0).as_primitive::<UInt32Type>();
        if indices.values().iter().max().is_some_and(|max| *max as usize >= series.len()) {
            return Err(bad("invalid block: series index of a row out of range"));
        }
        Ok(Self { table, series, rows })
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.rows.num_rows()
    }

    /// Whether the block has no rows (it may have series).
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of rows replaced by a later row of the same series and time.
    ///
    /// If the rows of each series ascend in time, one pass suffices; otherwise the rows are sorted.
    pub fn replaced(&self) -> u64 {
        if self.len() < 2 {
            return 0;
        }
        let indices = self.rows.column(0).as_primitive::<UInt32Type>().values();
        let Some(times) = ticks(self.rows.column(1)) else { return 0 };
        let mut newest: Vec<Option<i64>> = vec![None; self.series.len()];
        let ascends = |(series, time): (&u32, &i64)| {
            let newest = &mut newest[*series as usize];
            newest.replace(*time).is_none_or(|before| before < *time)
        };
        if indices.iter().zip(times).all(ascends) {
            return 0;
        }
        let mut keys: Vec<(u32, i64)> = indices.iter().copied().zip(times.iter().copied()).collect();
        keys.sort_unstable();
        keys.windows(2).filter(|pair| pair[0] == pair[1]).count() as u64
    }

    /// The values of a field, one per row; `None` when the block does not have it.
    pub fn field(&self, id: ColumnId) -> Option<&ArrayRef> {
        let at = self.rows.schema_ref().fields().iter().skip(2).position(|f| field_id(f) == Some(id))?;
        Some(self.rows.column(at + 2))
    }

    /// The schema of rows with every field of a table: `series`, ts, fields.
    pub fn rows_schema(table: &Supertable, precision: Precision) -> SchemaRef {
        let fields = table.fields().map(|c| c.field(precision));
        let fields = [series_field(), table.time().field(precision)].into_iter().chain(fields);
        Arc::new(Schema::new(fields.collect::<Vec<_>>()))
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::TimestampMillisecondArray;

    use super::*;

    #[test]
    fn rows_replaced_by_later_ones_are_counted_in_any_order() {
        let block = |rows: &[(u32, i64)]| {
            let fields = vec![
                series_field().as_ref().clone(),
                field_with_id("ts", Precision::Milli.data_type(), false, ColumnId::TS),
            ];
            let series = UInt32Array::from_iter_values(rows.iter().map(|row| row.0));
            let times = TimestampMillisecondArray::from_iter_values(rows.iter().map(|row| row.1));
            let rows = RecordBatch::try_new(Arc::new(Schema::new(fields)), vec![Arc::new(series), Arc::new(times)]);
            Block::try_new(TableId(1), SeriesSet::of_names(["a", "b"]), rows.unwrap()).unwrap()
        };
        assert_eq!(block(&[]).replaced(), 0);
        assert_eq!(block(&[(0, 1), (1, 1), (0, 2), (1, 2)]).replaced(), 0);
        assert_eq!(block(&[(0, 2), (0, 1), (1, 2), (1, 1)]).replaced(), 0);
        assert_eq!(block(&[(0, 1), (0, 1), (1, 1)]).replaced(), 1);
        assert_eq!(block(&[(0, 3), (1, 3), (0, 1), (0, 3), (0, 1), (0, 1)]).replaced(), 3);
    }

    #[test]
    fn bytes_of_a_slice_are_those_of_its_values() {
        let names = SeriesSet::of_names(["a", "bcd", "ef"]);
        assert_eq!(batch_bytes(names.batch()), 6 + 4 * 4);
        assert_eq!(batch_bytes(&names.batch().slice(1, 1)), 3 + 4 * 2);
        assert!(batch_bytes(&names.batch().slice(1, 0)) <= 4);
    }
}
