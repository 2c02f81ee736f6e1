//! Requests with an idempotency key: a copy of one is answered as the first was, and its rows are not written again.
//!
//! An attempt claims its key by creating an object that names the position where its rows will be, puts the segment
//! there, and acknowledges only within [`ACKNOWLEDGE_WITHIN`] of the claim. A copy that finds the claim and the rows
//! has its answer. One that finds no rows [`GIVE_UP_MS`] after the claim, when nobody can acknowledge them any more,
//! makes the position void by a commit and claims the next key. So of all attempts at most one counts.
//!
//! A statement of a queue that writes no rows has its effect by a commit, which leaves a [`Mark`] with it: a copy that finds
//! the mark changes nothing.

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

/// Rows are acknowledged under a claim that is younger than this only.
pub(crate) const ACKNOWLEDGE_WITHIN: Duration = Duration::from_secs(50);
/// A claim without rows may be given up when it is this old by the store's clock.
const GIVE_UP_MS: i64 = 60_000;
/// The coarsest last-modified of a store.
const TICK_MS: i64 = 1_000;
/// A segment modified this long after its writer started is void for all.
const VOID_MS: i64 = 2 * 24 * 3_600_000;
/// The waits in which a copy that comes while the first one is under way looks again.
const LOOKS_MS: [u64; 5] = [20, 50, 100, 200, 400];
/// Each attempt after the first takes a minute and a writer that died.
const ATTEMPTS: u32 = 2_000;
/// How long the store may take to create a claim.
const CLAIM_DEADLINE: Duration = Duration::from_secs(20);
/// Rejected lines that a copy's answer names.
const NAMED: usize = 100;

/// The idempotency key of a request, as its client chose it, or of a message of a queue.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct IdempotencyKey {
    text: Arc<str>,
    kept: Kept,
}

impl IdempotencyKey {
    /// The longest key, in bytes.
    pub const MAX_BYTES: usize = 255;

    /// A key of 1 to 255 bytes of text, known for a day.
    ///
    /// # Errors
    /// Invalid for an empty or longer text.
    pub fn new(text: &str) -> Result<Self> {
        Self::kept(text, Kept::Day)
    }

    /// The key of a message of a queue, which may bring it again for 14 days; known for 15.
    ///
    /// # Errors
    /// As [`IdempotencyKey::new`].
    pub fn of_message(id: &str) -> Result<Self> {
        Self::kept(id, Kept::Queue)
    }

    /// The same key among those of a user.
    fn of(&self, user: Option<&str>) -> Self {
        let text = user.map_or_else(|| self.text.clone(), |user| format!("{user}\0{}", self.text).into());
        Self { text, kept: self.kept }
    }

    fn kept(text: &str, kept: Kept) -> Result<Self> {
        if (1..=Self::MAX_BYTES).contains(&text.len()) {
            return Ok(Self { text: text.into(), kept });
        }
        Err(Error::invalid("an idempotency key has 1 to 255 bytes").with("found", text.len()))
    }
}

/// A claim in the making: which key, which attempt, for what.
#[derive(Debug, Clone)]
pub(crate) struct Claim {
    pub(crate) key: IdempotencyKey,
    attempt: u32,
    digest: u128,
    accepted: u64,
    dropped: u64,
    rejected: Vec<Rejected>,
}

/// The object of a claim.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Record {
    /// Where the rows are, or will be.
    position: Position,
    /// When the writer of that position started.
    start_ms: i64,
    /// What was asked for: 32 hexadecimal digits.
    digest: String,
    /// What the answer says.
    accepted: u64,
    dropped: u64,
    rejected: Vec<(usize, String, String)>,
}

/// What a request is, so that a key used for another one is noticed.
pub(crate) fn digest(parts: &[&[u8]]) -> u128 {
    let mut hash = xxhash_rust::xxh3::Xxh3::new();
    for part in parts {
        hash.update(&(part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hash.digest128()
}

/// What is known of a key.
#[derive(Debug)]
pub(crate) enum Known {
    /// The rows are in the store: the answer.
    Written(Written),
    /// Nobody's rows count: claim this.
    Free(Claim),
}

/// What one look at the last attempt finds.
enum Look {
    There,
    Void,
    Late,
    Absent,
}

impl Claim {
    /// Whether its key is a message's of a queue.
    pub(crate) fn is_queues(&self) -> bool {
        self.key.kept == Kept::Queue
    }

    /// The claim of what a decoded request will write.
    pub(crate) fn of(mut self, accepted: u64, dropped: u64, rejected: &[Rejected]) -> Self {
        self.accepted = accepted;
        self.dropped = dropped;
        self.rejected = rejected.iter().take(NAMED).cloned().collect();
        self
    }

    /// Claims the key for a position, on which nothing is put yet.
    ///
    /// # Errors
    /// Unavailable when the outcome is unknown: the position must not be used.
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
        let bytes = serde_json::to_vec(&record).map_err(|e| Error::internal("a claim has no JSON").source(e))?;
        let key = idem_attempt_key(&self.key.text, self.key.kept, self.attempt);
        root.store().create_within(&key, bytes.into(), CLAIM_DEADLINE).await
    }
}

impl Ingest {
    /// Looks at what is known of the handle's key, before its rows are taken; `None` for a handle without one.
    ///
    /// # Errors
    /// Invalid when the key was used for another request; Unavailable while another copy may still be at it.
    pub(crate) async fn known(&self, digest: u128) -> Result<Option<Known>> {
        self.catch_up().await?;
        match &self.key {
            None => Ok(None),
            // The key of one user is nothing to another, who might not be allowed what was done under it.
            Some(key) => {
                let key = key.of(self.principal.user());
                // Boxed: most writes have no key, and this future is ten times as large as the rest of theirs.
                Box::pin(look(&self.shared.root, &key, digest)).await.map(Some)
            }
        }
    }

    /// The answer of the copy that came first, for one that lost the race to claim the key.
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

/// What the commit of a statement leaves in the chain: the watermark of a writer that the key and the statement name and
/// that writes nothing. It is known for as long as that: 17 days.
#[derive(Debug, Clone)]
pub(crate) struct Mark {
    writer: WriterId,
    start_ms: i64,
}

impl Mark {
    /// Whether a commit has left it.
    pub(crate) fn is_in(&self, catalog: &Catalog) -> bool {
        catalog.watermark(self.writer).is_some()
    }

    /// Leaves it with the changes of a commit.
    ///
    /// # Errors
    /// Unavailable when another copy has left it: the changes must not be made.
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
    /// The mark of a statement of which nobody may execute a copy; `None` where the handle's key is not a message's of a
    /// queue.
    pub(crate) fn mark_of(&self, digest: u128) -> Option<Mark> {
        let key = self.key.as_ref().filter(|key| key.kept == Kept::Queue)?.of(self.principal.user());
        let name = self::digest(&[b"mark", key.text.as_bytes(), &digest.to_le_bytes()]);
        Some(Mark { writer: WriterId::bulk(name as u64), start_ms: self.shared.ambient().wall_ms() })
    }
}

fn under_way() -> Error {
    Error::unavailable("another copy of this request is being written; send it again with the same idempotency key")
}

/// What is known of a key.
async fn look(root: &Root, key: &IdempotencyKey, digest: u128) -> Result<Known> {
    let mut waits = LOOKS_MS.into_iter();
    loop {
        let (attempt, last) = last_attempt(root, key).await?;
        let claim =
            |attempt| Claim { key: key.clone(), attempt, digest, accepted: 0, dropped: 0, rejected: Vec::new() };
        let Some((record, claimed_ms)) = last else { return Ok(Known::Free(claim(1))) };
        // A clock that differs decides only whether a key is forgotten somewhat before or after its time.
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
                // Nobody acknowledges it any more; what was put in time is there now.
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
            // Whoever put them may have died before they were to outlast a loss of power.
            root.store().sync(&log_prefix(record.position.writer)).await?;
            root.store().sync(IDEM).await?;
        }
        return Ok(if there { Known::Written(record.answer()) } else { Known::Free(claim(attempt + 1)) });
    }
}

/// The last attempt at a key, its number and when it was made; 0 and none where there is none.
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
            .map_err(|e| Error::corrupt("an idempotency key cannot be read").with("key", &name).source(e))?;
        last = (attempt, Some((record, meta.last_modified.timestamp_millis())));
    }
    Err(Error::unavailable("too many attempts at one idempotency key").with("limit", ATTEMPTS))
}

/// Whether the rows of a claim are in the store for good.
async fn look_at(root: &Root, record: &Record, claimed_ms: i64) -> Result<Look> {
    let Position { writer, seq } = record.position;
    // First the log, then the version: a segment that was folded in between is under the watermark.
    let key = log_key(record.position);
    let found = match root.store().get_with_meta(&key).await {
        Ok((bytes, meta)) => {
            // A part of a segment is not its rows, whoever was told what of it.
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
            // Another object came in the place of a quarantined one, and cannot be read either: who folds next says so.
            let key = log_key(record.position);
            return Err(Error::unavailable("the rows of an idempotency key cannot be read").with("key", key));
        }
        (Some(watermark), _) if seq < watermark.next => Look::There,
        (_, Some(ms)) => {
            let is_in_time = |ms: i64| ms.saturating_sub(claimed_ms) < GIVE_UP_MS;
            let is_void = |ms: i64| ms.saturating_sub(record.start_ms) > VOID_MS;
            // In time: every copy that gives up looks later than this, and sees it.
            if is_in_time(ms) {
                return Ok(if is_void(ms) { Look::Void } else { Look::There });
            }
            // A writer puts a number once the one before is durable. So a segment that is later than the next one was put
            // back, and its last-modified time is that of the copy.
            match next_modified(root, record.position).await? {
                None if is_void(ms) => Look::Void,
                None => Look::Late,
                Some(next_ms) if is_void(next_ms) => Look::Void,
                Some(next_ms) if is_in_time(next_ms) => Look::There,
                Some(_) => {
                    let what = "the rows of an idempotency key are in the log, and whether they count is known once they are folded; \
                                send the request again with the same key";
                    return Err(Error::unavailable(what).with("key", log_key(record.position)));
                }
            }
        }
        (_, None) => match next_modified(root, record.position).await? {
            None => Look::Absent,
            // The segment was durable, with the rows of others as well.
            Some(_) => {
                let error = Error::corrupt("the log segment with the rows of an idempotency key is missing");
                return Err(error.with("key", log_key(record.position)).with("found", log_key(record.position.next())));
            }
        },
    })
}

/// When the segment was modified that its writer put after the one at a position; nothing where there is none.
async fn next_modified(root: &Root, position: Position) -> Result<Option<i64>> {
    match root.store().head(&log_key(position.next())).await {
        Ok(meta) => Ok(Some(meta.last_modified.timestamp_millis())),
        Err(e) if e.kind() == Kind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}

/// Makes the position of a claim void, whatever is put there; true where its rows were folded first, and count.
async fn give_up(root: &Root, record: &Record, kept: Kept) -> Result<bool> {
    let position = record.position;
    let change = |draft: &mut Draft| {
        let was_void = draft.catalog().watermark(position.writer).is_some_and(|w| w.is_void(position.seq));
        Ok(!was_void && !draft.void(position, record.start_ms, kept))
    };
    let (there, _) = root.commit(&[], change).await?;
    if !there {
        tracing::info!(%position, "gave up an attempt under an idempotency key whose writer went away");
    }
    Ok(there)
}

impl Record {
    /// The answer that the first copy got, or would have got.
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
