//! Limits on tables and columns: schema changes that a line may make, and the effects of a rejected line.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, TimestampNanosecondArray};
use bytes::Bytes;
use futures::{future::join_all, stream};
use tidelake_format::{Kind, store::Store};

use super::{line, sql};
use crate::{
    config::IngestConfig,
    testing::{config, nano, open, rows},
    write::{Durability, IfAbsent, IfExists, Ingest, IngestTarget, Written},
};

fn limited(tables: usize, columns: usize) -> IngestConfig {
    IngestConfig { tables, columns, ..config() }
}

/// The names of the tables of `db`, and the number of columns of each.
fn tables(ingest: &Ingest) -> Vec<(String, usize)> {
    let catalog = ingest.root().catalog();
    let db = catalog.database("db").unwrap().id;
    let mut tables: Vec<_> = catalog.tables(db).map(|t| (t.name.clone(), t.columns.len())).collect();
    tables.sort();
    tables
}

fn refused(written: &Written) -> Vec<usize> {
    written.rejected.iter().map(|r| r.line).collect()
}

#[tokio::test]
async fn of_a_body_with_too_many_new_tables_the_first_ones_are_made_and_stored_and_each_other_line_is_refused() {
    let store = Store::in_memory();
    let ingest = nano(&store, limited(3, 100)).await;
    line(&ingest, "old v=1 1", Durability::Stored).await.unwrap();
    // An invalid line takes no place, nor does a line of an existing table.
    let body = "a v=x 1\nb v=1 2\nold v=2 2\nc v=1 3\nd v=1 4\na v=1 5\nc v=2 6";
    let written = line(&ingest, body, Durability::Stored).await.unwrap();
    assert_eq!((written.accepted, refused(&written)), (4, vec![1, 5, 6]));
    for rejected in &written.rejected[1..] {
        assert!(rejected.reason.starts_with("too many tables"), "{}", rejected.reason);
    }
    assert_eq!(tables(&ingest), [("b".into(), 2), ("c".into(), 2), ("old".into(), 2)]);
    for (table, count) in [("b", 1), ("c", 2), ("old", 2)] {
        assert_eq!(rows(&store, "db", table, &[]).await.len(), count, "{table}");
    }
}

#[tokio::test]
async fn one_request_creates_only_its_share_of_tables_and_another_may_continue() {
    let store = Store::in_memory();
    let ingest = nano(&store, limited(10_000, 1_024)).await;
    let body: String = (0..1_005).map(|i| format!("t{i} v=1 1\n")).collect();
    let written = line(&ingest, &body, Durability::Stored).await.unwrap();
    assert_eq!((written.accepted, refused(&written)), (1_000, (1_001..=1_005).collect::<Vec<_>>()));
    assert!(written.rejected[0].reason.contains("in one request"), "{}", written.rejected[0].reason);
    assert_eq!(tables(&ingest).len(), 1_000);
    let again: String = (1_000..1_005).map(|i| format!("t{i} v=1 1\n")).collect();
    let written = line(&ingest, &again, Durability::Stored).await.unwrap();
    assert_eq!((written.accepted, written.rejected.len()), (5, 0));
}

#[tokio::test]
async fn lines_that_add_more_columns_than_a_table_may_have_are_refused_one_by_one_and_add_none() {
    let store = Store::in_memory();
    let ingest = nano(&store, limited(10, 6)).await;
    line(&ingest, "m v=1 1", Durability::Stored).await.unwrap();
    // Four places are left: the third line would need three, but only two remain.
    let body = "m v=2 2\nm a=1,b=1 3\nm c=1,d=1,e=1 4\nm,tag=x v=3 5\nm d=1 6\nm e=1 7\nm v=4,e=1 8\nm v=5 9";
    let written = line(&ingest, body, Durability::Stored).await.unwrap();
    assert_eq!((written.accepted, refused(&written)), (5, vec![3, 6, 7]));
    for rejected in &written.rejected {
        assert!(rejected.reason.starts_with("too many columns"), "{}", rejected.reason);
    }
    assert_eq!(tables(&ingest), [("m".into(), 6)]);
    let found = rows(&store, "db", "m", &[]).await;
    assert_eq!(found.keys().map(|(_, ts)| *ts).collect::<std::collections::BTreeSet<_>>(), [1, 2, 3, 5, 6, 9].into());
}

#[tokio::test]
async fn points_of_opentsdb_beyond_a_limit_are_refused_one_by_one() {
    let store = Store::in_memory();
    let ingest = nano(&store, limited(2, 3)).await;
    let point = |metric: &str, tags: &str| {
        format!(r#"{{"metric":"{metric}","timestamp":1700000000,"value":1,"tags":{{{tags}}}}}"#)
    };
    let one = r#""h":"a""#;
    let points = [point("a", one), point("b", r#""h":"a","i":"b""#), point("c", one), point("b", one), point("d", one)];
    let body = format!("[{}]", points.join(","));
    let written = ingest.write_opentsdb("db", Bytes::from(body), Durability::Stored).await.unwrap();
    assert_eq!((written.accepted, refused(&written)), (2, vec![2, 4, 5]));
    assert_eq!(tables(&ingest), [("a".into(), 3), ("c".into(), 3)]);
}

#[tokio::test]
async fn a_bulk_ingest_beyond_a_limit_is_refused_whole_and_makes_no_table() {
    let store = Store::in_memory();
    let ingest = nano(&store, limited(1, 3)).await;
    let batch = |fields: usize| {
        let time: (String, ArrayRef) = ("ts".into(), Arc::new(TimestampNanosecondArray::from_iter_values([1, 2])));
        let fields = (0..fields).map(|i| (format!("f{i}"), Arc::new(Int64Array::from(vec![1, 2])) as ArrayRef));
        RecordBatch::try_from_iter(std::iter::once(time).chain(fields)).unwrap()
    };
    let put = |table: &str, if_exists: IfExists, fields: usize| {
        let target =
            IngestTarget { database: "db".into(), table: table.into(), if_absent: IfAbsent::Create, if_exists };
        let (ingest, batches) = (ingest.clone(), stream::iter([Ok(batch(fields))]));
        async move { ingest.ingest_batches(target, batches).await }
    };
    for if_exists in [IfExists::Append, IfExists::Fail] {
        let error = put("wide", if_exists, 3).await.unwrap_err();
        assert_eq!((error.kind(), error.message().starts_with("too many columns")), (Kind::Invalid, true), "{error}");
    }
    assert_eq!(tables(&ingest), []);
    put("t", IfExists::Append, 2).await.unwrap();
    for if_exists in [IfExists::Append, IfExists::Fail] {
        let error = put("more", if_exists, 2).await.unwrap_err();
        assert_eq!((error.kind(), error.message().starts_with("too many tables")), (Kind::Invalid, true), "{error}");
    }
    // A table that replaces another one needs no further place.
    put("t", IfExists::Replace, 1).await.unwrap();
    assert_eq!(tables(&ingest), [("t".into(), 2)]);
}

#[tokio::test]
async fn an_insert_with_one_wrong_row_stores_no_row() {
    let store = Store::in_memory();
    let ingest = nano(&store, config()).await;
    sql(&ingest, "create stable s (ts timestamp, v int) tags (h int)").await.unwrap();
    let error = sql(&ingest, "insert into a using s tags (1) values (1, 1) b using s tags (2) values (2, 'x')").await;
    assert_eq!(error.unwrap_err().kind(), Kind::Invalid);
    assert_eq!(rows(&store, "db", "s", &[]).await.len(), 0);
}

#[tokio::test]
async fn writers_that_take_the_last_places_at_once_store_what_has_a_place_and_refuse_the_rest_by_line() {
    let store = Store::in_memory();
    nano(&store, limited(7, 100)).await;
    let writers = join_all((0..3).map(|_| open(&store, limited(7, 100)))).await;
    let bodies: Vec<String> = (0..3).map(|w| (0..4).map(|i| format!("w{w}_{i} v=1 1\n")).collect::<String>()).collect();
    let written = join_all(writers.iter().zip(&bodies).map(|(w, body)| line(w, body, Durability::Stored))).await;
    let written: Vec<Written> = written.into_iter().map(Result::unwrap).collect();
    assert_eq!(written.iter().map(|w| w.accepted).sum::<u64>(), 7);
    assert_eq!(written.iter().map(|w| w.rejected.len()).sum::<usize>(), 5);
    writers[0].root().refresh().await.unwrap();
    let made = tables(&writers[0]);
    assert_eq!(made.len(), 7);
    for (table, _) in made {
        assert_eq!(rows(&store, "db", &table, &[]).await.len(), 1, "{table}");
    }
}
