//! A proxy for a local S3 server that simulates the latency and bandwidth of a distant one.
//!
//! The first byte of each reply is delayed, counted from the request, by a log-normally distributed time. Each connection is
//! limited to a given rate in each direction, and all uploads together to another rate. Published measurements of Amazon S3
//! from within its region (small objects, 2026): first byte after 25 ms (median) and 90 ms (99th percentile), some 80 MB/s per
//! connection.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::{Context as _, Result};
use bytes::Bytes;
use futures::stream;
use http_body_util::{BodyExt as _, StreamBody, combinators::BoxBody};
use hyper::{
    Request, Response, StatusCode,
    body::{Body, Frame, Incoming},
    client::conn::http1::SendRequest,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use rand::{Rng, SeedableRng, rngs::StdRng};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Mutex,
    time::{Instant, sleep, sleep_until},
};

/// The standard normal quantile of 99 %.
const Z99: f64 = 2.326_347_874;

/// Latency and bandwidth of a store.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Distance {
    /// Median time from a request to the first byte of its reply.
    pub median: Duration,
    /// 99th percentile of that time; at least the median.
    pub p99: Duration,
    /// Bytes per second of one connection.
    pub bytes_per_second: u64,
    /// Bytes per second of all uploads together; unlimited by default.
    pub upload_bytes_per_second: Option<u64>,
}

impl Default for Distance {
    fn default() -> Self {
        let (median, p99) = (Duration::from_millis(25), Duration::from_millis(90));
        Self { median, p99, bytes_per_second: 80_000_000, upload_bytes_per_second: None }
    }
}

impl Distance {
    /// Returns a delay of this distribution from a standard normal number.
    fn delay(&self, normal: f64) -> Duration {
        let sigma = (self.p99.as_secs_f64() / self.median.as_secs_f64()).ln() / Z99;
        self.median.mul_f64((sigma * normal).exp().min(100.0))
    }

    fn time_of(bytes: usize, bytes_per_second: u64) -> Duration {
        Duration::from_secs_f64(bytes as f64 / bytes_per_second as f64)
    }
}

/// Traffic counters of a proxy.
#[derive(Debug, Default)]
pub struct Passed {
    requests: AtomicU64,
    bytes: AtomicU64,
}

impl Passed {
    /// Requests so far.
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// Bytes of bodies so far, both ways.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

/// A rate-limited body of a request or reply.
type Slowed = BoxBody<Bytes, hyper::Error>;

#[derive(Clone)]
struct Proxy {
    /// `host:port` of the store.
    to: Arc<str>,
    distance: Distance,
    draws: Arc<Draws>,
    /// When the shared upload link is free again.
    line: Arc<std::sync::Mutex<Instant>>,
    passed: Arc<Passed>,
}

/// Random numbers shared by all connections.
struct Draws(std::sync::Mutex<StdRng>);

impl Draws {
    /// Draws a standard normal number (Box–Muller).
    fn normal(&self) -> f64 {
        let mut rng = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let (u, v): (f64, f64) = (1.0 - rng.random::<f64>(), rng.random());
        (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
    }
}

/// Forwards requests from `listener` to the HTTP server at `to` (`host:port`) with the latency and bandwidth of `distance`, until
/// the future is dropped.
///
/// # Errors
/// The listener fails. A failed connection does not affect others.
pub async fn serve(listener: TcpListener, to: &str, distance: Distance, seed: u64, passed: Arc<Passed>) -> Result<()> {
    let proxy = Proxy {
        to: to.into(),
        distance,
        draws: Arc::new(Draws(std::sync::Mutex::new(StdRng::seed_from_u64(seed)))),
        line: Arc::new(std::sync::Mutex::new(Instant::now())),
        passed,
    };
    let mut connections = tokio::task::JoinSet::new();
    loop {
        let (client, _) = listener.accept().await.context("accept a connection")?;
        client.set_nodelay(true).context("set up a connection")?;
        let proxy = proxy.clone();
        connections.spawn(async move {
            // Errors are ignored: a failed connection is closed, which its client notices.
            let _ = proxy.connection(client).await;
        });
        while connections.try_join_next().is_some() {}
    }
}

impl Proxy {
    async fn connection(self, client: TcpStream) -> Result<()> {
        let sender = Arc::new(Mutex::new(None));
        let answer = service_fn(move |request| {
            let (this, sender) = (self.clone(), sender.clone());
            async move { this.answer(&sender, request).await }
        });
        hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(client), answer).await?;
        Ok(())
    }

    /// Returns the connection to the store; reuses the previous one if it is still open.
    async fn sender<'a>(&self, known: &'a mut Option<SendRequest<Slowed>>) -> Result<&'a mut SendRequest<Slowed>> {
        if let Some(sender) = known {
            let _ = sender.ready().await; // fails if the store has closed the connection
        }
        let open = known.take().filter(|sender| !sender.is_closed());
        let sender = match open {
            Some(sender) => sender,
            None => {
                let store = TcpStream::connect(&*self.to).await.context("connect to the store")?;
                store.set_nodelay(true)?;
                let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(store)).await?;
                tokio::spawn(connection);
                sender
            }
        };
        Ok(known.insert(sender))
    }

    async fn answer(
        &self,
        known: &Mutex<Option<SendRequest<Slowed>>>,
        request: Request<Incoming>,
    ) -> Result<Response<Slowed>, hyper::Error> {
        let due = Instant::now() + self.distance.delay(self.draws.normal());
        self.passed.requests.fetch_add(1, Ordering::Relaxed);
        let upload = self.distance.upload_bytes_per_second.map(|rate| (rate, self.line.clone()));
        let request = request.map(|body| self.slowed(body, upload));
        let response = match self.sender(&mut *known.lock().await).await {
            Ok(sender) => sender.send_request(request).await.map_err(anyhow::Error::from),
            Err(error) => Err(error),
        };
        sleep_until(due).await;
        match response {
            Ok(response) => Ok(response.map(|body| self.slowed(body, None))),
            // Reply like a load balancer without a backend.
            Err(_) => {
                let body = http_body_util::Empty::new().map_err(|never| match never {}).boxed();
                let mut response = Response::new(body);
                *response.status_mut() = StatusCode::BAD_GATEWAY;
                Ok(response)
            }
        }
    }

    /// Limits a body to the rate of a connection and, if given, to the rate of a shared link.
    fn slowed(&self, body: Incoming, shared: Option<(u64, Arc<std::sync::Mutex<Instant>>)>) -> Slowed {
        if body.is_end_stream() {
            return body.boxed();
        }
        let (distance, passed) = (self.distance, self.passed.clone());
        let frames = stream::unfold((body, Instant::now()), move |(mut body, mut free)| {
            let (passed, shared) = (passed.clone(), shared.clone());
            async move {
                let frame: Result<Frame<Bytes>, hyper::Error> = body.frame().await?;
                if let Ok(data) = frame.as_ref().map(|f| f.data_ref().map_or(0, Bytes::len)) {
                    passed.bytes.fetch_add(data as u64, Ordering::Relaxed);
                    free = free.max(Instant::now()) + Distance::time_of(data, distance.bytes_per_second);
                    if let Some((rate, line)) = shared {
                        let mut line = line.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                        *line = (*line).max(Instant::now()) + Distance::time_of(data, rate);
                        free = free.max(*line);
                    }
                    // Timers have millisecond resolution; shorter delays accumulate until the next frames.
                    if free.saturating_duration_since(Instant::now()) >= Duration::from_millis(1) {
                        sleep(free.saturating_duration_since(Instant::now())).await;
                    }
                }
                Some((frame, (body, free)))
            }
        });
        StreamBody::new(frames).boxed()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[test]
    fn delays_have_the_median_and_the_percentile_that_were_asked_for() {
        let draws = Draws(std::sync::Mutex::new(StdRng::seed_from_u64(1)));
        let distance = Distance::default();
        let mut delays: Vec<Duration> = (0..20_000).map(|_| distance.delay(draws.normal())).collect();
        delays.sort();
        let at = |share: f64| delays[(share * delays.len() as f64) as usize].as_secs_f64() * 1e3;
        assert!((24.0..26.0).contains(&at(0.5)), "{}", at(0.5));
        assert!((84.0..96.0).contains(&at(0.99)), "{}", at(0.99));
    }

    /// A server that answers every request on a connection with as many bytes as its path says.
    async fn store() -> (String, tokio::task::JoinHandle<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let service = service_fn(|request: Request<Incoming>| async move {
                    let n: usize = request.uri().path()[1..].parse().unwrap();
                    let sent = request.into_body().collect().await.unwrap().to_bytes().len();
                    let body = http_body_util::Full::new(Bytes::from(vec![b'x'; n + sent]));
                    Ok::<_, std::convert::Infallible>(Response::new(body))
                });
                let connection = hyper::server::conn::http1::Builder::new();
                tokio::spawn(connection.serve_connection(TokioIo::new(stream), service));
            }
        });
        (address, task)
    }

    async fn reply(stream: &mut TcpStream, request: &str, bytes: usize) {
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut all = Vec::new();
        while !(all.windows(4).any(|w| w == b"\r\n\r\n")
            && all.iter().rev().take_while(|b| **b == b'x').count() == bytes)
        {
            assert!(stream.read_buf(&mut all).await.unwrap() > 0, "{}", String::from_utf8_lossy(&all));
        }
        assert!(all.starts_with(b"HTTP/1.1 200"));
    }

    #[tokio::test]
    async fn what_passes_arrives_whole_no_sooner_and_no_faster_than_from_afar() {
        let (address, store) = store().await;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let near = listener.local_addr().unwrap();
        let median = Duration::from_millis(50);
        let distance = Distance { median, p99: median, bytes_per_second: 1_000_000, ..Distance::default() };
        let passed = Arc::new(Passed::default());
        let counted = passed.clone();
        let proxy = tokio::spawn(async move { serve(listener, &address, distance, 1, counted).await });
        let mut stream = TcpStream::connect(near).await.unwrap();
        let before = Instant::now();
        reply(&mut stream, "GET /10 HTTP/1.1\r\nhost: a\r\n\r\n", 10).await;
        assert!(before.elapsed() >= median);
        // 300 000 bytes there and back, on the same connection.
        let before = Instant::now();
        let body = "y".repeat(100_000);
        let request = format!("PUT /100000 HTTP/1.1\r\nhost: a\r\ncontent-length: 100000\r\n\r\n{body}");
        reply(&mut stream, &request, 200_000).await;
        assert!(before.elapsed() >= Duration::from_millis(280), "{:?}", before.elapsed());
        assert_eq!((passed.requests(), passed.bytes()), (2, 300_010));
        proxy.abort();
        store.abort();
    }

    #[tokio::test]
    async fn all_uploads_share_one_line_and_replies_do_not() {
        let (address, store) = store().await;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let near = listener.local_addr().unwrap();
        let median = Duration::from_millis(1);
        let fast =
            Distance { median, p99: median, bytes_per_second: 1_000_000_000, upload_bytes_per_second: Some(1_000_000) };
        let proxy = tokio::spawn(async move { serve(listener, &address, fast, 1, Arc::new(Passed::default())).await });
        let before = Instant::now();
        let uploads = (0..4).map(|_| async {
            let mut stream = TcpStream::connect(near).await.unwrap();
            let body = "y".repeat(100_000);
            let request = format!("PUT /0 HTTP/1.1\r\nhost: a\r\ncontent-length: 100000\r\n\r\n{body}");
            reply(&mut stream, &request, 100_000).await;
        });
        futures::future::join_all(uploads).await;
        assert!(before.elapsed() >= Duration::from_millis(380), "{:?}", before.elapsed());
        let before = Instant::now();
        let mut stream = TcpStream::connect(near).await.unwrap();
        reply(&mut stream, "GET /1000000 HTTP/1.1\r\nhost: a\r\n\r\n", 1_000_000).await;
        assert!(before.elapsed() < Duration::from_millis(900), "{:?}", before.elapsed());
        proxy.abort();
        store.abort();
    }
}
