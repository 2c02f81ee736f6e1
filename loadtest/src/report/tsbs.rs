//! The report of TSBS's workload "cpu-only", compared with the other engines of the same run.

use serde::{Deserialize, Serialize};

use super::{
    Conditions, Page,
    text::{bullet, bytes, grouped, millis, paragraph, section, table},
};
use crate::{
    drive::{
        bare::BareSample,
        compact::CompactSample,
        devops::LoadSample,
        sample::PeerLoad,
        tsbs::{MixedSample, QuestionSample, Timing},
    },
    measure::median,
    workload::tsbs::Tsbs,
};

/// All measurements, with their conditions.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TsbsReport {
    /// Time, machine and command.
    #[serde(flatten)]
    pub conditions: Conditions,
    /// The data set.
    pub data: Tsbs,
    /// Loading; `None` if the data was loaded earlier.
    pub load: Option<LoadSample>,
    /// Compaction after loading.
    pub compact: Option<CompactSample>,
    /// Bytes of the live data files and their tag manifests.
    pub live_bytes: u64,
    /// Loads of the same rows into other engines.
    pub peer_loads: Vec<PeerLoad>,
    /// Every question on every engine.
    pub questions: Vec<QuestionSample>,
    /// Large answers compared with a bare Flight server that holds the same batches.
    pub bare: Vec<BareSample>,
    /// Throughput of concurrent clients.
    pub mixed: Vec<MixedSample>,
}

/// Whether a timing is one of Tidelake's.
fn is_ours(timing: &Timing) -> bool {
    timing.engine.starts_with("Tidelake")
}

impl TsbsReport {
    /// Creates an empty report of this data set.
    pub fn new(data: Tsbs) -> Self {
        Self {
            conditions: Conditions::here(),
            data,
            load: None,
            compact: None,
            live_bytes: 0,
            peer_loads: Vec::new(),
            questions: Vec::new(),
            bare: Vec::new(),
            mixed: Vec::new(),
        }
    }

    /// Differences of answers, and statements that failed.
    pub fn differences(&self) -> impl Iterator<Item = &String> {
        self.questions.iter().flat_map(|sample| &sample.differences)
    }

    /// Median of Tidelake's first query interface divided by that of the fastest other engine.
    pub fn ratio(sample: &QuestionSample) -> Option<f64> {
        let ours = sample.timings.iter().find(|timing| is_ours(timing))?.median_ms();
        let others = sample.timings.iter().filter(|timing| !is_ours(timing)).map(Timing::median_ms);
        let ratio = ours / others.filter(|ms| ms.is_finite()).min_by(f64::total_cmp)?;
        ratio.is_finite().then_some(ratio)
    }

    fn loads(&self, page: &mut String) {
        section(page, "Loading and size");
        let rows = self.data.len() as f64;
        let header =
            ["", "clients × rows/request", "rows/s", "MB/s", "p50 ms", "p99 ms", "settled, s", "on disk", "bytes/row"];
        let mut lines = Vec::new();
        let size = |bytes_on_disk: u64| [bytes(bytes_on_disk), format!("{:.3}", bytes_on_disk as f64 / rows)];
        let mut ours = vec!["**Tidelake**, line protocol, live files".to_owned()];
        match &self.load {
            Some(load) => ours.extend([
                format!("{} × {}", load.workers, load.lines_per_request),
                format!("**{}**", grouped((load.lines as f64 / load.seconds) as u64)),
                format!("{:.1}", load.bytes as f64 / load.seconds / 1e6),
                millis(load.latency.p50_ms),
                millis(load.latency.p99_ms),
            ]),
            None => ours.extend(std::iter::repeat_n(String::new(), 5)),
        }
        ours.push(self.compact.as_ref().map_or(String::new(), |compact| format!("{:.1}", compact.seconds)));
        lines.push([ours, size(self.live_bytes).to_vec()].concat());
        for load in &self.peer_loads {
            let rate = grouped((load.rows as f64 / load.seconds) as u64);
            let settled = format!("{:.1}", load.settle_seconds);
            let empty = String::new;
            let cells = [format!("{} {}", load.peer, load.version), "in process, Arrow".to_owned(), rate];
            let cells = [cells.to_vec(), vec![empty(), empty(), empty(), settled]].concat();
            lines.push([cells, size(load.disk_bytes).to_vec()].concat());
        }
        table(page, &header.map(str::to_owned), lines.into_iter());
    }

    fn times(&self, page: &mut String) {
        let Some(first) = self.questions.first() else { return };
        section(page, "Queries, milliseconds");
        paragraph(
            page,
            "Median of the runs after one that is not counted: each statement is repeated for 0.3 s or 100 times, and at least \
             `--repeat` times. The order of the engines rotates with each query. Times run from the request to the complete \
             answer in Arrow, at the client; Tidelake's answers pass through a connection to another process. The ratio is \
             Tidelake's time over Flight SQL divided by that of the fastest other engine.",
        );
        let mut header = vec!["".to_owned(), "rows".to_owned()];
        header.extend(first.timings.iter().map(|timing| match is_ours(timing) {
            true => format!("**{}**", timing.engine),
            false => timing.engine.clone(),
        }));
        header.push("ratio".to_owned());
        let rows = self.questions.iter().map(|sample| {
            let rows = sample.timings.first().map_or(0, |timing| timing.rows);
            let mut cells = vec![sample.name.clone(), grouped(rows)];
            cells.extend(sample.timings.iter().map(|timing| match &timing.error {
                None => millis(timing.median_ms()),
                Some(_) => "failed".to_owned(),
            }));
            cells.push(Self::ratio(sample).map_or(String::new(), |ratio| format!("{ratio:.2}")));
            cells
        });
        table(page, &header, rows);
        let ratios: Vec<f64> = self.questions.iter().filter_map(Self::ratio).collect();
        if !ratios.is_empty() {
            let mean = (ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64).exp();
            let faster = ratios.iter().filter(|ratio| **ratio < 1.0).count();
            let all = ratios.len();
            let text =
                format!("Geometric mean of the {all} ratios: {mean:.2}. Tidelake is the fastest in {faster} of them.");
            paragraph(page, &text);
        }
    }

    fn large(&self, page: &mut String) {
        if self.bare.is_empty() {
            return;
        }
        section(page, "Large answers beside a bare Flight server");
        paragraph(
            page,
            "The bare server holds the batches of the same answer in memory and only sends them; the same client queries both \
             alternately.",
        );
        let header = ["", "tags", "rows", "batches", "bytes", "**Tidelake, ms**", "bare, ms", "ratio", "runs"];
        let rows = self.bare.iter().map(|sample| {
            vec![
                format!("`{}`", sample.sql),
                if sample.tag_dictionaries { "dictionaries" } else { "text" }.to_owned(),
                grouped(sample.rows),
                grouped(sample.batches),
                bytes(sample.bytes),
                format!("**{}**", millis(median(&sample.millis))),
                millis(median(&sample.bare_millis)),
                format!("{:.3}", sample.ratio()),
                sample.millis.len().to_string(),
            ]
        });
        table(page, &header.map(str::to_owned), rows);
    }

    fn concurrent(&self, page: &mut String) {
        let Some(first) = self.mixed.first() else { return };
        section(page, "Concurrent clients");
        let text = format!(
            "{} queries of double-groupby-5, double-groupby-all, high-cpu-all, A6 and A12 with random times, in the same order \
             on each engine; each client takes the next one when it has the answer to its last. Busy processors: those of clients, \
             engine and the rest of the machine, on average.",
            first.questions
        );
        paragraph(page, &text);
        let header = ["", "clients", "queries/s", "rate ÷ first", "busy processors"].map(str::to_owned);
        let rows = self.mixed.iter().map(|sample| {
            let first = self.mixed.iter().find(|other| other.engine == sample.engine).unwrap_or(sample);
            vec![
                sample.engine.clone(),
                sample.clients.to_string(),
                format!("{:.2}", sample.per_second()),
                format!("{:.2}", sample.per_second() / first.per_second()),
                format!("{:.2}", sample.busy),
            ]
        });
        table(page, &header, rows);
    }

    fn answers(&self, page: &mut String) {
        section(page, "Answers");
        let equal: u64 = self.questions.iter().map(|sample| sample.equal).sum();
        let text = format!(
            "Number of rows, sums of numbers (to 1e-9, percentiles to 1e-6, approximations to 1 %) and hashes of texts are \
             compared: each engine with the generator's rows, and Tidelake with each other engine. {} comparisons are equal, \
             {} are not.",
            grouped(equal),
            grouped(self.differences().count() as u64)
        );
        paragraph(page, &text);
        self.differences().for_each(|difference| bullet(page, difference));
    }
}

impl Page for TsbsReport {
    fn markdown(&self) -> String {
        let mut page = "# Load test: TSBS, cpu-only\n\n".to_owned();
        let Tsbs { hosts, steps, seed } = self.data;
        let data = format!(
            "{} hosts × {} reports of ten integers, one every ten seconds: {} rows, seed {seed}. The other engines run inside \
             their adapters' processes with two threads: DuckDB with the rows in order of arrival and tags as enumerations, \
             ClickHouse (chdb) with a MergeTree by (hostname, ts), merged to one part.",
            grouped(hosts.into()),
            grouped(steps.into()),
            grouped(self.data.len())
        );
        self.conditions.tell(&mut page, &[data]);
        self.loads(&mut page);
        self.times(&mut page);
        self.large(&mut page);
        self.concurrent(&mut page);
        self.answers(&mut page);
        page
    }
}
