//! One listener for HTTP/1.1, HTTP/2 and gRPC, with a graceful end.

use std::{
    io,
    net::SocketAddr,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use anyhow::Context as _;
use axum::{BoxError, Router, body::Body};
use bytes::Bytes;
use hyper::{
    Request,
    body::{Frame, Incoming, SizeHint},
    service::service_fn,
};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto,
};
use parking_lot::Mutex;
use socket2::{Domain, Socket, Type};
use tidelake_format::access::Peer;
use tidelake_query::{
    flight::PREFIX as FLIGHT,
    system::{Connection, Connections},
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, UdpSocket},
    sync::{Semaphore, watch},
    task::JoinSet,
    time::{Instant, Sleep, sleep_until, timeout},
};
use tonic::Status;
use tower::Service as _;

use super::{tls::Tls, traces};

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

/// A Flight stream may pause this many times as long as a body.
const PATIENCE: u32 = 10;
/// A body may take this many times as long as the longest pause in it.
const SLOWEST: u32 = 20;
/// Most statements are far smaller.
const SMALL_BODY: usize = 64 << 10;
/// Bytes of datagrams that wait to be taken from a socket.
const UDP_BUFFER: usize = 8 << 20;
/// Bytes before a message of gRPC.
const HEAD: usize = 5;
/// The longest that a client may take to agree on a key.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How long requests may go on after a stop.
const DRAIN: Duration = Duration::from_secs(20);

/// What bodies of statements and messages of Flight take while they are read: they are held whole. Cheap to clone. What is
/// written as it comes has a buffer of its own, once a message is whole. A quarter is for small ones alone, which large
/// ones do not keep out.
#[derive(Clone)]
pub(super) struct Bodies(Arc<(AtomicUsize, usize)>);

impl Bodies {
    pub(super) fn new(most: usize) -> Self {
        Self(Arc::new((AtomicUsize::new(0), most)))
    }

    /// A body that comes to a path, where it is one of those.
    fn begin(&self, path: &str) -> Option<Arc<Held>> {
        let messages = match path.strip_prefix(FLIGHT) {
            Some(method) => matches!(method, "DoPut" | "DoExchange").then(Mutex::default),
            None if path == "/api/v1/sql" || path.starts_with("/rest/sql") => None,
            None => return None,
        };
        Some(Arc::new(Held { bodies: self.clone(), bytes: AtomicUsize::new(0), messages }))
    }
}

/// What a body takes, until its request has been answered.
struct Held {
    bodies: Bodies,
    bytes: AtomicUsize,
    /// Where it is one message after the other, of which each is taken as soon as it is whole.
    messages: Option<Mutex<Messages>>,
}

impl Held {
    /// # Errors
    /// Unavailable when all of them together take too much.
    fn take(&self, data: &[u8]) -> Result<(), Status> {
        let (held, most) = &*self.bodies.0;
        let before = self.bytes.load(Relaxed);
        let after = self.messages.as_ref().map_or(before + data.len(), |messages| messages.lock().take(data));
        self.bytes.store(after, Relaxed);
        let Some(more) = after.checked_sub(before) else {
            held.fetch_sub(before - after, Relaxed);
            return Ok(());
        };
        let most = if after <= SMALL_BODY { *most } else { most / 4 * 3 };
        if held.fetch_add(more, Relaxed) + more > most {
            return Err(Status::unavailable("too many large statements or messages come at once; try again"));
        }
        Ok(())
    }
}

/// How far a stream of gRPC's messages has come: each has a byte of flags and four of its length before it.
#[derive(Default)]
struct Messages {
    head: Vec<u8>,
    left: usize,
    unfinished: usize,
}

impl Messages {
    /// What there is of a message that is not whole, after these bytes.
    fn take(&mut self, mut data: &[u8]) -> usize {
        while !data.is_empty() {
            let is_head = self.head.len() < HEAD;
            let (now, later) = data.split_at(data.len().min(if is_head { HEAD - self.head.len() } else { self.left }));
            self.unfinished += now.len();
            if is_head {
                self.head.extend_from_slice(now);
                if let [_, a, b, c, d] = *self.head {
                    self.left = u32::from_be_bytes([a, b, c, d]) as usize;
                }
            } else {
                self.left -= now.len();
            }
            if self.head.len() == HEAD && self.left == 0 {
                *self = Self::default();
            }
            data = later;
        }
        self.unfinished
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.bodies.0.0.fetch_sub(self.bytes.load(Relaxed), Relaxed);
    }
}

/// A body whose client may be slow, but not silent: it breaks off after a pause that is too long.
struct Patient {
    held: Option<Arc<Held>>,
    body: Incoming,
    pause: Duration,
    /// When all of it has to be there, from its first pause on.
    until: Option<Instant>,
    /// The end of the pause that it makes.
    waiting: Option<Pin<Box<Sleep>>>,
    is_over: bool,
}

impl Patient {
    fn new(body: Incoming, held: Option<Arc<Held>>, pause: Duration) -> Self {
        Self { held, body, pause, until: None, waiting: None, is_over: false }
    }
}

impl hyper::body::Body for Patient {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = self.get_mut();
        if this.is_over {
            return Poll::Ready(None);
        }
        if let Poll::Ready(frame) = Pin::new(&mut this.body).poll_frame(cx) {
            this.waiting = None;
            if let (Some(held), Some(Ok(frame))) = (&this.held, &frame)
                && let Err(full) = held.take(frame.data_ref().map_or(&[], |data| data.as_ref()))
            {
                this.is_over = true;
                return Poll::Ready(Some(Err(full.into())));
            }
            // Text alone: of a reset's own error tonic would make the clean end of a body that is not whole.
            let broken = |e: hyper::Error| io::Error::new(io::ErrorKind::ConnectionAborted, e.to_string());
            return Poll::Ready(frame.map(|frame| frame.map_err(|e| broken(e).into())));
        }
        let (pause, until) = (this.pause, &mut this.until);
        let waiting = this.waiting.get_or_insert_with(|| {
            let now = Instant::now();
            let until = *until.get_or_insert_with(|| now + pause.saturating_mul(SLOWEST));
            Box::pin(sleep_until(until.min(now + pause)))
        });
        ready!(waiting.as_mut().poll(cx));
        this.is_over = true;
        Poll::Ready(Some(Err(io::Error::new(io::ErrorKind::TimedOut, "the client is too slow").into())))
    }

    fn is_end_stream(&self) -> bool {
        self.is_over || self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

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

/// Serves until `stopped` turns true, then lets open requests finish within [`DRAIN`]; with TLS where that is given.
pub(super) async fn serve(
    listener: TcpListener,
    router: Router,
    tls: Option<Arc<Tls>>,
    limits: Limits,
    bodies: Bodies,
    connected: Connections,
    mut stopped: watch::Receiver<bool>,
) -> anyhow::Result<()> {
    let slots = Arc::new(Semaphore::new(limits.connections.min(Semaphore::MAX_PERMITS)));
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
        let (router, bodies, stopped) = (router.clone(), bodies.clone(), stopped.clone());
        let acceptor = tls.as_ref().map(|tls| tls.acceptor());
        let listed = connected.begin(peer);
        connections.spawn(async move {
            let _slot = slot;
            match acceptor {
                None => connection(stream, Peer(peer.ip()), listed, router, limits, bodies, stopped).await,
                Some(acceptor) => match timeout(HANDSHAKE, acceptor.accept(stream)).await {
                    Ok(Ok(stream)) => {
                        connection(stream, Peer(peer.ip()), listed, router, limits, bodies, stopped).await
                    }
                    Ok(Err(error)) => tracing::debug!(%error, "a client did not agree on TLS"),
                    Err(_) => tracing::debug!("a client took too long to agree on TLS"),
                },
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

/// Serves one connection until its end, or until what is under way at a stop is done.
async fn connection(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    peer: Peer,
    listed: Connection,
    router: Router,
    limits: Limits,
    bodies: Bodies,
    mut stopped: watch::Receiver<bool>,
) {
    let (killed, of_request) = (listed.killed(), listed);
    let spoke = Arc::new(AtomicBool::new(false));
    let has_spoken = spoke.clone();
    let service = service_fn(move |mut request: Request<Incoming>| {
        has_spoken.store(true, Relaxed);
        request.extensions_mut().insert(peer);
        request.extensions_mut().insert(of_request.clone());
        of_request.asked();
        // Who streams to Flight may compute what it sends.
        let patience = if request.uri().path().starts_with(FLIGHT) { PATIENCE } else { 1 };
        let pause = limits.body_timeout.saturating_mul(patience);
        let held = bodies.begin(request.uri().path());
        let span = traces::request(&request);
        let of_body = held.clone();
        let answer = router.clone().call(request.map(|body| Body::new(Patient::new(body, of_body, pause))));
        traces::answered(span, async move {
            let answer = answer.await;
            drop(held);
            answer
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
    // The library bounds the headers of HTTP/1 alone, and not the time before it knows which HTTP this is.
    let silent = async {
        tokio::time::sleep(limits.header_timeout).await;
        if spoke.load(Relaxed) {
            std::future::pending().await
        }
    };
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = silent => {
            tracing::debug!("a client connected and asked for nothing");
            return;
        }
        () = stop(&mut stopped) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
        () = killed => return,
    };
    if let Err(e) = ended {
        tracing::debug!(error = %e, "a connection ended early");
    }
}

/// Resolves once the server is told to stop (or the one who would tell is gone).
async fn stop(stopped: &mut watch::Receiver<bool>) {
    let _ = stopped.wait_for(|stopped| *stopped).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Messages of these sizes, as they are sent.
    fn sent(sizes: &[usize]) -> Vec<u8> {
        sizes.iter().flat_map(|size| [&[0][..], &(*size as u32).to_be_bytes(), &vec![7; *size]].concat()).collect()
    }

    #[test]
    fn a_stream_holds_what_has_come_of_the_message_that_is_not_whole() {
        let sizes = [300, 0, 1, 0, 0, 70_000, 4, 5, 6, 1_000];
        let bytes = sent(&sizes);
        let ends: Vec<usize> = (0..=sizes.len()).map(|n| sent(&sizes[..n]).len()).collect();
        for piece in [1, 2, 3, 4, 5, 6, 7, 299, 305, 306, 1_024, 70_000, bytes.len()] {
            let (mut messages, mut come) = (Messages::default(), 0);
            for data in bytes.chunks(piece) {
                come += data.len();
                let whole = ends.iter().rev().find(|end| **end <= come).copied().unwrap_or(0);
                assert_eq!(messages.take(data), come - whole, "{come} bytes in pieces of {piece}");
            }
        }
    }

    #[test]
    fn messages_count_until_they_are_whole_and_what_is_left_until_the_end() {
        let bodies = Bodies::new(4 << 20);
        let put = || bodies.begin(&format!("{FLIGHT}DoPut")).unwrap_or_else(|| unreachable!("it is held"));
        let (first, second) = (put(), put());
        let message = sent(&[2 << 20]);
        for _ in 0..100 {
            first.take(&message[..100]).unwrap_or_else(|e| unreachable!("{e}"));
            first.take(&message[100..]).unwrap_or_else(|e| unreachable!("{e}"));
        }
        assert_eq!(bodies.0.0.load(Relaxed), 0);
        assert!(first.take(&message[..2 << 20]).is_ok() && second.take(&message[..2 << 20]).is_err());
        drop((first, second));
        assert_eq!(bodies.0.0.load(Relaxed), 0);
        assert!(bodies.begin("/influx/v1/write").is_none());
    }
}
