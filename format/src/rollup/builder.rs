//! Builds a rollup from the rows of a data file while they are written.

use std::{fmt, ops::Range, sync::Arc};

use arrow::{
    array::{ArrayRef, RecordBatch, UInt32Array, UInt64Array},
    compute::cast,
    datatypes::{DataType, SchemaRef},
};

use super::{EncodedRollup, PARTS, RollupOptions, WIDTH_KEY, part_id, table_of};
use crate::{
    error::Result,
    file::{DataFileOptions, DataFileWriter},
    ids::{ColumnId, TableId},
    rows::{Block, SeriesSet},
    schema::{Column, Role, Supertable, field_id},
    tags::{Accumulator, accumulator},
    types::Precision,
};

/// Maximum number of buckets held in memory before they are written.
const WAITING: usize = 1 << 16;

/// A coarse rollup has at most one in this many of the bytes of its data file.
const COARSE_PART: usize = 20;

/// A bucket length, in ticks, and the least rows that buckets have on average.
#[derive(Clone, Copy)]
struct Width {
    ticks: i64,
    least_rows: u64,
    /// The most bytes of the rollup: one in this many of its data file; `None` for any.
    part: Option<usize>,
}

impl Width {
    /// Whether these rows, in the order of the file, make buckets with enough rows.
    fn fits(&self, series: &[u32], ts: &[i64]) -> bool {
        let bucket = |row: usize| (series[row], ts[row].div_euclid(self.ticks));
        let buckets = 1 + (1..ts.len()).filter(|row| bucket(*row) != bucket(row - 1)).count() as u64;
        ts.len() as u64 >= buckets.saturating_mul(self.least_rows)
    }
}

/// Builds a rollup run by run.
pub(crate) struct RollupBuilder {
    /// Whether the first rows have chosen the bucket length.
    begun: bool,
    /// `None` before that, and once the rollup is abandoned.
    file: Option<Box<DataFileWriter>>,
    shape: Arc<Supertable>,
    precision: Precision,
    schema: SchemaRef,
    /// A file with fewer rows gets no rollup.
    least_rows: u64,
    /// Bucket lengths from which the first rows choose, the shortest first; later the chosen one alone.
    widths: Vec<Width>,
    fields: Vec<(ColumnId, DataType, Box<dyn Accumulator>)>,
    /// The names of the series of the unwritten buckets.
    names: Vec<String>,
    /// Per unwritten bucket, its series: `places` holds the index in `names`, `series` that in the data file.
    places: Vec<u32>,
    series: Vec<u32>,
    starts: Vec<i64>,
    counts: Vec<u64>,
    rows: u64,
    buckets: u64,
}

impl fmt::Debug for RollupBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RollupBuilder")
            .field("rows", &self.rows)
            .field("buckets", &self.buckets)
            .finish_non_exhaustive()
    }
}

impl RollupBuilder {
    /// A builder for files of a table with these columns; `None` if the aggregates have no column ids.
    ///
    /// # Errors
    /// [`Kind::Internal`](crate::Kind::Internal) when Parquet rejects the columns.
    pub(crate) fn new(
        table: TableId,
        columns: &[Column],
        precision: Precision,
        when: RollupOptions,
    ) -> Result<Option<Self>> {
        let width = |width_ms: i64, least_rows, part| Width {
            ticks: (precision.per_second() / 1_000).saturating_mul(width_ms).max(1),
            least_rows,
            part,
        };
        let mut widths = vec![width(when.width_ms, when.least_rows_per_bucket, None)];
        if when.coarse_width_ms > when.width_ms {
            widths.push(width(when.coarse_width_ms, when.least_rows_per_coarse_bucket, Some(COARSE_PART)));
        }
        let Some(shape) = table_of(table, columns).map(Arc::new) else { return Ok(None) };
        let fields = columns.iter().filter(|c| c.role == Role::Field).map(|c| (c.id, c.ty.data_type(precision)));
        Ok(Some(Self {
            schema: Block::rows_schema(&shape, precision),
            begun: false,
            file: None,
            shape,
            precision,
            least_rows: when.least_rows,
            widths,
            fields: fields.map(|(id, ty)| (id, ty.clone(), accumulator(&ty))).collect(),
            names: Vec::new(),
            places: Vec::new(),
            series: Vec::new(),
            starts: Vec::new(),
            counts: Vec::new(),
            rows: 0,
            buckets: 0,
        }))
    }

    /// Chooses the bucket length by the first rows of the file, given with the indexes of their series; later calls do nothing.
    ///
    /// # Errors
    /// [`Kind::Internal`](crate::Kind::Internal) when Parquet rejects the columns.
    pub(crate) fn choose(&mut self, series: &[u32], ts: &[i64]) -> Result<()> {
        if self.begun || ts.is_empty() {
            return Ok(());
        }
        self.begun = true;
        let width = self.widths.iter().find(|width| width.fits(series, ts)).copied();
        // Other series may have more rows than these.
        self.widths = width.or(self.widths.first().copied()).into_iter().collect();
        let options = DataFileOptions { rollup: None, ..DataFileOptions::default() };
        let pairs = [(WIDTH_KEY, self.width_ticks().to_string())];
        let file = DataFileWriter::with_metadata(self.shape.clone(), self.precision, options, &pairs)?;
        self.file = Some(Box::new(file));
        Ok(())
    }

    /// The chosen bucket length.
    fn width_ticks(&self) -> i64 {
        self.widths.first().map_or(1, |width| width.ticks)
    }

    /// Adds a run of rows of one series, the `series`th of the file; `ts` and `fields` (in the table's order) are those
    /// of the whole batch, `run` is the range in them.
    pub(crate) fn add(
        &mut self,
        series: u32,
        name: &str,
        ts: &[i64],
        fields: &[ArrayRef],
        run: Range<usize>,
    ) -> Result<()> {
        if !self.begun {
            self.choose(&vec![series; run.len()], &ts[run.clone()])?;
        }
        if self.file.is_none() {
            return Ok(());
        }
        let width_ticks = self.width_ticks();
        let mut at = run.start;
        while at < run.end {
            // The bucket of the smallest timestamps would begin before the smallest i64: a file that has such rows gets
            // no rollup.
            let Some(start) = ts[at].checked_sub(ts[at].rem_euclid(width_ticks)) else {
                self.file = None;
                return Ok(());
            };
            let next = start.saturating_add(width_ticks);
            let len = ts[at..run.end].partition_point(|t| *t < next).max(1);
            self.begin(series, name, start)?;
            if let Some(count) = self.counts.last_mut() {
                *count += len as u64;
            }
            for ((_, _, accumulator), values) in self.fields.iter_mut().zip(fields) {
                accumulator.add(values, at, &ts[at..at + len]);
            }
            self.rows += len as u64;
            at += len;
        }
        Ok(())
    }

    /// Begins a bucket, unless the last one continues.
    fn begin(&mut self, series: u32, name: &str, start: i64) -> Result<()> {
        if (self.series.last(), self.starts.last()) == (Some(&series), Some(&start)) {
            return Ok(());
        }
        if self.starts.len() >= WAITING {
            self.flush()?;
        }
        if self.names.last().is_none_or(|last| last != name) {
            self.names.push(name.to_owned());
        }
        self.places.push(self.names.len() as u32 - 1);
        self.series.push(series);
        self.starts.push(start);
        self.counts.push(0);
        self.buckets += 1;
        self.fields.iter_mut().for_each(|(_, _, accumulator)| accumulator.start_series());
        Ok(())
    }

    /// Writes the buffered buckets; abandons the rollup if the buckets have too few rows on average.
    fn flush(&mut self) -> Result<()> {
        if self.file.is_none() || self.starts.is_empty() {
            return Ok(());
        }
        if self.widths.iter().any(|width| self.rows < self.buckets.saturating_mul(width.least_rows)) {
            self.file = None;
        }
        let names = SeriesSet::of_names(std::mem::take(&mut self.names));
        let series = UInt32Array::from(std::mem::take(&mut self.series));
        let places = UInt32Array::from(std::mem::take(&mut self.places));
        let starts =
            cast(&arrow::array::Int64Array::from(std::mem::take(&mut self.starts)), self.schema.field(1).data_type())?;
        let counts = UInt64Array::from(std::mem::take(&mut self.counts));
        let mut columns: Vec<ArrayRef> = vec![Arc::new(places), starts, Arc::new(series), Arc::new(counts)];
        for (id, ty, of) in &mut self.fields {
            let found = std::mem::replace(of, accumulator(ty)).finish();
            for part in PARTS {
                let Some(id) = part_id(*id, part) else { continue };
                if self.schema.fields().iter().any(|f| field_id(f) == Some(id)) {
                    columns.extend(found.iter().find(|(what, _)| *what == part).map(|(_, values)| values.clone()));
                }
            }
        }
        let Some(file) = &mut self.file else { return Ok(()) };
        let batch = RecordBatch::try_new(self.schema.clone(), columns)?;
        file.write(&names, &batch)
    }

    /// Approximate number of bytes held.
    pub(crate) fn bytes(&self) -> usize {
        let waiting = self.starts.capacity() * 32 + self.fields.iter().map(|(_, _, f)| f.bytes()).sum::<usize>();
        self.file.as_ref().map_or(0, |file| file.buffered_bytes() + waiting)
    }

    /// The rollup of a data file of this many bytes; `None` if it is not worth its size.
    pub(crate) fn finish(mut self, data_bytes: usize) -> Result<Option<EncodedRollup>> {
        if self.rows < self.least_rows.max(1) {
            return Ok(None);
        }
        self.flush()?;
        let width = self.width_ticks();
        let Some(file) = self.file else { return Ok(None) };
        let bytes = file.finish()?.data;
        let is_small = self.widths.iter().all(|width| width.part.is_none_or(|part| bytes.len() <= data_bytes / part));
        Ok(is_small.then_some(EncodedRollup { bytes, width }))
    }
}
