//! Which rows of a batch go into which cells.

use std::ops::Range;

/// Adjacent rows of a batch in one cell, in ascending time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) cell: u32,
    pub(super) start: usize,
    pub(super) len: usize,
}

impl Span {
    /// Range of rows.
    pub(super) fn rows(&self) -> Range<usize> {
        self.start..self.start + self.len
    }
}

/// Adjacent spans of the same number of rows, at least one, in consecutive cells. Series with a row each second have one
/// strip for all their whole minutes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Strip {
    /// Cell of the first span.
    cell: u32,
    /// Number of spans.
    spans: u32,
    /// First row.
    start: usize,
    /// Rows of a span.
    len: usize,
}

impl Strip {
    /// Adds a span after those of `all`, unless it has no rows.
    #[inline]
    pub(super) fn push(all: &mut Vec<Self>, span: Span) {
        if let Some(last) = all.last_mut()
            && (last.len, last.end_cell(), last.rows().end) == (span.len, span.cell as usize, span.start)
        {
            last.spans += 1;
        } else if span.len > 0 {
            all.push(Self { cell: span.cell, spans: 1, start: span.start, len: span.len });
        }
    }

    /// The spans.
    pub(super) fn spans(self) -> impl Iterator<Item = Span> {
        (0..self.spans).map(move |i| Span {
            cell: self.cell + i,
            start: self.start + i as usize * self.len,
            len: self.len,
        })
    }

    /// The cell of each span, and its part of the values of a batch.
    #[inline]
    pub(super) fn parts<'a, V>(&self, values: &'a [V]) -> impl Iterator<Item = (usize, &'a [V])> {
        let (mut rest, len) = (&values[self.rows()], self.len);
        self.cells().map(move |cell| {
            let (part, others) = rest.split_at(len);
            rest = others;
            (cell, part)
        })
    }

    /// The cells, one for each span.
    pub(super) fn cells(&self) -> Range<usize> {
        self.cell as usize..self.end_cell()
    }

    /// The rows of all spans.
    pub(super) fn rows(&self) -> Range<usize> {
        self.start..self.start + self.spans as usize * self.len
    }

    /// Rows of each span.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    fn end_cell(&self) -> usize {
        self.cell as usize + self.spans as usize
    }
}

#[cfg(test)]
mod tests {
    use rand::{Rng, SeedableRng, rngs::StdRng};

    use super::*;

    #[test]
    fn strips_have_the_spans_that_were_added() {
        let mut random = StdRng::seed_from_u64(33);
        for _ in 0..2_000 {
            let (mut strips, mut spans, mut start) = (Vec::new(), Vec::new(), 0);
            for _ in 0..random.random_range(0..20) {
                // Cells and lengths that often go on as before.
                let before = spans.last().copied().unwrap_or(Span { cell: 0, start: 0, len: 3 });
                let cell = if random.random_bool(0.7) { before.cell + 1 } else { random.random_range(0..5) };
                let len = if random.random_bool(0.7) { before.len } else { random.random_range(0..4) };
                start += usize::from(random.random_bool(0.1));
                let span = Span { cell, start, len };
                start += len;
                Strip::push(&mut strips, span);
                spans.extend((len > 0).then_some(span));
            }
            // Adjacent strips cannot be joined.
            let joins =
                |a: &Strip, b: &Strip| a.len == b.len && a.cells().end == b.cells().start && a.rows().end == b.start;
            assert!(strips.windows(2).all(|pair| !joins(&pair[0], &pair[1])), "{strips:?}");
            let rows: Vec<usize> = (0..start).collect();
            for strip in &strips {
                let of_spans: Vec<_> = strip.spans().map(|span| (span.cell as usize, &rows[span.rows()])).collect();
                assert_eq!(strip.parts(&rows).collect::<Vec<_>>(), of_spans);
            }
            let found: Vec<Span> = strips.iter().flat_map(|strip| strip.spans()).collect();
            assert_eq!(found, spans);
            for strip in &strips {
                let of = strip.spans();
                let cells: Vec<usize> = of.map(|span| span.cell as usize).collect();
                assert_eq!(strip.cells().collect::<Vec<_>>(), cells);
                assert_eq!(strip.rows().len(), strip.len() * cells.len());
            }
        }
    }
}
