//! Steps of an invocation as subsegments of the platform's trace (AWS X-Ray).
//!
//! The platform creates a trace for each invocation and runs a daemon next to the function that accepts subsegments in
//! datagrams, so neither a library nor waiting is needed. Each [step](tidelake_format::steps) is sent when it ends.
//!
//! <https://docs.aws.amazon.com/xray/latest/devguide/xray-api-segmentdocuments.html>,
//! <https://docs.aws.amazon.com/xray/latest/devguide/xray-api-sendingdata.html>

use std::{
    net::{ToSocketAddrs, UdpSocket},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    time::{Instant, SystemTime, UNIX_EPOCH},
};

use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use tidelake_format::{steps::TARGET, store::System};
use tracing::{
    Metadata, Subscriber,
    field::{Field, Visit},
    level_filters::LevelFilter,
    span::{Attributes, Id, Record},
};
use tracing_subscriber::{
    Layer,
    filter::filter_fn,
    layer::Context,
    registry::{LookupSpan, SpanRef},
};

/// Header line before each document.
const HEADER: &str = "{\"format\": \"json\", \"version\": 1}\n";
/// Maximum number of steps sent per invocation; a query of many files has more requests than are useful.
const MOST_STEPS: u32 = 200;
/// Maximum length of a field in characters.
const MOST_TEXT: usize = 500;

/// The trace of a sampled invocation.
#[derive(Debug)]
struct Trace {
    /// Trace ID in X-Ray's form: `1-`, start time, 24 hexadecimal digits.
    id: String,
    /// ID of the platform's segment of the invocation.
    parent: String,
    /// Number of steps that may still be sent.
    left: AtomicU32,
}

impl Trace {
    /// Parses `Root=1-…;Parent=…;Sampled=1`; `None` if the invocation is not sampled.
    fn of(header: &str) -> Option<Self> {
        let value = |name: &str| {
            header.split(';').find_map(|part| part.trim().strip_prefix(name)?.strip_prefix('=')).map(str::to_owned)
        };
        if value("Sampled")? != "1" {
            return None;
        }
        Some(Self { id: value("Root")?, parent: value("Parent")?, left: AtomicU32::new(MOST_STEPS) })
    }
}

/// A running step.
struct Step {
    trace: Arc<Trace>,
    id: String,
    parent: String,
    began: SystemTime,
    clock: Instant,
    fields: Fields,
}

/// A step's fields as JSON values.
#[derive(Default)]
struct Fields(Map<String, Value>);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.record_str(field, &format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        let value = value.chars().take(MOST_TEXT).collect::<String>();
        self.0.insert(field.name().to_owned(), Value::String(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.0.insert(field.name().to_owned(), value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.0.insert(field.name().to_owned(), value.into());
    }
}

/// The daemon's socket and the current trace. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Traces(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    socket: UdpSocket,
    current: Mutex<Option<Arc<Trace>>>,
}

impl Traces {
    /// Sends to the daemon at an address in the form of `AWS_XRAY_DAEMON_ADDRESS`: `host:port`, `udp:host:port`, or a
    /// UDP and a TCP address; `None` for an invalid address.
    pub fn to(daemon: &str) -> Option<Self> {
        let address = daemon.split_whitespace().find(|part| !part.starts_with("tcp:"))?;
        let address = address.strip_prefix("udp:").unwrap_or(address).to_socket_addrs().ok()?.next()?;
        let socket = UdpSocket::bind(if address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" }).ok()?;
        socket.connect(address).ok()?;
        socket.set_nonblocking(true).ok()?;
        Some(Self(Arc::new(Inner { socket, current: Mutex::default() })))
    }

    /// Assigns subsequent steps to the invocation with this trace header.
    pub fn begin(&self, header: &str) {
        *self.0.current.lock() = Trace::of(header).map(Arc::new);
    }

    /// The tracing layer that receives steps only.
    pub fn layer<S: Subscriber + for<'s> LookupSpan<'s>>(&self) -> impl Layer<S> {
        let is_step = |metadata: &Metadata<'_>| metadata.is_span() && metadata.target() == TARGET;
        Steps(self.clone()).with_filter(filter_fn(is_step).with_max_level_hint(LevelFilter::TRACE))
    }

    /// Sends an ended step; it is lost if the daemon is absent or overloaded.
    fn send(&self, name: &str, step: Step) {
        let taken = step.trace.left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1));
        if taken.is_ok() {
            let _ = self.0.socket.send(format!("{HEADER}{}", subsegment(name, step)).as_bytes());
        }
    }
}

fn seconds(time: SystemTime) -> f64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

/// A step as a subsegment document.
fn subsegment(name: &str, step: Step) -> Value {
    let Step { trace, id, parent, began, clock, fields: Fields(mut fields) } = step;
    let mut document = json!({
        "type": "subsegment",
        "trace_id": trace.id,
        "id": id,
        "parent_id": parent,
        "name": name,
        "start_time": seconds(began),
        "end_time": seconds(began + clock.elapsed()),
    });
    if let Some(error) = fields.remove("error") {
        document["fault"] = json!(true);
        let exception = json!({ "id": random_id(), "message": error, "type": name });
        document["cause"] = json!({ "exceptions": [exception] });
    }
    // Requests to the store use the platform's names of S3 requests.
    if let ("store", Some(Value::String(operation))) = (name, fields.get("operation")) {
        let operation = match operation.as_str() {
            "get" => "GetObject",
            "head" => "HeadObject",
            "list" => "ListObjectsV2",
            "put" => "PutObject",
            "delete" => "DeleteObject",
            other => other,
        };
        document["aws"] = json!({ "operation": operation });
        document["namespace"] = json!("aws");
        document["name"] = json!("S3");
        fields.remove("operation");
    }
    document["annotations"] = Value::Object(fields);
    document
}

fn random_id() -> String {
    format!("{:016x}", System::shared().random())
}

/// The layer that records steps.
struct Steps(Traces);

impl<S: Subscriber + for<'s> LookupSpan<'s>> Layer<S> for Steps {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let (Some(trace), Some(span)) = (self.0.0.current.lock().clone(), context.span(id)) else { return };
        let within = |outer: SpanRef<'_, S>| {
            let extensions = outer.extensions();
            extensions.get::<Step>().filter(|step| Arc::ptr_eq(&step.trace, &trace)).map(|step| step.id.clone())
        };
        let parent = span.scope().skip(1).find_map(within).unwrap_or_else(|| trace.parent.clone());
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        let (began, clock) = (SystemTime::now(), Instant::now());
        span.extensions_mut().insert(Step { trace, id: random_id(), parent, began, clock, fields });
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        if let Some(span) = context.span(id)
            && let Some(step) = span.extensions_mut().get_mut::<Step>()
        {
            values.record(&mut step.fields);
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        if let Some(span) = context.span(&id)
            && let Some(step) = span.extensions_mut().remove::<Step>()
        {
            self.0.send(span.name(), step);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{thread::JoinHandle, time::Duration};

    use tidelake_format::{Error, step, steps::stepped};
    use tracing_subscriber::prelude::*;

    use super::*;

    const TRACE: &str = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1;Lineage=a:0";

    /// Reads on a separate thread, because a burst may exceed the socket's buffer.
    struct Daemon(JoinHandle<Vec<Value>>);

    impl Daemon {
        fn start() -> (Self, Traces) {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            socket.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
            let traces = Traces::to(&format!("tcp:127.0.0.1:1 udp:{}", socket.local_addr().unwrap())).unwrap();
            let read = std::thread::spawn(move || {
                let (mut documents, mut buffer) = (Vec::new(), vec![0; 65_536]);
                while let Ok(n) = socket.recv(&mut buffer) {
                    let text = std::str::from_utf8(&buffer[..n]).unwrap();
                    documents.push(serde_json::from_str(text.strip_prefix(HEADER).unwrap()).unwrap());
                }
                documents
            });
            (Self(read), traces)
        }

        /// All documents received until the socket is idle, in order of their ends.
        fn documents(self) -> Vec<Value> {
            self.0.join().unwrap()
        }
    }

    #[tokio::test]
    async fn steps_become_subsegments_of_the_invocation_and_of_each_other() {
        let (daemon, traces) = Daemon::start();
        let _default = tracing::subscriber::set_default(tracing_subscriber::registry().with(traces.layer()));
        let before = seconds(SystemTime::now());
        traces.begin(TRACE);
        let inner = async {
            let asked = stepped(step!("store", operation = "get", key = "log/x", bytes = 7), async {
                tokio::time::sleep(Duration::from_millis(5)).await;
                Ok(())
            });
            asked.await?;
            tracing::info!("no step"); // and so is the next one
            let _other = tracing::info_span!("other").entered();
            Err::<(), _>(Error::unavailable("nobody answers"))
        };
        stepped(step!("fold"), inner).await.unwrap_err();
        stepped(step!("plan"), async { Err::<(), _>(Error::not_found("no such table")) }).await.unwrap_err();
        let after = seconds(SystemTime::now());

        let documents = daemon.documents();
        let [store, fold, plan] = documents.as_slice() else { panic!("{documents:?}") };
        for document in &documents {
            assert_eq!(document["trace_id"], "1-5759e988-bd862e3fe1be46a994272793");
            assert_eq!(document["type"], "subsegment");
            assert_eq!(document["id"].as_str().unwrap().len(), 16);
            let (start, end) = (document["start_time"].as_f64().unwrap(), document["end_time"].as_f64().unwrap());
            assert!(before <= start && start <= end && end <= after, "{before} {start} {end} {after}");
        }
        assert_eq!((&store["name"], &store["namespace"]), (&json!("S3"), &json!("aws")));
        assert_eq!(store["aws"], json!({"operation": "GetObject"}));
        assert_eq!(store["annotations"], json!({"key": "log/x", "bytes": 7}));
        assert_eq!(store["parent_id"], fold["id"]);
        assert!(store["end_time"].as_f64().unwrap() - store["start_time"].as_f64().unwrap() >= 0.005);
        assert_eq!((&fold["name"], &fold["parent_id"]), (&json!("fold"), &json!("53995c3f42cd8ad8")));
        assert_eq!(fold["fault"], true);
        assert!(fold["cause"]["exceptions"][0]["message"].as_str().unwrap().contains("nobody answers"), "{fold}");
        assert_eq!((&plan["name"], &plan["fault"]), (&json!("plan"), &Value::Null), "what is not there is an answer");
        assert!(store["id"] != fold["id"] && fold["id"] != plan["id"]);
    }

    #[test]
    fn what_is_not_recorded_or_too_much_is_not_sent() {
        let (daemon, traces) = Daemon::start();
        let _default = tracing::subscriber::set_default(tracing_subscriber::registry().with(traces.layer()));
        drop(step!("before any"));
        for unrecorded in ["", "nonsense", &TRACE.replace("Sampled=1", "Sampled=0"), &TRACE.replace("Parent=", "P=")] {
            traces.begin(unrecorded);
            drop(step!("unrecorded"));
        }
        traces.begin(TRACE);
        let late = step!("late");
        for n in 0..2 * MOST_STEPS {
            drop(step!("fold"));
            if n % 50 == 0 {
                std::thread::sleep(Duration::from_millis(50));
            }
        }
        traces.begin(&TRACE.replace("53995c3f42cd8ad8", "0000000000000001"));
        late.in_scope(|| drop(step!("of the next")));
        drop(late);
        let documents = daemon.documents();
        assert_eq!(documents.iter().filter(|d| d["name"] == "fold").count(), MOST_STEPS as usize);
        let last = documents.last().unwrap();
        assert_eq!((&last["name"], &last["parent_id"]), (&json!("of the next"), &json!("0000000000000001")));
        assert_eq!(documents.len(), MOST_STEPS as usize + 1);
    }

    #[test]
    fn an_address_is_read_as_the_platform_writes_it() {
        for address in ["127.0.0.1:2000", "udp:127.0.0.1:2000", "tcp:127.0.0.1:2000 udp:127.0.0.1:2001"] {
            assert!(Traces::to(address).is_some(), "{address}");
        }
        for address in ["", "127.0.0.1", "tcp:127.0.0.1:2000", "udp:"] {
            assert!(Traces::to(address).is_none(), "{address}");
        }
    }
}
