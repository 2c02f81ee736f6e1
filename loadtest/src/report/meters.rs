//! The report of smart meters, written to servers with one, two, … processors.

use serde::{Deserialize, Serialize};

use super::{
    Conditions, Page,
    text::{bytes, grouped, millis, paragraph, table},
};
use crate::{
    drive::meters::MetersSample,
    workload::meters::{Meters, published},
};

/// Every measurement, with its conditions.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct MetersReport {
    /// Time, machine and command.
    #[serde(flatten)]
    pub conditions: Conditions,
    /// The data set.
    pub data: Meters,
    /// One sample per protocol and number of processors.
    pub samples: Vec<MetersSample>,
}

impl MetersReport {
    /// A sample's rate divided by that of the first sample of its protocol.
    pub fn ratio(&self, sample: &MetersSample) -> Option<f64> {
        let first = self.samples.iter().find(|first| first.form == sample.form)?;
        Some(sample.sent.rows_per_second() / first.sent.rows_per_second())
    }
}

impl Page for MetersReport {
    fn markdown(&self) -> String {
        let mut page = "# Load test: smart meters by processors\n\n".to_owned();
        let Meters { subtables, rows, seed } = self.data;
        let all = grouped(self.data.len());
        let data = format!(
            "{} meters × {} readings = {all} rows, seed {seed}; counts and sums of every meter are compared with the generator's \
             values.",
            grouped(subtables.into()),
            grouped(rows.into())
        );
        let papers = "TDengine's published figures were measured on a server with 12 processors, with the client on another \
             machine.";
        self.conditions.tell(&mut page, &[data, papers.to_owned()]);
        paragraph(
            &mut page,
            "Rows are acknowledged after fsync. If the server has all processors, the clients share them, so the server does \
             not have the last processor to itself.",
        );
        let header = [
            "",
            "server processors",
            "client processors",
            "clients × rows/request",
            "**rows/s**",
            "rate ÷ first",
            "TDengine, published, rows/s",
            "stored/s",
            "CPU time: server, s",
            "CPU time: clients, s",
            "p50 ms",
            "p99 ms",
        ];
        let rows = self.samples.iter().map(|sample| {
            vec![
                sample.form.name().to_owned(),
                sample.cores.to_string(),
                if sample.is_shared { "shared".to_owned() } else { sample.client_cores.clone() },
                format!("{} × {}", sample.clients, sample.rows_per_request),
                format!("**{}**", grouped(sample.sent.rows_per_second() as u64)),
                self.ratio(sample).map_or(String::new(), |ratio| format!("{ratio:.2}")),
                published(sample.cores).map_or(String::new(), |(rows, _)| grouped(rows)),
                bytes((sample.stored_bytes as f64 / sample.sent.seconds) as u64),
                format!("{:.2}", sample.server_cpu_seconds),
                format!("{:.2}", sample.client_cpu_seconds),
                millis(sample.sent.latency.p50_ms),
                millis(sample.sent.latency.p99_ms),
            ]
        });
        table(&mut page, &header.map(str::to_owned), rows);
        page
    }
}
