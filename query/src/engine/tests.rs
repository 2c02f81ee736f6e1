//! Queries over random states of a table return what a naive evaluation over the rows returns, whichever level answers them.

#![allow(clippy::unwrap_used)]

mod arithmetic;
mod fills;
mod memory;
mod orders;
mod pages;
mod plans;
mod random;
mod requests;
mod scans;
mod shapes;
mod swaps;
mod tags;
mod world;

use std::{sync::Arc, time::Duration};

use arrow::{
    array::{Array, AsArray, RecordBatch},
    datatypes::{DataType, Float32Type, Float64Type, TimestampNanosecondType},
    util::display::array_value_to_string,
};
use futures::TryStreamExt;
use rand::{SeedableRng, rngs::StdRng};
use tidelake_format::{
    access::{Limits, Principal, Rights},
    snapshot::{SnapshotOptions, SnapshotReader},
    types::Type,
};

use self::world::{START, STEPS, World};
use super::*;
use crate::writer::ReadOnlyWriter;

fn engine(world: &World) -> Engine {
    limited(world, Duration::from_secs(60), 4)
}

fn limited(world: &World, timeout: Duration, concurrency: usize) -> Engine {
    with(world, Duration::ZERO, timeout, concurrency)
}

fn with(world: &World, max_staleness: Duration, timeout: Duration, concurrency: usize) -> Engine {
    let options = SnapshotOptions { max_staleness: Some(max_staleness), ..SnapshotOptions::default() };
    let snapshots = Arc::new(SnapshotReader::new(world.root.clone(), options));
    let config = EngineConfig {
        memory_bytes: 256 << 20,
        partitions: 2,
        timeout,
        concurrency,
        waiting: concurrency * 10,
        ..EngineConfig::default()
    };
    Engine::new(world.root.clone(), snapshots, Arc::new(ReadOnlyWriter), config)
}

fn session() -> Session {
    Session { database: Some("db".to_owned()), ..Session::of(Principal::AUTH_OFF) }
}

async fn batches(engine: &Engine, sql: &str) -> Result<Vec<RecordBatch>> {
    batches_in(engine, &session(), sql).await
}

async fn batches_in(engine: &Engine, session: &Session, sql: &str) -> Result<Vec<RecordBatch>> {
    match engine.query(session, sql).await?.1 {
        Outcome::Rows(stream) => stream.try_collect().await.map_err(from_datafusion),
        Outcome::Updated(_) => panic!("{sql} is no query"),
    }
}

/// The result as sorted lines; instants in milliseconds, NULL as `-`.
async fn lines(engine: &Engine, sql: &str) -> Vec<String> {
    lines_in(engine, &session(), sql).await
}

async fn lines_in(engine: &Engine, session: &Session, sql: &str) -> Vec<String> {
    shown(&batches_in(engine, session, sql).await.unwrap_or_else(|e| panic!("{sql}: {e:?}")))
}

fn shown(batches: &[RecordBatch]) -> Vec<String> {
    let mut lines = ordered_lines(batches);
    lines.sort();
    lines
}

fn ordered_lines(batches: &[RecordBatch]) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for batch in batches {
        for row in 0..batch.num_rows() {
            lines.push(batch.columns().iter().map(|c| cell(c.as_ref(), row)).collect::<Vec<_>>().join("|"));
        }
    }
    lines
}

fn cell(column: &dyn Array, row: usize) -> String {
    if column.is_null(row) {
        return "-".to_owned();
    }
    match column.data_type() {
        DataType::Timestamp(_, _) => {
            (column.as_primitive::<TimestampNanosecondType>().value(row) / 1_000_000).to_string()
        }
        DataType::Float64 => float(column.as_primitive::<Float64Type>().value(row)),
        DataType::Float32 => float(f64::from(column.as_primitive::<Float32Type>().value(row))),
        _ => array_value_to_string(column, row).unwrap(),
    }
}

fn float(v: f64) -> String {
    format!("{:.6}", v + 0.0)
}

fn text<T: ToString>(v: Option<T>) -> String {
    v.map_or("-".to_owned(), |v| v.to_string())
}

async fn explain(engine: &Engine, sql: &str) -> String {
    lines(engine, &format!("explain {sql}")).await.join("\n")
}

#[tokio::test]
async fn a_series_is_a_table_of_its_own_without_tags() {
    let world = World::regular().await;
    let engine = engine(&world);
    let (prepared, _) = engine.query(&session(), "select * from d3").await.unwrap();
    let Statement::Query { schema, .. } = &prepared.kind else { panic!("a query") };
    assert_eq!(schema.fields().iter().map(|f| f.name().as_str()).collect::<Vec<_>>(), ["ts", "a", "b"]);
    assert_eq!(lines(&engine, "select * from db.d3").await.len(), STEPS as usize);
    assert_eq!(lines(&engine, "select count(*), max(a) from d3 where a < 5").await, ["5|4"]);
    assert_eq!(batches(&engine, "select * from d9").await.unwrap_err().kind(), tidelake_format::Kind::NotFound);
}

#[tokio::test]
async fn a_prepared_statement_reads_a_new_snapshot_on_each_run() {
    let mut world = World::regular().await;
    let engine = engine(&world);
    let prepared = engine.prepare(&session(), "select count(*) from t where tbname = ?").await.unwrap();
    let wide = engine.prepare(&session(), "select * from t").await.unwrap();
    assert_eq!(prepared.parameters.len(), 1);
    let parameters = arrow::array::StringArray::from(vec!["d2"]);
    let parameters = RecordBatch::try_from_iter([("1", Arc::new(parameters) as arrow::array::ArrayRef)]).unwrap();
    let mut rng = StdRng::seed_from_u64(3);
    for _ in 0..3 {
        let Outcome::Rows(rows) = engine.run(&session(), &prepared, Some(parameters.clone())).await.unwrap() else {
            panic!("rows")
        };
        let rows: Vec<RecordBatch> = rows.try_collect().await.unwrap();
        let expected = world.rows.keys().filter(|(name, _)| name == "d2").count();
        assert_eq!(cell(rows[0].column(0), 0), expected.to_string());
        world.file(&mut rng).await;
    }
    let Err(e) = engine.run(&session(), &prepared, None).await else { panic!("a parameter is missing") };
    assert_eq!(e.kind(), tidelake_format::Kind::Invalid);
    world.add_column("d", Type::Int).await;
    let Err(e) = engine.run(&session(), &wide, None).await else { panic!("the announced columns are others") };
    assert_eq!(e.kind(), tidelake_format::Kind::Conflict);
}

#[tokio::test]
async fn a_cached_plan_reads_later_writes() {
    let mut world = World::regular().await;
    let engine = engine(&world);
    let mut rng = StdRng::seed_from_u64(9);
    for round in 0..6 {
        for _ in 0..2 {
            assert_eq!(lines(&engine, "select count(*) from t").await, [world.rows.len().to_string()]);
        }
        let known = engine.inner.plans.prepared(&session(), "select count(*) from t").unwrap();
        let snapshot = engine.snapshot(&session()).await.unwrap();
        assert!(engine.inner.plans.executable(&session(), &known, &snapshot).is_some(), "its plan is cached");
        match round % 2 {
            0 => world.file(&mut rng).await,
            _ => world.segment(&mut rng).await,
        }
    }
}

#[tokio::test]
async fn a_cached_plan_runs_concurrently() {
    let world = World::regular().await;
    let engine = with(&world, Duration::ZERO, Duration::from_secs(60), 64);
    let sql = "select g, count(*), max(a) from t where ts < 1600000030000 group by g order by g";
    let expected = lines(&engine, sql).await;
    let runs = futures::future::join_all((0..32).map(|_| lines(&engine, sql))).await;
    assert!(runs.iter().all(|found| *found == expected));
}

#[tokio::test]
async fn call_dependent_statements_are_planned_for_each_call() {
    let world = World::regular().await;
    let engine = engine(&world);
    let first = lines(&engine, "select now()").await;
    tokio::time::sleep(Duration::from_millis(5)).await;
    assert_ne!(lines(&engine, "select now()").await, first);
    let nested = "select count(*) from t where ts < (select now() - 1d)";
    lines(&engine, nested).await;
    let (snapshot, known) =
        (engine.snapshot(&session()).await.unwrap(), engine.inner.plans.prepared(&session(), nested).unwrap());
    assert!(engine.inner.plans.executable(&session(), &known, &snapshot).is_none());
}

#[tokio::test]
async fn a_query_waits_for_a_permit_until_its_deadline() {
    let world = World::regular().await;
    let engine = limited(&world, Duration::from_millis(500), 1);
    // Taken without a query, which would release it at its deadline.
    let place = engine.permit(&session(), "select 1").await.unwrap();
    assert_eq!(lines(&engine, "show queries").await.len(), 1, "SHOW QUERIES needs no permit");
    let Err(e) = engine.query(&session(), "select 1").await else { panic!("the only permit is taken") };
    assert_eq!(e.kind(), tidelake_format::Kind::Unavailable);
    drop(place);
    assert_eq!(lines(&engine, "select 1").await, ["1"]);
    let (_, slow) = engine.query(&session(), "select * from t").await.unwrap();
    tokio::time::sleep(Duration::from_millis(600)).await;
    let Outcome::Rows(slow) = slow else { panic!("rows") };
    let e = from_datafusion(slow.try_collect::<Vec<_>>().await.unwrap_err());
    assert_eq!(e.kind(), tidelake_format::Kind::Unavailable);
}

#[tokio::test]
async fn a_query_that_computes_for_hours_without_reading_is_stopped_at_its_deadline() {
    let world = World::regular().await;
    let engine = limited(&world, Duration::from_millis(500), 1);
    let started = std::time::Instant::now();
    // 240^5 rows.
    let sql = "select count(a.a + b.a + c.a + d.a + e.a) from t a, t b, t c, t d, t e";
    let e = batches(&engine, sql).await.unwrap_err();
    assert_eq!(e.kind(), tidelake_format::Kind::Unavailable, "{e}");
    assert!(started.elapsed() < Duration::from_secs(60), "{:?}", started.elapsed());
}

#[tokio::test]
async fn an_invalid_pattern_is_a_user_error_and_a_long_constant_filters_tags() {
    let world = World::regular().await;
    let engine = engine(&world);
    for sql in [
        "select regexp_replace(tbname, '(', 'x') from t",
        "select regexp_like(tbname, concat('(', tbname)) from t",
        "select count(*) from t where regexp_count(tbname, '[') > 1",
        "select count(*) from t where tbname ~ '('",
    ] {
        let e = refused(&engine, sql).await;
        let says = ["unclosed", "did not compile"].iter().any(|says| e.to_string().contains(says));
        assert!(e.kind() == tidelake_format::Kind::Invalid && says, "{sql}: {e}");
    }
    // Too long for constant folding: computed when series are selected.
    assert_eq!(lines(&engine, "select count(*) from t where tbname = repeat('x', 10000)").await, ["0"]);
    let of_one = lines(&engine, "select count(*) from t where tbname = 'd1'").await;
    let long = "select count(*) from t where concat(tbname, repeat('x', 10000)) like 'd1x%'";
    assert_eq!(lines(&engine, long).await, of_one);
    let e = refused(&engine, "select count(*) from t where tbname ~ repeat('(a|b)*', 100000)").await;
    let says = e.to_string();
    assert!(says.contains("SIMILAR TO or ~ is too long") && says.contains("found: 600000 bytes"), "{says}");
}

#[tokio::test]
async fn aggregates_that_do_not_depend_on_order_ignore_order_by() {
    let world = World::regular().await;
    let engine = engine(&world);
    for call in [
        "stddev(a",
        "var_pop(b",
        "corr(a, b",
        "covar_samp(a, b",
        "regr_slope(a, b",
        "avg(a",
        "median(b",
        "count(a",
        "sum(a",
        "max(b",
    ] {
        let with = format!("select g, {call} order by ts desc, b) from t group by g");
        let without = format!("select g, {call}) from t group by g");
        assert_eq!(lines(&engine, &with).await, lines(&engine, &without).await, "{with}");
    }
    let last = lines(&engine, "select max(ts) from t where tbname = 'd1'").await;
    let by_order = "select array_element(array_agg(ts order by ts desc), 1) from t where tbname = 'd1'";
    assert_eq!(lines(&engine, by_order).await, last);
}

#[tokio::test]
async fn cross_joins_of_cross_joins_have_all_rows_in_whole_batches() {
    let world = World::regular().await;
    let engine = engine(&world);
    let sql = "with c0 as (select value as v from generate_series(1, 10)), c1 as (select a.v + b.v as v from c0 a cross join c0 b), \
        c2 as (select a.v + b.v as v from c1 a cross join c1 b), c3 as (select a.v + b.v as v, concat('x', a.v) as s from c2 a cross join c1 b) \
        select v, s from c3";
    let found = batches(&engine, sql).await.unwrap();
    let rows: usize = found.iter().map(RecordBatch::num_rows).sum();
    assert_eq!(rows, 1_000_000);
    assert!(found.len() < 300, "{} batches", found.len());
    let sums = sql.replace("select v, s from c3", "select sum(v), count(*), max(length(s)) from c3");
    // Six values that average 5.5 per row.
    assert_eq!(lines(&engine, &sums).await, ["33000000|1000000|3"]);
    let counted = sql.replace("select v, s from c3", "select count(*) from c3 a cross join c0 b");
    assert_eq!(lines(&engine, &counted).await, ["10000000"]);
    let only_counted = "with c0 as (select value as v from generate_series(1, 10)), c1 as (select a.v from c0 a cross join c0 b), \
        c2 as (select a.v from c1 a cross join c1 b) select count(*) from c2 a cross join c1 b";
    assert_eq!(lines(&engine, only_counted).await, ["1000000"]);
}

#[tokio::test]
async fn no_statement_reads_or_writes_a_file_or_a_url() {
    let world = World::regular().await;
    let engine = engine(&world);
    let directory = tempfile::tempdir().unwrap();
    let (file, out) = (directory.path().join("secret.csv"), directory.path().join("out.csv"));
    std::fs::write(&file, "a,b\n1,hidden\n").unwrap();
    let (file, out) = (file.to_str().unwrap(), out.to_str().unwrap());
    for place in [file, &format!("file://{file}"), "http://127.0.0.1:9/x.parquet", "s3://bucket/x.csv"] {
        for sql in [
            format!("select * from '{place}'"),
            format!("select * from \"{place}\""),
            format!("select * from `{place}`"),
            format!("select * from read_csv('{place}')"),
            format!("select * from read_parquet('{place}')"),
            format!("select * from read_json('{place}')"),
            format!("create external table x stored as csv location '{place}' options ('has_header' 'true')"),
            format!("create table x as select * from '{place}'"),
            format!("insert into t select * from '{place}'"),
            format!("with x as (select * from \"{place}\") select * from x"),
            format!("explain select * from \"{place}\""),
            format!("describe '{place}'"),
        ] {
            let Err(e) = engine.query(&session(), &sql).await else { panic!("{sql} is refused") };
            assert!(!format!("{e:?}").contains("hidden"), "{sql}: {e:?}");
        }
    }
    for sql in [
        format!("copy t to '{out}'"),
        format!("copy (select * from t) to '{out}' stored as csv"),
        format!("select * from t into outfile '{out}'"),
        format!("insert overwrite directory '{out}' select * from t"),
        "create function f as 'libc.so.6'".to_owned(),
        "set datafusion.catalog.location = '/etc'".to_owned(),
    ] {
        assert!(engine.query(&session(), &sql).await.is_err(), "{sql} is refused");
    }
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1, "nothing was written");
}

#[tokio::test]
async fn a_type_keeps_its_name_only_while_it_is_that_type() {
    let world = World::regular().await;
    let sql = "select a, cast(a as double) as d, a + 1 as e, sum(a) as f, max(a) as m from t group by a";
    let (prepared, _) = engine(&world).query(&session(), sql).await.unwrap();
    let Statement::Query { schema, .. } = &prepared.kind else { panic!("a query") };
    let names = schema.fields().iter().map(|f| f.metadata()[crate::wire::TYPE_NAME].clone());
    assert_eq!(names.collect::<Vec<_>>(), ["INT", "DOUBLE", "BIGINT", "BIGINT", "INT"]);
}

#[tokio::test]
async fn a_query_requests_only_uncached_objects_from_the_store() {
    let world = World::regular().await;
    let engine = with(&world, Duration::from_secs(3_600), Duration::from_secs(60), 4);
    let store = world.root.store();
    let partitions = world.partitions() as u64;
    let requests = async |sql: &str| {
        let before = store.counters();
        lines(&engine, sql).await;
        store.counters().since(&before)
    };
    let levels = "select g, count(*), avg(b) from t group by g";
    let first = requests(levels).await;
    assert!(first.get >= partitions, "one tag manifest per file: {first:?}");
    assert_eq!(requests(levels).await.requests(), 0, "everything is cached now");
    let one_file = format!("select a from t where tbname = 'd1' and ts = {START}");
    assert_eq!(requests(&one_file).await.get, 1, "all of a small file");
    assert_eq!(requests(&one_file).await.requests(), 0, "it is cached now");
    assert_eq!(requests("select tbname from t").await.requests(), 0, "names need no data page");
}

#[tokio::test]
async fn explain_analyze_reports_store_requests() {
    let world = World::regular().await;
    let engine = engine(&world);
    let metric = |plan: &str, name: &str| -> String {
        let value = plan.split_once(&format!("{name}=")).unwrap_or_else(|| panic!("{name}: {plan}")).1;
        value.split([',', ']']).next().unwrap().to_owned()
    };
    let sql = "explain analyze select a from t where a > -1000000";
    // Small files are read whole, in one request each, and then cached.
    let before = world.root.store().counters();
    lines(&engine, &sql.replace("analyze ", "")).await;
    let planned = world.root.store().counters();
    assert!(planned.since(&before).requests() > 0, "planning reads manifests");
    let plan = lines(&engine, sql).await.join("\n");
    assert_eq!(metric(&plan, "store_requests"), world.partitions().to_string(), "{plan}");
    assert_ne!(metric(&plan, "store_bytes"), "0", "{plan}");
    let again = lines(&engine, sql).await.join("\n");
    assert_eq!((metric(&again, "store_requests"), metric(&again, "store_bytes")), ("0".into(), "0".into()), "{again}");
    // Requests that are counted separately count for the whole store too.
    let apart = world.root.store().counted_apart();
    let (before, key) = (world.root.store().counters(), "no/such/object");
    assert!(apart.get(key).await.is_err());
    assert_eq!((apart.counters().get, world.root.store().counters().since(&before).get), (1, 1));
}

/// The error of a statement.
async fn refused(engine: &Engine, sql: &str) -> tidelake_format::Error {
    match batches(engine, sql).await {
        Ok(_) => panic!("{sql} is refused"),
        Err(e) => e,
    }
}

#[tokio::test]
async fn from_without_select_returns_all_columns() {
    let world = World::regular().await;
    let engine = engine(&world);
    let all = lines(&engine, "select * from t").await;
    assert_eq!(all.len(), 240);
    assert_eq!(lines(&engine, "from t").await, all);
    assert_eq!(lines(&engine, "select * from (from t) x").await, all);
    assert_eq!(lines(&engine, "from t limit 3").await.len(), 3);
}

#[tokio::test]
async fn to_char_accepts_patterns_of_other_databases_and_refuses_unknown_ones() {
    let world = World::regular().await;
    let engine = engine(&world);
    let at = "timestamp '2019-07-16 04:01:40.123'";
    for (pattern, expected) in [
        ("yyyy-MM-dd", "2019-07-16"),
        ("YYYY-MM-DD HH24:MI:SS.MS", "2019-07-16 04:01:40.123"),
        ("hh12:mi am", "04:01 am"),
        ("%Y-%m-%d", "2019-07-16"),
    ] {
        assert_eq!(lines(&engine, &format!("select to_char({at}, '{pattern}')")).await, [expected], "{pattern}");
    }
    let each = "select distinct to_char(ts, case when a > 3 then 'yyyy' else '%Y' end) from t";
    assert_eq!(lines(&engine, each).await, ["2020"]);
    for pattern in ["yyyy-MM-dd HH:mm:ss", "the day"] {
        let e = refused(&engine, &format!("select to_char({at}, '{pattern}')")).await;
        assert!(e.kind() == tidelake_format::Kind::Invalid && e.to_string().contains("%M"), "{pattern}: {e}");
    }
}

#[tokio::test]
async fn too_deep_nesting_is_reported() {
    let world = World::regular().await;
    let engine = engine(&world);
    for n in [62, 63, 64, 100, 250] {
        let case = (0..n).fold("1".to_owned(), |inner, _| format!("case when true then {inner} end"));
        for expression in [format!("{} true", "not ".repeat(n)), case, format!("{}1{}", "(".repeat(n), ")".repeat(n))] {
            let e = match batches(&engine, &format!("select {expression} as x from t")).await {
                Ok(_) => continue,
                Err(e) => e,
            };
            assert!(e.to_string().contains("nested too deeply") && e.context("limit") == Some("64"), "{n}: {e}");
        }
    }
    assert_eq!(
        lines(&engine, "select not not not true, case when true then case when true then 1 end end").await.len(),
        1
    );
}
