//! The benchmark queries on 1e6 rows, compared with an oracle computed from the generated rows: from log segments only,
//! from folded and merged data files, after a restart, and on a third-party S3-compatible server.

use std::time::Duration;

use tidelake_loadtest::{
    Devices,
    drive::{
        self, Existing, HttpOptions, Protocol, WriteOptions,
        query::{Addresses, Asker, Door},
        udp::{UdpOptions, send_datagrams},
    },
    workload,
    workload::generate::{Order, Source},
    workload::oracle::Oracle,
    workload::verify::verify,
};
use tidelake_tests::{Http, S3Server, Server};

/// 1e6 rows.
const SET: Devices = Devices { devices: 1_000, rows: 1_000, seed: 7 };

async fn write(server: &Server, set: Devices, protocol: Protocol, order: Order) {
    let mut options = WriteOptions::new(server.url());
    options.flight = Some(server.url());
    options.protocol = protocol;
    let sample = drive::write(&Source::Generated(set, order), &options, &|_| {}).await.unwrap();
    assert_eq!(sample.rows, set.len());
    // The queries send no token, so on a bucket their state may be a second old.
    tokio::time::sleep(Duration::from_millis(1_100)).await;
}

async fn create(server: &Server) {
    drive::create_database(&server.url(), &HttpOptions::default(), Existing::Drop).await.unwrap();
}

/// Runs every query at every percentage through the given interfaces.
async fn verify_all(server: &Server, oracle: &Oracle, doors: &[Door]) {
    let addresses = Addresses { url: server.url(), flight: Some(server.url()) };
    for door in doors {
        let mut asker = Asker::connect(*door, &addresses, &HttpOptions::default()).await.unwrap();
        for question in workload::all_queries(&workload::Q1_GROUPS, &workload::PERCENTS) {
            let (raw, _) = asker.ask(&question.sql()).await.unwrap_or_else(|e| panic!("{}: {e:#}", question.sql()));
            let answer = raw.into_answer().unwrap_or_else(|e| panic!("{}: {e:#}", question.sql()));
            verify(oracle, &question, &answer).unwrap_or_else(|e| panic!("{} door: {e:#}", door.name()));
        }
    }
}

/// Folds all rows written so far, including the youngest segments.
async fn fold_all(server: &Server) {
    // A fold skips segments younger than its margin (2 s on a directory, 5 s elsewhere).
    tokio::time::sleep(Duration::from_millis(6_500)).await;
    Http::new(&server.url()).compact("fold").await;
}

async fn through_every_state(store: &str, environment: &[(&str, String)]) {
    let oracle = Oracle::new(SET);
    let only_on_demand = ["--fold-interval", "1h"];
    let server = Server::start_with(store, only_on_demand, environment);
    create(&server).await;
    write(&server, SET, Protocol::Line, Order::Device).await;
    verify_all(&server, &oracle, &[Door::Flight, Door::HttpJson]).await;

    fold_all(&server).await;
    verify_all(&server, &oracle, &[Door::Flight, Door::HttpArrow]).await;

    // The same rows in another order: each key is in two files but counts once.
    write(&server, SET, Protocol::Line, Order::Time).await;
    verify_all(&server, &oracle, &[Door::Flight]).await;
    fold_all(&server).await;
    verify_all(&server, &oracle, &[Door::Flight]).await;
    let report = Http::new(&server.url()).compact("full").await;
    assert!(report["merged_files"].as_u64().unwrap() >= 2, "{report}");
    assert_eq!(report["duplicates"], SET.len(), "{report}");
    verify_all(&server, &oracle, &[Door::Flight, Door::Rest]).await;

    server.stop();
    let server = Server::start_with(store, only_on_demand, environment);
    verify_all(&server, &oracle, &[Door::Flight, Door::HttpJson]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_papers_queries_equal_the_oracle_in_every_state_on_a_directory() {
    let directory = tempfile::tempdir().unwrap();
    through_every_state(directory.path().to_str().unwrap(), &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_papers_queries_equal_the_oracle_in_every_state_on_a_bucket() {
    let Some(s3) = S3Server::start() else { return };
    through_every_state(&s3.root("w1"), &s3.environment()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_protocol_stores_the_same_rows() {
    let set = Devices { devices: 100, rows: 200, seed: 3 };
    let oracle = Oracle::new(set);
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path().to_str().unwrap(), [] as [&str; 0]);
    for protocol in [Protocol::TdEngine, Protocol::Flight, Protocol::Line] {
        create(&server).await;
        write(&server, set, protocol, Order::Device).await;
        verify_all(&server, &oracle, &[Door::Flight]).await;
    }
    // OpenTSDB has one table per metric.
    write(&server, set, Protocol::OpenTsdb, Order::Device).await;
    let rows = Http::new(&server.url()).sql("select count(value), sum(value) from db.temperature").await;
    let expected: i64 = set.ids().flat_map(|id| set.rows(id)).map(|row| i64::from(row.temperature)).sum();
    assert_eq!(rows[0][0], set.len());
    assert_eq!(rows[0][1].as_f64().unwrap(), expected as f64);
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_come_over_udp_are_those_that_were_sent() {
    let set = Devices { devices: 100, rows: 100, seed: 4 };
    let directory = tempfile::tempdir().unwrap();
    // A port that was free a moment ago.
    let free = std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let arguments = ["--udp-listen", &free, "--udp-database", "db", "--udp-precision", "ms"];
    let server = Server::start(directory.path().to_str().unwrap(), arguments);
    create(&server).await;
    let options = UdpOptions {
        to: free.clone(),
        addresses: Addresses { url: server.url(), flight: None },
        http: HttpOptions::default(),
        rows_per_datagram: 10,
        // Slow enough for the socket's buffer on a busy machine.
        rows_per_second: Some(10_000.0),
    };
    let sample = send_datagrams(&Source::Generated(set, Order::Time), &options, &|_| {}).await.unwrap();
    assert_eq!((sample.sent, sample.datagrams, sample.arrived), (10_000, 1_000, 10_000));
    verify_all(&server, &Oracle::new(set), &[Door::HttpArrow]).await;
    server.stop();
}
