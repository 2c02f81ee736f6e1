//! Queries that differ only in literals share one plan, with the same results as with separate plans.

use std::sync::Arc;

use datafusion::{common::ScalarValue, physical_plan::displayable};
use rand::{Rng, SeedableRng, rngs::StdRng};

use super::{World, batches, engine, lines, session, shown};
use crate::engine::{Engine, Plan, Prepared, Statement};

fn plan(prepared: &Prepared) -> &Plan {
    let Statement::Query { plan, .. } = &prepared.kind else { panic!("a query") };
    plan.as_ref()
}

/// Whether a statement is cached as values for the plan of its shape.
fn is_instance(engine: &Engine, sql: &str, shape: &Arc<Prepared>) -> bool {
    matches!(plan(&kept(engine, sql)), Plan::Instance(of, _) if Arc::ptr_eq(of, shape))
}

fn kept(engine: &Engine, sql: &str) -> Arc<Prepared> {
    engine.inner.plans.prepared(&session(), sql).unwrap_or_else(|| panic!("{sql} is not cached"))
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
        assert!(is_instance(&engine, &sql(g, from + 7), &shape));
    }
    let Plan::Template(template) = plan(&shape) else { panic!("a template") };
    let plan = template.bind(vec![ScalarValue::Int32(Some(1)), ScalarValue::TimestampMillisecond(Some(from), None)]);
    assert!(!plan.unwrap().display_indent().to_string().contains("Filter:"), "the scan answers the filters");
    let snapshot = engine.snapshot(&session()).await.unwrap();
    let executable = engine.inner.plans.executable(&session(), &shape, &snapshot).unwrap();
    assert!(executable.rescan.is_some(), "only its scan depends on the values");
    assert!(Arc::ptr_eq(&shape, &kept(&engine, &shape.sql)), "it was planned once");

    let mut rng = StdRng::seed_from_u64(3);
    world.file(&mut rng).await;
    world.segment(&mut rng).await;
    assert_eq!(lines(&engine, &sql(1, from)).await, count(&world, 1, from), "plans read the newest snapshot");
}

#[tokio::test]
async fn a_plan_with_a_replaced_scan_equals_a_new_plan() {
    let select = [
        "count(*), avg(a), max(b) from t where {} interval(5s)",
        "g, sum(a), last(b) from t where {} group by g order by g",
        "tbname, ts, a from t where {} order by ts, tbname limit 5",
        "distinct s from t where {}",
        "min(a) + 1 from t where {} having count(*) > 2",
        "* from t where {}",
    ];
    let mut rescanned = 0;
    for seed in 0..12 {
        let mut rng = StdRng::seed_from_u64(seed);
        let world = World::random(seed).await;
        let engine = engine(&world);
        let snapshot = engine.snapshot(&session()).await.unwrap();
        for select in select {
            for _ in 0..4 {
                let (g, from) = (rng.random_range(-1..4), super::START + rng.random_range(-2..super::STEPS) * 1_000);
                let to = from + rng.random_range(0..60_000);
                let sql =
                    format!("select {}", select.replace("{}", &format!("g >= {g} and ts >= {from} and ts < {to}")));
                let prepared = engine.prepare(&session(), &sql).await.unwrap();
                let Plan::Instance(shape, values) = plan(&prepared) else { panic!("{sql}") };
                let kept = engine.inner.plans.executable(&session(), shape, &snapshot);
                let again = match kept.and_then(|k| k.rescan) {
                    Some(rescan) => rescan.with(values).await.unwrap(),
                    None => None,
                };
                if let Some(again) = again {
                    let (_, state) = engine.state(&session(), snapshot.clone());
                    let bound = shape.template().unwrap().0.bind(values.clone()).unwrap();
                    let made = state.query_planner().create_physical_plan(&bound, &state).await.unwrap();
                    let text = |plan| displayable(plan).indent(true).to_string();
                    assert_eq!(text(again.as_ref()), text(made.as_ref()), "{sql}");
                    rescanned += 1;
                }
                let alone = sql.replace(&format!(" {from} "), &format!(" ({from}) "));
                assert_ne!(alone, sql);
                assert_eq!(lines(&engine, &sql).await, lines(&engine, &alone).await, "{sql}");
            }
        }
    }
    assert!(rescanned > 150, "only {rescanned}");
}

/// A condition of several IN lists on one column, with the series that it selects.
fn lists(rng: &mut StdRng) -> (String, impl Fn(Option<i32>) -> bool + use<>) {
    let count = rng.random_range(2..4);
    let lists: Vec<(bool, bool, Vec<i32>)> = (0..count)
        .map(|_| {
            let values = (0..rng.random_range(1..4)).map(|_| rng.random_range(0..4)).collect();
            (rng.random(), rng.random(), values)
        })
        .collect();
    let mut text = String::new();
    for (i, (is_and, is_negated, values)) in lists.iter().enumerate() {
        // Each list is nested to the left: `((x) and y) or z`.
        text = if i == 0 { text } else { format!("({text}) {} ", if *is_and { "and" } else { "or" }) };
        let values: Vec<String> = values.iter().map(i32::to_string).collect();
        text += &format!("g {}in ({})", if *is_negated { "not " } else { "" }, values.join(", "));
    }
    let selects = move |g: Option<i32>| {
        // A null is in no list and not outside of any list.
        let mut whole = None;
        for (i, (is_and, is_negated, values)) in lists.iter().enumerate() {
            let one = g.map(|g| values.contains(&g) != *is_negated);
            whole = match (i, is_and) {
                (0, _) => one,
                (_, true) if whole == Some(false) || one == Some(false) => Some(false),
                (_, true) => whole.zip(one).map(|(a, b)| a && b),
                (_, false) if whole == Some(true) || one == Some(true) => Some(true),
                (_, false) => whole.zip(one).map(|(a, b)| a || b),
            };
        }
        whole == Some(true)
    };
    (text, selects)
}

#[tokio::test]
async fn lists_of_literals_select_their_own_series_whether_the_plan_is_shared_or_not() {
    let mut rng = StdRng::seed_from_u64(11);
    for seed in 0..3 {
        let world = World::random(seed).await;
        let engine = engine(&world);
        for _ in 0..60 {
            let (condition, selects) = lists(&mut rng);
            let expected = world.rows.keys().filter(|(name, _)| selects(world.tags[name].0)).count().to_string();
            for sql in [
                format!("select count(*) from t where {condition}"),
                format!("select count(*) from (select * from t where {condition})"),
                format!("select count(*) from t where not (not ({condition}))"),
            ] {
                assert_eq!(lines(&engine, &sql).await, std::slice::from_ref(&expected), "{sql}");
            }
        }
    }
}

/// A literal in parentheses is not extracted, so such a query is planned separately.
#[tokio::test]
async fn a_shared_plan_returns_and_fails_like_a_separate_plan() {
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
    let mut shared = 0;
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
                    (Ok(own), Ok(found)) => {
                        assert_eq!(shown(&own), shown(&found), "{sql}");
                        shared += usize::from(matches!(plan(&kept(&engine, &sql)), Plan::Instance(..)));
                    }
                    (Err(own), Err(shaped)) => assert_eq!(own.kind(), shaped.kind(), "{sql}"),
                    (own, shaped) => panic!("{sql}: {own:?} alone, {shaped:?} by its shape"),
                }
            }
        }
    }
    assert!(shared > 300, "only {shared}");
}
