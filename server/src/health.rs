//! `tidelake health`: checks a server's health; a health check for containers without other programs.

use std::time::Duration;

use anyhow::{Context, ensure};
use clap::Args;

use crate::arguments::TlsArgs;

/// Request timeout.
const LIMIT: Duration = Duration::from_secs(2);

/// Options of `health`.
#[derive(Debug, Args)]
pub(crate) struct HealthArgs {
    /// URL of the server
    #[arg(long, env = "TIDELAKE_URL", default_value = "http://127.0.0.1:8086")]
    url: String,
    #[command(flatten)]
    tls: TlsArgs,
}

/// Prints the reply of `/health`.
///
/// # Errors
/// The server does not answer, or answers with an error status.
#[expect(clippy::print_stdout, reason = "a command prints its result")]
pub(crate) async fn run(args: HealthArgs) -> anyhow::Result<()> {
    let url = format!("{}/health", args.url.trim_end_matches('/'));
    let client = args.tls.http(LIMIT)?;
    let reply = client.get(&url).send().await.with_context(|| format!("no server answers at {url}"))?;
    let (status, text) = (reply.status(), reply.text().await?);
    ensure!(status.is_success(), "{url}: {status}: {text}");
    println!("{text}");
    Ok(())
}
