//! Schema changes by several concurrent writers.

use std::{collections::BTreeMap, time::Duration};

use futures::future::join_all;
use tidelake_format::{
    meta::Root,
    snapshot::{SnapshotOptions, SnapshotReader},
    store::{
        Store,
        faults::{Fault, Operation},
    },
};
use tokio::time::sleep;

use super::line;
use crate::{
    compact::CompactRequest,
    testing::{Rows, config, nano, open, rows},
    write::{Durability, Ingest},
};

async fn several(store: &Store, n: usize) -> Vec<Ingest> {
    nano(store, config()).await;
    join_all((0..n).map(|_| open(store, config()))).await
}

#[tokio::test]
async fn several_writers_that_add_columns_tags_and_tables_at_once_all_succeed() {
    let store = Store::in_memory();
    let writers = several(&store, 5).await;
    let mut expected: BTreeMap<String, Rows> = BTreeMap::new();
    let mut requests = Vec::new();
    for (w, writer) in writers.iter().enumerate() {
        for i in 0..12_usize {
            // Some columns, tags and tables are shared, others belong to one writer.
            let (table, shared, ts) = (format!("t{}", i % 3), i % 4, 1_000 * w + i);
            let text = format!("{table},host=h{w},tag{}=x f{shared}={i},own{w}_{i}={i}i,s{w}=\"{i}\" {ts}", i % 2);
            requests.push(async move { line(writer, &text, Durability::Stored).await });
            let tag = format!("tag{}", i % 2);
            let row = [
                ("#host".to_owned(), format!("h{w}")),
                (format!("#{tag}"), "x".to_owned()),
                (format!("f{shared}"), format!("{i}.0")),
                (format!("own{w}_{i}"), i.to_string()),
                (format!("s{w}"), i.to_string()),
            ];
            let key = (format!("host=h{w},{tag}=x"), ts as i64);
            expected.entry(table).or_default().insert(key, row.into());
        }
    }
    for written in join_all(requests).await {
        let written = written.unwrap();
        assert_eq!((written.accepted, written.rejected.len()), (1, 0), "{:?}", written.rejected);
    }
    for compact in [None, Some(CompactRequest::Fold), Some(CompactRequest::Full)] {
        if let Some(request) = compact {
            writers[1].compact(request).await.unwrap();
        }
        for (table, expected) in &expected {
            assert_eq!(rows(&store, "db", table, &[]).await, *expected, "{table}, {compact:?}");
        }
    }
}

#[tokio::test]
async fn of_writers_that_give_a_field_different_types_one_wins_and_only_such_lines_of_the_others_are_refused() {
    for round in 0..10 {
        let store = Store::in_memory();
        let writers = several(&store, 3).await;
        let values = ["t", "1.5", "\"text\""];
        let texts: Vec<String> =
            (0..3).map(|w| format!("m,w={w} good={w} {w}\nm,w={w} x={} {}", values[w], 10 + w)).collect();
        let answers = join_all(texts.iter().zip(&writers).map(|(t, w)| line(w, t, Durability::Stored))).await;
        let found = rows(&store, "db", "m", &[]).await;
        let mut kept = 0;
        for (w, answer) in answers.into_iter().enumerate() {
            let answer = answer.unwrap();
            let has = |ts: usize| found.contains_key(&(format!("w={w}"), ts as i64));
            assert!(has(w), "round {round}: the line beside the refused one is kept");
            assert_eq!(has(10 + w), answer.rejected.is_empty(), "round {round}: what was refused is not there");
            assert_eq!(answer.accepted + answer.rejected.len() as u64, 2);
            kept += usize::from(answer.rejected.is_empty());
            for rejected in &answer.rejected {
                assert!(rejected.line == 2 && rejected.reason.contains('x'), "{}", rejected.reason);
            }
        }
        assert_eq!(kept, 1, "round {round}");
        for writer in &writers {
            let again = line(writer, "m,w=9 good=9 99", Durability::Stored).await.unwrap();
            assert_eq!(again.accepted, 1, "every writer continues");
        }
    }
}

#[tokio::test]
async fn a_request_with_a_new_column_is_never_seen_without_it() {
    let store = Store::in_memory();
    let writer = nano(&store, config()).await;
    line(&writer, "cpu,host=a x=1 1", Durability::Stored).await.unwrap();
    // The log and the version are requested together; the column is added after the reply with the version.
    let late = Duration::from_millis(400);
    let slow = store.with_faults(move |r| if r.operation == Operation::List { Fault::Late(late) } else { Fault::None });
    let options = SnapshotOptions { max_staleness: Some(Duration::ZERO), ..SnapshotOptions::default() };
    let reader = SnapshotReader::new(Root::open(slow).await.unwrap(), options);
    let write = async {
        sleep(late / 2).await;
        line(&writer, "cpu,host=a x=2,y=3 2", Durability::Stored).await.unwrap();
    };
    let (snapshot, ()) = futures::join!(reader.snapshot(&[]), write);
    let snapshot = snapshot.unwrap();
    assert_eq!(snapshot.tail.len(), 2);
    let catalog = &snapshot.catalog;
    let table = catalog.table(catalog.database("db").unwrap().id, "cpu").unwrap();
    assert!(table.columns.iter().any(|c| c.name == "y"), "{:?}", table.columns);
}
