//! The figures that the recorder does not hold, in Prometheus' text format.

use std::fmt::{Display, Write as _};

use tidelake_format::meta::Catalog;

use super::{Files, Node};

/// Appends the metrics of a node. With a catalog, also those of each table.
pub(super) fn write(text: &mut String, node: &Node, tables: Option<&Catalog>) {
    let mut families = Families(text);
    families.one(
        "tidelake_build_info",
        "gauge",
        "Always 1; the label is the version.",
        &[("version", node.version)],
        1,
    );
    let process = &node.process;
    families.plain("process_resident_memory_bytes", "gauge", "Resident memory of the process.", process.resident_bytes);
    families.plain("process_cpu_seconds_total", "counter", "Processor time of the process.", process.processor_seconds);
    families.plain("process_threads", "gauge", "Threads of the process.", process.threads);
    families.plain("process_open_fds", "gauge", "Open files of the process.", process.open_files);
    families.plain("tidelake_uptime_seconds", "gauge", "Time since the start of the server.", node.uptime_seconds);
    families.head(
        "tidelake_memory_bytes",
        "gauge",
        "Memory in use, by pool: process, query, page_cache or ingest_buffer.",
    );
    for pool in &node.memory {
        families.sample("tidelake_memory_bytes", &[("pool", pool.pool)], pool.used_bytes);
    }
    families.head("tidelake_memory_limit_bytes", "gauge", "Limit of the memory, by pool.");
    for pool in &node.memory {
        families.sample("tidelake_memory_limit_bytes", &[("pool", pool.pool)], pool.limit_bytes);
    }
    let queries = &node.queries;
    families.head("tidelake_query_statements", "gauge", "Statements by state: running, waiting, stalled or planning.");
    let states = [
        ("running", queries.running),
        ("waiting", queries.waiting),
        ("stalled", queries.stalled),
        ("planning", queries.planning),
    ];
    for (state, count) in states {
        families.sample("tidelake_query_statements", &[("state", state)], count);
    }
    families.plain("tidelake_query_running_limit", "gauge", "Most statements that run at once.", queries.running_limit);
    families.plain("tidelake_query_waiting_limit", "gauge", "Most statements that wait.", queries.waiting_limit);
    families.plain("tidelake_connections", "gauge", "Open connections.", node.connections.open);
    families.plain("tidelake_connections_limit", "gauge", "Most open connections.", node.connections.limit);
    if let (Some(segments), Some(bytes)) = (node.log.segments, node.log.bytes) {
        families.plain("tidelake_log_segments", "gauge", "Log segments that are not folded yet.", segments);
        families.plain("tidelake_log_bytes", "gauge", "Bytes of the log segments that are not folded yet.", bytes);
        let oldest = node.log.oldest_seconds.unwrap_or(0.0);
        families.plain("tidelake_log_lag_seconds", "gauge", "Age of the oldest log segment not folded yet.", oldest);
    }
    files(&mut families, &node.files);
    families.head("tidelake_alarm", "gauge", "1 for each alarm of GET /api/v1/node that is raised now.");
    for alarm in &node.alarms {
        families.sample("tidelake_alarm", &[("name", alarm.name), ("severity", alarm.severity)], 1);
    }
    store(&mut families, node);
    if let Some(catalog) = tables {
        by_table(&mut families, node, catalog);
    }
}

fn files(families: &mut Families<'_>, files: &Files) {
    families.plain("tidelake_tables", "gauge", "Supertables of the root.", files.tables);
    families.plain("tidelake_partitions", "gauge", "Partitions of all supertables.", files.partitions);
    families.plain("tidelake_files", "gauge", "Live data files.", files.files);
    families.plain("tidelake_file_rows", "gauge", "Rows of the live data files.", files.rows);
    families.plain("tidelake_file_bytes", "gauge", "Bytes of the live data files with their sidecars.", files.bytes);
    families.plain("tidelake_files_to_merge", "gauge", "Live data files beyond one per partition.", files.to_merge);
}

fn store(families: &mut Families<'_>, node: &Node) {
    let (store, requests) = (&node.store, &node.store.requests);
    let full = u8::from(store.full.is_some());
    families.plain("tidelake_store_full", "gauge", "1 if the object store has no space left for writes, else 0.", full);
    let name = "tidelake_store_requests_total";
    families.head(name, "counter", "Requests to the object store, including retries.");
    let kinds = [
        ("put", requests.put),
        ("get", requests.get),
        ("head", requests.head),
        ("list", requests.list),
        ("delete", requests.delete),
    ];
    for (kind, count) in kinds {
        families.sample(name, &[("kind", kind)], count);
    }
    let name = "tidelake_store_bytes_total";
    families.head(name, "counter", "Bytes sent to and received from the object store.");
    for (direction, bytes) in [("sent", store.sent_bytes), ("received", store.received_bytes)] {
        families.sample(name, &[("direction", direction)], bytes);
    }
    let Some(cache) = &node.disk_cache else { return };
    let name = "tidelake_disk_cache_blocks_total";
    families.head(name, "counter", "Blocks looked up in the disk cache; an error also counts as a miss.");
    for (result, count) in [("hit", cache.hits_total), ("miss", cache.misses_total), ("error", cache.errors_total)] {
        families.sample(name, &[("result", result)], count);
    }
    let help = "Bytes read from the disk cache instead of the store.";
    families.plain("tidelake_disk_cache_bytes_total", "counter", help, cache.bytes_total);
}

/// Metrics of each table with files, and the rows written to the busiest tables.
fn by_table(families: &mut Families<'_>, node: &Node, catalog: &Catalog) {
    let mut sums = Vec::new();
    for database in catalog.databases() {
        for table in catalog.tables(database.id) {
            let parts = || catalog.partitions(table.id).map(|(_, partition)| partition);
            let files: u64 = parts().map(|part| part.files).sum();
            if files > 0 {
                let (rows, bytes) = (parts().map(|part| part.rows).sum(), parts().map(|part| part.bytes).sum());
                sums.push((database.name.as_str(), table.name.as_str(), [files, rows, bytes]));
            }
        }
    }
    let kinds = [
        ("tidelake_table_files", "Live data files of the table."),
        ("tidelake_table_rows", "Rows of the table's data files; a key in two files counts twice."),
        ("tidelake_table_bytes", "Bytes of the table's data files with their sidecars."),
    ];
    for (at, (name, help)) in kinds.into_iter().enumerate() {
        families.head(name, "gauge", help);
        for (database, table, values) in &sums {
            families.sample(name, &[("database", database), ("table", table)], values[at]);
        }
    }
    let name = "tidelake_table_written_rows_total";
    families.head(name, "counter", "Rows that this process has stored in the table; the 100 busiest tables.");
    for one in &node.tables {
        families.sample(name, &[("database", one.database.as_str()), ("table", one.table.as_str())], one.rows_total);
    }
}

/// A text to which metric families are appended.
struct Families<'a>(&'a mut String);

impl Families<'_> {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        let _ = write!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        self.0.push_str(name);
        for (at, (label, text)) in labels.iter().enumerate() {
            let text = text.replace('\\', r"\\").replace('"', r#"\""#).replace('\n', r"\n");
            let _ = write!(self.0, "{}{label}=\"{text}\"", if at == 0 { '{' } else { ',' });
        }
        let _ = writeln!(self.0, "{} {value}", if labels.is_empty() { "" } else { "}" });
    }

    fn one(&mut self, name: &str, kind: &str, help: &str, labels: &[(&str, &str)], value: impl Display) {
        self.head(name, kind, help);
        self.sample(name, labels, value);
    }

    fn plain(&mut self, name: &str, kind: &str, help: &str, value: impl Display) {
        self.one(name, kind, help, &[], value);
    }
}
