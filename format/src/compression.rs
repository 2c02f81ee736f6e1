//! zstd frames, with one encoder and decoder per thread: creating one takes longer than coding a small body, above all in
//! a virtual machine, where CPUID exits to the hypervisor.

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

/// The most bytes of a block in a zstd frame.
const BLOCK: usize = 128 << 10;

/// Appends a zstd frame of `len` bytes of content, given in parts, uncompressed (RFC 8878: magic, a header that states the
/// content size, raw blocks; the window of a large one is a block, so that any decoder takes it).
///
/// # Panics
/// If the parts have another length, or 4 GiB and more.
pub(crate) fn store<'a>(parts: impl IntoIterator<Item = &'a [u8]>, len: usize, frame: &mut Vec<u8>) {
    frame.extend_from_slice(&[0x28, 0xB5, 0x2F, 0xFD]);
    match len {
        0..256 => frame.extend_from_slice(&[0x20, len as u8]),
        256..65_792 => {
            frame.push(0x60);
            frame.extend_from_slice(&((len - 256) as u16).to_le_bytes());
        }
        _ => {
            frame.extend_from_slice(&[0x80, (BLOCK.ilog2() as u8 - 10) << 3]);
            frame.extend_from_slice(&u32::try_from(len).expect("a frame of less than 4 GiB").to_le_bytes());
        }
    }
    let (mut begun, mut room) = (0, 0);
    let mut begin = |frame: &mut Vec<u8>| {
        let size = (len - begun).min(BLOCK);
        assert!(size > 0 || len == 0, "a frame of {len} bytes gets more");
        begun += size;
        let header = (size as u32) << 3 | u32::from(begun == len);
        frame.extend_from_slice(&header.to_le_bytes()[..3]);
        size
    };
    if len == 0 {
        begin(frame);
    }
    for mut part in parts {
        while !part.is_empty() {
            if room == 0 {
                room = begin(frame);
            }
            let (now, later) = part.split_at(part.len().min(room));
            frame.extend_from_slice(now);
            (part, room) = (later, room - now.len());
        }
    }
    assert!(begun == len && room == 0, "a frame of {len} bytes has {}", begun - room);
}

/// Bytes of the frame that [`store`] appends.
pub(crate) fn stored_len(len: usize) -> usize {
    let header = match len {
        0..256 => 6,
        256..65_792 => 7,
        _ => 10,
    };
    header + 3 * len.div_ceil(BLOCK).max(1) + len
}

/// The content of a zstd frame, of at most `capacity` bytes, which are allocated at once.
///
/// # Errors
/// If `frame` is not a zstd frame, or its content is larger.
pub(crate) fn inflate(frame: &[u8], capacity: usize) -> io::Result<Vec<u8>> {
    with(&DECODER, Decompressor::new, |decoder| decoder.decompress(frame, capacity))
}

/// Runs `use_it` with this thread's context, or with a new one if the thread-locals are already destroyed.
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
    fn what_is_stored_as_it_is_is_a_frame_of_any_length_and_parts() {
        let lens = [0, 1, 255, 256, 3_800, 65_535, 65_536, 65_791, 65_792, BLOCK, BLOCK + 1, 3 * BLOCK, 3 * BLOCK + 77];
        for len in lens {
            let raw: Vec<u8> = (0..len).map(|i| ((i * i) >> 3) as u8).collect();
            for part in [1 << 20, BLOCK, 1_000, 77] {
                let mut frame = b"before".to_vec();
                store(raw.chunks(part), len, &mut frame);
                let frame = &frame[6..];
                assert_eq!(frame.len(), stored_len(len), "{len} bytes");
                assert_eq!(zstd::zstd_safe::get_frame_content_size(frame).unwrap(), Some(len as u64), "{len} bytes");
                assert!(inflate(frame, len).unwrap() == raw, "{len} bytes in parts of {part}");
                let mut small = zstd::stream::Decoder::new(frame).unwrap();
                small.window_log_max(17).unwrap();
                let mut streamed = Vec::new();
                io::Read::read_to_end(&mut small, &mut streamed).unwrap();
                assert!(streamed == raw, "{len} bytes, with a window of 128 KiB");
            }
        }
    }

    #[test]
    #[should_panic(expected = "a frame of 5 bytes has 3")]
    fn parts_that_are_too_short_are_a_fault() {
        store([&b"abc"[..]], 5, &mut Vec::new());
    }

    #[test]
    #[should_panic(expected = "a frame of 5 bytes gets more")]
    fn parts_that_are_too_long_are_a_fault() {
        store([&b"abc"[..], b"def"], 5, &mut Vec::new());
    }

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
