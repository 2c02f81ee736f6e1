//! Plans of typical statements, as snapshots: which files, series, chunks and rows remain after tags, times and fields have been
//! compared with manifests, and which level answers an aggregate.
//!
//! After an intended change, `INSTA_UPDATE=always cargo test -p tidelake-query plans` replaces the snapshots.

use super::{World, batches, engine};

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
