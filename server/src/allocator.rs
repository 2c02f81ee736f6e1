//! The allocator of the process: jemalloc, set to give freed memory back to the system soon.
//!
//! Rows are allocated by one thread and freed by another, in pieces of some hundred KiB, and a server in a small control group
//! has no memory to spare for pieces that are free but not given back. Beside 30 writers and 20 readers the objects in use were
//! 146 MiB at most: jemalloc needed 143 to 160 MiB resident for them, mimalloc 200 to 240 MiB and more with time, whatever its
//! options said, until the kernel ended the process in its group of 256 MiB.
//!
//! By its defaults jemalloc keeps freed pages for ten seconds, and gives them back only in threads that allocate.

use std::ffi::c_char;

use tikv_jemalloc_ctl::raw;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Options that jemalloc reads before `main`; `_RJEM_MALLOC_CONF` of the environment goes before them. Threads of the allocator give
/// pages back, so that an idle server gives back too; they are given back at once and not first marked as not needed. Huge pages are not
/// asked for: of one that is freed in part, nothing is given back.
const OPTIONS: &[u8] =
    b"background_thread:true,max_background_threads:1,dirty_decay_ms:1000,muzzy_decay_ms:0,thp:never\0";
/// The environment's options of jemalloc.
const ENVIRONMENT: &str = "_RJEM_MALLOC_CONF";
/// Processes with less memory than this, in bytes, give it back within `SMALL_DECAY`.
const SMALL: usize = 1 << 30;
/// Milliseconds until all of what is freed has been given back, in a small process.
const SMALL_DECAY: isize = 100;

#[expect(unsafe_code, reason = "jemalloc finds its options by the name of a symbol that holds a pointer to them")]
#[used]
#[unsafe(export_name = "_rjem_malloc_conf")]
static CONFIGURED: Option<&'static c_char> = Some(unsafe { &*OPTIONS.as_ptr().cast::<c_char>() });

/// Has a process that may use so many bytes of memory give freed memory back sooner where that is little, unless the environment says
/// when. Called before there are other threads: it sets what arenas to come take and the one arena that there is.
pub(crate) fn tune(memory: usize) {
    if memory < SMALL && std::env::var_os(ENVIRONMENT).is_none() {
        for name in [&b"arenas.dirty_decay_ms\0"[..], b"arena.0.dirty_decay_ms\0"] {
            // An allocator without the option keeps memory longer, and works.
            let _ = set(name, SMALL_DECAY);
        }
    }
}

#[expect(unsafe_code, reason = "the caller of jemalloc's interface names the type of an option's value")]
fn set(name: &[u8], milliseconds: isize) -> tikv_jemalloc_ctl::Result<()> {
    // SAFETY: the options that this module names are of type ssize_t, and the names end with a zero.
    unsafe { raw::write(name, milliseconds) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(unsafe_code, reason = "the caller of jemalloc's interface names the type of an option's value")]
    fn get<T: Copy>(name: &[u8]) -> T {
        // SAFETY: each caller asks for the type that jemalloc's manual gives for the option.
        unsafe { raw::read(name) }.unwrap()
    }

    #[test]
    fn jemalloc_has_taken_the_options_and_a_small_process_gives_memory_back_sooner() {
        if std::env::var_os(ENVIRONMENT).is_some() {
            return;
        }
        assert!(get::<bool>(b"opt.background_thread\0"));
        assert_eq!((get::<isize>(b"opt.dirty_decay_ms\0"), get::<isize>(b"opt.muzzy_decay_ms\0")), (1_000, 0));
        tune(SMALL);
        assert_eq!(get::<isize>(b"arenas.dirty_decay_ms\0"), 1_000);
        tune(SMALL - 1);
        let names = [&b"arenas.dirty_decay_ms\0"[..], b"arena.0.dirty_decay_ms\0"];
        assert_eq!(names.map(get::<isize>), [SMALL_DECAY; 2]);
        names.into_iter().for_each(|name| set(name, 1_000).unwrap());
    }
}
