//! Of two consecutive writes the later one wins, whatever the clocks of their processes say.

use std::sync::{Arc, atomic::AtomicI64};

use tidelake_format::{
    ids::Token,
    layout::log_key,
    store::{Ambient, System},
};

use super::*;

/// A wall clock with this offset, in nanoseconds.
#[derive(Debug)]
struct Skewed(AtomicI64);

impl Ambient for Skewed {
    fn wall_ns(&self) -> i64 {
        System.wall_ns() + self.0.load(Ordering::SeqCst)
    }

    fn random(&self) -> u64 {
        System.random()
    }
}

fn skewed(store: &Store, by_ns: i64) -> Store {
    store.with_ambient(Arc::new(Skewed(AtomicI64::new(by_ns))))
}

/// Offsets from a millisecond to hours, in nanoseconds.
const SKEWS: [i64; 4] = [1_000_000, 5_000_000, 1_000_000_000, 7_200_000_000_000];

async fn value(store: &Store) -> String {
    rows(store, "db", "cpu", &[]).await[&("cpu".to_owned(), 1)]["value"].clone()
}

async fn put(ingest: &Ingest, value: i64) -> Token {
    line(ingest, &format!("cpu value={value} 1"), Durability::Stored).await.unwrap().token.unwrap()
}

#[tokio::test]
async fn on_a_directory_the_later_of_two_writes_wins_within_one_tick_of_its_clock() {
    for by_ns in SKEWS {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path().to_str().unwrap(), &[]).unwrap();
        let ahead = nano(&skewed(&store, by_ns), config()).await;
        // Another process opens the directory independently.
        let other = Store::open(directory.path().to_str().unwrap(), &[]).unwrap();
        let behind = nano(&skewed(&other, -by_ns), config()).await;
        let written = [put(&ahead, 1).await, put(&behind, 2).await];
        let now = std::time::SystemTime::now();
        for token in written {
            let Token::Position(position) = token else { panic!("{token}") };
            let file = std::fs::File::options().write(true).open(directory.path().join(log_key(position))).unwrap();
            file.set_modified(now).unwrap();
        }
        assert_eq!(value(&store).await, "2.0", "skew {by_ns} ns");
        ahead.compact(CompactRequest::Full).await.unwrap();
        assert_eq!(value(&store).await, "2.0", "skew {by_ns} ns");
    }
}

#[tokio::test]
async fn a_write_that_brings_the_token_of_an_earlier_one_is_newer_within_one_tick_of_the_store() {
    for by_ns in SKEWS {
        let store = Store::in_memory();
        let ahead = nano(&skewed(&store, by_ns), config()).await;
        let behind = nano(&skewed(&store, -by_ns), config()).await;
        let token = put(&ahead, 1).await;
        put(&behind.after(&[token]), 2).await;
        assert_eq!(value(&store).await, "2.0", "skew {by_ns} ns");
        // This holds for every later write of that process.
        let token = put(&ahead.after(&[token]), 3).await;
        put(&behind.after(&[token]), 4).await;
        put(&behind, 5).await;
        assert_eq!(value(&store).await, "5.0", "skew {by_ns} ns");
        ahead.compact(CompactRequest::Full).await.unwrap();
        assert_eq!(value(&store).await, "5.0", "skew {by_ns} ns");
    }
}

#[tokio::test]
async fn tokens_of_folded_or_unknown_writes_do_not_block_and_too_many_are_refused() {
    let store = Store::in_memory();
    let ingest = nano(&store, config()).await;
    let unknown: Token = "000000000000000000000000000000ab-7".parse().unwrap();
    put(&ingest.after(&[unknown, Token::Version(tidelake_format::ids::Version(1))]), 1).await;
    let error = line(&ingest.after(&[unknown; 65]), "cpu value=2 1", Durability::Stored).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Invalid);
}
