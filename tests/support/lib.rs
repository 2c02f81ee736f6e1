//! Support of the end-to-end tests: the real binary on free ports, an S3 server, and clients of the public protocols.

pub mod clients;
pub mod functions;
#[path = "../powerloss/journal.rs"]
pub mod powerloss;
pub mod process;
pub mod s3;

pub use clients::{Flight, Http};
pub use process::Server;
pub use s3::S3Server;

/// Value of an environment variable set by `tests/run`, or `None` if a test may be skipped.
///
/// # Panics
/// When it is missing and `TIDELAKE_REQUIRE_ALL`, which turns skips into failures, is set.
pub fn tool(variable: &str) -> Option<String> {
    let value = std::env::var(variable).ok().filter(|v| !v.is_empty());
    if value.is_none() {
        assert!(std::env::var_os("TIDELAKE_REQUIRE_ALL").is_none(), "{variable} is not set; ./tests/run sets it");
        #[expect(clippy::print_stderr, reason = "a skip must be loud")]
        {
            eprintln!("SKIPPED: {variable} is not set; ./tests/run sets it");
        }
    }
    value
}
