//! Requirements on a store for a root to be safe on it: one test suite for memory, directories and S3-compatible
//! stores.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use bytes::Bytes;
use futures::future::try_join_all;

use super::{
    Created, Store,
    faults::{Fault, Operation},
};
use crate::error::{Error, Kind, Result};

/// Runs the whole suite under a random prefix of the store, then deletes its objects.
///
/// # Errors
/// [`Kind::Internal`], naming the violated requirement; errors of the store itself.
pub async fn check(store: &Store) -> Result<()> {
    let base = format!("conformance/{:032x}", store.ambient().random_id());
    let checked = async {
        create_if_absent(store, &format!("{base}/create")).await?;
        one_of_many_creators_wins(store, &format!("{base}/race")).await?;
        lost_replies_are_recognised(store, &format!("{base}/lost")).await?;
        ranges_are_exact(store, &format!("{base}/ranges")).await?;
        lists_are_sorted_and_up_to_date(store, &format!("{base}/list")).await?;
        deleting_is_idempotent(store, &format!("{base}/delete")).await?;
        the_clock_moves_forward(store).await
    }
    .await;
    for object in store.list(&base).await? {
        store.delete(object.location.as_ref()).await?;
    }
    checked
}

async fn create_if_absent(store: &Store, base: &str) -> Result<()> {
    let key = format!("{base}/a");
    let expect_missing = store.get(&key).await.err().map(|e| e.kind());
    ensure(expect_missing == Some(Kind::NotFound), "an absent object is NotFound", || format!("{expect_missing:?}"))?;
    equal("a first create is new", store.create(&key, "one".into()).await?, Created::New)?;
    equal("a repeated create with the same bytes is ours", store.create(&key, "one".into()).await?, Created::Ours)?;
    equal("a create with other bytes loses", store.create(&key, "two".into()).await?, Created::Lost)?;
    equal("a lost create changes nothing", store.get(&key).await?, Bytes::from("one"))?;
    equal("empty objects exist", store.create(&format!("{base}/empty"), Bytes::new()).await?, Created::New)?;
    equal("empty objects are empty", store.get(&format!("{base}/empty")).await?.len(), 0)
}

async fn one_of_many_creators_wins(store: &Store, base: &str) -> Result<()> {
    for round in 0..4 {
        let key = format!("{base}/{round}");
        let creators = (0..16).map(|i| {
            let (store, key) = (store.clone(), key.clone());
            async move { store.create(&key, format!("creator {i}").into()).await }
        });
        let found = try_join_all(creators).await?;
        let winners: Vec<_> = (0..16).filter(|i| found[*i] == Created::New).collect();
        equal("exactly one of 16 creators wins", winners.len(), 1)?;
        equal("no other creator takes the winner's object for its own", found.contains(&Created::Ours), false)?;
        let expected = Bytes::from(format!("creator {}", winners[0]));
        equal("the object is the winner's", store.get(&key).await?, expected)?;
    }
    Ok(())
}

async fn lost_replies_are_recognised(store: &Store, base: &str) -> Result<()> {
    for fault in [Fault::LostReply, Fault::Refused] {
        let puts = AtomicUsize::new(0);
        let lossy = store.with_faults(move |request| {
            let first = request.operation == Operation::Put && puts.fetch_add(1, Ordering::Relaxed) < 2;
            if first { fault } else { Fault::None }
        });
        let key = format!("{base}/{fault:?}");
        let created = lossy.create(&key, "mine".into()).await?;
        ensure(created.is_ours(), "a create whose replies are lost is recognised as ours", || format!("{created:?}"))?;
        equal("a created object exists after lost replies", store.get(&key).await?, Bytes::from("mine"))?;
    }
    let silent = store.with_faults(|request| match request.operation {
        Operation::Put => Fault::LostReply,
        _ => Fault::Refused,
    });
    let outcome = silent.create_within(&format!("{base}/silent"), "x".into(), Duration::from_millis(50)).await;
    let kind = outcome.err().map(|e| e.kind());
    ensure(kind == Some(Kind::Unavailable), "an unknown outcome is Unavailable", || format!("{kind:?}"))
}

async fn ranges_are_exact(store: &Store, base: &str) -> Result<()> {
    let key = format!("{base}/bytes");
    let bytes: Bytes = (0..3_000_000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    store.create(&key, bytes.clone()).await?;
    equal("a large object is returned completely", store.get(&key).await? == bytes, true)?;
    let size = bytes.len() as u64;
    let ranges = [size - 1..size, 0..1, 5..5, 10..20, 12..15, 2_000_000..2_900_000, 19..4_097];
    let found = store.get_ranges(&key, &ranges).await?;
    for (range, found) in ranges.iter().zip(found) {
        let expected = bytes.slice(range.start as usize..range.end as usize);
        ensure(found == expected, "ranges are exact and in the requested order", || format!("{range:?}"))?;
        let alone = store.get_range(&key, range.clone()).await?;
        ensure(alone == expected, "a range is exact", || format!("{range:?}"))?;
    }
    for range in [size - 1..size + 1, size + 5..size + 9] {
        let one = store.get_range(&key, range.clone()).await.err().map(|e| e.kind());
        let many = store.get_ranges(&key, &[0..1, range.clone()]).await.err().map(|e| e.kind());
        let kinds = (one, many);
        let expected = (Some(Kind::Corrupt), Some(Kind::Corrupt));
        ensure(kinds == expected, "a range past the end is Corrupt", || format!("{kinds:?} for {range:?}"))?;
    }
    equal("head returns the size", store.head(&key).await?.size, size)
}

async fn lists_are_sorted_and_up_to_date(store: &Store, base: &str) -> Result<()> {
    equal("a prefix without objects is empty", store.list(base).await?.len(), 0)?;
    equal("a prefix without objects has no first object", store.first(base).await?.is_none(), true)?;
    let names = ["b", "a", "a.x", "c/2", "c/1", "c-1", "d/e/f"];
    for name in names {
        store.create(&format!("{base}/{name}"), name.into()).await?;
    }
    store.create(&format!("{base}sibling"), "not below".into()).await?;
    let listed = store.list(base).await?;
    let keys: Vec<String> = listed.iter().map(|m| m.location.to_string()).collect();
    let mut expected: Vec<String> = names.iter().map(|n| format!("{base}/{n}")).collect();
    expected.sort();
    equal("a list returns all objects below the prefix, sorted by key", &keys, &expected)?;
    equal("a list by digit is the same list", store.list_by_digit(base).await?.len(), listed.len())?;
    let sizes = listed.iter().all(|m| m.size as usize == m.location.as_ref().len() - base.len() - 1);
    equal("a list returns sizes", sizes, true)?;
    let first = store.first(base).await?.map(|m| m.location.to_string());
    equal("the first object has the smallest key", first, Some(expected[0].clone()))?;
    let ages = listed.iter().map(|m| m.last_modified.timestamp_millis()).collect::<Vec<_>>();
    let head = store.head(&keys[0]).await?.last_modified.timestamp_millis();
    ensure((head - ages[0]).abs() < 1_000, "list and head agree on last-modified", || format!("{head} {}", ages[0]))
}

async fn deleting_is_idempotent(store: &Store, base: &str) -> Result<()> {
    let key = format!("{base}/sub/a");
    store.create(&key, "x".into()).await?;
    store.delete(&key).await?;
    store.delete(&key).await?;
    equal("a deleted object is not listed", store.list(base).await?.len(), 0)?;
    equal("a deleted key can be created again", store.create(&key, "y".into()).await?, Created::New)
}

async fn the_clock_moves_forward(store: &Store) -> Result<()> {
    let before = store.clock_ms().await?;
    let after = store.clock_ms().await?;
    ensure(after >= before, "the store's clock does not go back", || format!("{before} then {after}"))
}

fn ensure(holds: bool, promise: &str, found: impl FnOnce() -> String) -> Result<()> {
    if holds {
        Ok(())
    } else {
        Err(Error::internal(format!("store requirement violated: {promise}")).with("found", found()))
    }
}

fn equal<T: PartialEq + std::fmt::Debug>(promise: &str, found: T, expected: T) -> Result<()> {
    ensure(found == expected, promise, || format!("{found:?}, expected {expected:?}"))
}
