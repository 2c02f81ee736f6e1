//! Rows sorted by (series, ts), one per key.

use std::borrow::Cow;

use arrow::{
    array::{Array, RecordBatch, UInt32Array},
    compute::{concat_batches, take},
};

use super::hash::{row_keys, value_hashes};
use crate::{
    error::{Error, Result},
    rows::{SeriesSet, series_of, ticks_of},
    schema::field_id,
};

/// Rows and values overwritten by newer rows of the same key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Dropped {
    /// Number of rows: for each key, its rows minus one.
    pub rows: u64,
    /// Their part of [`content_hash`](super::content_hash): the hash of the input is that of the output plus this,
    /// wrapping.
    pub hash: u64,
}

/// Sorted rows and what was dropped.
#[derive(Debug, Clone)]
pub struct Newest {
    /// One row per (series, ts), in that order.
    pub rows: RecordBatch,
    /// What newer rows overwrote.
    pub dropped: Dropped,
}

/// Sorts rows by (series, ts) and keeps one row per key: for each column the newest non-null value wins.
///
/// `batches` are oldest first and have one schema ([`Block::rows_schema`](crate::rows::Block::rows_schema)); later rows
/// of a batch are newer; `series` is an index below `series_count`. A single sorted batch without duplicate keys is
/// returned as it is.
///
/// # Errors
/// [`Kind::Invalid`](crate::Kind::Invalid) when `batches` is empty or has 2³² rows; [`Kind::Internal`](crate::Kind::Internal)
/// when schemas differ, an index is out of range, or a column has 2 GiB of text.
pub fn sort_newest(batches: &[RecordBatch], series_count: usize) -> Result<RecordBatch> {
    sort(batches, series_count, None).map(|n| n.rows)
}

/// As [`sort_newest`], and counts and hashes the overwritten values; the rows hold indices into `series`.
///
/// # Errors
/// As [`sort_newest`].
pub fn sort_newest_counted(batches: &[RecordBatch], series: &SeriesSet) -> Result<Newest> {
    sort(batches, series.len(), Some(series))
}

/// Merges runs, oldest first, each sorted by (series, ts) without duplicate keys; otherwise as [`sort_newest`].
///
/// # Errors
/// As [`sort_newest`].
pub fn merge_sorted(runs: &[RecordBatch]) -> Result<RecordBatch> {
    let mut series_count = 0;
    for run in runs {
        series_count = series_count.max(series_of(run)?.last().map_or(0, |last| *last as usize + 1));
    }
    sort(runs, series_count, None).map(|n| n.rows)
}

fn sort(batches: &[RecordBatch], series_count: usize, names: Option<&SeriesSet>) -> Result<Newest> {
    let first = batches.first().ok_or_else(|| Error::invalid("no batches to sort"))?;
    let rows = batches.iter().map(RecordBatch::num_rows).sum::<usize>();
    if rows > u32::MAX as usize {
        return Err(Error::invalid("too many rows for one batch").with("limit", u32::MAX).with("found", rows));
    }
    let all = match batches {
        [one] => one.clone(),
        _ => {
            if let Some(other) = batches.iter().find(|b| b.schema_ref().fields() != first.schema_ref().fields()) {
                return Err(Error::internal("batches to sort differ in their schema")
                    .with("expected", first.schema())
                    .with("found", other.schema()));
            }
            concat_batches(first.schema_ref(), batches)?
        }
    };
    let (series, ts) = (series_of(&all)?, ticks_of(&all)?);
    if let Some(index) = series.iter().find(|s| **s as usize >= series_count) {
        return Err(Error::internal("series index of a row out of range")
            .with("expected", format!("below {series_count}"))
            .with("found", index));
    }
    if (1..rows).all(|i| (series[i - 1], ts[i - 1]) < (series[i], ts[i])) {
        return Ok(Newest { rows: all, dropped: Dropped::default() });
    }
    let order = sorted_order(series, ts, series_count);
    // Ranges of `order` with more than one row per key.
    let groups: Vec<std::ops::Range<usize>> = groups_of(&order, series, ts);
    let mut dropped = Dropped::default();
    if let Some(names) = names {
        dropped = dropped_of(&all, names, &order, &groups)?;
    }
    let (newest, kept_groups) = keep_newest(&order, &groups);
    let columns = all.columns().iter().map(|column| {
        let mut indices = Cow::Borrowed(&newest);
        if column.null_count() > 0 {
            for (at, group) in &kept_groups {
                let valid = order[group.clone()].iter().rev().find(|i| column.is_valid(**i as usize));
                if let Some(i) = valid.filter(|i| **i != newest[*at]) {
                    indices.to_mut()[*at] = *i;
                }
            }
        }
        Ok(take(column, &UInt32Array::from(indices.into_owned()), None)?)
    });
    let columns = columns.collect::<Result<Vec<_>>>()?;
    Ok(Newest { rows: RecordBatch::try_new(all.schema(), columns)?, dropped })
}

/// The row indices sorted by (series, ts); stable for rows of one key.
fn sorted_order(series: &[u32], ts: &[i64], series_count: usize) -> Vec<u32> {
    let rows = series.len();
    if series_count / 8 > rows {
        let mut order: Vec<u32> = (0..rows as u32).collect();
        order.sort_by_key(|i| (series[*i as usize], ts[*i as usize]));
        return order;
    }
    // A counting sort by series, then a sort by time of the series that are out of order: rows are mostly in order.
    let mut next = vec![0u32; series_count + 1];
    series.iter().for_each(|s| next[*s as usize + 1] += 1);
    for s in 0..series_count {
        next[s + 1] += next[s];
    }
    let mut order = vec![0u32; rows];
    for (i, s) in series.iter().enumerate() {
        let at = &mut next[*s as usize];
        order[*at as usize] = i as u32;
        *at += 1;
    }
    let mut start = 0;
    for end in &next[..series_count] {
        let of_series = &mut order[start..*end as usize];
        if !of_series.is_sorted_by_key(|i| ts[*i as usize]) {
            of_series.sort_by_key(|i| ts[*i as usize]);
        }
        start = *end as usize;
    }
    order
}

fn groups_of(order: &[u32], series: &[u32], ts: &[i64]) -> Vec<std::ops::Range<usize>> {
    let mut groups = Vec::new();
    let key = |i: usize| (ts[order[i] as usize], series[order[i] as usize]);
    let mut start = 0;
    for i in 1..=order.len() {
        if i == order.len() || key(i) != key(start) {
            if i - start > 1 {
                groups.push(start..i);
            }
            start = i;
        }
    }
    groups
}

/// The newest row of each key, and for each group its index in that list.
fn keep_newest(order: &[u32], groups: &[std::ops::Range<usize>]) -> (Vec<u32>, Vec<(usize, std::ops::Range<usize>)>) {
    let mut newest = Vec::with_capacity(order.len());
    let mut kept = Vec::with_capacity(groups.len());
    let mut at = 0;
    for group in groups {
        newest.extend_from_slice(&order[at..group.start]);
        kept.push((newest.len(), group.clone()));
        newest.push(order[group.end - 1]);
        at = group.end;
    }
    newest.extend_from_slice(&order[at..]);
    (newest, kept)
}

/// Counts and hashes the overwritten values: those of groups that are not the newest of their column.
fn dropped_of(
    all: &RecordBatch,
    names: &SeriesSet,
    order: &[u32],
    groups: &[std::ops::Range<usize>],
) -> Result<Dropped> {
    let (series, ts) = (series_of(all)?, ticks_of(all)?);
    let mut dropped = Dropped::default();
    let mut keys = Vec::new();
    for group in groups {
        keys.clear();
        let row = order[group.start] as usize;
        row_keys(names, &series[row..=row], &ts[row..=row], &mut keys)?;
        let less = group.len() as u64 - 1;
        dropped.rows += less;
        dropped.hash = dropped.hash.wrapping_add(keys[0].wrapping_mul(less));
    }
    for (field, column) in all.schema_ref().fields().iter().zip(all.columns()).skip(2) {
        let id = field_id(field)
            .ok_or_else(|| Error::internal("a column of rows has no id").with("column", field.name()))?;
        // The overwritten values of this column, gathered to hash them at once.
        let mut places = Vec::new();
        for group in groups {
            let valid = order[group.clone()].iter().rev().filter(|i| column.is_valid(**i as usize));
            places.extend(valid.skip(1).copied());
        }
        keys.clear();
        for place in &places {
            let row = *place as usize;
            row_keys(names, &series[row..=row], &ts[row..=row], &mut keys)?;
        }
        let values = take(column, &UInt32Array::from(places), None)?;
        dropped.hash = dropped.hash.wrapping_add(value_hashes(id, &values, &keys)?);
    }
    Ok(dropped)
}
