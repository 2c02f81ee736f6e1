//! Splits batches into pieces of a bounded number of bytes, which are encoded one at a time.

use std::collections::VecDeque;

use arrow::{
    array::{Array, AsArray, RecordBatch},
    datatypes::DataType,
};

use crate::sizes::bytes_of;

/// Splits a batch into slices of at most about `limit` bytes, of at least one row each.
pub(crate) fn split(batch: RecordBatch, limit: usize) -> VecDeque<RecordBatch> {
    let mut pending = vec![batch];
    let mut pieces = VecDeque::new();
    while let Some(batch) = pending.pop() {
        let rows = batch.num_rows();
        let bytes = sent_bytes(&batch);
        if bytes <= limit || rows <= 1 {
            pieces.push_back(batch);
            continue;
        }
        let parts = bytes.div_ceil(limit).min(rows);
        let size = rows.div_ceil(parts);
        // Where row widths differ a piece may still be too large: it is split again.
        for start in (0..rows).step_by(size).collect::<Vec<_>>().into_iter().rev() {
            pending.push(batch.slice(start, size.min(rows - start)));
        }
    }
    pieces
}

/// Bytes of the rows of a batch as a message has them: a dictionary's keys, without its values, which are a message of their own.
fn sent_bytes(batch: &RecordBatch) -> usize {
    let of = |column: &dyn Array| match column.data_type() {
        DataType::Dictionary(_, _) => {
            let keys = column.as_any_dictionary().keys();
            bytes_of(keys, 0, keys.len())
        }
        _ => bytes_of(column, 0, column.len()),
    };
    let bytes = batch.columns().iter().map(|column| of(column.as_ref()));
    usize::try_from(bytes.sum::<u64>()).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::{
        array::{ArrayRef, AsArray, ListArray, StringArray},
        datatypes::Int64Type,
    };

    use super::*;

    #[test]
    fn rows_of_different_widths_are_split_until_they_fit() {
        let texts = (0..64).map(|i| "x".repeat(if i < 8 { 1_000 } else { 1 }));
        let batch =
            RecordBatch::try_from_iter([("s", Arc::new(StringArray::from_iter_values(texts)) as ArrayRef)]).unwrap();
        let pieces = split(batch, 2_500);
        assert_eq!(pieces.iter().map(RecordBatch::num_rows).sum::<usize>(), 64);
        assert!(
            pieces.iter().all(|p| sent_bytes(p) <= 2_500),
            "{:?}",
            pieces.iter().map(sent_bytes).collect::<Vec<_>>()
        );
    }

    #[test]
    fn lists_are_split_by_the_elements_of_their_own_rows() {
        let lists = ListArray::from_iter_primitive::<Int64Type, _, _>((0..64).map(|n| Some(vec![Some(n); 100])));
        let batch = RecordBatch::try_from_iter([("l", Arc::new(lists) as ArrayRef)]).unwrap();
        // 804 bytes a row.
        let pieces = split(batch.clone(), 8_192);
        assert_eq!(pieces.len(), 7, "{:?}", pieces.iter().map(RecordBatch::num_rows).collect::<Vec<_>>());
        let rows = pieces.iter().flat_map(|piece| piece.column(0).as_list::<i32>().iter().collect::<Vec<_>>());
        assert!(rows.eq(batch.column(0).as_list::<i32>().iter()));
    }
}
