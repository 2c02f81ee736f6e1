//! Stands in for `fsync` and `syncfs` in a process that is started with `LD_PRELOAD`: remembers what each call makes durable.
//!
//! See [`journal`] for what is written down and what is made of it.

pub mod journal;

use std::{
    ffi::c_int,
    path::{Path, PathBuf},
    process,
};

/// Takes the place of the system's: remembers instead of syncing.
#[expect(unsafe_code, reason = "the one way to stand in for a function of the system's library")]
#[unsafe(no_mangle)]
pub extern "C" fn fsync(fd: c_int) -> c_int {
    if let Some(journal) = std::env::var_os(journal::JOURNAL) {
        let object = PathBuf::from(format!("/proc/self/fd/{fd}"));
        if journal::remember(Path::new(&journal), &object).is_err() {
            // a test must not go on with a journal that lacks something
            process::abort();
        }
    }
    0
}

/// Takes the place of the system's: remembers all below the directory that it is called for.
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
