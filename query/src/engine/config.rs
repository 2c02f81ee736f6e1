//! The limits of an engine.

use std::time::Duration;

use tokio::runtime::Handle;

/// Limits of the engine.
#[derive(Debug, Clone)]
pub struct EngineConfig {
    /// Memory of all queries together, in bytes; they spill beyond it.
    pub memory_bytes: usize,
    /// Threads of one query's scan and aggregation.
    pub partitions: usize,
    /// The longest a query may take.
    pub timeout: Duration,
    /// Queries at once; more wait.
    pub concurrency: usize,
    /// Queries that wait for their turn; more are refused.
    pub waiting: usize,
    /// Queries that take longer are logged; `None` = none.
    pub slow: Option<Duration>,
    /// The settings that SHOW VARIABLES tells administrators, without secrets.
    pub variables: Vec<(String, String)>,
    /// Where plans run that may compute for long in one turn. `None` = where the query is polled.
    pub compute_threads: Option<Handle>,
    /// Where sorts run the tasks that they start: hundreds at once compute for milliseconds each, and what is in one queue
    /// with them waits. `None` = where the query runs.
    pub sort_threads: Option<Handle>,
}

impl Default for EngineConfig {
    fn default() -> Self {
        Self {
            memory_bytes: 256 << 20,
            partitions: 1,
            timeout: Duration::from_secs(300),
            concurrency: 16,
            waiting: 160,
            slow: None,
            variables: Vec::new(),
            compute_threads: None,
            sort_threads: None,
        }
    }
}
