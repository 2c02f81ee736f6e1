//! Folds and merges while the store has no space.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use tidelake_format::{
    Kind,
    layout::{DATA, META},
    store::{
        Store,
        faults::{Fault, Operation},
    },
};

use crate::{
    compact::{CompactRequest, Pause},
    testing::{config, nano, open, rows},
    write::{Durability, tests::line},
};

/// A store that accepts this many more objects under a prefix, and then has no space.
fn limited(inner: &Store, prefix: &'static str) -> (Store, Arc<AtomicUsize>) {
    let left = Arc::new(AtomicUsize::new(usize::MAX));
    let plan = left.clone();
    let store = inner.with_faults(move |request| {
        if request.operation != Operation::Put || !request.key.starts_with(prefix) {
            return Fault::None;
        }
        let take = |left: usize| left.checked_sub(1);
        match plan.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take) {
            Ok(_) => Fault::None,
            Err(_) => Fault::Full,
        }
    });
    (store, left)
}

async fn objects(store: &Store, prefix: &str) -> Vec<String> {
    store.list(prefix).await.unwrap().into_iter().map(|o| o.location.to_string()).collect()
}

#[tokio::test]
async fn a_fold_without_space_deletes_what_it_has_put_and_goes_on_once_there_is_some() {
    for (prefix, left) in [(DATA, 0), (DATA, 1), (DATA, 4), (DATA, 5), (META, 0)] {
        let inner = Store::in_memory();
        nano(&inner, config()).await;
        let (store, places) = limited(&inner, prefix);
        let ingest = open(&store, config()).await;
        line(&ingest, "a v=1 1\nb v=1 1\nc v=1 1", Durability::Stored).await.unwrap();
        let before = objects(&inner, DATA).await;
        places.store(left, Ordering::Relaxed);
        for _ in 0..2 {
            let error = ingest.compact(CompactRequest::Fold).await.unwrap_err();
            assert_eq!(error.kind(), Kind::Full, "{error}");
            assert!(store.lack().unwrap().contains("no space left"), "{:?}", store.lack());
            assert_eq!(objects(&inner, DATA).await, before, "{prefix} {left}");
            places.store(left, Ordering::Relaxed);
        }
        assert_eq!(rows(&inner, "db", "a", &[]).await.len(), 1, "queries still work");
        places.store(usize::MAX, Ordering::Relaxed);
        assert_eq!(ingest.compact(CompactRequest::Fold).await.unwrap().files, 3);
        assert_eq!(store.lack(), None);
        for table in ["a", "b", "c"] {
            assert_eq!(rows(&inner, "db", table, &[]).await.len(), 1);
        }
    }
}

#[tokio::test]
async fn a_merge_without_space_deletes_what_it_has_put_and_keeps_its_inputs() {
    let inner = Store::in_memory();
    nano(&inner, config()).await;
    let (store, places) = limited(&inner, DATA);
    let ingest = open(&store, config()).await;
    for ts in 0..3 {
        line(&ingest, &format!("a v=1 {ts}"), Durability::Stored).await.unwrap();
        ingest.compact(CompactRequest::Fold).await.unwrap();
    }
    let before = objects(&inner, DATA).await;
    places.store(1, Ordering::Relaxed);
    let error = ingest.compact(CompactRequest::Full).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Full, "{error}");
    assert_eq!(objects(&inner, DATA).await, before);
    assert_eq!(rows(&inner, "db", "a", &[]).await.len(), 3);
    places.store(usize::MAX, Ordering::Relaxed);
    assert_eq!(ingest.compact(CompactRequest::Full).await.unwrap().merged_files, 3);
    assert_eq!(rows(&inner, "db", "a", &[]).await.len(), 3);
}

#[tokio::test]
async fn files_of_a_commit_whose_outcome_is_not_known_stay() {
    let inner = Store::in_memory();
    nano(&inner, config()).await;
    // The first attempt of the commit fails with an unknown outcome.
    let attempts = Arc::new(AtomicUsize::new(usize::MAX));
    let plan = attempts.clone();
    let store = inner.with_faults(move |request| {
        if request.operation != Operation::Put || !request.key.starts_with(META) {
            return Fault::None;
        }
        match plan.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_add(1)) {
            Ok(0) => Fault::Refused,
            Ok(_) => Fault::Full,
            Err(_) => Fault::None,
        }
    });
    let ingest = open(&store, config()).await;
    line(&ingest, "a v=1 1", Durability::Stored).await.unwrap();
    attempts.store(0, Ordering::Relaxed);
    let error = ingest.compact(CompactRequest::Fold).await.unwrap_err();
    assert_eq!((error.kind(), error.wrote_nothing()), (Kind::Full, false), "{error}");
    assert!(!objects(&inner, DATA).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn tries_without_space_come_ever_more_rarely() {
    let mut pause = Pause::default();
    let mut waits = Vec::new();
    for _ in 0..7 {
        pause.after(&Err::<(), _>(crate::Error::full("no space")));
        waits.push(pause.left().as_secs());
    }
    assert_eq!(waits, [5, 10, 20, 40, 80, 120, 120]);
    pause.after(&Ok(()));
    assert!(pause.left().is_zero());
}
