//! Files of random rows, read by this reader and by that of the Parquet crate.

use std::{
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    time::{Duration, Instant, UNIX_EPOCH},
};

use arrow::buffer::BooleanBuffer;
use parquet::basic::Compression;

use super::{super::numbers, *};

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
    encoded: Vec<numbers::Kind>,
    compressed: usize,
    uncompressed: usize,
    /// Bytes of cached pages.
    held: usize,
    /// Batches whose rows were compared with a range in cached pages.
    ranged: usize,
}

#[tokio::test]
async fn files_of_every_type_read_back_as_they_were_by_both_readers() {
    let mut had = Had::default();
    for seed in 0..18 {
        let mut rng = StdRng::seed_from_u64(seed);
        let lengths = lengths(&mut rng);
        let options = match rng.random_range(0..4) {
            0 => SMALL,
            1 => DataFileOptions::default(),
            _ => any_options(&mut rng, lengths.iter().sum()),
        };
        check_file(&mut rng, &lengths, options, &mut had).await;
    }
    assert!(had.codes > 50, "{} columns of batches were codes", had.codes);
    assert!(had.held > 20_000, "{} bytes of cached pages", had.held);
    assert!(had.ranged > 10, "{} batches were filtered by cached pages", had.ranged);
    assert!(had.times > 20, "{} pieces of time columns", had.times);
    let (compressed, uncompressed) = (had.compressed, had.uncompressed);
    assert!(compressed > 50 && uncompressed > 5, "{compressed} compressed columns, {uncompressed} others");
    use numbers::Kind::{Codes, Plain, Split, Steps};
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
        had.held += checked.held;
        had.ranged += checked.ranged;
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
            group.columns().iter().zip(fields).filter_map(|(chunk, ty)| Some((chunk, numbers::kind(chunk, ty)?)))
        {
            had.encoded.push(kind);
            let is_compressed = chunk.compression() != Compression::UNCOMPRESSED;
            *if is_compressed { &mut had.compressed } else { &mut had.uncompressed } += 1;
        }
    }
    let columns: Vec<FieldRef> = expected.schema().fields().iter().cloned().collect();
    assert_same(&read(&store, &opened, vec![0..file.rows], &columns).await, &expected);
    let capacity = [0, 10_000, 1 << 30][rng.random_range(0..3)];
    let cache = Arc::new(PageCache::new(capacity));
    for _ in 0..4 {
        check_parts(rng, &store, &opened, &expected, &cache, had).await;
    }
    had.held += cache.bytes();
}

/// Reads random columns of random ranges of rows, and of a range of times, as values and as codes.
async fn check_parts(
    rng: &mut StdRng,
    store: &Store,
    file: &Arc<DataFile>,
    expected: &RecordBatch,
    cache: &Arc<PageCache>,
    had: &mut Had,
) {
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
    let pages = Some(Pages { cache: cache.clone(), file: FileId(7), pass: rng.random() });
    let options = ReadOptions { batch_rows, codes: true, times: rng.random(), pages, ..ReadOptions::default() };
    let coded = coded_batches(store, file, &ranges, &wanted, &options).await;
    had.times += coded.iter().flat_map(|batch| &batch.times).flatten().count();
    had.codes += coded.iter().flat_map(|batch| &batch.dictionaries).flatten().count();
    let values: Vec<RecordBatch> = coded.iter().map(|batch| uncoded(batch, &wanted)).collect();
    assert!(values.iter().all(|batch| batch.num_rows() <= 2 * batch_rows));
    for found in [values, found] {
        assert_eq!(found.iter().map(|b| b.num_rows() as u64).sum::<u64>(), rows);
        if !wanted.is_empty() {
            let found = concat_batches(&Arc::new(Schema::new(wanted.clone())), &found).unwrap();
            assert_same(&found, &concat_batches(&parts[0].schema(), &parts).unwrap());
        }
    }

    had.ranged += check_filter(rng, store, file, expected, &ranges, &chosen, &options).await;

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
    // Codes of one page are not divided.
    assert!(found.iter().all(|batch| (1..=2 * batch_rows).contains(&batch.rows.num_rows())));
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

/// Reads columns of ranges of rows with a filter on one or two columns. Returns how many batches were compared with a range in cached
/// pages.
async fn check_filter(
    rng: &mut StdRng,
    store: &Store,
    file: &Arc<DataFile>,
    expected: &RecordBatch,
    ranges: &[Range<u64>],
    chosen: &[usize],
    options: &ReadOptions,
) -> usize {
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
        (0..rows.num_rows()).map(|row| by.iter().all(|by| by[row])).collect::<BooleanBuffer>()
    };
    // A range of values of one column, which pages in the cache are compared with.
    let values = cast(expected.column(chosen[of_filter[0]]), &DataType::Int64);
    let values = values.ok().filter(|_| of_filter.len() == 1 && rng.random_bool(0.8));
    let values = values.filter(|_| matches!(fields[0].data_type(), DataType::Int64 | DataType::Timestamp(..)));
    let range = values.filter(|values| values.null_count() == 0).map(|values| {
        let values = values.as_primitive::<arrow::datatypes::Int64Type>().values().to_vec();
        let mut bound = || values[rng.random_range(0..values.len())];
        bound()..=bound()
    });
    let by_range = range.clone();
    let keeps = move |rows: &RecordBatch| match &by_range {
        None => keeps(rows),
        Some(range) => {
            let values = cast(rows.column(0), &DataType::Int64).unwrap();
            values.as_primitive::<arrow::datatypes::Int64Type>().values().iter().map(|v| range.contains(v)).collect()
        }
    };
    let of_columns: Vec<usize> = of_filter.iter().map(|at| chosen[*at]).collect();
    let kept = keeps(&expected.project(&of_columns).unwrap());
    let (calls, window) = (Arc::new(AtomicUsize::new(0)), Arc::default());
    let counted = calls.clone();
    let keep = move |rows: &CodedBatch| {
        counted.fetch_add(1, Relaxed);
        Ok(keeps(&uncoded(rows, &fields)))
    };
    let filter = RowFilter { columns: of_filter, keep: Arc::new(keep), range, window };

    let pages = options.pages.clone().map(|pages| Pages { pass: rng.random(), ..pages });
    let options = ReadOptions { filter: Some(filter), pages, ..options.clone() };
    let found = coded_batches(store, file, ranges, &wanted, &options).await;
    let ranged = found.len() - calls.load(Relaxed);
    let requested: Vec<u64> = ranges.iter().flat_map(|r| r.clone()).collect();
    let answered: Vec<bool> = found.iter().flat_map(|batch| batch.kept.as_ref().unwrap().iter()).collect();
    assert_eq!(answered, requested.iter().map(|row| kept.value(*row as usize)).collect::<Vec<_>>());
    let rows: arrow::array::UInt64Array = requested.into_iter().filter(|row| kept.value(*row as usize)).collect();
    let found: Vec<RecordBatch> = found.iter().map(|batch| uncoded(batch, &wanted)).collect();
    let found = concat_batches(&Arc::new(Schema::new(wanted)), &found).unwrap();
    let expected = expected.project(&chosen).unwrap();
    assert_same(&found, &arrow::compute::take_record_batch(&expected, &rows).unwrap());
    ranged
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
