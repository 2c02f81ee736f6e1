//! How long a function computes for one row, where that is more than in proportion to what it reads.

use arrow::{
    array::{Array, AsArray},
    datatypes::DataType,
};
use datafusion::{error::Result as DfResult, logical_expr::ColumnarValue};
use tidelake_format::Error;

use super::{pattern, size::bytes_of};
use crate::error::to_datafusion;

/// Steps between two looks at the deadline: a few milliseconds.
pub(super) const STEPS_PER_SLICE: u64 = 4 << 20;
/// The most steps of one row: nothing can stop it within.
const MOST_STEPS: u64 = 16 << 20;
/// The most bytes of a pattern. Compiling such a pattern takes about 10 ms and 10 MiB.
const MOST_PATTERN: u64 = 32 << 10;
/// The steps that it takes to compile one byte of a pattern, about.
const STEPS_TO_COMPILE: u64 = 64;

/// How the steps of a function depend on its arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Work {
    /// It holds each character or element of the first one against each of the second one.
    Product,
    /// The same, where the second one has a length of 1 if it is not there.
    ProductOrOne,
    /// It compiles the argument at this place as a regular expression.
    Pattern(usize),
}

impl Work {
    /// That of a function; `None` where it reads each argument about once.
    pub(super) fn of(name: &str) -> Option<Self> {
        match name {
            "levenshtein" | "array_has_all" | "array_has_any" => Some(Self::Product),
            "btrim" | "ltrim" | "rtrim" => Some(Self::ProductOrOne),
            "regexp_like" | "regexp_match" | "regexp_replace" | "regexp_count" | "regexp_instr" => {
                Some(Self::Pattern(1))
            }
            pattern::NAME => Some(Self::Pattern(0)),
            _ => None,
        }
    }

    /// The steps of each row.
    ///
    /// # Errors
    /// Invalid, naming the limit, when one row takes too many.
    pub(super) fn of_rows(self, name: &str, args: &[ColumnarValue], rows: usize) -> DfResult<Vec<u64>> {
        if let Self::Pattern(at) = self {
            return args.get(at).map_or(Ok(Vec::new()), |arg| of_patterns(name, arg));
        }
        let lengths = |at: usize| args.get(at).map(|arg| length_of_each(arg, rows)).transpose();
        let (Some(first), second) = (lengths(0)?, lengths(1)?) else { return Ok(Vec::new()) };
        let second = match (second, self) {
            (Some(second), _) => second,
            (None, Self::ProductOrOne) => vec![1; first.len()],
            (None, _) => return Ok(Vec::new()),
        };
        let of_row = |(first, second): (u64, u64)| {
            let steps = first.saturating_mul(second);
            if steps > MOST_STEPS {
                return Err(to_datafusion(
                    Error::invalid(format!(
                        "{name} would hold {first} bytes against {second} bytes, one by one; give it shorter values, as left() makes"
                    ))
                    .with("limit", format!("{MOST_STEPS} for the product of both lengths")),
                ));
            }
            Ok(steps)
        };
        first.into_iter().zip(second).map(of_row).collect()
    }
}

/// The steps of rows with patterns of their own; none where one pattern is for all of them.
fn of_patterns(name: &str, arg: &ColumnarValue) -> DfResult<Vec<u64>> {
    let name = if name == pattern::NAME { "LIKE, SIMILAR TO or ~" } else { name };
    let lengths = length_of_each(arg, 1)?;
    lengths.iter().try_for_each(|length| checked_pattern(name, *length))?;
    Ok(match arg {
        ColumnarValue::Array(_) => lengths.iter().map(|length| length.saturating_mul(STEPS_TO_COMPILE)).collect(),
        ColumnarValue::Scalar(_) => Vec::new(),
    })
}

/// # Errors
/// Invalid, naming the limit, when a pattern has too many bytes.
pub(super) fn checked_pattern(name: &str, length: u64) -> DfResult<()> {
    if length <= MOST_PATTERN {
        return Ok(());
    }
    let error =
        Error::invalid(format!("the pattern for {name} is too long; write several conditions with shorter patterns"))
            .with("limit", format!("{MOST_PATTERN} bytes"));
    Err(to_datafusion(error.with("found", format!("{length} bytes"))))
}

fn length_of_each(arg: &ColumnarValue, rows: usize) -> DfResult<Vec<u64>> {
    Ok(match arg {
        ColumnarValue::Scalar(value) => vec![length_of(value.to_array()?.as_ref(), 0); rows.max(1)],
        ColumnarValue::Array(array) => (0..array.len()).map(|row| length_of(array.as_ref(), row)).collect(),
    })
}

/// The bytes of a text or of the elements of a list.
fn length_of(array: &dyn Array, row: usize) -> u64 {
    if array.is_null(row) {
        return 0;
    }
    match array.data_type() {
        DataType::Utf8 => array.as_string::<i32>().value(row).len() as u64,
        DataType::LargeUtf8 => array.as_string::<i64>().value(row).len() as u64,
        DataType::Utf8View => array.as_string_view().value(row).len() as u64,
        _ => bytes_of(array, row, 1),
    }
}
