//! Invalid input and damaged objects: each error names what, where, expected and found, and valid parts are kept.

use std::path::{Path, PathBuf};

use serde_json::json;
use tidelake_tests::{Flight, Http, Server, process};

fn start(directory: &tempfile::TempDir) -> (Server, Http) {
    let server = Server::start(directory.path().to_str().unwrap(), ["--fold-interval", "1h", "--max-body", "1MiB"]);
    let http = Http::new(&server.url());
    (server, http)
}

/// The objects under a prefix of a directory root.
fn objects(root: &Path, prefix: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut next = vec![root.join(prefix)];
    while let Some(path) = next.pop() {
        if path.is_dir() {
            next.extend(std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
        } else {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn assert_names(body: &str, words: &[&str]) {
    for word in words {
        assert!(body.to_lowercase().contains(&word.to_lowercase()), "{word:?} is missing in: {body}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_lines_are_named_one_by_one_and_good_ones_beside_them_are_kept() {
    let directory = tempfile::tempdir().unwrap();
    let (_server, http) = start(&directory);
    let seed = http.post("/write?db=bad&precision=ms", &[], "m,h=a v=1i 1").await.unwrap();
    assert_eq!(seed.status, 204, "{}", seed.body);

    let body =
        "m,h=a v=2i 2\nm,h=a v= 3\nm,h=a v=\"text\" 4\nm,h=a,h=b v=5i 5\nm,h=a v=6i 99999999999999999999\nm,h=a v=7i 7";
    let reply = http.post("/write?db=bad&precision=ms", &[], body).await.unwrap();
    assert_eq!(reply.status, 400, "{}", reply.body);
    assert_names(&reply.body, &["partial write", "line 2", "dropped=4"]);

    let conflict = http.post("/write?db=bad&precision=ms", &[], "m,h=a v=\"text\" 4").await.unwrap();
    assert_eq!(conflict.status, 400);
    assert_names(&conflict.body, &["field type conflict", "\\\"v\\\"", "m"]);

    let rows = http.sql("select v from bad.m order by v").await;
    assert_eq!(rows, [[json!(1)], [json!(2)], [json!(7)]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_that_cannot_be_read_are_refused_and_nothing_of_them_is_stored() {
    let directory = tempfile::tempdir().unwrap();
    let (_server, http) = start(&directory);
    let gzip = [("content-encoding", "gzip")];
    let reply = http.post("/write?db=bad", &gzip, "m v=1i 1").await.unwrap();
    assert_eq!(reply.status, 400, "{}", reply.body);
    assert_names(&reply.body, &["gzip"]);

    let big = "m v=1i 1\n".repeat(200_000);
    let reply = http.post("/write?db=bad", &[], big.clone()).await.unwrap();
    assert_eq!(reply.status, 413, "{}", reply.body);
    assert_names(&reply.body, &["1048576"]);

    // A small body that decompresses to a large one is refused too.
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    std::io::Write::write_all(&mut encoder, big.as_bytes()).unwrap();
    let reply = http.post("/write?db=bad", &gzip, encoder.finish().unwrap()).await.unwrap();
    assert_eq!(reply.status, 413, "{}", reply.body);

    let reply = http.post("/write?precision=ms", &[], "m v=1i 1").await.unwrap();
    assert_eq!(reply.status, 400, "{}", reply.body);
    let reply = http.post("/write?db=bad&precision=fortnights", &[], "m v=1i 1").await.unwrap();
    assert_eq!(reply.status, 400, "{}", reply.body);
    assert_names(&reply.body, &["fortnights"]);
    assert_eq!(http.sql("select count(*) from information_schema.tables where table_name='m'").await[0][0], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_statements_name_what_is_wrong_on_every_door() {
    let directory = tempfile::tempdir().unwrap();
    let (server, http) = start(&directory);
    http.post("/write?db=bad&precision=ms", &[], "m,h=a v=1i 1").await.unwrap();
    let mut flight = Flight::connect(&server.url()).await;
    let wrong: [(&str, &[&str]); 8] = [
        ("select v from bad.nowhere", &["nowhere"]),
        ("select v from nodb.m", &["nodb"]),
        ("select w from bad.m", &["w"]),
        ("selec v from bad.m", &["selec"]),
        ("select v from bad.m where", &["expected"]),
        ("select avg(v) from bad.m interval(0s)", &["window", "0s"]),
        ("select v from bad.m; select 1", &["statement"]),
        ("", &["empty"]),
    ];
    for (sql, words) in wrong {
        let reply = http.post("/api/v1/sql", &[], sql).await.unwrap();
        assert!((400..500).contains(&reply.status), "{sql}: {} {}", reply.status, reply.body);
        assert_names(&reply.body, words);

        let reply = http.post("/rest/sql", &[], sql).await.unwrap();
        assert!(reply.status == 200 || reply.status == 400, "{sql}: {} {}", reply.status, reply.body);
        assert_ne!(reply.json()["code"], 0, "{sql}");
        assert_names(&reply.body, words);

        let error = flight.query(sql).await.unwrap_err();
        assert!(!error.contains("Internal"), "{sql}: {error}");
        assert_names(&error, words);
    }
    // No data was changed.
    assert_eq!(http.sql("select v from bad.m").await[0][0], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn statements_that_write_are_checked_value_by_value() {
    let directory = tempfile::tempdir().unwrap();
    let (_server, http) = start(&directory);
    http.rest_sql("create database bad precision 'ms' keep 36500d").await;
    http.rest_sql("create table bad.s (ts timestamp, n tinyint, t binary(4)) tags (g int)").await;
    let wrong: [(&str, &[&str]); 6] = [
        ("insert into bad.d using bad.s tags(1) values (1, 1000, 'x')", &["n", "1000"]),
        ("insert into bad.d using bad.s tags(1) values (1, 1, 'too long')", &["t", "4"]),
        ("insert into bad.d using bad.s tags('x') values (1, 1, 'x')", &["g", "x"]),
        ("insert into bad.d using bad.s tags(1) values (1, 1)", &["value"]),
        ("insert into bad.nobody values (1, 1, 'x')", &["nobody"]),
        ("create table bad.s (ts timestamp, n int) tags (g int)", &["s"]),
    ];
    for (sql, words) in wrong {
        let reply = http.post("/rest/sql", &[], sql).await.unwrap();
        assert_ne!(reply.json()["code"], 0, "{sql}");
        assert_names(&reply.body, words);
    }
    http.rest_sql("insert into bad.d using bad.s tags(1) values (1, 1, 'ok')").await;
    assert_eq!(http.sql("select n, t from bad.s").await, [[json!(1), json!("ok")]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_point_is_reported_in_opentsdbs_shape_and_good_ones_are_kept() {
    let directory = tempfile::tempdir().unwrap();
    let (_server, http) = start(&directory);
    let body = r#"[{"metric":"sys.load","timestamp":1563249700,"value":1.5,"tags":{"host":"a"}},
                   {"metric":"sys.load","timestamp":1563249701,"value":"abc","tags":{"host":"a"}}]"#;
    let reply = http.post("/api/put?details", &[], body).await.unwrap();
    assert_eq!(reply.status, 400, "{}", reply.body);
    let json = reply.json();
    assert_eq!((&json["success"], &json["failed"]), (&json!(1), &json!(1)), "{json}");
    let reply = http.post("/api/put", &[], "{not json").await.unwrap();
    assert_eq!(reply.status, 400, "{}", reply.body);
    assert_eq!(http.sql("select value from opentsdb.\"sys.load\"").await[0][0], 1.5);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_truncated_segment_is_named_and_other_tables_answer() {
    let directory = tempfile::tempdir().unwrap();
    let (server, http) = start(&directory);
    http.post("/write?db=bad&precision=ms", &[], "whole,h=a v=1i 1").await.unwrap();
    http.compact("full").await;
    tokio::time::sleep(std::time::Duration::from_secs(3)).await;
    http.compact("full").await;
    // Segments that were folded stay for a while.
    let before = objects(directory.path(), "log");
    http.post("/write?db=bad&precision=ms", &[], "torn,h=a v=1i 1").await.unwrap();
    server.kill();

    let segment = objects(directory.path(), "log").into_iter().find(|segment| !before.contains(segment)).unwrap();
    let bytes = std::fs::read(&segment).unwrap();
    std::fs::write(&segment, &bytes[..bytes.len() / 2]).unwrap();
    let (_server, http) = start(&directory);
    let reply = http.post("/api/v1/sql", &[], "select * from bad.torn").await.unwrap();
    assert_ne!(reply.status, 200, "{}", reply.body);
    assert_names(&reply.body, &["corrupt", segment.file_name().unwrap().to_str().unwrap()]);
    // Requests that do not need the log still work.
    assert_eq!(http.get("/health").await.unwrap().status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_truncated_data_file_is_named_and_other_tables_answer() {
    let directory = tempfile::tempdir().unwrap();
    let (server, http) = start(&directory);
    for table in ["torn", "whole"] {
        http.post("/write?db=bad&precision=ms", &[], format!("{table},h=a v=1i,w=\"x\" 1")).await.unwrap();
    }
    tokio::time::sleep(std::time::Duration::from_secs(3)).await;
    http.compact("full").await;
    server.stop();

    let files: Vec<_> =
        objects(directory.path(), "data").into_iter().filter(|p| p.extension().unwrap() == "parquet").collect();
    assert_eq!(files.len(), 2, "{files:?}");
    let bytes = std::fs::read(&files[0]).unwrap();
    std::fs::write(&files[0], &bytes[..bytes.len() - 20]).unwrap();
    let (_server, http) = start(&directory);
    let mut outcomes = Vec::new();
    for table in ["torn", "whole"] {
        let reply = http.post("/api/v1/sql", &[], format!("select w from bad.{table}")).await.unwrap();
        if reply.status != 200 {
            assert_names(&reply.body, &["corrupt", files[0].file_name().unwrap().to_str().unwrap()]);
        }
        outcomes.push(reply.status == 200);
    }
    outcomes.sort();
    assert_eq!(outcomes, [false, true], "one table fails by name, the other answers");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newer_format_version_is_refused_by_name() {
    let directory = tempfile::tempdir().unwrap();
    let (server, http) = start(&directory);
    http.post("/write?db=bad&precision=ms", &[], "m,h=a v=1i 1").await.unwrap();
    server.stop();
    // The format version is the little-endian u32 after the 8 magic bytes (SPEC.md).
    let newest = objects(directory.path(), "meta").remove(0);
    let mut bytes = std::fs::read(&newest).unwrap();
    bytes[8..12].copy_from_slice(&77u32.to_le_bytes());
    std::fs::write(&newest, bytes).unwrap();
    let output = process::run(["inspect", "--store", directory.path().to_str().unwrap()]);
    assert!(!output.status.success());
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_names(&error, &["77", newest.file_name().unwrap().to_str().unwrap()]);
}

#[test]
fn all_faults_of_the_settings_are_listed_at_once() {
    let output = process::run(["serve", "--listen", "nowhere", "--fold-interval", "soon", "--query-memory", "0"]);
    assert_eq!(output.status.code(), Some(1));
    assert_names(&String::from_utf8_lossy(&output.stderr), &["listen", "fold_interval", "query_memory"]);
}
