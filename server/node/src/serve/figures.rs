//! The figures of this node: what `/metrics`, `GET /api/v1/node` and its events report, taken from one place so that they agree.

mod alarms;
mod events;
mod families;
mod process;
mod samples;

use std::{
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use chrono::{DateTime, SecondsFormat, Utc};
use metrics_exporter_prometheus::PrometheusHandle;
use serde::Serialize;
use tidelake_format::{meta::Catalog, store::StoreCounters};
use tidelake_ingest::{compact::Debt, metrics as ingest_metrics, write::Ingest};
use tidelake_query::{engine::Engine, metrics as query_metrics};
use tokio::sync::Mutex;

pub(super) use self::events::events;
use self::{alarms::Alarm, process::Process, samples::Samples};

/// Most tables whose rows are reported one by one.
const TABLES: usize = 100;
/// Age at which the lag of the log is measured again: on a directory, and on a remote store, where it costs a request.
const LAG_EVERY: [Duration; 2] = [Duration::from_secs(2), Duration::from_secs(30)];
/// Age at which the figures are taken again, whatever the number of clients that ask.
const TAKEN_EVERY: Duration = Duration::from_millis(900);

/// Longest wait for the store.
const ANSWERS_WITHIN: Duration = Duration::from_secs(2);

/// Limits of this node that no other part knows.
#[derive(Debug, Clone, Copy)]
pub(super) struct NodeLimits {
    pub(super) connections: usize,
    pub(super) memory_bytes: usize,
    pub(super) has_disk_cache: bool,
}

/// Takes the figures. Cheap to clone.
#[derive(Clone)]
pub(super) struct Figures(Arc<Inner>);

struct Inner {
    ingest: Ingest,
    engine: Engine,
    metrics: PrometheusHandle,
    limits: NodeLimits,
    started: DateTime<Utc>,
    clock: Instant,
    lag: Mutex<Option<(Instant, Option<Debt>)>>,
    taken: Mutex<Option<(Instant, Arc<Node>)>>,
}

/// The figures of one moment. Totals count since the start of the process.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Node {
    time: String,
    version: &'static str,
    started: String,
    uptime_seconds: f64,
    store: StoreFigures,
    process: Process,
    memory: Vec<Pool>,
    queries: Queries,
    connections: Connections,
    protocols: Vec<Protocol>,
    tables: Vec<TableRows>,
    ingest: Written,
    log: Log,
    files: Files,
    compaction: Compaction,
    disk_cache: Option<DiskCache>,
    alarms: Vec<Alarm>,
}

#[derive(Debug, Clone, Serialize)]
struct StoreFigures {
    name: String,
    /// Why writes fail; `None` while the store has space.
    full: Option<String>,
    requests: Requests,
    sent_bytes: u64,
    received_bytes: u64,
}

#[derive(Debug, Clone, Serialize)]
struct Requests {
    put: u64,
    get: u64,
    head: u64,
    list: u64,
    delete: u64,
}

/// Memory of one purpose, and its limit.
#[derive(Debug, Clone, Serialize)]
struct Pool {
    pool: &'static str,
    used_bytes: u64,
    limit_bytes: u64,
}

#[derive(Debug, Clone, Serialize)]
struct Queries {
    running: usize,
    waiting: usize,
    stalled: usize,
    planning: usize,
    running_limit: usize,
    waiting_limit: usize,
    ended_total: u64,
    rows_total: u64,
    refused_total: u64,
}

#[derive(Debug, Clone, Serialize)]
struct Connections {
    open: usize,
    limit: usize,
}

/// Requests and accepted rows of a protocol; `None` where the protocol has no such count.
#[derive(Debug, Clone, Serialize)]
struct Protocol {
    protocol: String,
    requests_total: Option<u64>,
    rows_total: Option<u64>,
}

#[derive(Debug, Clone, Serialize)]
struct TableRows {
    database: String,
    table: String,
    /// Rows that this process has stored.
    rows_total: u64,
}

#[derive(Debug, Clone, Serialize)]
struct Written {
    rows_total: u64,
    rejected_total: u64,
    body_bytes_total: u64,
    throttled_total: u64,
    lost_rows_total: u64,
    segments_total: u64,
    segment_bytes_total: u64,
    udp_datagrams_total: u64,
    udp_lost_bytes_total: u64,
}

/// The unfolded part of the log; `None` if the store did not answer.
#[derive(Debug, Clone, Serialize)]
struct Log {
    segments: Option<u64>,
    bytes: Option<u64>,
    oldest_seconds: Option<f64>,
}

#[derive(Debug, Clone, Default, Serialize)]
struct Files {
    tables: u64,
    partitions: u64,
    files: u64,
    rows: u64,
    bytes: u64,
    /// Files beyond one per partition.
    to_merge: u64,
}

#[derive(Debug, Clone, Serialize)]
struct Compaction {
    folds_total: u64,
    fold_rows_total: u64,
    merges_total: u64,
    merge_rows_total: u64,
    duplicate_rows_total: u64,
    expired_rows_total: u64,
    expired_partitions_total: u64,
    file_bytes_total: u64,
    failures_total: u64,
}

#[derive(Debug, Clone, Serialize)]
struct DiskCache {
    hits_total: u64,
    misses_total: u64,
    errors_total: u64,
    bytes_total: u64,
}

impl Figures {
    pub(super) fn new(ingest: Ingest, engine: Engine, metrics: PrometheusHandle, limits: NodeLimits) -> Self {
        ingest_metrics::describe();
        query_metrics::describe();
        tidelake_routes::describe();
        Self(Arc::new(Inner {
            ingest,
            engine,
            metrics,
            limits,
            started: SystemTime::now().into(),
            clock: Instant::now(),
            lag: Mutex::default(),
            taken: Mutex::default(),
        }))
    }

    /// The figures, at most a second old.
    pub(super) async fn node(&self) -> Arc<Node> {
        // Held meanwhile: concurrent callers share one result.
        let mut taken = self.0.taken.lock().await;
        match taken.as_ref().filter(|(at, _)| at.elapsed() < TAKEN_EVERY) {
            Some((_, node)) => node.clone(),
            None => {
                let node = Arc::new(self.take().await);
                *taken = Some((Instant::now(), node.clone()));
                node
            }
        }
    }

    /// The figures of now in Prometheus' text format; `with_tables` adds those of each table, whose names not every user may know.
    pub(super) async fn metrics(&self, with_tables: bool) -> String {
        let (node, catalog) = (self.take().await, self.0.ingest.root().catalog());
        let mut text = self.0.metrics.render();
        families::write(&mut text, &node, with_tables.then_some(catalog.as_ref()));
        text
    }

    async fn take(&self) -> Node {
        let Inner { ingest, engine, limits, .. } = &*self.0;
        let (root, config) = (ingest.root(), engine.config());
        let samples = Samples::of(&self.0.metrics.render());
        let total = |name| samples.sum(name);
        let catalog = root.catalog();
        let process = Process::read();
        let (load, lag) = (engine.load(), self.lag().await);
        let pool = |pool, used_bytes: usize, limit_bytes: usize| Pool {
            pool,
            used_bytes: used_bytes as u64,
            limit_bytes: limit_bytes as u64,
        };
        let buffered = total(ingest_metrics::BUFFERED_BYTES) as usize;
        let mut node = Node {
            time: Utc::now().to_rfc3339_opts(SecondsFormat::Millis, true),
            version: env!("CARGO_PKG_VERSION"),
            started: self.0.started.to_rfc3339_opts(SecondsFormat::Secs, true),
            uptime_seconds: self.0.clock.elapsed().as_secs_f64(),
            store: StoreFigures::of(root.store().describe(), root.store().lack(), &root.store().counters()),
            memory: vec![
                pool("process", process.resident_bytes as usize, limits.memory_bytes),
                pool("query", engine.reserved_bytes(), config.memory_bytes),
                pool("page_cache", engine.page_bytes(), config.page_bytes),
                pool("ingest_buffer", buffered, ingest.config().buffer_bytes),
            ],
            process,
            queries: Queries {
                running: load.running,
                waiting: load.waiting,
                stalled: load.stalled,
                planning: load.planning,
                running_limit: config.concurrency,
                waiting_limit: config.waiting,
                ended_total: total(query_metrics::QUERIES),
                rows_total: total(query_metrics::ROWS),
                refused_total: total(query_metrics::REFUSED),
            },
            connections: Connections { open: engine.connections().count(), limit: limits.connections },
            protocols: protocols(&samples),
            tables: self.tables(&catalog),
            ingest: Written {
                rows_total: total(ingest_metrics::ROWS),
                rejected_total: total(ingest_metrics::REJECTED),
                body_bytes_total: total(ingest_metrics::BODY_BYTES),
                throttled_total: total(ingest_metrics::THROTTLED),
                lost_rows_total: total(ingest_metrics::LOST_ROWS),
                segments_total: total(ingest_metrics::SEGMENTS),
                segment_bytes_total: total(ingest_metrics::SEGMENT_BYTES),
                udp_datagrams_total: total(ingest_metrics::UDP_DATAGRAMS),
                udp_lost_bytes_total: total(ingest_metrics::UDP_LOST_BYTES),
            },
            log: Log {
                segments: lag.map(|lag| lag.segments),
                bytes: lag.map(|lag| lag.bytes),
                oldest_seconds: lag.filter(|lag| lag.segments > 0).map(|lag| lag.oldest.as_secs_f64()),
            },
            files: Files::of(&catalog),
            compaction: Compaction {
                folds_total: total(ingest_metrics::FOLDS),
                fold_rows_total: total(ingest_metrics::FOLD_ROWS),
                merges_total: total(ingest_metrics::MERGES),
                merge_rows_total: total(ingest_metrics::MERGE_ROWS),
                duplicate_rows_total: total(ingest_metrics::DUPLICATE_ROWS),
                expired_rows_total: total(ingest_metrics::EXPIRED_ROWS),
                expired_partitions_total: total(ingest_metrics::EXPIRED_PARTITIONS),
                file_bytes_total: total(ingest_metrics::FILE_BYTES),
                failures_total: total(ingest_metrics::COMPACT_FAILURES),
            },
            disk_cache: limits.has_disk_cache.then(|| DiskCache::of(&root.store().counters())),
            alarms: Vec::new(),
        };
        node.alarms = alarms::of(&node, Duration::from_millis(ingest.config().compact.fold_age_ms));
        node
    }

    /// The outstanding work of folds, not older than the interval of [`LAG_EVERY`]; `None` if the store did not answer.
    async fn lag(&self) -> Option<Debt> {
        let every = LAG_EVERY[usize::from(!self.0.ingest.root().store().is_local())];
        let mut lag = self.0.lag.lock().await;
        if let Some((_, debt)) = lag.as_ref().filter(|(at, _)| at.elapsed() < every) {
            return *debt;
        }
        let debt = tokio::time::timeout(ANSWERS_WITHIN, self.0.ingest.debt()).await.ok().and_then(Result::ok);
        *lag = Some((Instant::now(), debt));
        debt
    }

    /// The tables with the most stored rows.
    fn tables(&self, catalog: &Catalog) -> Vec<TableRows> {
        let known = self.0.ingest.rows_by_table().into_iter().filter_map(|(id, rows_total)| {
            let table = catalog.table_by_id(id)?;
            let database = catalog.database_by_id(table.database)?;
            Some(TableRows { database: database.name.clone(), table: table.name.clone(), rows_total })
        });
        known.take(TABLES).collect()
    }
}

impl StoreFigures {
    fn of(name: String, full: Option<String>, counters: &StoreCounters) -> Self {
        let StoreCounters { put, get, head, list, delete, .. } = *counters;
        Self {
            name,
            full,
            requests: Requests { put, get, head, list, delete },
            sent_bytes: counters.put_bytes,
            received_bytes: counters.get_bytes,
        }
    }
}

impl Files {
    fn of(catalog: &Catalog) -> Self {
        let mut all = Self::default();
        for table in catalog.databases().flat_map(|database| catalog.tables(database.id)) {
            all.tables += 1;
            for (_, partition) in catalog.partitions(table.id) {
                all.partitions += 1;
                all.files += partition.files;
                all.rows += partition.rows;
                all.bytes += partition.bytes;
                all.to_merge += partition.files.saturating_sub(1);
            }
        }
        all
    }
}

impl DiskCache {
    fn of(counters: &StoreCounters) -> Self {
        Self {
            hits_total: counters.cache_blocks,
            misses_total: counters.cache_misses,
            errors_total: counters.cache_errors,
            bytes_total: counters.cache_bytes,
        }
    }
}

/// Requests and rows of each protocol that was used.
fn protocols(samples: &Samples) -> Vec<Protocol> {
    let mut protocols: Vec<Protocol> = Vec::new();
    for (name, requests) in samples.by_label(tidelake_routes::REQUESTS, "protocol") {
        protocol(&mut protocols, name).requests_total = Some(requests);
    }
    for (name, rows) in samples.by_label(ingest_metrics::PROTOCOL_ROWS, "protocol") {
        protocol(&mut protocols, name).rows_total = Some(rows);
    }
    protocols.retain(|one| one.requests_total.unwrap_or(0) + one.rows_total.unwrap_or(0) > 0);
    protocols
}

fn protocol<'a>(all: &'a mut Vec<Protocol>, name: &str) -> &'a mut Protocol {
    let at = all.iter().position(|known| known.protocol == name).unwrap_or_else(|| {
        all.push(Protocol { protocol: name.to_owned(), requests_total: None, rows_total: None });
        all.len() - 1
    });
    &mut all[at]
}
