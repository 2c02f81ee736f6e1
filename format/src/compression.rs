//! zstd frames, by encoders and decoders that threads keep: to make one takes longer than to code a small body, the more
//! so in a virtual machine, where asking the processor what it can do leaves the machine.

use std::{cell::RefCell, io, thread::LocalKey};

use zstd::bulk::{Compressor, Decompressor};

use crate::error::{Error, Result};

thread_local! {
    static ENCODER: RefCell<Option<Compressor<'static>>> = const { RefCell::new(None) };
    static DECODER: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
}

/// One zstd frame of `raw`, with its content size.
///
/// # Errors
/// [`Kind::Internal`](crate::Kind::Internal) when zstd has no memory for it.
pub(crate) fn compress(raw: &[u8], level: i32) -> Result<Vec<u8>> {
    let encode = |encoder: &mut Compressor<'static>| {
        encoder.set_compression_level(level)?;
        encoder.compress(raw)
    };
    with(&ENCODER, || Compressor::new(level), encode).map_err(|e| Error::internal("zstd cannot compress").source(e))
}

/// The content of a zstd frame, of at most `capacity` bytes, which are allocated at once.
///
/// # Errors
/// When it is no such frame, or its content is larger.
pub(crate) fn inflate(frame: &[u8], capacity: usize) -> io::Result<Vec<u8>> {
    with(&DECODER, Decompressor::new, |decoder| decoder.decompress(frame, capacity))
}

/// Runs `use_it` with what this thread keeps, or with a new one where the thread is at its end and keeps nothing.
fn with<C, T>(
    kept: &'static LocalKey<RefCell<Option<C>>>,
    new: impl Fn() -> io::Result<C>,
    use_it: impl Fn(&mut C) -> io::Result<T>,
) -> io::Result<T> {
    let of_thread = |cell: &RefCell<Option<C>>| {
        let mut kept = cell.borrow_mut();
        match &mut *kept {
            Some(context) => use_it(context),
            none => use_it(none.insert(new()?)),
        }
    };
    kept.try_with(of_thread).unwrap_or_else(|_| use_it(&mut new()?))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn what_a_thread_keeps_codes_one_body_after_another_at_any_level_and_after_errors() {
        let bodies: [&[u8]; 4] = [b"", b"a", &[7; 100_000], &[b"ts,device,value ".as_slice(); 999].concat()];
        for (i, body) in bodies.iter().chain(bodies.iter().rev()).enumerate() {
            let frame = compress(body, [1, 3][i % 2]).unwrap();
            let size = zstd::zstd_safe::get_frame_content_size(&frame).unwrap();
            assert_eq!(size, Some(body.len() as u64), "body {i}");
            assert_eq!(inflate(&frame, body.len()).unwrap(), *body, "body {i}");
            assert_eq!(zstd::stream::decode_all(&frame[..]).unwrap(), *body, "body {i}, another decoder");
            if !body.is_empty() {
                inflate(&frame, body.len() - 1).unwrap_err();
            }
            inflate(&frame[..frame.len() - 1], body.len()).unwrap_err();
        }
    }
}
