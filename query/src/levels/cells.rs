//! Aggregates of groups: one cell per group and time bucket with rows.

mod split;

use std::{ops::Range, sync::Arc};

use arrow::{
    array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch, UInt32Array},
    compute::{cast, take},
    datatypes::{SchemaRef, UInt8Type},
    row::{RowConverter, SortField},
};
use hashbrown::HashMap;
use tidelake_format::{
    Error, Result,
    file::Times,
    ids::ColumnId,
    tags::{Aggregate, TagManifest},
};

use super::{
    accumulated::{Accumulated, Accumulators},
    column::{ColumnCells, Part, Places, cells},
    divide::Needed,
    row_key::{Divided, RowKey},
    shape::{Key, State},
    strip::{Span, Strip},
};
use crate::{
    functions::window::FixedBucket,
    scan::{Decoded, FileSource, Piece, Ranks, TimeRange, ticks},
};

/// Maps series to groups, by the keys that depend on the series alone.
#[derive(Debug)]
pub(super) struct Groups {
    /// Group of each rank.
    of: Vec<u32>,
    /// A series of each group, which has the group's keys.
    representative: Vec<u32>,
}

impl Groups {
    /// Groups series by their keys; without keys all series form one group.
    pub(super) fn new(keys: &[Key], series: usize) -> Result<Self> {
        let values: Vec<ArrayRef> =
            keys.iter().filter_map(|k| if let Key::Series(v) = k { Some(v.clone()) } else { None }).collect();
        if values.is_empty() {
            return Ok(Self { of: vec![0; series], representative: vec![0] });
        }
        let fields = values.iter().map(|v| SortField::new(v.data_type().clone())).collect();
        let rows = RowConverter::new(fields)?.convert_columns(&values)?;
        let mut known: HashMap<&[u8], u32> = HashMap::new();
        let (mut of, mut representative) = (Vec::with_capacity(series), Vec::new());
        for rank in 0..series {
            let group = *known.entry(rows.row(rank).data()).or_insert_with(|| {
                representative.push(rank as u32);
                representative.len() as u32 - 1
            });
            of.push(group);
        }
        Ok(Self { of, representative })
    }

    /// Memory in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        (self.of.capacity() + self.representative.capacity()) * size_of::<u32>()
    }

    /// Number of groups.
    pub(super) fn len(&self) -> usize {
        self.representative.len()
    }
}

/// Number of cells at which partial states are emitted, to bound memory for any number of groups.
pub(super) const MOST_CELLS: usize = 1 << 20;
/// Bytes of accumulators at which partial states are emitted.
const MOST_BYTES: usize = 8 << 20;
/// Maximum entries of a dense table by (group, bucket), 4 bytes each; above it cells are found by hashing.
const DENSE: u64 = 1 << 22;

/// The buckets of rows within a time range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Buckets {
    /// Start of the first bucket, or the first time of all if the bucket begins earlier.
    first: i64,
    /// Ticks between the start of the first bucket and `first`.
    before: u64,
    width: u64,
    pub(super) count: u64,
}

impl Buckets {
    pub(super) fn new(bucket: Option<&FixedBucket>, hull: TimeRange) -> Self {
        match bucket {
            Some(b) if !hull.is_empty() => {
                let (width, offset) = (i128::from(b.width_ticks), i128::from(b.offset_ticks));
                let start = (i128::from(hull.first) - offset).div_euclid(width) * width + offset;
                let count = (i128::from(hull.last) - start) / width + 1;
                let first = start.max(i128::from(i64::MIN));
                Self {
                    first: first as i64,
                    before: (first - start) as u64,
                    width: b.width_ticks.unsigned_abs(),
                    count: u64::try_from(count).unwrap_or(u64::MAX),
                }
            }
            _ => Self { first: 0, before: 0, width: 1, count: 1 },
        }
    }

    /// Index of the bucket that starts at a time in the range, or of the first bucket.
    fn place(&self, start: i64) -> u64 {
        // Times can be up to 2^64 ticks apart.
        let after = start.wrapping_sub(self.first) as u64;
        match after.checked_add(self.before) {
            Some(after) => after / self.width,
            None => ((u128::from(after) + u128::from(self.before)) / u128::from(self.width)) as u64,
        }
    }
}

/// Finds the cell of a group and a bucket.
#[derive(Debug)]
enum Table {
    /// Indexed by group × buckets + bucket, counted from the first bucket.
    Dense {
        buckets: Buckets,
        cells: Vec<u32>,
    },
    Hashed(HashMap<(u32, i64), u32>),
}

/// No cell yet.
const NONE: u32 = u32::MAX;

/// Cells of one partition.
pub(super) struct Cells {
    groups: Arc<Groups>,
    bucket: Option<FixedBucket>,
    table: Table,
    /// Group and bucket start of each cell.
    keys: Vec<(u32, i64)>,
    rows: Vec<u64>,
    columns: Vec<(Needed, Box<dyn ColumnCells>)>,
    accumulators: Vec<Accumulators>,
    /// Divides the cells by a key of rows; `rows` and `columns` then have the divided cells.
    divided: Option<Divided>,
    /// Index of the time column among the columns of the batches.
    time: Option<usize>,
    strips: Vec<Strip>,
}

impl Cells {
    /// Creates an empty set of cells; `hull` contains every time to be added.
    pub(super) fn new(
        groups: Arc<Groups>,
        bucket: Option<FixedBucket>,
        hull: TimeRange,
        columns: &[Needed],
        time: Option<usize>,
    ) -> Self {
        let buckets = Buckets::new(bucket.as_ref(), hull);
        let table = match (groups.len() as u64).checked_mul(buckets.count) {
            Some(all) if all <= DENSE => Table::Dense { buckets, cells: vec![NONE; all as usize] },
            _ => Table::Hashed(HashMap::new()),
        };
        let columns = columns.iter().map(|c| (c.clone(), cells(&c.data_type, c.wants))).collect();
        Self {
            groups,
            bucket,
            table,
            keys: Vec::new(),
            rows: Vec::new(),
            columns,
            accumulators: Vec::new(),
            divided: None,
            time,
            strips: Vec::new(),
        }
    }

    /// The same cells, divided by a key of rows if there is one.
    pub(super) fn divided(self, key: Option<Arc<RowKey>>) -> Self {
        Self { divided: key.map(Divided::new), ..self }
    }

    /// The same cells, with these aggregates.
    pub(super) fn with_accumulators(self, of: &[Arc<Accumulated>]) -> Self {
        Self { accumulators: of.iter().cloned().map(Accumulators::new).collect(), ..self }
    }

    /// Whether partial states are to be returned before more rows are added, because memory is bounded.
    pub(super) fn is_full(&self) -> bool {
        self.len() >= MOST_CELLS || self.accumulators.iter().map(Accumulators::bytes).sum::<usize>() >= MOST_BYTES
    }

    /// Number of cells.
    pub(super) fn len(&self) -> usize {
        self.divided.as_ref().map_or(self.keys.len(), Divided::len)
    }

    /// Memory in bytes.
    pub(super) fn bytes(&self) -> usize {
        let table = match &self.table {
            Table::Dense { cells, .. } => cells.capacity() * 4,
            Table::Hashed(map) => map.capacity() * 24,
        };
        table
            + self.keys.len() * 24
            + self.divided.as_ref().map_or(0, Divided::bytes)
            + self.columns.iter().map(|(_, c)| c.bytes()).sum::<usize>()
            + self.accumulators.iter().map(Accumulators::bytes).sum::<usize>()
    }

    fn cell(&mut self, group: u32, start: i64) -> u32 {
        self.cell_at(self.place(group, start), group, start)
    }

    /// Index in a dense table, where the group's next bucket has the next index; 0 in a hashed table.
    fn place(&self, group: u32, start: i64) -> usize {
        match &self.table {
            Table::Dense { buckets, .. } => {
                let bucket = if self.bucket.is_some() { buckets.place(start) } else { 0 };
                (u64::from(group) * buckets.count + bucket) as usize
            }
            Table::Hashed(_) => 0,
        }
    }

    #[inline]
    fn cell_at(&mut self, place: usize, group: u32, start: i64) -> u32 {
        match &self.table {
            Table::Dense { cells, .. } if cells[place] != NONE => cells[place],
            _ => self.find_or_add(place, group, start),
        }
    }

    fn find_or_add(&mut self, place: usize, group: u32, start: i64) -> u32 {
        let next = self.keys.len() as u32;
        let cell = match &mut self.table {
            Table::Dense { cells, .. } => &mut cells[place],
            Table::Hashed(map) => map.entry((group, start)).or_insert(NONE),
        };
        if *cell == NONE {
            *cell = next;
            self.keys.push((group, start));
        }
        *cell
    }

    fn grow(&mut self) {
        let cells = self.len();
        self.rows.resize(cells, 0);
        self.columns.iter_mut().for_each(|(_, c)| c.grow(cells));
    }

    /// Adds decoded rows.
    pub(super) fn add(&mut self, decoded: &Decoded) -> Result<()> {
        let ts = self.time.filter(|_| decoded.times.is_none());
        let ts = ts.map(|at| ticks(decoded.batch.column(at))).transpose()?;
        let mut strips = std::mem::take(&mut self.strips);
        strips.clear();
        let mut pieces = decoded.times.iter().flatten();
        let (mut piece, mut used): (Option<&Times>, usize) = (None, 0);
        let mut start = 0;
        for run in &decoded.runs {
            let end = start + run.rows;
            let group = self.groups.of[run.rank as usize];
            match (self.bucket.clone(), ts, &decoded.times) {
                (Some(bucket), Some(ts), _) => self.walk(&bucket, group, &ts[start..end], start, &mut strips),
                (Some(bucket), None, Some(_)) => {
                    while start < end {
                        let of = match piece {
                            Some(of) if used < of.len() => of,
                            _ => {
                                used = 0;
                                *piece.insert(pieces.next().ok_or_else(|| Error::internal("fewer times than rows"))?)
                            }
                        };
                        let rows = (of.len() - used).min(end - start);
                        match of {
                            Times::Listed(ts) => self.walk(&bucket, group, &ts[used..used + rows], start, &mut strips),
                            Times::Even { first, step, .. } => {
                                let first = first.wrapping_add(step.wrapping_mul(used as i64));
                                self.stride(&bucket, group, (first, *step), rows, start, &mut strips);
                            }
                        }
                        (used, start) = (used + rows, start + rows);
                    }
                }
                _ => {
                    let cell = self.cell(group, 0);
                    Strip::push(&mut strips, Span { cell, start, len: run.rows });
                }
            }
            start = end;
        }
        if self.divided.is_some() {
            self.add_divided(decoded, &strips, ts)?;
            self.strips = strips;
            return Ok(());
        }
        self.grow();
        for strip in &strips {
            self.rows[strip.cells()].iter_mut().for_each(|rows| *rows += strip.len() as u64);
        }
        for (column, cells) in &mut self.columns {
            let timed = column.wants.first || column.wants.last;
            let (values, ts) = (decoded.batch.column(column.at), ts.filter(|_| timed));
            match decoded.dictionary(column.at) {
                None => cells.add(values.as_ref(), &strips, ts),
                Some(dictionary) => {
                    cells.add_codes(values.as_primitive::<UInt8Type>().values(), dictionary, &strips, ts)
                }
            }
        }
        let cells = self.len();
        self.accumulators.iter_mut().try_for_each(|of| of.add(decoded, &strips, cells))?;
        self.strips = strips;
        Ok(())
    }

    /// Adds rows one by one to the cells of their keys.
    fn add_divided(&mut self, decoded: &Decoded, strips: &[Strip], ts: Option<&[i64]>) -> Result<()> {
        let Some(divided) = &mut self.divided else { return Ok(()) };
        let spans = strips.iter().flat_map(|strip| strip.spans());
        divided.add(decoded, spans.map(|span| (span.cell, span.len)))?;
        self.grow();
        let Some(divided) = &self.divided else { return Ok(()) };
        for cell in divided.rows() {
            self.rows[*cell as usize] += 1;
        }
        for (column, cells) in &mut self.columns {
            let timed = column.wants.first || column.wants.last;
            cells.add_rows(&decoded.column(column.at)?, divided.rows(), ts.filter(|_| timed));
        }
        Ok(())
    }

    /// Adds whole chunks of a data file from its tag manifest.
    pub(super) fn add_chunks(&mut self, file: &FileSource, ranks: &Ranks, pieces: &[Piece]) -> Result<()> {
        let manifest = &file.manifest;
        let all = self.places(manifest, ranks, pieces);
        self.grow();
        for (cell, at) in all.iter().flat_map(|p| p.iter()) {
            self.rows[cell] += manifest.row_count()[at];
        }
        for (column, cells) in &mut self.columns {
            let id = column.id.ok_or_else(|| Error::internal("manifest has no aggregates of an expression"))?;
            if id != ColumnId::TS {
                cells.add_places(&|what| manifest.aggregate(id, what).cloned(), &all)?;
                continue;
            }
            // Both extremes of a chunk's times, and its row count.
            for (cell, at) in all.iter().flat_map(|p| p.iter()) {
                let (min, max, rows) = (manifest.min_ts()[at], manifest.max_ts()[at], manifest.row_count()[at]);
                cells.add_times(cell as u32, min, max, rows);
            }
        }
        Ok(())
    }

    /// Adds buckets of a rollup: for each series, by its group, the buckets at these indexes. `get` returns the
    /// aggregates of the needed columns, in their order.
    pub(super) fn add_buckets(
        &mut self,
        starts: &[i64],
        first_row: &[u64],
        series: &[(u32, Range<usize>)],
        get: &dyn Fn(usize, Aggregate) -> Option<ArrayRef>,
    ) -> Result<()> {
        let all = self.places_of_buckets(starts, series);
        self.grow();
        let rows = |at: usize| first_row[at + 1] - first_row[at];
        for (cell, at) in all.iter().flat_map(|p| p.iter()) {
            self.rows[cell] += rows(at);
        }
        for (i, (column, cells)) in self.columns.iter_mut().enumerate() {
            if column.id != Some(ColumnId::TS) {
                cells.add_places(&|what| get(i, what), &all)?;
                continue;
            }
            // Only the count of times is requested.
            for (cell, at) in all.iter().flat_map(|p| p.iter()) {
                cells.add_times(cell as u32, 0, 0, rows(at));
            }
        }
        Ok(())
    }

    /// Cells of the rollup buckets that begin at `starts`.
    fn places_of_buckets(&mut self, starts: &[i64], series: &[(u32, Range<usize>)]) -> Vec<Places> {
        let mut all = Vec::with_capacity(series.len());
        let bucket = self.bucket.clone();
        // Most series of a group have buckets at the same times as the series before.
        let mut before: Option<(u32, Range<usize>, Range<usize>)> = None;
        for (rank, places) in series {
            let group = self.groups.of[*rank as usize];
            let Some(bucket) = &bucket else {
                let (cell, at, len) = (self.cell(group, 0), places.start as u32, places.len() as u32);
                all.push(Places { cell, each: false, at, len });
                continue;
            };
            if let Some((_, of, same)) =
                before.as_ref().filter(|(g, of, _)| *g == group && starts[of.clone()] == starts[places.clone()])
            {
                let (same, shift) = (same.clone(), places.start as i64 - of.start as i64);
                for i in same {
                    let known: Places = all[i];
                    all.push(Places { at: (i64::from(known.at) + shift) as u32, ..known });
                }
                continue;
            }
            // Start a new list, so that only this series' places are reused.
            let mut own = Vec::new();
            let (mut end, mut cell) = (i64::MIN, 0);
            for at in places.clone() {
                if starts[at] >= end || at == places.start {
                    let goes_on = at > places.start && starts[at] < end.saturating_add(bucket.width_ticks);
                    let start = if goes_on { end } else { bucket.start(starts[at]) };
                    end = bucket.end(start).unwrap_or(i64::MAX);
                    cell = self.cell(group, start);
                }
                Places::push(&mut own, cell, at as u32);
            }
            before = Some((group, places.clone(), all.len()..all.len() + own.len()));
            all.extend(own);
        }
        all
    }

    /// Cells of whole chunks of a file.
    fn places(&mut self, manifest: &TagManifest, ranks: &Ranks, pieces: &[Piece]) -> Vec<Places> {
        if let (1, None, [first, .., last]) = (self.groups.len(), &self.bucket, pieces)
            && (last.local - first.local) as usize == pieces.len() - 1
        {
            // Pieces ascend, so they are all chunks from the first to the last.
            return vec![Places { cell: self.cell(0, 0), each: false, at: first.local, len: pieces.len() as u32 }];
        }
        let mut all = Vec::new();
        for piece in pieces {
            let local = piece.local as usize;
            let group = self.groups.of[ranks.of(local) as usize];
            let start = self.bucket.as_ref().map_or(0, |b| b.start(manifest.min_ts()[local]));
            Places::push(&mut all, self.cell(group, start), piece.local);
        }
        all
    }

    /// Returns the partial states of all cells and removes the cells.
    pub(super) fn finish(&mut self, keys: &[Key], states: &[State], schema: &SchemaRef) -> Result<RecordBatch> {
        // (group, start of the bucket) of each cell.
        let of_cells: Vec<(u32, i64)> = match &self.divided {
            None => std::mem::take(&mut self.keys),
            Some(divided) => divided.undivided().map(|cell| self.keys[cell]).collect(),
        };
        let series = UInt32Array::from_iter_values(
            of_cells.iter().map(|(group, _)| self.groups.representative[*group as usize]),
        );
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(schema.fields().len());
        for (key, field) in keys.iter().zip(schema.fields()) {
            columns.push(match key {
                Key::Series(values) => take(values, &series, None)?,
                Key::Bucket => {
                    let starts: ArrayRef = Arc::new(Int64Array::from_iter_values(of_cells.iter().map(|(_, s)| *s)));
                    cast(&starts, field.data_type())?
                }
                Key::Row => {
                    let divided = self.divided.as_ref();
                    divided.ok_or_else(|| Error::internal("cells are not divided by a key of rows"))?.keys()?
                }
            });
        }
        let accumulated = self.accumulators.iter_mut().map(Accumulators::states).collect::<Result<Vec<_>>>()?;
        for (state, field) in states.iter().zip(schema.fields().iter().skip(keys.len())) {
            let values = match state {
                State::Accumulated(function, part) => accumulated[*function][*part].clone(),
                state => self.state(*state)?,
            };
            columns.push(if values.data_type() == field.data_type() {
                values
            } else {
                cast(&values, field.data_type())?
            });
        }
        let batch = RecordBatch::try_new(schema.clone(), columns)?;
        match &mut self.table {
            Table::Dense { cells, .. } => cells.fill(NONE),
            Table::Hashed(map) => map.clear(),
        }
        self.keys.clear();
        self.rows.clear();
        self.divided.iter_mut().for_each(Divided::clear);
        for (column, of) in &mut self.columns {
            *of = cells(&column.data_type, column.wants);
        }
        Ok(batch)
    }

    fn state(&self, state: State) -> Result<ArrayRef> {
        let (at, part) = match state {
            State::Rows => {
                return Ok(Arc::new(Int64Array::from_iter_values(self.rows.iter().map(|n| *n as i64))));
            }
            State::Count(at) => (at, Part::Count),
            State::AverageCount(at) => (at, Part::AverageCount),
            State::Sum(at) => (at, Part::Sum),
            State::FloatSum(at) => (at, Part::FloatSum),
            State::Min(at) => (at, Part::Min),
            State::Max(at) => (at, Part::Max),
            State::First(at) => (at, Part::First),
            State::FirstTime(at) => (at, Part::FirstTime),
            State::Last(at) => (at, Part::Last),
            State::LastTime(at) => (at, Part::LastTime),
            State::Accumulated(..) => return Err(Error::internal("a state of accumulators is not one of a column")),
        };
        let column = self.columns.iter().find(|(c, _)| c.at == at);
        let (_, cells) = column.expect("the needed columns are those of the states");
        cells.part(part)
    }
}

#[cfg(test)]
mod tests;
