//! Aggregates dictionary-coded numbers without decoding them.

use super::number::Number;

/// A dictionary of at most 256 numbers, and properties of its codes.
pub(super) struct Book<N: Number> {
    entries: [N; 256],
    /// Whether a greater code never represents a smaller number.
    ascending: bool,
    /// First number, and the step between successive numbers, if the step is the same for the first `evens` of them.
    steps: Option<(N::Wide, N::Wide)>,
    evens: usize,
    /// As `steps`, if that holds for all codes that are aggregated.
    even: Option<(N::Wide, N::Wide)>,
}

impl<N: Number> Book<N> {
    pub(super) fn new(dictionary: &[N]) -> Self {
        let mut entries = [N::default(); 256];
        let known = dictionary.len().min(entries.len());
        entries[..known].copy_from_slice(&dictionary[..known]);
        let dictionary = &entries[..known];
        let ascending = dictionary.windows(2).all(|pair| pair[0].key() <= pair[1].key());
        let (evens, steps) = match N::even(dictionary) {
            // All codes are in the dictionary.
            Some((evens, first, step)) if evens == known => (entries.len(), Some((first, step))),
            Some((evens, first, step)) => (evens, Some((first, step))),
            None => (0, None),
        };
        Self { entries, ascending, steps, evens, even: None }
    }

    /// Prepares for codes, each of which is in the dictionary.
    pub(super) fn open(&mut self, codes: &[u8]) {
        // Filler entries at the end of the dictionary break the step, but no code refers to them.
        let is_even = self.evens == self.entries.len() || usize::from(greatest(codes)) < self.evens;
        self.even = self.steps.filter(|_| is_even);
    }

    /// The number that a code represents.
    pub(super) fn entry(&self, code: u8) -> N {
        self.entries[code as usize]
    }

    /// First number and step, if the numbers are evenly spaced.
    pub(super) fn even(&self) -> Option<(N::Wide, N::Wide)> {
        self.even
    }

    /// The smallest number; `codes` must not be empty.
    pub(super) fn least(&self, codes: &[u8]) -> N {
        if self.ascending {
            return self.entry(codes.iter().fold(u8::MAX, |least, code| least.min(*code)));
        }
        let keys = codes.iter().map(|code| self.entry(*code).key());
        N::unkey(keys.min().unwrap_or_else(|| N::default().key()))
    }

    /// The greatest number; `codes` must not be empty.
    pub(super) fn greatest(&self, codes: &[u8]) -> N {
        if self.ascending {
            return self.entry(greatest(codes));
        }
        let keys = codes.iter().map(|code| self.entry(*code).key());
        N::unkey(keys.max().unwrap_or_else(|| N::default().key()))
    }
}

fn greatest(codes: &[u8]) -> u8 {
    codes.iter().fold(0, |greatest, code| greatest.max(*code))
}

/// The sum of codes.
#[inline]
pub(super) fn total(codes: &[u8]) -> u64 {
    if codes.len() <= 256 {
        return total_of_few(codes);
    }
    // 257 codes fit into 16 bits, and 16-bit additions vectorize better than 64-bit ones.
    let part = |codes: &[u8]| u64::from(codes.iter().fold(0u16, |sum, code| sum + u16::from(*code)));
    codes.chunks(256).map(part).sum()
}

/// The sum of at most 256 codes: eight at once, in four lanes of 16 bits. For vectors they are too few.
fn total_of_few(codes: &[u8]) -> u64 {
    const LOW: u64 = 0x00ff_00ff_00ff_00ff;
    let pairs = |eight: u64| (eight & LOW) + (eight >> 8 & LOW);
    let (eights, rest) = codes.as_chunks::<8>();
    let Some(last) = codes.last_chunk::<8>() else { return rest.iter().map(|code| u64::from(*code)).sum() };
    // The last eight codes, without those of them that are added already.
    let last = u64::from_le_bytes(*last).unbounded_shr(64 - 8 * rest.len() as u32);
    let lanes = eights.iter().fold(pairs(last), |lanes, eight| lanes + pairs(u64::from_le_bytes(*eight)));
    let lanes = (lanes & 0x0000_ffff_0000_ffff) + (lanes >> 16 & 0x0000_ffff_0000_ffff);
    (lanes & u64::from(u32::MAX)) + (lanes >> 32)
}

/// The sum of the represented values, in four independent lanes.
pub(super) fn sum_in_lanes<W: Copy + Default>(codes: &[u8], of: impl Fn(u8) -> W, plus: impl Fn(W, W) -> W) -> W {
    let mut lanes = [W::default(); 4];
    let chunks = codes.chunks_exact(4);
    let rest = chunks.remainder().iter().fold(W::default(), |sum, code| plus(sum, of(*code)));
    for chunk in chunks {
        lanes.iter_mut().zip(chunk).for_each(|(lane, code)| *lane = plus(*lane, of(*code)));
    }
    lanes.into_iter().fold(rest, plus)
}

#[cfg(test)]
mod tests {
    use rand::{Rng, SeedableRng, rngs::StdRng};

    use super::*;

    /// Compares the book's aggregates with those of the numbers.
    fn check<N: Number + std::fmt::Debug + PartialEq>(
        dictionary: &[N],
        codes: &[u8],
        float: impl Fn(N::Sum) -> f64,
        close: impl Fn(f64, f64) -> bool,
    ) {
        let mut book = Book::new(dictionary);
        // Other codes before must make no difference.
        book.open(&[0]);
        book.open(codes);
        let values: Vec<N> = codes.iter().map(|code| dictionary[*code as usize]).collect();
        let (sum, expected) = (float(N::sum_of_codes(&book, codes)), float(N::sum(&values)));
        assert!(close(sum, expected), "sum {sum} of {expected}");
        let (sum, expected) = (N::float_sum(N::sum_of_codes(&book, codes)), N::float_sum(N::sum(&values)));
        assert!(close(sum, expected), "float sum {sum} of {expected}");
        let mut keys: Vec<N::Key> = values.iter().map(|v| v.key()).collect();
        keys.sort();
        assert_eq!(book.least(codes), N::unkey(keys[0]));
        assert_eq!(book.greatest(codes), N::unkey(keys[keys.len() - 1]));
        assert_eq!(book.entry(codes[0]), values[0]);
    }

    #[test]
    fn the_total_of_any_number_of_codes_is_their_sum() {
        let mut rng = StdRng::seed_from_u64(9);
        for count in (0..600).chain([10_000]) {
            let codes: Vec<u8> = (0..count).map(|_| if count % 2 > 0 { u8::MAX } else { rng.random() }).collect();
            assert_eq!(total(&codes), codes.iter().map(|code| u64::from(*code)).sum::<u64>(), "{count} codes");
        }
    }

    #[test]
    fn aggregates_of_codes_are_those_of_their_numbers() {
        let mut rng = StdRng::seed_from_u64(8);
        for round in 0..600 {
            let n = rng.random_range(1..=256usize);
            let (first, step) = (rng.random_range(-1_000i64..1_000), rng.random_range(-3..=3));
            let mut wide: Vec<i64> = (0..n as i64).map(|i| first + step * i).collect();
            match round % 4 {
                // Filled up, as the file format does.
                0 => wide.resize(n.max(129), wide[n - 1]),
                1 => wide.iter_mut().for_each(|v| *v += rng.random_range(0..2)),
                2 => wide.iter_mut().for_each(|v| *v = rng.random()),
                _ => (),
            }
            let used = if rng.random() { n } else { wide.len() };
            let codes: Vec<u8> =
                (0..rng.random_range(1..2_000)).map(|_| rng.random_range(0..used.min(256)) as u8).collect();
            let exact = |a: f64, b: f64| a == b;
            let whole = |sum: i128| sum as f64;
            check(&wide, &codes, whole, |a, b| a == b || (a - b).abs() <= 1e-9 * a.abs().max(b.abs()).max(1e12));
            check(&wide.iter().map(|v| *v as i32).collect::<Vec<_>>(), &codes, whole, exact);
            check(&wide.iter().map(|v| *v as u8).collect::<Vec<_>>(), &codes, whole, exact);
            check(&wide.iter().map(|v| *v as u64).collect::<Vec<_>>(), &codes, whole, |a, b| {
                (a - b).abs() <= 1e-9 * a.abs().max(b.abs())
            });
            let floats: Vec<f32> = wide.iter().map(|v| (*v % 100_000) as f32 / 10.0).collect();
            check(&floats, &codes, |sum| sum, |a, b| (a - b).abs() <= 1e-9 * a.abs().max(b.abs()).max(1.0));
        }
    }
}
