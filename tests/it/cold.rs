//! A new process on a distant store needs few requests, and fewer with a disk cache.

use std::time::Duration;

use tidelake_loadtest::{
    Devices,
    distant::Distance,
    drive::{
        self, Existing, HttpOptions, WriteOptions,
        cold::{ColdOptions, ask_cold},
        query::{Addresses, Asker, Door},
    },
    workload::generate::{Order, Source},
    workload::oracle::Oracle,
    workload::verify::verify,
    workload::{Function, Question},
};
use tidelake_tests::{Http, S3Server, Server, process};

#[tokio::test(flavor = "multi_thread")]
async fn the_first_answers_of_a_new_process_take_at_most_twelve_requests_with_those_of_its_start() {
    let Some(s3) = S3Server::start() else { return };
    let set = Devices { devices: 300, rows: 1_000, seed: 5 };
    let (store, environment) = (s3.root("cold"), s3.environment());
    let server = Server::start_with(&store, ["--fold-interval", "1h"], &environment);
    drive::create_database(&server.url(), &HttpOptions::default(), Existing::Keep).await.unwrap();
    drive::write(&Source::Generated(set, Order::Time), &WriteOptions::new(server.url()), &|_| {}).await.unwrap();
    // A fold skips segments younger than its margin.
    tokio::time::sleep(Duration::from_millis(6_500)).await;
    Http::new(&server.url()).compact("full").await;
    server.stop();

    let options = ColdOptions {
        program: process::binary(),
        store,
        environment: environment.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
        s3: s3.address(),
        // Only the number of requests is asserted, so latencies are short.
        distance: Distance { median: Duration::from_millis(2), p99: Duration::from_millis(5), ..Distance::default() },
        repeat: 2,
    };
    let average = Question::Q2 { function: Function::Avg, percent: 100 };
    let questions = [average, Question::Q3 { percent: 100 }, Question::Q4 { percent: 100 }];
    let samples = ask_cold(&options, &questions, Some(&Oracle::new(set))).await.unwrap();
    assert_eq!(samples.len(), 3);
    for sample in samples {
        assert!(sample.from_start_requests.iter().all(|n| (1..=12).contains(n)), "{sample:?}");
    }
}

/// Value of a metric; the name includes labels.
async fn metric(server: &Server, name: &str) -> u64 {
    let text = reqwest::get(format!("{}/metrics", server.url())).await.unwrap().text().await.unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("{name} is not in\n{text}")).parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_read_once_comes_from_the_disk_cache_also_after_a_restart() {
    let Some(s3) = S3Server::start() else { return };
    let set = Devices { devices: 300, rows: 1_000, seed: 6 };
    let oracle = Oracle::new(set);
    let (store, environment) = (s3.root("cached"), s3.environment());
    let directory = tempfile::tempdir().unwrap();
    let cache = directory.path().join("cache").to_str().unwrap().to_owned();
    let arguments = ["--fold-interval", "1h", "--disk-cache", &cache, "--disk-cache-size", "64MiB"];
    let server = Server::start_with(&store, arguments, &environment);
    drive::create_database(&server.url(), &HttpOptions::default(), Existing::Keep).await.unwrap();
    drive::write(&Source::Generated(set, Order::Time), &WriteOptions::new(server.url()), &|_| {}).await.unwrap();
    tokio::time::sleep(Duration::from_millis(6_500)).await;
    Http::new(&server.url()).compact("full").await;
    server.stop();

    let (hit, get) =
        ("tidelake_disk_cache_blocks_total{result=\"hit\"}", "tidelake_store_requests_total{kind=\"get\"}");
    let mut requests = Vec::new();
    for round in 0..3 {
        if round == 2 {
            // A completely damaged cache is ignored and causes no fault.
            for entry in std::fs::read_dir(&cache).unwrap() {
                let path = entry.unwrap().path();
                let bytes = std::fs::read(&path).unwrap().into_iter().map(|byte| !byte).collect::<Vec<u8>>();
                std::fs::write(&path, bytes).unwrap();
            }
        }
        let server = Server::start_with(&store, arguments, &environment);
        let before = metric(&server, get).await;
        for question in [Question::Q1 { group: 3 }, Question::Q4 { percent: 100 }, Question::Q3 { percent: 50 }] {
            let addresses = Addresses { url: server.url(), flight: None };
            let mut asker = Asker::connect(Door::HttpArrow, &addresses, &HttpOptions::default()).await.unwrap();
            let (raw, _) = asker.ask(&question.sql()).await.unwrap();
            verify(&oracle, &question, &raw.into_answer().unwrap()).unwrap();
        }
        requests.push((metric(&server, get).await - before, metric(&server, hit).await));
        server.stop();
    }
    // Each round requests the newest version.
    let [(first, _), (second, hits), (damaged, hits_of_damage)] = requests[..] else { panic!("{requests:?}") };
    assert!(second < first && hits > 0, "{requests:?}");
    assert!(damaged >= first && hits_of_damage < hits, "{requests:?}");
}
