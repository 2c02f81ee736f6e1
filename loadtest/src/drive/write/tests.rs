#![allow(clippy::unwrap_used)]

use super::super::fake::{Act, Request, no_content, reply, serve};
use super::*;
use crate::workload::generate::{Devices, Order};
use std::collections::BTreeSet;
use std::sync::Mutex;

const SET: Devices = Devices { devices: 10, rows: 30, seed: 2 };

fn options(url: &str, protocol: Protocol) -> WriteOptions {
    let http = HttpOptions {
        retry_deadline: Duration::from_secs(2),
        first_wait: Duration::from_millis(1),
        ..HttpOptions::default()
    };
    WriteOptions { protocol, rows_per_request: 7, clients: 3, http, ..WriteOptions::new(url) }
}

fn lines(requests: &[Request]) -> Vec<String> {
    requests
        .iter()
        .flat_map(|request| {
            String::from_utf8(request.body.clone()).unwrap().lines().map(str::to_owned).collect::<Vec<_>>()
        })
        .collect()
}

#[tokio::test]
async fn every_row_is_written_once_and_counted_when_acknowledged() {
    // Every third request is answered with a retryable status.
    let fake = serve(|number, _| match number % 3 {
        2 => reply(503, "", ""),
        _ => no_content(&format!("x-tidelake-token: {number}\r\n")),
    })
    .await;
    let heard = Mutex::new(Vec::new());
    let progress = |rows| heard.lock().unwrap().push(rows);
    let source = Source::Generated(SET, Order::Device);
    let sample = write(&source, &options(&fake.url, Protocol::Line), &progress).await.unwrap();

    assert_eq!(sample.rows, SET.len());
    assert_eq!(sample.rows_by_client, [90, 90, 120]);
    assert_eq!(sample.requests, 13 + 13 + 18);
    assert_eq!(sample.latency.count, sample.requests);
    assert_eq!(sample.tokens.len(), 3);
    let heard = heard.into_inner().unwrap();
    assert_eq!(heard.iter().max(), Some(&SET.len()));
    assert_eq!(heard.len() as u64, sample.requests);

    let requests = fake.requests.lock().unwrap();
    assert!(requests.iter().all(|request| request.line == "POST /write?db=db&precision=ms"));
    let accepted: Vec<Request> =
        requests.iter().enumerate().filter(|(number, _)| number % 3 != 2).map(|(_, request)| request.clone()).collect();
    assert_eq!(sample.repeated_busy as usize, requests.len() - accepted.len());
    assert_eq!(sample.bytes, accepted.iter().map(|request| request.body.len() as u64).sum::<u64>());
    let lines = lines(&accepted);
    assert_eq!((lines.len(), lines.iter().collect::<BTreeSet<_>>().len()), (300, 300));
}

#[tokio::test]
async fn a_tdengine_reply_must_acknowledge_every_row() {
    let rows_in = |request: &Request| {
        request.body.iter().filter(|&&byte| byte == b'(').count()
            - String::from_utf8_lossy(&request.body).matches(" tags(").count()
    };
    let answer = |rows: usize| {
        reply(
            200,
            "",
            &format!("{{\"code\":0,\"column_meta\":[[\"affected_rows\",\"INT\",4]],\"data\":[[{rows}]],\"rows\":1}}"),
        )
    };
    let fake = serve(move |_, request| answer(rows_in(request))).await;
    let source = Source::Generated(SET, Order::Time);
    let sample = write(&source, &options(&fake.url, Protocol::TdEngine), &|_| ()).await.unwrap();
    assert_eq!(sample.rows, SET.len());
    assert!(fake.requests.lock().unwrap()[0].line.starts_with("POST /rest/sql/db"));

    let fake = serve(move |number, request| answer(rows_in(request) - usize::from(number == 4))).await;
    let error = write(&source, &options(&fake.url, Protocol::TdEngine), &|_| ()).await.unwrap_err();
    assert!(format!("{error:#}").contains("affected rows"), "{error:#}");

    let fake = serve(|_, _| reply(200, "", "{\"code\":9728,\"desc\":\"syntax error near \\\"x\\\"\"}")).await;
    let error = write(&source, &options(&fake.url, Protocol::TdEngine), &|_| ()).await.unwrap_err();
    assert!(format!("{error:#}").contains("0x2600: syntax error"), "{error:#}");
}

#[tokio::test]
async fn a_failure_leaves_the_count_of_what_was_acknowledged_before_it() {
    let fake = serve(|number, _| if number < 5 { no_content("") } else { reply(400, "", "disk on fire") }).await;
    let source = Source::Generated(SET, Order::Device);
    let options = options(&fake.url, Protocol::OpenTsdb);
    let (sample, failure) = write_until_failure(&source, &options, &|_| ()).await.unwrap();
    assert!(format!("{:#}", failure.unwrap()).contains("disk on fire"));
    assert_eq!((sample.rows, sample.requests), (35, 5));
    assert_eq!(sample.rows_by_client.iter().sum::<u64>(), 35);
    assert!(fake.requests.lock().unwrap().iter().all(|request| request.line == "POST /api/put?db=db"));
}

#[tokio::test]
async fn a_killed_server_ends_every_client_within_its_deadline() {
    let fake = serve(|number, _| if number < 5 { no_content("") } else { Act::Close(Vec::new()) }).await;
    let mut options = options(&fake.url, Protocol::Line);
    options.http.retry_deadline = Duration::from_millis(100);
    let source = Source::Generated(SET, Order::Device);
    let (sample, failure) = write_until_failure(&source, &options, &|_| ()).await.unwrap();
    assert_eq!(sample.rows, 35);
    assert!(format!("{:#}", failure.unwrap()).contains("given up"));
}

#[tokio::test]
async fn a_run_can_be_a_task_of_its_own() {
    let fake = serve(|_, _| no_content("")).await;
    let options = options(&fake.url, Protocol::Line);
    let run = async move { write(&Source::Generated(SET, Order::Time), &options, &|_| ()).await };
    assert_eq!(tokio::spawn(run).await.unwrap().unwrap().rows, SET.len());
}

#[tokio::test]
async fn no_sync_is_asked_for_where_there_is_one_and_a_reply_from_the_store_is_an_error() {
    let source = Source::Generated(SET, Order::Device);
    let buffered = |url: &str, protocol| WriteOptions { durability: Durability::Buffered, ..options(url, protocol) };
    for protocol in [Protocol::Line, Protocol::OpenTsdb] {
        let fake = serve(|_, _| no_content("")).await;
        assert_eq!(write(&source, &buffered(&fake.url, protocol), &|_| ()).await.unwrap().rows, SET.len());
        assert!(fake.requests.lock().unwrap().iter().all(|request| request.line.ends_with("&no_sync=true")));

        let fake = serve(|_, _| no_content("x-tidelake-token: 7\r\n")).await;
        let error = write(&source, &buffered(&fake.url, protocol), &|_| ()).await.unwrap_err();
        assert!(format!("{error:#}").contains("no_sync did not reach the server"), "{error:#}");
    }
    for protocol in [Protocol::TdEngine, Protocol::Flight] {
        let error = write(&source, &buffered("http://127.0.0.1:1", protocol), &|_| ()).await.unwrap_err();
        assert!(error.to_string().contains("has no no_sync"), "{error:#}");
    }
}
