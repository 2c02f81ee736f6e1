//! The protocol of versioned objects, independent of their content.
//!
//! A version is one immutable object of named sections; a section is stored in it or is a pointer into an older
//! version. A commit writes the changed sections, points to the others, and creates the object of the next number if it
//! is absent. It also carries along small unchanged sections within a budget, so that a cold reader rarely needs more
//! than the newest object. The directory of sections is stored in pages that versions share. A version points into at
//! most [`MOST_REFS`] older versions: a commit moves the sections of those with the fewest live bytes forward. So the
//! cost of a commit does not grow with history, and old versions can be collected.

mod codec;
mod directory;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use serde::{Serialize, de::DeserializeOwned};

pub use codec::Pointer;

use crate::{
    error::{Error, Kind, Result},
    ids::Version,
    layout,
    store::{Created, Store},
};
use {
    codec::{Encoder, RootBody},
    directory::{Directory, Page},
};

/// Maximum number of older versions that a version points into.
pub const MOST_REFS: usize = 256;
/// Maximum bytes of unchanged sections that a commit carries along.
const CARRY_BYTES: u64 = 128 << 10;
/// Maximum bytes of a section that is carried along; larger ones are pointed to.
const CARRY_EACH: u32 = 32 << 10;
/// Number of older versions read concurrently.
const PARALLEL_READS: usize = 16;

/// A change of a section by a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Sets it to these bytes, uncompressed.
    Put(Vec<u8>),
    /// Removes it.
    Remove,
}

impl Change {
    /// Sets a section to a value, as JSON.
    ///
    /// # Errors
    /// [`Kind::Internal`] when the value cannot be JSON.
    pub fn json(value: &impl Serialize) -> Result<Self> {
        codec::to_json(value).map(Change::Put)
    }
}

/// Outcome of an attempt to commit.
#[derive(Debug, Clone)]
pub enum Appended {
    /// The version was committed by this call.
    Won(Arc<VersionObject>),
    /// Another writer has committed this version: the bytes of its object, for [`Chain::decode`].
    Lost(Bytes),
}

/// A version in memory: its bytes and the directory of its sections.
#[derive(Debug)]
pub struct VersionObject {
    version: Version,
    bytes: Bytes,
    directory: Directory,
    refs: Vec<Version>,
}

impl VersionObject {
    /// The number of the version.
    pub fn version(&self) -> Version {
        self.version
    }

    /// Location of a section.
    pub fn section(&self, name: &str) -> Option<Pointer> {
        self.directory.get(name)
    }

    /// The sections whose names start with `prefix`, by name.
    pub fn sections<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (&'a str, Pointer)> {
        self.directory.with_prefix(prefix).map(|(name, at)| (name.as_ref(), *at))
    }

    /// The older versions that hold sections or pages of this version; they must be kept as long as this version.
    pub fn refs(&self) -> &[Version] {
        &self.refs
    }

    /// Size of the version's object.
    pub fn size_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Names of the sections that differ from an earlier version: changed or new, and removed.
    pub fn since(&self, earlier: Option<&VersionObject>) -> (Vec<Arc<str>>, Vec<Arc<str>>) {
        let old_pages = earlier.map_or(&[][..], |e| &e.directory.pages);
        // Most pages are shared between versions; only the others can differ.
        let mine: HashSet<_> = self.directory.pages.iter().map(Arc::as_ptr).collect();
        let theirs: HashSet<_> = old_pages.iter().map(Arc::as_ptr).collect();
        let entries = |pages: &[Arc<Page>], shared: &HashSet<*const Page>| {
            let own = pages.iter().filter(|p| !shared.contains(&Arc::as_ptr(p)));
            own.flat_map(|p| p.entries.iter().map(|(n, at)| (n.clone(), at.born))).collect::<BTreeMap<_, _>>()
        };
        let (new, old) = (entries(&self.directory.pages, &theirs), entries(old_pages, &mine));
        let changed = new.iter().filter(|(n, born)| old.get(*n) != Some(born)).map(|(n, _)| n.clone()).collect();
        let removed = old.into_keys().filter(|n| self.directory.get(n).is_none()).collect();
        (changed, removed)
    }
}

/// The versions of one root. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Chain {
    store: Store,
    /// Selects the sections that every reader needs: carried along first.
    is_eager: fn(&str) -> bool,
}

impl Chain {
    /// Creates the chain of a store; `is_eager` selects the sections that every reader needs.
    pub fn new(store: Store, is_eager: fn(&str) -> bool) -> Self {
        Self { store, is_eager }
    }

    /// The newest version, by one LIST; `None` if there is no version.
    ///
    /// # Errors
    /// [`Kind::Unavailable`].
    pub async fn newest(&self) -> Result<Option<Version>> {
        match self.store.first(layout::META).await? {
            None => Ok(None),
            Some(first) => match layout::parse_meta(first.location.as_ref()) {
                Some(version) => Ok(Some(version)),
                // A foreign object sorts before all versions.
                None => Ok(self.versions().await?.last().map(|(v, _)| *v)),
            },
        }
    }

    /// Every version in the store and its last-modified time in milliseconds, oldest first.
    ///
    /// # Errors
    /// [`Kind::Unavailable`].
    pub async fn versions(&self) -> Result<Vec<(Version, i64)>> {
        let listed = self.store.list(layout::META).await?;
        let named = |m: &object_store::ObjectMeta| {
            Some((layout::parse_meta(m.location.as_ref())?, m.last_modified.timestamp_millis()))
        };
        let mut versions: Vec<_> = listed.iter().filter_map(named).collect();
        versions.sort_unstable();
        Ok(versions)
    }

    /// Reads a version; `None` if it does not exist. Pages shared with `near` are not read again.
    ///
    /// # Errors
    /// [`Kind::Corrupt`] or [`Kind::Unsupported`], naming the key; [`Kind::NotFound`] when a version that this one
    /// points into is absent; [`Kind::Unavailable`].
    pub async fn load(&self, version: Version, near: Option<&VersionObject>) -> Result<Option<Arc<VersionObject>>> {
        let bytes = match self.store.get(&layout::meta_key(version)).await {
            Ok(bytes) => bytes,
            Err(e) if e.kind() == Kind::NotFound => return Ok(None),
            Err(e) => return Err(e),
        };
        self.decode(version, bytes, near).await.map(Some)
    }

    /// As [`Chain::load`], for an object whose bytes are in memory.
    ///
    /// # Errors
    /// As [`Chain::load`].
    pub async fn decode(
        &self,
        version: Version,
        bytes: Bytes,
        near: Option<&VersionObject>,
    ) -> Result<Arc<VersionObject>> {
        let root: RootBody = codec::decode_root(version, &bytes)?;
        let known: BTreeMap<(Version, u64), &Arc<Page>> = near
            .iter()
            .flat_map(|n| &n.directory.pages)
            .filter_map(|p| p.at.map(|at| ((at.version, at.offset), p)))
            .collect();
        let find = |at: &Pointer| known.get(&(at.version, at.offset)).filter(|p| p.at == Some(*at)).copied();
        let missing: Vec<(&str, Pointer)> =
            root.pages.iter().filter(|(_, at)| find(at).is_none()).map(|(_, at)| ("page", *at)).collect();
        let mut bodies = self.read(version, &bytes, &missing).await?.into_iter();
        let mut pages = Vec::with_capacity(root.pages.len());
        for (_, at) in &root.pages {
            let page = match find(at) {
                Some(page) => page.clone(),
                None => {
                    let body = bodies.next().expect("one body per missing page");
                    let entries: Vec<(String, Pointer)> = codec::parse(at.version, "page", &body)?;
                    let entries = entries.into_iter().map(|(name, at)| (name.into(), at)).collect();
                    Arc::new(Page { at: Some(*at), entries })
                }
            };
            pages.push(page);
        }
        Ok(Arc::new(VersionObject { version, bytes, directory: Directory { pages }, refs: root.refs }))
    }

    /// The versions that a version points into; `None` if the version does not exist.
    ///
    /// # Errors
    /// [`Kind::Corrupt`] or [`Kind::Unsupported`], naming the key; [`Kind::Unavailable`].
    pub async fn refs(&self, version: Version) -> Result<Option<Vec<Version>>> {
        match self.store.get(&layout::meta_key(version)).await {
            Ok(bytes) => codec::decode_root(version, &bytes).map(|root| Some(root.refs)),
            Err(e) if e.kind() == Kind::NotFound => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// The uncompressed bodies of sections, in the given order. Sections in the version's own object need no I/O; those
    /// in older objects are read as ranges.
    ///
    /// # Errors
    /// [`Kind::Corrupt`], naming key and section; [`Kind::NotFound`] when an older version was collected (then `of` is
    /// no longer the newest version); [`Kind::Unavailable`].
    pub async fn bodies(&self, of: &VersionObject, sections: &[(&str, Pointer)]) -> Result<Vec<Vec<u8>>> {
        self.read(of.version, &of.bytes, sections).await
    }

    /// Reads a section as a value; `None` if the version has no such section.
    ///
    /// # Errors
    /// As [`Chain::bodies`].
    pub async fn value<T: DeserializeOwned>(&self, of: &VersionObject, name: &str) -> Result<Option<T>> {
        let Some(at) = of.section(name) else { return Ok(None) };
        let body = self.bodies(of, &[(name, at)]).await?;
        parse(at, name, &body[0]).map(Some)
    }

    async fn read(&self, own: Version, bytes: &Bytes, sections: &[(&str, Pointer)]) -> Result<Vec<Vec<u8>>> {
        let frames = self.frames(own, bytes, sections).await?;
        frames.iter().zip(sections).map(|(frame, (name, at))| codec::decompress(at.version, name, frame)).collect()
    }

    /// The compressed frames of sections, with their checksums verified.
    async fn frames(&self, own: Version, bytes: &Bytes, sections: &[(&str, Pointer)]) -> Result<Vec<Bytes>> {
        let mut found = vec![Bytes::new(); sections.len()];
        let mut elsewhere: BTreeMap<Version, Vec<usize>> = BTreeMap::new();
        for (i, (name, at)) in sections.iter().enumerate() {
            if at.version == own {
                found[i] = bytes.slice_ref(codec::slice(bytes, at, name)?);
            } else {
                elsewhere.entry(at.version).or_default().push(i);
            }
        }
        let reads = elsewhere.into_iter().map(|(version, wanted)| async move {
            let range = |i: &usize| {
                let at = &sections[*i].1;
                at.offset..at.offset.saturating_add(u64::from(at.length))
            };
            let ranges: Vec<_> = wanted.iter().map(range).collect();
            let frames = self.store.get_ranges(&layout::meta_key(version), &ranges).await?;
            Ok::<_, Error>((wanted, frames))
        });
        let mut reads = futures::stream::iter(reads).buffer_unordered(PARALLEL_READS);
        while let Some((wanted, frames)) = reads.try_next().await? {
            for (i, frame) in wanted.into_iter().zip(frames) {
                let (name, at) = &sections[i];
                codec::check(&frame, at, name)?;
                found[i] = frame;
            }
        }
        Ok(found)
    }

    /// Attempts once to commit changes on top of `base` (`None`: version 0). A version that is won is durable.
    ///
    /// # Errors
    /// [`Kind::Unavailable`] when the outcome is unknown at the deadline; as [`Chain::bodies`] for sections that are
    /// moved forward.
    pub async fn append(
        &self,
        base: Option<&VersionObject>,
        changes: BTreeMap<String, Change>,
        deadline: Duration,
    ) -> Result<Appended> {
        let object = Arc::new(self.encode(base, changes).await?);
        let key = layout::meta_key(object.version);
        Ok(match self.store.create_or_read(&key, object.bytes.clone(), deadline).await? {
            (Created::New | Created::Ours, _) => Appended::Won(object),
            (Created::Lost, found) => Appended::Lost(found.unwrap_or_default()),
        })
    }

    async fn encode(&self, base: Option<&VersionObject>, changes: BTreeMap<String, Change>) -> Result<VersionObject> {
        let version = base.map_or(Version(0), |b| b.version.next());
        let mut encoder = Encoder::new(version, self.store.ambient().random_id());
        let mut directory = base.map(|b| b.directory.clone()).unwrap_or_default();
        let mut moved: BTreeMap<Arc<str>, Option<Pointer>> = BTreeMap::new();
        for (name, change) in changes {
            let at = match change {
                Change::Put(body) => Some(encoder.frame(&codec::compress(&body)?, version)?),
                Change::Remove => None,
            };
            moved.insert(name.into(), at);
        }
        if let Some(base) = base {
            for (name, at) in self.carried(base, &moved) {
                let frame = codec::slice(&base.bytes, &at, &name)?;
                moved.insert(name, Some(encoder.frame(frame, at.born)?));
            }
        }
        directory.apply(moved);
        if let Some(base) = base {
            self.bound_refs(base, &mut directory, &mut encoder).await?;
        }
        for page in &mut directory.pages {
            if page.at.is_none() {
                let entries: Vec<(&str, &Pointer)> =
                    page.entries.iter().map(|(name, at)| (name.as_ref(), at)).collect();
                let frame = codec::compress(&codec::to_json(&entries)?)?;
                *page = Arc::new(Page { at: Some(encoder.frame(&frame, version)?), entries: page.entries.clone() });
            }
        }
        let refs: Vec<Version> = directory.live_bytes().into_keys().filter(|v| *v != version).collect();
        let stored = |p: &Arc<Page>| (p.first().to_owned(), p.at.expect("every page is stored"));
        let root = RootBody { pages: directory.pages.iter().map(stored).collect(), refs: refs.clone() };
        Ok(VersionObject { version, bytes: encoder.finish(&root)?, directory, refs })
    }

    /// The sections in the base's own object to carry along: eager ones by name within the budget, then all the others
    /// if they fit. (A part of many others would change every page of a large directory.)
    fn carried(&self, base: &VersionObject, moved: &BTreeMap<Arc<str>, Option<Pointer>>) -> Vec<(Arc<str>, Pointer)> {
        let candidates = base
            .directory
            .entries()
            .filter(|(name, at)| at.version == base.version && at.length <= CARRY_EACH && !moved.contains_key(*name));
        let (eager, others): (Vec<_>, Vec<_>) = candidates.partition(|(name, _)| (self.is_eager)(name));
        let mut budget = CARRY_BYTES;
        let mut carried = Vec::new();
        for (name, at) in eager {
            if let Some(left) = budget.checked_sub(u64::from(at.length)) {
                budget = left;
                carried.push((name.clone(), *at));
            }
        }
        if others.iter().map(|(_, at)| u64::from(at.length)).sum::<u64>() <= budget {
            carried.extend(others.into_iter().map(|(name, at)| (name.clone(), *at)));
        }
        carried
    }

    /// Moves sections and pages of the older versions with the fewest live bytes forward until at most [`MOST_REFS`]
    /// versions are pointed into.
    async fn bound_refs(&self, base: &VersionObject, directory: &mut Directory, encoder: &mut Encoder) -> Result<()> {
        let mut older: Vec<(u64, Version)> = directory.live_bytes().into_iter().map(|(v, n)| (n, v)).collect();
        older.retain(|(_, v)| *v <= base.version);
        if older.len() <= MOST_REFS {
            return Ok(());
        }
        older.sort_unstable();
        older.truncate(older.len() - MOST_REFS);
        let is_victim = |version: Version| older.iter().any(|(_, v)| *v == version);
        directory.unstore(is_victim);
        let sections: Vec<(Arc<str>, Pointer)> =
            directory.entries().filter(|(_, at)| is_victim(at.version)).map(|(name, at)| (name.clone(), *at)).collect();
        let wanted: Vec<(&str, Pointer)> = sections.iter().map(|(name, at)| (name.as_ref(), *at)).collect();
        let frames = self.frames(base.version, &base.bytes, &wanted).await?;
        let mut moved = BTreeMap::new();
        for ((name, at), frame) in sections.iter().zip(frames) {
            moved.insert(name.clone(), Some(encoder.frame(&frame, at.born)?));
        }
        directory.apply(moved);
        Ok(())
    }
}

/// Parses the JSON of a section's body.
///
/// # Errors
/// [`Kind::Corrupt`], naming key and section.
pub fn parse<T: DeserializeOwned>(at: Pointer, name: &str, body: &[u8]) -> Result<T> {
    codec::parse(at.version, name, body)
}
