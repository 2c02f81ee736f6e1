use std::{
    ops::Range,
    sync::Arc,
    time::{Duration, Instant, UNIX_EPOCH},
};

use arrow::{
    array::{Array, ArrayRef, AsArray, Float64Array, RecordBatch, StringArray},
    compute::{cast, concat_batches},
    datatypes::{DataType, Field, FieldRef, Schema},
};
use bytes::Bytes;
use futures::TryStreamExt;
use parquet::{
    arrow::arrow_reader::{ArrowReaderOptions, ParquetRecordBatchReaderBuilder},
    basic::Compression,
    file::metadata::PageIndexPolicy,
};
use rand::{Rng, SeedableRng, rngs::StdRng};
use sample::{Values, encode, put, random_rows, random_series, table_of_every_type, whole};

use super::*;
use crate::{
    error::Kind,
    ids::{ColumnId, DatabaseId, TableId},
    merge::content_hash,
    rows::SeriesSet,
    schema::{Role, Supertable, field_id, field_with_id},
    store::Store,
    types::{Precision, Type},
};

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

/// Lengths of the series of a file.
fn lengths(rng: &mut StdRng) -> Vec<usize> {
    match rng.random_range(0..4) {
        0 => vec![1; rng.random_range(1..400)],
        1 => (0..rng.random_range(1..20)).map(|_| rng.random_range(1..60)).collect(),
        2 => vec![rng.random_range(1..1_000)],
        _ => (0..rng.random_range(1..8)).map(|_| [1, 19, 20, 50, 51, 149, 400][rng.random_range(0..7)]).collect(),
    }
}

/// Any options with which `rows` rows make at most 1 000 pages of a column, and 50 row groups.
fn any_options(rng: &mut StdRng, rows: usize) -> DataFileOptions {
    let page_rows = (1 << rng.random_range(0..12)).max(rows / 1_000);
    DataFileOptions {
        page_rows,
        page_rows_max: page_rows << rng.random_range(0..4),
        row_group_rows: (1 << rng.random_range(5..16)).max(rows / 50),
        ..SMALL
    }
}

/// What the files of a test had.
#[derive(Default)]
struct Had {
    codes: usize,
    times: usize,
    encoded: Vec<super::numbers::Kind>,
    compressed: usize,
    uncompressed: usize,
}

#[tokio::test]
async fn files_of_every_type_read_back_as_they_were_by_both_readers() {
    let mut had = Had::default();
    for seed in 0..18 {
        let mut rng = StdRng::seed_from_u64(seed);
        let lengths = lengths(&mut rng);
        let options = if rng.random() { SMALL } else { DataFileOptions::default() };
        check_file(&mut rng, &lengths, options, &mut had).await;
    }
    assert!(had.codes > 50, "{} columns of batches were codes", had.codes);
    assert!(had.times > 20, "{} pieces of time columns", had.times);
    let (compressed, uncompressed) = (had.compressed, had.uncompressed);
    assert!(compressed > 50 && uncompressed > 5, "{compressed} compressed columns, {uncompressed} others");
    use super::numbers::Kind::{Codes, Plain, Split, Steps};
    assert!([Codes, Plain, Split, Steps].iter().all(|kind| had.encoded.contains(kind)), "{:?}", had.encoded);
}

/// Files of any options, with series of up to 50 000 rows, for `TIDELAKE_FUZZ_SECONDS` seconds. The first seed is
/// `TIDELAKE_FUZZ_SEED`, or made from the time.
#[tokio::test]
#[ignore = "a part of ./tests/run --long"]
#[expect(clippy::print_stdout, reason = "the report of a long run")]
async fn files_of_any_options_read_back_as_they_were_for_an_hour() {
    let given = |name| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let end = Instant::now() + Duration::from_secs(given("TIDELAKE_FUZZ_SECONDS").unwrap_or(3_600));
    let first = given("TIDELAKE_FUZZ_SEED").unwrap_or_else(|| UNIX_EPOCH.elapsed().unwrap().as_secs() << 20);
    let (mut had, mut files) = (Had::default(), 0);
    while files == 0 || Instant::now() < end {
        let seed = first + files;
        let checked = async move {
            let (mut rng, mut had) = (StdRng::seed_from_u64(seed), Had::default());
            let lengths = match rng.random_range(0..8) {
                0 => vec![rng.random_range(1..50_000)],
                1 => (0..rng.random_range(1..6)).map(|_| rng.random_range(1..10_000)).collect(),
                _ => lengths(&mut rng),
            };
            let options = any_options(&mut rng, lengths.iter().sum());
            check_file(&mut rng, &lengths, options, &mut had).await;
            had
        };
        let checked = tokio::spawn(checked).await.unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        had.codes += checked.codes;
        had.compressed += checked.compressed;
        had.uncompressed += checked.uncompressed;
        files += 1;
    }
    println!(
        "{files} files; {} columns of batches were codes; {} compressed column chunks, {} others",
        had.codes, had.compressed, had.uncompressed
    );
}

/// Writes random rows of every type with `options`, and reads all of them, and random parts, with both readers.
async fn check_file(rng: &mut StdRng, lengths: &[usize], options: DataFileOptions, had: &mut Had) {
    let table = table_of_every_type();
    let kinds = [Values::Few, Values::Any, Values::Walk, Values::Null];
    let (fields, tags) = (kinds[rng.random_range(0..4)], kinds[rng.random_range(0..4)]);
    let series = random_series(rng, &table, lengths.len(), tags);
    let rows = random_rows(rng, &table, lengths, fields);
    let file = encode(&table, options, &series, &rows);
    let expected = whole(&table, &series, &rows);
    assert_same(&stock(&file.data), &expected);
    assert_eq!((file.rows, file.series), (rows.num_rows() as u64, lengths.len() as u64));
    assert_eq!(file.hash, content_hash(&series, &rows).unwrap());

    let (store, opened) = put(&file).await;
    assert_eq!((opened.rows(), opened.table()), (file.rows, TableId(7)));
    for group in opened.metadata().row_groups() {
        let fields = opened.schema().fields().iter().map(|f| f.data_type());
        for (chunk, kind) in
            group.columns().iter().zip(fields).filter_map(|(chunk, ty)| Some((chunk, super::numbers::kind(chunk, ty)?)))
        {
            had.encoded.push(kind);
            let is_compressed = chunk.compression() != Compression::UNCOMPRESSED;
            *if is_compressed { &mut had.compressed } else { &mut had.uncompressed } += 1;
        }
    }
    let columns: Vec<FieldRef> = expected.schema().fields().iter().cloned().collect();
    assert_same(&read(&store, &opened, vec![0..file.rows], &columns).await, &expected);
    for _ in 0..4 {
        check_parts(rng, &store, &opened, &expected, had).await;
    }
}

/// Reads random columns of random ranges of rows, and of a range of times, as values and as codes.
async fn check_parts(rng: &mut StdRng, store: &Store, file: &Arc<DataFile>, expected: &RecordBatch, had: &mut Had) {
    let mut cuts: Vec<u64> = (0..rng.random_range(1..5) * 2).map(|_| rng.random_range(0..=file.rows())).collect();
    cuts.sort_unstable();
    let ranges: Vec<Range<u64>> = cuts.chunks(2).map(|c| c[0]..c[1]).collect();
    let columns = expected.schema().fields().clone();
    let mut chosen: Vec<usize> =
        (0..columns.len()).filter(|at| rng.random_bool(if *at == 0 { 0.5 } else { 0.2 })).collect();
    chosen.reverse();
    let parts: Vec<RecordBatch> = ranges
        .iter()
        .map(|r| expected.slice(r.start as usize, (r.end - r.start) as usize).project(&chosen).unwrap())
        .collect();
    let wanted: Vec<FieldRef> = chosen.iter().map(|c| columns[*c].clone()).collect();
    let rows: u64 = ranges.iter().map(|r| r.end - r.start).sum();
    let batch_rows = [64, 1_000, 8_192][rng.random_range(0..3)];
    let before = store.counters().get;
    let found = file.read(store, ranges.clone(), &wanted, batch_rows).unwrap();
    let found: Vec<RecordBatch> = found.try_collect().await.unwrap();
    // One request reads everything near each other.
    assert!(file.bytes() > 1 << 20 || store.counters().get - before <= 1);
    let options = ReadOptions { batch_rows, codes: true, times: rng.random(), within: None, filter: None };
    let coded = coded_batches(store, file, &ranges, &wanted, &options).await;
    had.times += coded.iter().flat_map(|batch| &batch.times).flatten().count();
    had.codes += coded.iter().flat_map(|batch| &batch.dictionaries).flatten().count();
    let values: Vec<RecordBatch> = coded.iter().map(|batch| uncoded(batch, &wanted)).collect();
    assert_eq!(values, found);
    assert_eq!(found.iter().map(|b| b.num_rows() as u64).sum::<u64>(), rows);
    if !wanted.is_empty() {
        let found = concat_batches(&Arc::new(Schema::new(wanted.clone())), &found).unwrap();
        assert_same(&found, &concat_batches(&parts[0].schema(), &parts).unwrap());
    }

    check_filter(rng, store, file, expected, &ranges, &chosen, &options).await;

    // Only the rows of a time range.
    let ticks = arrow::compute::cast(expected.column(0), &DataType::Int64).unwrap();
    let ticks = ticks.as_primitive::<arrow::datatypes::Int64Type>().values();
    let bound = |rng: &mut StdRng| ticks[rng.random_range(0..ticks.len())] + rng.random_range(-1..2);
    let within = bound(rng)..=bound(rng);
    let kept: Vec<u64> =
        ranges.iter().flat_map(|r| r.clone()).filter(|r| within.contains(&ticks[*r as usize])).collect();
    let options = ReadOptions { within: Some(within), ..options };
    let found = coded_batches(store, file, &ranges, &wanted, &options).await;
    let rows: Vec<u64> = found.iter().flat_map(|batch| batch.ranges.iter().cloned()).flatten().collect();
    assert_eq!(rows, kept);
    assert!(found.iter().all(|batch| (1..=batch_rows).contains(&batch.rows.num_rows())));
    assert_eq!(found.iter().map(|batch| batch.rows.num_rows()).sum::<usize>(), kept.len());
    if !wanted.is_empty() {
        let found: Vec<RecordBatch> = found.iter().map(|batch| uncoded(batch, &wanted)).collect();
        let found = concat_batches(&Arc::new(Schema::new(wanted)), &found).unwrap();
        let kept = arrow::array::UInt64Array::from(kept);
        let expected = expected.project(&chosen).unwrap();
        assert_same(&found, &arrow::compute::take_record_batch(&expected, &kept).unwrap());
    }
}

/// Which rows a filter keeps by one column: times by stretches of rows, of other values those that print with an even length.
fn kept_by(column: &ArrayRef, stretch: i64) -> Vec<bool> {
    if let DataType::Timestamp(..) = column.data_type() {
        let ticks = cast(column, &DataType::Int64).unwrap();
        let ticks = ticks.as_primitive::<arrow::datatypes::Int64Type>();
        return ticks.iter().map(|t| t.is_some_and(|t| t.div_euclid(stretch) % 5 == 0)).collect();
    }
    let printed = |row| arrow::util::display::array_value_to_string(column, row).unwrap();
    (0..column.len()).map(|row| column.is_valid(row) && printed(row).len().is_multiple_of(2)).collect()
}

/// Reads columns of ranges of rows with a filter on one or two columns.
async fn check_filter(
    rng: &mut StdRng,
    store: &Store,
    file: &Arc<DataFile>,
    expected: &RecordBatch,
    ranges: &[Range<u64>],
    chosen: &[usize],
    options: &ReadOptions,
) {
    let mut chosen = chosen.to_vec();
    chosen.retain(|at| *at != 0);
    chosen.insert(rng.random_range(0..=chosen.len()), 0);
    let wanted: Vec<FieldRef> = chosen.iter().map(|c| Arc::new(expected.schema().field(*c).clone())).collect();
    let stretch = [1, 1_000, 40_000, 1_000_000][rng.random_range(0..4)];
    let mut of_filter = vec![chosen.iter().position(|at| *at == 0).unwrap()];
    if rng.random_bool(0.3) {
        of_filter = vec![rng.random_range(0..chosen.len())];
    } else if rng.random_bool(0.2) {
        of_filter.push(rng.random_range(0..chosen.len()));
    }
    let fields: Vec<FieldRef> = of_filter.iter().map(|at| wanted[*at].clone()).collect();
    let keeps = move |rows: &RecordBatch| {
        let by: Vec<Vec<bool>> = rows.columns().iter().map(|column| kept_by(column, stretch)).collect();
        (0..rows.num_rows()).map(|row| by.iter().all(|by| by[row])).collect::<arrow::buffer::BooleanBuffer>()
    };
    let of_columns: Vec<usize> = of_filter.iter().map(|at| chosen[*at]).collect();
    let kept = keeps(&expected.project(&of_columns).unwrap());
    let filter = RowFilter { columns: of_filter, keep: Arc::new(move |rows| Ok(keeps(&uncoded(rows, &fields)))) };

    let options = ReadOptions { filter: Some(filter), ..options.clone() };
    let found = coded_batches(store, file, ranges, &wanted, &options).await;
    let requested: Vec<u64> = ranges.iter().flat_map(|r| r.clone()).collect();
    let answered: Vec<bool> = found.iter().flat_map(|batch| batch.kept.as_ref().unwrap().iter()).collect();
    assert_eq!(answered, requested.iter().map(|row| kept.value(*row as usize)).collect::<Vec<_>>());
    let rows: arrow::array::UInt64Array = requested.into_iter().filter(|row| kept.value(*row as usize)).collect();
    let found: Vec<RecordBatch> = found.iter().map(|batch| uncoded(batch, &wanted)).collect();
    let found = concat_batches(&Arc::new(Schema::new(wanted)), &found).unwrap();
    let expected = expected.project(&chosen).unwrap();
    assert_same(&found, &arrow::compute::take_record_batch(&expected, &rows).unwrap());
}

async fn coded_batches(
    store: &Store,
    file: &Arc<DataFile>,
    ranges: &[Range<u64>],
    columns: &[FieldRef],
    options: &ReadOptions,
) -> Vec<CodedBatch> {
    file.read_with(store, ranges.to_vec(), columns, options.clone()).unwrap().try_collect().await.unwrap()
}

/// Replaces codes and [`Times`] of a batch by their values.
fn uncoded(batch: &CodedBatch, columns: &[FieldRef]) -> RecordBatch {
    let times = || {
        let all = batch.times.iter().flatten().flat_map(|times| match times {
            Times::Even { first, step, rows } => (0..*rows as i64).map(|i| first + step * i).collect(),
            Times::Listed(all) => all.clone(),
        });
        arrow::array::Int64Array::from_iter_values(all)
    };
    let values = |at: usize| match batch.dictionaries.get(at).and_then(Option::as_ref) {
        None if batch.rows.column(at).data_type() == &DataType::Null => {
            arrow::compute::cast(&times(), columns[at].data_type()).unwrap()
        }
        None => batch.rows.column(at).clone(),
        Some(dictionary) => arrow::compute::take(dictionary, batch.rows.column(at), None).unwrap(),
    };
    let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(batch.rows.num_rows()));
    let columns_of_rows = (0..columns.len()).map(values).collect();
    RecordBatch::try_new_with_options(Arc::new(Schema::new(columns.to_vec())), columns_of_rows, &options).unwrap()
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
