//! Other engines of the same run beside ours.

use super::{bytes, grouped, millis, ours, paragraph, section, table};
use crate::{
    drive::sample::PeerSample,
    drive::{Door, QuerySample},
    report::Report,
};
use std::collections::BTreeSet;

/// Loading and sizes, then the questions, a table for each number of rows that engines held.
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
            "Median of the runs, after one that warms up. Servers are asked by a client in Python; the other engines \
             ran inside the adapter's process, with no network between. Ours is asked over Flight SQL by a client."
        } else {
            "Median of the runs, after one that warms up, over HTTP by a client in Python; ours over Flight SQL."
        },
    );
    let held = |sample: &PeerSample| if sample.data_rows == 0 { report.data.len() } else { sample.data_rows };
    let sizes: BTreeSet<u64> = report.peers.iter().map(held).collect();
    for size in sizes.iter().rev() {
        let samples: Vec<&PeerSample> = report.peers.iter().filter(|sample| held(sample) == *size).collect();
        if *size != report.data.len() {
            paragraph(page, &format!("Of {} rows, not to be compared with the others:", grouped(*size)));
        }
        questions(page, report, &samples, *size == report.data.len() && !report.queries.is_empty());
    }
}

/// How engines with a store of their own took the rows, and what they made of them.
fn loads(page: &mut String, report: &Report) {
    if report.peer_loads.is_empty() {
        return;
    }
    section(page, "Other engines in this run: loading and size");
    paragraph(
        page,
        "Servers take line protocol over HTTP from the load test's own clients (OpenTSDB its JSON, Cassandra CQL from its \
         adapter's clients); the others take the generator's rows as an Arrow stream into the adapter's process, while they are drawn. Size is what `du` shows after \
         compaction was forced and the store came to rest.",
    );
    let header = ["", "rows", "clients × rows/request", "rows/s", "settled after s", "on disk", "bytes a row"];
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

/// Questions by engine, on request with ours and how many times longer others took.
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
        if with_ours { &["**Tidelake**", "fastest DataFusion ÷ ours", "fastest other ÷ ours"] } else { &[] };
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
        // How many times longer the fastest of some engines took than ours did.
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
