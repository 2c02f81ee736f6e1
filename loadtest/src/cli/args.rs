//! Arguments shared by several commands.

use anyhow::{Context, Result};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;
use tidelake_loadtest::Devices;
use tidelake_loadtest::drive::query::Addresses;
use tidelake_loadtest::drive::{Durability, HttpOptions};

/// The data set.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Data {
    /// Number of devices
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    pub(crate) devices: u32,
    /// Rows per device, one per second
    #[arg(long, default_value_t = 10_000)]
    pub(crate) rows: u32,
    /// Random seed; equal seeds give equal rows
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
}

impl Data {
    /// The data set.
    pub(crate) fn devices(&self) -> Devices {
        Devices { devices: self.devices, rows: self.rows, seed: self.seed }
    }
}

/// The server.
#[derive(Debug, Clone, Args)]
pub(crate) struct Server {
    /// HTTP endpoint
    #[arg(long, default_value = "http://127.0.0.1:8086", env = "TIDELAKE_URL")]
    pub(crate) url: String,
    /// Flight SQL endpoint; by default the address of --url
    #[arg(long)]
    pub(crate) flight: Option<String>,
    /// Request timeout, in seconds
    #[arg(long, default_value_t = 300)]
    pub(crate) timeout: u64,
    /// Host header of HTTP requests, instead of the URL's host: for functions behind one address
    #[arg(long)]
    pub(crate) host: Option<String>,
    /// Authorization header of HTTP requests, sent unchanged
    #[arg(long, env = "TIDELAKE_AUTHORIZATION", hide_env_values = true)]
    pub(crate) authorization: Option<String>,
}

impl Server {
    /// Both endpoints.
    pub(crate) fn addresses(&self) -> Addresses {
        let flight = self.flight.clone().unwrap_or_else(|| self.url.replacen("http://", "grpc://", 1));
        Addresses { url: self.url.clone(), flight: Some(flight) }
    }

    /// Limits of the clients.
    pub(crate) fn options(&self) -> HttpOptions {
        HttpOptions {
            request_timeout: Duration::from_secs(self.timeout),
            retry_deadline: Duration::from_secs(self.timeout),
            max_reply: 4 << 30,
            host: self.host.clone(),
            authorization: self.authorization.clone(),
            ..HttpOptions::default()
        }
    }
}

/// Settings of servers that the command starts itself.
#[derive(Debug, Clone, Args)]
pub(crate) struct OwnServers {
    /// The server's program
    #[arg(long, default_value = "tidelake")]
    pub(crate) program: PathBuf,
    /// Directory for temporary roots; by default the system's temporary directory
    #[arg(long)]
    dir: Option<PathBuf>,
}

impl OwnServers {
    /// Creates a directory for a root.
    pub(crate) fn directory(&self) -> Result<TempDir> {
        temporary(self.dir.as_deref())
    }
}

/// When a write is acknowledged.
pub(crate) fn durability(no_sync: bool) -> Durability {
    if no_sync { Durability::Buffered } else { Durability::Stored }
}

/// Progress bar of rows; hidden without a terminal.
pub(crate) fn bar(rows: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:40} {human_pos}/{human_len} rows  {per_sec}  {eta}");
    let bar = ProgressBar::new(rows);
    match style {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

/// Progress bar of rows; a spinner if the total is unknown, as for text files.
pub(crate) fn bar_for(rows: Option<u64>) -> ProgressBar {
    rows.map_or_else(ProgressBar::new_spinner, bar)
}

/// Creates a temporary directory in `parent`, or in the system's temporary directory; removed with its contents when dropped.
pub(crate) fn temporary(parent: Option<&Path>) -> Result<TempDir> {
    let parent = parent.map_or_else(std::env::temp_dir, Path::to_owned);
    std::fs::create_dir_all(&parent).with_context(|| format!("create directory {}", parent.display()))?;
    let directory = tempfile::Builder::new().prefix("tidelake-loadtest").tempdir_in(&parent);
    directory.with_context(|| format!("create a directory in {}", parent.display()))
}

/// Parses numbers separated by commas.
pub(crate) fn list<T: std::str::FromStr>(text: &str) -> Result<Vec<T>>
where
    T::Err: std::error::Error + Send + Sync + 'static,
{
    let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
    words
        .map(|word| word.parse().with_context(|| format!("expected numbers separated by commas, found {word:?}")))
        .collect()
}
