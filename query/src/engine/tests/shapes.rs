//! Queries that differ in literals share one plan, and answer as if each had its own.

use std::sync::Arc;

use datafusion::logical_expr::LogicalPlan;
use rand::{SeedableRng, rngs::StdRng};

use super::{World, batches, engine, lines, session};
use crate::engine::{Engine, Plan, Prepared, Statement};

fn plan(prepared: &Prepared) -> &Plan {
    let Statement::Query { plan, .. } = &prepared.kind else { panic!("a query") };
    plan
}

fn kept(engine: &Engine, sql: &str) -> Arc<Prepared> {
    engine.inner.plans.prepared(&session(), sql).unwrap_or_else(|| panic!("{sql} is not kept"))
}

#[tokio::test]
async fn queries_that_differ_in_literals_share_the_plan_of_their_shape() {
    let mut world = World::regular().await;
    let engine = engine(&world);
    let count = |world: &World, g: i32, from: i64| {
        let rows = world.rows.keys().filter(|(name, ts)| world.tags[name].0 == Some(g) && *ts >= from);
        vec![rows.count().to_string()]
    };
    let sql = |g: i32, from: i64| format!("select count(*) from t where g = {g} and ts >= {from}");
    let from = super::START + 5_000;
    assert_eq!(lines(&engine, &sql(1, from)).await, count(&world, 1, from));
    let shape = kept(&engine, "select count(*) from t where g = ? and ts >= ?");
    assert!(matches!(plan(&shape), Plan::Template(_)));
    for g in 0..4 {
        assert_eq!(lines(&engine, &sql(g, from + 7)).await, count(&world, g, from + 7));
        // the filters are answered by the scan, whatever their values
        let Plan::Optimized(optimized) = plan(&kept(&engine, &sql(g, from + 7))).clone() else { panic!("optimized") };
        assert!(!optimized.display_indent().to_string().contains("Filter:"), "{}", optimized.display_indent());
        fn leaf(plan: &LogicalPlan) -> &LogicalPlan {
            plan.inputs().first().map_or(plan, |input| leaf(input))
        }
        let LogicalPlan::TableScan(scan) = leaf(&optimized) else { panic!("a scan") };
        assert_eq!(scan.filters.len(), 2);
    }
    assert!(Arc::ptr_eq(&shape, &kept(&engine, &shape.sql)), "it was planned once");

    let mut rng = StdRng::seed_from_u64(3);
    world.file(&mut rng).await;
    world.segment(&mut rng).await;
    assert_eq!(lines(&engine, &sql(1, from)).await, count(&world, 1, from), "plans read the newest snapshot");
}

/// A literal in parentheses stays in the text: such a query is planned on its own.
#[tokio::test]
async fn a_query_answers_and_fails_as_if_it_were_planned_on_its_own() {
    let world = World::regular().await;
    let engine = engine(&world);
    let numbers = [
        "0",
        "1",
        "-1",
        "3",
        "2147483647",
        "2147483648",
        "-2147483649",
        "9223372036854775807",
        "9223372036854775808",
        "18446744073709551616",
        "0.5",
        "-0.5",
        "1.0",
        "1e0",
        "1e400",
        "0.1",
        "9007199254740993",
        "007",
    ];
    let texts = ["'x'", "''", "'d1'", "'1'", "'it''s'", "'1e400'"];
    let times = [
        "1600000010000",
        "1600000010000.5",
        "'2020-09-13 12:26:50'",
        "'2020-09-13T12:26:50.0001Z'",
        "'2020-09-13T14:26:50+02:00'",
        "'1600000010000'",
        "'tomorrow'",
        "'9999-12-31'",
        "'300000-01-01'",
        "-1",
    ];
    let all: Vec<&str> = numbers.into_iter().chain(texts).chain(times).collect();
    let forms =
        ["{c} = {v}", "{c} <> {v}", "{c} < {v}", "{c} >= {v}", "{c} between {v} and {w}", "not {c} in ({v}, {w})"];
    let (mut shared, mut differ) = (0, Vec::new());
    for column in ["a", "b", "c", "g", "s", "tbname", "ts"] {
        for form in forms {
            for (i, value) in all.iter().enumerate() {
                let other = all[(i + 1) % all.len()];
                let sql = |v: &str, w: &str| {
                    let condition = form.replace("{c}", column).replace("{v}", v).replace("{w}", w);
                    format!("select tbname, cast(ts as bigint), a from t where {condition}")
                };
                let own = sql(&format!("({value})"), &format!("({other})"));
                let sql = sql(value, other);
                match (batches(&engine, &own).await, batches(&engine, &sql).await) {
                    (Ok(_), Ok(_)) => {
                        if lines(&engine, &own).await != lines(&engine, &sql).await {
                            differ.push(sql.clone());
                        }
                        shared += usize::from(matches!(plan(&kept(&engine, &sql)), Plan::Optimized(_)));
                    }
                    (Err(own), Err(shaped)) => assert_eq!(own.kind(), shaped.kind(), "{sql}"),
                    (own, shaped) => panic!("{sql}: {own:?} alone, {shaped:?} by its shape"),
                }
            }
        }
    }
    assert_eq!(differ, Vec::<String>::new());
    assert!(shared > 500, "only {shared}");
}
