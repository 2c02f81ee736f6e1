//! Measurements of adapters of other engines.

use serde::{Deserialize, Serialize};

use crate::measure::median;

/// Load of the rows into another engine with its own store.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PeerLoad {
    /// The engine.
    pub peer: String,
    /// Its version.
    pub version: String,
    /// Rows stored.
    pub rows: u64,
    /// Seconds from the first request, or the first batch of rows, to the last reply.
    pub seconds: f64,
    /// Concurrent clients; 0 for an engine in the adapter's process.
    pub clients: usize,
    /// Rows per request; 0 for an engine in the adapter's process.
    pub rows_per_request: usize,
    /// Seconds from the last reply until the store had settled, with forced compaction.
    pub settle_seconds: f64,
    /// Disk usage of the settled store, as `du` counts it.
    pub disk_bytes: u64,
    /// Whether the engine ran inside the adapter's process, with no network between.
    pub in_process: bool,
}

/// One engine's answer to one query, as reported by an adapter of `peers/`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PeerSample {
    /// The engine and what it read: `datafusion (default files)`.
    pub peer: String,
    /// The engine's version.
    pub version: String,
    /// Query name: `q2 avg 10 %`.
    pub name: String,
    /// The statement, in the engine's language.
    pub sql: String,
    /// Rows that the engine held; 0 in reports of earlier versions, where it was always all rows.
    #[serde(default)]
    pub data_rows: u64,
    /// Time of each run in order, in milliseconds.
    pub millis: Vec<f64>,
    /// The rows of the answer; for q1 one summary row, as computed by [`crate::workload::verify::sums_of_q1`].
    pub rows: Vec<Vec<serde_json::Value>>,
    /// Whether the engine ran inside the adapter's process, with no network between.
    pub in_process: bool,
}

impl PeerSample {
    /// The median of all runs, in milliseconds.
    pub fn median_ms(&self) -> f64 {
        median(&self.millis)
    }
}
