#![allow(clippy::unwrap_used)]

use arrow::{
    array::{
        BinaryViewArray, BooleanArray, DictionaryArray, Float32Array, Float64Array, Int8Array, Int32Array, Int64Array,
        LargeStringArray, StringArray, StringViewArray, TimestampMicrosecondArray, TimestampMillisecondArray,
        TimestampNanosecondArray, TimestampSecondArray, UInt64Array,
    },
    datatypes::{Int32Type, TimeUnit},
};
use tidelake_format::{Kind, types::Precision};

use super::*;
use crate::decode::fixture::Fixture;

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true))).unwrap()
}

fn ms(values: Vec<i64>) -> ArrayRef {
    Arc::new(TimestampMillisecondArray::from(values))
}

fn ints(values: Vec<Option<i64>>) -> ArrayRef {
    Arc::new(Int64Array::from(values))
}

fn texts(values: Vec<&str>) -> ArrayRef {
    Arc::new(StringArray::from(values))
}

fn rows(fixture: &Fixture, batch: &RecordBatch) -> Vec<String> {
    let table = Arc::clone(&fixture.tables[0]);
    let decoded = decode(batch, &table, &fixture.database, 0).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(decoded.accepted, batch.num_rows());
    fixture.rows(&decoded.blocks)
}

fn refused(fixture: &Fixture, columns: Vec<(&str, ArrayRef)>) -> Error {
    let table = Arc::clone(&fixture.tables[0]);
    decode(&batch(columns), &table, &fixture.database, 0).unwrap_err()
}

#[test]
fn columns_are_found_by_name_in_any_order_and_series_by_tbname() {
    let fixture = Fixture::devices();
    let found = rows(
        &fixture,
        &batch(vec![
            ("Temperature", ints(vec![Some(40), None, Some(44)])),
            ("TBNAME", Arc::new(StringViewArray::from(vec!["d1", "d2", "d1"]))),
            ("ts", ms(vec![1, 2, 3])),
            ("devid", ints(vec![Some(1), Some(2), Some(1)])),
            ("humidity", Arc::new(Float64Array::from(vec![0.1, f64::NAN, 12.0]))),
            ("devname", Arc::new(["a", "b", "a"].into_iter().collect::<DictionaryArray<Int32Type>>())),
        ]),
    );
    assert_eq!(
        found,
        [
            "devices|d1|devid=1 devname=a|1|humidity=0.1 temperature=40",
            "devices|d2|devid=2 devname=b|2|humidity=NaN",
            "devices|d1|devid=1 devname=a|3|humidity=12.0 temperature=44",
        ]
    );
}

#[test]
fn without_tbname_the_tags_name_the_series_as_line_protocol_does() {
    let fixture = Fixture::devices();
    let found = rows(
        &fixture,
        &batch(vec![
            ("ts", ms(vec![1, 2, 3, 4])),
            ("temperature", ints(vec![Some(1); 4])),
            ("devgroup", Arc::new(Int8Array::from(vec![Some(7), Some(7), None, Some(7)]))),
            ("devid", texts(vec!["1", "2", "1", "01"])),
        ]),
    );
    assert_eq!(
        found,
        [
            "devices|devgroup=7,devid=1|devgroup=7 devid=1|1|temperature=1",
            "devices|devgroup=7,devid=2|devgroup=7 devid=2|2|temperature=1",
            "devices|devid=1|devid=1|3|temperature=1",
            "devices|devgroup=7,devid=1|devgroup=7 devid=1|4|temperature=1",
        ]
    );
    let error = refused(&fixture, vec![("ts", ms(vec![1])), ("temperature", ints(vec![Some(1)]))]);
    assert!(error.message().contains("tbname, or tags"));
}

#[test]
fn timestamps_of_every_unit_and_zone_become_ticks_or_an_error() {
    let mut fixture = Fixture::new(Precision::Milli);
    fixture.create("t", &[("ts", Role::Time, Type::Timestamp), ("at", Role::Field, Type::Timestamp)]);
    let ts = |array: ArrayRef| batch(vec![("ts", array.clone()), ("at", array)]);
    let wanted = ["t|t||1563249700000|at=2019-07-16T04:01:40", "t|t||-1000|at=1969-12-31T23:59:59"];
    let seconds = TimestampSecondArray::from(vec![1_563_249_700, -1]);
    for array in [
        Arc::new(seconds.clone()) as ArrayRef,
        Arc::new(seconds.with_timezone("Asia/Shanghai")),
        ms(vec![1_563_249_700_000, -1_000]),
        Arc::new(TimestampMicrosecondArray::from(vec![1_563_249_700_000_000, -1_000_000]).with_timezone("+02:00")),
        Arc::new(TimestampNanosecondArray::from(vec![1_563_249_700_000_000_000, -1_000_000_000])),
        ints(vec![Some(1_563_249_700_000), Some(-1_000)]),
    ] {
        assert_eq!(rows(&fixture, &ts(array)), wanted);
    }
    for (array, what) in [
        (Arc::new(TimestampNanosecondArray::from(vec![1_000_000, 1_000_001])) as ArrayRef, "not exactly representable"),
        (Arc::new(TimestampMicrosecondArray::from(vec![0, -1])), "not exactly representable"),
        (Arc::new(TimestampSecondArray::from(vec![0, i64::MAX])), "out of range"),
        (ms(vec![0, i64::MAX]), "out of range"),
        (ints(vec![Some(0), Some(i64::MIN)]), "out of range"),
        (ints(vec![Some(0), None]), "must not be null"),
    ] {
        let error = refused(&fixture, vec![("ts", array)]);
        assert!(error.to_string().contains(what), "{error}");
        assert_eq!((error.context("row"), error.context("column")), (Some("2"), Some("ts")));
    }
    fixture.database.keep_ms = 10;
    let table = Arc::clone(&fixture.tables[0]);
    let error = decode(&ts(ms(vec![100, 89])), &table, &fixture.database, 100).unwrap_err();
    assert!(error.to_string().contains("Timestamp data out of range"), "{error}");
}

#[test]
fn values_are_cast_only_without_loss() {
    let mut fixture = Fixture::new(Precision::Milli);
    fixture.create(
        "t",
        &[
            ("ts", Role::Time, Type::Timestamp),
            ("tiny", Role::Field, Type::TinyInt),
            ("u64", Role::Field, Type::UBigInt),
            ("f32", Role::Field, Type::Float),
            ("f64", Role::Field, Type::Double),
            ("bin", Role::Field, Type::Binary(Some(3))),
            ("nch", Role::Field, Type::NChar(Some(2))),
            ("vb", Role::Field, Type::VarBinary(Some(2))),
            ("ok", Role::Field, Type::Bool),
        ],
    );
    let one = |name: &'static str, array: ArrayRef| vec![("ts", ms((0..array.len() as i64).collect())), (name, array)];
    for (name, array, wanted) in [
        ("tiny", ints(vec![Some(-128), None, Some(127)]), vec!["tiny=-128", "", "tiny=127"]),
        ("tiny", Arc::new(Float64Array::from(vec![40.0, -1.0])) as ArrayRef, vec!["tiny=40", "tiny=-1"]),
        ("tiny", texts(vec!["7"]), vec!["tiny=7"]),
        ("u64", Arc::new(UInt64Array::from(vec![u64::MAX])), vec!["u64=18446744073709551615"]),
        ("u64", Arc::new(Int32Array::from(vec![5])), vec!["u64=5"]),
        ("f32", Arc::new(Float64Array::from(vec![0.1, f64::INFINITY])), vec!["f32=0.1", "f32=inf"]),
        ("f64", Arc::new(Float32Array::from(vec![0.5])), vec!["f64=0.5"]),
        ("f64", ints(vec![Some(1 << 53)]), vec!["f64=9007199254740992.0"]),
        ("bin", Arc::new(LargeStringArray::from(vec!["abc"])), vec!["bin=abc"]),
        ("nch", Arc::new(StringViewArray::from(vec![Some("\u{4e2d}\u{e4}"), None])), vec!["nch=\u{4e2d}\u{e4}", ""]),
        ("vb", Arc::new(BinaryViewArray::from(vec![&b"\xff\x00"[..]])), vec!["vb=ff00"]),
        ("ok", Arc::new(BooleanArray::from(vec![true])), vec!["ok=true"]),
        ("ok", arrow::array::new_null_array(&DataType::Null, 1), vec![""]),
    ] {
        let wanted: Vec<_> = wanted.iter().enumerate().map(|(ts, row)| format!("t|t||{ts}|{row}")).collect();
        assert_eq!(rows(&fixture, &batch(one(name, array))), wanted);
    }
    for (name, array, found) in [
        ("tiny", ints(vec![Some(0), Some(128)]), "128"),
        ("tiny", Arc::new(Float64Array::from(vec![0.0, 1.5])) as ArrayRef, "1.5"),
        ("tiny", texts(vec!["1", "x"]), "'x'"),
        ("tiny", Arc::new(BooleanArray::from(vec![None, Some(true)])), "TRUE"),
        ("u64", ints(vec![Some(0), Some(-1)]), "-1"),
        ("f32", Arc::new(Float64Array::from(vec![0.0, 1e300])), "1000000000000"),
        ("bin", texts(vec!["abc", "abcd"]), "'abcd'"),
        ("nch", texts(vec!["ab", "abc"]), "'abc'"),
        ("vb", Arc::new(BinaryViewArray::from(vec![&b"a"[..], b"abc"])), "3 bytes"),
    ] {
        let error = refused(&fixture, one(name, array));
        assert_eq!(
            (error.kind(), error.context("row"), error.context("column")),
            (Kind::Invalid, Some("2"), Some(name))
        );
        assert!(error.context("found").unwrap().starts_with(found), "{error}");
    }
}

#[test]
fn batches_of_the_wrong_shape_are_refused() {
    let fixture = Fixture::devices();
    let v = || ints(vec![Some(1)]);
    for (columns, what) in [
        (vec![("temperature", v()), ("devid", v())], "has no time column"),
        (vec![("ts", ms(vec![1])), ("nope", v())], "Invalid column name: nope"),
        (vec![("ts", ms(vec![1])), ("devid", v()), ("DEVID", v())], "duplicate column"),
        (vec![("ts", ms(vec![1])), ("tbname", texts(vec![""]))], "1 to 192 bytes"),
        (
            vec![("ts", ms(vec![1])), ("tbname", Arc::new(StringArray::from(vec![None::<&str>])) as ArrayRef)],
            "must not be null",
        ),
        (vec![("ts", ms(vec![1])), ("devid", texts(vec!["x"]))], "invalid value"),
    ] {
        let error = refused(&fixture, columns);
        assert!(error.to_string().contains(what), "{error}");
        assert!(matches!(error.kind(), Kind::Invalid | Kind::NotFound));
    }
    let empty = batch(vec![("ts", ms(vec![])), ("devid", ints(vec![]))]);
    assert!(decode(&empty, &fixture.tables[0], &fixture.database, 0).unwrap().blocks.is_empty());
}

#[test]
fn a_new_table_takes_its_columns_from_the_schema() {
    let tag = [(ROLE.to_owned(), "tag".to_owned())];
    let field = |name: &str, data_type: DataType| Field::new(name, data_type, true);
    let schema = Schema::new(vec![
        field("host", DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8)))
            .with_metadata(tag.into()),
        field("other", DataType::Timestamp(TimeUnit::Second, None)),
        field("Time", DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into()))),
        field("tbname", DataType::Utf8),
        field("note", DataType::Utf8View),
        field("v", DataType::UInt16),
    ]);
    let columns = infer_table(&schema).unwrap();
    let found: Vec<_> = columns.iter().map(|(n, r, t)| format!("{n} {r:?} {t}")).collect();
    assert_eq!(
        found,
        [
            "Time Time TIMESTAMP",
            "other Field TIMESTAMP",
            "note Field VARCHAR",
            "v Field SMALLINT UNSIGNED",
            "host Tag VARCHAR",
        ]
    );
    for (schema, what) in [
        (Schema::new(vec![field("v", DataType::Int8)]), "timestamp column"),
        (
            Schema::new(vec![field("ts", DataType::Date32), field("l", DataType::new_list(DataType::Int8, true))]),
            "Arrow type",
        ),
    ] {
        assert!(infer_table(&schema).unwrap_err().message().contains(what));
    }
}
