//! Asking the server which data files of a table are live.

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
    tags: String,
}

/// Links the live data files of a table and their tag manifests, by `GET /api/v1/files`, from the server's root directory
/// into another directory under the same keys. Files that merges replaced stay in a root for a while: who reads all of
/// them sees rows twice.
///
/// # Errors
/// What the server answers; a file that cannot be linked (both directories must be on one file system).
pub async fn link_live(url: &str, options: &HttpOptions, table: &str, root: &Path, to: &Path) -> Result<usize> {
    let mut client = Client::new(url, options.clone())?;
    let reply = client.send("GET", &format!("/api/v1/files?table={table}"), "", b"").await?;
    if !reply.is_success() {
        bail!("the live files of {table}: {}", reply.excerpt());
    }
    let listed: Listed = serde_json::from_slice(&reply.body).context("the list of live files has another shape")?;
    for key in listed.files.iter().flat_map(|file| [&file.data, &file.tags]) {
        let target = to.join(key);
        if let Some(parent) = target.parent() {
            std::fs::create_dir_all(parent).with_context(|| parent.display().to_string())?;
        }
        std::fs::hard_link(root.join(key), &target).with_context(|| format!("link {key}"))?;
    }
    Ok(listed.files.len())
}
