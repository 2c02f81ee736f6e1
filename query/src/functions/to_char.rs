//! `to_char(time, pattern)`: DataFusion's function with chrono patterns (`%Y-%m-%d`), extended by the patterns of
//! TDengine, Oracle and PostgreSQL (`yyyy-mm-dd`). A pattern with a `%` is a chrono pattern.

mod pattern;

use std::{borrow::Cow, sync::Arc};

use arrow::{
    array::{Array, ArrayRef, AsArray, StringArray},
    compute::cast,
    datatypes::{DataType, FieldRef},
};
use datafusion::{
    common::ScalarValue,
    error::Result as DfResult,
    logical_expr::{
        ColumnarValue, Documentation, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    },
};

use crate::error::to_datafusion;

/// Creates the function that replaces DataFusion's.
pub(super) fn function(inner: Arc<ScalarUDF>) -> ScalarUDF {
    ScalarUDF::from(ToChar { inner })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct ToChar {
    inner: Arc<ScalarUDF>,
}

impl ScalarUDFImpl for ToChar {
    called_as_inner!();

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> DfResult<FieldRef> {
        self.inner.return_field_from_args(args)
    }

    fn coerce_types(&self, types: &[DataType]) -> DfResult<Vec<DataType>> {
        self.inner.coerce_types(types)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        if let Some(pattern) = args.args.get_mut(1) {
            *pattern = translated(pattern)?;
        }
        self.inner.invoke_with_args(args)
    }
}

fn of(text: &str) -> DfResult<Cow<'_, str>> {
    pattern::to_chrono(text).map_err(to_datafusion)
}

/// Translates patterns to chrono's, in the type in which they were given.
fn translated(patterns: &ColumnarValue) -> DfResult<ColumnarValue> {
    Ok(match patterns {
        ColumnarValue::Scalar(value) => match value.try_as_str() {
            Some(Some(text)) => {
                let text = ScalarValue::Utf8(Some(of(text)?.into_owned()));
                ColumnarValue::Scalar(text.cast_to(&value.data_type())?)
            }
            _ => patterns.clone(),
        },
        ColumnarValue::Array(array) => {
            let texts = cast(array, &DataType::Utf8)?;
            let texts = texts.as_string::<i32>().iter().map(|text| text.map(of).transpose());
            let texts: StringArray = texts.collect::<DfResult<_>>()?;
            let texts: ArrayRef = Arc::new(texts);
            ColumnarValue::Array(cast(&texts, array.data_type())?)
        }
    })
}
