//! The commands of the binary except `serve`: shell, import, export, compact, inspect, check.

use std::process::Output;

use tidelake_tests::{Http, Server, process};

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// The process that started a server may exit and close the server's output pipe.
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

/// 500 rows of two series, exported in every format, are imported unchanged.
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
    let all = "500 rows imported: 500 written, 0 replaced, 0 refused";
    assert_eq!(import(&source, &["--precision", "ms"]).trim(), all);
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
            assert_eq!(import(&file, &["-t", &table, "--tags", "host"]).trim(), all);
        }
        let found = http.sql(&format!("select ts, busy, jobs, note, host from io.{table} order by host, ts")).await;
        assert_eq!(found, expected, "{ending}");
    }
    // An existing file is never overwritten.
    let file = directory.path().join("out.csv");
    let again = process::run(["export", "--url", &url, "-d", "io", "-t", "cpu", file.to_str().unwrap()]);
    assert!(!again.status.success());
}

/// 5 000 rows: 50 hosts at a hundred times, in a typical new user's file.
fn fleet() -> String {
    let mut text = "ts,host,usage\n".to_owned();
    for n in 0..100 {
        for host in 0..50 {
            text.push_str(&format!("{},host-{host},{n}.5\n", 1_767_254_400 + n));
        }
    }
    text
}

#[tokio::test(flavor = "multi_thread")]
async fn an_import_guesses_the_tags_and_refuses_rows_that_would_replace_each_other() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path().join("root").to_str().unwrap(), [] as [&str; 0]);
    let (url, http) = (server.url(), Http::new(&server.url()));
    let write = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let import = |file: &str, table: &str, extra: &[&str]| {
        let arguments = ["import", "--url", &url, "-d", "imp", "-t", table, file];
        process::run(arguments.iter().chain(extra).copied())
    };
    let told = |output: &Output| String::from_utf8_lossy(&output.stderr).into_owned();

    let file = write("fleet.csv", &fleet());
    let output = import(&file, "fleet", &["--precision", "s"]);
    assert_eq!(text(&output).trim(), "5000 rows imported: 5000 written, 0 replaced, 0 refused");
    assert!(told(&output).contains("created the database \"imp\""), "{}", told(&output));
    assert!(told(&output).contains("host   tag    text       50 different values in 5000 rows"), "{}", told(&output));
    let count = "select count(*) as n, count(distinct host) as h from imp.fleet";
    assert_eq!(http.sql(count).await, [[5000, 50]]);
    // The table exists now, with its tags.
    assert!(text(&import(&file, "fleet", &["--precision", "s"])).starts_with("5000 rows imported"));

    let named = process::run(["import", "--url", &url, "-t", "other.fleet", &file, "--precision", "s"]);
    assert!(text(&named).starts_with("5000 rows imported"), "{}", told(&named));
    assert_eq!(http.sql("select count(*) as n from other.fleet").await, [[5000]]);

    // Without the tag, rows would replace each other.
    let output = import(&file, "bare", &["--precision", "s", "--tags", ""]);
    assert_eq!(output.status.code(), Some(1));
    for part in ["4900 of 5000 rows", "ts=", "lines 2 and 3", "--tags host", "--allow-overwrite"] {
        assert!(told(&output).contains(part), "{part}: {}", told(&output));
    }
    let tables = http.rest_sql("show imp.stables").await;
    assert!(!format!("{tables:?}").contains("bare"), "{tables:?}");
    let output = import(&file, "bare", &["--precision", "s", "--tags", "", "--allow-overwrite"]);
    assert_eq!(text(&output).trim(), "5000 rows imported: 100 written, 4900 replaced, 0 refused");
    assert_eq!(http.sql("select count(*) as n from imp.bare").await, [[100]]);

    // Faults name their line, and nothing is written.
    let wrong = write("wrong.ndjson", "{\"ts\": 1, \"v\": 1}\n\n{\"ts\": 2, \"v\": }\n");
    assert!(told(&import(&wrong, "w", &[])).contains("line 3: column"), "{}", told(&import(&wrong, "w", &[])));
    let wrong = write("wrong.csv", "at,v\n2026-01-01 08:00,1\nyesterday,2\n");
    let output = import(&wrong, "w", &["--time", "at"]);
    assert!(told(&output).contains("line 3: column \"at\" holds \"yesterday\""), "{}", told(&output));
    let seconds = write("seconds.csv", "ts,v\n1767254401,1\n");
    let output = import(&seconds, "w", &[]);
    assert!(!output.status.success() && told(&output).contains("the likely unit"), "{}", told(&output));
    let numbers = write("numbers.csv", "ts,v\n1,1.5\n2,N/A\n3,2\n");
    let output = import(&numbers, "numbers", &["--null", "N/A"]);
    assert!(text(&output).starts_with("3 rows imported: 3 written"), "{}", told(&output));
    let output = import(&numbers, "words", &[]);
    assert!(told(&output).contains("line 3 has 'N/A'") && told(&output).contains("--null 'N/A'"), "{}", told(&output));
}

/// A line protocol file is imported as the given user or token, and the outcome of its lines is reported.
#[tokio::test(flavor = "multi_thread")]
async fn an_import_of_lines_brings_its_token_and_names_refused_lines() {
    let directory = tempfile::tempdir().unwrap();
    let environment = [("TIDELAKE_ADMIN_PASSWORD", "an admin's password".to_owned())];
    let store = directory.path().join("root");
    let server = Server::start_with(store.to_str().unwrap(), ["--auth", "on"], &environment);
    let file = directory.path().join("lines.lp");
    let lines = "m,h=a v=1i 1\n# a comment\nm,h=a v=2i 1\nm,h=b v=oops 2\nm,h=b v=3i 3\n";
    std::fs::write(&file, lines).unwrap();
    let (url, file) = (server.url(), file.to_str().unwrap().to_owned());
    let import = |who: &[&str], password: &str| {
        let mut command = std::process::Command::new(process::binary());
        command.args(["import", "--url", &url, "-d", "lines", &file]).args(who).stdin(std::process::Stdio::null());
        command.env("TIDELAKE_PASSWORD", password).output().unwrap()
    };
    let nobody = import(&[], "");
    assert!(!nobody.status.success());
    let output = import(&["--user", "admin"], "an admin's password");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(out.trim(), "3 rows imported: 2 written, 1 replaced, 1 refused", "{err}");
    assert!(err.contains("line 4: ") && err.contains("created the database \"lines\""), "{err}");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn commands_that_read_create_no_root_and_a_backup_does_not_go_into_its_root() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let typo = at("typo");
    let copy = at("copy");
    for arguments in [
        vec!["inspect", "--store", &typo],
        vec!["inspect", "--store", &typo, "log"],
        vec!["check", "--store", &typo],
        vec!["compact", "--store", &typo],
        vec!["backup", "--store", &typo, "--to", &copy],
    ] {
        let output = process::run(&arguments);
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && told.contains(&typo) && told.contains("holds no root"), "{told}");
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "{arguments:?} made something");
    }
    let root = at("root");
    let output = process::run(["access", "create user u password 'a long password' admin", "--store", &root]);
    assert!(output.status.success());
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(told.contains("created a new root at") && told.contains(&root), "{told}");
    for to in [root.clone(), format!("{root}/backup"), at("")] {
        let output = process::run(["backup", "--store", &root, "--to", &to]);
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && told.contains("overlap"), "{to}: {told}");
    }
    assert!(!directory.path().join("root/backup").exists());
    assert!(process::run(["backup", "--store", &root, "--to", &copy]).status.success());
}

/// Every text protocol refuses seconds sent as nanoseconds unless the request allows them; options without effect are
/// reported.
#[tokio::test(flavor = "multi_thread")]
async fn replies_count_rows_and_remark_on_what_has_no_effect_or_seems_wrong() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path().to_str().unwrap(), [] as [&str; 0]);
    let http = Http::new(&server.url());
    let body = "m,h=a v=1i 1767254401";
    for path in ["/write?db=d", "/write?db=d&precision=ms", "/api/v2/write?bucket=d&precision=us"] {
        let reply = http.post(path, &[], body).await.unwrap();
        assert_eq!(reply.status, 400, "{path}");
        assert!(reply.body.contains("2026-01-01T08:00:01Z in s"), "{}", reply.body);
        assert_eq!(reply.header("x-tidelake-rows-refused"), "1");
        let reply = http.post(path, &[("x-tidelake-implausible-times", "accept")], body).await.unwrap();
        assert_eq!((reply.status, reply.header("x-tidelake-notice")), (204, ""), "{path}");
    }
    let reply = http.post("/write?db=d", &[("x-tidelake-implausible-times", "warn")], body).await.unwrap();
    assert!(reply.status == 204 && reply.header("x-tidelake-notice").contains("1767254401"));
    assert_eq!(http.post("/write?db=d&precision=s", &[], body).await.unwrap().status, 204);

    let lines = "m,h=a v=1i 5\nm,h=a v=2i 5\nm,h=b v=2i 5\nm,h=b v=x 6\n";
    let reply = http.post("/write?db=d", &[], lines).await.unwrap();
    let counts =
        ["written", "replaced", "refused"].map(|name| reply.header(&format!("x-tidelake-rows-{name}")).to_owned());
    assert_eq!(counts, ["2", "1", "1"]);

    let create = "create database o precision 'ms' keep 36500d replica 3 wal_level 2 vgroups 4 buffer 256";
    let reply = http.post("/rest/sql", &[], create).await.unwrap();
    let notice = "options that have no effect here were ignored: REPLICA, WAL_LEVEL, VGROUPS, BUFFER";
    assert_eq!(reply.header("x-tidelake-notice"), notice);
    let json: serde_json::Value = serde_json::from_str(&reply.body).unwrap();
    assert_eq!((json["code"].as_i64(), json["notices"][0].as_str()), (Some(0), Some(notice)));
    http.rest_sql("create table o.t (ts timestamp, v int) tags (g int)").await;
    let insert = "insert into o.a using o.t tags (1) values";
    let reply = http.post("/rest/sql", &[], format!("{insert} (1767254401, 1)")).await.unwrap();
    assert!(reply.body.contains("2026-01-01T08:00:01Z in s"), "{}", reply.body);
    let reply = http.post("/rest/sql", &[], format!("{insert} (5, 1) (5, 2) (6, 1)")).await.unwrap();
    let counts =
        ["written", "replaced", "refused"].map(|name| reply.header(&format!("x-tidelake-rows-{name}")).to_owned());
    assert_eq!(counts, ["2", "1", ""], "{}", reply.body);

    let shell = process::run(["sql", "--url", &server.url(), "-c", "create database o2 wal_level 1"]);
    assert!(shell.status.success());
    assert!(
        String::from_utf8_lossy(&shell.stderr)
            .contains("notice: options that have no effect here were ignored: WAL_LEVEL")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_shell_on_a_terminal_does_what_its_help_says() {
    let Some(python) = tidelake_tests::tool("TIDELAKE_PYTHON") else { return };
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path().to_str().unwrap(), [] as [&str; 0]);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/python/shell.py");
    let output = std::process::Command::new(python)
        .arg(script)
        .arg(process::binary())
        .arg(server.url())
        .arg(directory.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_shell_runs_statements_and_prints_in_every_format() {
    let directory = tempfile::tempdir().unwrap();
    let store = directory.path().to_str().unwrap().to_owned();
    let server = Server::start(&store, [] as [&str; 0]);
    let url = server.url();
    let run = |arguments: &[&str]| process::run(["sql", "--url", &url].iter().chain(arguments).copied());
    text(&run(&["-c", "create database s precision 'ms' keep 36500d"]));
    text(&run(&["-c", "create table s.t (ts timestamp, v int) tags (g int)"]));
    text(&run(&["-c", "insert into s.d using s.t tags (1) values (1, 10) (2, 20)"]));
    assert_eq!(text(&run(&["-d", "s", "-f", "csv", "-c", "select sum(v) from t"])), "sum(v)\n30\n");
    assert_eq!(text(&run(&["--db", "s", "-f", "csv", "select sum(v) from t"])), "sum(v)\n30\n");
    let several = run(&["-f", "csv", "-c", "use s; select /* a; b */ count(*) as n from t; select max(v) as m from t"]);
    assert_eq!(text(&several), "n\n2\nm\n20\n");
    assert_eq!(text(&run(&["-f", "ndjson", "-c", "select v from s.t order by v"])), "{\"v\":10}\n{\"v\":20}\n");
    let table = text(&run(&["-c", "select v, g from s.t order by v"]));
    assert!(table.contains("| 10 | 1 |"), "{table}");
    let markdown = text(&run(&["-f", "markdown", "select v, g from s.t order by v limit 1"]));
    assert_eq!(markdown, "| v  | g |\n|----|---|\n| 10 | 1 |\n");
    assert_eq!(text(&run(&[".mode csv\n\\u s\nselect v from t order by v limit 1; \\q\nselect 2"])), "v\n10\n");
    let wrong = run(&["-c", "select 1;\nselect 2,\n  nothing from s.t; select 3"]);
    assert!(!wrong.status.success());
    let error = String::from_utf8_lossy(&wrong.stderr);
    assert!(error.contains("statement 2 of 3, line 2: no such column (column: nothing"), "{error}");
    assert!(error.contains("   2 │   nothing from s.t\n     │   ^"), "{error}");
    let output = process::run(["sql", "--store", &store, "-f", "csv", "select sum(v) from s.t"]);
    assert_eq!(text(&output), "sum(v)\n30\n", "without a server");
    let output = process::run(["sql", "--store", &store, "drop database s"]);
    assert!(!output.status.success());
    assert_eq!(text(&run(&["-f", "csv", "select count(*) as n from s.t"])), "n\n2\n");
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
    assert_eq!(rows.trim(), "no object holds matching rows");
    let output = process::run(["inspect", "--store", &store, "rows", "i.m", "--to", "yesterday"]);
    assert!(!output.status.success() && String::from_utf8_lossy(&output.stderr).contains("yesterday"));

    let sound = text(&process::run(["check", "--store", &store]));
    assert!(sound.contains("1 data files with 2 rows") && sound.contains("0 faults"), "{sound}");
    // Flips a bit of a page.
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
