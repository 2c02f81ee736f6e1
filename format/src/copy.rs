//! A consistent copy of a root in another store: one version, with the objects that it needs and no others.
//!
//! The log is left out: its segments are ordered by their times in their store, which a copy does not keep. So the
//! caller lists the unfolded segments ([`waiting`]), has them folded, and then copies.

use std::collections::{BTreeSet, HashMap};

use futures::{StreamExt, TryStreamExt};

use crate::{
    error::{Error, Kind, Result},
    ids::{Position, Version},
    layout,
    log::Listing,
    meta::{Catalog, Root},
    store::{Created, Store},
};

/// Objects copied at once: each is in memory whole, and at most about 256 MiB.
const PARALLEL: usize = 3;
/// Maximum number of attempts: an attempt fails if its objects were merged and collected.
const ATTEMPTS: usize = 20;

/// Result of a copy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Copied {
    /// The version.
    pub version: Version,
    /// Objects that were copied.
    pub objects: u64,
    /// Bytes of the copied objects.
    pub bytes: u64,
    /// Objects that the other store already had.
    pub known: u64,
}

/// The valid segments of the log that are not folded yet.
///
/// # Errors
/// [`Kind::Corrupt`], naming the key, when one is missing below later ones of its writer; [`Kind::Unavailable`]; as
/// [`Root::refresh`].
pub async fn waiting(root: &Root) -> Result<Vec<Position>> {
    for _ in 0..ATTEMPTS {
        let mut listing = Listing::read(root.store()).await?;
        let catalog = root.refresh().await?;
        let Some((pending, damage)) = listing.confirm(root, &catalog).await? else { continue };
        if let Some(damage) = damage.first() {
            return Err(damage.fault.to_error());
        }
        return Ok(pending.into_iter().map(|pending| pending.position).collect());
    }
    Err(Error::unavailable("the log changes faster than it can be read").with("attempts", ATTEMPTS))
}

/// Copies the newest version of a root, which must contain the segments `folded`. Objects that the other store has
/// already, by key and size, are not copied again: an interrupted copy resumes, and a later one copies what is new. The
/// version itself is copied last: until then the other store shows its previous version.
///
/// # Errors
/// [`Kind::Conflict`] while one of the segments is not folded, or when the other store has another root;
/// [`Kind::Unavailable`] of either store; [`Kind::Corrupt`] for an object of another size than its version says.
pub async fn copy(root: &Root, to: &Store, folded: &[Position]) -> Result<Copied> {
    let mut copied = Copied::default();
    let mut known: HashMap<String, u64> = HashMap::new();
    for prefix in [layout::DATA, layout::META] {
        known.extend(to.list(prefix).await?.into_iter().map(|meta| (meta.location.to_string(), meta.size)));
    }
    let had = known.len();
    for _ in 0..ATTEMPTS {
        let catalog = root.refresh().await?;
        if let Some(position) = folded.iter().find(|position| !catalog.is_folded(**position)) {
            return Err(Error::conflict("the log is not folded yet").with("key", layout::log_key(*position)));
        }
        copied.version = catalog.version;
        match attempt(root, to, &catalog, &mut known, &mut copied).await {
            // An object was merged and collected: the newest version names others.
            Err(e) if e.kind() == Kind::NotFound => {}
            other => {
                other?;
                to.sync("").await?;
                copied.known = had as u64;
                return Ok(copied);
            }
        }
    }
    Err(Error::unavailable("the root changes faster than it can be copied").with("attempts", ATTEMPTS))
}

async fn attempt(
    root: &Root,
    to: &Store,
    catalog: &Catalog,
    known: &mut HashMap<String, u64>,
    copied: &mut Copied,
) -> Result<()> {
    let mut objects: Vec<(String, u64)> = Vec::new();
    for (table, partition) in catalog.file_lists() {
        for file in root.files(catalog, table, partition).await?.iter() {
            objects.push((layout::data_key(table, partition, file.data.id), file.data.bytes));
            objects.push((layout::tags_key(table, partition, file.tags.id), file.tags.bytes));
            let rollup = file.rollup.map(|rollup| (layout::rollup_key(table, partition, rollup.id), rollup.bytes));
            objects.extend(rollup);
        }
    }
    objects.retain(|(key, bytes)| known.get(key) != Some(bytes));
    let copies = objects.into_iter().map(|(key, bytes)| async move {
        let found = copy_object(root.store(), to, &key).await?;
        if found != bytes {
            return Err(Error::corrupt("an object has another size than its version says")
                .with("key", &key)
                .with("expected", bytes)
                .with("found", found));
        }
        Ok((key, bytes))
    });
    let mut copies = futures::stream::iter(copies).buffer_unordered(PARALLEL);
    while let Some((key, bytes)) = copies.try_next().await? {
        copied.objects += 1;
        copied.bytes += bytes;
        known.insert(key, bytes);
    }
    drop(copies);
    // Older versions that the version points into, before the version itself.
    let refs = root.chain().refs(catalog.version).await?;
    let gone = || Error::not_found("the version was collected").with("key", layout::meta_key(catalog.version));
    let versions: BTreeSet<Version> = refs.ok_or_else(gone)?.into_iter().chain([catalog.version]).collect();
    for version in versions {
        let key = layout::meta_key(version);
        if known.contains_key(&key) && version != catalog.version {
            continue;
        }
        let bytes = copy_object(root.store(), to, &key).await?;
        copied.objects += 1;
        copied.bytes += bytes;
        known.insert(key, bytes);
    }
    Ok(())
}

/// Copies one object; returns its size.
async fn copy_object(from: &Store, to: &Store, key: &str) -> Result<u64> {
    let bytes = from.get(key).await?;
    let size = bytes.len() as u64;
    if to.create(key, bytes.clone()).await? == Created::Lost && to.get(key).await? != bytes {
        return Err(Error::conflict("the other store has a different object at this key: it holds another root")
            .with("key", key)
            .with("store", to.describe()));
    }
    Ok(size)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::{
        check::{CheckOptions, check},
        log::tests::Place,
    };

    #[tokio::test]
    async fn a_copy_is_refused_until_the_log_that_was_there_is_folded() {
        let place = Place::new().await;
        let to = Store::in_memory();
        place.put(crate::ids::WriterId(10), 0, 0, 0).await;
        let waits = waiting(&place.root).await.unwrap();
        assert_eq!(waits.len(), 1);
        assert_eq!(copy(&place.root, &to, &waits).await.unwrap_err().kind(), Kind::Conflict);
        let copied = copy(&place.root, &to, &[]).await.unwrap();
        assert!(copied.objects >= 1);
        assert!(check(&to, CheckOptions::default()).await.unwrap().is_sound());
        // Another root is not written over.
        let other = Place::new().await;
        assert_eq!(copy(&other.root, &to, &[]).await.unwrap_err().kind(), Kind::Conflict);
    }
}
