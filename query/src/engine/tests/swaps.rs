//! Objects replaced by other objects.

use std::collections::BTreeMap;

use tidelake_format::Kind;

use super::{batches_in, engine, session, shown, world::World};
use crate::session::{Levels, Session};

const QUERIES: [&str; 3] = [
    "select g, count(*), sum(a), min(a), max(b), last(a) from %t group by g",
    "select date_bin(interval '5 seconds', ts), count(*), sum(a) from %t group by 1",
    "select tbname, ts, a, b, s from %t",
];

/// The result or error of each query, per table and level.
async fn answers(world: &World) -> BTreeMap<String, Result<Vec<String>, String>> {
    let engine = engine(world);
    let mut answers = BTreeMap::new();
    for levels in [session().levels, Levels::NONE] {
        let session = Session { levels, ..session() };
        for sql in ["t", "u"].iter().flat_map(|table| QUERIES.map(|sql| sql.replace("%t", table))) {
            let answer = match batches_in(&engine, &session, &sql).await {
                Ok(batches) => Ok(shown(&batches)),
                Err(error) => {
                    assert_eq!(error.kind(), Kind::Corrupt, "{sql}: {error}");
                    Err(format!("{error:?}"))
                }
            };
            answers.insert(format!("{sql} {levels:?}"), answer);
        }
    }
    answers
}

#[tokio::test]
async fn an_object_in_the_place_of_another_is_named_or_changes_no_answer() {
    let world = World::two_tables().await;
    let store = world.root.store().clone();
    let right = answers(&world).await;
    assert!(right.values().all(Result::is_ok), "{right:?}");
    let objects = store.list("data").await.unwrap();
    let (mut pairs, mut named) = (0, 0);
    for kind in [".parquet", ".tags", ".rollup"] {
        let keys: Vec<String> = objects.iter().map(|o| o.location.to_string()).filter(|k| k.ends_with(kind)).collect();
        for (key, other) in keys.iter().flat_map(|a| keys.iter().map(move |b| (a, b))).filter(|(a, b)| a != b) {
            let (own, foreign) = (store.get(key).await.unwrap(), store.get(other).await.unwrap());
            store.delete(key).await.unwrap();
            store.create(key, foreign).await.unwrap();
            for (sql, answer) in answers(&world).await {
                match answer {
                    Ok(lines) => assert_eq!(Ok(&lines), right[&sql].as_ref(), "{other} in the place of {key}: {sql}"),
                    Err(error) => {
                        assert!(error.contains(key.as_str()), "{other} in the place of {key}: {sql}: {error}");
                        named += 1;
                    }
                }
            }
            store.delete(key).await.unwrap();
            store.create(key, own).await.unwrap();
            pairs += 1;
        }
    }
    assert!(pairs >= 100 && named >= pairs, "{named} errors in {pairs} pairs");
}
