//! The store: objects in memory, a clock of its own that ticks, and the plan of what befalls each request.

use std::{collections::BTreeMap, time::Duration};

use bytes::Bytes;
use object_store::{Error, ObjectMeta, Result, path::Path};
use parking_lot::Mutex;
use rand::{Rng, SeedableRng, rngs::StdRng};
use tokio::time::Instant;
use xxhash_rust::xxh3::Xxh3;

/// What every simulation starts at, in milliseconds since the epoch.
pub const EPOCH_MS: i64 = 1_700_000_000_000;
/// The longest that a request is on its way.
pub const LONGEST_FLIGHT: Duration = Duration::from_secs(90);

/// What a request does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Creates an object.
    Put,
    /// Reads one.
    Get,
    /// Lists a page.
    List,
    /// Deletes one.
    Delete,
}

/// What befalls a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// 500 without any effect.
    Error500,
    /// 503 without any effect.
    Error503,
    /// 429 without any effect.
    Error429,
    /// 409: another request on this key was in progress; no effect.
    Conflict409,
    /// It takes effect, and the client repeated it after a 500: 412.
    Repeated412,
    /// It takes effect, and its reply is lost.
    LostReply,
    /// It takes so long that the client may have given up when it takes effect.
    Late,
    /// A read gives less than there is.
    Truncated,
}

/// The course of one request.
#[derive(Debug, Clone, Copy)]
pub struct Course {
    /// What befalls it.
    pub fault: Option<Fault>,
    /// How long it takes to the store.
    pub there: Duration,
    /// How long the reply takes back.
    pub back: Duration,
    /// Which part of a truncated object arrives, in 1024ths.
    pub part: u64,
}

#[derive(Debug, Clone)]
struct Object {
    bytes: Bytes,
    modified_ms: i64,
}

/// How often which fault strikes, per mille of requests.
#[derive(Debug, Clone, Copy, Default)]
pub struct Weather {
    /// Faults of all kinds but truncated reads.
    pub faults: u32,
    /// Truncated reads.
    pub truncated: u32,
    /// The longest usual latency, each way, in milliseconds.
    pub latency_ms: u64,
}

/// The store.
#[derive(Debug)]
pub struct Server {
    start: Instant,
    tick_ms: i64,
    page: usize,
    state: Mutex<State>,
}

struct State {
    objects: BTreeMap<String, Object>,
    rng: StdRng,
    weather: Weather,
    faults: BTreeMap<&'static str, u64>,
    trace: Xxh3,
    lines: Option<Vec<String>>,
    requests: u64,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").field("objects", &self.objects.len()).finish_non_exhaustive()
    }
}

impl Server {
    /// An empty store whose clock shows multiples of `tick_ms` and whose lists have `page` keys a page.
    pub fn new(seed: u64, tick_ms: i64, page: usize, keeps_lines: bool) -> Self {
        let state = State {
            objects: BTreeMap::new(),
            rng: StdRng::seed_from_u64(seed),
            weather: Weather { latency_ms: 20, ..Weather::default() },
            faults: BTreeMap::new(),
            trace: Xxh3::new(),
            lines: keeps_lines.then(Vec::new),
            requests: 0,
        };
        Self { start: Instant::now(), tick_ms, page, state: Mutex::new(state) }
    }

    /// Milliseconds since the start of the run.
    pub fn elapsed_ms(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// The true time, in milliseconds since the epoch.
    pub fn now_ms(&self) -> i64 {
        EPOCH_MS.saturating_add(i64::try_from(self.elapsed_ms()).unwrap_or(i64::MAX))
    }

    /// What the store's clock counts in.
    pub fn tick_ms(&self) -> i64 {
        self.tick_ms
    }

    /// From now on requests fare like this.
    pub fn set_weather(&self, weather: Weather) {
        self.state.lock().weather = weather;
    }

    /// Counts something that befell the run.
    pub fn count(&self, what: &'static str) {
        *self.state.lock().faults.entry(what).or_default() += 1;
    }

    /// Adds a line to the trace.
    pub fn note(&self, line: &str) {
        let at = self.elapsed_ms();
        let mut state = self.state.lock();
        state.trace.update(&at.to_le_bytes());
        state.trace.update(line.as_bytes());
        if let Some(lines) = &mut state.lines {
            lines.push(format!("{at:>10} {line}"));
        }
    }

    /// What befell so far, how many requests there were, the hash of the trace, and its lines where they are kept.
    pub fn report(&self) -> (BTreeMap<&'static str, u64>, u64, u64, Vec<String>) {
        let mut state = self.state.lock();
        let lines = state.lines.take().unwrap_or_default();
        (state.faults.clone(), state.requests, state.trace.digest(), lines)
    }

    /// Draws the course of a request.
    pub fn course(&self, operation: Operation) -> Course {
        let mut state = self.state.lock();
        state.requests += 1;
        let Weather { faults, truncated, latency_ms } = state.weather;
        let rng = &mut state.rng;
        let mut wait = || Duration::from_millis(rng.random_range(1..=latency_ms));
        let (mut there, back) = (wait(), wait());
        let fault = if operation == Operation::Get && rng.random_range(0..1_000) < truncated {
            Some(Fault::Truncated)
        } else if rng.random_range(0..1_000) < faults {
            use Fault::*;
            let all = [Error500, Error503, Error429, LostReply, Late, Conflict409, Repeated412];
            let kinds = if operation == Operation::Put { 7 } else { 5 };
            Some(all[rng.random_range(0..kinds)])
        } else {
            None
        };
        if fault == Some(Fault::Late) {
            there = Duration::from_millis(rng.random_range(1_000..LONGEST_FLIGHT.as_millis() as u64));
        }
        let part = rng.random_range(0..1_024);
        if let Some(fault) = fault {
            let name = match fault {
                Fault::Error500 => "error 500",
                Fault::Error503 => "error 503",
                Fault::Error429 => "error 429",
                Fault::Conflict409 => "conflict 409",
                Fault::Repeated412 => "repeated 412",
                Fault::LostReply => "lost reply",
                Fault::Late => "late request",
                Fault::Truncated => "truncated read",
            };
            *state.faults.entry(name).or_default() += 1;
        }
        Course { fault, there, back, part }
    }

    /// Creates an object if its key is absent.
    ///
    /// # Errors
    /// `AlreadyExists`.
    pub fn create(&self, key: &str, bytes: Bytes) -> Result<()> {
        let now = self.now_ms();
        let mut state = self.state.lock();
        if state.objects.contains_key(key) {
            return Err(exists(key));
        }
        let modified_ms = now - now.rem_euclid(self.tick_ms);
        state.objects.insert(key.to_owned(), Object { bytes, modified_ms });
        Ok(())
    }

    /// An object.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn get(&self, key: &str) -> Result<(Bytes, ObjectMeta)> {
        let state = self.state.lock();
        let object = state.objects.get(key).ok_or_else(|| absent(key))?;
        Ok((object.bytes.clone(), meta(key, object)))
    }

    /// Deletes an object.
    pub fn delete(&self, key: &str) {
        self.state.lock().objects.remove(key);
    }

    /// A page of the keys that start with `prefix` and come after `after`, and whether there are more.
    pub fn page(&self, prefix: &str, after: &str, most: Option<usize>) -> (Vec<ObjectMeta>, bool) {
        let most = most.unwrap_or(self.page).min(self.page);
        let state = self.state.lock();
        let mut found: Vec<ObjectMeta> = state
            .objects
            .range(prefix.to_owned()..)
            .take_while(|(key, _)| key.starts_with(prefix))
            .filter(|(key, _)| key.as_str() > after)
            .take(most + 1)
            .map(|(key, object)| meta(key, object))
            .collect();
        let more = found.len() > most;
        found.truncate(most);
        (found, more)
    }

    /// Every key, for the last check.
    pub fn keys(&self) -> Vec<String> {
        self.state.lock().objects.keys().cloned().collect()
    }
}

fn meta(key: &str, object: &Object) -> ObjectMeta {
    ObjectMeta {
        location: Path::from(key),
        last_modified: chrono::DateTime::from_timestamp_millis(object.modified_ms).unwrap_or_default(),
        size: object.bytes.len() as u64,
        e_tag: None,
        version: None,
    }
}

/// The error of a key that exists.
pub fn exists(key: &str) -> Error {
    Error::AlreadyExists { path: key.to_owned(), source: "it exists".into() }
}

/// The error of a key that does not exist.
pub fn absent(key: &str) -> Error {
    Error::NotFound { path: key.to_owned(), source: "it does not exist".into() }
}
