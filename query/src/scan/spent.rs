//! Metrics of a scan for its store requests and its disk cache.

use std::sync::Arc;

use datafusion::physical_plan::metrics::{Count, ExecutionPlanMetricsSet, MetricBuilder};
use tidelake_format::store::{Store, StoreCounters};

use crate::{budget, tracked::Progress};

/// Requests and bytes of one partition of a scan; failed requests count too.
#[derive(Debug)]
pub(crate) struct Spent {
    store: Store,
    requests: Count,
    bytes: Count,
    cached_bytes: Count,
    counted: StoreCounters,
    /// Counts of the whole statement.
    progress: Option<Arc<Progress>>,
}

impl Spent {
    /// Starts at zero.
    pub(crate) fn new(store: &Store, metrics: &ExecutionPlanMetricsSet, partition: usize) -> Self {
        let count = |name: &'static str| MetricBuilder::new(metrics).counter(name, partition);
        Self {
            store: store.counted_apart(),
            requests: count("store_requests"),
            bytes: count("store_bytes"),
            cached_bytes: count("disk_cache_bytes"),
            counted: StoreCounters::default(),
            progress: budget::progress(),
        }
    }

    /// The store the partition reads from.
    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    /// Adds the counts since the last call.
    pub(crate) fn count(&mut self) {
        let now = self.store.counters();
        let more = now.since(&self.counted);
        self.requests.add(more.requests() as usize);
        self.bytes.add(more.get_bytes as usize);
        self.cached_bytes.add(more.cache_bytes as usize);
        if let Some(progress) = &self.progress {
            progress.read(more.requests(), more.get_bytes + more.cache_bytes);
        }
        self.counted = now;
    }
}

impl Drop for Spent {
    fn drop(&mut self) {
        self.count();
    }
}
