//! How the chunks of a scan are dealt out: units of work, contiguous and balanced over partitions.

use super::{
    select::{Component, Keep, Piece, Selection},
    source::{Origin, Source},
};

/// What is read in one go.
#[derive(Debug, Clone)]
pub(crate) enum Unit {
    /// Adjacent or near chunks of one source, by row.
    Plain {
        /// Which source.
        source: usize,
        /// Its chunks, or parts of them.
        pieces: Vec<Piece>,
    },
    /// Components that are merged together, by rank.
    Merged(Vec<Component>),
    /// One that is too long for that.
    Long(Component),
}

impl Unit {
    /// Rows that it reads.
    pub(crate) fn rows(&self) -> u64 {
        match self {
            Unit::Plain { pieces, .. } => pieces.iter().map(Piece::len).sum(),
            Unit::Merged(components) => components.iter().map(Component::len).sum(),
            Unit::Long(component) => component.len(),
        }
    }
}

/// Below so many rows a second partition costs more than it brings.
const ROWS_PER_PARTITION: u64 = 50_000;
/// Rows of a plain unit: about half a row group, so that reading ahead and balancing have something to work with.
const PLAIN_ROWS: u64 = 1 << 19;
/// Rows that are merged in memory at once; a component with more is merged alone, as it is read. Few in tests, whose chunks
/// are short.
const MERGED_ROWS: u64 = if cfg!(test) { 30 } else { 1 << 17 };

/// Cuts a selection into units and deals them to at most `partitions` lists of about the same number of rows.
///
/// With a `limit` only so many chunks are taken as give that many rows for certain.
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
        // rows in memory need no cutting for the sake of reading ahead
        let size = if matches!(sources[source].origin, Origin::Tail(_)) { PLAIN_ROWS } else { size };
        cut(pieces, source, size, &mut units);
    }
    let mut group = Vec::new();
    let mut rows = 0;
    for component in &selection.merged {
        if component.len() > MERGED_ROWS {
            units.push(Unit::Long(component.clone()));
            continue;
        }
        if rows > 0 && rows + component.len() > MERGED_ROWS {
            units.push(Unit::Merged(std::mem::take(&mut group)));
            rows = 0;
        }
        rows += component.len();
        group.push(component.clone());
    }
    if !group.is_empty() {
        units.push(Unit::Merged(group));
    }
    if let Some(limit) = limit {
        units = first_rows(units, limit as u64);
    }
    spread(units, partitions)
}

/// Cuts the chunks of a source into units of about `size` rows; a longer chunk is cut anywhere.
fn cut(pieces: &[Piece], source: usize, size: u64, units: &mut Vec<Unit>) {
    let mut unit = Vec::new();
    let mut rows = 0;
    for piece in pieces {
        let mut rest = piece.clone();
        while rest.len() > 0 {
            // no crumbs: what is left of a chunk comes along when it is small
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

/// The first units that give `limit` rows for certain: chunks that count as a whole, in files or memory.
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

/// Contiguous lists of about the same number of rows.
fn spread(units: Vec<Unit>, partitions: usize) -> Vec<Vec<Unit>> {
    let total: u64 = units.iter().map(Unit::rows).sum();
    let mut lists: Vec<Vec<Unit>> = (0..partitions).map(|_| Vec::new()).collect();
    let mut before = 0;
    for unit in units {
        // by where the middle of the unit falls
        let middle = before + unit.rows() / 2;
        before += unit.rows();
        let at = (u128::from(middle) * partitions as u128 / u128::from(total.max(1))) as usize;
        lists[at.min(partitions - 1)].push(unit);
    }
    lists
}
