//! Limits over the wire: a client that exceeds one gets an error, and other clients are still served.

use std::{
    io::{Read, Write},
    net::TcpStream,
    time::{Duration, Instant},
};

use tidelake_tests::{Flight, Http, Server};

fn start(directory: &tempfile::TempDir) -> Server {
    let arguments = [
        ["--max-body", "1MiB"],
        ["--max-line", "1KiB"],
        ["--max-header", "8KiB"],
        ["--header-timeout", "1s"],
        ["--body-timeout", "1s"],
        ["--max-columns", "5"],
        ["--max-tables", "3"],
    ];
    Server::start(directory.path().to_str().unwrap(), arguments.into_iter().flatten())
}

/// Sends bytes, then nothing, and reads until the server closes.
fn converse(server: &Server, bytes: &[u8]) -> (String, Duration) {
    let started = Instant::now();
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream.write_all(bytes).unwrap();
    let mut reply = Vec::new();
    let mut buffer = [0; 4_096];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(n) => reply.extend_from_slice(&buffer[..n]),
            Err(e) if e.kind() == std::io::ErrorKind::ConnectionReset => break,
            Err(e) => panic!("{e} after {:?}", started.elapsed()),
        }
        // A response suffices: the connection may stay open.
        if reply.windows(4).any(|w| w == b"\r\n\r\n") {
            break;
        }
    }
    (String::from_utf8_lossy(&reply).into_owned(), started.elapsed())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_too_long_too_slow_or_too_much_is_refused_and_the_server_serves_on() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(&directory);
    let http = Http::new(&server.url());
    let served = |text: &'static str| {
        let http = http.clone();
        async move {
            let reply = http.post("/write?db=lim", &[], text).await.unwrap();
            assert_eq!(reply.status, 204, "{}", reply.body);
        }
    };
    served("m a=1").await;

    // Headers that never end, and a body that pauses.
    let (_, took) = converse(&server, b"POST /write?db=lim HTTP/1.1\r\nhost: localhost\r\n");
    assert!(took < Duration::from_secs(20), "{took:?}");
    let head = b"POST /write?db=lim HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000\r\n\r\nm a=2";
    let (reply, took) = converse(&server, head);
    assert!(reply.is_empty() || reply.starts_with("HTTP/1.1 4"), "{reply}");
    assert!(took < Duration::from_secs(20), "{took:?}");
    served("m a=3").await;

    // Headers that are too large.
    let large = format!("GET /ping HTTP/1.1\r\nhost: localhost\r\nx-large: {}\r\n\r\n", "x".repeat(64 << 10));
    let (reply, _) = converse(&server, large.as_bytes());
    assert!(reply.is_empty() || reply.starts_with("HTTP/1.1 431"), "{reply}");

    let long = format!("m text=\"{}\"", "x".repeat(2_000));
    for (body, words) in [
        (long.as_str(), "longer than the limit of 1024 bytes"),
        ("m b=1,c=1,d=1,e=1,f=1", "too many columns"),
        ("wide b=1,c=1,d=1,e=1,f=1", "too many columns"),
    ] {
        let reply = http.post("/write?db=lim", &[], body.to_owned()).await.unwrap();
        assert_eq!(reply.status, 400, "{}", reply.body);
        assert!(reply.body.contains(words), "{}", reply.body);
    }
    served("m2 a=1").await;
    served("m3 a=1").await;
    let reply = http.post("/write?db=lim", &[], "m4 a=1").await.unwrap();
    assert_eq!(reply.status, 400, "{}", reply.body);
    assert!(reply.body.contains("too many tables"), "{}", reply.body);

    let deep = format!("select {}1{}", "(".repeat(500), ")".repeat(500));
    let list = format!("select 1 where 1 in (1{})", ",1".repeat(200_000));
    for sql in [deep, list, "x".repeat(5 << 20)] {
        let reply = http.post("/api/v1/sql", &[], sql).await.unwrap();
        assert_eq!(reply.status, 400, "{}", reply.body);
    }
    served("m a=4").await;
    assert_eq!(http.sql("select count(*) from lim.m").await, [[serde_json::json!(3)]]);
    server.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn queries_over_their_time_or_their_queue_are_refused_on_every_door_and_others_are_served() {
    let directory = tempfile::tempdir().unwrap();
    let limits = ["--query-timeout", "2s", "--query-concurrency", "1", "--query-queue", "1"];
    let server = Server::start(directory.path().to_str().unwrap(), limits);
    let http = Http::new(&server.url());
    let lines: String = (0..2_000).map(|i| format!("m v={i} {}\n", 1_700_000_000_000_000_000_i64 + i)).collect();
    assert_eq!(http.post("/write?db=q", &[], lines).await.unwrap().status, 204);
    // 8e9 rows.
    let slow = "select count(a.v + b.v + c.v) from q.m a cross join q.m b cross join q.m c";
    let started = Instant::now();
    let reply = http.post("/api/v1/sql", &[], slow).await.unwrap();
    assert_eq!(reply.status, 503, "{}", reply.body);
    assert!(reply.body.contains("longer than its limit"), "{}", reply.body);
    assert!(started.elapsed() < Duration::from_secs(30), "{:?}", started.elapsed());
    let mut flight = Flight::connect(&server.url()).await;
    let error = flight.query(slow).await.unwrap_err();
    assert!(error.to_lowercase().contains("unavailable"), "{error}");

    // One runs, one waits (until timeout, if the first one takes too long), the others are refused at once.
    let all = (0..6).map(|_| http.post("/api/v1/sql", &[], slow));
    let replies = futures::future::join_all(all).await;
    let refused = replies.iter().filter(|r| r.as_ref().unwrap().body.contains("query queue is full")).count();
    assert!(replies.iter().all(|r| r.as_ref().unwrap().status == 503));
    assert!(
        (3..=4).contains(&refused),
        "{refused}: {:?}",
        replies.iter().map(|r| &r.as_ref().unwrap().body).collect::<Vec<_>>()
    );
    assert_eq!(http.sql("select count(*) from q.m").await, [[serde_json::json!(2_000)]]);
    server.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_over_the_limit_waits_for_one_to_end() {
    let directory = tempfile::tempdir().unwrap();
    let limits = ["--max-connections", "3", "--max-client-connections", "3"];
    let server = Server::start(directory.path().to_str().unwrap(), limits);
    let ping = b"GET /ping HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let open = || {
        let mut stream = TcpStream::connect(server.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream.write_all(ping).unwrap();
        stream
    };
    let answered = |stream: &mut TcpStream| {
        let mut reply = [0; 512];
        matches!(stream.read(&mut reply), Ok(n) if reply[..n].starts_with(b"HTTP/1.1 204"))
    };
    // The connection of the start-up check may still be open.
    let mut held = Vec::new();
    loop {
        let mut stream = open();
        stream.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
        if !answered(&mut stream) {
            held.push(stream);
            break;
        }
        held.push(stream);
        assert!(held.len() <= 3, "a fourth connection is served");
    }
    let mut last = held.pop().unwrap();
    held.remove(0);
    last.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    assert!(answered(&mut last), "it is served once there is room");
    server.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_of_a_request_is_answered_as_one_on_every_http_path_and_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let client = reqwest::Client::new();
    let requests = [
        ("/write?db=idem&precision=ms", "m a=1 1563249700001"),
        ("/api/v2/write?bucket=idem&precision=ms", "m a=2 1563249700002"),
        ("/api/put?db=idem", r#"{"metric":"p","timestamp":1563249700,"value":1,"tags":{"a":"b"}}"#),
        ("/rest/sql/idem", "insert into d1 using s tags(1) values(1563249700000, 1)"),
        ("/api/v1/sql?db=idem", "insert into d1 using s tags(1) values(1563249701000, 1)"),
    ];
    for round in 0..3 {
        let server = start(&directory);
        if round == 0 {
            let http = Http::new(&server.url());
            for sql in ["create database idem precision 'ms'", "create stable idem.s(ts timestamp, v int) tags(t int)"]
            {
                assert_eq!(http.post("/rest/sql", &[], sql).await.unwrap().status, 200);
            }
        }
        let mut tokens = Vec::new();
        for (i, (path, body)) in requests.iter().enumerate() {
            for copy in 0..2 {
                let request = client.post(format!("{}{path}", server.url())).header("idempotency-key", format!("k{i}"));
                let reply = request.body(*body).send().await.unwrap();
                let (status, headers) = (reply.status(), reply.headers().clone());
                let text = reply.text().await.unwrap();
                assert!(status.is_success() && !text.contains("\"desc\""), "{path}: {status} {text}");
                let replayed = headers.get("idempotency-replayed").is_some_and(|v| v == "true");
                assert_eq!(replayed, round > 0 || copy > 0, "{path}, round {round}, copy {copy}");
                tokens.push(headers["x-tidelake-token"].to_str().unwrap().to_owned());
            }
        }
        assert!(tokens.chunks(2).all(|pair| pair[0] == pair[1]), "{tokens:?}");
        let other = client.post(format!("{}/write?db=idem", server.url())).header("idempotency-key", "k0");
        let refused = other.body("m a=9 9").send().await.unwrap();
        assert_eq!(refused.status(), 400);
        let http = Http::new(&server.url());
        assert_eq!(http.sql("select count(*) from idem.m").await, [[serde_json::json!(2)]]);
        assert_eq!(http.sql("select count(*) from idem.s").await, [[serde_json::json!(2)]]);
        server.kill();
    }
}

/// Resident memory of a process in bytes: current, and peak since the last reset.
#[cfg(target_os = "linux")]
fn resident(process: u32) -> (usize, usize) {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim().strip_suffix(" kB").unwrap().parse::<usize>().unwrap() * 1_024
    };
    (field("VmRSS:"), field("VmHWM:"))
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn a_fold_of_a_log_many_times_larger_than_its_share_of_memory_stays_within_it() {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Float64Array, RecordBatch, StringArray, TimestampMillisecondArray};
    use arrow_flight::sql::CommandStatementIngest;
    use rand::{Rng, SeedableRng, rngs::StdRng};

    const COLUMNS: usize = 32;
    const ROWS: usize = 8_192;
    const SEGMENTS: usize = 160;
    const SHARE: usize = 64 << 20;
    let directory = tempfile::tempdir().unwrap();
    let arguments = ["--fold-interval", "1h", "--compact-memory", "64MiB", "--tail-memory", "4GiB"];
    // Freed memory is returned at once, so resident memory equals used memory.
    let environment = [("_RJEM_MALLOC_CONF", "dirty_decay_ms:0,muzzy_decay_ms:0".to_owned())];
    let server = Server::start_with(directory.path().to_str().unwrap(), arguments, &environment);
    let http = Http::new(&server.url());
    http.rest_sql("create database fold").await;
    let mut flight = Flight::connect(&server.url()).await;
    let (idle, _) = resident(server.id());
    let mut random = StdRng::seed_from_u64(64);
    let mut sum = 0.0;
    for segment in 0..SEGMENTS {
        let times = (0..ROWS).map(|row| 1_700_000_000_000 + (segment * ROWS + row) as i64);
        let names = (0..ROWS).map(|row| format!("d{}", row % 100));
        let mut columns: Vec<(String, ArrayRef)> = vec![
            ("ts".to_owned(), Arc::new(TimestampMillisecondArray::from_iter_values(times))),
            ("tbname".to_owned(), Arc::new(StringArray::from_iter_values(names))),
        ];
        for column in 0..COLUMNS {
            // Sums of these are exact.
            let values: Vec<f64> = (0..ROWS).map(|_| f64::from(random.random_range(0..1_000_000))).collect();
            sum += values.iter().sum::<f64>();
            columns.push((format!("f{column}"), Arc::new(Float64Array::from(values))));
        }
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let command = CommandStatementIngest {
            table: "m".to_owned(),
            schema: Some("fold".to_owned()),
            table_definition_options: Some(arrow_flight::sql::TableDefinitionOptions {
                if_not_exist: arrow_flight::sql::TableNotExistOption::Create.into(),
                if_exists: arrow_flight::sql::TableExistsOption::Append.into(),
            }),
            ..CommandStatementIngest::default()
        };
        flight.client().execute_ingest(command, futures::stream::iter([Ok(batch)])).await.unwrap();
    }
    let decoded = SEGMENTS * ROWS * (COLUMNS + 1) * 8;
    assert!(decoded > 5 * SHARE, "{decoded}");
    // Resets the peak.
    std::fs::write(format!("/proc/{}/clear_refs", server.id()), "5").unwrap();
    let folded = http.compact("fold").await;
    let (_, peak) = resident(server.id());
    // The server folded part of the segments during the writes.
    assert!(folded["folded_rows"].as_u64().unwrap() as usize > SEGMENTS * ROWS / 2, "{folded}");
    // The share limits decoded rows; in addition one file at a time is encoded.
    let taken = peak.saturating_sub(idle);
    println!("a fold of {} MiB took {} MiB beyond {} MiB", decoded >> 20, taken >> 20, idle >> 20);
    assert!(taken <= 2 * SHARE, "{} MiB of {} MiB", taken >> 20, decoded >> 20);
    let columns: Vec<String> = (0..COLUMNS).map(|column| format!("sum(f{column})")).collect();
    let sql = format!("select count(*), {} from fold.m", columns.join(" + "));
    assert_eq!(http.sql(&sql).await, [[serde_json::json!(SEGMENTS * ROWS), serde_json::json!(sum)]]);
    server.stop();
}
