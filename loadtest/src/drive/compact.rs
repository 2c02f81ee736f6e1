//! Requests an immediate fold and merge from the server.

use super::http::{Client, HttpOptions};
use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use std::time::Instant;

/// Result of a compaction.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CompactSample {
    /// Seconds from the request to its reply.
    pub seconds: f64,
    /// The server's reply.
    pub reply: serde_json::Value,
}

/// Compacts: `POST /api/v1/compact`, waiting as long as [`HttpOptions::request_timeout`] allows.
///
/// # Errors
/// A reply without a success status, no reply in time, or a reply that is not JSON.
pub async fn compact(url: &str, options: &HttpOptions) -> Result<CompactSample> {
    let mut client = Client::new(url, options.clone())?;
    let start = Instant::now();
    let reply = client.send("POST", "/api/v1/compact", "application/json", b"").await?;
    if !reply.is_success() {
        bail!("compact: {}", reply.excerpt());
    }
    let seconds = start.elapsed().as_secs_f64();
    let reply = if reply.body.is_empty() {
        serde_json::Value::Null
    } else {
        serde_json::from_slice(&reply.body).with_context(|| format!("compact: expected JSON: {}", reply.excerpt()))?
    };
    Ok(CompactSample { seconds, reply })
}
