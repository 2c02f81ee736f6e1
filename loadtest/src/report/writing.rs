//! Write rates in the report.

use super::Report;
use super::text::{grouped, millis, paragraph, section, table};
use crate::drive::{Protocol, WriteSample};
use crate::workload::CLIENTS;
use crate::workload::figures::WRITES;
use std::collections::BTreeSet;

pub(super) fn load(page: &mut String, report: &Report) {
    let Some(load) = &report.load else { return };
    section(page, "Loading");
    write_table(page, &[load]);
    if let Some(compact) = &report.compact {
        paragraph(page, &format!("Compaction afterwards: {:.2} s.", compact.seconds));
    }
}

fn write_table(page: &mut String, samples: &[&WriteSample]) {
    let header = [
        "protocol",
        "rows/request",
        "clients",
        "rows",
        "seconds",
        "rows/s",
        "MB/s",
        "p50 ms",
        "p99 ms",
        "max ms",
        "repeated",
    ];
    let rows = samples.iter().map(|sample| {
        let latency = sample.latency;
        vec![
            format!("{}{}", sample.protocol.name(), buffered(sample)),
            sample.rows_per_request.to_string(),
            sample.clients.to_string(),
            grouped(sample.rows),
            format!("{:.2}", sample.seconds),
            grouped(sample.rows_per_second as u64),
            match sample.protocol {
                Protocol::Flight => String::new(),
                _ => format!("{:.0}", sample.bytes as f64 / 1e6 / sample.seconds.max(1e-9)),
            },
            format!("{:.2}", latency.p50_ms),
            format!("{:.2}", latency.p99_ms),
            format!("{:.2}", latency.max_ms),
            (sample.repeated_busy + sample.repeated_broken).to_string(),
        ]
    });
    table(page, &header.map(str::to_owned), rows);
}

fn buffered(sample: &WriteSample) -> &'static str {
    match sample.durability {
        crate::drive::Durability::Stored => "",
        crate::drive::Durability::Buffered => " (no_sync)",
    }
}

/// Rows per second by rows per request and clients: a table per protocol, followed by the papers' tables.
pub(super) fn matrix(page: &mut String, report: &Report) {
    if !report.matrix.is_empty() {
        section(page, "Writing, rows/s");
        paragraph(page, "![Rows/s by number of clients](writing.svg)");
    }
    let kinds: BTreeSet<(&str, &str)> =
        report.matrix.iter().map(|sample| (sample.protocol.name(), buffered(sample))).collect();
    for (protocol, buffered_text) in kinds {
        let of_kind: Vec<&WriteSample> = (report.matrix.iter())
            .filter(|sample| sample.protocol.name() == protocol && buffered(sample) == buffered_text)
            .collect();
        let name = format!("Tidelake, {protocol}{buffered_text}");
        paragraph(page, &format!("{name}:"));
        cells(page, &name, &of_kind);
    }
    bulk(page, report);
}

/// Table of one protocol: rows per second by rows per request and clients.
fn cells(page: &mut String, name: &str, samples: &[&WriteSample]) {
    let header: Vec<String> =
        ["system".to_owned(), "rows/request".to_owned()].into_iter().chain(CLIENTS.map(clients_text)).collect();
    let sizes: BTreeSet<usize> = samples.iter().map(|sample| sample.rows_per_request).collect();
    let mut rows: Vec<Vec<String>> = Vec::new();
    for size in sizes {
        let ours = CLIENTS.map(|clients| {
            let found = samples.iter().rfind(|cell| cell.rows_per_request == size && cell.clients == clients);
            found.map(|cell| format!("**{}**", grouped(cell.rows_per_second as u64))).unwrap_or_default()
        });
        rows.push([format!("**{name}**"), size.to_string()].into_iter().chain(ours).collect());
        let syncs = CLIENTS.map(|clients| {
            let found = samples.iter().rfind(|cell| cell.rows_per_request == size && cell.clients == clients);
            let sync = found.and_then(|cell| cell.sync_ms);
            sync.map(|[before, after]| format!("{} / {}", millis(before), millis(after))).unwrap_or_default()
        });
        if syncs.iter().any(|sync| !sync.is_empty()) {
            let disk = "disk: ms for a synced write of 4 KiB, before / after".to_owned();
            rows.push([disk, size.to_string()].into_iter().chain(syncs).collect());
        }
        for paper in &WRITES {
            let theirs = CLIENTS.map(|clients| paper.cell(size, clients).map(grouped).unwrap_or_default());
            if theirs.iter().any(|cell| !cell.is_empty()) {
                rows.push([paper.system.to_owned(), size.to_string()].into_iter().chain(theirs).collect());
            }
        }
    }
    table(page, &header, rows.into_iter());
}

/// Bulk loads: DoPut streams of many batches.
fn bulk(page: &mut String, report: &Report) {
    if report.bulk.is_empty() {
        return;
    }
    section(page, "Bulk writing");
    paragraph(
        page,
        "Flight DoPut, one stream of batches per client; a stream is acknowledged as a whole, once all of it is stored \
         (`rows/request` are the rows of a batch, latencies are those of a stream).",
    );
    write_table(page, &report.bulk.iter().collect::<Vec<_>>());
}

fn clients_text(clients: usize) -> String {
    if clients == 1 { "1 client".to_owned() } else { clients.to_string() }
}
