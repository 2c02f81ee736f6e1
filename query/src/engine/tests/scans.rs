//! Scans planned by one process and executed by another.

use std::{
    process::{Command, Stdio},
    sync::Arc,
};

use arrow::{
    array::{ArrayRef, RecordBatch},
    compute::cast,
    datatypes::{DataType, TimeUnit},
};
use futures::TryStreamExt;
use tidelake_format::{
    Kind,
    access::{Principal, Rights},
    meta::Root,
    snapshot::{SnapshotOptions, SnapshotReader},
    store::Store,
};

use super::{
    engine, lines, session, shown,
    world::{START, World},
};
use crate::{
    engine::{Engine, EngineConfig, Outcome, ScanSpec},
    error::from_datafusion,
    session::Session,
    writer::ReadOnlyWriter,
};

/// The environment variables that pass the root and the spec to the executing process.
const ROOT: &str = "TIDELAKE_TEST_SCAN_ROOT";
const SPEC: &str = "TIDELAKE_TEST_SCAN_SPEC";
/// The environment variable for the file to which the executing process writes the rows.
const ROWS: &str = "TIDELAKE_TEST_SCAN_ROWS";

/// Queries with columns in the table's order, as a scan returns them.
const QUERIES: [&str; 12] = [
    "select * from t",
    "select ts, a, tbname from t where g < 2",
    "select b, s, tbname from t where g <> 1 or s is null",
    "select ts, a, tbname from t where tbname = 'd3'",
    "select ts, b from t where tbname = 'none'",
    "select ts, c, tbname from t where ts >= 1600000007000 and ts < 1600000023000",
    "select ts, a, tbname from t where ts > 1600000011000 and g in (0, 2)",
    "select ts, s from t where s = 'x'",
    "select ts, tbname from t where a > 3",
    "select ts, b from t where (a between -5 and 9.5 or b is null) and g <> 1",
    "select a, c, tbname from t where a in (1, 2, 3, 7, 9) and not (b < 2.5)",
    "select ts, a from t where a < b and ts <> 1600000011000 and a is not null",
];

/// The rows of a scan, with times in nanoseconds as queries return them.
async fn rows(engine: &Engine, session: &Session, spec: &ScanSpec) -> crate::Result<Vec<RecordBatch>> {
    let Outcome::Rows(stream) = engine.scan(session, spec).await? else { panic!("a scan is no update") };
    let batches: Vec<RecordBatch> = stream.try_collect().await.map_err(from_datafusion)?;
    let as_answered = |column: &ArrayRef| match column.data_type() {
        DataType::Timestamp(..) => cast(column, &DataType::Timestamp(TimeUnit::Nanosecond, None)).unwrap(),
        _ => column.clone(),
    };
    let named = |batch: &RecordBatch| {
        let schema = batch.schema();
        let columns = schema.fields().iter().zip(batch.columns());
        RecordBatch::try_from_iter_with_nullable(
            columns.map(|(field, column)| (field.name().clone(), as_answered(column), true)),
        )
    };
    Ok(batches.iter().map(|batch| named(batch).unwrap()).collect())
}

/// The only scan of a query, after an encoding round trip.
async fn spec(engine: &Engine, sql: &str) -> ScanSpec {
    let specs = engine.scans(&session(), sql).await.unwrap();
    let [spec] = &specs[..] else { panic!("{sql}: {specs:?}") };
    let read = ScanSpec::from_bytes(&spec.to_bytes().unwrap()).unwrap();
    assert_eq!(read, *spec);
    read
}

#[tokio::test]
async fn a_decoded_scan_returns_the_querys_rows_despite_later_writes() {
    for seed in 0..12 {
        let mut world = World::random(seed).await;
        let planning = engine(&world);
        let mut scans = Vec::new();
        for sql in QUERIES {
            scans.push((sql, spec(&planning, sql).await, lines(&planning, sql).await));
        }
        // The other engine shares no cache with the first one, and the table has more rows by now.
        let making = engine(&world);
        world.another_segment(seed).await;
        for (sql, spec, expected) in scans {
            for engine in [&making, &planning] {
                let found = rows(engine, &session(), &spec).await.unwrap_or_else(|e| panic!("{sql}: {e:?}"));
                assert_eq!(shown(&found), expected, "seed {seed}: {sql}");
            }
        }
    }
}

#[tokio::test]
async fn another_process_executes_a_decoded_scan() {
    let (directory, beside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = directory.path().to_str().unwrap();
    let world = World::random_in(Store::open(path, &[]).unwrap(), 7).await;
    let engine = engine(&world);
    for sql in [QUERIES[0], QUERIES[2], QUERIES[6]] {
        let bytes = spec(&engine, sql).await.to_bytes().unwrap();
        let answer = beside.path().join("rows");
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", "engine::tests::scans::makes_a_scan_for_another_process"]).stdin(Stdio::null());
        child.env(ROOT, path).env(SPEC, String::from_utf8(bytes).unwrap()).env(ROWS, &answer);
        let ended = tokio::task::spawn_blocking(move || child.output()).await.unwrap().unwrap();
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stdout));
        let found = std::fs::read_to_string(&answer).unwrap();
        let expected = lines(&engine, sql).await;
        assert!(!expected.is_empty());
        assert_eq!(found, expected.join("\n"), "{sql}");
    }
}

/// The process of the test above. Does nothing without its environment variables.
#[tokio::test]
async fn makes_a_scan_for_another_process() {
    let (Ok(root), Ok(spec)) = (std::env::var(ROOT), std::env::var(SPEC)) else { return };
    let root = Root::open_existing(Store::open(&root, &[]).unwrap()).await.unwrap();
    let snapshots = Arc::new(SnapshotReader::new(root.clone(), SnapshotOptions::default()));
    let engine = Engine::new(root, snapshots, Arc::new(ReadOnlyWriter), EngineConfig::default());
    let spec = ScanSpec::from_bytes(spec.as_bytes()).unwrap();
    let lines = shown(&rows(&engine, &session(), &spec).await.unwrap());
    std::fs::write(std::env::var(ROWS).unwrap(), lines.join("\n")).unwrap();
}

#[tokio::test]
async fn scans_of_aggregates_and_joins_return_their_rows() {
    let world = World::two_tables().await;
    let engine = engine(&world);
    for (sql, scans) in [
        ("select g, sum(a) from t group by g", 1),
        ("select _wstart, avg(a) from t interval(10s)", 1),
        ("select count(*) from t join u on t.ts = u.ts and t.tbname = u.tbname", 2),
        ("select 1", 0),
    ] {
        let specs = engine.scans(&session(), sql).await.unwrap();
        assert_eq!(specs.len(), scans, "{sql}");
        for spec in &specs {
            let found: usize = rows(&engine, &session(), spec).await.unwrap().iter().map(RecordBatch::num_rows).sum();
            assert_eq!(found, 240, "{sql}: {spec}");
        }
    }
    let limited = spec(&engine, "select ts from t limit 7").await;
    let found = rows(&engine, &session(), &limited).await.unwrap();
    assert_eq!(found.iter().map(RecordBatch::num_rows).sum::<usize>(), 7);
    let e = engine.scans(&session(), "delete from t").await.unwrap_err();
    assert_eq!(e.kind(), Kind::Invalid);
}

#[tokio::test]
async fn an_unauthorized_or_invalid_scan_is_refused() {
    let world = World::regular().await;
    let engine = engine(&world);
    let spec = spec(&engine, &format!("select a from t where g = 1 and ts > {START} and b > 0 and a <> 7")).await;
    let of_one_series = self::spec(&engine, "select ts from d2").await;
    assert_eq!(shown(&rows(&engine, &session(), &of_one_series).await.unwrap()).len(), 40);
    let stranger = Session { principal: Principal::new("eve", Rights::Granted(Default::default())), ..session() };
    let e = rows(&engine, &stranger, &spec).await.unwrap_err();
    assert!(matches!(e.kind(), Kind::Forbidden | Kind::NotFound), "{e:?}");
    let bytes = String::from_utf8(spec.to_bytes().unwrap()).unwrap();
    for (wrong, kind) in [
        (bytes.replace("\"format\":2", "\"format\":1"), Kind::Unsupported),
        (bytes.replace("\"limit\"", "\"limits\""), Kind::Invalid),
        (bytes[..bytes.len() - 9].to_owned(), Kind::Invalid),
        (String::new(), Kind::Invalid),
    ] {
        assert_eq!(ScanSpec::from_bytes(wrong.as_bytes()).unwrap_err().kind(), kind, "{wrong}");
    }
    for (wrong, kind) in [
        (bytes.replace("\"columns\":[1]", "\"columns\":[77]"), Kind::Invalid),
        (bytes.replace("\"table\":0", "\"table\":99"), Kind::NotFound),
        (bytes.replace("d1", "d77"), Kind::Invalid),
        (bytes.replace("{\"column\":2}", "{\"column\":77}"), Kind::Invalid),
        // A tag selects series.
        (bytes.replace("{\"column\":2}", "{\"column\":3}"), Kind::Invalid),
        (bytes.replace("\">\"", "\"~\""), Kind::Invalid),
        (bytes.replace("{\"constant\":1}", "{\"constant\":2}"), Kind::Invalid),
        (bytes.replace("\"constants\":\"", "\"constants\":\"AAAA"), Kind::Invalid),
    ] {
        assert_ne!(wrong, bytes);
        let wrong = ScanSpec::from_bytes(wrong.as_bytes()).unwrap();
        assert_eq!(rows(&engine, &session(), &wrong).await.unwrap_err().kind(), kind, "{wrong:?}");
    }
}
