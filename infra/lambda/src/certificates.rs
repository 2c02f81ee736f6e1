//! Whose signatures a function believes: the system's authorities, read from one file.

use std::path::Path;

/// Where systems keep all of them in one: Debian and its like, Amazon Linux and its like, SUSE.
const BUNDLES: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem"];

/// Has clients read the system's authorities from its bundle alone. By themselves they read the bundle and then the same ones
/// from a directory, each in a file of its own, which is a good part of a function's start. Where `SSL_CERT_FILE` or
/// `SSL_CERT_DIR` is set nothing changes.
///
/// To be called before the process has a second thread.
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
