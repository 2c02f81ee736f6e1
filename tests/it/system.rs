//! System information by SQL: connections, settings, files, log; IDs of statements.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpStream,
    time::Duration,
};

use serde_json::{Value, json};
use tidelake_tests::{Http, Server, process};

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_are_listed_and_end_when_they_are_killed() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path().to_str().unwrap(), [""; 0]);
    let http = Http::new(&server.url());
    let mut other = TcpStream::connect(server.address).unwrap();
    let ask = |stream: &mut TcpStream| {
        stream.write_all(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
        let mut reply = [0; 4_096];
        let read = stream.read(&mut reply).unwrap();
        String::from_utf8_lossy(&reply[..read]).into_owned()
    };
    for _ in 0..3 {
        assert!(ask(&mut other).starts_with("HTTP/1.1 200"));
    }
    let address = other.local_addr().unwrap().to_string();
    let listed = http.sql("show connections").await;
    let found = listed.iter().find(|row| row[1] == address.as_str()).unwrap();
    assert_eq!((&found[2], &found[5]), (&Value::Null, &json!(3)), "{listed:?}");
    assert_eq!(listed.len(), 2, "that one and this one: {listed:?}");
    http.sql(&format!("kill connection '{}'", text(&found[0]))).await;
    other.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    assert_eq!(other.read(&mut [0; 16]).unwrap(), 0, "it has ended");
    let left = http.sql("select address from system.connections").await;
    assert!(!left.is_empty() && left.iter().all(|row| row[0] != address.as_str()), "{left:?}");
    for unknown in ["999", "x"] {
        let reply = http.post("/api/v1/sql", &[], format!("kill connection '{unknown}'")).await.unwrap();
        assert!(reply.status == 404 && reply.body.contains("no such connection"), "{}", reply.body);
    }
    server.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_statement_has_a_name_in_its_reply_and_in_the_log_when_it_is_slow() {
    let directory = tempfile::tempdir().unwrap();
    let (root, log) = (directory.path().join("root"), directory.path().join("log"));
    let arguments = ["--slow-query", "1ms", "--log", "error,tidelake::slow=warn"];
    let server = Server::start_logged(root.to_str().unwrap(), arguments, fs::File::create(&log).unwrap());
    let client = reqwest::Client::new();
    let ask = |path: &'static str, sql: &'static str| {
        let request = client.post(format!("{}{path}", server.url())).body(sql);
        async move {
            let reply = request.send().await.unwrap();
            let name = reply.headers()["x-tidelake-query"].to_str().unwrap().to_owned();
            (reply.status().as_u16(), name, reply.text().await.unwrap())
        }
    };
    let slow = "select count(*) from generate_series(1, 3000000) as a(n) where n % 7 = 3";
    let (status, name, body) = ask("/api/v1/sql", slow).await;
    assert_eq!(status, 200, "{body}");
    let (_, other, _) = ask("/rest/sql", slow).await;
    let (status, failed, _) = ask("/api/v1/sql", "select nothing from nowhere").await;
    assert!(status == 400 || status == 404, "{status}");
    assert!(name != other && other != failed, "each has its own");
    let metrics = Http::new(&server.url()).get("/metrics").await.unwrap().body;
    assert!(metrics.contains("tidelake_query_seconds_count") && metrics.contains("tidelake_query_statements_total"));
    server.stop();
    let logged = fs::read_to_string(&log).unwrap();
    for name in [name, other] {
        let line = logged.lines().find(|line| line.contains(&name)).unwrap_or_else(|| panic!("{name}: {logged}"));
        assert!(line.contains("generate_series") && line.contains("took_ms"), "{line}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_of_the_system_tell_what_lies_in_the_root_and_which_settings_are_in_force() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().to_str().unwrap();
    let server = Server::start(root, ["--fold-interval", "1h", "--query-concurrency", "7"]);
    let http = Http::new(&server.url());
    let lines = |n: u64| -> String {
        (0..100).map(|i| format!("m,host=h{} v={i}i {}\n", i % 5, 1_700_000_000_000_u64 + n * 86_400_000 + i)).collect()
    };
    for day in 0..3 {
        assert_eq!(http.post("/write?db=d&precision=ms", &[], lines(day)).await.unwrap().status, 204);
    }
    let log = http.sql("select path, database, \"table\", rows, series, fault from system.log order by path").await;
    let rows: u64 = log.iter().map(|row| row[3].as_u64().unwrap()).sum();
    assert_eq!(rows, 300, "{log:?}");
    for row in &log {
        assert!(directory.path().join(text(&row[0])).is_file(), "{row:?}");
        assert_eq!((&row[1], &row[2], &row[4], &row[5]), (&json!("d"), &json!("m"), &json!(5), &Value::Null));
    }
    assert_eq!(http.sql("select count(*) from system.files").await, [[json!(0)]]);
    http.compact("full").await;
    assert_eq!(http.sql("select count(*) from system.log").await, [[json!(0)]]);
    let files = http.sql("select path, rows, series, bytes, max_ts - min_ts from system.files order by path").await;
    assert_eq!(files.iter().map(|row| row[1].as_u64().unwrap()).sum::<u64>(), 300, "{files:?}");
    for row in &files {
        let size = fs::metadata(directory.path().join(text(&row[0]))).unwrap().len();
        assert_eq!((row[2].as_u64(), row[3].as_u64()), (Some(5), Some(size)), "{row:?}");
    }
    let manifests = http.sql("select path, bytes, data from system.manifests order by data").await;
    assert_eq!(
        manifests.iter().map(|row| &row[2]).collect::<Vec<_>>(),
        files.iter().map(|row| &row[0]).collect::<Vec<_>>()
    );
    for row in &manifests {
        assert_eq!(fs::metadata(directory.path().join(text(&row[0]))).unwrap().len(), row[1].as_u64().unwrap());
    }
    // Prepared once, it returns the state at execution.
    http.sql("delete from d.m where ts < '2023-11-16'").await;
    http.compact("full").await;
    let left = http.sql("select path, rows, series, bytes, max_ts - min_ts from system.files order by path").await;
    assert!(left.iter().map(|row| row[1].as_u64().unwrap()).sum::<u64>() < 300, "{left:?}");

    assert_eq!(http.sql("show variables like 'query_concurrency'").await, [[json!("query_concurrency"), json!("7")]]);
    assert_eq!(http.sql("select value from system.variables where name = 'store'").await, [[json!(root)]]);
    server.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_of_tdengine_know_tables_without_tags_and_the_tags_of_others() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path().to_str().unwrap(), [""; 0]);
    let http = Http::new(&server.url());
    for sql in [
        "create database d",
        "create table d.alone (ts timestamp, v int)",
        "insert into d.alone values (1700000000000, 2)",
        "create stable d.meters (ts timestamp, v double) tags (site varchar(20), floor int)",
        "insert into d.m1 using d.meters tags ('a', 3) values (1700000000000, 2.5)",
    ] {
        http.sql(sql).await;
    }
    let tables =
        "select table_name, stable_name, type from information_schema.ins_tables where db_name = 'd' order by 1";
    assert_eq!(
        http.sql(tables).await,
        [[json!("alone"), Value::Null, json!("NORMAL_TABLE")], [json!("m1"), json!("meters"), json!("CHILD_TABLE")]]
    );
    let columns = "select col_name, col_type, col_length, col_nullable from information_schema.ins_columns
                   where db_name = 'd' and table_name = 'meters'";
    assert_eq!(
        http.sql(columns).await,
        [
            [json!("ts"), json!("TIMESTAMP"), json!(8), json!(0)],
            [json!("v"), json!("DOUBLE"), json!(8), json!(1)],
            [json!("site"), json!("VARCHAR(20)"), json!(20), json!(1)],
            [json!("floor"), json!("INT"), json!(4), json!(1)],
        ]
    );
    server.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_nodes_of_a_root_are_listed_until_they_stop() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().to_str().unwrap();
    let one = Server::start(root, ["--fold-interval", "1h"]);
    let other = Server::start(root, ["--fold-interval", "1h"]);
    let http = Http::new(&one.url());
    // A server announces itself a second after its start.
    let listed = async |expected: usize| {
        let mut found = Vec::new();
        for _ in 0..100 {
            let columns = "address, role, version, segments, bytes > 0, last_seen >= started, id";
            found = http.sql(&format!("select {columns} from system.nodes order by address")).await;
            if found.len() == expected {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert_eq!(found.len(), expected, "{found:?}");
        found
    };
    for n in 0..3 {
        let line = format!("m,host=a v={n}i {}", 1_700_000_000_000_u64 + n);
        assert_eq!(http.post("/write?db=d&precision=ms", &[], line).await.unwrap().status, 204);
    }
    let found = listed(2).await;
    let mut expected =
        vec![(one.address.to_string(), "writer", 3, true), (other.address.to_string(), "reader", 0, false)];
    expected.sort();
    for (row, (address, role, segments, has_bytes)) in found.iter().zip(&expected) {
        assert_eq!(
            row[..5],
            [json!(address), json!(role), json!(env!("CARGO_PKG_VERSION")), json!(segments), json!(has_bytes)],
            "{found:?}"
        );
        assert_eq!(row[5], true, "{row:?}");
    }
    let screen = process::run(["status", "--url", &other.url()]);
    let text = String::from_utf8_lossy(&screen.stdout).into_owned();
    assert!(text.contains(&format!("writer {} on ", one.address)) && text.contains("; 3 segments,"), "{text}");
    assert!(text.contains(&format!("reader {} on ", other.address)), "{text}");

    // One that was killed stays for a day, one that stops goes.
    other.kill();
    assert_eq!(listed(2).await.len(), 2);
    let third = Server::start(root, ["--fold-interval", "1h"]);
    listed(3).await;
    third.stop();
    listed(2).await;
    one.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_about_parts_select_by_database_and_table_and_name_the_buckets_of_rollups() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path().to_str().unwrap(), ["--fold-interval", "1h"]);
    let http = Http::new(&server.url());
    // A row a second in ten series makes a rollup of minutes; a file of 20 rows has none.
    let dense: String =
        (0..70_000).map(|i| format!("dense,host=h{} v=1 {}\n", i % 10, 1_700_000_000 + i / 10)).collect();
    let small: String = (0..20).map(|i| format!("small,host=h{i} v=1 {}\n", 1_700_000_000 + i)).collect();
    for (database, body) in [("a", dense), ("a", small.clone()), ("b", small)] {
        let target = format!("/write?db={database}&precision=s");
        assert_eq!(http.post(&target, &[], body).await.unwrap().status, 204);
    }
    http.compact("full").await;
    let files = "select database, \"table\", sum(rows), max(rollup_seconds) from system.files";
    let all = http.sql(&format!("{files} group by 1, 2 order by 1, 2")).await;
    let expected = json!([["a", "dense", 70_000, 60], ["a", "small", 20, null], ["b", "small", 20, null]]);
    assert_eq!(json!(all), expected);
    for row in expected.as_array().unwrap() {
        let (database, table) = (row[0].as_str().unwrap(), row[1].as_str().unwrap());
        // Twice: the second run uses the plan of the first one with other literals.
        for _ in 0..2 {
            let of = format!("{files} where database = '{database}' and \"table\" = '{table}' group by 1, 2");
            assert_eq!(json!(http.sql(&of).await), json!([row]));
        }
        let series = format!("where db_name = '{database}' and stable_name = '{table}'");
        let count = if table == "dense" { 10 } else { 20 };
        let found = http.sql(&format!("select count(*) from information_schema.ins_tables {series}")).await;
        assert_eq!(json!(found), json!([[count]]));
        let values =
            format!("select count(distinct tag_value) from information_schema.ins_tags {series} and tag_name = 'host'");
        assert_eq!(json!(http.sql(&values).await), json!([[count]]));
    }
    for nothing in [
        "system.files where database = 'c'",
        "system.manifests where 'c' = database",
        "information_schema.ins_tags where tag_name = 'x'",
    ] {
        assert_eq!(json!(http.sql(&format!("select count(*) from {nothing}")).await), json!([[0]]), "{nothing}");
    }
    server.stop();
}
