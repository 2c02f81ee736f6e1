//! Line protocol over UDP, as in InfluxDB's UDP service: there are no replies, so clients do not learn of losses.
//!
//! Received datagrams are written together, as under `no_sync`. During a write more datagrams arrive in the socket's buffer, so
//! that batches grow with the load and no row waits for a batch to fill. The system drops datagrams that do not fit in that
//! buffer. When the write buffer is full or the store does not respond, the batch is retried for as long as an HTTP request
//! would wait; then it is counted as lost, and logged.

use std::{io, sync::Arc, time::Duration};

use bytes::{Bytes, BytesMut};
use metrics::counter;
use tidelake_format::access::{Named, Principal};
use tokio::{
    net::UdpSocket,
    sync::watch,
    time::{Instant, sleep},
};

use crate::{
    Result,
    config::millis,
    decode::line_protocol::LinePrecision,
    metrics::{UDP_BYTES, UDP_DATAGRAMS, UDP_LOST_BYTES},
    write::{Ingest, Written},
};

/// Largest datagram, in bytes.
const DATAGRAM: usize = 64 << 10;
/// Bytes of datagrams after which a batch is written, even if more have arrived.
const BATCH: usize = 1 << 20;
/// Most datagrams in a batch: some are empty.
const BATCH_DATAGRAMS: usize = 64 << 10;
/// A batch takes at most this fraction of the write buffer, which its decoded rows share.
const OF_BUFFER: usize = 8;
/// Longest wait between two attempts to write a batch.
const RETRY_MAX: Duration = Duration::from_secs(1);
/// After a stop, the socket is read until no datagram arrives for `LAST_LOOK`, and for at most `LONGEST_LAST_LOOK`.
const LAST_LOOK: Duration = Duration::from_millis(10);
const LONGEST_LAST_LOOK: Duration = Duration::from_secs(1);
/// Wait after a socket error.
const AFTER_ERROR: Duration = Duration::from_millis(50);
/// Time between two log lines about failures of the same kind.
const COMPLAIN_EVERY: Duration = Duration::from_secs(10);

/// Destination of the rows of datagrams.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UdpTarget {
    /// The database.
    pub database: String,
    /// The unit of the rows' timestamps.
    pub precision: LinePrecision,
}

impl UdpTarget {
    /// Datagrams carry no credentials: any client that reaches the socket may write to this database, and do nothing else.
    fn principal(&self) -> Principal {
        Principal::service("service:udp", Named::write([&self.database]))
    }
}

/// Writes datagrams received at a socket until `stopped` turns true; then the datagrams received by then. Socket errors are
/// logged and do not end the loop.
pub async fn serve(socket: UdpSocket, ingest: Ingest, target: UdpTarget, mut stopped: watch::Receiver<bool>) {
    let ingest = ingest.for_principal(target.principal());
    let mut wrong = Faults::new("rejected lines received over UDP");
    let mut lost = Faults::new("bytes of lines received over UDP were lost");
    let mut broken = Faults::new("cannot read from the UDP socket");
    let most = BATCH.min(ingest.config().buffer_bytes / OF_BUFFER);
    let mut over: Option<Instant> = None;
    while over.is_none_or(|at| at.elapsed() <= LONGEST_LAST_LOOK) {
        let ready = tokio::select! {
            ready = socket.readable() => ready,
            // `stopped` turned true, or its sender is gone. Datagrams that have arrived become readable a little later.
            _ = stopped.wait_for(|stopped| *stopped), if over.is_none() => {
                over = Some(Instant::now());
                continue;
            }
            () = sleep(LAST_LOOK), if over.is_some() => break,
        };
        let mut batch = Batch::default();
        if let Err(error) = ready.and_then(|()| batch.receive(&socket, most)) {
            broken.add(1, || error.to_string());
            sleep(AFTER_ERROR).await;
        }
        let bytes = batch.bytes.len() as u64;
        if bytes == 0 {
            continue;
        }
        match batch.write(&ingest, &target).await {
            Ok(written) => {
                if let Some(first) = written.rejected.first() {
                    wrong.add(written.dropped, || format!("{}: {:?}", first.reason, first.text));
                }
            }
            Err(error) => {
                counter!(UDP_LOST_BYTES).increment(bytes);
                lost.add(bytes, || error.to_string());
            }
        }
    }
    [wrong, lost, broken].iter_mut().for_each(Faults::tell);
}

/// Consecutive datagrams.
#[derive(Debug, Default)]
struct Batch {
    bytes: BytesMut,
    /// The end of each datagram in `bytes`.
    ends: Vec<usize>,
}

impl Batch {
    /// Receives datagrams that have arrived.
    fn receive(&mut self, socket: &UdpSocket, most: usize) -> io::Result<()> {
        while self.bytes.len() < most && self.ends.len() < BATCH_DATAGRAMS {
            self.bytes.reserve(DATAGRAM);
            match socket.try_recv_buf(&mut self.bytes) {
                Ok(bytes) => {
                    counter!(UDP_DATAGRAMS).increment(1);
                    counter!(UDP_BYTES).increment(bytes as u64);
                    self.ends.push(self.bytes.len());
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Writes the batch, with retries for as long as a request waits for the store.
    async fn write(self, ingest: &Ingest, target: &UdpTarget) -> Result<Written> {
        let (bytes, ends): (Bytes, Arc<[usize]>) = (self.bytes.freeze(), self.ends.into());
        let until = Instant::now() + millis(ingest.config().confirm_ms);
        let mut wait = Duration::from_millis(10);
        loop {
            match ingest.write_datagrams(&target.database, bytes.clone(), ends.clone(), target.precision).await {
                Err(error) if error.kind().is_retryable() && Instant::now() + wait < until => {
                    sleep(wait).await;
                    wait = (wait * 2).min(RETRY_MAX);
                }
                result => return result,
            }
        }
    }
}

/// Failures of one kind, logged at intervals: any host can send anything to a UDP port.
#[derive(Debug)]
struct Faults {
    what: &'static str,
    /// Number of failures since the last log line, and the reason of the first.
    count: u64,
    reason: String,
    told: Option<Instant>,
}

impl Faults {
    fn new(what: &'static str) -> Self {
        Self { what, count: 0, reason: String::new(), told: None }
    }

    fn add(&mut self, count: u64, reason: impl FnOnce() -> String) {
        if self.count == 0 {
            self.reason = reason();
        }
        self.count += count;
        if self.told.is_none_or(|at| at.elapsed() >= COMPLAIN_EVERY) {
            self.tell();
        }
    }

    fn tell(&mut self) {
        if self.count > 0 {
            tracing::warn!(count = self.count, reason = self.reason, "{}", self.what);
            (self.count, self.told) = (0, Some(Instant::now()));
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::net::SocketAddr;

    use super::*;
    use crate::{
        config::IngestConfig,
        testing::{config, nano, rows},
    };
    use tidelake_format::store::Store;

    struct Listening {
        store: Store,
        ingest: Ingest,
        address: SocketAddr,
        stop: watch::Sender<bool>,
        task: tokio::task::JoinHandle<()>,
    }

    async fn listening(config: IngestConfig, database: &str) -> Listening {
        let store = Store::in_memory();
        let ingest = nano(&store, config).await;
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap();
        let (stop, stopped) = watch::channel(false);
        let target = UdpTarget { database: database.into(), precision: LinePrecision::Milli };
        let task = tokio::spawn(serve(socket, ingest.clone(), target, stopped));
        Listening { store, ingest, address, stop, task }
    }

    impl Listening {
        /// Stops the listener as a server does, and returns the rows of a table.
        async fn rows(self, database: &str, table: &str) -> Vec<(i64, String)> {
            self.stop.send_replace(true);
            self.task.await.unwrap();
            self.ingest.shutdown().await;
            let rows = rows(&self.store, database, table, &[]).await;
            rows.into_iter().map(|((_, ts), values)| (ts, values["v"].clone())).collect()
        }
    }

    #[tokio::test]
    async fn datagrams_are_written_without_their_invalid_lines() {
        let listening = listening(config(), "db").await;
        let client = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let datagrams: [&[u8]; 7] = [
            b"m,k=a v=1 1000\nm,k=a v=2 2000",
            b"m,k=a v=3 3000\n",
            b"",
            b"no line at all\nm,k=a v=4 4000\n\xff\xfe",
            b"\n\n# a comment\n",
            // An unclosed quote does not affect the datagrams after it.
            b"m,k=a s=\"disk failure 4500",
            b"m,k=a v=5,s=\"b\" 5000\nm,k=a v=6 6000",
        ];
        for datagram in datagrams {
            client.send_to(datagram, listening.address).unwrap();
        }
        let expected: Vec<(i64, String)> = (1..=6).map(|n| (n * 1_000_000_000, format!("{n}.0"))).collect();
        assert_eq!(listening.rows("db", "m").await, expected);
    }

    #[tokio::test]
    async fn datagrams_in_the_socket_buffer_are_written_before_the_stop() {
        // The buffer fits all datagrams sent below, but only batches of one: rows wait for the buffer, and are not lost.
        let small = IngestConfig { buffer_bytes: 64 << 10, group_bytes: 16 << 10, body_bytes: 64 << 10, ..config() };
        let listening = listening(small, "db").await;
        let client = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        for n in 0..200_i64 {
            let lines: String = (0..10).map(|i| format!("m,k=a v={n} {}\n", n * 10 + i)).collect();
            client.send_to(lines.as_bytes(), listening.address).unwrap();
            // The system's buffer holds some hundred datagrams.
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let rows = listening.rows("db", "m").await;
        assert_eq!(rows.len(), 2_000);
        assert!(
            rows.iter().enumerate().all(|(i, (ts, v))| *ts == i as i64 * 1_000_000 && *v == format!("{}.0", i / 10))
        );
    }

    #[tokio::test]
    async fn the_listener_survives_a_database_that_cannot_be_created() {
        let listening = listening(IngestConfig { auto_create_database: false, ..config() }, "absent").await;
        let client = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        client.send_to(b"m,k=a v=1 1000", listening.address).unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
        let create = "create database absent precision 'ns' keep 73000d";
        listening.ingest.execute(None, create, None).await.unwrap();
        client.send_to(b"m,k=a v=2 2000", listening.address).unwrap();
        assert_eq!(listening.rows("absent", "m").await, [(2_000_000_000, "2.0".to_owned())]);
    }

    #[test]
    fn datagrams_may_write_to_their_database_and_do_nothing_else() {
        let principal = UdpTarget { database: "udp".into(), precision: LinePrecision::Nano }.principal();
        assert!(principal.check_create("udp").is_ok() && principal.check_create("other").is_err());
        assert!(!principal.is_admin());
    }
}
