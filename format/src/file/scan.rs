//! A pass over row ranges of a data file: selects byte ranges, reads ahead, verifies checksums, decodes.

mod plan;

use std::{
    collections::VecDeque,
    ops::{Range, RangeInclusive},
    sync::{Arc, atomic::Ordering::Relaxed},
};

use arrow::{
    array::AsArray,
    compute::{CastOptions, cast_with_options},
    datatypes::{DataType, FieldRef, Int64Type},
};
use bytes::Bytes;
use parquet::{
    DecodeResult,
    arrow::{
        ProjectionMask,
        arrow_reader::RowSelection,
        push_decoder::{ParquetPushDecoder, ParquetPushDecoderBuilder},
    },
};
use tokio::task::JoinHandle;

use self::plan::{Part, Plan, Read, check, dictionary_of, longest_batch, pages_with, select};
use super::{
    batch::{CodedBatch, Columns, Decoded, Filter, ReadOptions},
    numbers::{self, Dictionary, Kind, Numbers, StoredPage, Times},
    reader::{DataFile, corrupt},
    within::rows_within,
};
use crate::{
    error::{Error, Result},
    ids::ColumnId,
    schema::field_id,
    store::Store,
};

/// Maximum bytes read at once, unless a single row group needs more.
const READ_BYTES: u64 = 8 << 20;

/// A filter that keeps few rows is given up to this many times the rows of a batch at once, unless the caller asks for smaller
/// batches than [`LEAST_WIDENED`] rows, because its rows are large.
const MOST_BATCHES: usize = 8;
const LEAST_WIDENED: usize = 1 << 10;
/// Maximum numbers, in pages that the cache holds or will hold, of the row groups that are planned at once, unless one row group has
/// more: planning reserves their memory.
const CACHED_AHEAD: usize = 32 << 20;

/// Maximum rows of a page that [`numbers`] decodes.
const PAGE_ROWS: usize = 1 << 16;

/// A pass over row ranges of a file.
pub(super) struct Scan {
    file: Arc<DataFile>,
    store: Store,
    options: ReadOptions,
    columns: Columns,
    filter: Option<Filter>,
    /// Number of rows that the next batch is made of.
    window: usize,
    /// The range of times and the time column of the file, if only rows of a range are returned.
    within: Option<(RangeInclusive<i64>, usize)>,
    /// Columns that are read, as ascending indexes into the file's columns.
    leaves: Vec<usize>,
    /// Row groups not requested yet.
    parts: VecDeque<Part>,
    /// Row groups whose bytes have been read.
    ready: VecDeque<(Part, Plan, Vec<Bytes>)>,
    ahead: Option<Ahead>,
    current: Option<Group>,
    begun: bool,
    /// Row counts of batches if the file has none of the requested columns.
    counts: std::vec::IntoIter<usize>,
}

/// The row group being decoded.
struct Group {
    at: usize,
    /// Columns that [`numbers`] decodes, with their indexes into `Scan::leaves`.
    numbers: Vec<(usize, Numbers)>,
    /// Decoder of the other columns, if any, and those columns.
    others: Option<(Box<ParquetPushDecoder>, Vec<usize>)>,
    /// Number of rows not decoded yet.
    rows: usize,
    /// Those rows in the file, if the batches name them.
    ranges: VecDeque<Range<u64>>,
}

/// Row groups with their bytes.
type Parts = Vec<(Part, Plan, Vec<Bytes>)>;

/// The next row groups.
enum Ahead {
    /// The cache holds all of their pages.
    Held(Parts),
    /// A read in progress; aborted when dropped.
    Read(JoinHandle<Result<Parts>>),
}

impl Ahead {
    async fn parts(&mut self) -> Result<Parts> {
        match self {
            Self::Held(parts) => Ok(std::mem::take(parts)),
            Self::Read(read) => read.await.map_err(|e| Error::internal("read task of a data file failed").source(e))?,
        }
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        if let Self::Read(read) = self {
            read.abort();
        }
    }
}

impl Scan {
    pub(super) fn new(
        file: Arc<DataFile>,
        store: Store,
        ranges: &[Range<u64>],
        columns: &[FieldRef],
        options: ReadOptions,
    ) -> Self {
        let batch_rows = options.batch_rows;
        let time = || file.columns.iter().position(|c| *c == Some(ColumnId::TS));
        let within = options.within.clone().and_then(|within| Some((within, time()?)));
        let in_file: Vec<Option<usize>> = columns
            .iter()
            .map(|field| field_id(field).and_then(|id| file.columns.iter().position(|c| *c == Some(id))))
            .collect();
        let time = within.as_ref().map(|(_, leaf)| *leaf);
        let mut leaves: Vec<usize> = in_file.iter().flatten().copied().chain(time).collect();
        leaves.sort_unstable();
        leaves.dedup();
        // Decoded batches have the file's column order.
        let places = in_file.iter().map(|at| leaves.iter().position(|leaf| Some(*leaf) == *at));
        let columns = Columns::new(columns.iter().cloned().zip(places));
        let (mut parts, mut counts) = (VecDeque::new(), Vec::new());
        if leaves.is_empty() {
            let rows = ranges.iter().map(|r| (r.end - r.start) as usize).sum::<usize>();
            counts.extend((0..rows).step_by(batch_rows).map(|start| batch_rows.min(rows - start)));
        } else {
            let selected = select(file.row_groups(), ranges).into_iter();
            parts.extend(selected.map(|(group, rows)| Part { group, rows, plan: None }));
        }
        Self {
            filter: options.filter.as_ref().map(|filter| Filter::new(filter, &columns)),
            window: options
                .filter
                .as_ref()
                .map_or(batch_rows, |filter| filter.window.load(Relaxed).clamp(batch_rows, most_rows(batch_rows))),
            columns,
            file,
            store,
            options,
            within,
            leaves,
            parts,
            ready: VecDeque::new(),
            ahead: None,
            current: None,
            begun: false,
            counts: counts.into_iter(),
        }
    }

    /// Returns the next batch; `None` at the end.
    pub(super) async fn next(&mut self) -> Result<Option<CodedBatch>> {
        if self.leaves.is_empty() {
            let Some(rows) = self.counts.next() else { return Ok(None) };
            let mut decoded = Decoded::new(0, rows);
            let kept = self.filter.as_ref().map(|filter| filter.retain(&mut decoded)).transpose()?;
            return Ok(Some(CodedBatch { kept, ..self.columns.batch(&decoded)? }));
        }
        if self.begun && self.ahead.is_none() {
            self.ahead = self.read_on();
        }
        loop {
            let Some(group) = &mut self.current else {
                if !self.begin_group().await? {
                    return Ok(None);
                }
                continue;
            };
            let mut decoded = Decoded::new(self.leaves.len(), 0);
            decoded.rows = match &mut group.others {
                None => {
                    // Codes of one page are returned without a copy.
                    let shares = self.options.codes && self.filter.is_none();
                    let codes =
                        group.numbers.iter().filter(|_| shares).find_map(|(_, numbers)| numbers.codes_of_page());
                    let codes = codes.filter(|rows| (self.window / 2..=self.window * 2).contains(rows));
                    codes.unwrap_or(self.window).min(group.rows)
                }
                Some((decoder, leaves)) => match decoder.try_decode().map_err(|e| corrupt(self.file.key(), e))? {
                    DecodeResult::Data(batch) => {
                        for (leaf, column) in leaves.iter().zip(batch.columns()) {
                            let place = self.leaves.iter().position(|l| l == leaf);
                            place.into_iter().for_each(|at| decoded.columns[at] = Some(column.clone()));
                        }
                        batch.num_rows()
                    }
                    DecodeResult::Finished => 0,
                    // All needed pages were pushed already; read more should the decoder request it.
                    DecodeResult::NeedsData(ranges) => {
                        if let Some(outside) = ranges.iter().find(|r| r.start > r.end || r.end > self.file.bytes()) {
                            return Err(Error::corrupt("data file refers to bytes beyond its end")
                                .with("key", self.file.key())
                                .with("expected", format!("below {}", self.file.bytes()))
                                .with("found", format!("{outside:?}")));
                        }
                        let found = self.file.bytes_of(&self.store, &ranges).await?;
                        check(&self.file, group.at, &self.leaves, &ranges, &found)?;
                        decoder.push_ranges(ranges, found).map_err(|e| corrupt(self.file.key(), e))?;
                        continue;
                    }
                },
            };
            let rows = decoded.rows;
            if rows == 0 {
                self.current = None;
                continue;
            }
            let (file, leaves, group_at) = (&self.file, &self.leaves, group.at);
            let placed = |e: Error| e.with("key", file.key()).with("row_group", group_at);
            let (filter, options) = (&self.filter, &self.options);
            let decode =
                |decoded: &mut Decoded, (place, numbers): &mut (usize, Numbers), kept: Option<&[u32]>| -> Result<()> {
                    let leaf = leaves[*place];
                    let fault = |e: Error| placed(e).with("column", file.schema().field(leaf).name());
                    if options.times && filter.is_none() && file.columns[leaf] == Some(ColumnId::TS) {
                        decoded.times = Some((*place, numbers.take_times(rows).map_err(fault)?));
                        return Ok(());
                    }
                    let dictionary = numbers.dictionary().filter(|_| options.codes).cloned();
                    let values =
                        if dictionary.is_some() { numbers.take_codes(rows, kept) } else { numbers.take(rows, kept) };
                    (decoded.columns[*place], decoded.dictionaries[*place]) =
                        (Some(values.map_err(fault)?), dictionary);
                    Ok(())
                };
            // A range is compared with the pages as the cache holds them; then no value is needed first.
            let range = filter.as_ref().and_then(Filter::range);
            let matched = range.and_then(|(of, data_type, range)| {
                let (_, numbers) = group.numbers.iter().find(|(place, _)| *place == of)?;
                numbers.matches(rows, data_type, range)
            });
            // The filter's columns first, and others only where it keeps rows.
            let is_first = |place| matched.is_none() && filter.as_ref().is_some_and(|filter| filter.reads(place));
            let (first, others): (Vec<_>, Vec<_>) = group.numbers.iter_mut().partition(|(place, _)| is_first(*place));
            first.into_iter().try_for_each(|column| decode(&mut decoded, column, None))?;
            let kept = match matched {
                Some(matched) => {
                    decoded.retain(&matched).map_err(placed)?;
                    Some(matched)
                }
                None => filter.as_ref().map(|filter| filter.retain(&mut decoded)).transpose().map_err(placed)?,
            };
            // Listed once for all columns, if there are any.
            let kept_of_others = kept.as_ref().filter(|_| !others.is_empty());
            let indexes: Option<Vec<u32>> = kept_of_others.map(|kept| kept.set_indices_u32().collect());
            others.into_iter().try_for_each(|column| decode(&mut decoded, column, indexes.as_deref()))?;
            if filter.is_some() {
                self.window = next_window(options.batch_rows, rows, decoded.rows);
                options.filter.iter().for_each(|filter| filter.window.store(self.window, Relaxed));
            }
            group.rows = group.rows.saturating_sub(rows);
            let ranges = first_rows(&mut group.ranges, rows as u64);
            self.begun = true;
            let batch = self.columns.batch(&decoded).map_err(placed)?;
            let times = decoded.times.map(|(_, times)| times);
            return Ok(Some(CodedBatch { times, ranges, kept, ..batch }));
        }
    }

    /// Prepares the decoders of the next row group; false at the end.
    async fn begin_group(&mut self) -> Result<bool> {
        if self.ready.is_empty() {
            let Some(mut ahead) = self.ahead.take().or_else(|| self.read_on()) else { return Ok(false) };
            self.ready = ahead.parts().await?.into();
            if self.begun {
                self.ahead = self.read_on();
            }
        }
        let Some((mut part, plan, found)) = self.ready.pop_front() else { return Ok(false) };
        let file = &self.file;
        let mut ranges = VecDeque::new();
        if let Some((within, leaf)) = &self.within {
            part.rows = rows_within(&part.rows, &self.times(&part, &plan, *leaf, &found)?, within);
            let start = file.row_groups().nth(part.group).map_or(0, |rows| rows.start);
            ranges.extend(part.rows.iter().map(|rows| start + rows.start as u64..start + rows.end as u64));
        }
        let count = part.rows.iter().map(ExactSizeIterator::len).sum();
        if count == 0 {
            return Ok(true);
        }
        let (mut numbers, mut others) = (Vec::new(), Vec::new());
        for (place, leaf) in self.leaves.iter().enumerate() {
            match self.numbers(&part, &plan, place, &found)? {
                Some(of) => numbers.push((place, of)),
                None => others.push(*leaf),
            }
        }
        let others = match others.is_empty() {
            true => None,
            false => Some((Box::new(self.decoder(&part, &plan, &others, found, self.options.batch_rows)?), others)),
        };
        self.current = Some(Group { at: part.group, numbers, others, rows: count, ranges });
        Ok(true)
    }

    /// Returns the decoder of the column at `place` if [`numbers`] can decode it; `None` for others.
    fn numbers(&self, part: &Part, plan: &Plan, place: usize, found: &[Bytes]) -> Result<Option<Numbers>> {
        let (file, leaf, cached) = (&self.file, self.leaves[place], plan.chunks[place].clone());
        let chunk = file.metadata().row_group(part.group).column(leaf);
        let data_type = file.schema().field(leaf).data_type();
        let Some(kind) = numbers::kind(chunk, data_type) else { return Ok(None) };
        let read = Read::new(&plan.bytes, found);
        let stored = |start: i64, len: i64| read.at(start as u64, len as u64);
        let known = cached.as_ref().and_then(|chunk| chunk.dictionary()).cloned();
        let dictionary = known.map(Dictionary::Known).or_else(|| {
            let (start, end) = dictionary_of(file, part.group, leaf)?;
            stored(start, end - start).map(Dictionary::Stored)
        });
        let mut pages = Vec::new();
        for (at, page, rows) in pages_with(file, part.group, leaf, &part.rows) {
            let is_held = cached.as_ref().is_some_and(|chunk| chunk.page(at).is_some());
            let stored = if is_held { None } else { stored(page.offset, page.compressed_page_size.into()) };
            if is_held || stored.is_some() {
                pages.push(StoredPage { rows, at, stored });
            }
        }
        // `Numbers` decodes whole pages. Pages with more rows than any writer makes are left to the Parquet crate, which
        // bounds memory.
        let numbers = if (kind == Kind::Codes) != dictionary.is_some() || pages.iter().any(|p| p.rows.len() > PAGE_ROWS)
        {
            None
        } else {
            Numbers::new(chunk, kind, data_type, dictionary, pages, &part.rows, cached.clone()).map_err(|e| {
                e.with("key", file.key()).with("column", chunk.column_path()).with("row_group", part.group)
            })?
        };
        if let (None, Some(cached)) = (&numbers, cached) {
            cached.holds_nothing();
        }
        Ok(numbers)
    }

    /// The Parquet crate's decoder of some columns of a row group.
    fn decoder(
        &self,
        part: &Part,
        plan: &Plan,
        leaves: &[usize],
        found: Vec<Bytes>,
        batch_rows: usize,
    ) -> Result<ParquetPushDecoder> {
        let file = &self.file;
        let fault = |e| corrupt(file.key(), e);
        let rows = usize::try_from(file.metadata().row_group(part.group).num_rows()).unwrap_or(0);
        let selection = RowSelection::from_consecutive_ranges(part.rows.iter().cloned(), rows);
        let mut decoder = ParquetPushDecoderBuilder::new_with_metadata(file.reader.clone())
            .with_projection(ProjectionMask::leaves(file.reader.parquet_schema(), leaves.iter().copied()))
            .with_row_groups(vec![part.group])
            .with_row_selection(selection)
            .with_batch_size(batch_rows.min(longest_batch(file, part.group, leaves)))
            .build()
            .map_err(fault)?;
        decoder.push_ranges(plan.bytes.clone(), found).map_err(fault)?;
        Ok(decoder)
    }

    /// The times of the requested rows of a row group.
    fn times(&self, part: &Part, plan: &Plan, leaf: usize, found: &[Bytes]) -> Result<Vec<Times>> {
        let count = part.rows.iter().map(ExactSizeIterator::len).sum();
        let place = self.leaves.iter().position(|l| *l == leaf);
        let numbers = place.map(|place| self.numbers(part, plan, place, found)).transpose()?;
        if let Some(mut numbers) = numbers.flatten() {
            return numbers.take_times(count).map_err(|e| e.with("key", self.file.key()).with("row_group", part.group));
        }
        // Each of the result has the times of adjacent rows.
        let mut times = Vec::new();
        for rows in &part.rows {
            let one = Part { group: part.group, rows: vec![rows.clone()], plan: None };
            let mut decoder = self.decoder(&one, plan, &[leaf], found.to_vec(), PAGE_ROWS)?;
            while let DecodeResult::Data(batch) = decoder.try_decode().map_err(|e| corrupt(self.file.key(), e))? {
                let ticks = cast_with_options(batch.column(0), &DataType::Int64, &CastOptions::default())?;
                times.push(Times::Listed(ticks.as_primitive::<Int64Type>().values().to_vec()));
            }
        }
        let found: usize = times.iter().map(Times::len).sum();
        if found == count {
            return Ok(times);
        }
        Err(Error::corrupt("a row group lacks times of rows")
            .with("key", self.file.key())
            .with("expected", count)
            .with("found", found))
    }

    /// Spawns a read of what the cache does not hold of the next row groups; `None` if none is left.
    fn read_on(&mut self) -> Option<Ahead> {
        let (mut parts, mut bytes, mut cached) = (Vec::new(), 0, 0);
        while let Some(mut part) = self.parts.pop_front() {
            let plan = part.plan.take().unwrap_or_else(|| self.plan(&part));
            let more_bytes = plan.bytes.iter().map(|r| r.end - r.start).sum::<u64>();
            let rows: usize = part.rows.iter().map(ExactSizeIterator::len).sum();
            let more_cached = rows * plan.chunks.iter().flatten().count();
            let is_enough = bytes + more_bytes > READ_BYTES || cached + more_cached > CACHED_AHEAD;
            if is_enough && !parts.is_empty() {
                self.parts.push_front(Part { plan: Some(plan), ..part });
                break;
            }
            (bytes, cached) = (bytes + more_bytes, cached + more_cached);
            parts.push((part, plan));
        }
        if parts.is_empty() {
            return None;
        }
        if bytes == 0 {
            return Some(Ahead::Held(parts.into_iter().map(|(part, plan)| (part, plan, Vec::new())).collect()));
        }
        let (file, store, leaves) = (self.file.clone(), self.store.clone(), self.leaves.clone());
        Some(Ahead::Read(tokio::spawn(async move {
            let ranges: Vec<Range<u64>> = parts.iter().flat_map(|(_, plan)| plan.bytes.iter().cloned()).collect();
            let mut found = file.bytes_of(&store, &ranges).await?.into_iter();
            let mut read = Vec::with_capacity(parts.len());
            for (part, plan) in parts {
                let of_part: Vec<Bytes> = found.by_ref().take(plan.bytes.len()).collect();
                check(&file, part.group, &leaves, &plan.bytes, &of_part)?;
                read.push((part, plan, of_part));
            }
            Ok(read)
        })))
    }
}

/// Returns how many rows are read next for about three quarters of a batch, if a filter keeps as many of them as it kept of `rows`.
fn next_window(batch_rows: usize, rows: usize, kept: usize) -> usize {
    let wanted = batch_rows - batch_rows / 4;
    (rows.saturating_mul(wanted) / kept.max(1)).clamp(batch_rows, most_rows(batch_rows))
}

/// Maximum rows that are given to a filter at once.
fn most_rows(batch_rows: usize) -> usize {
    if batch_rows < LEAST_WIDENED { batch_rows } else { batch_rows.saturating_mul(MOST_BATCHES) }
}

/// Takes the first `count` rows from the front of ranges.
fn first_rows(ranges: &mut VecDeque<Range<u64>>, mut count: u64) -> Vec<Range<u64>> {
    let mut taken = Vec::new();
    while let Some(range) = ranges.front_mut().filter(|_| count > 0) {
        let end = range.end.min(range.start + count);
        count -= end - range.start;
        taken.push(range.start..end);
        range.start = end;
        if range.is_empty() {
            ranges.pop_front();
        }
    }
    taken
}
