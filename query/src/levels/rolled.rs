//! Rollup buckets: which of them count as a whole, and which rows remain at the ends.

use std::{ops::Range, sync::Arc};

use arrow::array::ArrayRef;
use futures::future::try_join_all;
use hashbrown::HashMap;
use tidelake_format::{
    Error, Result,
    ids::ColumnId,
    rollup::{Rollup, Totals},
    store::Store,
    tags::Aggregate,
};

use super::{cells::Cells, column::Wants, divide::Needed};
use crate::scan::{FileSource, Piece, Reader, Reading, Source, TimeRange, Total, Unit};

/// Chunks of a file whose whole buckets its rollup answers.
#[derive(Debug, Clone)]
pub(super) struct Part {
    /// Index of the source.
    pub(super) at: usize,
    /// Its chunks.
    pub(super) pieces: Arc<Vec<Piece>>,
    /// Whether they are all rows of the file and in one group, so that buckets need not be kept per series.
    pub(super) together: bool,
}

/// Buckets and aggregates of a file's rollup for the needed columns.
pub(super) struct Rolled {
    buckets: Buckets,
    /// By the index of the column among the needed ones.
    values: Values,
}

enum Buckets {
    OfSeries(Arc<Rollup>),
    Together(Arc<Totals>),
}

type Values = HashMap<(usize, Aggregate), ArrayRef>;

/// Reads the rollup of a file; `None` if it has none.
///
/// # Errors
/// Those of the store; Corrupt or Unsupported, naming the key of the rollup.
pub(super) async fn read(
    reader: &Reader,
    store: &Store,
    file: &FileSource,
    columns: &[Needed],
    together: bool,
) -> Result<Option<Rolled>> {
    if together
        && let Some(totals) = reader.totals(store, file).await?
        && let Some(values) = totaled(reader, store, file, &totals, columns).await?
    {
        return Ok(Some(Rolled { buckets: Buckets::Together(totals), values }));
    }
    let Some(rollup) = reader.rollup(store, file).await? else { return Ok(None) };
    let found = wanted(columns).map(async |(i, id, what)| {
        let values = reader.rolled(store, file, &rollup, id, what).await?;
        Ok::<_, Error>(values.map(|v| ((i, what), v)))
    });
    let values = try_join_all(found).await?.into_iter().flatten().collect();
    Ok(Some(Rolled { buckets: Buckets::OfSeries(rollup), values }))
}

/// Aggregates of the columns totalled over all series of a file; `None` if only the buckets of single series can
/// answer.
async fn totaled(
    reader: &Reader,
    store: &Store,
    file: &FileSource,
    totals: &Totals,
    columns: &[Needed],
) -> Result<Option<Values>> {
    let found = wanted(columns).map(async |(i, id, what)| {
        let total = reader.totaled(store, file, totals, id, what).await?;
        Ok::<_, Error>(((i, what), total))
    });
    let mut values = HashMap::new();
    for (of, total) in try_join_all(found).await? {
        match total {
            Total::None => {}
            Total::Values(array) => drop(values.insert(of, array)),
            Total::OfSeries => return Ok(None),
        }
    }
    Ok(Some(values))
}

/// The needed aggregates: index of the column, its id, and the aggregate.
fn wanted(columns: &[Needed]) -> impl Iterator<Item = (usize, ColumnId, Aggregate)> {
    let id = |column: &Needed| column.id.filter(|id| *id != ColumnId::TS);
    let fields = columns.iter().enumerate().filter_map(move |(i, column)| Some((i, id(column)?, column)));
    fields.flat_map(|(i, id, column)| wanted_of(&column.wants).map(move |what| (i, id, what)))
}

/// Adds the buckets that count as a whole, of chunks of one source; returns the unit that reads the remaining rows.
pub(super) fn add(
    cells: &mut Cells,
    reading: &Reading,
    at: usize,
    source: &Source,
    pieces: &[Piece],
    rolled: Option<&Rolled>,
) -> Result<Option<Unit>> {
    let Some(Rolled { buckets, values }) = rolled else {
        return Ok(Some(Unit::Plain { source: at, pieces: pieces.to_vec() }));
    };
    let get = |i: usize, what: Aggregate| values.get(&(i, what)).cloned();
    let rollup = match (buckets, pieces) {
        (Buckets::OfSeries(rollup), _) => rollup,
        (Buckets::Together(_), []) => return Ok(None),
        (Buckets::Together(totals), [one, ..]) => {
            let rank = source.ranks.of(one.local as usize);
            let all = [(rank, 0..totals.starts().len())];
            cells.add_buckets(totals.starts(), totals.first_row(), &all, &get)?;
            return Ok(None);
        }
    };
    let (mut whole, mut rest) = (Vec::new(), Vec::new());
    for piece in pieces {
        let of = rollup.buckets(piece.local as usize);
        let rank = source.ranks.of(piece.local as usize);
        match reading.selection.ranges(piece.keep) {
            None => whole.push((rank, of)),
            Some(ranges) => {
                let mut edges = Vec::new();
                for range in ranges {
                    let (inside, cut) = split(rollup, of.clone(), *range);
                    if !inside.is_empty() {
                        whole.push((rank, inside));
                    }
                    edges.extend(cut);
                }
                edges.sort_unstable();
                edges.dedup();
                let rows = rollup.first_row();
                rest.extend(edges.into_iter().map(|at| Piece { rows: rows[at]..rows[at + 1], ..piece.clone() }));
            }
        }
    }
    cells.add_buckets(rollup.starts(), rollup.first_row(), &whole, &get)?;
    Ok((!rest.is_empty()).then_some(Unit::Plain { source: at, pieces: rest }))
}

fn wanted_of(wants: &Wants) -> impl Iterator<Item = Aggregate> {
    let all = [
        (true, Aggregate::Count),
        (wants.sum || wants.float_sum, Aggregate::Sum),
        (wants.min, Aggregate::Min),
        (wants.max, Aggregate::Max),
    ];
    all.into_iter().filter(|(wanted, _)| *wanted).map(|(_, what)| what)
}

/// Splits the buckets of a chunk into those wholly within a time range and those the range cuts.
fn split(rollup: &Rollup, of: Range<usize>, range: TimeRange) -> (Range<usize>, impl Iterator<Item = usize>) {
    let (starts, width) = (&rollup.starts()[of.clone()], rollup.width_ticks());
    let last = |start: &i64| start.saturating_add(width - 1);
    // The buckets that meet the range, and among them those within it.
    let meets = starts.partition_point(|s| last(s) < range.first)..starts.partition_point(|s| *s <= range.last);
    let first = starts.partition_point(|s| *s < range.first).clamp(meets.start, meets.end.max(meets.start));
    let end = starts.partition_point(|s| last(s) <= range.last).clamp(first, meets.end.max(first));
    let shift = move |r: Range<usize>| r.start + of.start..r.end + of.start;
    let (inside, before, after) = (shift(first..end), shift(meets.start..first), shift(end..meets.end.max(end)));
    (inside, before.chain(after))
}
