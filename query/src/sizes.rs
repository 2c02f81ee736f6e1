//! Bytes of the rows themselves: a slice of an array counts its own rows, not the whole buffers.

use arrow::{
    array::{Array, ArrayRef, AsArray, RecordBatch},
    datatypes::{ArrowNativeType, DataType},
};
use futures::{Stream, TryStreamExt, stream};

/// Cuts batches into slices of at most `rows` rows.
pub(crate) fn sliced<E>(
    batches: impl Stream<Item = Result<RecordBatch, E>> + Send,
    rows: usize,
) -> impl Stream<Item = Result<RecordBatch, E>> + Send {
    let slices = move |batch: RecordBatch| {
        let starts = (0..batch.num_rows()).step_by(rows.max(1));
        stream::iter(starts.map(move |at| Ok(batch.slice(at, rows.min(batch.num_rows() - at)))))
    };
    batches.map_ok(slices).try_flatten()
}

/// Bytes of the rows of a batch.
pub(crate) fn batch_bytes(batch: &RecordBatch) -> usize {
    let columns = batch.columns().iter().map(|column| bytes_of(column.as_ref(), 0, column.len()));
    usize::try_from(columns.sum::<u64>()).unwrap_or(usize::MAX)
}

/// Bytes of some rows, including their list elements and struct fields.
pub(crate) fn bytes_of(array: &dyn Array, start: usize, rows: usize) -> u64 {
    let end = start + rows;
    let range = |offsets: (usize, usize)| offsets.1.saturating_sub(offsets.0);
    match array.data_type() {
        DataType::Utf8 | DataType::Binary => {
            let data = array.to_data();
            let offsets = &data.buffers()[0].typed_data::<i32>()[data.offset()..];
            range((offsets[start].as_usize(), offsets[end].as_usize())) as u64 + 4 * rows as u64
        }
        DataType::LargeUtf8 | DataType::LargeBinary => {
            let data = array.to_data();
            let offsets = &data.buffers()[0].typed_data::<i64>()[data.offset()..];
            range((offsets[start].as_usize(), offsets[end].as_usize())) as u64 + 8 * rows as u64
        }
        DataType::Utf8View => of_views(array.as_string_view().views(), start, end),
        DataType::BinaryView => of_views(array.as_binary_view().views(), start, end),
        DataType::List(_) => {
            let list = array.as_list::<i32>();
            let (from, to) = (list.value_offsets()[start].as_usize(), list.value_offsets()[end].as_usize());
            bytes_of(list.values().as_ref(), from, to - from) + 4 * rows as u64
        }
        DataType::LargeList(_) => {
            let list = array.as_list::<i64>();
            let (from, to) = (list.value_offsets()[start].as_usize(), list.value_offsets()[end].as_usize());
            bytes_of(list.values().as_ref(), from, to - from) + 8 * rows as u64
        }
        DataType::FixedSizeList(_, each) => {
            let (list, each) = (array.as_fixed_size_list(), each.as_usize());
            bytes_of(list.values().as_ref(), start * each, rows * each)
        }
        DataType::Map(..) => {
            let map = array.as_map();
            let (from, to) = (map.value_offsets()[start].as_usize(), map.value_offsets()[end].as_usize());
            bytes_of(map.entries(), from, to - from) + 4 * rows as u64
        }
        DataType::Struct(_) => {
            let of = |column: &ArrayRef| bytes_of(column.as_ref(), start, rows);
            array.as_struct().columns().iter().map(of).sum::<u64>() + rows as u64
        }
        DataType::Dictionary(..) => {
            // Count unpacked values: a function may unpack the dictionary.
            let values = array.as_any_dictionary().values();
            let longest = match values.as_string_opt::<i32>() {
                Some(texts) => texts.offsets().lengths().max().map_or(0, |bytes| bytes as u64 + 4),
                None => (0..values.len()).map(|at| bytes_of(values.as_ref(), at, 1)).max().unwrap_or(0),
            };
            longest.saturating_mul(rows as u64)
        }
        DataType::Null | DataType::Boolean => rows as u64,
        other => match other.primitive_width() {
            Some(width) => (width * rows) as u64,
            None => {
                let bytes = array.slice(start, rows).to_data().get_slice_memory_size();
                bytes.unwrap_or(0) as u64
            }
        },
    }
}

/// Bytes of text views; the low 32 bits of a view are its length.
fn of_views(views: &[u128], start: usize, end: usize) -> u64 {
    views[start..end].iter().map(|view| u64::from(*view as u32) + 16).sum()
}
