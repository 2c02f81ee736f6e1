//! Upper bound of the bytes a function produces per row, from the lengths and numbers of its arguments.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray},
    compute::cast,
    datatypes::{ArrowNativeType, DataType, Int64Type, IntervalMonthDayNanoType, IntervalUnit, TimeUnit},
};
use datafusion::{common::ScalarValue, error::Result as DfResult, logical_expr::ColumnarValue};

use super::{missing, pattern, scalar_bytes};
use crate::sizes::bytes_of;

/// Bytes of a row independent of the arguments: an offset, a digest, a number as text.
const OWN_BYTES: u64 = 64;
/// Maximum length of a number or an instant in a list as text.
const NUMBER_TEXT: u64 = 40;
/// Up to this many repetitions or bytes, a small value stays small.
const FEW: i64 = 256;
/// In a list of texts, each text has an offset.
const USUAL: u64 = 4;
/// Maximum length of the text for one letter of a format.
const FORMATTED: u64 = 40;

/// How the bytes of a function's result depend on its arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Growth {
    /// At most this many times the bytes of all arguments.
    Linear(u64),
    /// A text (first) repeated a number (second) of times.
    Repeat,
    /// A text (first) padded to a number of characters (second).
    Pad,
    /// A text (first) with each occurrence of another (second) replaced by a third.
    Replace,
    /// A text (first) with each match of a pattern (second) replaced by a text (third).
    ReplaceMatches,
    /// The parts of a text (first) matched by the groups of a pattern (second).
    Captures,
    /// The texts after the first, joined by the first.
    JoinTexts,
    /// The elements of a list (first) as text, joined by another text (one of those that follow).
    JoinElements,
    /// A list (first) with each element replaced by another (third).
    ReplaceElements,
    /// An element (first) repeated a number (second) of times.
    Elements,
    /// A list (first) resized to a number (second) of elements, padded with an element (third).
    Resize,
    /// A list of all values of a range, by steps.
    Series,
    /// A value (first) formatted by a format (second).
    Format,
}

impl Growth {
    /// The growth of a function. An unlisted function is assumed linear in its arguments; a test calls every function
    /// of the registry to verify that.
    pub(super) fn of(name: &str) -> Self {
        match name {
            "repeat" => Self::Repeat,
            "lpad" | "rpad" => Self::Pad,
            "replace" => Self::Replace,
            "regexp_replace" => Self::ReplaceMatches,
            "regexp_match" => Self::Captures,
            "concat_ws" => Self::JoinTexts,
            "array_to_string" => Self::JoinElements,
            "array_replace" | "array_replace_n" | "array_replace_all" => Self::ReplaceElements,
            "array_repeat" => Self::Elements,
            "array_resize" => Self::Resize,
            "range" | "generate_series" => Self::Series,
            "to_char" | "date_format" => Self::Format,
            "md5" | "sha224" | "sha256" | "sha384" | "sha512" | "digest" | "to_hex" | "chr" | "uuid" | "version" => {
                Self::Linear(0)
            }
            "upper" | "lower" | "initcap" => Self::Linear(3),
            "encode" => Self::Linear(2),
            // An offset, or a view, per letter.
            "string_to_array" => Self::Linear(24),
            "decode"
            | "split_part"
            | "substr_index"
            | "concat"
            | "||"
            | "make_array"
            | "array_concat"
            | "array_append"
            | "array_prepend"
            | "overlay"
            | "substr"
            | "left"
            | "right"
            | "reverse"
            | "btrim"
            | "ltrim"
            | "rtrim"
            | "coalesce"
            | "nvl"
            | "nvl2"
            | "struct"
            | "named_struct"
            | "array_element"
            | "array_slice"
            | "get_field"
            | "nullif"
            | pattern::REGEX
            | pattern::LIKE
            | pattern::TEXT => Self::Linear(1),
            _ => Self::Linear(8),
        }
    }

    /// Approximate usual ratio of result to argument bytes.
    pub(super) fn usual(self) -> u64 {
        match self {
            Self::Linear(factor) => factor.clamp(1, USUAL),
            _ => 1,
        }
    }

    /// Whether a row's result may be large although its arguments are small; `constant` returns an argument that is a
    /// constant.
    pub(super) fn is_large<'a>(self, constant: impl Fn(usize) -> Option<&'a ScalarValue>) -> bool {
        let is_small_number = |value: &ScalarValue| {
            let number = value.cast_to(&DataType::Int64);
            matches!(number, Ok(ScalarValue::Int64(Some(number))) if number <= FEW)
        };
        let is_small = |value: &ScalarValue| scalar_bytes(value).is_ok_and(|bytes| bytes <= FEW as u64);
        match self {
            Self::Repeat | Self::Pad | Self::Elements | Self::Resize => !constant(1).is_some_and(is_small_number),
            Self::Replace | Self::ReplaceMatches => !constant(2).is_some_and(is_small),
            Self::JoinElements | Self::ReplaceElements | Self::Series => true,
            Self::Linear(_) | Self::Captures | Self::JoinTexts | Self::Format => false,
        }
    }

    /// Whether the bound is close to the actual size, so that the total of all rows may be rejected before computing.
    pub(super) fn is_exact(self) -> bool {
        matches!(self, Self::Repeat | Self::Pad | Self::Replace | Self::Elements | Self::Resize | Self::Series)
    }
}

/// The bound of each row of a batch.
pub(super) enum Sizes {
    Same(u64, usize),
    Each(Vec<u64>),
}

impl Sizes {
    pub(super) fn new(growth: Growth, args: &[ColumnarValue], rows: usize) -> DfResult<Self> {
        let args: Vec<Argument<'_>> = args.iter().map(Argument::new).collect::<DfResult<_>>()?;
        let is_constant = args.iter().all(|arg| matches!(arg, Argument::One { .. }));
        if is_constant {
            return Ok(Self::Same(growth.row(&args, 0)?, rows));
        }
        // Usually all rows are small: then no sizes per row are needed.
        if let Growth::Linear(factor) = growth {
            let all = args.iter().map(|arg| arg.all(rows)).fold(0, u64::saturating_add);
            if all.saturating_mul(factor) <= super::SLICE_BYTES {
                let each = all.saturating_mul(factor) / rows.max(1) as u64;
                return Ok(Self::Same(each, rows));
            }
        }
        (0..rows).map(|row| growth.row(&args, row)).collect::<DfResult<_>>().map(Self::Each)
    }

    pub(super) fn of(&self, row: usize) -> u64 {
        match self {
            Self::Same(bytes, _) => *bytes,
            Self::Each(rows) => rows.get(row).copied().unwrap_or(0),
        }
    }

    pub(super) fn largest(&self) -> u64 {
        match self {
            Self::Same(bytes, _) => *bytes,
            Self::Each(rows) => rows.iter().copied().max().unwrap_or(0),
        }
    }

    pub(super) fn total(&self) -> u64 {
        match self {
            Self::Same(bytes, rows) => bytes.saturating_mul(*rows as u64),
            Self::Each(rows) => rows.iter().copied().fold(0, u64::saturating_add),
        }
    }
}

impl Growth {
    fn row(self, args: &[Argument<'_>], row: usize) -> DfResult<u64> {
        let arg = |at: usize| args.get(at).ok_or_else(|| missing("a function"));
        let bytes = |at: usize| arg(at).map(|arg| arg.bytes(row));
        let or_none = |at: usize| args.get(at).map_or(0, |arg| arg.bytes(row));
        let all = || args.iter().map(|arg| arg.bytes(row)).fold(0, u64::saturating_add);
        Ok(match self {
            Self::Linear(factor) => all().saturating_mul(factor).saturating_add(OWN_BYTES),
            Self::Repeat => {
                let length = arg(0)?.text(row).map_or(0, str::len) as u64;
                length.saturating_mul(arg(1)?.count(row)?)
            }
            Self::Pad => {
                let is_ascii = args.get(2).is_none_or(|fill| fill.is_ascii(row));
                let width = if is_ascii { 1 } else { 4 };
                arg(1)?.count(row)?.saturating_mul(width).max(bytes(0)?)
            }
            Self::Replace => {
                let (text, from, to) = (bytes(0)?, bytes(1)?, bytes(2)?);
                text.saturating_add(text.checked_div(from).unwrap_or(0).saturating_mul(to))
            }
            Self::ReplaceMatches => {
                let (text, to) = (bytes(0)?, bytes(2)?);
                let matches = if args.get(3).is_some_and(|flags| flags.contains(row, 'g')) { text + 1 } else { 1 };
                let references = if arg(2)?.contains(row, '\\') || arg(2)?.contains(row, '$') { to / 2 } else { 0 };
                let made = matches.saturating_mul(to).saturating_add(references.saturating_mul(text));
                text.saturating_add(made)
            }
            Self::Captures => bytes(0)?.saturating_mul(bytes(1)? / 2 + 1).saturating_add(OWN_BYTES),
            Self::JoinTexts => {
                let between = or_none(0).saturating_mul(args.len().saturating_sub(2) as u64);
                all().saturating_add(between)
            }
            Self::JoinElements => {
                let between = (1..args.len()).map(or_none).fold(0, u64::saturating_add);
                let elements = arg(0)?.elements(row);
                let each = between.saturating_add(NUMBER_TEXT);
                bytes(0)?.saturating_add(elements.saturating_mul(each))
            }
            Self::ReplaceElements => bytes(0)?.saturating_add(arg(0)?.elements(row).saturating_mul(or_none(2).max(1))),
            Self::Elements => {
                bytes(0)?.saturating_add(16).saturating_mul(arg(1)?.count(row)?).saturating_add(OWN_BYTES)
            }
            Self::Resize => {
                let each = or_none(2).max(16);
                bytes(0)?.saturating_add(each.saturating_mul(arg(1)?.count(row)?))
            }
            Self::Series => match args {
                [end] => end.count(row)?.saturating_mul(8),
                [start, end, rest @ ..] => {
                    let step = match rest.first() {
                        Some(step) => step.number(row)?.unsigned_abs().max(1),
                        None => 1,
                    };
                    (end.number(row)?.abs_diff(start.number(row)?) / step).saturating_mul(8)
                }
                [] => 0,
            },
            Self::Format => or_none(1).saturating_mul(FORMATTED).saturating_add(all()).saturating_add(OWN_BYTES),
        })
    }
}

enum Argument<'a> {
    /// The same value for all rows.
    One { value: ArrayRef, bytes: u64 },
    /// One value per row.
    Each(&'a ArrayRef, std::sync::OnceLock<Option<ArrayRef>>),
}

impl<'a> Argument<'a> {
    fn new(arg: &'a ColumnarValue) -> DfResult<Self> {
        Ok(match arg {
            ColumnarValue::Array(array) => Self::Each(array, std::sync::OnceLock::new()),
            ColumnarValue::Scalar(value) => Self::One { bytes: scalar_bytes(value)?, value: value.to_array()? },
        })
    }

    fn at(&self, row: usize) -> (&ArrayRef, usize) {
        match self {
            Self::One { value, .. } => (value, 0),
            Self::Each(array, _) => (array, row),
        }
    }

    fn bytes(&self, row: usize) -> u64 {
        match self {
            Self::One { bytes, .. } => *bytes,
            Self::Each(array, _) => bytes_of(array.as_ref(), row, 1),
        }
    }

    fn all(&self, rows: usize) -> u64 {
        match self {
            Self::One { bytes, .. } => bytes.saturating_mul(rows as u64),
            Self::Each(array, _) => bytes_of(array.as_ref(), 0, array.len()),
        }
    }

    /// Number of elements of a list, nested lists counted by their elements.
    fn elements(&self, row: usize) -> u64 {
        let (array, row) = self.at(row);
        elements_of(array.as_ref(), row)
    }

    fn text(&self, row: usize) -> Option<&str> {
        let (array, row) = self.at(row);
        if array.is_null(row) {
            return None;
        }
        match array.data_type() {
            DataType::Utf8 => Some(array.as_string::<i32>().value(row)),
            DataType::LargeUtf8 => Some(array.as_string::<i64>().value(row)),
            DataType::Utf8View => Some(array.as_string_view().value(row)),
            _ => None,
        }
    }

    fn contains(&self, row: usize, letter: char) -> bool {
        self.text(row).is_some_and(|text| text.contains(letter))
    }

    fn is_ascii(&self, row: usize) -> bool {
        self.text(row).is_none_or(str::is_ascii)
    }

    fn count(&self, row: usize) -> DfResult<u64> {
        Ok(u64::try_from(self.number(row)?).unwrap_or(0))
    }

    /// A number, or a time or an interval in nanoseconds, a month at its shortest.
    fn number(&self, row: usize) -> DfResult<i64> {
        let (numbers, row) = match self {
            Self::One { value, .. } => (numbers(value)?, 0),
            Self::Each(array, known) => {
                if known.get().is_none() {
                    let _ = known.set(Some(numbers(array)?));
                }
                match known.get().and_then(Option::as_ref) {
                    Some(numbers) => (numbers.clone(), row),
                    None => return Ok(0),
                }
            }
        };
        let values = numbers.as_primitive::<Int64Type>();
        Ok(if values.is_null(row) { 0 } else { values.value(row) })
    }
}

fn numbers(array: &ArrayRef) -> DfResult<ArrayRef> {
    Ok(match array.data_type() {
        DataType::Interval(IntervalUnit::MonthDayNano) => {
            const DAY: i64 = 86_400_000_000_000;
            let steps = array.as_primitive::<IntervalMonthDayNanoType>();
            let days = |months: i32, days: i32| i64::from(months) * 28 + i64::from(days);
            let ns = |days: i64, ns: i64| days.saturating_mul(DAY).saturating_add(ns);
            Arc::new(steps.unary::<_, Int64Type>(|step| ns(days(step.months, step.days), step.nanoseconds)))
        }
        DataType::Date32 | DataType::Date64 | DataType::Timestamp(..) => {
            cast(&cast(array, &DataType::Timestamp(TimeUnit::Nanosecond, None))?, &DataType::Int64)?
        }
        _ => cast(array, &DataType::Int64)?,
    })
}

fn elements_of(array: &dyn Array, row: usize) -> u64 {
    let within = |values: &ArrayRef, from: usize, to: usize| match values.data_type() {
        DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..) => {
            (from..to).map(|at| elements_of(values.as_ref(), at)).sum()
        }
        _ => (to - from) as u64,
    };
    match array.data_type() {
        DataType::List(_) => {
            let list = array.as_list::<i32>();
            let offsets = list.value_offsets();
            within(list.values(), offsets[row].as_usize(), offsets[row + 1].as_usize())
        }
        DataType::LargeList(_) => {
            let list = array.as_list::<i64>();
            let offsets = list.value_offsets();
            within(list.values(), offsets[row].as_usize(), offsets[row + 1].as_usize())
        }
        DataType::FixedSizeList(_, each) => {
            let each = each.as_usize();
            within(array.as_fixed_size_list().values(), row * each, (row + 1) * each)
        }
        _ => 1,
    }
}
