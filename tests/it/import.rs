//! Imports and exports of files: by the command line and by `POST /api/v1/import`.

mod buckets;
mod resumed;
mod route;

use std::{
    collections::BTreeSet,
    io::Write as _,
    path::Path,
    process::{Command, Output, Stdio},
};

use serde_json::{Value, json};
use tidelake_tests::{Http, Server, process};

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Standard output of a command that succeeded.
fn done(output: &Output) -> String {
    assert!(output.status.success(), "{}{}", out(output), err(output));
    out(output)
}

/// Messages of a command that failed.
fn failed(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{}{}", out(output), err(output));
    err(output)
}

/// A server, and a directory for files.
struct Scene {
    server: Server,
    http: Http,
    directory: tempfile::TempDir,
}

impl Scene {
    fn new(arguments: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let server = Server::start(directory.path().join("root").to_str().unwrap(), arguments);
        Self { http: Http::new(&server.url()), server, directory }
    }

    fn path(&self, name: &str) -> String {
        self.directory.path().join(name).to_str().unwrap().to_owned()
    }

    fn write(&self, name: &str, text: &str) -> String {
        std::fs::write(self.path(name), text).unwrap();
        self.path(name)
    }

    fn import(&self, arguments: &[&str]) -> Output {
        let url = self.server.url();
        process::run(["import", "--url", &url, "-d", "d"].iter().chain(arguments).copied())
    }

    fn export(&self, arguments: &[&str]) -> Output {
        let url = self.server.url();
        process::run(["export", "--url", &url, "-d", "d"].iter().chain(arguments).copied())
    }

    async fn tables(&self) -> usize {
        let databases = self.http.rest_sql("show databases").await;
        if !databases.iter().any(|row| row[0] == "d") {
            return 0;
        }
        self.http.rest_sql("show d.stables").await.len()
    }
}

/// Rows of hosts at some seconds: `(second, host, value)`, all different.
fn fleet(seconds: std::ops::Range<i64>) -> Vec<(i64, String, f64)> {
    let of_second = |second: i64| {
        (0..5).map(move |host| (second, format!("h{host}"), (second % 1_000) as f64 + f64::from(host) / 4.0))
    };
    seconds.flat_map(of_second).collect()
}

/// The rows as a table that is read back returns them.
fn expected(rows: &[(i64, String, f64)]) -> Vec<Vec<Value>> {
    let mut rows: Vec<_> = rows.iter().map(|(second, host, v)| (host.clone(), *second, *v)).collect();
    rows.sort_by(|a, b| (&a.0, a.1).cmp(&(&b.0, b.1)));
    rows.into_iter().map(|(host, second, v)| vec![json!(host), json!(second), json!(v)]).collect()
}

async fn stored(http: &Http, table: &str) -> Vec<Vec<Value>> {
    let sql = format!("select host, cast(ts as bigint) / 1000000000 as s, v from d.{table} order by host, s");
    http.sql(&sql).await
}

fn csv(rows: &[(i64, String, f64)]) -> String {
    let lines = rows.iter().map(|(second, host, v)| format!("{second},{host},{v}\n"));
    "ts,host,v\n".to_owned() + &lines.collect::<String>()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_describes_the_import_and_writes_nothing() {
    let scene = Scene::new(&[]);
    let rows = fleet(1_767_254_401..1_767_254_501);
    let file = scene.write("fleet.csv", &csv(&rows));
    let output = scene.import(&["-t", "fleet", "--precision", "s", "--dry-run", &file]);
    let told = done(&output);
    for part in [
        "host    tag    text       0      5         h0, h1, h2",
        "v       field  double     0",
        "rows: 500\n",
        "rows with the series and time of another row: 0",
        "CREATE STABLE `d`.`fleet` (`ts` TIMESTAMP, `v` DOUBLE) TAGS (`host` VARCHAR);",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    assert_eq!(scene.tables().await, 0, "nothing is written");
    assert!(scene.http.rest_sql("show databases").await.iter().all(|row| row[0] != "d"));

    // What would fail ends with code 1 and says why.
    let output = scene.import(&["-t", "fleet", "--precision", "s", "--dry-run", "--tags", "", &file]);
    assert!(failed(&output).contains("400 rows would replace another row; --tags host makes each row unique"));
    let wrong = scene.write("wrong.csv", "ts,host,v\n1,a,1\n2,a,x\n");
    let output = scene.import(&["-t", "w", "--tags", "host", "--types", "v:double", "--dry-run", &wrong]);
    assert!(
        failed(&output).contains("1 row cannot be read") && out(&output).contains("line 3: column \"v\" holds 'x'")
    );
    let lines = scene.write("lines.lp", "m,h=a v=1i 1\nm,h=b v=oops 2\n");
    let output = scene.import(&["--dry-run", &lines]);
    assert!(failed(&output).contains("1 row cannot be read") && out(&output).contains("line 2: "), "{}", out(&output));
    assert_eq!(scene.tables().await, 0);

    // The statement that is shown creates a table that takes the rows.
    scene.http.rest_sql("create database d precision 'ns'").await;
    let statement = told.lines().find(|line| line.starts_with("CREATE")).unwrap().trim_end_matches(';');
    scene.http.rest_sql(statement).await;
    let output = scene.import(&["-t", "fleet", "--precision", "s", "--dry-run", &file]);
    assert!(done(&output).contains("the table exists"));
    done(&scene.import(&["-t", "fleet", "--precision", "s", &file]));
    assert_eq!(stored(&scene.http, "fleet").await, expected(&rows));
}

/// The cells of CSV text, quotes resolved.
fn cells(text: &str) -> Vec<Vec<String>> {
    let (mut rows, mut row, mut cell, mut quoted) = (Vec::new(), Vec::new(), String::new(), false);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => cell.extend(chars.next()),
            '"' => quoted = !quoted,
            ',' if !quoted => row.push(std::mem::take(&mut cell)),
            '\n' if !quoted => {
                row.push(std::mem::take(&mut cell));
                rows.push(std::mem::take(&mut row));
            }
            c => cell.push(c),
        }
    }
    rows
}

#[tokio::test(flavor = "multi_thread")]
async fn rejected_rows_go_into_a_file_and_the_others_are_imported() {
    let scene = Scene::new(&[]);
    let rows = fleet(1_767_254_401..1_767_254_601);
    let (mut text, mut good, mut wrong) = ("ts,host,v\n".to_owned(), Vec::new(), BTreeSet::new());
    for (n, (second, host, v)) in rows.iter().enumerate() {
        let line = match n {
            _ if n % 97 == 5 => format!("{second},{host},oops"),
            _ if n % 101 == 7 => format!("{second},{host},{v},more"),
            _ if n == 500 => format!(",{host},{v}"),
            _ if n == 600 => format!("{second},\"{host}\",\"a \"\"b\"\"\nc\""),
            _ => {
                good.push(rows[n].clone());
                text += &format!("{second},{host},{v}\n");
                continue;
            }
        };
        wrong.insert(line.clone());
        text += &format!("{line}\n");
    }
    let file = scene.write("rows.csv", &text);
    let base = ["-t", "t", "--precision", "s", "--tags", "host", "--types", "v:double", &file];
    let told = failed(&scene.import(&base));
    assert!(told.contains("rows.csv: line 7: column \"v\" holds 'oops', expected a number"), "{told}");
    assert!(told.contains("nothing was written") && scene.tables().await == 0, "{told}");

    let rejects = scene.path("rejects.csv");
    let with = |more: &[&str]| scene.import(&[&base[..], more].concat());
    let told = failed(&with(&["--reject-file", &rejects, "--reject-limit", "3"]));
    assert!(told.contains("--reject-limit 3") && scene.tables().await == 0, "{told}");
    std::fs::remove_file(&rejects).unwrap();
    // An import that ends before it has checked its files continues the reject file, also with other options.
    let state = scene.path("state");
    let resumed = ["--reject-file", &rejects, "--resume", &state];
    failed(&with(&[&resumed[..], &["--reject-limit", "3"][..]].concat()));
    assert!(std::path::Path::new(&rejects).exists() && scene.tables().await == 0);

    let output = with(&[&resumed[..], &["--null", "none"][..]].concat());
    assert!(!std::path::Path::new(&state).exists());
    let counts = format!("{} rows imported: {0} written, 0 replaced, 0 refused, {} rejected", good.len(), wrong.len());
    assert_eq!(done(&output).trim(), counts);
    let found = cells(&std::fs::read_to_string(&rejects).unwrap());
    assert_eq!(found[0], ["file", "line", "reason", "text"]);
    let texts: BTreeSet<String> = found[1..].iter().map(|row| row[3].clone()).collect();
    assert_eq!((texts, found.len() - 1), (wrong.clone(), wrong.len()));
    let lines: Vec<&str> = text.lines().collect();
    for row in &found[1..] {
        assert_eq!(row[0], file);
        let line: usize = row[1].parse().unwrap();
        assert_eq!(lines[line - 1], row[3].lines().next().unwrap());
    }
    assert_eq!(stored(&scene.http, "t").await, expected(&good));
    // An earlier file is not lost.
    assert!(failed(&with(&["--reject-file", &rejects])).contains("exists: expected a new file"));

    // A server names at most a hundred refused lines of a request.
    let (mut text, mut wrong) = (String::new(), BTreeSet::new());
    for n in 0..1_000 {
        let line = if n % 3 == 0 { format!("m,h=a v=oops {n}") } else { format!("m,h=a v={n}i {n}") };
        if n % 3 == 0 {
            wrong.insert((n + 1, line.clone()));
        }
        text += &format!("{line}\n");
    }
    let file = scene.write("lines.lp", &text);
    let rejects = scene.path("lines.csv");
    let output = scene.import(&[&file, "--reject-file", &rejects]);
    assert_eq!(done(&output).trim(), "666 rows imported: 666 written, 0 replaced, 0 refused, 334 rejected");
    let found = cells(&std::fs::read_to_string(&rejects).unwrap());
    let found: BTreeSet<(usize, String)> =
        found[1..].iter().map(|row| (row[1].parse().unwrap(), row[3].clone())).collect();
    assert_eq!(found, wrong);
    assert_eq!(scene.http.sql("select count(*) as n, sum(v) as s from d.m").await, [[666, 332_667]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn several_files_patterns_and_standard_input_go_into_one_table() {
    let scene = Scene::new(&[]);
    let parts =
        [fleet(1_767_254_401..1_767_254_411), fleet(1_767_254_411..1_767_254_421), fleet(1_767_254_421..1_767_254_431)];
    std::fs::create_dir(scene.path("data")).unwrap();
    scene.write("data/a.csv", &csv(&parts[0]));
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(csv(&parts[1]).as_bytes()).unwrap();
    std::fs::write(scene.path("data/b.csv.gz"), packed.finish().unwrap()).unwrap();
    let lines =
        parts[2].iter().map(|(second, host, v)| json!({ "v": v, "host": host, "ts": second }).to_string() + "\n");
    scene.write("data/c.ndjson", &lines.collect::<String>());
    let all = parts.concat();
    let base = ["-t", "t", "--precision", "s", "--tags", "host"];
    let import = |more: &[&str]| scene.import(&[&base[..], more].concat());
    let output = import(&[&scene.path("data/*")]);
    assert_eq!(done(&output).trim(), "150 rows imported: 150 written, 0 replaced, 0 refused");
    assert_eq!(stored(&scene.http, "t").await, expected(&all));

    // A key of two files is refused, and the last file wins where that is allowed.
    let again: Vec<_> = parts[0].iter().map(|(second, host, v)| (*second, host.clone(), v + 1.0)).collect();
    let (first, second) = (scene.path("data/a.csv"), scene.write("again.csv", &csv(&again)));
    let told = failed(&scene.import(&["-t", "u", "--precision", "s", "--tags", "host", &first, &second]));
    for part in ["50 of 100 rows", "a.csv: line 2 and ", "again.csv: line 2", "nothing was written"] {
        assert!(told.contains(part), "{part}: {told}");
    }
    let output = scene.import(&["-t", "u", "--precision", "s", "--tags", "host", "--allow-overwrite", &first, &second]);
    assert_eq!(done(&output).trim(), "100 rows imported: 50 written, 50 replaced, 0 refused");
    assert_eq!(stored(&scene.http, "u").await, expected(&again));

    // Standard input.
    let piped = |arguments: &[&str], text: &str| {
        let mut child = Command::new(process::binary())
            .args(["import", "--url", &scene.server.url(), "-d", "d"])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // The command may end before it has read everything.
        let _ = child.stdin.take().unwrap().write_all(text.as_bytes());
        child.wait_with_output().unwrap()
    };
    let told = failed(&piped(&["-t", "s", "-"], &csv(&all)));
    assert!(told.contains("--format"), "{told}");
    done(&piped(&["-t", "s", "--precision", "s", "-f", "csv", "-"], &csv(&all)));
    assert_eq!(stored(&scene.http, "s").await, expected(&all));

    // What differs is named.
    let lacks = scene.write("lacks.csv", "ts,v\n1,1\n");
    let told = failed(&scene.import(&["-t", "x", "--precision", "s", "--tags", "host", &first, &lacks]));
    assert!(told.contains("lacks.csv: the file lacks the column \"host\""), "{told}");
    assert!(failed(&scene.import(&["-t", "x", &scene.path("data/*.parquet")])).contains("no file matches"));
}

/// The files below a directory, by their paths in it.
fn listed(root: &str) -> BTreeSet<String> {
    fn walk(directory: &Path, root: &Path, found: &mut BTreeSet<String>) {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => walk(&path, root, found),
                false => drop(found.insert(path.strip_prefix(root).unwrap().to_str().unwrap().to_owned())),
            }
        }
    }
    let mut found = BTreeSet::new();
    walk(Path::new(root), Path::new(root), &mut found);
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn a_partitioned_export_holds_the_table_and_each_file_its_period() {
    let scene = Scene::new(&[]);
    // Four days, with a gap, around the end of a month.
    let seconds = [1_769_810_400, 1_769_896_800, 1_769_904_000, 1_770_163_200];
    let rows: Vec<_> = seconds.iter().flat_map(|begin| fleet(*begin..begin + 20)).collect();
    let file = scene.write("rows.csv", &csv(&rows));
    done(&scene.import(&["-t", "t", "--precision", "s", "--tags", "host", &file]));
    let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<String>>();

    let days = scene.path("days");
    assert!(done(&scene.export(&["-t", "t", "--partition-by", "day", &days])).starts_with("400 rows exported"));
    let names = ["date=2026-01-30", "date=2026-01-31", "date=2026-02-01", "date=2026-02-04"];
    let names: Vec<String> = names.iter().map(|name| format!("{name}/part-0.parquet")).collect();
    let found = listed(&days);
    assert!(found.is_subset(&names.iter().cloned().collect()) && found.len() >= 3, "{found:?}");
    done(&scene.import(&["-t", "back", "--tags", "host", &format!("{days}/*/*.parquet")]));
    assert_eq!(stored(&scene.http, "back").await, expected(&rows));

    let months = scene.path("months");
    done(&scene.export(&["-t", "t", "--partition-by", "month", "-f", "csv", &months]));
    assert_eq!(listed(&months), set(&["month=2026-01/part-0.csv", "month=2026-02/part-0.csv"]));
    let text = std::fs::read_to_string(format!("{months}/month=2026-02/part-0.csv")).unwrap();
    let first_of_february = 1_769_904_000;
    let of_february = rows.iter().filter(|(second, ..)| *second >= first_of_february).count();
    assert_eq!(text.lines().count() - 1, of_february);

    let hours = scene.path("hours");
    let query = "select ts, host, v from t order by v desc";
    done(&scene.export(&["-q", query, "--partition-by", "hour", "--time", "ts", "-f", "ndjson", &hours]));
    let found = listed(&hours);
    assert!(found.iter().all(|name| name.contains("/hour=") && name.ends_with("/part-0.ndjson")), "{found:?}");
    assert_eq!(found.len(), 4);
    done(&scene.import(&["-t", "hourly", "--tags", "host", &format!("{hours}/*/*/*.ndjson")]));
    assert_eq!(stored(&scene.http, "hourly").await, expected(&rows));

    assert!(failed(&scene.export(&["-t", "t", "--partition-by", "day", &days])).contains("new or empty"));
    let told = failed(&scene.export(&["-q", query, "--partition-by", "day", &scene.path("x")]));
    assert!(told.contains("--time") && !Path::new(&scene.path("x")).exists(), "{told}");

    // Standard output.
    let output = scene.export(&["-t", "t", "-f", "csv", "-"]);
    assert_eq!((done(&output).lines().count(), err(&output).trim()), (401, "400 rows exported"));
    assert!(failed(&scene.export(&["-t", "t", "-f", "parquet", "-"])).contains("Parquet"));
    assert!(failed(&scene.export(&["-t", "t", "-"])).contains("--format"));
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_only_the_server_refuses_are_rejected_one_by_one() {
    let scene = Scene::new(&[]);
    scene.http.rest_sql("create database d precision 'ns' keep 3650d").await;
    scene.http.rest_sql("create stable d.t (ts timestamp, v int, w varchar(4)) tags (host varchar(8))").await;
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() as i64;
    // An integer out of range, a text too long, a time before those that the database keeps; some beside each other.
    let bad = |n: i64| match n {
        40 | 41 | 999 => Some("40000000000,abc"),
        500 => Some("1,abcdef"),
        _ => None,
    };
    let (mut text, mut wrong) = ("ts,host,v,w\n".to_owned(), BTreeSet::new());
    for n in 0..1_000 {
        let line = match bad(n) {
            Some(values) => format!("{},h{},{values}", now + n, n % 5),
            None if n == 700 => format!("1000000,h{},1,abc", n % 5),
            None => format!("{},h{},{n},abc", now + n, n % 5),
        };
        if bad(n).is_some() || n == 700 {
            wrong.insert((n + 2, line.clone()));
        }
        text += &format!("{line}\n");
    }
    let file = scene.write("rows.csv", &text);
    let base = ["-t", "t", "--precision", "s", "--part-rows", "300", "--allow-implausible-times", &file];
    let told = failed(&scene.import(&base));
    assert!(told.contains("row: "), "{told}");
    let rejects = scene.path("rejects.csv");
    let output = scene.import(&[&base[..], &["--reject-file", &rejects]].concat());
    assert_eq!(done(&output).trim(), "995 rows imported: 995 written, 0 replaced, 0 refused, 5 rejected");
    let found = cells(&std::fs::read_to_string(&rejects).unwrap());
    let reasons: Vec<&str> = found[1..].iter().map(|row| row[2].as_str()).collect();
    assert!(reasons.iter().all(|reason| !reason.contains("row: ") && reason.contains("column: ")), "{reasons:?}");
    let found: BTreeSet<(i64, String)> =
        found[1..].iter().map(|row| (row[1].parse().unwrap(), row[3].clone())).collect();
    assert_eq!(found, wrong);
    let sum: i64 = (0..1_000).filter(|n| bad(*n).is_none() && *n != 700).sum();
    assert_eq!(scene.http.sql("select count(*) as n, sum(v) as s from d.t").await, [[995, sum]]);

    // What concerns no row is an error, as before.
    let other = scene.write("other.csv", &text.replace("ts,host,v,w", "ts,host,v,nothing"));
    let other = ["-t", "t", "--precision", "s", &other, "--reject-file", &scene.path("others.csv")];
    assert!(failed(&scene.import(&other)).contains("nothing"));
}
