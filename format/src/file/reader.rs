//! Opens data files and reads row ranges and columns with few requests.

use std::{ops::Range, sync::Arc};

use arrow::{
    array::RecordBatch,
    datatypes::{FieldRef, SchemaRef},
};
use bytes::Bytes;
use futures::{Stream, future::try_join_all, stream};
use parquet::{
    DecodeResult,
    arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions},
    errors::ParquetError,
    file::metadata::{PageIndexPolicy, ParquetMetaData, ParquetMetaDataPushDecoder},
};

use super::{
    batch::{CodedBatch, ReadOptions},
    footer::{self, Seen},
    scan::Scan,
    writer::{FORMAT_KEY, FORMAT_VERSION, TABLE_KEY, column_ids},
};
use crate::{
    error::{Error, Result},
    ids::{ColumnId, TableId},
    store::Store,
};

/// Minimum and maximum bytes that the first request reads from the end of a file; footer and page index take about a
/// hundredth of the file.
const TAIL: Range<u64> = 64 << 10..4 << 20;
/// Maximum bytes of a file that is read whole from a remote store: one round trip takes less time than two.
const WHOLE_BYTES: u64 = 4 << 20;
/// Bytes of one request of such a read; one connection takes 25 ms for them.
const PART_BYTES: u64 = 2 << 20;

/// Footer and page index of a data file: immutable, shared, worth caching.
#[derive(Debug)]
pub struct DataFile {
    key: String,
    bytes: u64,
    table: TableId,
    pub(super) reader: ArrowReaderMetadata,
    pub(crate) columns: Vec<Option<ColumnId>>,
    /// First row of each row group, then the number of all rows.
    group_starts: Vec<u64>,
    /// The whole file, if the first read covered it.
    held: Option<Bytes>,
    checksum: u32,
}

impl DataFile {
    /// Reads footer and page index of the file of `bytes` bytes at `key`: one request (two concurrent ones for more
    /// than 2 MiB), and one or two more for a file with exceptionally many pages. A small file in a remote store is
    /// read whole: later reads need no request.
    ///
    /// # Errors
    /// [`Kind::NotFound`](crate::Kind::NotFound) and [`Kind::Unavailable`](crate::Kind::Unavailable) from the store;
    /// [`Kind::Unsupported`](crate::Kind::Unsupported) for a newer format version;
    /// [`Kind::Corrupt`](crate::Kind::Corrupt) otherwise; all name the key.
    pub async fn open(store: &Store, key: &str, bytes: u64) -> Result<Arc<DataFile>> {
        let corrupt = |e: ParquetError| corrupt(key, e);
        let start = match bytes {
            small if small <= WHOLE_BYTES && !store.is_local() => 0,
            _ => bytes - (bytes / 64).clamp(TAIL.start, TAIL.end).min(bytes),
        };
        let parts = (start..bytes).step_by(PART_BYTES as usize).map(|at| at..bytes.min(at + PART_BYTES));
        let mut parts = try_join_all(parts.map(|part| store.get_range(key, part))).await?;
        let mut tail = if parts.len() == 1 { parts.remove(0) } else { parts.concat().into() };
        let checksum = loop {
            match footer::check(&tail, bytes).map_err(|e| e.with("key", key))? {
                Seen::Whole(checksum) => break checksum,
                Seen::Missing(range) => {
                    let before = store.get_range(key, range).await?;
                    tail = [before, tail].concat().into();
                }
            }
        };
        let mut decoder = ParquetMetaDataPushDecoder::try_new(bytes)
            .map_err(corrupt)?
            .with_page_index_policy(PageIndexPolicy::Required);
        let held = (tail.len() as u64 == bytes).then(|| tail.clone());
        decoder.push_range(bytes - tail.len() as u64..bytes, tail).map_err(corrupt)?;
        let DecodeResult::Data(metadata) = decoder.try_decode().map_err(corrupt)? else {
            return Err(
                Error::corrupt("footer of a data file refers to metadata outside the checked range").with("key", key)
            );
        };
        Ok(Arc::new(Self { held, checksum, ..Self::from_metadata(key, bytes, metadata)? }))
    }

    fn from_metadata(key: &str, bytes: u64, metadata: ParquetMetaData) -> Result<Self> {
        let value = |name: &str| {
            let pairs = metadata.file_metadata().key_value_metadata()?;
            pairs.iter().find(|p| p.key == name)?.value.as_deref()?.parse::<u32>().ok()
        };
        let version = value(FORMAT_KEY)
            .ok_or_else(|| Error::corrupt("not a Tidelake data file").with("key", key).with("expected", FORMAT_KEY))?;
        if version > FORMAT_VERSION {
            return Err(Error::unsupported("data file format is newer than this program supports")
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
                Error::corrupt("invalid number of rows in a row group").with("key", key).with("found", group.num_rows())
            })?);
        }
        check_locations(&metadata, bytes).map_err(|e| e.with("key", key))?;
        let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
        let reader = ArrowReaderMetadata::try_new(Arc::new(metadata), options).map_err(|e| corrupt(key, e))?;
        let columns = column_ids(reader.schema());
        Ok(Self { key: key.to_owned(), bytes, table, reader, columns, group_starts, held: None, checksum: 0 })
    }

    /// Value of a key in the Parquet metadata.
    pub(crate) fn value(&self, key: &str) -> Option<&str> {
        let pairs = self.metadata().file_metadata().key_value_metadata()?;
        pairs.iter().find(|p| p.key == key)?.value.as_deref()
    }

    /// Key of the object.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Size of the object in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Checksum of page index and footer.
    pub fn checksum(&self) -> u32 {
        self.checksum
    }

    /// Table that the file was written for.
    pub fn table(&self) -> TableId {
        self.table
    }

    /// Number of rows.
    pub fn rows(&self) -> u64 {
        self.group_starts[self.group_starts.len() - 1]
    }

    /// Row ranges of the row groups: the best boundaries for dividing a scan.
    pub fn row_groups(&self) -> impl Iterator<Item = Range<u64>> {
        self.group_starts.windows(2).map(|w| w[0]..w[1])
    }

    /// Columns of the file: ts, fields, tags, `tbname`, each with its ID.
    pub fn schema(&self) -> &SchemaRef {
        self.reader.schema()
    }

    /// Parquet footer with page index.
    pub fn metadata(&self) -> &Arc<ParquetMetaData> {
        self.reader.metadata()
    }

    /// Size in memory in bytes, for caches.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.metadata().memory_size() + self.key.len() + self.held.as_ref().map_or(0, Bytes::len)
    }

    /// Reads the rows of `ranges` (ascending, disjoint) in batches of at most `batch_rows` rows with exactly `columns`,
    /// in that order.
    ///
    /// Columns are matched by the ID of each field; columns missing in the file are null, narrower ones are widened to
    /// the requested type. Only pages that hold rows of `ranges` are read, nearby pages in one request, and the
    /// checksum of each page is verified. While about 8 MiB (at least a row group) are decoded, a Tokio task reads the
    /// next; read-ahead begins when the second batch is requested. The stream does nothing until it is polled and may
    /// be dropped at any time; any number of streams may read one file concurrently.
    ///
    /// # Errors
    /// [`Kind::Internal`](crate::Kind::Internal) for ranges out of order or outside the file; the stream yields errors
    /// as in [`DataFile::open`].
    pub fn read(
        self: &Arc<Self>,
        store: &Store,
        ranges: Vec<Range<u64>>,
        columns: &[FieldRef],
        batch_rows: usize,
    ) -> Result<impl Stream<Item = Result<RecordBatch>> + Send + use<>> {
        let scan = self.scan(store, &ranges, columns, ReadOptions { batch_rows, ..ReadOptions::default() })?;
        Ok(stream::try_unfold(scan, |mut scan| async move { Ok(scan.next().await?.map(|batch| (batch.rows, scan))) }))
    }

    /// As [`read`](Self::read), with options.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn read_with(
        self: &Arc<Self>,
        store: &Store,
        ranges: Vec<Range<u64>>,
        columns: &[FieldRef],
        options: ReadOptions,
    ) -> Result<impl Stream<Item = Result<CodedBatch>> + Send + use<>> {
        let scan = self.scan(store, &ranges, columns, options)?;
        Ok(stream::try_unfold(scan, |mut scan| async move { Ok(scan.next().await?.map(|batch| (batch, scan))) }))
    }

    /// Returns the bytes of some ranges of the file, from memory if the file was read whole.
    pub(super) async fn bytes_of(&self, store: &Store, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        match &self.held {
            Some(all) if ranges.iter().all(|r| r.start <= r.end && r.end <= self.bytes) => {
                Ok(ranges.iter().map(|r| all.slice(r.start as usize..r.end as usize)).collect())
            }
            _ => store.get_ranges(&self.key, ranges).await,
        }
    }

    fn scan(
        self: &Arc<Self>,
        store: &Store,
        ranges: &[Range<u64>],
        columns: &[FieldRef],
        options: ReadOptions,
    ) -> Result<Scan> {
        let mut end = 0;
        for range in ranges {
            if range.start < end || range.start > range.end || range.end > self.rows() {
                return Err(Error::internal("row ranges must be ascending, disjoint and within the file")
                    .with("key", &self.key)
                    .with("rows", self.rows())
                    .with("found", format!("{range:?} after {end}")));
            }
            end = range.end;
        }
        let options = ReadOptions { batch_rows: options.batch_rows.max(1), ..options };
        Ok(Scan::new(self.clone(), store.clone(), ranges, columns, options))
    }
}

/// Checks that every page lies within the file and that the pages of a chunk are adjacent.
fn check_locations(metadata: &ParquetMetaData, bytes: u64) -> Result<()> {
    for (at, group) in metadata.row_groups().iter().enumerate() {
        for (column, chunk) in group.columns().iter().enumerate() {
            let index = metadata.offset_index().and_then(|all| all.get(at)?.get(column));
            let pages = index.map(|i| i.page_locations.as_slice()).unwrap_or_default();
            let start = chunk.dictionary_page_offset().unwrap_or(chunk.data_page_offset());
            let end = i64::try_from(bytes).unwrap_or(i64::MAX);
            let inside =
                |start: i64, len: i64| start >= 4 && len > 0 && start.checked_add(len).is_some_and(|e| e <= end);
            // Data pages must be contiguous.
            let adjacent = pages.windows(2).all(|p| {
                p[0].first_row_index < p[1].first_row_index
                    && p[0].offset + i64::from(p[0].compressed_page_size) == p[1].offset
            });
            let first = pages.first().is_some_and(|p| p.first_row_index == 0 && start <= p.offset);
            let last = pages.last().is_some_and(|p| {
                p.first_row_index < group.num_rows()
                    && p.offset + i64::from(p.compressed_page_size) == start + chunk.compressed_size()
            });
            let within = inside(start, chunk.compressed_size())
                && pages.iter().all(|p| inside(p.offset, p.compressed_page_size.into()));
            if !(within && first && adjacent && last) {
                return Err(Error::corrupt("page index of a data file contradicts the file")
                    .with("row_group", at)
                    .with("column", chunk.column_path()));
            }
        }
    }
    Ok(())
}

pub(super) fn corrupt(key: &str, e: ParquetError) -> Error {
    Error::corrupt("data file is not valid Parquet").with("key", key).with("reason", &e).source(e)
}
