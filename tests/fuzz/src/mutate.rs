//! Random mutation of an input.

use rand::{Rng, rngs::StdRng};

/// Fragments that parsers often mishandle.
const WORDS: [&[u8]; 36] = [
    b"\"",
    b"'",
    b"`",
    b"\\",
    b"(",
    b")",
    b",",
    b"=",
    b" ",
    b"\n",
    b"\0",
    b"\xff",
    b"--",
    b"/*",
    b"*/",
    b";",
    b"?",
    b"NaN",
    b"-9223372036854775808",
    b"18446744073709551616",
    b"1e309",
    b"-0",
    b"null",
    b"interval(",
    b"IN (",
    b"values(",
    b" using ",
    b" tags(",
    b"\xf0\x9f\x8c\x8a",
    b"0x",
    b"{",
    b"[",
    b"}",
    b"]",
    b"i",
    b"u",
];

/// Mutates an input in place, with pieces of the inputs in `pool`.
pub(crate) fn mutate(input: &mut Vec<u8>, pool: &[Vec<u8>], random: &mut StdRng) {
    let at = random.random_range(0..=input.len());
    let some = |random: &mut StdRng, len: usize| random.random_range(1..=16_usize.min(len.max(1)));
    match random.random_range(0..10) {
        0 if at < input.len() => input[at] ^= 1 << random.random_range(0..8),
        1 if at < input.len() => input[at] = random.random(),
        2 => {
            let word = WORDS[random.random_range(0..WORDS.len())];
            input.splice(at..at, word.iter().copied());
        }
        3 if at < input.len() => {
            let end = (at + some(random, input.len() - at)).min(input.len());
            input.drain(at..end);
        }
        4 if at < input.len() => {
            let end = (at + some(random, input.len() - at)).min(input.len());
            let piece = input[at..end].to_vec();
            let times = if random.random_ratio(1, 20) { 500 } else { random.random_range(1..4) };
            input.splice(at..at, piece.iter().copied().cycle().take(piece.len() * times));
        }
        5 => input.truncate(at),
        6 => {
            let other = &pool[random.random_range(0..pool.len())];
            let from = random.random_range(0..=other.len());
            let to = (from + random.random_range(0..=64)).min(other.len());
            input.splice(at..at, other[from..to].iter().copied());
        }
        // Numbers of binary formats: lengths, counts, offsets.
        7 | 8 if at + 4 <= input.len() => {
            let number: u32 = match random.random_range(0..5) {
                0 => 0,
                1 => u32::MAX,
                2 => 1 << random.random_range(0..32),
                3 => i32::MAX as u32,
                _ => random.random(),
            };
            input[at..at + 4].copy_from_slice(&number.to_le_bytes());
        }
        _ => {
            let word = WORDS[random.random_range(0..WORDS.len())];
            let end = (at + word.len()).min(input.len());
            input.splice(at..end, word.iter().copied());
        }
    }
}
