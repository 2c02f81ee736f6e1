#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, Float64Array, Int64Array, StringArray, UInt32Array},
    compute::{concat_batches, take},
    datatypes::{DataType, Field, Schema, TimeUnit},
};
use bytes::Bytes;
use parquet::{
    arrow::{
        ArrowSchemaConverter,
        arrow_reader::{ArrowReaderOptions, ParquetRecordBatchReaderBuilder},
    },
    basic::Encoding,
    file::{metadata::PageIndexPolicy, properties::WriterProperties, writer::SerializedFileWriter},
};
use rand::{Rng, SeedableRng, rngs::StdRng};

use super::*;
use crate::file::{
    chunk::{self, Choice, prepare},
    tests::sample::{Values as Kind, random_array},
};

const TYPES: [DataType; 11] = [
    DataType::Int8,
    DataType::Int16,
    DataType::Int32,
    DataType::Int64,
    DataType::UInt8,
    DataType::UInt16,
    DataType::UInt32,
    DataType::UInt64,
    DataType::Float32,
    DataType::Float64,
    DataType::Timestamp(TimeUnit::Millisecond, None),
];

fn column(ty: &DataType) -> (Arc<Schema>, ColumnDescPtr) {
    let schema = Arc::new(Schema::new(vec![Field::new("v", ty.clone(), true)]));
    let column = ArrowSchemaConverter::new().convert(&schema).unwrap().column(0);
    (schema, column)
}

/// Returns a file of one chunk.
fn file(schema: &Schema, chunk: Chunk) -> Bytes {
    let root = ArrowSchemaConverter::new().convert(schema).unwrap().root_schema_ptr();
    let mut writer = SerializedFileWriter::new(Vec::new(), root, Arc::new(WriterProperties::default())).unwrap();
    let mut group = writer.next_row_group().unwrap();
    group.append_column(&Bytes::from(chunk.bytes), chunk.close).unwrap();
    group.close().unwrap();
    writer.into_inner().unwrap().into()
}

/// Random values without NaN, at most `distinct` different ones.
fn few(rng: &mut StdRng, ty: &DataType, rows: usize, distinct: usize, nulls: f64) -> ArrayRef {
    let of = random_array(rng, ty, distinct, Kind::Any, 0.0);
    let is_nan = |i: usize| match arrow::compute::cast(&of.slice(i, 1), &DataType::Float64) {
        Ok(v) => v.as_any().downcast_ref::<Float64Array>().is_some_and(|v| v.value(0).is_nan()),
        Err(_) => false,
    };
    let place = |rng: &mut StdRng| loop {
        let at = rng.random_range(0..distinct);
        if !is_nan(at) {
            return at as u32;
        }
    };
    if (0..distinct).all(is_nan) {
        return few(rng, ty, rows, distinct, nulls);
    }
    let places: UInt32Array = (0..rows).map(|_| (!rng.random_bool(nulls)).then(|| place(rng))).collect();
    take(&of, &places, None).unwrap()
}

#[test]
fn every_reader_sees_the_values_and_bounds_that_it_sees_in_other_encodings() {
    let mut rng = StdRng::seed_from_u64(1);
    for ty in TYPES {
        for distinct in [1, 2, 17, 128, 129, 256] {
            for nulls in [0.0, 0.1, 0.95] {
                let pages: Vec<usize> = (0..rng.random_range(1..6)).map(|_| rng.random_range(1..500)).collect();
                let values = few(&mut rng, &ty, pages.iter().sum(), distinct, nulls);
                let (schema, column) = column(&ty);
                let Some(codes) = Codes::of(&column, &prepare(&values).unwrap()) else {
                    assert_eq!(values.null_count(), values.len(), "{ty}");
                    continue;
                };
                let ours = encode(&column, &codes, values.nulls(), &pages).unwrap();
                let theirs = chunk::encode(&column, &values, &pages, Choice::plain(Encoding::PLAIN)).unwrap();
                let read = [ours, theirs].map(|chunk| {
                    let options = ArrowReaderOptions::new().with_page_index_policy(PageIndexPolicy::Required);
                    let data = file(&schema, chunk);
                    let builder = ParquetRecordBatchReaderBuilder::try_new_with_options(data, options).unwrap();
                    let metadata = builder.metadata().clone();
                    let index = metadata.column_index().unwrap()[0][0].clone();
                    let rows = metadata.offset_index().unwrap()[0][0]
                        .page_locations()
                        .iter()
                        .map(|p| p.first_row_index)
                        .collect::<Vec<_>>();
                    let statistics = metadata.row_group(0).column(0).statistics().unwrap().clone();
                    let batches: Vec<_> = builder.with_batch_size(77).build().unwrap().map(Result::unwrap).collect();
                    let found = concat_batches(&schema, &batches).unwrap().column(0).to_data();
                    let index = format!("{index:?}");
                    let part = |from, to| index.split_once(from).unwrap().1.split_once(to).unwrap().0.to_owned();
                    let index =
                        [("null_pages", "]"), ("null_counts", "]"), ("min_values", "})")].map(|(a, b)| part(a, b));
                    (found, index, rows, statistics)
                });
                let [ours, theirs] = read;
                let what = format!("{distinct} of {ty}, {nulls} null");
                assert_eq!(ours.0, values.to_data(), "{what}");
                assert_eq!(ours.2, theirs.2, "{what}");
                assert_eq!(ours.1, theirs.1, "{what}");
                let bounds = |s: &Statistics| {
                    (s.min_bytes_opt().map(<[u8]>::to_vec), s.max_bytes_opt().map(<[u8]>::to_vec), s.null_count_opt())
                };
                assert_eq!(bounds(&ours.3), bounds(&theirs.3), "{what}");
            }
        }
    }
}

#[test]
fn more_than_256_values_nans_texts_and_nulls_get_no_codes() {
    let codes = |values: ArrayRef| {
        let (_, column) = column(values.data_type());
        Codes::of(&column, &prepare(&values).unwrap()).map(|c| c.entries.len())
    };
    let up_to = |n: i64| Arc::new(Int64Array::from_iter_values((0..n * 3).map(|i| (i % n) << 40))) as ArrayRef;
    assert_eq!((codes(up_to(256)), codes(up_to(257))), (Some(256), None));
    assert_eq!(codes(Arc::new(Float64Array::from(vec![0.0, -0.0, 0.0]))), Some(2));
    assert_eq!(codes(Arc::new(Float64Array::from(vec![0.0, f64::NAN]))), None);
    assert_eq!(codes(Arc::new(StringArray::from(vec!["a"]))), None);
    assert_eq!(codes(Arc::new(Int64Array::from(vec![None; 3]))), None);
}
