use datafusion::physical_expr::expressions::Column;
use rand::{Rng, SeedableRng, rngs::StdRng};

use super::*;

#[test]
fn evenly_spaced_times_are_split_like_single_times() {
    let mut rng = StdRng::seed_from_u64(5);
    for round in 0..2_000 {
        let width_ticks = [1, 7, 60, 61_000, i64::MAX / 2][rng.random_range(0..5)];
        let offset_ticks = rng.random_range(0..width_ticks.min(100));
        let bucket = FixedBucket { column: Column::new("ts", 0), width_ticks, offset_ticks };
        let step = [1, 3, 60, 1_000, 1 << 40][rng.random_range(0..5)];
        let rows = rng.random_range(1..300usize);
        let first = match rng.random_range(0..6) {
            0 => i64::MIN + rng.random_range(0..100),
            1 => i64::MAX - step * (rows as i64 - 1) - rng.random_range(0..100),
            _ => rng.random_range(-100_000..100_000),
        };
        let ts: Vec<i64> = (0..rows as i64).map(|i| first + step * i).collect();
        let hull = TimeRange { first, last: ts[rows - 1] };
        let cells = || {
            let groups = Arc::new(Groups { of: vec![0], representative: vec![0] });
            Cells::new(groups, Some(bucket.clone()), hull, &[], None)
        };
        let (mut listed, mut even) = (cells(), cells());
        let (mut expected, mut found) = (Vec::new(), Vec::new());
        listed.walk(&bucket, 0, &ts, 9, &mut expected);
        even.stride(&bucket, 0, (first, step), rows, 9, &mut found);
        assert_eq!(found, expected, "round {round}");
        assert_eq!(even.keys, listed.keys, "round {round}");
        // Check them against the expected spans.
        let mut at = 9;
        for span in expected.iter().flat_map(|strip| strip.spans()) {
            let (_, start) = listed.keys[span.cell as usize];
            let of = &ts[at - 9..at - 9 + span.len];
            assert!(of.iter().all(|t| bucket.start(*t) == start), "round {round}: {start} {of:?}");
            assert_eq!(span.start, at);
            at += span.len;
        }
        assert_eq!(at - 9, rows);
    }
}

#[test]
fn rows_however_far_apart_have_the_place_of_their_bucket() {
    let mut random = StdRng::seed_from_u64(1700);
    let any = |random: &mut StdRng| match random.random_range(0..4) {
        0 => i64::MIN + random.random_range(0..3),
        1 => i64::MAX - random.random_range(0..3),
        _ => random.random::<i64>() >> random.random_range(0..63),
    };
    for _ in 0..20_000 {
        let width_ticks = (any(&mut random).unsigned_abs() >> 2).max(1) as i64;
        let offset_ticks = random.random_range(0..width_ticks);
        let bucket = FixedBucket { column: Column::new("ts", 0), width_ticks, offset_ticks };
        let mut times = [0; 5].map(|_| any(&mut random));
        times.sort_unstable();
        let hull = TimeRange { first: times[0], last: times[4] };
        let buckets = Buckets::new(Some(&bucket), hull);
        let (width, offset) = (i128::from(width_ticks), i128::from(offset_ticks));
        let number = |ts: i64| (i128::from(ts) - offset).div_euclid(width);
        for ts in times {
            let place = i128::from(buckets.place(bucket.start(ts)));
            assert_eq!(place, number(ts) - number(times[0]), "{bucket:?} {ts} of {hull:?}");
            // The number of one-tick buckets exceeds 64 bits; such a table is never built.
            assert!(place < i128::from(buckets.count) || buckets.count == u64::MAX, "{bucket:?} {ts} of {hull:?}");
        }
    }
}
