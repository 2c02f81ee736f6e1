//! Requests with an idempotency key: a copy gets the reply of the first request, and its rows are not written again.
//!
//! An attempt claims its key by creating an object that names the position of its rows, puts the segment there, and
//! acknowledges only within [`ACKNOWLEDGE_WITHIN`] of the claim. A copy that finds the claim and the rows returns the claim's
//! reply. A copy that finds no rows [`GIVE_UP_MS`] after the claim, when the attempt can no longer be acknowledged, voids the
//! position by a commit and claims the next key. So at most one attempt counts.
//!
//! A statement of a queue message that writes no rows takes effect by a commit, which leaves a [`Mark`]: a copy that finds the
//! mark changes nothing.

use std::{sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use tidelake_format::{
    Error, Kind, Result,
    ids::{Position, Token, WriterId},
    layout::{IDEM, Kept, idem_attempt_key, log_key, log_prefix},
    meta::{Catalog, Draft, FaultySegment, Root, Watermark},
    segment,
    store::Created,
};
use tokio::time::sleep;

use super::{Ingest, Written, lane::blocking};
use crate::decode::Rejected;

/// Rows are acknowledged only while their claim is younger than this.
pub(crate) const ACKNOWLEDGE_WITHIN: Duration = Duration::from_secs(50);
/// Age by the store's clock at which a claim without rows may be voided.
const GIVE_UP_MS: i64 = 60_000;
/// The coarsest last-modified resolution of a store.
const TICK_MS: i64 = 1_000;
/// A segment modified this long after its writer's start is void.
const VOID_MS: i64 = 2 * 24 * 3_600_000;
/// Waits of a copy between checks while the first attempt is in progress.
const LOOKS_MS: [u64; 5] = [20, 50, 100, 200, 400];
/// Most attempts at one key: each after the first takes a minute and a writer that died.
const ATTEMPTS: u32 = 2_000;
/// Longest time that the store may take to create a claim.
const CLAIM_DEADLINE: Duration = Duration::from_secs(20);
/// Rejected lines named in a copy's reply.
const NAMED: usize = 100;

/// The idempotency key of a request, chosen by its client, or that of a queue message.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct IdempotencyKey {
    text: Arc<str>,
    kept: Kept,
}

impl IdempotencyKey {
    /// The longest key, in bytes.
    pub const MAX_BYTES: usize = 255;

    /// A key of 1 to 255 bytes of text, kept for a day.
    ///
    /// # Errors
    /// Invalid for an empty or longer text.
    pub fn new(text: &str) -> Result<Self> {
        Self::kept(text, Kept::Day)
    }

    /// The key of a queue message, which may be redelivered for 14 days; kept for 15.
    ///
    /// # Errors
    /// As [`IdempotencyKey::new`].
    pub fn of_message(id: &str) -> Result<Self> {
        Self::kept(id, Kept::Queue)
    }

    /// The key of one part of a request that is written in parts.
    pub(super) fn part(&self, part: u64) -> Self {
        Self { text: format!("{}\0{part}", self.text).into(), kept: self.kept }
    }

    /// The same key in the namespace of a user.
    fn of(&self, user: Option<&str>) -> Self {
        let text = user.map_or_else(|| self.text.clone(), |user| format!("{user}\0{}", self.text).into());
        Self { text, kept: self.kept }
    }

    fn kept(text: &str, kept: Kept) -> Result<Self> {
        if (1..=Self::MAX_BYTES).contains(&text.len()) {
            return Ok(Self { text: text.into(), kept });
        }
        Err(Error::invalid("invalid idempotency key: expected 1 to 255 bytes").with("found", text.len()))
    }
}

/// A claim to be made: its key, attempt, request digest and reply.
#[derive(Debug, Clone)]
pub(crate) struct Claim {
    pub(crate) key: IdempotencyKey,
    attempt: u32,
    digest: u128,
    accepted: u64,
    dropped: u64,
    rejected: Vec<Rejected>,
}

/// The content of a claim object.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Record {
    /// The position of the rows, present or future.
    position: Position,
    /// When the writer of that position started.
    start_ms: i64,
    /// Digest of the request: 32 hexadecimal digits.
    digest: String,
    /// Contents of the reply.
    accepted: u64,
    dropped: u64,
    rejected: Vec<(usize, String, String)>,
}

/// Digest of a request, to detect that its key was used for another one.
pub(crate) fn digest(parts: &[&[u8]]) -> u128 {
    let mut hash = xxhash_rust::xxh3::Xxh3::new();
    for part in parts {
        hash.update(&(part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hash.digest128()
}

/// State of a key.
#[derive(Debug)]
pub(crate) enum Known {
    /// The rows are in the store: the reply.
    Written(Written),
    /// No attempt counts: make this claim.
    Free(Claim),
}

/// Result of one check of the last attempt.
enum Look {
    There,
    Void,
    Late,
    Absent,
}

impl Claim {
    /// Whether the key is that of a queue message.
    pub(crate) fn is_queues(&self) -> bool {
        self.key.kept == Kept::Queue
    }

    /// Completes the claim with the counts of a decoded request.
    pub(crate) fn of(mut self, accepted: u64, dropped: u64, rejected: &[Rejected]) -> Self {
        self.accepted = accepted;
        self.dropped = dropped;
        self.rejected = rejected.iter().take(NAMED).cloned().collect();
        self
    }

    /// Claims the key for a position that holds nothing yet.
    ///
    /// # Errors
    /// Unavailable if the outcome is unknown: the position must not be used.
    pub(crate) async fn make(&self, root: &Root, position: Position, start_ms: i64) -> Result<Created> {
        let rejected = self.rejected.iter().map(|r| (r.line, r.reason.clone(), r.text.clone())).collect();
        let record = Record {
            position,
            start_ms,
            digest: format!("{:032x}", self.digest),
            accepted: self.accepted,
            dropped: self.dropped,
            rejected,
        };
        let bytes = serde_json::to_vec(&record).map_err(|e| Error::internal("cannot serialize a claim").source(e))?;
        let key = idem_attempt_key(&self.key.text, self.key.kept, self.attempt);
        root.store().create_within(&key, bytes.into(), CLAIM_DEADLINE).await
    }
}

impl Ingest {
    /// Looks up the state of the handle's key before rows are accepted; `None` for a handle without a key.
    ///
    /// # Errors
    /// Invalid if the key was used for another request; Unavailable while another copy may be in progress.
    pub(crate) async fn known(&self, digest: u128) -> Result<Option<Known>> {
        self.catch_up().await?;
        match &self.key {
            None => Ok(None),
            // Keys are separate for each user: another user may not be allowed what was done under this key.
            Some(key) => {
                let key = key.of(self.principal.user());
                // Boxed: most writes have no key, and this future is ten times as large as the rest of theirs.
                Box::pin(look(&self.shared.root, &key, digest)).await.map(Some)
            }
        }
    }

    /// The reply of the first copy, for a request that lost the race to claim the key.
    ///
    /// # Errors
    /// As [`Ingest::known`].
    pub(crate) async fn overtaken(&self, error: Error, digest: u128) -> Result<Written> {
        if error.kind() != Kind::Conflict {
            return Err(error);
        }
        match self.known(digest).await? {
            Some(Known::Written(written)) => Ok(written),
            Some(Known::Free(_)) | None => Err(under_way()),
        }
    }
}

/// Mark that a statement's commit leaves in the chain: the watermark of a writer whose ID is derived from the key and the
/// statement, and that writes nothing. It is kept as long as a watermark: 17 days.
#[derive(Debug, Clone)]
pub(crate) struct Mark {
    writer: WriterId,
    start_ms: i64,
}

impl Mark {
    /// Whether a commit has left the mark.
    pub(crate) fn is_in(&self, catalog: &Catalog) -> bool {
        catalog.watermark(self.writer).is_some()
    }

    /// Adds the mark to the changes of a commit.
    ///
    /// # Errors
    /// Unavailable if another copy has left it: the changes must not be made.
    pub(crate) fn leave(&self, draft: &mut Draft) -> Result<()> {
        if self.is_in(draft.catalog()) {
            return Err(Error::unavailable("another copy of this request came first"));
        }
        let unfolded = Watermark::unfolded(self.start_ms);
        draft.set_watermark(self.writer, Watermark { next: u64::MAX, queue_keys: true, ..unfolded });
        Ok(())
    }
}

impl Ingest {
    /// The mark of a statement that must be executed only once; `None` unless the handle's key is that of a queue message.
    pub(crate) fn mark_of(&self, digest: u128) -> Option<Mark> {
        let key = self.key.as_ref().filter(|key| key.kept == Kept::Queue)?.of(self.principal.user());
        let name = self::digest(&[b"mark", key.text.as_bytes(), &digest.to_le_bytes()]);
        Some(Mark { writer: WriterId::bulk(name as u64), start_ms: self.shared.ambient().wall_ms() })
    }
}

fn under_way() -> Error {
    Error::unavailable("another copy of this request is being written; send it again with the same idempotency key")
}

/// Determines the state of a key.
async fn look(root: &Root, key: &IdempotencyKey, digest: u128) -> Result<Known> {
    let mut waits = LOOKS_MS.into_iter();
    loop {
        let (attempt, last) = last_attempt(root, key).await?;
        let claim =
            |attempt| Claim { key: key.clone(), attempt, digest, accepted: 0, dropped: 0, rejected: Vec::new() };
        let Some((record, claimed_ms)) = last else { return Ok(Known::Free(claim(1))) };
        // A skewed clock only shifts the time at which a key expires.
        if root.store().ambient().wall_ms().saturating_sub(claimed_ms) > key.kept.ms() {
            return Ok(Known::Free(claim(attempt + 1)));
        }
        if record.digest != format!("{digest:032x}") {
            return Err(Error::invalid("this idempotency key was used for another request"));
        }
        let look = match look_at(root, &record, claimed_ms).await? {
            Look::Absent => match waits.next() {
                Some(ms) => {
                    sleep(Duration::from_millis(ms)).await;
                    continue;
                }
                None if root.store().clock_ms().await? < claimed_ms + GIVE_UP_MS + TICK_MS => {
                    return Err(under_way());
                }
                // The attempt can no longer be acknowledged, and rows put in time are visible now.
                None => look_at(root, &record, claimed_ms).await?,
            },
            look => look,
        };
        let there = match look {
            Look::There => true,
            Look::Void => false,
            Look::Late | Look::Absent => give_up(root, &record, key.kept).await?,
        };
        if there {
            // The writer of the rows may have died before it synced them.
            root.store().sync(&log_prefix(record.position.writer)).await?;
            root.store().sync(IDEM).await?;
        }
        return Ok(if there { Known::Written(record.answer()) } else { Known::Free(claim(attempt + 1)) });
    }
}

/// The last attempt at a key: its number, claim and claim time; 0 and `None` without attempts.
async fn last_attempt(root: &Root, key: &IdempotencyKey) -> Result<(u32, Option<(Record, i64)>)> {
    let mut last = (0, None);
    for attempt in 1..=ATTEMPTS {
        let name = idem_attempt_key(&key.text, key.kept, attempt);
        let (bytes, meta) = match root.store().get_with_meta(&name).await {
            Ok(found) => found,
            Err(e) if e.kind() == Kind::NotFound => return Ok(last),
            Err(e) => return Err(e),
        };
        let record: Record = serde_json::from_slice(&bytes)
            .map_err(|e| Error::corrupt("corrupt idempotency key").with("key", &name).source(e))?;
        last = (attempt, Some((record, meta.last_modified.timestamp_millis())));
    }
    Err(Error::unavailable("too many attempts at one idempotency key").with("limit", ATTEMPTS))
}

/// Whether the rows of a claim are in the store and count.
async fn look_at(root: &Root, record: &Record, claimed_ms: i64) -> Result<Look> {
    let Position { writer, seq } = record.position;
    // Read the log first, then the version: a segment folded in between is below the watermark.
    let key = log_key(record.position);
    let found = match root.store().get_with_meta(&key).await {
        Ok((bytes, meta)) => {
            // A truncated segment does not hold the rows, whatever was acknowledged.
            let read = blocking(bytes.len(), move || segment::decode(&key, &bytes)).await;
            let is_whole = !read.is_err_and(|e| e.kind() == Kind::Corrupt);
            Some((meta.last_modified.timestamp_millis(), meta.size, is_whole))
        }
        Err(e) if e.kind() == Kind::NotFound => None,
        Err(e) => return Err(e),
    };
    let catalog = root.refresh().await?;
    let watermark = catalog.watermark(writer);
    let is_quarantined = |w: &Watermark| match found {
        Some((modified_ms, bytes, _)) => w.is_quarantined(seq, modified_ms, bytes),
        None => w.faulty(seq).is_some_and(FaultySegment::is_quarantined),
    };
    let readable = found.filter(|(_, _, is_whole)| *is_whole).map(|(modified_ms, ..)| modified_ms);
    Ok(match (watermark, readable) {
        (Some(watermark), _) if watermark.is_void(seq) || is_quarantined(watermark) => Look::Void,
        (Some(watermark), None) if seq < watermark.next && watermark.faulty(seq).is_some() => {
            // Another object replaced a quarantined one and is unreadable too: the next fold reports it.
            let key = log_key(record.position);
            return Err(Error::unavailable("the rows of an idempotency key cannot be read").with("key", key));
        }
        (Some(watermark), _) if seq < watermark.next => Look::There,
        (_, Some(ms)) => {
            let is_in_time = |ms: i64| ms.saturating_sub(claimed_ms) < GIVE_UP_MS;
            let is_void = |ms: i64| ms.saturating_sub(record.start_ms) > VOID_MS;
            // In time: every copy that voids the position checks later than this, and finds the segment.
            if is_in_time(ms) {
                return Ok(if is_void(ms) { Look::Void } else { Look::There });
            }
            // A writer puts a number only once the previous one is durable. So a segment later than the next one was restored,
            // and its last-modified time is that of the restored copy.
            match next_modified(root, record.position).await? {
                None if is_void(ms) => Look::Void,
                None => Look::Late,
                Some(next_ms) if is_void(next_ms) => Look::Void,
                Some(next_ms) if is_in_time(next_ms) => Look::There,
                Some(_) => {
                    let what = "whether the logged rows of an idempotency key count is unknown until they are folded; \
                                send the request again with the same key";
                    return Err(Error::unavailable(what).with("key", log_key(record.position)));
                }
            }
        }
        (_, None) => match next_modified(root, record.position).await? {
            None => Look::Absent,
            // The segment was durable, and had rows of other requests as well.
            Some(_) => {
                let error = Error::corrupt("the log segment with the rows of an idempotency key is missing");
                return Err(error.with("key", log_key(record.position)).with("found", log_key(record.position.next())));
            }
        },
    })
}

/// When the same writer's segment after a position was modified; `None` without such a segment.
async fn next_modified(root: &Root, position: Position) -> Result<Option<i64>> {
    match root.store().head(&log_key(position.next())).await {
        Ok(meta) => Ok(Some(meta.last_modified.timestamp_millis())),
        Err(e) if e.kind() == Kind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}

/// Voids the position of a claim, whatever is put there; returns true if its rows were folded first, and count.
async fn give_up(root: &Root, record: &Record, kept: Kept) -> Result<bool> {
    let position = record.position;
    let change = |draft: &mut Draft| {
        let was_void = draft.catalog().watermark(position.writer).is_some_and(|w| w.is_void(position.seq));
        Ok(!was_void && !draft.void(position, record.start_ms, kept))
    };
    let (there, _) = root.commit(&[], change).await?;
    if !there {
        tracing::info!(%position, "voided an attempt under an idempotency key: its writer did not put the rows in time");
    }
    Ok(there)
}

impl Record {
    /// The reply that the first copy got, or would have got.
    fn answer(self) -> Written {
        let rejected = self.rejected.into_iter().map(|(line, reason, text)| Rejected { line, reason, text }).collect();
        Written {
            accepted: self.accepted,
            rejected,
            dropped: self.dropped,
            token: Some(Token::Position(self.position)),
            replayed: true,
            replaced: 0,
            notices: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests;
