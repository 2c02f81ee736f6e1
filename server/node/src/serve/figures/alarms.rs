//! What is wrong now, as far as this node's figures show it.

use std::time::Duration;

use serde::Serialize;

use super::Node;

/// A fault, and the page of `docs/operations` that says what to do.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Alarm {
    pub(super) name: &'static str,
    pub(super) severity: &'static str,
    text: String,
    page: &'static str,
}

/// Lag of the log that is an alarm although folds are rare by the settings.
const LAG: Duration = Duration::from_secs(60);
/// Number of fold intervals that the log may lag behind.
const FOLDS: u32 = 12;
/// Lag of the log at which queries become slow.
const LONG_LAG: Duration = Duration::from_secs(600);

/// The alarms; `fold_interval` is the setting.
pub(super) fn of(node: &Node, fold_interval: Duration) -> Vec<Alarm> {
    let mut alarms = Vec::new();
    let mut raise = |name, severity, text, page| alarms.push(Alarm { name, severity, text, page });
    if let Some(cause) = &node.store.full {
        raise("store_full", "critical", format!("the store has no space left: writes are refused ({cause})"), "watch");
    }
    if node.ingest.lost_rows_total > 0 {
        let rows = node.ingest.lost_rows_total;
        raise("lost_rows", "critical", format!("{rows} rows acknowledged with no_sync were lost"), "watch");
    }
    match node.log.oldest_seconds.map(Duration::from_secs_f64) {
        Some(lag) if lag > LAG.max(fold_interval * FOLDS) => {
            let severity = if lag > LONG_LAG { "critical" } else { "warning" };
            let text = format!("the oldest unfolded log segment is {} s old: queries get slower", lag.as_secs());
            raise("log_lag", severity, text, "lag");
        }
        _ => {}
    }
    if node.log.segments.is_none() {
        raise("store_silent", "critical", "the store does not answer".to_owned(), "watch");
    }
    let is_near = |used: usize, limit: usize| limit > 0 && used.saturating_mul(10) >= limit.saturating_mul(9);
    let queries = &node.queries;
    if is_near(queries.waiting, queries.waiting_limit) {
        let text = format!("{} of at most {} statements wait", queries.waiting, queries.waiting_limit);
        raise("query_queue", "warning", text, "watch");
    }
    if is_near(node.connections.open, node.connections.limit) {
        let text = format!("{} of at most {} connections are open", node.connections.open, node.connections.limit);
        raise("connections", "warning", text, "watch");
    }
    for pool in &node.memory {
        if is_near(pool.used_bytes as usize, pool.limit_bytes as usize) {
            let (used, limit) = (pool.used_bytes >> 20, pool.limit_bytes >> 20);
            raise("memory", "warning", format!("{}: {used} of {limit} MiB are used", pool.pool), "watch");
        }
    }
    alarms
}
