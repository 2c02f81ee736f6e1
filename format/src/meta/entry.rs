//! The chain's entries for one data file, one partition and one writer.

use serde::{Deserialize, Serialize};

use crate::{
    file::{EncodedFile, checksum},
    ids::{FileId, TableId, Version},
    tags,
};

/// One object under `data/`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ObjectRef {
    /// Id of the object; with table, partition and kind it forms the key.
    pub id: FileId,
    /// Size of the object.
    pub bytes: u64,
    /// Checksum: for a data file that of its footer; for a tag manifest that of its header, which covers the checksum
    /// of its body. `None` for files of older releases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crc: Option<u32>,
}

/// The rollup of a data file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RollupRef {
    /// Id of the object.
    pub id: FileId,
    /// Size of the object.
    pub bytes: u64,
    /// Length of a bucket, in ticks of the database; buckets begin at multiples of it. 0 if unknown: that rollup is not
    /// used.
    #[serde(default)]
    pub width: i64,
    /// Checksum of the footer; `None` for files of older releases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crc: Option<u32>,
}

/// One live data file and its sidecars.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileEntry {
    /// Permanent id of the file: the id of the data object when it was first written.
    pub id: FileId,
    /// The time partition.
    pub partition: i64,
    /// Precedence; the highest wins: for a fold its own version; for a merge the highest among its inputs.
    pub order: Version,
    /// Tombstones of a version above this one cover the file.
    pub clean: Version,
    /// When it was written, milliseconds since the epoch.
    pub written_ms: i64,
    /// The data file.
    pub data: ObjectRef,
    /// Its tag manifest.
    pub tags: ObjectRef,
    /// The rollup, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollup: Option<RollupRef>,
    /// Number of rows.
    pub rows: u64,
    /// Number of series.
    pub series: u64,
    /// The smallest timestamp, in ticks of the database.
    pub min_ts: i64,
    /// The largest timestamp, in ticks of the database.
    pub max_ts: i64,
    /// The conservation sum: the wrapping sum of a hash of every row and value.
    pub hash: u64,
}

impl FileEntry {
    /// The entry of a newly encoded file; `fresh` returns the id of each object. [`order`](FileEntry::order) and
    /// [`clean`](FileEntry::clean) are set by the commit that adds the file.
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

    /// The same file in a commit: `order` is its precedence, `clean` decides which tombstones cover it.
    #[must_use]
    pub fn at(&self, order: Version, clean: Version) -> Self {
        Self { order, clean, ..self.clone() }
    }

    /// Total bytes of the data file and its sidecars.
    pub fn total_bytes(&self) -> u64 {
        self.data.bytes + self.tags.bytes + self.rollup.map_or(0, |r| r.bytes)
    }
}

/// Totals of the files of one partition of one table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionSummary {
    /// Number of data files.
    pub files: u64,
    /// Number of rows (a key in two files counts twice).
    pub rows: u64,
    /// Bytes of data files and sidecars.
    pub bytes: u64,
    /// The smallest timestamp, in ticks.
    pub min_ts: i64,
    /// The largest timestamp, in ticks.
    pub max_ts: i64,
}

impl PartitionSummary {
    /// The summary of `files`; `None` if there are none.
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
    /// The time of the last folded segment; the next segment's time is never less.
    pub time_ms: i64,
    /// Whether idempotency keys of queue messages name its segments: the watermark is kept as long as these keys.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub queue_keys: bool,
    /// Numbers whose rows never count, whenever they are written: a retry of the request gave up on them. Ascending.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub voids: Vec<u64>,
    /// Segments that folds could not read, ascending by number.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faulty: Vec<FaultySegment>,
}

/// A segment that folds could not read, or that is missing below later ones of its writer. It stops folding until it is
/// quarantined; then folding skips it.
///
/// The entry applies to one object, or to its absence: another object at its place, restored manually or written again
/// by its writer, counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FaultySegment {
    /// Number of the segment.
    pub seq: u64,
    /// Last-modified of the object, milliseconds since the epoch.
    pub modified_ms: i64,
    /// Size of the object.
    pub bytes: u64,
    /// Number of folds that found the segment faulty, each at least [`FaultySegment::READS_APART_MS`] after the
    /// previous.
    pub reads: u32,
    /// The store's clock at the last of these reads.
    pub read_ms: i64,
    /// The tables whose rows the segment holds; `None` if unknown: any table may be among them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tables: Option<Vec<TableId>>,
    /// Why the segment could not be read.
    pub error: String,
    /// Whether the object is absent although the writer has put later ones.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub missing: bool,
    /// Whether an operator gave the segment up: queries no longer fail because of it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub given_up: bool,
}

impl FaultySegment {
    /// Number of failed reads after which a segment is quarantined.
    pub const READS: u32 = 3;
    /// Minimum time between two reads that count.
    pub const READS_APART_MS: i64 = 2 * 60_000;

    /// The entry of a missing number, after one read.
    pub fn missing(seq: u64, read_ms: i64, tables: Option<Vec<TableId>>, error: String) -> Self {
        Self { seq, modified_ms: 0, bytes: 0, reads: 1, read_ms, tables, error, missing: true, given_up: false }
    }

    /// Whether folding skips the segment.
    pub fn is_quarantined(&self) -> bool {
        self.reads >= Self::READS
    }

    /// Whether this is the object that could not be read, not a replacement.
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

    /// Whether the rows of a number are void.
    pub fn is_void(&self, seq: u64) -> bool {
        self.voids.binary_search(&seq).is_ok()
    }

    /// The entry of a segment that could not be read.
    pub fn faulty(&self, seq: u64) -> Option<&FaultySegment> {
        self.faulty.iter().find(|f| f.seq == seq)
    }

    /// Whether a number of the writer is missing: nothing is written under this writer id any more.
    pub fn has_hole(&self) -> bool {
        self.faulty.iter().any(|f| f.missing)
    }

    /// Whether queries fail because of a missing number.
    pub fn has_open_hole(&self) -> bool {
        self.faulty.iter().any(|f| f.missing && !f.given_up)
    }

    /// Whether folding skips this object.
    pub fn is_quarantined(&self, seq: u64, modified_ms: i64, bytes: u64) -> bool {
        self.faulty(seq).is_some_and(|f| f.is_quarantined() && f.is_object(modified_ms, bytes))
    }

    /// Gives up a number: folding skips its segment, and queries do not fail because of it.
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

    /// Records that a segment could not be read. A read too soon after the previous one is not counted.
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
