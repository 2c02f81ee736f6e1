//! Decodes 64-bit DELTA_BINARY_PACKED numbers: a first number and the differences of adjacent ones, bit-packed.
//!
//! Most of the time of a scan of integers goes into unpacking differences. So each width has code of its own, in which
//! all shifts are constants.

use std::ops::Range;

use super::{
    bad,
    decode::{unzigzag, varint},
};
use crate::error::{Error, Result};

/// Returns first value and step of the numbers if all steps are equal.
pub(super) fn even(mut body: &[u8], rows: usize) -> Option<(i64, i64)> {
    let mut head = || varint(&mut body);
    let (block, parts, count, first) = (head()?, head()?, head()?, head()?);
    if count != rows as u64 || rows < 2 || block == 0 || parts == 0 || parts > block {
        return None;
    }
    let blocks = (rows - 1).div_ceil(usize::try_from(block).ok()?);
    let start = body;
    let step = unzigzag(varint(&mut body)?);
    let widths = body.split_off(..usize::try_from(parts).ok()?)?;
    // Blocks of equal steps are equal bytes: each byte is compared with the one a block before it.
    let of_block = start.len() - body.len();
    let others = start.get(of_block..of_block.checked_mul(blocks)?)?;
    let is_even = widths.iter().all(|width| *width == 0) && others == &start[..others.len()];
    is_even.then(|| (unzigzag(first), step))
}

/// A page that is decoded from its start on, as far as its numbers are needed.
///
/// The numbers are made of differences, so all numbers before count: those of parts without a needed number are added up and not
/// unpacked.
#[derive(Debug)]
pub(super) struct Steps {
    rows: usize,
    /// Parts of a block.
    parts: usize,
    /// Numbers of a part, a multiple of eight.
    of_part: usize,
    /// Number of numbers that have been decoded or added up, and the last of them.
    done: usize,
    last: i64,
    /// Bytes of the page before the next part, and places of the widths of the block's other parts.
    at: usize,
    widths: Range<usize>,
    /// The smallest difference of the block.
    least: i64,
}

impl Steps {
    /// Reads the header of a page of `rows` numbers.
    ///
    /// # Errors
    /// [`Kind::Corrupt`](crate::Kind::Corrupt) for an invalid header, or one of another number of rows.
    pub(super) fn new(body: &[u8], rows: usize) -> Result<Self> {
        let mut rest = body;
        let mut head = || varint(&mut rest).ok_or_else(short);
        let (block, parts, count, first) = (head()?, head()?, head()?, head()?);
        if count != rows as u64
            || parts == 0
            || parts > 1 << 16
            || block == 0
            || block > 1 << 20
            || block % (parts * 8) != 0
        {
            return Err(bad("an invalid header of differences"));
        }
        let (parts, of_part) = (parts as usize, (block / parts) as usize);
        let at = body.len() - rest.len();
        // The first number stands before the parts.
        Ok(Self { rows, parts, of_part, done: 0, last: unzigzag(first), at, widths: 0..0, least: 0 })
    }

    /// Decodes the numbers before `end`, and some behind it, into `values`, which has a place for each row of the page.
    ///
    /// Numbers of parts for which `needs` returns false, given their rows, are left out: their places keep what they hold.
    ///
    /// # Errors
    /// [`Kind::Corrupt`](crate::Kind::Corrupt) for a page that ends early, or has an invalid width.
    pub(super) fn decode(
        &mut self,
        body: &[u8],
        end: usize,
        mut needs: impl FnMut(Range<usize>) -> bool,
        values: &mut [i64],
    ) -> Result<()> {
        let end = end.min(self.rows);
        if self.done == 0 && end > 0 {
            values[0] = self.last;
            self.done = 1;
        }
        let mut rest = body.get(self.at..).ok_or_else(short)?;
        while self.done < end {
            if self.widths.is_empty() {
                self.least = unzigzag(varint(&mut rest).ok_or_else(short)?);
                let start = body.len() - rest.len();
                let widths = rest.split_off(..self.parts).ok_or_else(short)?;
                // Parts of one width that are not needed are added up together.
                let block = self.done..self.done + self.parts * self.of_part;
                let width = widths[0] as usize;
                if block.end <= self.rows && widths.iter().all(|w| *w == widths[0]) && !needs(block.clone()) {
                    let (_, total) = WIDTHS.get(width).ok_or_else(bad_width)?;
                    let packed = rest;
                    rest.split_off(..block.len() * width / 8).ok_or_else(short)?;
                    self.add(total(packed, block.len()), block.len());
                    continue;
                }
                self.widths = start..start + self.parts;
            }
            let width = body[self.widths.start] as usize;
            self.widths.start += 1;
            let (unpack, total) = WIDTHS.get(width).ok_or_else(bad_width)?;
            let packed = rest;
            rest.split_off(..self.of_part * width / 8).ok_or_else(short)?;
            let rows = self.done..self.rows.min(self.done + self.of_part);
            if needs(rows.clone()) {
                self.last = unpack(&mut values[rows.clone()], packed, self.least, self.last);
            } else {
                self.add(total(packed, self.of_part), self.of_part);
            }
            // The last part of a page may have fewer rows than differences.
            self.done = rows.end;
        }
        self.at = body.len() - rest.len();
        Ok(())
    }

    /// Goes on by `count` differences with a sum, to which the smallest difference is added for each.
    fn add(&mut self, sum: i64, count: usize) {
        let least = self.least.wrapping_mul(count as i64);
        self.last = self.last.wrapping_add(least).wrapping_add(sum);
        self.done += count;
    }
}

fn bad_width() -> Error {
    bad("an invalid width of differences")
}

fn short() -> Error {
    bad("truncated differences")
}

/// Unpacks differences of one width into the numbers that they make: the arguments are the numbers, the packed bytes (at
/// least those of the differences), the smallest difference, which is added to each, and the number before. Returns the
/// last number.
type Unpack = fn(&mut [i64], &[u8], i64, i64) -> i64;

/// Returns the sum of this many differences, a multiple of eight, of one width; it wraps.
type Total = fn(&[u8], usize) -> i64;

/// The code for each width, from 0 to 64.
static WIDTHS: [(Unpack, Total); 65] = {
    macro_rules! widths {
        ($($width:literal)*) => { [$((unpack::<$width> as Unpack, total::<$width> as Total)),*] };
    }
    widths!(
        0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32
        33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63 64
    )
};

fn unpack<const WIDTH: usize>(values: &mut [i64], packed: &[u8], least: i64, mut last: i64) -> i64 {
    let mut next = |difference: u64| {
        last = last.wrapping_add(least).wrapping_add(difference as i64);
        last
    };
    // Eight differences begin and end at whole bytes. A load of 8 bytes has any difference of up to 57 bits.
    let load = if WIDTH <= 57 { 8 } else { 16 };
    let (groups, rest) = values.as_chunks_mut::<8>();
    let mut start = 0;
    for group in groups {
        match packed.get(start..start + 7 * WIDTH / 8 + load) {
            Some(bytes) => {
                for (i, value) in group.iter_mut().enumerate() {
                    *value = next(constant::<WIDTH>(bytes, i));
                }
            }
            // The loads would pass the end of the page.
            None => {
                for (i, value) in group.iter_mut().enumerate() {
                    *value = next(number(packed, 8 * start + i * WIDTH, WIDTH));
                }
            }
        }
        start += WIDTH;
    }
    for (i, value) in rest.iter_mut().enumerate() {
        *value = next(number(packed, 8 * start + i * WIDTH, WIDTH));
    }
    last
}

fn total<const WIDTH: usize>(packed: &[u8], count: usize) -> i64 {
    if WIDTH == 0 {
        return 0;
    }
    if WIDTH == 1 {
        return packed[..count / 8].iter().map(|byte| i64::from(byte.count_ones())).sum();
    }
    if (2..=8).contains(&WIDTH) {
        return total_in_lanes::<WIDTH>(packed, count);
    }
    let load = if WIDTH <= 57 { 8 } else { 16 };
    let mut sum = 0_u64;
    for start in (0..count / 8).map(|group| group * WIDTH) {
        match packed.get(start..start + 7 * WIDTH / 8 + load) {
            Some(bytes) => (0..8).for_each(|i| sum = sum.wrapping_add(constant::<WIDTH>(bytes, i))),
            // The loads would pass the end of the page.
            None => (0..8).for_each(|i| sum = sum.wrapping_add(number(packed, 8 * start + i * WIDTH, WIDTH))),
        }
    }
    sum as i64
}

/// As [`total`], for widths from two to eight. A load of 64 bits has 8, 16 or 32 whole differences. They are added to lanes of twice
/// their width: those at even places to one sum, those at odd places, shifted, to the same. Then the lanes are added up: pairs first,
/// so that a multiplication by a number with a one in each lane leaves the sum of all in the highest lane.
fn total_in_lanes<const WIDTH: usize>(packed: &[u8], count: usize) -> i64 {
    let of_load = 64 / WIDTH / 8 * 8;
    let bytes = of_load * WIDTH / 8;
    let lanes_of =
        |bits: usize, each: u64| (0..of_load * WIDTH / bits).fold(0, |all, lane| all | each << (bits * lane));
    let even = lanes_of(2 * WIDTH, mask(WIDTH));
    let (pairs, ones) = (lanes_of(4 * WIDTH, mask(2 * WIDTH)), lanes_of(4 * WIDTH, 1));
    let highest = of_load * WIDTH - 4 * WIDTH;
    // The number of pairs of differences that fit into a lane.
    let most = if WIDTH == 2 { 2 } else { 4 };
    let (mut sum, mut start, mut left) = (0_u64, 0, count);
    while left > 0 {
        let mut lanes = 0_u64;
        for _ in 0..most {
            let load = match packed.get(start..start + 8) {
                Some(bytes) => u64::from_le_bytes(bytes.try_into().unwrap_or_default()),
                // The load would pass the end of the page.
                None => {
                    let mut bytes = [0; 8];
                    let rest = packed.get(start..).unwrap_or_default();
                    bytes[..rest.len()].copy_from_slice(rest);
                    u64::from_le_bytes(bytes)
                }
            };
            let load = if left < of_load { load & mask(left * WIDTH) } else { load };
            lanes += (load & even) + (load >> WIDTH & even);
            (start, left) = (start + bytes, left.saturating_sub(of_load));
            if left == 0 {
                break;
            }
        }
        let lanes = (lanes & pairs) + (lanes >> (2 * WIDTH) & pairs);
        sum += lanes.wrapping_mul(ones) >> highest & mask(4 * WIDTH);
    }
    sum as i64
}

/// The `i`-th of eight numbers: `i` is a constant too where the caller's loop is unrolled.
#[inline(always)]
fn constant<const WIDTH: usize>(bytes: &[u8], i: usize) -> u64 {
    let (byte, shift) = (i * WIDTH / 8, i * WIDTH % 8);
    let bits = if WIDTH <= 57 {
        let mut load = [0; 8];
        load.copy_from_slice(&bytes[byte..byte + 8]);
        u64::from_le_bytes(load) >> shift
    } else {
        let mut load = [0; 16];
        load.copy_from_slice(&bytes[byte..byte + 16]);
        (u128::from_le_bytes(load) >> shift) as u64
    };
    bits & mask(WIDTH)
}

/// The number of `width` bits from bit `at` on, low bits first. Bytes beyond the end are zero.
fn number(packed: &[u8], at: usize, width: usize) -> u64 {
    // Up to 64 bits that begin within a byte span at most nine bytes.
    let mut window = [0; 16];
    let part = packed.get(at / 8..packed.len().min(at / 8 + 9)).unwrap_or_default();
    window[..part.len()].copy_from_slice(part);
    (u128::from_le_bytes(window) >> (at % 8)) as u64 & mask(width)
}

const fn mask(width: usize) -> u64 {
    if width == 0 { 0 } else { u64::MAX >> (64 - width) }
}

#[cfg(test)]
mod tests;
