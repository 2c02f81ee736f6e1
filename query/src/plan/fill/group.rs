//! One group: its windows with rows, and the windows between them.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch, UInt64Array},
    buffer::NullBuffer,
    compute::{cast, concat, take},
    datatypes::{DataType, Int64Type},
};
use datafusion::common::{Result, ScalarValue};
use tidelake_format::Error;

use super::{
    FillMode,
    exec::Shared,
    linear::{self, Cell},
};
use crate::{error::to_datafusion, sizes::bytes_of};

/// Target bytes of a batch: a filled window has a full copy of a long text.
const BATCH_BYTES: u64 = 4 << 20;

/// Maximum windows of one group. TDengine has the same limit.
pub(super) const MOST_WINDOWS: i128 = 10_000_000;

/// # Errors
/// Invalid for more than [`MOST_WINDOWS`] windows.
pub(super) fn refuse_many(windows: i128) -> Result<()> {
    if windows <= MOST_WINDOWS {
        return Ok(());
    }
    let message = "FILL would return too many windows; narrow the time range in WHERE, or widen INTERVAL";
    Err(to_datafusion(Error::invalid(message).with("limit", MOST_WINDOWS).with("found", windows)))
}

/// A group emitted window by window.
pub(super) struct Group {
    shared: Arc<Shared>,
    /// Its windows with rows, ascending; those with a NULL start are last.
    rows: RecordBatch,
    /// Starts of the windows with rows, without NULL.
    starts: Vec<i64>,
    values: Vec<Column>,
    /// Maximum bytes of a window.
    window_bytes: u64,
    /// Index of the next window with rows.
    next_row: usize,
    /// Start of the next window of the range, unless the range has ended.
    next_start: Option<i128>,
    /// Last instant of the range.
    last: i128,
    is_over: bool,
}

impl Group {
    /// Creates a group of `rows`, which may be empty.
    ///
    /// # Errors
    /// Invalid for more than [`MOST_WINDOWS`] windows.
    pub(super) fn try_new(shared: Arc<Shared>, rows: RecordBatch) -> Result<Self> {
        let time = rows.column(shared.fill.keys);
        let ticks = cast(time, &DataType::Int64)?;
        let known = time.len() - time.null_count();
        let starts = ticks.as_primitive::<Int64Type>().values()[..known].to_vec();
        let first = match (shared.range.first, starts.first()) {
            (Some(first), _) if shared.range.last.is_some_and(|last| last < first) => None,
            (Some(first), _) => shared.starts.first(first),
            (None, first) => first.map(|first| i128::from(*first)),
        };
        let last = shared.range.last.or(starts.last().copied()).map(i128::from);
        let (next_start, last) = match (first, last) {
            (Some(first), Some(last)) => ((first <= last).then_some(first), last),
            _ => (None, 0),
        };
        if let Some(first) = next_start {
            refuse_many(shared.starts.count(first, last))?;
        }
        let columns = rows.columns()[shared.fill.keys + 1..].iter();
        let values = columns.zip(&shared.constants).map(|(array, constant)| Column::try_new(array, known, constant));
        let values = values.collect::<Result<_>>()?;
        let constants = shared.constants.iter().map(|constant| constant.size() as u64);
        let window_bytes = rows.columns().iter().map(longest).chain(constants).fold(1, u64::saturating_add);
        Ok(Self { rows, starts, values, window_bytes, next_row: 0, next_start, last, is_over: false, shared })
    }

    /// Returns the next windows, at most `most`; `None` after the last.
    pub(super) fn next(&mut self, most: usize) -> Result<Option<RecordBatch>> {
        if self.is_over {
            return Ok(None);
        }
        let fit = usize::try_from(BATCH_BYTES / self.window_bytes).unwrap_or(usize::MAX);
        let mut windows = Vec::new();
        while windows.len() < most.min(fit).max(1) {
            let Some(window) = self.window() else { break };
            windows.push(window);
        }
        if !windows.is_empty() {
            return self.batch(&windows).map(Some);
        }
        self.is_over = true;
        // Rows without a time belong to no window.
        let timeless = self.rows.slice(self.starts.len(), self.rows.num_rows() - self.starts.len());
        Ok((timeless.num_rows() > 0).then_some(timeless))
    }

    /// Returns the next window, with or without rows.
    fn window(&mut self) -> Option<Window> {
        let row = self.starts.get(self.next_row).copied();
        let next = self.next_start.map(|next| next.max(i64::MIN.into()) as i64);
        let window = match (row, next) {
            (Some(row), next) if next.is_none_or(|next| row <= next) => {
                let window = Window { start: row, before: self.next_row, has_row: true };
                self.next_row += 1;
                window
            }
            (_, Some(next)) => Window { start: next, before: self.next_row, has_row: false },
            _ => return None,
        };
        if next == Some(window.start) {
            let after = self.next_start.and_then(|next| self.shared.starts.next(next));
            self.next_start = after.filter(|next| *next <= self.last);
        }
        Some(window)
    }

    fn batch(&mut self, windows: &[Window]) -> Result<RecordBatch> {
        let keys = self.shared.fill.keys;
        let mut columns = Vec::with_capacity(self.rows.num_columns());
        let first_row = UInt64Array::from_value(0, windows.len());
        for key in &self.rows.columns()[..keys] {
            columns.push(take(key, &first_row, None)?);
        }
        let starts = Int64Array::from_iter_values(windows.iter().map(|window| window.start));
        columns.push(cast(&starts, self.rows.column(keys).data_type())?);
        for value in &mut self.values {
            columns.push(value.fill(windows, &self.starts, &self.shared.fill.mode)?);
        }
        Ok(RecordBatch::try_new(self.shared.schema.clone(), columns)?)
    }
}

/// Bytes of the longest value of a column.
fn longest(column: &ArrayRef) -> u64 {
    match column.data_type() {
        _ if column.is_empty() => 0,
        // Each value of a dictionary counts as its longest value.
        DataType::Dictionary(..) => bytes_of(column.as_ref(), 0, 1),
        other if other.primitive_width().is_some() => bytes_of(column.as_ref(), 0, 1),
        _ => (0..column.len()).map(|row| bytes_of(column.as_ref(), row, 1)).max().unwrap_or(0),
    }
}

/// A window of the result.
struct Window {
    start: i64,
    /// Number of windows with rows before it, which is the index of its own row.
    before: usize,
    has_row: bool,
}

/// A value column of a group.
struct Column {
    /// Values of the windows with rows, followed by the constant, if any.
    array: ArrayRef,
    /// Number of windows with rows.
    rows: usize,
    nulls: Option<NullBuffer>,
    /// Whether a window without a value gets the constant; for modes that use no other window.
    has_constant: bool,
    /// Index of the last non-null value in the rows before `seen`.
    previous: Option<usize>,
    seen: usize,
    /// Index of the first non-null value from the last requested row on, or the number of rows.
    next: usize,
}

impl Column {
    fn try_new(array: &ArrayRef, rows: usize, constant: &ScalarValue) -> Result<Self> {
        let mut array = array.slice(0, rows);
        let (nulls, has_constant) = (array.logical_nulls(), !constant.is_null());
        if has_constant {
            array = concat(&[array.as_ref(), constant.to_array_of_size(1)?.as_ref()])?;
        }
        Ok(Self { array, rows, nulls, has_constant, previous: None, seen: 0, next: 0 })
    }

    fn is_known(&self, row: usize) -> bool {
        self.nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row))
    }

    /// Rows of the nearest non-null values before a row, and at or after it. Rows must be passed in ascending order.
    fn neighbours(&mut self, row: usize) -> (Option<usize>, Option<usize>) {
        while self.seen < row {
            if self.is_known(self.seen) {
                self.previous = Some(self.seen);
            }
            self.seen += 1;
        }
        self.next = self.next.max(row);
        while self.next < self.rows && !self.is_known(self.next) {
            self.next += 1;
        }
        (self.previous, (self.next < self.rows).then_some(self.next))
    }

    /// Returns the values of some windows.
    fn fill(&mut self, windows: &[Window], starts: &[i64], mode: &FillMode) -> Result<ArrayRef> {
        let cells: Vec<Cell> = windows.iter().map(|window| self.cell(window, starts, mode)).collect();
        if *mode == FillMode::Linear
            && let Some(filled) = linear::fill(&self.array, &cells, starts)
        {
            return Ok(filled);
        }
        let constant = self.has_constant.then_some(self.rows as u64);
        let rows = cells.iter().map(|cell| match cell {
            Cell::Known(row) => Some(*row as u64),
            Cell::Between { .. } => None,
            Cell::Unknown => constant,
        });
        Ok(take(&self.array, &UInt64Array::from_iter(rows), None)?)
    }

    fn cell(&mut self, window: &Window, starts: &[i64], mode: &FillMode) -> Cell {
        if window.has_row && self.is_known(window.before) {
            return Cell::Known(window.before);
        }
        let known = |row: Option<usize>| row.map_or(Cell::Unknown, Cell::Known);
        match mode {
            FillMode::Null | FillMode::Values(_) => Cell::Unknown,
            FillMode::Previous => known(self.neighbours(window.before).0),
            FillMode::Next => known(self.neighbours(window.before).1),
            FillMode::Near => match self.neighbours(window.before) {
                (Some(left), Some(right)) => {
                    let distance = |row: usize| starts.get(row).map(|start| start.abs_diff(window.start));
                    Cell::Known(if distance(right) < distance(left) { right } else { left })
                }
                (left, right) => known(left.or(right)),
            },
            FillMode::Linear => match self.neighbours(window.before) {
                (Some(left), Some(right)) => Cell::Between { left, right, start: window.start },
                _ => Cell::Unknown,
            },
        }
    }
}
