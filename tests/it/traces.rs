//! OpenTelemetry traces as received by a collector.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use opentelemetry_proto::tonic::{
    collector::trace::v1::{
        ExportTraceServiceRequest, ExportTraceServiceResponse,
        trace_service_server::{TraceService, TraceServiceServer},
    },
    common::v1::any_value::Value,
    trace::v1::{Span, span::SpanKind, status::StatusCode},
};
use tidelake_tests::Server;
use tokio::net::TcpListener;
use tonic::{Request, Response, Status};

/// A collector: received spans with their service.
#[derive(Clone, Default)]
struct Collector(Arc<Mutex<Vec<(String, Span)>>>);

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        for resource in request.into_inner().resource_spans {
            let attributes = resource.resource.unwrap_or_default().attributes;
            let service = attributes.iter().find(|a| a.key == "service.name").and_then(|a| a.value.clone());
            let Some(Value::StringValue(service)) = service.and_then(|value| value.value) else { continue };
            let spans = resource.scope_spans.into_iter().flat_map(|scope| scope.spans);
            self.0.lock().unwrap().extend(spans.map(|span| (service.clone(), span)));
        }
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

impl Collector {
    /// Starts a collector on a free port; returns it and its URL.
    async fn start() -> (Self, String) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let collector = Self::default();
        let service = TraceServiceServer::new(collector.clone());
        let incoming = tonic::transport::server::TcpIncoming::from(listener);
        tokio::spawn(tonic::transport::Server::builder().add_service(service).serve_with_incoming(incoming));
        (collector, url)
    }

    fn spans(&self) -> Vec<Span> {
        let spans = self.0.lock().unwrap();
        assert!(spans.iter().all(|(service, _)| service == "tidelake"));
        spans.iter().map(|(_, span)| span.clone()).collect()
    }
}

fn attribute(span: &Span, key: &str) -> Option<String> {
    let value = span.attributes.iter().find(|attribute| attribute.key == key)?.value.clone()?.value?;
    Some(match value {
        Value::StringValue(text) => text,
        Value::IntValue(number) => number.to_string(),
        other => format!("{other:?}"),
    })
}

/// Names of a span's ancestors, nearest first; ends with the hexadecimal ID of an ancestor outside the server.
fn above(span: &Span, all: &HashMap<Vec<u8>, Span>) -> Vec<String> {
    let mut names = Vec::new();
    let mut parent = span.parent_span_id.clone();
    while let Some(span) = all.get(&parent) {
        names.push(span.name.clone());
        parent = span.parent_span_id.clone();
    }
    names.push(parent.iter().map(|byte| format!("{byte:02x}")).collect());
    names
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_sees_what_is_done_for_a_request_within_the_callers_trace() {
    let (collector, url) = Collector::start().await;
    let directory = tempfile::tempdir().unwrap();
    let options = ["--log", "warn", "--trace-endpoint", &url, "--trace-ratio", "0"];
    let server = Server::start(directory.path().to_str().unwrap(), options);
    let client = reqwest::Client::new();
    let ask = |path: &str, body: String, trace: Option<u8>| {
        let mut request = client.post(format!("{}{path}", server.url())).body(body);
        if let Some(trace) = trace {
            request = request.header("traceparent", format!("00-{trace:032x}-00000000000000aa-01"));
        }
        async move { request.send().await.unwrap() }
    };
    // Requests without a caller's trace; at this ratio none is sampled.
    assert!(ask("/api/v1/sql", "create database db keep 73000d".into(), None).await.status().is_success());
    let lines: String = (1..=500).map(|i| format!("m,h=a{} v={i} {i}\n", i % 7)).collect();
    assert!(ask("/write?db=db&precision=s", lines, Some(1)).await.status().is_success());
    assert!(ask("/api/v1/compact?until=full", String::new(), None).await.status().is_success());
    let sql = "select h, sum(v) from db.m group by h order by h".to_owned();
    let reply = ask("/api/v1/sql", sql, Some(2)).await;
    assert!(reply.status().is_success());
    let rows: serde_json::Value = serde_json::from_slice(&reply.bytes().await.unwrap()).unwrap();
    let sum: f64 = rows["data"].as_array().unwrap().iter().map(|row| row[1].as_f64().unwrap()).sum();
    assert_eq!(sum, 500.0 * 501.0 / 2.0);
    assert_eq!(ask("/api/v1/sql", "select nope from db.m".into(), Some(3)).await.status(), 400);
    ask("/rest/login/root/taosdata-is-secret", String::new(), Some(4)).await;
    server.stop(); // exports the remaining spans

    let spans = collector.spans();
    let trace_of = |span: &Span| span.trace_id.iter().fold(0u128, |id, byte| id << 8 | u128::from(*byte));
    let all: HashMap<Vec<u8>, Span> = spans.iter().map(|span| (span.span_id.clone(), span.clone())).collect();
    let names = |trace: u128| -> Vec<(String, Vec<String>)> {
        let of = spans.iter().filter(|span| trace_of(span) == trace);
        of.map(|span| (span.name.clone(), above(span, &all))).collect()
    };
    assert!(spans.iter().all(|span| (1..=4).contains(&trace_of(span))), "{:?}", spans.iter().map(trace_of));
    let caller = "00000000000000aa".to_owned();
    let path = |parts: &[&str]| -> Vec<String> {
        parts.iter().map(|part| (*part).to_owned()).chain([caller.clone()]).collect()
    };
    let write = names(1);
    assert!(write.contains(&("POST /write".into(), path(&[]))), "{write:?}");
    assert!(write.contains(&("confirm".into(), path(&["POST /write"]))), "{write:?}");
    let query = names(2);
    assert!(query.contains(&("POST /api/v1/sql".into(), path(&[]))), "{query:?}");
    for step in ["snapshot", "plan", "query"] {
        assert!(query.contains(&(step.into(), path(&["POST /api/v1/sql"]))), "{step}: {query:?}");
    }
    let in_query = path(&["query", "POST /api/v1/sql"]);
    assert!(query.contains(&("store".into(), in_query)), "what it reads belongs to it: {query:?}");
    let request = spans.iter().find(|span| trace_of(span) == 2 && span.kind == SpanKind::Server as i32).unwrap();
    assert_eq!(attribute(request, "http.request.method").as_deref(), Some("POST"));
    assert_eq!(attribute(request, "url.path").as_deref(), Some("/api/v1/sql"));
    assert_eq!(attribute(request, "http.response.status_code").as_deref(), Some("200"));
    let store = spans.iter().find(|span| trace_of(span) == 2 && span.name == "store").unwrap();
    assert!(attribute(store, "key").is_some_and(|key| !key.is_empty()) && attribute(store, "operation").is_some());
    let failed = spans.iter().find(|span| trace_of(span) == 3 && span.name == "plan").unwrap();
    let status = failed.status.clone().unwrap();
    assert_eq!(status.code(), StatusCode::Error);
    assert!(status.message.contains("nope"), "{}", status.message);
    let login = spans.iter().find(|span| trace_of(span) == 4).unwrap();
    assert_eq!(attribute(login, "url.path").as_deref(), Some("/rest/login/{user}/{password}"));
    assert!(!format!("{spans:?}").contains("taosdata"), "a collector learns no password");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_is_not_there_holds_nothing_up() {
    // A closed port.
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let url = format!("http://{closed}");
    let server = Server::start(directory.path().to_str().unwrap(), ["--log", "error", "--trace-endpoint", &url]);
    let client = reqwest::Client::new();
    let start = Instant::now();
    for _ in 0..200 {
        let reply = client.post(format!("{}/api/v1/sql", server.url())).body("select 1").send().await.unwrap();
        assert!(reply.status().is_success());
    }
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    server.stop();
    assert!(start.elapsed() < Duration::from_secs(40), "{:?}", start.elapsed());
}
