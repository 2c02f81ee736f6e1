//! `tidelake health`: whether a server serves, for those who watch a container that has no other program.

use std::time::Duration;

use anyhow::{Context, ensure};
use clap::Args;

use crate::cli::TlsArgs;

/// How long a server has to answer.
const LIMIT: Duration = Duration::from_secs(2);

/// Which server.
#[derive(Debug, Args)]
pub(crate) struct HealthArgs {
    /// The server
    #[arg(long, env = "TIDELAKE_URL", default_value = "http://127.0.0.1:8086")]
    url: String,
    #[command(flatten)]
    tls: TlsArgs,
}

/// Prints what the server says of itself.
///
/// # Errors
/// When it does not answer, or not well.
#[expect(clippy::print_stdout, reason = "a command prints its result")]
pub(crate) async fn run(args: HealthArgs) -> anyhow::Result<()> {
    let url = format!("{}/health", args.url.trim_end_matches('/'));
    let mut client = reqwest::Client::builder().timeout(LIMIT);
    let (ca, identity) = args.tls.read()?;
    if let Some(pem) = ca {
        let authority = reqwest::Certificate::from_pem(&pem).context("--tls-ca holds no certificate in PEM")?;
        client = client.tls_built_in_root_certs(false).add_root_certificate(authority);
    }
    if let Some((certificate, key)) = identity {
        let pem = [key, certificate].join(&b'\n');
        client = client.identity(reqwest::Identity::from_pem(&pem).context("a client's certificate and key in PEM")?);
    }
    let client = client.build()?;
    let reply = client.get(&url).send().await.with_context(|| format!("no server answers at {url}"))?;
    let (status, text) = (reply.status(), reply.text().await?);
    ensure!(status.is_success(), "{url}: {status}: {text}");
    println!("{text}");
    Ok(())
}
