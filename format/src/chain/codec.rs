//! Binary format of a version object.
//!
//! ```text
//! offset    size
//! 0         8     magic "TDLKMETA"
//! 8         4     format version, u32 = 1
//! 12        4     zero
//! 16        8     version of the chain, u64
//! 24        16    commit id, u128, random
//! 40        …     bodies, back to back: sections and directory pages, each one zstd frame
//! root      …     root: a zstd frame of JSON {"pages": [[first name, pointer], …], "refs": [version, …]}
//! end − 24  8     offset of the root, u64
//! end − 16  4     length of the root, u32
//! end − 12  4     CRC-32 of the root
//! end − 8   4     CRC-32 of bytes 0..40 and of the 16 bytes before this number
//! end − 4   4     magic "TDLK"
//! ```
//!
//! Numbers are little-endian. A pointer is `[version, offset, length, crc, born]`. A page is sorted by name, in JSON:
//! `[[name, pointer], …]`.

use std::io::Read;

use bytes::Bytes;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{
    compression::{self, inflate},
    error::{Error, Result},
    ids::Version,
    layout,
};

const MAGIC: &[u8; 8] = b"TDLKMETA";
const END: &[u8; 4] = b"TDLK";
/// The format version that this code writes, and the newest that it reads.
pub(super) const FORMAT: u32 = 1;
pub(super) const HEADER: usize = 40;
pub(super) const TAIL: usize = 24;
/// Maximum size of a section, compressed or not.
const MAX_SECTION: u64 = 512 << 20;
const ZSTD_LEVEL: i32 = 3;
/// Size in bytes up to which a section is decoded in one step.
const SMALL_SECTION: u64 = 1 << 20;

/// Location of a section or page, and the version that wrote its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "(u64, u64, u32, u32, u64)", from = "(u64, u64, u32, u32, u64)")]
pub struct Pointer {
    /// The version whose object holds the bytes.
    pub version: Version,
    /// Offset of the bytes in that object.
    pub offset: u64,
    /// Compressed length.
    pub length: u32,
    /// CRC-32 of the compressed bytes.
    pub crc: u32,
    /// The version that wrote this content; carrying the section forward keeps it.
    pub born: Version,
}

impl From<Pointer> for (u64, u64, u32, u32, u64) {
    fn from(p: Pointer) -> Self {
        (p.version.0, p.offset, p.length, p.crc, p.born.0)
    }
}

impl From<(u64, u64, u32, u32, u64)> for Pointer {
    fn from((version, offset, length, crc, born): (u64, u64, u32, u32, u64)) -> Self {
        Self { version: Version(version), offset, length, crc, born: Version(born) }
    }
}

/// The last body: the locations of the directory's pages, and the older versions that the version points into.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct RootBody {
    pub(super) pages: Vec<(String, Pointer)>,
    pub(super) refs: Vec<Version>,
}

/// Encodes a version object.
pub(super) struct Encoder {
    version: Version,
    bytes: Vec<u8>,
}

impl Encoder {
    pub(super) fn new(version: Version, commit: u128) -> Self {
        let mut bytes = Vec::with_capacity(64 << 10);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&FORMAT.to_le_bytes());
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&version.0.to_le_bytes());
        bytes.extend_from_slice(&commit.to_le_bytes());
        Self { version, bytes }
    }

    /// Appends a compressed body.
    pub(super) fn frame(&mut self, frame: &[u8], born: Version) -> Result<Pointer> {
        let length = u32::try_from(frame.len()).ok().filter(|l| u64::from(*l) <= MAX_SECTION);
        let length = length.ok_or_else(|| {
            Error::unsupported("section is too large").with("found", frame.len()).with("limit", MAX_SECTION)
        })?;
        let offset = self.bytes.len() as u64;
        self.bytes.extend_from_slice(frame);
        Ok(Pointer { version: self.version, offset, length, crc: crc32fast::hash(frame), born })
    }

    pub(super) fn finish(mut self, root: &RootBody) -> Result<Bytes> {
        let root = compress(&to_json(root)?)?;
        let at = self.frame(&root, self.version)?;
        let tail = self.bytes.len();
        self.bytes.extend_from_slice(&at.offset.to_le_bytes());
        self.bytes.extend_from_slice(&at.length.to_le_bytes());
        self.bytes.extend_from_slice(&at.crc.to_le_bytes());
        let crc = ends_crc(&self.bytes[..HEADER], &self.bytes[tail..]);
        self.bytes.extend_from_slice(&crc.to_le_bytes());
        self.bytes.extend_from_slice(END);
        Ok(self.bytes.into())
    }
}

fn ends_crc(header: &[u8], tail: &[u8]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(header);
    crc.update(tail);
    crc.finalize()
}

/// Decodes header, tail and root of a version object.
///
/// # Errors
/// `Corrupt` or `Unsupported`, naming the key, what was expected and what was found.
pub(super) fn decode_root(version: Version, bytes: &Bytes) -> Result<RootBody> {
    let key = layout::meta_key(version);
    let corrupt = |what: &str, expected: String, found: String| {
        Error::corrupt(what).with("key", &key).with("expected", expected).with("found", found)
    };
    if bytes.len() >= 12 && bytes.starts_with(MAGIC) {
        let format = u32_at(bytes, 8);
        if format > FORMAT {
            return Err(Error::unsupported("chain format is too new: use a newer version of this program")
                .with("key", &key)
                .with("expected", format!("format {FORMAT} or older"))
                .with("found", format!("format {format}")));
        }
    }
    if bytes.len() < HEADER + TAIL {
        let expected = format!("at least {} bytes", HEADER + TAIL);
        return Err(corrupt("version object is truncated", expected, format!("{} bytes", bytes.len())));
    }
    if !bytes.starts_with(MAGIC) {
        return Err(corrupt("not a version object", quoted(MAGIC), quoted(&bytes[..8])));
    }
    let tail = bytes.len() - TAIL;
    if !bytes.ends_with(END) {
        return Err(corrupt("version object is truncated", quoted(END), quoted(&bytes[bytes.len() - 4..])));
    }
    let (expected, found) = (u32_at(bytes, tail + 16), ends_crc(&bytes[..HEADER], &bytes[tail..tail + 16]));
    if expected != found {
        return Err(corrupt("checksum mismatch in header or tail of a version object", hex(expected), hex(found)));
    }
    if u32_at(bytes, 8) != FORMAT {
        let found = format!("format {}", u32_at(bytes, 8));
        return Err(corrupt("invalid chain format", format!("format {FORMAT}"), found));
    }
    let found = Version(u64_at(bytes, 16));
    if found != version {
        return Err(corrupt(
            "version object is stored under the key of another version",
            version.to_string(),
            found.to_string(),
        ));
    }
    let root = Pointer {
        version,
        offset: u64_at(bytes, tail),
        length: u32_at(bytes, tail + 8),
        crc: u32_at(bytes, tail + 12),
        born: version,
    };
    parse(version, "root", &decompress(version, "root", slice(bytes, &root, "root")?)?)
}

/// The frame at a pointer, in the bytes of the version that holds it; verifies its checksum.
pub(super) fn slice<'a>(bytes: &'a Bytes, at: &Pointer, name: &str) -> Result<&'a [u8]> {
    let end = at.offset.checked_add(u64::from(at.length)).filter(|end| *end <= bytes.len() as u64);
    let end = end.ok_or_else(|| {
        section(Error::corrupt("section extends beyond the end of its version object"), at.version, name)
            .with("expected", format!("at most {} bytes", bytes.len()))
            .with("found", format!("{} bytes from {}", at.length, at.offset))
    })?;
    let frame = &bytes[at.offset as usize..end as usize];
    check(frame, at, name)?;
    Ok(frame)
}

/// Verifies the CRC of a frame.
pub(super) fn check(frame: &[u8], at: &Pointer, name: &str) -> Result<()> {
    let found = crc32fast::hash(frame);
    if found == at.crc {
        return Ok(());
    }
    Err(section(Error::corrupt("checksum mismatch in a section"), at.version, name)
        .with("expected", hex(at.crc))
        .with("found", hex(found)))
}

pub(super) fn compress(body: &[u8]) -> Result<Vec<u8>> {
    compression::compress(body, ZSTD_LEVEL)
}

pub(super) fn decompress(version: Version, name: &str, frame: &[u8]) -> Result<Vec<u8>> {
    let mut body = Vec::new();
    let read = match zstd::zstd_safe::get_frame_content_size(frame) {
        // Trust the stated size of a small frame: it is decoded in one step.
        Ok(Some(size)) if size <= SMALL_SECTION => inflate(frame, size as usize).map(|found| {
            body = found;
            body.len()
        }),
        _ => zstd::stream::read::Decoder::with_buffer(frame)
            .and_then(|decoder| decoder.take(MAX_SECTION + 1).read_to_end(&mut body)),
    };
    match read {
        Ok(n) if n as u64 <= MAX_SECTION => Ok(body),
        Ok(_) => Err(section(Error::corrupt("section is too large"), version, name)
            .with("expected", format!("at most {MAX_SECTION} bytes"))
            .with("found", "more")),
        Err(e) => Err(section(Error::corrupt("section is not a valid zstd frame"), version, name)
            .with("expected", "a zstd frame")
            .with("found", &e)
            .source(e)),
    }
}

pub(super) fn parse<T: DeserializeOwned>(version: Version, name: &str, json: &[u8]) -> Result<T> {
    serde_json::from_slice(json).map_err(|e| {
        section(Error::corrupt("section does not have the expected JSON"), version, name)
            .with("expected", std::any::type_name::<T>())
            .with("found", &e)
            .source(e)
    })
}

pub(super) fn to_json(value: &impl Serialize) -> Result<Vec<u8>> {
    serde_json::to_vec(value).map_err(|e| Error::internal("section cannot be encoded as JSON").source(e))
}

fn section(e: Error, version: Version, name: &str) -> Error {
    e.with("key", layout::meta_key(version)).with("section", name)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

fn hex(crc: u32) -> String {
    format!("{crc:08x}")
}

fn quoted(bytes: &[u8]) -> String {
    format!("\"{}\"", bytes.escape_ascii())
}
