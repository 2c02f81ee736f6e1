//! The pictures of a report: rows per second by clients, and milliseconds by percentage of the data.

use super::Report;
use super::chart::{Chart, Line};
use crate::drive::{Door, Durability, Protocol};
use crate::workload::figures::{self, WRITES};
use crate::workload::{CLIENTS, Function, PERCENTS, Question};

/// Returns the pictures with their file names.
pub(super) fn plots(report: &Report) -> Vec<(&'static str, String)> {
    let charts = [("writing.svg", writing(report)), ("latency.svg", latency(report))];
    charts.into_iter().filter_map(|(name, chart)| Some((name, chart?.svg()?))).collect()
}

/// Rows per second at the largest measured request size of each protocol, and of each paper.
fn writing(report: &Report) -> Option<Chart> {
    let mut lines = Vec::new();
    for protocol in Protocol::ALL {
        for durability in [Durability::Stored, Durability::Buffered] {
            let kind = report.matrix.iter().filter(|s| s.protocol == protocol && s.durability == durability);
            let Some(size) = kind.clone().map(|sample| sample.rows_per_request).max() else { continue };
            let of_size = kind.filter(|sample| sample.rows_per_request == size && sample.rows_per_second > 0.0);
            let mut points: Vec<(f64, f64)> =
                of_size.map(|sample| (sample.clients as f64, sample.rows_per_second)).collect();
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            let buffered = if durability == Durability::Buffered { ", no_sync" } else { "" };
            let name = format!("Tidelake, {}, {size} rows{buffered}", protocol.name());
            lines.push(Line { name, is_published: false, points });
        }
    }
    if lines.is_empty() {
        return None;
    }
    for paper in &WRITES {
        let most = paper.rows.iter().max_by_key(|(_, cells)| cells.iter().max());
        lines.extend(most.map(|(size, cells)| Line {
            name: format!("{}, {size} rows, published", paper.system),
            is_published: true,
            points: CLIENTS.iter().zip(cells).map(|(clients, rows)| (*clients as f64, *rows as f64)).collect(),
        }));
    }
    Some(Chart { title: "Writing: rows/s by number of clients", x: "clients", y: "rows/s", lines })
}

/// q2 avg, q3 and q4 through Flight SQL, else through the first interface, and TDengine's figures.
fn latency(report: &Report) -> Option<Chart> {
    let door = report.queries.iter().map(|sample| sample.door).min_by_key(|door| *door != Door::Flight)?;
    let families: [fn(u32) -> Question; 3] = [
        |percent| Question::Q2 { function: Function::Avg, percent },
        |percent| Question::Q3 { percent },
        |percent| Question::Q4 { percent },
    ];
    let mut lines = Vec::new();
    for family in families {
        let ours = PERCENTS.iter().filter_map(|&percent| {
            let name = family(percent).name();
            let sample = report.queries.iter().find(|sample| sample.door == door && sample.name == name)?;
            Some((f64::from(percent), sample.median_ms())).filter(|(_, ms)| *ms > 0.0)
        });
        let points: Vec<(f64, f64)> = ours.collect();
        if points.is_empty() {
            continue;
        }
        let theirs = PERCENTS
            .iter()
            .filter_map(|&percent| Some((f64::from(percent), figures::tdengine_seconds(&family(percent))? * 1e3)));
        let name = family(100).family();
        let published =
            Line { name: format!("TDengine, {name}, published"), is_published: true, points: theirs.collect() };
        lines.extend([
            Line { name: format!("Tidelake, {name}, {}", door.name()), is_published: false, points },
            published,
        ]);
    }
    let title = "Queries: milliseconds by percentage of the rows";
    Some(Chart { title, x: "% of the devices", y: "ms", lines }).filter(|chart| !chart.lines.is_empty())
}
