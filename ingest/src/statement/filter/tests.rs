use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, RecordBatch, StringArray};
use chrono_tz::Tz;
use tidelake_format::{
    Kind,
    ids::{DatabaseId, TableId},
    types::Precision,
};
use tidelake_protocol::sql::{DoubleQuotes, Statement, parse};

use super::*;

fn table() -> Supertable {
    let columns = [
        ("ts", Role::Time, Type::Timestamp),
        ("v", Role::Field, Type::Int),
        ("g", Role::Tag, Type::Int),
        ("s", Role::Tag, Type::Binary(Some(8))),
    ];
    Supertable::new(TableId(1), DatabaseId(0), "t", columns.map(|(n, r, t)| (n.to_owned(), r, t))).unwrap()
}

fn filter(condition: &str) -> Result<Filter> {
    let sql = format!("delete from t where {condition}");
    let Some(Statement::Delete(delete)) = parse(&sql, DoubleQuotes::Text)? else { panic!("{sql}") };
    let clock = Clock { zone: Tz::UTC, precision: Precision::Milli, now_ns: 5_000_000_000 };
    Filter::of(delete.filter.as_ref(), &table(), clock)
}

/// Names of the series that match a condition, of a(1, 'x'), b(2, 'xy'), c(null, '50%'), d(-3, null).
fn names(condition: &str) -> String {
    let names: ArrayRef = Arc::new(StringArray::from(vec!["a", "b", "c", "d"]));
    let g: ArrayRef = Arc::new(Int32Array::from(vec![Some(1), Some(2), None, Some(-3)]));
    let s: ArrayRef = Arc::new(StringArray::from(vec![Some("x"), Some("xy"), Some("50%"), None]));
    let batch = RecordBatch::try_new(SeriesSet::schema_of(&table(), Precision::Milli), vec![names, g, s]).unwrap();
    let set = SeriesSet::try_new(batch).unwrap();
    let condition = filter(condition).unwrap_or_else(|e| panic!("{condition}: {e}")).series.unwrap();
    let chosen = condition.select(&set);
    set.names().iter().flatten().zip(chosen).filter(|(_, chosen)| *chosen).map(|(name, _)| name).collect()
}

#[test]
fn conditions_on_tags_follow_the_three_values_of_sql() {
    for (condition, chosen) in [
        ("g = 1", "a"),
        ("g <> 1", "bd"),
        ("g != 1.5", "abd"),
        ("not g = 1", "bd"),
        ("g > -3.5 and g < 2", "ad"),
        ("1 < g", "b"),
        ("g is null", "c"),
        ("g is not null and s is not null", "ab"),
        ("g in (2, null)", "b"),
        ("g not in (2, null)", ""),
        ("g not in (2, 7)", "ad"),
        ("g between -3 and 1", "ad"),
        ("g not between -3 and 1", "b"),
        ("g = null", ""),
        ("not (g = null)", ""),
        ("g = 1 or s like 'x_'", "ab"),
        ("(g = 1 or g = 2) and not s = 'x'", "b"),
        ("s like '%y'", "b"),
        ("s like '50\\%'", "c"),
        ("s like '%'", "abc"),
        ("s not like 'x%'", "c"),
        ("s >= 'x'", "ab"),
        ("tbname in ('a', 'd')", "ad"),
        ("tbname like '_'", "abcd"),
        ("g = '2'", "b"),
        ("g = 99999999999999999999", ""),
    ] {
        assert_eq!(names(condition), chosen, "{condition}");
    }
}

#[test]
fn times_become_one_range() {
    for (condition, range) in [
        ("ts < 5", (i64::MIN, 4)),
        ("ts <= 5 and ts > 2", (3, 5)),
        ("5 >= ts", (i64::MIN, 5)),
        ("ts = 7", (7, 7)),
        ("ts between 2 and 9 and (ts >= 4)", (4, 9)),
        ("ts >= '1970-01-01T00:00:01Z'", (1_000, i64::MAX)),
        ("ts < now - 1s", (i64::MIN, 3_999)),
        ("_rowts > 1", (2, i64::MAX)),
    ] {
        let found = filter(condition).unwrap_or_else(|e| panic!("{condition}: {e}"));
        assert_eq!((found.range, found.series), (range, None), "{condition}");
    }
    assert!(filter("ts < 5 and ts > 9").unwrap().is_empty());
    assert!(filter("ts = null").unwrap().is_empty());
    let both = filter("ts < 5 and g = 1").unwrap();
    assert!(both.range == (i64::MIN, 4) && both.series.is_some());
}

#[test]
fn unsupported_conditions_are_refused_with_the_reason() {
    for (condition, kind, what) in [
        ("v = 1", Kind::Unsupported, "not on fields"),
        ("ts < 5 or g = 1", Kind::Unsupported, "one time range"),
        ("not ts < 5", Kind::Unsupported, "one time range"),
        ("ts <> 5", Kind::Unsupported, "one time range"),
        ("ts in (1, 2)", Kind::Unsupported, "one time range"),
        ("nope = 1", Kind::NotFound, "nope"),
        ("g = 'x'", Kind::Invalid, "cannot compare the column"),
        ("g like '1'", Kind::Invalid, "LIKE needs a text column"),
        ("abs(g) = 1", Kind::Unsupported, "functions of columns"),
        ("g", Kind::Invalid, "expected ="),
        ("g = 1 and", Kind::Invalid, "expected a column name"),
        ("g in ()", Kind::Invalid, "expected a value"),
        ("g ! 1", Kind::Invalid, "expected =, <>"),
    ] {
        let error = filter(condition).unwrap_err();
        assert!(error.kind() == kind && error.to_string().contains(what), "{condition}: {error}");
    }
    let deep = format!("{}g = 1{}", "(".repeat(100), ")".repeat(100));
    assert_eq!(filter(&deep).unwrap_err().kind(), Kind::Invalid);
}
