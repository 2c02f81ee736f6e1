//! Aggregates of one column, one cell per group and bucket.

use std::{ops::Range, sync::Arc};

use arrow::{
    array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, Float64Array, Int64Array, PrimitiveArray, UInt64Array},
    buffer::{NullBuffer, ScalarBuffer},
    datatypes::{
        DataType, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, TimeUnit,
        TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, UInt8Type, UInt16Type, UInt32Type,
        UInt64Type,
    },
};
use tidelake_format::{Error, Result, tags::Aggregate};

use super::{codes::Book, number::Number, strip::Strip};

/// Aggregates of a column needed in addition to its count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Wants {
    pub(super) sum: bool,
    pub(super) float_sum: bool,
    pub(super) min: bool,
    pub(super) max: bool,
    pub(super) first: bool,
    pub(super) last: bool,
}

/// Adjacent entries of a manifest or a rollup, and their cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Places {
    /// Cell of the first entry.
    pub(super) cell: u32,
    /// Whether each entry has its own cell, numbered consecutively; otherwise all share one cell.
    pub(super) each: bool,
    pub(super) at: u32,
    pub(super) len: u32,
}

impl Places {
    /// Adds an entry after those of `all`; extends the last run if it is adjacent.
    pub(super) fn push(all: &mut Vec<Self>, cell: u32, at: u32) {
        if let Some(last) = all.last_mut().filter(|last| last.at + last.len == at) {
            let same = cell == last.cell && (!last.each || last.len == 1);
            let next = cell == last.cell + last.len && (last.each || last.len == 1);
            if same || next {
                (last.each, last.len) = (next, last.len + 1);
                return;
            }
        }
        all.push(Self { cell, each: false, at, len: 1 });
    }

    /// Every (cell, entry).
    pub(super) fn iter(self) -> impl Iterator<Item = (usize, usize)> {
        (0..self.len as usize).map(move |i| (self.cell as usize + if self.each { i } else { 0 }, self.at as usize + i))
    }

    /// The cells, if each entry has its own.
    pub(super) fn cells(self) -> Range<usize> {
        self.cell as usize..(self.cell + self.len) as usize
    }

    /// The entries, relative to `from`.
    pub(super) fn places(self, from: usize) -> Range<usize> {
        let at = self.at as usize - from;
        at..at + self.len as usize
    }
}

/// Returns an aggregate of a column: one value per entry.
pub(super) type Get<'a> = dyn Fn(Aggregate) -> Option<ArrayRef> + 'a;

/// A part of a column's cells that a state needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Count,
    AverageCount,
    Sum,
    FloatSum,
    Min,
    Max,
    First,
    FirstTime,
    Last,
    LastTime,
}

/// The cells of one column of any type.
pub(super) trait ColumnCells: Send {
    /// Extends the number of cells to `cells`.
    fn grow(&mut self, cells: usize);
    /// Adds rows; `ts` has the time of each row, given if first or last is needed.
    fn add(&mut self, values: &dyn Array, strips: &[Strip], ts: Option<&[i64]>);
    /// Same as `add`, for rows of any cells, one cell per row.
    fn add_rows(&mut self, values: &dyn Array, cells: &[u32], ts: Option<&[i64]>);
    /// Same as `add`, for rows whose values are codes of a dictionary.
    fn add_codes(&mut self, codes: &[u8], dictionary: &ArrayRef, strips: &[Strip], ts: Option<&[i64]>);
    /// Adds whole chunks or rollup buckets: `get` returns the aggregates, one value per entry. Every needed aggregate
    /// must exist, unless even the counts are missing.
    fn add_places(&mut self, get: &Get<'_>, all: &[Places]) -> Result<()>;
    /// Adds the times of a chunk to a cell of the time column: their extremes and their number.
    fn add_times(&mut self, cell: u32, min: i64, max: i64, rows: u64);
    /// One value per cell, in the column's type where the part has it; times are Int64.
    fn part(&self, part: Part) -> Result<ArrayRef>;
    /// Memory in bytes.
    fn bytes(&self) -> usize;
}

/// Creates cells for a column of a type.
pub(super) fn cells(data_type: &DataType, wants: Wants) -> Box<dyn ColumnCells> {
    fn typed<T: ArrowPrimitiveType>(data_type: &DataType, wants: Wants) -> Box<dyn ColumnCells>
    where
        T::Native: Number,
    {
        Box::new(Typed::<T>::new(data_type.clone(), wants))
    }
    match data_type {
        DataType::Int8 => typed::<Int8Type>(data_type, wants),
        DataType::Int16 => typed::<Int16Type>(data_type, wants),
        DataType::Int32 => typed::<Int32Type>(data_type, wants),
        DataType::Int64 => typed::<Int64Type>(data_type, wants),
        DataType::UInt8 => typed::<UInt8Type>(data_type, wants),
        DataType::UInt16 => typed::<UInt16Type>(data_type, wants),
        DataType::UInt32 => typed::<UInt32Type>(data_type, wants),
        DataType::UInt64 => typed::<UInt64Type>(data_type, wants),
        DataType::Float32 => typed::<Float32Type>(data_type, wants),
        DataType::Float64 => typed::<Float64Type>(data_type, wants),
        DataType::Timestamp(TimeUnit::Millisecond, _) => typed::<TimestampMillisecondType>(data_type, wants),
        DataType::Timestamp(TimeUnit::Microsecond, _) => typed::<TimestampMicrosecondType>(data_type, wants),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => typed::<TimestampNanosecondType>(data_type, wants),
        _ => Box::new(Counts(Vec::new())),
    }
}

/// Cells of a column that is only counted.
struct Counts(Vec<u64>);

impl ColumnCells for Counts {
    fn grow(&mut self, cells: usize) {
        self.0.resize(cells, 0);
    }

    fn add(&mut self, values: &dyn Array, strips: &[Strip], _: Option<&[i64]>) {
        let nulls = values.logical_nulls();
        for span in strips.iter().flat_map(|strip| strip.spans()) {
            let absent = nulls.as_ref().map_or(0, |n| n.slice(span.start, span.len).null_count());
            self.0[span.cell as usize] += (span.len - absent) as u64;
        }
    }

    fn add_rows(&mut self, values: &dyn Array, cells: &[u32], _: Option<&[i64]>) {
        let nulls = values.logical_nulls();
        let is_valid = |row: usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
        for (_, cell) in cells.iter().enumerate().filter(|(row, _)| is_valid(*row)) {
            self.0[*cell as usize] += 1;
        }
    }

    fn add_codes(&mut self, _: &[u8], _: &ArrayRef, strips: &[Strip], _: Option<&[i64]>) {
        for strip in strips {
            self.0[strip.cells()].iter_mut().for_each(|rows| *rows += strip.len() as u64);
        }
    }

    fn add_places(&mut self, get: &Get<'_>, all: &[Places]) -> Result<()> {
        let Some(counts) = get(Aggregate::Count) else { return Ok(()) };
        let counts = counts.as_primitive::<UInt64Type>().values();
        for places in all {
            let counts = &counts[places.places(0)];
            if places.each {
                self.0[places.cells()].iter_mut().zip(counts).for_each(|(cell, n)| *cell += n);
            } else {
                self.0[places.cell as usize] += counts.iter().sum::<u64>();
            }
        }
        Ok(())
    }

    fn add_times(&mut self, cell: u32, _: i64, _: i64, rows: u64) {
        self.0[cell as usize] += rows;
    }

    fn part(&self, part: Part) -> Result<ArrayRef> {
        match part {
            Part::Count => Ok(Arc::new(Int64Array::from_iter_values(self.0.iter().map(|n| *n as i64)))),
            other => Err(Error::internal("column is only counted").with("found", format!("{other:?}"))),
        }
    }

    fn bytes(&self) -> usize {
        self.0.capacity() * 8
    }
}

/// The widest type of the same kind.
type Wide<T> = <<T as ArrowPrimitiveType>::Native as Number>::Wide;

/// Cells of a column of numbers or instants. In a cell without values the count is 0 and the other parts are undefined.
struct Typed<T: ArrowPrimitiveType>
where
    T::Native: Number,
{
    data_type: DataType,
    wants: Wants,
    count: Vec<u64>,
    sum: Vec<<T::Native as Number>::Sum>,
    float_sum: Vec<f64>,
    min: Vec<T::Native>,
    max: Vec<T::Native>,
    first: Vec<(i64, T::Native)>,
    last: Vec<(i64, T::Native)>,
    /// The last dictionary of codes.
    book: Option<(ArrayRef, Box<Book<T::Native>>)>,
}

impl<T: ArrowPrimitiveType> Typed<T>
where
    T::Native: Number,
{
    fn new(data_type: DataType, wants: Wants) -> Self {
        Self {
            data_type,
            wants,
            count: Vec::new(),
            sum: Vec::new(),
            float_sum: Vec::new(),
            min: Vec::new(),
            max: Vec::new(),
            first: Vec::new(),
            last: Vec::new(),
            book: None,
        }
    }

    fn lower(&mut self, cell: usize, value: T::Native) {
        if self.count[cell] == 0 || value.key() < self.min[cell].key() {
            self.min[cell] = value;
        }
    }

    fn raise(&mut self, cell: usize, value: T::Native) {
        if self.count[cell] == 0 || value.key() > self.max[cell].key() {
            self.max[cell] = value;
        }
    }

    /// Of two values at the same time the greater wins.
    fn earlier(&mut self, cell: usize, ts: i64, value: T::Native) {
        let (old_ts, old) = self.first[cell];
        if self.count[cell] == 0 || ts < old_ts || (ts == old_ts && value.key() > old.key()) {
            self.first[cell] = (ts, value);
        }
    }

    fn later(&mut self, cell: usize, ts: i64, value: T::Native) {
        let (old_ts, old) = self.last[cell];
        if self.count[cell] == 0 || ts > old_ts || (ts == old_ts && value.key() > old.key()) {
            self.last[cell] = (ts, value);
        }
    }

    /// Adds aggregates of adjacent chunks to one cell; all of them have values.
    fn add_run(
        &mut self,
        cell: usize,
        counts: &[u64],
        sums: Option<&[Wide<T>]>,
        mins: Option<&[Wide<T>]>,
        maxs: Option<&[Wide<T>]>,
    ) {
        if counts.is_empty() {
            return;
        }
        if let (true, Some(sums)) = (self.wants.sum, sums) {
            let plus = |sum, v: &Wide<T>| T::Native::plus(sum, T::Native::as_sum(*v));
            self.sum[cell] = sums.iter().fold(self.sum[cell], plus);
        }
        if let (true, Some(sums)) = (self.wants.float_sum, sums) {
            self.float_sum[cell] += sums.iter().map(|v| T::Native::float(*v)).sum::<f64>();
        }
        if let (true, Some(mins)) = (self.wants.min, mins) {
            let least = mins.iter().map(|v| T::Native::narrow(*v).key()).min();
            least.into_iter().for_each(|key| self.lower(cell, T::Native::unkey(key)));
        }
        if let (true, Some(maxs)) = (self.wants.max, maxs) {
            let greatest = maxs.iter().map(|v| T::Native::narrow(*v).key()).max();
            greatest.into_iter().for_each(|key| self.raise(cell, T::Native::unkey(key)));
        }
        self.count[cell] += counts.iter().sum::<u64>();
    }

    /// Adds aggregates, one per cell; returns false and adds nothing if some cells have values and others have none.
    fn add_each(
        &mut self,
        cells: Range<usize>,
        counts: &[u64],
        sums: Option<&[Wide<T>]>,
        mins: Option<&[Wide<T>]>,
        maxs: Option<&[Wide<T>]>,
    ) -> bool {
        let known = self.count[cells.clone()].iter().filter(|n| **n > 0).count();
        if known != 0 && known != cells.len() {
            return false;
        }
        if let (true, Some(sums)) = (self.wants.sum, sums) {
            let of = self.sum[cells.clone()].iter_mut();
            of.zip(sums).for_each(|(cell, v)| *cell = T::Native::plus(*cell, T::Native::as_sum(*v)));
        }
        if let (true, Some(sums)) = (self.wants.float_sum, sums) {
            let of = self.float_sum[cells.clone()].iter_mut();
            of.zip(sums).for_each(|(cell, v)| *cell += T::Native::float(*v));
        }
        if let (true, Some(mins)) = (self.wants.min, mins) {
            for (cell, v) in self.min[cells.clone()].iter_mut().zip(mins).map(|(cell, v)| (cell, T::Native::narrow(*v)))
            {
                if known == 0 || v.key() < cell.key() {
                    *cell = v;
                }
            }
        }
        if let (true, Some(maxs)) = (self.wants.max, maxs) {
            for (cell, v) in self.max[cells.clone()].iter_mut().zip(maxs).map(|(cell, v)| (cell, T::Native::narrow(*v)))
            {
                if known == 0 || v.key() > cell.key() {
                    *cell = v;
                }
            }
        }
        self.count[cells].iter_mut().zip(counts).for_each(|(cell, n)| *cell += n);
        true
    }

    /// Adds a sum of rows to the sums that are wanted.
    fn add_sum(&mut self, cell: usize, sum: <T::Native as Number>::Sum) {
        if self.wants.sum {
            self.sum[cell] = T::Native::plus(self.sum[cell], sum);
        }
        if self.wants.float_sum {
            self.float_sum[cell] += T::Native::float_sum(sum);
        }
    }

    /// Adds rows without nulls to one cell.
    fn add_slice(&mut self, cell: usize, values: &[T::Native], ts: Option<&[i64]>) {
        let (Some(first), Some(last)) = (values.first(), values.last()) else { return };
        if self.wants.sum || self.wants.float_sum {
            self.add_sum(cell, T::Native::sum(values));
        }
        if self.wants.min {
            let key = values.iter().fold(first.key(), |key, v| key.min(v.key()));
            self.lower(cell, T::Native::unkey(key));
        }
        if self.wants.max {
            let key = values.iter().fold(first.key(), |key, v| key.max(v.key()));
            self.raise(cell, T::Native::unkey(key));
        }
        if let (Some([start, ..]), Some([.., end])) = (ts, ts) {
            if self.wants.first {
                self.earlier(cell, *start, *first);
            }
            if self.wants.last {
                self.later(cell, *end, *last);
            }
        }
        self.count[cell] += values.len() as u64;
    }
}

impl<T: ArrowPrimitiveType> ColumnCells for Typed<T>
where
    T::Native: Number,
{
    fn grow(&mut self, cells: usize) {
        let of = |wanted: bool| if wanted { cells } else { 0 };
        self.count.resize(cells, 0);
        self.sum.resize(of(self.wants.sum), Default::default());
        self.float_sum.resize(of(self.wants.float_sum), 0.0);
        self.min.resize(of(self.wants.min), Default::default());
        self.max.resize(of(self.wants.max), Default::default());
        self.first.resize(of(self.wants.first), Default::default());
        self.last.resize(of(self.wants.last), Default::default());
    }

    fn add(&mut self, values: &dyn Array, strips: &[Strip], ts: Option<&[i64]>) {
        let array = values.as_primitive::<T>();
        let values = array.values();
        let nulls = array.nulls().filter(|n| n.null_count() > 0);
        for span in strips.iter().flat_map(|strip| strip.spans()) {
            let (cell, rows) = (span.cell as usize, span.rows());
            match nulls {
                None => self.add_slice(cell, &values[rows.clone()], ts.map(|ts| &ts[rows.clone()])),
                Some(nulls) => {
                    for (start, end) in nulls.slice(span.start, span.len).valid_slices() {
                        let rows = span.start + start..span.start + end;
                        self.add_slice(cell, &values[rows.clone()], ts.map(|ts| &ts[rows.clone()]));
                    }
                }
            }
        }
    }

    fn add_rows(&mut self, values: &dyn Array, cells: &[u32], ts: Option<&[i64]>) {
        let array = values.as_primitive::<T>();
        let nulls = array.nulls().filter(|n| n.null_count() > 0);
        for (row, (value, cell)) in array.values().iter().zip(cells).enumerate() {
            if nulls.is_none_or(|nulls| nulls.is_valid(row)) {
                let value = std::slice::from_ref(value);
                self.add_slice(*cell as usize, value, ts.map(|ts| &ts[row..=row]));
            }
        }
    }

    fn add_codes(&mut self, codes: &[u8], dictionary: &ArrayRef, strips: &[Strip], ts: Option<&[i64]>) {
        let (_, mut book) = match self.book.take() {
            Some((of, book)) if Arc::ptr_eq(&of, dictionary) => (of, book),
            _ => (dictionary.clone(), Box::new(Book::new(dictionary.as_primitive::<T>().values()))),
        };
        book.open(codes);
        for strip in strips {
            if self.wants.sum || self.wants.float_sum {
                strip.parts(codes).for_each(|(cell, codes)| self.add_sum(cell, T::Native::sum_of_codes(&book, codes)));
            }
            if self.wants.min {
                strip.parts(codes).for_each(|(cell, codes)| self.lower(cell, book.least(codes)));
            }
            if self.wants.max {
                strip.parts(codes).for_each(|(cell, codes)| self.raise(cell, book.greatest(codes)));
            }
            if let Some(ts) = ts.filter(|_| self.wants.first || self.wants.last) {
                for span in strip.spans() {
                    let (first, last) = (span.start, span.start + span.len - 1);
                    if self.wants.first {
                        self.earlier(span.cell as usize, ts[first], book.entry(codes[first]));
                    }
                    if self.wants.last {
                        self.later(span.cell as usize, ts[last], book.entry(codes[last]));
                    }
                }
            }
            self.count[strip.cells()].iter_mut().for_each(|rows| *rows += strip.len() as u64);
        }
        self.book = Some((dictionary.clone(), book));
    }

    fn add_places(&mut self, get: &Get<'_>, all: &[Places]) -> Result<()> {
        let Some(counts) = get(Aggregate::Count) else { return Ok(()) };
        let Some(from) = all.iter().map(|p| p.at as usize).min() else { return Ok(()) };
        let end = all.iter().map(|p| p.places(0).end).max().unwrap_or(from);
        let counts = &counts.as_primitive::<UInt64Type>().values()[from..end];
        let get = |what: Aggregate| -> Result<ArrayRef> {
            let values = get(what);
            let values = values.ok_or_else(|| Error::internal("missing aggregate").with("expected", what.name()))?;
            Ok(values.slice(from, end - from))
        };
        let wide = |wanted: bool, what| if wanted { T::Native::widen(&get(what)?) } else { Ok(Vec::new().into()) };
        let times = |wanted: bool, what| -> Result<ScalarBuffer<i64>> {
            Ok(if wanted { get(what)?.as_primitive::<Int64Type>().values().clone() } else { Vec::new().into() })
        };
        let w = self.wants;
        let sums = wide(w.sum || w.float_sum, Aggregate::Sum)?;
        let (mins, maxs) = (wide(w.min, Aggregate::Min)?, wide(w.max, Aggregate::Max)?);
        let (firsts, first_ts) = (wide(w.first, Aggregate::First)?, times(w.first, Aggregate::FirstTs)?);
        let (lasts, last_ts) = (wide(w.last, Aggregate::Last)?, times(w.last, Aggregate::LastTs)?);
        for places in all {
            let at = || places.places(from);
            if !(w.first || w.last) && counts[at()].iter().all(|n| *n > 0) {
                let (sums, mins, maxs) = (sums.get(at()), mins.get(at()), maxs.get(at()));
                if !places.each {
                    self.add_run(places.cell as usize, &counts[at()], sums, mins, maxs);
                    continue;
                }
                if self.add_each(places.cells(), &counts[at()], sums, mins, maxs) {
                    continue;
                }
            }
            for (cell, at) in places.iter().map(|(cell, at)| (cell, at - from)).filter(|(_, at)| counts[*at] > 0) {
                if w.sum {
                    self.sum[cell] = T::Native::plus(self.sum[cell], T::Native::as_sum(sums[at]));
                }
                if w.float_sum {
                    self.float_sum[cell] += T::Native::float(sums[at]);
                }
                if w.min {
                    self.lower(cell, T::Native::narrow(mins[at]));
                }
                if w.max {
                    self.raise(cell, T::Native::narrow(maxs[at]));
                }
                if w.first {
                    self.earlier(cell, first_ts[at], T::Native::narrow(firsts[at]));
                }
                if w.last {
                    self.later(cell, last_ts[at], T::Native::narrow(lasts[at]));
                }
                self.count[cell] += counts[at];
            }
        }
        Ok(())
    }

    fn add_times(&mut self, cell: u32, min: i64, max: i64, rows: u64) {
        let cell = cell as usize;
        if self.wants.min {
            self.lower(cell, T::Native::of_ticks(min));
        }
        if self.wants.max {
            self.raise(cell, T::Native::of_ticks(max));
        }
        self.count[cell] += rows;
    }

    fn part(&self, part: Part) -> Result<ArrayRef> {
        let nulls = || NullBuffer::from_iter(self.count.iter().map(|n| *n > 0));
        let own = |values: Vec<T::Native>| -> ArrayRef {
            Arc::new(PrimitiveArray::<T>::new(values.into(), Some(nulls())).with_data_type(self.data_type.clone()))
        };
        let times = |of: &[(i64, T::Native)]| -> ArrayRef {
            Arc::new(Int64Array::new(of.iter().map(|(ts, _)| *ts).collect::<Vec<_>>().into(), Some(nulls())))
        };
        Ok(match part {
            Part::Count => Arc::new(Int64Array::from_iter_values(self.count.iter().map(|n| *n as i64))),
            // Null together with the sum, since the average merges its own states.
            Part::AverageCount => Arc::new(UInt64Array::new(self.count.clone().into(), Some(nulls()))),
            Part::Sum => T::Native::sums(self.sum.clone(), nulls()),
            Part::FloatSum => Arc::new(Float64Array::new(self.float_sum.clone().into(), Some(nulls()))),
            Part::Min => own(self.min.clone()),
            Part::Max => own(self.max.clone()),
            Part::First => own(self.first.iter().map(|(_, v)| *v).collect()),
            Part::FirstTime => times(&self.first),
            Part::Last => own(self.last.iter().map(|(_, v)| *v).collect()),
            Part::LastTime => times(&self.last),
        })
    }

    fn bytes(&self) -> usize {
        let own = size_of::<T::Native>();
        self.count.capacity() * 8
            + self.sum.capacity() * size_of::<<T::Native as Number>::Sum>()
            + self.float_sum.capacity() * 8
            + (self.min.capacity() + self.max.capacity()) * own
            + (self.first.capacity() + self.last.capacity()) * 16
    }
}
