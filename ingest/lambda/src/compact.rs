//! Compaction by invocations: each does what its time allows, and requests another one if work remains.
//!
//! The event is `{"task": …}`: `compact` (the default: fold, drop expired partitions, perform due merges), `fold`, `full`,
//! `collect` (delete objects that no version needs any more; ends at once on an idle root) or `sweep` (also delete objects that
//! no version ever named). Any number of invocations may run at once.

use std::time::{Duration, Instant};

use lambda_runtime::{Context, LambdaEvent, service_fn};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tidelake_format::{
    Error, Result,
    garbage::{Collected, Sweep},
    meta::Root,
    store::Store,
};
use tidelake_ingest::{
    compact::{CompactReport, CompactRequest, Compactor, Debt},
    config::CompactConfig,
};
use tidelake_lambda::{
    aws::Aws,
    lazily::Lazily,
    telemetry::{Gauged, Telemetry},
    time_left,
};
use tracing::Instrument as _;

/// Divisor of an invocation's time, after which no step begins: the last step may take as long as all before.
const BEGINS_WITHIN: u32 = 2;
/// Folded segments that trigger a collection before the hourly one: every LIST of the log pays for them, by the thousand.
const MOST_FOLDED: u64 = 1_000;
/// Most invocations in a row that request another one; then the schedule continues.
const MOST_TURNS: u32 = 100;

/// The task of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Task {
    #[default]
    Compact,
    Fold,
    Full,
    Collect,
    Sweep,
}

/// An event from the schedule, an operator or the previous invocation.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
struct Event {
    #[serde(default)]
    task: Task,
    /// Number of invocations in a row that have requested another one.
    #[serde(default)]
    turn: u32,
}

/// Requests another invocation of this function.
#[derive(Debug, Clone)]
pub struct Continue {
    aws: Aws,
    function: String,
}

impl Continue {
    /// Requests invocations through the platform.
    pub fn by(aws: Aws) -> Self {
        let function = std::env::var("AWS_LAMBDA_FUNCTION_NAME").unwrap_or_default();
        Self { aws, function }
    }
}

/// Result of an invocation.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Done {
    /// Folded log segments.
    segments: u64,
    /// Rows of these segments.
    folded_rows: u64,
    /// Data files replaced by merges.
    merged_files: u64,
    /// Rows of these files.
    merged_rows: u64,
    /// Rows dropped by retention.
    expired_rows: u64,
    /// Objects deleted by garbage collection.
    collected: u64,
    /// Whether work remained when the time ended.
    pub has_more: bool,
}

impl Done {
    fn new(report: &CompactReport, collected: u64, has_more: bool) -> Self {
        Self {
            segments: report.segments,
            folded_rows: report.folded_rows,
            merged_files: report.merged_files,
            merged_rows: report.merged_rows,
            expired_rows: report.expired_rows,
            collected,
            has_more,
        }
    }
}

/// The compaction function.
pub struct CompactFunction {
    store: Store,
    config: CompactConfig,
    next: Option<Continue>,
    compactor: Lazily<Compactor>,
    telemetry: &'static Telemetry,
}

impl CompactFunction {
    /// A function that compacts a root, and requests another invocation of itself if `next` is given and work remains.
    pub fn new(store: Store, config: CompactConfig, next: Option<Continue>, telemetry: &'static Telemetry) -> Self {
        Self { store, config, next, compactor: Lazily::default(), telemetry }
    }

    /// Handles events until the platform ends the process.
    ///
    /// # Errors
    /// If no events can be fetched from the platform.
    pub async fn serve(self) -> Result<(), lambda_runtime::Error> {
        let this = &self;
        lambda_runtime::run(service_fn(move |event: LambdaEvent<Value>| this.answer(event))).await
    }

    async fn answer(&self, event: LambdaEvent<Value>) -> Result<Done, lambda_runtime::Error> {
        let LambdaEvent { payload, context } = event;
        let span = self.telemetry.begin(&context);
        let done = self.compact(payload, &context).instrument(span.clone()).await;
        if let Err(error) = &done {
            span.in_scope(|| tracing::error!(kind = ?error.kind(), %error, "compaction failed"));
            self.telemetry.failed();
            self.telemetry.tell(&context.request_id, &[]);
        }
        Ok(done?)
    }

    /// Performs the task of an event, as far as the time of the invocation allows.
    ///
    /// # Errors
    /// Invalid for an event of another shape; errors of the steps.
    pub async fn compact(&self, payload: Value, context: &Context) -> Result<Done> {
        let left = time_left(context);
        let event: Event = match payload {
            Value::Object(ref fields) if fields.contains_key("task") || fields.contains_key("turn") => {
                serde_json::from_value(payload).map_err(|e| {
                    Error::invalid("expected {\"task\": \"compact\" | \"fold\" | \"full\" | \"collect\" | \"sweep\"}")
                        .with("reason", &e)
                        .source(e)
                })?
            }
            // An event of the schedule without a task.
            _ => Event::default(),
        };
        let open = || async { Ok(Compactor::new(Root::open(self.store.clone()).await?, self.config.clone())) };
        let compactor = self.compactor.get(left, open).await?;
        let begun = Instant::now();
        let mut done = self.run(compactor, event.task, left / BEGINS_WITHIN).await;
        // An idle root is not examined a second time, and no metrics are reported of it: both cost.
        let is_idle = matches!(&done, Ok(done) if *done == Done::new(&CompactReport::default(), 0, false));
        let debt = if is_idle { None } else { compactor.debt().await.ok() };
        let rest = (left / BEGINS_WITHIN).saturating_sub(begun.elapsed());
        if let (Ok(done), Some(debt)) = (&mut done, &debt)
            && event.task == Task::Compact
            && debt.folded >= MOST_FOLDED
            && !rest.is_zero()
        {
            match self.collect(compactor, Sweep::Quick, rest).await {
                Ok((collected, has_more)) => {
                    done.collected = collected;
                    done.has_more |= has_more;
                }
                Err(error) => tracing::warn!(kind = ?error.kind(), %error, "collection failed; it will be retried"),
            }
        }
        self.telemetry.tell(&context.request_id, &debt.map(states).unwrap_or_default());
        let done = done?;
        if done.has_more {
            self.go_on(event).await;
        }
        Ok(done)
    }

    async fn run(&self, compactor: &Compactor, task: Task, limit: Duration) -> Result<Done> {
        let request = match task {
            Task::Compact => CompactRequest::Due,
            Task::Fold => CompactRequest::Fold,
            Task::Full => CompactRequest::Full,
            Task::Collect | Task::Sweep => {
                let sweep = if task == Task::Sweep { Sweep::Full } else { Sweep::Quick };
                let (collected, has_more) = self.collect(compactor, sweep, limit).await?;
                return Ok(Done::new(&CompactReport::default(), collected, has_more));
            }
        };
        let turn = compactor.run_within(request, limit).await?;
        Ok(Done::new(&turn.report, 0, turn.has_more))
    }

    /// Collects garbage for at most `limit`; returns the number of deleted objects, and whether more is left. Deleted objects
    /// stay deleted, and the next collection continues; for an interrupted one, delete requests are counted.
    async fn collect(&self, compactor: &Compactor, sweep: Sweep, limit: Duration) -> Result<(u64, bool)> {
        let before = self.store.counters();
        match tokio::time::timeout(limit, compactor.collect(sweep)).await {
            Ok(deleted) => Ok((sum(&deleted?), false)),
            Err(_) => Ok((self.store.counters().since(&before).delete, true)),
        }
    }

    /// Requests another invocation of this function, if allowed.
    async fn go_on(&self, event: Event) {
        let Some(next) = &self.next else { return };
        if event.turn >= MOST_TURNS {
            tracing::warn!(turns = event.turn, "too many invocations in a row; the schedule continues the work");
            return;
        }
        let event = json!({ "task": event.task, "turn": event.turn + 1 });
        if let Err(error) = next.aws.invoke_later(&next.function, &event).await {
            tracing::warn!(%error, "cannot request another invocation; the schedule continues the work");
        }
    }
}

/// Number of all objects that a collection deleted.
fn sum(deleted: &Collected) -> u64 {
    [deleted.segments, deleted.versions, deleted.removed, deleted.orphans, deleted.keys].into_iter().sum()
}

/// Outstanding work, as metrics.
fn states(debt: Debt) -> Vec<Gauged> {
    vec![
        ("UnfoldedSegments", debt.segments as f64, "Count"),
        ("LogLagSeconds", debt.oldest.as_secs_f64(), "Seconds"),
        ("Files", debt.files as f64, "Count"),
        ("CompactionDebt", debt.to_merge as f64, "Count"),
    ]
}

#[cfg(test)]
mod tests;
