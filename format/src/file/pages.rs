//! Splits rows into pages.

/// Maximum number of planned pages, and of rows, in a joined page.
const JOINED: usize = 8;
const JOINED_ROWS: usize = 1 << 16;

/// Returns the row counts of the pages for `runs`, the row counts of consecutive series.
///
/// A page ends at the end of a series once it has `target` rows, or before a series that would bring it above `max`
/// rows. A series of `target` rows or more starts a new page and, above `max` rows, is cut into pages of about equal
/// length. No page has more than `max` rows.
pub(super) fn plan(runs: impl IntoIterator<Item = usize>, target: usize, max: usize) -> Vec<usize> {
    let mut pages = Vec::new();
    let mut open = 0;
    for run in runs.into_iter().filter(|n| *n > 0) {
        if open > 0 && (open >= target || run >= target || open + run > max) {
            pages.push(std::mem::take(&mut open));
        }
        let parts = run.div_ceil(max);
        // The last part stays open: it ends like any other page.
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

/// Returns the pages of columns that are constant within a series. Adjacent planned pages are joined, since a page of
/// such a column costs as much as some thousands of its rows.
pub(super) fn joined(plan: &[usize]) -> Vec<usize> {
    let mut pages: Vec<usize> = Vec::with_capacity(plan.len() / JOINED + 1);
    let mut parts = 0;
    for rows in plan {
        match pages.last_mut().filter(|page| parts < JOINED && **page + rows <= JOINED_ROWS) {
            Some(page) => {
                *page += rows;
                parts += 1;
            }
            None => {
                pages.push(*rows);
                parts = 1;
            }
        }
    }
    pages
}

#[cfg(test)]
mod tests {
    use super::{joined, plan};

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

    #[test]
    fn joined_pages_respect_page_boundaries_and_limits() {
        assert_eq!(joined(&[10_000; 14]), [60_000, 60_000, 20_000]);
        assert_eq!(joined(&[2_100; 20]), [16_800, 16_800, 8_400]);
        assert_eq!(joined(&[65_536, 1, 65_535, 65_536]), [65_536, 65_536, 65_536]);
        assert_eq!(joined(&[]), [0usize; 0]);
    }
}
