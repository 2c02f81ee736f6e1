//! A group key that an expression computes from one integer column of a row, such as `floor(a / 10)` or `CASE WHEN a < 30 …`.
//!
//! Tag manifests bound the column. If the bounds are close, the expression is evaluated once for each integer between them, and
//! the key of a row is looked up by its value instead of being computed and hashed.

use std::sync::Arc;

use arrow::{
    array::{
        Array, ArrayRef, ArrowPrimitiveType, AsArray, Int64Array, PrimitiveArray, RecordBatch, UInt32Array,
        new_null_array,
    },
    compute::{cast, concat, max, min, take},
    datatypes::{
        DataType, Int8Type, Int16Type, Int32Type, Int64Type, Schema, SchemaRef, UInt8Type, UInt16Type, UInt32Type,
    },
    row::{RowConverter, SortField},
};
use datafusion::{
    common::{
        Result as DfResult,
        tree_node::{Transformed, TreeNode, TreeNodeRecursion},
    },
    physical_expr::{PhysicalExpr, expressions::Column},
};
use hashbrown::HashMap;
use tidelake_format::{Error, Result, schema::field_id, tags::Aggregate};

use super::computed::is_bounded;
use crate::{
    budget,
    error::from_datafusion,
    scan::{Decoded, Origin, OutputColumn, Reading, SeriesScan},
};

/// The most integers between the bounds of the column.
const MOST_INTEGERS: u64 = 1 << 12;

/// A key of rows by the integers of a column.
#[derive(Debug)]
pub(super) struct RowKey {
    /// Index of the column among the data columns of the scan.
    at: usize,
    /// Over a batch of this column alone.
    expr: Arc<dyn PhysicalExpr>,
    schema: SchemaRef,
    /// Values of the key: by number, then that of a row without an integer.
    values: ArrayRef,
    /// The first integer that a manifest has.
    least: i64,
    /// Number of the key of each integer from `least` on.
    numbers: Vec<u32>,
}

impl RowKey {
    /// The key that an expression over the output of a scan makes; `None` if the expression reads other columns, may need more
    /// memory than its result, fails for an integer between the bounds, or if the bounds are far apart.
    ///
    /// # Errors
    /// DataFusion's and Arrow's.
    pub(super) fn new(expr: &Arc<dyn PhysicalExpr>, scan: &SeriesScan) -> DfResult<Option<Self>> {
        let mut of = None;
        let mut is_of_one = true;
        let over_column = expr.clone().transform_down(|e| {
            let Some(column) = e.downcast_ref::<Column>() else { return Ok(Transformed::no(e)) };
            let at = match scan.output().get(column.index()) {
                Some(OutputColumn::Data(at)) => Some(*at),
                _ => None,
            };
            is_of_one &= at.is_some() && of.is_none_or(|known| Some(known) == at);
            of = of.or(at);
            Ok(Transformed::new(Arc::new(Column::new(column.name(), 0)) as _, true, TreeNodeRecursion::Jump))
        })?;
        let Some(at) = of.filter(|_| is_of_one) else { return Ok(None) };
        let field = scan.columns().schema().fields()[at].clone();
        let schema: SchemaRef = Arc::new(Schema::new(vec![field.as_ref().clone().with_nullable(true)]));
        let expr = over_column.data;
        let is_small = matches!(field.data_type(), t if t.is_integer() && *t != DataType::UInt64);
        if !is_small || !is_bounded(&expr, &schema, true)? {
            return Ok(None);
        }
        let Some((least, most)) = bounds(scan.reading(), at, scan)? else { return Ok(None) };
        if most.abs_diff(least) >= MOST_INTEGERS {
            return Ok(None);
        }
        let integers: ArrayRef = Arc::new(Int64Array::from_iter_values(least..=most));
        let integers = cast(&integers, field.data_type())?;
        let null = new_null_array(field.data_type(), 1);
        let Ok(of_each) = evaluate(&expr, &schema, concat(&[integers.as_ref(), null.as_ref()])?) else {
            return Ok(None);
        };
        let (numbers, first) = number(&of_each)?;
        let values = take(&of_each, &first, None)?;
        Ok(Some(Self { at, expr, schema, values, least, numbers }))
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
fn bounds(reading: &Reading, at: usize, scan: &SeriesScan) -> DfResult<Option<(i64, i64)>> {
    let Some(id) = field_id(scan.columns().schema().field(at)) else { return Ok(None) };
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

fn evaluate(expr: &Arc<dyn PhysicalExpr>, schema: &SchemaRef, integers: ArrayRef) -> Result<ArrayRef> {
    let rows = integers.len();
    let batch = RecordBatch::try_new(schema.clone(), vec![integers])?;
    budget::as_execution(|| expr.evaluate(&batch)?.into_array(rows)).map_err(from_datafusion)
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
    /// Numbers of integers outside the bounds, which only rows that are in no file have. The keys of two of them may be equal, or
    /// equal one within the bounds: the final aggregation joins the groups.
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
        let values = column(rows, self.key.at)?;
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
        let others = evaluate(&key.expr, &key.schema, cast(&others, key.schema.field(0).data_type())?)?;
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

/// A column of decoded rows, without codes.
///
/// # Errors
/// Arrow's.
pub(super) fn column(rows: &Decoded, at: usize) -> Result<ArrayRef> {
    let values = rows.batch.column(at);
    Ok(match rows.dictionaries.get(at).and_then(Option::as_ref) {
        Some(dictionary) => take(dictionary, values, None)?,
        None => values.clone(),
    })
}
