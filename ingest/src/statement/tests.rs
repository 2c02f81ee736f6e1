//! Statements against a model: random writes, deletes, drops, tags and schema changes, folds and merges between them.

#![allow(clippy::unwrap_used)]

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use arrow::array::{ArrayRef, Int64Array, RecordBatch, TimestampMillisecondArray};
use futures::{StreamExt, stream};
use rand::{Rng, SeedableRng, rngs::StdRng};
use tidelake_format::{
    Kind, Result,
    access::{Principal, Rights},
    meta::Root,
    snapshot::{SnapshotOptions, SnapshotReader},
    types::Type,
};
use tidelake_protocol::sql::{DoubleQuotes, Update};

use crate::{
    compact::CompactRequest,
    testing::{Held, Rows, config, memory, open, read},
    write::Ingest,
};

const DAY: i64 = 86_400_000;

/// Expected contents of a table.
#[derive(Debug, Default, Clone)]
struct Model {
    series: BTreeMap<String, BTreeMap<String, String>>,
    rows: Rows,
    columns: Vec<(String, &'static str)>,
    /// The series whose site a statement has set.
    set: BTreeSet<String>,
}

impl Model {
    fn expected(&self) -> Rows {
        let with_tags = |(key, row): (&(String, i64), &BTreeMap<String, String>)| {
            let mut row = row.clone();
            row.extend(self.series[&key.0].clone());
            (key.clone(), row)
        };
        self.rows.iter().map(with_tags).collect()
    }

    /// Removes the rows that a condition matches; returns their number.
    fn delete(&mut self, takes: impl Fn(&str, i64, &BTreeMap<String, String>) -> bool) -> u64 {
        let before = self.rows.len();
        let series = &self.series;
        self.rows.retain(|(name, ts), _| !takes(name, *ts, &series[name]));
        (before - self.rows.len()) as u64
    }
}

async fn run(ingest: &Ingest, sql: &str) -> u64 {
    ingest.execute(Some("db"), sql, None).await.unwrap_or_else(|e| panic!("{e}: {sql}")).affected_rows
}

fn random_ts(rng: &mut StdRng) -> i64 {
    rng.random_range(0..3) * DAY + rng.random_range(0..12) * 1_000
}

fn tag(site: Option<i32>) -> String {
    site.map_or("null".to_owned(), |site| site.to_string())
}

async fn insert(ingest: &Ingest, rng: &mut StdRng, model: &mut Model) {
    let name = format!("d{}", rng.random_range(0..6));
    let known = model.series.contains_key(&name);
    let (site, text) = (rng.random_bool(0.8).then(|| rng.random_range(0..3)), format!("n{}", rng.random_range(0..3)));
    let columns: Vec<_> = model.columns.iter().filter(|_| rng.random_bool(0.7)).cloned().collect();
    let names: String = columns.iter().map(|(name, _)| format!(", {name}")).collect();
    let using = !known || rng.random_bool(0.5);
    let tags = if using { format!(" using s tags({}, '{text}')", tag(site)) } else { String::new() };
    let mut sql = format!("insert into {name}{tags} (ts{names}) values");
    if !known {
        let tags = [("#name", Some(text)), ("#site", site.map(|site| site.to_string()))];
        let tags = tags.into_iter().filter_map(|(tag, value)| Some((tag.to_owned(), value?)));
        model.series.insert(name.clone(), tags.collect());
    } else if let Some(site) = site.filter(|_| using && !model.set.contains(&name)) {
        // Existing tags of a series stay; missing ones are added.
        model.series.get_mut(&name).unwrap().entry("#site".to_owned()).or_insert_with(|| site.to_string());
    }
    for _ in 0..rng.random_range(1..8) {
        let ts = random_ts(rng);
        let row = model.rows.entry((name.clone(), ts)).or_default();
        sql += &format!(" ({ts}");
        for (column, ty) in &columns {
            let value = if *ty == "double" {
                format!("{}.5", rng.random_range(0..90))
            } else {
                rng.random_range(0..90).to_string()
            };
            sql += &format!(", {value}");
            row.insert(column.clone(), value);
        }
        sql += ")";
    }
    run(ingest, &sql).await;
}

async fn delete(ingest: &Ingest, rng: &mut StdRng, model: &mut Model) {
    let (a, b) = (random_ts(rng), random_ts(rng));
    let (from, to) = (a.min(b), a.max(b));
    let (time, whole) = match rng.random_range(0..4) {
        0 => ("".to_owned(), true),
        1 => (format!("ts >= {from} and ts <= {to}"), false),
        2 => (format!("ts between {from} and {to}"), false),
        _ => (format!("{to} >= ts and ts > {}", from - 1), false),
    };
    let site = rng.random_range(0..3).to_string();
    let is = |tags: &BTreeMap<String, String>, wanted: &str| tags.get("#site").is_some_and(|s| s == wanted);
    let (target, tags, hit): (String, String, Box<dyn Fn(&str, &BTreeMap<String, String>) -> bool>) =
        match rng.random_range(0..6) {
            0 => {
                let name = model.series.keys().nth(rng.random_range(0..model.series.len().max(1))).cloned();
                let Some(name) = name else { return };
                (name.clone(), String::new(), Box::new(move |n, _| n == name))
            }
            1 => ("s".into(), format!("site = {site}"), Box::new(move |_, t| is(t, &site))),
            2 => ("s".into(), "site is null".into(), Box::new(|_, t| !t.contains_key("#site"))),
            3 => {
                let like = format!("(name like '%{site}' or tbname = 'd{site}')");
                let names = [format!("n{site}"), format!("d{site}")];
                ("s".into(), like, Box::new(move |n, t| t["#name"] == names[0] || n == names[1]))
            }
            4 => ("s".into(), format!("not site <> {site}"), Box::new(move |_, t| is(t, &site))),
            _ => ("s".into(), String::new(), Box::new(|_, _| true)),
        };
    let parts: Vec<String> = [time, tags].into_iter().filter(|p| !p.is_empty()).collect();
    let filter = if parts.is_empty() { String::new() } else { format!(" where {}", parts.join(" and ")) };
    let sql = format!("delete from {target}{filter}");
    let expected = model.delete(|name, ts, tags| (whole || (from..=to).contains(&ts)) && hit(name, tags));
    assert_eq!(run(ingest, &sql).await, expected, "{sql}");
}

async fn change(ingest: &Ingest, rng: &mut StdRng, model: &mut Model) {
    let name = format!("d{}", rng.random_range(0..6));
    match rng.random_range(0..5) {
        0 | 1 => {
            let sql = format!("drop table if exists {name}");
            run(ingest, &sql).await;
            model.series.remove(&name);
            model.set.remove(&name);
            model.rows.retain(|(n, _), _| *n != name);
        }
        2 => {
            let site = rng.random_bool(0.7).then(|| rng.random_range(0..3));
            let sql = format!("alter table {name} set tag site = {}", tag(site));
            let Some(tags) = model.series.get_mut(&name) else {
                let error = ingest.execute(Some("db"), &sql, None).await.unwrap_err();
                assert_eq!(error.kind(), Kind::NotFound, "{sql}: {error}");
                return;
            };
            run(ingest, &sql).await;
            model.set.insert(name.clone());
            match site {
                Some(site) => drop(tags.insert("#site".into(), site.to_string())),
                None => drop(tags.remove("#site")),
            }
        }
        3 => {
            // Only two names, so that a dropped name often returns.
            let free = ["x", "y"].into_iter().find(|n| model.columns.iter().all(|(c, _)| c != n));
            let Some(free) = free else { return };
            let ty = if rng.random_bool(0.5) { "int" } else { "double" };
            run(ingest, &format!("alter stable s add column {free} {ty}")).await;
            model.columns.push((free.to_owned(), ty));
        }
        _ => {
            if model.columns.len() < 2 {
                return;
            }
            let (gone, _) = model.columns.remove(rng.random_range(0..model.columns.len()));
            run(ingest, &format!("alter stable s drop column {gone}")).await;
            model.rows.values_mut().for_each(|row| drop(row.remove(&gone)));
        }
    }
}

fn check(found: &(Rows, Held), model: &Model, at: &str) {
    assert_eq!(found.0, model.expected(), "rows, {at}");
    assert_eq!(found.1.series, model.series, "series, {at}");
}

async fn random_run(seed: u64) {
    let (store, one) = memory().await;
    let two = open(&store, config()).await;
    run(&one, "create database db duration 1d keep 73000d").await;
    run(&one, "create stable s(ts timestamp, v int, w double) tags(site int, name binary(16))").await;
    let mut rng = StdRng::seed_from_u64(seed);
    let mut model = Model { columns: vec![("v".into(), "int"), ("w".into(), "double")], ..Model::default() };
    for step in 0..30 {
        let ingest = if rng.random_bool(0.5) { &one } else { &two };
        let what = rng.random_range(0..20);
        match what {
            0..=9 => insert(ingest, &mut rng, &mut model).await,
            10..=12 => delete(ingest, &mut rng, &mut model).await,
            13 | 14 => change(ingest, &mut rng, &mut model).await,
            15..=17 => drop(ingest.compact(CompactRequest::Fold).await.unwrap()),
            18 => drop(ingest.compact(CompactRequest::Due).await.unwrap()),
            _ => drop(ingest.compact(CompactRequest::Full).await.unwrap()),
        }
        // Writes within one millisecond have no order.
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        let (found, at) = (read(&store, "db", "s", &[]).await, format!("seed {seed}, step {step}, {what}"));
        check(&found, &model, &at);
        if what >= 15 {
            for (series, tags) in &found.1.shown {
                assert_eq!(tags, &model.series[series], "every file shows the tags of {series}, {at}");
            }
        }
    }
    one.compact(CompactRequest::Full).await.unwrap();
    let found = read(&store, "db", "s", &[]).await;
    check(&found, &model, &format!("seed {seed}, compacted"));
    let live: BTreeSet<_> = model.rows.keys().cloned().collect();
    assert_eq!(found.1.in_files, live, "seed {seed}: no file holds what was deleted");
    assert_eq!(found.1.tombstones, 0, "seed {seed}: tombstones go when nothing is left for them");
}

#[tokio::test]
async fn random_statements_leave_what_a_model_says_in_every_state() {
    // A drop waits for two seconds: some runs are concurrent.
    stream::iter((0..50).map(random_run)).buffer_unordered(25).collect::<Vec<_>>().await;
}

/// The types of a statement's parameters.
async fn parameters(ingest: &Ingest, database: Option<&str>, sql: &str) -> Result<Vec<Option<Type>>> {
    let update = Update::parse(sql, DoubleQuotes::Text)?.expect("no query");
    ingest.parameters(database, &update).await
}

#[tokio::test]
async fn a_delete_runs_once_per_row_of_parameters() {
    let (_, ingest) = memory().await;
    run(&ingest, "create database db keep 73000d").await;
    run(&ingest, "create stable s(ts timestamp, v int) tags(site int)").await;
    run(&ingest, "insert into d1 using s tags(1) values (1, 1)(2, 2)(3, 3) d2 using s tags(2) values (1, 1)(2, 2)")
        .await;
    let sql = "delete from s where ts >= ? and site = ?";
    let text = Some(Type::Binary(None));
    let (time, int) = (Some(Type::Timestamp), Some(Type::Int));
    assert_eq!(parameters(&ingest, Some("db"), sql).await.unwrap(), [time, int]);
    assert_eq!(parameters(&ingest, None, "delete from db.d1 where ? = tbname").await.unwrap(), [text]);
    assert_eq!(parameters(&ingest, Some("db"), "insert into d1 values ($2, $1)").await.unwrap(), [int, time]);
    assert_eq!(parameters(&ingest, Some("db"), "drop table d1").await.unwrap(), []);
    for (sql, kind) in [
        ("insert into d3 values (?, ?)", Kind::NotFound),
        ("delete from d3 where ts < ?", Kind::NotFound),
        ("create table d3 using s tags (?)", Kind::Invalid),
    ] {
        assert_eq!(parameters(&ingest, Some("db"), sql).await.unwrap_err().kind(), kind, "{sql}");
    }
    let bound = RecordBatch::try_from_iter([
        ("1", Arc::new(TimestampMillisecondArray::from(vec![2, 1])) as ArrayRef),
        ("2", Arc::new(Int64Array::from(vec![1, 7])) as ArrayRef),
    ])
    .unwrap();
    assert_eq!(ingest.execute(Some("db"), sql, Some(&bound)).await.unwrap().affected_rows, 2);
    assert_eq!(run(&ingest, "delete from s where ts >= 0").await, 3);
    let error = ingest.execute(Some("db"), sql, None).await.unwrap_err();
    assert!(error.to_string().contains("none are bound"), "{error}");
}

#[tokio::test]
async fn an_insert_reveals_nothing_about_a_database_without_write_access() {
    let (_, ingest) = memory().await;
    run(&ingest, "create database db keep 73000d").await;
    run(&ingest, "create stable s(ts timestamp, v int) tags(site int)").await;
    run(&ingest, "insert into d1 using s tags(1) values (1, 1)").await;
    let stranger = ingest.for_principal(Principal::new("mallory", Rights::Granted(Default::default())));
    for sql in [
        "insert into db.d1 values (2, 2)",
        "insert into db.nope values (2, 2)",
        "insert into db.d1 (ts, nope) values (2, 2)",
        "insert into db.d9 using db.nope tags(1) values (2, 2)",
        "insert into db.d9 using db.s tags('wrong') values (2, 2)",
    ] {
        let (refused, asked) = (stranger.execute(None, sql, None).await, parameters(&stranger, None, sql).await);
        for error in [refused.unwrap_err(), asked.unwrap_err()] {
            assert_eq!(error.kind(), Kind::Forbidden, "{sql}: {error}");
            assert!(!error.to_string().contains("nope"), "{sql}: {error}");
        }
    }
    assert_eq!(
        parameters(&stranger, Some("db"), "delete from s where ts < ?").await.unwrap_err().kind(),
        Kind::Forbidden
    );
}

#[tokio::test]
async fn every_statement_that_changes_or_deletes_is_one_commit_that_its_token_shows() {
    let (store, ingest) = memory().await;
    let statements = [
        "create database db duration 1d keep 73000d",
        "create stable s(ts timestamp, v int) tags(site int, name binary(16))",
        "alter database db keep 70000d",
        "alter stable s add column w int",
        "alter stable s modify column w bigint",
        "alter stable s rename tag name label",
        "alter stable s drop column w",
        "alter stable s add tag floor int",
        "alter stable s drop tag floor",
        "alter table d1 set tag site = 4",
        "delete from s where ts < 2",
        "delete from d2 where ts >= 0",
        "drop table d1",
        "drop stable s",
        "drop database db",
    ];
    for sql in statements {
        if sql.starts_with("alter table d1") {
            run(&ingest, "insert into d1 using s tags(1, 'x') values (1, 1) d2 using s tags(2, 'y') values (2, 2)")
                .await;
        }
        let before = ingest.root().refresh().await.unwrap().version;
        let database = (!sql.contains("database")).then_some("db");
        let done = ingest.execute(database, sql, None).await.unwrap_or_else(|e| panic!("{e}: {sql}"));
        assert_eq!(ingest.root().refresh().await.unwrap().version, before.next(), "{sql}");
        // A reader that accepts a state of an hour ago sees it if it sends the token.
        let root = Root::open(store.clone()).await.unwrap();
        let hour = Some(std::time::Duration::from_secs(3_600));
        let reader = SnapshotReader::new(root, SnapshotOptions { max_staleness: hour, ..SnapshotOptions::default() });
        let token = done.token.unwrap_or_else(|| panic!("no token: {sql}"));
        let seen = reader.snapshot(&[token]).await.unwrap();
        assert!(seen.catalog.version >= before.next(), "{sql}");
    }
}
