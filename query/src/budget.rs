//! Limits of a statement while it computes: bytes of its memory pool, time until its deadline, and cancellation by
//! KILL.
//!
//! Functions receive neither the task context nor the deadline, and a cached plan later runs for other statements. So
//! the budget belongs to the thread that polls a statement: [`Budget::enter`] sets it for one poll, tasks started by
//! the statement inherit it ([`inherit`]), and functions find it there ([`check`], [`reserve`]).
//!
//! Bytes are reserved for the values of one evaluation; operators account for the batches that they hold. An evaluation
//! ends when its operator reads the next batch ([`settle`]) or when the poll ends.

use std::{
    any::Any,
    cell::RefCell,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    task::{Context, Poll},
    time::Duration,
};

use datafusion::{
    common::{
        Result as DfResult,
        runtime::{JoinSetTracer, set_join_set_tracer},
    },
    execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation},
};
use futures::future::BoxFuture;
use tidelake_format::{Error, Result};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument as _, Span};

use crate::{
    error::{no_room, to_datafusion},
    tracked::Progress,
};

/// The limits of one statement. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Budget(Arc<Inner>);

struct Inner {
    pool: Arc<dyn MemoryPool>,
    deadline: Instant,
    timeout: Duration,
    killed: CancellationToken,
    progress: Arc<Progress>,
    /// Whether the statement has ended or its client has disconnected.
    over: AtomicBool,
    /// Memory of the syntax tree and the plans of a long statement.
    _plans: Option<MemoryReservation>,
}

/// State of a statement on this thread.
struct Turn {
    budget: Budget,
    phase: Phase,
    reservation: Option<MemoryReservation>,
    /// Bytes of constants folded by planning.
    folded: usize,
    /// Peak bytes reserved by functions, for the operator input that sizes their slices.
    peak: Option<Arc<AtomicUsize>>,
}

/// Purpose of a function call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Constants are folded: large or costly results are left to execution.
    Plan,
    /// Rows are computed.
    Execute,
}

thread_local! {
    static TURN: RefCell<Option<Turn>> = const { RefCell::new(None) };
}

/// Maximum bytes that a function produces per batch of rows, with any amount of memory.
pub(crate) const MOST_BYTES: u64 = 64 << 20;
/// A function produces at most this fraction of the statement's memory per row: operators copy the values they receive,
/// count the copies only after making them, and cannot process less than one row at a time.
const ROW_PART: u64 = 8;
/// Bytes that a function may always produce per row.
const LEAST_BYTES: u64 = 1 << 20;
/// Maximum bytes of one folded constant.
pub(crate) const FOLD_BYTES: usize = 8 << 10;
/// Maximum bytes of all folded constants of a statement.
const FOLDED_BYTES: usize = 1 << 20;

impl Budget {
    pub(crate) fn new(
        pool: Arc<dyn MemoryPool>,
        deadline: Instant,
        timeout: Duration,
        killed: CancellationToken,
    ) -> Self {
        let (progress, over) = (Arc::default(), AtomicBool::new(false));
        Self(Arc::new(Inner { pool, deadline, timeout, killed, progress, over, _plans: None }))
    }

    /// Counts the statement's reads in `progress`; for a budget that is not shared yet.
    #[must_use]
    pub(crate) fn counting(mut self, progress: Arc<Progress>) -> Self {
        if let Some(inner) = Arc::get_mut(&mut self.0) {
            inner.progress = progress;
        }
        self
    }

    /// Reserves memory for the syntax tree and the plans of a long statement, until the last clone of this budget is
    /// dropped.
    ///
    /// # Errors
    /// Unavailable if the pool, or the user's share, is used up.
    pub(crate) fn for_plans_of(mut self, bytes: usize) -> Result<Self> {
        if let Some(inner) = Arc::get_mut(&mut self.0).filter(|_| bytes > 0) {
            let plans = MemoryConsumer::new("plans of a long statement").register(&inner.pool);
            let what =
                || format!("query memory exhausted: no room for the plans of this statement, about {bytes} bytes");
            plans.try_grow(bytes).map_err(|full| no_room(what(), full))?;
            inner._plans = Some(plans);
        }
        Ok(self)
    }

    /// Ends the statement: its functions return an error at their next [`check`].
    pub(crate) fn end(&self) {
        self.0.over.store(true, Relaxed);
    }

    /// Creates an empty reservation in the statement's memory pool.
    pub(crate) fn reservation(&self, what: &'static str) -> MemoryReservation {
        MemoryConsumer::new(what).register(&self.0.pool)
    }

    /// Calls `work` with this budget for the functions within it.
    pub(crate) fn enter<T>(&self, phase: Phase, work: impl FnOnce() -> T) -> T {
        struct Before(Option<Turn>);
        impl Drop for Before {
            fn drop(&mut self) {
                let ended = TURN.with(|turn| turn.replace(self.0.take()));
                drop(ended);
            }
        }
        let turn = Turn { budget: self.clone(), phase, reservation: None, folded: 0, peak: None };
        let _before = Before(TURN.with(|current| current.replace(Some(turn))));
        work()
    }

    /// The deadline of the statement.
    pub(crate) fn deadline(&self) -> Instant {
        self.0.deadline
    }

    /// The error of a statement that reaches its deadline.
    pub(crate) fn too_long(&self) -> Error {
        too_long(self.0.timeout)
    }

    /// Runs a part of the statement, up to its deadline.
    ///
    /// # Errors
    /// Those of the part; Unavailable at the deadline.
    pub(crate) async fn in_time<T>(&self, part: impl Future<Output = Result<T>>) -> Result<T> {
        let done = tokio::time::timeout_at(self.0.deadline, part).await;
        done.unwrap_or_else(|_| Err(self.too_long()))
    }

    fn check(&self) -> DfResult<()> {
        let inner = &self.0;
        if inner.killed.is_cancelled() {
            return Err(to_datafusion(killed()));
        }
        if inner.over.load(Relaxed) {
            return Err(to_datafusion(Error::conflict("the query has ended: its client closed the result")));
        }
        if Instant::now() >= inner.deadline {
            return Err(to_datafusion(too_long(inner.timeout)));
        }
        Ok(())
    }
}

/// The error of a query that exceeded its deadline.
pub(crate) fn too_long(timeout: Duration) -> Error {
    Error::unavailable("query took longer than its limit").with("limit", format!("{timeout:?}"))
}

/// The error of a killed query; a Conflict, so that clients do not retry it automatically.
pub(crate) fn killed() -> Error {
    Error::conflict("the query was killed")
}

/// Checks whether the statement of this thread may continue.
///
/// # Errors
/// Unavailable after its deadline, Conflict after a KILL or when its client has disconnected.
pub(crate) fn check() -> DfResult<()> {
    TURN.with_borrow(|turn| turn.as_ref().map_or(Ok(()), |turn| turn.budget.check()))
}

/// The counts of the statement of this thread.
pub(crate) fn progress() -> Option<Arc<Progress>> {
    TURN.with_borrow(|turn| turn.as_ref().map(|turn| turn.budget.0.progress.clone()))
}

/// The purpose of function calls on this thread.
pub(crate) fn phase() -> Phase {
    TURN.with_borrow(|turn| turn.as_ref().map_or(Phase::Execute, |turn| turn.phase))
}

/// Reserves bytes of the current evaluation in the statement's pool.
///
/// # Errors
/// ResourcesExhausted if the pool, or the user's share, is used up.
pub(crate) fn reserve(bytes: usize) -> DfResult<()> {
    TURN.with_borrow_mut(|turn| {
        let Some(turn) = turn else { return Ok(()) };
        let pool = &turn.budget.0.pool;
        let register = || MemoryConsumer::new("functions").register(pool);
        let reservation = turn.reservation.get_or_insert_with(register);
        reservation.try_grow(bytes)?;
        if let Some(peak) = &turn.peak {
            peak.fetch_max(reservation.size(), Relaxed);
        }
        Ok(())
    })
}

/// Maximum bytes that a function may produce per row for the statement of this thread.
pub(crate) fn most_of_a_row() -> u64 {
    let limit = TURN.with_borrow(|turn| turn.as_ref().map(|turn| turn.budget.0.pool.memory_limit()));
    match limit {
        Some(MemoryLimit::Finite(bytes)) => (bytes as u64 / ROW_PART).clamp(LEAST_BYTES, MOST_BYTES),
        _ => MOST_BYTES,
    }
}

/// Records the peak bytes reserved by functions into `peak`, until the poll ends or another target is set.
pub(crate) fn record_peak(peak: &Arc<AtomicUsize>) {
    TURN.with_borrow_mut(|turn| {
        if let Some(turn) = turn {
            turn.peak = Some(peak.clone());
        }
    });
}

/// Releases bytes of the current evaluation.
pub(crate) fn release(bytes: usize) {
    TURN.with_borrow_mut(|turn| {
        if let Some(reservation) = turn.as_mut().and_then(|turn| turn.reservation.as_mut()) {
            reservation.shrink(bytes.min(reservation.size()));
        }
    });
}

/// Releases the bytes of the last evaluation on this thread, when its operator reads on.
pub(crate) fn settle() {
    TURN.with_borrow_mut(|turn| {
        if let Some(reservation) = turn.as_mut().and_then(|turn| turn.reservation.as_mut()) {
            reservation.free();
        }
    });
}

/// Whether planning may keep another constant of this size.
pub(crate) fn fold(bytes: usize) -> bool {
    TURN.with_borrow_mut(|turn| {
        let Some(turn) = turn else { return true };
        turn.folded = turn.folded.saturating_add(bytes);
        bytes <= FOLD_BYTES && turn.folded <= FOLDED_BYTES
    })
}

/// Calls `work`, whose result planning needs, as part of execution: constants of any size are allowed.
pub(crate) fn as_execution<T>(work: impl FnOnce() -> T) -> T {
    match current() {
        Some((budget, _)) => budget.enter(Phase::Execute, work),
        None => work(),
    }
}

fn current() -> Option<(Budget, Phase)> {
    TURN.with_borrow(|turn| turn.as_ref().map(|turn| (turn.budget.clone(), turn.phase)))
}

/// A future that is polled within a budget.
pub(crate) struct Within<F: ?Sized> {
    budget: Budget,
    phase: Phase,
    work: Pin<Box<F>>,
}

impl<F: ?Sized> Within<F> {
    pub(crate) fn new(budget: Budget, phase: Phase, work: Pin<Box<F>>) -> Self {
        Self { budget, phase, work }
    }
}

impl<F: Future + ?Sized> Future for Within<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = &mut *self;
        let work = this.work.as_mut();
        this.budget.enter(this.phase, || work.poll(cx))
    }
}

/// Whether tasks inherit the span in which they were started.
static SPANS: AtomicBool = AtomicBool::new(false);

type Done = Box<dyn Any + Send>;

/// Gives tasks started by a query its budget, and its span if spans are kept.
struct Inherit;

impl JoinSetTracer for Inherit {
    fn trace_future(&self, task: BoxFuture<'static, Done>) -> BoxFuture<'static, Done> {
        let task = if SPANS.load(Relaxed) { Box::pin(task.in_current_span()) } else { task };
        match current() {
            Some((budget, phase)) => Box::pin(Within::new(budget, phase, task)),
            None => task,
        }
    }

    fn trace_block(&self, task: Box<dyn FnOnce() -> Done + Send>) -> Box<dyn FnOnce() -> Done + Send> {
        let span = SPANS.load(Relaxed).then(Span::current);
        let budget = current();
        Box::new(move || {
            let _in_span = span.as_ref().map(Span::enter);
            match budget {
                Some((budget, phase)) => budget.enter(phase, task),
                None => task(),
            }
        })
    }
}

/// Makes tasks started by queries inherit their budget.
pub(crate) fn inherit() {
    // The only error is that a tracer was set before.
    let _ = set_join_set_tracer(&Inherit);
}

/// Makes [steps](tidelake_format::steps) of tasks started by queries belong to the query. For processes that export
/// traces, since it costs an allocation per task.
pub fn keep_spans() {
    SPANS.store(true, Relaxed);
    inherit();
}

#[cfg(test)]
mod tests {
    use datafusion::execution::memory_pool::GreedyMemoryPool;

    use super::*;

    fn budget(bytes: usize) -> (Budget, Arc<dyn MemoryPool>, CancellationToken) {
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(bytes));
        let killed = CancellationToken::new();
        let timeout = Duration::from_secs(60);
        (Budget::new(pool.clone(), Instant::now() + timeout, timeout, killed.clone()), pool, killed)
    }

    #[test]
    fn a_function_may_produce_an_eighth_of_the_statements_memory_per_row() {
        for (mib, expected) in [(1, 1), (8, 1), (80, 10), (256, 32), (4_096, 64)] {
            let (budget, _, _) = budget(mib << 20);
            assert_eq!(budget.enter(Phase::Execute, most_of_a_row), expected << 20, "{mib} MiB");
        }
        assert_eq!(most_of_a_row(), MOST_BYTES);
    }

    #[test]
    fn bytes_are_reserved_until_the_evaluation_or_the_poll_ends() {
        let (budget, pool, _) = budget(100);
        budget.enter(Phase::Execute, || {
            reserve(60).unwrap();
            assert!(reserve(60).is_err());
            assert_eq!(pool.reserved(), 60);
            settle();
            reserve(100).unwrap();
            release(30);
            assert_eq!(pool.reserved(), 70);
        });
        assert_eq!(pool.reserved(), 0);
        reserve(1_000).unwrap();
        assert_eq!(phase(), Phase::Execute);
    }

    #[test]
    fn killed_closed_and_late_statements_must_stop() {
        let (one, _, killed) = budget(100);
        one.enter(Phase::Execute, || {
            check().unwrap();
            killed.cancel();
            assert!(check().unwrap_err().to_string().contains("killed"));
        });
        check().unwrap();
        let (two, pool, killed) = budget(100);
        let late = Budget::new(pool, Instant::now(), Duration::from_secs(3), killed);
        late.enter(Phase::Execute, || assert!(check().unwrap_err().to_string().contains("3s")));
        two.enter(Phase::Execute, || {
            two.end();
            assert!(check().is_err());
        });
    }

    #[test]
    fn a_nested_budget_is_left_on_panic() {
        let (outer, pool, _) = budget(100);
        let (inner, _, _) = budget(10);
        outer.enter(Phase::Execute, || {
            reserve(50).unwrap();
            let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                inner.enter(Phase::Plan, || {
                    assert_eq!(phase(), Phase::Plan);
                    panic!("as a function may");
                })
            }));
            assert!(caught.is_err());
            assert_eq!((phase(), pool.reserved()), (Phase::Execute, 50));
        });
    }

    #[test]
    fn planning_keeps_few_bytes_of_constants() {
        let (budget, _, _) = budget(100);
        budget.enter(Phase::Plan, || {
            assert!(!fold(FOLD_BYTES + 1));
            let kept = (0..1_000).filter(|_| fold(FOLD_BYTES)).count();
            assert!(kept * FOLD_BYTES <= FOLDED_BYTES && kept > 0, "{kept}");
        });
    }

    #[tokio::test]
    async fn a_task_has_the_budget_of_the_statement_that_started_it() {
        inherit();
        let (budget, pool, _) = budget(100);
        let started = budget.enter(Phase::Execute, || {
            datafusion::common::runtime::SpawnedTask::spawn(async move {
                reserve(70).unwrap();
                let during = pool.reserved();
                tokio::task::yield_now().await;
                (during, pool.reserved())
            })
        });
        assert_eq!(started.join().await.unwrap(), (70, 0));
    }
}
