//! The report of the papers' data set written, compacted and queried by serverless functions only.

use serde::{Deserialize, Serialize};

use super::{
    Conditions, Page,
    text::{bullet, bytes, grouped, millis, paragraph, section, table},
};
use crate::{
    drive::{cost::Prices, functions::FunctionsSample, platform::Used},
    measure::median,
    workload::generate::Devices,
};

/// Every measurement, with its conditions.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FunctionsReport {
    /// Time, machine and command.
    #[serde(flatten)]
    pub conditions: Conditions,
    /// The data set.
    pub data: Devices,
    /// The measurements.
    pub sample: FunctionsSample,
    /// Prices of the cost calculation.
    pub prices: Prices,
    /// Monthly cost of idle `compact` invocations once a minute, in dollars.
    pub idle_month: f64,
    /// Monthly cost of the stored bytes, in dollars.
    pub stored_month: f64,
}

/// Scheduled runs in a month of 730 hours.
const RUNS_A_MONTH: f64 = 730.0 * 60.0;

impl FunctionsReport {
    /// Computes the cost of the measurements.
    pub fn new(conditions: Conditions, data: Devices, sample: FunctionsSample) -> Self {
        let prices = Prices::listed();
        let idle = Used {
            invocations: sample.idle.runs,
            seconds: sample.idle.seconds,
            memory_mb: sample.compact.memory_mb,
            store: sample.idle.store,
            ..Used::default()
        };
        let idle_month = prices.function(&idle) / sample.idle.runs as f64 * RUNS_A_MONTH;
        let stored_month = sample.stored as f64 / 1e9 * prices.stored_gigabyte_month;
        Self { conditions, data, sample, prices, idle_month, stored_month }
    }

    /// Dollars per million rows: for writing, and for compaction.
    pub fn million_rows(&self) -> [f64; 2] {
        let millions = self.data.len() as f64 / 1e6;
        [&self.sample.ingest, &self.sample.compact].map(|used| self.prices.function(used) / millions)
    }

    /// Average dollars per query.
    pub fn question(&self) -> f64 {
        self.prices.function(&self.sample.query) / self.sample.query.invocations.max(1) as f64
    }
}

impl Page for FunctionsReport {
    fn markdown(&self) -> String {
        let mut page = "# Load test: functions\n\n".to_owned();
        let sample = &self.sample;
        let lines = [
            format!(
                "{} rows of {} devices, {} per request; written by `ingest-http`, compacted by `compact`, queried by `query-http`, \
                 each a process under a local Runtime API.",
                grouped(self.data.len()),
                grouped(self.data.devices.into()),
                grouped(sample.load.rows_per_request as u64)
            ),
            format!(
                "{} answers equal to those computed from the generator's rows, {} not.",
                sample.verified.right,
                sample.verified.wrong.len()
            ),
        ];
        self.conditions.tell(&mut page, &lines);
        section(&mut page, "Resource usage");
        let header =
            ["function", "MB", "invocations", "seconds", "peak memory", "PUT", "GET", "HEAD", "LIST", "DELETE", "$"]
                .map(str::to_owned);
        let used = [("ingest-http", &sample.ingest), ("compact", &sample.compact), ("query-http", &sample.query)];
        let rows = used.iter().map(|(name, used)| {
            let store = &used.store;
            let counts = [store.put, store.get, store.head, store.list, store.delete].map(grouped);
            let mut row = vec![
                (*name).to_owned(),
                used.memory_mb.to_string(),
                grouped(used.invocations),
                format!("{:.2}", used.seconds),
                bytes(used.peak_memory),
            ];
            row.extend(counts);
            row.push(format!("{:.6}", self.prices.function(used)));
            row
        });
        table(&mut page, &header, rows);
        section(&mut page, "Cost");
        let [write, compact] = self.million_rows();
        bullet(
            &mut page,
            &format!("Writing a million rows: **${write:.5}**; compacting a million rows: ${compact:.5}."),
        );
        bullet(&mut page, &format!("One query: ${:.7} on average.", self.question()));
        bullet(
            &mut page,
            &format!(
                "A month of compaction every minute without new data: **${:.2}** ({} runs: {} LIST, {} GET, {:.1} ms each).",
                self.idle_month,
                sample.idle.runs,
                sample.idle.store.list,
                sample.idle.store.get,
                sample.idle.seconds / sample.idle.runs as f64 * 1e3
            ),
        );
        bullet(
            &mut page,
            &format!(
                "A month of storage of {}: ${:.4}; of a billion such rows: ${:.3}. Idle compaction and storage for a month: \
                 **${:.2}**.",
                bytes(self.sample.stored),
                self.stored_month,
                self.stored_month / self.data.len() as f64 * 1e9,
                self.idle_month + self.stored_month
            ),
        );
        bullet(
            &mut page,
            &format!(
                "List prices of {}, {}, without free tiers: {}. Times were measured on this machine with a nearby store.",
                self.prices.region,
                self.prices.date,
                self.prices.sources.join(", ")
            ),
        );
        page.push('\n');
        if !sample.starts.is_empty() {
            section(&mut page, "Process start to first answer");
            paragraph(&mut page, "Medians and maxima; with the program in the page cache, and dropped from it.");
            let header = ["function", "starts", "cached ms", "max", "dropped ms", "max"].map(str::to_owned);
            let longest = |list: &[f64]| list.iter().copied().fold(0.0, f64::max);
            let rows = sample.starts.iter().map(|starts| {
                vec![
                    format!("`{}`", starts.function),
                    starts.cached_ms.len().to_string(),
                    format!("**{}**", millis(median(&starts.cached_ms))),
                    millis(longest(&starts.cached_ms)),
                    format!("**{}**", millis(median(&starts.dropped_ms))),
                    millis(longest(&starts.dropped_ms)),
                ]
            });
            table(&mut page, &header, rows);
        }
        section(&mut page, "Queries");
        let header = ["query", "interface", "ms", "rows"].map(str::to_owned);
        let rows = sample.queries.iter().map(|query| {
            vec![query.name.clone(), query.door.name().to_owned(), millis(query.median_ms()), grouped(query.rows)]
        });
        table(&mut page, &header, rows);
        page
    }
}
