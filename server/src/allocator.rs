//! The allocator of the process, told to give freed memory back soon.
//!
//! By its defaults mimalloc keeps what is freed for a second and looks through a thread's pages after 10 000 slow
//! allocations. Rows are allocated by one thread and freed by another, in pieces of some hundred KiB: under steady load
//! three times the memory in use stayed resident. Given back too soon it has to be found again page by page: rows of tens
//! of kilobytes spent half of the processor's time on that at a delay of 50 ms, a tenth at 200 ms, for as much memory.
//!
//! A process with little memory gives it back at once: in a group of 256 MiB, what was kept for 200 ms beside queries that end
//! and begin was 90 MiB, and the kernel ended the process.

use std::ffi::c_int;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// `mi_option_purge_delay`: milliseconds until freed pages go back to the system.
const PURGE_DELAY: c_int = 15;
/// `mi_option_generic_collect`: slow allocations of a thread between two looks for pages that others have emptied.
const GENERIC_COLLECT: c_int = 34;
/// Processes with less memory give it back at once.
const SMALL: usize = 1 << 30;

#[expect(unsafe_code, reason = "the allocator's settings have no safe interface")]
mod sys {
    use std::ffi::{c_int, c_long};

    unsafe extern "C" {
        /// Sets an option by its place in mimalloc's `mi_option_t`; one that does not exist is ignored.
        pub(super) safe fn mi_option_set(option: c_int, value: c_long);
        /// The value of an option.
        #[cfg(test)]
        pub(super) safe fn mi_option_get(option: c_int) -> c_long;
    }
}

/// Sets what differs from the allocator's defaults for a process that may use so much memory, unless the environment does
/// (`MIMALLOC_PURGE_DELAY`, `MIMALLOC_GENERIC_COLLECT`).
pub(crate) fn tune(memory: usize) {
    let (delay, collect) = if memory < SMALL { (10, 50) } else { (200, 500) };
    for (name, option, value) in
        [("MIMALLOC_PURGE_DELAY", PURGE_DELAY, delay), ("MIMALLOC_GENERIC_COLLECT", GENERIC_COLLECT, collect)]
    {
        if std::env::var_os(name).is_none() {
            sys::mi_option_set(option, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_options_are_where_this_version_of_the_allocator_has_them() {
        // Their defaults tell them from their neighbours, whose values differ.
        let options = || [PURGE_DELAY, GENERIC_COLLECT].map(|option| sys::mi_option_get(option));
        assert_eq!(options(), [1_000, 10_000]);
        tune(SMALL);
        assert_eq!(options(), [200, 500]);
        tune(SMALL - 1);
        assert_eq!(options(), [10, 50]);
        tune(SMALL);
    }
}
