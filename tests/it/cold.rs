//! A new process over a distant store answers with few requests.

use std::time::Duration;

use tidelake_loadtest::{
    Devices,
    distant::Distance,
    drive::{
        self, Existing, HttpOptions, WriteOptions,
        cold::{ColdOptions, ask_cold},
    },
    generate::{Order, Source},
    oracle::Oracle,
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
    // Segments younger than the fold's margin are left alone.
    tokio::time::sleep(Duration::from_millis(6_500)).await;
    Http::new(&server.url()).compact("full").await;
    server.stop();

    let options = ColdOptions {
        program: process::binary(),
        store,
        environment: environment.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
        s3: s3.address(),
        // What is asserted is the number of requests: no need to wait long for them.
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
