#![allow(clippy::unwrap_used)]

use arrow::array::{Array, AsArray};
use tidelake_format::{
    ids::{ColumnId, DatabaseId},
    schema::Role,
};

use super::*;

fn table() -> Supertable {
    let columns = [
        ("ts", Role::Time, Type::Timestamp),
        ("a", Role::Field, Type::Int),
        ("s", Role::Field, Type::Binary(Some(5))),
        ("k", Role::Tag, Type::NChar(None)),
        ("n", Role::Tag, Type::Float),
    ];
    let columns = columns.map(|(name, role, ty)| (name.to_owned(), role, ty));
    Supertable::new(TableId(3), DatabaseId(0), "t", columns).unwrap()
}

fn name_of(table: &Supertable, tags: &[(&str, &str)]) -> String {
    let mut tags: Vec<_> = tags
        .iter()
        .map(|(name, value)| {
            let column = table.column(name).unwrap();
            (column, Tag::parse(column.ty, value).unwrap())
        })
        .collect();
    let mut out = "left over".to_owned();
    canonical_name(&table.name, &mut tags, &mut out);
    out
}

#[test]
fn cancelled_rows_and_values_leave_nothing_behind() {
    let table = table();
    let mut builder = BlockBuilder::new(&table, Precision::Micro);
    let series = builder.series("x", &[]);
    let (a, s) = (builder.column(table.column("a").unwrap()), builder.column(table.column("s").unwrap()));
    let set = |builder: &mut BlockBuilder, value: i64, text: &str| {
        let (cell, row) = builder.cell(a);
        cell.set_int(row, value).unwrap();
        let (cell, row) = builder.cell(s);
        cell.set_text(row, text)
    };
    set(&mut builder, 1, "one").unwrap();
    builder.end_row(series, 10);
    assert_eq!(set(&mut builder, 2, "longer").unwrap_err(), Fault::Width { limit: 5, found: 6 });
    builder.cancel_row();
    builder.end_row(series, 20);
    set(&mut builder, 3, "three").unwrap();
    set(&mut builder, 4, "four").unwrap();
    builder.end_row(series, 30);
    set(&mut builder, 5, "five").unwrap();
    let block = builder.finish().unwrap();
    assert_eq!(block.len(), 3);
    let a = block.field(table.column("a").unwrap().id).unwrap();
    let s = block.field(table.column("s").unwrap().id).unwrap();
    let ints: Vec<_> = a.as_primitive::<arrow::datatypes::Int32Type>().iter().collect();
    assert_eq!(ints, [Some(1), None, Some(4)]);
    assert_eq!(s.as_string::<i32>().iter().collect::<Vec<_>>(), [Some("one"), None, Some("four")]);
    assert!(a.to_data().validate_full().is_ok() && s.to_data().validate_full().is_ok());
}

#[test]
fn columns_that_no_row_sets_are_not_in_the_block() {
    let table = table();
    let mut builder = BlockBuilder::new(&table, Precision::Milli);
    let at = builder.column(table.column("a").unwrap());
    assert_eq!(at, builder.column(table.column("a").unwrap()));
    let series = builder.series("x", &[]);
    builder.end_row(series, 1);
    builder.truncate(0);
    let block = builder.finish().unwrap();
    assert_eq!((block.len(), block.series.len(), block.rows.num_columns()), (0, 1, 2));
}

#[test]
fn a_failed_value_leaves_validity_aligned() {
    let mut cells = FieldColumn::new(ColumnId(1), Type::TinyInt);
    cells.set_null(0);
    assert_eq!(cells.set_int(1, 128), Err(Fault::Range));
    assert_eq!(cells.set_text(1, "x"), Err(Fault::Type));
    cells.set_int(1, -128).unwrap();
    assert_eq!(cells.set_float(2, 1.0), Err(Fault::Type));
    assert_eq!(cells.set_uint(2, u64::MAX), Err(Fault::Range));
    cells.set_int(3, 1).unwrap();
    let array = cells.finish(4, Precision::Milli).unwrap();
    let found: Vec<_> = array.as_primitive::<arrow::datatypes::Int8Type>().iter().collect();
    assert_eq!(found, [None, Some(-128), None, Some(1)]);
}

#[test]
fn series_names_are_sorted_typed_and_injective() {
    let table = table();
    assert_eq!(name_of(&table, &[("n", "1.50"), ("k", "x")]), "k=x,n=1.5");
    assert_eq!(name_of(&table, &[("k", "x,n=1.5")]), "k=x\\,n\\=1.5");
    assert_eq!(name_of(&table, &[("k", "back\\slash\n\u{e4}")]), "k=back\\\\slash\\u{a}\u{e4}");
    assert_eq!(name_of(&table, &[]), "t");
    assert_eq!(untagged_name("a=b"), "a\\=b");
}

#[test]
fn long_series_names_end_in_a_hash_of_the_whole_name() {
    let table = table();
    for fill in ["x", "\u{4e2d}", "\\", ",", "=\\"] {
        let long = |end: &str| name_of(&table, &[("k", &format!("{}{end}", fill.repeat(300)))]);
        let name = long("");
        assert!(name.len() <= 192 && name.len() > 180, "{}", name.len());
        assert_ne!(name, long("y"));
        let (start, hash) = name.rsplit_once(",=").unwrap();
        assert!(hash.len() == 32 && u128::from_str_radix(hash, 16).is_ok());
        assert!(start.bytes().rev().take_while(|b| *b == b'\\').count() % 2 == 0, "the mark is not escaped");
        tidelake_format::schema::check_name("series", &name).unwrap();
        // A tag value that is itself a shortened name gives another name.
        assert_ne!(name_of(&table, &[("k", name.strip_prefix("k=").unwrap())]), name);
    }
    assert_eq!(name_of(&table, &[("k", &"x".repeat(190))]).len(), 192);
}

#[test]
fn a_series_keeps_its_first_tags_and_absent_tags_are_null() {
    let table = table();
    let mut builder = BlockBuilder::new(&table, Precision::Milli);
    let k = table.column("k").unwrap();
    for i in 0..2_000 {
        assert_eq!(builder.series(&format!("s{i}"), &[]), i);
    }
    assert_eq!(builder.series("late", &[(k, Tag::Text("v"))]), 2_000);
    assert_eq!(builder.series("late", &[(k, Tag::Text("other"))]), 2_000);
    assert_eq!(builder.find_series("s1999"), Some(1_999));
    assert_eq!(builder.find_series("nope"), None);
    let block = builder.finish().unwrap();
    let tags = block.series.tag(k.id).unwrap().as_string::<i32>();
    assert_eq!((tags.null_count(), tags.value(2_000)), (2_000, "v"));
}
