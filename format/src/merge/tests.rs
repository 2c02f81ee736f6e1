use std::{collections::BTreeMap, sync::Arc};

use arrow::{
    array::{
        Array, ArrayRef, AsArray, BooleanArray, Float32Array, Float64Array, Int32Array, Int64Array, RecordBatch,
        StringArray, TimestampMillisecondArray, UInt32Array,
    },
    datatypes::{DataType, Int32Type, Schema, SchemaRef},
};
use rand::{Rng, SeedableRng, rngs::StdRng};

use super::*;
use crate::{
    error::Kind,
    ids::{ColumnId, DatabaseId, TableId},
    rows::{Block, SeriesSet, tbname_field},
    schema::{Role, Supertable, field_with_id},
    types::{Precision, Scalar, Type},
};

/// A row of the reference model: series, ts, an i32, an f64 by its bits, a text, a boolean.
type Row = (u32, i64, Option<i32>, Option<u64>, Option<String>, Option<bool>);

fn table() -> Supertable {
    let field = |name: &str, ty| (name.to_owned(), Role::Field, ty);
    let columns = [
        ("ts".to_owned(), Role::Time, Type::Timestamp),
        field("i", Type::Int),
        field("d", Type::Double),
        field("t", Type::NChar(None)),
        field("b", Type::Bool),
        ("grp".to_owned(), Role::Tag, Type::Int),
        ("label".to_owned(), Role::Tag, Type::Binary(Some(16))),
    ];
    Supertable::new(TableId(1), DatabaseId(1), "t", columns).unwrap()
}

fn schema() -> SchemaRef {
    Block::rows_schema(&table(), Precision::Milli)
}

fn batch(rows: &[Row]) -> RecordBatch {
    let columns: Vec<ArrayRef> = vec![
        Arc::new(UInt32Array::from_iter_values(rows.iter().map(|r| r.0))),
        Arc::new(TimestampMillisecondArray::from_iter_values(rows.iter().map(|r| r.1))),
        Arc::new(rows.iter().map(|r| r.2).collect::<Int32Array>()),
        Arc::new(rows.iter().map(|r| r.3.map(f64::from_bits)).collect::<Float64Array>()),
        Arc::new(rows.iter().map(|r| r.4.clone()).collect::<StringArray>()),
        Arc::new(rows.iter().map(|r| r.5).collect::<BooleanArray>()),
    ];
    RecordBatch::try_new(schema(), columns).unwrap()
}

fn random_row(rng: &mut StdRng, series: u32, times: i64) -> Row {
    let some = |rng: &mut StdRng| rng.random_bool(0.6);
    (
        rng.random_range(0..series),
        rng.random_range(-times..times),
        some(rng).then(|| rng.random()),
        some(rng).then(|| [0f64, -0.0, f64::NAN, 1.5, f64::NEG_INFINITY][rng.random_range(0..5)].to_bits()),
        some(rng).then(|| "é".repeat(rng.random_range(0..4))),
        some(rng).then(|| rng.random()),
    )
}

/// The reference result: a map by key, each column overwritten by non-null values.
fn oracle<'a>(rows: impl IntoIterator<Item = &'a Row>) -> Vec<Row> {
    let mut map: BTreeMap<(u32, i64), Row> = BTreeMap::new();
    for r in rows {
        let old = map.entry((r.0, r.1)).or_insert((r.0, r.1, None, None, None, None));
        old.2 = r.2.or(old.2);
        old.3 = r.3.or(old.3);
        old.4 = r.4.clone().or(old.4.take());
        old.5 = r.5.or(old.5);
    }
    map.into_values().collect()
}

fn names(n: u32) -> SeriesSet {
    SeriesSet::of_names((0..n).map(|i| format!("s{i}")))
}

/// Asserts equality in every value and bit (NaN equals itself).
fn assert_same(found: &RecordBatch, expected: &RecordBatch) {
    assert_eq!(found.schema(), expected.schema());
    for (a, b) in found.columns().iter().zip(expected.columns()) {
        assert_eq!(a.to_data(), b.to_data());
    }
}

#[test]
fn sorting_and_merging_agree_with_a_map_on_random_rows() {
    for seed in 0..300 {
        let mut rng = StdRng::seed_from_u64(seed);
        let series = rng.random_range(1..6);
        let times = [2, 50, 1_000_000][rng.random_range(0..3)];
        let batches: Vec<Vec<Row>> = (0..rng.random_range(1..6))
            .map(|_| (0..rng.random_range(0..40)).map(|_| random_row(&mut rng, series, times)).collect())
            .collect();
        let arrow: Vec<RecordBatch> = batches.iter().map(|b| batch(b)).collect();
        let expected = batch(&oracle(batches.iter().flatten()));
        // With many more series than rows, another algorithm is used.
        for series_count in [series as usize, 100_000] {
            assert_same(&sort_newest(&arrow, series_count).unwrap(), &expected);
        }
        let runs: Vec<RecordBatch> = batches.iter().map(|b| batch(&oracle(b))).collect();
        assert_same(&merge_sorted(&runs).unwrap(), &expected);

        let newest = sort_newest_counted(&arrow, &names(series)).unwrap();
        assert_same(&newest.rows, &expected);
        let hash = |b: &RecordBatch| content_hash(&names(series), b).unwrap();
        let input = arrow.iter().map(hash).fold(0u64, u64::wrapping_add);
        assert_eq!(input, hash(&newest.rows).wrapping_add(newest.dropped.hash), "seed {seed}");
        let rows: usize = batches.iter().map(Vec::len).sum();
        assert_eq!(rows as u64, newest.rows.num_rows() as u64 + newest.dropped.rows);
    }
}

#[test]
fn a_sorted_batch_without_repeats_is_not_copied() {
    let sorted =
        batch(&[(0, 1, Some(1), None, None, None), (0, 2, None, None, None, None), (1, 0, None, None, None, None)]);
    let same = sort_newest(std::slice::from_ref(&sorted), 2).unwrap();
    assert_eq!(
        same.column(2).as_primitive::<Int32Type>().values().as_ptr(),
        sorted.column(2).as_primitive::<Int32Type>().values().as_ptr()
    );
}

#[test]
fn wrong_input_is_an_error() {
    assert_eq!(sort_newest(&[], 1).unwrap_err().kind(), Kind::Invalid);
    let rows = batch(&[(5, 1, None, None, None, None)]);
    let e = sort_newest(std::slice::from_ref(&rows), 5).unwrap_err();
    assert_eq!((e.kind(), e.context("found")), (Kind::Internal, Some("5")));
    assert_eq!(content_hash(&names(5), &rows).unwrap_err().kind(), Kind::Internal);
    let other = rows.project(&[0, 1, 2]).unwrap();
    assert_eq!(sort_newest(&[rows, other], 6).unwrap_err().kind(), Kind::Internal);
}

/// Two columns of one row, hashed as the specification defines.
#[test]
fn the_content_hash_is_as_specified() {
    use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};
    let rows = batch(&[(1, -7, Some(-3), None, Some("xyz".to_owned()), None)]);
    let row = xxh3_64(&[xxh3_64(b"s1").to_le_bytes(), (-7i64).to_le_bytes()].concat());
    let seed = |id: u64| row.wrapping_add(id.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let expected = row
        .wrapping_add(xxh3_64_with_seed(&(-3i64).to_le_bytes(), seed(1)))
        .wrapping_add(xxh3_64_with_seed(b"xyz", seed(3)));
    assert_eq!(content_hash(&names(2), &rows).unwrap(), expected);
}

#[test]
fn the_content_hash_ignores_order_width_and_columns_of_nulls_but_no_value() {
    let mut rng = StdRng::seed_from_u64(1);
    let rows = oracle(&(0..5_000).map(|_| random_row(&mut rng, 7, 1_000_000)).collect::<Vec<_>>());
    let hash = content_hash(&names(7), &batch(&rows)).unwrap();
    let mut reversed = rows.clone();
    reversed.reverse();
    assert_eq!(content_hash(&names(7), &batch(&reversed)).unwrap(), hash);
    let halves = [&rows[..rows.len() / 3], &rows[rows.len() / 3..]];
    let sum = halves.iter().map(|h| content_hash(&names(7), &batch(h)).unwrap()).fold(0u64, u64::wrapping_add);
    assert_eq!(sum, hash);
    let mut changed = rows.clone();
    changed[17].5 = Some(!changed[17].5.unwrap_or_default());
    assert_ne!(content_hash(&names(7), &batch(&changed)).unwrap(), hash);

    let of = |ty: DataType, values: ArrayRef| {
        let fields =
            vec![schema().field(0).clone(), schema().field(1).clone(), field_with_id("v", ty, true, ColumnId(9))];
        let keys = batch(&[(0, 1, None, None, None, None), (1, 1, None, None, None, None)]);
        let columns = vec![keys.column(0).clone(), keys.column(1).clone(), values];
        content_hash(&names(2), &RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap()).unwrap()
    };
    assert_eq!(
        of(DataType::Int32, Arc::new(Int32Array::from(vec![Some(-1), None]))),
        of(DataType::Int64, Arc::new(Int64Array::from(vec![Some(-1), None])))
    );
    assert_eq!(
        of(DataType::Float32, Arc::new(Float32Array::from(vec![f32::NAN, 0.1]))),
        of(DataType::Float64, Arc::new(Float64Array::from(vec![-f64::NAN, f64::from(0.1f32)])))
    );
    let keys = batch(&[(0, 1, None, None, None, None), (1, 1, None, None, None, None)]);
    assert_eq!(of(DataType::Int32, Arc::new(Int32Array::new_null(2))), content_hash(&names(2), &keys).unwrap());
}

fn set(names: &[&str], grp: Vec<Option<i32>>, label: Option<Vec<Option<&str>>>) -> SeriesSet {
    let t = table();
    let id = |name| t.column(name).unwrap().id;
    let mut fields = vec![tbname_field().as_ref().clone(), field_with_id("grp", DataType::Int32, true, id("grp"))];
    let mut columns: Vec<ArrayRef> =
        vec![Arc::new(StringArray::from_iter_values(names)), Arc::new(Int32Array::from(grp))];
    if let Some(label) = label {
        fields.push(field_with_id("label", DataType::Utf8, true, id("label")));
        columns.push(Arc::new(StringArray::from(label)));
    }
    SeriesSet::try_new(RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap()).unwrap()
}

#[test]
fn series_are_ordered_by_the_tag_of_fewest_values_then_by_name() {
    // label has two values, grp three: label comes first.
    let a = set(&["d3", "d1"], vec![Some(3), Some(1)], Some(vec![Some("x"), Some("y")]));
    let b = set(&["d2", "d4", "d1"], vec![Some(2), Some(2), None], Some(vec![Some("y"), Some("y"), Some("x")]));
    let order = series_order(&[&a, &b], &table(), Precision::Milli).unwrap();
    let found: Vec<_> = order.series.names().iter().flatten().collect();
    assert_eq!(found, ["d3", "d1", "d2", "d4"]);
    assert_eq!(order.ranks, vec![vec![0, 1], vec![2, 3, 1]]);
    assert_eq!(order.series.batch().schema(), SeriesSet::schema_of(&table(), Precision::Milli));
}

#[test]
fn the_first_tag_wins_a_null_is_filled_and_an_override_beats_both() {
    let a = set(&["d1", "d2"], vec![Some(1), None], None);
    let b = set(&["d2", "d1"], vec![Some(8), Some(9)], Some(vec![Some("l"), None]));
    let mut t = table();
    let (grp, label) = (t.column("grp").unwrap().id, t.column("label").unwrap().id);
    let tags = |order: &SeriesOrder| {
        let at = |name| order.series.names().iter().position(|n| n == Some(name)).unwrap();
        let value = |name| {
            let grp = order.series.tag(grp).unwrap().as_primitive::<Int32Type>();
            let label = order.series.tag(label).unwrap().as_string::<i32>();
            (
                grp.is_valid(at(name)).then(|| grp.value(at(name))),
                label.is_valid(at(name)).then(|| label.value(at(name)).to_owned()),
            )
        };
        (value("d1"), value("d2"))
    };
    let order = series_order(&[&a, &b], &t, Precision::Milli).unwrap();
    assert_eq!(tags(&order), ((Some(1), None), (Some(8), Some("l".to_owned()))));

    t.overrides.insert("d1".to_owned(), [(label, Some(Scalar::Text("new".to_owned())))].into());
    t.overrides.insert("d2".to_owned(), [(label, None), (grp, Some(Scalar::Int(5)))].into());
    t.overrides.insert("elsewhere".to_owned(), [(grp, Some(Scalar::Int(6)))].into());
    let order = series_order(&[&a, &b], &t, Precision::Milli).unwrap();
    assert_eq!(tags(&order), ((Some(1), Some("new".to_owned())), (Some(5), None)));
}

#[test]
fn the_order_of_no_sets_is_empty() {
    let order = series_order(&[], &table(), Precision::Milli).unwrap();
    assert_eq!((order.series.len(), order.ranks.len()), (0, 0));
    let none = set(&[], vec![], None);
    assert_eq!(series_order(&[&none], &table(), Precision::Milli).unwrap().ranks, vec![Vec::<u32>::new()]);
}
