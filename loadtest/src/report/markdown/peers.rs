//! Tables that compare Tidelake with other engines of the same run.

use super::{bytes, grouped, millis, ours, paragraph, section, table};
use crate::{
    drive::sample::PeerSample,
    drive::{Door, QuerySample},
    report::Report,
};
use std::collections::BTreeSet;

/// Loading and sizes, then query times, one table for each number of rows that engines held.
pub(super) fn tables(page: &mut String, report: &Report) {
    loads(page, report);
    if report.peers.is_empty() {
        return;
    }
    section(page, "Other engines in this run, milliseconds");
    let in_process = report.peers.iter().any(|peer| peer.in_process);
    paragraph(
        page,
        if in_process {
            "Median of the runs after one warm-up run. Servers are queried by a Python client; the other engines run in \
             the adapter's process, without a network. Tidelake is queried over Flight SQL by a client."
        } else {
            "Median of the runs after one warm-up run, over HTTP by a Python client; Tidelake over Flight SQL."
        },
    );
    let held = |sample: &PeerSample| if sample.data_rows == 0 { report.data.len() } else { sample.data_rows };
    let sizes: BTreeSet<u64> = report.peers.iter().map(held).collect();
    for size in sizes.iter().rev() {
        let samples: Vec<&PeerSample> = report.peers.iter().filter(|sample| held(sample) == *size).collect();
        if *size != report.data.len() {
            paragraph(page, &format!("Over {} rows, not comparable with the other tables:", grouped(*size)));
        }
        questions(page, report, &samples, *size == report.data.len() && !report.queries.is_empty());
    }
}

/// Load rates and sizes of engines with their own storage.
fn loads(page: &mut String, report: &Report) {
    if report.peer_loads.is_empty() {
        return;
    }
    section(page, "Other engines in this run: loading and size");
    paragraph(
        page,
        "Servers receive line protocol over HTTP from the load test's clients (OpenTSDB its JSON, Cassandra CQL from its \
         adapter's clients); the other engines receive the generator's rows as an Arrow stream in the adapter's process, while the \
         rows are generated. Size is the result of `du` after forced compaction, once the store has settled.",
    );
    let header = ["", "rows", "clients × rows/request", "rows/s", "settled after s", "on disk", "bytes/row"];
    let ours = report.load.as_ref().map(|load| {
        let size = report.live_size.as_ref().or(report.size.as_ref()).map(|size| size.total().disk_bytes);
        vec![
            "**Tidelake**".to_owned(),
            grouped(load.rows),
            format!("{} × {}", load.clients, load.rows_per_request),
            format!("**{}**", grouped(load.rows_per_second as u64)),
            report.compact.as_ref().map(|compact| format!("{:.1}", compact.seconds)).unwrap_or_default(),
            size.map(bytes).unwrap_or_default(),
            size.map(|size| format!("**{:.3}**", size as f64 / load.rows.max(1) as f64)).unwrap_or_default(),
        ]
    });
    let theirs = report.peer_loads.iter().map(|load| {
        vec![
            format!("{} {}", load.peer, load.version),
            grouped(load.rows),
            if load.in_process {
                "in process".to_owned()
            } else {
                format!("{} × {}", load.clients, load.rows_per_request)
            },
            grouped((load.rows as f64 / load.seconds.max(1e-9)) as u64),
            format!("{:.1}", load.settle_seconds),
            bytes(load.disk_bytes),
            format!("{:.3}", load.disk_bytes as f64 / load.rows.max(1) as f64),
        ]
    });
    table(page, &header.map(str::to_owned), ours.into_iter().chain(theirs));
}

/// Query times by engine, with `with_ours` also Tidelake's and the ratios of the other engines' times to them.
fn questions(page: &mut String, report: &Report, samples: &[&PeerSample], with_ours: bool) {
    let mut names: Vec<&str> = Vec::new();
    let mut systems: Vec<(&str, &str)> = Vec::new();
    for peer in samples {
        if !names.contains(&peer.name.as_str()) {
            names.push(&peer.name);
        }
        if !systems.contains(&(peer.peer.as_str(), peer.version.as_str())) {
            systems.push((&peer.peer, &peer.version));
        }
    }
    let ours_and_ratios: &[&str] =
        if with_ours { &["**Tidelake**", "fastest DataFusion ÷ Tidelake", "fastest other ÷ Tidelake"] } else { &[] };
    let header: Vec<String> = (std::iter::once("").chain(ours_and_ratios.iter().copied()))
        .map(str::to_owned)
        .chain(systems.iter().map(|(peer, version)| format!("{peer} {version}")))
        .collect();
    let rows = names.iter().map(|name| {
        let ours_sample = report.queries.iter().find(|sample| sample.door == Door::Flight && sample.name == *name);
        let theirs: Vec<Option<f64>> = (systems.iter())
            .map(|(peer, _)| samples.iter().find(|one| one.peer == *peer && one.name == *name))
            .map(|found| found.map(|sample| sample.median_ms()))
            .collect();
        // Time of the fastest of the wanted engines divided by Tidelake's.
        let ratio = |wanted: &dyn Fn(&str) -> bool| {
            let chosen = systems.iter().zip(&theirs).filter(|((peer, _), _)| wanted(peer));
            let fastest = chosen.filter_map(|(_, found)| *found).min_by(f64::total_cmp);
            let ours = ours_sample.map(QuerySample::median_ms);
            ours.zip(fastest).map(|(ours, fastest)| format!("{:.2}", fastest / ours)).unwrap_or_default()
        };
        let mut cells = vec![(*name).to_owned()];
        if with_ours {
            cells.push(ours(ours_sample));
            cells.extend([ratio(&|peer| peer.starts_with("DataFusion")), ratio(&|_| true)]);
        }
        cells.extend(theirs.iter().map(|found| found.map(millis).unwrap_or_default()));
        cells
    });
    table(page, &header, rows);
}
