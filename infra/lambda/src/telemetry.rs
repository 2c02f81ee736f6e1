//! Telemetry of a function: JSON log lines, metrics of each invocation in CloudWatch's embedded metric format, and traces.
//!
//! Counts of 0 are omitted: a metric is billed for each hour in which it occurs, so an idle function costs nothing.

use std::{
    collections::BTreeMap,
    io::Write as _,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{SystemTime, UNIX_EPOCH},
};

use lambda_runtime::Context;
use metrics::{Counter, Gauge, Histogram, Key, KeyName, Recorder, SharedString, Unit};
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use tidelake_format::{
    Error, Result,
    access::audit,
    store::{Store, StoreCounters},
};
use tracing::{Level, Metadata, Span, Subscriber, level_filters::LevelFilter};
use tracing_subscriber::{
    EnvFilter, Layer,
    filter::{FilterExt as _, filter_fn},
    fmt::MakeWriter,
    layer::{Filter, SubscriberExt as _},
    registry::LookupSpan,
};

use crate::{settings, traces::Traces, variables::Variables};

/// Namespace of all metrics.
const NAMESPACE: &str = "Tidelake";

/// Metric of failures that are not the caller's fault.
const FAILURES: &str = "Failures";

/// Exported counters: name in this process, name as a metric, unit. Others are not exported, because each metric is billed.
const TOLD: [(&str, &str, &str); 8] = [
    ("tidelake_ingest_rows_total", "RowsWritten", "Count"),
    ("tidelake_ingest_rejected_total", "RowsRejected", "Count"),
    ("tidelake_ingest_segments_total", "Segments", "Count"),
    ("tidelake_ingest_segment_bytes_total", "BytesPut", "Bytes"),
    ("tidelake_ingest_throttled_total", "Throttled", "Count"),
    ("tidelake_compact_fold_rows_total", "RowsFolded", "Count"),
    ("tidelake_compact_merge_rows_total", "RowsMerged", "Count"),
    ("tidelake_compact_expired_rows_total", "RowsExpired", "Count"),
];

/// Counters since the end of the last invocation.
#[derive(Debug, Clone, Default)]
pub struct Counts(Arc<Mutex<BTreeMap<&'static str, Arc<AtomicU64>>>>);

impl Recorder for Counts {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &metrics::Metadata<'_>) -> Counter {
        match TOLD.iter().find(|(name, ..)| *name == key.name()) {
            Some((_, told, _)) => Counter::from_arc(self.0.lock().entry(told).or_default().clone()),
            None => Counter::noop(),
        }
    }

    fn register_gauge(&self, _: &Key, _: &metrics::Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, _: &Key, _: &metrics::Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

impl Counts {
    /// Takes the counts since the last call by metric name, without zeros.
    fn take(&self) -> Vec<(&'static str, u64)> {
        let counters = self.0.lock();
        counters.iter().map(|(name, count)| (*name, count.swap(0, Relaxed))).filter(|(_, n)| *n > 0).collect()
    }
}

/// Layer of JSON log lines with a filter, without events that may hold whole requests.
fn lines<S, W>(filter: impl Filter<S> + Send + Sync + 'static, writer: W) -> impl Layer<S> + Send + Sync
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    tracing_subscriber::fmt::layer()
        .json()
        .flatten_event(true)
        .with_current_span(true)
        .with_span_list(false)
        .with_writer(writer)
        .with_filter(filter.and(filter_fn(holds_no_request)))
}

/// Whether an event or span cannot hold a whole request. Below INFO the Lambda runtime and the HTTP libraries log
/// events and headers with credentials; these are dropped whatever the filter says.
fn holds_no_request(metadata: &tracing::Metadata<'_>) -> bool {
    const WHOLE: [&str; 6] =
        ["lambda_runtime", "lambda_http", "lambda_runtime_api_client", "h2", "hyper", "hyper_util"];
    let library = metadata.target().split("::").next().unwrap_or_default();
    *metadata.level() <= Level::INFO || !WHOLE.contains(&library)
}

/// Logs, metrics and traces of a function.
#[derive(Debug, Clone)]
pub struct Telemetry {
    counts: Counts,
    /// Name of the function, if metrics are on.
    function: Option<String>,
    /// The watched store, and its counters at the last report.
    store: Arc<Mutex<Option<(Store, StoreCounters)>>>,
    /// Sender of traces, if the platform accepts them.
    traces: Option<Traces>,
}

/// A gauge metric: name, value and unit.
pub type Gauged = (&'static str, f64, &'static str);

impl Telemetry {
    /// Starts logging (`TIDELAKE_LOG`) and counting; `TIDELAKE_METRICS` turns metrics off. Once per process.
    ///
    /// # Errors
    /// Invalid for an invalid filter.
    pub fn start(variables: &mut Variables<'_>) -> Result<&'static Self> {
        static STARTED: OnceLock<Telemetry> = OnceLock::new();
        let text = variables.get(&settings::LOG);
        let filter = EnvFilter::try_new(&text)
            .map_err(|e| Error::invalid("invalid filter in TIDELAKE_LOG").with("found", &text).source(e))?;
        let is_told = variables.boolean("TIDELAKE_METRICS", true);
        Ok(STARTED.get_or_init(|| {
            // The audit log has only its own filter.
            let is_audit = |metadata: &Metadata<'_>| metadata.target() == audit::TARGET;
            let others = filter_fn(move |metadata| !is_audit(metadata)).with_max_level_hint(LevelFilter::TRACE);
            let only = filter_fn(is_audit).with_max_level_hint(LevelFilter::INFO);
            let mut layers = vec![lines(filter.and(others), std::io::stdout).boxed()];
            if !audit::is_turned_off(&text) {
                layers.push(lines(only, std::io::stdout).boxed());
            }
            let traces = variables.text("AWS_XRAY_DAEMON_ADDRESS").and_then(|daemon| Traces::to(&daemon));
            let subscriber = tracing_subscriber::registry().with(layers).with(traces.as_ref().map(Traces::layer));
            let counts = Counts::default();
            // Both fail only if they are already set in the process.
            let _ = tracing::subscriber::set_global_default(subscriber);
            let _ = metrics::set_global_recorder(counts.clone());
            let function = std::env::var("AWS_LAMBDA_FUNCTION_NAME").unwrap_or_else(|_| "function".to_owned());
            Telemetry { counts, function: is_told.then_some(function), store: Arc::default(), traces }
        }))
    }

    /// Telemetry without output.
    pub fn silent() -> Self {
        Self { counts: Counts::default(), function: None, store: Arc::default(), traces: None }
    }

    /// Begins an invocation: sets its trace and returns the span of its log lines.
    pub fn begin(&self, context: &Context) -> Span {
        let trace_id = context.xray_trace_id.as_deref().unwrap_or_default();
        if let Some(traces) = &self.traces {
            traces.begin(trace_id);
        }
        tracing::info_span!("invocation", request_id = context.request_id, trace_id)
    }

    /// Reports the requests to this store from now on, as log fields, not as metrics, which are billed.
    pub fn watch(&self, store: &Store) {
        *self.store.lock() = Some((store.clone(), StoreCounters::default()));
    }

    /// Requests to the store since the last call; `None` if there were none.
    fn requests(&self) -> Option<Value> {
        let mut watched = self.store.lock();
        let (store, told) = watched.as_mut()?;
        let (all, before) = (store.counters(), *told);
        *told = all;
        let new = all.since(&before);
        (new.requests() > 0).then(|| {
            json!({
                "put": new.put, "get": new.get, "head": new.head, "list": new.list, "delete": new.delete,
                "put_bytes": new.put_bytes, "get_bytes": new.get_bytes,
            })
        })
    }

    /// Counts a response or run that failed without the caller's fault.
    pub fn failed(&self) {
        self.counts.0.lock().entry(FAILURES).or_default().fetch_add(1, Relaxed);
    }

    /// Writes the counts since the last call and these gauges.
    #[expect(clippy::print_stdout, reason = "the platform reads metrics from standard output")]
    pub fn tell(&self, request_id: &str, states: &[Gauged]) {
        let (counted, requests) = (self.counts.take(), self.requests());
        let Some(function) = &self.function else { return };
        if let Some(line) = embedded(function, request_id, now_ms(), &counted, states, requests) {
            println!("{line}");
            let _ = std::io::stdout().flush(); // a failure cannot be reported elsewhere
        }
    }
}

fn now_ms() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis()
}

/// A line of the embedded metric format; `None` if there is nothing to report.
fn embedded(
    function: &str,
    request_id: &str,
    now_ms: u128,
    counted: &[(&'static str, u64)],
    states: &[Gauged],
    requests: Option<Value>,
) -> Option<String> {
    let unit = |name| TOLD.iter().find(|(_, told, _)| *told == name).map_or("Count", |(.., unit)| unit);
    let counted = counted.iter().map(|(name, n)| (*name, json!(n), unit(*name)));
    let states = states.iter().map(|(name, value, unit)| (*name, json!(value), *unit));
    let (mut line, mut metrics) = (Map::new(), Vec::new());
    for (name, value, unit) in counted.chain(states) {
        metrics.push(json!({ "Name": name, "Unit": unit }));
        line.insert(name.to_owned(), value);
    }
    if metrics.is_empty() && requests.is_none() {
        return None;
    }
    if let Some(requests) = requests {
        line.insert("StoreRequests".to_owned(), requests);
    }
    line.insert("FunctionName".to_owned(), json!(function));
    line.insert("RequestId".to_owned(), json!(request_id));
    if !metrics.is_empty() {
        let directive = json!({ "Namespace": NAMESPACE, "Dimensions": [["FunctionName"]], "Metrics": metrics });
        let now_ms = u64::try_from(now_ms).unwrap_or(u64::MAX);
        line.insert("_aws".to_owned(), json!({ "Timestamp": now_ms, "CloudWatchMetrics": [directive] }));
    }
    Some(Value::Object(line).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Captures the lines of a test.
    #[derive(Debug, Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl std::io::Write for Written {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn no_filter_has_a_whole_event_of_the_platform_in_the_log() {
        for filter in ["trace", "lambda_runtime=trace", "off,lambda_runtime::layers::api_response=trace,tidelake=trace"]
        {
            let written = Written::default();
            let writer = written.clone();
            let lines = lines(EnvFilter::new(filter), move || writer.clone());
            tracing::subscriber::with_default(tracing_subscriber::registry().with(lines), || {
                // As lambda_runtime does it, with the headers of the request.
                let body = r#"{"headers":{"authorization":"Basic c2VjcmV0"}}"#;
                tracing::trace!(target: "lambda_runtime::layers::api_response", body, "raw JSON event received from Lambda");
                tracing::debug!(target: "hyper::proto::h1", body, "read");
                tracing::trace!(target: "tidelake", "of our own");
                tracing::info!(target: "lambda_runtime", "it starts");
            });
            let text = String::from_utf8(written.0.lock().clone()).unwrap();
            assert!(!text.contains("c2VjcmV0"), "{filter}: {text}");
            assert_eq!(text.contains("of our own"), filter != "lambda_runtime=trace", "{filter}: {text}");
            assert_eq!(text.contains("it starts"), !filter.starts_with("off"), "{filter}: {text}");
        }
    }

    #[test]
    fn counts_become_one_line_and_zeroes_none() {
        let counts = Counts::default();
        let register = |name: &'static str| {
            let metadata = metrics::Metadata::new(module_path!(), metrics::Level::INFO, None);
            counts.register_counter(&Key::from_static_name(name), &metadata)
        };
        let (rows, segments) = (register("tidelake_ingest_rows_total"), register("tidelake_ingest_segments_total"));
        let (other, again) = (register("tidelake_ingest_put_seconds"), register("tidelake_ingest_rows_total"));
        assert_eq!(counts.take(), []);
        rows.increment(2);
        again.increment(3);
        other.increment(9);
        let counted = counts.take();
        assert_eq!(counted, [("RowsWritten", 5)]);
        segments.increment(1);
        assert_eq!(counts.take(), [("Segments", 1)]);
        assert_eq!(embedded("f", "r", 7, &[], &[], None), None);

        let line = embedded("f", "r", 7, &counted, &[("LogLagSeconds", 1.5, "Seconds")], None).unwrap();
        let expected = json!({
            "_aws": {"Timestamp": 7, "CloudWatchMetrics": [{
                "Namespace": "Tidelake", "Dimensions": [["FunctionName"]],
                "Metrics": [{"Name": "RowsWritten", "Unit": "Count"}, {"Name": "LogLagSeconds", "Unit": "Seconds"}],
            }]},
            "FunctionName": "f", "RequestId": "r", "RowsWritten": 5, "LogLagSeconds": 1.5,
        });
        assert_eq!(serde_json::from_str::<Value>(&line).unwrap(), expected);
        assert!(!line.contains('\n'));
    }

    #[tokio::test]
    async fn requests_to_the_store_are_told_once_and_are_no_metrics() {
        let (telemetry, store) = (Telemetry::silent(), Store::in_memory());
        assert_eq!(telemetry.requests(), None);
        telemetry.watch(&store);
        assert_eq!(telemetry.requests(), None);
        store.create("log/x", "four".into()).await.unwrap();
        let requests = telemetry.requests().unwrap();
        assert_eq!((&requests["put"], &requests["get"], &requests["put_bytes"]), (&json!(1), &json!(0), &json!(4)));
        assert_eq!(telemetry.requests(), None);
        let line = embedded("f", "r", 7, &[], &[], Some(requests.clone())).unwrap();
        let expected = json!({"FunctionName": "f", "RequestId": "r", "StoreRequests": requests});
        assert_eq!(serde_json::from_str::<Value>(&line).unwrap(), expected);
    }
}
