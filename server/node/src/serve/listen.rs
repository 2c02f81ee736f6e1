//! Listener for HTTP/1.1, HTTP/2 and gRPC with graceful shutdown.

use std::{
    convert::Infallible,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use anyhow::Context as _;
use axum::{Router, body::Body};
use hyper::{Request, Version, body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto,
};
use socket2::{Domain, Socket, Type};
use tidelake_format::auth::Peer;
use tidelake_protocol::{http::routes::FLIGHT_PREFIX, settings::network::Network};
use tidelake_query::system::{Connection, Connections};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream, UdpSocket},
    sync::{Semaphore, watch},
    task::JoinSet,
    time::timeout,
};
use tower::Service as _;

use super::{
    activity::{Activity, Answering},
    bodies::{Bodies, Patient},
    origin::Origins,
    places::{Place, Places},
    proxy,
    tls::Tls,
    traces,
};

/// Limits on clients.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Number of concurrent connections; more wait in the listener's backlog.
    pub(super) connections: usize,
    /// How long an HTTP/2 connection may be open without a request.
    pub(super) idle_timeout: Duration,
    /// Total bytes of a request's headers.
    pub(super) header_bytes: usize,
    /// Time limit for the headers of a request.
    pub(super) header_timeout: Duration,
    /// Longest pause in a body.
    pub(super) body_timeout: Duration,
}

/// Factor by which a Flight stream may pause longer than a body.
const PATIENCE: u32 = 10;
/// Receive buffer of a UDP socket, in bytes.
const UDP_BUFFER: usize = 8 << 20;
/// Time limit for the PROXY header and for the TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Idle time after which a connection that accepts no more requests is closed.
const FAREWELL: Duration = Duration::from_secs(5);
/// Time limit for running requests after a stop.
const DRAIN: Duration = Duration::from_secs(20);

/// Binds a UDP socket with the largest receive buffer, up to [`UDP_BUFFER`], that the system grants.
pub(super) fn bind_udp(address: SocketAddr) -> anyhow::Result<UdpSocket> {
    let context = || format!("cannot listen on {address} for UDP");
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, None).with_context(context)?;
    // The system caps the size.
    let _ = socket.set_recv_buffer_size(UDP_BUFFER);
    socket.set_nonblocking(true).with_context(context)?;
    socket.bind(&address.into()).with_context(context)?;
    UdpSocket::from_std(socket.into()).with_context(context)
}

/// State shared by all listeners of a process.
#[derive(Clone)]
pub(super) struct Front {
    /// TLS of the listeners; `None` serves plain text.
    pub(super) tls: Option<Arc<Tls>>,
    pub(super) limits: Limits,
    pub(super) bodies: Bodies,
    /// Which web pages may send requests.
    pub(super) origins: Arc<Origins>,
    /// Connection counts of clients.
    pub(super) places: Places,
    /// Networks of load balancers that send PROXY headers.
    pub(super) proxies: Arc<[Network]>,
    /// Connections for SHOW CONNECTIONS.
    pub(super) connections: Connections,
}

/// Serves until `stopped` becomes true, then lets running requests finish within [`DRAIN`].
pub(super) async fn serve(
    listener: TcpListener,
    router: Router,
    front: Front,
    mut stopped: watch::Receiver<bool>,
) -> anyhow::Result<()> {
    let slots = Arc::new(Semaphore::new(front.limits.connections.min(Semaphore::MAX_PERMITS)));
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
        let (slot, Ok((stream, peer))) = accepted else {
            // Most likely out of file descriptors: wait for connections to end.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        // Small replies must not wait for the acknowledgement of the previous one.
        let _ = stream.set_nodelay(true);
        let (router, front, stopped) = (router.clone(), front.clone(), stopped.clone());
        connections.spawn(async move {
            let _slot = slot;
            admit(stream, peer, router, front, stopped).await;
        });
    }
    drop(listener);
    let drained = tokio::time::timeout(DRAIN, async { while connections.join_next().await.is_some() {} }).await;
    if drained.is_err() {
        tracing::warn!(left = connections.len(), "drain time exceeded; remaining connections were closed");
    }
    Ok(())
}

/// Determines the client of a connection and serves it if the client is below its connection limit.
async fn admit(
    mut stream: TcpStream,
    mut peer: SocketAddr,
    router: Router,
    front: Front,
    stopped: watch::Receiver<bool>,
) {
    if front.proxies.iter().any(|network| network.has(peer.ip())) {
        match timeout(HANDSHAKE, proxy::read(&mut stream)).await {
            Ok(Ok(source)) => peer = source.unwrap_or(peer),
            // A warning because the peer is a load balancer named in the settings.
            Ok(Err(error)) => return tracing::warn!(%peer, %error, "proxy_protocol connection closed: invalid header"),
            Err(_) => return tracing::warn!(%peer, "proxy_protocol connection closed: no header within the time limit"),
        }
    }
    let Some(place) = front.places.take(peer.ip()) else {
        return tracing::debug!(%peer, "connection closed: its address has reached max_client_connections");
    };
    let client = Client { peer: Peer(peer.ip()), listed: front.connections.begin(peer), place };
    let Some(acceptor) = front.tls.as_ref().map(|tls| tls.acceptor()) else {
        return connection(stream, client, router, front, stopped).await;
    };
    match timeout(HANDSHAKE, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => connection(stream, client, router, front, stopped).await,
        Ok(Err(error)) => tracing::debug!(%error, "TLS handshake failed"),
        Err(_) => tracing::debug!("TLS handshake timed out"),
    }
}

/// The client of a connection.
struct Client {
    peer: Peer,
    listed: Connection,
    place: Arc<Place>,
}

/// Counters of a connection, passed to its requests as an extension.
#[derive(Clone)]
pub(super) struct Counted {
    /// Entry of the connection in SHOW CONNECTIONS.
    pub(super) listed: Connection,
    /// Place of the connection in the counts of its address and user.
    pub(super) place: Arc<Place>,
}

/// Serves one connection until it ends, or after a stop until its running requests are answered.
async fn connection(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    client: Client,
    router: Router,
    front: Front,
    mut stopped: watch::Receiver<bool>,
) {
    let limits = front.limits;
    let Client { peer, listed, place } = client;
    let killed = listed.killed();
    let counted = Counted { listed, place: place.clone() };
    let activity = Activity::new();
    let requests = activity.clone();
    let spoke = Arc::new(AtomicBool::new(false));
    let has_spoken = spoke.clone();
    let service = service_fn(move |mut request: Request<Incoming>| {
        has_spoken.store(true, Relaxed);
        // Each extension costs every request an allocation.
        request.extensions_mut().insert(peer);
        request.extensions_mut().insert(counted.clone());
        counted.listed.asked();
        // hyper closes idle HTTP/1 connections itself.
        let underway = (request.version() == Version::HTTP_2).then(|| requests.begin());
        // A Flight client may compute batches while it streams them.
        let is_stream = request.uri().path().starts_with(FLIGHT_PREFIX);
        if is_stream {
            // Counts the unpacked size of a compressed message.
            request.extensions_mut().insert(front.bodies.buffer().clone());
        }
        let pause = limits.body_timeout.saturating_mul(if is_stream { PATIENCE } else { 1 });
        let span = traces::request(&request);
        let answer = front.origins.admit(&request).map(|marks| {
            let held = front.bodies.begin(request.method(), request.uri().path());
            let of_body = held.clone();
            if let Some(held) = &held {
                request.extensions_mut().insert(held.clone());
            }
            let patient = |body| Body::new(Patient::new(body, of_body, pause, is_stream));
            let answer = router.clone().call(request.map(patient));
            (marks, held, answer)
        });
        traces::answered(span, async move {
            let response = match answer {
                Err(refused) => *refused,
                Ok((marks, held, answer)) => {
                    let answer = answer.await;
                    drop(held);
                    answer.map(|response| marks.on(response))?
                }
            };
            Ok::<_, Infallible>(match underway {
                None => response,
                Some(underway) => response.map(|body| Body::new(Answering::new(body, underway))),
            })
        })
    });
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_timeout)
        .max_buf_size(limits.header_bytes);
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
    // In a separate task: otherwise each poll of the connection would poll all of these.
    let idle = activity.clone();
    let mut ending = JoinSet::new();
    ending.spawn(async move {
        tokio::select! {
            () = silent(limits.header_timeout, &spoke) => {
                tracing::debug!("connection closed: no request within the time limit");
                Ending::Cut
            }
            () = stop(&mut stopped) => Ending::Drain,
            () = killed => Ending::Cut,
            () = idle_for(&idle, limits.idle_timeout) => Ending::Finish,
            () = place.is_over() => Ending::Finish,
        }
    });
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        Some(ending) = ending.join_next() => match ending {
            Ok(Ending::Drain) => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
            Ok(Ending::Finish) => {
                connection.as_mut().graceful_shutdown();
                finish(connection, &activity).await
            }
            Ok(Ending::Cut) | Err(_) => return,
        },
    };
    // This task holds the place of the client's address. It must end before the connection's slot is free, or the next
    // connection from that address would be refused.
    ending.shutdown().await;
    if let Err(e) = ended {
        tracing::debug!(error = %e, "connection ended with an error");
    }
}

/// How the server ends a connection.
enum Ending {
    /// Immediately.
    Cut,
    /// After the running requests are answered.
    Drain,
    /// After the running requests are answered; closed after an idle time even if the client keeps it open.
    Finish,
}

/// Resolves if a client has sent no request within `time`. hyper limits only the headers of HTTP/1, not the time until
/// it has detected the HTTP version.
async fn silent(time: Duration, spoke: &AtomicBool) {
    tokio::time::sleep(time).await;
    if spoke.load(Relaxed) {
        std::future::pending().await
    }
}

/// Resolves when an HTTP/2 connection has been idle for `time`. HTTP/1 requests are not counted, so it never resolves for
/// them.
async fn idle_for(activity: &Activity, time: Duration) {
    activity.begun().await;
    activity.idle_for(time).await;
}

/// Runs a connection that accepts no more requests until it ends or has been idle for [`FAREWELL`].
async fn finish<E>(connection: impl Future<Output = Result<(), E>>, activity: &Activity) -> Result<(), E> {
    tokio::select! {
        ended = connection => ended,
        () = activity.idle_for(FAREWELL) => Ok(()),
    }
}

/// Resolves when the server stops or the sender is dropped.
async fn stop(stopped: &mut watch::Receiver<bool>) {
    let _ = stopped.wait_for(|stopped| *stopped).await;
}
