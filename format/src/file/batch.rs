//! The batches that a pass over a data file returns: requested columns, coded where that is asked for, of the rows that a filter
//! keeps.

use std::{
    fmt,
    ops::{Range, RangeInclusive},
    sync::{Arc, atomic::AtomicUsize},
};

use arrow::{
    array::{ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, new_null_array},
    buffer::BooleanBuffer,
    compute::{self, CastOptions, cast_with_options},
    datatypes::{DataType, Field, FieldRef, Schema, SchemaRef},
};

use super::{numbers::Times, page_cache::Pages};
use crate::error::{Error, Result};

/// Rows with some columns in coded form.
#[derive(Debug, Clone)]
pub struct CodedBatch {
    /// A coded column has the type UInt8: indexes into its dictionary.
    pub rows: RecordBatch,
    /// For each column its dictionary, of the requested type, or `None`; empty if no column is coded.
    pub dictionaries: Vec<Option<ArrayRef>>,
    /// The time column, if requested in this form and if its encoding permits; its column in `rows` then has type Null.
    pub times: Option<Vec<Times>>,
    /// The rows of the file, ascending, if only those of a time range were requested; otherwise empty. Names also rows that a
    /// filter drops.
    pub ranges: Vec<Range<u64>>,
    /// Which of the requested rows the batch holds, if there is a filter.
    pub kept: Option<BooleanBuffer>,
}

/// A filter on rows. Values of other columns are decoded only where it keeps rows, as far as their encoding permits.
#[derive(Clone)]
pub struct RowFilter {
    /// Indexes of the requested columns that the filter reads.
    pub columns: Vec<usize>,
    /// Returns whether each row is kept, given these columns of the rows, in this order.
    pub keep: Arc<Keep>,
    /// If the filter reads one column, of signed 64-bit numbers or times, and keeps just the rows whose values are in a range: this
    /// range. Cached pages are compared with it in their narrow form.
    pub range: Option<RangeInclusive<i64>>,
    /// Number of rows that the next batch is made from, by what the filter kept so far; later passes begin with it.
    pub window: Arc<AtomicUsize>,
}

/// Function of a [`RowFilter`].
pub type Keep = dyn Fn(&CodedBatch) -> Result<BooleanBuffer> + Send + Sync;

impl fmt::Debug for RowFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RowFilter").field("columns", &self.columns).finish_non_exhaustive()
    }
}

/// How rows are returned.
#[derive(Debug, Clone, Default)]
pub struct ReadOptions {
    /// Maximum rows of a batch; at least one. With `codes`, a batch may have twice as many if they are one page. If there is a
    /// filter, a batch may be made from eight times as many rows, and has as many of them as the filter keeps.
    pub batch_rows: usize,
    /// Numbers that the file stores as codes of at most 256 entries stay codes.
    pub codes: bool,
    /// Timestamps are returned as [`Times`] if their encoding permits, and if there is no filter.
    pub times: bool,
    /// Of the requested row ranges, only rows with these times are returned.
    pub within: Option<RangeInclusive<i64>>,
    /// Of these, only rows that the filter keeps are returned.
    pub filter: Option<RowFilter>,
    /// Where decoded pages are held for later passes.
    pub pages: Option<Pages>,
}

/// Decoded columns of some rows, by their places among the columns that a pass reads.
pub(super) struct Decoded {
    /// `None` for columns that are not decoded yet, and for the time column if `times` has it.
    pub(super) columns: Vec<Option<ArrayRef>>,
    /// Dictionaries of the columns that are codes.
    pub(super) dictionaries: Vec<Option<ArrayRef>>,
    /// Place and values of the time column in the form of [`Times`].
    pub(super) times: Option<(usize, Vec<Times>)>,
    /// Number of rows.
    pub(super) rows: usize,
}

impl Decoded {
    /// No column yet.
    pub(super) fn new(columns: usize, rows: usize) -> Self {
        Self { columns: vec![None; columns], dictionaries: vec![None; columns], times: None, rows }
    }

    /// Drops the rows whose bit is not set.
    pub(super) fn retain(&mut self, kept: &BooleanBuffer) -> Result<()> {
        let mask = BooleanArray::new(kept.clone(), None);
        for column in self.columns.iter_mut().flatten() {
            *column = compute::filter(column, &mask)?;
        }
        self.rows = kept.count_set_bits();
        Ok(())
    }
}

/// Requested columns.
pub(super) struct Columns {
    schema: SchemaRef,
    /// For each its place among the decoded columns; `None` if the file lacks it.
    places: Vec<Option<usize>>,
}

impl Columns {
    pub(super) fn new(columns: impl Iterator<Item = (FieldRef, Option<usize>)>) -> Self {
        let (fields, places): (Vec<FieldRef>, _) = columns.unzip();
        Self { schema: Arc::new(Schema::new(fields)), places }
    }

    /// The batch of these columns; the caller adds the values of the time column if `decoded.times` has them.
    ///
    /// # Errors
    /// Arrow's, where a column cannot be cast to the requested type.
    pub(super) fn batch(&self, decoded: &Decoded) -> Result<CodedBatch> {
        let cast = |array: &ArrayRef, field: &FieldRef| {
            if array.data_type() == field.data_type() {
                return Ok(array.clone());
            }
            let options = CastOptions { safe: false, ..CastOptions::default() };
            cast_with_options(array, field.data_type(), &options)
                .map_err(|e| Error::from(e).with("column", field.name()))
        };
        let rows = decoded.rows;
        let mut columns = Vec::with_capacity(self.places.len());
        let mut dictionaries = Vec::with_capacity(self.places.len());
        for (field, place) in self.schema.fields().iter().zip(&self.places) {
            let dictionary = place.and_then(|at| decoded.dictionaries[at].as_ref());
            let dictionary = dictionary.map(|entries| cast(entries, field)).transpose()?;
            let is_times = place.is_some() && *place == decoded.times.as_ref().map(|(at, _)| *at);
            columns.push(match place.and_then(|at| decoded.columns[at].as_ref()) {
                _ if is_times => new_null_array(&DataType::Null, rows),
                None => new_null_array(field.data_type(), rows),
                Some(codes) if dictionary.is_some() => codes.clone(),
                Some(array) => cast(array, field)?,
            });
            dictionaries.push(dictionary);
        }
        let is_coded = dictionaries.iter().any(Option::is_some);
        let schema = if is_coded || decoded.times.is_some() {
            let fields = self.schema.fields().iter().zip(&columns).map(|(field, column)| {
                let same = field.data_type() == column.data_type();
                let other = || Field::new(field.name(), column.data_type().clone(), true);
                if same { field.clone() } else { Arc::new(other().with_metadata(field.metadata().clone())) }
            });
            Arc::new(Schema::new(fields.collect::<Vec<FieldRef>>()))
        } else {
            self.schema.clone()
        };
        if !is_coded {
            dictionaries.clear();
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let rows = RecordBatch::try_new_with_options(schema, columns, &options)?;
        Ok(CodedBatch { rows, dictionaries, times: None, ranges: Vec::new(), kept: None })
    }
}

/// A [`RowFilter`] of a pass.
pub(super) struct Filter {
    columns: Columns,
    keep: Arc<Keep>,
    range: Option<RangeInclusive<i64>>,
}

impl Filter {
    /// `columns` are those that are requested from the pass.
    pub(super) fn new(filter: &RowFilter, columns: &Columns) -> Self {
        let of = filter.columns.iter().map(|at| (columns.schema.fields()[*at].clone(), columns.places[*at]));
        Self { columns: Columns::new(of), keep: filter.keep.clone(), range: filter.range.clone() }
    }

    /// Place and type of the only column that the filter reads, and the range of values that it keeps, if that is all it does.
    pub(super) fn range(&self) -> Option<(usize, &DataType, &RangeInclusive<i64>)> {
        let ([Some(place)], Some(range)) = (&self.columns.places[..], &self.range) else { return None };
        Some((*place, self.columns.schema.field(0).data_type(), range))
    }

    /// Whether the filter reads the column at this place.
    pub(super) fn reads(&self, place: usize) -> bool {
        self.columns.places.contains(&Some(place))
    }

    /// Drops the rows that the filter does not keep, and returns whether each was kept. The filter's columns are decoded; so may
    /// others be.
    ///
    /// # Errors
    /// Those of the filter; Internal if it answers for another number of rows.
    pub(super) fn retain(&self, decoded: &mut Decoded) -> Result<BooleanBuffer> {
        let kept = (self.keep)(&self.columns.batch(decoded)?)?;
        if kept.len() != decoded.rows {
            return Err(Error::internal("a filter answered for another number of rows")
                .with("expected", decoded.rows)
                .with("found", kept.len()));
        }
        decoded.retain(&kept)?;
        Ok(kept)
    }
}
