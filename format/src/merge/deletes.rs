//! Applies the deletes of a table to one file or segment.

use std::sync::Arc;

use arrow::{
    array::{BooleanArray, RecordBatch},
    buffer::BooleanBuffer,
    compute::nullif,
};
use hashbrown::HashSet;

use crate::{
    error::Result,
    ids::{Position, Version},
    rows::{SeriesSet, series_of, ticks_of},
    schema::{Covers, Supertable, Tombstone},
};

/// The deletes that cover one file or segment.
#[derive(Debug, Clone)]
pub struct Deletes<'a>(Vec<&'a Tombstone>);

impl<'a> Deletes<'a> {
    /// The deletes that cover a file with this `clean`.
    pub fn of_file(table: &'a Supertable, clean: Version) -> Self {
        Self(table.tombstones.iter().filter(|t| t.covers_file(clean)).collect())
    }

    /// The deletes that cover a segment of the log.
    pub fn of_segment(table: &'a Supertable, position: Position) -> Self {
        Self(table.tombstones.iter().filter(|t| t.covers_segment(position)).collect())
    }

    /// Whether no delete applies.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The tombstones of the deletes.
    pub fn tombstones(&self) -> &[&'a Tombstone] {
        &self.0
    }

    /// Marks the series of a set that are deleted entirely, with name and tags; `None` when none is.
    pub fn gone(&self, set: &SeriesSet) -> Option<BooleanBuffer> {
        let whole: Vec<_> = self.0.iter().filter(|t| t.covers == Covers::Series).map(|t| Names::of(t)).collect();
        if whole.is_empty() {
            return None;
        }
        let gone = set.names().iter().map(|name| name.is_some_and(|n| whole.iter().any(|names| names.has(n))));
        let gone: BooleanBuffer = gone.collect();
        (gone.count_set_bits() > 0).then_some(gone)
    }

    /// The set with null tags for deleted series, and a mask of these series; `None` when none is deleted.
    ///
    /// # Errors
    /// [`Kind::Internal`](crate::Kind::Internal) when Arrow rejects the batch.
    pub fn mask(&self, set: &SeriesSet) -> Result<Option<(SeriesSet, BooleanBuffer)>> {
        let Some(gone) = self.gone(set) else { return Ok(None) };
        let mask = BooleanArray::new(gone.clone(), None);
        let mut columns = vec![Arc::new(set.names().clone()) as _];
        for tags in set.batch().columns().iter().skip(1) {
            columns.push(nullif(tags, &mask)?);
        }
        let masked = SeriesSet::try_new(RecordBatch::try_new(set.batch().schema(), columns)?)?;
        Ok(Some((masked, gone)))
    }

    /// Marks the rows that remain; `None` when all do. The first column of `rows` holds indices into `set`.
    ///
    /// # Errors
    /// [`Kind::Internal`](crate::Kind::Internal) when the rows are not of the shape of
    /// [`Block::rows`](crate::rows::Block::rows).
    pub fn keep(&self, set: &SeriesSet, rows: &RecordBatch) -> Result<Option<BooleanArray>> {
        if self.is_empty() || rows.num_rows() == 0 {
            return Ok(None);
        }
        let (series, ts) = (series_of(rows)?, ticks_of(rows)?);
        let mut keep = vec![true; ts.len()];
        for tombstone in &self.0 {
            let names = Names::of(tombstone);
            let hit: Vec<bool> = set.names().iter().map(|n| n.is_some_and(|n| names.has(n))).collect();
            let (first, last) = tombstone.range;
            for (keep, (series, ts)) in keep.iter_mut().zip(series.iter().zip(ts)) {
                let named = hit.get(*series as usize).copied().unwrap_or(false);
                *keep &= !(named && (first..=last).contains(ts));
            }
        }
        Ok(keep.contains(&false).then(|| BooleanArray::from(keep)))
    }
}

/// The series names of a tombstone, for many look-ups.
enum Names<'a> {
    All,
    Some(HashSet<&'a str>),
}

impl<'a> Names<'a> {
    fn of(tombstone: &'a Tombstone) -> Self {
        match &tombstone.series {
            None => Names::All,
            Some(names) => Names::Some(names.iter().map(String::as_str).collect()),
        }
    }

    fn has(&self, name: &str) -> bool {
        match self {
            Names::All => true,
            Names::Some(names) => names.contains(name),
        }
    }
}
