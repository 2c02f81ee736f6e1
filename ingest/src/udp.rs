//! Line protocol over UDP, as InfluxDB's UDP service takes it: nobody is answered, so nobody knows what was lost.
//!
//! The datagrams that have arrived are written together, as `no_sync` does: while they are, more arrive in the socket's
//! buffer, so that batches are as large as the load asks for, and no row waits for a batch to fill. What does not fit in
//! that buffer the system drops. When the write buffer is full or the store silent, the batch is tried again for as long
//! as an HTTP request would wait; then it is counted as lost, and logged.

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

/// A datagram is at most as large.
const DATAGRAM: usize = 64 << 10;
/// Datagrams are written when they are together at least as large, even though more have arrived.
const BATCH: usize = 1 << 20;
/// Datagrams of a batch, at most: some are empty.
const BATCH_DATAGRAMS: usize = 64 << 10;
/// A batch is no more than this part of the write buffer, which its decoded rows share.
const OF_BUFFER: usize = 8;
/// The longest wait between two attempts to write a batch.
const RETRY_MAX: Duration = Duration::from_secs(1);
/// After the stop a socket is listened to until nothing came for so long, and no longer than the other.
const LAST_LOOK: Duration = Duration::from_millis(10);
const LONGEST_LAST_LOOK: Duration = Duration::from_secs(1);
/// The wait after an error of the socket.
const AFTER_ERROR: Duration = Duration::from_millis(50);
/// Time between two lines in the log about what was not written, of each kind.
const COMPLAIN_EVERY: Duration = Duration::from_secs(10);

/// Where rows of datagrams go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UdpTarget {
    /// The database.
    pub database: String,
    /// The unit of their timestamps.
    pub precision: LinePrecision,
}

impl UdpTarget {
    /// Datagrams bring no credentials: whoever reaches the socket may write to this database, and do nothing else.
    fn principal(&self) -> Principal {
        Principal::service("service:udp", Named::write([&self.database]))
    }
}

/// Writes what arrives at a socket until `stopped` turns true; then what has arrived by then. What the system says of the
/// socket is logged, and the socket listened to on.
pub async fn serve(socket: UdpSocket, ingest: Ingest, target: UdpTarget, mut stopped: watch::Receiver<bool>) {
    let ingest = ingest.for_principal(target.principal());
    let mut wrong = Faults::new("lines that came over UDP are wrong");
    let mut lost = Faults::new("bytes of lines that came over UDP are lost");
    let mut broken = Faults::new("the UDP socket cannot be read");
    let most = BATCH.min(ingest.config().buffer_bytes / OF_BUFFER);
    let mut over: Option<Instant> = None;
    while over.is_none_or(|at| at.elapsed() <= LONGEST_LAST_LOOK) {
        let ready = tokio::select! {
            ready = socket.readable() => ready,
            // Told so, or the one who would tell is gone. What has arrived is known to be there a little later.
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

/// Datagrams one after the other.
#[derive(Debug, Default)]
struct Batch {
    bytes: BytesMut,
    /// Where each of them ends.
    ends: Vec<usize>,
}

impl Batch {
    /// Takes datagrams that have arrived.
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

    /// Writes it, however often that takes within the time that a request waits for the store.
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

/// Faults of one kind, told now and then: anybody can send anything to a UDP port.
#[derive(Debug)]
struct Faults {
    what: &'static str,
    /// How many since they were told the last time, and the first of them.
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
        /// Stops it as a server does, and gives the rows of a table.
        async fn rows(self, database: &str, table: &str) -> Vec<(i64, String)> {
            self.stop.send_replace(true);
            self.task.await.unwrap();
            self.ingest.shutdown().await;
            let rows = rows(&self.store, database, table, &[]).await;
            rows.into_iter().map(|((_, ts), values)| (ts, values["v"].clone())).collect()
        }
    }

    #[tokio::test]
    async fn datagrams_are_written_whole_and_their_wrong_lines_left_out() {
        let listening = listening(config(), "db").await;
        let client = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let datagrams: [&[u8]; 7] = [
            b"m,k=a v=1 1000\nm,k=a v=2 2000",
            b"m,k=a v=3 3000\n",
            b"",
            b"no line at all\nm,k=a v=4 4000\n\xff\xfe",
            b"\n\n# a comment\n",
            // A quote that is never closed takes nothing of the datagrams after it.
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
    async fn every_datagram_that_the_socket_held_is_written_by_the_time_it_stops() {
        // Room for what is sent below, and for batches of one: rows wait for the buffer, and are not lost.
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
    async fn a_database_that_cannot_be_made_loses_rows_and_not_the_listener() {
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
