//! A multiset of numbers from which ranks are read.
//!
//! Measurements are often integers of a small range, of which most occur many times: these are counted, and only the
//! other numbers are kept one by one. Neither form needs more than 8 bytes a number, beyond 512 bytes for few of them.

use std::mem;

/// Number of values from which integers are counted.
const FEW: usize = 64;
/// Most counters of a multiset.
const COUNTERS: usize = 1 << 16;
/// Numbers that are looked at together for the range of their integers.
const TOGETHER: usize = 1 << 10;
/// Integers beyond are not counted: not all of them are numbers of 64 bits.
const LARGEST: f64 = (1_i64 << 53) as f64;

#[derive(Debug, Default, Clone)]
pub(super) struct Values {
    /// The integer of the first counter.
    base: i64,
    counts: Vec<u64>,
    /// Numbers that are not counted, in any order.
    others: Vec<f64>,
    /// All numbers.
    len: usize,
}

/// The integer that a number is; none for −0.0, which sorts before 0.
fn integer(value: f64) -> Option<i64> {
    let integer = value as i64;
    ((integer as f64).to_bits() == value.to_bits() && value.abs() <= LARGEST).then_some(integer)
}

/// Least and greatest integer; `None` if most of the numbers are none.
fn range(values: &[f64]) -> Option<(i64, i64)> {
    let (mut low, mut high, mut integers) = (i64::MAX, i64::MIN, 0);
    for value in values.iter().filter_map(|value| integer(*value)) {
        low = low.min(value);
        high = high.max(value);
        integers += 1;
    }
    (integers * 2 > values.len()).then_some((low, high))
}

impl Values {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Memory in bytes, beside the structure itself.
    pub(super) fn bytes(&self) -> usize {
        (self.counts.capacity() + self.others.capacity()) * 8
    }

    pub(super) fn extend(&mut self, values: &[f64]) {
        self.len += values.len();
        if self.len < FEW {
            return self.others.extend_from_slice(values);
        }
        if self.counts.is_empty() && self.others.len() < FEW {
            let few = mem::take(&mut self.others);
            self.count(&few);
        }
        values.chunks(TOGETHER).for_each(|values| self.count(values));
    }

    fn count(&mut self, values: &[f64]) {
        match range(values) {
            Some((low, high)) => self.widen(low, high),
            None if self.counts.is_empty() => return self.others.extend_from_slice(values),
            None => {}
        }
        for value in values {
            match integer(*value).and_then(|value| self.counter(value)) {
                Some(counter) => *counter += 1,
                None => self.others.push(*value),
            }
        }
    }

    fn counter(&mut self, value: i64) -> Option<&mut u64> {
        self.counts.get_mut(usize::try_from(value - self.base).ok()?)
    }

    /// Adds counters for the integers of a range, if there are not too many.
    fn widen(&mut self, low: i64, high: i64) {
        let most = self.len.clamp(FEW, COUNTERS);
        let fits = |low: i64, high: i64| usize::try_from(high - low).is_ok_and(|span| span < most);
        if self.counts.is_empty() {
            self.base = low;
        }
        let end = self.base + self.counts.len() as i64;
        if low < self.base {
            // At least twice as many: counters are moved seldom.
            let base = low.min(self.base - self.counts.len() as i64);
            if fits(base, end - 1) {
                let mut counts = vec![0; (end - base) as usize];
                counts[(self.base - base) as usize..].copy_from_slice(&self.counts);
                (self.base, self.counts) = (base, counts);
            }
        }
        if high >= end && fits(self.base, high) {
            self.counts.resize((high - self.base + 1) as usize, 0);
        }
    }

    /// Adds a number several times.
    pub(super) fn add(&mut self, value: f64, times: usize) {
        self.len += times;
        if let Some(integer) = integer(value) {
            self.widen(integer, integer);
            if let Some(counter) = self.counter(integer) {
                *counter += times as u64;
                return;
            }
        }
        self.others.resize(self.others.len() + times, value);
    }

    /// Removes a number once; returns whether it was there.
    pub(super) fn remove(&mut self, value: f64) -> bool {
        let counter = integer(value).and_then(|integer| self.counter(integer)).filter(|counter| **counter > 0);
        if let Some(counter) = counter {
            *counter -= 1;
        } else if let Some(at) = self.others.iter().position(|other| other.to_bits() == value.to_bits()) {
            self.others.swap_remove(at);
        } else {
            return false;
        }
        self.len -= 1;
        true
    }

    /// The numbers that were counted, ascending, with their counts.
    pub(super) fn counted(&self) -> impl Iterator<Item = (f64, u64)> {
        let counted = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        counted.map(|(at, count)| ((self.base + at as i64) as f64, *count))
    }

    /// The numbers that were not counted.
    pub(super) fn others(&self) -> &[f64] {
        &self.others
    }

    /// The numbers at a rank and the one after, of those in ascending order of `total_cmp`. The second is the first
    /// where no rank follows.
    ///
    /// # Panics
    ///
    /// `rank` must be below the length.
    pub(super) fn at(&mut self, rank: usize) -> (f64, f64) {
        let next = (rank + 1).min(self.len - 1);
        if self.others.len() == self.len {
            let (_, first, after) = self.others.select_nth_unstable_by(rank, f64::total_cmp);
            let first = *first;
            return (first, after.iter().copied().min_by(f64::total_cmp).unwrap_or(first));
        }
        let others = self.others.iter().map(|value| (*value, 1));
        let mut runs: Vec<(f64, u64)> = self.counted().chain(others).collect();
        runs.sort_unstable_by(|(a, _), (b, _)| a.total_cmp(b));
        let at = |rank: usize| {
            let mut passed = 0;
            let run = runs.iter().find(|(_, times)| {
                passed += times;
                passed > rank as u64
            });
            run.expect("the rank is below the length").0
        };
        (at(rank), at(next))
    }
}

#[cfg(test)]
mod tests {
    use rand::{Rng, SeedableRng, rngs::StdRng};

    use super::*;

    /// Numbers of one of the shapes that a column has, some of them unusual.
    fn some(rng: &mut StdRng, shape: u32) -> f64 {
        if rng.random_ratio(1, 500) {
            let unusual = [f64::NAN, -f64::NAN, f64::INFINITY, f64::MIN, -0.0, 0.0, 9.3e18, 9_007_199_254_740_993.0];
            return unusual[rng.random_range(0..unusual.len())];
        }
        match shape {
            0 => f64::from(rng.random_range(0..=100)),
            1 => f64::from(rng.random_range(-70_000..70_000)),
            2 => f64::from(rng.random_range(0..40)) / 4.0,
            3 => rng.random_range(-1.0..1.0),
            _ => 1e15 + f64::from(rng.random_range(0..300)),
        }
    }

    #[test]
    fn ranks_are_those_of_the_sorted_numbers_after_any_changes() {
        for seed in 0..300 {
            let mut rng = StdRng::seed_from_u64(seed);
            let (mut values, mut naive) = (Values::default(), Vec::new());
            for _ in 0..rng.random_range(1..8) {
                let shape = rng.random_range(0..5);
                let few = rng.random_bool(0.3);
                let new: Vec<f64> =
                    (0..rng.random_range(1..if few { 10 } else { 5_000 })).map(|_| some(&mut rng, shape)).collect();
                if rng.random_bool(0.5) {
                    values.extend(&new);
                    naive.extend_from_slice(&new);
                } else {
                    for value in new.iter().take(200) {
                        let times = rng.random_range(1..5);
                        values.add(*value, times);
                        naive.extend(std::iter::repeat_n(*value, times));
                    }
                }
                for _ in 0..rng.random_range(0..20) {
                    if naive.len() > 1 {
                        let gone = naive.swap_remove(rng.random_range(0..naive.len()));
                        assert!(values.remove(gone), "seed {seed}: {gone} is not there");
                    }
                }
                assert!(!values.remove(123_456_789.5));
                naive.sort_by(f64::total_cmp);
                assert_eq!(values.len(), naive.len(), "seed {seed}");
                assert!(values.bytes() <= 16 * 8 * naive.len() + 1_024, "seed {seed}: {} bytes", values.bytes());
                for rank in [0, naive.len() / 3, naive.len() / 2, naive.len() - 1] {
                    let (found, next) = values.at(rank);
                    let right = (naive[rank], naive[(rank + 1).min(naive.len() - 1)]);
                    assert_eq!(
                        (found.to_bits(), next.to_bits()),
                        (right.0.to_bits(), right.1.to_bits()),
                        "seed {seed}"
                    );
                }
            }
        }
    }

    #[test]
    fn integers_of_a_small_range_need_few_bytes() {
        let mut values = Values::default();
        for part in 0..100 {
            let part: Vec<f64> = (0..10_000).map(|i| f64::from((part * 31 + i * 7) % 101)).collect();
            values.extend(&part);
        }
        assert_eq!((values.len(), values.others().len(), values.counted().count()), (1_000_000, 0, 101));
        assert!(values.bytes() < 8_192, "{} bytes", values.bytes());
    }
}
