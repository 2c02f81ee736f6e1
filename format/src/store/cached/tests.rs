#![allow(clippy::unwrap_used)]

mod damage;

use std::{
    fs::{self, File},
    os::unix::fs::FileExt,
    path::{Path as StdPath, PathBuf},
    time::Duration,
};

use object_store::{ObjectStoreExt, PutPayload, memory::InMemory, path::Path};
use rand::{Rng, RngCore, SeedableRng, rngs::StdRng};

use super::*;
use crate::{
    error::Kind,
    file::{DataFile, DataFileOptions, tests::sample},
    ids::{FileId, TableId},
    store::{
        StoreCounters,
        disk::LEAST_BYTES,
        faults::{Fault, Operation},
    },
};

const B: usize = BLOCK_BYTES as usize;
const SIZE: u64 = 64 << 20;

/// A store in memory that is treated as remote, with objects of random bytes.
struct Distant {
    memory: Arc<InMemory>,
    objects: Vec<(String, Bytes)>,
}

impl Distant {
    async fn with(sizes: &[usize]) -> Self {
        let mut rng = StdRng::seed_from_u64(7);
        let memory = Arc::new(InMemory::new());
        let mut objects = Vec::new();
        for (at, size) in sizes.iter().enumerate() {
            let mut bytes = vec![0; *size];
            rng.fill_bytes(&mut bytes);
            let bytes = Bytes::from(bytes);
            let id = FileId(at as u128 + 1);
            let key = match at % 3 {
                0 => layout::data_key(TableId(1), 2, id),
                1 => layout::tags_key(TableId(1), 2, id),
                _ => layout::rollup_key(TableId(1), 2, id),
            };
            memory.put(&Path::from(key.as_str()), PutPayload::from(bytes.clone())).await.unwrap();
            objects.push((key, bytes));
        }
        Self { memory, objects }
    }

    /// A handle as a separate process would have it.
    fn store(&self) -> Store {
        Store::new(self.memory.clone(), Path::default())
    }

    async fn cached(&self, directory: &StdPath) -> Store {
        self.store().with_disk_cache(directory, SIZE).await.unwrap()
    }

    fn key(&self) -> &str {
        &self.objects[0].0
    }
}

async fn spent<T>(store: &Store, work: impl Future<Output = T>) -> (T, StoreCounters) {
    let before = store.counters();
    let done = work.await;
    (done, store.counters().since(&before))
}

fn regions(directory: &StdPath) -> Vec<PathBuf> {
    let mut found: Vec<_> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    found.retain(|path| path.file_name().unwrap() != "lock");
    found.sort();
    assert!(!found.is_empty());
    found
}

fn bytes_on_disk(directory: &StdPath) -> u64 {
    fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).sum()
}

async fn read_ranges(distant: &Distant, store: &Store) {
    for (key, bytes) in &distant.objects {
        assert_eq!(store.get_range(key, 0..bytes.len() as u64).await.unwrap(), bytes, "{key}");
    }
}

async fn read_all(distant: &Distant, store: &Store) {
    for (key, bytes) in &distant.objects {
        assert_eq!(store.get(key).await.unwrap(), bytes, "{key}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_read_returns_the_stored_bytes_with_no_more_requests() {
    let sizes = [0, 1, 7, B - 1, B, B + 1, 2 * B - 1, 2 * B, 2 * B + 1, 5 * B + 77, 12 * B, 31 * B + 5];
    let distant = Distant::with(&sizes).await;
    let directory = tempfile::tempdir().unwrap();
    let plain = distant.store();
    let mut rng = StdRng::seed_from_u64(3);
    let (mut fewer, mut with_cache, mut without) = (0, 0, 0);
    // The last limits hold only a part of the blocks: cached and missing blocks alternate.
    for (round, limit) in [SIZE, SIZE, SIZE, SIZE, LEAST_BYTES, LEAST_BYTES].into_iter().enumerate() {
        let store = distant.store().with_disk_cache(directory.path(), limit).await.unwrap();
        for _ in 0..700 {
            let (key, bytes) = &distant.objects[rng.random_range(0..sizes.len())];
            let size = bytes.len() as u64;
            if rng.random_ratio(1, 40) {
                let (found, cost) = spent(&store, store.get(key)).await;
                assert_eq!(found.unwrap(), bytes);
                assert!(cost.get <= 1 && cost.requests() == cost.get);
                continue;
            }
            let count = if rng.random_ratio(1, 3) { 1 } else { rng.random_range(0..8) };
            let mut ranges = Vec::new();
            for _ in 0..count {
                let start = rng.random_range(0..=size);
                let most = if rng.random_ratio(1, 3) { size } else { 4_000 };
                ranges.push(start..(start + rng.random_range(0..=most)).min(size));
            }
            let (found, cost) = spent(&store, store.get_ranges(key, &ranges)).await;
            let (expected, plain_cost) = spent(&plain, plain.get_ranges(key, &ranges)).await;
            assert_eq!(found.unwrap(), expected.unwrap(), "{key} {ranges:?} in round {round}");
            assert!(cost.requests() <= plain_cost.requests(), "{cost:?} {plain_cost:?} {ranges:?}");
            let rounding = 2 * BLOCK_BYTES * plain_cost.get;
            assert!(cost.get_bytes <= plain_cost.get_bytes + rounding, "{cost:?} {plain_cost:?}");
            if limit != SIZE {
                continue;
            }
            fewer += usize::from(cost.get < plain_cost.get);
            (with_cache, without) = (with_cache + cost.get, without + plain_cost.get);
        }
        // With a small limit, some blocks are overwritten just before they are read.
        assert!(limit != SIZE || store.counters().cache_errors == 0);
        assert!(limit == SIZE || store.counters().get > 50);
        store.close().await;
    }
    assert!(fewer > 1_500 && with_cache * 20 < without, "{fewer}: {with_cache} of {without} requests");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cached_reads_take_no_request_even_in_the_next_process() {
    let distant = Distant::with(&[10 * B + 3, B / 2, 40]).await;
    let directory = tempfile::tempdir().unwrap();
    let store = distant.cached(directory.path()).await;
    let (_, first) = spent(&store, read_all(&distant, &store)).await;
    let total: usize = distant.objects.iter().map(|(_, bytes)| bytes.len()).sum();
    assert_eq!((first.requests(), first.get_bytes), (3, total as u64));
    assert_eq!((first.cache_blocks, first.cache_misses), (0, 3));
    let (_, again) = spent(&store, read_all(&distant, &store)).await;
    assert_eq!((again.requests(), again.cache_blocks, again.cache_bytes), (0, 13, total as u64));
    store.close().await;
    // A closed cache finds nothing, and reads still succeed.
    let (_, closed) = spent(&store, read_all(&distant, &store)).await;
    assert_eq!((closed.requests(), closed.cache_blocks), (3, 0));

    let next = distant.cached(directory.path()).await;
    let (_, cost) = spent(&next, read_all(&distant, &next)).await;
    assert_eq!((cost.requests(), cost.cache_blocks, cost.cache_misses), (0, 13, 0));
    next.store_of_another_root_finds_no_blocks(&distant, directory.path()).await;
}

impl Store {
    async fn store_of_another_root_finds_no_blocks(self, distant: &Distant, directory: &StdPath) {
        self.close().await;
        let shared = Shared { identity: "http://elsewhere s3://bucket".to_owned(), ..Shared::clone(&self.shared) };
        let other = Store::from(shared).with_disk_cache(directory, SIZE).await.unwrap();
        let (_, cost) = spent(&other, read_all(distant, &other)).await;
        assert_eq!((cost.requests(), cost.cache_blocks), (3, 0));
        other.close().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_is_killed_leaves_what_it_has_written() {
    let distant = Distant::with(&[40 * B]).await;
    let (directory, left) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = distant.cached(directory.path()).await;
    read_all(&distant, &store).await;
    store.shared.disk.as_ref().unwrap().written().await;
    for path in regions(directory.path()) {
        fs::copy(&path, left.path().join(path.file_name().unwrap())).unwrap();
    }
    let next = distant.cached(left.path()).await;
    let (_, cost) = spent(&next, read_ranges(&distant, &next)).await;
    // All blocks except those kept in memory.
    assert!(cost.cache_blocks >= 24 && cost.cache_errors == 0 && cost.get == 1, "{cost:?}");
    next.close().await;
    store.close().await;
}

#[tokio::test]
async fn only_data_is_cached_and_only_of_distant_stores() {
    let distant = Distant::with(&[100]).await;
    let directory = tempfile::tempdir().unwrap();
    let store = distant.cached(directory.path()).await;
    for key in ["meta/9999999999999999998", "log/x/0", "data/1/2/unknown.csv", "idem/1"] {
        distant.memory.put(&Path::from(key), "0123456789".into()).await.unwrap();
        for _ in 0..2 {
            let (found, cost) = spent(&store, store.get(key)).await;
            assert_eq!((found.unwrap().as_ref(), cost.get, cost.cache_misses), (&b"0123456789"[..], 1, 0));
            let (found, cost) = spent(&store, store.get_ranges(key, &[1..3, 5..6])).await;
            assert_eq!((found.unwrap(), cost.get, cost.get_bytes), (vec!["12".into(), "5".into()], 1, 5));
        }
    }
    store.close().await;
    let plain = tempfile::tempdir().unwrap();
    for local in [Store::in_memory(), Store::open(plain.path().to_str().unwrap(), &[]).unwrap()] {
        let error = local.with_disk_cache(directory.path(), SIZE).await.unwrap_err();
        assert_eq!(error.kind(), Kind::Invalid);
    }
    let error = distant.store().with_disk_cache(directory.path(), LEAST_BYTES - 1).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Invalid);
    let file = tempfile::NamedTempFile::new().unwrap();
    let error = distant.store().with_disk_cache(file.path(), SIZE).await.unwrap_err();
    assert_eq!((error.kind(), error.context("path")), (Kind::Unavailable, file.path().to_str()));
}

#[tokio::test]
async fn faults_are_reported_as_without_a_cache() {
    let distant = Distant::with(&[2 * B + 5, 2 * B]).await;
    let directory = tempfile::tempdir().unwrap();
    let (store, plain) = (distant.cached(directory.path()).await, distant.store());
    let b = BLOCK_BYTES;
    for _ in 0..2 {
        for (key, bytes) in &distant.objects {
            let size = bytes.len() as u64;
            for range in [0..size + 1, size - 1..size + 1, size..size + 1, size + b..size + b + 1, 4 * b..5 * b] {
                let error = store.get_range(key, range.clone()).await.unwrap_err();
                let expected = plain.get_range(key, range).await.unwrap_err();
                assert_eq!((error.kind(), error.context("key")), (expected.kind(), expected.context("key")));
                assert_eq!(error.kind(), Kind::Corrupt);
            }
        }
        // Now the blocks are cached.
        read_all(&distant, &store).await;
    }
    let absent = layout::data_key(TableId(9), 9, FileId(9));
    let errors = [store.get(&absent).await.unwrap_err(), store.get_range(&absent, 0..9).await.unwrap_err()];
    assert!(errors.iter().all(|e| e.kind() == Kind::NotFound));

    let flaky = std::sync::atomic::AtomicU32::new(0);
    let fresh = tempfile::tempdir().unwrap();
    let faulty =
        distant.store().with_faults(move |_| match flaky.fetch_add(1, std::sync::atomic::Ordering::Relaxed) % 3 {
            0 => Fault::Refused,
            1 => Fault::Truncated,
            _ => Fault::None,
        });
    let faulty = faulty.with_disk_cache(fresh.path(), SIZE).await.unwrap();
    read_all(&distant, &faulty).await;
    assert_eq!(faulty.get_range(distant.key(), 1..B as u64 * 2).await.unwrap(), distant.objects[0].1.slice(1..2 * B));
    let dead = distant.store().with_faults(|_| Fault::Refused);
    let dead = Store::from(Shared { disk: faulty.shared.disk.clone(), ..Shared::clone(&dead.shared) });
    // Cached blocks are read even when the store is unavailable, if the root is the same.
    let dead = Store::from(Shared { identity: faulty.shared.identity.clone(), ..Shared::clone(&dead.shared) });
    read_all(&distant, &dead).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_size_limit_is_kept_and_the_oldest_blocks_are_evicted() {
    let distant = Distant::with(&[6 * B; 40]).await;
    let directory = tempfile::tempdir().unwrap();
    for limit in [LEAST_BYTES, 24 << 20, LEAST_BYTES + 12_345] {
        let store = distant.store().with_disk_cache(directory.path(), limit).await.unwrap();
        for _ in 0..2 {
            for (key, bytes) in &distant.objects {
                assert_eq!(store.get(key).await.unwrap(), bytes);
                store.shared.disk.as_ref().unwrap().written().await;
                assert!(bytes_on_disk(directory.path()) <= limit);
            }
        }
        // The most recent blocks are still cached.
        let (key, bytes) = distant.objects.last().unwrap();
        let (found, cost) = spent(&store, store.get(key)).await;
        assert_eq!((found.unwrap(), cost.requests()), (bytes.clone(), 0));
        store.close().await;
        assert!(bytes_on_disk(directory.path()) <= limit);
        let store = distant.store().with_disk_cache(directory.path(), limit).await.unwrap();
        let (found, cost) = spent(&store, store.get(key)).await;
        assert_eq!((found.unwrap(), cost.requests()), (bytes.clone(), 0));
        store.close().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_oldest_blocks_are_evicted_first_even_after_a_restart() {
    let distant = Distant::with(&[6 * B; 9]).await;
    let directory = tempfile::tempdir().unwrap();
    let spends = async |objects: Range<usize>| {
        let store = distant.store().with_disk_cache(directory.path(), LEAST_BYTES).await.unwrap();
        for (key, bytes) in &distant.objects[objects] {
            assert_eq!(store.get(key).await.unwrap(), bytes);
            store.shared.disk.as_ref().unwrap().written().await;
        }
        store.close().await;
        store.counters().requests()
    };
    // Seven blocks in each of eight regions, two of which are kept clear: 42 of 54 blocks.
    assert_eq!(spends(0..6).await, 6);
    assert_eq!(spends(6..9).await, 3);
    // Of two regions written within one tick of the file system's clock, the newer may be evicted first.
    assert!(spends(4..9).await <= 1);
    assert_eq!(spends(6..9).await, 0);
    // Opening a cache without writing does not make regions newer.
    for _ in 0..2 {
        assert_eq!(spends(0..0).await, 0);
    }
    assert_eq!(spends(0..1).await, 1);
    assert_eq!(spends(6..9).await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_cache_without_a_clear_region_accepts_blocks_again() {
    let distant = Distant::with(&[6 * B; 30]).await;
    let directory = tempfile::tempdir().unwrap();
    let open = async || distant.store().with_disk_cache(directory.path(), LEAST_BYTES).await.unwrap();
    let read = async |store: &Store, objects: Range<usize>| {
        for (key, bytes) in &distant.objects[objects] {
            assert_eq!(store.get(key).await.unwrap(), bytes);
            store.shared.disk.as_ref().unwrap().written().await;
        }
    };
    let store = open().await;
    read(&store, 0..20).await;
    store.close().await;
    // A possible state after a crash.
    let contents: Vec<_> = regions(directory.path()).into_iter().map(|path| fs::read(path).unwrap()).collect();
    let full = contents.iter().find(|bytes| bytes[..8] != [0; 8]).unwrap();
    for (path, _) in regions(directory.path()).iter().zip(&contents).filter(|(_, bytes)| bytes[..8] == [0; 8]) {
        fs::write(path, full).unwrap();
    }
    let store = open().await;
    read(&store, 20..30).await;
    store.close().await;
    let store = open().await;
    let (_, cost) = spent(&store, read(&store, 28..30)).await;
    assert_eq!(cost.requests(), 0, "{cost:?}");
    store.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn readers_at_once_share_one_request() {
    let distant = Distant::with(&[8 * B + 9, 3 * B]).await;
    let directory = tempfile::tempdir().unwrap();
    let late = |r: &crate::store::faults::Request<'_>| match r.operation {
        Operation::Get => Fault::Late(Duration::from_millis(300)),
        _ => Fault::None,
    };
    let store = distant.store().with_faults(late).with_disk_cache(directory.path(), SIZE).await.unwrap();
    let size = distant.objects[0].1.len() as u64;
    let (_, cost) = spent(&store, async {
        let all = store.get_range(distant.key(), 0..size);
        let parts = (0..20_u64).map(|at| store.get_range(distant.key(), at * 1_000..size - at * 5));
        let (all, parts) = futures::join!(all, futures::future::join_all(parts));
        assert_eq!(all.unwrap(), distant.objects[0].1);
        for (at, part) in parts.into_iter().enumerate() {
            assert_eq!(part.unwrap(), distant.objects[0].1.slice(at * 1_000..size as usize - at * 5));
        }
        let whole = (0..10).map(|_| store.get(&distant.objects[1].0));
        assert!(futures::future::join_all(whole).await.into_iter().all(|read| read.unwrap() == distant.objects[1].1));
    })
    .await;
    assert_eq!((cost.get, cost.get_bytes), (2, size + 3 * BLOCK_BYTES));
    store.close().await;

    // Many readers on several threads, some of them dropped.
    let fresh = tempfile::tempdir().unwrap();
    let store = distant.cached(fresh.path()).await;
    let tasks = (0..16_u64).map(|seed| {
        let (store, key, bytes) = (store.clone(), distant.key().to_owned(), distant.objects[0].1.clone());
        tokio::spawn(async move {
            let mut rng = StdRng::seed_from_u64(seed);
            for _ in 0..100 {
                let start = rng.random_range(0..bytes.len());
                let end = rng.random_range(start..=bytes.len());
                let read = store.get_range(&key, start as u64..end as u64);
                if rng.random_ratio(1, 5) {
                    let _ = tokio::time::timeout(Duration::from_micros(50), read).await;
                } else {
                    assert_eq!(read.await.unwrap(), bytes.slice(start..end));
                }
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    assert!(store.shared.disk.as_ref().unwrap().flights.lock().is_empty());
    store.close().await;
}

#[tokio::test]
async fn a_dropped_reader_sends_only_requests_that_others_wait_for() {
    // far enough apart for one request each
    const APART: usize = 2 << 20;
    let distant = Distant::with(&[3 * FETCHES * APART]).await;
    let directory = tempfile::tempdir().unwrap();
    let late = |r: &crate::store::faults::Request<'_>| match r.operation {
        Operation::Get => Fault::Late(Duration::from_millis(200)),
        _ => Fault::None,
    };
    let store = distant.store().with_faults(late).with_disk_cache(directory.path(), SIZE).await.unwrap();
    let wanted: Vec<_> = (0..3 * FETCHES).map(|n| (n * APART) as u64..(n * APART + 1) as u64).collect();
    let last = wanted[3 * FETCHES - 1].clone();
    let (_, cost) = spent(&store, async {
        let gone = tokio::time::timeout(Duration::from_millis(100), store.get_ranges(distant.key(), &wanted));
        let other = async {
            tokio::time::sleep(Duration::from_millis(50)).await;
            store.get_range(distant.key(), last.clone()).await
        };
        let (gone, other) = futures::join!(gone, other);
        assert!(gone.is_err(), "it has waited long enough");
        assert_eq!(other.unwrap(), distant.objects[0].1.slice(last.start as usize..last.end as usize));
        tokio::time::sleep(Duration::from_secs(1)).await;
    })
    .await;
    assert_eq!(cost.get, FETCHES as u64 + 1, "those under way, and the one of the other reader");
    assert!(store.shared.disk.as_ref().unwrap().flights.lock().is_empty());
    store.close().await;
}

#[tokio::test]
async fn a_reader_waiting_for_a_failed_one_sends_its_own_request() {
    let distant = Distant::with(&[2 * B]).await;
    let directory = tempfile::tempdir().unwrap();
    let healthy = distant.cached(directory.path()).await;
    // The same cache; its requests never succeed.
    let dead = distant.store().with_faults(|_| Fault::Refused);
    let disk = healthy.shared.disk.clone();
    let identity = healthy.shared.identity.clone();
    let dead = Store::from(Shared { disk, identity, ..Shared::clone(&dead.shared) });
    let key = distant.key();
    let (failed, found) = futures::join!(dead.get_range(key, 0..10), healthy.get_range(key, 0..10));
    assert_eq!((failed.unwrap_err().kind(), found.unwrap()), (Kind::Unavailable, distant.objects[0].1.slice(..10)));
    assert!(healthy.shared.disk.as_ref().unwrap().flights.lock().is_empty());
    healthy.close().await;
}

#[tokio::test]
async fn one_process_at_a_time_uses_a_directory() {
    let distant = Distant::with(&[100]).await;
    let directory = tempfile::tempdir().unwrap();
    let first = distant.cached(directory.path()).await;
    let second = distant.cached(directory.path()).await;
    assert!(first.shared.disk.is_some() && second.shared.disk.is_none());
    for _ in 0..2 {
        let (_, cost) = spent(&second, read_all(&distant, &second)).await;
        assert_eq!((cost.requests(), cost.cache_misses), (1, 0));
    }
    first.close().await;
    assert!(distant.cached(directory.path()).await.shared.disk.is_some());
    // A cache that was not closed unlocks the directory too, after writing its blocks.
    let begun = std::time::Instant::now();
    loop {
        let third = distant.cached(directory.path()).await;
        if third.shared.disk.is_some() {
            read_all(&distant, &third).await;
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(10));
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    loop {
        let fourth = distant.cached(directory.path()).await;
        if fourth.shared.disk.is_some() {
            let (_, cost) = spent(&fourth, read_all(&distant, &fourth)).await;
            assert_eq!(cost.requests(), 0);
            fourth.close().await;
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(20));
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn separate_counters_count_their_own_cache_reads() {
    let distant = Distant::with(&[100]).await;
    let directory = tempfile::tempdir().unwrap();
    let store = distant.cached(directory.path()).await;
    read_all(&distant, &store).await;
    let apart = store.counted_apart();
    read_all(&distant, &apart).await;
    let counted = apart.counters();
    let expected = StoreCounters { cache_blocks: 1, cache_bytes: 100, ..StoreCounters::default() };
    assert_eq!(counted, expected);
    assert_eq!(store.counters().cache_blocks, 1);
    store.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_data_file_is_opened_and_read_with_no_request_the_second_time() {
    let table = sample::table_of_every_type();
    let mut rng = StdRng::seed_from_u64(1);
    for rows in [500, 150_000] {
        let series = sample::random_series(&mut rng, &table, 10, sample::Values::Any);
        let values = sample::random_rows(&mut rng, &table, &[rows / 10; 10], sample::Values::Any);
        let file = sample::encode(&table, DataFileOptions::default(), &series, &values);
        let size = file.data.len() as u64;
        assert_eq!(size > 4 << 20, rows == 150_000, "{size}: one is read whole, one from its end");
        let (memory, key) = (Arc::new(InMemory::new()), layout::data_key(TableId(7), 0, FileId(1)));
        memory.put(&Path::from(key.as_str()), PutPayload::from(file.data.clone())).await.unwrap();
        let directory = tempfile::tempdir().unwrap();
        let plain = Store::new(memory, Path::default());
        let work = async |store: &Store| {
            let opened = DataFile::open(store, &key, size).await.unwrap();
            let columns: Vec<_> = opened.schema().fields().iter().take(3).cloned().collect();
            let ranges = vec![10..20, rows as u64 / 2..rows as u64 / 2 + 100, rows as u64 - 1..rows as u64];
            opened.read(store, ranges, &columns, 64).unwrap().try_collect::<Vec<_>>().await.unwrap()
        };
        let (expected, uncached) = spent(&plain, work(&plain)).await;
        let store = plain.with_disk_cache(directory.path(), SIZE).await.unwrap();
        for process in 0..2 {
            let store = store_again(&plain, &store, directory.path(), process).await;
            let (found, cost) = spent(&store, work(&store)).await;
            assert_eq!(found, expected);
            assert_eq!(cost.requests(), [uncached.requests(), 0][process]);
            assert!(cost.get_bytes <= uncached.get_bytes + 2 * BLOCK_BYTES * uncached.get);
            let (found, cost) = spent(&store, work(&store)).await;
            assert_eq!((found, cost.requests()), (expected.clone(), 0));
        }
    }
}

/// The store; after the first process, another one with the same directory.
async fn store_again(plain: &Store, store: &Store, directory: &StdPath, process: usize) -> Store {
    if process == 0 {
        return store.clone();
    }
    store.close().await;
    plain.with_disk_cache(directory, SIZE).await.unwrap()
}
