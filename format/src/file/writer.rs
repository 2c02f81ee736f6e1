//! Encodes rows as a data file (Parquet), its tag manifest and its rollup.

use std::{fmt, ops::Range, sync::Arc};

use arrow::{
    array::{ArrayRef, RecordBatch, UInt32Array, new_null_array},
    compute::{CastOptions, cast_with_options, concat_batches, take},
    datatypes::{FieldRef, Schema, SchemaRef},
};
use bytes::Bytes;
use parquet::{
    arrow::ArrowSchemaConverter,
    file::{metadata::KeyValue, properties::WriterProperties, writer::SerializedFileWriter},
};

use super::{
    chunk::{self, Choice, column_of},
    constant::{self, Run},
    footer, pages,
};
use crate::{
    error::{Error, Result},
    ids::ColumnId,
    merge::content_hash,
    rollup::{EncodedRollup, RollupBuilder, RollupOptions},
    rows::{Block, SeriesSet, batch_bytes, series_of, tbname_field, ticks_of},
    schema::{Supertable, field_id},
    tags::{ManifestBuilder, TagManifest, conform},
    types::Precision,
};

/// Key of the Parquet metadata that holds the format version of a data file.
pub(super) const FORMAT_KEY: &str = "tidelake.format";
/// Key of the Parquet metadata that holds the table's ID.
pub(super) const TABLE_KEY: &str = "tidelake.table";
/// Format version of data files that this code writes, and the newest it reads.
pub(super) const FORMAT_VERSION: u32 = 1;

/// How rows are cut into pages and row groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DataFileOptions {
    /// A page ends at the end of a series once it has this many rows; default 2 000. Lower: more pages, each with a
    /// header and an index entry of about 60 bytes per column; higher: less exact row ranges.
    pub page_rows: usize,
    /// Maximum rows of a page; default 16 384, at most 65 536.
    pub page_rows_max: usize,
    /// A row group ends at the end of a series once it has this many rows, and anywhere at twice as many; default
    /// 1 048 576. Its rows are held in memory until it is written.
    pub row_group_rows: usize,
    /// The same limit for the bytes of a row group's rows in memory; default 256 MiB.
    pub row_group_bytes: usize,
    /// When a rollup is made for the file; `None` for never.
    pub rollup: Option<RollupOptions>,
}

impl Default for DataFileOptions {
    fn default() -> Self {
        Self {
            page_rows: 2_000,
            page_rows_max: 16_384,
            row_group_rows: 1 << 20,
            row_group_bytes: 256 << 20,
            rollup: Some(RollupOptions::default()),
        }
    }
}

/// An encoded data file with its tag manifest and rollup, ready for upload.
#[derive(Debug, Clone)]
pub struct EncodedFile {
    /// The Parquet file.
    pub data: Bytes,
    /// The encoded tag manifest.
    pub tags: Bytes,
    /// The rollup, if one pays.
    pub rollup: Option<EncodedRollup>,
    /// The decoded tag manifest.
    pub manifest: TagManifest,
    /// Number of rows.
    pub rows: u64,
    /// Number of series.
    pub series: u64,
    /// Minimum timestamp, in ticks; `i64::MAX` without rows.
    pub min_ts: i64,
    /// Maximum timestamp, in ticks; `i64::MIN` without rows.
    pub max_ts: i64,
    /// [`content_hash`] of all rows.
    pub hash: u64,
}

/// Writes one data file with its tag manifest and rollup into memory.
pub struct DataFileWriter {
    table: Arc<Supertable>,
    options: DataFileOptions,
    rows_schema: SchemaRef,
    series_schema: SchemaRef,
    file: SerializedFileWriter<Vec<u8>>,
    manifest: ManifestBuilder,
    rollup: Option<RollupBuilder>,
    group: RowGroup,
    rows: u64,
    hash: u64,
    last_name: Option<String>,
    /// Name and tags of the last series: one row.
    last_series: Option<RecordBatch>,
}

/// Rows of the row group that is not written yet.
#[derive(Default)]
struct RowGroup {
    /// Batches with the writer's `rows_schema`.
    batches: Vec<RecordBatch>,
    /// Names and tags of the row group's series, in order.
    series: Vec<RecordBatch>,
    /// One per series.
    runs: Vec<Run>,
    rows: usize,
    /// Approximate bytes in memory.
    bytes: usize,
}

impl fmt::Debug for DataFileWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DataFileWriter")
            .field("table", &self.table.name)
            .field("rows", &self.rows)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl DataFileWriter {
    /// Creates a writer of a file with all columns that the table has now.
    ///
    /// # Errors
    /// [`Kind::Invalid`](crate::Kind::Invalid) when an option is outside its limits.
    pub fn new(table: Arc<Supertable>, precision: Precision, options: DataFileOptions) -> Result<Self> {
        Self::with_metadata(table, precision, options, &[])
    }

    /// [`DataFileWriter::new`] with more key-value pairs in the Parquet metadata.
    pub(crate) fn with_metadata(
        table: Arc<Supertable>,
        precision: Precision,
        options: DataFileOptions,
        pairs: &[(&str, String)],
    ) -> Result<Self> {
        if !(1..=options.page_rows_max).contains(&options.page_rows)
            || options.page_rows_max > 1 << 16
            || !(1..=1 << 30).contains(&options.row_group_rows)
            || !(1..=1 << 32).contains(&options.row_group_bytes)
        {
            let expected = "data file options: expected 1 ≤ page_rows ≤ page_rows_max ≤ 65536, \
                 1 ≤ row_group_rows ≤ 2^30, 1 ≤ row_group_bytes ≤ 2^32";
            return Err(Error::invalid(expected).with("found", format!("{options:?}")));
        }
        let fields: Vec<FieldRef> = table.columns.iter().map(|c| c.field(precision)).chain([tbname_field()]).collect();
        let parquet_schema = ArrowSchemaConverter::new().convert(&Schema::new(fields))?;
        let rollup = options.rollup.map(|when| RollupBuilder::new(table.id, &table.columns, precision, when));
        let rollup = rollup.transpose()?.flatten();
        let own = [(FORMAT_KEY, FORMAT_VERSION.to_string()), (TABLE_KEY, table.id.0.to_string())];
        let key_values =
            own.iter().chain(pairs).map(|(key, value)| KeyValue::new((*key).to_owned(), value.clone())).collect();
        let properties = WriterProperties::builder()
            .set_created_by(format!("tidelake {}", env!("CARGO_PKG_VERSION")))
            .set_key_value_metadata(Some(key_values))
            .build();
        let file = SerializedFileWriter::new(Vec::new(), parquet_schema.root_schema_ptr(), Arc::new(properties))?;
        Ok(Self {
            rows_schema: Block::rows_schema(&table, precision),
            series_schema: SeriesSet::schema_of(&table, precision),
            manifest: ManifestBuilder::new(&table, precision),
            rollup,
            table,
            options,
            file,
            group: RowGroup::default(),
            rows: 0,
            hash: 0,
            last_name: None,
            last_series: None,
        })
    }

    /// Appends rows.
    ///
    /// `series` are in file order; `batch` has the shape of [`Block::rows`], its `series` column holds indexes into
    /// `series`, and its rows are sorted by (series, ts) without repeats. A call continues where the previous one
    /// ended: the last series may continue at a larger ts, an earlier series must not return. `series` may be a
    /// different set in each call. Columns are matched by ID: missing columns are null, narrower ones are widened,
    /// columns that the table no longer has are dropped.
    ///
    /// # Errors
    /// [`Kind::Internal`](crate::Kind::Internal) when shape or order is not as described; the writer is unusable then.
    pub fn write(&mut self, series: &SeriesSet, batch: &RecordBatch) -> Result<()> {
        let batch = self.conform_rows(batch)?;
        let set = conform(series, &self.series_schema)?;
        let (of, ts) = (series_of(&batch)?, ticks_of(&batch)?);
        if let Some(i) = (1..of.len()).find(|i| (of[i - 1], ts[i - 1]) >= (of[*i], ts[*i])) {
            return Err(self.disorder(format!(
                "({}, {}) at row {i} after ({}, {})",
                of[i],
                ts[i],
                of[i - 1],
                ts[i - 1]
            )));
        }
        // `content_hash` also checks every series index.
        self.hash = self.hash.wrapping_add(content_hash(series, &batch)?);
        if let Some(rollup) = &mut self.rollup {
            rollup.choose(of, ts)?;
        }
        let row_bytes = batch_bytes(&batch) / batch.num_rows().max(1) + 1;
        let mut part = Part { set, batch: batch.clone(), row_bytes, places: Vec::new(), taken: 0..0 };
        let mut start = 0;
        for run in of.chunk_by(|a, b| a == b) {
            let name = series.names().value(run[0] as usize);
            let rows = start..start + run.len();
            let new = self.last_name.as_deref() != Some(name);
            if new {
                if self.group.rows >= self.options.row_group_rows || self.group.bytes >= self.options.row_group_bytes {
                    self.flush(&mut part)?;
                }
                self.manifest.start_series();
                self.last_name = Some(name.to_owned());
                part.places.push(run[0]);
                self.group.runs.push((self.group.runs.len() as u32, 0));
            } else if self.manifest.last_ts().is_some_and(|last| last >= ts[start]) {
                return Err(self.disorder(format!("series {name} continues at {}", ts[start])));
            }
            self.manifest.add(ts, &batch.columns()[2..], rows.clone());
            if let Some(rollup) = &mut self.rollup {
                rollup.add(self.manifest.series() as u32 - 1, name, ts, &batch.columns()[2..], rows.clone())?;
            }
            self.take_rows(&mut part, rows)?;
            start += run.len();
        }
        self.rows += batch.num_rows() as u64;
        self.settle(&mut part)
    }

    /// Adds series without rows, in any order, to the tag manifest, after all other series.
    ///
    /// # Errors
    /// [`Kind::Internal`](crate::Kind::Internal) when a tag cannot be widened.
    pub fn declare(&mut self, series: &SeriesSet) -> Result<()> {
        let Some(last) = series.names().iter().flatten().last() else { return Ok(()) };
        self.last_name = Some(last.to_owned());
        (0..series.len()).for_each(|_| self.manifest.start_series());
        self.manifest.name_series(conform(series, &self.series_schema)?);
        Ok(())
    }

    /// Number of rows written so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Approximate bytes of encoded pages, of rows not encoded yet, of the manifest and of the rollup so far.
    pub fn buffered_bytes(&self) -> usize {
        let row =
            self.rows_schema.fields().iter().map(|f| f.data_type().primitive_width().unwrap_or(16)).sum::<usize>();
        let rollup = self.rollup.as_ref().map_or(0, RollupBuilder::bytes);
        self.file.bytes_written() + self.group.rows * row + self.manifest.bytes() + rollup
    }

    /// Writes the last row group and the footer.
    ///
    /// # Errors
    /// [`Kind::Invalid`](crate::Kind::Invalid) without any row or declared series;
    /// [`Kind::Internal`](crate::Kind::Internal) when a series returned after a different one.
    pub fn finish(mut self) -> Result<EncodedFile> {
        if self.rows == 0 && self.last_name.is_none() {
            return Err(
                Error::invalid("empty data file: expected at least one row or series").with("table", &self.table.name)
            );
        }
        self.write_group()?;
        let manifest = self.manifest.finish()?;
        let pages_end = self.file.bytes_written();
        let data = Bytes::from(footer::seal(self.file.into_inner()?, pages_end)?);
        let rollup = self.rollup.map(|rollup| rollup.finish(data.len())).transpose()?.flatten();
        Ok(EncodedFile {
            data,
            tags: manifest.encode()?,
            rollup,
            rows: self.rows,
            series: manifest.len() as u64,
            min_ts: manifest.min_ts().iter().copied().min().unwrap_or(i64::MAX),
            max_ts: manifest.max_ts().iter().copied().max().unwrap_or(i64::MIN),
            manifest,
            hash: self.hash,
        })
    }

    fn disorder(&self, found: String) -> Error {
        Error::internal("rows of a data file must be sorted by (series, ts) without repeats")
            .with("table", &self.table.name)
            .with("found", found)
    }

    /// Returns the batch with exactly the columns of `rows_schema`.
    fn conform_rows(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        if batch.schema_ref().fields() == self.rows_schema.fields() {
            return Ok(batch.clone());
        }
        series_of(batch)?;
        let mut columns = vec![batch.column(0).clone()];
        for field in self.rows_schema.fields().iter().skip(1) {
            let at = batch.schema_ref().fields().iter().skip(1).position(|f| field_id(f) == field_id(field));
            columns.push(match at {
                None => new_null_array(field.data_type(), batch.num_rows()),
                Some(at) => {
                    let options = CastOptions { safe: false, ..CastOptions::default() };
                    cast_with_options(batch.column(at + 1), field.data_type(), &options)?
                }
            });
        }
        Ok(RecordBatch::try_new(self.rows_schema.clone(), columns)?)
    }

    /// Adds rows of the last series to the row group; starts a new row group where one series is too long.
    fn take_rows(&mut self, part: &mut Part, mut rows: Range<usize>) -> Result<()> {
        let limit = self.options.row_group_rows * 2;
        while !rows.is_empty() {
            if self.group.rows >= limit || self.group.bytes >= 2 * self.options.row_group_bytes {
                self.flush(part)?;
            }
            if self.group.runs.is_empty() {
                // The series continues in a new row group.
                self.group.series.extend(self.last_series.clone());
                self.group.runs.push((0, 0));
            }
            let room = (2 * self.options.row_group_bytes).saturating_sub(self.group.bytes) / part.row_bytes;
            let n = rows.len().min(limit - self.group.rows).min(room.max(1));
            self.group.rows += n;
            self.group.bytes += n * part.row_bytes;
            if let Some(run) = self.group.runs.last_mut() {
                run.1 += n;
            }
            part.taken.end += n;
            rows.start += n;
        }
        Ok(())
    }

    /// Moves the rows and series of `part` taken so far into the row group.
    fn settle(&mut self, part: &mut Part) -> Result<()> {
        if !part.places.is_empty() {
            let places = UInt32Array::from(std::mem::take(&mut part.places));
            let columns = part.set.columns().iter().map(|c| take(c, &places, None)).collect::<Result<Vec<_>, _>>()?;
            let named = RecordBatch::try_new(self.series_schema.clone(), columns)?;
            self.last_series = Some(named.slice(named.num_rows() - 1, 1));
            self.group.bytes += batch_bytes(&named);
            self.manifest.name_series(named.clone());
            self.group.series.push(named);
        }
        if !part.taken.is_empty() {
            self.group.batches.push(part.batch.slice(part.taken.start, part.taken.len()));
            part.taken.start = part.taken.end;
        }
        Ok(())
    }

    fn flush(&mut self, part: &mut Part) -> Result<()> {
        self.settle(part)?;
        self.write_group()
    }

    /// Encodes the row group, column by column.
    fn write_group(&mut self) -> Result<()> {
        let group = std::mem::take(&mut self.group);
        if group.rows == 0 {
            return Ok(());
        }
        let plan = pages::plan(group.runs.iter().map(|r| r.1), self.options.page_rows, self.options.page_rows_max);
        let series = concat_batches(&self.series_schema, &group.series)?;
        let columns = self.file.schema_descr().columns().to_vec();
        let values = self.rows_schema.fields().len() - 1;
        let mut row_group = self.file.next_row_group()?;
        for (at, column) in columns.iter().enumerate() {
            let chunk = if at < values {
                let array = column_of(&group.batches, at + 1)?;
                match at {
                    0 => chunk::encode(column, &array, &plan, Choice::TIME)?,
                    _ => chunk::encode_smallest(column, &array, &plan)?,
                }
            } else {
                // The series name is the first column of `series`, but follows the tags in the file.
                let of_series = series.column((at - values + 1) % series.num_columns());
                match constant::encode(column, of_series, &group.runs, &pages::joined(&plan))? {
                    Some(chunk) => chunk,
                    None => {
                        let array = repeated(of_series, &group.runs)?;
                        chunk::encode_smallest(column, &array, &plan)?
                    }
                }
            };
            row_group.append_column(&Bytes::from(chunk.bytes), chunk.close)?;
        }
        row_group.close()?;
        Ok(())
    }
}

/// A batch that is being added to row groups.
struct Part {
    /// Names and tags that the batch refers to.
    set: RecordBatch,
    batch: RecordBatch,
    /// Average bytes of a row in memory.
    row_bytes: usize,
    /// Indexes into `set` of series not yet added to the manifest and the row group.
    places: Vec<u32>,
    /// Rows counted in the row group, but not moved into it yet.
    taken: Range<usize>,
}

/// Expands one value per series to one per row.
fn repeated(values: &ArrayRef, runs: &[Run]) -> Result<ArrayRef> {
    let places: UInt32Array =
        runs.iter().flat_map(|(place, n)| std::iter::repeat_n(*place, *n)).collect::<Vec<_>>().into();
    Ok(take(values, &places, None)?)
}

/// Column IDs of a file's columns, from the Parquet `field_id`.
pub(super) fn column_ids(schema: &Schema) -> Vec<Option<ColumnId>> {
    schema.fields().iter().map(|f| field_id(f)).collect()
}
