//! A group key that an expression computes from one integer column of a row, such as `floor(a / 10)` or `CASE WHEN a < 30 …`.
//!
//! Tag manifests bound the column. If the bounds are close, the expression is evaluated once for each integer between them, and
//! the key of a row is looked up by its value instead of being computed and hashed.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, Int64Array, PrimitiveArray, UInt32Array},
    compute::{cast, concat, max, min, take},
    datatypes::{DataType, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type},
    row::{RowConverter, SortField},
};
use datafusion::{common::Result as DfResult, physical_expr::PhysicalExpr};
use hashbrown::HashMap;
use tidelake_format::{Error, Result, schema::field_id, tags::Aggregate};

use super::computed::Expression;
use crate::scan::{Decoded, Origin, SeriesScan};

/// The most integers between the bounds of the column.
const MOST_INTEGERS: u64 = 1 << 12;

/// A key of rows by the integers of a column.
#[derive(Debug)]
pub(super) struct RowKey {
    /// Over the column alone.
    expression: Expression,
    /// Values of the key, by number.
    values: ArrayRef,
    /// The first integer that a manifest has.
    least: i64,
    /// Number of the key of each integer from `least` on, and last that of NULL.
    numbers: Vec<u32>,
}

impl RowKey {
    /// The key that an expression over the output of a scan makes; `None` if the expression reads other columns, may need more
    /// memory than its result, fails for an integer between the bounds, or if the bounds are far apart.
    ///
    /// # Errors
    /// DataFusion's and Arrow's.
    pub(super) fn new(expr: &Arc<dyn PhysicalExpr>, scan: &SeriesScan) -> DfResult<Option<Self>> {
        let Some(expression) = Expression::new(expr, scan, true)? else { return Ok(None) };
        let [at] = *expression.reads() else { return Ok(None) };
        let data_type = expression.schema().field(0).data_type().clone();
        if !data_type.is_integer() || data_type == DataType::UInt64 {
            return Ok(None);
        }
        let Some((least, most)) = bounds(scan, at)? else { return Ok(None) };
        if most.abs_diff(least) >= MOST_INTEGERS {
            return Ok(None);
        }
        let integers: ArrayRef = Arc::new(Int64Array::from_iter((least..=most).map(Some).chain([None])));
        let Ok(of_each) = expression.evaluate(vec![cast(&integers, &data_type)?]) else { return Ok(None) };
        let (numbers, first) = number(&of_each)?;
        let values = take(&of_each, &first, None)?;
        Ok(Some(Self { expression, values, least, numbers }))
    }

    /// Index of the column among the data columns of the scan.
    fn at(&self) -> usize {
        self.expression.reads()[0]
    }

    /// Number of keys.
    pub(super) fn len(&self) -> usize {
        self.values.len()
    }

    /// Type of the key.
    pub(super) fn data_type(&self) -> &DataType {
        self.values.data_type()
    }
}

/// The least and the greatest integer of a column in the selected chunks of files; `None` without such chunks, or if a manifest
/// lacks them.
fn bounds(scan: &SeriesScan, at: usize) -> DfResult<Option<(i64, i64)>> {
    let Some(id) = field_id(scan.columns().schema().field(at)) else { return Ok(None) };
    let reading = scan.reading();
    let mut bounds: Option<(i64, i64)> = None;
    for (source, pieces) in reading.sources.list.iter().zip(&reading.selection.plain) {
        let Origin::File(file) = &source.origin else { continue };
        if pieces.is_empty() || file.manifest.aggregate(id, Aggregate::Count).is_none() {
            continue;
        }
        let known = |what| file.manifest.aggregate(id, what);
        let (Some(least), Some(most)) = (known(Aggregate::Min), known(Aggregate::Max)) else { return Ok(None) };
        let (least, most) = (cast(least, &DataType::Int64)?, cast(most, &DataType::Int64)?);
        let of_file = min(least.as_primitive::<Int64Type>()).zip(max(most.as_primitive::<Int64Type>()));
        let Some((least, most)) = of_file else { continue };
        bounds = Some(bounds.map_or((least, most), |(a, b)| (a.min(least), b.max(most))));
    }
    Ok(bounds)
}

/// The number of the value of each row, and the first row of each value.
fn number(values: &ArrayRef) -> DfResult<(Vec<u32>, UInt32Array)> {
    let rows = RowConverter::new(vec![SortField::new(values.data_type().clone())])?;
    let rows = rows.convert_columns(std::slice::from_ref(values))?;
    let mut known: HashMap<&[u8], u32> = HashMap::new();
    let mut first = Vec::new();
    let number_of = |row: usize| {
        *known.entry(rows.row(row).data()).or_insert_with(|| {
            first.push(row as u32);
            first.len() as u32 - 1
        })
    };
    let numbers = (0..values.len()).map(number_of).collect();
    Ok((numbers, first.into()))
}

/// No cell yet.
const NONE: u32 = u32::MAX;

/// Divides cells by the key of rows.
pub(super) struct Divided {
    key: Arc<RowKey>,
    /// Numbers of integers outside the bounds, which rows of the log may have, and those of chunks that overlap others. The keys of
    /// two of them may be equal, or equal one within the bounds: the final aggregation joins the groups.
    others: HashMap<i64, u32>,
    /// These integers, by number.
    integers: Vec<i64>,
    /// Per undivided cell: the cell of each key of an integer within the bounds.
    cells: Vec<Vec<u32>>,
    /// The cells of other keys, by undivided cell and number.
    cells_of_others: HashMap<(u32, u32), u32>,
    /// Per cell: the undivided cell, and the number of its key.
    origin: Vec<(u32, u32)>,
    /// Per row of a batch, its key, then its cell.
    rows: Vec<u32>,
}

impl Divided {
    pub(super) fn new(key: Arc<RowKey>) -> Self {
        Self {
            key,
            others: HashMap::new(),
            integers: Vec::new(),
            cells: Vec::new(),
            cells_of_others: HashMap::new(),
            origin: Vec::new(),
            rows: Vec::new(),
        }
    }

    /// Memory in bytes.
    pub(super) fn bytes(&self) -> usize {
        let cells = self.cells.iter().map(|of| of.capacity() * 4 + size_of::<Vec<u32>>()).sum::<usize>();
        let others = self.others.capacity() * 17 + self.integers.capacity() * 8 + self.cells_of_others.capacity() * 13;
        cells + others + self.origin.capacity() * 8 + self.rows.capacity() * 4
    }

    /// Number of cells.
    pub(super) fn len(&self) -> usize {
        self.origin.len()
    }

    /// Finds the cell of each row; `spans` are (undivided cell, rows) and cover the batch.
    ///
    /// # Errors
    /// Internal if the column is not of integers.
    pub(super) fn add(&mut self, rows: &Decoded, spans: impl Iterator<Item = (u32, usize)>) -> Result<()> {
        let values = rows.column(self.key.at())?;
        self.rows.clear();
        match values.data_type() {
            DataType::Int8 => self.look_up(values.as_primitive::<Int8Type>()),
            DataType::Int16 => self.look_up(values.as_primitive::<Int16Type>()),
            DataType::Int32 => self.look_up(values.as_primitive::<Int32Type>()),
            DataType::Int64 => self.look_up(values.as_primitive::<Int64Type>()),
            DataType::UInt8 => self.look_up(values.as_primitive::<UInt8Type>()),
            DataType::UInt16 => self.look_up(values.as_primitive::<UInt16Type>()),
            DataType::UInt32 => self.look_up(values.as_primitive::<UInt32Type>()),
            other => return Err(Error::internal("key of rows is not of an integer").with("found", other)),
        }
        let mut start = 0;
        let keys = self.key.len();
        for (undivided, len) in spans {
            let at = undivided as usize;
            if self.cells.len() <= at {
                self.cells.resize_with(at + 1, Vec::new);
            }
            let known = &mut self.cells[at];
            known.resize(keys, NONE);
            for row in &mut self.rows[start..start + len] {
                let cell = match known.get_mut(*row as usize) {
                    Some(cell) => cell,
                    None => self.cells_of_others.entry((undivided, *row)).or_insert(NONE),
                };
                if *cell == NONE {
                    *cell = self.origin.len() as u32;
                    self.origin.push((undivided, *row));
                }
                *row = *cell;
            }
            start += len;
        }
        Ok(())
    }

    /// The cell of each row that was added last.
    pub(super) fn rows(&self) -> &[u32] {
        &self.rows
    }

    /// Puts the number of the key of each row into `rows`.
    fn look_up<T: ArrowPrimitiveType>(&mut self, values: &PrimitiveArray<T>)
    where
        T::Native: Into<i64>,
    {
        let key = self.key.clone();
        let (last, null) = (key.numbers.len() - 1, key.numbers[key.numbers.len() - 1]);
        // The last number is that of a row without an integer.
        let within = |value: i64| key.numbers[..last].get(value.wrapping_sub(key.least) as usize).copied();
        let no_nulls = values.null_count() == 0;
        self.rows.reserve(values.len());
        for (row, value) in values.values().iter().enumerate() {
            let value: i64 = (*value).into();
            let number = match within(value) {
                _ if !no_nulls && values.is_null(row) => null,
                Some(number) => number,
                None => self.other(value),
            };
            self.rows.push(number);
        }
    }

    /// The number of an integer outside the bounds.
    #[cold]
    fn other(&mut self, value: i64) -> u32 {
        let keys = self.key.len();
        *self.others.entry(value).or_insert_with(|| {
            self.integers.push(value);
            (keys + self.integers.len() - 1) as u32
        })
    }

    /// The undivided cell of each cell.
    pub(super) fn undivided(&self) -> impl Iterator<Item = usize> {
        self.origin.iter().map(|(cell, _)| *cell as usize)
    }

    /// The key of each cell.
    ///
    /// # Errors
    /// Those of the expression, such as a division by zero.
    pub(super) fn keys(&self) -> Result<ArrayRef> {
        let key = &self.key;
        let numbers = UInt32Array::from_iter_values(self.origin.iter().map(|(_, number)| *number));
        if self.integers.is_empty() {
            return Ok(take(&key.values, &numbers, None)?);
        }
        let others: ArrayRef = Arc::new(Int64Array::from_iter_values(self.integers.iter().copied()));
        let others = key.expression.evaluate(vec![cast(&others, key.expression.schema().field(0).data_type())?])?;
        Ok(take(&concat(&[key.values.as_ref(), others.as_ref()])?, &numbers, None)?)
    }

    /// Removes all cells.
    pub(super) fn clear(&mut self) {
        self.others.clear();
        self.integers.clear();
        self.cells.clear();
        self.cells_of_others.clear();
        self.origin.clear();
    }
}
