//! Unreadable segments: reported, waited for, quarantined.

use tidelake_format::{
    holders::{State, Wanted, holders},
    meta::{FaultySegment, Root},
    store::Store,
};

use super::*;
use crate::testing::faults_seen_earlier;

/// Two writers of one series on a directory: 1 at times 0 to 2 in the first segment, 2 at 1 to 3 in the second.
async fn two_segments() -> (tempfile::TempDir, Store, Ingest, std::path::PathBuf, String) {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(directory.path().to_str().unwrap(), &[]).unwrap();
    let (a, b) = (open(&store, config()).await, open(&store, config()).await);
    setup(&a).await;
    b.root().refresh().await.unwrap();
    stretch(&a, "d", 0, 3, 1).await;
    let key = store.list(layout::LOG).await.unwrap()[0].location.to_string();
    stretch(&b, "d", 1, 3, 2).await;
    let path = directory.path().join(&key);
    (directory, store, a, path, key)
}

/// Overwrites an object with other bytes, as a damaged disk would: its last-modified time is unchanged.
fn damage(path: &std::path::Path, bytes: &[u8]) {
    let modified = std::fs::metadata(path).unwrap().modified().unwrap();
    std::fs::write(path, bytes).unwrap();
    std::fs::File::options().write(true).open(path).unwrap().set_modified(modified).unwrap();
}

fn flipped(bytes: &[u8]) -> Vec<u8> {
    let mut flipped = bytes.to_vec();
    flipped[bytes.len() / 2] ^= 1;
    flipped
}

#[tokio::test]
async fn rows_that_could_not_be_read_for_a_while_do_not_win_over_younger_ones_for_it() {
    let (_directory, store, ingest, path, key) = two_segments().await;
    let good = std::fs::read(&path).unwrap();
    damage(&path, &flipped(&good));
    let error = ingest.compact(CompactRequest::Due).await.unwrap_err();
    assert_eq!((error.kind(), error.to_string().contains(&key)), (Kind::Corrupt, true), "{error}");
    assert_eq!(files(&store, "db", "s").await, 0, "younger segments wait");
    damage(&path, &good);
    ingest.compact(CompactRequest::Due).await.unwrap();
    let found = rows(&store, "db", "s", &[]).await;
    let values: Vec<_> = (0..4).map(|ts| found[&("d".to_owned(), ts)]["c_int"].clone()).collect();
    assert_eq!(values, ["1", "2", "2", "2"]);
}

#[tokio::test]
async fn a_torn_segment_is_named_and_the_log_goes_on_without_it_once_it_is_quarantined() {
    let (_directory, store, ingest, path, key) = two_segments().await;
    damage(&path, &flipped(&std::fs::read(&path).unwrap()));
    for _ in 0..FaultySegment::READS {
        let error = ingest.compact(CompactRequest::Due).await.unwrap_err();
        assert!(error.to_string().contains(&key), "{error}");
        faults_seen_earlier(ingest.root()).await;
    }
    ingest.compact(CompactRequest::Due).await.unwrap();
    assert_eq!(files(&store, "db", "s").await, 1, "the other writer's rows are folded");
    // Garbage collection keeps it, so it is not listed as folded.
    let root = Root::open(store.clone()).await.unwrap();
    let catalog = root.catalog();
    let database = catalog.database("db").unwrap();
    let table = catalog.table(database.id, "s").unwrap();
    let wanted = Wanted { series: None, range: (i64::MIN, i64::MAX) };
    let found = holders(&root, table, database.precision, &wanted).await.unwrap();
    let torn = found.iter().find(|holder| holder.key == key).unwrap();
    assert!(torn.state == State::Quarantined && torn.unreadable.is_some(), "{torn:?}");
    // Deleting the segment gives up its rows.
    std::fs::remove_file(&path).unwrap();
    let found = rows(&store, "db", "s", &[]).await;
    assert_eq!(found.keys().map(|(_, ts)| *ts).collect::<Vec<_>>(), [1, 2, 3]);
}
