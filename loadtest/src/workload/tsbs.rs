//! The fifth data set: the workload "cpu-only" of TSBS (Time Series Benchmark Suite), servers that report ten integers about
//! their processors every ten seconds; its queries and further ones.
//!
//! Every value is a function of (seed, host, field, step), computed only by IEEE additions and multiplications. Each field is a
//! random walk from a uniform number by normal steps of deviation 1, clamped to 0..=100 and rounded.

mod digest;
mod expected;
mod feed;
mod naive;
mod questions;
mod sql;

use serde::{Deserialize, Serialize};

use super::devops::{Draws, ENVIRONMENTS, REGIONS, SYSTEMS, TEAMS};
use crate::workload::generate::random::mix;

pub use digest::{Columns, Digest, Digester, Kind};
pub use expected::expected;
pub use feed::{Batches, Feed, SCHEMA};
pub use questions::{Form, MIXED, NAMES, Question};
pub use sql::Dialect;

/// The first instant: 2026-01-01T00:00:00Z, milliseconds since 1970.
pub const FIRST_TS: i64 = 1_767_225_600_000;
/// Time between two reports of a host, in milliseconds.
pub const STEP_MS: i64 = 10_000;
/// The database.
pub const DATABASE: &str = "tsbs";
/// The table, with its database; the same name in every engine.
pub const TABLE: &str = "tsbs.cpu";
/// The fields, all of them integers.
pub const FIELDS: [&str; 10] = [
    "usage_user",
    "usage_system",
    "usage_idle",
    "usage_nice",
    "usage_iowait",
    "usage_irq",
    "usage_softirq",
    "usage_steal",
    "usage_guest",
    "usage_guest_nice",
];
/// The tags, all of them texts.
pub const TAGS: [&str; 10] = [
    "hostname",
    "region",
    "datacenter",
    "rack",
    "os",
    "arch",
    "team",
    "service",
    "service_version",
    "service_environment",
];

/// Values of one row, in the order of [`FIELDS`]; each is at most 100.
pub type Values = [u8; FIELDS.len()];

/// Size and seed of the data set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tsbs {
    /// Number of servers.
    pub hosts: u32,
    /// Reports per server.
    pub steps: u32,
    /// Random seed; equal seeds give equal rows.
    pub seed: u64,
}

/// The random walks of one host.
#[derive(Debug, Clone, Copy)]
struct Walks([(Draws, f64); FIELDS.len()]);

impl Walks {
    fn new(seed: u64, host: u32) -> Self {
        let walk = |field: usize| {
            let mut draws = Draws(mix(seed ^ mix(u64::from(host) << 8 | field as u64)));
            let begin = 100.0 * draws.uniform();
            (draws, begin)
        };
        Self(std::array::from_fn(walk))
    }

    /// The values of the next step.
    fn next(&mut self) -> Values {
        self.0.each_mut().map(|(draws, value)| {
            let now = value.round() as u8;
            *value = (*value + draws.normal()).clamp(0.0, 100.0);
            now
        })
    }
}

impl Tsbs {
    /// Rows in all.
    pub fn len(&self) -> u64 {
        u64::from(self.hosts) * u64::from(self.steps)
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The instant of a step, in milliseconds since 1970.
    pub fn ts(&self, step: u32) -> i64 {
        FIRST_TS + i64::from(step) * STEP_MS
    }

    /// All values of one host, in time order.
    pub fn rows(&self, host: u32) -> Vec<Values> {
        let mut walks = Walks::new(self.seed, host);
        (0..self.steps).map(|_| walks.next()).collect()
    }

    /// The tags of one host, in the order of [`TAGS`].
    pub fn tags(&self, host: u32) -> [String; TAGS.len()] {
        let pick =
            |salt: u64, n: usize| (mix(self.seed ^ mix(u64::from(host) << 8 | (100 + salt))) % n as u64) as usize;
        let region = REGIONS[pick(1, REGIONS.len())];
        [
            format!("host_{host}"),
            region.to_owned(),
            format!("{region}{}", ["a", "b", "c"][pick(2, 3)]),
            pick(3, 100).to_string(),
            SYSTEMS[pick(4, SYSTEMS.len())].to_owned(),
            ["x64", "x86"][pick(5, 2)].to_owned(),
            TEAMS[pick(6, TEAMS.len())].to_owned(),
            pick(7, 20).to_string(),
            pick(8, 2).to_string(),
            ENVIRONMENTS[pick(9, ENVIRONMENTS.len())].to_owned(),
        ]
    }
}

#[cfg(test)]
mod tests;
