//! Time windows: `window_start(ts, width, offset, zone)` and `window_end(…)`.
//!
//! `window_start('2019-07-16 04:01:40', '1m', '0a', 'UTC')` is the start of the minute. Width and offset are durations
//! ([`Duration`]), the zone is an IANA name; all three are literals. Windows of b, u, a, s, m and h are counted from
//! the epoch; windows of d and w start at midnight of the zone (weeks on Thursdays, whole weeks from 1970-01-01),
//! windows of n and y on the first of a month of the zone, counted from 1900-01. The offset moves every window forward.
//! The result has the type of `ts`: a window that begins before the type's first instant or ends after its last is
//! clipped to it. Instants outside the calendar (262 000 years) are an error.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, PrimitiveArray, PrimitiveBuilder},
    datatypes::{
        ArrowTimestampType, DataType, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType,
        TimestampNanosecondType, TimestampSecondType,
    },
};
use chrono_tz::Tz;
use datafusion::{
    common::{ScalarValue, cast::as_primitive_array, exec_err, plan_err},
    error::{DataFusionError, Result as DfResult},
    logical_expr::{
        ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
        sort_properties::{ExprProperties, SortProperties},
    },
    physical_expr::{
        PhysicalExpr, ScalarFunctionExpr,
        expressions::{Column, Literal},
    },
};

use tidelake_format::Error;
use tidelake_protocol::sql::Duration;

use super::grid::Grid;
use crate::error::to_datafusion;

/// Name of the function that returns the start of a window.
pub const WINDOW_START: &str = "window_start";
/// Name of the function that returns the end of a window, which is the start of the next.
pub const WINDOW_END: &str = "window_end";

/// Number of arguments after the instant: width, offset and zone.
const LITERALS: usize = 3;

/// Maximum number of windows that contain one row.
pub(crate) const MAX_OVERLAP: i64 = 1_000;

/// Time buckets of one length: window k is `[k·width + offset, (k+1)·width + offset)`, in ticks of the column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FixedBucket {
    /// The time column.
    pub column: Column,
    /// Length of a bucket in ticks of the column's unit, at least 1.
    pub width_ticks: i64,
    /// Start of window 0 in ticks, 0 ≤ offset < width.
    pub offset_ticks: i64,
}

impl FixedBucket {
    /// Start of the window that contains `ts`, in ticks; saturates at the ends of i64.
    pub fn start(&self, ts: i64) -> i64 {
        Grid::Fixed { width: self.width_ticks, offset: self.offset_ticks }.window(ts).map_or(ts, |(start, _)| start)
    }

    /// End of the window with a `start` returned by [`FixedBucket::start`]; `None` if it is beyond the last tick.
    pub fn end(&self, start: i64) -> Option<i64> {
        if start != i64::MIN {
            return start.checked_add(self.width_ticks);
        }
        // The window may begin before the first tick.
        let (start, width) = (i128::from(start), i128::from(self.width_ticks));
        let before = (start - i128::from(self.offset_ticks)).rem_euclid(width);
        i64::try_from(start - before + width).ok()
    }
}

/// Recognizes `window_start(column, …)`, `date_bin(interval, column[, origin])` and `date_trunc(unit, column)` of a column
/// without a time zone, if every bucket has the same length, a whole number of the column's ticks.
///
/// # Example
/// `window_start(ts@0, '1m', '0a', 'UTC')` over a millisecond column is `{ ts@0, 60000, 0 }`;
/// `window_start(ts@0, '1d', '0a', 'Europe/Berlin')` is `None`.
pub fn as_fixed_bucket(expr: &dyn PhysicalExpr) -> Option<FixedBucket> {
    let call = expr.downcast_ref::<ScalarFunctionExpr>()?;
    let literal = |i: usize| call.args().get(i)?.downcast_ref::<Literal>().map(Literal::value);
    let DataType::Timestamp(unit, _) = call.return_type() else { return None };
    match call.name() {
        WINDOW_START => {
            let column = call.args().first()?.downcast_ref::<Column>()?.clone();
            let text = |i: usize| literal(i)?.try_as_str().flatten();
            let Grid::Fixed { width, offset } = Grid::parse(text(1)?, text(2)?, text(3)?, *unit).ok()? else {
                return None;
            };
            Some(FixedBucket { column, width_ticks: width, offset_ticks: offset })
        }
        "date_bin" => {
            let column = call.args().get(1)?.downcast_ref::<Column>()?.clone();
            let ScalarValue::IntervalMonthDayNano(Some(step)) = literal(0)? else { return None };
            let tick = i128::from(nanoseconds(*unit));
            let width = i128::from(step.days) * 86_400_000_000_000 + i128::from(step.nanoseconds);
            let origin = match call.args().get(2) {
                None => 0,
                Some(_) => i128::from(instant(literal(2)?)?),
            };
            if step.months != 0 || width <= 0 || width % tick != 0 || origin % tick != 0 {
                return None;
            }
            let width = i64::try_from(width / tick).ok()?;
            let offset = i64::try_from((origin / tick).rem_euclid(i128::from(width))).ok()?;
            Some(FixedBucket { column, width_ticks: width, offset_ticks: offset })
        }
        "date_trunc" => {
            let column = call.args().get(1)?.downcast_ref::<Column>()?.clone();
            let granularity = literal(0)?.try_as_str().flatten()?.to_lowercase();
            let DataType::Timestamp(unit, None) = call.return_type() else { return None };
            let (width, offset) = truncated(&granularity)?;
            let tick = nanoseconds(*unit);
            (width % tick == 0).then(|| FixedBucket { column, width_ticks: width / tick, offset_ticks: offset / tick })
        }
        _ => None,
    }
}

/// Length in nanoseconds of what `date_trunc` truncates to, and the first start of one after the epoch; `None` for units of
/// different lengths.
fn truncated(granularity: &str) -> Option<(i64, i64)> {
    const SECOND: i64 = 1_000_000_000;
    const DAY: i64 = 86_400 * SECOND;
    Some(match granularity {
        "microsecond" => (1_000, 0),
        "millisecond" => (1_000_000, 0),
        "second" => (SECOND, 0),
        "minute" => (60 * SECOND, 0),
        "hour" => (3_600 * SECOND, 0),
        "day" => (DAY, 0),
        // Weeks begin on Mondays; 1970-01-01 was a Thursday.
        "week" => (7 * DAY, 4 * DAY),
        _ => return None,
    })
}

/// A timestamp literal in nanoseconds.
fn instant(value: &ScalarValue) -> Option<i64> {
    match value {
        ScalarValue::TimestampNanosecond(v, _) => *v,
        ScalarValue::TimestampMicrosecond(v, _) => v.and_then(|v| v.checked_mul(1_000)),
        ScalarValue::TimestampMillisecond(v, _) => v.and_then(|v| v.checked_mul(1_000_000)),
        ScalarValue::TimestampSecond(v, _) => v.and_then(|v| v.checked_mul(1_000_000_000)),
        _ => None,
    }
}

/// Length of a tick of an Arrow unit, in nanoseconds.
pub(crate) fn nanoseconds(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1_000_000_000,
        TimeUnit::Millisecond => 1_000_000,
        TimeUnit::Microsecond => 1_000,
        TimeUnit::Nanosecond => 1,
    }
}

/// The two functions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Gives {
    Start,
    End,
}

/// One of the window functions.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Window {
    gives: Gives,
    signature: Signature,
}

/// `window_start` and `window_end`.
pub(crate) fn window_functions() -> [ScalarUDF; 2] {
    [Gives::Start, Gives::End]
        .map(|gives| ScalarUDF::from(Window { gives, signature: Signature::user_defined(Volatility::Immutable) }))
}

impl ScalarUDFImpl for Window {
    fn name(&self) -> &str {
        match self.gives {
            Gives::Start => WINDOW_START,
            Gives::End => WINDOW_END,
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> DfResult<Vec<DataType>> {
        if types.len() != LITERALS + 1 {
            return plan_err!("{} takes {} arguments, found {}", self.name(), LITERALS + 1, types.len());
        }
        let time = match &types[0] {
            time @ DataType::Timestamp(..) => time.clone(),
            DataType::Null => DataType::Timestamp(TimeUnit::Millisecond, None),
            other => return plan_err!("{} needs a TIMESTAMP first, found {other}", self.name()),
        };
        Ok(std::iter::once(time).chain(std::iter::repeat_n(DataType::Utf8, LITERALS)).collect())
    }

    fn return_type(&self, types: &[DataType]) -> DfResult<DataType> {
        Ok(types[0].clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        let mut texts = Vec::with_capacity(LITERALS);
        for arg in &args.args[1..] {
            match arg {
                ColumnarValue::Scalar(value) => match value.try_as_str().flatten() {
                    Some(text) => texts.push(text.to_owned()),
                    None => return exec_err!("{} needs texts for width, offset and zone", self.name()),
                },
                ColumnarValue::Array(_) => {
                    return exec_err!("{} needs literals for width, offset and zone", self.name());
                }
            }
        }
        let rows = args.number_rows;
        let DataType::Timestamp(unit, zone) = args.args[0].data_type() else {
            return exec_err!("{} needs a TIMESTAMP first", self.name());
        };
        let input = args.args[0].to_array(if matches!(args.args[0], ColumnarValue::Scalar(_)) { 1 } else { rows })?;
        let output: ArrayRef = match unit {
            TimeUnit::Second => self.evaluate::<TimestampSecondType>(&input, &texts, unit, zone.clone()),
            TimeUnit::Millisecond => self.evaluate::<TimestampMillisecondType>(&input, &texts, unit, zone.clone()),
            TimeUnit::Microsecond => self.evaluate::<TimestampMicrosecondType>(&input, &texts, unit, zone.clone()),
            TimeUnit::Nanosecond => self.evaluate::<TimestampNanosecondType>(&input, &texts, unit, zone.clone()),
        }?;
        match &args.args[0] {
            ColumnarValue::Scalar(_) => Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&output, 0)?)),
            ColumnarValue::Array(_) => Ok(ColumnarValue::Array(output)),
        }
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> DfResult<SortProperties> {
        let literals = inputs.iter().skip(1).all(|p| p.sort_properties == SortProperties::Singleton);
        Ok(match inputs.first() {
            Some(time) if literals => time.sort_properties,
            _ => SortProperties::Unordered,
        })
    }
}

impl Window {
    fn evaluate<T: ArrowTimestampType>(
        &self,
        input: &ArrayRef,
        texts: &[String],
        unit: TimeUnit,
        zone: Option<Arc<str>>,
    ) -> DfResult<ArrayRef> {
        let input: &PrimitiveArray<T> = as_primitive_array(input)?;
        let grid = Grid::parse(&texts[0], &texts[1], &texts[2], unit).map_err(to_datafusion)?;
        let mut output = PrimitiveBuilder::<T>::with_capacity(input.len());
        let mut last = (0_i64, i64::MIN); // an empty window
        for i in 0..input.len() {
            let ts = input.value(i);
            if input.is_null(i) {
                output.append_null();
                continue;
            }
            if ts < last.0 || ts >= last.1 {
                last = grid.window(ts).ok_or_else(|| beyond(self.name(), ts, unit))?;
            }
            output.append_value(if self.gives == Gives::Start { last.0 } else { last.1 });
        }
        Ok(Arc::new(output.finish().with_timezone_opt(zone)))
    }
}

/// The error of an instant outside the calendar.
fn beyond(name: &str, ts: i64, unit: TimeUnit) -> DataFusionError {
    to_datafusion(
        Error::invalid(format!("{name}: instant is outside the calendar; exclude it in WHERE"))
            .with("found", format!("{ts} ticks of {} ns", nanoseconds(unit)))
            .with("expected", "a year from -262142 to 262141"),
    )
}

/// Checks the arguments of windows before execution.
///
/// # Errors
/// Invalid: a width of 0 ticks, an offset not shorter than the width, or a zone without a name.
pub(crate) fn check(width: Duration, offset: Duration, zone: Tz, unit: TimeUnit) -> tidelake_format::Result<Grid> {
    Grid::new(width, offset, zone, unit)
}

#[cfg(test)]
mod tests;
