//! The connections of this node: listed by `system.connections` and SHOW CONNECTIONS, ended by KILL CONNECTION.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Instant, SystemTime, UNIX_EPOCH},
};

use arrow::{
    array::{ArrayRef, Int64Array, RecordBatch, StringArray, TimestampMillisecondArray},
    datatypes::{DataType, Field, Schema, TimeUnit},
};
use parking_lot::Mutex;
use tidelake_format::{Error, Result, access::Principal};
use tokio_util::sync::CancellationToken;

/// The connections of this node. Cheap to clone.
#[derive(Clone, Default)]
pub struct Connections(Arc<Inner>);

#[derive(Default)]
struct Inner {
    next: AtomicU64,
    entries: Mutex<BTreeMap<u64, Arc<Entry>>>,
}

struct Entry {
    peer: SocketAddr,
    began: SystemTime,
    clock: Instant,
    requests: AtomicU64,
    /// The user of the last authenticated request.
    user: Mutex<Option<Arc<str>>>,
    killed: CancellationToken,
}

/// A connection. It is listed until the last clone of this is dropped or until it is killed.
#[derive(Clone)]
pub struct Connection(Arc<Listed>);

struct Listed {
    connections: Connections,
    id: u64,
    entry: Arc<Entry>,
}

impl Connections {
    /// Registers a new connection.
    pub fn begin(&self, peer: SocketAddr) -> Connection {
        let id = self.0.next.fetch_add(1, Relaxed) + 1;
        let entry = Arc::new(Entry {
            peer,
            began: SystemTime::now(),
            clock: Instant::now(),
            requests: AtomicU64::new(0),
            user: Mutex::default(),
            killed: CancellationToken::new(),
        });
        self.0.entries.lock().insert(id, entry.clone());
        Connection(Arc::new(Listed { connections: self.clone(), id, entry }))
    }

    /// Number of open connections.
    pub fn count(&self) -> usize {
        self.0.entries.lock().len()
    }

    /// Ends a connection. Only administrators may, as one connection may serve several users.
    ///
    /// # Errors
    /// NotFound for an unknown ID; Forbidden.
    pub(crate) fn kill(&self, id: &str, by: &Principal) -> Result<()> {
        let unknown = || {
            Error::not_found("no such connection to this node; SHOW CONNECTIONS lists all connections")
                .with("connection", id)
        };
        by.check_admin("end connections")?;
        let number: u64 = id.parse().map_err(|_| unknown())?;
        // Removed before the connection has closed: its client may notice the close before the list would.
        self.0.entries.lock().remove(&number).ok_or_else(unknown)?.killed.cancel();
        Ok(())
    }

    /// One row for each connection that the principal may see.
    pub(super) fn table(&self, by: &Principal) -> datafusion::common::Result<RecordBatch> {
        let entries = self.0.entries.lock();
        let seen: Vec<(u64, Arc<Entry>)> =
            entries.iter().filter(|(_, e)| e.is_known_to(by)).map(|(id, e)| (*id, e.clone())).collect();
        drop(entries);
        let time = DataType::Timestamp(TimeUnit::Millisecond, None);
        let fields = vec![
            Field::new("id", DataType::Utf8, false),
            Field::new("address", DataType::Utf8, false),
            Field::new("user", DataType::Utf8, true),
            Field::new("started", time, false),
            Field::new("elapsed_ms", DataType::Int64, false),
            Field::new("requests", DataType::Int64, false),
        ];
        let number = |n: u128| i64::try_from(n).unwrap_or(i64::MAX);
        let started =
            seen.iter().map(|(_, e)| number(e.began.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis()));
        let columns: Vec<ArrayRef> = vec![
            Arc::new(StringArray::from_iter_values(seen.iter().map(|(id, _)| id.to_string()))),
            Arc::new(StringArray::from_iter_values(seen.iter().map(|(_, e)| e.peer.to_string()))),
            Arc::new(seen.iter().map(|(_, e)| e.user.lock().clone()).collect::<StringArray>()),
            Arc::new(TimestampMillisecondArray::from_iter_values(started)),
            Arc::new(Int64Array::from_iter_values(seen.iter().map(|(_, e)| number(e.clock.elapsed().as_millis())))),
            Arc::new(Int64Array::from_iter_values(seen.iter().map(|(_, e)| number(e.requests.load(Relaxed).into())))),
        ];
        Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)?)
    }
}

impl Entry {
    fn is_known_to(&self, principal: &Principal) -> bool {
        principal.is_admin() || self.user.lock().as_deref().is_some_and(|user| principal.user() == Some(user))
    }
}

impl Connection {
    /// Counts a request.
    pub fn asked(&self) {
        self.0.entry.requests.fetch_add(1, Relaxed);
    }

    /// Records the user of the last request.
    pub fn of(&self, principal: &Principal) {
        let mut user = self.0.entry.user.lock();
        if user.as_deref() != principal.user() {
            *user = principal.user().map(Arc::from);
        }
    }

    /// Resolves when the connection was killed.
    pub fn killed(&self) -> impl Future<Output = ()> + Send + 'static {
        self.0.entry.killed.clone().cancelled_owned()
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.connections.0.entries.lock().remove(&self.id);
    }
}
