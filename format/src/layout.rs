//! Object keys, relative to the root: every key that this crate writes is formatted and parsed here.
//!
//! | key | object |
//! |---|---|
//! | `meta/<9999999999999999999 − version>` | one version of the chain, newest first in key order |
//! | `log/<writer>/<seq>` | log segment |
//! | `data/<table>/<partition>/<id>.parquet` | data file |
//! | `data/<table>/<partition>/<id>.tags`, `….rollup` | sidecars, each with its own ID |
//! | `idem/<key>`, `clock/<id>` | idempotency keys; objects put to read the store's clock |
//! | `nodes/<id>/<n>` | the last of the objects by which a server announces itself |
//! | `results/<id>` | results of functions that exceed the response limit of their platform |

use crate::ids::{FileId, Position, TableId, Version, WriterId};

/// The prefix of the chain.
pub const META: &str = "meta";
/// The prefix of the log.
pub const LOG: &str = "log";
/// The prefix of data files and their sidecars.
pub const DATA: &str = "data";
/// The prefix of objects put to read the store's clock.
pub const CLOCK: &str = "clock";
/// The prefix of idempotency keys.
pub const IDEM: &str = "idem";
/// The prefix of objects by which servers announce themselves.
pub const NODES: &str = "nodes";
/// The prefix of large results.
pub const RESULTS: &str = "results";

/// Version keys hold this number minus the version: 19 digits, so that newer versions sort first.
pub const LAST_VERSION: u64 = 9_999_999_999_999_999_999;

/// The key of one version of the chain.
///
/// ```
/// use tidelake_format::{ids::Version, layout};
/// assert_eq!(layout::meta_key(Version(0)), "meta/9999999999999999999");
/// assert_eq!(layout::meta_key(Version(41)), "meta/9999999999999999958");
/// assert_eq!(layout::parse_meta("meta/9999999999999999958"), Some(Version(41)));
/// assert_eq!(layout::parse_meta("meta/41"), None);
/// ```
pub fn meta_key(version: Version) -> String {
    format!("{META}/{:019}", LAST_VERSION.saturating_sub(version.0))
}

/// Parses a key under `meta/`.
pub fn parse_meta(key: &str) -> Option<Version> {
    let name = key.strip_prefix("meta/")?;
    Some(Version(LAST_VERSION.checked_sub(digits(name, 19)?)?))
}

/// The key of a log segment.
///
/// ```
/// use tidelake_format::{ids::{Position, WriterId}, layout};
/// let position = Position { writer: WriterId(0xab), seq: 7 };
/// let key = "log/000000000000000000000000000000ab/00000000000000000007";
/// assert_eq!(layout::log_key(position), key);
/// assert_eq!(layout::parse_log(key), Some(position));
/// ```
pub fn log_key(position: Position) -> String {
    format!("{LOG}/{}/{:020}", position.writer, position.seq)
}

/// The prefix of the segments of one writer.
pub fn log_prefix(writer: WriterId) -> String {
    format!("{LOG}/{writer}")
}

/// Parses a key under `log/`.
pub fn parse_log(key: &str) -> Option<Position> {
    let (writer, seq) = key.strip_prefix("log/")?.split_once('/')?;
    Some(Position { writer: writer.parse().ok()?, seq: digits(seq, 20)? })
}

/// The key of a data file.
///
/// ```
/// use tidelake_format::{ids::{FileId, TableId}, layout};
/// let key = layout::data_key(TableId(3), -2, FileId(0xc));
/// assert_eq!(key, "data/3/-2/0000000000000000000000000000000c.parquet");
/// let parsed = layout::parse_data(&key).unwrap();
/// assert_eq!((parsed.table, parsed.partition, parsed.id), (TableId(3), -2, FileId(0xc)));
/// assert_eq!(parsed.part, layout::Part::Data);
/// ```
pub fn data_key(table: TableId, partition: i64, id: FileId) -> String {
    part_key(table, partition, id, Part::Data)
}

/// The key of a tag manifest; `id` is the manifest's own ID.
///
/// ```
/// use tidelake_format::{ids::{FileId, TableId}, layout};
/// assert_eq!(layout::tags_key(TableId(3), 19, FileId(1)), "data/3/19/00000000000000000000000000000001.tags");
/// ```
pub fn tags_key(table: TableId, partition: i64, id: FileId) -> String {
    part_key(table, partition, id, Part::Tags)
}

/// The key of a rollup; `id` is the rollup's own ID.
///
/// ```
/// use tidelake_format::{ids::{FileId, TableId}, layout};
/// assert_eq!(layout::rollup_key(TableId(3), 19, FileId(1)), "data/3/19/00000000000000000000000000000001.rollup");
/// ```
pub fn rollup_key(table: TableId, partition: i64, id: FileId) -> String {
    part_key(table, partition, id, Part::Rollup)
}

/// Type of an object under `data/`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Part {
    /// A data file.
    Data,
    /// A tag manifest.
    Tags,
    /// A rollup.
    Rollup,
}

impl Part {
    /// `parquet`, `tags` or `rollup`.
    pub fn extension(self) -> &'static str {
        match self {
            Part::Data => "parquet",
            Part::Tags => "tags",
            Part::Rollup => "rollup",
        }
    }
}

/// Parts of a key under `data/`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DataKey {
    /// The supertable.
    pub table: TableId,
    /// The number of the time partition.
    pub partition: i64,
    /// The object's own ID.
    pub id: FileId,
    /// Type of the object.
    pub part: Part,
}

fn part_key(table: TableId, partition: i64, id: FileId, part: Part) -> String {
    format!("{DATA}/{}/{partition}/{id}.{}", table.0, part.extension())
}

/// Parses a key under `data/`; `None` for a key that this crate does not write.
pub fn parse_data(key: &str) -> Option<DataKey> {
    let mut parts = key.strip_prefix("data/")?.split('/');
    let (table, partition, file) = (parts.next()?, parts.next()?, parts.next()?);
    let (id, extension) = file.split_once('.')?;
    let part = [Part::Data, Part::Tags, Part::Rollup].into_iter().find(|p| p.extension() == extension)?;
    let found =
        DataKey { table: TableId(table.parse().ok()?), partition: partition.parse().ok()?, id: id.parse().ok()?, part };
    // Accept only the canonical form, not `+1` or `007`.
    (part_key(found.table, found.partition, found.id, part) == key).then_some(found)
}

/// The key of the object number `put`, from 0, by which a server announces itself.
///
/// ```
/// use tidelake_format::layout;
/// let key = "nodes/000000000000000000000000000000ff/00000000000000000002";
/// assert_eq!(layout::node_key(255, 2), key);
/// assert_eq!(layout::parse_node(key), Some((255, 2)));
/// assert_eq!(layout::parse_node("nodes/ff/2"), None);
/// ```
pub fn node_key(id: u128, put: u64) -> String {
    format!("{NODES}/{id:032x}/{put:020}")
}

/// Parses a key under `nodes/`.
pub fn parse_node(key: &str) -> Option<(u128, u64)> {
    let (id, put) = key.strip_prefix("nodes/")?.split_once('/')?;
    let (id, put) = (u128::from_str_radix(id, 16).ok()?, digits(put, 20)?);
    (node_key(id, put) == key).then_some((id, put))
}

/// The key of a large result.
///
/// ```
/// use tidelake_format::layout;
/// assert_eq!(layout::result_key(255), "results/000000000000000000000000000000ff");
/// ```
pub fn result_key(id: u128) -> String {
    format!("{RESULTS}/{id:032x}")
}

/// Retention of an idempotency key after its last attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kept {
    /// A day, for clients that retry a request.
    Day,
    /// 15 days, for queues: they keep a message for up to 14 days.
    Queue,
}

impl Kept {
    /// The retention in milliseconds.
    pub const fn ms(self) -> i64 {
        match self {
            Kept::Day => 86_400_000,
            Kept::Queue => 15 * 86_400_000,
        }
    }

    /// Retention of the attempt stored under a key.
    ///
    /// ```
    /// use tidelake_format::layout::{Kept, idem_key};
    /// assert_eq!(Kept::of(&idem_key("order 17", Kept::Day)), Kept::Day);
    /// assert_eq!(Kept::of(&idem_key("message 17", Kept::Queue)), Kept::Queue);
    /// ```
    pub fn of(key: &str) -> Self {
        let id = key.strip_prefix(IDEM).unwrap_or(key);
        if id.starts_with("/q") { Kept::Queue } else { Kept::Day }
    }
}

/// The object key of an idempotency key: its text hashed to 32 hexadecimal digits, after a `q` if it is a queue's.
///
/// ```
/// use tidelake_format::layout::{Kept, idem_key};
/// assert_eq!(idem_key("order 17", Kept::Day), idem_key("order 17", Kept::Day));
/// assert_ne!(idem_key("order 17", Kept::Day), idem_key("order 18", Kept::Day));
/// assert_eq!(idem_key("x", Kept::Day).len(), "idem/".len() + 32);
/// assert_eq!(idem_key("x", Kept::Queue), idem_key("x", Kept::Day).replace('/', "/q"));
/// ```
pub fn idem_key(key: &str, kept: Kept) -> String {
    let mark = if kept == Kept::Queue { "q" } else { "" };
    format!("{IDEM}/{mark}{:032x}", xxhash_rust::xxh3::xxh3_128(key.as_bytes()))
}

/// The object key of an attempt at an idempotency key, counted from 1. A later attempt follows one that was voided.
///
/// ```
/// use tidelake_format::layout::{Kept, idem_attempt_key, idem_key};
/// assert_eq!(idem_attempt_key("x", Kept::Day, 1), idem_key("x", Kept::Day));
/// assert_eq!(idem_attempt_key("x", Kept::Day, 2), idem_key("x", Kept::Day) + ".2");
/// ```
pub fn idem_attempt_key(key: &str, kept: Kept, attempt: u32) -> String {
    match attempt {
        0 | 1 => idem_key(key, kept),
        _ => format!("{}.{attempt}", idem_key(key, kept)),
    }
}

/// The key of an object put to read the store's clock.
///
/// ```
/// use tidelake_format::layout;
/// assert_eq!(layout::clock_key(0x1f), "clock/0000000000000000000000000000001f");
/// ```
pub fn clock_key(id: u128) -> String {
    format!("{CLOCK}/{id:032x}")
}

fn digits(s: &str, width: usize) -> Option<u64> {
    (s.len() == width && s.bytes().all(|b| b.is_ascii_digit())).then(|| s.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newer_versions_sort_first() {
        let keys: Vec<_> = [0, 1, 9, 10, 99, 100, 1_000_000].map(|v| meta_key(Version(v))).into();
        assert!(keys.windows(2).all(|w| w[0] > w[1]));
    }

    #[test]
    fn keys_in_other_forms_are_rejected() {
        assert_eq!(parse_meta("meta/99999999999999999990"), None);
        assert_eq!(parse_meta("meta/+999999999999999999"), None);
        assert_eq!(parse_log("log/AB/00000000000000000007"), None);
        assert_eq!(parse_log("log/000000000000000000000000000000ab/7"), None);
        assert_eq!(parse_data("data/03/1/0000000000000000000000000000000c.parquet"), None);
        assert_eq!(parse_data("data/3/1/0000000000000000000000000000000c.csv"), None);
        assert_eq!(parse_data("data/3/1/x/0000000000000000000000000000000c.tags"), None);
    }

    #[test]
    fn keys_round_trip() {
        for seed in 0..200_u64 {
            let n = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let position = Position { writer: WriterId(u128::from(n) << 64 | u128::from(seed)), seq: n };
            assert_eq!(parse_log(&log_key(position)), Some(position));
            assert_eq!(parse_meta(&meta_key(Version(n / 2))), Some(Version(n / 2)));
            let (table, partition, id) = (TableId(n as u32), n as i64, FileId(u128::from(n)));
            for part in [Part::Data, Part::Tags, Part::Rollup] {
                let key = part_key(table, partition, id, part);
                assert_eq!(parse_data(&key), Some(DataKey { table, partition, id, part }));
            }
        }
    }
}
