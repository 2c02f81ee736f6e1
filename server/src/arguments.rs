//! Arguments that several commands have: a root with its settings, a server, TLS.

use std::{path::PathBuf, time::Duration};

use anyhow::Context as _;
use clap::Args;
use tidelake_format::access::Secret;

use tidelake_node::settings::{self, Layer, Settings};

/// Where the root is and how it is served.
#[derive(Debug, Clone, Args)]
pub(crate) struct StoreArgs {
    /// A TOML file of settings, or none [default: tidelake.toml here, if there is one]
    #[arg(long, env = "TIDELAKE_CONFIG", value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) layer: Layer,
}

impl StoreArgs {
    /// The checked settings; says on standard error where they are from, when that is a file that nobody named.
    #[expect(clippy::print_stderr, reason = "commands have no log")]
    pub(crate) fn settings(self) -> anyhow::Result<Settings> {
        let settings = self.read()?;
        if let Some(file) = &settings.found_file {
            eprintln!(
                "settings are read from {}, found in the working directory; --config none ignores it",
                file.display()
            );
        }
        Ok(settings)
    }

    /// The checked settings, for a server: it has a log to say where they are from.
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

/// Which server a client command talks to.
#[derive(Debug, Clone, Args)]
pub(crate) struct ServerArgs {
    /// The server
    #[arg(long, env = "TIDELAKE_URL", default_value = "http://127.0.0.1:8086")]
    pub(crate) url: String,
    /// The database of unqualified tables
    #[arg(long, short = 'd', env = "TIDELAKE_DATABASE")]
    pub(crate) database: Option<String>,
    /// The API token to authenticate with
    #[arg(long, env = "TIDELAKE_TOKEN", hide_env_values = true, value_parser = secret, conflicts_with = "user")]
    pub(crate) token: Option<Secret>,
    /// The user to authenticate as; the password is read from TIDELAKE_PASSWORD, or from the terminal
    #[arg(long, short = 'u', env = "TIDELAKE_USER")]
    pub(crate) user: Option<String>,
    #[command(flatten)]
    pub(crate) tls: TlsArgs,
}

fn secret(text: &str) -> Result<Secret, std::convert::Infallible> {
    Ok(Secret::new(text.to_owned()))
}

/// How a client command knows its server, where the URL says https.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct TlsArgs {
    /// Who may have signed the server's certificate, as a file of PEM [default: the authorities that browsers trust]
    #[arg(long, env = "TIDELAKE_TLS_CA", value_name = "FILE")]
    pub(crate) tls_ca: Option<PathBuf>,
    /// This client's certificate, where the server asks for one, as a file of PEM
    #[arg(long, env = "TIDELAKE_TLS_CLIENT_CERTIFICATE", value_name = "FILE", requires = "tls_client_key")]
    pub(crate) tls_client_certificate: Option<PathBuf>,
    /// Its private key, as a file of PEM
    #[arg(long, env = "TIDELAKE_TLS_CLIENT_KEY", value_name = "FILE", requires = "tls_client_certificate")]
    pub(crate) tls_client_key: Option<PathBuf>,
}

impl TlsArgs {
    /// What the files of `--tls-ca`, and of certificate and key, hold.
    ///
    /// # Errors
    /// When one cannot be read, naming it.
    pub(crate) fn read(&self) -> anyhow::Result<(Option<Vec<u8>>, Option<(Vec<u8>, Vec<u8>)>)> {
        let read = |path: &PathBuf| std::fs::read(path).with_context(|| format!("cannot read {}", path.display()));
        let identity = match (&self.tls_client_certificate, &self.tls_client_key) {
            (Some(certificate), Some(key)) => Some((read(certificate)?, read(key)?)),
            _ => None,
        };
        Ok((self.tls_ca.as_ref().map(read).transpose()?, identity))
    }

    /// An HTTP client that knows the server and itself by these files, and waits `limit` for an answer.
    ///
    /// # Errors
    /// When a file cannot be read, or holds something else.
    pub(crate) fn http(&self, limit: Duration) -> anyhow::Result<reqwest::Client> {
        let mut client = reqwest::Client::builder().timeout(limit);
        let (ca, identity) = self.read()?;
        if let Some(pem) = ca {
            let authority = reqwest::Certificate::from_pem(&pem).context("--tls-ca holds no certificate in PEM")?;
            client = client.tls_built_in_root_certs(false).add_root_certificate(authority);
        }
        if let Some((certificate, key)) = identity {
            let pem = [key, certificate].join(&b'\n');
            let identity = reqwest::Identity::from_pem(&pem).context("a client's certificate and key in PEM")?;
            client = client.identity(identity);
        }
        Ok(client.build()?)
    }
}
