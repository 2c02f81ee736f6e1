//! The process's allocator: jemalloc, configured to return freed memory to the system quickly.
//!
//! One thread allocates rows and another frees them, in pieces of a few hundred KiB. A server in a small control group has
//! no memory to spare for freed pieces that are not returned. With 30 writers and 20 readers the live objects took at most
//! 146 MiB: jemalloc needed 143 to 160 MiB resident, mimalloc 200 to 240 MiB and growing, with any options, until the kernel
//! killed the process in its 256 MiB group.
//!
//! By default jemalloc keeps freed pages for ten seconds and returns them only in threads that allocate. Returning them at
//! once halves the load rate, because each page that is used again costs a page fault. With a delay of 100 ms a load of
//! 100 million values was 8 % slower than with two seconds, and its peak of memory was 560 MiB instead of 630 MiB. So a
//! process with little memory keeps freed pages for 100 ms, a process with much memory for two seconds.

use std::ffi::c_char;

use tikv_jemalloc_ctl::{Result, arenas, raw};

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Options that jemalloc reads before `main`; the environment variable `_RJEM_MALLOC_CONF` overrides them. A background
/// thread returns pages, so an idle server returns them too; pages skip the "muzzy" state. Allocations above the threshold,
/// in bytes, are returned as soon as they are freed: log groups under load are smaller, and a threshold of 4 MiB caused a
/// third more page faults. Huge pages are off: a partly freed huge page is not returned.
const OPTIONS: &[u8] = b"background_thread:true,max_background_threads:1,dirty_decay_ms:100,muzzy_decay_ms:0,\
    oversize_threshold:16777216,thp:never\0";
/// The environment variable of jemalloc's options.
const VARIABLE: &str = "_RJEM_MALLOC_CONF";

/// Bytes of memory from which a process keeps freed pages for [`LONG_DECAY_MS`].
const MUCH_MEMORY: usize = 2 << 30;
/// Milliseconds after which freed pages are returned to the system, in a process with much memory.
const LONG_DECAY_MS: isize = 2_000;

#[expect(unsafe_code, reason = "jemalloc finds its options by the name of a symbol that holds a pointer to them")]
#[used]
#[unsafe(export_name = "_rjem_malloc_conf")]
static CONFIGURED: Option<&'static c_char> = Some(unsafe { &*OPTIONS.as_ptr().cast::<c_char>() });

/// Sets how long freed pages are kept, for a process that may use `memory` bytes. Options of the user, in
/// `_RJEM_MALLOC_CONF`, stay as they are.
pub(crate) fn fit_to(memory: usize) {
    if memory >= MUCH_MEMORY && std::env::var_os(VARIABLE).is_none() {
        // If jemalloc refuses, the process works with the short delay.
        let _ = set_decay(LONG_DECAY_MS);
    }
}

/// Sets the milliseconds after which freed pages are returned, for the arenas that exist and for those that follow.
#[expect(unsafe_code, reason = "the caller of jemalloc's interface names the type of an option's value")]
fn set_decay(milliseconds: isize) -> Result<()> {
    // SAFETY: jemalloc's manual gives `ssize_t` as the type of both options.
    unsafe { raw::write(b"arenas.dirty_decay_ms\0", milliseconds) }?;
    for arena in 0..arenas::narenas::read()? {
        let name = format!("arena.{arena}.dirty_decay_ms\0");
        // jemalloc refuses this for an arena that no thread has used yet: it starts with the value above.
        // SAFETY: as above.
        let _ = unsafe { raw::write(name.as_bytes(), milliseconds) };
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(unsafe_code, reason = "the caller of jemalloc's interface names the type of an option's value")]
    fn get<T: Copy>(name: &[u8]) -> T {
        // SAFETY: each caller uses the type that jemalloc's manual gives for the option.
        unsafe { raw::read(name) }.unwrap()
    }

    #[test]
    fn jemalloc_takes_the_options_and_much_memory_prolongs_the_delay() {
        if std::env::var_os(VARIABLE).is_some() {
            return;
        }
        assert!(get::<bool>(b"opt.background_thread\0"));
        assert_eq!((get::<isize>(b"opt.dirty_decay_ms\0"), get::<isize>(b"opt.muzzy_decay_ms\0")), (100, 0));
        assert_eq!(get::<usize>(b"opt.oversize_threshold\0"), 16 << 20);

        fit_to(MUCH_MEMORY - 1);
        assert_eq!((get::<isize>(b"arenas.dirty_decay_ms\0"), get::<isize>(b"arena.0.dirty_decay_ms\0")), (100, 100));
        fit_to(MUCH_MEMORY);
        assert_eq!(
            (get::<isize>(b"arenas.dirty_decay_ms\0"), get::<isize>(b"arena.0.dirty_decay_ms\0")),
            (LONG_DECAY_MS, LONG_DECAY_MS)
        );
    }
}
