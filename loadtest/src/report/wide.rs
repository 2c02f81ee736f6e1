//! The report of rows of 32 524 bytes, written to the disk and over links of given bandwidths to an S3 server.

use serde::{Deserialize, Serialize};

use super::{
    Conditions, Page,
    text::{grouped, millis, paragraph, table},
};
use crate::{
    drive::wide::WideSample,
    workload::wide::{PUBLISHED, ROW_BYTES},
};

/// Every measurement, with its conditions.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct WideReport {
    /// Time, machine and command.
    #[serde(flatten)]
    pub conditions: Conditions,
    /// The disk, then the links by bandwidth.
    pub samples: Vec<WideSample>,
}

impl WideReport {
    /// Rate of the sample at `at` divided by that of the previous link, if both are links.
    pub fn ratio(&self, at: usize) -> Option<f64> {
        let before = self.samples.get(at.checked_sub(1)?)?;
        before.line_bytes_per_second?;
        Some(self.samples[at].rows_per_second() / before.rows_per_second())
    }
}

impl Page for WideReport {
    fn markdown(&self) -> String {
        let mut page = "# Load test: wide rows\n\n".to_owned();
        let rows = format!(
            "Rows of {} bytes of random text, which compression can reduce by an eighth; counts, sums and one row are compared \
             with the generator's values.",
            grouped(ROW_BYTES)
        );
        self.conditions.tell(&mut page, &[rows]);
        paragraph(
            &mut page,
            "The disk's rate is that of writing one file of the same size in blocks of 16 MiB, each synced, before and after \
             the load; a smaller file may be written faster than the disk can sustain. A link is a proxy in front of a local \
             S3 server that limits all uploads together to its rate; all links are loaded for the same time. `MB/s sent` is \
             everything sent to the store during the load: rows, and the files that folding wrote.",
        );
        let header = [
            "store",
            "rows",
            "writers × rows/DoPut",
            "seconds",
            "**MB/s of rows**",
            "of the store's rate",
            "rate ÷ previous link",
            "MB/s sent",
            "of the store's rate",
            "CPU time: server, s",
            "CPU time: clients and proxy, s",
            "p50 ms",
            "p99 ms",
        ];
        if let Some(bare) = self.samples.iter().find_map(|sample| sample.bare_bytes_per_second) {
            let taken = format!(
                "A bare Flight server that discards the rows of the same writers receives {:.0} MB/s here: an upper limit for \
                 the load on the disk.",
                bare / 1e6
            );
            paragraph(&mut page, &taken);
        }
        let rows = self.samples.iter().enumerate().map(|(at, sample)| {
            let limit = sample.limit().unwrap_or(f64::NAN);
            let store = match sample.disk_bytes_per_second {
                Some([before, after]) => format!("disk, {:.0} MB/s before, {:.0} after", before / 1e6, after / 1e6),
                None => format!("link of {:.0} MB/s", limit / 1e6),
            };
            let passed = sample.written_bytes as f64 / sample.seconds;
            let percent = |rate: f64| format!("{:.0} %", rate / limit * 100.0);
            vec![
                store,
                grouped(sample.rows),
                format!("{} × {}", sample.writers, sample.rows_per_put),
                format!("{:.2}", sample.seconds),
                format!("**{:.1}**", sample.bytes_per_second() / 1e6),
                percent(sample.bytes_per_second()),
                self.ratio(at).map_or(String::new(), |ratio| format!("**{ratio:.2} ×**")),
                format!("{:.1}", passed / 1e6),
                percent(passed),
                format!("{:.2}", sample.server_cpu_seconds),
                format!("{:.2}", sample.client_cpu_seconds),
                millis(sample.latency.p50_ms),
                millis(sample.latency.p99_ms),
            ]
        });
        table(&mut page, &header.map(str::to_owned), rows);
        paragraph(&mut page, "TDengine's published figures, measured on another machine:");
        let header = ["disks", "rows/s", "MB/s"].map(str::to_owned);
        let theirs = PUBLISHED
            .iter()
            .map(|(disks, rows, [from, to])| vec![disks.to_string(), grouped(*rows), format!("{from}–{to}")]);
        table(&mut page, &header, theirs);
        page
    }
}
