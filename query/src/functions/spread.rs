//! `spread_between(min, max)`: the SQL front end rewrites `spread(x)` to it, so that only MIN and MAX are aggregated.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray, Float64Array},
    compute::cast,
    datatypes::{DataType, Float64Type, Int64Type, UInt64Type},
};
use datafusion::{
    common::{ScalarValue, plan_err},
    error::Result as DfResult,
    logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility},
};

pub(crate) const SPREAD_BETWEEN: &str = "spread_between";

/// Creates the function: numbers or timestamps (min, max) → max − min as DOUBLE, NULL if either is NULL. Integers are
/// subtracted exactly and then converted; the difference of timestamps is in ticks.
pub(crate) fn function() -> ScalarUDF {
    ScalarUDF::from(Spread { signature: Signature::user_defined(Volatility::Immutable) })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Spread {
    signature: Signature,
}

impl ScalarUDFImpl for Spread {
    fn name(&self) -> &str {
        SPREAD_BETWEEN
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> DfResult<Vec<DataType>> {
        let [low, high] = types else { return plan_err!("spread takes one argument") };
        if low != high || !(low.is_numeric() || matches!(low, DataType::Timestamp(..) | DataType::Null)) {
            return plan_err!("spread needs a column of numbers or a TIMESTAMP, found {low}");
        }
        Ok(types.to_vec())
    }

    fn return_type(&self, _: &[DataType]) -> DfResult<DataType> {
        Ok(DataType::Float64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        let scalar = args.args.iter().all(|a| matches!(a, ColumnarValue::Scalar(_)));
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let output: ArrayRef = Arc::new(between(&arrays[0], &arrays[1])?);
        Ok(match scalar {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&output, 0)?),
            false => ColumnarValue::Array(output),
        })
    }
}

fn between(low: &ArrayRef, high: &ArrayRef) -> DfResult<Float64Array> {
    let pairs = |f: &dyn Fn(usize) -> f64| {
        (0..low.len()).map(|i| (low.is_valid(i) && high.is_valid(i)).then(|| f(i))).collect::<Float64Array>()
    };
    if low.data_type().is_signed_integer() || matches!(low.data_type(), DataType::Timestamp(..)) {
        let (low, high) = (cast(low, &DataType::Int64)?, cast(high, &DataType::Int64)?);
        let (low, high) = (low.as_primitive::<Int64Type>(), high.as_primitive::<Int64Type>());
        return Ok(pairs(&|i| (i128::from(high.value(i)) - i128::from(low.value(i))) as f64));
    }
    if low.data_type().is_unsigned_integer() {
        let (low, high) = (cast(low, &DataType::UInt64)?, cast(high, &DataType::UInt64)?);
        let (low, high) = (low.as_primitive::<UInt64Type>(), high.as_primitive::<UInt64Type>());
        return Ok(pairs(&|i| (i128::from(high.value(i)) - i128::from(low.value(i))) as f64));
    }
    let (low, high) = (cast(low, &DataType::Float64)?, cast(high, &DataType::Float64)?);
    let (low, high) = (low.as_primitive::<Float64Type>(), high.as_primitive::<Float64Type>());
    Ok(pairs(&|i| high.value(i) - low.value(i)))
}

#[cfg(test)]
mod tests {
    use arrow::array::Int64Array;

    use super::*;

    #[test]
    fn the_spread_of_all_integers_does_not_overflow() {
        let low: ArrayRef = Arc::new(Int64Array::from(vec![Some(i64::MIN), Some(3), None]));
        let high: ArrayRef = Arc::new(Int64Array::from(vec![Some(i64::MAX), Some(10), Some(1)]));
        let spread = between(&low, &high).unwrap();
        assert_eq!(spread.iter().collect::<Vec<_>>(), [Some(u64::MAX as f64), Some(7.0), None]);
    }
}
