//! The report of the fleet of servers, compared with InfluxDB if it was measured.

use serde::{Deserialize, Serialize};

use super::{
    Conditions, Page,
    text::{bytes, grouped, millis, paragraph, section, table},
};
use crate::{
    drive::{
        devops::{FormSample, LoadSample},
        send::SendSample,
    },
    measure::Size,
    workload::devops::{Fleet, Form},
    workload::figures::FLEET,
};

/// All measurements, with their conditions.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FleetReport {
    /// Time, machine and command.
    #[serde(flatten)]
    pub conditions: Conditions,
    /// The data set.
    pub fleet: Fleet,
    /// Loading; `None` if the data was loaded earlier.
    pub load: Option<LoadSample>,
    /// Size of the server's root after compaction.
    pub size: Option<Size>,
    /// Bytes of the live data files and their tag manifests.
    pub live_bytes: u64,
    /// Queries by shape, as text and with parameters.
    pub forms: Vec<FormSample>,
    /// One host and hour with a concurrent writer.
    pub beside: Option<FleetBeside>,
    /// InfluxDB with the same lines, hosts and hours.
    pub influxdb: Option<FleetRival>,
}

/// One host and hour with a concurrent writer.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FleetBeside {
    /// Target write rate, in lines per second.
    pub asked_lines_per_second: f64,
    /// Result of the writer.
    pub writer: SendSample,
    /// As text and with parameters.
    pub forms: Vec<FormSample>,
}

/// Results of another system for the same lines, and for the query of one host and hour.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FleetRival {
    /// Its version.
    pub version: String,
    /// Loading.
    pub load: LoadSample,
    /// Seconds from the last reply until the store had settled, with forced compaction.
    pub settle_seconds: f64,
    /// Disk usage of the settled store, in bytes.
    pub disk_bytes: u64,
    /// One host, one hour.
    pub form: FormSample,
}

/// Values per second.
pub fn values_per_second(load: &LoadSample) -> f64 {
    load.values as f64 / load.seconds
}

impl FleetReport {
    /// Creates an empty report of this data set.
    pub fn new(fleet: Fleet) -> Self {
        Self {
            conditions: Conditions::here(),
            fleet,
            load: None,
            size: None,
            live_bytes: 0,
            forms: Vec::new(),
            beside: None,
            influxdb: None,
        }
    }

    /// Bytes per value of Tidelake's live files.
    pub fn live_bytes_per_value(&self) -> f64 {
        self.live_bytes as f64 / self.fleet.values() as f64
    }

    /// The queries of a shape.
    pub fn form(&self, form: Form, with_parameters: bool) -> Option<&FormSample> {
        self.forms.iter().find(|sample| sample.form == form && sample.with_parameters == with_parameters)
    }

    fn compared(&self, page: &mut String) {
        let rival = self.influxdb.as_ref();
        let mut header = vec!["".to_owned(), "**Tidelake**".to_owned()];
        if let Some(rival) = rival {
            header.extend([format!("InfluxDB {}, same run", rival.version), "Tidelake ÷ InfluxDB".to_owned()]);
        }
        header.extend(["InfluxDB 1.4, published", "Cassandra, published"].map(str::to_owned));
        let row = |what: String, ours: f64, theirs: Option<f64>, published: [f64; 2], shown: fn(f64) -> String| {
            let mut row = vec![what, format!("**{}**", shown(ours))];
            if let Some(theirs) = theirs {
                row.extend([shown(theirs), format!("{:.2} ×", ours / theirs)]);
            }
            row.extend(published.map(shown));
            row
        };
        let mut rows = Vec::new();
        if let Some(load) = &self.load {
            let what = format!(
                "loading with {} workers, {} lines per request, values/s",
                load.workers,
                grouped(load.lines_per_request as u64)
            );
            let theirs = rival.map(|rival| values_per_second(&rival.load));
            let count: fn(f64) -> String = |rate| grouped(rate as u64);
            rows.push(row(what, values_per_second(load), theirs, FLEET.values_per_second.map(|v| v as f64), count));
        }
        let per_value: fn(f64) -> String = |bytes| format!("{bytes:.3}");
        let theirs = rival.map(|rival| rival.disk_bytes as f64 / self.fleet.values() as f64);
        let what = "bytes per value after compaction (Tidelake: live files)".to_owned();
        rows.push(row(what, self.live_bytes_per_value(), theirs, FLEET.bytes_per_value, per_value));
        for (with_parameters, words) in [(false, "new query text each time"), (true, "parameters")] {
            let Some(sample) = self.form(Form::OneHostOneHour, with_parameters) else { continue };
            let what = format!(
                "maximum of one host per minute of a random hour, {} workers, {} queries, mean ms: {words}",
                sample.workers,
                grouped(sample.questions as u64)
            );
            rows.push(row(what, sample.mean_ms, rival.map(|rival| rival.form.mean_ms), FLEET.mean_ms, millis));
        }
        section(page, "Loading, size, one host and hour");
        paragraph(page, "Tidelake acknowledges writes after fsync.");
        table(page, &header, rows.into_iter());
    }

    fn questions(&self, page: &mut String) {
        section(page, "Queries, mean and 99th percentile in milliseconds");
        let header = ["", "text", "p99", "parameters", "p99", "queries/s, parameters"].map(str::to_owned);
        let cells = |text: Option<&FormSample>, parameters: Option<&FormSample>| {
            let mut cells = Vec::new();
            for sample in [text, parameters] {
                cells.push(sample.map_or(String::new(), |s| millis(s.mean_ms)));
                cells.push(sample.map_or(String::new(), |s| millis(s.latency.p99_ms)));
            }
            cells.push(parameters.map_or(String::new(), |s| grouped(s.per_second as u64)));
            cells
        };
        let mut rows: Vec<Vec<String>> = (Form::ALL.into_iter())
            .map(|form| {
                let cells = cells(self.form(form, false), self.form(form, true));
                [vec![form.name().to_owned()], cells].concat()
            })
            .collect();
        if let Some(beside) = &self.beside {
            let of = |with_parameters| beside.forms.iter().find(|sample| sample.with_parameters == with_parameters);
            let rate = grouped(beside.writer.rows_per_second() as u64);
            let name =
                format!("{} while {rate} lines/s with later timestamps are written", Form::OneHostOneHour.name());
            rows.push([vec![name], cells(of(false), of(true))].concat());
        }
        table(page, &header, rows.into_iter());
        let Some(size) = &self.size else { return };
        let total = size.total();
        paragraph(
            page,
            &format!(
                "After compaction, the root held {} objects and {}, including {} of log segments: folded segments are kept for a \
                 minute.",
                grouped(total.objects),
                bytes(total.bytes),
                bytes(size.log.bytes)
            ),
        );
    }
}

impl Page for FleetReport {
    fn markdown(&self) -> String {
        let mut page = "# Load test: a fleet of servers\n\n".to_owned();
        let Fleet { hosts, steps, seed } = self.fleet;
        let (lines, values) = (grouped(self.fleet.lines()), grouped(self.fleet.values()));
        let data = format!(
            "{hosts} hosts × 9 measurements with 101 fields × {steps} reports, one every ten seconds: {lines} lines, {values} \
             values, seed {seed}; the answers to each worker's first queries are compared with the generator's values."
        );
        let papers = "InfluxData's published figures (InfluxDB 1.4, Cassandra) were measured on 16 processors, with the client on \
             another machine.";
        self.conditions.tell(&mut page, &[data, papers.to_owned()]);
        self.compared(&mut page);
        self.questions(&mut page);
        page
    }
}
