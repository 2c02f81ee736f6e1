//! Row ranges and columns of a data file, with few requests.

use std::{ops::Range, sync::Arc};

use arrow::{
    array::{ArrayRef, RecordBatch, RecordBatchOptions, new_null_array},
    compute::{CastOptions, cast_with_options},
    datatypes::{FieldRef, Schema, SchemaRef},
};
use bytes::Bytes;
use futures::{Stream, stream};
use parquet::{
    DecodeResult,
    arrow::{
        ProjectionMask,
        arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions, RowSelection},
        push_decoder::{ParquetPushDecoder, ParquetPushDecoderBuilder},
    },
    basic::Encoding,
    errors::ParquetError,
    file::metadata::{PageIndexPolicy, ParquetMetaData, ParquetMetaDataPushDecoder},
};

use super::{
    footer::{self, Seen},
    page::{self, Expected},
    writer::{FORMAT_KEY, FORMAT_VERSION, TABLE_KEY, column_ids},
};
use crate::{
    error::{Error, Result},
    ids::{ColumnId, TableId},
    schema::field_id,
    store::Store,
};

/// The least and the most that the first request reads from the end of a file: footer and page index take about a
/// hundredth of it.
const TAIL: Range<u64> = 64 << 10..4 << 20;

/// The footer and page index of a data file: immutable, shared, worth caching.
#[derive(Debug)]
pub struct DataFile {
    key: String,
    bytes: u64,
    table: TableId,
    metadata: ArrowReaderMetadata,
    columns: Vec<Option<ColumnId>>,
    /// The first row of each row group, and the number of all rows.
    group_starts: Vec<u64>,
}

impl DataFile {
    /// Reads footer and page index of the file of `bytes` bytes at `key`: one request, a second one for a file with
    /// uncommonly many pages.
    ///
    /// # Errors
    /// [`Kind::NotFound`](crate::Kind::NotFound) and [`Kind::Unavailable`](crate::Kind::Unavailable) from the store;
    /// [`Kind::Unsupported`](crate::Kind::Unsupported) for a newer format version;
    /// [`Kind::Corrupt`](crate::Kind::Corrupt) otherwise; all name the key.
    pub async fn open(store: &Store, key: &str, bytes: u64) -> Result<Arc<DataFile>> {
        let corrupt = |e: ParquetError| corrupt(key, e);
        let start = bytes - (bytes / 64).clamp(TAIL.start, TAIL.end).min(bytes);
        let mut tail = store.get_range(key, start..bytes).await?;
        while let Seen::Missing(range) = footer::check(&tail, bytes).map_err(|e| e.with("key", key))? {
            let before = store.get_range(key, range).await?;
            tail = [before, tail].concat().into();
        }
        let mut decoder = ParquetMetaDataPushDecoder::try_new(bytes)
            .map_err(corrupt)?
            .with_page_index_policy(PageIndexPolicy::Required);
        decoder.push_range(bytes - tail.len() as u64..bytes, tail).map_err(corrupt)?;
        let DecodeResult::Data(metadata) = decoder.try_decode().map_err(corrupt)? else {
            return Err(Error::corrupt("the footer of a data file points outside of itself").with("key", key));
        };
        Self::from_metadata(key, bytes, metadata).map(Arc::new)
    }

    fn from_metadata(key: &str, bytes: u64, metadata: ParquetMetaData) -> Result<Self> {
        let value = |name: &str| {
            let pairs = metadata.file_metadata().key_value_metadata()?;
            pairs.iter().find(|p| p.key == name)?.value.as_deref()?.parse::<u32>().ok()
        };
        let version = value(FORMAT_KEY).ok_or_else(|| {
            Error::corrupt("this is no data file of Tidelake").with("key", key).with("expected", FORMAT_KEY)
        })?;
        if version > FORMAT_VERSION {
            return Err(Error::unsupported("this data file has a newer format than this program knows")
                .with("key", key)
                .with("known", FORMAT_VERSION)
                .with("found", version));
        }
        let table = TableId(value(TABLE_KEY).unwrap_or_default());
        let mut group_starts = vec![0u64];
        for group in metadata.row_groups() {
            let rows =
                u64::try_from(group.num_rows()).ok().and_then(|n| n.checked_add(group_starts[group_starts.len() - 1]));
            group_starts.push(rows.filter(|n| *n < 1 << 48).ok_or_else(|| {
                Error::corrupt("a row group has an impossible number of rows")
                    .with("key", key)
                    .with("found", group.num_rows())
            })?);
        }
        check_locations(&metadata, bytes).map_err(|e| e.with("key", key))?;
        let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
        let metadata = ArrowReaderMetadata::try_new(Arc::new(metadata), options).map_err(|e| corrupt(key, e))?;
        let columns = column_ids(metadata.schema());
        Ok(Self { key: key.to_owned(), bytes, table, metadata, columns, group_starts })
    }

    /// The key of the object.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The size of the object in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The table that the file was written for.
    pub fn table(&self) -> TableId {
        self.table
    }

    /// How many rows.
    pub fn rows(&self) -> u64 {
        self.group_starts[self.group_starts.len() - 1]
    }

    /// The rows of each row group: a scan in parts cuts best between them.
    pub fn row_groups(&self) -> impl Iterator<Item = Range<u64>> {
        self.group_starts.windows(2).map(|w| w[0]..w[1])
    }

    /// The columns of the file: ts, fields, tags, `tbname`, each with its id.
    pub fn schema(&self) -> &SchemaRef {
        self.metadata.schema()
    }

    /// The Parquet footer with its page index.
    pub fn metadata(&self) -> &Arc<ParquetMetaData> {
        self.metadata.metadata()
    }

    /// Bytes in memory, for caches.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.metadata().memory_size() + self.key.len()
    }

    /// Rows of `ranges` (ascending, disjoint), in batches of at most `batch_rows` rows with exactly `columns`, in
    /// that order.
    ///
    /// Columns are matched by the id that each field carries; ones that the file lacks come as nulls, narrower ones
    /// are widened to the type asked for. Only pages that hold rows of `ranges` are read, near ones in one request, a
    /// row group at a time; each is checked. The stream does nothing until it is polled and may be dropped at any time;
    /// any number of them may read one file at once.
    ///
    /// # Errors
    /// [`Kind::Internal`](crate::Kind::Internal) for ranges that are not as described; items are errors as in
    /// [`DataFile::open`].
    pub fn read(
        self: &Arc<Self>,
        store: &Store,
        ranges: Vec<Range<u64>>,
        columns: &[FieldRef],
        batch_rows: usize,
    ) -> Result<impl Stream<Item = Result<RecordBatch>> + Send + use<>> {
        let mut end = 0;
        for range in &ranges {
            if range.start < end || range.start > range.end || range.end > self.rows() {
                return Err(Error::internal("row ranges must be ascending, disjoint and within the file")
                    .with("key", &self.key)
                    .with("rows", self.rows())
                    .with("found", format!("{range:?} after {end}")));
            }
            end = range.end;
        }
        let scan = Scan::new(self.clone(), store.clone(), &ranges, columns, batch_rows.max(1))?;
        Ok(stream::try_unfold(scan, |mut scan| async move { Ok(scan.next().await?.map(|batch| (batch, scan))) }))
    }

    /// The row groups that hold rows of `ranges`, and the rows chosen among theirs.
    fn select(&self, ranges: &[Range<u64>]) -> (Vec<usize>, RowSelection) {
        let (mut groups, mut chosen, mut before) = (Vec::new(), Vec::new(), 0usize);
        let mut ranges = ranges.iter().filter(|r| !r.is_empty()).peekable();
        for (group, rows) in self.row_groups().enumerate() {
            let found = chosen.len();
            while let Some(range) = ranges.peek().filter(|r| r.start < rows.end) {
                let (start, end) = (range.start.max(rows.start), range.end.min(rows.end));
                chosen.push(before + (start - rows.start) as usize..before + (end - rows.start) as usize);
                if range.end > rows.end {
                    break;
                }
                ranges.next();
            }
            if chosen.len() > found {
                groups.push(group);
                before += (rows.end - rows.start) as usize;
            }
        }
        (groups, RowSelection::from_consecutive_ranges(chosen.into_iter(), before))
    }

    /// Checks every page that lies wholly within bytes that were read; `ranges` are sorted.
    fn check_pages(&self, groups: &[usize], columns: &[usize], ranges: &[Range<u64>], found: &[Bytes]) -> Result<()> {
        let metadata = self.metadata();
        let check = |start: u64, len: u64, expected: Expected<'_>| {
            let holder = ranges.iter().position(|r| r.start <= start && start + len <= r.end);
            match holder.map(|at| (at, (start - ranges[at].start) as usize)) {
                Some((at, offset)) => page::check(&found[at].slice(offset..offset + len as usize), &expected),
                None => Ok(()),
            }
        };
        for group in groups {
            for column in columns {
                let rows = metadata.row_group(*group).num_rows();
                let chunk = metadata.row_group(*group).column(*column);
                let encodings: Vec<Encoding> = chunk.encodings().collect();
                let expected = |rows| Expected { rows, encodings: &encodings, raw_bytes: chunk.uncompressed_size() };
                let fault =
                    |e: Error| e.with("key", &self.key).with("column", chunk.column_path()).with("row_group", group);
                let pages =
                    metadata.offset_index().and_then(|all| Some(&all.get(*group)?.get(*column)?.page_locations));
                let Some(pages) = pages else { continue };
                let ends = pages.iter().skip(1).map(|p| p.first_row_index).chain([rows]);
                for (page, end) in pages.iter().zip(ends) {
                    let (start, len) = (page.offset as u64, page.compressed_page_size.max(0) as u64);
                    let rows = Some((end - page.first_row_index) as u64);
                    check(start, len, expected(rows)).map_err(fault)?;
                }
                if let (Some(start), Some(first)) = (chunk.dictionary_page_offset(), pages.first())
                    && first.offset > start
                {
                    let len = (first.offset - start) as u64;
                    check(start as u64, len, expected(None)).map_err(fault)?;
                }
            }
        }
        Ok(())
    }
}

/// One pass over row ranges of a file.
struct Scan {
    file: Arc<DataFile>,
    store: Store,
    schema: SchemaRef,
    /// For each column asked for, its place in decoded batches.
    places: Vec<Option<usize>>,
    /// The columns that are read, by their place in the file.
    leaves: Vec<usize>,
    groups: Vec<usize>,
    source: Source,
}

enum Source {
    Decoder(Box<ParquetPushDecoder>),
    /// No column is in the file: only numbers of rows.
    Counts(std::vec::IntoIter<usize>),
}

impl Scan {
    fn new(
        file: Arc<DataFile>,
        store: Store,
        ranges: &[Range<u64>],
        columns: &[FieldRef],
        batch_rows: usize,
    ) -> Result<Self> {
        let schema = Arc::new(Schema::new(columns.to_vec()));
        let in_file: Vec<Option<usize>> = columns
            .iter()
            .map(|field| field_id(field).and_then(|id| file.columns.iter().position(|c| *c == Some(id))))
            .collect();
        let mut leaves: Vec<usize> = in_file.iter().flatten().copied().collect();
        leaves.sort_unstable();
        leaves.dedup();
        // Decoded batches have the columns in the order of the file.
        let places = in_file.iter().map(|at| leaves.iter().position(|leaf| Some(*leaf) == *at)).collect();
        let (groups, selection) = file.select(ranges);
        let source = if leaves.is_empty() {
            let rows = ranges.iter().map(|r| (r.end - r.start) as usize).sum::<usize>();
            let counts = (0..rows).step_by(batch_rows).map(|start| batch_rows.min(rows - start));
            Source::Counts(counts.collect::<Vec<_>>().into_iter())
        } else {
            let mask = ProjectionMask::leaves(file.metadata.parquet_schema(), leaves.iter().copied());
            let decoder = ParquetPushDecoderBuilder::new_with_metadata(file.metadata.clone())
                .with_projection(mask)
                .with_row_groups(groups.clone())
                .with_row_selection(selection)
                .with_batch_size(batch_rows)
                .build()
                .map_err(|e| corrupt(&file.key, e))?;
            Source::Decoder(Box::new(decoder))
        };
        Ok(Self { file, store, schema, places, leaves, groups, source })
    }

    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            let decoder = match &mut self.source {
                Source::Counts(counts) => return counts.next().map(|rows| self.shape(None, rows)).transpose(),
                Source::Decoder(decoder) => decoder,
            };
            match decoder.try_decode().map_err(|e| corrupt(&self.file.key, e))? {
                DecodeResult::Data(batch) => return self.shape(Some(&batch), batch.num_rows()).map(Some),
                DecodeResult::Finished => return Ok(None),
                DecodeResult::NeedsData(ranges) => {
                    let ranges = within(&self.file.key, ranges, self.file.bytes)?;
                    let found = self.store.get_ranges(&self.file.key, &ranges).await?;
                    self.file.check_pages(&self.groups, &self.leaves, &ranges, &found)?;
                    decoder.push_ranges(ranges, found).map_err(|e| corrupt(&self.file.key, e))?;
                }
            }
        }
    }

    /// The columns asked for, from the ones that were decoded.
    fn shape(&self, batch: Option<&RecordBatch>, rows: usize) -> Result<RecordBatch> {
        let columns = self.schema.fields().iter().zip(&self.places).map(|(field, place)| {
            let array = place.and_then(|at| batch.map(|b| b.column(at)));
            match array {
                None => Ok(new_null_array(field.data_type(), rows)),
                Some(array) if array.data_type() == field.data_type() => Ok(array.clone()),
                Some(array) => {
                    let options = CastOptions { safe: false, ..CastOptions::default() };
                    Ok(cast_with_options(array, field.data_type(), &options)
                        .map_err(|e| Error::from(e).with("key", &self.file.key).with("column", field.name()))?)
                }
            }
        });
        let columns = columns.collect::<Result<Vec<ArrayRef>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)
            .map_err(|e| Error::from(e).with("key", &self.file.key))
    }
}

/// Checks that every page lies within its file and that pages of a chunk follow each other.
fn check_locations(metadata: &ParquetMetaData, bytes: u64) -> Result<()> {
    for (at, group) in metadata.row_groups().iter().enumerate() {
        for (column, chunk) in group.columns().iter().enumerate() {
            let index = metadata.offset_index().and_then(|all| all.get(at)?.get(column));
            let pages = index.map(|i| i.page_locations.as_slice()).unwrap_or_default();
            let start = chunk.dictionary_page_offset().unwrap_or(chunk.data_page_offset());
            let end = i64::try_from(bytes).unwrap_or(i64::MAX);
            let inside =
                |start: i64, len: i64| start >= 4 && len > 0 && start.checked_add(len).is_some_and(|e| e <= end);
            // The dictionary and the pages lie end to end.
            let adjacent = pages.windows(2).all(|p| {
                p[0].first_row_index < p[1].first_row_index
                    && p[0].offset + i64::from(p[0].compressed_page_size) == p[1].offset
            });
            let first = pages.first().is_some_and(|p| p.first_row_index == 0 && start <= p.offset);
            let last = pages.last().is_some_and(|p| {
                p.first_row_index < group.num_rows()
                    && p.offset + i64::from(p.compressed_page_size) == start + chunk.compressed_size()
            });
            if !inside(start, chunk.compressed_size())
                || !pages.iter().all(|p| inside(p.offset, p.compressed_page_size.into()))
                || !(first && adjacent && last)
            {
                return Err(Error::corrupt("the page index of a data file does not fit it")
                    .with("row_group", at)
                    .with("column", chunk.column_path()));
            }
        }
    }
    Ok(())
}

/// Ranges that a footer asks for must lie in the file.
fn within(key: &str, ranges: Vec<Range<u64>>, bytes: u64) -> Result<Vec<Range<u64>>> {
    match ranges.iter().find(|r| r.start > r.end || r.end > bytes) {
        None => Ok(ranges),
        Some(range) => Err(Error::corrupt("a data file points outside of itself")
            .with("key", key)
            .with("expected", format!("below {bytes}"))
            .with("found", format!("{range:?}"))),
    }
}

fn corrupt(key: &str, e: ParquetError) -> Error {
    Error::corrupt("a data file is not Parquet as it was written").with("key", key).with("reason", &e).source(e)
}
