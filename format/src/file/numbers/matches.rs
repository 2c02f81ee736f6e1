//! Compares numbers with a range as the cache holds them.

use std::ops::RangeInclusive;

use arrow::{buffer::BooleanBuffer, datatypes::DataType};

use super::{Numbers, cached::Bits};

impl Numbers {
    /// Returns whether each of the next `count` requested rows has a value in `range`, without taking them. `None` if the cache does
    /// not hold their pages as numbers, or if the column is not of signed 64-bit numbers of this type.
    pub(in crate::file) fn matches(
        &self,
        count: usize,
        data_type: &DataType,
        range: &RangeInclusive<i64>,
    ) -> Option<BooleanBuffer> {
        let chunk = self.cached.as_ref()?;
        if self.width != 8 || self.data_type != *data_type || !is_of_signed(data_type) {
            return None;
        }
        let (mut bits, mut left) = (Bits::with_capacity(count), count);
        let current = self.current.iter().map(|current| (&current.rows, current.at));
        let mut pages = current.chain(self.pages.iter().map(|page| (&page.rows, page.at))).peekable();
        for rows in &self.rows {
            if left == 0 {
                break;
            }
            let mut start = rows.start;
            let end = rows.end.min(start + left);
            left -= end - start;
            while start < end {
                let (of_page, at) = *pages.peek()?;
                let stop = of_page.end.min(end);
                if of_page.start <= start && start < stop {
                    let within = start - of_page.start..stop - of_page.start;
                    if !chunk.page(at)?.matches(within, range, &mut bits) {
                        return None;
                    }
                    start = stop;
                }
                if start < end {
                    pages.next();
                }
            }
        }
        (left == 0).then(|| bits.finish())
    }
}

/// Whether the stored bits of the numbers, in 64 bits, are the numbers.
fn is_of_signed(data_type: &DataType) -> bool {
    *data_type == DataType::Int64 || matches!(data_type, DataType::Timestamp(..))
}
