//! The open group: decoded requests waiting for the next PUT.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use parking_lot::{Condvar, Mutex, MutexGuard};
use tidelake_format::{
    Error, Result,
    ids::{DatabaseId, Position, Version},
    meta::Catalog,
    rows::Block,
};
use tokio::{
    sync::{Notify, oneshot},
    time::Instant,
};

use super::{budget::Reservation, idempotent::Claim};
use crate::decode::line_protocol::Gathered;

mod blocked;
mod hold;
mod regroup;
mod turns;

pub(crate) use blocked::Blocked;
pub(crate) use hold::Place;
use regroup::Regroup;
use turns::Turns;

/// Rows on their way into a segment: of one request, or of several that were acknowledged from the buffer.
#[derive(Debug)]
pub(crate) struct Entry {
    /// The rows, in the order of the request.
    pub(crate) blocks: Vec<Block>,
    /// Gathered rows without blocks yet; more may join until another request is queued.
    pub(crate) gathering: Option<Box<Gathering>>,
    /// Bytes of the rows in memory.
    pub(crate) bytes: usize,
    /// The version in which a statement resolved its series; `None` if the rows create their series.
    pub(crate) resolved: Option<Version>,
    /// The rows' reservation in the buffer, held until they are in the store.
    pub(crate) reservation: Reservation,
    /// The idempotency key to claim first; the waiter gets Conflict if a copy has claimed it.
    pub(crate) claim: Option<Claim>,
    /// The waiting request; `None` if the rows were acknowledged from the buffer.
    pub(crate) waiter: Option<oneshot::Sender<Result<Position>>>,
}

/// Rows of small requests in one builder, with the catalog and database that they were checked against.
#[derive(Debug)]
pub(crate) struct Gathering {
    catalog: Arc<Catalog>,
    database: DatabaseId,
    rows: Gathered,
}

impl Entry {
    /// Builds the blocks of gathered rows.
    ///
    /// # Errors
    /// The blocks cannot be built: the gathered rows are lost.
    pub(crate) fn close(&mut self) -> Result<()> {
        if let Some(gathering) = self.gathering.take() {
            self.blocks = gathering.rows.finish()?;
        }
        Ok(())
    }

    pub(crate) fn rows(&self) -> u64 {
        let gathered = self.gathering.as_ref().map_or(0, |gathering| gathering.rows.len() as u64);
        gathered + self.blocks.iter().map(|b| b.len() as u64).sum::<u64>()
    }
}

/// Queued bytes that justify a second concurrent PUT; the second value applies if small requests are [delayed](Turns).
const PLENTY: usize = 1 << 20;
const PLENTY_BETWEEN_TURNS: usize = 16 << 20;
/// Groups that a lane takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Takes {
    /// Any group.
    Any,
    /// Only [large](Queue::plenty_bytes) groups.
    Plenty,
}

/// Requests in the order of arrival.
#[derive(Debug)]
pub(crate) struct Queue {
    /// Bytes of a full group.
    group_bytes: usize,
    /// Queued bytes that justify a second concurrent PUT.
    plenty_bytes: usize,
    state: Mutex<State>,
    /// Wakes lanes that take any group.
    changed: Notify,
    /// Wakes lanes that take only large groups.
    plenty: Notify,
    /// Whether a lane is waiting for space in the store.
    pub(crate) blocked: Arc<Blocked>,
    /// Wakes the lane of a disk, which has its own thread, when the senders of the previous group are back.
    regrouped: Condvar,
}

#[derive(Debug)]
struct State {
    entries: VecDeque<Entry>,
    bytes: usize,
    waiters: usize,
    /// Requests large enough for a PUT of their own.
    large: usize,
    closed: bool,
    /// Requests that must arrive before any group is taken.
    expected: usize,
    turns: Turns,
    /// Present if groups are synced to a disk.
    regroup: Option<Regroup>,
}

impl Queue {
    /// Small groups are taken once per `interval`, if it is not 0, while requests keep coming; with `regroup`, when the senders
    /// of the previous group are back: then the only lane that takes any group has a thread to wait on.
    pub(crate) fn new(group_bytes: usize, interval: Duration, regroup: bool) -> Self {
        let plenty = if interval.is_zero() { PLENTY } else { PLENTY_BETWEEN_TURNS };
        let turns = Turns::new(interval);
        let state = State {
            entries: VecDeque::new(),
            bytes: 0,
            waiters: 0,
            large: 0,
            closed: false,
            expected: 0,
            turns,
            regroup: regroup.then(Regroup::new),
        };
        Self {
            group_bytes,
            plenty_bytes: plenty.min(group_bytes),
            state: Mutex::new(state),
            changed: Notify::new(),
            plenty: Notify::new(),
            blocked: Arc::default(),
            regrouped: Condvar::new(),
        }
    }

    /// Adds a request to the open group.
    ///
    /// # Errors
    /// Unavailable after [`Queue::close`].
    pub(crate) fn push(&self, entry: Entry) -> Result<()> {
        let mut state = self.state.lock();
        if state.closed {
            return Err(Error::unavailable("the write path is shut down"));
        }
        state.bytes += entry.bytes;
        state.waiters += usize::from(entry.waiter.is_some());
        // Don't wake a lane that is lingering on requests without a waiter, nor one that waits for senders before enough of
        // them are back.
        let is_awaited = entry.waiter.is_some() && (state.waiters == 1 || state.regroup_due().is_none());
        let is_news = state.entries.is_empty() || is_awaited;
        state.turns.came();
        state.large += usize::from(entry.bytes >= PLENTY);
        state.entries.push_back(entry);
        self.tell(state, is_news);
        Ok(())
    }

    /// Wakes lanes after an arrival.
    fn tell(&self, state: MutexGuard<'_, State>, is_news: bool) {
        let is_plenty = self.is_plenty(&state);
        drop(state);
        if is_news || is_plenty {
            self.regrouped.notify_one();
        }
        if is_news || is_plenty {
            self.changed.notify_one();
        }
        if is_plenty {
            self.plenty.notify_one();
        }
    }

    /// Adds the row of a request without a waiter to the last gathered rows, by calling `add`; returns the reservation if `add`
    /// declines. All rows of a builder were checked against one catalog.
    ///
    /// # Errors
    /// As [`Queue::push`].
    pub(crate) fn gather(
        &self,
        catalog: &Arc<Catalog>,
        database: DatabaseId,
        bytes: usize,
        reservation: Reservation,
        add: impl FnOnce(&mut Gathered) -> bool,
    ) -> Result<Option<Reservation>> {
        let mut state = self.state.lock();
        if state.closed {
            return Err(Error::unavailable("the write path is shut down"));
        }
        let is_same = |g: &Gathering| Arc::ptr_eq(&g.catalog, catalog) && g.database == database && !g.rows.is_full();
        let is_news = state.entries.is_empty();
        let last = state.entries.back_mut().filter(|last| last.gathering.as_deref().is_some_and(is_same));
        let mut becomes_large = false;
        match last {
            Some(last) => {
                let gathering = last.gathering.as_mut().expect("it was just looked at");
                if !add(&mut gathering.rows) {
                    return Ok(Some(reservation));
                }
                let was_large = last.bytes >= PLENTY;
                last.bytes += bytes;
                becomes_large = !was_large && last.bytes >= PLENTY;
                last.reservation.merge(reservation);
            }
            None => {
                let mut rows = Gathered::default();
                if !add(&mut rows) {
                    return Ok(Some(reservation));
                }
                let gathering = Some(Box::new(Gathering { catalog: catalog.clone(), database, rows }));
                let blocks = Vec::new();
                let (resolved, claim, waiter) = (None, None, None);
                state.entries.push_back(Entry { blocks, gathering, bytes, resolved, reservation, claim, waiter });
            }
        }
        state.bytes += bytes;
        state.large += usize::from(becomes_large);
        state.turns.came();
        self.tell(state, is_news);
        Ok(None)
    }

    /// Takes the next group: as many requests as fit a group, at least one. Waits until a request has a waiter or the first one
    /// is `linger` old, and a small group is due; does not wait if much is queued. `None` when the queue is closed and empty.
    /// Report the answered group by [`Queue::answered`].
    pub(crate) async fn take(&self, takes: Takes, linger: Duration) -> Option<Vec<Entry>> {
        match takes {
            Takes::Any => self.take_any(linger).await,
            Takes::Plenty => self.take_plenty().await,
        }
    }

    async fn take_plenty(&self) -> Option<Vec<Entry>> {
        loop {
            let changed = self.plenty.notified();
            {
                let mut state = self.state.lock();
                if state.closed {
                    self.plenty.notify_one();
                    return None; // lanes that take any group write the rest
                }
                if state.expected == 0 && self.is_plenty(&state) {
                    return Some(self.group(&mut state));
                }
            }
            changed.await;
        }
    }

    async fn take_any(&self, linger: Duration) -> Option<Vec<Entry>> {
        let mut lingered: Option<Instant> = None;
        loop {
            let changed = self.changed.notified();
            let wait = {
                let mut state = self.state.lock();
                if state.entries.is_empty() || (state.expected > 0 && !state.closed) {
                    if state.closed {
                        self.changed.notify_one();
                        return None;
                    }
                    lingered = None;
                    None
                } else {
                    let now = Instant::now();
                    let is_asked_for = (state.waiters > 0).then_some(now);
                    let at = is_asked_for.unwrap_or_else(|| *lingered.get_or_insert_with(|| now + linger));
                    let at = state.turns.due().map_or(at, |due| due.max(at));
                    if at <= now {
                        self.wait_for_senders(&mut state);
                    }
                    if state.closed || self.is_plenty(&state) {
                        if let Some(regroup) = &mut state.regroup {
                            regroup.forget();
                        }
                        return Some(self.group(&mut state));
                    }
                    if at <= now {
                        let now = Instant::now();
                        state.turns.take(now);
                        let group = self.group(&mut state);
                        if let Some(regroup) = &mut state.regroup {
                            let senders = group.iter().filter(|e| e.waiter.is_some()).count();
                            regroup.taken(senders, group.iter().map(|e| e.bytes).sum(), now);
                        }
                        return Some(group);
                    }
                    Some(at)
                }
            };
            match wait {
                None => changed.await,
                Some(at) => drop(tokio::time::timeout_at(at, changed).await),
            }
        }
    }

    /// Waits on this thread while senders of the previous group are expected back.
    fn wait_for_senders(&self, state: &mut MutexGuard<'_, State>) {
        while let Some(until) = state.regroup_due()
            && !state.closed
            && !self.is_plenty(state)
        {
            if self.regrouped.wait_until(state, until.into_std()).timed_out() {
                return;
            }
        }
    }

    fn is_plenty(&self, state: &State) -> bool {
        state.bytes >= self.plenty_bytes || state.large > 0
    }

    /// Takes a group and wakes other lanes for the rest.
    fn group(&self, state: &mut State) -> Vec<Entry> {
        let group = state.next_group(self.group_bytes);
        if !state.entries.is_empty() {
            self.changed.notify_one();
        }
        if self.is_plenty(state) {
            self.plenty.notify_one();
        }
        state.turns.unanswered += 1;
        group
    }

    /// Records that a group of [`Takes::Any`] is about to be answered.
    pub(crate) fn answering(&self) {
        let mut state = self.state.lock();
        let waiting = state.waiters;
        if let Some(regroup) = &mut state.regroup {
            regroup.answering(waiting, Instant::now());
        }
    }

    /// Records that a taken group has been answered.
    pub(crate) fn answered(&self) {
        let mut state = self.state.lock();
        state.turns.unanswered -= 1;
        if state.turns.unanswered == 0 {
            state.turns.came();
            if !state.turns.interval.is_zero() && !state.entries.is_empty() {
                self.changed.notify_one();
            }
        }
    }

    /// Refuses new requests; waiting ones are still taken.
    pub(crate) fn close(&self) {
        self.state.lock().closed = true;
        self.regrouped.notify_one();
        self.changed.notify_one();
        self.plenty.notify_one();
    }
}

impl State {
    fn regroup_due(&self) -> Option<Instant> {
        self.regroup.as_ref().and_then(|regroup| regroup.due(self.waiters, Instant::now()))
    }

    fn next_group(&mut self, max_bytes: usize) -> Vec<Entry> {
        let (mut group, mut bytes) = (Vec::new(), 0);
        while let Some(next) = self.entries.front() {
            if !group.is_empty() && bytes + next.bytes > max_bytes {
                break;
            }
            let entry = self.entries.pop_front().expect("front() was some");
            bytes += entry.bytes;
            self.bytes -= entry.bytes;
            self.waiters -= usize::from(entry.waiter.is_some());
            self.large -= usize::from(entry.bytes >= PLENTY);
            group.push(entry);
        }
        group
    }
}

#[cfg(test)]
mod tests;
