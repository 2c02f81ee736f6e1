//! Limits on request bodies: time per body, and memory of all statement bodies and Flight messages together.

use std::{
    collections::HashMap,
    io,
    pin::Pin,
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use axum::BoxError;
use bytes::Bytes;
use hyper::{
    Method,
    body::{Frame, SizeHint},
};
use parking_lot::Mutex;
use tidelake_protocol::http::{Body, Route};
use tidelake_query::buffer::StatementBuffer;
use tokio::time::{Instant, Sleep, sleep_until};
use tonic::Status;

/// Maximum total wait for a body, as a multiple of the longest pause.
const SLOWEST: u32 = 20;
/// Minimum rate of a body beyond one pause, in bytes per second; slower than any practical network connection.
const SLOWEST_RATE: u64 = 4 << 10;
/// Number of users above which users without held bytes are removed.
const REMEMBERED: usize = 1_000;
/// Largest body that counts as small, in bytes; most statements are far smaller.
const SMALL_BODY: usize = 64 << 10;
/// Bytes of a gRPC message header.
const HEAD: usize = 5;

/// Memory of statement bodies and Flight messages while they are read, since they are held whole. Cheap to clone.
/// Streamed writes move to the ingest buffer once a message is complete. A quarter is reserved for small bodies; the
/// large bodies of one user take at most half.
#[derive(Clone)]
pub(super) struct Bodies(Arc<Shared>);

struct Shared {
    buffer: StatementBuffer,
    /// Bytes held per user, as long as a body holds the counter.
    users: Mutex<HashMap<Box<str>, Weak<AtomicUsize>>>,
}

impl Bodies {
    pub(super) fn new(most: usize) -> Self {
        Self(Arc::new(Shared { buffer: StatementBuffer::new(most), users: Mutex::default() }))
    }

    /// The counter of the bytes of all bodies.
    pub(super) fn buffer(&self) -> &StatementBuffer {
        &self.0.buffer
    }

    /// Starts counting the body of a request, if its route holds bodies whole.
    pub(super) fn begin(&self, method: &Method, path: &str) -> Option<Arc<Held>> {
        // The Flight service ignores the HTTP method.
        let of_flight = || Route::of(&Method::POST, path).filter(|route| route.body == Body::Messages);
        let messages = match Route::of(method, path).or_else(of_flight)?.body {
            Body::Statement(_) => None,
            Body::Messages => (path.ends_with("/DoPut") || path.ends_with("/DoExchange")).then(Mutex::default),
            Body::None | Body::Rows(_) | Body::File(_) | Body::Short(..) => return None,
        };
        Some(Arc::new(Held { bodies: self.clone(), bytes: AtomicUsize::new(0), user: OnceLock::new(), messages }))
    }

    fn user(&self, name: &str) -> Arc<AtomicUsize> {
        let mut users = self.0.users.lock();
        if let Some(known) = users.get(name).and_then(Weak::upgrade) {
            return known;
        }
        if users.len() >= REMEMBERED {
            users.retain(|_, held| held.strong_count() > 0);
        }
        let held = Arc::default();
        users.insert(name.into(), Arc::downgrade(&held));
        held
    }
}

/// Bytes held by a body until its request is answered.
pub(super) struct Held {
    bodies: Bodies,
    bytes: AtomicUsize,
    /// Bytes held by all bodies of its user, if the user is known.
    user: OnceLock<Arc<AtomicUsize>>,
    /// State of a message stream, whose messages are released as soon as they are complete.
    messages: Option<Mutex<Messages>>,
}

impl Held {
    /// Sets the user of the body before its first byte is read.
    pub(super) fn of(&self, user: &str) {
        let _ = self.user.set(self.bodies.user(user)); // only the first one counts
    }

    /// # Errors
    /// Unavailable if all bodies, or those of its user, exceed their limit.
    fn take(&self, data: &[u8]) -> Result<(), Status> {
        let (held, most) = self.bodies.buffer().parts();
        let before = self.bytes.load(Relaxed);
        let after = self.messages.as_ref().map_or(before + data.len(), |messages| messages.lock().take(data));
        self.bytes.store(after, Relaxed);
        let Some(more) = after.checked_sub(before) else {
            held.fetch_sub(before - after, Relaxed);
            if let Some(user) = self.user.get() {
                user.fetch_sub(before - after, Relaxed);
            }
            return Ok(());
        };
        let is_small = after <= SMALL_BODY;
        let of_user = self.user.get().map_or(0, |user| user.fetch_add(more, Relaxed) + more);
        let of_all = held.fetch_add(more, Relaxed) + more;
        if of_all > if is_small { most } else { most / 4 * 3 } {
            return Err(Status::unavailable("too many large statements or messages at once; retry later"));
        }
        if !is_small && of_user > most / 2 {
            return Err(Status::unavailable("statements and messages of this user exceed half of statement_buffer"));
        }
        Ok(())
    }
}

/// Read position in a stream of gRPC messages, each preceded by a byte of flags and four bytes of length.
#[derive(Default)]
struct Messages {
    head: Vec<u8>,
    left: usize,
    unfinished: usize,
}

impl Messages {
    /// Consumes bytes of the stream; returns the number of bytes held of an incomplete message.
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
        let bytes = self.bytes.load(Relaxed);
        self.bodies.buffer().parts().0.fetch_sub(bytes, Relaxed);
        if let Some(user) = self.user.get() {
            user.fetch_sub(bytes, Relaxed);
        }
    }
}

/// A body with time limits: it fails after too long a pause, and when the client has sent less than the minimum rate
/// requires for the time the server has waited.
pub(super) struct Patient<B> {
    held: Option<Arc<Held>>,
    body: B,
    pause: Duration,
    /// Minimum bytes per second beyond one pause.
    rate: Option<u64>,
    come: u64,
    /// Total time the server has waited for the client.
    waited: Duration,
    /// Start and timer of the client's current pause.
    waiting: Option<(Instant, Pin<Box<Sleep>>)>,
    is_over: bool,
}

impl<B> Patient<B> {
    /// Wraps a body with the longest pause `pause`. Streams have no minimum rate.
    pub(super) fn new(body: B, held: Option<Arc<Held>>, pause: Duration, is_stream: bool) -> Self {
        let rate = (!is_stream).then_some(SLOWEST_RATE);
        Self { held, body, pause, rate, come: 0, waited: Duration::ZERO, waiting: None, is_over: false }
    }

    /// How much longer the server waits for the body.
    fn patience(&self) -> Duration {
        let in_all = self.pause.saturating_mul(SLOWEST);
        let by_rate = self.rate.map_or(in_all, |rate| self.pause + Duration::from_secs(self.come / rate));
        self.pause.min(in_all.min(by_rate).saturating_sub(self.waited))
    }
}

impl<B> hyper::body::Body for Patient<B>
where
    B: hyper::body::Body<Data = Bytes, Error: std::fmt::Display> + Unpin,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = self.get_mut();
        if this.is_over {
            return Poll::Ready(None);
        }
        if let Poll::Ready(frame) = Pin::new(&mut this.body).poll_frame(cx) {
            if let Some((since, _)) = this.waiting.take() {
                this.waited += since.elapsed();
            }
            if let Some(Ok(frame)) = &frame {
                let data = frame.data_ref().map_or(&[][..], |data| data.as_ref());
                this.come += data.len() as u64;
                if let Some(Err(full)) = this.held.as_ref().map(|held| held.take(data)) {
                    this.is_over = true;
                    return Poll::Ready(Some(Err(full.into())));
                }
            }
            // Only the error's text: tonic would turn the original reset error into a clean end of an incomplete body.
            let broken = |e: B::Error| io::Error::new(io::ErrorKind::ConnectionAborted, e.to_string());
            return Poll::Ready(frame.map(|frame| frame.map_err(|e| broken(e).into())));
        }
        let patience = this.patience();
        let (_, waiting) = this.waiting.get_or_insert_with(|| {
            let now = Instant::now();
            (now, Box::pin(sleep_until(now + patience)))
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

#[cfg(test)]
mod tests {
    use futures::StreamExt as _;
    use tidelake_protocol::http::routes::FLIGHT_PREFIX;

    use super::*;

    /// Encoded messages of these sizes.
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
        let put = || {
            bodies.begin(&Method::POST, &format!("{FLIGHT_PREFIX}DoPut")).unwrap_or_else(|| unreachable!("it is held"))
        };
        let (first, second) = (put(), put());
        let message = sent(&[2 << 20]);
        for _ in 0..100 {
            first.take(&message[..100]).unwrap_or_else(|e| unreachable!("{e}"));
            first.take(&message[100..]).unwrap_or_else(|e| unreachable!("{e}"));
        }
        assert_eq!(bodies.buffer().parts().0.load(Relaxed), 0);
        assert!(first.take(&message[..2 << 20]).is_ok() && second.take(&message[..2 << 20]).is_err());
        drop((first, second));
        assert_eq!(bodies.buffer().parts().0.load(Relaxed), 0);
        assert!(bodies.begin(&Method::POST, "/influx/v1/write").is_none());
        assert!(bodies.begin(&Method::GET, "/api/v1/sql").is_none());
        assert!(bodies.begin(&Method::PUT, &format!("{FLIGHT_PREFIX}DoPut")).is_some());
    }
    #[test]
    fn large_bodies_of_one_user_take_no_more_than_half_and_small_ones_of_others_always_fit() {
        let bodies = Bodies::new(8 << 20);
        let begin = |user: &str| {
            let held = bodies.begin(&Method::POST, "/api/v1/sql").unwrap();
            held.of(user);
            held
        };
        let large = vec![0; 1 << 20];
        let of_ada: Vec<_> = (0..6).map(|_| begin("ada")).collect();
        let taken = of_ada.iter().filter(|held| held.take(&large).is_ok()).count();
        assert_eq!(taken, 4);
        drop(of_ada);
        let (ada, bob) = (begin("ada"), begin("bob"));
        assert!((0..4).all(|_| ada.take(&large).is_ok()) && (0..2).all(|_| bob.take(&large).is_ok()));
        assert!(bob.take(&large).is_err(), "three quarters are taken");
        assert!(begin("carol").take(&large[..SMALL_BODY]).is_ok());
        drop((ada, bob));
        assert_eq!(bodies.buffer().parts().0.load(Relaxed), 0);
    }

    /// Reads a body of pieces sent after pauses; returns bytes, completeness and duration.
    async fn read(pieces: Vec<(Duration, usize)>, is_stream: bool) -> (usize, bool, Duration) {
        let begun = Instant::now();
        let later = futures::stream::iter(pieces).then(|(pause, bytes)| async move {
            tokio::time::sleep(pause).await;
            Ok::<_, std::convert::Infallible>(Bytes::from(vec![0; bytes]))
        });
        let body = axum::body::Body::from_stream(later);
        let mut body =
            axum::body::Body::new(Patient::new(body, None, Duration::from_secs(30), is_stream)).into_data_stream();
        let mut come = 0;
        while let Some(piece) = body.next().await {
            match piece {
                Ok(piece) => come += piece.len(),
                Err(_) => return (come, false, begun.elapsed()),
            }
        }
        (come, true, begun.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_ends_when_its_client_is_silent_or_sends_less_than_a_slow_line_brings() {
        let second = Duration::from_secs(1);
        let drip = |bytes: usize, times: usize, every: Duration| vec![(every, bytes); times];
        // A byte every five seconds: fails after one pause, not after 20.
        let (come, is_whole, took) = read(drip(1, 10_000, 5 * second), false).await;
        assert!(!is_whole && come <= 6 && took <= 31 * second, "{come} {took:?}");
        // A silent client.
        let (_, is_whole, took) = read(vec![(second, 100_000), (31 * second, 1)], false).await;
        assert!(!is_whole && took <= 32 * second);
        // Slow connections: half a megabyte at 5 KiB/s, a small body in 29 pauses.
        assert!(read(drip(5 << 10, 100, second), false).await.1);
        assert!(read(drip(10, 29, second), false).await.1);
        // At most 20 pauses in total, whatever the amount of data.
        let (_, is_whole, took) = read(drip(1 << 20, 100, 20 * second), false).await;
        assert!(!is_whole && took <= 610 * second, "{took:?}");
        // A stream that computes its batches has no minimum rate.
        assert!(read(drip(100, 20, 25 * second), true).await.1);
    }
}
