//! `first(value, ts)`, `last(value, ts)` and `last_row(value, ts)`; the SQL front end adds the argument `ts`.
//!
//! `first` and `last` return the non-NULL value at the smallest and largest time, `last_row` the value at the largest
//! time, NULL included. Of several values at that time (of several series) the greatest wins, floats by total order,
//! NULL below all: the result does not depend on the order of rows. The state is (value, ts); ts is NULL before the
//! first row.

use std::{cmp::Ordering, sync::Arc};

use arrow::{
    array::{Array, ArrayRef, AsArray, make_comparator},
    compute::{SortOptions, cast},
    datatypes::{DataType, Field, FieldRef, Int64Type},
};
use datafusion::{
    common::{ScalarValue, exec_err, plan_err},
    error::Result as DfResult,
    logical_expr::{
        Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility,
        function::{AccumulatorArgs, StateFieldsArgs},
    },
    physical_expr::aggregate::AggregateFunctionExpr,
};

/// Which value an aggregate keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Keep {
    /// The earliest non-NULL value.
    First,
    /// The latest non-NULL value.
    Last,
    /// The latest value, NULL or not.
    LastRow,
}

/// Names of the functions.
pub(crate) const NAMES: [&str; 3] = ["first", "last", "last_row"];

impl Keep {
    fn name(self) -> &'static str {
        match self {
            Keep::First => NAMES[0],
            Keep::Last => NAMES[1],
            Keep::LastRow => NAMES[2],
        }
    }
}

/// The function of a physical aggregate, if it is one of these; the aggregate's arguments are value and ts.
pub fn as_first_last(aggregate: &AggregateFunctionExpr) -> Option<Keep> {
    [Keep::First, Keep::Last, Keep::LastRow].into_iter().find(|keep| aggregate.fun().name() == keep.name())
}

pub(crate) fn functions() -> [AggregateUDF; 3] {
    [Keep::First, Keep::Last, Keep::LastRow]
        .map(|keep| AggregateUDF::from(FirstLast { keep, signature: Signature::user_defined(Volatility::Immutable) }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct FirstLast {
    keep: Keep,
    signature: Signature,
}

impl AggregateUDFImpl for FirstLast {
    fn name(&self) -> &str {
        self.keep.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> DfResult<Vec<DataType>> {
        match types {
            [_, DataType::Timestamp(..)] => Ok(types.to_vec()),
            [_, other] => plan_err!("{} needs a TIMESTAMP as its second argument, found {other}", self.name()),
            _ => plan_err!("{} takes a value and a TIMESTAMP, found {} arguments", self.name(), types.len()),
        }
    }

    fn return_type(&self, types: &[DataType]) -> DfResult<DataType> {
        Ok(types[0].clone())
    }

    fn accumulator(&self, args: AccumulatorArgs) -> DfResult<Box<dyn Accumulator>> {
        let time = args.expr_fields[1].data_type();
        Ok(Box::new(Extreme {
            keep: self.keep,
            value: ScalarValue::try_from(args.return_field.data_type())?,
            ts: None,
            time: time.clone(),
        }))
    }

    fn state_fields(&self, args: StateFieldsArgs) -> DfResult<Vec<FieldRef>> {
        Ok(vec![
            Arc::new(Field::new(format!("{}[value]", args.name), args.return_field.data_type().clone(), true)),
            Arc::new(Field::new(format!("{}[ts]", args.name), args.input_fields[1].data_type().clone(), true)),
        ])
    }
}

/// The value kept so far, and its time in ticks.
#[derive(Debug)]
struct Extreme {
    keep: Keep,
    value: ScalarValue,
    ts: Option<i64>,
    time: DataType,
}

impl Extreme {
    /// Compares two times: Greater if the first is preferred; on Equal the values decide.
    fn compare_time(&self, a: i64, b: i64) -> Ordering {
        match self.keep {
            Keep::First => b.cmp(&a),
            Keep::Last | Keep::LastRow => a.cmp(&b),
        }
    }

    /// Adds rows of (value, ts).
    fn take(&mut self, values: &ArrayRef, times: &ArrayRef) -> DfResult<()> {
        let times = cast(times, &DataType::Int64)?;
        let times = times.as_primitive::<Int64Type>();
        let nulls = SortOptions { descending: false, nulls_first: true };
        let by_value = make_comparator(values.as_ref(), values.as_ref(), nulls)?;
        let mut best: Option<usize> = None;
        for i in 0..times.len() {
            if times.is_null(i) || (self.keep != Keep::LastRow && values.is_null(i)) {
                continue;
            }
            let wins = best.is_none_or(|b| {
                self.compare_time(times.value(i), times.value(b)).then_with(|| by_value(i, b)) == Ordering::Greater
            });
            if wins {
                best = Some(i);
            }
        }
        let Some(best) = best else { return Ok(()) };
        let (ts, value) = (times.value(best), ScalarValue::try_from_array(values, best)?);
        let wins = self.ts.is_none_or(|old| {
            self.compare_time(ts, old).then_with(|| compare_values(&value, &self.value)) == Ordering::Greater
        });
        if wins {
            self.ts = Some(ts);
            self.value = value.compacted();
        }
        Ok(())
    }
}

fn compare_values(a: &ScalarValue, b: &ScalarValue) -> Ordering {
    match (a.is_null(), b.is_null()) {
        (true, true) => Ordering::Equal,
        (true, false) => Ordering::Less,
        (false, true) => Ordering::Greater,
        (false, false) => a.partial_cmp(b).unwrap_or(Ordering::Equal),
    }
}

impl Accumulator for Extreme {
    fn update_batch(&mut self, values: &[ArrayRef]) -> DfResult<()> {
        match values {
            [values, times] => self.take(values, times),
            _ => exec_err!("{} takes a value and a TIMESTAMP", self.keep.name()),
        }
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> DfResult<()> {
        self.update_batch(states)
    }

    fn state(&mut self) -> DfResult<Vec<ScalarValue>> {
        let ts = ScalarValue::Int64(self.ts).cast_to(&self.time)?;
        Ok(vec![self.value.clone(), ts])
    }

    fn evaluate(&mut self) -> DfResult<ScalarValue> {
        Ok(self.value.clone())
    }

    fn size(&self) -> usize {
        size_of::<Self>() + self.value.size() - size_of::<ScalarValue>()
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Float64Array, TimestampMillisecondArray};
    use rand::{Rng, SeedableRng, rngs::StdRng};

    use super::*;

    fn accumulator(keep: Keep) -> Extreme {
        Extreme {
            keep,
            value: ScalarValue::Float64(None),
            ts: None,
            time: DataType::Timestamp(arrow::datatypes::TimeUnit::Millisecond, None),
        }
    }

    fn arrays(rows: &[(Option<f64>, i64)]) -> [ArrayRef; 2] {
        [
            Arc::new(rows.iter().map(|r| r.0).collect::<Float64Array>()),
            Arc::new(TimestampMillisecondArray::from_iter_values(rows.iter().map(|r| r.1))),
        ]
    }

    /// The documented result, computed row by row.
    fn oracle(keep: Keep, rows: &[(Option<f64>, i64)]) -> Option<f64> {
        let rows = rows.iter().filter(|r| keep == Keep::LastRow || r.0.is_some());
        let best = rows.max_by(|a, b| {
            let time = if keep == Keep::First { b.1.cmp(&a.1) } else { a.1.cmp(&b.1) };
            let rank = |v: Option<f64>| v.map_or(f64::NEG_INFINITY, |v| v);
            time.then(rank(a.0).total_cmp(&rank(b.0)))
        });
        best.and_then(|r| r.0)
    }

    #[test]
    fn any_split_and_merge_gives_the_oracles_value() {
        let mut random = StdRng::seed_from_u64(3);
        for _ in 0..500 {
            let rows: Vec<_> = (0..random.random_range(0..30))
                .map(|_| (random.random_bool(0.7).then(|| random.random_range(0..9) as f64), random.random_range(0..8)))
                .collect();
            for keep in [Keep::First, Keep::Last, Keep::LastRow] {
                let split = random.random_range(0..=rows.len());
                let (mut a, mut b) = (accumulator(keep), accumulator(keep));
                a.update_batch(&arrays(&rows[..split])).unwrap();
                b.update_batch(&arrays(&rows[split..])).unwrap();
                let state: Vec<_> = b.state().unwrap().iter().map(|v| v.to_array().unwrap()).collect();
                a.merge_batch(&state).unwrap();
                assert_eq!(a.evaluate().unwrap(), ScalarValue::Float64(oracle(keep, &rows)), "{keep:?} {rows:?}");
            }
        }
    }
}
