//! The programs of functions.

use std::path::PathBuf;

/// The program of a function: from the directory `TIDELAKE_FUNCTIONS`, filled by `cargo xtask package`, else the output of
/// `cargo build` with its package's profile.
///
/// # Panics
/// When there is none.
pub fn program(name: &str) -> PathBuf {
    let path = match std::env::var_os("TIDELAKE_FUNCTIONS") {
        Some(packages) => PathBuf::from(packages).join(name).join("bootstrap"),
        None => {
            let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("../target"), PathBuf::from);
            target.join(if name == "query-http" { "release" } else { "function" }).join(name)
        }
    };
    assert!(path.is_file(), "{} does not exist: cargo xtask package", path.display());
    path
}
