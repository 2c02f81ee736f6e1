//! Roots written by earlier releases stay readable. `tests/fixtures/v1` has format version 1, with folded and merged
//! files, files with a pending delete, tags that were set, dropped and added columns, and a log.
//!
//! Expected rows are computed from the formula by which the root was written, not from recorded results.

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use serde_json::{Value, json};
use tidelake_tests::{Flight, Http, Server, process};

const ARGUMENTS: [&str; 2] = ["--fold-interval", "1h"];
/// Rows per series in each of the three parts: merged, folded, log.
const PART: i64 = 40;
const DEVICES: i64 = 5;
const HOUR: i64 = 3_600_000;

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/v1")
}

/// The value written to a field; `None` if none was.
fn temperature(device: i64, i: i64) -> Option<i64> {
    (i % 7 != 3).then_some(device * 1_000 + i)
}

fn humidity(device: i64, i: i64) -> f64 {
    (device * 31 + i) as f64 / 8.0
}

fn note(device: i64, i: i64) -> String {
    format!("ñ{}", (device + i) % 3)
}

/// Half an hour apart: several partitions of half a day.
fn ts(i: i64) -> i64 {
    i * HOUR / 2
}

fn is_deleted(device: i64, i: i64) -> bool {
    device == 2 && (10..50).contains(&i)
}

/// `select tbname, cast(ts as bigint), temp, humidity, note, ok, site order by tbname, ts`.
fn expected() -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    for device in 0..DEVICES {
        for i in (0..3 * PART).filter(|i| !is_deleted(device, *i)) {
            let site = if device == 1 { json!("moved") } else { json!(format!("s{}", device % 2)) };
            // `ok` was added before the last part.
            let ok = if i >= 2 * PART { json!(i % 2 == 0) } else { Value::Null };
            let temp = temperature(device, i).map_or(Value::Null, |t| json!(t));
            rows.push(vec![
                json!(format!("d{device}")),
                json!(ts(i)),
                temp,
                json!(humidity(device, i)),
                json!(note(device, i)),
                ok,
                site,
            ]);
        }
    }
    rows
}

fn inserts(part: i64) -> Vec<String> {
    (0..DEVICES)
        .map(|device| {
            let mut sql = format!("insert into v1.d{device} using v1.devices tags('s{}', {device}) ", device % 2);
            sql += if part == 2 {
                "(ts, temp, humidity, note, ok) values"
            } else {
                "(ts, temperature, humidity, note, gone) values"
            };
            for i in part * PART..(part + 1) * PART {
                let temperature = temperature(device, i).map_or("null".to_owned(), |t| t.to_string());
                let last = if part == 2 { (i % 2 == 0).to_string() } else { i.to_string() };
                let (humidity, note) = (humidity(device, i), note(device, i));
                write!(sql, " ({}, {temperature}, {humidity}, '{note}', {last})", ts(i)).unwrap();
            }
            sql
        })
        .collect()
}

/// Writes the fixture with this build; only for a new version of the format.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "writes tests/fixtures"]
async fn write_the_fixture_of_this_version() {
    let at = fixture();
    fs::create_dir_all(&at).unwrap();
    let server = Server::start(at.to_str().unwrap(), ARGUMENTS);
    let http = Http::new(&server.url());
    http.rest_sql("create database v1 keep 73000d duration 12h").await;
    http.rest_sql("create stable v1.devices (ts timestamp, temperature int, humidity double, note nchar(8), gone bigint) tags (place binary(16), number int)").await;
    for part in 0..2 {
        for insert in inserts(part) {
            http.rest_sql(&insert).await;
        }
        http.compact(if part == 0 { "full" } else { "fold" }).await;
    }
    for sql in [
        "alter stable v1.devices rename tag place site",
        "alter table v1.d1 set tag site = 'moved'",
        "alter stable v1.devices drop column gone",
        "alter stable v1.devices add column ok bool",
        "alter stable v1.devices add column temp bigint",
    ] {
        http.rest_sql(sql).await;
    }
    for insert in inserts(2) {
        http.rest_sql(&insert).await;
    }
    http.rest_sql(&format!("delete from v1.d2 where ts >= {} and ts < {}", ts(10), ts(50))).await;
    server.kill();
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    fs::write(at.with_extension("written"), format!("{now}\n")).unwrap();
}

/// Copies a directory; all files get the modification time `written`, because the age of a segment matters.
fn copy(from: &Path, to: &Path, written: SystemTime) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target, written);
        } else {
            fs::copy(entry.path(), &target).unwrap();
            fs::File::options().write(true).open(&target).unwrap().set_modified(written).unwrap();
        }
    }
}

async fn check(http: &Http, flight: &mut Flight, more: i64, state: &str) {
    let temp = "coalesce(temp, cast(temperature as bigint))";
    let sql = format!(
        "select tbname, cast(ts as bigint), {temp}, humidity, note, ok, site from v1.devices where tbname <> 'new' order by tbname, ts"
    );
    let expected = expected();
    assert_eq!(http.sql(&sql).await, expected, "{state}");
    assert_eq!(flight.query(&sql).await.unwrap().num_rows(), expected.len(), "{state}");
    // Answered from the tag manifests if possible.
    for site in ["s0", "s1", "moved"] {
        let of_site = || expected.iter().filter(|row| row[6] == *site);
        let sum: f64 = of_site().map(|row| row[3].as_f64().unwrap()).sum();
        let sql = format!(
            "select count(*), count({temp}), sum(humidity), min(ts), max(ts) from v1.devices where site = '{site}' and tbname <> 'new'"
        );
        let sql = sql.replace("min(ts)", "cast(min(ts) as bigint)").replace("max(ts)", "cast(max(ts) as bigint)");
        let temps = of_site().filter(|row| !row[2].is_null()).count();
        let ends = [of_site().map(|row| row[1].as_i64()).min(), of_site().map(|row| row[1].as_i64()).max()];
        let wanted = [json!(of_site().count()), json!(temps), json!(sum), json!(ends[0]), json!(ends[1])];
        assert_eq!(http.sql(&sql).await, [wanted], "{state}: {site}");
    }
    let new = http.sql("select count(*) from v1.devices where tbname = 'new'").await;
    assert_eq!(new, [[json!(more)]], "{state}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_root_of_format_version_1_is_read_checked_written_and_compacted() {
    let directory = tempfile::tempdir().unwrap();
    let written = fs::read_to_string(fixture().with_extension("written")).unwrap();
    let written = SystemTime::UNIX_EPOCH + Duration::from_secs(written.trim().parse().unwrap());
    copy(&fixture(), directory.path(), written);
    let store = directory.path().to_str().unwrap();
    let output = process::run(["check", "--store", store]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("0 faults"), "{said}");

    let server = Server::start(store, ARGUMENTS);
    let http = Http::new(&server.url());
    let mut flight = Flight::connect(&server.url()).await;
    check(&http, &mut flight, 0, "as it was written").await;
    http.rest_sql("insert into v1.new using v1.devices tags('s0', 9) (ts, temp, humidity) values (0, 1, 1.5)").await;
    check(&http, &mut flight, 1, "with a row of today").await;
    http.compact("fold").await;
    check(&http, &mut flight, 1, "folded").await;
    http.compact("full").await;
    check(&http, &mut flight, 1, "merged").await;
    server.stop();
    let output = process::run(["check", "--store", store]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("0 faults"), "{said}");
}
