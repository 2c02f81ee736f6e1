//! Reads a scan in the order of tags and time, for plans that would sort its rows by them.
//!
//! Rows of one series come from a file in the order of time, and chunks that do not overlap can be read one after another. So a
//! scan that reads series by series needs no sort above it.

mod rule;
mod windows;

use arrow::{
    array::{ArrayRef, UInt32Array},
    compute::{SortColumn, lexsort_to_indices, take},
    row::{RowConverter, SortField},
};
use datafusion::{
    common::Result,
    physical_expr::{LexOrdering, PhysicalSortExpr, expressions::Column},
};

pub(crate) use self::rule::ReadInOrder;
use super::{
    exec::SeriesScan,
    output::OutputColumn,
    read::Reading,
    select::{Component, Piece},
    units::{Unit, merge},
};

/// Least number of rows of the average unit: more and smaller units cost more than a sort. A remote store is asked once a unit.
const LEAST_ROWS: (u64, u64) = if cfg!(test) { (1, 1) } else { (1 << 12, 1 << 17) };
/// Most rows of a unit.
const MOST_ROWS: u64 = 1 << 19;

/// The order of a scan's rows.
#[derive(Debug, Clone)]
pub(crate) struct Order {
    /// Tags or series names, and maybe the time, on the columns of the scan.
    pub(crate) keys: LexOrdering,
    /// The number of keys that are tags; rows with equal tags are in one partition.
    pub(crate) tags: usize,
    /// Whether no two series have equal tags.
    pub(crate) is_by_series: bool,
}

impl Order {
    /// The order of a scan by `keys`, and the units of its `partitions` partitions, to be read in this order; `None` if the scan
    /// cannot be read in this order, or not without many small reads.
    ///
    /// # Errors
    /// Arrow's, for tags that cannot be compared.
    pub(super) fn new(
        scan: &SeriesScan,
        keys: &LexOrdering,
        partitions: usize,
        together: Option<usize>,
    ) -> Result<Option<(Self, Vec<Vec<Unit>>)>> {
        let Some(by_tags) = tags(scan, keys) else { return Ok(None) };
        if together.is_some_and(|keys| keys != by_tags.len()) {
            return Ok(None);
        }
        let mut items = items(scan.reading());
        items.sort_unstable_by_key(|item| (item.rank, item.first));
        let mut ranks: Vec<u32> = items.iter().map(|item| item.rank).collect();
        ranks.dedup();
        let differs = sort_ranks(&by_tags, &mut ranks)?;
        let is_by_series = differs.iter().all(|differs| *differs);
        if by_tags.len() < keys.len() && !is_by_series {
            return Ok(None);
        }
        let mut places = vec![0; scan.reading().sources.united.series.len()];
        let mut place = 0;
        for (rank, differs) in ranks.iter().zip(differs) {
            // Series with equal tags are one place: they must be in one partition.
            place += u32::from(differs);
            places[*rank as usize] = place;
        }
        items.sort_by_key(|item| places[item.rank as usize]);
        let partitions = spread(items, &places, partitions);
        let (least_local, least_remote) = LEAST_ROWS;
        let least = if scan.reading().reader.store().is_local() { least_local } else { least_remote };
        let units = partitions.iter().map(Vec::len).sum::<usize>() as u64;
        let are_few = units * least <= scan.reading().selection.rows() || units <= partitions.len() as u64;
        let order = Self { keys: keys.clone(), tags: by_tags.len(), is_by_series };
        Ok(are_few.then_some((order, partitions)))
    }
}

/// The tags of the keys before the time, one value per rank; `None` if the keys are not tags, with at most the time after them.
fn tags(scan: &SeriesScan, keys: &LexOrdering) -> Option<Vec<SortColumn>> {
    let mut tags = Vec::new();
    for PhysicalSortExpr { expr, options } in keys {
        match scan.output().get(expr.downcast_ref::<Column>()?.index())? {
            OutputColumn::Series(values) => {
                tags.push(SortColumn { values: values.clone(), options: Some(*options) });
            }
            // Times of a series are distinct: keys after the time change nothing.
            OutputColumn::Data(at) => {
                return (scan.columns().time() == Some(*at) && !options.descending && !tags.is_empty()).then_some(tags);
            }
        }
    }
    Some(tags)
}

/// Sorts ranks by their tags; returns for each whether its tags differ from those of the rank before.
fn sort_ranks(tags: &[SortColumn], ranks: &mut Vec<u32>) -> Result<Vec<bool>> {
    let of_ranks = UInt32Array::from(ranks.clone());
    let taken = |tag: &SortColumn| Ok(SortColumn { values: take(&tag.values, &of_ranks, None)?, options: tag.options });
    let columns = tags.iter().map(taken).collect::<Result<Vec<_>>>()?;
    let order = lexsort_to_indices(&columns, None)?;
    let fields = columns.iter().map(|column| SortField::new(column.values.data_type().clone())).collect();
    let values: Vec<ArrayRef> = columns.into_iter().map(|column| column.values).collect();
    let rows = RowConverter::new(fields)?.convert_columns(&values)?;
    let order: Vec<usize> = order.values().iter().map(|at| *at as usize).collect();
    *ranks = order.iter().map(|at| ranks[*at]).collect();
    Ok((0..order.len()).map(|at| at == 0 || rows.row(order[at]) != rows.row(order[at - 1])).collect())
}

/// Rows of one series that overlap with no others.
struct Item {
    rank: u32,
    /// The smallest time that it may have.
    first: i64,
    what: What,
}

enum What {
    Plain(usize, Piece),
    Merged(Component),
}

fn items(reading: &Reading) -> Vec<Item> {
    let first = |source: usize, piece: &Piece| reading.sources.list[source].index().min_ts[piece.local as usize];
    let plain = reading.selection.plain.iter().enumerate().flat_map(|(source, pieces)| {
        let item = move |piece: &Piece| Item {
            rank: piece.rank,
            first: first(source, piece),
            what: What::Plain(source, piece.clone()),
        };
        pieces.iter().map(item)
    });
    let merged = reading.selection.merged.iter().map(|component| {
        let firsts = component.parts.iter().map(|(source, piece)| first(*source as usize, piece));
        Item { rank: component.rank, first: firsts.min().unwrap_or(i64::MIN), what: What::Merged(component.clone()) }
    });
    plain.chain(merged).collect()
}

/// Divides items, in the order of reading, over partitions of about equal row counts; items of one place stay together.
fn spread(items: Vec<Item>, places: &[u32], partitions: usize) -> Vec<Vec<Unit>> {
    let rows = |item: &Item| match &item.what {
        What::Plain(_, piece) => piece.len(),
        What::Merged(component) => component.len(),
    };
    let total: u64 = items.iter().map(rows).sum();
    let mut lists: Vec<Vec<Unit>> = vec![Vec::new(); partitions.max(1)];
    let (mut before, mut at, mut place) = (0, 0, None);
    // Rows of the last unit of the current list.
    let mut of_unit = 0;
    for item in items {
        let own = Some(places[item.rank as usize]);
        if own != place {
            place = own;
            at = (u128::from(before) * lists.len() as u128 / u128::from(total.max(1))) as usize;
        }
        let more = rows(&item);
        before += more;
        let units = &mut lists[at];
        match item.what {
            What::Plain(source, piece) => match units.last_mut() {
                Some(Unit::Plain { source: last, pieces })
                    if *last == source
                        && pieces.last().is_some_and(|before| before.rows.end <= piece.rows.start)
                        && of_unit + more <= MOST_ROWS =>
                {
                    of_unit += more;
                    pieces.push(piece);
                }
                _ => {
                    of_unit = more;
                    units.push(Unit::Plain { source, pieces: vec![piece] });
                }
            },
            What::Merged(component) => merge(std::iter::once(component), units),
        }
    }
    lists
}
