//! TLS of all ports: certificates are read from files and reloaded when the files change.
//!
//! A connection keeps the certificate it began with; new connections get the reloaded one. If the files are invalid,
//! the server logs an error and keeps the old certificates: a renewal writes several files one after the other.

use std::{fs, path::Path, sync::Arc, time::Duration};

use anyhow::{Context, Result, ensure};
use parking_lot::RwLock;
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::watch,
    time::{MissedTickBehavior, interval},
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        RootCertStore, ServerConfig,
        crypto::ring,
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
        server::WebPkiClientVerifier,
    },
};

use crate::settings::TlsFiles;

/// Interval between checks of the files; SIGHUP triggers an immediate check.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// Contents of the files.
#[derive(PartialEq, Eq)]
struct Contents {
    certificate: Vec<u8>,
    key: Vec<u8>,
    client_ca: Option<Vec<u8>>,
}

impl TlsFiles {
    fn read(&self) -> Result<Contents> {
        let read = |path: &Path| fs::read(path).with_context(|| format!("TLS: cannot read {}", path.display()));
        Ok(Contents {
            certificate: read(&self.certificate)?,
            key: read(&self.key)?,
            client_ca: self.client_ca.as_deref().map(read).transpose()?,
        })
    }

    /// Builds the TLS configuration; an error names the invalid file.
    fn config(&self, contents: &Contents) -> Result<ServerConfig> {
        let chain = certificates(&self.certificate, &contents.certificate)?;
        let key = PrivateKeyDer::from_pem_slice(&contents.key)
            .with_context(|| format!("TLS: {} holds no private key in PEM", self.key.display()))?;
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions()?;
        let builder = match (&self.client_ca, &contents.client_ca) {
            (Some(path), Some(pem)) => {
                let mut roots = RootCertStore::empty();
                for certificate in certificates(path, pem)? {
                    let unfit = || format!("TLS: {} holds a certificate that cannot sign", path.display());
                    roots.add(certificate).with_context(unfit)?;
                }
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build()?;
                builder.with_client_cert_verifier(verifier)
            }
            _ => builder.with_no_client_auth(),
        };
        let unfit = || format!("TLS: {} and {} do not match", self.certificate.display(), self.key.display());
        let mut config = builder.with_single_cert(chain, key).with_context(unfit)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(config)
    }
}

fn certificates(path: &Path, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>> {
    let unfit = || format!("TLS: {} is not PEM", path.display());
    let found = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>().with_context(unfit)?;
    ensure!(!found.is_empty(), "TLS: {} holds no certificate in PEM", path.display());
    Ok(found)
}

/// The current TLS configuration.
pub(super) struct Tls {
    files: TlsFiles,
    contents: RwLock<Contents>,
    acceptor: RwLock<TlsAcceptor>,
}

impl Tls {
    /// Reads the files.
    ///
    /// # Errors
    /// Names the file that cannot be read or is invalid.
    pub(super) fn load(files: &TlsFiles) -> Result<Arc<Self>> {
        let contents = files.read()?;
        let acceptor = TlsAcceptor::from(Arc::new(files.config(&contents)?));
        Ok(Arc::new(Self { files: files.clone(), contents: RwLock::new(contents), acceptor: RwLock::new(acceptor) }))
    }

    /// The acceptor for new connections.
    pub(super) fn acceptor(&self) -> TlsAcceptor {
        self.acceptor.read().clone()
    }

    /// Reloads the files if they changed; returns whether they did.
    fn look(&self) -> Result<bool> {
        let contents = self.files.read()?;
        if *self.contents.read() == contents {
            return Ok(false);
        }
        let config = self.files.config(&contents)?;
        *self.acceptor.write() = TlsAcceptor::from(Arc::new(config));
        *self.contents.write() = contents;
        Ok(true)
    }

    /// Watches the files until the server stops.
    pub(super) async fn watch(self: Arc<Self>, mut stopped: watch::Receiver<bool>) -> Result<()> {
        let mut looks = interval(LOOK_EVERY);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut hangup = signal(SignalKind::hangup()).context("TLS: cannot listen for SIGHUP")?;
        let mut told = String::new();
        loop {
            tokio::select! {
                _ = looks.tick() => {}
                _ = hangup.recv() => {}
                _ = stopped.wait_for(|stopped| *stopped) => return Ok(()),
            }
            match self.look() {
                Ok(false) => {}
                Ok(true) => {
                    tracing::info!(certificate = %self.files.certificate.display(), "TLS: certificates reloaded");
                    told.clear();
                }
                Err(error) => {
                    let error = format!("{error:#}");
                    if told != error {
                        tracing::error!(%error, "TLS: reload failed; the old certificates stay in use");
                        told = error;
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair};
    use tempfile::TempDir;

    use std::path::PathBuf;

    use super::*;

    struct Files {
        directory: TempDir,
        files: TlsFiles,
    }

    impl Files {
        fn new() -> Self {
            let directory = tempfile::tempdir().unwrap();
            let path = |name: &str| directory.path().join(name);
            let files = TlsFiles { certificate: path("server.pem"), key: path("server.key"), client_ca: None };
            let this = Self { directory, files };
            this.renew(&["certificate", "key"]);
            this
        }

        /// Writes a new certificate, a new key or both.
        fn renew(&self, which: &[&str]) {
            let key = KeyPair::generate().unwrap();
            let certificate = CertificateParams::new(vec!["localhost".to_owned()]).unwrap().self_signed(&key).unwrap();
            if which.contains(&"certificate") {
                fs::write(&self.files.certificate, certificate.pem()).unwrap();
            }
            if which.contains(&"key") {
                fs::write(&self.files.key, key.serialize_pem()).unwrap();
            }
        }
    }

    #[test]
    fn new_files_are_taken_and_such_that_cannot_be_used_are_not() {
        let files = Files::new();
        let tls = Tls::load(&files.files).unwrap();
        assert!(!tls.look().unwrap());
        let before = Arc::as_ptr(tls.acceptor().config());
        files.renew(&["certificate"]);
        let error = format!("{:#}", tls.look().unwrap_err());
        assert!(error.contains("server.pem") && error.contains("server.key") && error.contains("match"), "{error}");
        assert_eq!(Arc::as_ptr(tls.acceptor().config()), before, "the old ones stay");
        files.renew(&["certificate", "key"]);
        assert!(tls.look().unwrap());
        assert_ne!(Arc::as_ptr(tls.acceptor().config()), before);
        assert!(!tls.look().unwrap());
    }

    #[test]
    fn a_fault_names_its_file() {
        let files = Files::new();
        let with = |change: fn(&mut TlsFiles, PathBuf), name: &str, text: &str| {
            let path = files.directory.path().join(name);
            fs::write(&path, text).unwrap();
            let mut other = files.files.clone();
            change(&mut other, path);
            format!("{:#}", Tls::load(&other).err().unwrap())
        };
        for (change, expected) in [
            ((|files, path| files.certificate = path) as fn(&mut TlsFiles, PathBuf), "holds no certificate"),
            (|files, path| files.key = path, "holds no private key"),
            (|files, path| files.client_ca = Some(path), "holds no certificate"),
        ] {
            let error = with(change, "empty.pem", "nothing here\n");
            assert!(error.contains("empty.pem") && error.contains(expected), "{error}");
        }
        let error = with(|files, _| files.key = "/nowhere/key.pem".into(), "x", "");
        assert!(error.contains("/nowhere/key.pem"), "{error}");
    }
}
