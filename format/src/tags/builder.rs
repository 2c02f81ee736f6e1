//! Builds a tag manifest from the rows of a data file while they are written.

use std::{collections::HashSet, ops::Range, sync::Arc};

use arrow::{
    array::{ArrayRef, Int64Array, RecordBatch},
    compute::{CastOptions, cast_with_options, concat_batches},
    datatypes::{DataType, SchemaRef},
};

use super::{
    Aggregate, TagManifest,
    aggregate::{Accumulator, accumulator},
    first_rows,
};
use crate::{
    error::{Error, Result},
    ids::ColumnId,
    rows::{SeriesSet, batch_bytes},
    schema::Supertable,
    types::Precision,
};

/// Builds a [`TagManifest`] run by run.
#[derive(Debug)]
pub(crate) struct ManifestBuilder {
    schema: SchemaRef,
    /// Names and tags of the series so far.
    series: Vec<RecordBatch>,
    row_count: Vec<u64>,
    min_ts: Vec<i64>,
    max_ts: Vec<i64>,
    fields: Vec<(ColumnId, Box<dyn Accumulator>)>,
}

impl ManifestBuilder {
    pub(crate) fn new(table: &Supertable, precision: Precision) -> Self {
        let fields = table.fields().map(|c| (c.id, c.ty.data_type(precision)));
        Self::of(SeriesSet::schema_of(table, precision), fields)
    }

    /// A builder for series of `schema` and these fields.
    pub(crate) fn of(schema: SchemaRef, fields: impl IntoIterator<Item = (ColumnId, DataType)>) -> Self {
        Self {
            schema,
            series: Vec::new(),
            row_count: Vec::new(),
            min_ts: Vec::new(),
            max_ts: Vec::new(),
            fields: fields.into_iter().map(|(id, ty)| (id, accumulator(&ty))).collect(),
        }
    }

    /// Number of series begun.
    pub(crate) fn series(&self) -> usize {
        self.row_count.len()
    }

    /// The largest time of the last series.
    pub(crate) fn last_ts(&self) -> Option<i64> {
        self.max_ts.last().copied()
    }

    /// Appends the names of the next series: a batch of [`SeriesSet::schema_of`].
    pub(crate) fn name_series(&mut self, series: RecordBatch) {
        self.series.push(series);
    }

    /// Begins the next series.
    pub(crate) fn start_series(&mut self) {
        self.row_count.push(0);
        self.min_ts.push(i64::MAX);
        self.max_ts.push(i64::MIN);
        self.fields.iter_mut().for_each(|(_, field)| field.start_series());
    }

    /// Adds a run of rows to the last series; `ts` and `fields` (in the table's order) are those of the whole batch,
    /// `run` is the range in them.
    pub(crate) fn add(&mut self, ts: &[i64], fields: &[ArrayRef], run: Range<usize>) {
        let Some(at) = self.row_count.len().checked_sub(1) else { return };
        let times = &ts[run.clone()];
        self.row_count[at] += times.len() as u64;
        self.min_ts[at] = times.first().copied().unwrap_or(i64::MAX).min(self.min_ts[at]);
        self.max_ts[at] = times.last().copied().unwrap_or(i64::MIN).max(self.max_ts[at]);
        for ((_, accumulator), values) in self.fields.iter_mut().zip(fields) {
            accumulator.add(values, run.start, times);
        }
    }

    /// Approximate number of bytes held.
    pub(crate) fn bytes(&self) -> usize {
        let series = self.series.iter().map(batch_bytes).sum::<usize>();
        series + self.row_count.capacity() * 24 + self.fields.iter().map(|(_, f)| f.bytes()).sum::<usize>()
    }

    /// Builds the manifest.
    ///
    /// # Errors
    /// [`Kind::Internal`](crate::Kind::Internal) when a series is not contiguous.
    pub(crate) fn finish(self) -> Result<TagManifest> {
        let batch = concat_batches(&self.schema, &self.series)?;
        let series = SeriesSet::try_new(batch)?;
        let mut seen = HashSet::with_capacity(series.len());
        if let Some(name) = series.names().iter().flatten().find(|n| !seen.insert(*n)) {
            return Err(Error::internal("series not contiguous").with("series", name));
        }
        if series.len() != self.row_count.len() {
            return Err(Error::internal("wrong number of series names")
                .with("expected", self.row_count.len())
                .with("found", series.len()));
        }
        let of_field = |(id, field): (ColumnId, Box<dyn Accumulator>)| {
            field.finish().into_iter().map(move |(what, values)| (id, what, values))
        };
        let aggregates: Vec<(ColumnId, Aggregate, ArrayRef)> = self.fields.into_iter().flat_map(of_field).collect();
        Ok(TagManifest {
            first_row: first_rows(&self.row_count),
            row_count: self.row_count,
            min_ts: Int64Array::from(self.min_ts),
            max_ts: Int64Array::from(self.max_ts),
            series,
            aggregates,
        })
    }
}

/// A set with exactly the columns of `schema`: tags matched by id, absent ones null, narrower ones widened.
pub(crate) fn conform(set: &SeriesSet, schema: &SchemaRef) -> Result<RecordBatch> {
    if set.batch().schema_ref().fields() == schema.fields() {
        return Ok(set.batch().clone());
    }
    let mut columns: Vec<ArrayRef> = vec![Arc::new(set.names().clone())];
    for field in schema.fields().iter().skip(1) {
        let values = crate::schema::field_id(field).and_then(|id| set.tag(id));
        columns.push(match values {
            None => arrow::array::new_null_array(field.data_type(), set.len()),
            Some(values) => {
                cast_with_options(values, field.data_type(), &CastOptions { safe: false, ..CastOptions::default() })?
            }
        });
    }
    Ok(RecordBatch::try_new(schema.clone(), columns)?)
}
