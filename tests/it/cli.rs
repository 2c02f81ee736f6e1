//! The commands of the binary beside `serve`: shell, import, export, compact, inspect, check.

use std::process::Output;

use tidelake_tests::{Http, Server, process};

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// What started a server may go away, and the pipe from it with it.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_whose_words_nobody_reads_serves_all_the_same() {
    let directory = tempfile::tempdir().unwrap();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let address = format!("127.0.0.1:{port}");
    let mut child = std::process::Command::new(process::binary())
        .args(["serve", "--listen", &address, "--store", directory.path().to_str().unwrap()])
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let http = Http::new(&format!("http://{address}"));
    let mut answer = None;
    for _ in 0..300 {
        answer = http.get("/health").await.ok();
        if answer.is_some() || child.try_wait().unwrap().is_some() {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(answer.expect("it serves").status, 200);
}

/// 500 rows of two series, written as every format, come back as the rows that they were.
#[tokio::test(flavor = "multi_thread")]
async fn files_go_in_and_out_in_every_format() {
    let directory = tempfile::tempdir().unwrap();
    let store = directory.path().join("root");
    let server = Server::start(store.to_str().unwrap(), [] as [&str; 0]);
    let http = Http::new(&server.url());
    let url = server.url();
    let mut lines = String::new();
    for n in 0..250 {
        for host in ["a", "b c"] {
            let host = host.replace(' ', "\\ ");
            lines.push_str(&format!("cpu,host={host} busy={}.5,jobs={n}i,note=\"n, {n}\" {}\n", n % 7, n * 1_000));
        }
    }
    let source = directory.path().join("source.lp");
    std::fs::write(&source, lines).unwrap();
    http.rest_sql("create database io precision 'ms' keep 36500d").await;
    let import = |file: &std::path::Path, extra: &[&str]| {
        let mut arguments = vec!["import", "--url", &url, "-d", "io", file.to_str().unwrap()];
        arguments.extend(extra);
        text(&process::run(arguments))
    };
    assert_eq!(import(&source, &["--precision", "ms"]).trim(), "500 rows imported");
    let expected = http.sql("select ts, busy, jobs, note, host from io.cpu order by host, ts").await;
    assert_eq!(expected.len(), 500);

    for ending in ["csv", "ndjson", "parquet", "lp"] {
        let file = directory.path().join(format!("out.{ending}"));
        let output = process::run(["export", "--url", &url, "-d", "io", "-t", "cpu", file.to_str().unwrap()]);
        assert!(text(&output).starts_with("500 rows exported"), "{ending}");
        let table = format!("from_{ending}");
        if ending == "lp" {
            let renamed = std::fs::read_to_string(&file).unwrap().replace("cpu,", "from_lp,");
            std::fs::write(&file, renamed).unwrap();
            import(&file, &["--precision", "ns"]);
        } else {
            assert_eq!(import(&file, &["-t", &table, "--tags", "host"]).trim(), "500 rows imported");
        }
        let found = http.sql(&format!("select ts, busy, jobs, note, host from io.{table} order by host, ts")).await;
        assert_eq!(found, expected, "{ending}");
    }
    // An existing file is never overwritten.
    let file = directory.path().join("out.csv");
    let again = process::run(["export", "--url", &url, "-d", "io", "-t", "cpu", file.to_str().unwrap()]);
    assert!(!again.status.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_shell_runs_statements_and_prints_in_every_format() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path().to_str().unwrap(), [] as [&str; 0]);
    let url = server.url();
    let run = |arguments: &[&str]| process::run(["sql", "--url", &url].iter().chain(arguments).copied());
    text(&run(&["-c", "create database s precision 'ms' keep 36500d"]));
    text(&run(&["-c", "create table s.t (ts timestamp, v int) tags (g int)"]));
    text(&run(&["-c", "insert into s.d using s.t tags (1) values (1, 10) (2, 20)"]));
    assert_eq!(text(&run(&["-d", "s", "-f", "csv", "-c", "select sum(v) from t"])), "sum(v)\n30\n");
    let several = run(&["-f", "csv", "-c", "use s; select /* a; b */ count(*) as n from t; select max(v) as m from t"]);
    assert_eq!(text(&several), "n\n2\nm\n20\n");
    assert_eq!(text(&run(&["-f", "ndjson", "-c", "select v from s.t order by v"])), "{\"v\":10}\n{\"v\":20}\n");
    let table = text(&run(&["-c", "select v, g from s.t order by v"]));
    assert!(table.contains("| 10 | 1 |"), "{table}");
    let wrong = run(&["-c", "select nothing from s.t"]);
    assert!(!wrong.status.success());
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("nothing"));
}

#[tokio::test(flavor = "multi_thread")]
async fn compact_and_inspect_work_without_a_server() {
    let directory = tempfile::tempdir().unwrap();
    let store = directory.path().to_str().unwrap().to_owned();
    let server = Server::start(&store, ["--fold-interval", "1h"]);
    let http = Http::new(&server.url());
    http.post("/write?db=i&precision=ms", &[], "m,h=a v=1i 1\nm,h=b v=2i 1").await.unwrap();
    server.stop();
    let log = text(&process::run(["inspect", "--store", &store, "log"]));
    assert!(log.contains("2 rows of 1 tables"), "{log}");
    tokio::time::sleep(std::time::Duration::from_secs(3)).await;
    assert!(text(&process::run(["compact", "--store", &store])).starts_with("folded 1 segments (2 rows)"));
    let summary = text(&process::run(["inspect", "--store", &store]));
    assert!(summary.contains("table m") && summary.contains("1 files, 2 rows"), "{summary}");
    let files = text(&process::run(["inspect", "--store", &store, "files", "i.m"]));
    let id = files.split('|').map(str::trim).find(|cell| cell.len() == 32).unwrap().to_owned();
    let tags = text(&process::run(["inspect", "--store", &store, "tags", "i.m", &id]));
    assert!(tags.contains("sum(v)") && tags.contains("| 2 "), "{tags}");

    let rows = text(&process::run(["inspect", "--store", &store, "rows", "i.m", "--from", "1970-01-01T00:00:00Z"]));
    assert!(rows.contains(".parquet") && rows.contains("2 rows  live"), "{rows}");
    let rows = text(&process::run(["inspect", "--store", &store, "rows", "i.m", "--series", "nobody"]));
    assert_eq!(rows.trim(), "no object holds such rows");
    let output = process::run(["inspect", "--store", &store, "rows", "i.m", "--to", "yesterday"]);
    assert!(!output.status.success() && String::from_utf8_lossy(&output.stderr).contains("yesterday"));

    let sound = text(&process::run(["check", "--store", &store]));
    assert!(sound.contains("1 data files with 2 rows") && sound.contains("0 faults"), "{sound}");
    // A bit of a page flips.
    let key = format!("data/{}", find_parquet(&directory.path().join("data")).unwrap());
    let path = directory.path().join(&key);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[20] ^= 4;
    std::fs::write(&path, bytes).unwrap();
    let output = process::run(["check", "--store", &store, "--output", "json"]);
    assert_eq!(output.status.code(), Some(1));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["faults"][0]["key"], key.as_str(), "{report}");
    assert!(text(&process::run(["check", "--store", &store, "--quick"])).contains("0 faults"));
    let nowhere = directory.path().join("nowhere");
    let output = process::run(["check", "--store", nowhere.to_str().unwrap()]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("no root"));
}

/// The first Parquet file below a directory, relative to it.
fn find_parquet(directory: &std::path::Path) -> Option<String> {
    for entry in std::fs::read_dir(directory).unwrap() {
        let (path, name) = entry.map(|e| (e.path(), e.file_name().into_string().unwrap())).unwrap();
        if path.is_dir()
            && let Some(found) = find_parquet(&path)
        {
            return Some(format!("{name}/{found}"));
        }
        if name.ends_with(".parquet") {
            return Some(name);
        }
    }
    None
}
