//! The second data set: servers that report nine measurements with 101 fields every ten seconds, as in InfluxData's published
//! comparison with Cassandra and in TSBS; and its queries.
//!
//! Every value is a function of (seed, host, measurement, field, step), computed only by IEEE additions and multiplications. Each
//! field is a separate random walk, so one field of one host can be computed without the others.

mod fields;
mod questions;

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::workload::generate::random::{GAMMA, mix};

pub use fields::{Field, Kind, MEASUREMENTS, Measurement};
pub use questions::{Asked, Form, answer, check, check_values, influxql};

/// The first instant: 2018-01-01T00:00:00Z, milliseconds since 1970.
pub const FIRST_TS: i64 = 1_514_764_800_000;
/// Time between two reports of a host, in milliseconds.
pub const STEP_MS: i64 = 10_000;
/// The database.
pub const DATABASE: &str = "devops";

pub(super) const REGIONS: [&str; 9] = [
    "us-east-1",
    "us-west-1",
    "us-west-2",
    "eu-west-1",
    "eu-central-1",
    "ap-southeast-1",
    "ap-southeast-2",
    "ap-northeast-1",
    "sa-east-1",
];
pub(super) const SYSTEMS: [&str; 3] = ["Ubuntu16.10", "Ubuntu16.04LTS", "Ubuntu15.10"];
pub(super) const TEAMS: [&str; 4] = ["SF", "NYC", "LON", "CHI"];
pub(super) const ENVIRONMENTS: [&str; 3] = ["production", "staging", "test"];

/// Size and seed of a fleet of servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fleet {
    /// Number of servers.
    pub hosts: u32,
    /// Reports per server.
    pub steps: u32,
    /// Random seed; equal seeds give equal values.
    pub seed: u64,
}

/// Sequence of random numbers of one field of one host.
#[derive(Debug, Clone, Copy)]
pub(super) struct Draws(pub(super) u64);

impl Draws {
    pub(super) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GAMMA);
        mix(self.0)
    }

    /// At least 0 and less than 1.
    pub(super) fn uniform(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Approximately normal, with mean 0 and variance 1: a sum of four uniform numbers, which avoids functions that machines
    /// round differently.
    pub(super) fn normal(&mut self) -> f64 {
        let (a, b) = (self.bits(), self.bits());
        let parts = [a >> 32, a & 0xffff_ffff, b >> 32, b & 0xffff_ffff];
        let sum: f64 = parts.iter().map(|part| *part as f64 / 4_294_967_296.0).sum();
        (sum - 2.0) * 3f64.sqrt()
    }
}

/// Random walk of one field of one host.
#[derive(Debug, Clone, Copy)]
struct Walk {
    kind: Kind,
    draws: Draws,
    value: f64,
}

impl Walk {
    fn new(seed: u64, host: u32, measurement: usize, field: usize, kind: Kind) -> Self {
        let key = u64::from(host) << 32 | (measurement as u64) << 16 | field as u64;
        let mut draws = Draws(mix(seed ^ mix(key.wrapping_add(1))));
        let value = match kind {
            Kind::Float { min, max, .. } | Kind::Gauge { min, max, .. } | Kind::Fixed { min, max } => {
                min + (max - min) * draws.uniform()
            }
            Kind::Counter { .. } | Kind::Filling { .. } | Kind::Uptime => 0.0,
        };
        Self { kind, draws, value }
    }

    /// The value of the next step.
    fn next(&mut self) -> f64 {
        let now = self.value;
        self.value = match self.kind {
            Kind::Float { sd, min, max } | Kind::Gauge { sd, min, max } => {
                (now + sd * self.draws.normal()).clamp(min, max)
            }
            Kind::Counter { mean, sd } => now + (mean + sd * self.draws.normal()).max(0.0),
            Kind::Filling { mean, sd, max } => (now + (mean + sd * self.draws.normal()).max(0.0)).min(max),
            Kind::Fixed { .. } => now,
            Kind::Uptime => now + STEP_MS as f64 / 1e3,
        };
        if matches!(self.kind, Kind::Float { .. }) { now } else { now.floor() }
    }
}

impl Fleet {
    /// Lines of the whole data set.
    pub fn lines(&self) -> u64 {
        u64::from(self.hosts) * u64::from(self.steps) * MEASUREMENTS.len() as u64
    }

    /// Values of the whole data set.
    pub fn values(&self) -> u64 {
        let fields: usize = MEASUREMENTS.iter().map(|m| m.fields.len()).sum();
        u64::from(self.hosts) * u64::from(self.steps) * fields as u64
    }

    /// The instant of a step, in milliseconds since 1970.
    pub fn ts(&self, step: u32) -> i64 {
        FIRST_TS + i64::from(step) * STEP_MS
    }

    /// All values of one field of one host, in time order.
    ///
    /// # Panics
    /// The field does not exist.
    pub fn series(&self, host: u32, measurement: &str, field: &str) -> Vec<f64> {
        let m = MEASUREMENTS.iter().position(|m| m.name == measurement).expect("a measurement of the table");
        let f = MEASUREMENTS[m].fields.iter().position(|f| f.name == field).expect("a field of the measurement");
        let mut walk = Walk::new(self.seed, host, m, f, MEASUREMENTS[m].fields[f].kind);
        (0..self.steps).map(|_| walk.next()).collect()
    }

    /// Measurement and tags of one host, as line protocol has them.
    fn key(&self, host: u32, measurement: &Measurement) -> String {
        let pick = |salt: u64, n: usize| (mix(self.seed ^ mix(u64::from(host) << 8 | salt)) % n as u64) as usize;
        let region = REGIONS[pick(1, REGIONS.len())];
        let mut key = format!(
            "{},hostname=host_{host},region={region},datacenter={region}{},rack={},os={},arch={},team={},service={},\
             service_version={},service_environment={}",
            measurement.name,
            ["a", "b", "c"][pick(2, 3)],
            pick(3, 100),
            SYSTEMS[pick(4, SYSTEMS.len())],
            ["x64", "x86"][pick(5, 2)],
            TEAMS[pick(6, TEAMS.len())],
            pick(7, 20),
            pick(8, 2),
            ENVIRONMENTS[pick(9, ENVIRONMENTS.len())],
        );
        for (i, tag) in measurement.tags.iter().enumerate() {
            let value = match *tag {
                "path" => format!("/dev/sda{}", pick(20, 10)),
                "fstype" => ["ext3", "ext4", "btrfs"][pick(21, 3)].to_owned(),
                "interface" => format!("eth{}", pick(22, 4)),
                "port" => (1_024 + pick(23 + i as u64, 20_000)).to_string(),
                "serial" => format!("{:03}-{:03}-{:03}", pick(24, 1_000), pick(25, 1_000), pick(26, 1_000)),
                _ => format!("{}_{}", measurement.name, pick(27, 100_000)),
            };
            key.push_str(&format!(",{tag}={value}"));
        }
        key
    }
}

/// Lines of some hosts, in time.
#[derive(Debug)]
pub struct Feed {
    fleet: Fleet,
    /// Key and walks of each host and measurement.
    sources: Vec<(String, &'static Measurement, Vec<Walk>)>,
    step: u32,
    source: usize,
}

impl Feed {
    /// The lines of `hosts`.
    pub fn new(fleet: Fleet, hosts: Range<u32>) -> Self {
        let all = hosts.flat_map(|host| MEASUREMENTS.iter().enumerate().map(move |(m, of)| (host, m, of)));
        let sources = all.map(|(host, m, measurement)| {
            let fields = measurement.fields.iter().enumerate();
            let walks = fields.map(|(f, field)| Walk::new(fleet.seed, host, m, f, field.kind)).collect();
            (fleet.key(host, measurement), measurement, walks)
        });
        Self { fleet, sources: sources.collect(), step: 0, source: 0 }
    }

    /// Endless lines of `hosts` after those of the fleet; the walks start anew.
    pub fn later(fleet: Fleet, hosts: Range<u32>) -> Self {
        Self { fleet: Fleet { steps: u32::MAX, ..fleet }, step: fleet.steps, ..Self::new(fleet, hosts) }
    }

    /// Appends up to `lines` lines to a body; returns the numbers of lines and of values.
    pub fn next(&mut self, lines: usize, body: &mut Vec<u8>) -> (usize, usize) {
        use std::io::Write as _;
        let (mut written, mut values) = (0, 0);
        while written < lines && self.step < self.fleet.steps && !self.sources.is_empty() {
            let (key, measurement, walks) = &mut self.sources[self.source];
            body.extend_from_slice(key.as_bytes());
            let mut before = b' ';
            for (field, walk) in measurement.fields.iter().zip(walks.iter_mut()) {
                body.push(before);
                body.extend_from_slice(field.name.as_bytes());
                let value = walk.next();
                // Writing to a vector cannot fail.
                let _ = match field.kind {
                    Kind::Float { .. } => write!(body, "={value}"),
                    _ => write!(body, "={}i", value as i64),
                };
                before = b',';
            }
            let _ = writeln!(body, " {}000000", self.fleet.ts(self.step));
            (written, values) = (written + 1, values + walks.len());
            self.source += 1;
            if self.source == self.sources.len() {
                (self.source, self.step) = (0, self.step + 1);
            }
        }
        (written, values)
    }
}

#[cfg(test)]
mod tests;
