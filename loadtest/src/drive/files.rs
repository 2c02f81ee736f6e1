//! Lists the live data files of a table.

use super::http::{Client, HttpOptions};
use anyhow::{Context, Result, bail};
use serde::Deserialize;
use std::path::Path;

#[derive(Deserialize)]
struct Listed {
    files: Vec<File>,
}

#[derive(Deserialize)]
struct File {
    data: String,
    data_bytes: u64,
    tags: String,
    tags_bytes: u64,
    rollup_bytes: u64,
}

async fn list(url: &str, options: &HttpOptions, table: &str) -> Result<Vec<File>> {
    let mut client = Client::new(url, options.clone())?;
    let reply = client.send("GET", &format!("/api/v1/files?table={table}"), "", b"").await?;
    if !reply.is_success() {
        bail!("the live files of {table}: {}", reply.excerpt());
    }
    let listed: Listed = serde_json::from_slice(&reply.body).context("unexpected shape of the list of live files")?;
    Ok(listed.files)
}

/// Returns the bytes of the live data files of a table, their tag manifests and rollups, from `GET /api/v1/files`. The root also holds
/// files that merges have replaced, until garbage collection.
///
/// # Errors
/// A failed request or an error reply.
pub async fn live_bytes(url: &str, options: &HttpOptions, table: &str) -> Result<u64> {
    let files = list(url, options, table).await?;
    Ok(files.iter().map(|file| file.data_bytes + file.tags_bytes + file.rollup_bytes).sum())
}

/// Links the live data files of a table and their tag manifests, from `GET /api/v1/files`, from the server's root directory into
/// another directory under the same keys. A reader of all files of a root would see rows of merged files twice.
///
/// # Errors
/// A failed request, an error reply, or a file that cannot be linked (both directories must be on one file system).
pub async fn link_live(url: &str, options: &HttpOptions, table: &str, root: &Path, to: &Path) -> Result<usize> {
    let files = list(url, options, table).await?;
    for key in files.iter().flat_map(|file| [&file.data, &file.tags]) {
        let target = to.join(key);
        if let Some(parent) = target.parent() {
            std::fs::create_dir_all(parent).with_context(|| parent.display().to_string())?;
        }
        std::fs::hard_link(root.join(key), &target).with_context(|| format!("link {key}"))?;
    }
    Ok(files.len())
}
