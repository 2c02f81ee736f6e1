//! Bounds the computing time of functions whose time per row is more than proportional to their input.

use arrow::{
    array::{Array, AsArray},
    datatypes::DataType,
};
use datafusion::{
    error::{DataFusionError, Result as DfResult},
    logical_expr::ColumnarValue,
};
use regex_syntax::hir::{Hir, HirKind};
use tidelake_format::Error;

use super::pattern;
use crate::{error::to_datafusion, sizes::bytes_of};

/// Steps between two deadline checks: a few milliseconds.
pub(super) const STEPS_PER_SLICE: u64 = 4 << 20;
/// Maximum steps of one row, which cannot be interrupted.
const MOST_STEPS: u64 = 16 << 20;
/// Maximum bytes of a pattern. Compiling a pattern of this size takes about 10 ms and 10 MiB.
const MOST_PATTERN: u64 = 32 << 10;
/// Maximum positions of a pattern with counted repetitions: `a{20}` has 20 positions.
const MOST_PLACES: u64 = 4_096;
/// Approximate steps to compile one position of a pattern.
const STEPS_TO_COMPILE: u64 = 64;
/// Maximum comparisons of one row: a search may compare each byte of a text with each position of the pattern. This
/// many take a second or two, without interruption.
const MOST_COMPARED: u64 = 1 << 28;
/// Comparisons that take as long as one step of other work.
const COMPARED_PER_STEP: u64 = 16;
/// Approximate memory of the automaton that a search builds, per byte of text.
const AUTOMATON_PER_BYTE: u64 = 256;
/// Maximum memory of one automaton: 2 MiB per direction. A call keeps the automata of all patterns of its rows.
const MOST_AUTOMATON: u64 = 4 << 20;
/// Maximum automaton bytes per step of a slice: 32 MiB for a slice of rows.
const AUTOMATON_PER_STEP: u64 = 8;

/// How the steps of a function depend on its arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Work {
    /// Compares each character or element of the first argument with each of the second.
    Product,
    /// Same as `Product`; a missing second argument has length 1.
    ProductOrOne,
    /// Compiles the argument at this index as a regular expression, and searches the first argument for it.
    Pattern(usize),
    /// Its only argument is a LIKE pattern.
    LikePattern,
}

impl Work {
    /// The work of a function; `None` if it reads each argument about once.
    pub(super) fn of(name: &str) -> Option<Self> {
        match name {
            "levenshtein" | "array_has_all" | "array_has_any" => Some(Self::Product),
            "btrim" | "ltrim" | "rtrim" => Some(Self::ProductOrOne),
            "regexp_like" | "regexp_match" | "regexp_replace" | "regexp_count" | "regexp_instr" => {
                Some(Self::Pattern(1))
            }
            pattern::REGEX => Some(Self::Pattern(0)),
            pattern::TEXT => Some(Self::Pattern(1)),
            pattern::LIKE => Some(Self::LikePattern),
            _ => None,
        }
    }

    /// Steps of each row.
    ///
    /// # Errors
    /// Invalid, naming the limit, if one row takes too many steps.
    pub(super) fn of_rows(self, name: &str, args: &[ColumnarValue], rows: usize) -> DfResult<Vec<u64>> {
        if self == Self::LikePattern {
            let lengths = args.first().map(|arg| length_of_each(arg, 1)).transpose()?.unwrap_or_default();
            lengths.iter().try_for_each(|length| checked_length("LIKE", *length))?;
            let is_constant = matches!(args, [ColumnarValue::Scalar(_)]);
            let compiled = lengths.iter().map(|length| length.saturating_mul(STEPS_TO_COMPILE));
            return Ok(if is_constant { Vec::new() } else { compiled.collect() });
        }
        if let Self::Pattern(at) = self {
            let text = if at > 0 { args.first() } else { None };
            return args.get(at).map_or(Ok(Vec::new()), |pattern| of_patterns(name, text, pattern, rows));
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
                        "{name} would compare each of {first} bytes with each of {second} bytes; shorten them, e.g. with left()"
                    ))
                    .with("limit", format!("{MOST_STEPS} for the product of both lengths")),
                ));
            }
            Ok(steps)
        };
        first.into_iter().zip(second).map(of_row).collect()
    }
}

/// Steps of each row: compiling its pattern and searching.
fn of_patterns(name: &str, text: Option<&ColumnarValue>, pattern: &ColumnarValue, rows: usize) -> DfResult<Vec<u64>> {
    let name = if [pattern::REGEX, pattern::TEXT].contains(&name) { "SIMILAR TO or ~" } else { name };
    let places: Vec<u64> = match pattern {
        ColumnarValue::Scalar(value) => vec![places_of(name, value.to_array()?.as_ref(), 0)?],
        ColumnarValue::Array(array) => {
            (0..array.len()).map(|row| places_of(name, array.as_ref(), row)).collect::<DfResult<_>>()?
        }
    };
    let is_constant = matches!(pattern, ColumnarValue::Scalar(_));
    let Some(text) = text else {
        let compiled = |places: &u64| places.saturating_mul(STEPS_TO_COMPILE);
        return Ok(if is_constant { Vec::new() } else { places.iter().map(compiled).collect() });
    };
    let of_row = |(row, length): (usize, u64)| {
        let places = places.get(if is_constant { 0 } else { row }).copied().unwrap_or(0);
        let compared = length.saturating_mul(places);
        if compared > MOST_COMPARED {
            return Err(to_datafusion(
                Error::invalid(format!(
                    "{name} would compare {length} bytes with {places} positions of a pattern; give it a shorter text or pattern"
                ))
                .with("limit", format!("{MOST_COMPARED} bytes times positions")),
            ));
        }
        let searched = compared / COMPARED_PER_STEP;
        if is_constant {
            return Ok(searched);
        }
        let automaton = length.saturating_mul(AUTOMATON_PER_BYTE).min(MOST_AUTOMATON);
        Ok(places.saturating_mul(STEPS_TO_COMPILE).saturating_add(searched).max(automaton / AUTOMATON_PER_STEP))
    };
    length_of_each(text, rows)?.into_iter().enumerate().map(of_row).collect()
}

/// Positions of the pattern in a row: characters and character classes, multiplied by counted repetitions.
fn places_of(name: &str, array: &dyn Array, row: usize) -> DfResult<u64> {
    let length = length_of(array, row);
    if length == 0 {
        return Ok(0);
    }
    match array.data_type() {
        DataType::Utf8 => checked_pattern(name, array.as_string::<i32>().value(row)),
        DataType::LargeUtf8 => checked_pattern(name, array.as_string::<i64>().value(row)),
        DataType::Utf8View => checked_pattern(name, array.as_string_view().value(row)),
        _ => Ok(length),
    }
}

/// Positions of a pattern.
///
/// # Errors
/// Invalid, naming the limit, if the pattern has too many bytes or positions.
pub(super) fn checked_pattern(name: &str, pattern: &str) -> DfResult<u64> {
    let length = pattern.len() as u64;
    checked_length(name, length)?;
    if !pattern.contains('{') {
        return Ok(length);
    }
    // An invalid pattern is reported when it is compiled.
    let places = regex_syntax::parse(pattern).map_or(length, |parsed| places(&parsed));
    if places > MOST_PLACES {
        return Err(too_long(name, MOST_PLACES, places, "bytes with every repetition written out"));
    }
    Ok(places)
}

/// # Errors
/// Invalid, naming the limit, if the pattern has too many bytes.
pub(super) fn checked_length(name: &str, length: u64) -> DfResult<()> {
    if length <= MOST_PATTERN { Ok(()) } else { Err(too_long(name, MOST_PATTERN, length, "bytes")) }
}

fn too_long(name: &str, limit: u64, found: u64, unit: &str) -> DataFusionError {
    let error =
        Error::invalid(format!("the pattern for {name} is too long; write several conditions with shorter patterns"));
    to_datafusion(error.with("limit", format!("{limit} {unit}")).with("found", format!("{found} {unit}")))
}

fn places(part: &Hir) -> u64 {
    match part.kind() {
        HirKind::Empty | HirKind::Look(_) => 0,
        HirKind::Literal(literal) => literal.0.len() as u64,
        HirKind::Class(_) => 1,
        HirKind::Repetition(repetition) => {
            let times = repetition.max.unwrap_or(repetition.min.saturating_add(1)).max(1);
            places(&repetition.sub).saturating_mul(u64::from(times))
        }
        HirKind::Capture(capture) => places(&capture.sub),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => parts.iter().map(places).fold(0, u64::saturating_add),
    }
}

fn length_of_each(arg: &ColumnarValue, rows: usize) -> DfResult<Vec<u64>> {
    Ok(match arg {
        ColumnarValue::Scalar(value) => vec![length_of(value.to_array()?.as_ref(), 0); rows.max(1)],
        ColumnarValue::Array(array) => (0..array.len()).map(|row| length_of(array.as_ref(), row)).collect(),
    })
}

/// Bytes of a text or of the elements of a list.
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::Arc;

    use arrow::array::{ArrayRef, StringArray};
    use datafusion::common::ScalarValue;

    use super::*;

    #[test]
    fn slices_hold_few_long_texts_if_each_row_has_its_own_pattern() {
        let texts: ArrayRef = Arc::new(StringArray::from(vec!["x".repeat(100_000); 20]));
        let short: ArrayRef = Arc::new(StringArray::from(vec!["text 17"; 20]));
        let patterns: ArrayRef = Arc::new(StringArray::from_iter_values((0..20).map(|n| format!("t{n}"))));
        let most = |text: &ArrayRef, pattern: ColumnarValue| {
            let steps = Work::Pattern(1).of_rows("regexp_like", &[ColumnarValue::Array(text.clone()), pattern], 20);
            STEPS_PER_SLICE / steps.unwrap().into_iter().max().unwrap().max(1)
        };
        // 8 rows × 4 MiB = 32 MiB.
        assert_eq!(most(&texts, ColumnarValue::Array(patterns.clone())), 8);
        assert!(most(&short, ColumnarValue::Array(patterns)) > 8_192);
        assert!(most(&texts, ColumnarValue::Scalar(ScalarValue::from("t1"))) > 100);
    }
}
