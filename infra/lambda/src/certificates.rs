//! CA certificates of a function: the system's bundle, read from one file.

use std::path::Path;

/// Paths of the CA bundle: Debian family, Amazon Linux family, SUSE.
const BUNDLES: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem"];

/// Makes TLS clients read CA certificates only from the system's bundle. By default they also read the same
/// certificates from a directory with one file each, which takes a good part of a function's start. No effect if
/// `SSL_CERT_FILE` or `SSL_CERT_DIR` is set.
///
/// Must be called before the process has a second thread.
#[expect(unsafe_code, reason = "the environment of this process is the only thing that those clients look at")]
pub fn from_one_file() {
    if ["SSL_CERT_FILE", "SSL_CERT_DIR"].into_iter().any(|name| std::env::var_os(name).is_some()) {
        return;
    }
    if let Some(bundle) = BUNDLES.into_iter().find(|path| Path::new(path).is_file()) {
        // SAFETY: there is no other thread yet that could read the environment.
        unsafe { std::env::set_var("SSL_CERT_FILE", bundle) };
    }
}
