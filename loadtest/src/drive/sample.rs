//! What adapters of other engines measure.

use serde::{Deserialize, Serialize};

use crate::measure::median;

/// How another engine with a store of its own took the rows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PeerLoad {
    /// The engine.
    pub peer: String,
    /// Its version.
    pub version: String,
    /// Rows that it took.
    pub rows: u64,
    /// From the first request, or the first batch of rows, to the last reply.
    pub seconds: f64,
    /// Clients at once; 0 in the adapter's process.
    pub clients: usize,
    /// Rows of a request; 0 in the adapter's process.
    pub rows_per_request: usize,
    /// From then until the store came to rest, compaction forced.
    pub settle_seconds: f64,
    /// What the store occupies on disk then, as `du` counts.
    pub disk_bytes: u64,
    /// Whether the engine ran inside the adapter's process, with no network between.
    pub in_process: bool,
}

/// One engine's answer to one question, as an adapter of `peers/` reports it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PeerSample {
    /// The engine and what it read: `datafusion (default files)`.
    pub peer: String,
    /// The engine's version.
    pub version: String,
    /// The question's name: `q2 avg 10 %`.
    pub name: String,
    /// The statement, in the engine's words.
    pub sql: String,
    /// Rows that the engine held; 0 in reports of earlier versions, when it was always all.
    #[serde(default)]
    pub data_rows: u64,
    /// Each run in order, in milliseconds.
    pub millis: Vec<f64>,
    /// The rows of the answer; of q1 one row, as [`crate::workload::verify::sums_of_q1`] has it.
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
