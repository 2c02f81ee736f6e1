//! What the chain says of one data file, one partition and one writer.

use serde::{Deserialize, Serialize};

use crate::{
    file::{EncodedFile, checksum},
    ids::{FileId, TableId, Version},
    tags,
};

/// One object under `data/`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ObjectRef {
    /// Its own id, which with table, partition and kind makes its key.
    pub id: FileId,
    /// Its size.
    pub bytes: u64,
    /// Its checksum: of a data file that of its footer, of a tag manifest that of its header, which covers the one of its
    /// body. `None` in files of older releases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crc: Option<u32>,
}

/// The rollup of a data file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RollupRef {
    /// Its own id.
    pub id: FileId,
    /// Its size.
    pub bytes: u64,
    /// The length of its buckets, in ticks of the database; they begin at multiples of it. 0 where it is not known: nobody
    /// goes by that rollup.
    #[serde(default)]
    pub width: i64,
    /// The checksum of its footer; `None` in files of older releases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crc: Option<u32>,
}

/// One live data file and its sidecars.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileEntry {
    /// For life; that of the data object when it was first written.
    pub id: FileId,
    /// The time partition.
    pub partition: i64,
    /// Who wins: a fold's own version; of a merge, the highest among its inputs.
    pub order: Version,
    /// Tombstones of a version above this one cover the file.
    pub clean: Version,
    /// When it was written, milliseconds since the epoch.
    pub written_ms: i64,
    /// The data file.
    pub data: ObjectRef,
    /// Its tag manifest.
    pub tags: ObjectRef,
    /// Its rollup, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollup: Option<RollupRef>,
    /// Rows.
    pub rows: u64,
    /// Series.
    pub series: u64,
    /// The smallest timestamp, in ticks of the database.
    pub min_ts: i64,
    /// The largest timestamp, in ticks of the database.
    pub max_ts: i64,
    /// The conservation sum: wrapping sum of a hash of every value.
    pub hash: u64,
}

impl FileEntry {
    /// The entry of a file that was just encoded, each of its objects under an id that `fresh` gives; its
    /// [`order`](FileEntry::order) and [`clean`](FileEntry::clean) are those of the commit that names it.
    pub fn of(file: &EncodedFile, partition: i64, mut fresh: impl FnMut() -> FileId, written_ms: i64) -> Self {
        let (data, tags) = (fresh(), fresh());
        let rollup = file.rollup.as_ref();
        Self {
            id: data,
            partition,
            order: Version::default(),
            clean: Version::default(),
            written_ms,
            data: ObjectRef { id: data, bytes: file.data.len() as u64, crc: checksum(&file.data) },
            tags: ObjectRef { id: tags, bytes: file.tags.len() as u64, crc: Some(tags::checksum(&file.tags)) },
            rollup: rollup.map(|r| RollupRef {
                id: fresh(),
                bytes: r.bytes.len() as u64,
                width: r.width,
                crc: checksum(&r.bytes),
            }),
            rows: file.rows,
            series: file.series,
            min_ts: file.min_ts,
            max_ts: file.max_ts,
            hash: file.hash,
        }
    }

    /// The same file in a commit: `order` decides who wins, `clean` which tombstones cover it.
    #[must_use]
    pub fn at(&self, order: Version, clean: Version) -> Self {
        Self { order, clean, ..self.clone() }
    }

    /// The bytes of the data file and its sidecars.
    pub fn total_bytes(&self) -> u64 {
        self.data.bytes + self.tags.bytes + self.rollup.map_or(0, |r| r.bytes)
    }
}

/// The files of one partition of one table, summed up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionSummary {
    /// Data files.
    pub files: u64,
    /// Rows in them (a key in two files counts twice).
    pub rows: u64,
    /// Bytes of files and sidecars.
    pub bytes: u64,
    /// The smallest timestamp, in ticks.
    pub min_ts: i64,
    /// The largest timestamp, in ticks.
    pub max_ts: i64,
}

impl PartitionSummary {
    /// The summary of some files; `None` without any.
    pub fn of(files: &[FileEntry]) -> Option<Self> {
        Some(Self {
            files: files.len() as u64,
            rows: files.iter().map(|f| f.rows).sum(),
            bytes: files.iter().map(FileEntry::total_bytes).sum(),
            min_ts: files.iter().map(|f| f.min_ts).min()?,
            max_ts: files.iter().map(|f| f.max_ts).max()?,
        })
    }
}

/// How far the log of one writer is folded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watermark {
    /// The first number that is not folded.
    pub next: u64,
    /// When the writer started, from the headers of its segments.
    pub start_ms: i64,
    /// The time of its last folded segment: that of the next one is never less.
    pub time_ms: i64,
    /// Whether keys of messages of queues name its segments: it may be asked for as long as these are known.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub queue_keys: bool,
    /// Numbers whose rows do not count, whenever they are written: a copy of the request gave up on them. Ascending.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub voids: Vec<u64>,
    /// Segments that folds could not read, ascending by number.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faulty: Vec<FaultySegment>,
}

/// A segment that folds could not read, or that is missing below later ones of its writer. It holds up the log until it
/// is quarantined; then the log goes on without it.
///
/// It is one object, or none: another one at its place, restored by hand or put again by its writer, counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FaultySegment {
    /// Its number.
    pub seq: u64,
    /// Last-modified of the object, milliseconds since the epoch.
    pub modified_ms: i64,
    /// The object's size.
    pub bytes: u64,
    /// How many folds have found it faulty, each at least [`FaultySegment::READS_APART_MS`] after the one before.
    pub reads: u32,
    /// The store's clock at the last of them.
    pub read_ms: i64,
    /// The tables whose rows it holds; `None` where that cannot be told: any may be among them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tables: Option<Vec<TableId>>,
    /// Why it could not be read.
    pub error: String,
    /// Whether there is no object, although the writer has put later ones.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub missing: bool,
    /// Whether a person decided that queries do without it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub given_up: bool,
}

impl FaultySegment {
    /// It is quarantined once this many reads have failed.
    pub const READS: u32 = 3;
    /// The time between two reads that count.
    pub const READS_APART_MS: i64 = 2 * 60_000;

    /// A number at which there is nothing, found so once.
    pub fn missing(seq: u64, read_ms: i64, tables: Option<Vec<TableId>>, error: String) -> Self {
        Self { seq, modified_ms: 0, bytes: 0, reads: 1, read_ms, tables, error, missing: true, given_up: false }
    }

    /// Whether the log goes on without it.
    pub fn is_quarantined(&self) -> bool {
        self.reads >= Self::READS
    }

    /// Whether this is the object that could not be read, and not another one at its place.
    pub fn is_object(&self, modified_ms: i64, bytes: u64) -> bool {
        !self.missing && (self.modified_ms, self.bytes) == (modified_ms, bytes)
    }

    fn is_same(&self, other: &Self) -> bool {
        (self.missing, self.modified_ms, self.bytes) == (other.missing, other.modified_ms, other.bytes)
    }
}

impl Watermark {
    /// The watermark of a writer of which nothing is folded.
    pub fn unfolded(start_ms: i64) -> Self {
        Self { next: 0, start_ms, time_ms: i64::MIN, queue_keys: false, voids: Vec::new(), faulty: Vec::new() }
    }

    /// Whether the rows of a number do not count.
    pub fn is_void(&self, seq: u64) -> bool {
        self.voids.binary_search(&seq).is_ok()
    }

    /// What is known of a segment that could not be read.
    pub fn faulty(&self, seq: u64) -> Option<&FaultySegment> {
        self.faulty.iter().find(|f| f.seq == seq)
    }

    /// Whether a number of the writer is missing: nobody puts a later one under this id any more.
    pub fn has_hole(&self) -> bool {
        self.faulty.iter().any(|f| f.missing)
    }

    /// Whether queries fail for a number that is missing.
    pub fn has_open_hole(&self) -> bool {
        self.faulty.iter().any(|f| f.missing && !f.given_up)
    }

    /// Whether the log goes on without this object.
    pub fn is_quarantined(&self, seq: u64, modified_ms: i64, bytes: u64) -> bool {
        self.faulty(seq).is_some_and(|f| f.is_quarantined() && f.is_object(modified_ms, bytes))
    }

    /// Gives a number up: the log goes on without what is at its place, and queries do not fail for it.
    pub(crate) fn give_up(&mut self, faulty: FaultySegment) {
        let given_up = FaultySegment { reads: FaultySegment::READS, given_up: true, ..faulty };
        let at = self.faulty.partition_point(|f| f.seq < given_up.seq);
        match self.faulty.get_mut(at).filter(|f| f.seq == given_up.seq) {
            Some(known) => *known = given_up,
            None => self.faulty.insert(at, given_up),
        }
    }

    /// Makes the rows of a number void.
    pub(crate) fn void(&mut self, seq: Option<u64>) {
        if let Some((seq, Err(at))) = seq.map(|seq| (seq, self.voids.binary_search(&seq))) {
            self.voids.insert(at, seq);
        }
    }

    /// Takes down that a segment could not be read. A read that follows another too soon tells nothing new.
    pub(crate) fn failed(&mut self, read: FaultySegment) {
        let at = self.faulty.partition_point(|f| f.seq < read.seq);
        match self.faulty.get_mut(at).filter(|f| f.seq == read.seq) {
            Some(known) if known.is_same(&read) => {
                if read.read_ms.saturating_sub(known.read_ms) >= FaultySegment::READS_APART_MS {
                    *known = FaultySegment { reads: known.reads + 1, given_up: known.given_up, ..read };
                }
            }
            Some(known) => *known = read,
            None => self.faulty.insert(at, read),
        }
    }
}
