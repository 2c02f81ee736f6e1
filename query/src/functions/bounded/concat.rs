//! The operator `
//!
//! ` as a function, so that it is bounded like functions: NULL with anything is NULL.

use std::sync::{Arc, LazyLock};

use arrow::compute::kernels::concat_elements::concat_elements_dyn;
use arrow::{array::ArrayRef, compute::cast, datatypes::DataType};
use datafusion::{
    common::{ScalarValue, plan_err},
    error::Result as DfResult,
    logical_expr::{ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility},
};

use super::{bound, missing};

const NAME: &str = "||";

static FUNCTION: LazyLock<Arc<ScalarUDF>> =
    LazyLock::new(|| bound(Arc::new(ScalarUDF::from(Concat { signature: Signature::any(2, Volatility::Immutable) }))));

/// `left
///
/// right`, both of the same text or binary type.
pub(super) fn call(left: Expr, right: Expr) -> Expr {
    FUNCTION.call(vec![left, right])
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Concat {
    signature: Signature,
}

impl ScalarUDFImpl for Concat {
    fn name(&self) -> &str {
        NAME
    }

    fn schema_name(&self, args: &[Expr]) -> DfResult<String> {
        match args {
            [left, right] => Ok(format!("{} || {}", left.schema_name(), right.schema_name())),
            _ => plan_err!("|| takes two values, found {}", args.len()),
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> DfResult<DataType> {
        match types {
            [DataType::Null, other] | [other, DataType::Null] => Ok(other.clone()),
            [left, _] => Ok(left.clone()),
            _ => plan_err!("|| takes two values, found {}", types.len()),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        let [left, right] = args.args.as_slice() else { return Err(missing(NAME)) };
        let is_constant = matches!((left, right), (ColumnarValue::Scalar(_), ColumnarValue::Scalar(_)));
        let rows = if is_constant { 1 } else { args.number_rows };
        let column = |value: &ColumnarValue| -> DfResult<ArrayRef> {
            let array = value.to_array(rows)?;
            Ok(if array.data_type() == args.return_field.data_type() {
                array
            } else {
                cast(&array, args.return_field.data_type())?
            })
        };
        let joined = concat_elements_dyn(&column(left)?, &column(right)?)?;
        Ok(match is_constant {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&joined, 0)?),
            false => ColumnarValue::Array(joined),
        })
    }
}
