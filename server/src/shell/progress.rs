//! Progress of a statement: elapsed time, and rows and bytes received so far.

use std::time::Duration;

use arrow::array::RecordBatch;
use indicatif::{HumanBytes, ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio::task::JoinHandle;

/// Statements that take less time show no progress.
const AFTER: Duration = Duration::from_secs(1);
/// Interval of redrawing.
const EVERY: Duration = Duration::from_millis(200);

/// A line on standard error, if that is a terminal; removed when dropped.
pub(super) struct Progress {
    bar: ProgressBar,
    showing: JoinHandle<()>,
    bytes: std::cell::Cell<u64>,
}

impl Progress {
    /// Starts to measure; the line appears after a second.
    pub(super) fn start() -> Self {
        let style = ProgressStyle::with_template("{spinner} {elapsed}  {msg}").expect("a constant template");
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden()).with_style(style);
        let shown = bar.clone();
        let showing = tokio::spawn(async move {
            tokio::time::sleep(AFTER).await;
            shown.set_draw_target(ProgressDrawTarget::stderr());
            shown.enable_steady_tick(EVERY);
        });
        Self { bar, showing, bytes: std::cell::Cell::new(0) }
    }

    /// Counts the rows of a batch.
    pub(super) fn add(&self, batch: &RecordBatch) {
        self.bytes.set(self.bytes.get() + batch.get_array_memory_size() as u64);
        self.bar.inc(batch.num_rows() as u64);
        self.bar.set_message(format!("{} rows, {}", self.bar.position(), HumanBytes(self.bytes.get())));
    }

    /// Removes the line.
    pub(super) fn hide(&self) {
        self.showing.abort();
        self.bar.finish_and_clear();
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.hide();
    }
}
