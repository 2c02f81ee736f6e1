//! Integer arithmetic: the exact result, or an error.

use rand::{Rng, SeedableRng, rngs::StdRng};

use super::{batches, engine, lines, refused, shown, world::World};

/// Integers at and near the limits of BIGINT.
const EXTREMES: [i64; 8] = [i64::MIN, i64::MIN + 1, -(1 << 62), -1, 0, 2, 1 << 62, i64::MAX];

fn bigint(value: i64) -> String {
    format!("cast('{value}' as bigint)")
}

#[tokio::test]
async fn arithmetic_of_whole_numbers_is_right_or_an_error_that_names_it() {
    let world = World::regular().await;
    let engine = engine(&world);
    type Compute = fn(i128, i128) -> i128;
    let operators: [(&str, Compute); 3] = [("+", |a, b| a + b), ("-", |a, b| a - b), ("*", |a, b| a * b)];
    for (op, compute) in operators {
        for a in EXTREMES {
            for b in EXTREMES {
                let values = format!("(values ({}, {}), (0, 0)) t(a, b)", bigint(a), bigint(b));
                let sql = format!("select a {op} b as c from {values} where a {op} b is not null");
                let expected = i64::try_from(compute(i128::from(a), i128::from(b)));
                match (batches(&engine, &sql).await, expected) {
                    (Ok(found), Ok(expected)) => {
                        let mut lines = vec![expected.to_string(), "0".to_owned()];
                        lines.sort();
                        assert_eq!(shown(&found), lines, "{sql}");
                    }
                    (Err(e), Err(_)) => {
                        let named = e.to_string().contains(&format!("column1 {op} column2"));
                        assert!(e.kind() == tidelake_format::Kind::Invalid && named, "{sql}: {e}");
                    }
                    (found, expected) => panic!("{sql}: {found:?}, expected {expected:?}"),
                }
            }
        }
    }
    // Constants are computed by the planner.
    for (op, compute) in operators {
        for a in EXTREMES {
            for b in EXTREMES {
                for sql in [format!("select {} {op} {}", bigint(a), bigint(b)), format!("select ({a}) {op} ({b})")] {
                    // The parser reads the smallest number as the negative of one that BIGINT has not.
                    if sql.contains(&format!("({})", i64::MIN)) {
                        continue;
                    }
                    match (batches(&engine, &sql).await, i64::try_from(compute(i128::from(a), i128::from(b)))) {
                        (Ok(found), Ok(expected)) => assert_eq!(shown(&found), [expected.to_string()], "{sql}"),
                        (Err(e), Err(_)) => assert!(e.to_string().contains("beyond"), "{sql}: {e}"),
                        (found, expected) => panic!("{sql}: {found:?}, expected {expected:?}"),
                    }
                }
            }
        }
    }
    let e = refused(&engine, &format!("select -a from (values ({}), (1)) t(a)", bigint(i64::MIN))).await;
    assert_eq!(e.kind(), tidelake_format::Kind::Invalid, "{e}");
    // Over a table: in the select list, a filter and a key.
    for sql in [
        "select a * a * a * a * a * a * a * a from t where a > 38",
        "select count(*) from t where cast(a as bigint) + 9223372036854775807 > 0",
        "select max(ts) from t where ts + 9223372036854775807 > 0",
        "select sum(b) from t group by a + 9223372036854775800",
    ] {
        let e = refused(&engine, sql).await;
        assert!(e.to_string().contains("beyond"), "{sql}: {e}");
    }
    assert_eq!(lines(&engine, "select max(a + 1), min(a - 1), sum(a * 2), max(-a) from t").await, ["40|-1|9360|0"]);
}

#[tokio::test]
async fn sums_of_whole_numbers_are_right_or_an_error_that_names_them() {
    let world = World::regular().await;
    let engine = engine(&world);
    let mut random = StdRng::seed_from_u64(16);
    for _ in 0..60 {
        let values: Vec<i64> = (0..random.random_range(1..6)).map(|_| EXTREMES[random.random_range(0..8)]).collect();
        let rows: Vec<String> = values.iter().map(|v| format!("({}, 'k')", bigint(*v))).collect();
        let rows = format!("(values {}) t(v, k)", rows.join(", "));
        let all: i128 = values.iter().map(|v| i128::from(*v)).sum();
        let distinct: i128 =
            values.iter().collect::<std::collections::HashSet<_>>().into_iter().map(|v| i128::from(*v)).sum();
        for (sql, sum) in [
            (format!("select sum(v) from {rows}"), all),
            (format!("select sum(v) from {rows} group by k"), all),
            (format!("select sum(distinct v) from {rows}"), distinct),
            (format!("select max(s) from (select sum(v) over (partition by k) as s from {rows})"), all),
        ] {
            match (batches(&engine, &sql).await, i64::try_from(sum)) {
                (Ok(found), Ok(sum)) => assert_eq!(shown(&found), [sum.to_string()], "{sql}"),
                (Err(e), Err(_)) => {
                    assert!(e.kind() == tidelake_format::Kind::Invalid && e.to_string().contains("sum("), "{sql}: {e}");
                }
                (found, sum) => panic!("{sql}: {found:?}, expected {sum:?}"),
            }
        }
    }
    assert_eq!(lines(&engine, "select sum(a), sum(b) from t").await, ["4680|1170.000000"]);
    assert_eq!(lines(&engine, "select sum(a) from t where a > 1000").await, ["-"]);
}

#[tokio::test]
async fn sums_over_sliding_windows_are_right_or_an_error_that_names_them() {
    let world = World::regular().await;
    let engine = engine(&world);
    let mut random = StdRng::seed_from_u64(17);
    let mut outcomes = [0, 0];
    for round in 0..60 {
        // Small numbers too, so that some queries succeed.
        let of: &[i64] = if round % 2 == 0 { &[-1, 0, 1, 1, 2, 2] } else { &EXTREMES[..6] };
        let values: Vec<i64> = (0..random.random_range(3..8)).map(|_| of[random.random_range(0..6)]).collect();
        let rows: Vec<String> = values.iter().enumerate().map(|(n, v)| format!("({n}, {})", bigint(*v))).collect();
        let rows = format!("(values {}) t(n, v)", rows.join(", "));
        for distinct in [false, true] {
            let sums = (0..values.len()).map(|n| {
                let mut frame = values[n.saturating_sub(2)..=n].to_vec();
                if distinct {
                    frame.sort_unstable();
                    frame.dedup();
                }
                i64::try_from(frame.into_iter().map(i128::from).sum::<i128>())
            });
            let sums: Result<Vec<i64>, _> = sums.collect();
            let what = if distinct { "distinct v" } else { "v" };
            let over = "order by n rows between 2 preceding and current row";
            let sql = format!("select n, sum({what}) over ({over}) as s from {rows}");
            match (batches(&engine, &sql).await, sums) {
                (Ok(found), Ok(sums)) => {
                    outcomes[0] += 1;
                    let sums: Vec<String> = sums.iter().enumerate().map(|(n, sum)| format!("{n}|{sum}")).collect();
                    assert_eq!(shown(&found), sums, "{sql}");
                }
                (Err(e), Err(_)) => {
                    outcomes[1] += 1;
                    assert!(e.kind() == tidelake_format::Kind::Invalid && e.to_string().contains("sum("), "{sql}: {e}");
                }
                (found, sums) => panic!("{sql}: {found:?}, expected {sums:?}"),
            }
        }
    }
    assert!(outcomes.iter().all(|times| *times > 10), "{outcomes:?}");
}
