//! `sum` of integers that never wraps: it adds 128-bit numbers, and a result beyond its type is an error.
//!
//! Partial sums are DECIMAL(38, 0), so that only the total must fit: the result does not depend on the order of rows or
//! on how they are partitioned. Sums of other types are DataFusion's.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::Arc,
};

use arrow::{
    array::{Array, ArrayRef, AsArray, BooleanArray, Decimal128Array, Int64Array, UInt64Array},
    buffer::NullBuffer,
    datatypes::{DataType, Decimal128Type, Field, FieldRef, Int64Type, UInt64Type},
};
use datafusion::{
    common::{ScalarValue, exec_err},
    error::{DataFusionError, Result as DfResult},
    logical_expr::{
        Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, EmitTo, Expr, GroupsAccumulator, Operator,
        ReversedUDAF, SetMonotonicity, Signature,
        expr::AggregateFunction,
        function::{AccumulatorArgs, StateFieldsArgs},
        utils::{AggregateOrderSensitivity, format_state_name},
    },
};
use tidelake_format::Error;

use crate::error::to_datafusion;

/// Type of a partial sum.
pub(crate) const PARTIAL: DataType = DataType::Decimal128(38, 0);

/// Creates the function that replaces DataFusion's.
pub(super) fn function(inner: Arc<AggregateUDF>) -> AggregateUDF {
    AggregateUDF::from(Sum { inner })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Sum {
    inner: Arc<AggregateUDF>,
}

fn is_whole(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Int64 | DataType::UInt64)
}

impl AggregateUDFImpl for Sum {
    called_as_inner!();

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> DfResult<Box<dyn Accumulator>> {
        let output = args.return_field.data_type();
        if !is_whole(output) {
            return self.inner.accumulator(args);
        }
        let total = Total { output: output.clone(), name: args.name.to_owned() };
        if args.is_distinct {
            return Ok(Box::new(Distinct { total, rows: HashMap::new(), sum: 0 }));
        }
        Ok(Box::new(Exact { total, sum: 0, values: 0 }))
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> DfResult<Vec<FieldRef>> {
        if args.is_distinct || !is_whole(args.return_field.data_type()) {
            return self.inner.state_fields(args);
        }
        Ok(vec![Arc::new(Field::new(format_state_name(args.name, "sum"), PARTIAL, true))])
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        !args.is_distinct
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs<'_>) -> DfResult<Box<dyn GroupsAccumulator>> {
        let output = args.return_field.data_type();
        if !is_whole(output) {
            return self.inner.create_groups_accumulator(args);
        }
        let total = Total { output: output.clone(), name: args.name.to_owned() };
        Ok(Box::new(Groups { total, sums: Vec::new(), seen: Vec::new() }))
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs<'_>) -> DfResult<Box<dyn Accumulator>> {
        if is_whole(args.return_field.data_type()) {
            return self.accumulator(args);
        }
        self.inner.create_sliding_accumulator(args)
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }

    fn set_monotonicity(&self, data_type: &DataType) -> SetMonotonicity {
        self.inner.inner().set_monotonicity(data_type)
    }

    fn simplify_expr_op_literal(
        &self,
        function: &AggregateFunction,
        arg: &Expr,
        op: Operator,
        literal: &Expr,
        arg_is_left: bool,
    ) -> DfResult<Option<Expr>> {
        self.inner.inner().simplify_expr_op_literal(function, arg, op, literal, arg_is_left)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }
}

/// Converts sums to the result type.
#[derive(Debug, Clone)]
struct Total {
    output: DataType,
    name: String,
}

impl Total {
    fn beyond(&self) -> DataFusionError {
        to_datafusion(
            Error::invalid("sum is beyond the range of its type; cast the argument to DOUBLE or DECIMAL(38, 0)")
                .with("expression", &self.name)
                .with("type", &self.output),
        )
    }

    fn value(&self, sum: Option<i128>) -> DfResult<ScalarValue> {
        let Some(sum) = sum else { return ScalarValue::try_from(&self.output) };
        Ok(match self.output {
            DataType::UInt64 => ScalarValue::UInt64(Some(u64::try_from(sum).map_err(|_| self.beyond())?)),
            _ => ScalarValue::Int64(Some(i64::try_from(sum).map_err(|_| self.beyond())?)),
        })
    }

    fn values(&self, sums: Vec<i128>, seen: Vec<bool>) -> DfResult<ArrayRef> {
        let of = sums.into_iter().zip(&seen);
        let nulls = || Some(NullBuffer::from(seen.clone()));
        Ok(match self.output {
            DataType::UInt64 => {
                let values = of.map(|(sum, seen)| if *seen { u64::try_from(sum).ok() } else { Some(0) });
                let values: Vec<u64> = values.collect::<Option<_>>().ok_or_else(|| self.beyond())?;
                Arc::new(UInt64Array::new(values.into(), nulls()))
            }
            _ => {
                let values = of.map(|(sum, seen)| if *seen { i64::try_from(sum).ok() } else { Some(0) });
                let values: Vec<i64> = values.collect::<Option<_>>().ok_or_else(|| self.beyond())?;
                Arc::new(Int64Array::new(values.into(), nulls()))
            }
        })
    }
}

/// Exact sum of signed integers; adds small ones in chunks whose sum fits into 64 bits.
pub(crate) fn sum_of(values: &[i64]) -> i128 {
    const AT_ONCE: usize = 4_096;
    values.chunks(AT_ONCE).map(of_chunk).sum()
}

fn of_chunk(values: &[i64]) -> i128 {
    let (mut sum, mut bits) = (0_i64, 0_i64);
    for value in values {
        sum = sum.wrapping_add(*value);
        bits |= value ^ (value >> 63);
    }
    // 2^12 numbers below 2^50 fit.
    if bits < 1 << 50 { i128::from(sum) } else { values.iter().map(|v| i128::from(*v)).sum() }
}

/// Same as [`sum_of`], for unsigned integers.
pub(crate) fn sum_of_unsigned(values: &[u64]) -> i128 {
    const AT_ONCE: usize = 4_096;
    let of_chunk = |values: &[u64]| {
        let (mut sum, mut bits) = (0_u64, 0_u64);
        for value in values {
            sum = sum.wrapping_add(*value);
            bits |= value;
        }
        if bits < 1 << 50 { i128::from(sum) } else { values.iter().map(|v| i128::from(*v)).sum() }
    };
    values.chunks(AT_ONCE).map(of_chunk).sum()
}

/// Sum of the non-null values of a column.
fn sum_of_column(column: &ArrayRef) -> DfResult<i128> {
    let valid = |of: &dyn Fn(usize, usize) -> i128| match column.nulls().filter(|nulls| nulls.null_count() > 0) {
        None => of(0, column.len()),
        Some(nulls) => nulls.valid_slices().map(|(start, end)| of(start, end)).sum(),
    };
    Ok(match column.data_type() {
        DataType::Int64 => {
            let values = column.as_primitive::<Int64Type>().values();
            valid(&|start, end| sum_of(&values[start..end]))
        }
        DataType::UInt64 => {
            let values = column.as_primitive::<UInt64Type>().values();
            valid(&|start, end| sum_of_unsigned(&values[start..end]))
        }
        other => return exec_err!("sum adds BIGINT or BIGINT UNSIGNED here, found {other}"),
    })
}

/// Sum of one group.
#[derive(Debug)]
struct Exact {
    total: Total,
    sum: i128,
    /// Number of values.
    values: usize,
}

impl Accumulator for Exact {
    fn update_batch(&mut self, values: &[ArrayRef]) -> DfResult<()> {
        let [column] = values else { return exec_err!("sum takes one column") };
        self.sum += sum_of_column(column)?;
        self.values += column.len() - column.null_count();
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> DfResult<()> {
        let [column] = values else { return exec_err!("sum takes one column") };
        self.sum -= sum_of_column(column)?;
        self.values -= column.len() - column.null_count();
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> DfResult<()> {
        let [sums] = states else { return exec_err!("the state of sum is one column") };
        let sums = sums.as_primitive::<Decimal128Type>();
        self.sum += sums.iter().flatten().sum::<i128>();
        self.values += sums.len() - sums.null_count();
        Ok(())
    }

    fn state(&mut self) -> DfResult<Vec<ScalarValue>> {
        Ok(vec![ScalarValue::Decimal128((self.values > 0).then_some(self.sum), 38, 0)])
    }

    fn evaluate(&mut self) -> DfResult<ScalarValue> {
        self.total.value((self.values > 0).then_some(self.sum))
    }

    fn size(&self) -> usize {
        size_of::<Self>() + self.total.name.capacity()
    }
}

/// Sum of the distinct values of one group.
#[derive(Debug)]
struct Distinct {
    total: Total,
    /// Each value and its number of rows: a row that leaves a window removes the value only if it is the last row with
    /// it.
    rows: HashMap<i128, usize>,
    sum: i128,
}

impl Accumulator for Distinct {
    fn update_batch(&mut self, values: &[ArrayRef]) -> DfResult<()> {
        let [column] = values else { return exec_err!("sum takes one column") };
        for value in numbers(column)?.flatten() {
            let rows = self.rows.entry(value).or_default();
            if *rows == 0 {
                self.sum += value;
            }
            *rows += 1;
        }
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> DfResult<()> {
        let [column] = values else { return exec_err!("sum takes one column") };
        for value in numbers(column)?.flatten() {
            let Entry::Occupied(mut rows) = self.rows.entry(value) else {
                return exec_err!("value retracted from a window that does not contain it");
            };
            *rows.get_mut() -= 1;
            if *rows.get() == 0 {
                rows.remove();
                self.sum -= value;
            }
        }
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> DfResult<()> {
        let [lists] = states else { return exec_err!("the state of sum is one column") };
        lists.as_list::<i32>().iter().flatten().try_for_each(|values| self.update_batch(&[values]))
    }

    fn state(&mut self) -> DfResult<Vec<ScalarValue>> {
        let one = |value: &i128| self.total.value(Some(*value));
        let values: Vec<ScalarValue> = self.rows.keys().map(one).collect::<DfResult<_>>()?;
        Ok(vec![ScalarValue::List(ScalarValue::new_list_nullable(&values, &self.total.output))])
    }

    fn evaluate(&mut self) -> DfResult<ScalarValue> {
        self.total.value((!self.rows.is_empty()).then_some(self.sum))
    }

    fn size(&self) -> usize {
        size_of::<Self>() + self.total.name.capacity() + self.rows.capacity() * (size_of::<(i128, usize)>() + 1)
    }
}

/// Sums of many groups.
struct Groups {
    total: Total,
    sums: Vec<i128>,
    seen: Vec<bool>,
}

impl Groups {
    fn add(&mut self, values: impl Iterator<Item = Option<i128>>, groups: &[usize], filter: Option<&BooleanArray>) {
        let is_kept = |row: usize| filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row));
        for (row, (value, group)) in values.zip(groups).enumerate() {
            if let Some(value) = value.filter(|_| is_kept(row)) {
                self.sums[*group] += value;
                self.seen[*group] = true;
            }
        }
    }

    fn grow(&mut self, groups: usize) {
        self.sums.resize(groups, 0);
        self.seen.resize(groups, false);
    }

    fn partial(sums: Vec<i128>, seen: Vec<bool>) -> DfResult<ArrayRef> {
        let sums = Decimal128Array::new(sums.into(), Some(NullBuffer::from(seen)));
        Ok(Arc::new(sums.with_data_type(PARTIAL)))
    }
}

fn numbers(column: &ArrayRef) -> DfResult<Box<dyn Iterator<Item = Option<i128>> + '_>> {
    match column.data_type() {
        DataType::Int64 => Ok(Box::new(column.as_primitive::<Int64Type>().iter().map(|v| v.map(i128::from)))),
        DataType::UInt64 => Ok(Box::new(column.as_primitive::<UInt64Type>().iter().map(|v| v.map(i128::from)))),
        other => exec_err!("sum adds BIGINT or BIGINT UNSIGNED here, found {other}"),
    }
}

impl GroupsAccumulator for Groups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        all: usize,
    ) -> DfResult<()> {
        let [column] = values else { return exec_err!("sum takes one column") };
        self.grow(all);
        // Usually there are no nulls and no filter.
        match (column.null_count(), filter, column.data_type()) {
            (0, None, DataType::Int64) => {
                for (group, value) in groups.iter().zip(column.as_primitive::<Int64Type>().values()) {
                    self.sums[*group] += i128::from(*value);
                    self.seen[*group] = true;
                }
            }
            (0, None, DataType::UInt64) => {
                for (group, value) in groups.iter().zip(column.as_primitive::<UInt64Type>().values()) {
                    self.sums[*group] += i128::from(*value);
                    self.seen[*group] = true;
                }
            }
            _ => self.add(numbers(column)?, groups, filter),
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], all: usize) -> DfResult<()> {
        let [sums] = states else { return exec_err!("the state of sum is one column") };
        self.grow(all);
        self.add(sums.as_primitive::<Decimal128Type>().iter(), groups, None);
        Ok(())
    }

    fn evaluate(&mut self, emit: EmitTo) -> DfResult<ArrayRef> {
        let (sums, seen) = (emit.take_needed(&mut self.sums), emit.take_needed(&mut self.seen));
        self.total.values(sums, seen)
    }

    fn state(&mut self, emit: EmitTo) -> DfResult<Vec<ArrayRef>> {
        let (sums, seen) = (emit.take_needed(&mut self.sums), emit.take_needed(&mut self.seen));
        Ok(vec![Self::partial(sums, seen)?])
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> DfResult<Vec<ArrayRef>> {
        let [column] = values else { return exec_err!("sum takes one column") };
        let is_kept = |row: usize| filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row));
        let kept = numbers(column)?.enumerate().map(|(row, value)| value.filter(|_| is_kept(row)));
        let (sums, seen) = kept.map(|value| (value.unwrap_or(0), value.is_some())).unzip();
        Ok(vec![Self::partial(sums, seen)?])
    }

    fn size(&self) -> usize {
        self.sums.capacity() * size_of::<i128>() + self.seen.capacity() + self.total.name.capacity()
    }
}
