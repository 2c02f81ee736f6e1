//! Statements that clients follow: counts of their work while they run, and how they ended.

use std::{
    collections::VecDeque,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use serde::Serialize;
use tidelake_format::{Error, Kind, Result, access::Principal};
use tidelake_protocol::http::api::kind_name;
use tokio::sync::watch;

/// States of a statement: waits for a permit, runs, waits for its client, or is being prepared for a later execution.
pub(crate) const STATES: [&str; 4] = ["waiting", "running", "stalled", "planning"];

/// Maximum bytes of an ID that a client chooses.
const MAX_ID: usize = 64;
/// How long the end of a statement is kept.
const KEPT: Duration = Duration::from_secs(60);
/// Maximum number of ended statements that are kept.
const MOST_ENDED: usize = 256;
/// Maximum number of followers of all statements of a node.
const MOST_FOLLOWERS: usize = 256;
/// Maximum bytes of the message of an error that is kept.
const MOST_MESSAGE: usize = 4 << 10;

/// Work of one statement. SHOW QUERIES, `system.queries` and followers read the same counts.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// Index into [`STATES`].
    pub(crate) state: AtomicU8,
    /// Rows sent to the client.
    pub(crate) rows: AtomicU64,
    /// Rows that scans have read, before filters.
    pub(crate) rows_read: AtomicU64,
    /// Rows that the scans begun so far will read if no limit ends them early.
    pub(crate) rows_to_read: AtomicU64,
    /// Bytes read from the store.
    pub(crate) bytes_read: AtomicU64,
    /// Requests to the store.
    pub(crate) requests: AtomicU64,
    /// KILL ended the statement.
    pub(crate) killed: AtomicBool,
    /// Distinguishes the statement's uses of cached pages from those of others.
    pass: OnceLock<u64>,
}

/// Returns a number that it returned for no other pass over files.
pub(crate) fn next_pass() -> u64 {
    static PASSES: AtomicU64 = AtomicU64::new(0);
    PASSES.fetch_add(1, Relaxed)
}

impl Progress {
    /// The number of the statement's passes over files.
    pub(crate) fn pass(&self) -> u64 {
        *self.pass.get_or_init(next_pass)
    }

    /// Counts requests to the store and their bytes.
    pub(crate) fn read(&self, requests: u64, bytes: u64) {
        self.requests.fetch_add(requests, Relaxed);
        self.bytes_read.fetch_add(bytes, Relaxed);
    }
}

/// How a statement ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum End {
    /// All rows were computed and handed to the connection.
    Done,
    /// The client closed the connection.
    Cancelled,
    /// KILL ended it.
    Killed,
    /// It failed: kind and message of the error.
    Failed { kind: &'static str, message: String },
}

impl End {
    fn of(error: &Error, killed: bool) -> Self {
        if killed && error.kind() == Kind::Conflict {
            return End::Killed;
        }
        let mut message = error.to_string();
        message.truncate(message.floor_char_boundary(MOST_MESSAGE));
        End::Failed { kind: kind_name(error.kind()), message }
    }
}

/// The counts of one moment, as an event.
#[derive(Debug, Serialize)]
pub(crate) struct Counts {
    id: Arc<str>,
    state: &'static str,
    elapsed_ms: u64,
    rows: u64,
    rows_read: u64,
    rows_to_read: u64,
    bytes_read: u64,
    requests: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Fault>,
}

#[derive(Debug, Serialize)]
struct Fault {
    kind: &'static str,
    message: String,
}

/// A request with a statement that clients may follow.
#[derive(Debug)]
pub struct Tracked {
    id: Arc<str>,
    principal: Principal,
    began: Instant,
    pub(crate) progress: Arc<Progress>,
    /// The end and the time that the statement took.
    end: watch::Sender<Option<(End, Duration)>>,
}

impl Tracked {
    /// The counts of now.
    pub(crate) fn counts(&self) -> Counts {
        let ended = self.end.borrow().clone();
        let count = |counter: &AtomicU64| counter.load(Relaxed);
        let progress = &self.progress;
        let took = ended.as_ref().map_or_else(|| self.began.elapsed(), |(_, took)| *took);
        let state = match &ended {
            None => STATES.get(usize::from(progress.state.load(Relaxed))).copied().unwrap_or_default(),
            Some((End::Done, _)) => "done",
            Some((End::Cancelled, _)) => "cancelled",
            Some((End::Killed, _)) => "killed",
            Some((End::Failed { .. }, _)) => "failed",
        };
        let error = match ended {
            Some((End::Failed { kind, message }, _)) => Some(Fault { kind, message }),
            _ => None,
        };
        Counts {
            id: self.id.clone(),
            state,
            elapsed_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
            rows: count(&progress.rows),
            rows_read: count(&progress.rows_read),
            rows_to_read: count(&progress.rows_to_read),
            bytes_read: count(&progress.bytes_read),
            requests: count(&progress.requests),
            error,
        }
    }

    /// Whether the statement has ended.
    pub(crate) fn is_ended(&self) -> bool {
        self.end.borrow().is_some()
    }

    /// Resolves when the statement has ended.
    pub(crate) async fn ended(&self) {
        let _ = self.end.subscribe().wait_for(Option::is_some).await; // the sender is in `self`
    }
}

/// The tracked statements of a node. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tracking(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    statements: Mutex<Statements>,
    followers: AtomicUsize,
}

#[derive(Debug, Default)]
struct Statements {
    running: Vec<Arc<Tracked>>,
    /// Those of the last minute, oldest first.
    ended: VecDeque<(Instant, Arc<Tracked>)>,
}

impl Tracking {
    /// Tracks a statement of a principal until the result is dropped. `id` is fresh, or chosen by the client.
    ///
    /// # Errors
    /// Conflict if another running statement of the principal's user has the ID.
    pub(crate) fn begin(&self, id: Arc<str>, principal: &Principal) -> Result<Underway> {
        let mut statements = self.0.statements.lock();
        let same = |other: &&Arc<Tracked>| other.id == id && other.principal.user() == principal.user();
        if statements.running.iter().any(|other| same(&other)) {
            return Err(Error::conflict("another running query has this ID: choose another one").with("query", &id));
        }
        let tracked = Arc::new(Tracked {
            id,
            principal: principal.clone(),
            began: Instant::now(),
            progress: Arc::default(),
            end: watch::channel(None).0,
        });
        statements.running.push(tracked.clone());
        Ok(Underway { tracking: self.clone(), tracked })
    }

    /// Follows the statement of an ID that `by` may end: the running one, else the last that ended.
    ///
    /// # Errors
    /// NotFound if there is none; Unavailable if the node has too many followers.
    pub(crate) fn follow(&self, id: &str, by: &Principal) -> Result<Follower> {
        let statements = self.0.statements.lock();
        let is_meant = |tracked: &&Arc<Tracked>| *tracked.id == *id && by.may_end(&tracked.principal);
        let recent = statements.ended.iter().rev().filter(|(at, _)| at.elapsed() < KEPT).map(|(_, tracked)| tracked);
        let found = statements.running.iter().chain(recent).find(is_meant).cloned();
        let tracked = found.ok_or_else(|| {
            Error::not_found("no such query of an HTTP client runs on this node, or ended in the last minute")
                .with("query", id)
        })?;
        drop(statements);
        let follower = Follower { tracking: self.clone(), tracked };
        if self.0.followers.fetch_add(1, Relaxed) >= MOST_FOLLOWERS {
            return Err(Error::unavailable("too many clients follow queries of this node")
                .with("expected", format!("at most {MOST_FOLLOWERS}")));
        }
        Ok(follower)
    }
}

/// Checks an ID that a client chose for its statement.
///
/// # Errors
/// Invalid, with what is expected and found.
pub(crate) fn check_id(id: &str) -> Result<()> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if !id.is_empty() && id.len() <= MAX_ID && id.bytes().all(is_plain) {
        return Ok(());
    }
    Err(Error::invalid("invalid ID of a query: expected 1 to 64 letters, digits, '-', '_' or '.'")
        .with("found", crate::error::shorten(id)))
}

/// A tracked statement. Dropping it before its end means that the client is gone.
#[derive(Debug)]
pub(crate) struct Underway {
    tracking: Tracking,
    tracked: Arc<Tracked>,
}

impl Underway {
    /// What followers see, for the session of the statement.
    pub(crate) fn tracked(&self) -> Arc<Tracked> {
        self.tracked.clone()
    }

    /// Ends the statement; only the first call counts.
    pub(crate) fn end(&self, result: Result<(), &Error>) {
        let killed = self.tracked.progress.killed.load(Relaxed);
        self.set(result.map_or_else(|error| End::of(error, killed), |()| End::Done));
    }

    fn set(&self, end: End) {
        let took = self.tracked.began.elapsed();
        self.tracked.end.send_if_modified(|known| known.is_none() && known.replace((end, took)).is_none());
    }
}

impl Drop for Underway {
    fn drop(&mut self) {
        let killed = self.tracked.progress.killed.load(Relaxed);
        self.set(if killed { End::Killed } else { End::Cancelled });
        let mut statements = self.tracking.0.statements.lock();
        statements.running.retain(|other| !Arc::ptr_eq(other, &self.tracked));
        while statements.ended.len() >= MOST_ENDED
            || statements.ended.front().is_some_and(|(at, _)| at.elapsed() >= KEPT)
        {
            statements.ended.pop_front();
        }
        statements.ended.push_back((Instant::now(), self.tracked.clone()));
    }
}

/// A client that follows a statement; counted until it is dropped.
#[derive(Debug)]
pub(crate) struct Follower {
    tracking: Tracking,
    pub(crate) tracked: Arc<Tracked>,
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.tracking.0.followers.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use tidelake_format::access::{Grants, Rights};

    use super::*;

    fn user(name: &str) -> Principal {
        Principal::new(name, Rights::Granted(Grants::new()))
    }

    fn shown(tracked: &Tracked) -> serde_json::Value {
        serde_json::to_value(tracked.counts()).unwrap()
    }

    #[test]
    fn a_user_follows_their_own_statement_and_learns_its_end() {
        let tracking = Tracking::default();
        let (ada, bob) = (user("ada"), user("bob"));
        let admin = Principal::new("root", Rights::Admin);
        let first = tracking.begin("x".into(), &ada).unwrap();
        assert_eq!(tracking.begin("x".into(), &ada).unwrap_err().kind(), Kind::Conflict);
        let other = tracking.begin("x".into(), &bob).unwrap();
        first.tracked.progress.read(3, 70);
        other.tracked.progress.read(1, 5);
        let followed = tracking.follow("x", &ada).unwrap();
        assert_eq!(shown(&followed.tracked)["bytes_read"], 70);
        assert_eq!(shown(&tracking.follow("x", &bob).unwrap().tracked)["requests"], 1);
        assert_eq!(tracking.follow("x", &user("eve")).unwrap_err().kind(), Kind::NotFound);
        assert_eq!(tracking.follow("y", &admin).unwrap_err().kind(), Kind::NotFound);
        assert!(tracking.follow("x", &admin).is_ok());
        first.end(Err(&Error::unavailable("too late")));
        first.end(Ok(()));
        assert!(followed.tracked.is_ended());
        drop(first);
        // The end is kept, and the ID is free.
        let ended = shown(&tracking.follow("x", &ada).unwrap().tracked);
        assert_eq!((&ended["state"], &ended["error"]["kind"]), (&"failed".into(), &"unavailable".into()));
        assert_eq!(ended["error"]["message"], "too late");
        let again = tracking.begin("x".into(), &ada).unwrap();
        assert_eq!(shown(&tracking.follow("x", &ada).unwrap().tracked)["state"], "waiting");
        drop(again);
        assert_eq!(shown(&tracking.follow("x", &ada).unwrap().tracked)["state"], "cancelled");
        other.tracked.progress.killed.store(true, Relaxed);
        drop(other);
        assert_eq!(shown(&tracking.follow("x", &bob).unwrap().tracked)["state"], "killed");
    }

    #[test]
    fn ended_statements_and_followers_are_limited() {
        let tracking = Tracking::default();
        for number in 0..MOST_ENDED + 10 {
            let id = format!("q{number}");
            tracking.begin(id.into(), &user("ada")).unwrap().end(Ok(()));
        }
        assert_eq!(tracking.0.statements.lock().ended.len(), MOST_ENDED);
        let by = user("ada");
        assert_eq!(tracking.follow("q9", &by).unwrap_err().kind(), Kind::NotFound);
        let all: Vec<Follower> = (0..MOST_FOLLOWERS).map(|_| tracking.follow("q20", &by).unwrap()).collect();
        assert_eq!(tracking.follow("q20", &by).unwrap_err().kind(), Kind::Unavailable);
        drop(all);
        assert!(tracking.follow("q20", &by).is_ok());
    }

    #[test]
    fn ids_are_short_and_plain() {
        for good in ["a", "00000000-0000-4000-8000-000000000000", "a_b.c", &"x".repeat(MAX_ID)] {
            check_id(good).unwrap();
        }
        for wrong in ["", "a b", "a/b", "ä", "a\n", &"x".repeat(MAX_ID + 1)] {
            assert_eq!(check_id(wrong).unwrap_err().kind(), Kind::Invalid, "{wrong:?}");
        }
    }
}
