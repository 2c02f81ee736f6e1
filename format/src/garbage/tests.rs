#![allow(clippy::unwrap_used)]

use std::time::Duration;

use super::*;
use crate::{
    ids::{Position, WriterId},
    log::{
        cut,
        tests::{A, B, Place},
    },
    meta::{Draft, tests::file},
    store::Store,
};

const HOUR: i64 = 3_600_000;

/// The futures of this crate that servers spawn are `Send`.
#[tokio::test]
async fn futures_are_send() {
    fn is_send<T: Send>(future: T) -> T {
        future
    }
    let place = Place::new().await;
    let root = &place.root;
    is_send(collect(root, Sweep::Full)).await.unwrap();
    is_send(cut(root, Duration::ZERO, 1)).await.unwrap();
    is_send(root.refresh()).await.unwrap();
    is_send(root.files(&root.catalog(), place.table, 0)).await.unwrap();
    is_send(root.commit(&[(place.table, 0)], |d| d.files(place.table, 0).map(<[_]>::len))).await.unwrap();
    is_send(Root::open(place.store().clone())).await.unwrap();
    let reader = crate::snapshot::SnapshotReader::new(root.clone(), Default::default());
    is_send(reader.snapshot(&[])).await.unwrap();
    is_send(place.store().get_ranges("meta/x", &[])).await.unwrap();
    is_send(crate::store::conformance::check(place.store())).await.unwrap();
}

/// Creates the objects of a file and returns its entry.
async fn put_file(place: &Place, partition: i64, order: Version) -> FileEntry {
    let entry = file(&place.root, partition, order);
    for key in keys(place, &entry) {
        place.store().create(&key, "columns".into()).await.unwrap();
    }
    entry
}

fn keys(place: &Place, f: &FileEntry) -> Vec<String> {
    vec![layout::data_key(place.table, f.partition, f.data.id), layout::tags_key(place.table, f.partition, f.tags.id)]
}

async fn swap(place: &Place, remove: Option<&FileEntry>, add: Option<&FileEntry>) {
    let at = (place.table, 0);
    place
        .root
        .commit(&[at], |d: &mut Draft| {
            if let Some(f) = remove {
                d.remove_file(at.0, at.1, f.id)?;
            }
            add.map_or(Ok(()), |f| d.add_file(at.0, f.clone()))
        })
        .await
        .unwrap();
}

/// Sets the commit time of each version, in milliseconds before now.
async fn age(place: &Place, ages: &[(u64, i64)]) {
    for (version, age_ms) in ages {
        place.touch(&layout::meta_key(Version(*version)), HOUR - age_ms);
    }
}

async fn exists(place: &Place, key: &str) -> bool {
    place.store().head(key).await.is_ok()
}

fn collector(place: &Place) -> Collector {
    Collector::new(place.root.clone(), GarbageOptions::default())
}

#[tokio::test]
async fn folded_segments_go_a_minute_after_the_folds_commit() {
    let place = Place::new().await;
    let a0 = place.put(A, 0, 0, 0).await;
    let cut = cut(&place.root, Duration::from_secs(2), u64::MAX).await.unwrap();
    place.root.commit(&[], |d| cut.apply(d)).await.unwrap();
    let a1 = place.put(A, 1, 0, 0).await;
    let b0 = place.put(B, 0, 0, 0).await;
    let collector = collector(&place);
    age(&place, &[(2, 50_000)]).await;
    assert_eq!(collector.collect(Sweep::Quick).await.unwrap(), Collected::default());
    age(&place, &[(2, 61_000)]).await;
    // A later commit is young, but the age of the fold's commit counts.
    place.root.commit(&[], |d| Ok(d.renew())).await.unwrap();
    assert_eq!(collector.collect(Sweep::Quick).await.unwrap(), Collected { segments: 1, ..Default::default() });
    for (position, is_there) in [(a0, false), (a1, true), (b0, true)] {
        assert_eq!(exists(&place, &layout::log_key(position)).await, is_there);
    }
    assert_eq!(collector.collect(Sweep::Quick).await.unwrap(), Collected::default());
}

#[tokio::test]
async fn a_version_and_what_its_successor_removed_go_when_the_successor_is_old() {
    let place = Place::new().await;
    let old = put_file(&place, 0, Version(2)).await;
    let new = put_file(&place, 0, Version(3)).await;
    swap(&place, None, Some(&old)).await;
    swap(&place, Some(&old), Some(&new)).await;
    let reader_of_old = place.root.at(Version(2), &place.root.catalog()).await.unwrap().unwrap();
    age(&place, &[(0, 9 * HOUR), (1, 8 * HOUR), (2, 7 * HOUR), (3, HOUR - 10_000)]).await;
    // Version 2 was the newest an hour ago: a query may still use it.
    let collected = collector(&place).collect(Sweep::Quick).await.unwrap();
    assert_eq!(collected, Collected { versions: 2, ..Default::default() });
    for key in keys(&place, &old) {
        assert!(exists(&place, &key).await);
    }
    assert_eq!(place.root.files(&reader_of_old, place.table, 0).await.unwrap().len(), 1);
    age(&place, &[(3, HOUR + 10_000)]).await;
    let collected = collector(&place).collect(Sweep::Quick).await.unwrap();
    assert_eq!(collected, Collected { versions: 1, removed: 2, ..Default::default() });
    assert!(!exists(&place, &keys(&place, &old)[0]).await && exists(&place, &keys(&place, &new)[0]).await);
    assert_eq!(place.root.chain().versions().await.unwrap().len(), 1);
    let again = Root::open(place.store().clone()).await.unwrap();
    assert_eq!(again.files(&again.catalog(), place.table, 0).await.unwrap()[0], new);
}

#[tokio::test]
async fn a_version_that_a_kept_one_points_into_stays() {
    let place = Place::new().await;
    // Too many files for the newest version to copy: it points into an older one.
    let partitions: Vec<i64> = (0..4_000).collect();
    let touching: Vec<_> = partitions.iter().map(|p| (place.table, *p)).collect();
    place
        .root
        .commit(&touching, |d| {
            partitions.iter().try_for_each(|p| d.add_file(place.table, file(&place.root, *p, d.version())))
        })
        .await
        .unwrap();
    for _ in 0..3 {
        place.root.commit(&[], |d| Ok(d.renew())).await.unwrap();
    }
    age(&place, &[(0, 9 * HOUR), (1, 9 * HOUR), (2, 8 * HOUR), (3, 7 * HOUR), (4, 6 * HOUR)]).await;
    assert!(place.root.chain().refs(Version(5)).await.unwrap().unwrap().contains(&Version(2)));
    for _ in 0..2 {
        let collector = collector(&place);
        collector.collect(Sweep::Quick).await.unwrap();
        assert_eq!(collector.collect(Sweep::Quick).await.unwrap(), Collected::default());
    }
    let left: Vec<u64> = place.root.chain().versions().await.unwrap().iter().map(|(v, _)| v.0).collect();
    assert_eq!(left, [2, 4, 5]);
    let again = Root::open(place.store().clone()).await.unwrap();
    for partition in [0, 17, 3_999] {
        assert_eq!(again.files(&again.catalog(), place.table, partition).await.unwrap().len(), 1);
    }
}

#[tokio::test]
async fn orphans_go_after_a_day_and_a_commit_made_when_they_were_old() {
    let place = Place::new().await;
    let live = put_file(&place, 0, Version(2)).await;
    swap(&place, None, Some(&live)).await;
    let (old, young) = (put_file(&place, 0, Version(2)).await, put_file(&place, 0, Version(2)).await);
    place.store().create("data/readme.txt", "foreign".into()).await.unwrap();
    place.store().create("clock/00000000000000000000000000000007", "clock".into()).await.unwrap();
    let touched = keys(&place, &live).into_iter().chain(keys(&place, &old));
    for key in touched.chain(["data/readme.txt".to_owned(), "clock/00000000000000000000000000000007".to_owned()]) {
        place.touch(&key, -26 * HOUR);
    }
    // No commit was made since the file was an hour old.
    age(&place, &[(0, 25 * HOUR), (1, 25 * HOUR), (2, 25 * HOUR)]).await;
    let collector = collector(&place);
    assert_eq!(collector.collect(Sweep::Quick).await.unwrap().orphans, 0);
    assert_eq!(collector.collect(Sweep::Full).await.unwrap().orphans, 1, "the clock object");
    assert!(exists(&place, &keys(&place, &old)[0]).await);
    assert_eq!(place.root.catalog().version, Version(3), "the collector commits, so that a later sweep can decide");
    assert_eq!(collector.collect(Sweep::Full).await.unwrap().orphans, 2);
    for (entry, is_there) in [(&live, true), (&old, false), (&young, true)] {
        for key in keys(&place, entry) {
            assert_eq!(exists(&place, &key).await, is_there);
        }
    }
    assert!(exists(&place, "data/readme.txt").await);
    assert_eq!(collector.collect(Sweep::Full).await.unwrap(), Collected::default());
}

/// Random folds and file swaps: no kept version loses an object that it names.
#[tokio::test]
async fn nothing_that_a_kept_version_needs_is_ever_collected() {
    let place = Place::new().await;
    let mut live: Vec<FileEntry> = Vec::new();
    let collector = collector(&place);
    let mut seed = 7_u64;
    let mut random = |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 33) % below
    };
    for round in 0..60_i64 {
        let add = put_file(&place, 0, place.root.catalog().version.next()).await;
        let remove = (live.len() > 3).then(|| live.remove(random(4) as usize));
        swap(&place, remove.as_ref(), Some(&add)).await;
        live.push(add);
        let writer = WriterId(u128::from(random(3) + 1) << 100);
        let next = place.root.catalog().watermark(writer).map_or(0, |w| w.next);
        let position = Position { writer, seq: next };
        place.put(writer, next, -10 * HOUR, round).await;
        let cut = cut(&place.root, Duration::from_secs(2), u64::MAX).await.unwrap();
        assert!(cut.segments.iter().any(|s| s.position == position));
        place.root.commit(&[], |d| cut.apply(d)).await.unwrap();
        // Two commits per round, five minutes apart: an hour is six rounds.
        let newest = place.root.catalog().version.0;
        for version in newest.saturating_sub(40)..=newest {
            let key = layout::meta_key(Version(version));
            if exists(&place, &key).await {
                place.touch(&key, HOUR - (newest - version) as i64 * HOUR / 12);
            }
        }
        collector.collect(if round % 7 == 0 { Sweep::Full } else { Sweep::Quick }).await.unwrap();
        let versions = place.root.chain().versions().await.unwrap();
        assert!(versions.len() <= 14, "{}", versions.len());
        for (version, _) in versions.iter().rev().take(12) {
            let catalog = place.root.at(*version, &place.root.catalog()).await.unwrap().unwrap();
            for f in place.root.files(&catalog, place.table, 0).await.unwrap().iter() {
                for key in keys(&place, f) {
                    assert!(exists(&place, &key).await, "round {round}, {version}");
                }
            }
        }
    }
    let objects = place.store().list(layout::DATA).await.unwrap().len();
    assert!(objects <= 2 * (live.len() + 8), "{objects} objects for {} files", live.len());
}

#[tokio::test]
async fn an_idle_root_costs_two_lists_a_collection() {
    let place = Place::new().await;
    place.put(A, 0, 0, 0).await;
    let cut = cut(&place.root, Duration::from_secs(2), u64::MAX).await.unwrap();
    place.root.commit(&[], |d| cut.apply(d)).await.unwrap();
    age(&place, &[(0, 5 * HOUR), (1, 4 * HOUR), (2, 3 * HOUR)]).await;
    let first = collector(&place).collect(Sweep::Quick).await.unwrap();
    assert_eq!(first, Collected { segments: 1, versions: 2, ..Default::default() });
    // The same for a new process, such as a function that runs once an hour.
    let cold = Root::open(Store::open(place.path("").to_str().unwrap(), &[]).unwrap()).await.unwrap();
    for root in [place.root.clone(), cold] {
        let before = root.store().counters();
        let again = Collector::new(root.clone(), GarbageOptions::default()).collect(Sweep::Quick).await.unwrap();
        let spent = root.store().counters().since(&before);
        assert_eq!((again, spent.list, spent.requests()), (Collected::default(), 2, 2));
    }
    // A segment that is not folded yet is not collected.
    place.put(A, 1, 0, 0).await;
    let before = place.store().counters();
    assert_eq!(collector(&place).collect(Sweep::Quick).await.unwrap(), Collected::default());
    assert_eq!(place.store().counters().since(&before).requests(), 2);
}

#[tokio::test]
async fn void_segments_that_come_after_their_writer_was_forgotten_go() {
    let place = Place::new().await;
    const DAY: i64 = 24 * HOUR;
    // A function was frozen for three days; its earlier segments were folded and collected, its watermark was dropped.
    let late = place.put(A, 7, 3 * DAY, 0).await;
    // This segment waits for its predecessor, which may still be written.
    let waiting = place.put(B, 1, HOUR, 0).await;
    let collector = collector(&place);
    assert_eq!(collector.collect(Sweep::Quick).await.unwrap(), Collected::default());
    assert_eq!(collector.collect(Sweep::Full).await.unwrap(), Collected { segments: 1, ..Default::default() });
    assert!(!exists(&place, &layout::log_key(late)).await && exists(&place, &layout::log_key(waiting)).await);
    assert_eq!(collector.collect(Sweep::Full).await.unwrap(), Collected::default());
}
