//! Tests of the procedures in docs/operations.

use std::{
    fs::File,
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use tidelake_tests::{Http, S3Server, Server, process, tool};

/// Runs a program to its end, in a directory.
fn run(program: &str, arguments: &[&str], directory: &Path) {
    let output = Command::new(program).args(arguments).current_dir(directory).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{program} {arguments:?}: {told}");
}

fn tidelake(arguments: &[&str]) {
    let output = process::run(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Twenty rows of two series, a second apart.
async fn write(http: &Http, table: &str) {
    for host in ["a", "b"] {
        let lines: String = (0..10)
            .map(|n| format!("{table},host={host} v={n},w={n}i {}\n", 1_700_000_000_000_u64 + n * 1_000))
            .collect();
        assert_eq!(http.post("/write?db=d&precision=ms", &[], lines).await.unwrap().status, 204);
    }
}

async fn rows(http: &Http, table: &str) -> serde_json::Value {
    http.rest_sql(&format!("select host, ts, v, w from d.{table} order by host, ts")).await.into()
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_of_a_wrong_delete_and_of_a_dropped_table_come_back_from_files() {
    let Some(python) = tool("TIDELAKE_PYTHON") else { return };
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("root");
    let store = root.to_str().unwrap();
    let server = Server::start(store, ["--fold-interval", "1h"]);
    let http = Http::new(&server.url());
    for table in ["cpu", "gone"] {
        write(&http, table).await;
    }
    let before = [rows(&http, "cpu").await, rows(&http, "gone").await];
    tokio::time::sleep(std::time::Duration::from_millis(2_500)).await;
    http.compact("full").await;
    http.rest_sql("delete from d.cpu where host = 'a' and ts < '2023-11-14 22:13:25'").await;
    http.rest_sql("drop table d.gone").await;
    http.compact("full").await;
    assert_eq!(rows(&http, "cpu").await.as_array().unwrap().len(), 15);
    server.stop();

    run("cp", &["-r", "root/data", "saved"], directory.path());
    let page = include_str!("../../docs/operations/restore.md");
    let statement = page.split('"').nth(1).unwrap();
    assert!(statement.starts_with("copy (select"), "{statement}");
    let statement = statement.replace("saved/data/", "saved/");
    run(&python, &["-c", "import duckdb, sys; duckdb.sql(sys.argv[1])", &statement], directory.path());
    let all = "copy (select distinct * exclude (tbname) from read_parquet('saved/1/*/*.parquet')) to 'gone.parquet'";
    run(&python, &["-c", "import duckdb, sys; duckdb.sql(sys.argv[1])", all], directory.path());

    let server = Server::start(store, ["--fold-interval", "1h"]);
    let (url, http) = (server.url(), Http::new(&server.url()));
    for (file, table, tags) in [("lost.parquet", "cpu", [].as_slice()), ("gone.parquet", "gone", &["--tags", "host"])] {
        let file = directory.path().join(file);
        let mut arguments = vec!["import", file.to_str().unwrap(), "--url", &url, "-d", "d", "-t", table];
        arguments.extend(tags);
        tidelake(&arguments);
    }
    assert_eq!([rows(&http, "cpu").await, rows(&http, "gone").await], before);
    tokio::time::sleep(std::time::Duration::from_millis(2_500)).await;
    http.compact("full").await;
    assert_eq!([rows(&http, "cpu").await, rows(&http, "gone").await], before);
    server.stop();
    tidelake(&["check", "--store", store]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_root_that_was_copied_once_its_log_was_folded_goes_on_elsewhere() {
    let Some(s3) = S3Server::start() else { return };
    let directory = tempfile::tempdir().unwrap();
    let (old, new) = (directory.path().join("old"), directory.path().join("new"));
    let server = Server::start(old.to_str().unwrap(), ["--fold-interval", "1h"]);
    write(&Http::new(&server.url()), "cpu").await;
    let before = rows(&Http::new(&server.url()), "cpu").await;
    server.stop();
    tokio::time::sleep(std::time::Duration::from_millis(2_500)).await;
    tidelake(&["compact", "--store", old.to_str().unwrap()]);

    run("cp", &["-a", "old", "new"], directory.path());
    tidelake(&["check", "--store", new.to_str().unwrap()]);
    let server = Server::start(new.to_str().unwrap(), [] as [&str; 0]);
    let http = Http::new(&server.url());
    assert_eq!(rows(&http, "cpu").await, before);
    // The restored root accepts rows, and they are newer than the copied ones.
    assert_eq!(
        http.post("/write?db=d&precision=ms", &[], "cpu,host=a v=7,w=7i 1700000000000").await.unwrap().status,
        204
    );
    let one = "select v, w from d.cpu where host = 'a' and ts = '2023-11-14 22:13:20'";
    assert_eq!(http.rest_sql(one).await, [[serde_json::json!(7.0), 7.into()]]);

    // Into a bucket.
    s3.upload(&old, "moved");
    let server = Server::start_with(&s3.root("moved"), ["--max-staleness", "0s"], &s3.environment());
    let http = Http::new(&server.url());
    assert_eq!(rows(&http, "cpu").await, before);
    assert_eq!(
        http.post("/write?db=d&precision=ms", &[], "cpu,host=a v=7,w=7i 1700000000000").await.unwrap().status,
        204
    );
    assert_eq!(http.rest_sql(one).await, [[serde_json::json!(7.0), 7.into()]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_whose_store_does_not_answer_is_alive_and_not_ready() {
    let Some(s3) = S3Server::start() else { return };
    let server = Server::start_with(&s3.root("watched"), ["--log", "off"], &s3.environment());
    let http = Http::new(&server.url());
    let ready = http.get("/ready").await.unwrap();
    assert_eq!((ready.status, &ready.json()["status"]), (200, &"ready".into()));
    drop(s3);
    let mut found = (200, String::new());
    for _ in 0..40 {
        let reply = http.get("/ready").await.unwrap();
        found = (reply.status, reply.body);
        if found.0 == 503 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    assert!(found.0 == 503 && found.1.contains("store"), "{found:?}");
    assert_eq!(http.get("/health").await.unwrap().status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_server_logs_changes_while_it_runs() {
    let directory = tempfile::tempdir().unwrap();
    let (root, log) = (directory.path().join("root"), directory.path().join("log"));
    let mut child = Command::new(process::binary())
        .args(["serve", "--listen", "127.0.0.1:0", "--log", "warn", "--log-format", "json", "--store"])
        .arg(root)
        .stdout(Stdio::piped())
        .stderr(File::create(&log).unwrap())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let line = lines.find(|line| line.contains("HTTP")).unwrap();
    let url = line.split_whitespace().find(|word| word.starts_with("http://")).unwrap().to_owned();
    let client = reqwest::Client::new();
    let ask = |body: Option<&'static str>| {
        let url = format!("{url}/api/v1/log");
        let request = match body {
            Some(body) => client.put(url).body(body),
            None => client.get(url),
        };
        async move {
            let reply = request.send().await.unwrap();
            (reply.status().as_u16(), reply.json::<serde_json::Value>().await.unwrap())
        }
    };
    assert_eq!(ask(None).await, (200, serde_json::json!({"log": "warn"})));
    let http = Http::new(&url);
    write(&http, "quiet").await;
    http.compact("fold").await;
    // The log filter does not affect the audit log: it has the created database and the compaction.
    let lines_of = || {
        let text = std::fs::read_to_string(&log).unwrap();
        let is_audit = |line: &String| line.contains("\"target\":\"tidelake::audit\"");
        text.lines().map(str::to_owned).partition::<Vec<String>, _>(is_audit)
    };
    let (audited, others) = lines_of();
    assert_eq!(others, Vec::<String>::new(), "a fold is logged at info");
    for action in ["CREATE DATABASE", "COMPACT"] {
        assert!(audited.iter().any(|line| line.contains(action)), "{action}: {audited:?}");
    }
    let (status, refused) = ask(Some("tidelake_ingest=loud")).await;
    assert!(status == 400 && refused["error"]["message"].as_str().unwrap().contains("loud"), "{refused}");
    assert_eq!(ask(Some("info,tidelake_ingest=debug\n")).await.0, 200);
    assert_eq!(ask(None).await.1["log"], "info,tidelake_ingest=debug");
    write(&http, "told").await;
    http.compact("fold").await;
    let told = std::fs::read_to_string(&log).unwrap();
    assert!(told.contains("\"level\":\"INFO\"") && told.contains("folded"), "{told}");
    assert_eq!(ask(Some("error")).await.0, 200);
    let (audited_before, others_before) = lines_of();
    write(&http, "still").await;
    http.compact("fold").await;
    let (audited, others) = lines_of();
    assert_eq!(others, others_before);
    assert!(audited.len() > audited_before.len(), "no filter silences the audit log");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_beside_a_writer_holds_what_was_acknowledged_before_it_and_is_restored_elsewhere() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (root, copy, restored) = (path("root"), path("copy"), path("restored"));
    let server = Server::start(&root, ["--fold-interval", "1h"]);
    let http = Http::new(&server.url());
    write(&http, "before").await;
    assert_eq!(
        http.post("/api/v1/sql", &[], "create user ada password 'of the backup' admin").await.unwrap().status,
        200
    );
    // A concurrent client writes one row after another.
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let writer = {
        let http = Http::new(&server.url());
        tokio::spawn(async move {
            let mut written = 0_u64;
            while !*stopped.borrow() {
                let line = format!("beside,host=w n={written}i {}", 1_700_000_000_000_u64 + written);
                assert_eq!(http.post("/write?db=d&precision=ms", &[], line).await.unwrap().status, 204);
                written += 1;
            }
            written
        })
    };
    tokio::time::sleep(Duration::from_millis(500)).await;
    let acknowledged = http.sql("select count(*) from d.beside").await[0][0].as_u64().unwrap();
    let backup = |to: &str| tidelake(&["backup", "--store", &root, "--to", to]);
    backup(&copy);
    stop.send_replace(true);
    let written = writer.await.unwrap();
    let expected = rows(&http, "before").await;

    tidelake(&["restore", "--from", &copy, "--store", &restored]);
    let other = Server::start(&restored, ["--auth", "on"]);
    let client = reqwest::Client::new();
    let ask = async |sql: &str| -> serde_json::Value {
        let request = client.post(format!("{}/rest/sql", other.url())).basic_auth("ada", Some("of the backup"));
        let reply = request.body(sql.to_owned()).send().await.unwrap();
        serde_json::from_str::<serde_json::Value>(&reply.text().await.unwrap()).unwrap()["data"].clone()
    };
    assert_eq!(ask("select host, ts, v, w from d.before order by host, ts").await, expected);
    let found = ask("select count(*), max(n) from d.beside").await;
    let count = found[0][0].as_u64().unwrap();
    assert!((acknowledged..=written).contains(&count), "{acknowledged} <= {count} <= {written}");
    assert_eq!(found[0][1].as_u64().unwrap() + 1, count, "one after the other, none is missing in between");
    other.stop();

    // A second backup to the same place copies only new objects; a restore never overwrites.
    write(&http, "after").await;
    backup(&copy);
    let again = path("again");
    tidelake(&["restore", "--from", &copy, "--store", &again, "--quick"]);
    let refused = process::run(["restore", "--from", &copy, "--store", &again]);
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && told.contains("already holds a root"), "{told}");
    let later = Server::start(&again, [""; 0]);
    let found = Http::new(&later.url());
    assert_eq!(rows(&found, "after").await, rows(&http, "after").await);
    assert_eq!(found.sql("select count(*) from d.beside").await, [[serde_json::json!(written)]]);
    later.stop();
    server.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mistake_in_a_request_is_told_as_json_with_what_was_expected() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path().join("root").to_str().unwrap(), [] as [&str; 0]);
    let client = reqwest::Client::new();
    for (method, path, body, status, told) in [
        ("GET", "/api/v1/querys", &b""[..], 404, "GET /api/v1/querys"),
        ("POST", "/api/v2/query", b"", 404, "openapi.json"),
        ("GET", "/api/v1/files", b"", 400, "table=database.table"),
        ("GET", "/api/v1/files?table=a.b&limit=3", b"", 400, "limit"),
        ("GET", "/api/v1/files?table=a", b"", 400, "database.table"),
        ("POST", "/api/v1/compact?until=never", b"", 400, "fold, due or full"),
        ("POST", "/api/v1/compact?untill=fold", b"", 400, "untill"),
        ("PUT", "/api/v1/log", b"\xff", 400, "UTF-8"),
        ("PUT", "/api/v1/log", b"verbose", 400, "invalid log level"),
        ("PUT", "/api/v1/log", b"inof", 400, "did you mean: info"),
        ("PUT", "/api/v1/log?filter=debug", b"info", 400, "found: filter"),
        ("POST", "/api/v1/compact?untill=fold", b"", 400, "did you mean: until"),
        ("GET", "/api/v1/sql?databse=d&q=select+1", b"", 400, "did you mean: database"),
        ("GET", "/api/v1/compact", b"", 405, "Allow"),
        ("PUT", "/api/v1/sql", b"select 1", 405, "Allow"),
    ] {
        let method = reqwest::Method::from_bytes(method.as_bytes()).unwrap();
        let reply = client.request(method, format!("{}{path}", server.url())).body(body).send().await.unwrap();
        assert_eq!(reply.status().as_u16(), status, "{path}");
        let reply: serde_json::Value = reply.json().await.unwrap();
        let message = reply["error"]["message"].as_str().unwrap();
        assert!(message.contains(told), "{path}: {message}");
    }
}
