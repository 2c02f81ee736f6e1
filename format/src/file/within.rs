//! Finds the rows of a time range by their times.

use std::ops::{Range, RangeInclusive};

use super::numbers::Times;

/// The rows whose time is in `within`, ascending. `times` are those of `rows`; each of them is of adjacent rows.
pub(super) fn rows_within(rows: &[Range<usize>], times: &[Times], within: &RangeInclusive<i64>) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    let mut add = |start: usize, end: usize| match found.last_mut().filter(|last| last.end == start) {
        _ if start >= end => {}
        Some(last) => last.end = end,
        None => found.push(start..end),
    };
    let mut rest = rows.iter().filter(|range| !range.is_empty()).cloned();
    let mut left = rest.next().unwrap_or_default();
    for times in times {
        if left.is_empty() {
            left = rest.next().unwrap_or_default();
        }
        let start = left.start;
        let mut listed = |ts: &mut dyn Iterator<Item = i64>| {
            let mut from = None;
            let mut n = 0;
            for ts in ts {
                match (from, within.contains(&ts)) {
                    (None, true) => from = Some(start + n),
                    (Some(first), false) => {
                        add(first, start + n);
                        from = None;
                    }
                    _ => {}
                }
                n += 1;
            }
            if let Some(first) = from {
                add(first, start + n);
            }
            n
        };
        let n = match times {
            Times::Listed(ts) => listed(&mut ts.iter().copied()),
            Times::Even { first, step, rows } => match places(*first, *step, *rows, within) {
                Some(places) => {
                    add(start + places.start, start + places.end);
                    *rows
                }
                None => listed(&mut (0..*rows as i64).map(|i| first.wrapping_add(step.wrapping_mul(i)))),
            },
        };
        left.start += n;
    }
    found
}

/// Places of equidistant times in a range; `None` if the times do not ascend.
fn places(first: i64, step: i64, rows: usize, within: &RangeInclusive<i64>) -> Option<Range<usize>> {
    let (first, step, count) = (i128::from(first), i128::from(step), rows as i128);
    if step <= 0 || first + step * (count - 1) > i128::from(i64::MAX) {
        return None;
    }
    // The number of times below the range, and of those below its end.
    let below = |bound: i128| (bound - first).div_euclid(step) + i128::from((bound - first).rem_euclid(step) != 0);
    let start = below(i128::from(*within.start())).clamp(0, count);
    let end = below(i128::from(*within.end()) + 1).clamp(start, count);
    Some(start as usize..end as usize)
}

#[cfg(test)]
mod tests {
    use rand::{Rng, SeedableRng, rngs::StdRng};

    use super::*;

    #[test]
    fn rows_are_those_whose_times_are_in_the_range() {
        let mut random = StdRng::seed_from_u64(33);
        for round in 0..20_000 {
            let (mut rows, mut times, mut all) = (Vec::new(), Vec::new(), Vec::new());
            let mut at = 0;
            let far = random.random_bool(0.1);
            for _ in 0..random.random_range(0..5) {
                at += random.random_range(0..3);
                let range = at..at + random.random_range(1..12);
                let mut left = range.clone();
                while !left.is_empty() {
                    let n = random.random_range(1..=left.len());
                    let (first, step) = match far {
                        true => (random.random(), random.random::<i64>() >> random.random_range(0..60)),
                        false => (random.random_range(-20..20), random.random_range(-1..5)),
                    };
                    let even = |i: i64| i64::wrapping_add(first, i64::wrapping_mul(step, i));
                    let list: Vec<i64> = if random.random() {
                        times.push(Times::Even { first, step, rows: n });
                        (0..n as i64).map(even).collect()
                    } else {
                        let list: Vec<i64> = (0..n).map(|_| random.random_range(-20..20)).collect();
                        times.push(Times::Listed(list.clone()));
                        list
                    };
                    all.extend((left.start..).zip(list));
                    left.start += n;
                }
                at = range.end;
                rows.push(range);
            }
            let bound = |random: &mut StdRng| if far { random.random() } else { random.random_range(-25..25) };
            let within = bound(&mut random)..=bound(&mut random);
            let expected: Vec<usize> = all.iter().filter(|(_, ts)| within.contains(ts)).map(|(row, _)| *row).collect();
            let found = rows_within(&rows, &times, &within);
            assert!(found.windows(2).all(|two| two[0].end < two[1].start), "round {round}: {found:?}");
            assert_eq!(found.into_iter().flatten().collect::<Vec<_>>(), expected, "round {round}");
        }
    }
}
