#![allow(clippy::unwrap_used)]

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicUsize, Ordering},
};

mod erase;
mod full;
mod keep;
mod memory;
mod quarantine;
mod race;
mod year;

use rand::{Rng, SeedableRng, rngs::StdRng};
use tidelake_format::store::{
    Ambient, Store, System,
    faults::{Fault, Operation},
};

use super::*;
use crate::{
    config::IngestConfig,
    testing::{Rows, config, files, memory, open, rows},
    write::{Durability, Ingest},
};

const DAY: i64 = 86_400_000;
/// Columns of every type, each with a literal and the text that the reader prints for it.
const COLUMNS: [(&str, &str); 15] = [
    ("c_bool", "bool"),
    ("c_tinyint", "tinyint"),
    ("c_smallint", "smallint"),
    ("c_int", "int"),
    ("c_bigint", "bigint"),
    ("c_utinyint", "tinyint unsigned"),
    ("c_usmallint", "smallint unsigned"),
    ("c_uint", "int unsigned"),
    ("c_ubigint", "bigint unsigned"),
    ("c_float", "float"),
    ("c_double", "double"),
    ("c_ts", "timestamp"),
    ("c_binary", "binary(64)"),
    ("c_nchar", "nchar(64)"),
    ("c_varbinary", "varbinary(64)"),
];

/// A wall clock set by a test.
#[derive(Debug)]
struct Hands(std::sync::atomic::AtomicI64);

impl Hands {
    fn at(ms: i64) -> Arc<Self> {
        Arc::new(Self(ms.into()))
    }
}

impl Ambient for Hands {
    fn wall_ns(&self) -> i64 {
        self.0.load(Ordering::Relaxed) * 1_000_000
    }

    fn random(&self) -> u64 {
        System.random()
    }
}

fn value(rng: &mut StdRng, ty: &str) -> (String, String) {
    let same = |v: String| (v.clone(), v);
    match ty {
        "bool" => same(rng.random::<bool>().to_string()),
        "tinyint" => same(rng.random::<i8>().to_string()),
        "smallint" => same(rng.random::<i16>().to_string()),
        "int" => same(rng.random::<i32>().to_string()),
        "bigint" | "timestamp" => same(rng.random_range(-1i64 << 40..1 << 40).to_string()),
        "tinyint unsigned" => same(rng.random::<u8>().to_string()),
        "smallint unsigned" => same(rng.random::<u16>().to_string()),
        "int unsigned" => same(rng.random::<u32>().to_string()),
        "bigint unsigned" => same(rng.random::<u64>().to_string()),
        "float" | "double" => same(format!("{}.5", rng.random_range(-1000..1000))),
        "binary(64)" | "nchar(64)" => {
            let text =
                "añ☃z".chars().cycle().skip(rng.random_range(0..4)).take(rng.random_range(1..9)).collect::<String>();
            (format!("'{text}'"), text)
        }
        _ => {
            let hex = format!("{:02x}{:02x}", rng.random::<u8>(), rng.random::<u8>());
            (format!("'\\x{hex}'"), hex)
        }
    }
}

async fn setup(ingest: &Ingest) {
    ingest.execute(None, "create database db duration 1d keep 73000d", None).await.unwrap();
    let columns: Vec<String> = COLUMNS.iter().map(|(name, ty)| format!("{name} {ty}")).collect();
    let create = format!("create stable s(ts timestamp, {}) tags(site int, name binary(16))", columns.join(", "));
    ingest.execute(Some("db"), &create, None).await.unwrap();
}

/// Writes a random statement and its effect into `oracle`; the tags of a series never change.
async fn random_insert(ingest: &Ingest, rng: &mut StdRng, oracle: &mut Rows) {
    let mut sql = "insert into".to_owned();
    for _ in 0..rng.random_range(1..6) {
        let series = rng.random_range(0..12);
        let chosen: Vec<_> = COLUMNS.iter().filter(|_| rng.random_bool(0.4)).collect();
        let names: String = chosen.iter().map(|(name, _)| format!(", {name}")).collect();
        sql += &format!(" d{series} using s tags({}, 'n{series}') (ts{names}) values", series % 3);
        for _ in 0..rng.random_range(1..12) {
            // Three partitions, and so few instants that many repeat.
            let ts = rng.random_range(0..3) * 86_400_000 + rng.random_range(0..20) * 1_000;
            sql += &format!(" ({ts}");
            let row = oracle.entry((format!("d{series}"), ts)).or_default();
            row.insert("#site".into(), (series % 3).to_string());
            row.insert("#name".into(), format!("n{series}"));
            for (name, ty) in &chosen {
                if rng.random_bool(0.2) {
                    sql += ", null";
                    continue;
                }
                let (literal, printed) = value(rng, ty);
                sql += &format!(", {literal}");
                row.insert((*name).to_owned(), printed);
            }
            sql += ")";
        }
    }
    ingest.execute(Some("db"), &sql, None).await.unwrap_or_else(|e| panic!("{e}: {sql}"));
}

#[tokio::test]
async fn the_newest_value_wins_in_log_files_and_merged_files_for_every_type() {
    for seed in 0..4 {
        let (store, ingest) = memory().await;
        setup(&ingest).await;
        let (mut rng, mut oracle) = (StdRng::seed_from_u64(seed), Rows::new());
        for step in 0..30 {
            random_insert(&ingest, &mut rng, &mut oracle).await;
            let request = match rng.random_range(0..10) {
                0 | 1 => CompactRequest::Fold,
                2 => CompactRequest::Due,
                3 => CompactRequest::Full,
                _ => continue,
            };
            ingest.compact(request).await.unwrap();
            assert_eq!(rows(&store, "db", "s", &[]).await, oracle, "seed {seed}, step {step}, {request:?}");
        }
        assert_eq!(rows(&store, "db", "s", &[]).await, oracle, "seed {seed}");
        ingest.compact(CompactRequest::Full).await.unwrap();
        assert_eq!(rows(&store, "db", "s", &[]).await, oracle, "seed {seed}");
        assert_eq!(files(&store, "db", "s").await, 3, "one file for each partition");
    }
}

/// `n` rows of one series, one second apart, all with one value.
async fn stretch(ingest: &Ingest, series: &str, from: i64, n: i64, value: i64) {
    let mut sql = format!("insert into {series} using s tags(1, '{series}') (ts, c_int) values");
    for i in 0..n {
        sql += &format!(" ({}, {value})", from + i);
    }
    ingest.execute(Some("db"), &sql, None).await.unwrap();
}

fn small() -> IngestConfig {
    let mut config = config();
    config.compact.window_bytes = 1; // 1 024 rows at once
    config.compact.file_rows = 3_000;
    config
}

#[tokio::test]
async fn a_series_larger_than_memory_is_merged_in_steps_and_split_over_files() {
    let store = Store::in_memory();
    let ingest = open(&store, small()).await;
    setup(&ingest).await;
    let mut oracle = BTreeMap::new();
    for (round, (from, n)) in [(0, 5_000), (2_500, 5_000), (1_000, 10), (7_000, 2_000)].into_iter().enumerate() {
        for series in ["big", "big2"] {
            stretch(&ingest, series, from, n, round as i64).await;
            (from..from + n).for_each(|ts| drop(oracle.insert((series.to_owned(), ts), round.to_string())));
        }
        stretch(&ingest, "tiny", from, 1, round as i64).await;
        oracle.insert(("tiny".to_owned(), from), round.to_string());
        ingest.compact(CompactRequest::Fold).await.unwrap();
    }
    let report = ingest.compact(CompactRequest::Full).await.unwrap();
    assert_eq!(report.merged_rows - report.duplicates, oracle.len() as u64);
    assert!((7..12).contains(&files(&store, "db", "s").await), "{}", files(&store, "db", "s").await);
    let found = rows(&store, "db", "s", &[]).await;
    let found: BTreeMap<_, _> = found.into_iter().map(|(key, row)| (key, row["c_int"].clone())).collect();
    assert_eq!(found, oracle);
    assert_eq!(ingest.compact(CompactRequest::Full).await.unwrap(), CompactReport::default(), "nothing is left to do");
}

#[tokio::test]
async fn files_of_similar_size_are_merged_when_there_are_enough() {
    let store = Store::in_memory();
    let mut config = config();
    config.compact.merge_files = 4;
    let ingest = open(&store, config).await;
    setup(&ingest).await;
    for i in 0..4 {
        assert_eq!(files(&store, "db", "s").await, i);
        stretch(&ingest, "d", i as i64 * 5, 10, i as i64).await;
        let report = ingest.compact(CompactRequest::Due).await.unwrap();
        assert_eq!((report.segments, report.merged_files), (1, if i == 3 { 4 } else { 0 }));
    }
    assert_eq!(files(&store, "db", "s").await, 1);
    assert_eq!(rows(&store, "db", "s", &[]).await.len(), 25);
}

#[tokio::test]
async fn processes_that_compact_the_same_log_at_once_lose_and_double_nothing() {
    let store = Store::in_memory();
    let (a, b) = (open(&store, config()).await, open(&store, config()).await);
    setup(&a).await;
    b.root().refresh().await.unwrap();
    let (mut rng, mut oracle) = (StdRng::seed_from_u64(9), Rows::new());
    for round in 0..6 {
        random_insert(&a, &mut rng, &mut oracle).await;
        random_insert(&b, &mut rng, &mut oracle).await;
        let request = if round % 2 == 0 { CompactRequest::Fold } else { CompactRequest::Full };
        let (x, y) = tokio::join!(a.compact(request), b.compact(request));
        x.unwrap();
        y.unwrap();
        assert_eq!(rows(&store, "db", "s", &[]).await, oracle, "round {round}");
    }
}

#[tokio::test]
async fn a_store_that_fails_and_loses_replies_costs_time_and_no_rows() {
    let store = Store::in_memory();
    let ingest = open(&store, config()).await;
    setup(&ingest).await;
    let requests = AtomicUsize::new(0);
    let faulty = store.with_faults(move |request| match requests.fetch_add(1, Ordering::Relaxed) % 7 {
        2 => Fault::Refused,
        5 if request.operation == Operation::Put => Fault::LostReply,
        _ => Fault::None,
    });
    let compacting = open(&faulty, config()).await;
    let (mut rng, mut oracle) = (StdRng::seed_from_u64(4), Rows::new());
    for round in 0..8 {
        random_insert(&ingest, &mut rng, &mut oracle).await;
        let request = if round % 3 == 2 { CompactRequest::Full } else { CompactRequest::Fold };
        match compacting.compact(request).await {
            Ok(_) => {}
            Err(error) => assert!(error.kind().is_retryable(), "round {round}: {error}"),
        }
        assert_eq!(rows(&store, "db", "s", &[]).await, oracle, "round {round}");
    }
}

#[tokio::test]
async fn the_background_folds_by_age_and_merges_while_rows_come_in() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(directory.path().to_str().unwrap(), &[]).unwrap();
    let mut config = config();
    config.compact = CompactConfig {
        background: true,
        interval_ms: 10,
        fold_age_ms: 30,
        merge_files: 3,
        collect_ms: 50,
        ..config.compact
    };
    let ingest = open(&store, config).await;
    setup(&ingest).await;
    let (mut rng, mut oracle) = (StdRng::seed_from_u64(1), Rows::new());
    for _ in 0..40 {
        random_insert(&ingest, &mut rng, &mut oracle).await;
        sleep(Duration::from_millis(5)).await;
    }
    let root = Root::open(store.clone()).await.unwrap();
    tokio::time::timeout(Duration::from_secs(60), async {
        loop {
            let catalog = root.refresh().await.unwrap();
            let log = store.list(layout::LOG).await.unwrap();
            let folded =
                |p: tidelake_format::ids::Position| catalog.watermark(p.writer).is_some_and(|w| p.seq < w.next);
            if log.iter().filter_map(|o| parse_log(o.location.as_ref())).all(folded) {
                return;
            }
            sleep(Duration::from_millis(20)).await;
        }
    })
    .await
    .unwrap();
    assert_eq!(rows(&store, "db", "s", &[]).await, oracle);
    tokio::time::timeout(Duration::from_secs(60), async {
        while files(&store, "db", "s").await > 3 * 5 {
            sleep(Duration::from_millis(20)).await;
        }
    })
    .await
    .unwrap();
    assert_eq!(rows(&store, "db", "s", &[]).await, oracle);
    ingest.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_load_by_several_clients_is_folded_and_merged_beside_it_row_for_row() {
    const CLIENTS: i64 = 4;
    const REQUESTS: i64 = 10;
    const ROWS: i64 = 1_000;
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(directory.path().to_str().unwrap(), &[]).unwrap();
    let mut config = config();
    config.compact =
        CompactConfig { background: true, interval_ms: 5, fold_bytes: 20_000, merge_files: 3, ..config.compact };
    let ingest = open(&store, config).await;
    ingest.execute(None, "create database db keep 73000d", None).await.unwrap();
    let clients = (0..CLIENTS).map(|client| {
        let ingest = ingest.clone();
        tokio::spawn(async move {
            for request in 0..REQUESTS {
                let mut body = String::new();
                for row in 0..ROWS {
                    let device = client * 50 + row % 50;
                    let ts = request * ROWS + row;
                    body += &format!("meters,devid={device},site={} current={ts}i,phase=0.5 {ts}\n", device % 5);
                }
                let precision = crate::decode::line_protocol::LinePrecision::Milli;
                let written =
                    ingest.write_line_protocol("db", body.into(), precision, Durability::Stored).await.unwrap();
                assert_eq!((written.accepted, written.rejected.len()), (ROWS as u64, 0));
            }
        })
    });
    futures::future::try_join_all(clients).await.unwrap();
    ingest.compact(CompactRequest::Full).await.unwrap();
    assert_eq!(files(&store, "db", "meters").await, 1);
    let found = rows(&store, "db", "meters", &[]).await;
    assert_eq!(found.len() as i64, CLIENTS * REQUESTS * ROWS);
    assert!(found.iter().all(|((_, ts), row)| row["current"] == ts.to_string() && row["phase"] == "0.5"));
}

#[tokio::test]
async fn a_widened_table_is_folded_and_merged_with_its_older_rows() {
    let (store, ingest) = memory().await;
    setup(&ingest).await;
    stretch(&ingest, "d", 0, 3, 1).await;
    ingest.compact(CompactRequest::Fold).await.unwrap();
    ingest.execute(Some("db"), "alter table s add column extra int", None).await.unwrap();
    let insert = "insert into d using s tags(1, 'd') (ts, extra) values (1, 7) (9, 8)";
    ingest.execute(Some("db"), insert, None).await.unwrap();
    ingest.compact(CompactRequest::Full).await.unwrap();
    let found = rows(&store, "db", "s", &[]).await;
    assert_eq!(found.len(), 4);
    let row = &found[&("d".to_owned(), 1)];
    assert_eq!((row["c_int"].as_str(), row["extra"].as_str()), ("1", "7"));
}

#[tokio::test]
async fn a_declared_series_survives_folding_and_merging() {
    let (store, ingest) = memory().await;
    setup(&ingest).await;
    ingest.execute(Some("db"), "create table d1 using s tags(4, 'declared')", None).await.unwrap();
    ingest.compact(CompactRequest::Fold).await.unwrap();
    stretch(&ingest, "d2", 0, 3, 1).await;
    ingest.execute(Some("db"), "create table d3 using s tags(5, 'beside')", None).await.unwrap();
    ingest.compact(CompactRequest::Full).await.unwrap();
    let later = open(&store, config()).await;
    for series in ["d1", "d3"] {
        later.execute(Some("db"), &format!("insert into {series} (ts, c_int) values (1, 1)"), None).await.unwrap();
    }
    let found = rows(&store, "db", "s", &[]).await;
    assert_eq!(found[&("d1".to_owned(), 1)]["#name"], "declared");
    assert_eq!(found[&("d3".to_owned(), 1)]["#site"], "5");
    assert_eq!(found.len(), 5);
}

#[tokio::test]
async fn a_series_keeps_its_tags_in_every_file_whatever_tags_come_later_and_whoever_folds() {
    let (store, one) = memory().await;
    setup(&one).await;
    let two = open(&store, config()).await;
    let insert = |series: &str, tags: &str, day: i64| {
        format!("insert into {series} using s tags{tags} (ts, c_int) values ({}, 1)", day * DAY)
    };
    let expect = |held: &crate::testing::Held, series: &str, site: &str, name: &str| {
        let shown: Vec<_> = held.shown.iter().filter(|(s, _)| s == series).collect();
        assert_eq!(shown.len(), 3, "one file a day holds {series}");
        for (_, tags) in shown {
            let get = |tag: &str| tags.get(tag).map_or("null", String::as_str);
            assert_eq!((get("#site"), get("#name")), (site, name), "{series}: {:?}", held.shown);
        }
    };
    // `d1` is sent with other tags each day, `d2` gets its site and `d3` its name later, `d4` was set to null.
    let days = [
        ["(1, 'a')", "(null, 'b')", "(3, null)", "(4, 'd')"],
        ["(2, 'x')", "(7, 'y')", "(null, 'c')", "(5, 'z')"],
        ["(null, 'w')", "(8, null)", "(9, 'v')", "(6, null)"],
    ];
    for (day, tags) in days.iter().enumerate() {
        let (writer, folder) = if day % 2 == 0 { (&one, &two) } else { (&two, &one) };
        for (i, tags) in tags.iter().enumerate() {
            writer.execute(Some("db"), &insert(&format!("d{}", i + 1), tags, day as i64), None).await.unwrap();
        }
        folder.compact(CompactRequest::Fold).await.unwrap();
        if day == 0 {
            writer.execute(Some("db"), "alter table d4 set tag site = null", None).await.unwrap();
        }
    }
    let held = crate::testing::read(&store, "db", "s", &[]).await.1;
    expect(&held, "d1", "1", "a");
    expect(&held, "d2", "7", "b");
    expect(&held, "d3", "3", "c");
    expect(&held, "d4", "null", "d");

    // A series named after its tags has no other tags, and costs no read of any file.
    one.execute(Some("db"), "create stable t(ts timestamp, v int) tags(site int)", None).await.unwrap();
    let reads = Arc::new(AtomicUsize::new(0));
    let seen = reads.clone();
    let watched = store.with_faults(move |request| {
        if request.operation == Operation::Get && request.key.ends_with(".tags") {
            seen.fetch_add(1, Ordering::Relaxed);
        }
        Fault::None
    });
    let later = open(&watched, config()).await;
    for day in 0..2 {
        let sql = format!("insert into `site=1` using t tags(1) (ts, v) values ({}, 1)", day * DAY);
        later.execute(Some("db"), &sql, None).await.unwrap();
        let before = reads.load(Ordering::Relaxed);
        later.compact(CompactRequest::Fold).await.unwrap();
        assert_eq!(reads.load(Ordering::Relaxed), before);
    }
}

#[tokio::test]
async fn only_late_rows_within_its_time_rewrite_a_full_file() {
    let store = Store::in_memory();
    let ingest = open(&store, small()).await;
    setup(&ingest).await;
    let mut oracle = BTreeMap::new();
    let mut write = async |from: i64, n: i64, value: i64| {
        stretch(&ingest, "d", from, n, value).await;
        (from..from + n).for_each(|ts| drop(oracle.insert(("d".to_owned(), ts), value.to_string())));
        let report = ingest.compact(CompactRequest::Full).await.unwrap();
        let found = rows(&store, "db", "s", &[]).await;
        let found: BTreeMap<_, _> = found.into_iter().map(|(key, row)| (key, row["c_int"].clone())).collect();
        assert_eq!(found, oracle);
        let checked = tidelake_format::check::check(&store, Default::default()).await.unwrap();
        assert!(checked.is_sound(), "{checked:?}");
        (report.merged_rows, files(&store, "db", "s").await)
    };
    assert_eq!(write(0, 2_500, 1).await, (0, 1));
    assert_eq!(write(5_000, 10, 2).await, (0, 2), "one file beside a full one has nothing to be merged with");
    assert_eq!(write(5_005, 10, 3).await, (20, 2), "the full one is no input");
    assert_eq!(write(9_000, 2_000, 4).await, (0, 3));
    // A late row; the order of the small file is between the others.
    assert_eq!(write(100, 10, 5).await, (2_500 + 15 + 10, 2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_check_during_folds_merges_and_immediate_collection_finds_no_fault() {
    use tidelake_format::garbage::{Collector, GarbageOptions};
    let store = Store::in_memory();
    let ingest = open(&store, config()).await;
    setup(&ingest).await;
    let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let (stopped, checked) = (stop.clone(), store.clone());
    let checker = tokio::spawn(async move {
        let mut checks = 0;
        while !stopped.load(Ordering::Relaxed) || checks == 0 {
            let report = tidelake_format::check::check(&checked, Default::default()).await.unwrap();
            assert!(report.is_sound(), "check {checks}: {report:?}");
            checks += 1;
        }
        checks
    });
    // Without grace: an object is deleted as soon as the next version does not reference it.
    let options = GarbageOptions { segments_ms: 0, versions_ms: 0, ..GarbageOptions::default() };
    let collector = Collector::new(ingest.root().clone(), options);
    for round in 0..25 {
        stretch(&ingest, &format!("d{}", round % 3), round * 3, 40, round).await;
        let request = if round % 3 == 2 { CompactRequest::Full } else { CompactRequest::Fold };
        ingest.compact(request).await.unwrap();
        collector.collect(Sweep::Quick).await.unwrap();
    }
    stop.store(true, Ordering::Relaxed);
    assert!(checker.await.unwrap() > 0);
}
