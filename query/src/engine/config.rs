//! Configuration of an engine.

use std::time::Duration;

use tokio::runtime::Handle;

use crate::files::Files;

/// Limits and threads of an engine.
#[derive(Debug, Clone)]
pub struct EngineConfig {
    /// Memory of all queries together, in bytes. Beyond it they spill.
    pub memory_bytes: usize,
    /// Maximum bytes of decoded pages of data files that are kept for later queries.
    pub page_bytes: usize,
    /// Number of partitions, and so of threads, of one query's scan and aggregation.
    pub partitions: usize,
    /// Query timeout.
    pub timeout: Duration,
    /// Number of queries that run at once; more wait.
    pub concurrency: usize,
    /// Maximum number of waiting queries; more are refused.
    pub waiting: usize,
    /// Queries that take at least this long are logged; `None` = none.
    pub slow: Option<Duration>,
    /// The settings that SHOW VARIABLES lists for administrators, without secrets.
    pub variables: Vec<(String, String)>,
    /// Runtime for plans whose polls may compute for long. `None` = where the query is polled.
    pub compute_threads: Option<Handle>,
    /// Runtime for the tasks that sorts start. Hundreds of them at once compute for milliseconds each and delay other tasks in
    /// the same run queue. `None` = where the query runs.
    pub sort_threads: Option<Handle>,
    /// Files that statements may read. `None` in a server.
    pub files: Option<Files>,
}

impl Default for EngineConfig {
    fn default() -> Self {
        Self {
            memory_bytes: 256 << 20,
            page_bytes: 64 << 20,
            partitions: 1,
            timeout: Duration::from_secs(300),
            concurrency: 16,
            waiting: 160,
            slow: None,
            variables: Vec::new(),
            compute_threads: None,
            sort_threads: None,
            files: None,
        }
    }
}
