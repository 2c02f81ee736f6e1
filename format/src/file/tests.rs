use std::{ops::Range, sync::Arc};

use arrow::{
    array::{Array, ArrayRef, AsArray, Float64Array, RecordBatch, StringArray},
    compute::{cast, concat_batches},
    datatypes::{DataType, Field, FieldRef, Schema},
};
use bytes::Bytes;
use futures::TryStreamExt;
use parquet::{
    arrow::arrow_reader::{ArrowReaderOptions, ParquetRecordBatchReaderBuilder},
    file::metadata::PageIndexPolicy,
};
use rand::{Rng, SeedableRng, rngs::StdRng};
use sample::{Values, encode, put, random_rows, random_series, table_of_every_type, whole};

use super::*;
use crate::{
    error::Kind,
    ids::{ColumnId, DatabaseId, FileId, TableId},
    merge::content_hash,
    rows::SeriesSet,
    schema::{Role, Supertable, field_id, field_with_id},
    store::Store,
    types::{Precision, Type},
};

mod readers;
pub(crate) mod sample;

const SMALL: DataFileOptions =
    DataFileOptions { page_rows: 20, page_rows_max: 50, row_group_rows: 150, row_group_bytes: 256 << 20, rollup: None };

/// Asserts equal names, types, column IDs, nulls and bits of values.
fn assert_same(found: &RecordBatch, expected: &RecordBatch) {
    assert_eq!(found.num_rows(), expected.num_rows());
    for (i, field) in expected.schema().fields().iter().enumerate() {
        assert_eq!(found.schema().field(i).name(), field.name());
        assert_eq!(found.schema().field(i).data_type(), field.data_type(), "{}", field.name());
        assert_eq!(field_id(found.schema().field(i)), field_id(field), "{}", field.name());
        assert_eq!(found.column(i).to_data(), expected.column(i).to_data(), "{}", field.name());
    }
}

/// Reads all rows with the Parquet crate's reader.
fn stock(data: &Bytes) -> RecordBatch {
    let reader = ParquetRecordBatchReaderBuilder::try_new(data.clone()).unwrap().with_batch_size(77).build().unwrap();
    let batches: Vec<RecordBatch> = reader.collect::<Result<_, _>>().unwrap();
    concat_batches(&batches[0].schema(), &batches).unwrap()
}

async fn read(store: &Store, file: &Arc<DataFile>, ranges: Vec<Range<u64>>, columns: &[FieldRef]) -> RecordBatch {
    let batches: Vec<RecordBatch> = file.read(store, ranges, columns, 64).unwrap().try_collect().await.unwrap();
    assert!(batches.iter().all(|b| b.num_rows() <= 64));
    concat_batches(&Arc::new(Schema::new(columns.to_vec())), &batches).unwrap()
}

fn w1() -> Arc<Supertable> {
    let columns = [
        ("ts", Role::Time, Type::Timestamp),
        ("temperature", Role::Field, Type::Int),
        ("humidity", Role::Field, Type::Float),
        ("devid", Role::Tag, Type::Int),
        ("devname", Role::Tag, Type::Binary(Some(16))),
        ("devgroup", Role::Tag, Type::Int),
    ];
    let columns = columns.map(|(name, role, ty)| (name.to_owned(), role, ty));
    Arc::new(Supertable::new(TableId(7), DatabaseId(1), "devices", columns).unwrap())
}

/// First rows of the pages of each column of each row group.
fn page_starts(data: &Bytes) -> Vec<Vec<Vec<i64>>> {
    let options = ArrowReaderOptions::new().with_page_index_policy(PageIndexPolicy::Required);
    let builder = ParquetRecordBatchReaderBuilder::try_new_with_options(data.clone(), options).unwrap();
    let index = builder.metadata().offset_index().unwrap();
    assert!(builder.metadata().column_index().is_some());
    let starts = |group: &Vec<parquet::file::page_index::offset_index::OffsetIndexMetaData>| {
        group.iter().map(|c| c.page_locations.iter().map(|p| p.first_row_index).collect()).collect()
    };
    index.iter().map(starts).collect()
}

#[test]
fn pages_start_with_series_in_every_column() {
    let table = w1();
    let mut rng = StdRng::seed_from_u64(5);
    for kind in [Values::Few, Values::Any, Values::Null] {
        let lengths = [10_000, 10_000, 700, 700, 700, 40_000, 5];
        let series = random_series(&mut rng, &table, lengths.len(), kind);
        let rows = random_rows(&mut rng, &table, &lengths, kind);
        let file = encode(&table, DataFileOptions::default(), &series, &rows);
        let expected = vec![0, 10_000, 20_000, 22_100, 22_100 + 13_333, 22_100 + 26_666, 62_100];
        // Pages of tags and names are joined up to 65 536 rows or eight pages, unless a tag is null in all rows.
        let planned = if matches!(kind, Values::Null) { 6 } else { 3 };
        let (planned, joined) = (vec![expected; planned], vec![vec![0]; 7 - planned]);
        assert_eq!(page_starts(&file.data), vec![[planned, joined].concat()]);
    }
}

#[test]
fn row_groups_end_with_series_except_where_one_is_too_long() {
    let table = w1();
    let mut rng = StdRng::seed_from_u64(6);
    let lengths = [100, 49, 30, 20, 200, 400, 1];
    let series = random_series(&mut rng, &table, lengths.len(), Values::Few);
    let rows = random_rows(&mut rng, &table, &lengths, Values::Few);
    let whole_file = encode(&table, SMALL, &series, &rows);
    let groups = |file: &EncodedFile| -> Vec<i64> {
        let builder = ParquetRecordBatchReaderBuilder::try_new(file.data.clone()).unwrap();
        builder.metadata().row_groups().iter().map(|g| g.num_rows()).collect()
    };
    // Target 150 rows, maximum 300.
    assert_eq!(groups(&whole_file), [179, 220, 300, 101]);

    // The file does not depend on how calls divide the rows, even within a series and with different series sets.
    for cut in [1, 7, 150, 179, 180, 400, 799] {
        let mut writer = DataFileWriter::new(table.clone(), Precision::Milli, SMALL).unwrap();
        let mut start = 0;
        while start < rows.num_rows() {
            let part = rows.slice(start, cut.min(rows.num_rows() - start));
            let index = part.column(0).as_primitive::<arrow::datatypes::UInt32Type>();
            let first = index.value(0);
            let of_part =
                SeriesSet::try_new(series.batch().slice(first as usize, lengths.len() - first as usize)).unwrap();
            let mut columns = part.columns().to_vec();
            columns[0] = Arc::new(index.unary::<_, arrow::datatypes::UInt32Type>(|i| i - first));
            writer.write(&of_part, &RecordBatch::try_new(part.schema(), columns).unwrap()).unwrap();
            start += cut;
        }
        let file = writer.finish().unwrap();
        assert_eq!(file.data, whole_file.data, "cut at {cut}");
        assert_eq!(
            (file.manifest, file.tags, file.hash),
            (whole_file.manifest.clone(), whole_file.tags.clone(), whole_file.hash)
        );
    }
}

#[test]
fn rows_out_of_order_are_rejected() {
    let table = w1();
    let mut rng = StdRng::seed_from_u64(7);
    let series = random_series(&mut rng, &table, 3, Values::Any);
    let rows = random_rows(&mut rng, &table, &[5, 5, 5], Values::Any);
    let writer = || DataFileWriter::new(table.clone(), Precision::Milli, SMALL).unwrap();
    let twice = concat_batches(&rows.schema(), [&rows.slice(0, 3), &rows.slice(2, 1)]).unwrap();
    assert_eq!(writer().write(&series, &twice).unwrap_err().kind(), Kind::Internal);
    let mut again = writer();
    again.write(&series, &rows.slice(10, 3)).unwrap();
    assert_eq!(again.write(&series, &rows.slice(12, 1)).unwrap_err().kind(), Kind::Internal);
    let mut back = writer();
    back.write(&series, &rows.slice(5, 5)).unwrap();
    back.write(&series, &rows.slice(0, 5)).unwrap();
    back.write(&series, &rows.slice(10, 5)).unwrap();
    assert!(back.finish().is_ok(), "another order of series is the caller's choice");
    let mut returning = writer();
    returning.write(&series, &rows.slice(5, 2)).unwrap();
    returning.write(&series, &rows.slice(0, 5)).unwrap();
    returning.write(&series, &rows.slice(7, 3)).unwrap();
    assert_eq!(returning.finish().unwrap_err().kind(), Kind::Internal);
    let unknown = SeriesSet::of_names(["only"]);
    assert_eq!(writer().write(&unknown, &rows).unwrap_err().kind(), Kind::Internal);
    assert_eq!(writer().finish().unwrap_err().kind(), Kind::Invalid);
    let bad = DataFileOptions { page_rows: 0, ..SMALL };
    assert_eq!(DataFileWriter::new(table, Precision::Milli, bad).unwrap_err().kind(), Kind::Invalid);
}

#[tokio::test]
async fn new_and_widened_columns_are_read_from_older_files() {
    let old = w1();
    let mut rng = StdRng::seed_from_u64(8);
    let series = random_series(&mut rng, &old, 2, Values::Any);
    let rows = random_rows(&mut rng, &old, &[30, 40], Values::Any);
    let file = encode(&old, SMALL, &series, &rows);
    let (store, opened) = put(&file).await;
    let columns: Vec<FieldRef> = vec![
        Arc::new(field_with_id("renamed", DataType::Int64, true, ColumnId(1))),
        Arc::new(field_with_id("new", DataType::Utf8, true, ColumnId(99))),
        Arc::new(field_with_id("humidity", DataType::Float64, true, ColumnId(2))),
    ];
    let found = read(&store, &opened, vec![10..25, 60..70], &columns).await;
    let part = concat_batches(&rows.schema(), [&rows.slice(10, 15), &rows.slice(60, 10)]).unwrap();
    assert_eq!(found.column(0), &cast(part.column(2), &DataType::Int64).unwrap());
    assert_eq!(found.column(1).null_count(), 25);
    assert_eq!(found.column(2).to_data(), cast(part.column(3), &DataType::Float64).unwrap().to_data());
    assert_eq!(read(&store, &opened, vec![3..5], &columns[1..2]).await.num_rows(), 2);

    // Write rows of the old schema under the new one.
    let mut new = Supertable::clone(&old);
    new.columns[1].ty = Type::BigInt;
    let added = new.add_column("more", Role::Field, Type::NChar(None)).unwrap();
    let again = encode(&Arc::new(new), SMALL, &series, &rows);
    assert_eq!(again.hash, file.hash);
    let (store, opened) = put(&again).await;
    let more: FieldRef = Arc::new(field_with_id("more", DataType::Utf8, true, added));
    assert_eq!(read(&store, &opened, vec![0..70], &[more]).await.column(0).null_count(), 70);
}

#[tokio::test]
async fn invalid_ranges_are_rejected() {
    let table = w1();
    let mut rng = StdRng::seed_from_u64(9);
    let series = random_series(&mut rng, &table, 1, Values::Any);
    let file = encode(&table, SMALL, &series, &random_rows(&mut rng, &table, &[10], Values::Any));
    let (store, opened) = put(&file).await;
    let refused = |ranges| opened.read(&store, ranges, &[], 8).err().map(|e| e.kind());
    assert_eq!(refused(vec![0..11]), Some(Kind::Internal));
    assert_eq!(refused(vec![5..6, 5..7]), Some(Kind::Internal));
    assert_eq!(refused(vec![0..0, 3..10]), None);
}

#[tokio::test]
async fn a_narrow_read_takes_few_requests_and_bytes() {
    let table = w1();
    let mut rng = StdRng::seed_from_u64(10);
    let lengths = [3_000; 40];
    let series = random_series(&mut rng, &table, 40, Values::Few);
    let rows = random_rows(&mut rng, &table, &lengths, Values::Any);
    let file = encode(&table, DataFileOptions::default(), &series, &rows);
    let store = Store::in_memory();
    store.create("k", file.data.clone()).await.unwrap();
    let before = store.counters();
    let opened = DataFile::open(&store, "k", file.data.len() as u64).await.unwrap();
    let after = store.counters();
    assert_eq!(after.get - before.get, 1);
    let field: FieldRef = Arc::new(table.arrow_schema(Precision::Milli).field(1).clone());
    // A stream that is never polled makes no request.
    drop(opened.read(&store, vec![0..100], std::slice::from_ref(&field), 8_192).unwrap());
    assert_eq!(store.counters().get, after.get);
    let found = read(&store, &opened, vec![30_500..30_600, 33_000..33_001], &[field]).await;
    assert_eq!(found.num_rows(), 101);
    let last = store.counters();
    assert_eq!(last.get - after.get, 1);
}

#[tokio::test]
async fn several_readers_share_a_file_and_may_stop_at_any_time() {
    let table = w1();
    let mut rng = StdRng::seed_from_u64(11);
    let series = random_series(&mut rng, &table, 3, Values::Few);
    let rows = random_rows(&mut rng, &table, &[300, 200, 100], Values::Any);
    let file = encode(&table, SMALL, &series, &rows);
    let (store, opened) = put(&file).await;
    let expected = whole(&table, &series, &rows);
    let columns: Vec<FieldRef> = expected.schema().fields().iter().cloned().collect();
    let readers = (0..8u64).map(|i| {
        let (store, opened, columns) = (store.clone(), opened.clone(), columns.clone());
        tokio::spawn(async move {
            let stream = opened.read(&store, vec![i * 10..600], &columns, 50).unwrap();
            let mut stream = std::pin::pin!(stream);
            let first = stream.try_next().await.unwrap().unwrap();
            if i % 2 == 0 {
                first.num_rows()
            } else {
                first.num_rows() + stream.try_fold(0, |n, b| async move { Ok(n + b.num_rows()) }).await.unwrap()
            }
        })
    });
    for (i, found) in futures::future::join_all(readers).await.into_iter().enumerate() {
        assert_eq!(found.unwrap(), if i % 2 == 0 { 50 } else { 600 - i * 10 });
    }
}

#[tokio::test]
async fn a_damaged_page_is_never_read_as_something_else() {
    for values in [Values::Few, Values::Any] {
        damage_each_page(values).await;
    }
}

async fn damage_each_page(values: Values) {
    let table = w1();
    let mut rng = StdRng::seed_from_u64(12);
    let series = random_series(&mut rng, &table, 3, values);
    let rows = random_rows(&mut rng, &table, &[90, 20, 3], values);
    let file = encode(&table, SMALL, &series, &rows);
    let expected = whole(&table, &series, &rows);
    let columns: Vec<FieldRef> = expected.schema().fields().iter().cloned().collect();
    for i in (0..file.data.len()).step_by(2) {
        let mut bad = file.data.to_vec();
        bad[i] ^= [0x01, 0x10, 0xff][i / 2 % 3];
        let len = bad.len() as u64;
        let store = Store::in_memory();
        store.create("k", Bytes::from(bad)).await.unwrap();
        let found: crate::Result<Vec<RecordBatch>> = async {
            let opened = DataFile::open(&store, "k", len).await?;
            opened.read(&store, vec![0..opened.rows()], &columns, 1_000)?.try_collect().await
        }
        .await;
        match found {
            Err(e) => assert!(e.context("key").is_some() && e.kind() != Kind::NotFound, "byte {i}: {e:?}"),
            // Readers ignore some bytes: the magic number at the start, a size that is only a hint.
            Ok(found) => assert_same(&concat_batches(&expected.schema(), &found).unwrap(), &expected),
        }
    }
    for cut in [0, 1, 3, 11, file.data.len() / 2, file.data.len() - 1] {
        let store = Store::in_memory();
        store.create("k", file.data.slice(..cut)).await.unwrap();
        let e = DataFile::open(&store, "k", file.data.len() as u64).await.unwrap_err();
        assert_eq!(e.kind(), Kind::Corrupt, "{e:?}");
        assert_eq!(DataFile::open(&store, "k", cut as u64).await.unwrap_err().kind(), Kind::Corrupt, "cut at {cut}");
    }
}

#[tokio::test]
async fn newer_versions_and_foreign_files_are_rejected() {
    let table = w1();
    let mut rng = StdRng::seed_from_u64(16);
    let series = random_series(&mut rng, &table, 1, Values::Any);
    let file = encode(&table, SMALL, &series, &random_rows(&mut rng, &table, &[3], Values::Any));
    let mut newer = file.data.to_vec();
    let key = newer.windows(15).rposition(|w| w == b"tidelake.format").unwrap();
    assert_eq!(newer[key + 17], b'1');
    newer[key + 17] = b'9';
    let (store, len) = (Store::in_memory(), newer.len() as u64);
    footer::reseal(&mut newer);
    store.create("k", Bytes::from(newer)).await.unwrap();
    let e = DataFile::open(&store, "k", len).await.unwrap_err();
    assert_eq!((e.kind(), e.context("known"), e.context("found")), (Kind::Unsupported, Some("1"), Some("9")));
    assert_eq!(e.context("key"), Some("k"));

    let other = RecordBatch::try_new(
        Arc::new(Schema::new(vec![DataType::Int32].into_iter().map(|t| Field::new("x", t, true)).collect::<Vec<_>>())),
        vec![Arc::new(arrow::array::Int32Array::from(vec![1]))],
    )
    .unwrap();
    let mut foreign = Vec::new();
    let mut writer = parquet::arrow::ArrowWriter::try_new(&mut foreign, other.schema(), None).unwrap();
    writer.write(&other).unwrap();
    writer.close().unwrap();
    let len = foreign.len() as u64;
    store.create("foreign", Bytes::from(foreign)).await.unwrap();
    assert_eq!(DataFile::open(&store, "foreign", len).await.unwrap_err().kind(), Kind::Corrupt);
}

#[tokio::test]
async fn long_tags_are_stored_once_per_series() {
    let table = w1();
    let mut rng = StdRng::seed_from_u64(17);
    let lengths = [3_000; 40];
    let rows = random_rows(&mut rng, &table, &lengths, Values::Null);
    let set = random_series(&mut rng, &table, 40, Values::Any);
    let mut columns = set.batch().columns().to_vec();
    // 2 MB of tags; 6 GB if repeated for every row.
    columns[2] = Arc::new(StringArray::from_iter_values((0..40).map(|i| format!("{i:02}").repeat(25_000))));
    let series = SeriesSet::try_new(RecordBatch::try_new(set.batch().schema(), columns).unwrap()).unwrap();
    let file = encode(&table, DataFileOptions::default(), &series, &rows);
    let (store, opened) = put(&file).await;
    let name: FieldRef = Arc::new(table.arrow_schema(Precision::Milli).field(4).clone());
    let found = read(&store, &opened, vec![2_998..3_002, 119_999..120_000], std::slice::from_ref(&name)).await;
    let starts: Vec<&str> = found.column(0).as_string::<i32>().iter().flatten().map(|v| &v[..2]).collect();
    assert_eq!(starts, ["00", "00", "01", "01", "39"]);
    assert_eq!(found.column(0).as_string::<i32>().value(0).len(), 50_000);
    // A batch of all rows would have 6 GB of text.
    let mut all =
        std::pin::pin!(opened.read(&store, vec![0..120_000], std::slice::from_ref(&name), usize::MAX).unwrap());
    let first = all.try_next().await.unwrap().unwrap();
    assert_eq!(first.num_rows(), (256 << 20) / 50_000);
}

#[tokio::test]
async fn very_long_texts_make_pages_of_bounded_size() {
    let columns = [
        ("ts", Role::Time, Type::Timestamp),
        ("text", Role::Field, Type::NChar(None)),
        ("tag", Role::Tag, Type::NChar(None)),
    ];
    let columns = columns.map(|(name, role, ty)| (name.to_owned(), role, ty));
    let table = Arc::new(Supertable::new(TableId(7), DatabaseId(1), "long", columns).unwrap());
    let mut rng = StdRng::seed_from_u64(13);
    let text: ArrayRef = Arc::new(StringArray::from_iter_values((0..200).map(|i| {
        let c = char::from(b'a' + (i % 26) as u8);
        c.to_string().repeat(65_000) + &i.to_string()
    })));
    let mut rows = random_rows(&mut rng, &table, &[200], Values::Any);
    let mut of = rows.columns().to_vec();
    of[2] = text.clone();
    rows = RecordBatch::try_new(rows.schema(), of).unwrap();
    let tags: ArrayRef = Arc::new(StringArray::from(vec!["t".repeat(60_000)]));
    let names: ArrayRef = Arc::new(StringArray::from(vec!["s"]));
    let schema = SeriesSet::schema_of(&table, Precision::Milli);
    let series = SeriesSet::try_new(RecordBatch::try_new(schema, vec![names, tags]).unwrap()).unwrap();
    let file = encode(&table, DataFileOptions::default(), &series, &rows);
    assert!(page_starts(&file.data)[0][1].len() > 10);
    let (store, opened) = put(&file).await;
    let expected = whole(&table, &series, &rows);
    let columns: Vec<FieldRef> = expected.schema().fields().iter().cloned().collect();
    assert_same(&read(&store, &opened, vec![0..200], &columns).await, &expected);
    assert_same(&stock(&file.data), &expected);
}

#[test]
fn w1_like_rows_take_less_than_1_4_bytes() {
    let table = w1();
    let mut rng = StdRng::seed_from_u64(14);
    let (devices, each) = (20usize, 10_000usize);
    let mut rows = random_rows(&mut rng, &table, &vec![each; devices], Values::Few);
    let gauss = |rng: &mut StdRng| {
        let sum: f64 = (0..12).map(|_| rng.random::<f64>()).sum::<f64>() - 6.0;
        sum.clamp(-3.0, 3.0)
    };
    let (mut temperature, mut humidity, mut ts) = (vec![], vec![], vec![]);
    for _ in 0..devices {
        let (t, h) = (rng.random_range(0..100).clamp(35, 65) as f64, rng.random_range(0..22) as f64);
        for i in 0..each {
            temperature.push((t + 35.0 / 3.0 * gauss(&mut rng)).trunc());
            humidity.push((h + 17.0 / 3.0 * gauss(&mut rng)).trunc());
            ts.push(1_563_249_700_000 + i as i64 * 1_000);
        }
    }
    let columns = [
        rows.column(0).clone(),
        Arc::new(arrow::array::TimestampMillisecondArray::from(ts)),
        cast(&Float64Array::from(temperature), &DataType::Int32).unwrap(),
        cast(&Float64Array::from(humidity), &DataType::Float32).unwrap(),
    ];
    rows = RecordBatch::try_new(rows.schema(), columns.to_vec()).unwrap();
    let series = random_series(&mut rng, &table, devices, Values::Any);
    let file = encode(&table, DataFileOptions::default(), &series, &rows);
    let per_row = file.data.len() as f64 / file.rows as f64;
    assert!(per_row < 1.4, "{per_row} bytes a row");
    let ts = stock(&file.data).column(0).clone();
    assert_eq!(ts.len(), devices * each);
    // The `numbers` module decodes such columns.
    let opened = ParquetRecordBatchReaderBuilder::try_new(file.data.clone()).unwrap();
    let kind =
        |at: usize| numbers::kind(opened.metadata().row_group(0).column(at), opened.schema().field(at).data_type());
    let (codes, steps) = (Some(numbers::Kind::Codes), Some(numbers::Kind::Steps));
    assert_eq!([kind(0), kind(1), kind(2), kind(4)], [steps, codes, codes, None]);
}

#[test]
fn files_carry_field_ids_and_only_two_metadata_keys() {
    let table = table_of_every_type();
    let mut rng = StdRng::seed_from_u64(15);
    let series = random_series(&mut rng, &table, 2, Values::Any);
    let file = encode(&table, SMALL, &series, &random_rows(&mut rng, &table, &[2, 3], Values::Any));
    let builder = ParquetRecordBatchReaderBuilder::try_new(file.data.clone()).unwrap();
    let pairs = builder.metadata().file_metadata().key_value_metadata().unwrap();
    let keys: Vec<&str> = pairs.iter().map(|p| p.key.as_str()).collect();
    assert_eq!(keys, ["tidelake.format", "tidelake.table"]);
    let ids: Vec<i32> =
        builder.parquet_schema().root_schema().get_fields().iter().map(|f| f.get_basic_info().id()).collect();
    let mut expected: Vec<i32> = table.columns.iter().map(|c| c.id.0 as i32).collect();
    expected.push(i32::MAX);
    assert_eq!(ids, expected);
}
