//! Pages in the form in which a cache holds them: decoded, in few bytes, and quick to read from any place.

use std::{
    ops::{Range, RangeInclusive},
    sync::Arc,
};

use arrow::buffer::{BooleanBuffer, Buffer};
use bytes::Bytes;

/// A decoded page. Cheap to clone.
#[derive(Debug, Clone)]
pub(in crate::file) enum CachedPage {
    /// A buffer, and the range of the page's codes in it; all of them are in the dictionary.
    Codes(Bytes, Range<usize>),
    /// Equidistant numbers: first value and step.
    Even(i64, i64),
    /// Numbers, or their bits in the low bits of each `i64`.
    Numbers(Narrow),
}

impl CachedPage {
    /// Bytes in memory.
    pub(in crate::file) fn bytes(&self) -> usize {
        match self {
            Self::Codes(raw, _) => raw.len(),
            Self::Even(..) => 0,
            Self::Numbers(numbers) => numbers.bytes(),
        }
    }

    /// A page of codes that are the whole buffer.
    #[cfg(test)]
    pub(in crate::file) fn codes(raw: Bytes) -> Self {
        let all = 0..raw.len();
        Self::Codes(raw, all)
    }
}

/// Numbers as their distances to the least of them, in the narrowest type that holds these.
#[derive(Debug, Clone)]
pub(in crate::file) struct Narrow {
    least: i64,
    /// The largest distance.
    widest: u64,
    distances: Distances,
}

#[derive(Debug, Clone)]
enum Distances {
    Of8(Arc<[u8]>),
    Of16(Arc<[u16]>),
    Of32(Arc<[u32]>),
    Of64(Arc<[u64]>),
}

/// A distance of any width.
trait Distance: Copy + PartialOrd {
    fn after(self, least: i64) -> i64;
    /// The distance itself, or the largest of this type.
    fn at_most(distance: u64) -> Self;
}

macro_rules! distance {
    ($($width:ty)*) => {$(
        impl Distance for $width {
            fn after(self, least: i64) -> i64 {
                least.wrapping_add(self as i64)
            }

            fn at_most(distance: u64) -> Self {
                Self::try_from(distance).unwrap_or(Self::MAX)
            }
        }
    )*};
}

distance!(u8 u16 u32 u64);

/// Evaluates an expression with `$distances` bound to the slice of distances of any type.
macro_rules! of_width {
    ($narrow:expr, $distances:ident => $with:expr) => {
        match &$narrow.distances {
            Distances::Of8($distances) => $with,
            Distances::Of16($distances) => $with,
            Distances::Of32($distances) => $with,
            Distances::Of64($distances) => $with,
        }
    };
}

impl Narrow {
    pub(super) fn new(numbers: &[i64]) -> Self {
        let least = numbers.iter().fold(i64::MAX, |least, n| least.min(*n));
        let most = numbers.iter().fold(i64::MIN, |most, n| most.max(*n));
        let widest = if numbers.is_empty() { 0 } else { most.wrapping_sub(least) as u64 };
        let distances = numbers.iter().map(|n| n.wrapping_sub(least) as u64);
        let distances = match widest {
            ..0x100 => Distances::Of8(distances.map(|d| d as u8).collect()),
            0x100..0x1_0000 => Distances::Of16(distances.map(|d| d as u16).collect()),
            0x1_0000..0x1_0000_0000 => Distances::Of32(distances.map(|d| d as u32).collect()),
            0x1_0000_0000.. => Distances::Of64(distances.collect()),
        };
        Self { least, widest, distances }
    }

    fn bytes(&self) -> usize {
        of_width!(self, distances => size_of_val(&**distances))
    }

    /// Appends the numbers of a range, each as `of` has it.
    pub(super) fn extend<N>(&self, values: &mut Vec<N>, range: Range<usize>, of: impl Fn(i64) -> N) {
        let least = self.least;
        of_width!(self, distances => {
            values.extend(distances[range].iter().map(|d| of(d.after(least))));
        });
    }

    /// Appends the numbers at some places behind `start`, each as `of` has it.
    pub(super) fn gather<N>(
        &self,
        values: &mut Vec<N>,
        start: usize,
        places: impl ExactSizeIterator<Item = usize>,
        of: impl Fn(i64) -> N,
    ) {
        let least = self.least;
        of_width!(self, distances => {
            let distances = &distances[start..];
            values.extend(places.map(|at| of(distances[at].after(least))));
        });
    }
}

impl CachedPage {
    /// Appends to `bits` whether the numbers of some rows are in `range`. False if the page has codes.
    pub(super) fn matches(&self, rows: Range<usize>, range: &RangeInclusive<i64>, bits: &mut Bits) -> bool {
        match self {
            Self::Codes(..) => return false,
            Self::Even(first, step) => {
                let number = |row: usize| first.wrapping_add(step.wrapping_mul(row as i64));
                bits.extend(rows.len(), |at| range.contains(&number(rows.start + at)));
            }
            Self::Numbers(numbers) => numbers.matches(rows, range, bits),
        }
        true
    }
}

impl Narrow {
    fn matches(&self, rows: Range<usize>, range: &RangeInclusive<i64>, bits: &mut Bits) {
        let most = self.least.wrapping_add(self.widest as i64);
        let (from, to) = (self.least.max(*range.start()), most.min(*range.end()));
        if from > to {
            return bits.extend(rows.len(), |_| false);
        }
        let (from, to) = (from.wrapping_sub(self.least) as u64, to.wrapping_sub(self.least) as u64);
        of_width!(self, distances => within(&distances[rows], from, to, bits));
    }
}

/// Appends whether distances are between two others, which both are at most the largest of the distances.
fn within<D: Distance>(distances: &[D], from: u64, to: u64, bits: &mut Bits) {
    let (from, to) = (D::at_most(from), D::at_most(to));
    let flag = |distance: &D| u8::from(from <= *distance) & u8::from(*distance <= to);
    let (words, rest) = distances.as_chunks::<64>();
    for word in words {
        let mut flags = [0; 64];
        flags.iter_mut().zip(word).for_each(|(to, distance)| *to = flag(distance));
        bits.push(packed(&flags), 64);
    }
    bits.extend(rest.len(), |at| flag(&rest[at]) == 1);
}

/// Packs flags that are 0 or 1 into bits: the product moves the lowest bit of each of eight bytes into the highest byte.
fn packed(flags: &[u8; 64]) -> u64 {
    let eight = |flags: &[u8; 8]| u64::from_le_bytes(*flags).wrapping_mul(0x0102_0408_1020_4080) >> 56;
    let bytes = flags.as_chunks::<8>().0.iter().enumerate();
    bytes.fold(0, |word, (at, flags)| word | eight(flags) << (8 * at))
}

/// Bits that are appended.
#[derive(Debug, Default)]
pub(super) struct Bits {
    words: Vec<u64>,
    len: usize,
}

impl Bits {
    pub(super) fn with_capacity(bits: usize) -> Self {
        Self { words: Vec::with_capacity(bits.div_ceil(64) + 1), len: 0 }
    }

    /// Appends `count` bits.
    #[inline(always)]
    fn extend(&mut self, count: usize, bit: impl Fn(usize) -> bool) {
        let word = |start: usize, n: usize| (0..n).fold(0, |word, i| word | u64::from(bit(start + i)) << i);
        let whole = count / 64 * 64;
        for start in (0..whole).step_by(64) {
            self.push(word(start, 64), 64);
        }
        self.push(word(whole, count - whole), count - whole);
    }

    /// Appends the low `count` bits of a word whose others are zero.
    fn push(&mut self, word: u64, count: usize) {
        let shift = self.len % 64;
        match self.words.last_mut().filter(|_| shift > 0) {
            Some(last) => {
                *last |= word << shift;
                if shift + count > 64 {
                    self.words.push(word >> (64 - shift));
                }
            }
            None if count > 0 => self.words.push(word),
            None => {}
        }
        self.len += count;
    }

    pub(super) fn finish(self) -> BooleanBuffer {
        // Words are read as bytes, the lowest first.
        let words: Vec<u64> = self.words.into_iter().map(u64::to_le).collect();
        BooleanBuffer::new(Buffer::from_vec(words), 0, self.len)
    }
}

#[cfg(test)]
mod tests {
    use rand::{Rng, SeedableRng, rngs::StdRng};

    use super::*;

    #[test]
    fn numbers_of_any_range_are_held_in_few_bytes_and_read_from_any_place() {
        let mut rng = StdRng::seed_from_u64(11);
        for bits in 0..=64u32 {
            for rows in [0, 1, 2, 700] {
                let base: i64 = rng.random();
                let distance = |rng: &mut StdRng| rng.random::<u64>().checked_shr(64 - bits).unwrap_or(0);
                let mut numbers: Vec<i64> = (0..rows).map(|_| base.wrapping_add(distance(&mut rng) as i64)).collect();
                if rng.random_bool(0.2) {
                    numbers.extend([i64::MIN, i64::MAX]);
                }
                let narrow = Narrow::new(&numbers);
                let (from, to) = (rng.random_range(0..=numbers.len()), numbers.len());
                let mut found = vec![5];
                narrow.extend(&mut found, from..to, |n| n);
                assert_eq!(found[1..], numbers[from..]);
                let places: Vec<usize> = (0..to - from).filter(|_| rng.random()).collect();
                found.clear();
                narrow.gather(&mut found, from, places.iter().copied(), |n| n);
                assert_eq!(found, places.iter().map(|at| numbers[from + at]).collect::<Vec<_>>());
                let span =
                    numbers.iter().max().zip(numbers.iter().min()).map_or(0, |(most, least)| most.abs_diff(*least));
                let each = [1, 2, 4, 8].into_iter().find(|each| span <= u64::MAX >> (64 - 8 * each)).unwrap();
                assert_eq!(narrow.bytes(), numbers.len() * each as usize);
            }
        }
    }
}
