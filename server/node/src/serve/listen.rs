//! One listener for HTTP/1.1, HTTP/2 and gRPC, with a graceful end.

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

/// What clients may take of this process.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Connections at once; more wait in the listener's backlog.
    pub(super) connections: usize,
    /// How long a connection of HTTP/2 may be open without a request.
    pub(super) idle_timeout: Duration,
    /// All headers of a request.
    pub(super) header_bytes: usize,
    /// The longest that the headers of a request take.
    pub(super) header_timeout: Duration,
    /// The longest pause in a body.
    pub(super) body_timeout: Duration,
}

/// A Flight stream may pause this many times as long as a body.
const PATIENCE: u32 = 10;
/// Bytes of datagrams that wait to be taken from a socket.
const UDP_BUFFER: usize = 8 << 20;
/// The longest that a client may take to agree on a key.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How long a client has to close a connection that takes no more requests.
const FAREWELL: Duration = Duration::from_secs(5);
/// How long requests may go on after a stop.
const DRAIN: Duration = Duration::from_secs(20);

/// A socket for datagrams, with as large a buffer for those that wait as the system grants.
pub(super) fn bind_udp(address: SocketAddr) -> anyhow::Result<UdpSocket> {
    let context = || format!("cannot listen on {address} for UDP");
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, None).with_context(context)?;
    // The system cuts what it does not grant.
    let _ = socket.set_recv_buffer_size(UDP_BUFFER);
    socket.set_nonblocking(true).with_context(context)?;
    socket.bind(&address.into()).with_context(context)?;
    UdpSocket::from_std(socket.into()).with_context(context)
}

/// What all listeners of a process have in common.
#[derive(Clone)]
pub(super) struct Front {
    /// With it clients speak TLS.
    pub(super) tls: Option<Arc<Tls>>,
    pub(super) limits: Limits,
    pub(super) bodies: Bodies,
    /// Which web pages may send requests.
    pub(super) origins: Arc<Origins>,
    /// How many connections each client has.
    pub(super) places: Places,
    /// Load balancers that say whose a connection is.
    pub(super) proxies: Arc<[Network]>,
    /// Where connections are listed.
    pub(super) connections: Connections,
}

/// Serves until `stopped` turns true, then lets open requests finish within [`DRAIN`].
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
            // Out of file descriptors, most likely: give connections time to end.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        // Small replies must not wait for an acknowledgement of the one before.
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
        tracing::warn!(left = connections.len(), "requests were cut off at the end of the drain time");
    }
    Ok(())
}

/// Finds out whose a connection is, and serves it if that client may have another one.
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
            // A load balancer of a network that is named in the settings: somebody has to know.
            Ok(Err(error)) => return tracing::warn!(%peer, %error, "a connection of proxy_protocol was closed"),
            Err(_) => return tracing::warn!(%peer, "a connection of proxy_protocol was closed: it sent no header"),
        }
    }
    let Some(place) = front.places.take(peer.ip()) else {
        return tracing::debug!(%peer, "a connection was closed: its address has max_client_connections already");
    };
    let client = Client { peer: Peer(peer.ip()), listed: front.connections.begin(peer), place };
    let Some(acceptor) = front.tls.as_ref().map(|tls| tls.acceptor()) else {
        return connection(stream, client, router, front, stopped).await;
    };
    match timeout(HANDSHAKE, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => connection(stream, client, router, front, stopped).await,
        Ok(Err(error)) => tracing::debug!(%error, "a client did not agree on TLS"),
        Err(_) => tracing::debug!("a client took too long to agree on TLS"),
    }
}

/// Whose a connection is.
struct Client {
    peer: Peer,
    listed: Connection,
    place: Arc<Place>,
}

/// Where a connection is counted, among the extensions of its requests.
#[derive(Clone)]
pub(super) struct Counted {
    /// Its line in SHOW CONNECTIONS.
    pub(super) listed: Connection,
    /// Its place among those of its address and its user.
    pub(super) place: Arc<Place>,
}

/// Serves one connection until its end, or until what is under way at a stop is done.
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
        // Few extensions: each one costs every request an allocation.
        request.extensions_mut().insert(peer);
        request.extensions_mut().insert(counted.clone());
        counted.listed.asked();
        // The library ends idle connections of HTTP/1 by itself.
        let underway = (request.version() == Version::HTTP_2).then(|| requests.begin());
        // Who streams to Flight may compute what it sends.
        let is_stream = request.uri().path().starts_with(FLIGHT_PREFIX);
        if is_stream {
            // What a message holds packed is counted with the messages once it is unpacked.
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
    // In a task of its own: else each step of the connection would look at all of these.
    let idle = activity.clone();
    let mut ending = JoinSet::new();
    ending.spawn(async move {
        tokio::select! {
            () = silent(limits.header_timeout, &spoke) => {
                tracing::debug!("a client connected and asked for nothing");
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
    // This task counts as a connection of the client's address. It has to end before the connection's slot is free: the next
    // connection of that address would be refused.
    ending.shutdown().await;
    if let Err(e) = ended {
        tracing::debug!(error = %e, "a connection ended early");
    }
}

/// How the server ends a connection.
enum Ending {
    /// At once.
    Cut,
    /// When the requests under way are answered.
    Drain,
    /// When the requests under way are answered, and after a while even if the client does not close it.
    Finish,
}

/// Resolves when a client has asked for nothing for so long: the library bounds the headers of HTTP/1 alone, and not the time
/// before it knows which HTTP this is.
async fn silent(time: Duration, spoke: &AtomicBool) {
    tokio::time::sleep(time).await;
    if spoke.load(Relaxed) {
        std::future::pending().await
    }
}

/// Resolves when a connection of HTTP/2 has been idle for so long. Of HTTP/1 no request begins here.
async fn idle_for(activity: &Activity, time: Duration) {
    activity.begun().await;
    activity.idle_for(time).await;
}

/// The rest of a connection that takes no more requests: it is cut off once it has been idle for a while, whether or not its
/// client has closed it.
async fn finish<E>(connection: impl Future<Output = Result<(), E>>, activity: &Activity) -> Result<(), E> {
    tokio::select! {
        ended = connection => ended,
        () = activity.idle_for(FAREWELL) => Ok(()),
    }
}

/// Resolves once the server is told to stop (or the one who would tell is gone).
async fn stop(stopped: &mut watch::Receiver<bool>) {
    let _ = stopped.wait_for(|stopped| *stopped).await;
}
