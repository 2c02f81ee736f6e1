//! The stream of a running query: its deadline, its end by KILL, its place among the running ones, its wire types.
//!
//! A client that takes nothing polls nothing, so a task of its own ends the query at its deadline or when it is killed, and
//! gives its place to others when the client has taken nothing for a while: no batch after the last one, or nothing of one that
//! has been ready since.

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
    wire::wire_batch,
};

/// A query whose client takes nothing for this long gives its place away.
const PATIENCE: Duration = Duration::from_secs(1);
/// So does one that nobody looks at for this long after it woke its task: where all threads compute that may take a while.
const LONG_PATIENCE: Duration = Duration::from_secs(5);
/// The smallest batch of an answer for which memory is reserved while it is encoded and sent.
const LARGE_BATCH: usize = 1 << 20;
/// How soon a query that is just being polled is ended.
const SOON: Duration = Duration::from_millis(5);

/// How a query gives its place away and comes by one again.
pub(super) struct Turns {
    pub(super) admission: Admission,
    pub(super) stalled: Stalled,
    pub(super) principal: Principal,
}

/// Batches in wire types until the end, an error, the deadline or a KILL; after that the query is gone and its place free.
pub(super) struct Guard {
    schema: SchemaRef,
    query: Arc<Mutex<Query>>,
    /// What it is in traces, from its plan to its last batch.
    step: Span,
    budget: Budget,
    /// The memory of the last batch and of its encoded bytes, until the client takes the next batch.
    writing: Option<MemoryReservation>,
    turns: Turns,
    client: Arc<Client>,
    waker: Waker,
    watcher: AbortHandle,
}

/// The task that takes the batches.
#[derive(Default)]
struct Client {
    task: AtomicWaker,
    /// Since when it has been awake, and has not looked.
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

/// What the client and the watcher share.
struct Query {
    running: Option<(SendableRecordBatchStream, Place)>,
    /// Why the watcher ended it.
    ended: Option<Error>,
    /// Since when it waits for its client.
    idle: Option<Instant>,
    client: Arc<Client>,
    /// Its way to a place again.
    entering: Option<BoxFuture<'static, tidelake_format::Result<Permit>>>,
    /// Its place among those that stand still.
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
        Self { schema, query, step, budget, writing: None, turns, client, waker, watcher }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.watcher.abort();
        self.budget.end();
    }
}

/// Ends a query when it has to end, and gives its place away while its client takes nothing.
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

    /// Whether its client has taken nothing for too long.
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
        let (schema, budget, writing) = (&this.schema, &this.budget, &mut this.writing);
        let poll = || match stream.poll_next_unpin(cx) {
            Poll::Ready(Some(Ok(batch))) => {
                place.underway.sent(batch.num_rows());
                query.idle = Some(Instant::now());
                Poll::Ready(Some(written(&batch, schema, budget, writing).map_err(to_datafusion)))
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

/// Converts a batch to wire types. Memory is reserved for a large one, which is in memory twice while it is encoded.
fn written(
    batch: &RecordBatch,
    schema: &SchemaRef,
    budget: &Budget,
    writing: &mut Option<MemoryReservation>,
) -> tidelake_format::Result<RecordBatch> {
    let mut bytes = batch.get_array_memory_size();
    if bytes >= LARGE_BATCH {
        // It may be a slice of far more rows.
        bytes = batch_bytes(batch);
    }
    if bytes >= LARGE_BATCH {
        let reservation = budget.reservation("answer");
        reservation.try_grow(2 * bytes).map_err(|full| {
            no_room(
                format!("the memory for queries has no room for {bytes} bytes of an answer; select shorter values"),
                full,
            )
        })?;
        *writing = Some(reservation);
    }
    wire_batch(batch, schema)
}

impl RecordBatchStream for Guard {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}

/// Queries that stand still, as their clients take nothing: so many at most, for each holds memory. Cheap to clone.
#[derive(Clone)]
pub(super) struct Stalled(Arc<Mutex<Still>>);

struct Still {
    most: usize,
    next: u64,
    /// In the order in which they stopped.
    queries: BTreeMap<u64, (User, Weak<Mutex<Query>>)>,
}

/// Who asked; `None` where nobody is asked.
type User = Option<Arc<str>>;

impl Still {
    /// The one that has stood still for longest of the user who has the most of them.
    fn longest(&self) -> Option<Arc<Mutex<Query>>> {
        let mut of_users: HashMap<&User, (usize, Reverse<u64>)> = HashMap::new();
        for (number, (user, _)) in &self.queries {
            of_users.entry(user).or_insert((0, Reverse(*number))).0 += 1;
        }
        let (_, Reverse(longest)) = of_users.into_values().max()?;
        self.queries.get(&longest)?.1.upgrade()
    }
}

/// A query among those that stand still, until this is dropped.
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

    /// Takes a query's place away, if its client has taken nothing for [`PATIENCE`]; where too many stand still, the one that
    /// does for longest is ended, of the user who has the most.
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
            // It may have a place that nobody has fetched.
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
        // One that is just being polled stands still no longer.
        if let Some(longest) = longest
            && let Some(mut longest) = longest.try_lock()
            && longest.stalled.is_some()
        {
            longest.end(Error::unavailable("its client took nothing of the answer, and others had to have its memory"));
        }
    }
}

#[cfg(test)]
mod tests;
