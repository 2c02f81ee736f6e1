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
        let of_text = rows.iter().filter(|row| row[7] == sql && row[1] == "running");
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
