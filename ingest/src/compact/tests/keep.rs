//! Rows and partitions beyond KEEP.

use super::*;

/// Rows of two tables of two databases, with `keep` 10 and 100 days, on each of the last 20 days; returns today.
async fn twenty_days(store: &Store) -> i64 {
    let ingest = open(store, config()).await;
    let today = System.wall_ms().div_euclid(DAY);
    for database in ["short", "long"] {
        // KEEP is long enough for writing the rows; it is reduced below.
        let create = format!("create database {database} duration 1d keep 100d");
        ingest.execute(None, &create, None).await.unwrap();
        for table in ["a", "b"] {
            let create = format!("create stable {table}(ts timestamp, v int) tags(site int)");
            ingest.execute(Some(database), &create, None).await.unwrap();
            for day in today - 19..=today {
                let ts = day * DAY + 5;
                let insert = format!("insert into {table}1 using {table} tags(1) values ({ts}, {day}) ({}, 1)", ts + 1);
                ingest.execute(Some(database), &insert, None).await.unwrap();
            }
        }
    }
    ingest.compact(CompactRequest::Fold).await.unwrap();
    today
}

async fn keep(store: &Store, database: &str, days: i64) {
    let root = Root::open(store.clone()).await.unwrap();
    root.commit(&[], |d| {
        let mut database = d.catalog().database(database).unwrap().as_ref().clone();
        database.keep_ms = days * DAY;
        d.put_database(database)
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn partitions_beyond_keep_disappear_whole_and_nothing_else_does() {
    let store = Store::in_memory();
    let today = twenty_days(&store).await;
    let before: Vec<Rows> = [rows(&store, "short", "a", &[]).await, rows(&store, "long", "b", &[]).await].into();
    keep(&store, "short", 10).await;
    let ingest = open(&store, config()).await;
    let version = ingest.root().catalog().version;
    let report = ingest.compact(CompactRequest::Due).await.unwrap();
    // Today is not over: the partition ten days ago still has rows within KEEP.
    assert_eq!((report.expired_partitions, report.expired_rows), (2 * 9, 2 * 9 * 2));
    assert_eq!(ingest.root().catalog().version, version.next(), "one commit for all of them");
    let kept = |rows: &Rows| {
        let young = rows.iter().filter(|((_, ts), _)| *ts >= (today - 10) * DAY);
        young.map(|(k, v)| (k.clone(), v.clone())).collect::<Rows>()
    };
    assert_eq!(rows(&store, "short", "a", &[]).await, kept(&before[0]));
    assert_eq!(rows(&store, "long", "b", &[]).await, before[1]);
    // Nothing more is due, and that check makes no request to the store.
    let compactor = Compactor::new(ingest.root().clone(), config().compact);
    let spent = ingest.root().store().counters();
    assert_eq!(compactor.inner.retain().await.unwrap(), CompactReport::default());
    assert_eq!(ingest.root().store().counters().since(&spent).requests(), 0);
    let checked = tidelake_format::check::check(&store, Default::default()).await.unwrap();
    assert!(checked.is_sound(), "{checked:?}");
}

#[tokio::test]
async fn one_clock_that_is_years_ahead_expires_nothing() {
    let store = Store::in_memory();
    twenty_days(&store).await;
    let before = rows(&store, "long", "a", &[]).await;
    let ahead = store.with_ambient(Hands::at(System.wall_ms() + 50 * 365 * DAY));
    let ingest = open(&ahead, config()).await;
    let report = ingest.compact(CompactRequest::Full).await.unwrap();
    assert_eq!((report.expired_partitions, report.expired_rows), (0, 0));
    assert_eq!(rows(&store, "long", "a", &[]).await, before);
}

#[tokio::test]
async fn a_fold_drops_and_counts_rows_beyond_keep() {
    let store = Store::in_memory();
    let today = twenty_days(&store).await;
    let ingest = open(&store, config()).await;
    let old = (today - 19) * DAY + 9;
    let insert = format!("insert into a1 using a tags(1) values ({old}, 7) ({}, 8)", today * DAY + 9);
    ingest.execute(Some("short"), &insert, None).await.unwrap();
    keep(&store, "short", 10).await;
    let report = ingest.compact(CompactRequest::Fold).await.unwrap();
    assert_eq!((report.folded_rows, report.expired_rows), (2, 1));
    ingest.compact(CompactRequest::Due).await.unwrap();
    let found = rows(&store, "short", "a", &[]).await;
    assert!(!found.contains_key(&("a1".to_owned(), old)));
    assert_eq!(found[&("a1".to_owned(), today * DAY + 9)]["v"], "8");
}
