//! One listener for HTTP/1.1, HTTP/2 and gRPC, with a graceful end.

use std::{io, time::Duration};

use axum::{Router, body::Body, extract::Request, middleware};
use futures::{StreamExt, stream};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto,
    service::TowerToHyperService,
};
use tidelake_query::engine::Engine;
use tokio::{
    net::TcpListener,
    sync::{Semaphore, watch},
    task::JoinSet,
    time::{Instant, timeout_at},
};

/// What clients may take of this process.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Connections at once; more wait in the listener's backlog.
    pub(super) connections: usize,
    /// All headers of a request.
    pub(super) header_bytes: usize,
    /// The longest that the headers of a request take.
    pub(super) header_timeout: Duration,
    /// The longest pause in a body.
    pub(super) body_timeout: Duration,
}

impl Limits {
    /// Those of Flight streams, whose clients may compute what they send.
    pub(super) fn of_streams(self) -> Self {
        Self { body_timeout: self.body_timeout.saturating_mul(PATIENCE), ..self }
    }
}

/// A Flight stream may pause this many times as long as a body.
const PATIENCE: u32 = 10;
/// A body may take this many times as long as the longest pause in it.
const SLOWEST: u32 = 20;
/// How long requests may go on after a stop.
const DRAIN: Duration = Duration::from_secs(20);

/// The Flight SQL service as routes.
pub(super) fn flight_router(engine: &Engine) -> Router {
    let service = tidelake_query::flight::flight_service(engine.clone());
    Router::new().route_service("/arrow.flight.protocol.FlightService/{*method}", service)
}

/// The same routes for clients that may be slow, but not silent: a body that pauses for too long breaks off.
pub(super) fn patient(router: Router, limits: Limits) -> Router {
    router.layer(middleware::map_request(move |request: Request| async move {
        request.map(|body| {
            let until = Instant::now() + limits.body_timeout.saturating_mul(SLOWEST);
            let pieces = stream::unfold(Some(body.into_data_stream()), move |body| async move {
                let mut body = body?;
                let by = until.min(Instant::now() + limits.body_timeout);
                match timeout_at(by, body.next()).await {
                    Ok(piece) => Some((piece?.map_err(io::Error::other), Some(body))),
                    Err(_) => Some((Err(io::Error::new(io::ErrorKind::TimedOut, "the client is too slow")), None)),
                }
            });
            Body::from_stream(pieces)
        })
    }))
}

/// Serves until `stopped` turns true, then lets open requests finish within [`DRAIN`].
pub(super) async fn serve(
    listener: TcpListener,
    router: Router,
    limits: Limits,
    mut stopped: watch::Receiver<bool>,
) -> anyhow::Result<()> {
    let slots = std::sync::Arc::new(Semaphore::new(limits.connections.min(Semaphore::MAX_PERMITS)));
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        let accepted = tokio::select! {
            () = stop(&mut stopped) => break,
            accepted = async {
                let slot = slots.clone().acquire_owned().await;
                (slot, listener.accept().await)
            } => accepted,
        };
        let (slot, Ok((stream, _))) = accepted else {
            // Out of file descriptors, most likely: give connections time to end.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        // Small replies must not wait for an acknowledgement of the one before.
        let _ = stream.set_nodelay(true);
        let service = TowerToHyperService::new(router.clone());
        let mut stopped = stopped.clone();
        connections.spawn(async move {
            let _slot = slot;
            let mut builder = auto::Builder::new(TokioExecutor::new());
            builder
                .http1()
                .timer(TokioTimer::new())
                .header_read_timeout(limits.header_timeout)
                .max_buf_size(limits.header_bytes)
                .pipeline_flush(true);
            builder
                .http2()
                .timer(TokioTimer::new())
                .initial_stream_window_size(16 << 20)
                .initial_connection_window_size(32 << 20)
                .max_frame_size(1 << 20)
                .max_concurrent_streams(1_024)
                .max_header_list_size(u32::try_from(limits.header_bytes).unwrap_or(u32::MAX))
                .keep_alive_interval(Duration::from_secs(30));
            let connection = builder.serve_connection(TokioIo::new(stream), service);
            tokio::pin!(connection);
            let ended = tokio::select! {
                ended = connection.as_mut() => ended,
                () = stop(&mut stopped) => {
                    connection.as_mut().graceful_shutdown();
                    connection.await
                }
            };
            if let Err(e) = ended {
                tracing::debug!(error = %e, "a connection ended early");
            }
        });
    }
    drop(listener);
    let drained = tokio::time::timeout(DRAIN, async { while connections.join_next().await.is_some() {} }).await;
    if drained.is_err() {
        tracing::warn!(left = connections.len(), "requests were cut off at the end of the drain time");
    }
    Ok(())
}

/// Resolves once the server is told to stop (or the one who would tell is gone).
async fn stop(stopped: &mut watch::Receiver<bool>) {
    let _ = stopped.wait_for(|stopped| *stopped).await;
}
