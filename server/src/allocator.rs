//! The allocator of the process: jemalloc, set to give freed memory back to the system soon.
//!
//! Rows are allocated by one thread and freed by another, in pieces of some hundred KiB, and a server in a small control group
//! has no memory to spare for pieces that are free but not given back. Beside 30 writers and 20 readers the objects in use were
//! 146 MiB at most: jemalloc needed 143 to 160 MiB resident for them, mimalloc 200 to 240 MiB and more with time, whatever its
//! options said, until the kernel ended the process in its group of 256 MiB.
//!
//! By its defaults jemalloc keeps freed pages for ten seconds, and gives them back only in threads that allocate. Given back at once
//! they have to be found again page by page: that halved the rate of a load, where a delay of 100 ms cost nothing.

use std::ffi::c_char;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Options that jemalloc reads before `main`; `_RJEM_MALLOC_CONF` of the environment goes before them. A thread of the allocator gives
/// pages back, so that an idle server gives back too; they are given back and not first marked as not needed. What is larger than the
/// threshold, in bytes, is given back as soon as it is freed: the groups of a log under load are smaller, and with a threshold of 4 MiB
/// a load had a third more page faults. Huge pages are not asked for: of one that is freed in part, nothing is given back.
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
        // SAFETY: each caller asks for the type that jemalloc's manual gives for the option.
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
