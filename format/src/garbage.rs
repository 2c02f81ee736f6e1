//! Deletes objects that no version needs any more.
//!
//! Everything here is safe to run at any time, by several processes at once, and to stop anywhere: objects go
//! before the version that names them. "Now" is the last-modified of an object just put, never this machine's
//! clock. Versions go oldest first. On a root where nothing has happened a collection ends after two lists.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::Arc,
};

use futures::{StreamExt, TryStreamExt};

use crate::{
    chain::VersionObject,
    error::{Error, Kind, Result},
    ids::{FileId, Position, TableId, Version},
    layout::{self, Kept, Part},
    log::{Listing, VOID_MS},
    meta::{Catalog, FileEntry, Root, Section},
    segment, step,
    steps::stepped,
};

/// Maximum number of segments above a missing number that one collection reads.
const MOST_LATE: usize = 1_000;
/// Objects deleted at once.
const PARALLEL: usize = 16;

/// Scope of a collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sweep {
    /// Folded segments, old versions and the files that they removed: lists `meta/` and `log/`.
    Quick,
    /// Also orphans and late segments: lists everything.
    Full,
}

/// Grace periods of unneeded objects, in milliseconds of the store's clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GarbageOptions {
    /// Folded segments, after the fold's commit. Default 60 s: the longest that a reader takes from its list of
    /// the log to the segments (one that takes longer starts again).
    pub segments_ms: i64,
    /// A version and what its successor removed, after the successor. Default 1 h; never less than the longest
    /// query, which may read files of the version it started on.
    pub versions_ms: i64,
    /// Objects that no version names. Default 24 h.
    pub orphans_ms: i64,
    /// How old an orphan was at the last commit, at least. Default 6 h: no commit names an older file.
    pub unnamed_ms: i64,
    /// Idempotency keys, this long after they are not known any more. Default 0: a copy that comes later is a new request.
    pub keys_ms: i64,
}

impl Default for GarbageOptions {
    fn default() -> Self {
        const HOUR: i64 = 3_600_000;
        Self { segments_ms: 60_000, versions_ms: HOUR, orphans_ms: 24 * HOUR, unnamed_ms: 6 * HOUR, keys_ms: 0 }
    }
}

/// What a collection deleted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Collected {
    /// Folded log segments, and void ones above a number that will never come.
    pub segments: u64,
    /// Versions of the chain.
    pub versions: u64,
    /// Data files and sidecars that a commit removed.
    pub removed: u64,
    /// Objects that no version names.
    pub orphans: u64,
    /// Idempotency keys.
    pub keys: u64,
}

/// Collects with the default times.
///
/// # Errors
/// As [`Collector::collect`].
pub async fn collect(root: &Root, sweep: Sweep) -> Result<Collected> {
    let collector = Collector::new(root.clone(), GarbageOptions::default());
    stepped(step!("collect"), collector.collect(sweep)).await
}

/// Collects garbage of one root; handles of one root share what they have looked at.
#[derive(Debug)]
pub struct Collector {
    root: Root,
    options: GarbageOptions,
}

impl Collector {
    /// A collector of one root.
    pub fn new(root: Root, options: GarbageOptions) -> Self {
        Self { root, options }
    }

    /// Collects once.
    ///
    /// # Errors
    /// [`Kind::Unavailable`]; [`Kind::Corrupt`] or [`Kind::Unsupported`], naming the key. What was deleted before
    /// an error stays deleted.
    pub async fn collect(&self, sweep: Sweep) -> Result<Collected> {
        let store = self.root.store();
        if sweep == Sweep::Quick && self.is_idle().await? {
            return Ok(Collected::default());
        }
        let now_ms = store.clock_ms().await?;
        let versions = self.root.chain().versions().await?;
        let newest = self.root.refresh().await?;
        let mut collected =
            Collected { segments: self.segments(now_ms, &versions, &newest).await?, ..Default::default() };
        let first_kept = self.first_kept(now_ms, &versions);
        let (expired, kept) = versions.split_at(first_kept);
        if !expired.is_empty() {
            let expired: Vec<Version> = expired.iter().map(|(v, _)| *v).collect();
            (collected.versions, collected.removed) = self.versions(&expired, kept, &newest).await?;
        }
        if sweep == Sweep::Full {
            collected.segments += self.late_segments(&newest).await?;
            collected.keys = self.keys(now_ms).await?;
            collected.orphans = self.orphans(now_ms, kept, &newest).await?;
        }
        Ok(collected)
    }

    /// Whether nothing can be collected before somebody commits: every older version is pointed into, and what its
    /// successor removed is gone since that is; and the log holds nothing that is folded.
    async fn is_idle(&self) -> Result<bool> {
        let versions = self.root.chain().versions().await?;
        let Some((last, older)) = versions.split_last() else { return Ok(true) };
        let known = self.root.catalog();
        let Some(newest) = known.object.as_ref().filter(|o| o.version() == last.0) else { return Ok(false) };
        let is_settled = |(at, (version, _)): (usize, &(Version, i64))| {
            newest.refs().contains(version) && versions[at + 1].0 != version.next()
        };
        if !older.iter().enumerate().all(is_settled) {
            return Ok(false);
        }
        let log = Listing::read(self.root.store()).await?;
        Ok(!log.positions().any(|p| known.is_folded(p)))
    }

    /// Deletes segments that came so late that they are void, above a number that will never come: their writer was
    /// forgotten, or they would be in the way of nobody's fold.
    async fn late_segments(&self, newest: &Catalog) -> Result<u64> {
        let store = self.root.store();
        let listing = Listing::read(store).await?;
        let above = listing.above(newest).pending;
        let next: HashSet<Position> = above.iter().filter(|p| !p.is_above_hole).map(|p| p.position).collect();
        let put_ms: HashMap<Position, i64> = above.iter().map(|p| (p.position, p.put_ms())).collect();
        let blocked = listing
            .positions()
            .filter(|p| !next.contains(p) && newest.watermark(p.writer).is_none_or(|w| p.seq >= w.next));
        let mut late = Vec::new();
        for position in blocked.take(MOST_LATE) {
            let key = layout::log_key(position);
            let (bytes, meta) = match store.get_with_meta(&key).await {
                Ok(read) => read,
                Err(e) if e.kind() == Kind::NotFound => continue,
                Err(e) => return Err(e),
            };
            // Keep an unreadable segment: an operator must investigate.
            let Ok(segment) = segment::decode(&key, &bytes) else { continue };
            let modified_ms = meta.last_modified.timestamp_millis();
            let put_ms = put_ms.get(&position).map_or(modified_ms, |put_ms| modified_ms.min(*put_ms));
            let age_ms = put_ms.saturating_sub(segment.header.writer_start_ms);
            if segment.header.position == position && age_ms > VOID_MS {
                late.push(key);
            }
        }
        self.delete(late).await
    }

    /// Number of expired versions, oldest first: a version expires when its successor is older than the grace period.
    fn first_kept(&self, now_ms: i64, versions: &[(Version, i64)]) -> usize {
        let limit = now_ms.saturating_sub(self.options.versions_ms);
        // Where numbers are missing in between, the successor was collected: it was old enough then.
        versions.windows(2).take_while(|w| w[1].1 <= limit || w[1].0 > w[0].0.next()).count()
    }

    async fn segments(&self, now_ms: i64, versions: &[(Version, i64)], newest: &Arc<Catalog>) -> Result<u64> {
        let limit = now_ms.saturating_sub(self.options.segments_ms);
        let Some((version, _)) = versions.iter().rev().find(|(_, modified)| *modified <= limit) else { return Ok(0) };
        let catalog = if *version == newest.version {
            newest.clone()
        } else {
            match self.root.at(*version, newest).await? {
                Some(catalog) => catalog,
                // Another collector has deleted it.
                None => return Ok(0),
            }
        };
        let listing = Listing::read(self.root.store()).await?;
        let is_folded = |p: &Position| catalog.is_folded(*p) && newest.is_folded(*p);
        self.delete(listing.positions().filter(is_folded).map(layout::log_key).collect()).await
    }

    /// Deletes what the successors of expired versions removed, then those versions that nothing points into.
    async fn versions(&self, expired: &[Version], kept: &[(Version, i64)], newest: &Catalog) -> Result<(u64, u64)> {
        let pinned = self.pinned(kept).await?;
        let chain = self.root.chain();
        let (mut versions, mut removed) = (0, 0);
        let mut near: Option<Arc<VersionObject>> = None;
        for (i, version) in expired.iter().enumerate() {
            let is_done = self.root.seen().done.lock().is_some_and(|done| *version <= done);
            let successor = expired.get(i + 1).or(kept.first().map(|(v, _)| v));
            if !is_done && successor == Some(&version.next()) {
                let before = match near.take().filter(|n| n.version() == *version) {
                    Some(before) => Some(before),
                    None => chain.load(*version, newest.object.as_deref()).await?,
                };
                let after = chain.load(version.next(), before.as_deref()).await?;
                if let (Some(before), Some(after)) = (&before, &after) {
                    removed += self.delete(self.removed(before, after, newest).await?).await?;
                }
                near = after;
            }
            if !pinned.contains(version) {
                versions += self.delete(vec![layout::meta_key(*version)]).await?;
            }
            let mut done = self.root.seen().done.lock();
            *done = (*done).max(Some(*version));
        }
        Ok((versions, removed))
    }

    /// The versions that kept versions point into.
    async fn pinned(&self, kept: &[(Version, i64)]) -> Result<BTreeSet<Version>> {
        let known: BTreeSet<Version> = self.root.seen().refs.lock().keys().copied().collect();
        let unknown: Vec<Version> = kept.iter().map(|(v, _)| *v).filter(|v| !known.contains(v)).collect();
        let reads = unknown
            .into_iter()
            .map(|version| async move { Ok::<_, Error>((version, self.root.chain().refs(version).await?)) });
        let read: Vec<_> = futures::stream::iter(reads).buffer_unordered(PARALLEL).try_collect().await?;
        let mut refs = self.root.seen().refs.lock();
        refs.extend(read.into_iter().filter_map(|(version, refs)| Some((version, refs?))));
        refs.retain(|version, _| kept.first().is_some_and(|(first, _)| version >= first));
        Ok(refs.values().flatten().copied().collect())
    }

    /// The keys that one version names and its successor does not.
    async fn removed(&self, before: &VersionObject, after: &VersionObject, newest: &Catalog) -> Result<Vec<String>> {
        let (changed, gone) = after.since(Some(before));
        let mut keys = Vec::new();
        for name in changed.iter().chain(&gone) {
            let Some(Section::Files(table, partition)) = Section::parse(name) else { continue };
            let mut names = objects(&self.root.files_of(before, name).await?);
            for named in objects(&self.root.files_of(after, name).await?) {
                names.remove(&named);
            }
            // Removed objects are never added again; still, never delete a live object.
            for live in objects(&self.root.files(newest, table, partition).await?) {
                names.remove(&live);
            }
            keys.extend(names.into_iter().map(|(part, id)| key_of(table, partition, part, id)));
        }
        Ok(keys)
    }

    /// Deletes idempotency keys whose last attempt is old: as long as one is young, all attempts stay.
    async fn keys(&self, now_ms: i64) -> Result<u64> {
        let mut families: BTreeMap<String, (i64, Vec<String>)> = BTreeMap::new();
        for meta in self.root.store().list(layout::IDEM).await? {
            let (key, modified_ms) = (meta.location.to_string(), meta.last_modified.timestamp_millis());
            let family = families.entry(key.split('.').next().unwrap_or_default().to_owned());
            let (newest_ms, keys) = family.or_insert((i64::MIN, Vec::new()));
            *newest_ms = modified_ms.max(*newest_ms);
            keys.push(key);
        }
        let limit = now_ms.saturating_sub(self.options.keys_ms);
        let is_old = |family: &str, newest_ms: i64| newest_ms.saturating_add(Kept::of(family).ms()) <= limit;
        let old = families.into_iter().filter(|(family, (newest_ms, _))| is_old(family, *newest_ms));
        self.delete(old.flat_map(|(_, (_, keys))| keys).collect()).await
    }

    async fn orphans(&self, now_ms: i64, kept: &[(Version, i64)], newest: &Catalog) -> Result<u64> {
        let store = self.root.store();
        let limit = now_ms.saturating_sub(self.options.orphans_ms);
        let old = |prefix: &'static str| async move {
            let listed = store.list(prefix).await?.into_iter();
            let old = listed.filter(|m| m.last_modified.timestamp_millis() <= limit);
            Ok::<_, Error>(
                old.map(|m| (m.location.to_string(), m.last_modified.timestamp_millis())).collect::<Vec<_>>(),
            )
        };
        let mut deleted = 0;
        for prefix in [layout::CLOCK, layout::RESULTS, layout::NODES] {
            deleted += self.delete(old(prefix).await?.into_iter().map(|(key, _)| key).collect()).await?;
        }
        let candidates = old(layout::DATA).await?;
        if candidates.is_empty() {
            return Ok(deleted);
        }
        let named = self.named(kept, newest).await?;
        let is_named = |key: &str| match layout::parse_data(key) {
            Some(k) => named.contains(&(k.part, k.id)),
            // Not an object of ours: keep it.
            None => true,
        };
        let last_commit_ms = kept.last().map_or(i64::MIN, |(_, modified)| *modified);
        let (certain, unsure): (Vec<_>, Vec<_>) = candidates
            .into_iter()
            .filter(|(key, _)| !is_named(key))
            .partition(|(_, modified)| modified.saturating_add(self.options.unnamed_ms) < last_commit_ms);
        deleted += self.delete(certain.into_iter().map(|(key, _)| key).collect()).await?;
        if !unsure.is_empty() {
            // No commit since then: a commit now lets the next collection delete them.
            self.root
                .commit(&[], |draft| {
                    draft.renew();
                    Ok(())
                })
                .await?;
        }
        Ok(deleted)
    }

    /// Every object that a kept version names.
    async fn named(&self, kept: &[(Version, i64)], newest: &Catalog) -> Result<HashSet<(Part, FileId)>> {
        let mut named = HashSet::new();
        let mut later: Option<Arc<VersionObject>> = None;
        let mut versions: Vec<Version> = kept.iter().map(|(v, _)| *v).filter(|v| *v < newest.version).collect();
        versions.push(newest.version);
        for version in versions.into_iter().rev() {
            let near = later.as_deref().or(newest.object.as_deref());
            let loaded = self.root.chain().load(version, near).await?;
            let object = loaded.ok_or_else(|| {
                Error::conflict("version was deleted by a collector").with("key", layout::meta_key(version))
            })?;
            let (changed, _) = object.since(later.as_deref());
            for name in changed.iter().filter(|n| matches!(Section::parse(n), Some(Section::Files(..)))) {
                named.extend(objects(&self.root.files_of(&object, name).await?));
            }
            later = Some(object);
        }
        Ok(named)
    }

    async fn delete(&self, keys: Vec<String>) -> Result<u64> {
        let count = keys.len() as u64;
        let store = self.root.store();
        let deletes = keys.into_iter().map(|key| async move { store.delete(&key).await });
        futures::stream::iter(deletes).buffer_unordered(PARALLEL).try_collect::<()>().await?;
        Ok(count)
    }
}

fn objects(files: &[FileEntry]) -> BTreeSet<(Part, FileId)> {
    let of = |f: &FileEntry| {
        let rollup = f.rollup.map(|r| (Part::Rollup, r.id));
        [Some((Part::Data, f.data.id)), Some((Part::Tags, f.tags.id)), rollup].into_iter().flatten()
    };
    files.iter().flat_map(of).collect()
}

fn key_of(table: TableId, partition: i64, part: Part, id: FileId) -> String {
    match part {
        Part::Data => layout::data_key(table, partition, id),
        Part::Tags => layout::tags_key(table, partition, id),
        Part::Rollup => layout::rollup_key(table, partition, id),
    }
}

impl Root {
    /// The files that a section of a version lists.
    async fn files_of(&self, object: &VersionObject, section: &str) -> Result<Arc<Vec<FileEntry>>> {
        match self.file_lists().read(self.chain(), object, section).await {
            Err(e) if e.kind() == Kind::NotFound => {
                Err(Error::conflict("version was deleted by a collector").with("version", object.version()).source(e))
            }
            other => other,
        }
    }
}

#[cfg(test)]
mod tests;
