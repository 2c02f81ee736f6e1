#![allow(clippy::unwrap_used)]

use parquet::{
    basic::Encoding,
    column::writer::{ColumnWriter, get_column_writer, get_typed_column_writer_mut},
    data_type::Int64Type as PqInt64,
};
use rand::{Rng, SeedableRng, rngs::StdRng};

use super::*;

/// Encodes codes as a random mix of bit-packed and repeated runs.
fn written(rng: &mut StdRng, codes: &[u8], width: u8) -> Vec<u8> {
    let mut out = Vec::new();
    let put = |out: &mut Vec<u8>, mut v: u64| {
        while v >= 0x80 {
            out.push(v as u8 | 0x80);
            v >>= 7;
        }
        out.push(v as u8);
    };
    let mut rest = codes;
    while let Some(first) = rest.first() {
        let same = rest.iter().take_while(|c| *c == first).count();
        if same > 3 && rng.random() {
            let n = rng.random_range(1..=same);
            put(&mut out, (n as u64) << 1);
            if width > 0 {
                out.push(*first);
            }
            rest = &rest[n..];
            continue;
        }
        let groups = rng.random_range(1..=rest.len().div_ceil(8));
        let n = (groups * 8).min(rest.len());
        put(&mut out, (groups as u64) << 1 | 1);
        let mut bits = vec![0u8; groups * width as usize];
        for (i, code) in rest[..n].iter().enumerate() {
            for b in 0..width as usize {
                let at = i * width as usize + b;
                bits[at / 8] |= (code >> b & 1) << (at % 8);
            }
        }
        out.extend(bits);
        rest = &rest[n..];
    }
    out
}

#[test]
fn hybrid_decodes_any_width_and_mix_of_runs() {
    let mut rng = StdRng::seed_from_u64(3);
    for round in 0..400 {
        let width = rng.random_range(0..=8u8);
        let most = ((1u16 << width) - 1) as u8;
        let mut codes = Vec::new();
        for _ in 0..rng.random_range(1..40) {
            let n = if rng.random() { 1 } else { rng.random_range(1..60) };
            codes.extend(std::iter::repeat_n(rng.random_range(0..=most), n));
        }
        let body = written(&mut rng, &codes, width);
        assert_eq!(hybrid(&body, width, codes.len()).unwrap(), codes, "round {round}, {width} bits");
        let cut = rng.random_range(0..=body.len());
        // Must not panic; the removed bytes may have been padding.
        let _ = hybrid(&body[..cut], width, codes.len());
        let noise: Vec<u8> = (0..cut).map(|_| rng.random()).collect();
        let _ = hybrid(&noise, width, codes.len());
    }
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
        assert_eq!(steps(&body, rows).unwrap(), values, "round {round}");
        let is_even =
            rows > 1 && values.windows(2).all(|w| w[1].wrapping_sub(w[0]) == values[1].wrapping_sub(values[0]));
        assert_eq!(even(&body, rows), is_even.then(|| (values[0], values[1].wrapping_sub(values[0]))), "round {round}");
        if let Some((first, step)) = even(&body, rows) {
            let from = rng.random_range(0..rows);
            let mut found = vec![7];
            extend_evenly(&mut found, first + step * from as i64, step, rows - from, |v| v);
            assert_eq!(found[1..], values[from..], "round {round}");
        }
        assert!(steps(&body, rows + 1).is_err());
        let cut = rng.random_range(0..body.len());
        let _ = steps(&body[..cut], rows);
        let noise: Vec<u8> = (0..cut).map(|_| rng.random()).collect();
        let _ = steps(&noise, rows);
    }
}

#[test]
fn split_and_plain_numbers_are_decoded_and_wrong_lengths_rejected() {
    let mut rng = StdRng::seed_from_u64(6);
    for width in [4, 8] {
        for rows in [0, 1, 2, 7, 1_000] {
            let numbers: Vec<u64> = (0..rows).map(|_| rng.random::<u64>() >> (64 - 8 * width)).collect();
            let one_by_one: Vec<u8> = numbers.iter().flat_map(|n| n.to_le_bytes()[..width].to_vec()).collect();
            let by_place: Vec<u8> =
                (0..width).flat_map(|i| numbers.iter().map(move |n| n.to_le_bytes()[i]).collect::<Vec<_>>()).collect();
            let expected: Vec<i64> = numbers.iter().map(|n| *n as i64).collect();
            assert_eq!(plain(&one_by_one, width, rows).unwrap(), expected);
            assert_eq!(split(&by_place, width, rows).unwrap(), expected);
            assert!(plain(&one_by_one, width, rows + 1).is_err() && split(&by_place, width, rows + 1).is_err());
        }
    }
}
