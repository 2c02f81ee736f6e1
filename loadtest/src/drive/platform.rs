//! Local simulation of AWS Lambda: serves the Runtime API on a free port to one environment (a process) of a function.
//!
//! <https://docs.aws.amazon.com/lambda/latest/dg/runtimes-api.html>

mod url;
mod used;

use std::{
    collections::HashMap,
    path::{Path as FsPath, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context as _, Result, bail, ensure};
use axum::{
    Router,
    body::Bytes,
    extract::{DefaultBodyLimit, Path, State},
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::{
    net::TcpListener,
    sync::{Mutex as AsyncMutex, mpsc, oneshot, watch},
};

pub use url::FunctionUrl;
use used::Output;
pub use used::{StoreRequests, Used};

/// Maximum time until a process requests its first event, as on AWS.
const INIT_LIMIT: Duration = Duration::from_secs(10);
/// Trace ID of every invocation.
const TRACE: &str = "Root=1-5bef4de7-ad49b0e87f6ef6c87fc2e700;Parent=53995c3f42cd8ad8";
/// Maximum size of a streamed reply.
const MOST_BYTES: usize = 200 << 20;

/// How an invocation ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The function replied with these bytes.
    Answered(Vec<u8>),
    /// The function reported this error.
    Failed(Value),
    /// The process exited.
    Ended,
    /// The invocation timed out and the process was killed.
    TimedOut,
}

/// An HTTP reply of a function URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpReply {
    /// The status.
    pub status: u16,
    /// Headers by lower-case name.
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
    /// # Errors
    /// The body is not JSON.
    pub fn json(&self) -> Result<Value> {
        serde_json::from_slice(&self.body).with_context(|| format!("expected JSON, found {}", self.text()))
    }

    /// The read-your-write token.
    pub fn token(&self) -> Option<&str> {
        self.headers.get("x-tidelake-token").map(String::as_str)
    }
}

/// An event queued for the process.
struct Pending {
    id: String,
    deadline_ms: u128,
    event: Vec<u8>,
}

struct Shared {
    /// Events to be fetched by the process.
    next: AsyncMutex<mpsc::UnboundedReceiver<Pending>>,
    /// Callers waiting for a reply, by request ID.
    waiting: Mutex<HashMap<String, oneshot::Sender<Outcome>>>,
    /// Whether the process has requested its first event.
    ready: watch::Sender<bool>,
    /// Whether traces are sampled: `AWS_XRAY_DAEMON_ADDRESS` is set for the process.
    is_traced: bool,
}

impl Shared {
    fn answer(&self, id: &str, outcome: Outcome) -> StatusCode {
        match self.waiting.lock().remove(id) {
            Some(waiting) => {
                let _ = waiting.send(outcome); // the caller may have given up
                StatusCode::ACCEPTED
            }
            None => StatusCode::BAD_REQUEST,
        }
    }
}

/// One environment of a function: a process that handles one event at a time. Killed when dropped.
pub struct Function {
    program: PathBuf,
    environment: Vec<(String, String)>,
    child: Child,
    shared: Arc<Shared>,
    events: mpsc::UnboundedSender<Pending>,
    api: tokio::task::JoinHandle<()>,
    output: Output,
    used: Used,
    /// Timeout of an invocation. Default 30 s.
    pub timeout: Duration,
}

static INVOCATIONS: AtomicU64 = AtomicU64::new(0);

impl Function {
    /// Starts a program as a function with this memory size and environment, and waits until it requests an event.
    ///
    /// # Errors
    /// The program cannot be started, exits, or requests no event within ten seconds.
    pub async fn start(program: &FsPath, memory_mb: u32, environment: &[(&str, String)]) -> Result<Self> {
        let all = variables(program, memory_mb, environment);
        let mut function = Self::begin(program.to_owned(), memory_mb, all).await?;
        function.wait_until_ready().await?;
        Ok(function)
    }

    async fn begin(program: PathBuf, memory_mb: u32, environment: Vec<(String, String)>) -> Result<Self> {
        let (events, mut child, shared, api) = begin(&program, &environment).await?;
        let (output, used) = (Output::of(&mut child), Used { memory_mb, ..Used::default() });
        let timeout = Duration::from_secs(30);
        Ok(Self { program, environment, child, shared, events, api, output, used, timeout })
    }

    /// Starts a process with one queued event and returns the time from the start to the answer, and the answer. The process is
    /// then killed.
    ///
    /// # Errors
    /// As for [`Function::start`]; an event that is not answered.
    pub async fn first_answer(
        program: &FsPath,
        memory_mb: u32,
        environment: &[(&str, String)],
        event: &Value,
    ) -> Result<(Duration, Vec<u8>)> {
        let all = variables(program, memory_mb, environment);
        let begun = Instant::now();
        let mut function = Self::begin(program.to_owned(), memory_mb, all).await?;
        match function.invoke(event).await? {
            Outcome::Answered(bytes) => Ok((begun.elapsed(), bytes)),
            outcome => bail!("{}: {outcome:?}", program.display()),
        }
    }

    async fn wait_until_ready(&mut self) -> Result<()> {
        let mut ready = self.shared.ready.subscribe();
        let until = Instant::now() + INIT_LIMIT;
        while tokio::time::timeout(Duration::from_millis(1), ready.wait_for(|ready| *ready)).await.is_err() {
            if let Some(status) = self.child.try_wait().context("read function status")? {
                bail!("{} exited before it requested an event: {status}", self.program.display());
            }
            ensure!(Instant::now() < until, "{} does not request an event", self.program.display());
        }
        Ok(())
    }

    /// Process ID.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends an event and waits for its outcome. On timeout the process is killed. If the process has exited, a new one is
    /// started first.
    ///
    /// # Errors
    /// A process that cannot be started.
    pub async fn invoke(&mut self, event: &Value) -> Result<Outcome> {
        if self.child.try_wait().context("read function status")?.is_some() {
            self.restart().await?;
        }
        let number = INVOCATIONS.fetch_add(1, Ordering::Relaxed);
        let id = format!("8476a536-e9f4-11e8-9739-{number:012x}");
        let (sender, mut answer) = oneshot::channel();
        self.shared.waiting.lock().insert(id.clone(), sender);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).context("a clock after 1970")?;
        let deadline_ms = (now + self.timeout).as_millis();
        let event = serde_json::to_vec(event).context("an event")?;
        self.events.send(Pending { id: id.clone(), deadline_ms, event }).ok().context("the Runtime API has ended")?;
        let begun = Instant::now();
        let until = begun + self.timeout;
        let outcome = loop {
            match tokio::time::timeout(Duration::from_millis(20), &mut answer).await {
                Ok(outcome) => break outcome.unwrap_or(Outcome::Ended),
                Err(_) if self.child.try_wait().context("read function status")?.is_some() => break Outcome::Ended,
                Err(_) if Instant::now() >= until => break Outcome::TimedOut,
                Err(_) => {}
            }
        };
        self.shared.waiting.lock().remove(&id);
        self.used.invocations += 1;
        self.used.seconds += begun.elapsed().as_secs_f64();
        if let Ok(memory) = crate::measure::memory(self.child.id()) {
            self.used.peak_memory = self.used.peak_memory.max(memory.peak);
        }
        if outcome == Outcome::TimedOut {
            self.kill();
        }
        Ok(outcome)
    }

    /// Sends a request as a function URL does.
    ///
    /// # Errors
    /// The event is not answered.
    pub async fn http(
        &mut self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Result<HttpReply> {
        match self.invoke(&http_event(method, target, headers, body)).await? {
            Outcome::Answered(bytes) => http_reply(&bytes),
            outcome => bail!("{method} {target}: {outcome:?}"),
        }
    }

    /// Kills the process and returns the resources used by all its invocations.
    pub fn finish(mut self) -> Used {
        self.kill();
        let mut used = std::mem::take(&mut self.used);
        used.told(std::mem::take(&mut self.output));
        used
    }

    /// Kills the process; the next event starts a new one.
    pub fn kill(&mut self) {
        // The process may have exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Replaces the process by a new one.
    ///
    /// # Errors
    /// As for [`Function::start`].
    pub async fn restart(&mut self) -> Result<()> {
        self.kill();
        self.api.abort();
        (self.events, self.child, self.shared, self.api) = begin(&self.program, &self.environment).await?;
        let before = std::mem::replace(&mut self.output, Output::of(&mut self.child));
        self.used.told(before);
        self.wait_until_ready().await
    }
}

/// Returns the environment variables of a function.
fn variables(program: &FsPath, memory_mb: u32, environment: &[(&str, String)]) -> Vec<(String, String)> {
    // A package is a directory with a file `bootstrap`.
    let named = if program.ends_with("bootstrap") { program.parent() } else { Some(program) };
    let name = named.and_then(FsPath::file_name).unwrap_or_default().to_string_lossy();
    let mut all: Vec<(String, String)> = environment.iter().map(|(k, v)| ((*k).to_owned(), v.clone())).collect();
    for (variable, value) in [
        ("AWS_LAMBDA_FUNCTION_NAME", name.clone().into_owned()),
        ("AWS_LAMBDA_FUNCTION_VERSION", "$LATEST".to_owned()),
        ("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", memory_mb.to_string()),
        ("AWS_LAMBDA_LOG_GROUP_NAME", format!("/aws/lambda/{name}")),
        ("AWS_LAMBDA_LOG_STREAM_NAME", "one".to_owned()),
        ("AWS_EC2_METADATA_DISABLED", "true".to_owned()),
    ] {
        all.push((variable.to_owned(), value));
    }
    all
}

/// Sends a signal to a process: `KILL`, or `STOP` and `CONT` to freeze and resume it, as AWS does between events.
///
/// # Errors
/// Another signal, or a process that has exited.
pub fn signal(process: u32, name: &str) -> Result<()> {
    let signal = match name {
        "KILL" => Signal::KILL,
        "STOP" => Signal::STOP,
        "CONT" => Signal::CONT,
        _ => bail!("expected KILL, STOP or CONT, found {name:?}"),
    };
    let process = i32::try_from(process).ok().and_then(Pid::from_raw).context("a process")?;
    kill_process(process, signal).with_context(|| format!("send {name} to a process"))
}

impl Drop for Function {
    fn drop(&mut self) {
        self.kill();
        self.api.abort();
    }
}

type Begun = (mpsc::UnboundedSender<Pending>, Child, Arc<Shared>, tokio::task::JoinHandle<()>);

/// Serves the Runtime API and starts a process with its address in the environment.
async fn begin(program: &FsPath, environment: &[(String, String)]) -> Result<Begun> {
    let (events, next) = mpsc::unbounded_channel();
    let ready = watch::Sender::new(false);
    let is_traced = environment.iter().any(|(name, _)| name == "AWS_XRAY_DAEMON_ADDRESS");
    let shared = Arc::new(Shared { next: AsyncMutex::new(next), waiting: Mutex::default(), ready, is_traced });
    let routes = Router::new()
        .route("/2018-06-01/runtime/invocation/next", get(next_event))
        .route("/2018-06-01/runtime/invocation/{id}/response", post(response))
        .route("/2018-06-01/runtime/invocation/{id}/error", post(error))
        .layer(DefaultBodyLimit::max(MOST_BYTES))
        .with_state(shared.clone());
    let listener = TcpListener::bind("127.0.0.1:0").await.context("a free port")?;
    let address = listener.local_addr().context("a free port")?;
    let api = tokio::spawn(async move {
        use axum::serve::ListenerExt as _;
        let listener = listener.tap_io(|stream| drop(stream.set_nodelay(true)));
        // Aborted when the function is dropped.
        let _ = axum::serve(listener, routes).await;
    });
    let child = Command::new(program)
        .env_clear()
        .envs(environment.iter().map(|(k, v)| (k, v)))
        .env("AWS_LAMBDA_RUNTIME_API", address.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .with_context(|| format!("start {}", program.display()))?;
    Ok((events, child, shared, api))
}

async fn next_event(State(shared): State<Arc<Shared>>) -> Response {
    shared.ready.send_replace(true);
    let Some(pending) = shared.next.lock().await.recv().await else { return StatusCode::GONE.into_response() };
    let headers = [
        ("lambda-runtime-aws-request-id", pending.id),
        ("lambda-runtime-deadline-ms", pending.deadline_ms.to_string()),
        ("lambda-runtime-invoked-function-arn", "arn:aws:lambda:us-east-1:000000000000:function:f".to_owned()),
        ("lambda-runtime-trace-id", format!("{TRACE};Sampled={}", u8::from(shared.is_traced))),
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
    let body = if is_streamed { whole(&body) } else { Some(body.to_vec()) };
    match body {
        Some(body) => shared.answer(&id, Outcome::Answered(body)),
        None => StatusCode::BAD_REQUEST,
    }
}

async fn error(State(shared): State<Arc<Shared>>, Path(id): Path<String>, body: Bytes) -> StatusCode {
    let reported = serde_json::from_slice(&body).unwrap_or(Value::Null);
    shared.answer(&id, Outcome::Failed(reported))
}

/// Converts a streamed reply (JSON prelude, eight zero bytes, body) to a buffered one.
fn whole(streamed: &[u8]) -> Option<Vec<u8>> {
    let end = streamed.windows(8).position(|window| window == [0; 8])?;
    let mut reply: Value = serde_json::from_slice(&streamed[..end]).ok()?;
    reply["body"] = json!(STANDARD.encode(&streamed[end + 8..]));
    reply["isBase64Encoded"] = json!(true);
    Some(reply.to_string().into_bytes())
}

/// Returns the event of a function URL request; the body is in base64, as AWS encodes bodies not known to be text.
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

/// Converts a function's reply to the HTTP reply of its function URL.
///
/// # Errors
/// The reply does not have the form of an HTTP reply.
pub fn http_reply(bytes: &[u8]) -> Result<HttpReply> {
    let shown =
        || format!("expected a reply over HTTP, found {}", String::from_utf8_lossy(&bytes[..bytes.len().min(300)]));
    let reply: Value = serde_json::from_slice(bytes).with_context(shown)?;
    let body = reply["body"].as_str().unwrap_or_default();
    let body = match reply["isBase64Encoded"] == true {
        true => STANDARD.decode(body).with_context(shown)?,
        false => body.as_bytes().to_vec(),
    };
    let headers = reply["headers"].as_object().cloned().unwrap_or_default();
    let headers = headers.into_iter().map(|(name, value)| (name, value.as_str().unwrap_or_default().to_owned()));
    let status = reply["statusCode"].as_u64().and_then(|status| status.try_into().ok()).with_context(shown)?;
    Ok(HttpReply { status, headers: headers.collect(), body })
}
