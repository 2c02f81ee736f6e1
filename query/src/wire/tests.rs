#![allow(clippy::unwrap_used)]

use arrow::{
    array::{
        BinaryViewArray, DictionaryArray, Int16Array, Int64Array, StringArray, StringViewArray,
        TimestampMillisecondArray, TimestampNanosecondArray, UInt8Array, UInt64Array,
    },
    datatypes::Int32Type,
};

use super::*;
use crate::Kind;

fn wire_of(name: &str, array: ArrayRef) -> Result<ArrayRef> {
    let batch = RecordBatch::try_from_iter([(name, array)]).unwrap();
    let schema = wire_schema(batch.schema_ref());
    Ok(wire_batch(&batch, &schema, &mut Dictionaries::default())?.column(0).clone())
}

#[test]
fn every_wire_type_is_readable_by_clients() {
    let unwanted = [
        DataType::Utf8View,
        DataType::LargeUtf8,
        DataType::BinaryView,
        DataType::LargeBinary,
        DataType::UInt8,
        DataType::UInt16,
        DataType::UInt32,
        DataType::UInt64,
        DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into())),
        DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8View)),
        DataType::List(Arc::new(Field::new("item", DataType::Utf8View, true))),
    ];
    let schema = Schema::new(unwanted.iter().map(|t| Field::new("c", t.clone(), true)).collect::<Vec<_>>());
    let wire = wire_schema(&schema);
    let found: Vec<String> = wire.fields().iter().map(|f| f.data_type().to_string()).collect();
    for word in ["View", "Large", "UInt", "Dictionary", "UTC", "ms"] {
        assert!(!found.iter().any(|t| t.contains(word)), "{word} in {found:?}");
    }
    assert_eq!(
        wire_schema(&wire).fields().iter().map(|f| f.data_type()).collect::<Vec<_>>(),
        wire.fields().iter().map(|f| f.data_type()).collect::<Vec<_>>()
    );
    assert_eq!(wire_schema(&wire), wire, "a wire schema is its own wire schema");
}

#[test]
fn the_source_type_stays_in_the_metadata() {
    let schema = Schema::new(vec![
        Field::new("a", DataType::UInt32, true),
        Field::new("b", DataType::Timestamp(TimeUnit::Microsecond, None), false),
        Field::new("c", DataType::Utf8, true)
            .with_metadata([(TYPE_NAME.to_owned(), "NCHAR".to_owned()), ("x".to_owned(), "y".to_owned())].into()),
    ]);
    let wire = wire_schema(&schema);
    assert_eq!(wire.field(0).metadata()[TYPE_NAME], "INT UNSIGNED");
    assert_eq!(wire.field(1).metadata()[PRECISION], "6");
    assert_eq!(wire.field(2).metadata().len(), 1);
    assert_eq!(wire.field(2).metadata()[TYPE_NAME], "NCHAR");
}

#[test]
fn values_keep_their_meaning() {
    let ms = Arc::new(TimestampMillisecondArray::from(vec![Some(1_563_249_700_000), None, Some(-1)]));
    let ns = wire_of("ts", ms).unwrap();
    assert_eq!(
        ns.as_primitive::<TimestampNanosecondType>(),
        &TimestampNanosecondArray::from(vec![Some(1_563_249_700_000_000_000), None, Some(-1_000_000)])
    );
    let dictionary: DictionaryArray<Int32Type> = ["a", "b", "a"].into_iter().collect();
    assert_eq!(wire_of("d", Arc::new(dictionary)).unwrap().as_string::<i32>(), &StringArray::from(vec!["a", "b", "a"]));
    let view = StringViewArray::from(vec![Some("longer than twelve bytes"), None]);
    assert_eq!(wire_of("v", Arc::new(view)).unwrap().as_string::<i32>().value(0), "longer than twelve bytes");
    let unsigned = UInt8Array::from(vec![255, 0]);
    assert_eq!(wire_of("u", Arc::new(unsigned)).unwrap().as_primitive(), &Int16Array::from(vec![255, 0]));
    let bytes = BinaryViewArray::from_iter_values([b"\xff"]);
    assert_eq!(wire_of("b", Arc::new(bytes)).unwrap().as_binary::<i32>().value(0), b"\xff");
}

#[test]
fn columns_with_their_wire_type_are_shared() {
    let array: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
    assert!(Arc::ptr_eq(&wire_of("a", array.clone()).unwrap(), &array));
    let unsigned = Arc::new(UInt64Array::from(vec![Some(7), None]));
    let signed = wire_of("u", unsigned.clone()).unwrap();
    assert_eq!(signed.as_primitive::<Int64Type>(), &Int64Array::from(vec![Some(7), None]));
    assert_eq!(signed.to_data().buffers()[0].as_ptr(), unsigned.to_data().buffers()[0].as_ptr());
}

#[test]
fn a_value_that_does_not_fit_is_an_error_with_column_and_value() {
    let far = Arc::new(TimestampMillisecondArray::from(vec![Some(0), Some(i64::MAX / 1_000_000 + 1)]));
    let e = wire_of("ts", far).unwrap_err();
    assert_eq!((e.kind(), e.context("column"), e.context("row")), (Kind::Invalid, Some("ts"), Some("1")));
    let large = Arc::new(UInt64Array::from(vec![u64::MAX]));
    let e = wire_of("u", large).unwrap_err();
    assert_eq!(
        (e.kind(), e.context("column"), e.context("found")),
        (Kind::Invalid, Some("u"), Some("18446744073709551615"))
    );
}

#[test]
fn values_under_nulls_are_ignored() {
    let values = ScalarBuffer::from(vec![i64::MAX, 5]);
    let nulls = arrow::buffer::NullBuffer::from(vec![false, true]);
    let array = PrimitiveArray::<TimestampMillisecondType>::new(values, Some(nulls));
    let ns = wire_of("ts", Arc::new(array)).unwrap();
    assert_eq!(
        ns.as_primitive::<TimestampNanosecondType>(),
        &TimestampNanosecondArray::from(vec![None, Some(5_000_000)])
    );
}

#[test]
fn dictionaries_have_distinct_values_which_batches_share() {
    let values: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), None, Some("b"), Some("a")]));
    let batch = |keys: Vec<Option<i32>>| {
        let keys = arrow::array::Int32Array::from(keys);
        let column: ArrayRef = Arc::new(DictionaryArray::try_new(keys, values.clone()).unwrap());
        RecordBatch::try_from_iter_with_nullable([("t", column, true)]).unwrap()
    };
    let mut known = Dictionaries::default();
    let mut sent = |keys: &[Option<i32>]| {
        let batch = batch(keys.to_vec());
        let sent = wire_batch(&batch, &batch.schema(), &mut known).unwrap().column(0).clone();
        let text = |column: &ArrayRef| cast_with_options(column, &DataType::Utf8, &CastOptions::default()).unwrap();
        assert_eq!(&text(&sent), &text(batch.column(0)));
        let sent = sent.as_dictionary::<Int32Type>().clone();
        assert_eq!(sent.values().null_count(), 0);
        assert_eq!(sent.keys().null_count(), text(batch.column(0)).null_count());
        sent
    };
    let first = sent(&[Some(3), Some(0), None, Some(1), Some(2)]);
    assert_eq!(first.values().as_string::<i32>(), &StringArray::from(vec!["a", "b"]));
    let second = sent(&[Some(2), Some(2), Some(2), Some(3)]);
    assert!(Arc::ptr_eq(first.values(), second.values()), "they are sent once");
    // A short batch has no values that none of its rows uses.
    assert_eq!(sent(&[Some(2), None]).values().as_string::<i32>(), &StringArray::from(vec!["b"]));
}
