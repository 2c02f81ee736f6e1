//! Data files are plain Parquet: pyarrow, DuckDB and ClickHouse read the rows that were written.

use std::{path::Path, process::Command, time::Duration};

use serde_json::{Value, json};
use tidelake_loadtest::{
    Device, Devices,
    drive::{self, Existing, HttpOptions, WriteOptions},
    workload::generate::{Order, Source},
};
use tidelake_tests::{Http, Server, tool};

/// Result of `engines.py` on the live files of a table.
struct Found {
    encodings: Vec<String>,
    /// Rows by engine, ordered by the first two columns.
    rows: Vec<(String, Vec<Vec<Value>>)>,
}

async fn read(python: &str, http: &Http, root: &Path, table: &str, columns: &[&str]) -> Found {
    let listed = http.get(&format!("/api/v1/files?table={table}")).await.unwrap().json();
    let listed = listed["files"].as_array().unwrap();
    let files = listed.iter().map(|file| root.join(file["data"].as_str().unwrap()));
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/python/engines.py");
    let output = Command::new(python).arg(script).args(files).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let names: Vec<String> = serde_json::from_value(found["columns"].take()).unwrap();
    let places: Vec<usize> = columns.iter().map(|c| names.iter().position(|n| n == c).unwrap()).collect();
    let Value::Object(engines) = found["rows"].take() else { panic!("no rows") };
    let rows: Vec<_> = (engines.into_iter())
        .map(|(engine, rows)| {
            let rows: Vec<Vec<Value>> = serde_json::from_value(rows).unwrap();
            let taken = |row: Vec<Value>| -> Vec<Value> { places.iter().map(|&at| row[at].clone()).collect() };
            (engine, in_order(rows.into_iter().map(taken).collect()))
        })
        .collect();
    assert_eq!(rows.len(), 3);
    Found { encodings: serde_json::from_value(found["encodings"].take()).unwrap(), rows }
}

fn in_order(mut rows: Vec<Vec<Value>>) -> Vec<Vec<Value>> {
    rows.sort_by_key(|row| (row[0].to_string(), row[1].as_i64()));
    rows
}

fn assert_rows(engine: &str, found: &[Vec<Value>], expected: &[Vec<Value>]) {
    for (at, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert_eq!(found, expected, "{engine}, row {at}");
    }
    assert_eq!(found.len(), expected.len(), "{engine}");
}

/// A floating-point number as `engines.py` shows it.
fn bits(value: f64) -> Value {
    json!(format!("{:016x}", value.to_bits()))
}

#[tokio::test(flavor = "multi_thread")]
async fn other_engines_find_the_generators_rows_in_folded_and_merged_files() {
    let Some(python) = tool("TIDELAKE_PYTHON") else { return };
    let set = Devices { devices: 30, rows: 1_000, seed: 11 };
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path().to_str().unwrap(), ["--fold-interval", "1h"]);
    drive::create_database(&server.url(), &HttpOptions::default(), Existing::Keep).await.unwrap();
    drive::write(&Source::Generated(set, Order::Time), &WriteOptions::new(server.url()), &|_| {}).await.unwrap();
    let mut expected: Vec<Vec<Value>> = Vec::new();
    for id in set.ids() {
        let device = Device::numbered(id);
        for row in set.rows(id) {
            expected.push(vec![
                json!(device.devname),
                json!(row.ts),
                json!(row.temperature),
                bits(row.humidity.into()),
                json!(device.devid),
                json!(device.devgroup),
            ]);
        }
    }
    let expected = in_order(expected);
    let http = Http::new(&server.url());
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    for until in ["fold", "full"] {
        http.compact(until).await;
        let columns = ["devname", "ts", "temperature", "humidity", "devid", "devgroup"];
        let found = read(&python, &http, directory.path(), "db.devices", &columns).await;
        for (engine, rows) in found.rows {
            assert_rows(&format!("{engine} after {until}"), &rows, &expected);
        }
    }
}

/// Some pseudo-random bits for a row and a column.
fn noise(row: u64, column: u64) -> u64 {
    let mut x = (row << 8 | column).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x ^ (x >> 29)
}

type Make = fn(u64) -> (String, Value);

/// Columns of every type with values for each encoding: name, type, and a row's literal and value.
const COLUMNS: [(&str, &str, Make); 21] = [
    ("flag", "bool", |i| {
        if i % 7 == 0 { ("null".into(), Value::Null) } else { ((i % 2 == 0).to_string(), json!(i % 2 == 0)) }
    }),
    ("tiny", "tinyint", |i| int(i64::from(noise(i, 1) as i8))),
    ("small", "smallint", |i| int(i64::from(noise(i, 2) as i16))),
    ("counter", "int", |i| int(3 * i as i64 - 700)),
    ("sparse", "int", |i| if i % 50 == 3 { int(i as i64) } else { ("null".into(), Value::Null) }),
    ("never", "int", |_| ("null".into(), Value::Null)),
    ("constant", "bigint", |_| int(-5_000_000_000)),
    ("big", "bigint", |i| int(noise(i, 3) as i64 | 1)),
    ("tiny_u", "tinyint unsigned", |i| int(i64::from(noise(i, 4) as u8 % 255))),
    ("small_u", "smallint unsigned", |i| int(i64::from(noise(i, 5) as u16))),
    ("int_u", "int unsigned", |i| int(i64::from(noise(i, 6) as u32))),
    ("big_u", "bigint unsigned", |i| ((noise(i, 7) >> 1 | 1 << 63).to_string(), json!(noise(i, 7) >> 1 | 1 << 63))),
    ("single", "float", |i| {
        let value = (noise(i, 8) >> 40) as f32 / 7.0;
        (format!("{value:?}"), bits(value.into()))
    }),
    ("few", "double", |i| double((noise(i, 9) % 10) as f64 / 8.0)),
    ("decimal", "double", |i| double((noise(i, 10) % 100_000) as f64 / 100.0)),
    ("random", "double", |i| double((noise(i, 11) >> 11) as f64 / 3.0)),
    ("moment", "timestamp", |i| int(1_600_000_000_000 + (noise(i, 12) % 1_000_000) as i64)),
    ("words", "binary(40)", |i| text(&format!("{:x}", noise(i, 13)))),
    ("repeated", "binary(40)", |i| text(["on", "off", "", "überlast"][i as usize % 4])),
    ("wide", "nchar(20)", |i| text(&format!("väder {}", i / 3))),
    ("bytes", "varbinary(16)", |i| (format!("'\\x{:016x}'", noise(i, 14)), json!(format!("{:016x}", noise(i, 14))))),
];

fn int(value: i64) -> (String, Value) {
    (value.to_string(), json!(value))
}

fn double(value: f64) -> (String, Value) {
    (format!("{value:?}"), bits(value))
}

fn text(value: &str) -> (String, Value) {
    (format!("'{value}'"), json!(value))
}

#[tokio::test(flavor = "multi_thread")]
async fn other_engines_find_every_type_in_every_encoding() {
    let Some(python) = tool("TIDELAKE_PYTHON") else { return };
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path().to_str().unwrap(), ["--fold-interval", "1h"]);
    let http = Http::new(&server.url());
    http.rest_sql("create database db precision 'ms' keep 73000d duration 100d").await;
    let columns: Vec<String> = COLUMNS.iter().map(|(name, ty, _)| format!("{name} {ty}")).collect();
    let tags = "site int, label nchar(8), ratio double, is_on bool, big_tag bigint unsigned";
    http.rest_sql(&format!("create stable db.t (ts timestamp, {}) tags ({tags})", columns.join(", "))).await;
    let mut expected: Vec<Vec<Value>> = Vec::new();
    for subtable in 0..4_u64 {
        let label = ["süd", "nord", "", "ost"][subtable as usize];
        let ratio = subtable as f64 / 3.0;
        let tags = [json!(subtable), json!(label), bits(ratio), json!(subtable % 2 == 0), json!(u64::MAX - subtable)];
        let mut values = String::new();
        for row in 0..1_500_u64 {
            // Two partitions of 100 days.
            let ts = 1_600_000_000_000 + row as i64 * 10_000_000;
            let made: Vec<(String, Value)> = COLUMNS.iter().map(|(_, _, make)| make(subtable * 1_500 + row)).collect();
            let literals: Vec<&str> = made.iter().map(|(literal, _)| literal.as_str()).collect();
            values.push_str(&format!("({ts}, {})", literals.join(", ")));
            let key = [json!(format!("d{subtable}")), json!(ts)];
            expected.push(key.into_iter().chain(made.into_iter().map(|made| made.1)).chain(tags.clone()).collect());
        }
        let tags = format!("{subtable}, '{label}', {ratio:?}, {}, {}", subtable % 2 == 0, u64::MAX - subtable);
        http.rest_sql(&format!("insert into db.d{subtable} using db.t tags ({tags}) values {values}")).await;
    }
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    http.compact("full").await;
    let names: Vec<&str> = (["tbname", "ts"].into_iter())
        .chain(COLUMNS.iter().map(|(name, _, _)| *name))
        .chain(["site", "label", "ratio", "is_on", "big_tag"])
        .collect();
    let found = read(&python, &http, directory.path(), "db.t", &names).await;
    for encoding in ["BYTE_STREAM_SPLIT", "DELTA_BINARY_PACKED", "DELTA_LENGTH_BYTE_ARRAY", "PLAIN", "RLE_DICTIONARY"] {
        assert!(found.encodings.iter().any(|found| found == encoding), "{encoding}: {:?}", found.encodings);
    }
    for (engine, rows) in found.rows {
        assert_rows(&engine, &rows, &expected);
    }
}
