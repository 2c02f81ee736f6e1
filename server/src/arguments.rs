//! Arguments shared by several commands: a root with its settings, a server, TLS.

use std::{path::PathBuf, time::Duration};

use anyhow::Context as _;
use clap::Args;
use tidelake_format::access::Secret;

use tidelake_node::settings::{self, Layer, Settings};

/// Location of the root and settings of the process.
#[derive(Debug, Clone, Args)]
pub(crate) struct StoreArgs {
    /// TOML settings file, or `none` [default: tidelake.toml in the working directory, if it exists]
    #[arg(long, env = "TIDELAKE_CONFIG", value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) layer: Layer,
}

impl StoreArgs {
    /// Returns the checked settings. Reports on standard error when they come from a `tidelake.toml` found in the working
    /// directory.
    #[expect(clippy::print_stderr, reason = "commands have no log")]
    pub(crate) fn settings(self) -> anyhow::Result<Settings> {
        let settings = self.read()?;
        if let Some(file) = &settings.found_file {
            eprintln!(
                "using the settings in {}, found in the working directory; ignore it with --config none",
                file.display()
            );
        }
        Ok(settings)
    }

    /// Returns the checked settings without a report: a server logs where they come from.
    pub(crate) fn read(self) -> anyhow::Result<Settings> {
        let (file, is_unasked) = match self.config {
            Some(path) if path.as_os_str() == "none" => (None, false),
            Some(path) => (Some(path), false),
            None => (settings::default_file(), true),
        };
        let mut settings = Settings::resolve(file.as_deref(), self.layer)?;
        settings.found_file = file.filter(|_| is_unasked).map(|path| std::path::absolute(&path).unwrap_or(path));
        Ok(settings)
    }
}

/// Server and credentials of a client command.
#[derive(Debug, Clone, Args)]
pub(crate) struct ServerArgs {
    /// URL of the server
    #[arg(long, env = "TIDELAKE_URL", default_value = "http://127.0.0.1:8086")]
    pub(crate) url: String,
    /// Database of unqualified table names
    #[arg(long, short = 'd', alias = "db", env = "TIDELAKE_DATABASE")]
    pub(crate) database: Option<String>,
    /// API token
    #[arg(long, env = "TIDELAKE_TOKEN", hide_env_values = true, value_parser = secret, conflicts_with = "user")]
    pub(crate) token: Option<Secret>,
    /// User name; the password is read from TIDELAKE_PASSWORD or prompted for
    #[arg(long, short = 'u', env = "TIDELAKE_USER")]
    pub(crate) user: Option<String>,
    #[command(flatten)]
    pub(crate) tls: TlsArgs,
}

fn secret(text: &str) -> Result<Secret, std::convert::Infallible> {
    Ok(Secret::new(text.to_owned()))
}

/// TLS options of a client command whose URL is https.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct TlsArgs {
    /// CA certificates that verify the server's certificate, a PEM file [default: the public CAs that browsers trust]
    #[arg(long, env = "TIDELAKE_TLS_CA", value_name = "FILE")]
    pub(crate) tls_ca: Option<PathBuf>,
    /// Client certificate for servers that require one, a PEM file
    #[arg(long, env = "TIDELAKE_TLS_CLIENT_CERTIFICATE", value_name = "FILE", requires = "tls_client_key")]
    pub(crate) tls_client_certificate: Option<PathBuf>,
    /// Private key of the client certificate, a PEM file
    #[arg(long, env = "TIDELAKE_TLS_CLIENT_KEY", value_name = "FILE", requires = "tls_client_certificate")]
    pub(crate) tls_client_key: Option<PathBuf>,
}

impl TlsArgs {
    /// Contents of the `--tls-ca` file and of the client's certificate and key files.
    ///
    /// # Errors
    /// Names the file that cannot be read.
    pub(crate) fn read(&self) -> anyhow::Result<(Option<Vec<u8>>, Option<(Vec<u8>, Vec<u8>)>)> {
        let read = |path: &PathBuf| std::fs::read(path).with_context(|| format!("cannot read {}", path.display()));
        let identity = match (&self.tls_client_certificate, &self.tls_client_key) {
            (Some(certificate), Some(key)) => Some((read(certificate)?, read(key)?)),
            _ => None,
        };
        Ok((self.tls_ca.as_ref().map(read).transpose()?, identity))
    }

    /// Builds an HTTP client with these certificates and the request timeout `limit`.
    ///
    /// # Errors
    /// A file cannot be read or is not valid PEM.
    pub(crate) fn http(&self, limit: Duration) -> anyhow::Result<reqwest::Client> {
        let mut client = reqwest::Client::builder().timeout(limit);
        let (ca, identity) = self.read()?;
        if let Some(pem) = ca {
            let authority = reqwest::Certificate::from_pem(&pem).context("--tls-ca holds no certificate in PEM")?;
            client = client.tls_built_in_root_certs(false).add_root_certificate(authority);
        }
        if let Some((certificate, key)) = identity {
            let pem = [key, certificate].join(&b'\n');
            let identity =
                reqwest::Identity::from_pem(&pem).context("invalid client certificate or key: expected PEM")?;
            client = client.identity(identity);
        }
        Ok(client.build()?)
    }
}
