#![allow(clippy::unwrap_used)]

use parquet::{
    basic::{Encoding, Type as Physical},
    column::writer::{ColumnWriter, get_column_writer, get_typed_column_writer_mut},
    data_type::Int64Type as PqInt64,
};
use rand::{Rng, SeedableRng, rngs::StdRng};

use super::{super::extend_evenly, *};

/// Decodes the numbers of a range of rows, in calls that end at `ends` and then at the end of the range.
fn decoded(body: &[u8], rows: usize, wanted: Range<usize>, ends: &[usize]) -> Result<Vec<i64>> {
    let mut values = vec![7; rows];
    let mut steps = Steps::new(body, rows)?;
    for end in ends.iter().copied().filter(|end| *end < wanted.end).chain([wanted.end]) {
        steps.decode(body, end, |part| part.end > wanted.start, &mut values)?;
    }
    Ok(values[wanted].to_vec())
}

/// Pages of a chunk as the Parquet crate writes them, uncompressed.
fn parquet_steps(values: &[i64]) -> Vec<u8> {
    use std::sync::{Arc, Mutex};

    use parquet::{
        column::page::{CompressedPage, PageWriteSpec, PageWriter},
        file::properties::WriterProperties,
        schema::types::{ColumnDescriptor, ColumnPath, Type},
    };

    struct Keep(Arc<Mutex<Vec<u8>>>);
    impl PageWriter for Keep {
        fn write_page(&mut self, page: CompressedPage) -> parquet::errors::Result<PageWriteSpec> {
            self.0.lock().unwrap().extend_from_slice(page.data());
            let mut spec = PageWriteSpec::new();
            (spec.page_type, spec.bytes_written) = (page.page_type(), page.data().len() as u64);
            Ok(spec)
        }

        fn close(&mut self) -> parquet::errors::Result<()> {
            Ok(())
        }
    }

    let kept = Arc::new(Mutex::new(Vec::new()));
    let ty = Type::primitive_type_builder("v", Physical::INT64)
        .with_repetition(parquet::basic::Repetition::REQUIRED)
        .build()
        .unwrap();
    let column = Arc::new(ColumnDescriptor::new(Arc::new(ty), 0, 0, ColumnPath::from("v")));
    let properties =
        WriterProperties::builder().set_dictionary_enabled(false).set_encoding(Encoding::DELTA_BINARY_PACKED).build();
    let mut writer: ColumnWriter<'_> = get_column_writer(column, Arc::new(properties), Box::new(Keep(kept.clone())));
    let typed = get_typed_column_writer_mut::<PqInt64>(&mut writer);
    typed.write_batch(values, None, None).unwrap();
    writer.close().unwrap();
    std::mem::take(&mut *kept.lock().unwrap())
}

#[test]
fn deltas_written_by_the_parquet_crate_are_decoded() {
    let mut rng = StdRng::seed_from_u64(4);
    for round in 0..300 {
        let rows = rng.random_range(1..1_000);
        let kind = round % 5;
        let mut now = rng.random_range(-1_000_000_000_000i64..2_000_000_000_000);
        let values: Vec<i64> = (0..rows)
            .map(|_| {
                now = match kind {
                    0 => now + 1_000,
                    1 => now + rng.random_range(0..3),
                    2 => now.wrapping_add(rng.random()),
                    3 => rng.random_range(-5..5),
                    _ => now + [1_000, 1_000, 1_000, 86_400_000_000][rng.random_range(0..4)],
                };
                now
            })
            .collect();
        let body = parquet_steps(&values);
        let wanted = rng.random_range(0..=rows);
        let start = rng.random_range(0..=wanted);
        for wanted in [0..rows, 0..wanted, start..wanted, start..rows, wanted..wanted, 0..0] {
            for ends in [&[][..], &[start], &[1, start, start + 100]] {
                assert_eq!(
                    decoded(&body, rows, wanted.clone(), ends).unwrap(),
                    values[wanted.clone()],
                    "round {round}"
                );
            }
        }
        // Only parts with one of some rows.
        let needed: Vec<usize> = (0..rows).filter(|_| rng.random_bool(0.01)).collect();
        let mut found = vec![7; rows];
        let mut steps = Steps::new(&body, rows).unwrap();
        let needs = |part: Range<usize>| needed.iter().any(|row| part.contains(row));
        steps.decode(&body, start, needs, &mut found).unwrap();
        steps.decode(&body, rows, needs, &mut found).unwrap();
        needed.iter().for_each(|row| assert_eq!(found[*row], values[*row], "round {round}, row {row}"));
        let is_even =
            rows > 1 && values.windows(2).all(|w| w[1].wrapping_sub(w[0]) == values[1].wrapping_sub(values[0]));
        assert_eq!(even(&body, rows), is_even.then(|| (values[0], values[1].wrapping_sub(values[0]))), "round {round}");
        if let Some((first, step)) = even(&body, rows) {
            let from = rng.random_range(0..rows);
            let mut found = vec![7];
            extend_evenly(&mut found, first + step * from as i64, step, rows - from, |v| v);
            assert_eq!(found[1..], values[from..], "round {round}");
        }
        assert!(decoded(&body, rows + 1, 0..rows + 1, &[]).is_err());
        let cut = rng.random_range(0..body.len());
        // Must not panic.
        let _ = decoded(&body[..cut], rows, 0..rows, &[]);
        let _ = decoded(&body[..cut], rows, start..rows, &[]);
        let noise: Vec<u8> = (0..cut).map(|_| rng.random()).collect();
        let _ = decoded(&noise, rows, 0..rows, &[]);
        let _ = decoded(&noise, rows, start..rows, &[]);
    }
}

#[test]
fn the_code_of_each_width_unpacks_what_was_packed() {
    let mut rng = StdRng::seed_from_u64(5);
    for width in 0..=64_usize {
        for count in [1, 7, 8, 9, 31, 32, 64, 128, 264, 1_024] {
            let differences: Vec<u64> = (0..count).map(|_| rng.random::<u64>() & mask(width)).collect();
            let mut packed = vec![0_u8; (count * width).div_ceil(8)];
            for (i, difference) in differences.iter().enumerate() {
                for bit in (0..width).filter(|bit| difference >> bit & 1 == 1) {
                    packed[(i * width + bit) / 8] |= 1 << ((i * width + bit) % 8);
                }
            }
            let (least, before): (i64, i64) = (rng.random(), rng.random());
            let mut now = before;
            let expected: Vec<i64> = differences
                .iter()
                .map(|difference| {
                    now = now.wrapping_add(least).wrapping_add(*difference as i64);
                    now
                })
                .collect();
            // With and without bytes of the next part behind the packed ones.
            for behind in 0..40 {
                let mut page = packed.clone();
                page.extend((0..behind).map(|_| rng.random::<u8>()));
                let mut found = vec![0; count];
                let (unpack, total) = WIDTHS[width];
                assert_eq!(unpack(&mut found, &page, least, before), now, "{width} bits, {count} numbers");
                let (whole, sum) = (count / 8 * 8, |sum: u64, difference: &u64| sum.wrapping_add(*difference));
                let expected_total = differences[..whole].iter().fold(0, sum) as i64;
                assert_eq!(total(&page, whole), expected_total, "{width} bits, {count} numbers, {behind} bytes behind");
                assert_eq!(found, expected, "{width} bits, {count} numbers, {behind} bytes behind");
            }
        }
    }
}
