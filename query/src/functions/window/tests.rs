#![allow(clippy::unwrap_used)]

use arrow::datatypes::{Field, Schema};
use chrono::{NaiveDate, TimeZone};
use datafusion::{
    common::DFSchema,
    logical_expr::{Expr, expr_fn::ident},
    prelude::{SessionContext, lit},
};
use rand::{Rng, SeedableRng, rngs::StdRng};

use super::*;

fn grid(width: &str, offset: &str, zone: &str) -> Grid {
    Grid::parse(width, offset, zone, TimeUnit::Millisecond).unwrap()
}

fn ms(zone: Tz, y: i32, m: u32, d: u32, h: u32) -> i64 {
    let local = NaiveDate::from_ymd_opt(y, m, d).unwrap().and_hms_opt(h, 0, 0).unwrap();
    zone.from_local_datetime(&local).earliest().unwrap().timestamp_millis()
}

fn physical(call: Expr) -> Arc<dyn PhysicalExpr> {
    let schema = Schema::new(vec![Field::new("ts", DataType::Timestamp(TimeUnit::Millisecond, None), false)]);
    SessionContext::new().create_physical_expr(call, &DFSchema::try_from(schema).unwrap()).unwrap()
}

fn start(width: &str, offset: &str, zone: &str) -> Expr {
    window_functions()[0].call(vec![ident("ts"), lit(width), lit(offset), lit(zone)])
}

#[test]
fn fixed_windows_hold_their_instant_and_tile_the_line() {
    let mut random = StdRng::seed_from_u64(7);
    for _ in 0..5_000 {
        let width = random.random_range(1..=1_000_000_i64);
        let offset = random.random_range(0..width);
        let ts = random.random_range(-1_i64 << 50..1_i64 << 50);
        let grid = Grid::Fixed { width, offset };
        let (start, end) = grid.window(ts).unwrap();
        assert!(start <= ts && ts < end && end - start == width && (start - offset) % width == 0);
        assert_eq!(grid.window(start), Some((start, end)));
        assert_eq!(grid.window(end).unwrap().0, end);
    }
}

#[test]
fn windows_at_the_ends_of_time_saturate() {
    let day = Grid::Fixed { width: 86_400_000, offset: 0 };
    assert_eq!(day.window(i64::MIN).unwrap().0, i64::MIN);
    assert_eq!(day.window(i64::MAX).unwrap().1, i64::MAX);
    assert_eq!(grid("1d", "0a", "Europe/Berlin").window(i64::MAX), None);
    assert_eq!(grid("1n", "0a", "UTC").window(i64::MIN), None);
}

#[test]
fn days_start_at_local_midnight_also_when_the_clock_changes() {
    let berlin = chrono_tz::Europe::Berlin;
    let day = grid("1d", "0a", "Europe/Berlin");
    // 2024-03-31 has 23 hours, 2024-10-27 has 25.
    assert_eq!(
        day.window(ms(berlin, 2024, 3, 31, 12)),
        Some((ms(berlin, 2024, 3, 31, 0), ms(berlin, 2024, 3, 31, 0) + 23 * 3_600_000))
    );
    assert_eq!(
        day.window(ms(berlin, 2024, 10, 27, 12)),
        Some((ms(berlin, 2024, 10, 27, 0), ms(berlin, 2024, 10, 27, 0) + 25 * 3_600_000))
    );
}

#[test]
fn calendar_windows_hold_their_instant_and_tile_the_line_in_every_zone() {
    let mut random = StdRng::seed_from_u64(11);
    for zone in ["Europe/Berlin", "America/Sao_Paulo", "Asia/Kolkata", "Australia/Lord_Howe", "Pacific/Apia", "UTC"] {
        for (width, offset) in [("1d", "0a"), ("3d", "5h"), ("1w", "1d"), ("1n", "0a"), ("5n", "90m"), ("1y", "3n")] {
            let grid = grid(width, offset, zone);
            for _ in 0..300 {
                let ts = random.random_range(-2_000_000_000_000_i64..4_000_000_000_000);
                let (start, end) = grid.window(ts).unwrap();
                assert!(start <= ts && ts < end, "{zone} {width} {ts}");
                assert_eq!(grid.window(start), Some((start, end)), "{zone} {width} {ts}");
                assert_eq!(grid.window(end).unwrap().0, end, "{zone} {width} {ts}");
            }
        }
    }
}

#[test]
fn weeks_count_from_a_thursday_and_months_from_1900() {
    let utc = Tz::UTC;
    assert_eq!(grid("1w", "0a", "UTC").window(ms(utc, 1970, 1, 7, 23)).unwrap().0, 0);
    assert_eq!(grid("1n", "0a", "UTC").window(ms(utc, 2019, 7, 16, 4)).unwrap().0, ms(utc, 2019, 7, 1, 0));
    // 7 months from 1900-01: (2019-1900)*12 + 6 = 1434 = 204*7 + 6 → month 1428 = 2019-01.
    assert_eq!(grid("7n", "0a", "UTC").window(ms(utc, 2019, 7, 16, 4)).unwrap().0, ms(utc, 2019, 1, 1, 0));
}

#[test]
fn wrong_widths_and_offsets_are_named() {
    for (width, offset, says) in [
        ("0s", "0a", "more than 0"),
        ("1s", "1s", "shorter"),
        ("1s", "2n", "shorter"),
        ("1u", "0a", "whole number"),
        ("9223372036854775807w", "0a", "1000 years"),
        ("9223372036854775807y", "0a", "1000 years"),
        ("12001n", "0a", "1000 years"),
        ("1n", "1n", "shorter"),
    ] {
        let e = Grid::parse(width, offset, "UTC", TimeUnit::Millisecond).unwrap_err();
        assert!(e.to_string().contains(says), "{width} {offset}: {e}");
    }
    assert!(Grid::parse("1s", "0a", "Mars/Olympus", TimeUnit::Millisecond).is_err());
}

#[test]
fn fixed_buckets_are_recognized_and_calendar_ones_are_not() {
    let bucket = as_fixed_bucket(physical(start("1m", "5s", "Europe/Berlin")).as_ref()).unwrap();
    assert_eq!((bucket.column.name(), bucket.width_ticks, bucket.offset_ticks), ("ts", 60_000, 5_000));
    assert_eq!(as_fixed_bucket(physical(start("1d", "0a", "UTC")).as_ref()).unwrap().width_ticks, 86_400_000);
    assert_eq!(as_fixed_bucket(physical(start("1d", "0a", "Europe/Berlin")).as_ref()), None);
    assert_eq!(as_fixed_bucket(physical(start("1n", "0a", "UTC")).as_ref()), None);
    let step = ScalarValue::new_interval_mdn(0, 0, 60_000_000_000);
    let origin = ScalarValue::TimestampNanosecond(Some(-5_000_000_000), None);
    let bin = datafusion::functions::datetime::date_bin();
    let call = bin.call(vec![lit(step), ident("ts"), lit(origin)]);
    let bucket = as_fixed_bucket(physical(call).as_ref()).unwrap();
    assert_eq!((bucket.width_ticks, bucket.offset_ticks), (60_000, 55_000));
    assert_eq!(bucket.start(-1), -5_000);
}

#[test]
fn windows_at_both_ends_of_time_hold_their_instants_and_nothing_else() {
    let mut random = StdRng::seed_from_u64(1677);
    for width in ["1n", "7n", "1y", "300y", "1d", "3w", "1h", "1b", "400d"] {
        for zone in ["UTC", "Europe/Berlin"] {
            let grid = Grid::parse(width, "0a", zone, TimeUnit::Nanosecond).unwrap();
            let some = (0..200).map(|_| random.random::<i64>() >> random.random_range(0..8));
            let near = |end: i64| [end, end.saturating_add(1), end.saturating_sub(1), end / 2];
            let mut times: Vec<i64> = some.chain(near(i64::MIN)).chain(near(i64::MAX)).collect();
            times.sort_unstable();
            let mut before: Option<(i64, i64)> = None;
            for ts in times {
                let (start, end) = grid.window(ts).unwrap_or_else(|| panic!("{width} {zone} {ts}"));
                assert!(start <= ts && (ts < end || end == i64::MAX), "{width} {zone} {ts}: {start}..{end}");
                if let Some(before) = before {
                    assert!(
                        (start, end) == before || start >= before.1,
                        "{width} {zone} {ts}: {start} after {before:?}"
                    );
                }
                before = Some((start, end));
            }
        }
    }
}

#[test]
fn fixed_buckets_agree_with_128_bit_arithmetic() {
    let mut random = StdRng::seed_from_u64(292);
    for _ in 0..20_000 {
        let width_ticks =
            (random.random::<i64>() >> random.random_range(0..63)).unsigned_abs().clamp(1, 1 << 62) as i64;
        let offset_ticks = random.random_range(0..width_ticks);
        let bucket = FixedBucket { column: Column::new("ts", 0), width_ticks, offset_ticks };
        let ts = match random.random_range(0..4) {
            0 => i64::MIN + random.random_range(0..3),
            1 => i64::MAX - random.random_range(0..3),
            _ => random.random::<i64>() >> random.random_range(0..63),
        };
        let (width, offset) = (i128::from(width_ticks), i128::from(offset_ticks));
        let start = (i128::from(ts) - offset).div_euclid(width) * width + offset;
        assert_eq!(i128::from(bucket.start(ts)), start.max(i128::from(i64::MIN)), "{bucket:?} {ts}");
        assert_eq!(bucket.end(bucket.start(ts)), i64::try_from(start + width).ok(), "{bucket:?} {ts}");
    }
}
