//! What a load test leaves behind: raw samples in JSON, and a Markdown page with the papers' figures beside ours.

mod chart;
mod conditions;
pub mod fleet;
pub mod functions;
mod markdown;
pub mod meters;
mod plots;
mod text;
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

/// Version of the JSON's shape; grows when a reader of an older one would be wrong.
pub const VERSION: u32 = 1;

/// Everything that one load test measured, with the conditions that it measured under.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Report {
    /// [`VERSION`].
    pub version: u32,
    /// When, where and how.
    #[serde(flatten)]
    pub conditions: Conditions,
    /// The data set.
    pub data: Devices,
    /// The order in which clients wrote it.
    pub order: Order,
    /// Loading the data that the queries ran on.
    pub load: Option<WriteSample>,
    /// Cells of the write matrix.
    pub matrix: Vec<WriteSample>,
    /// DoPut of many batches a stream.
    #[serde(default)]
    pub bulk: Vec<WriteSample>,
    /// Compaction after loading.
    pub compact: Option<CompactSample>,
    /// Every statement through every door, with all its runs.
    pub queries: Vec<QuerySample>,
    /// q2 to q4 about parts of the span, and without the levels that know the answer before.
    #[serde(default)]
    pub parts: Vec<PartSample>,
    /// q1 beside a bare Flight server that holds the same batches.
    #[serde(default)]
    pub bare: Option<BareSample>,
    /// q1 to q4 beside a writer.
    #[serde(default)]
    pub beside: Option<BesideSample>,
    /// Questions to new processes over a distant store.
    #[serde(default)]
    pub cold: Option<Cold>,
    /// q2 to q4 over data sets that grow.
    #[serde(default)]
    pub growth: Vec<GrowthSample>,
    /// What the answers were compared with, and the outcome.
    pub verified: Verified,
    /// What the root held after loading and compaction.
    pub size: Option<Size>,
    /// What the live files of the table take: files that merges replaced stay in a root for a while.
    #[serde(default)]
    pub live_size: Option<Size>,
    /// What the root held once everything was folded, merged and collected.
    #[serde(default)]
    pub collected: Option<CollectedSample>,
    /// The server's memory at the end.
    pub server_memory: Option<Memory>,
    /// The same rows given to other engines on the same machine, in the same run.
    #[serde(default)]
    pub peer_loads: Vec<PeerLoad>,
    /// The same questions put to other engines on the same machine, in the same run.
    pub peers: Vec<PeerSample>,
}

/// A statement about a part of the rows, or with a part of the levels.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PartSample {
    /// Which part.
    pub part: Part,
    /// The statement, by its family.
    pub query: QuerySample,
}

/// Questions to new processes over a distant store.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Cold {
    /// Median time to the first byte of a reply of the store, in milliseconds.
    pub first_byte_ms: f64,
    /// Its 99th percentile, in milliseconds.
    pub first_byte_p99_ms: f64,
    /// Bytes a second of one connection.
    pub bytes_per_second: u64,
    /// The questions, when all is quiet.
    pub samples: Vec<ColdSample>,
    /// The same while another process writes into the root.
    #[serde(default)]
    pub beside: Option<ColdBeside>,
}

/// Questions to new processes over a distant store, into which another process writes.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ColdBeside {
    /// Rows a second that the writer was to send.
    pub asked_rows_per_second: f64,
    /// What it did.
    pub writer: SendSample,
    /// The questions.
    pub samples: Vec<ColdSample>,
}

impl Report {
    /// A report of this machine and this command, with nothing measured yet.
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
    /// No such file, another shape, or a newer version.
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
        let report: Self = serde_json::from_str(&text).with_context(|| format!("{} is no report", path.display()))?;
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

/// Samples with a page that tells them.
pub trait Page: Serialize {
    /// The whole page.
    fn markdown(&self) -> String;

    /// Its pictures, in SVG, by the names that it has for them.
    fn pictures(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    /// Writes `report.json`, `report.md` and its pictures into a directory, which is made when it is not there, and gives the
    /// paths of the first two.
    ///
    /// # Errors
    /// Anything that the file system refuses.
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
