//! A function URL: forwards each HTTP request as an event to a free environment, and returns the reply.

use std::{path::PathBuf, sync::Arc, time::Duration};

use anyhow::{Context as _, Result};
use axum::{
    Router,
    body::{Body, Bytes},
    extract::{DefaultBodyLimit, State},
    http::{HeaderMap, Method, StatusCode, Uri},
    response::{IntoResponse, Response},
};
use parking_lot::Mutex;
use tokio::{net::TcpListener, sync::Semaphore};

use super::{Function, Outcome, Used, http_event, http_reply};

/// Maximum request size, as on AWS.
const MOST_BYTES: usize = 6 << 20;

/// URL of a function with a maximum number of environments, started on demand and stopped with the URL.
#[derive(Debug)]
pub struct FunctionUrl {
    /// The URL: `http://127.0.0.1:port`.
    pub url: String,
    shared: Arc<Shared>,
    task: tokio::task::JoinHandle<()>,
}

struct Shared {
    program: PathBuf,
    memory_mb: u32,
    environment: Vec<(String, String)>,
    timeout: Duration,
    /// Idle environments.
    free: Mutex<Vec<Function>>,
    places: Semaphore,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("program", &self.program).finish_non_exhaustive()
    }
}

impl FunctionUrl {
    /// Listens on a free port of 127.0.0.1.
    ///
    /// # Errors
    /// No free port.
    pub async fn serve(
        program: PathBuf,
        environments: usize,
        memory_mb: u32,
        timeout: Duration,
        environment: Vec<(String, String)>,
    ) -> Result<Self> {
        let (free, places) = (Mutex::default(), Semaphore::new(environments));
        let shared = Arc::new(Shared { program, memory_mb, environment, timeout, free, places });
        let routes =
            Router::new().fallback(answer).layer(DefaultBodyLimit::max(MOST_BYTES)).with_state(Arc::clone(&shared));
        let listener = TcpListener::bind("127.0.0.1:0").await.context("a free port")?;
        let url = format!("http://{}", listener.local_addr().context("a free port")?);
        let task = tokio::spawn(async move {
            use axum::serve::ListenerExt as _;
            let listener = listener.tap_io(|stream| drop(stream.set_nodelay(true)));
            // Aborted when the URL is dropped.
            let _ = axum::serve(listener, routes).await;
        });
        Ok(Self { url, shared, task })
    }

    /// Stops all environments and returns their total resource usage.
    pub fn finish(self) -> Used {
        let mut used = Used::default();
        for function in self.shared.free.lock().drain(..) {
            used.add(function.finish());
        }
        used
    }
}

impl Drop for FunctionUrl {
    fn drop(&mut self) {
        self.task.abort();
        self.shared.free.lock().clear();
    }
}

async fn answer(
    State(shared): State<Arc<Shared>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    // Throttle requests beyond the maximum number of environments, as AWS does.
    let Ok(_place) = shared.places.try_acquire() else { return StatusCode::TOO_MANY_REQUESTS.into_response() };
    let free = shared.free.lock().pop();
    let function = match free {
        Some(function) => Ok(function),
        None => {
            let environment: Vec<_> = shared.environment.iter().map(|(k, v)| (k.as_str(), v.clone())).collect();
            Function::start(&shared.program, shared.memory_mb, &environment).await
        }
    };
    let mut function = match function {
        Ok(function) => function,
        Err(error) => return (StatusCode::BAD_GATEWAY, format!("{error:#}")).into_response(),
    };
    function.timeout = shared.timeout;
    let target = uri.path_and_query().map_or("/", |target| target.as_str());
    let headers: Vec<_> =
        headers.iter().filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?))).collect();
    let outcome = function.invoke(&http_event(method.as_str(), target, &headers, &body)).await;
    shared.free.lock().push(function);
    let reply = match outcome {
        Ok(Outcome::Answered(bytes)) => http_reply(&bytes),
        Ok(outcome) => Err(anyhow::anyhow!("{outcome:?}")),
        Err(error) => Err(error),
    };
    match reply {
        Ok(reply) => {
            let mut response = Response::builder().status(reply.status);
            for (name, value) in &reply.headers {
                // The body is complete here, so its framing headers no longer apply.
                if !["content-length", "transfer-encoding"].contains(&name.as_str()) {
                    response = response.header(name, value);
                }
            }
            response.body(Body::from(reply.body)).unwrap_or_else(|_| StatusCode::BAD_GATEWAY.into_response())
        }
        Err(error) => (StatusCode::BAD_GATEWAY, format!("{error:#}")).into_response(),
    }
}
