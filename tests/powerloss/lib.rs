//! Replaces `fsync` and `syncfs` in a process started with `LD_PRELOAD`: records what each call makes durable.
//!
//! See [`journal`] for the records and their use.

pub mod journal;

use std::{
    ffi::c_int,
    path::{Path, PathBuf},
    process,
};

/// Replaces the system's function: records instead of syncing.
#[expect(unsafe_code, reason = "the one way to stand in for a function of the system's library")]
#[unsafe(no_mangle)]
pub extern "C" fn fsync(fd: c_int) -> c_int {
    if let Some(journal) = std::env::var_os(journal::JOURNAL) {
        let object = PathBuf::from(format!("/proc/self/fd/{fd}"));
        if journal::remember(Path::new(&journal), &object).is_err() {
            // a test must not continue with an incomplete journal
            process::abort();
        }
    }
    0
}

/// Replaces the system's function: records everything below the directory it is called for.
#[expect(unsafe_code, reason = "the one way to stand in for a function of the system's library")]
#[unsafe(no_mangle)]
pub extern "C" fn syncfs(fd: c_int) -> c_int {
    if let Some(journal) = std::env::var_os(journal::JOURNAL) {
        let below = std::fs::read_link(format!("/proc/self/fd/{fd}"));
        if below.and_then(|below| journal::seed(Path::new(&journal), &below)).is_err() {
            process::abort();
        }
    }
    0
}

/// As [`fsync`].
#[expect(unsafe_code, reason = "the one way to stand in for a function of the system's library")]
#[unsafe(no_mangle)]
pub extern "C" fn fdatasync(fd: c_int) -> c_int {
    fsync(fd)
}
