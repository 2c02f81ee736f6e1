//! Data files are plain Parquet: DuckDB and pyarrow read them to the generator's counts and averages.

use std::{collections::BTreeMap, path::PathBuf, process::Command, time::Duration};

use tidelake_loadtest::{
    Devices,
    drive::{self, Existing, HttpOptions, WriteOptions},
    generate::{Order, Source},
};
use tidelake_tests::{Http, Server, tool};

#[tokio::test(flavor = "multi_thread")]
async fn duckdb_and_pyarrow_find_the_same_counts_and_averages_by_tag() {
    let Some(python) = tool("TIDELAKE_PYTHON") else { return };
    let set = Devices { devices: 300, rows: 1_000, seed: 11 };
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path().to_str().unwrap(), ["--fold-interval", "1h"]);
    drive::create_database(&server.url(), &HttpOptions::default(), Existing::Keep).await.unwrap();
    drive::write(&Source::Generated(set, Order::Device), &WriteOptions::new(server.url()), &|_| {}).await.unwrap();
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    Http::new(&server.url()).compact("full").await;

    let listed = Http::new(&server.url()).get("/api/v1/files?table=db.devices").await.unwrap().json();
    let listed = listed["files"].as_array().unwrap();
    let files: Vec<PathBuf> = listed.iter().map(|file| directory.path().join(file["data"].as_str().unwrap())).collect();
    assert!(!files.is_empty());
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/python/engines.py");
    let output = Command::new(python).arg(script).args(&files).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let found: BTreeMap<String, BTreeMap<String, (u64, f64)>> = serde_json::from_slice(&output.stdout).unwrap();

    let mut expected: BTreeMap<String, (u64, f64)> = BTreeMap::new();
    for id in set.ids() {
        let (count, sum) = expected.entry((id % 100).to_string()).or_default();
        for row in set.rows(id) {
            *count += 1;
            *sum += f64::from(row.temperature);
        }
    }
    for (engine, groups) in found {
        assert_eq!(groups.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>(), "{engine}");
        for (group, (count, mean)) in groups {
            let (expected_count, sum) = expected[&group];
            assert_eq!(count, expected_count, "{engine}, group {group}");
            let expected_mean = sum / expected_count as f64;
            assert!((mean - expected_mean).abs() <= 1e-9 * expected_mean.abs(), "{engine}, group {group}: {mean}");
        }
    }
}
