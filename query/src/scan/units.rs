//! Distributes the chunks of a scan: units of work, contiguous and balanced over partitions.

use super::{
    select::{Component, Keep, Piece, Selection},
    source::{Origin, Source},
};

/// A unit of work, read at once.
#[derive(Debug, Clone)]
pub(crate) enum Unit {
    /// Adjacent or nearby chunks of one source, by row.
    Plain {
        /// Index of the source.
        source: usize,
        /// Chunks, or parts of chunks.
        pieces: Vec<Piece>,
    },
    /// Components that are merged together, by rank.
    Merged(Vec<Component>),
    /// A component too long to merge in memory at once.
    Long(Component),
}

impl Unit {
    /// Number of rows to read.
    pub(crate) fn rows(&self) -> u64 {
        match self {
            Unit::Plain { pieces, .. } => pieces.iter().map(Piece::len).sum(),
            Unit::Merged(components) => components.iter().map(Component::len).sum(),
            Unit::Long(component) => component.len(),
        }
    }
}

/// Rows that justify another partition.
const ROWS_PER_PARTITION: u64 = 50_000;
/// Rows of a plain unit: about half a row group, so that read-ahead and balancing have enough units.
const PLAIN_ROWS: u64 = 1 << 19;
/// Rows merged in memory at once; a component with more is merged alone, as it is read. Small in tests, whose chunks
/// are short.
const MERGED_ROWS: u64 = if cfg!(test) { 30 } else { 1 << 17 };

/// Cuts a selection into units and distributes them over at most `partitions` lists of about equal row counts.
///
/// With a `limit`, takes only as many chunks as certainly contain that many rows.
pub(crate) fn deal(
    selection: &Selection,
    sources: &[Source],
    partitions: usize,
    limit: Option<usize>,
) -> Vec<Vec<Unit>> {
    let total = selection.rows();
    let partitions = partitions.min((total / ROWS_PER_PARTITION) as usize).max(1);
    let size = (total / (partitions as u64 * 4)).clamp(ROWS_PER_PARTITION, PLAIN_ROWS);
    let mut units = Vec::new();
    for (source, pieces) in selection.plain.iter().enumerate() {
        // Rows in memory need no read-ahead, so no small units.
        let size = if matches!(sources[source].origin, Origin::Tail(_)) { PLAIN_ROWS } else { size };
        cut(pieces, source, size, &mut units);
    }
    merge(selection.merged.iter().cloned(), &mut units);
    if let Some(limit) = limit {
        units = first_rows(units, limit as u64);
    }
    spread(units, partitions)
}

/// Adds units that merge components: short ones together, a long one alone.
pub(super) fn merge(components: impl Iterator<Item = Component>, units: &mut Vec<Unit>) {
    let mut group = Vec::new();
    let mut rows = 0;
    for component in components {
        if component.len() > MERGED_ROWS {
            units.push(Unit::Long(component));
            continue;
        }
        if rows > 0 && rows + component.len() > MERGED_ROWS {
            units.push(Unit::Merged(std::mem::take(&mut group)));
            rows = 0;
        }
        rows += component.len();
        group.push(component);
    }
    if !group.is_empty() {
        units.push(Unit::Merged(group));
    }
}

/// Cuts the chunks of a source into units of about `size` rows; a longer chunk is cut at any row.
fn cut(pieces: &[Piece], source: usize, size: u64, units: &mut Vec<Unit>) {
    let mut unit = Vec::new();
    let mut rows = 0;
    for piece in pieces {
        let mut rest = piece.clone();
        while rest.len() > 0 {
            // Avoid tiny units: a small rest of a chunk joins this unit.
            let take = if rest.len() <= size - rows + size / 4 { rest.len() } else { size - rows };
            let mut part = rest.clone();
            part.rows.end = part.rows.start + take;
            rest.rows.start = part.rows.end;
            rows += take;
            unit.push(part);
            if rows >= size {
                units.push(Unit::Plain { source, pieces: std::mem::take(&mut unit) });
                rows = 0;
            }
        }
    }
    if !unit.is_empty() {
        units.push(Unit::Plain { source, pieces: unit });
    }
}

/// Returns the first units that certainly contain `limit` rows, counting only chunks kept whole, in files or memory.
fn first_rows(units: Vec<Unit>, limit: u64) -> Vec<Unit> {
    let mut sure = 0;
    let mut taken = Vec::new();
    for unit in units {
        if sure >= limit {
            break;
        }
        match unit {
            Unit::Plain { source, pieces } => {
                let mut some = Vec::new();
                for mut piece in pieces {
                    if sure >= limit {
                        break;
                    }
                    if piece.keep == Keep::All {
                        piece.rows.end = piece.rows.start + piece.len().min(limit - sure);
                        sure += piece.len();
                    }
                    some.push(piece);
                }
                taken.push(Unit::Plain { source, pieces: some });
            }
            merged => taken.push(merged),
        }
    }
    taken
}

/// Splits units into contiguous lists of about equal row counts.
fn spread(units: Vec<Unit>, partitions: usize) -> Vec<Vec<Unit>> {
    let total: u64 = units.iter().map(Unit::rows).sum();
    let mut lists: Vec<Vec<Unit>> = (0..partitions).map(|_| Vec::new()).collect();
    let mut before = 0;
    for unit in units {
        // By the position of the unit's middle row.
        let middle = before + unit.rows() / 2;
        before += unit.rows();
        let at = (u128::from(middle) * partitions as u128 / u128::from(total.max(1))) as usize;
        lists[at.min(partitions - 1)].push(unit);
    }
    lists
}
