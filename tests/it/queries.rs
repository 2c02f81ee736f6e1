//! Running queries: listing and killing them.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tidelake_tests::{Flight, Http, Server};

/// CPU time used by a process.
fn processor_time(process: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
    // Clock ticks are hundredths of a second for every program.
    let ticks = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    Duration::from_millis(ticks * 10)
}

/// A query that takes years: a five-fold cross join.
const ENDLESS: &str = "select count(a.v + b.v + c.v + d.v + e.v) from d.m a, d.m b, d.m c, d.m d, d.m e";

/// A thousand rows of ten series.
async fn write(http: &Http) {
    let lines: String = (0..1_000).map(|n| format!("m,h=h{} v={n}i {}\n", n % 10, 1_700_000_000_000_u64 + n)).collect();
    assert_eq!(http.post("/write?db=d&precision=ms", &[], lines).await.unwrap().status, 204);
}

/// IDs of the running queries with this text; polls until there are `expected`.
async fn ids(http: &Http, sql: &str, expected: usize) -> Vec<String> {
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        let rows = http.sql("show queries").await;
        let of_text = rows.iter().filter(|row| row.last() == Some(&json!(sql)) && row[1] == "running");
        let found: Vec<String> = of_text.map(|row| row[0].as_str().unwrap().to_owned()).collect();
        if found.len() == expected {
            return found;
        }
        assert!(Instant::now() < until, "expected {expected} queries: {rows:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_under_way_is_listed_and_stops_when_it_is_killed() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path().to_str().unwrap(), ["--fold-interval", "1h"]);
    let http = Http::new(&server.url());
    write(&http).await;

    // The listing query is the only one.
    let rows = http.sql("select state, database, rows, sql from system.queries").await;
    let own = json!(["running", null, 0, "select state, database, rows, sql from system.queries"]);
    assert_eq!(Value::from(rows), json!([own]));

    let over_http = {
        let http = http.clone();
        tokio::spawn(async move { http.post("/api/v1/sql", &[("database", "d")], ENDLESS).await })
    };
    let mut flight = Flight::connect(&server.url()).await;
    let over_flight = tokio::spawn(async move { flight.query(ENDLESS).await });
    let found = ids(&http, ENDLESS, 2).await;
    let listed = http.sql("select elapsed_ms >= 0, database from system.queries where database is not null").await;
    assert_eq!(listed, [[json!(true), json!("d")]]);

    for id in &found {
        let killed = http.post("/api/v1/sql", &[], format!("kill query '{id}'")).await.unwrap();
        assert_eq!((killed.status, &killed.json()["data"]), (200, &json!([[1]])), "{}", killed.body);
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    let before = processor_time(server.id());
    tokio::time::sleep(Duration::from_millis(500)).await;
    let used = processor_time(server.id()) - before;
    assert!(
        used < Duration::from_millis(150),
        "100 ms after they were killed queries still compute: {used:?} of 500 ms"
    );
    let reply = over_http.await.unwrap();
    // If the headers were already sent, the connection is closed instead.
    assert!(reply.as_ref().map_or(true, |reply| reply.status == 409 && reply.body.contains("killed")), "{reply:?}");
    let refused = over_flight.await.unwrap().unwrap_err();
    assert!(refused.contains("killed"), "{refused}");
    assert_eq!(ids(&http, ENDLESS, 0).await, Vec::<String>::new());

    let again = http.post("/api/v1/sql", &[], format!("kill query '{}'", found[0])).await.unwrap();
    assert!(again.status == 404 && again.body.contains(&found[0]), "{}", again.body);
    for wrong in ["kill", "kill query", "kill query 7", "kill statement 'x'"] {
        let reply = http.post("/api/v1/sql", &[], wrong).await.unwrap();
        assert!(reply.status == 400 && reply.body.contains("KILL QUERY 'id'"), "{wrong}: {}", reply.body);
    }
    server.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_of_a_client_that_went_away_stops_too() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path().to_str().unwrap(), ["--fold-interval", "1h"]);
    let http = Http::new(&server.url());
    write(&http).await;
    let asking = {
        let http = Http::new(&server.url());
        tokio::spawn(async move { http.post("/api/v1/sql", &[], ENDLESS).await })
    };
    let mut flight = Flight::connect(&server.url()).await;
    let streaming = tokio::spawn(async move { flight.query(ENDLESS).await });
    ids(&http, ENDLESS, 2).await;
    asking.abort();
    streaming.abort();
    ids(&http, ENDLESS, 0).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    let before = processor_time(server.id());
    tokio::time::sleep(Duration::from_millis(500)).await;
    let used = processor_time(server.id()) - before;
    assert!(used < Duration::from_millis(150), "queries of nobody still compute: {used:?} of 500 ms");
    server.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn joins_that_keep_nothing_leave_the_server_answering_and_stop_when_they_are_killed() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path().to_str().unwrap(), ["--fold-interval", "1h"]);
    let http = Http::new(&server.url());
    let lines: String =
        (0..100_000).map(|n| format!("m,host=h v={n}i,one=1i {}\n", 1_700_000_000_000_u64 + n)).collect();
    assert_eq!(http.post("/write?db=d&precision=ms", &[], lines).await.unwrap().status, 204);
    // 10^10 pairs each: with only a condition, and with a condition and a constant key.
    for condition in ["a.v + b.v < 0", "a.one = b.one and a.v + b.v < 0"] {
        let sql = format!("select count(*) from d.m a join d.m b on {condition}");
        let asking = (0..3).map(|_| {
            let (http, sql) = (Http::new(&server.url()), sql.clone());
            tokio::spawn(async move { http.post("/api/v1/sql", &[], sql).await })
        });
        let asking: Vec<_> = asking.collect();
        let found = ids(&http, &sql, 3).await;
        let mut slowest = Duration::ZERO;
        for _ in 0..20 {
            let start = Instant::now();
            assert_eq!(http.get("/health").await.unwrap().status, 200);
            slowest = slowest.max(start.elapsed());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert!(slowest < Duration::from_secs(1), "{condition}: an answer took {slowest:?}");
        for id in &found {
            http.sql(&format!("kill query '{id}'")).await;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
        let before = processor_time(server.id());
        tokio::time::sleep(Duration::from_millis(500)).await;
        let used = processor_time(server.id()) - before;
        assert!(used < Duration::from_millis(150), "{condition}: killed, and computes: {used:?} of 500 ms");
        for asking in asking {
            let reply = asking.await.unwrap();
            assert!(reply.as_ref().map_or(true, |reply| reply.status == 409), "{reply:?}");
        }
    }
    server.stop();
}

/// The events of a stream of Server-Sent Events.
fn events(body: &str) -> Vec<(String, Value)> {
    let parse = |event: &str| {
        let field = |name: &str| event.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        Some((field("event:")?.to_owned(), serde_json::from_str(field("data:")?).unwrap()))
    };
    body.split("\n\n").filter_map(parse).collect()
}

/// Follows a query to its end; polls until the server knows its ID.
async fn followed(http: &Http, id: &str) -> Vec<(String, Value)> {
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        let reply = http.get(&format!("/api/v1/queries/{id}/events")).await.unwrap();
        if reply.status == 200 {
            return events(&reply.body);
        }
        assert!(reply.status == 404 && Instant::now() < until, "{reply:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_names_its_query_and_follows_it_until_a_kill_ends_it() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path().to_str().unwrap(), ["--fold-interval", "1h"]);
    let http = Http::new(&server.url());
    write(&http).await;
    let ask = |id: &'static str| {
        let http = http.clone();
        tokio::spawn(
            async move { http.post("/api/v1/sql", &[("database", "d"), ("x-tidelake-query", id)], ENDLESS).await },
        )
    };
    let asking = ask("report-1");
    let following = {
        let http = http.clone();
        tokio::spawn(async move { followed(&http, "report-1").await })
    };
    assert_eq!(ids(&http, ENDLESS, 1).await, ["report-1"], "SHOW QUERIES has the ID of the client");
    let twice = ask("report-1").await.unwrap().unwrap();
    assert!(twice.status == 409 && twice.body.contains("report-1"), "{twice:?}");
    tokio::time::sleep(Duration::from_millis(700)).await;
    let killed = http.post("/api/v1/sql", &[], "kill query 'report-1'").await.unwrap();
    assert_eq!(killed.status, 200, "{}", killed.body);
    let events = following.await.unwrap();
    let (last, before) = events.split_last().unwrap();
    assert_eq!((last.0.as_str(), &last.1["state"], &last.1["id"]), ("end", &json!("killed"), &json!("report-1")));
    assert!(before.len() >= 3 && before.iter().all(|(name, _)| name == "progress"), "one each 200 ms: {events:?}");
    let elapsed: Vec<u64> = events.iter().map(|(_, data)| data["elapsed_ms"].as_u64().unwrap()).collect();
    assert!(elapsed.is_sorted() && elapsed.last() >= Some(&700), "{elapsed:?}");
    // Up to five scans were begun; each has the thousand rows that were written.
    let count = |name: &str| before.last().unwrap().1[name].as_u64().unwrap();
    let (read, all) = (count("rows_read"), count("rows_to_read"));
    assert!(read <= all && (1_000..=5_000).contains(&all) && all % 1_000 == 0, "{read} of {all}");
    let reply = asking.await.unwrap();
    assert!(reply.as_ref().map_or(true, |reply| reply.status == 409 && reply.body.contains("killed")), "{reply:?}");

    // The end stays readable for a while, and the ID may be used again.
    assert_eq!(followed(&http, "report-1").await, std::slice::from_ref(last));
    let count =
        http.post("/api/v1/sql", &[("x-tidelake-query", "report-1")], "select count(v + 1) from d.m").await.unwrap();
    assert_eq!((count.status, &count.json()["data"]), (200, &json!([[1_000]])), "{}", count.body);
    let done = followed(&http, "report-1").await;
    let [(name, data)] = done.as_slice() else { panic!("{done:?}") };
    assert_eq!((name.as_str(), &data["state"], &data["rows"]), ("end", &json!("done"), &json!(1)));
    assert_eq!((&data["rows_read"], &data["rows_to_read"]), (&json!(1_000), &json!(1_000)));

    for wrong in ["a b", "a/b", "", &"x".repeat(65)] {
        let reply = http.post("/api/v1/sql", &[("x-tidelake-query", wrong)], "select 1").await.unwrap();
        assert!(reply.status == 400 && reply.body.contains("expected 1 to 64 letters"), "{wrong}: {reply:?}");
    }
    let reply = http.get("/api/v1/queries/none/events").await.unwrap();
    assert!(reply.status == 404 && reply.body.contains("(query: none)"), "{reply:?}");
    server.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_event_says_why_a_result_ended_before_its_last_row() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path().to_str().unwrap(), ["--fold-interval", "1h"]);
    let http = Http::new(&server.url());
    write(&http).await;
    // The division fails behind the first batches, after the headers have been sent.
    let fails = "select 1 / (value - 3000000) from generate_series(1, 4000000)";
    for (format, id) in [("ndjson", "f1"), ("json", "f2"), ("arrow", "f3"), ("csv", "f4")] {
        let path = format!("/api/v1/sql?format={format}");
        let reply = http.post(&path, &[("x-tidelake-query", id)], fails).await;
        assert!(reply.is_err(), "the connection is closed: {:?}", reply.map(|reply| reply.status));
        let end = followed(&http, id).await.pop().unwrap().1;
        assert_eq!((&end["state"], &end["error"]["kind"]), (&json!("failed"), &json!("invalid")), "{format}: {end}");
        assert!(end["error"]["message"].as_str().unwrap().contains("division by zero"), "{end}");
    }
    // An error before the first row is in the reply and in the last event.
    let reply = http.post("/api/v1/sql", &[("x-tidelake-query", "f5")], "select nosuch from d.m").await.unwrap();
    let end = followed(&http, "f5").await.pop().unwrap().1;
    assert_eq!(end["error"], reply.json()["error"]);
    // A client that goes away.
    let leaving = {
        let http = http.clone();
        tokio::spawn(async move { http.post("/api/v1/sql", &[("x-tidelake-query", "gone")], ENDLESS).await })
    };
    ids(&http, ENDLESS, 1).await;
    leaving.abort();
    assert_eq!(followed(&http, "gone").await.pop().unwrap().1["state"], "cancelled");
    server.stop();
}
