//! One listener for HTTP/1.1, HTTP/2 and gRPC, with a graceful end.

use std::time::Duration;

use axum::Router;
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
};

/// Connections at once; more wait in the listener's backlog.
const CONNECTIONS: usize = 16_384;
/// How long requests may go on after a stop.
const DRAIN: Duration = Duration::from_secs(20);

/// The Flight SQL service as routes.
pub(super) fn flight_router(engine: &Engine) -> Router {
    let service = tidelake_query::flight::flight_service(engine.clone());
    Router::new().route_service("/arrow.flight.protocol.FlightService/{*method}", service)
}

/// Serves until `stopped` turns true, then lets open requests finish within [`DRAIN`].
pub(super) async fn serve(
    listener: TcpListener,
    router: Router,
    mut stopped: watch::Receiver<bool>,
) -> anyhow::Result<()> {
    let slots = std::sync::Arc::new(Semaphore::new(CONNECTIONS));
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
            builder.http1().timer(TokioTimer::new()).header_read_timeout(Duration::from_secs(60)).pipeline_flush(true);
            builder
                .http2()
                .timer(TokioTimer::new())
                .initial_stream_window_size(16 << 20)
                .initial_connection_window_size(32 << 20)
                .max_frame_size(1 << 20)
                .max_concurrent_streams(1_024)
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
