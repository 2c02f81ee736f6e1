//! Buckets of rollups: which of them count as a whole, and which rows are left at the ends.

use std::{ops::Range, sync::Arc};

use arrow::array::ArrayRef;
use futures::future::try_join_all;
use hashbrown::HashMap;
use tidelake_format::{Error, Result, ids::ColumnId, rollup::Rollup, store::Store, tags::Aggregate};

use super::{cells::Cells, column::Wants, levels::Needed};
use crate::table::{FileSource, Piece, Reader, Reading, Source, TimeRange, Unit};

/// What a file's rollup has of the columns that are needed.
pub(super) struct Rolled {
    rollup: Arc<Rollup>,
    /// By the place of the column among those needed.
    values: HashMap<(usize, Aggregate), ArrayRef>,
}

/// Reads the rollup of a file; `None` where it has none.
///
/// # Errors
/// Those of the store; Corrupt or Unsupported, naming the key of the rollup.
pub(super) async fn read(
    reader: &Reader,
    store: &Store,
    file: &FileSource,
    columns: &[Needed],
) -> Result<Option<Rolled>> {
    let Some(rollup) = reader.rollup(store, file).await? else { return Ok(None) };
    let wanted = columns.iter().enumerate().filter(|(_, c)| c.id != ColumnId::TS);
    let wanted = wanted.flat_map(|(i, column)| wanted_of(&column.wants).map(move |what| (i, column.id, what)));
    let found = wanted.map(async |(i, id, what)| {
        let values = reader.rolled(store, file, &rollup, id, what).await?;
        Ok::<_, Error>(values.map(|v| ((i, what), v)))
    });
    let values = try_join_all(found).await?.into_iter().flatten().collect();
    Ok(Some(Rolled { rollup, values }))
}

/// Takes the buckets of chunks of one source that count as a whole; returns the unit that reads the others' rows.
pub(super) fn add(
    cells: &mut Cells,
    reading: &Reading,
    at: usize,
    source: &Source,
    pieces: &[Piece],
    rolled: Option<&Rolled>,
) -> Result<Option<Unit>> {
    let Some(Rolled { rollup, values }) = rolled else {
        return Ok(Some(Unit::Plain { source: at, pieces: pieces.to_vec() }));
    };
    let get = |i: usize, what: Aggregate| values.get(&(i, what)).cloned();
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
    cells.add_buckets(rollup, &whole, &get)?;
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

/// Of the buckets of a chunk, those that lie wholly within a range of time, and those that it cuts.
fn split(rollup: &Rollup, of: Range<usize>, range: TimeRange) -> (Range<usize>, impl Iterator<Item = usize>) {
    let (starts, width) = (&rollup.starts()[of.clone()], rollup.width_ticks());
    let last = |start: &i64| start.saturating_add(width - 1);
    // Those that meet it, and of these those that it covers.
    let meets = starts.partition_point(|s| last(s) < range.first)..starts.partition_point(|s| *s <= range.last);
    let first = starts.partition_point(|s| *s < range.first).clamp(meets.start, meets.end.max(meets.start));
    let end = starts.partition_point(|s| last(s) <= range.last).clamp(first, meets.end.max(first));
    let shift = move |r: Range<usize>| r.start + of.start..r.end + of.start;
    let (inside, before, after) = (shift(first..end), shift(meets.start..first), shift(end..meets.end.max(end)));
    (inside, before.chain(after))
}
