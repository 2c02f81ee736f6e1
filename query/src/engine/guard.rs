//! The result stream of a running query: enforces deadline and KILL, holds the permit, converts batches to wire types.
//!
//! A client that stops reading does not poll the stream. So a watcher task per query ends it at its deadline or when it is killed,
//! and releases the permit when the client has stalled: it did not fetch the next batch, or did not poll after a wake-up.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap},
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::{Arc, Weak},
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

use arrow::{array::RecordBatch, datatypes::SchemaRef};
use datafusion::{
    common::Result,
    execution::{RecordBatchStream, SendableRecordBatchStream, memory_pool::MemoryReservation},
};
use futures::{FutureExt, Stream, StreamExt, future::BoxFuture, task::AtomicWaker};
use parking_lot::Mutex;
use tidelake_format::{Error, access::Principal};
use tokio::{
    task::AbortHandle,
    time::{Instant, sleep, sleep_until},
};
use tracing::Span;

use super::{
    Place,
    admission::{Admission, Permit},
};
use crate::{
    budget::{self, Budget, Phase},
    error::{no_room, to_datafusion},
    sizes::batch_bytes,
    wire::{Dictionaries, wire_batch},
};

/// A query releases its permit when its client has not fetched the next batch for this long.
const PATIENCE: Duration = Duration::from_secs(1);
/// A query releases its permit when its client's task has not polled for this long after a wake-up. Longer than [`PATIENCE`], as
/// polls are late while all threads compute.
const LONG_PATIENCE: Duration = Duration::from_secs(5);
/// Memory is reserved for result batches of at least this many bytes while they are encoded and sent.
const LARGE_BATCH: usize = 1 << 20;
/// Retry interval for ending a query that is being polled.
const SOON: Duration = Duration::from_millis(5);

/// Lets a stalled query release its permit and acquire a new one.
pub(super) struct Turns {
    pub(super) admission: Admission,
    pub(super) stalled: Stalled,
    pub(super) principal: Principal,
}

/// Stream of batches in wire types. At its end, an error, the deadline or a KILL the plan is dropped and the permit released.
pub(super) struct Guard {
    schema: SchemaRef,
    query: Arc<Mutex<Query>>,
    /// Span of the query in traces, from its plan to its last batch.
    step: Span,
    budget: Budget,
    /// The memory of the last batch and of its encoded bytes, until the client takes the next batch.
    writing: Option<MemoryReservation>,
    dictionaries: Dictionaries,
    turns: Turns,
    client: Arc<Client>,
    waker: Waker,
    watcher: AbortHandle,
}

/// The task that takes the batches.
#[derive(Default)]
struct Client {
    task: AtomicWaker,
    /// Time of the first wake-up since the last poll.
    woken: Mutex<Option<Instant>>,
}

impl Wake for Client {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.lock().get_or_insert_with(Instant::now);
        self.task.wake();
    }
}

/// State shared by the stream and the watcher.
struct Query {
    running: Option<(SendableRecordBatchStream, Place)>,
    /// The error with which the watcher ended the query.
    ended: Option<Error>,
    /// Since when the query has waited for its client to fetch the next batch.
    idle: Option<Instant>,
    client: Arc<Client>,
    /// Waits for a new permit.
    entering: Option<BoxFuture<'static, tidelake_format::Result<Permit>>>,
    /// Registration among the stalled queries.
    stalled: Option<Stands>,
}

impl Guard {
    pub(super) fn new(
        stream: SendableRecordBatchStream,
        schema: SchemaRef,
        place: Place,
        step: Span,
        budget: Budget,
        turns: Turns,
    ) -> Self {
        let killed = place.underway.killed();
        let client = Arc::<Client>::default();
        let query = Query {
            running: Some((stream, place)),
            ended: None,
            idle: Some(Instant::now()),
            client: client.clone(),
            entering: None,
            stalled: None,
        };
        let query = Arc::new(Mutex::new(query));
        let until = budget.clone();
        let ends = async move {
            tokio::select! {
                () = killed => budget::killed(),
                () = sleep_until(until.deadline()) => until.too_long(),
            }
        };
        let gives_way = (turns.stalled.clone(), turns.principal.user().map(Arc::from));
        let watcher = tokio::spawn(watch(Arc::downgrade(&query), ends, gives_way)).abort_handle();
        let waker = Waker::from(client.clone());
        Self {
            schema,
            query,
            step,
            budget,
            writing: None,
            dictionaries: Dictionaries::default(),
            turns,
            client,
            waker,
            watcher,
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.watcher.abort();
        self.budget.end();
    }
}

/// Ends a query with the error of `ends`; until then releases its permit whenever its client stalls.
async fn watch(query: Weak<Mutex<Query>>, ends: impl Future<Output = Error>, (stalled, user): (Stalled, User)) {
    tokio::pin!(ends);
    let error = loop {
        tokio::select! {
            biased;
            error = &mut ends => break error,
            () = sleep(PATIENCE / 2) => {
                let Some(query) = query.upgrade() else { return };
                stalled.give_way(&query, &user);
            }
        }
    };
    while let Some(query) = query.upgrade() {
        if let Some(mut query) = query.try_lock() {
            query.end(error);
            return;
        }
        drop(query);
        sleep(SOON).await;
    }
}

impl Query {
    fn end(&mut self, error: Error) {
        if self.running.take().is_some() {
            self.ended = Some(error);
        }
        self.entering = None;
        self.stalled = None;
        self.client.task.wake();
    }

    /// Whether the client has stalled.
    fn is_idle(&self) -> bool {
        let woken = *self.client.woken.lock();
        self.idle.is_some_and(|since| since.elapsed() >= PATIENCE)
            || woken.is_some_and(|since| since.elapsed() >= LONG_PATIENCE)
    }
}

impl Stream for Guard {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        this.client.task.register(cx.waker());
        let cx = &mut Context::from_waker(&this.waker);
        let mut query = this.query.lock();
        let query = &mut *query;
        *this.client.woken.lock() = None;
        if let Some(error) = query.ended.take() {
            return Poll::Ready(Some(Err(to_datafusion(error))));
        }
        let Some((stream, place)) = &mut query.running else { return Poll::Ready(None) };
        query.idle = None;
        query.stalled = None;
        if place.permit.is_none() {
            let entering = query.entering.get_or_insert_with(|| {
                let patience = this.budget.deadline().saturating_duration_since(Instant::now());
                this.turns.admission.clone().enter_again(this.turns.principal.clone(), patience).boxed()
            });
            let entered = match entering.poll_unpin(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(entered) => entered,
            };
            query.entering = None;
            match entered {
                Ok(permit) => place.permit = Some(permit),
                Err(error) => {
                    query.running = None;
                    return Poll::Ready(Some(Err(to_datafusion(error))));
                }
            }
            place.underway.runs();
        }
        let _in_step = this.step.enter();
        this.writing = None;
        let (schema, budget) = (&this.schema, &this.budget);
        let (writing, dictionaries) = (&mut this.writing, &mut this.dictionaries);
        let poll = || match stream.poll_next_unpin(cx) {
            Poll::Ready(Some(Ok(batch))) => {
                place.underway.sent(batch.num_rows());
                query.idle = Some(Instant::now());
                Poll::Ready(Some(written(&batch, schema, budget, writing, dictionaries).map_err(to_datafusion)))
            }
            other => other,
        };
        let polled = catch_unwind(AssertUnwindSafe(|| budget.enter(Phase::Execute, poll)));
        let next = match polled {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(next)) => next,
            Err(panic) => Some(Err(to_datafusion(super::fault(panic.as_ref())))),
        };
        if let Some(Err(error)) = &next {
            this.step.record("error", tracing::field::display(error));
        }
        if !matches!(next, Some(Ok(_))) {
            query.running = None;
        }
        Poll::Ready(next)
    }
}

/// Converts a batch to wire types. Reserves twice its bytes for a large batch, which is in memory twice while it is encoded.
fn written(
    batch: &RecordBatch,
    schema: &SchemaRef,
    budget: &Budget,
    writing: &mut Option<MemoryReservation>,
    dictionaries: &mut Dictionaries,
) -> tidelake_format::Result<RecordBatch> {
    let mut bytes = batch.get_array_memory_size();
    if bytes >= LARGE_BATCH {
        // The batch may be a slice of far larger arrays.
        bytes = batch_bytes(batch);
    }
    if bytes >= LARGE_BATCH {
        let reservation = budget.reservation("answer");
        reservation.try_grow(2 * bytes).map_err(|full| {
            no_room(
                format!("query memory exhausted: no room for {bytes} bytes of a result; select shorter values"),
                full,
            )
        })?;
        *writing = Some(reservation);
    }
    wire_batch(batch, schema, dictionaries)
}

impl RecordBatchStream for Guard {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}

/// Stalled queries, whose clients stopped reading. Their number is limited, as each holds memory. Cheap to clone.
#[derive(Clone)]
pub(super) struct Stalled(Arc<Mutex<Still>>);

struct Still {
    most: usize,
    next: u64,
    /// Ordered by when they stalled.
    queries: BTreeMap<u64, (User, Weak<Mutex<Query>>)>,
}

/// The user of a query; `None` where authentication is off.
type User = Option<Arc<str>>;

impl Still {
    /// The longest stalled query of the user with the most stalled queries.
    fn longest(&self) -> Option<Arc<Mutex<Query>>> {
        let mut of_users: HashMap<&User, (usize, Reverse<u64>)> = HashMap::new();
        for (number, (user, _)) in &self.queries {
            of_users.entry(user).or_insert((0, Reverse(*number))).0 += 1;
        }
        let (_, Reverse(longest)) = of_users.into_values().max()?;
        self.queries.get(&longest)?.1.upgrade()
    }
}

/// Registration of a stalled query, until this is dropped.
struct Stands(Stalled, u64);

impl Drop for Stands {
    fn drop(&mut self) {
        self.0.0.lock().queries.remove(&self.1);
    }
}

impl Stalled {
    pub(super) fn new(most: usize) -> Self {
        Self(Arc::new(Mutex::new(Still { most, next: 0, queries: BTreeMap::new() })))
    }

    /// Releases a query's permit if its client has stalled. Where too many queries are stalled, ends the longest stalled query of
    /// the user with the most.
    fn give_way(&self, query: &Arc<Mutex<Query>>, user: &User) {
        {
            let Some(mut locked) = query.try_lock() else { return };
            if locked.stalled.is_some() || !locked.is_idle() {
                return;
            }
            let Some((_, place)) = &mut locked.running else { return };
            place.underway.stalls();
            place.permit = None;
            let mut still = self.0.lock();
            still.next += 1;
            let number = still.next;
            still.queries.insert(number, (user.clone(), Arc::downgrade(query)));
            drop(still);
            // It may hold a permit that the query has not taken.
            locked.entering = None;
            locked.stalled = Some(Stands(self.clone(), number));
        }
        let longest = {
            let still = self.0.lock();
            if still.queries.len() <= still.most {
                return;
            }
            still.longest()
        };
        // A query that is being polled is no longer stalled.
        if let Some(longest) = longest
            && let Some(mut longest) = longest.try_lock()
            && longest.stalled.is_some()
        {
            longest.end(Error::unavailable("query cancelled: its client stopped reading and memory was needed"));
        }
    }
}

#[cfg(test)]
mod tests;
