//! Splits rows of a series at the boundaries of buckets.

use super::Cells;
use crate::{
    functions::window::FixedBucket,
    levels::strip::{Span, Strip},
};

impl Cells {
    /// Splits rows of one series, in ascending time, at bucket boundaries; the first row is row `base` of the batch.
    pub(super) fn walk(&mut self, bucket: &FixedBucket, group: u32, ts: &[i64], base: usize, strips: &mut Vec<Strip>) {
        let mut start = 0;
        // Most buckets of a series have as many rows as the bucket before.
        let mut guess = 1;
        let mut after = None;
        while start < ts.len() {
            let (first, place) = self.bucket_of(bucket, group, ts[start], after);
            let end_ts = bucket.end(first);
            after = end_ts.map(|end| (end, place + 1));
            let of = &ts[start..];
            let len = end_ts.map_or(of.len(), |end_ts| rows_before(of, end_ts, guess));
            let cell = self.cell_at(place, group, first);
            Strip::push(strips, Span { cell, start: base + start, len });
            start += len;
            guess = len;
        }
    }

    /// Same as `walk`, for rows at equal time steps.
    pub(super) fn stride(
        &mut self,
        bucket: &FixedBucket,
        group: u32,
        (first_ts, step): (i64, i64),
        rows: usize,
        base: usize,
        strips: &mut Vec<Strip>,
    ) {
        let (mut start, mut ts, mut guess) = (0, first_ts, 1);
        let mut after = None;
        // Rows of each bucket but the first and the last: a step that divides the width has the same number in each, wherever in it
        // the first of them is.
        let width = bucket.width_ticks.unsigned_abs();
        let same = u64::try_from(step).ok().filter(|step| *step > 0 && width.is_multiple_of(*step));
        let same = same.and_then(|step| usize::try_from(width / step).ok());
        while start < rows {
            if let (Some(same), Some((mut first, mut place))) = (same, after)
                && rows - start >= same
            {
                for _ in 0..(rows - start) / same {
                    let cell = self.cell_at(place, group, first);
                    Strip::push(strips, Span { cell, start: base + start, len: same });
                    (start, place) = (start + same, place + 1);
                    (first, ts) = (first.wrapping_add(bucket.width_ticks), ts.wrapping_add(bucket.width_ticks));
                }
                after = Some((first, place));
                continue;
            }
            let (first, place) = self.bucket_of(bucket, group, ts, after);
            let end_ts = bucket.end(first);
            after = end_ts.map(|end| (end, place + 1));
            let left = rows - start;
            let len = match end_ts {
                Some(end) if step > 0 => {
                    let room = end.abs_diff(ts);
                    let until = |n: u64| (step as u64).saturating_mul(n);
                    let is_it = |n: u64| until(n - 1) < room && until(n) >= room;
                    // Most buckets have as many rows as the bucket before.
                    let fits = if is_it(guess) { guess } else { (room - 1) / step as u64 + 1 };
                    usize::try_from(fits).map_or(left, |fits| fits.min(left))
                }
                // A step of 0: no further row has this time.
                Some(_) => 1,
                None => left,
            };
            let cell = self.cell_at(place, group, first);
            Strip::push(strips, Span { cell, start: base + start, len });
            start += len;
            ts = ts.wrapping_add(step.wrapping_mul(len as i64));
            guess = len as u64;
        }
    }

    /// Start and index of the bucket of a time; usually the bucket `after` the previous one, which avoids a division.
    fn bucket_of(&self, bucket: &FixedBucket, group: u32, ts: i64, after: Option<(i64, usize)>) -> (i64, usize) {
        let follows = |(first, _): &(i64, usize)| bucket.end(*first).is_none_or(|end| ts < end) && *first <= ts;
        after.filter(follows).unwrap_or_else(|| {
            let first = bucket.start(ts);
            (first, self.place(group, first))
        })
    }
}

/// Number of leading times < `end` in sorted `ts`; `ts[0] < end`; the search starts at `guess`.
fn rows_before(ts: &[i64], end: i64, guess: usize) -> usize {
    let is_it = |n: usize| ts.get(n - 1).is_some_and(|t| *t < end) && ts.get(n).is_none_or(|t| *t >= end);
    if guess > 0 && is_it(guess) {
        return guess;
    }
    let mut reach = guess + 1;
    while reach < ts.len() && ts[reach - 1] < end {
        reach *= 2;
    }
    ts[..reach.min(ts.len())].partition_point(|t| *t < end)
}
