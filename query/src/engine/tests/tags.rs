//! Tags as dictionaries for the sessions that request them.

use arrow::{array::AsArray, datatypes::Int32Type};

use super::{batches_in, engine, lines_in, session, shown, world::World};
use crate::{
    engine::Engine,
    session::{Session, TagEncoding},
    wire::tag_dictionary,
};

fn of_dictionaries() -> Session {
    Session { tag_encoding: TagEncoding::Dictionary, ..session() }
}

/// The names of the result's columns that are dictionaries, and its lines, which are those of a session with text.
async fn dictionaries(engine: &Engine, sql: &str) -> Vec<String> {
    let text = batches_in(engine, &session(), sql).await.unwrap();
    let encoded = batches_in(engine, &of_dictionaries(), sql).await.unwrap();
    assert_eq!(shown(&encoded), shown(&text), "{sql}");
    let schema = encoded[0].schema();
    let found = schema.fields().iter().filter(|field| *field.data_type() == tag_dictionary());
    found.map(|field| field.name().clone()).collect()
}

#[tokio::test]
async fn text_tags_of_a_result_are_dictionaries_where_the_session_says_so() {
    let world = World::random(3).await;
    let engine = engine(&world);
    for (sql, expected) in [
        ("select * from t", &["s"][..]),
        ("select ts, a, s, g, tbname from t", &["s", "tbname"]),
        ("select s as room, tbname from t where a > 0 order by ts desc limit 7", &["room", "tbname"]),
        ("select tbname, upper(s), s from t order by s, tbname", &["tbname", "s"]),
        ("select x.s, y.tbname from t x join t y on x.ts = y.ts and x.tbname = y.tbname", &["s", "tbname"]),
        ("select s, count(*), min(tbname) from t group by s", &["s"]),
        ("select tbname, lag(a) over (partition by tbname order by ts) from t", &["tbname"]),
        ("select s from t union all select s from t", &["s"]),
        ("select distinct s from t", &["s"]),
        ("select c, concat(s, 'x') from t", &[]),
    ] {
        assert_eq!(dictionaries(&engine, sql).await, expected, "{sql}");
    }
}

#[tokio::test]
async fn a_scan_makes_the_dictionaries_of_columns_that_no_expression_reads() {
    let world = World::random(3).await;
    let engine = engine(&world);
    for (sql, expected) in [
        ("select tbname, s, a from t order by ts", Some("tbname, s")),
        ("select a, s from t where upper(tbname) <> 'D1' limit 5", Some("s")),
        ("select upper(s), s, tbname from t", Some("tbname")),
        ("select s from t order by s", Some("s")),
        ("select s from t order by s limit 3", None),
        ("select tbname, count(c) from t group by tbname", None),
    ] {
        let plan = lines_in(&engine, &of_dictionaries(), &format!("explain {sql}")).await.join("\n");
        let found = plan.split_once("dictionaries=[").map(|(_, rest)| rest.split_once(']').unwrap().0);
        // The order of the scan's columns is that of the table.
        let sorted = |list: &str| {
            let mut names: Vec<String> = list.split(", ").map(str::to_owned).collect();
            names.sort();
            names
        };
        assert_eq!(found.map(sorted), expected.map(sorted), "{sql}: {plan}");
        let plan = lines_in(&engine, &session(), &format!("explain {sql}")).await.join("\n");
        assert!(!plan.contains("dictionaries="), "{sql}: {plan}");
    }
}

#[tokio::test]
async fn a_short_result_has_no_values_that_no_row_uses() {
    let world = World::regular().await;
    let engine = engine(&world);
    let batches = batches_in(&engine, &of_dictionaries(), "select tbname, s from t limit 2").await.unwrap();
    for column in batches.iter().flat_map(|batch| batch.columns()) {
        let dictionary = column.as_dictionary::<Int32Type>();
        assert!(dictionary.values().len() <= 2, "{} values", dictionary.values().len());
    }
}
