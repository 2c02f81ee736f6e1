//! Which chunks a scan reads, and which of them must be merged because they overlap in time.
//!
//! A chunk is the rows of one series in one source. Within a source keys are unique, so rows of one key come only from
//! chunks of one series, in different sources, whose times overlap. Such chunks form components that are merged; all
//! others are streamed as they are, in any order.

use std::ops::Range;

use arrow::array::BooleanArray;

use super::{
    filters::TimeRange,
    source::{Hole, Source},
};

/// Adjacent rows of one series in one source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Piece {
    /// The series.
    pub(crate) rank: u32,
    /// Index of the series in the source.
    pub(crate) local: u32,
    /// Which of the rows are kept.
    pub(crate) keep: Keep,
    /// Rows of the source.
    pub(crate) rows: Range<u64>,
}

impl Piece {
    /// Number of rows to read.
    pub(crate) fn len(&self) -> u64 {
        self.rows.end - self.rows.start
    }
}

/// Which rows of a chunk are kept: all, or those at some times ([`Selection::kept`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keep {
    /// All rows.
    All,
    /// Rows within the time ranges at this index of [`Selection::kept`].
    Within(u32),
}

impl Keep {
    /// Rows within the time range of the scan.
    pub(crate) const IN_RANGE: Self = Self::Within(0);
}

/// A row of a chunk by time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// The row with the smallest time.
    First,
    /// The row with the largest time.
    Last,
}

/// Chunks of one series that overlap in time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Component {
    /// The series.
    pub(crate) rank: u32,
    /// (source, its chunk), oldest source first.
    pub(crate) parts: Vec<(u32, Piece)>,
}

impl Component {
    /// Number of rows to read.
    pub(crate) fn len(&self) -> u64 {
        self.parts.iter().map(|(_, p)| p.len()).sum()
    }
}

/// The chunks a scan reads.
#[derive(Debug, Clone, Default)]
pub(crate) struct Selection {
    /// For each source, the chunks that overlap with no other chunk, by row.
    pub(crate) plain: Vec<Vec<Piece>>,
    /// Components of overlapping chunks, by rank.
    pub(crate) merged: Vec<Component>,
    /// Disjoint ascending time ranges, for [`Keep::Within`].
    pub(crate) kept: Vec<Vec<TimeRange>>,
    /// Number of series with rows.
    pub(crate) series: usize,
}

impl Selection {
    /// Selects the chunks of `sources` (oldest first) in a time range, of the series with these ranks (`None` = all).
    pub(crate) fn new(sources: &[Source], series: usize, wanted: Option<&BooleanArray>, range: TimeRange) -> Self {
        let mut this = Self { plain: vec![Vec::new(); sources.len()], kept: vec![vec![range]], ..Self::default() };
        // Per series: the hull of the times seen so far; chunks that meet it are examined closely.
        let mut hulls = vec![TimeRange::NONE; series];
        let mut close = vec![false; series];
        let mut order: Vec<usize> = (0..sources.len()).collect();
        order.sort_by_key(|s| sources[*s].origin.span().first);
        for at in order {
            let source = &sources[at];
            let index = source.index();
            for local in 0..index.row_count.len() {
                let rank = source.ranks.of(local);
                let count = index.row_count[local];
                let span = TimeRange { first: index.min_ts[local], last: index.max_ts[local] };
                if count == 0 || !range.meets(span.first, span.last) || wanted.is_some_and(|w| !w.value(rank as usize))
                {
                    continue;
                }
                let Some(keep) = this.keep(source, rank, span, range) else { continue };
                let rows = index.first_row[local]..index.first_row[local] + count;
                this.plain[at].push(Piece { rank, local: local as u32, keep, rows });
                let (hull, clipped) = (&mut hulls[rank as usize], span.and(range));
                close[rank as usize] |= hull.meets(clipped.first, clipped.last);
                *hull = TimeRange { first: hull.first.min(clipped.first), last: hull.last.max(clipped.last) };
            }
        }
        this.series = hulls.iter().filter(|h| !h.is_empty()).count();
        if close.contains(&true) {
            this.separate(sources, &close, range);
        }
        this
    }

    /// Which rows of a chunk are kept; `None` if none is.
    fn keep(&mut self, source: &Source, rank: u32, span: TimeRange, range: TimeRange) -> Option<Keep> {
        let covers = |h: &&Hole| {
            h.range.meets(span.first, span.last)
                && h.ranks.as_ref().is_none_or(|ranks| ranks.binary_search(&rank).is_ok())
        };
        let mut holes = source.holes.iter().filter(covers).map(|h| h.range).peekable();
        if holes.peek().is_none() {
            let whole = range.covers(span.first, span.last);
            return Some(if whole { Keep::All } else { Keep::IN_RANGE });
        }
        let mut left = vec![span.and(range)];
        for hole in holes {
            left = left.into_iter().flat_map(|r| without(r, hole)).collect();
        }
        if left.is_empty() {
            return None;
        }
        self.kept.push(left);
        Some(Keep::Within(self.kept.len() as u32 - 1))
    }

    /// Moves overlapping chunks of the marked series from `plain` to `merged`.
    fn separate(&mut self, sources: &[Source], close: &[bool], range: TimeRange) {
        let mut candidates = Vec::new();
        for (at, pieces) in self.plain.iter_mut().enumerate() {
            let index = sources[at].index();
            let times = |p: &Piece| {
                let local = p.local as usize;
                TimeRange { first: index.min_ts[local], last: index.max_ts[local] }.and(range)
            };
            let marked = |p: &mut Piece| close[p.rank as usize];
            candidates.extend(pieces.extract_if(.., marked).map(|p| (p.rank, times(&p), at as u32, p)));
        }
        candidates.sort_unstable_by_key(|(rank, times, at, _)| (*rank, times.first, *at));
        let mut candidates = candidates.into_iter().peekable();
        while let Some((rank, times, at, piece)) = candidates.next() {
            let mut last = times.last;
            let mut parts = vec![(at, piece)];
            while let Some((_, next, at, piece)) = candidates.next_if(|(r, t, ..)| *r == rank && t.first <= last) {
                last = last.max(next.last);
                parts.push((at, piece));
            }
            if parts.len() == 1 {
                let (at, piece) = parts.remove(0);
                self.plain[at as usize].push(piece);
            } else {
                parts.sort_by_key(|(at, _)| *at);
                self.merged.push(Component { rank, parts });
            }
        }
        for pieces in &mut self.plain {
            pieces.sort_unstable_by_key(|p| p.rows.start);
        }
    }

    /// The same chunks, but of those that count as a whole and overlap no other chunk only the first or last row.
    pub(crate) fn ends(&self, end: End) -> Self {
        let mut this = self.clone();
        for piece in this.plain.iter_mut().flatten().filter(|piece| piece.keep == Keep::All && piece.len() > 0) {
            match end {
                End::First => piece.rows.end = piece.rows.start + 1,
                End::Last => piece.rows.start = piece.rows.end - 1,
            }
        }
        this
    }

    /// Number of rows to read, an upper bound of the rows returned.
    pub(crate) fn rows(&self) -> u64 {
        let plain: u64 = self.plain.iter().flatten().map(Piece::len).sum();
        plain + self.merged.iter().map(Component::len).sum::<u64>()
    }

    /// Number of chunks to read.
    pub(crate) fn chunks(&self) -> usize {
        self.plain.iter().map(Vec::len).sum::<usize>() + self.merged.iter().map(|c| c.parts.len()).sum::<usize>()
    }

    /// Time ranges of a [`Keep::Within`]; `None` if all rows are kept.
    pub(crate) fn ranges(&self, keep: Keep) -> Option<&[TimeRange]> {
        match keep {
            Keep::All => None,
            Keep::Within(at) => Some(&self.kept[at as usize]),
        }
    }
}

/// The rest of a range after a hole is removed: nothing, one range or two.
fn without(range: TimeRange, hole: TimeRange) -> impl Iterator<Item = TimeRange> {
    let (before, after) = if range.meets(hole.first, hole.last) {
        let before = hole.first.checked_sub(1).map(|last| TimeRange { first: range.first, last });
        let after = hole.last.checked_add(1).map(|first| TimeRange { first, last: range.last });
        (before, after)
    } else {
        (Some(range), None)
    };
    [before, after].into_iter().flatten().filter(|r| !r.is_empty())
}
