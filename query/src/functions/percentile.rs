//! `percentile_cont` and `median` of DOUBLE and FLOAT: exact, by counting the integers among the numbers ([`Values`]),
//! so that neither memory nor partial states grow with the rows of columns such as percentages. Other types and
//! DISTINCT are DataFusion's.

mod values;

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray, BooleanArray, Float64Array, LargeListArray, RecordBatch, UInt64Array},
    buffer::{NullBuffer, OffsetBuffer},
    compute::cast,
    datatypes::{DataType, Field, FieldRef, Float64Type, Schema, UInt64Type},
};
use datafusion::{
    common::{ScalarValue, exec_err, plan_err},
    error::Result as DfResult,
    logical_expr::{
        Accumulator, AggregateUDF, AggregateUDFImpl, ColumnarValue, Documentation, EmitTo, GroupsAccumulator,
        Signature,
        function::{AccumulatorArgs, AggregateFunctionSimplification, StateFieldsArgs},
        utils::format_state_name,
    },
};
use values::Values;

/// Functions that [`function`] replaces.
pub(super) const NAMES: [&str; 2] = ["percentile_cont", "median"];

/// Creates the function that replaces DataFusion's.
pub(super) fn function(inner: Arc<AggregateUDF>) -> AggregateUDF {
    AggregateUDF::from(Percentile { inner })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Percentile {
    inner: Arc<AggregateUDF>,
}

impl Percentile {
    fn is_ours(data_type: &DataType, is_distinct: bool) -> bool {
        !is_distinct && matches!(data_type, DataType::Float64 | DataType::Float32)
    }

    /// What is asked of the numbers; fails where DataFusion's function does.
    fn question(&self, args: &AccumulatorArgs<'_>) -> DfResult<Question> {
        self.inner.accumulator(args.clone())?;
        let is_single = args.return_field.data_type() == &DataType::Float32;
        let Some(share) = args.exprs.get(1) else { return Ok(Question { share: None, is_single }) };
        let none = RecordBatch::new_empty(Arc::new(Schema::empty()));
        let share = match share.evaluate(&none)? {
            ColumnarValue::Scalar(ScalarValue::Float64(Some(share))) => share,
            ColumnarValue::Scalar(ScalarValue::Float32(Some(share))) => f64::from(share),
            _ => return plan_err!("percentile_cont takes a constant between 0 and 1"),
        };
        let is_descending = args.order_bys.first().is_some_and(|order| order.options.descending);
        Ok(Question { share: Some(if is_descending { 1.0 - share } else { share }), is_single })
    }
}

impl AggregateUDFImpl for Percentile {
    called_as_inner!();

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> DfResult<Box<dyn Accumulator>> {
        if !Self::is_ours(args.return_field.data_type(), args.is_distinct) {
            return self.inner.accumulator(args);
        }
        Ok(Box::new(One { question: self.question(&args)?, values: Values::default() }))
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> DfResult<Vec<FieldRef>> {
        if !Self::is_ours(args.return_field.data_type(), args.is_distinct) {
            return self.inner.state_fields(args);
        }
        let list = |part, item| {
            let item = Arc::new(Field::new_list_field(item, true));
            Arc::new(Field::new(format_state_name(args.name, part), DataType::LargeList(item), true))
        };
        Ok(vec![
            list("numbers", DataType::Float64),
            list("counted", DataType::Float64),
            list("counts", DataType::UInt64),
        ])
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        Self::is_ours(args.return_field.data_type(), args.is_distinct) || self.inner.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs<'_>) -> DfResult<Box<dyn GroupsAccumulator>> {
        if !Self::is_ours(args.return_field.data_type(), args.is_distinct) {
            return self.inner.create_groups_accumulator(args);
        }
        Ok(Box::new(Groups { question: self.question(&args)?, groups: Vec::new() }))
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs<'_>) -> DfResult<Box<dyn Accumulator>> {
        if !Self::is_ours(args.return_field.data_type(), args.is_distinct) {
            return self.inner.create_sliding_accumulator(args);
        }
        self.accumulator(args)
    }

    fn simplify(&self) -> Option<AggregateFunctionSimplification> {
        self.inner.inner().simplify()
    }

    fn supports_within_group_clause(&self) -> bool {
        self.inner.supports_within_group_clause()
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }
}

/// What is asked of numbers.
#[derive(Debug, Clone, Copy)]
struct Question {
    /// Share of the numbers that are below the percentile; `None` for the median.
    share: Option<f64>,
    /// Whether the answer is a FLOAT.
    is_single: bool,
}

impl Question {
    fn answer(self, values: &mut Values) -> Option<f64> {
        let last = values.len().checked_sub(1)?;
        let Some(share) = self.share else {
            let (low, high) = values.at(last / 2);
            return Some(if last.is_multiple_of(2) { low } else { low.midpoint(high) });
        };
        let place = share * last as f64;
        let (low, high) = values.at(place as usize);
        let part = place.fract();
        Some(if part == 0.0 { low } else { low + (high - low) * part })
    }

    fn answers(self, answers: impl Iterator<Item = Option<f64>>) -> DfResult<ArrayRef> {
        let answers: ArrayRef = Arc::new(answers.collect::<Float64Array>());
        Ok(if self.is_single { cast(&answers, &DataType::Float32)? } else { answers })
    }
}

/// A column of FLOAT or DOUBLE as DOUBLE.
fn doubles(column: &ArrayRef) -> DfResult<Float64Array> {
    Ok(match column.data_type() {
        DataType::Float64 => column.as_primitive::<Float64Type>().clone(),
        _ => cast(column, &DataType::Float64)?.as_primitive::<Float64Type>().clone(),
    })
}

/// The rows of a column that are neither NULL nor filtered; `None` for all.
fn kept(column: &Float64Array, filter: Option<&BooleanArray>) -> Option<NullBuffer> {
    let passed = filter.map(|filter| match filter.nulls() {
        Some(nulls) => filter.values() & nulls.inner(),
        None => filter.values().clone(),
    });
    NullBuffer::union(column.nulls(), passed.map(NullBuffer::new).as_ref())
}

/// The columns of partial states, one row per multiset.
fn states(groups: &[Values]) -> DfResult<Vec<ArrayRef>> {
    let others: Vec<f64> = groups.iter().flat_map(|group| group.others()).copied().collect();
    let (numbers, counts) = groups.iter().flat_map(Values::counted).unzip();
    let lengths = groups.iter().map(|group| (group.others().len(), group.counted().count()));
    states_of(others, numbers, counts, lengths.unzip())
}

/// Same, from the items of the lists and their lengths: of those of other numbers, and of counted ones.
fn states_of(
    others: Vec<f64>,
    numbers: Vec<f64>,
    counts: Vec<u64>,
    (uncounted, counted): (Vec<usize>, Vec<usize>),
) -> DfResult<Vec<ArrayRef>> {
    let list = |lengths: &[usize], items: ArrayRef| {
        let item = Arc::new(Field::new_list_field(items.data_type().clone(), true));
        let offsets = OffsetBuffer::from_lengths(lengths.iter().copied());
        let list: ArrayRef = Arc::new(LargeListArray::try_new(item, offsets, items, None)?);
        Ok(list)
    };
    let others = list(&uncounted, Arc::new(Float64Array::from(others)));
    let numbers = list(&counted, Arc::new(Float64Array::from(numbers)));
    let counts = list(&counted, Arc::new(UInt64Array::from(counts)));
    [others, numbers, counts].into_iter().collect()
}

/// Adds partial states to the multisets; `of` returns that of a row.
fn merge(states: &[ArrayRef], groups: &mut [Values], of: impl Fn(usize) -> usize) -> DfResult<()> {
    let [others, numbers, counts] = states else { return exec_err!("the state of a percentile is three columns") };
    let (others, numbers, counts) = (others.as_list::<i64>(), numbers.as_list::<i64>(), counts.as_list::<i64>());
    for row in 0..others.len() {
        let group = &mut groups[of(row)];
        if others.is_valid(row) {
            group.extend(others.value(row).as_primitive::<Float64Type>().values());
        }
        if numbers.is_valid(row) {
            let (numbers, counts) = (numbers.value(row), counts.value(row));
            let pairs = numbers.as_primitive::<Float64Type>().values().iter();
            let pairs = pairs.zip(counts.as_primitive::<UInt64Type>().values());
            pairs.for_each(|(number, count)| group.add(*number, *count as usize));
        }
    }
    Ok(())
}

/// The numbers of one group.
#[derive(Debug)]
struct One {
    question: Question,
    values: Values,
}

impl Accumulator for One {
    fn update_batch(&mut self, values: &[ArrayRef]) -> DfResult<()> {
        let column = doubles(&values[0])?;
        match column.nulls().filter(|nulls| nulls.null_count() > 0) {
            None => self.values.extend(column.values()),
            Some(nulls) => {
                nulls.valid_slices().for_each(|(start, end)| self.values.extend(&column.values()[start..end]))
            }
        }
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> DfResult<()> {
        if doubles(&values[0])?.iter().flatten().all(|value| self.values.remove(value)) {
            return Ok(());
        }
        exec_err!("value retracted from a window that does not contain it")
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> DfResult<()> {
        merge(states, std::slice::from_mut(&mut self.values), |_| 0)
    }

    fn state(&mut self) -> DfResult<Vec<ScalarValue>> {
        states(std::slice::from_ref(&self.values))?.iter().map(|state| ScalarValue::try_from_array(state, 0)).collect()
    }

    fn evaluate(&mut self) -> DfResult<ScalarValue> {
        let answer = self.question.answer(&mut self.values);
        ScalarValue::try_from_array(&self.question.answers([answer].into_iter())?, 0)
    }

    fn size(&self) -> usize {
        size_of::<Self>() + self.values.bytes()
    }
}

/// The numbers of many groups.
struct Groups {
    question: Question,
    groups: Vec<Values>,
}

impl GroupsAccumulator for Groups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        all: usize,
    ) -> DfResult<()> {
        self.groups.resize(all, Values::default());
        let column = doubles(&values[0])?;
        let kept = kept(&column, filter);
        for (row, (value, group)) in column.values().iter().zip(groups).enumerate() {
            if kept.as_ref().is_none_or(|kept| kept.is_valid(row)) {
                self.groups[*group].extend(std::slice::from_ref(value));
            }
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], all: usize) -> DfResult<()> {
        self.groups.resize(all, Values::default());
        merge(states, &mut self.groups, |row| groups[row])
    }

    fn evaluate(&mut self, emit: EmitTo) -> DfResult<ArrayRef> {
        let mut groups = emit.take_needed(&mut self.groups);
        self.question.answers(groups.iter_mut().map(|values| self.question.answer(values)))
    }

    fn state(&mut self, emit: EmitTo) -> DfResult<Vec<ArrayRef>> {
        states(&emit.take_needed(&mut self.groups))
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> DfResult<Vec<ArrayRef>> {
        let column = doubles(&values[0])?;
        let kept = kept(&column, filter);
        let is_kept = |row: usize| kept.as_ref().is_none_or(|kept| kept.is_valid(row));
        let lengths: Vec<usize> = (0..column.len()).map(|row| usize::from(is_kept(row))).collect();
        let others = column.values().iter().zip(&lengths).filter(|(_, length)| **length > 0).map(|(value, _)| *value);
        states_of(others.collect(), Vec::new(), Vec::new(), (lengths.clone(), vec![0; lengths.len()]))
    }

    fn size(&self) -> usize {
        self.groups.iter().map(Values::bytes).sum::<usize>() + self.groups.capacity() * size_of::<Values>()
    }
}

#[cfg(test)]
mod tests {
    use arrow::{
        array::{Float32Array, Int64Array},
        datatypes::DataType,
    };
    use datafusion::{
        datasource::MemTable,
        execution::SessionStateBuilder,
        prelude::{SessionConfig, SessionContext},
    };
    use rand::{Rng, SeedableRng, rngs::StdRng};

    use super::*;

    /// Columns g (group), i (integers or NULL), f and d (integers, fractions or NULL).
    fn rows(rng: &mut StdRng, rows: usize) -> RecordBatch {
        let mut number = |fractions: f64| {
            rng.random_bool(0.95).then(|| {
                let integer = f64::from(rng.random_range(-40..60));
                if rng.random_bool(fractions) { integer + 0.25 } else { integer }
            })
        };
        let integers: Int64Array = (0..rows).map(|_| number(0.0).map(|v| v as i64)).collect();
        let singles: Float32Array = (0..rows).map(|_| number(0.3).map(|v| v as f32)).collect();
        let doubles: Float64Array = (0..rows).map(|_| number(0.01)).collect();
        let groups: Int64Array = (0..rows).map(|row| Some((row * row) as i64 % 7)).collect();
        let columns: [(&str, ArrayRef, bool); 5] = [
            ("n", Arc::new(Int64Array::from_iter_values(0..rows as i64)), false),
            ("g", Arc::new(groups), true),
            ("i", Arc::new(integers), true),
            ("f", Arc::new(singles), true),
            ("d", Arc::new(doubles), true),
        ];
        RecordBatch::try_from_iter_with_nullable(columns).unwrap()
    }

    async fn answers(ours: bool, batches: &[RecordBatch], sql: &str) -> Vec<Option<f64>> {
        let config = SessionConfig::new().with_target_partitions(3).with_batch_size(100);
        let builder = SessionStateBuilder::new().with_config(config).with_default_features();
        let builder = if ours { crate::functions::register(builder) } else { builder };
        let context = SessionContext::new_with_state(builder.build());
        let parts = batches.iter().map(|batch| vec![batch.clone()]).collect();
        context.register_table("t", Arc::new(MemTable::try_new(batches[0].schema(), parts).unwrap())).unwrap();
        let found = context.sql(sql).await.unwrap().collect().await.unwrap();
        let values = found.iter().flat_map(|batch| {
            let column = cast(batch.columns().last().unwrap(), &DataType::Float64).unwrap();
            column.as_primitive::<Float64Type>().iter().collect::<Vec<_>>()
        });
        values.collect()
    }

    #[tokio::test]
    async fn answers_are_those_of_the_functions_that_keep_every_row() {
        let mut rng = StdRng::seed_from_u64(7);
        for size in [0, 1, 50, 900] {
            let batches: Vec<_> = (0..4).map(|_| rows(&mut rng, size)).collect();
            for function in ["median(V)", "percentile_cont(0.95) within group (order by V)", "percentile_cont(V, 0.1)"]
            {
                for column in ["i", "f", "d"] {
                    let call = function.replace('V', column);
                    for sql in [
                        format!("select {call} from t"),
                        format!("select {call} filter (where n % 3 = 0) from t where d > 0"),
                        format!("select g, {call} from t group by g order by g"),
                        format!("select n, {call} filter (where d > 3) as p from t group by n order by n"),
                        format!(
                            "select g, n, i, f, d, {call} over (partition by g order by n, i, f, d rows between 20 \
                             preceding and 3 following) from t order by g, n, i, f, d"
                        ),
                    ] {
                        if sql.contains("over (") && sql.contains("within group") {
                            continue;
                        }
                        let (found, right) =
                            (answers(true, &batches, &sql).await, answers(false, &batches, &sql).await);
                        assert_eq!(found.len(), right.len(), "{sql}");
                        // DataFusion's interpolation has six digits.
                        let near = |(a, b): (&Option<f64>, &Option<f64>)| match (a, b) {
                            (Some(a), Some(b)) => (a - b).abs() < 1e-4,
                            (a, b) => a == b,
                        };
                        assert!(found.iter().zip(&right).all(near), "{sql}: {found:?}, {right:?}");
                    }
                }
            }
        }
    }
}
