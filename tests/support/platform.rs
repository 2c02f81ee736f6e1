//! The platform that runs functions: the Runtime API on a free port, one environment (a process) of a function at a time.
//!
//! <https://docs.aws.amazon.com/lambda/latest/dg/runtimes-api.html>

use std::{
    collections::HashMap,
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use axum::{
    Router,
    body::Bytes,
    extract::{Path, State},
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use tokio::{
    net::TcpListener,
    sync::{Mutex as AsyncMutex, mpsc, oneshot},
};

/// The program of a function: as `cargo xtask package` put it into the directory `TIDELAKE_FUNCTIONS`, else what
/// `cargo build --release` left.
///
/// # Panics
/// When there is none.
pub fn program(name: &str) -> PathBuf {
    let path = match std::env::var_os("TIDELAKE_FUNCTIONS") {
        Some(packages) => PathBuf::from(packages).join(name).join("bootstrap"),
        None => {
            let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("../target"), PathBuf::from);
            target.join("release").join(name)
        }
    };
    assert!(path.is_file(), "{} does not exist: cargo xtask package", path.display());
    path
}

/// How an invocation ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// With the bytes of a reply.
    Answered(Vec<u8>),
    /// With an error that the function reported.
    Failed(Value),
    /// The process ended.
    Ended,
    /// Not in its time: the platform killed the process.
    TimedOut,
}

/// A reply over HTTP, as a function URL hands it on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpReply {
    /// The status.
    pub status: u16,
    /// Headers by their names in lower case.
    pub headers: HashMap<String, String>,
    /// The body.
    pub body: Vec<u8>,
}

impl HttpReply {
    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON.
    ///
    /// # Panics
    /// When it is not JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|e| panic!("not JSON ({e}): {}", self.text()))
    }

    /// The read-your-write token.
    pub fn token(&self) -> Option<&str> {
        self.headers.get("x-tidelake-token").map(String::as_str)
    }
}

/// An event on its way to the process.
struct Pending {
    id: String,
    deadline_ms: u128,
    event: Vec<u8>,
}

struct Shared {
    /// What the process asks for next.
    next: AsyncMutex<mpsc::UnboundedReceiver<Pending>>,
    /// Who waits for which reply.
    waiting: Mutex<HashMap<String, oneshot::Sender<Outcome>>>,
    /// Whether the process has asked for its first event.
    ready: tokio::sync::watch::Sender<bool>,
}

impl Shared {
    fn answer(&self, id: &str, outcome: Outcome) -> StatusCode {
        match self.waiting.lock().expect("no panic while it is held").remove(id) {
            Some(waiting) => {
                let _ = waiting.send(outcome); // who waited may have given up
                StatusCode::ACCEPTED
            }
            None => StatusCode::BAD_REQUEST,
        }
    }
}

/// One environment of a function: a process that answers one event at a time. Killed when dropped.
pub struct Function {
    program: PathBuf,
    environment: Vec<(String, String)>,
    child: Child,
    shared: Arc<Shared>,
    events: mpsc::UnboundedSender<Pending>,
    api: tokio::task::JoinHandle<()>,
    /// How long an invocation may take.
    pub timeout: Duration,
}

static INVOCATIONS: AtomicU64 = AtomicU64::new(0);

impl Function {
    /// Starts an environment with so much memory and these variables, and waits until it asks for an event.
    ///
    /// # Panics
    /// When it does not within ten seconds.
    pub async fn start(name: &str, memory_mb: u32, environment: &[(&str, String)]) -> Self {
        let mut all: Vec<(String, String)> = environment.iter().map(|(k, v)| ((*k).to_owned(), v.clone())).collect();
        for (variable, value) in [
            ("AWS_LAMBDA_FUNCTION_NAME", name.to_owned()),
            ("AWS_LAMBDA_FUNCTION_VERSION", "$LATEST".to_owned()),
            ("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", memory_mb.to_string()),
            ("AWS_LAMBDA_LOG_GROUP_NAME", format!("/aws/lambda/{name}")),
            ("AWS_LAMBDA_LOG_STREAM_NAME", "one".to_owned()),
            ("AWS_EC2_METADATA_DISABLED", "true".to_owned()),
        ] {
            all.push((variable.to_owned(), value));
        }
        let program = program(name);
        let (events, child, shared, api) = begin(&program, &all).await;
        let function = Self { program, environment: all, child, shared, events, api, timeout: Duration::from_secs(30) };
        function.wait_until_ready().await;
        function
    }

    async fn wait_until_ready(&self) {
        let mut ready = self.shared.ready.subscribe();
        let is_ready = ready.wait_for(|ready| *ready);
        let waited = tokio::time::timeout(Duration::from_secs(10), is_ready).await;
        assert!(waited.is_ok_and(|r| r.is_ok()), "{} does not ask for an event", self.program.display());
    }

    /// The process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends an event and waits for its end, as long as the function's timeout; then the process is killed, and another one
    /// starts with the next event, as after its end.
    pub async fn invoke(&mut self, event: &Value) -> Outcome {
        if self.child.try_wait().expect("its status").is_some() {
            self.restart().await;
        }
        let number = INVOCATIONS.fetch_add(1, Ordering::Relaxed);
        let id = format!("8476a536-e9f4-11e8-9739-{number:012x}");
        let (sender, mut answer) = oneshot::channel();
        self.shared.waiting.lock().expect("no panic while it is held").insert(id.clone(), sender);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970");
        let deadline_ms = (now + self.timeout).as_millis();
        let event = serde_json::to_vec(event).expect("JSON");
        self.events.send(Pending { id: id.clone(), deadline_ms, event }).expect("the API runs");
        let until = Instant::now() + self.timeout;
        let outcome = loop {
            match tokio::time::timeout(Duration::from_millis(20), &mut answer).await {
                Ok(outcome) => break outcome.unwrap_or(Outcome::Ended),
                Err(_) if self.child.try_wait().expect("its status").is_some() => break Outcome::Ended,
                Err(_) if Instant::now() >= until => break Outcome::TimedOut,
                Err(_) => {}
            }
        };
        self.shared.waiting.lock().expect("no panic while it is held").remove(&id);
        if outcome == Outcome::TimedOut {
            self.kill();
        }
        outcome
    }

    /// Sends a request as a function URL does.
    ///
    /// # Panics
    /// When it is not answered.
    pub async fn http(&mut self, method: &str, target: &str, headers: &[(&str, &str)], body: &[u8]) -> HttpReply {
        match self.invoke(&http_event(method, target, headers, body)).await {
            Outcome::Answered(bytes) => http_reply(&bytes),
            outcome => panic!("{method} {target}: {outcome:?}"),
        }
    }

    /// Kills the process; the next event starts another one.
    pub fn kill(&mut self) {
        // Already ended is fine.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Lets the process stand still (`STOP`) or go on (`CONT`), as the platform does between events.
    ///
    /// # Panics
    /// When there is no `kill`.
    pub fn signal(&self, signal: &str) {
        let status = Command::new("kill").args([&format!("-{signal}"), &self.child.id().to_string()]).status();
        assert!(status.expect("kill runs").success());
    }

    /// A new process in place of the one before.
    pub async fn restart(&mut self) {
        self.kill();
        self.api.abort();
        (self.events, self.child, self.shared, self.api) = begin(&self.program, &self.environment).await;
        self.wait_until_ready().await;
    }
}

impl Drop for Function {
    fn drop(&mut self) {
        self.kill();
        self.api.abort();
    }
}

type Begun = (mpsc::UnboundedSender<Pending>, Child, Arc<Shared>, tokio::task::JoinHandle<()>);

/// Serves the Runtime API and starts a process that is told of it.
async fn begin(program: &PathBuf, environment: &[(String, String)]) -> Begun {
    let (events, next) = mpsc::unbounded_channel();
    let ready = tokio::sync::watch::Sender::new(false);
    let shared = Arc::new(Shared { next: AsyncMutex::new(next), waiting: Mutex::default(), ready });
    let routes = Router::new()
        .route("/2018-06-01/runtime/invocation/next", get(next_event))
        .route("/2018-06-01/runtime/invocation/{id}/response", post(response))
        .route("/2018-06-01/runtime/invocation/{id}/error", post(error))
        .with_state(shared.clone());
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("its address");
    let api = tokio::spawn(async move {
        use axum::serve::ListenerExt as _;
        let listener = listener.tap_io(|stream| drop(stream.set_nodelay(true)));
        axum::serve(listener, routes).await.expect("the API serves");
    });
    let child = Command::new(program)
        .env_clear()
        .envs(environment.iter().map(|(k, v)| (k, v)))
        .env("AWS_LAMBDA_RUNTIME_API", address.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::inherit())
        .stderr(Stdio::inherit())
        .spawn()
        .expect("the function starts");
    (events, child, shared, api)
}

async fn next_event(State(shared): State<Arc<Shared>>) -> Response {
    shared.ready.send_replace(true);
    let Some(pending) = shared.next.lock().await.recv().await else { return StatusCode::GONE.into_response() };
    let headers = [
        ("lambda-runtime-aws-request-id", pending.id),
        ("lambda-runtime-deadline-ms", pending.deadline_ms.to_string()),
        ("lambda-runtime-invoked-function-arn", "arn:aws:lambda:us-east-1:000000000000:function:f".to_owned()),
        ("lambda-runtime-trace-id", "Root=1-5bef4de7-ad49b0e87f6ef6c87fc2e700;Sampled=0".to_owned()),
        ("content-type", "application/json".to_owned()),
    ];
    (headers, pending.event).into_response()
}

async fn response(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> StatusCode {
    let is_streamed = headers.contains_key("lambda-runtime-function-response-mode");
    let body = if is_streamed { whole(&body) } else { body.to_vec() };
    shared.answer(&id, Outcome::Answered(body))
}

async fn error(State(shared): State<Arc<Shared>>, Path(id): Path<String>, body: Bytes) -> StatusCode {
    let reported = serde_json::from_slice(&body).unwrap_or(Value::Null);
    shared.answer(&id, Outcome::Failed(reported))
}

/// A streamed reply as one that is not: a prelude of JSON, eight zeroes, the body.
fn whole(streamed: &[u8]) -> Vec<u8> {
    let end = streamed.windows(8).position(|window| window == [0; 8]).expect("a prelude");
    let mut reply: Value = serde_json::from_slice(&streamed[..end]).expect("a prelude of JSON");
    reply["body"] = json!(STANDARD.encode(&streamed[end + 8..]));
    reply["isBase64Encoded"] = json!(true);
    reply.to_string().into_bytes()
}

/// The event of a function URL; the body in base64, as the platform does with what it does not know to be text.
pub fn http_event(method: &str, target: &str, headers: &[(&str, &str)], body: &[u8]) -> Value {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let mut all = serde_json::Map::from_iter([("host".to_owned(), json!("x.lambda-url.us-east-1.on.aws"))]);
    all.insert("content-length".to_owned(), json!(body.len().to_string()));
    all.extend(headers.iter().map(|(name, value)| (name.to_lowercase(), json!(value))));
    json!({
        "version": "2.0", "routeKey": "$default", "rawPath": path, "rawQueryString": query, "headers": all,
        "requestContext": {
            "accountId": "anonymous", "apiId": "x", "domainName": "x.lambda-url.us-east-1.on.aws", "domainPrefix": "x",
            "http": {"method": method, "path": path, "protocol": "HTTP/1.1", "sourceIp": "203.0.113.1", "userAgent": "test"},
            "requestId": "r", "routeKey": "$default", "stage": "$default",
            "time": "12/Mar/2026:19:03:58 +0000", "timeEpoch": 1_583_348_638_390_u64
        },
        "body": STANDARD.encode(body), "isBase64Encoded": true
    })
}

/// What a function URL makes of a function's reply.
///
/// # Panics
/// When it is none.
pub fn http_reply(bytes: &[u8]) -> HttpReply {
    let reply: Value = serde_json::from_slice(bytes).expect("JSON");
    let body = reply["body"].as_str().unwrap_or_default();
    let body = match reply["isBase64Encoded"] == true {
        true => STANDARD.decode(body).expect("base64"),
        false => body.as_bytes().to_vec(),
    };
    let headers = reply["headers"].as_object().cloned().unwrap_or_default();
    let headers = headers.into_iter().map(|(name, value)| (name, value.as_str().unwrap_or_default().to_owned()));
    let status = reply["statusCode"].as_u64().and_then(|status| status.try_into().ok()).expect("a status");
    HttpReply { status, headers: headers.collect(), body }
}
