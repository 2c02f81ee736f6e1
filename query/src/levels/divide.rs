//! Divides the chunks of a scan into those answered by tag manifests, those answered by rollups, and those whose rows
//! must be read.

use arrow::{
    array::{Array, AsArray},
    datatypes::{DataType, UInt64Type},
};
use tidelake_format::{
    ids::ColumnId,
    schema::field_id,
    tags::{Aggregate, TagManifest},
};

use super::{
    column::Wants,
    shape::{Shape, State},
};
use crate::{
    functions::window::FixedBucket,
    scan::{FileSource, Keep, Origin, Piece, Reading, Selection, TimeRange},
};

#[derive(Debug, Clone)]
pub(super) struct Needed {
    /// Index among the scan's data columns and the computed ones behind them.
    pub(super) at: usize,
    /// `None` for a computed column, which only rows answer.
    pub(super) id: Option<ColumnId>,
    pub(super) data_type: DataType,
    /// Aggregates needed in addition to the count.
    pub(super) wants: Wants,
}

/// Columns that states need, in the order of the scan's columns.
pub(super) fn needed(shape: &Shape) -> Vec<Needed> {
    let schema = shape.scan.columns().schema();
    let mut wants: Vec<Option<Wants>> = vec![None; schema.fields().len() + shape.computed.len()];
    for state in &shape.states {
        let (at, mark): (usize, fn(&mut Wants)) = match state {
            State::Rows | State::Accumulated(..) => continue,
            State::Count(at) | State::AverageCount(at) => (*at, |_| ()),
            State::Sum(at) => (*at, |w| w.sum = true),
            State::FloatSum(at) => (*at, |w| w.float_sum = true),
            State::Min(at) => (*at, |w| w.min = true),
            State::Max(at) => (*at, |w| w.max = true),
            State::First(at) | State::FirstTime(at) => (*at, |w| w.first = true),
            State::Last(at) | State::LastTime(at) => (*at, |w| w.last = true),
        };
        mark(wants[at].get_or_insert_default());
    }
    let of = |(at, wants): (usize, Option<Wants>)| {
        let wants = wants?;
        if let Some(data_type) = shape.computed.data_type(at) {
            return Some(Needed { at, id: None, data_type: data_type.clone(), wants });
        }
        let field = schema.field(at);
        let id = field_id(field).expect("data columns are made with their ids");
        Some(Needed { at, id: Some(id), data_type: field.data_type().clone(), wants })
    };
    wants.into_iter().enumerate().filter_map(of).collect()
}

/// Chunks of data files answered by a level: (source, chunks).
pub(super) type Answered = Vec<(usize, Vec<Piece>)>;

/// Splits the chunks of a scan into those that manifests answer and the rest.
///
/// A manifest answers a chunk of a data file that counts as a whole, overlaps no other chunk, is within one bucket, and
/// has every needed aggregate in the needed type.
pub(super) fn divide(reading: &Reading, columns: &[Needed], bucket: Option<&FixedBucket>) -> (Answered, Selection) {
    let selection = &reading.selection;
    let mut rest = Selection {
        plain: Vec::with_capacity(selection.plain.len()),
        merged: selection.merged.clone(),
        kept: selection.kept.clone(),
        series: selection.series,
    };
    let mut answered = Vec::new();
    for (at, pieces) in selection.plain.iter().enumerate() {
        let manifest = match &reading.sources.list[at].origin {
            Origin::File(file) => Some(&file.manifest).filter(|m| columns.iter().all(|c| has(m, c))),
            Origin::Tail(_) => None,
        };
        let Some(manifest) = manifest else {
            rest.plain.push(pieces.clone());
            continue;
        };
        let unsure: Vec<&Needed> = columns.iter().filter(|c| !is_exact_everywhere(manifest, c)).collect();
        let (yes, no) = pieces.iter().cloned().partition(|piece| {
            let local = piece.local as usize;
            let one_bucket =
                bucket.is_none_or(|b| b.start(manifest.min_ts()[local]) == b.start(manifest.max_ts()[local]));
            piece.keep == Keep::All && one_bucket && unsure.iter().all(|c| is_exact(manifest, c, local))
        });
        answered.push((at, yes));
        rest.plain.push(no);
    }
    (answered, rest)
}

/// Removes from `rest` the chunks whose buckets rollups answer, except for the rows at their ends.
///
/// A rollup answers the buckets of a chunk of a data file that overlaps no other chunk, unless a requested bucket cuts
/// those of the rollup, or the first or last value is requested.
pub(super) fn roll(
    reading: &Reading,
    columns: &[Needed],
    bucket: Option<&FixedBucket>,
    rest: &mut Selection,
) -> Answered {
    let is_of_rows = |c: &Needed| {
        let w = &c.wants;
        let of_times = c.id == Some(ColumnId::TS) && (w.min || w.max);
        !(w.first || w.last || of_times)
    };
    let mut rolled = Vec::new();
    if !columns.iter().all(is_of_rows) {
        return rolled;
    }
    for (at, pieces) in rest.plain.iter_mut().enumerate() {
        let Origin::File(file) = &reading.sources.list[at].origin else { continue };
        let Some(width) = file.entry.rollup.map(|r| r.width).filter(|w| *w > 0) else { continue };
        let fits = bucket.is_none_or(|b| b.width_ticks % width == 0 && b.offset_ticks % width == 0);
        if !fits || !columns.iter().all(|c| has(&file.manifest, c)) {
            continue;
        }
        let (kept, manifest) = (&rest.kept, &file.manifest);
        let unsure: Vec<&Needed> = columns.iter().filter(|c| !is_exact_everywhere(manifest, c)).collect();
        let holds_a_bucket = |piece: &mut Piece| {
            let local = piece.local as usize;
            let inside = |r: &TimeRange| {
                let first = r.first.max(manifest.min_ts()[local]);
                r.last.min(manifest.max_ts()[local]).saturating_sub(first) >= width
            };
            let whole = match piece.keep {
                Keep::All => true,
                Keep::Within(at) => kept[at as usize].iter().any(inside),
            };
            whole && unsure.iter().all(|c| is_exact(manifest, c, local))
        };
        let taken: Vec<Piece> = pieces.extract_if(.., holds_a_bucket).collect();
        if !taken.is_empty() {
            rolled.push((at, taken));
        }
    }
    rolled
}

/// An upper bound of the number of rollup buckets of a chunk.
pub(super) fn buckets(file: &FileSource, piece: &Piece) -> u64 {
    let (local, width) = (piece.local as usize, file.entry.rollup.map_or(1, |r| r.width.max(1)));
    let span = file.manifest.max_ts()[local].abs_diff(file.manifest.min_ts()[local]);
    (span / width.unsigned_abs() + 1).min(piece.len())
}

/// Whether a manifest has the needed aggregates of a column. A file without the column contributes nothing.
fn has(manifest: &TagManifest, column: &Needed) -> bool {
    let Some(id) = column.id else { return false };
    if id == ColumnId::TS {
        // The manifest has the extremes and the count of times without aggregates of the column.
        return !column.wants.sum && !column.wants.float_sum && !column.wants.first && !column.wants.last;
    }
    if manifest.aggregate(id, Aggregate::Count).is_none() {
        return true;
    }
    let w = &column.wants;
    let wide = match &column.data_type {
        t if t.is_signed_integer() => Some(DataType::Int64),
        t if t.is_unsigned_integer() => Some(DataType::UInt64),
        t if t.is_floating() => Some(DataType::Float64),
        _ => None,
    };
    let kind = |t: &DataType| (t.is_signed_integer(), t.is_unsigned_integer(), t.is_floating());
    let values = [
        (w.min, Aggregate::Min),
        (w.max, Aggregate::Max),
        (w.first, Aggregate::First),
        (w.first, Aggregate::FirstTs),
        (w.last, Aggregate::Last),
        (w.last, Aggregate::LastTs),
    ];
    let of_kind = values.iter().all(|(wanted, what)| {
        let is_time = matches!(what, Aggregate::FirstTs | Aggregate::LastTs);
        !wanted
            || manifest.aggregate(id, *what).is_some_and(|a| is_time || kind(a.data_type()) == kind(&column.data_type))
    });
    let summed = !(w.sum || w.float_sum)
        || manifest.aggregate(id, Aggregate::Sum).is_some_and(|a| Some(a.data_type()) == wide.as_ref());
    of_kind && summed
}

/// Sums of numbers below this bound are exact in 64 bits, even if the value compared with it was rounded.
const EXACT: f64 = (1_u64 << 62) as f64;

/// Whether the sum of a chunk may have wrapped in its manifest: a sum of 64-bit integers.
fn may_wrap(column: &Needed) -> bool {
    (column.wants.sum || column.wants.float_sum) && matches!(column.data_type, DataType::Int64 | DataType::UInt64)
}

/// Whether the counts and values of all chunks of a manifest are too small for any sum to have wrapped.
fn is_exact_everywhere(manifest: &TagManifest, column: &Needed) -> bool {
    if !may_wrap(column) {
        return true;
    }
    let get = |what| manifest.aggregate(column.id?, what);
    let Some(counts) = get(Aggregate::Count) else { return true };
    let most = counts.as_primitive::<UInt64Type>().values().iter().copied().max().unwrap_or(0);
    let largest = |what| -> Option<f64> {
        let wide = arrow::compute::cast(get(what)?, &DataType::Float64).ok()?;
        let wide = wide.as_primitive::<arrow::datatypes::Float64Type>();
        Some(wide.iter().flatten().fold(0.0, |largest: f64, v| largest.max(v.abs())))
    };
    let (Some(min), Some(max)) = (largest(Aggregate::Min), largest(Aggregate::Max)) else { return false };
    min.max(max) * most as f64 <= EXACT
}

/// Whether the sum of a chunk, which wraps in the manifest, is exact.
fn is_exact(manifest: &TagManifest, column: &Needed, local: usize) -> bool {
    if !may_wrap(column) {
        return true;
    }
    let get = |what| manifest.aggregate(column.id?, what);
    let Some(count) = get(Aggregate::Count) else { return true };
    let count = count.as_primitive::<UInt64Type>().value(local);
    let largest = |what| -> Option<f64> {
        let values = get(what)?;
        if values.is_null(local) {
            return Some(0.0);
        }
        let wide = arrow::compute::cast(&values.slice(local, 1), &DataType::Float64).ok()?;
        Some(wide.as_primitive::<arrow::datatypes::Float64Type>().value(0).abs())
    };
    let (Some(min), Some(max)) = (largest(Aggregate::Min), largest(Aggregate::Max)) else { return false };
    min.max(max) * count as f64 <= EXACT
}
