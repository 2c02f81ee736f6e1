#![allow(clippy::unwrap_used)]

use std::time::Duration;

use super::*;
use crate::error::Kind;

fn directory() -> (tempfile::TempDir, Store) {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path().join("a/b").to_str().unwrap(), &[]).unwrap();
    (dir, store)
}

#[tokio::test]
async fn memory_keeps_every_promise() {
    conformance::check(&Store::in_memory()).await.unwrap();
}

#[tokio::test]
async fn a_prefix_keeps_every_promise_and_stays_inside() {
    let inner: Arc<dyn ObjectStore> = Arc::new(object_store::memory::InMemory::new());
    let store = Store::new(inner.clone(), Path::from("some/where"));
    conformance::check(&store).await.unwrap();
    store.create("x/y", "1".into()).await.unwrap();
    assert_eq!(inner.get(&Path::from("some/where/x/y")).await.unwrap().bytes().await.unwrap(), "1");
    assert_eq!(store.list("x").await.unwrap()[0].location, Path::from("x/y"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_directory_keeps_every_promise() {
    let (_dir, store) = directory();
    assert!(store.is_directory());
    conformance::check(&store).await.unwrap();
    conformance::check(&store).await.unwrap();
}

#[tokio::test]
async fn a_directory_collects_old_staging_files_when_it_is_opened_and_never_lists_them() {
    let (dir, store) = directory();
    let staging = dir.path().join("a/b/.staging");
    store.create("log/w/0", "x".into()).await.unwrap();
    assert_eq!(std::fs::read_dir(&staging).unwrap().count(), 0);
    for name in ["old", "young"] {
        std::fs::write(staging.join(name), "half an obj").unwrap();
    }
    let old = std::time::SystemTime::now() - Duration::from_secs(7_200);
    std::fs::File::options().write(true).open(staging.join("old")).unwrap().set_modified(old).unwrap();
    assert!(store.list(".staging").await.unwrap().len() == 2);
    let again = Store::open(dir.path().join("a/b").to_str().unwrap(), &[]).unwrap();
    assert!(!staging.join("old").exists() && staging.join("young").exists());
    assert_eq!(again.get("log/w/0").await.unwrap(), "x");
}

#[tokio::test]
async fn a_writers_directory_is_removed_with_its_last_object_and_can_be_created_again() {
    let (dir, store) = directory();
    store.create("log/w/0", "x".into()).await.unwrap();
    store.delete("log/w/0").await.unwrap();
    assert!(!dir.path().join("a/b/log/w").exists() && dir.path().join("a/b/log").exists());
    assert_eq!(store.create("log/w/0", "y".into()).await.unwrap(), Created::New);
    assert_eq!(store.directories("log").unwrap(), Some(vec!["w".to_owned()]));
}

#[tokio::test]
async fn a_list_of_everything_has_everything() {
    let (_dir, directory) = directory();
    let mut stores = vec![Store::in_memory(), directory];
    stores.extend(s3());
    for store in stores {
        for key in ["meta/1", "log/w/0", "data/1/2/x.tags"] {
            store.create(key, "x".into()).await.unwrap();
        }
        let keys: Vec<_> = store.list("").await.unwrap().iter().map(|m| m.location.to_string()).collect();
        assert_eq!(keys, ["data/1/2/x.tags", "log/w/0", "meta/1"], "{store:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn creating_and_deleting_one_key_at_once_never_fails() {
    let (_dir, store) = directory();
    let tasks = (0..4).map(|i| {
        let store = store.clone();
        tokio::spawn(async move {
            for _ in 0..50 {
                store.create("log/w/0", format!("{i}").into()).await.unwrap();
                store.delete("log/w/0").await.unwrap();
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
}

#[tokio::test]
async fn requests_are_counted() {
    let store = Store::in_memory();
    let before = store.counters();
    store.create("a/b", "four".into()).await.unwrap();
    store.get("a/b").await.unwrap();
    store.get_ranges("a/b", &[0..1, 2..3]).await.unwrap();
    store.first("a").await.unwrap();
    store.delete("a/b").await.unwrap();
    let spent = store.counters().since(&before);
    let expected =
        StoreCounters { put: 1, put_bytes: 4, get: 2, get_bytes: 7, list: 1, delete: 1, ..StoreCounters::default() };
    assert_eq!(spent, expected);
    assert_eq!(spent.requests(), 5);
}

#[tokio::test]
async fn a_store_that_never_responds_is_unavailable_at_the_deadline() {
    let store = Store::in_memory().with_faults(|_| faults::Fault::Late(Duration::from_secs(3_600)));
    let started = tokio::time::Instant::now();
    let e = store.create_within("a/b", "x".into(), Duration::from_millis(50)).await.unwrap_err();
    assert_eq!((e.kind(), e.context("key")), (Kind::Unavailable, Some("a/b")));
    assert!(started.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn permanent_faults_are_reported_without_retries() {
    let (dir, store) = directory();
    std::fs::write(dir.path().join("a/b/file"), "").unwrap();
    let started = tokio::time::Instant::now();
    let name = "n".repeat(300);
    assert!(store.create(&format!("x/{name}"), "x".into()).await.is_err());
    assert!(started.elapsed() < Duration::from_secs(5));
}

#[test]
fn urls_that_are_not_stores_are_invalid() {
    let option = [("endpoint".to_owned(), "http://localhost:1".to_owned())];
    for (url, options) in [
        ("", &[][..]),
        ("s3://", &[]),
        ("gs://bucket", &[]),
        ("file://host/dir", &[]),
        ("s3://user:secret@bucket/x", &[]),
        ("memory:", &option),
        ("s3://bucket", &[("not_an_option".to_owned(), String::new())]),
    ] {
        let e = Store::open(url, options).unwrap_err();
        assert_eq!(e.kind(), Kind::Invalid, "{url}: {e}");
        assert!(!e.to_string().contains("secret"));
    }
    let s3 = Store::open("s3://bucket/a/b/", &option).unwrap();
    assert_eq!(s3.describe(), "s3://bucket/a/b");
    assert!(!s3.is_directory());
}

/// A store on the S3-compatible server named by `TIDELAKE_TEST_S3` (`s3://bucket/prefix`; endpoint and keys from
/// `AWS_*`), under a random prefix; `None` if the variable is not set.
#[allow(clippy::print_stderr)]
pub(crate) fn s3() -> Option<Store> {
    let Ok(url) = std::env::var("TIDELAKE_TEST_S3") else {
        eprintln!("SKIPPED: TIDELAKE_TEST_S3 names no store");
        return None;
    };
    Some(Store::open(&format!("{}/{:032x}", url.trim_end_matches('/'), System.random_id()), &[]).unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_s3_compatible_keeps_every_promise() {
    let Some(store) = s3() else { return };
    conformance::check(&store).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_long_list_on_s3_continues_by_page_or_as_16_concurrent_lists() {
    let Some(store) = s3() else { return };
    let keys: Vec<String> =
        (0..1_200_u64).map(|i| format!("log/{:08x}/0", i.wrapping_mul(0x9e37_79b9) as u32)).collect();
    for some in keys.chunks(50) {
        let puts = some.iter().map(|key| store.create(key, "x".into()));
        futures::future::try_join_all(puts).await.unwrap();
    }
    store.create("logs", "not below".into()).await.unwrap();
    let before = store.counters();
    let listed = store.list("log").await.unwrap();
    assert_eq!(store.counters().since(&before).list, 2);
    let before = store.counters();
    assert_eq!(store.list_by_digit("log").await.unwrap(), listed);
    assert_eq!(store.counters().since(&before).list, 17);
    let mut expected = keys.clone();
    expected.sort();
    assert_eq!(listed.iter().map(|m| m.location.to_string()).collect::<Vec<_>>(), expected);
    let before = store.counters();
    assert_eq!(store.first("log").await.unwrap().unwrap().location.as_ref(), expected[0]);
    assert_eq!(store.counters().since(&before).list, 1);
}

/// Fails each request the first `times` times it is made.
fn flaky(store: &Store, times: usize) -> Store {
    let seen = parking_lot::Mutex::new(std::collections::HashMap::<(faults::Operation, String), usize>::new());
    store.with_faults(move |r| {
        let mut seen = seen.lock();
        let n = seen.entry((r.operation, r.key.to_owned())).or_default();
        *n += 1;
        if *n <= times { faults::Fault::Refused } else { faults::Fault::None }
    })
}

#[tokio::test]
async fn reads_are_retried_after_temporary_failures_a_limited_number_of_times() {
    let store = Store::in_memory();
    store.create("a/b", "0123456789".into()).await.unwrap();
    assert_eq!(flaky(&store, 3).get("a/b").await.unwrap(), "0123456789");
    assert_eq!(flaky(&store, 3).get_range("a/b", 2..4).await.unwrap(), "23");
    assert_eq!(flaky(&store, 3).get_ranges("a/b", &[0..1, 9..10]).await.unwrap(), ["0", "9"]);
    assert_eq!(flaky(&store, 3).head("a/b").await.unwrap().size, 10);
    assert_eq!(flaky(&store, 3).list("a").await.unwrap().len(), 1);
    flaky(&store, 3).delete("a/b").await.unwrap();

    let before = store.counters();
    let started = tokio::time::Instant::now();
    let dead = store.with_faults(|_| faults::Fault::Refused);
    for error in [dead.get("a/b").await.unwrap_err(), dead.list("a").await.unwrap_err()] {
        assert_eq!(error.kind(), Kind::Unavailable);
    }
    assert!(started.elapsed() < Duration::from_secs(8), "{:?}", started.elapsed());
    assert_eq!(dead.counters().since(&before).get, 8);
    // An absent object fails without retries.
    let before = store.counters();
    assert_eq!(store.get("a/b").await.unwrap_err().kind(), Kind::NotFound);
    assert_eq!(store.counters().since(&before).get, 1);
}

#[tokio::test]
async fn a_reply_cut_short_is_asked_for_again() {
    let memory = Store::in_memory();
    memory.create("a/b", "0123456789".into()).await.unwrap();
    let cut = |most: u32| {
        let replies = std::sync::atomic::AtomicU32::new(0);
        memory.with_faults(move |_| {
            let nth = replies.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            if nth < most { faults::Fault::Truncated } else { faults::Fault::None }
        })
    };
    assert_eq!(cut(3).get("a/b").await.unwrap(), "0123456789");
    assert_eq!(cut(3).get_range("a/b", 2..6).await.unwrap(), "2345");
    assert_eq!(cut(3).get_ranges("a/b", &[0..2, 8..10]).await.unwrap(), ["01", "89"]);
    let e = cut(u32::MAX).get("a/b").await.unwrap_err();
    assert_eq!((e.kind(), e.context("key")), (Kind::Unavailable, Some("a/b")));
    // An object that is itself too short is corrupt.
    let e = cut(0).get_range("a/b", 8..12).await.unwrap_err();
    assert_eq!(e.kind(), Kind::Corrupt);
}
