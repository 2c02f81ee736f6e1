//! Finds the pages of a chunk that can hold rows of a time range, by the page index of the time column.

use std::ops::Range;

use parquet::file::{metadata::ParquetMetaData, page_index::column_index::ColumnIndexMetaData};
use tidelake_format::{file::DataFile, ids::ColumnId, schema::field_id};

use super::filters::TimeRange;

/// The smallest range of rows at page boundaries, within `rows`, that holds every row with a time in `range`.
///
/// `rows` belong to one series, so time ascends. Every row of the range is included; without a page index the result is
/// all of `rows`.
pub(crate) fn narrow(file: &DataFile, rows: Range<u64>, range: TimeRange) -> Range<u64> {
    let Some(pages) = pages_of(file, rows.clone()) else { return rows };
    let mut meeting = pages.into_iter().filter(|(_, first, last)| range.meets(*first, *last)).map(|(rows, ..)| rows);
    match meeting.next() {
        None => rows.start..rows.start,
        Some(page) => page.start..meeting.next_back().map_or(page.end, |last| last.end),
    }
}

/// The pages of the time column within `rows`, with the smallest and largest time that a page may have; `None` without a
/// page index.
pub(super) fn pages_of(file: &DataFile, rows: Range<u64>) -> Option<Vec<(Range<u64>, i64, i64)>> {
    let column = file.schema().fields().iter().position(|f| field_id(f) == Some(ColumnId::TS))?;
    let mut found = Vec::new();
    for (at, group) in file.row_groups().enumerate() {
        if group.end <= rows.start || group.start >= rows.end {
            continue;
        }
        for (page, first, last) in pages(file.metadata(), at, column, &group, &rows)? {
            let (start, end) = (page.start.max(rows.start), page.end.min(rows.end));
            if start < end {
                found.push((start..end, first, last));
            }
        }
    }
    Some(found)
}

/// Rows, smallest and largest time of each page of a row group's time column that overlaps `rows`.
fn pages<'a>(
    metadata: &'a ParquetMetaData,
    group: usize,
    column: usize,
    rows: &Range<u64>,
    wanted: &Range<u64>,
) -> Option<impl Iterator<Item = (Range<u64>, i64, i64)> + use<'a>> {
    let locations = &metadata.offset_index()?.get(group)?.get(column)?.page_locations;
    let ColumnIndexMetaData::INT64(index) = metadata.column_index()?.get(group)?.get(column)? else { return None };
    let rows = rows.clone();
    if index.num_pages() != locations.len() as u64 {
        return None;
    }
    let start_of = move |i: usize| locations.get(i).map_or(rows.end, |p| rows.start + p.first_row_index as u64);
    let from = locations.partition_point(|p| rows.start + p.first_row_index as u64 <= wanted.start).saturating_sub(1);
    let to = locations.partition_point(|p| rows.start + (p.first_row_index as u64) < wanted.end);
    let pages = (from..to.max(from)).map(move |i| {
        // A page without statistics may hold any time.
        let first = index.min_value(i).copied().unwrap_or(i64::MIN);
        (start_of(i)..start_of(i + 1), first, index.max_value(i).copied().unwrap_or(i64::MAX))
    });
    Some(pages)
}
