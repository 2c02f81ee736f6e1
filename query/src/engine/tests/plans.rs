//! Plans of typical statements, as snapshots: which files, series, chunks and rows remain after tags, times and fields have been
//! compared with manifests, and which level answers an aggregate; and facts about such plans.
//!
//! After an intended change, `INSTA_UPDATE=always cargo test -p tidelake-query plans` replaces the snapshots.

use super::{
    batches, engine, explain, lines, lines_in, session,
    world::{START, World},
};
use crate::{engine::Engine, session::Session};

/// The plan of a statement over `world`, below the statement.
async fn planned(world: &World, sql: &str) -> String {
    let plans = batches(&engine(world), &format!("explain {sql}")).await.unwrap();
    let physical =
        plans.iter().flat_map(|batch| (0..batch.num_rows()).map(move |row| (batch, row))).find_map(|(b, row)| {
            let [kind, plan] = [0, 1].map(|at| super::cell(b.column(at).as_ref(), row));
            (kind == "physical_plan").then_some(plan)
        });
    format!("{sql}\n\n{}", physical.unwrap())
}

#[tokio::test]
async fn plans_of_scans_and_aggregates() {
    // 6 series of one row a second for 40 s, in partitions of 15 s; the tag g of series n is n % 4, or null.
    let (plain, rolled) = (World::regular().await, World::rolled().await);
    for (name, world, sql) in [
        ("tag", &plain, "select a from t where g = 1"),
        ("two_tags", &plain, "select a from t where g = 1 and s like 'x%'"),
        ("tag_outside", &plain, "select a from t where g = 77"),
        ("series", &plain, "select a from t where tbname in ('d1', 'd3')"),
        ("time", &plain, "select a from t where ts >= 1600000010000 and ts < 1600000020000"),
        ("time_outside", &plain, "select a from t where ts > '2030-01-01'"),
        ("tag_and_time", &plain, "select ts, a from t where g = 1 and ts < 1600000005000"),
        ("field", &plain, "select ts, a from t where a > 30 and b < 9"),
        ("columns", &plain, "select b from t"),
        ("newest", &plain, "select * from t order by ts desc limit 3"),
        ("oldest_of_tag", &plain, "select ts, a from t where g = 1 order by ts limit 3"),
        ("last_rows", &plain, "select distinct on (tbname) tbname, ts, a from t order by tbname, ts desc"),
        ("manifests", &plain, "select g, count(*), avg(a), max(b) from t group by g"),
        ("manifests_of_tag", &plain, "select sum(a) from t where g = 1"),
        ("rows_of_time", &plain, "select sum(a) from t where ts >= 1600000010000"),
        ("rows_of_field", &plain, "select g, count(*) from t where a > 30 group by g"),
        ("rows_of_buckets", &plain, "select avg(a) from t interval(3s)"),
        (
            "rows_of_expression",
            &plain,
            "select date_trunc('minute', ts), avg((a + b) / 2), count(nullif(a, 3)) from t group by 1",
        ),
        ("rows_by_key", &plain, "select a % 10, g, count(*), max(b) from t group by a % 10, g"),
        ("rows_by_text", &plain, "select case when a < 5 then 'low' else 'high' end, count(*) from t group by 1"),
        ("rows_of_accumulators", &plain, "select g, median(a), count(distinct b), max(a) from t group by g"),
        ("series_in_order", &plain, "select * from t where g = 1 order by tbname, ts"),
        ("windows_of_series", &plain, "select a - lag(a) over (partition by tbname order by ts) as change from t"),
        ("rollups", &rolled, "select avg(a) from t interval(5s)"),
        ("rollups_and_ends", &rolled, "select sum(a), count(*) from t where ts >= 1600000002000"),
    ] {
        insta::assert_snapshot!(name, planned(world, sql).await);
    }
}

#[tokio::test]
async fn tags_and_times_are_filtered_by_the_scan_alone() {
    let world = World::regular().await;
    let (from, to) = (START + 2_000, START + 5_000);
    let sql = format!("select a from t where g < 2 and tbname <> 'd0' and ts >= {from} and ts < {to}");
    let plan = explain(&engine(&world), &sql).await;
    assert!(!plan.contains("FilterExec"), "{plan}");
    let scan = format!("series=2/6, chunks=2, rows=10, ticks={from}..={}", to - 1);
    assert!(plan.contains(&scan), "{plan}");
    // So are comparisons of fields, for which a scan reads rows.
    let plan = explain(&engine(&world), "select ts from t where g < 2 and a > 3").await;
    assert!(!plan.contains("FilterExec") && plan.contains("filter=[a > Int32(3)]"), "{plan}");
    // Functions and conditions on tags and fields together stay in a filter above the scan.
    for sql in ["select a from t where abs(a) > 3", "select a from t where g < 2 or a > 3"] {
        assert!(explain(&engine(&world), sql).await.contains("FilterExec"), "{sql}");
    }
}

/// Asserts that the plan of a statement shows a text, or none of two.
async fn check_shown(engine: &Engine, sql: &str, shown: Option<&str>, neither: [&str; 2]) {
    let plan = explain(engine, sql).await;
    let is_right = shown.map_or(!neither.iter().any(|text| plan.contains(text)), |shown| plan.contains(shown));
    assert!(is_right, "{sql}: {plan}");
}

#[tokio::test]
async fn a_sort_by_time_with_a_limit_reads_the_newest_or_oldest_chunks() {
    let world = World::regular().await;
    let engine = engine(&world);
    for (sql, shown) in [
        ("select * from t order by ts desc limit 3", Some("newest=3")),
        ("select a, ts as time from t where a > 3 order by time limit 2 offset 5", Some("oldest=7")),
        ("select * from (select ts, a + 1 as b from t) order by ts desc, b limit 3", Some("newest=3")),
        ("select * from t order by a desc, ts desc limit 3", None),
        ("select * from t where abs(a) > 3 order by ts desc limit 3", None),
        ("select * from t order by ts desc", None),
    ] {
        check_shown(&engine, sql, shown, ["newest=", "oldest="]).await;
    }
    // Each of the six series has a row at the newest time, in the last of four partitions. Eight chunks are read at once, three rows of each.
    let plan = explain(&engine, "analyze select * from t order by ts desc limit 3").await;
    let read: usize = plan.split("rows_read=").nth(1).unwrap().split([',', ']']).next().unwrap().parse().unwrap();
    assert!(read <= 24, "{read} of 240 rows: {plan}");
}

#[tokio::test]
async fn aggregates_of_the_last_row_of_each_series_read_one_row_of_each_chunk() {
    let world = World::regular().await;
    let engine = engine(&world);
    for (sql, shown) in [
        (
            "select distinct on (tbname) * from t order by tbname, ts desc",
            Some("rows=24, columns=[ts, a, b, g, s, tbname], partitions=1, last_rows"),
        ),
        ("select g, first_value(a order by ts) from t group by g", Some("first_rows")),
        ("select last_row(a), last_row(b) from t", Some("last_rows")),
        // A chunk may end with a row that the filter drops.
        ("select last_row(a) from t where b > 1", None),
        ("select last_row(a), avg(b) from t", None),
        ("select first_value(a order by ts), last_row(b) from t", None),
        ("select first_value(a order by b desc, ts desc) from t", None),
        ("select g, ts, last_row(a) from t group by g, ts", None),
    ] {
        check_shown(&engine, sql, shown, ["last_rows", "first_rows"]).await;
    }
}

#[tokio::test]
async fn explain_shows_what_each_level_answers() {
    let world = World::regular().await;
    let all = "select g, count(*), sum(a), avg(b), spread(a), first(a) from t group by g";
    let plan = explain(&engine(&world), all).await;
    // 40 s from 01:46:40 on make four partitions of 15 s
    let chunks = 6 * world.partitions();
    assert!(
        plan.contains(&format!(
            "manifests=[chunks={chunks}, rows=240], rollups=[chunks=0, rows=0, totals=0], decoded=[chunks=0, rows=0]"
        )),
        "{plan}"
    );
    assert!(plan.contains("groups=4"), "{plan}");
    let part = format!("select count(*), sum(a) from t where ts > {}", START + 2_000);
    let plan = explain(&engine(&world), &part).await;
    assert!(plan.contains(&format!("manifests=[chunks={}, ", chunks - 6)), "{plan}");
    assert!(plan.contains("decoded=[chunks=6, "), "{plan}");
    // A condition on a field needs the rows of every chunk.
    let plan = explain(&engine(&world), "select sum(a) from t where b > 1").await;
    assert!(plan.contains(&format!("decoded=[chunks={chunks}, rows=240]")), "{plan}");
    assert!(!explain(&engine(&world), "select sum(a) from t where abs(b) > 1").await.contains("SeriesAggregate"));
}

#[tokio::test]
async fn rollups_answer_whole_buckets_and_leave_the_rows_at_the_ends() {
    let world = World::rolled().await;
    let engine = engine(&world);
    let of = |level: &str, plan: &str| {
        let (_, rest) = plan.split_once(&format!("{level}=[")).unwrap();
        rest.split_once(']').unwrap().0.to_owned()
    };
    // Buckets of 10 s are two of the rollup's 5 s each; the first and the last partition have 5 s of rows, in one bucket.
    let by_bucket = "select _wstart, avg(a), count(*), max(b) from t interval(10s)";
    let plan = explain(&engine, by_bucket).await;
    assert_eq!(of("manifests", &plan), "chunks=12, rows=60", "{plan}");
    assert_eq!(of("rollups", &plan), "chunks=12, rows=180, totals=0", "{plan}");
    assert_eq!(of("decoded", &plan), "chunks=0, rows=0", "{plan}");
    for (sql, why) in [
        ("select _wstart, avg(a) from t interval(7s)", "it cuts buckets of 5 s"),
        ("select _wstart, avg(a) from t interval(10s, 2s)", "it begins within one"),
        ("select _wstart, last(a) from t interval(10s)", "rollups have no last value"),
        ("select _wstart, max(ts) from t interval(10s)", "nor times"),
    ] {
        let plan = explain(&engine, sql).await;
        assert_eq!(of("rollups", &plan), "chunks=0, rows=0, totals=0", "{why}: {plan}");
    }
    // Totals answer whole files of all series, but not single series or parts of files.
    let to = START + 20_000;
    for (sql, totals) in [
        ("select _wstart, avg(a), count(*), sum(b), min(a), max(a) from t interval(10s)".to_owned(), 2),
        ("select _wstart, min(b), count(b) from t interval(10s)".to_owned(), 0),
        ("select _wstart, max(b), count(b) from t interval(10s)".to_owned(), 0),
        ("select _wstart, g, avg(a) from t partition by g interval(10s)".to_owned(), 0),
        ("select _wstart, avg(a) from t where g < 2 interval(10s)".to_owned(), 0),
        (format!("select _wstart, avg(a) from t where ts <= {to} interval(10s)"), 1),
    ] {
        let plan = explain(&engine, &sql).await;
        assert!(of("rollups", &plan).ends_with(&format!("totals={totals}")), "{sql}: {plan}");
        let scan = Session { levels: "scan".parse().unwrap(), ..session() };
        let (mut ours, mut theirs) = (lines(&engine, &sql).await, lines_in(&engine, &scan, &sql).await);
        ours.sort();
        theirs.sort();
        assert_eq!(ours, theirs, "{sql}");
        assert!(ours.len() >= 2, "{sql}: {ours:?}");
    }
    // The range begins and ends within a bucket: only the rows of these two buckets are read.
    let (from, to) = (START + 2_000, START + 33_000);
    let sql = format!("select count(*), sum(a), min(b) from t where ts >= {from} and ts <= {to}");
    let analyzed = lines(&engine, &format!("explain analyze {sql}")).await.join("\n");
    let read = analyzed.split_once("rows_read=").unwrap().1;
    let read: u64 = read.split([',', ']']).next().unwrap().trim().parse().unwrap();
    assert!(read < 6 * 10, "{analyzed}");
    let expected: Vec<_> = world.rows.iter().filter(|((_, ts), _)| (from..=to).contains(ts)).collect();
    let sum: i64 = expected.iter().map(|(_, v)| i64::from(v.0.unwrap())).sum();
    assert_eq!(lines(&engine, &sql).await, [format!("{}|{sum}|0.500000", expected.len())]);
}
