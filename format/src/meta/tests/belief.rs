//! Which versions a process accepts: after being suspended, next to strays, and before they are durable.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use super::*;
use crate::store::Durable;

#[derive(Debug, Default)]
struct Shifted(AtomicI64);

impl Ambient for Shifted {
    fn wall_ns(&self) -> i64 {
        System.wall_ns() + self.0.load(Relaxed) * 1_000_000
    }

    fn random(&self) -> u64 {
        System.random()
    }
}

/// A directory whose creators are slow to sync; records the syncs of other processes.
#[derive(Debug, Default)]
struct Syncs(parking_lot::Mutex<Vec<String>>);

#[async_trait::async_trait]
impl Durable for Syncs {
    async fn sync(&self, prefix: &object_store::path::Path) -> object_store::Result<()> {
        self.0.lock().push(prefix.to_string());
        Ok(())
    }
}

#[tokio::test]
async fn a_version_of_another_process_is_made_durable_before_it_is_believed() {
    let store = Store::in_memory();
    let (other, _) = root_with_table(store.clone()).await;
    let syncs = Arc::new(Syncs::default());
    let root = Root::open(store.with_durable(syncs.clone())).await.unwrap();
    let spent = || std::mem::take(&mut *syncs.0.lock());
    assert_eq!(spent(), [layout::META]);
    root.refresh().await.unwrap();
    root.commit(&[], |d| Ok(d.renew())).await.unwrap();
    root.refresh().await.unwrap();
    assert!(spent().is_empty(), "it is durable, and so is what this process made itself");
    other.commit(&[], |d| Ok(d.renew())).await.unwrap();
    assert_eq!(root.refresh().await.unwrap().version, Version(3));
    root.refresh().await.unwrap();
    assert_eq!(spent(), [layout::META]);
    // A commit that changes nothing syncs the version it found.
    other.commit(&[], |d| Ok(d.renew())).await.unwrap();
    root.commit(&[], |_| Ok(())).await.unwrap();
    assert_eq!(spent(), [layout::META]);
}

#[tokio::test]
async fn a_process_that_was_frozen_lists_before_it_believes_or_commits() {
    let store = Store::in_memory();
    let (root, _) = root_with_table(store.clone()).await;
    for commits_first in [false, true] {
        let clock = Arc::new(Shifted::default());
        let frozen = Root::open(store.with_ambient(clock.clone())).await.unwrap();
        for _ in 0..5 {
            root.commit(&[], |d| Ok(d.renew())).await.unwrap();
        }
        for v in 0..root.catalog().version.0 {
            store.delete(&layout::meta_key(Version(v))).await.unwrap();
        }
        clock.0.store(31 * 60_000, Relaxed);
        let name = format!("after_{commits_first}");
        if !commits_first {
            assert_eq!(frozen.refresh().await.unwrap().version, root.catalog().version);
        }
        let newest = root.catalog().version;
        let (_, catalog) = frozen.commit(&[], |d| d.create_table(DatabaseId(0), &name, columns())).await.unwrap();
        assert_eq!(catalog.version, newest.next(), "commits first: {commits_first}");
        assert_eq!(root.refresh().await.unwrap().version, newest.next());
        assert_eq!(store.list(layout::META).await.unwrap().len(), 2, "no stray version stays");
    }
}

/// A handle whose clock jumps to 31 minutes when it creates a version; `fates` are the faults of these requests, in
/// order.
async fn freezes_at_a_commit(store: &Store, fates: Vec<Fault>) -> (Root, Arc<Shifted>) {
    let clock = Arc::new(Shifted::default());
    let (puts, hands) = (AtomicUsize::new(0), clock.clone());
    let plan = move |r: &Request<'_>| match r.operation {
        Operation::Put if r.key.starts_with(layout::META) => {
            hands.0.store(31 * 60_000, Relaxed);
            fates.get(puts.fetch_add(1, Relaxed)).copied().unwrap_or(Fault::None)
        }
        _ => Fault::None,
    };
    (Root::open(store.with_faults(plan).with_ambient(clock.clone())).await.unwrap(), clock)
}

#[tokio::test]
async fn a_version_in_the_place_of_a_collected_one_is_believed_by_nobody() {
    for others_ask in [false, true] {
        let store = Store::in_memory();
        let (root, _) = root_with_table(store.clone()).await;
        let (frozen, clock) = freezes_at_a_commit(&store, vec![Fault::Late(Duration::from_millis(500))]).await;
        let stray = frozen.catalog().version.next();
        for _ in 0..5 {
            root.commit(&[], |d| Ok(d.renew())).await.unwrap();
        }
        for v in 0..root.catalog().version.0 {
            store.delete(&layout::meta_key(Version(v))).await.unwrap();
        }
        // In one case another task of that process refreshes before the request takes effect.
        let asks = async {
            while clock.0.load(Relaxed) == 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            if others_ask {
                frozen.refresh().await.unwrap();
            }
        };
        let create = frozen.commit(&[], |d| d.create_table(DatabaseId(0), "x", columns()));
        let (committed, ()) = tokio::join!(create, asks);
        let e = committed.unwrap_err();
        assert_eq!((e.kind(), e.context("key")), (Kind::Unavailable, Some(&*layout::meta_key(stray))), "{e:?}");
        assert!(store.get(&layout::meta_key(stray)).await.is_ok(), "the test made a stray");
        for known in [&frozen, &root] {
            assert!(known.catalog().table(DatabaseId(0), "x").is_none());
            assert_eq!(known.refresh().await.unwrap().version, root.catalog().version);
        }
        let newest = root.catalog().version;
        let (_, catalog) = frozen.commit(&[], |d| d.create_table(DatabaseId(0), "x", columns())).await.unwrap();
        assert_eq!(catalog.version, newest.next());
    }
}

#[tokio::test]
async fn a_version_whose_creator_stood_still_stays_when_others_went_on_from_it() {
    let store = Store::in_memory();
    let (root, _) = root_with_table(store.clone()).await;
    let (frozen, _) = freezes_at_a_commit(&store, vec![Fault::LostReply, Fault::Late(Duration::from_secs(2))]).await;
    let made = frozen.catalog().version.next();
    let create = frozen.commit(&[], |d| d.create_table(DatabaseId(0), "x", columns()));
    let goes_on = async {
        root.wait_for(made, Duration::from_secs(1)).await.unwrap();
        root.commit(&[], |d| Ok(d.renew())).await.unwrap();
    };
    let (committed, ()) = tokio::join!(create, goes_on);
    let e = committed.unwrap_err();
    assert_eq!((e.kind(), e.context("key")), (Kind::Unavailable, Some(&*layout::meta_key(made))), "{e:?}");
    for reader in [frozen, Root::open(store).await.unwrap()] {
        let catalog = reader.refresh().await.unwrap();
        assert_eq!(catalog.version, made.next());
        assert!(catalog.table(DatabaseId(0), "x").is_some(), "it is in, and what is in stays");
    }
}
