//! Reports of a load test: raw samples in JSON, and a Markdown page that compares with the papers' figures.

mod chart;
mod conditions;
pub mod fleet;
pub mod functions;
mod markdown;
pub mod meters;
mod plots;
mod text;
pub mod tsbs;
pub mod wide;
mod writing;

pub use conditions::Conditions;

use crate::drive::bare::BareSample;
use crate::drive::beside::BesideSample;
use crate::drive::cold::ColdSample;
use crate::drive::collected::CollectedSample;
use crate::drive::compact::CompactSample;
use crate::drive::growth::GrowthSample;
use crate::drive::sample::{PeerLoad, PeerSample};
use crate::drive::send::SendSample;
use crate::drive::{QuerySample, WriteSample};
use crate::measure::{Memory, Size};
use crate::workload::generate::{Devices, Order};
use crate::workload::part::Part;
use crate::workload::verify::Verified;
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Version of the JSON format; increased by incompatible changes.
pub const VERSION: u32 = 1;

/// All measurements of one load test, with their conditions.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Report {
    /// [`VERSION`].
    pub version: u32,
    /// Time, machine and command.
    #[serde(flatten)]
    pub conditions: Conditions,
    /// The data set.
    pub data: Devices,
    /// The order in which clients wrote it.
    pub order: Order,
    /// Load of the queried data.
    pub load: Option<WriteSample>,
    /// Cells of the write matrix.
    pub matrix: Vec<WriteSample>,
    /// Bulk loads: DoPut streams of many batches.
    #[serde(default)]
    pub bulk: Vec<WriteSample>,
    /// Compaction after loading.
    pub compact: Option<CompactSample>,
    /// Every statement through every query interface, with all runs.
    pub queries: Vec<QuerySample>,
    /// q2 to q4 over parts of the span, and without the levels that hold precomputed aggregates.
    #[serde(default)]
    pub parts: Vec<PartSample>,
    /// q1 compared with a bare Flight server that holds the same batches.
    #[serde(default)]
    pub bare: Option<BareSample>,
    /// q1 to q4 with a concurrent writer.
    #[serde(default)]
    pub beside: Option<BesideSample>,
    /// Queries on new processes over a distant store.
    #[serde(default)]
    pub cold: Option<Cold>,
    /// q2 to q4 over data sets of increasing size.
    #[serde(default)]
    pub growth: Vec<GrowthSample>,
    /// Result of the verification of answers.
    pub verified: Verified,
    /// Size of the root after loading and compaction.
    pub size: Option<Size>,
    /// Bytes of the table's live files; the root also holds files that merges have replaced, until garbage collection.
    #[serde(default)]
    pub live_size: Option<Size>,
    /// Size of the root after folding, merging and garbage collection.
    #[serde(default)]
    pub collected: Option<CollectedSample>,
    /// The server's memory at the end.
    pub server_memory: Option<Memory>,
    /// Loads of the same rows into other engines on the same machine, in the same run.
    #[serde(default)]
    pub peer_loads: Vec<PeerLoad>,
    /// The same queries on other engines on the same machine, in the same run.
    pub peers: Vec<PeerSample>,
}

/// A statement over a part of the rows, or with some of the levels.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PartSample {
    /// The part.
    pub part: Part,
    /// The statement, named by its family.
    pub query: QuerySample,
}

/// Queries on new processes over a distant store.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Cold {
    /// Median time to the first byte of a reply of the store, in milliseconds.
    pub first_byte_ms: f64,
    /// 99th percentile of that time, in milliseconds.
    pub first_byte_p99_ms: f64,
    /// Bytes per second of one connection.
    pub bytes_per_second: u64,
    /// The queries, without a writer.
    pub samples: Vec<ColdSample>,
    /// The queries while another process writes into the root.
    #[serde(default)]
    pub beside: Option<ColdBeside>,
}

/// Queries on new processes over a distant store, while another process writes into the root.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ColdBeside {
    /// Target write rate, in rows per second.
    pub asked_rows_per_second: f64,
    /// Result of the writer.
    pub writer: SendSample,
    /// The queries.
    pub samples: Vec<ColdSample>,
}

impl Report {
    /// Creates an empty report of this machine and command.
    pub fn new(data: Devices, order: Order) -> Self {
        Self {
            version: VERSION,
            conditions: Conditions::here(),
            data,
            order,
            load: None,
            matrix: Vec::new(),
            bulk: Vec::new(),
            compact: None,
            queries: Vec::new(),
            parts: Vec::new(),
            bare: None,
            beside: None,
            growth: Vec::new(),
            cold: None,
            verified: Verified::default(),
            size: None,
            live_size: None,
            collected: None,
            server_memory: None,
            peer_loads: Vec::new(),
            peers: Vec::new(),
        }
    }

    /// Reads a `report.json`.
    ///
    /// # Errors
    /// No such file, another format, or a newer version.
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
        let report: Self =
            serde_json::from_str(&text).with_context(|| format!("{} is not a report", path.display()))?;
        anyhow::ensure!(
            report.version <= VERSION,
            "{}: expected a report of version {VERSION} or older, found {}",
            path.display(),
            report.version
        );
        Ok(report)
    }
}

impl Page for Report {
    fn markdown(&self) -> String {
        markdown::markdown(self)
    }

    fn pictures(&self) -> Vec<(&'static str, String)> {
        plots::plots(self)
    }
}

/// Samples that can be written as a report.
pub trait Page: Serialize {
    /// The Markdown page.
    fn markdown(&self) -> String;

    /// The page's pictures in SVG, with their file names.
    fn pictures(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    /// Writes `report.json`, `report.md` and its pictures into a directory, created if missing, and returns the paths
    /// of the first two.
    ///
    /// # Errors
    /// Any error of the file system.
    fn write(&self, dir: &Path) -> Result<[PathBuf; 2]> {
        std::fs::create_dir_all(dir).with_context(|| format!("create directory {}", dir.display()))?;
        let put = |name: &str, text: String| {
            let path = dir.join(name);
            std::fs::write(&path, text).with_context(|| format!("write {}", path.display()))?;
            anyhow::Ok(path)
        };
        let json = put("report.json", serde_json::to_string(self)? + "\n")?;
        let page = put("report.md", self.markdown())?;
        for (name, picture) in self.pictures() {
            put(name, picture)?;
        }
        Ok([json, page])
    }
}

#[cfg(test)]
mod tests;
