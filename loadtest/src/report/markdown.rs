//! The report as a Markdown page.

mod peers;

use super::Report;
use super::plots::plots;
use super::text::{bullet, bytes, grouped, millis, paragraph, section, table};
use super::writing::{load, matrix};
use crate::drive::cold::ColdSample;
use crate::drive::{Door, QuerySample};
use crate::measure::median;
use crate::workload::figures;
use crate::workload::part::Part;
use crate::workload::{PERCENTS, Q1_GROUPS, Question, all_queries};
use std::collections::BTreeSet;

/// The whole page.
pub(super) fn markdown(report: &Report) -> String {
    let mut page = String::new();
    page.push_str("# Load test: thermohygrometers\n\n");
    conditions(&mut page, report);
    load(&mut page, report);
    matrix(&mut page, report);
    queries(&mut page, report);
    parts(&mut page, report);
    bare(&mut page, report);
    beside(&mut page, report);
    cold(&mut page, report);
    growth(&mut page, report);
    peers::tables(&mut page, report);
    size(&mut page, report);
    verified(&mut page, report);
    page
}

fn conditions(page: &mut String, report: &Report) {
    let data = &report.data;
    let mut more = Vec::new();
    if !data.is_empty() {
        let (devices, rows) = (grouped(u64::from(data.devices)), grouped(u64::from(data.rows)));
        more.push(format!("{devices} devices × {rows} rows = {} rows, seed {}.", grouped(data.len()), data.seed));
    }
    if let Some(memory) = report.server_memory {
        let (now, peak) = (bytes(memory.resident), bytes(memory.peak));
        more.push(format!("Server memory: {now} at the end, {peak} at the peak."));
    }
    more.push(
        "The papers' figures are for 100 000 000 rows on an i3-7100 (2 cores, 4 threads), 8 GB, one hard disk: \
         another machine, so they show the order of magnitude only."
            .to_owned(),
    );
    report.conditions.tell(page, &more);
}

/// Milliseconds by query and percentage: Tidelake's through each interface, TDengine's published ones below.
fn queries(page: &mut String, report: &Report) {
    let doors: BTreeSet<Door> = report.queries.iter().map(|sample| sample.door).collect();
    if doors.is_empty() {
        return;
    }
    section(page, "Queries, milliseconds");
    paragraph(
        page,
        "Median of the runs (a statement is repeated for 0.3 s or 100 times, and at least `--repeat` times), measured by the \
         client from the request to the last byte of the answer.",
    );
    if plots(report).iter().any(|(name, _)| *name == "latency.svg") {
        paragraph(page, "![Milliseconds by percentage of the rows](latency.svg)");
    }
    let find = |door: Door, question: &Question| {
        let name = question.name();
        report.queries.iter().find(|sample| sample.door == door && sample.name == name)
    };
    let percents = all_queries(&[], &PERCENTS);
    let families: Vec<String> = all_queries(&[], &[100]).iter().map(Question::family).collect();
    let header: Vec<String> = ["".to_owned(), "through".to_owned()]
        .into_iter()
        .chain(PERCENTS.map(|percent| format!("{percent} %")))
        .collect();
    let mut rows = Vec::new();
    for family in &families {
        let questions: Vec<&Question> = percents.iter().filter(|question| question.family() == *family).collect();
        for &door in &doors {
            let cells: Vec<String> = questions.iter().map(|question| ours(find(door, question))).collect();
            if cells.iter().any(|cell| !cell.is_empty()) {
                rows.push([family.clone(), format!("**{}**", door.name())].into_iter().chain(cells).collect());
            }
        }
        let cells = questions.iter().map(|question| paper(figures::tdengine_seconds(question)));
        rows.push([family.clone(), "TDengine".to_owned()].into_iter().chain(cells).collect());
    }
    table(page, &header, rows.into_iter());
    q1(page, report, &doors);
    let others = percents.iter().filter(|question| question.scale() == 100).filter_map(|question| {
        let (cassandra, opentsdb) = figures::others_seconds(question);
        (cassandra.is_some() || opentsdb.is_some()).then(|| vec![question.family(), paper(cassandra), paper(opentsdb)])
    });
    paragraph(page, "The papers' other systems over all rows, milliseconds:");
    table(page, &["", "Cassandra", "OpenTSDB"].map(str::to_owned), others);
    let named: BTreeSet<String> = all_queries(&Q1_GROUPS, &PERCENTS).iter().map(Question::name).collect();
    let free: Vec<&QuerySample> = report.queries.iter().filter(|sample| !named.contains(&sample.name)).collect();
    if !free.is_empty() {
        paragraph(page, "Other statements:");
        let header = ["statement", "through", "rows", "median ms", "runs"].map(str::to_owned);
        let rows = free.iter().map(|sample| {
            let statement = format!("`{}`", sample.sql.replace('|', "\\|"));
            let runs = sample.millis.len().to_string();
            vec![statement, sample.door.name().to_owned(), grouped(sample.rows), ours(Some(*sample)), runs]
        });
        table(page, &header, rows);
    }
}

fn q1(page: &mut String, report: &Report, doors: &BTreeSet<Door>) {
    let asked: BTreeSet<u32> = (Q1_GROUPS.into_iter())
        .filter(|group| report.queries.iter().any(|sample| sample.name == Question::Q1 { group: *group }.name()))
        .collect();
    if asked.is_empty() {
        return;
    }
    paragraph(page, "q1, all rows of one group (the papers': 1 000 000 rows a group; OpenTSDB took 5 920–7 510 ms):");
    let header: Vec<String> = ["through".to_owned(), "rows".to_owned()]
        .into_iter()
        .chain(asked.iter().map(|group| format!("group {group}")))
        .collect();
    let mut rows: Vec<Vec<String>> = Vec::new();
    for &door in doors {
        let samples: Vec<Option<&QuerySample>> = (asked.iter())
            .map(|&group| {
                let name = Question::Q1 { group }.name();
                report.queries.iter().find(|sample| sample.door == door && sample.name == name)
            })
            .collect();
        let Some(count) = samples.iter().flatten().map(|sample| sample.rows).max() else { continue };
        let cells = samples.iter().map(|sample| ours(*sample));
        rows.push([format!("**{}**", door.name()), grouped(count)].into_iter().chain(cells).collect());
    }
    for (system, seconds) in [("TDengine", figures::TDENGINE_Q1), ("Cassandra", figures::CASSANDRA_Q1)] {
        let cells = asked.iter().map(|&group| paper(seconds.get(group as usize / 10).copied()));
        rows.push([system.to_owned(), grouped(1_000_000)].into_iter().chain(cells).collect());
    }
    table(page, &header, rows.into_iter());
}

fn ours(sample: Option<&QuerySample>) -> String {
    sample.map(|sample| format!("**{}**", millis(sample.median_ms()))).unwrap_or_default()
}

fn paper(seconds: Option<f64>) -> String {
    seconds.map(|seconds| millis(seconds * 1e3)).unwrap_or_default()
}

fn parts(page: &mut String, report: &Report) {
    if report.parts.is_empty() {
        return;
    }
    section(page, "Parts of the span, and without precomputed aggregates, milliseconds");
    paragraph(
        page,
        "Over Flight SQL, all groups. A range that cuts minutes needs the rows of the minutes at its ends; `none but the scan` \
         disables tag manifests and rollups (`aggregate-levels: scan`).",
    );
    let mut parts: Vec<Part> = Vec::new();
    for sample in &report.parts {
        if !parts.contains(&sample.part) {
            parts.push(sample.part);
        }
    }
    let names = parts.iter().map(|part| part.name());
    let header: Vec<String> = std::iter::once("").chain(names).map(str::to_owned).collect();
    let families = report.parts.iter().filter(|s| s.part == parts[0]).map(|s| s.query.name.clone());
    let rows = families.map(|family| {
        let of = |part: &Part| {
            let sample = report.parts.iter().find(|s| s.part == *part && s.query.name == family);
            sample.map_or(String::new(), |s| millis(s.query.median_ms()))
        };
        std::iter::once(family.clone()).chain(parts.iter().map(of)).collect()
    });
    table(page, &header, rows);
}

fn bare(page: &mut String, report: &Report) {
    let Some(bare) = &report.bare else { return };
    section(page, "q1 compared with a bare Flight server, milliseconds");
    paragraph(
        page,
        "The bare server only sends, by `arrow-flight`, the batches that Tidelake returned; the same client queries both in \
         turn over HTTP/2 with the same settings.",
    );
    let header = ["", "rows", "batches", "MB", "**Tidelake**", "bare server", "Tidelake ÷ bare", "runs"];
    let row = vec![
        format!("`{}`", bare.sql),
        grouped(bare.rows),
        grouped(bare.batches),
        format!("{:.1}", bare.bytes as f64 / 1e6),
        format!("**{}**", millis(median(&bare.millis))),
        millis(median(&bare.bare_millis)),
        format!("{:.3}", bare.ratio()),
        bare.millis.len().to_string(),
    ];
    table(page, &header.map(str::to_owned), std::iter::once(row));
}

fn beside(page: &mut String, report: &Report) {
    let Some(beside) = &report.beside else { return };
    section(page, "Queries with a concurrent writer, milliseconds");
    let writer = &beside.writer;
    paragraph(
        page,
        &format!(
            "Over Flight SQL, medians. The writer's target rate was {} rows/s, of later rows of the same devices; it sent {} \
             rows/s ({} rows in {:.1} s, p99 {:.1} ms). Answers about a span of the data set are compared with the expected ones, \
             counts of all rows with the numbers of acknowledged and sent rows.",
            grouped(beside.asked_rows_per_second as u64),
            grouped(writer.rows_per_second() as u64),
            grouped(writer.rows),
            writer.seconds,
            writer.latency.p99_ms,
        ),
    );
    let header = ["", "rows", "without writer", "**with writer**", "with ÷ without"].map(str::to_owned);
    let rows = beside.questions.iter().map(|question| {
        vec![
            question.name.clone(),
            question.part.name().to_owned(),
            millis(median(&question.quiet_millis)),
            format!("**{}**", millis(median(&question.millis))),
            format!("{:.2}", question.ratio()),
        ]
    });
    table(page, &header, rows);
}

fn growth(page: &mut String, report: &Report) {
    let Some(first) = report.growth.first() else { return };
    section(page, "Growth");
    paragraph(
        page,
        "Each size in a new server, loaded through Flight SQL (DoPut of batches of 10 000 rows, 4 clients), then folded and \
         merged; queries over all rows through Flight SQL, medians in milliseconds; every answer is verified.",
    );
    let mut header = vec!["rows".to_owned(), "loaded, rows/s".to_owned(), "compaction, s".to_owned()];
    header.extend(first.queries.iter().map(|query| query.name.clone()));
    header.push("peak memory of the server".to_owned());
    let rows = report.growth.iter().map(|sample| {
        let mut row = vec![
            grouped(sample.load.rows),
            grouped(sample.load.rows_per_second as u64),
            format!("{:.1}", sample.compact.seconds),
        ];
        row.extend(sample.queries.iter().map(|query| format!("**{}**", millis(query.median_ms()))));
        row.push(bytes(sample.memory.peak));
        row
    });
    table(page, &header, rows);
}

fn cold(page: &mut String, report: &Report) {
    let Some(cold) = &report.cold else { return };
    section(page, "Cold queries with a remote store");
    paragraph(
        page,
        &format!(
            "Each run queries a new process with empty caches; its store is a local S3 server behind a proxy that simulates \
             distance: first byte after {} ms (median) and {} ms (99th percentile; log-normal), {} per second and connection.",
            cold.first_byte_ms,
            cold.first_byte_p99_ms,
            bytes(cold.bytes_per_second)
        ),
    );
    cold_table(page, &cold.samples);
    let Some(beside) = &cold.beside else { return };
    let writer = &beside.writer;
    paragraph(
        page,
        &format!(
            "The same while another process with the same distance to the store receives rows of later times of the same devices: \
             target {} rows/s, reached {} ({} rows in {:.1} s, p99 {:.1} ms). Counts of all rows are compared with the numbers of \
             acknowledged and sent rows.",
            grouped(beside.asked_rows_per_second as u64),
            grouped(writer.rows_per_second() as u64),
            grouped(writer.rows),
            writer.seconds,
            writer.latency.p99_ms,
        ),
    );
    cold_table(page, &beside.samples);
}

fn cold_table(page: &mut String, samples: &[ColdSample]) {
    let header = ["", "median ms", "all runs", "requests", "from process start: ms", "requests", "bytes"];
    let most = |counts: &[u64]| counts.iter().max().copied().unwrap_or_default();
    let rows = samples.iter().map(|sample| {
        vec![
            sample.name.clone(),
            millis(sample.median_ms()),
            sample.millis.iter().map(|ms| format!("{ms:.0}")).collect::<Vec<_>>().join(" "),
            most(&sample.requests).to_string(),
            millis(median(&sample.from_start_millis)),
            most(&sample.from_start_requests).to_string(),
            bytes(most(&sample.bytes)),
        ]
    });
    table(page, &header.map(str::to_owned), rows);
}

fn size(page: &mut String, report: &Report) {
    if report.size.is_none() && report.collected.is_none() {
        return;
    }
    section(page, "Size");
    let loaded = report.load.as_ref().map_or(report.data.len(), |load| load.rows).max(1) as f64;
    let row = |name: String, kind: crate::measure::Kind| {
        let per_row = format!("{:.3}", kind.bytes as f64 / loaded);
        vec![name, grouped(kind.objects), bytes(kind.bytes), bytes(kind.disk_bytes), per_row]
    };
    let mut rows: Vec<Vec<String>> = Vec::new();
    if let Some(size) = &report.size {
        let kinds = size.kinds().into_iter().filter(|(_, kind)| kind.objects > 0);
        rows.extend(kinds.map(|(name, kind)| row(name.to_owned(), kind)));
        rows.push(row("all".to_owned(), size.total()));
    }
    if let Some(live) = &report.live_size {
        rows.push(row("**live files and their tag manifests**".to_owned(), live.total()));
    }
    if let Some(sample) = &report.collected {
        let total = sample.collected.total();
        let (per_row, objects) = (format!("**{:.3}**", sample.bytes_per_row()), grouped(total.objects));
        let name = "**all, after fold, merge and garbage collection**".to_owned();
        rows.push(vec![name, objects, bytes(total.bytes), bytes(total.disk_bytes), per_row]);
    }
    for (system, paper_bytes) in figures::SIZES {
        let per_row = format!("{:.3}", paper_bytes as f64 / figures::ROWS as f64);
        rows.push(vec![format!("{system} (1e8 rows)"), String::new(), String::new(), bytes(paper_bytes), per_row]);
    }
    let header = ["", "objects", "bytes", "on disk", "bytes/row"].map(str::to_owned);
    table(page, &header, rows.into_iter());
}

fn verified(page: &mut String, report: &Report) {
    let checked = report.verified.right + report.verified.wrong.len() as u64;
    if checked == 0 {
        return;
    }
    section(page, "Answers");
    paragraph(
        page,
        &format!(
            "{} of {} answers equal those computed from the generator's rows (integers exactly, floats to 1e-9).",
            grouped(report.verified.right),
            grouped(checked)
        ),
    );
    for wrong in &report.verified.wrong {
        bullet(page, &format!("WRONG: {}", wrong.replace('\n', " ")));
    }
}
