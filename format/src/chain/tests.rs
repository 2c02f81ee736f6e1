#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;

use super::*;

const DEADLINE: Duration = Duration::from_secs(10);

fn chain() -> Chain {
    Chain::new(Store::in_memory(), |name| name.starts_with("t/"))
}

fn put(name: &str, body: &str) -> (String, Change) {
    (name.to_owned(), Change::Put(body.as_bytes().to_vec()))
}

async fn commit(
    chain: &Chain,
    base: Option<&VersionObject>,
    changes: impl IntoIterator<Item = (String, Change)>,
) -> Arc<VersionObject> {
    match chain.append(base, changes.into_iter().collect(), DEADLINE).await.unwrap() {
        Appended::Won(object) => object,
        Appended::Lost(_) => panic!("lost"),
    }
}

async fn content(chain: &Chain, object: &VersionObject) -> BTreeMap<String, String> {
    let sections: Vec<_> = object.sections("").collect();
    let bodies = chain.bodies(object, &sections).await.unwrap();
    sections.iter().zip(bodies).map(|((n, _), b)| ((*n).to_owned(), String::from_utf8(b).unwrap())).collect()
}

#[tokio::test]
async fn a_version_read_back_is_the_version_committed() {
    let chain = chain();
    assert_eq!(chain.newest().await.unwrap(), None);
    let zero = commit(&chain, None, [put("t/1", "one"), put("f/1", "files")]).await;
    let one = commit(&chain, Some(&zero), [put("t/2", "two"), ("f/1".to_owned(), Change::Remove)]).await;
    assert_eq!(chain.newest().await.unwrap(), Some(Version(1)));
    let read = chain.load(Version(1), None).await.unwrap().unwrap();
    let expected = BTreeMap::from([("t/1".to_owned(), "one".to_owned()), ("t/2".to_owned(), "two".to_owned())]);
    assert_eq!(content(&chain, &read).await, expected);
    assert_eq!(content(&chain, &one).await, expected);
    assert_eq!(content(&chain, &zero).await.len(), 2);
    let (changed, removed) = read.since(Some(&zero));
    assert_eq!((changed, removed), (vec!["t/2".into()], vec!["f/1".into()]));
    assert!(chain.load(Version(2), None).await.unwrap().is_none());
}

#[tokio::test]
async fn the_newest_object_of_a_small_chain_is_complete() {
    let chain = chain();
    let mut head = commit(&chain, None, (0..50).map(|i| put(&format!("f/{i}"), &"x".repeat(i)))).await;
    for i in 0..40 {
        head = commit(&chain, Some(&head), [put("t/1", &format!("{i}"))]).await;
    }
    assert_eq!(head.refs(), []);
    for v in 0..40 {
        chain.store.delete(&layout::meta_key(Version(v))).await.unwrap();
    }
    let read = chain.load(head.version(), None).await.unwrap().unwrap();
    assert_eq!(content(&chain, &read).await.len(), 51);
}

/// Text that zstd hardly compresses.
fn noise(seed: u64, bytes: usize) -> String {
    let mut n = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..bytes)
        .map(|_| {
            n ^= n << 13;
            n ^= n >> 7;
            n ^= n << 17;
            char::from(b'0' + (n % 75) as u8)
        })
        .collect()
}

#[tokio::test]
async fn thousands_of_sections_are_paged_and_pointed_to() {
    let chain = chain();
    let mut expected = BTreeMap::new();
    let all = (0..3_000).map(|i| (format!("f/{i:05}"), noise(i, 200)));
    expected.extend(all);
    expected.insert("t/1".to_owned(), noise(9, 300));
    let mut head = commit(&chain, None, expected.iter().map(|(n, b)| put(n, b))).await;
    for i in 0..150_u64 {
        let name = format!("f/{:05}", i * 7 % 3_000);
        let body = noise(i + 10_000, 200);
        head = commit(&chain, Some(&head), [put(&name, &body)]).await;
        expected.insert(name, body);
        assert!(head.size_bytes() < 256 << 10, "commit {i} writes {} bytes", head.size_bytes());
    }
    let read = chain.load(head.version(), None).await.unwrap().unwrap();
    assert!(content(&chain, &read).await == expected);
    let pointed: BTreeSet<Version> = read.directory.live_bytes().into_keys().filter(|v| *v != read.version()).collect();
    assert_eq!(read.refs().iter().copied().collect::<BTreeSet<_>>(), pointed);
    // Only the versions that the head points into are needed.
    for v in 0..head.version().0 {
        if !pointed.contains(&Version(v)) {
            chain.store.delete(&layout::meta_key(Version(v))).await.unwrap();
        }
    }
    let read = chain.load(head.version(), None).await.unwrap().unwrap();
    assert!(content(&chain, &read).await == expected);
    // Loading the next version with `near` reads only its new content.
    let next = commit(&chain, Some(&head), [put("f/00001", "new")]).await;
    let before = chain.store.counters();
    chain.load(next.version(), Some(&head)).await.unwrap().unwrap();
    assert_eq!(chain.store.counters().since(&before).get, 1);
}

/// Sections too large to be carried along: each pins the version that wrote it.
#[tokio::test]
async fn never_more_than_256_older_versions_are_pointed_into() {
    let chain = chain();
    let mut expected = BTreeMap::new();
    let mut head = commit(&chain, None, []).await;
    let large: Vec<String> = (0..10).map(|i| noise(i, 45_000)).collect();
    for i in 0..320_u64 {
        // Every fifth commit replaces an earlier section, so that some versions hold less than others.
        let name = format!("f/{:03}", if i % 5 == 4 { i / 2 } else { i });
        let body = format!("{i} {}", large[i as usize % 10]);
        head = commit(&chain, Some(&head), [put(&name, &body)]).await;
        expected.insert(name, body);
        assert!(head.refs().len() <= MOST_REFS, "commit {i}");
        assert!(head.size_bytes() < 512 << 10, "commit {i} writes {} bytes", head.size_bytes());
    }
    assert!(head.refs().len() >= MOST_REFS - 1);
    for v in (0..head.version().0).map(Version).filter(|v| !head.refs().contains(v)) {
        chain.store.delete(&layout::meta_key(v)).await.unwrap();
    }
    let read = chain.load(head.version(), None).await.unwrap().unwrap();
    assert!(content(&chain, &read).await == expected);
}

#[tokio::test]
async fn a_lost_race_is_lost_and_a_lost_reply_is_won() {
    use crate::store::faults::{Fault, Operation};
    let chain = chain();
    let zero = commit(&chain, None, []).await;
    commit(&chain, Some(&zero), [put("a", "theirs")]).await;
    let mine = chain.append(Some(&zero), [put("a", "mine")].into(), DEADLINE).await.unwrap();
    assert!(matches!(mine, Appended::Lost(_)));
    // An identical change by another committer is another commit.
    let same = chain.append(Some(&zero), [put("a", "theirs")].into(), DEADLINE).await.unwrap();
    assert!(matches!(same, Appended::Lost(_)));
    let lost = std::sync::atomic::AtomicBool::new(false);
    let store = chain.store.with_faults(move |r| match r.operation {
        Operation::Put if !lost.swap(true, std::sync::atomic::Ordering::Relaxed) => Fault::LostReply,
        _ => Fault::None,
    });
    let one = chain.load(Version(1), None).await.unwrap().unwrap();
    commit(&Chain::new(store, |_| true), Some(&one), [put("a", "ours")]).await;
}

/// A version object with a fault must be refused with its key named, and never cause a panic.
#[tokio::test]
async fn any_damage_is_found_and_named() {
    let chain = chain();
    let zero = commit(&chain, None, [put("t/1", "one"), put("f/1", &noise(1, 100))]).await;
    let good = zero.bytes.clone();
    let key = layout::meta_key(Version(0));
    let read = |bytes: Bytes| {
        let (store, key) = (Store::in_memory(), key.clone());
        async move {
            store.create(&key, bytes).await.unwrap();
            let chain = Chain::new(store, |_| true);
            let object = chain.load(Version(0), None).await?.unwrap();
            let sections: Vec<_> = object.sections("").collect();
            chain.bodies(&object, &sections).await
        }
    };
    read(good.clone()).await.unwrap();
    for length in 0..good.len() {
        let e = read(good.slice(..length)).await.unwrap_err();
        assert_eq!((e.kind(), e.context("key")), (Kind::Corrupt, Some(key.as_str())), "{length}");
        assert!(e.context("expected").is_some() && e.context("found").is_some(), "{e}");
    }
    for at in 0..good.len() {
        let mut bytes = good.to_vec();
        bytes[at] ^= 0x10;
        let e = read(bytes.into()).await.unwrap_err();
        let expected = if (8..12).contains(&at) { Kind::Unsupported } else { Kind::Corrupt };
        assert_eq!((e.kind(), e.context("key")), (expected, Some(key.as_str())), "byte {at}: {e}");
    }
    let mut newer = good.to_vec();
    newer[8] = 9;
    let e = read(newer.into()).await.unwrap_err();
    assert_eq!((e.context("expected"), e.context("found")), (Some("format 1 or older"), Some("format 9")));
    let store = Store::in_memory();
    store.create(&layout::meta_key(Version(3)), good).await.unwrap();
    let e = Chain::new(store, |_| true).load(Version(3), None).await.unwrap_err();
    assert_eq!((e.kind(), e.context("found")), (Kind::Corrupt, Some("v0")));
}

#[tokio::test]
async fn something_foreign_under_meta_does_not_hide_the_chain() {
    let chain = chain();
    commit(&chain, None, []).await;
    chain.store.create("meta/#note", "hello".into()).await.unwrap();
    assert_eq!(chain.newest().await.unwrap(), Some(Version(0)));
}
