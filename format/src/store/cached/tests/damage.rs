//! Damaged files of the cache.

use super::*;

/// Changes one byte in `every` of all region files.
fn damage(directory: &StdPath, every: u64) {
    for path in regions(directory) {
        let file = File::options().read(true).write(true).open(&path).unwrap();
        for at in (every / 2..file.metadata().unwrap().len()).step_by(every as usize) {
            let mut byte = [0];
            file.read_exact_at(&mut byte, at).unwrap();
            file.write_all_at(&[byte[0] ^ 0x40], at).unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damaged_blocks_are_fetched_again_and_never_returned() {
    let distant = Distant::with(&[40 * B, 3 * B + 1, 1_000]).await;
    let directory = tempfile::tempdir().unwrap();
    let store = distant.cached(directory.path()).await;
    read_all(&distant, &store).await;
    store.shared.disk.as_ref().unwrap().written().await;
    // While the cache is open: most of the blocks are no longer in memory.
    damage(directory.path(), 64 << 10);
    let (_, cost) = spent(&store, read_ranges(&distant, &store)).await;
    assert!(cost.cache_errors >= 20 && cost.cache_errors <= cost.cache_misses, "{cost:?}");
    assert!(cost.requests() <= 3);
    let (_, cost) = spent(&store, read_all(&distant, &store)).await;
    assert_eq!((cost.requests(), cost.cache_errors), (0, 0), "they were written anew");
    store.close().await;

    // Every byte of a page is verified or irrelevant: in pages that begin a region, an entry, or neither.
    for every in [4_096, 64 << 10, 1 << 20, 5 << 20] {
        let store = distant.cached(directory.path()).await;
        read_all(&distant, &store).await;
        store.close().await;
        damage(directory.path(), every);
        let store = distant.cached(directory.path()).await;
        read_ranges(&distant, &store).await;
        read_all(&distant, &store).await;
        store.close().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn blocks_damaged_during_reads_are_never_returned() {
    let distant = Distant::with(&[30 * B + 1, 25 * B]).await;
    let directory = tempfile::tempdir().unwrap();
    let store = distant.store().with_disk_cache(directory.path(), LEAST_BYTES).await.unwrap();
    let readers = (0..4_u64).map(|seed| {
        let (store, objects) = (store.clone(), distant.objects.clone());
        tokio::spawn(async move {
            let mut rng = StdRng::seed_from_u64(seed);
            for _ in 0..150 {
                let (key, bytes) = &objects[rng.random_range(0..objects.len())];
                let start = rng.random_range(0..bytes.len());
                let end = rng.random_range(start..=bytes.len().min(start + 4 * B));
                assert_eq!(store.get_range(key, start as u64..end as u64).await.unwrap(), bytes.slice(start..end));
            }
        })
    });
    let readers: Vec<_> = readers.collect();
    let mut every = 70_000;
    while !readers.iter().all(|reader| reader.is_finished()) {
        damage(directory.path(), every);
        every += 1_001;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    for reader in readers {
        reader.await.unwrap();
    }
    assert!(store.counters().cache_errors > 20, "{:?}", store.counters());
    store.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_byte_of_a_small_cache_may_change() {
    let distant = Distant::with(&[300, 5_000]).await;
    let directory = tempfile::tempdir().unwrap();
    let open = async || distant.store().with_disk_cache(directory.path(), LEAST_BYTES).await.unwrap();
    let mut rng = StdRng::seed_from_u64(5);
    let mut fetched = 0;
    for _ in 0..60 {
        let store = open().await;
        read_all(&distant, &store).await;
        store.close().await;
        let used: Vec<PathBuf> = regions(directory.path())
            .into_iter()
            .filter(|path| fs::read(path).unwrap()[..4_096].iter().any(|byte| *byte != 0))
            .collect();
        let path = &used[rng.random_range(0..used.len())];
        let file = File::options().read(true).write(true).open(path).unwrap();
        // The header page, and the headers, keys and values of entries.
        let at = rng.random_range(0..20_000);
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_all_at(&[byte[0] ^ (1 << rng.random_range(0..8))], at).unwrap();
        let store = open().await;
        let (_, cost) = spent(&store, read_all(&distant, &store)).await;
        fetched += cost.get;
        store.close().await;
    }
    assert!(fetched > 3, "{fetched}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_that_are_truncated_or_gone_are_misses() {
    let distant = Distant::with(&[40 * B, 3 * B + 1, 1_000]).await;
    let directory = tempfile::tempdir().unwrap();
    let cut = |len: u64| {
        for path in regions(directory.path()) {
            File::options().write(true).open(path).unwrap().set_len(len).unwrap();
        }
    };
    for len in [0, 100, 5_000, 1 << 20] {
        // While the cache is open, then before it is opened.
        let store = distant.cached(directory.path()).await;
        read_all(&distant, &store).await;
        store.shared.disk.as_ref().unwrap().written().await;
        cut(len);
        let (_, cost) = spent(&store, read_ranges(&distant, &store)).await;
        assert!(cost.cache_errors > 0, "{cost:?}");
        read_all(&distant, &store).await;
        store.close().await;
        cut(len);
        let store = distant.cached(directory.path()).await;
        read_all(&distant, &store).await;
        let (_, cost) = spent(&store, read_all(&distant, &store)).await;
        assert_eq!((cost.requests(), cost.cache_errors), (0, 0));
        store.close().await;
    }
    let store = distant.cached(directory.path()).await;
    for path in regions(directory.path()) {
        fs::remove_file(path).unwrap();
    }
    read_all(&distant, &store).await;
    store.close().await;
    let store = distant.cached(directory.path()).await;
    read_all(&distant, &store).await;
    fs::remove_dir_all(directory.path()).unwrap();
    read_all(&distant, &store).await;
    store.close().await;
}
