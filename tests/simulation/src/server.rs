//! The store: objects in memory, a ticking clock, and the faults of each request.

mod weather;

use std::{collections::BTreeMap, time::Duration};

use bytes::Bytes;
use object_store::{Error, ObjectMeta, Result, path::Path};
use parking_lot::Mutex;
use rand::{Rng, SeedableRng, rngs::StdRng};
use tokio::{sync::Notify, time::Instant};
use xxhash_rust::xxh3::Xxh3;

pub use self::weather::{Course, Fault, Operation, Place, Weather};
use crate::process::Life;

/// The time of the oldest rows of most tables, in milliseconds since the epoch: the day on which every simulation starts.
pub const EPOCH_MS: i64 = 1_700_000_000_000;
/// A day in milliseconds.
pub const DAY_MS: i64 = 86_400_000;
/// The end of the day on which every simulation starts.
pub const MIDNIGHT_MS: i64 = EPOCH_MS - EPOCH_MS % DAY_MS + DAY_MS;
/// Longest time that a request is in flight.
pub const LONGEST_FLIGHT: Duration = Duration::from_secs(90);

#[derive(Debug, Clone)]
struct Object {
    bytes: Bytes,
    modified_ms: i64,
    /// Whether the object survives a power loss.
    is_synced: bool,
    /// Whether the object is torn.
    is_torn: bool,
}

/// The store.
#[derive(Debug)]
pub struct Server {
    start: Instant,
    /// The true time at the start, in milliseconds since the epoch.
    begins_ms: i64,
    tick_ms: i64,
    page: usize,
    /// Whether the store is a directory: unsynced changes may be lost in a power loss.
    is_directory: bool,
    /// Notifies that a process was stopped.
    pub struck: Notify,
    state: Mutex<State>,
}

struct State {
    objects: BTreeMap<String, Object>,
    /// On a directory: deleted objects that may reappear after a power loss.
    deleted: BTreeMap<String, Object>,
    rng: StdRng,
    weather: Weather,
    /// Countdown to the put that leaves a torn object; counts only relevant objects.
    puts_to_tear: Option<u64>,
    torn: Vec<String>,
    /// Keys whose object an operator replaced or removed for a while.
    spoiled: BTreeMap<String, Object>,
    /// Whether the store is full.
    is_full: bool,
    /// Whether a removed object was restored as a copy.
    has_copies: bool,
    /// The last segment stamp taken by processes of the directory.
    stamp: i64,
    struck: Vec<(u64, Place, Life)>,
    is_cut: bool,
    outages: u64,
    /// Number of created and deleted objects, by first part of their keys.
    changes: BTreeMap<String, u64>,
    /// Number of the latest arrived request.
    arrived: u64,
    faults: BTreeMap<&'static str, u64>,
    deeds: BTreeMap<&'static str, u64>,
    trace: Xxh3,
    lines: Option<Vec<String>>,
    requests: u64,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").field("objects", &self.objects.len()).finish_non_exhaustive()
    }
}

/// Events of a run.
#[derive(Debug, Clone, Default)]
pub struct Events {
    /// Number of faults by kind.
    pub faults: BTreeMap<&'static str, u64>,
    /// Number of other actions by kind.
    pub deeds: BTreeMap<&'static str, u64>,
    /// Number of requests.
    pub requests: u64,
    /// Hash of the trace.
    pub trace: u64,
    /// Lines of the trace, if kept.
    pub lines: Vec<String>,
}

fn top(key: &str) -> &str {
    key.split('/').next().unwrap_or_default()
}

fn directory(key: &str) -> &str {
    key.rsplit_once('/').map_or("", |(directory, _)| directory)
}

impl Server {
    /// An empty store whose clock shows multiples of `tick_ms` and whose lists have `page` keys per page.
    pub fn new(seed: u64, begins_ms: i64, tick_ms: i64, page: usize, is_directory: bool, keeps_lines: bool) -> Self {
        let state = State {
            objects: BTreeMap::new(),
            deleted: BTreeMap::new(),
            rng: StdRng::seed_from_u64(seed),
            weather: Weather { latency_ms: 20, ..Weather::default() },
            puts_to_tear: None,
            torn: Vec::new(),
            spoiled: BTreeMap::new(),
            is_full: false,
            has_copies: false,
            stamp: i64::MIN,
            struck: Vec::new(),
            is_cut: false,
            outages: 0,
            changes: BTreeMap::new(),
            arrived: 0,
            faults: BTreeMap::new(),
            deeds: BTreeMap::new(),
            trace: Xxh3::new(),
            lines: keeps_lines.then(Vec::new),
            requests: 0,
        };
        Self {
            start: Instant::now(),
            begins_ms,
            tick_ms,
            page,
            is_directory,
            struck: Notify::new(),
            state: Mutex::new(state),
        }
    }

    /// Milliseconds since the start of the run.
    pub fn elapsed_ms(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// The true time, in milliseconds since the epoch.
    pub fn now_ms(&self) -> i64 {
        self.begins_ms.saturating_add(i64::try_from(self.elapsed_ms()).unwrap_or(i64::MAX))
    }

    /// Tick of the store's clock.
    pub fn tick_ms(&self) -> i64 {
        self.tick_ms
    }

    /// Sets the fault rates from now on.
    pub fn set_weather(&self, weather: Weather) {
        self.state.lock().weather = weather;
    }

    /// Makes the put after `puts` others leave a torn object; `None` for none.
    pub fn tear_after(&self, puts: Option<u64>) {
        self.state.lock().puts_to_tear = puts;
    }

    /// Counts a fault.
    pub fn count(&self, what: &'static str) {
        *self.state.lock().faults.entry(what).or_default() += 1;
    }

    /// Counts something else that happened.
    pub fn count_deed(&self, what: &'static str) {
        *self.state.lock().deeds.entry(what).or_default() += 1;
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

    /// The events so far; takes the lines.
    pub fn report(&self) -> Events {
        let mut state = self.state.lock();
        Events {
            faults: state.faults.clone(),
            deeds: state.deeds.clone(),
            requests: state.requests,
            trace: state.trace.digest(),
            lines: state.lines.take().unwrap_or_default(),
        }
    }

    /// Number of faults so far.
    pub fn report_faults(&self) -> u64 {
        self.state.lock().faults.values().sum()
    }

    /// Draws the course of a request.
    pub fn course(&self, operation: Operation, key: &str) -> Course {
        let mut state = self.state.lock();
        let state = &mut *state;
        state.requests += 1;
        let Weather { faults, truncated, strikes, cuts, latency_ms } = state.weather;
        let rng = &mut state.rng;
        let mut wait = || Duration::from_millis(rng.random_range(1..=latency_ms));
        let (mut there, back) = (wait(), wait());
        let mut fault = if operation == Operation::Get && rng.random_range(0..1_000) < truncated {
            Some(Fault::Truncated)
        } else if rng.random_range(0..1_000) < faults {
            use Fault::*;
            let kinds: &[Fault] = match operation {
                Operation::Put => &[Error500, Error503, Error429, Conflict409, Repeated412, LostReply, LostReply, Late],
                Operation::Delete => &[Error500, Error503, Error429, LostReply, Late],
                Operation::Get | Operation::List => &[Error500, Error503, Error429, LostReply, Late],
            };
            Some(kinds[rng.random_range(0..kinds.len())])
        } else {
            None
        };
        if operation == Operation::Put && top(key) != "clock" {
            match &mut state.puts_to_tear {
                Some(0) => {
                    (state.puts_to_tear, fault) = (None, Some(Fault::Torn));
                }
                Some(puts) => *puts -= 1,
                None => {}
            }
        }
        if operation == Operation::Put && state.is_full {
            fault = Some(Fault::Full);
        }
        if fault == Some(Fault::Late) {
            there = Duration::from_millis(rng.random_range(1_000..LONGEST_FLIGHT.as_millis() as u64));
        }
        let part = rng.random_range(0..1_024);
        let strike = (rng.random_range(0..10_000) < strikes).then(|| {
            let place = [Place::Before, Place::Sent, Place::Answered][rng.random_range(0..3)];
            (place, if rng.random_bool(0.5) { Life::Dead } else { Life::Frozen })
        });
        let cuts = operation == Operation::Put && self.is_directory && rng.random_range(0..10_000) < cuts;
        if let Some(fault) = fault.filter(|fault| *fault != Fault::Torn) {
            *state.faults.entry(fault.name()).or_default() += 1;
        }
        Course { fault, there, back, part, strike, cuts, number: state.requests, outages: state.outages }
    }

    /// Whether an arriving request was not lost in a power loss.
    pub fn arrives(&self, course: &Course) -> bool {
        let mut state = self.state.lock();
        if course.number < state.arrived {
            *state.faults.entry("request overtaken by a later one").or_default() += 1;
        }
        state.arrived = state.arrived.max(course.number);
        course.outages == state.outages
    }

    /// Whether the power was on since a request was sent.
    pub fn has_power_since(&self, course: &Course) -> bool {
        course.outages == self.state.lock().outages
    }

    /// Records that a process was stopped at a request.
    pub fn strike(&self, process: u64, place: Place, life: Life) {
        self.state.lock().struck.push((process, place, life));
        self.struck.notify_one();
    }

    /// Cuts the power.
    pub fn cut(&self) {
        self.state.lock().is_cut = true;
        self.struck.notify_one();
    }

    /// Whether the power failed since the last call.
    pub fn take_cut(&self) -> bool {
        std::mem::take(&mut self.state.lock().is_cut)
    }

    /// Processes stopped since the last call.
    pub fn take_struck(&self) -> Vec<(u64, Place, Life)> {
        std::mem::take(&mut self.state.lock().struck)
    }

    /// Creates an object if its key is absent.
    ///
    /// # Errors
    /// `AlreadyExists`.
    pub fn create(&self, key: &str, bytes: Bytes) -> Result<()> {
        self.create_as(key, bytes, false)
    }

    fn create_as(&self, key: &str, bytes: Bytes, is_torn: bool) -> Result<()> {
        let now = self.now_ms();
        let mut state = self.state.lock();
        if state.objects.contains_key(key) {
            return Err(exists(key));
        }
        let modified_ms = now - now.rem_euclid(self.tick_ms);
        state.objects.insert(key.to_owned(), Object { bytes, modified_ms, is_synced: !self.is_directory, is_torn });
        state.change(key);
        Ok(())
    }

    /// Stores a part of an object at its key, if the key is absent.
    pub fn tear(&self, key: &str, bytes: &Bytes, part: u64) {
        let torn = bytes.slice(..(bytes.len() as u64 * part / 1_024) as usize);
        if self.create_as(key, torn, true).is_ok() {
            self.sync(directory(key));
            self.count(Fault::Torn.name());
            self.state.lock().torn.push(key.to_owned());
        }
    }

    /// Keys of current and former torn objects.
    pub fn torn(&self) -> Vec<String> {
        self.state.lock().torn.clone()
    }

    /// Keys whose object is or was replaced or removed.
    pub fn spoiled(&self) -> Vec<String> {
        self.state.lock().spoiled.keys().cloned().collect()
    }

    /// Sets whether the store is full.
    pub fn set_full(&self, is_full: bool) {
        self.state.lock().is_full = is_full;
    }

    /// The next stamp, shared by all processes of a directory.
    pub fn stamp(&self, least: i64) -> i64 {
        if !self.is_directory {
            return least;
        }
        let mut state = self.state.lock();
        state.stamp = least.max(state.stamp.saturating_add(1));
        state.stamp
    }

    /// Removes an object, as an operator by mistake; false if there is no durable object, and if this key was removed
    /// before: folds that find the same segment missing three times continue without it.
    pub fn take_away(&self, key: &str) -> bool {
        let mut state = self.state.lock();
        if state.spoiled.contains_key(key) {
            return false;
        }
        let Some(object) = state.objects.get(key).filter(|object| object.is_synced && !object.is_torn).cloned() else {
            return false;
        };
        state.objects.remove(key);
        state.spoiled.insert(key.to_owned(), object);
        state.change(key);
        true
    }

    /// Restores a removed object: unchanged, as when a file is moved back or a deletion undone, or as a copy with a new
    /// modification time.
    pub fn put_back(&self, key: &str, is_copied: bool) {
        let now = self.now_ms();
        let mut state = self.state.lock();
        if let Some(mut object) = state.spoiled.get(key).cloned() {
            if is_copied {
                object.modified_ms = now - now.rem_euclid(self.tick_ms);
                state.has_copies = true;
            }
            state.objects.insert(key.to_owned(), object);
            state.change(key);
        }
    }

    /// Whether an object was restored as a copy, which loses information on the order of segments.
    pub fn has_copies(&self) -> bool {
        self.state.lock().has_copies
    }

    /// Swaps two objects, as an operator by mistake; false if one does not exist.
    pub fn swap(&self, a: &str, b: &str) -> bool {
        let mut state = self.state.lock();
        let is_there = |state: &State, key: &str| state.objects.get(key).filter(|o| o.is_synced && !o.is_torn).cloned();
        let (Some(of_a), Some(of_b)) = (is_there(&state, a), is_there(&state, b)) else { return false };
        for (key, own, other) in [(a, &of_a, &of_b), (b, &of_b, &of_a)] {
            state.objects.insert(key.to_owned(), Object { bytes: other.bytes.clone(), ..own.clone() });
            state.spoiled.insert(key.to_owned(), own.clone());
            state.change(key);
        }
        true
    }

    /// Restores a key's own object after a swap, unless it was deleted meanwhile.
    pub fn swap_back(&self, key: &str) {
        let mut state = self.state.lock();
        if let Some(own) = state.spoiled.get(key).cloned() {
            // An object that a power loss may bring back must be the key's own, too.
            if let Some(deleted) = state.deleted.get_mut(key) {
                *deleted = own.clone();
            }
            if let Some(object) = state.objects.get_mut(key) {
                *object = own;
            }
            state.change(key);
        }
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
        let mut state = self.state.lock();
        let Some(object) = state.objects.remove(key) else { return };
        if self.is_directory && object.is_synced {
            state.deleted.insert(key.to_owned(), object);
        }
        state.change(key);
    }

    /// Deletes an object as an operator who checks before and after: only if it is torn, and it does not reappear after a
    /// power loss.
    pub fn delete_torn(&self, key: &str) {
        if self.state.lock().objects.get(key).is_none_or(|object| !object.is_torn) {
            return;
        }
        self.delete(key);
        self.state.lock().deleted.remove(key);
    }

    /// Makes the changes in a directory durable.
    pub fn sync(&self, directory_: &str) {
        if !self.is_directory {
            return;
        }
        let mut state = self.state.lock();
        let prefix = format!("{directory_}/");
        let inside = |key: &str| directory(key) == directory_;
        let range = state.objects.range_mut(prefix.clone()..);
        for (_, object) in range.take_while(|(k, _)| k.starts_with(&prefix)).filter(|(k, _)| inside(k)) {
            object.is_synced = true;
        }
        state.deleted.retain(|key, _| !inside(key));
    }

    /// Makes the directory of a key durable.
    pub fn sync_of(&self, key: &str) {
        self.sync(directory(key));
    }

    /// Cuts the power: each unsynced change may be lost, and requests in flight are dropped.
    pub fn lose_power(&self) {
        let mut state = self.state.lock();
        let state = &mut *state;
        state.outages += 1;
        state.stamp = i64::MIN;
        let unsynced: Vec<String> =
            state.objects.iter().filter(|(_, o)| !o.is_synced).map(|(key, _)| key.clone()).collect();
        for key in unsynced {
            if state.rng.random_bool(0.5) {
                state.objects.remove(&key);
                *state.faults.entry("unsynced object vanished").or_default() += 1;
            } else if let Some(object) = state.objects.get_mut(&key) {
                object.is_synced = true;
            }
        }
        for (key, object) in std::mem::take(&mut state.deleted) {
            if state.rng.random_bool(0.5) && !state.objects.contains_key(&key) {
                state.objects.insert(key, object);
                *state.faults.entry("unsynced delete undone").or_default() += 1;
            }
        }
    }

    /// A page of the keys that start with `prefix` and come after `after`, and whether there are more.
    pub fn page(&self, prefix: &str, after: &str, most: Option<usize>) -> (Vec<ObjectMeta>, bool) {
        let most = most.unwrap_or(self.page).min(self.page);
        let state = self.state.lock();
        let start = if after > prefix { after } else { prefix };
        let mut found: Vec<ObjectMeta> = state
            .objects
            .range(start.to_owned()..)
            .take_while(|(key, _)| key.starts_with(prefix))
            .filter(|(key, _)| key.as_str() > after)
            .take(most + 1)
            .map(|(key, object)| meta(key, object))
            .collect();
        let more = found.len() > most;
        found.truncate(most);
        (found, more)
    }

    /// Number of created and deleted objects with the same first key part.
    pub fn changes(&self, key: &str) -> u64 {
        self.state.lock().changes.get(top(key)).copied().unwrap_or_default()
    }

    /// Every key, for the last check.
    pub fn keys(&self) -> Vec<String> {
        self.state.lock().objects.keys().cloned().collect()
    }
}

impl State {
    fn change(&mut self, key: &str) {
        *self.changes.entry(top(key).to_owned()).or_default() += 1;
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

/// Error for an existing key.
pub fn exists(key: &str) -> Error {
    Error::AlreadyExists { path: key.to_owned(), source: "it exists".into() }
}

/// Error for a missing key.
pub fn absent(key: &str) -> Error {
    Error::NotFound { path: key.to_owned(), source: "it does not exist".into() }
}
