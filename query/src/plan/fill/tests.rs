//! Compares the physical node over random groups with a computation one window at a time.

#![allow(clippy::unwrap_used)]

use std::{collections::BTreeMap, sync::Arc};

use arrow::{
    array::{ArrayRef, AsArray, Float64Array, Int64Array, RecordBatch, StringArray, TimestampMillisecondArray},
    datatypes::{Float64Type, Int64Type, TimeUnit, TimestampMillisecondType},
};
use chrono_tz::Tz;
use datafusion::{
    common::ScalarValue,
    datasource::memory::MemorySourceConfig,
    logical_expr::{Expr, lit},
    physical_expr::expressions::Literal,
    physical_plan::collect,
    prelude::{SessionConfig, SessionContext},
};
use rand::{Rng as _, SeedableRng, rngs::StdRng};
use tidelake_protocol::sql::Duration;

use super::{
    Fill, FillMode,
    exec::{FillGapsExec, Shared},
    group::Group,
    range::{Bound, Range, Side},
};
use crate::plan::Windows;

/// key → start → (integer, float, text)
type Rows = BTreeMap<Option<String>, BTreeMap<i64, (Option<i64>, Option<f64>, Option<String>)>>;

fn batch(rows: &Rows, keyed: bool) -> RecordBatch {
    let flat: Vec<_> = rows.iter().flat_map(|(key, of)| of.iter().map(move |(start, v)| (key, start, v))).collect();
    let mut columns: Vec<(&str, ArrayRef)> = Vec::new();
    if keyed {
        columns.push(("key", Arc::new(flat.iter().map(|(key, ..)| key.as_deref()).collect::<StringArray>())));
    }
    let starts = TimestampMillisecondArray::from_iter_values(flat.iter().map(|(_, start, _)| **start));
    columns.push(("start", Arc::new(starts)));
    columns.push(("whole", Arc::new(flat.iter().map(|(.., v)| v.0).collect::<Int64Array>())));
    columns.push(("float", Arc::new(flat.iter().map(|(.., v)| v.1).collect::<Float64Array>())));
    columns.push(("text", Arc::new(flat.iter().map(|(.., v)| v.2.as_deref()).collect::<StringArray>())));
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true))).unwrap()
}

/// Value of one window; `known` has the values of the group's windows that have one.
fn value<T: Clone>(
    known: &BTreeMap<i64, T>,
    at: i64,
    mode: &FillMode,
    constant: Option<T>,
    line: impl Fn(&T, &T, i64, i64) -> Option<T>,
) -> Option<T> {
    let (before, after) = (known.range(..=at).next_back(), known.range(at..).next());
    if let Some(value) = known.get(&at) {
        return Some(value.clone());
    }
    match mode {
        FillMode::Null => None,
        FillMode::Values(_) => constant,
        FillMode::Previous => before.map(|(_, v)| v.clone()),
        FillMode::Next => after.map(|(_, v)| v.clone()),
        FillMode::Near => match (before, after) {
            (Some((b, v)), Some((a, w))) => Some(if a - at < at - b { w.clone() } else { v.clone() }),
            (one, other) => one.or(other).map(|(_, v)| v.clone()),
        },
        FillMode::Linear => match (before, after) {
            (Some((b, v)), Some((a, w))) => line(v, w, at - b, a - b),
            _ => None,
        },
    }
}

#[tokio::test]
async fn groups_of_any_size_are_filled_whatever_the_batches_are() {
    let seed = 20_261_126;
    let mut rng = StdRng::seed_from_u64(seed);
    for case in 0..600 {
        let keyed = rng.random_bool(0.7);
        let (width, step) = [(5, 5), (7, 7), (6, 2), (5, 3)][rng.random_range(0..4)];
        let mut rows = Rows::new();
        for key in 0..if keyed { rng.random_range(0..5) } else { rng.random_range(0..2) } {
            let mut of = BTreeMap::new();
            for _ in 0..rng.random_range(1..12) {
                let start = rng.random_range(-20..20_i64) * step;
                let whole = rng.random_bool(0.7).then(|| rng.random_range(-50..50));
                let float = rng.random_bool(0.7).then(|| f64::from(rng.random_range(-50..50)));
                let text = rng.random_bool(0.7).then(|| format!("t{}", rng.random_range(0..9)));
                of.insert(start, (whole, float, text));
            }
            // The key NULL sorts last, as the node requires.
            rows.insert(if key == 0 { Some("a".to_owned()) } else { Some(format!("k{key}")) }, of);
        }
        let mut bound = |low: i64| rng.random_bool(0.7).then(|| rng.random_range(low..low + 120));
        let range = Range { first: bound(-160), last: bound(-20) };
        let is_forced = rng.random_bool(0.5);
        let constants =
            vec![ScalarValue::Int64(Some(77)), ScalarValue::Float64(None), ScalarValue::Utf8(Some("none".to_owned()))];
        let mode = match rng.random_range(0..6) {
            0 => FillMode::Null,
            1 => FillMode::Values(constants.clone()),
            2 => FillMode::Previous,
            3 => FillMode::Next,
            4 => FillMode::Near,
            _ => FillMode::Linear,
        };
        let ms = |n: i64| Duration::parse(&format!("{n}a")).unwrap();
        let windows = Windows { width: ms(width), offset: Duration::ZERO, step: ms(step), zone: Tz::UTC };
        let all = batch(&rows, keyed);
        let mut batches = Vec::new();
        let mut at = 0;
        while at < all.num_rows() {
            let rows = rng.random_range(0..5.min(all.num_rows() - at) + 1);
            batches.push(all.slice(at, rows));
            at += rows;
        }
        let input = MemorySourceConfig::try_new_exec(&[batches], all.schema(), None).unwrap();
        let used = match &mode {
            FillMode::Values(constants) => constants.clone(),
            _ => vec![ScalarValue::Int64(None), ScalarValue::Float64(None), ScalarValue::Utf8(None)],
        };
        let starts = windows.of_unit(TimeUnit::Millisecond).unwrap();
        let fill = Fill { mode: mode.clone(), is_forced, windows, keys: usize::from(keyed) };
        let node = FillGapsExec::try_new(input, fill, starts, range, used).unwrap();
        let config = SessionConfig::new().with_batch_size(rng.random_range(1..9));
        let found = collect(Arc::new(node), SessionContext::new_with_config(config).task_ctx()).await.unwrap();

        let mut expected: Vec<(Option<String>, i64, Option<i64>, Option<f64>, Option<String>)> = Vec::new();
        if rows.is_empty() && is_forced && !keyed {
            rows.insert(None, BTreeMap::new());
        }
        for (key, of) in &rows {
            let key = keyed.then(|| key.clone().unwrap());
            let first = range.first.or(of.keys().next().copied());
            let last = range.last.or(of.keys().next_back().copied());
            let mut starts: Vec<i64> = of.keys().copied().collect();
            if let (Some(first), Some(last)) = (first, last) {
                // Without a first instant the range begins with a whole window, not with an instant within overlapping
                // windows.
                let overlaps = |start: i64| if range.first.is_some() { start + width > first } else { start >= first };
                starts.extend((-200..200).map(|k| k * step).filter(|start| overlaps(*start) && *start <= last));
            }
            starts.sort_unstable();
            starts.dedup();
            let wholes = of.iter().filter_map(|(s, v)| Some((*s, v.0?))).collect();
            let floats = of.iter().filter_map(|(s, v)| Some((*s, v.1?))).collect();
            let texts = of.iter().filter_map(|(s, v)| Some((*s, v.2.clone()?))).collect();
            for at in starts {
                let whole =
                    value(&wholes, at, &mode, Some(77), |a, b, part, all| Some((a * (all - part) + b * part) / all));
                let float =
                    value(&floats, at, &mode, None, |a, b, part, all| Some(a + (b - a) * part as f64 / all as f64));
                let text = value(&texts, at, &mode, Some("none".to_owned()), |_, _, _, _| None);
                expected.push((key.clone(), at, whole, float, text));
            }
        }
        let mut got = Vec::new();
        for batch in &found {
            let at = usize::from(keyed);
            for i in 0..batch.num_rows() {
                let key = keyed.then(|| batch.column(0).as_string::<i32>().value(i).to_owned());
                let start = batch.column(at).as_primitive::<TimestampMillisecondType>().value(i);
                let column = |n: usize| Some(batch.column(at + n)).filter(|c| c.is_valid(i));
                let whole = column(1).map(|c| c.as_primitive::<Int64Type>().value(i));
                let float = column(2).map(|c| c.as_primitive::<Float64Type>().value(i));
                let text = column(3).map(|c| c.as_string::<i32>().value(i).to_owned());
                got.push((key, start, whole, float, text));
            }
        }
        let rounded = |rows: Vec<(Option<String>, i64, Option<i64>, Option<f64>, Option<String>)>| {
            let round = |v: f64| (v * 1e9).round() / 1e9;
            rows.into_iter().map(|(k, s, w, f, t)| (k, s, w, f.map(round), t)).collect::<Vec<_>>()
        };
        assert_eq!(rounded(got), rounded(expected), "case {case} of seed {seed}: {mode:?}, {range:?}, {width}, {step}");
    }
}

#[test]
fn comparisons_that_every_row_passes_and_contradictions_bound_nothing() {
    let bound = |side, ticks| Bound { side, instant: lit(ScalarValue::TimestampNanosecond(Some(ticks), None)) };
    let range = |bounds: &[Bound]| {
        let literal = |expr: &Expr| match expr {
            Expr::Literal(value, _) => Ok(Arc::new(Literal::new(value.clone())) as _),
            other => panic!("{other}"),
        };
        Range::of(bounds, TimeUnit::Nanosecond, literal).unwrap()
    };
    let found = range(&[bound(Side::AtLeast, i64::MIN), bound(Side::AtMost, i64::MAX)]);
    assert_eq!(found, Range::default());
    let found =
        range(&[bound(Side::MoreThan, 4), bound(Side::AtLeast, 3), bound(Side::LessThan, 9), bound(Side::AtMost, 9)]);
    assert_eq!(found, Range { first: Some(5), last: Some(8) });
    let width = Duration::parse("10b").unwrap();
    let windows = Windows { width, offset: Duration::ZERO, step: width, zone: Tz::UTC };
    let input = batch(&Rows::new(), false);
    let shared = |range| Shared {
        starts: windows.of_unit(TimeUnit::Nanosecond).unwrap(),
        fill: Fill { mode: FillMode::Null, is_forced: true, windows: windows.clone(), keys: 0 },
        range,
        constants: vec![ScalarValue::Null; 3],
        schema: input.schema(),
    };
    let rows = |range| Group::try_new(Arc::new(shared(range)), input.clone()).unwrap().next(100).unwrap();
    assert!(rows(Range { first: Some(105), last: Some(102) }).is_none());
    assert_eq!(rows(Range { first: Some(102), last: Some(115) }).unwrap().num_rows(), 2);
}

#[tokio::test]
async fn a_group_is_counted_in_the_memory_for_queries() {
    use datafusion::execution::{memory_pool::GreedyMemoryPool, runtime_env::RuntimeEnvBuilder};
    let rows = Rows::from([(None, (0..5_000).map(|n| (n * 5, (Some(n), None, None))).collect())]);
    let all = batch(&rows, false);
    let batches: Vec<RecordBatch> = (0..10).map(|n| all.slice(n * 500, 500)).collect();
    let input = MemorySourceConfig::try_new_exec(&[batches], all.schema(), None).unwrap();
    let width = Duration::parse("5a").unwrap();
    let windows = Windows { width, offset: Duration::ZERO, step: width, zone: Tz::UTC };
    let starts = windows.of_unit(TimeUnit::Millisecond).unwrap();
    let fill = Fill { mode: FillMode::Next, is_forced: false, windows, keys: 0 };
    let nulls = vec![ScalarValue::Int64(None), ScalarValue::Float64(None), ScalarValue::Utf8(None)];
    let node = Arc::new(FillGapsExec::try_new(input, fill, starts, Range::default(), nulls).unwrap());
    for (limit, fits) in [(64 << 10, false), (4 << 20, true)] {
        let runtime = RuntimeEnvBuilder::new().with_memory_pool(Arc::new(GreedyMemoryPool::new(limit))).build_arc();
        let context = SessionContext::new_with_config_rt(SessionConfig::new(), runtime.unwrap());
        let found = collect(node.clone(), context.task_ctx()).await;
        assert_eq!(found.is_ok(), fits, "{limit}: {found:?}");
    }
}
