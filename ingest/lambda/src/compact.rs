//! Compaction by invocations: each does what its time allows, and says so where there is more.
//!
//! The event is `{"task": …}`: `compact` (the default: fold, drop what is expired, do the merges that are due), `fold`,
//! `full`, `collect` (delete what no version needs any more; ends at once on an idle root) or `sweep` (that, and what no
//! version ever named). Any number of invocations may run at once.

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

/// The part of an invocation's time after which no step begins: the last one may take as long as all before.
const BEGINS_WITHIN: u32 = 2;
/// So many folded segments are collected without waiting for the hour: whoever lists the log pays for them, by the thousand.
const MOST_FOLDED: u64 = 1_000;
/// Invocations in a row that ask for another one; then the schedule goes on.
const MOST_TURNS: u32 = 100;

/// What an event asks for.
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

/// An event, from the schedule, a person or the invocation before.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
struct Event {
    #[serde(default)]
    task: Task,
    /// How many invocations have asked for another one.
    #[serde(default)]
    turn: u32,
}

/// Asks for another invocation of this function.
#[derive(Debug, Clone)]
pub struct Continue {
    aws: Aws,
    function: String,
}

impl Continue {
    /// Through the platform.
    pub fn by(aws: Aws) -> Self {
        let function = std::env::var("AWS_LAMBDA_FUNCTION_NAME").unwrap_or_default();
        Self { aws, function }
    }
}

/// What an invocation did.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Done {
    /// Log segments folded.
    segments: u64,
    /// Rows of them.
    folded_rows: u64,
    /// Data files that merges replaced.
    merged_files: u64,
    /// Rows of them.
    merged_rows: u64,
    /// Rows dropped by retention.
    expired_rows: u64,
    /// Objects deleted by a collection.
    collected: u64,
    /// Whether there was more to do than time.
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

/// The function.
pub struct CompactFunction {
    store: Store,
    config: CompactConfig,
    next: Option<Continue>,
    compactor: Lazily<Compactor>,
    telemetry: &'static Telemetry,
}

impl CompactFunction {
    /// A function that compacts a root, and has itself invoked again where `next` is given and there is more to do.
    pub fn new(store: Store, config: CompactConfig, next: Option<Continue>, telemetry: &'static Telemetry) -> Self {
        Self { store, config, next, compactor: Lazily::default(), telemetry }
    }

    /// Answers events until the platform ends the process.
    ///
    /// # Errors
    /// When the platform cannot be asked for events.
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

    /// Does what an event asks for, as far as the time of the invocation goes.
    ///
    /// # Errors
    /// Invalid for an event of another shape; those of the steps.
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
            // A schedule that says nothing else.
            _ => Event::default(),
        };
        let open = || async { Ok(Compactor::new(Root::open(self.store.clone()).await?, self.config.clone())) };
        let compactor = self.compactor.get(left, open).await?;
        let begun = Instant::now();
        let mut done = self.run(compactor, event.task, left / BEGINS_WITHIN).await;
        // An idle root is not looked at a second time, and nothing is told of it: both cost.
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
                Err(error) => tracing::warn!(kind = ?error.kind(), %error, "garbage is left to the next collection"),
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

    /// Deletes for so long: how many objects, and whether there is more to delete. What has been deleted by then is gone, and the
    /// next collection goes on; of one that was broken off the requests are counted.
    async fn collect(&self, compactor: &Compactor, sweep: Sweep, limit: Duration) -> Result<(u64, bool)> {
        let before = self.store.counters();
        match tokio::time::timeout(limit, compactor.collect(sweep)).await {
            Ok(deleted) => Ok((sum(&deleted?), false)),
            Err(_) => Ok((self.store.counters().since(&before).delete, true)),
        }
    }

    /// Has this function invoked again, where it may.
    async fn go_on(&self, event: Event) {
        let Some(next) = &self.next else { return };
        if event.turn >= MOST_TURNS {
            tracing::warn!(turns = event.turn, "the rest is left to the schedule");
            return;
        }
        let event = json!({ "task": event.task, "turn": event.turn + 1 });
        if let Err(error) = next.aws.invoke_later(&next.function, &event).await {
            tracing::warn!(%error, "the rest is left to the schedule");
        }
    }
}

/// All objects that a collection deleted.
fn sum(deleted: &Collected) -> u64 {
    [deleted.segments, deleted.versions, deleted.removed, deleted.orphans, deleted.keys].into_iter().sum()
}

/// What is left to do, as metrics.
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
