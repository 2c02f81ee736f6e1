use std::{collections::BTreeMap, sync::Arc};

use arrow::{
    array::{Array, AsArray, Float64Array, Int64Array, RecordBatch, UInt64Array},
    datatypes::{DataType, Int64Type, UInt64Type},
};
use bytes::Bytes;
use rand::{Rng, SeedableRng, rngs::StdRng};

use super::*;
use crate::{
    error::Kind,
    file::{
        DataFileOptions,
        tests::sample::{Values, encode, random_rows, random_series, table_of_every_type},
    },
    rows::ticks_of,
    schema::field_id,
};

/// The reference result of one aggregate for one series and column; `ts` ascends.
fn oracle(values: &ArrayRef, ts: &[i64], what: Aggregate) -> Option<String> {
    let valid: Vec<usize> = (0..values.len()).filter(|i| values.is_valid(*i)).collect();
    let text = |at: Option<&usize>| at.map(|at| bits(values, *at));
    let order = |a: &usize, b: &usize| compare(values, *a, *b);
    match what {
        Aggregate::Count => Some(valid.len().to_string()),
        Aggregate::First => text(valid.first()),
        Aggregate::Last => text(valid.last()),
        Aggregate::FirstTs => valid.first().map(|i| ts[*i].to_string()),
        Aggregate::LastTs => valid.last().map(|i| ts[*i].to_string()),
        Aggregate::Min => text(valid.iter().min_by(|a, b| order(a, b))),
        Aggregate::Max => text(valid.iter().max_by(|a, b| order(a, b))),
        Aggregate::Sum if valid.is_empty() => None,
        Aggregate::Sum if values.data_type().is_signed_integer() => {
            Some(valid.iter().map(|i| integer(values, *i)).sum::<i128>() as i64).map(|v| v.to_string())
        }
        Aggregate::Sum if values.data_type().is_unsigned_integer() => {
            Some(valid.iter().map(|i| integer(values, *i)).sum::<i128>() as u64).map(|v| v.to_string())
        }
        Aggregate::Sum => {
            let floats = arrow::compute::cast(values, &DataType::Float64).unwrap();
            let floats = floats.as_primitive::<arrow::datatypes::Float64Type>();
            let sum = valid.iter().map(|i| floats.value(*i)).fold(0.0, |a, b| a + b);
            Some(bits(&(Arc::new(Float64Array::from(vec![sum])) as ArrayRef), 0))
        }
    }
}

fn integer(values: &ArrayRef, at: usize) -> i128 {
    match values.data_type().is_signed_integer() {
        true => arrow::compute::cast(&values.slice(at, 1), &DataType::Int64)
            .unwrap()
            .as_primitive::<Int64Type>()
            .value(0)
            .into(),
        false => arrow::compute::cast(&values.slice(at, 1), &DataType::UInt64)
            .unwrap()
            .as_primitive::<UInt64Type>()
            .value(0)
            .into(),
    }
}

/// The text of a value; distinguishes all bit patterns except those of NaNs.
fn bits(values: &ArrayRef, at: usize) -> String {
    match values.data_type() {
        DataType::Float32 => format!("{:?}", values.as_primitive::<arrow::datatypes::Float32Type>().value(at)),
        DataType::Float64 => format!("{:?}", values.as_primitive::<arrow::datatypes::Float64Type>().value(at)),
        DataType::Timestamp(..) => {
            let values = arrow::compute::cast(values, &DataType::Int64).unwrap();
            values.as_primitive::<Int64Type>().value(at).to_string()
        }
        _ => integer(values, at).to_string(),
    }
}

fn compare(values: &ArrayRef, a: usize, b: usize) -> std::cmp::Ordering {
    match values.data_type() {
        DataType::Float32 => {
            let v = values.as_primitive::<arrow::datatypes::Float32Type>();
            v.value(a).total_cmp(&v.value(b))
        }
        DataType::Float64 => {
            let v = values.as_primitive::<arrow::datatypes::Float64Type>();
            v.value(a).total_cmp(&v.value(b))
        }
        DataType::Timestamp(..) => bits(values, a).parse::<i64>().unwrap().cmp(&bits(values, b).parse().unwrap()),
        _ => integer(values, a).cmp(&integer(values, b)),
    }
}

fn has(ty: &DataType, what: Aggregate) -> bool {
    match ty {
        DataType::Boolean | DataType::Utf8 | DataType::Binary => what == Aggregate::Count,
        DataType::Timestamp(..) => what != Aggregate::Sum,
        _ => true,
    }
}

#[test]
fn manifests_agree_with_a_naive_count_of_random_rows_before_and_after_their_bytes() {
    let table = table_of_every_type();
    for seed in 0..12 {
        let mut rng = StdRng::seed_from_u64(100 + seed);
        let lengths: Vec<usize> =
            (0..rng.random_range(1..8)).map(|_| [1, 2, 60, 400][rng.random_range(0..4)]).collect();
        let kind = [Values::Few, Values::Any, Values::Null][rng.random_range(0..3)];
        let series = random_series(&mut rng, &table, lengths.len(), Values::Any);
        let rows = random_rows(&mut rng, &table, &lengths, kind);
        let options = DataFileOptions {
            page_rows: 20,
            page_rows_max: 50,
            row_group_rows: 100,
            row_group_bytes: 256 << 20,
            rollup: None,
        };
        let file = encode(&table, options, &series, &rows);
        let decoded = TagManifest::decode("k", &file.tags).unwrap();
        assert_eq!(decoded.encode().unwrap(), file.tags);
        for manifest in [&file.manifest, &decoded] {
            assert_eq!(manifest.series(), &series);
            let mut start = 0;
            for (i, n) in lengths.iter().enumerate() {
                let part: RecordBatch = rows.slice(start, *n);
                let ts = ticks_of(&part).unwrap();
                assert_eq!((manifest.first_row()[i], manifest.row_count()[i]), (start as u64, *n as u64));
                assert_eq!((manifest.min_ts()[i], manifest.max_ts()[i]), (ts[0], ts[n - 1]));
                for (field, values) in part.schema().fields().iter().zip(part.columns()).skip(2) {
                    for what in Aggregate::ALL {
                        let found = manifest.aggregate(field_id(field).unwrap(), what);
                        assert_eq!(found.is_some(), has(field.data_type(), what), "{field} {what:?}");
                        let Some(found) = found else { continue };
                        let shown = found.is_valid(i).then(|| bits(found, i));
                        assert_eq!(shown, oracle(values, ts, what), "seed {seed}, series {i}, {field}, {what:?}");
                    }
                }
                start += n;
            }
        }
        let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
        decoded.aggregates().for_each(|(_, what, values)| {
            *seen.entry(what.name()).or_default() += 1;
            assert_eq!(values.len(), lengths.len());
        });
        assert_eq!((seen["count"], seen["sum"], seen["min"]), (15, 10, 11));
    }
}

/// A manifest of two series, one without values.
fn small() -> TagManifest {
    let table = table_of_every_type();
    let mut rng = StdRng::seed_from_u64(1);
    let series = random_series(&mut rng, &table, 2, Values::Few);
    encode(&table, DataFileOptions::default(), &series, &random_rows(&mut rng, &table, &[2, 1], Values::Few)).manifest
}

#[test]
fn every_flipped_byte_and_every_cut_is_an_error_with_the_key() {
    let bytes = small().encode().unwrap();
    for i in 0..bytes.len() {
        let mut bad = bytes.to_vec();
        bad[i] ^= [0x01, 0x80, 0xff][i % 3];
        let e = TagManifest::decode("data/1/0/x.tags", &Bytes::from(bad)).unwrap_err();
        assert!(matches!(e.kind(), Kind::Corrupt | Kind::Unsupported), "byte {i}: {e:?}");
        assert_eq!(e.context("key"), Some("data/1/0/x.tags"));
        assert_eq!(TagManifest::decode("k", &bytes.slice(..i)).unwrap_err().kind(), Kind::Corrupt, "cut at {i}");
    }
    let mut newer = bytes.to_vec();
    newer[8] = 2;
    let e = TagManifest::decode("k", &Bytes::from(newer)).unwrap_err();
    assert_eq!((e.kind(), e.context("known")), (Kind::Unsupported, Some("version 1, flags 0")));
}

#[test]
fn ten_thousand_series_take_few_bytes() {
    let mut manifest = small();
    let n = 10_000u64;
    let id = ColumnId(1);
    manifest.series = SeriesSet::of_names((0..n).map(|i| format!("dev_{i}")));
    manifest.row_count = vec![10_000; n as usize];
    manifest.first_row = first_rows(&manifest.row_count);
    manifest.min_ts = Int64Array::from(vec![1_563_249_700_000; n as usize]);
    manifest.max_ts = Int64Array::from(vec![1_563_259_699_000; n as usize]);
    let times = |v: &Int64Array| Arc::new(v.clone()) as ArrayRef;
    manifest.aggregates = vec![
        (id, Aggregate::Count, Arc::new(UInt64Array::from(vec![10_000; n as usize]))),
        (id, Aggregate::FirstTs, times(&manifest.min_ts)),
        (id, Aggregate::LastTs, times(&manifest.max_ts)),
    ];
    let bytes = manifest.encode().unwrap();
    assert!(bytes.len() < 40_000, "{} bytes", bytes.len());
    assert_eq!(TagManifest::decode("k", &bytes).unwrap(), manifest);
}
