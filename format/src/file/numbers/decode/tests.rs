#![allow(clippy::unwrap_used)]

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
            for wanted in [0, rows / 2, rows] {
                assert_eq!(plain(&one_by_one, width, rows, wanted).unwrap(), expected[..wanted]);
                assert_eq!(split(&by_place, width, rows, wanted).unwrap(), expected[..wanted]);
            }
            let more = rows + 1;
            assert!(plain(&one_by_one, width, more, 0).is_err() && split(&by_place, width, more, 0).is_err());
        }
    }
}
