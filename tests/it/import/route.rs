//! `POST /api/v1/import`.

use std::io::Write as _;

use serde_json::{Value, json};
use tidelake_tests::Server;

use super::{Scene, csv, done, expected, fleet, stored};

/// Number of unnamed temporary files that a process has open.
fn temporary_files(id: u32) -> usize {
    let links = std::fs::read_dir(format!("/proc/{id}/fd"))
        .unwrap()
        .filter_map(|entry| std::fs::read_link(entry.unwrap().path()).ok());
    let temporary = std::env::temp_dir();
    links.filter(|link| link.starts_with(&temporary) && link.to_string_lossy().ends_with("(deleted)")).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_route_describes_a_file_and_imports_it_with_corrected_types() {
    let scene = Scene::new(&[]);
    let rows = fleet(1_767_254_401..1_767_258_401);
    // A number that is no number, so that the column is taken for text.
    let text = csv(&rows).replace(",h3,403.75\n", ",h3,-\n");
    assert!(text.contains(",h3,-\n"));
    let post = |query: &'static str, body: String| {
        let http = &scene.http;
        async move { http.post(&format!("/api/v1/import?{query}"), &[], body).await.unwrap() }
    };
    let first_part = text[..100_000].to_owned();
    let reply = post("db=d&table=t&format=csv&precision=s&preview=true", first_part).await;
    assert_eq!(reply.status, 200, "{}", reply.body);
    let found = reply.json();
    let columns: Vec<Value> = found["columns"].as_array().unwrap().clone();
    let of = |name: &str| columns.iter().find(|column| column["name"] == name).unwrap().clone();
    assert_eq!((of("host")["role"].clone(), of("host")["distinct"].clone()), (json!("tag"), json!(5)));
    assert_eq!((of("v")["type"].clone(), of("ts")["role"].clone()), (json!("text"), json!("time")));
    assert!(found["notices"].to_string().contains("\\\"v\\\" becomes text"), "{}", reply.body);
    assert_eq!((found["rows"].as_array().unwrap().len(), &found["table_exists"]), (20, &json!(false)));
    assert_eq!(scene.tables().await, 0, "a preview writes nothing");

    let reply =
        post("db=d&table=t&format=csv&precision=s&tags=host&types=v:double&null=-&preview=true", text.clone()).await;
    let found = reply.json();
    let create = "CREATE STABLE `d`.`t` (`ts` TIMESTAMP, `v` DOUBLE) TAGS (`host` VARCHAR)";
    assert_eq!(
        (found["statement"].as_str().unwrap(), &found["rows"][0]),
        (create, &json!(["2026-01-01T08:00:01Z", "h0", 401.0]))
    );
    let query = "db=d&table=t&format=csv&precision=s&tags=host&types=v:double";
    let reply = post(query, text.clone()).await;
    assert_eq!(reply.status, 400);
    assert!(reply.body.contains("holds '-', expected a number") && reply.body.contains("line "), "{}", reply.body);
    assert_eq!(scene.tables().await, 0, "nothing is written");
    let reply = post("db=d&table=t&format=csv&precision=s&tags=host&types=v:double&null=-", text.clone()).await;
    assert_eq!((reply.status, reply.json()["written"].clone()), (200, json!(rows.len())), "{}", reply.body);
    assert_eq!(reply.header("x-tidelake-rows-written"), rows.len().to_string());
    assert!(!reply.header("x-tidelake-token").is_empty());
    let mut all = expected(&rows);
    all.iter_mut().filter(|row| row[0] == "h3" && row[2] == 403.75).for_each(|row| row[2] = Value::Null);
    assert_eq!(stored(&scene.http, "t").await, all);

    // Compressed, as NDJSON, as Parquet, as lines.
    let some = &rows[..500];
    let lines: String =
        some.iter().map(|(second, host, v)| json!({ "ts": second, "host": host, "v": v }).to_string() + "\n").collect();
    assert_eq!(post("db=d&table=j&format=ndjson&precision=s&tags=host", lines).await.status, 200);
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(csv(some).as_bytes()).unwrap();
    let path = "/api/v1/import?db=d&table=z&format=csv&precision=s&tags=host";
    let headers = [("content-encoding", "gzip"), ("idempotency-key", "one")];
    let packed = packed.finish().unwrap();
    let reply = scene.http.post(path, &headers, packed.clone()).await.unwrap();
    assert_eq!(reply.status, 200, "{}", reply.body);
    let again = scene.http.post(path, &headers, packed).await.unwrap();
    assert_eq!((again.status, again.header("idempotency-replayed")), (200, "true"), "{}", again.body);
    done(&scene.export(&["-t", "z", &scene.path("z.parquet")]));
    let parquet = std::fs::read(scene.path("z.parquet")).unwrap();
    let path = "/api/v1/import?db=d&table=p&format=parquet&tags=host";
    assert_eq!(scene.http.post(path, &[], parquet).await.unwrap().status, 200);
    let lines: String = some.iter().map(|(second, host, v)| format!("l,host={host} v={v} {second}\n")).collect();
    let reply = post("db=d&format=line&precision=s&preview=true", lines.clone()).await;
    assert_eq!((reply.status, reply.json()["rows_read"].clone()), (200, json!(500)), "{}", reply.body);
    let reply = post("db=d&format=line&precision=s", lines + "l,host=x v=oops 1\n").await;
    assert_eq!((reply.status, reply.json()["refused"].clone()), (200, json!(1)), "{}", reply.body);
    assert!(reply.json()["notices"][0].as_str().unwrap().starts_with("line 501: "), "{}", reply.body);
    for table in ["j", "z", "p", "l"] {
        assert_eq!(stored(&scene.http, table).await, expected(some), "{table}");
    }

    // Rows that replace each other.
    let twice = format!("{}1767254401,h0,7\n", csv(some));
    let query = "db=d&table=r&format=csv&precision=s&tags=host";
    let reply = post(query, twice.clone()).await;
    assert_eq!(reply.status, 400);
    assert!(reply.body.contains("1 of 501 rows has") && reply.body.contains("lines 2 and 502"), "{}", reply.body);
    assert!(reply.body.contains("overwrite=true"), "{}", reply.body);
    let reply = post("db=d&table=r&format=csv&precision=s&tags=host&overwrite=true", twice).await;
    assert_eq!((reply.json()["written"].clone(), reply.json()["replaced"].clone()), (json!(500), json!(1)));
    assert_eq!(temporary_files(scene.server.id()), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_route_refuses_what_it_cannot_import_with_the_reason() {
    let scene = Scene::new(&["--max-bulk", "1MiB"]);
    scene.http.rest_sql("create database d keep 36500d").await;
    scene.http.rest_sql("create table d.old (ts timestamp, v double) tags (host varchar(8))").await;
    let file = "ts,host,v\n1,a,1\n2,b,2\n";
    let large = format!("ts,host,v\n{}", "1,a,1\n".repeat(200_000));
    for (query, body, status, parts) in [
        ("table=t&format=csv", file, 400, ["db is required", "db=DATABASE"]),
        ("db=d&format=csv", file, 400, ["table is required", "table=NAME"]),
        ("db=d&table=t", file, 400, ["format is required", "csv, ndjson, line or parquet"]),
        ("db=d&table=t&format=xls", file, 400, ["expected: csv", "found: \\\"xls\\\""]),
        ("db=d&table=t&format=csv&tag=host", file, 400, ["found: tag", "tags"]),
        (
            "db=d&table=t&format=csv&tags=hosts",
            file,
            400,
            ["tags: the file has no column \\\"hosts\\\"", "ts, host, v"],
        ),
        ("db=d&table=t&format=csv&time=when", file, 400, ["time: the file has no column \\\"when\\\"", "ts, host, v"]),
        ("db=d&table=t&format=csv&types=w:int", file, 400, ["types: the file has no such column", "\\\"w\\\""]),
        ("db=d&table=t&format=csv&types=v:float", file, 400, ["expected: bool, int", "\\\"float\\\""]),
        ("db=d&table=t&format=csv&precision=h", file, 400, ["precision", "ns, us, ms or s"]),
        ("db=d&table=t&format=csv", "a,b\nx,1\n", 400, ["no time column", "a, b"]),
        ("db=d&table=t&format=csv", "", 400, ["the file is empty", "column names"]),
        ("db=d&table=t&format=ndjson", file, 400, ["line 1, column 1", "expected"]),
        ("db=d&table=t&format=parquet", file, 400, ["not a readable Parquet file", "reason"]),
        (
            "db=d&table=t&format=csv&tags=",
            "ts,v\nyesterday,1\n",
            400,
            ["line 2: column \\\"ts\\\"", "2026-01-31T10:00:00Z"],
        ),
        ("db=d&table=t&format=csv&tags=", "ts,v\n1767254401,1\n", 400, ["line 2", "the likely unit"]),
        ("db=d&table=t&format=line", file, 400, ["nothing was written", "line 1"]),
        ("db=d&table=old&format=csv", "ts,host,w\n1,a,1\n", 400, ["no column \\\"w\\\"", "ts, v, host"]),
        ("db=d&table=old&format=csv", "ts,host,v\n1,a,x\n", 400, ["line 2: column \\\"v\\\"", "expected a number"]),
        ("db=d&table=old&format=csv&precision=ms", "ts,host,v\n1,a,1\n2,far too long,1\n", 400, ["line 3", "host"]),
        ("db=d&table=t&format=csv", large.as_str(), 413, ["max_bulk", "1048576"]),
    ] {
        let reply = scene.http.post(&format!("/api/v1/import?{query}"), &[], body.to_owned()).await.unwrap();
        assert_eq!(reply.status, status, "{query}: {}", reply.body);
        for part in parts {
            assert!(reply.body.contains(part), "{query}: {part}: {}", reply.body);
        }
    }
    let reply =
        scene.http.post("/api/v1/import?db=d&table=t&format=csv", &[("content-encoding", "br")], file).await.unwrap();
    assert!(reply.status == 400 && reply.body.contains("gzip, zstd or identity"), "{}", reply.body);
    assert_eq!(scene.tables().await, 1, "no table was created");
    assert_eq!(scene.http.sql("select count(*) as n from d.old").await, [[0]]);
    assert_eq!(temporary_files(scene.server.id()), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_route_needs_the_right_to_write() {
    let directory = tempfile::tempdir().unwrap();
    let environment = [("TIDELAKE_ADMIN_PASSWORD", "an admin's password".to_owned())];
    let server = Server::start_with(directory.path().to_str().unwrap(), ["--auth", "on"], &environment);
    let client = reqwest::Client::new();
    let send = |user: &'static str, password: &'static str, path: &str, body: &'static str| {
        let request = client.post(format!("{}{path}", server.url())).basic_auth(user, Some(password)).body(body);
        async move {
            let reply = request.send().await.unwrap();
            (reply.status().as_u16(), reply.text().await.unwrap())
        }
    };
    let admin = |path: &'static str, body: &'static str| send("admin", "an admin's password", path, body);
    for statement in [
        "create database d keep 36500d",
        "create user reader password 'a long password'",
        "create user writer password 'a long password'",
        "grant read on d.* to reader",
        "grant write on d.* to writer",
    ] {
        let (status, body) = admin("/api/v1/sql", statement).await;
        assert_eq!(status, 200, "{statement}: {body}");
    }
    let path = "/api/v1/import?db=d&table=t&format=csv&tags=host&precision=ms";
    let file = "ts,host,v\n1,a,1\n";
    for query in ["", "&preview=true"] {
        let (status, body) = send("reader", "a long password", &format!("{path}{query}"), file).await;
        assert_eq!(status, 403, "{body}");
        assert!(body.contains("not authorized to write"), "{body}");
    }
    assert_eq!(send("writer", "a long password", "/api/v1/import?db=e&table=t&format=csv", file).await.0, 403);
    assert_eq!(send("writer", "a long password", path, file).await.0, 200);
    // A writer learns nothing about the columns of the table.
    let (status, body) = send("writer", "a long password", path, "ts,host,other\n1,a,1\n").await;
    assert!(status == 400 && body.contains("hidden without the right to read"), "{status}: {body}");
    assert_eq!(admin("/api/v1/sql", "select count(*) as n from d.t").await.0, 200);
}
