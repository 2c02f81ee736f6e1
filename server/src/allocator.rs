//! The process's allocator: jemalloc, configured to return freed memory to the system quickly.
//!
//! One thread allocates rows and another frees them, in pieces of a few hundred KiB. A server in a small control group has no
//! memory
//! to spare for freed pieces that are not returned. With 30 writers and 20 readers the live objects took at most 146 MiB:
//! jemalloc
//! needed 143 to 160 MiB resident, mimalloc 200 to 240 MiB and growing, with any options, until the kernel killed the process
//! in its
//! 256 MiB group.
//!
//! By default jemalloc keeps freed pages for ten seconds and returns them only in threads that allocate. Returning them at
//! once
//! halved the load rate because of page faults; a delay of 100 ms cost nothing.

use std::ffi::c_char;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Options that jemalloc reads before `main`; the environment variable `_RJEM_MALLOC_CONF` overrides them. A background
/// thread
/// returns pages, so an idle server returns them too; pages skip the "muzzy" state. Allocations above the threshold, in
/// bytes, are
/// returned as soon as they are freed: log groups under load are smaller, and a threshold of 4 MiB caused a third more page
/// faults.
/// Huge pages are off: a partly freed huge page is not returned.
const OPTIONS: &[u8] = b"background_thread:true,max_background_threads:1,dirty_decay_ms:100,muzzy_decay_ms:0,\
    oversize_threshold:16777216,thp:never\0";

#[expect(unsafe_code, reason = "jemalloc finds its options by the name of a symbol that holds a pointer to them")]
#[used]
#[unsafe(export_name = "_rjem_malloc_conf")]
static CONFIGURED: Option<&'static c_char> = Some(unsafe { &*OPTIONS.as_ptr().cast::<c_char>() });

#[cfg(test)]
mod tests {
    use tikv_jemalloc_ctl::raw;

    #[expect(unsafe_code, reason = "the caller of jemalloc's interface names the type of an option's value")]
    fn get<T: Copy>(name: &[u8]) -> T {
        // SAFETY: each caller uses the type that jemalloc's manual gives for the option.
        unsafe { raw::read(name) }.unwrap()
    }

    #[test]
    fn jemalloc_has_taken_the_options() {
        if std::env::var_os("_RJEM_MALLOC_CONF").is_some() {
            return;
        }
        assert!(get::<bool>(b"opt.background_thread\0"));
        assert_eq!((get::<isize>(b"opt.dirty_decay_ms\0"), get::<isize>(b"opt.muzzy_decay_ms\0")), (100, 0));
        assert_eq!(get::<usize>(b"opt.oversize_threshold\0"), 16 << 20);
    }
}
