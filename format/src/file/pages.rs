//! Where pages end.

/// The lengths of pages for runs of rows of one series each.
///
/// A page ends with a series once it has `target` rows; a series of `target` rows or more starts a page of its own
/// and, above `max` rows, is cut into pages of about equal length. No page has more than `max` rows.
pub(super) fn plan(runs: impl IntoIterator<Item = usize>, target: usize, max: usize) -> Vec<usize> {
    let mut pages = Vec::new();
    let mut open = 0;
    for run in runs.into_iter().filter(|n| *n > 0) {
        if open > 0 && (open >= target || run >= target || open + run > max) {
            pages.push(std::mem::take(&mut open));
        }
        let parts = run.div_ceil(max);
        // The last part stays open, so that it is closed as any other run.
        for part in 1..parts {
            pages.push(run * part / parts - run * (part - 1) / parts);
        }
        open += run - run * (parts - 1) / parts;
    }
    if open > 0 {
        pages.push(open);
    }
    pages
}

#[cfg(test)]
mod tests {
    use super::plan;

    #[test]
    fn pages_end_with_series() {
        assert_eq!(plan([10_000; 3], 2_000, 16_384), [10_000; 3]);
        assert_eq!(plan([700; 7], 2_000, 16_384), [2_100, 2_100, 700]);
        assert_eq!(plan([100, 5_000, 100, 100], 2_000, 16_384), [100, 5_000, 200]);
        assert_eq!(plan([3, 40_000, 1], 2_000, 16_384), [3, 13_333, 13_333, 13_334, 1]);
        assert_eq!(plan([1_999, 16_384], 2_000, 16_384), [1_999, 16_384]);
        assert_eq!(plan([1; 5], 1, 1), [1; 5]);
        assert_eq!(plan([0, 0], 2_000, 16_384), [0usize; 0]);
    }
}
