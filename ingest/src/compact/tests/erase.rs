//! Deleted rows are removed from every object, not only from query results.

use tidelake_format::{
    garbage::{Collector, GarbageOptions, Sweep},
    holders::{Holder, State, Wanted, holders},
    meta::Root,
    store::Store,
};

use super::DAY;
use crate::{
    compact::CompactRequest,
    testing::{config, open},
    write::Ingest,
};

async fn run(ingest: &Ingest, sql: &str) {
    ingest.execute(Some("db"), sql, None).await.unwrap_or_else(|e| panic!("{e}: {sql}"));
}

/// The objects that hold rows of `series`, or of any series, in the first two seconds of a day.
async fn held(store: &Store, series: Option<&str>, day: i64) -> Vec<Holder> {
    let root = Root::open(store.clone()).await.unwrap();
    let catalog = root.catalog();
    let database = catalog.database("db").unwrap();
    let table = catalog.table(database.id, "s").unwrap();
    let range = (day * DAY, day * DAY + 2_000);
    let wanted = Wanted { series: series.map(str::to_owned), range };
    holders(&root, table, database.precision, &wanted).await.unwrap()
}

/// Rows in segments and data files of one state.
fn rows(found: &[Holder], state: State) -> u64 {
    found.iter().filter(|h| h.state == state && !h.key.ends_with(".tags")).map(|h| h.rows).sum()
}

#[tokio::test]
async fn after_a_delete_a_compaction_and_a_collection_no_object_holds_the_rows() {
    let store = Store::in_memory();
    let ingest = open(&store, config()).await;
    run(&ingest, "create database db duration 1d keep 73000d").await;
    run(&ingest, "create stable s(ts timestamp, v int) tags(site int)").await;
    for part in 0..3_i64 {
        for (series, site) in [("d1", 1), ("d2", 2)] {
            let values: Vec<String> = (0..2)
                .flat_map(|day| (0..5).map(move |s| format!("({}, {s})", day * DAY + s * 1_000 + part)))
                .collect();
            run(&ingest, &format!("insert into {series} using s tags({site}) values {}", values.join(" "))).await;
        }
        if part < 2 {
            ingest.compact(CompactRequest::Fold).await.unwrap();
        }
    }
    // For each series and day, in the first two seconds: three rows of the first part, two of each other part.
    let found = held(&store, Some("d1"), 0).await;
    assert_eq!([State::Live, State::Log, State::Folded].map(|state| rows(&found, state)), [5, 2, 5]);
    assert_eq!(held(&store, None, 7).await, []);

    run(&ingest, &format!("delete from s where ts < {} and site = 1", 2_001)).await;
    assert!(!held(&store, Some("d1"), 0).await.is_empty(), "a delete is only a tombstone at first");
    ingest.compact(CompactRequest::Full).await.unwrap();
    let left = held(&store, Some("d1"), 0).await;
    assert!(left.iter().all(|h| matches!(h.state, State::Unnamed | State::Folded)), "{left:?}");
    assert!(!left.is_empty(), "readers of older versions still find them");

    // The grace is an hour; here it ends at once.
    let now = GarbageOptions { segments_ms: -1, versions_ms: -1, orphans_ms: -1, unnamed_ms: -1, keys_ms: -1 };
    let root = Root::open(store.clone()).await.unwrap();
    let collector = Collector::new(root.clone(), now);
    for _ in 0..3 {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        root.commit(&[], |draft| Ok(draft.renew())).await.unwrap();
        collector.collect(Sweep::Full).await.unwrap();
    }
    assert_eq!(held(&store, Some("d1"), 0).await, []);
    for (series, day) in [("d1", 1), ("d2", 0), ("d2", 1)] {
        let found = held(&store, Some(series), day).await;
        assert_eq!((found.len(), rows(&found, State::Live)), (1, 7), "{series} on day {day}: {found:?}");
    }
}
