//! Turns decoded rows into output: clips rows to the wanted times and attaches the tags of their series.

use std::sync::Arc;

use arrow::{
    array::{
        Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, BooleanBufferBuilder, DictionaryArray, Int32Array,
        PrimitiveArray, RecordBatch, RecordBatchOptions, StringArray, UInt32Array, downcast_primitive_array,
    },
    buffer::{NullBuffer, OffsetBuffer, ScalarBuffer},
    compute::{concat_batches, filter_record_batch, take},
    datatypes::{
        DataType, Int32Type, SchemaRef, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType,
        TimestampNanosecondType, TimestampSecondType,
    },
};
use futures::{
    StreamExt, TryStreamExt,
    stream::{self, BoxStream},
};
use tidelake_format::{Error, Result, file::Times};

use super::filters::TimeRange;

/// Adjacent rows of one series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Run {
    /// Rank of the series.
    pub(crate) rank: u32,
    /// Number of rows.
    pub(crate) rows: usize,
}

/// Appends runs; one that continues the series of the last run extends it.
pub(super) fn append_runs(runs: &mut Vec<Run>, more: &[Run]) {
    for run in more.iter().filter(|run| run.rows > 0) {
        match runs.last_mut() {
            Some(last) if last.rank == run.rank => last.rows += run.rows,
            _ => runs.push(*run),
        }
    }
}

/// Rows of data columns and their series; the row counts of the runs add up to that of the batch.
#[derive(Debug, Clone)]
pub(crate) struct Decoded {
    /// The requested columns; a column with a dictionary has the type UInt8.
    pub(crate) batch: RecordBatch,
    /// For each column that is read as codes, the dictionary that its values index; empty if no column is.
    pub(crate) dictionaries: Vec<Option<ArrayRef>>,
    /// Times of the rows, if requested in this form; the time column is then empty.
    pub(crate) times: Option<Vec<Times>>,
    /// Series of the rows, in order; time ascends within a run.
    pub(crate) runs: Vec<Run>,
}

impl Decoded {
    /// The values of a column, without codes.
    ///
    /// # Errors
    /// Arrow's.
    pub(crate) fn column(&self, at: usize) -> Result<ArrayRef> {
        let values = self.batch.column(at);
        Ok(match self.dictionary(at) {
            Some(dictionary) => take(dictionary, values, None)?,
            None => values.clone(),
        })
    }

    /// The dictionary of a column that is read as codes.
    pub(crate) fn dictionary(&self, at: usize) -> Option<&ArrayRef> {
        self.dictionaries.get(at).and_then(Option::as_ref)
    }
}

/// Ticks of a timestamp column without nulls.
///
/// # Errors
/// Internal if the column is not a timestamp.
pub(crate) fn ticks(column: &ArrayRef) -> Result<&[i64]> {
    Ok(match column.data_type() {
        DataType::Timestamp(TimeUnit::Second, _) => column.as_primitive::<TimestampSecondType>().values(),
        DataType::Timestamp(TimeUnit::Millisecond, _) => column.as_primitive::<TimestampMillisecondType>().values(),
        DataType::Timestamp(TimeUnit::Microsecond, _) => column.as_primitive::<TimestampMicrosecondType>().values(),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => column.as_primitive::<TimestampNanosecondType>().values(),
        other => return Err(Error::internal("time column is not a timestamp").with("found", other)),
    })
}

/// Keeps the rows whose time is within the ranges of their run; `ranges` returns those of the run at an index, `None` =
/// all.
///
/// `ts` holds the time of each row of `decoded`, ascending within a run.
pub(crate) fn clip<'a>(
    decoded: Decoded,
    ts: &[i64],
    ranges: impl Fn(usize) -> Option<&'a [TimeRange]>,
) -> Result<Decoded> {
    let total = decoded.batch.num_rows();
    let mut mask = BooleanBufferBuilder::new(total);
    let mut start = 0;
    for (i, run) in decoded.runs.iter().enumerate() {
        let end = start + run.rows;
        match ranges(i) {
            None => mask.append_n(run.rows, true),
            Some(ranges) => {
                let of = &ts[start..end];
                let mut at = 0;
                for range in ranges {
                    let from = at + of[at..].partition_point(|t| *t < range.first);
                    let to = from + of[from..].partition_point(|t| *t <= range.last);
                    mask.append_n(from - at, false);
                    mask.append_n(to - from, true);
                    at = to;
                }
                mask.append_n(of.len() - at, false);
            }
        }
        start = end;
    }
    retain(decoded, &BooleanArray::new(mask.finish(), None))
}

/// Keeps the rows at which the mask, which has no nulls, is true.
///
/// # Errors
/// Internal if Arrow fails to filter them.
pub(super) fn retain(decoded: Decoded, mask: &BooleanArray) -> Result<Decoded> {
    let kept = mask.true_count();
    if kept == mask.len() {
        return Ok(decoded);
    }
    let mut start = 0;
    let count = |run: Run| {
        let rows = mask.values().slice(start, run.rows).count_set_bits();
        start += run.rows;
        (rows > 0).then_some(Run { rows, ..run })
    };
    let runs = decoded.runs.into_iter().filter_map(count).collect();
    let batch = if decoded.batch.num_columns() == 0 {
        let options = RecordBatchOptions::new().with_row_count(Some(kept));
        RecordBatch::try_new_with_options(decoded.batch.schema(), Vec::new(), &options)?
    } else {
        filter_record_batch(&decoded.batch, mask)?
    };
    Ok(Decoded { batch, runs, ..decoded })
}

/// Joins adjacent batches until they have at least half of `rows` rows, but not more than `rows` unless a single one has more. No
/// column may be coded.
pub(super) fn joined(batches: BoxStream<'static, Result<Decoded>>, rows: usize) -> BoxStream<'static, Result<Decoded>> {
    let rows = rows.max(1);
    let joined = stream::try_unfold((batches.fuse(), None), move |(mut batches, mut waiting)| async move {
        let (mut together, mut held) = (Vec::new(), 0);
        while held * 2 < rows {
            let next = match waiting.take() {
                Some(batch) => Some(batch),
                None => batches.try_next().await?,
            };
            let Some(next) = next else { break };
            let more = next.batch.num_rows();
            if held > 0 && held + more > rows {
                waiting = Some(next);
                break;
            }
            held += more;
            together.push(next);
        }
        Ok((!together.is_empty()).then(|| join(&together)).transpose()?.map(|batch| (batch, (batches, waiting))))
    });
    joined.boxed()
}

fn join(batches: &[Decoded]) -> Result<Decoded> {
    if let [batch] = batches {
        return Ok(batch.clone());
    }
    let Some(first) = batches.first() else { return Err(Error::internal("no rows to join")) };
    let batch = concat_batches(&first.batch.schema(), batches.iter().map(|batch| &batch.batch))?;
    let mut runs = Vec::new();
    batches.iter().for_each(|batch| append_runs(&mut runs, &batch.runs));
    Ok(Decoded { batch, dictionaries: Vec::new(), times: None, runs })
}

/// Where an output column comes from.
#[derive(Debug, Clone)]
pub(crate) enum OutputColumn {
    /// The data column at this index.
    Data(usize),
    /// A property of the series (a tag or the name): one value per rank.
    Series(ArrayRef),
}

/// Combines data columns and series properties into an output batch. A text property is a dictionary where the schema says so.
///
/// # Errors
/// Internal if a column does not have the type of the schema.
pub(crate) fn assemble(decoded: &Decoded, columns: &[OutputColumn], schema: &SchemaRef) -> Result<RecordBatch> {
    let rows = decoded.batch.num_rows();
    let mut keys = None;
    let columns = columns.iter().zip(schema.fields()).map(|(column, field)| match column {
        OutputColumn::Data(at) => Ok(decoded.batch.column(*at).clone()),
        OutputColumn::Series(values) if matches!(values.data_type(), DataType::Dictionary(_, _)) => {
            Ok(repeat_codes(values.as_dictionary(), &decoded.runs, rows))
        }
        OutputColumn::Series(values) if matches!(field.data_type(), DataType::Dictionary(_, _)) => {
            let keys = keys.get_or_insert_with(|| SeriesKeys::new(&decoded.runs, rows, values.len()));
            keys.dictionary(values)
        }
        OutputColumn::Series(values) => repeat(values, &decoded.runs, rows),
    });
    let columns = columns.collect::<Result<Vec<_>>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(schema.clone(), columns, &options)?)
}

/// The keys of the dictionaries of a batch, which all its columns share.
struct SeriesKeys {
    /// One key a row.
    keys: ScalarBuffer<i32>,
    /// The rank for each key where the dictionaries have a value per run; `None` where they have one per rank.
    ranks: Option<UInt32Array>,
}

impl SeriesKeys {
    /// Batches with more rows than there are series share the series' own values, so that a client receives them once. Other
    /// batches have dictionaries of their own, with as many values as runs.
    fn new(runs: &[Run], rows: usize, series: usize) -> Self {
        let is_shared = series <= rows;
        let mut keys = Vec::with_capacity(rows);
        for (at, run) in runs.iter().enumerate() {
            let key = if is_shared { run.rank } else { at as u32 };
            keys.resize(keys.len() + run.rows, key as i32);
        }
        let ranks = (!is_shared).then(|| UInt32Array::from_iter_values(runs.iter().map(|run| run.rank)));
        Self { keys: keys.into(), ranks }
    }

    /// The dictionary of a property; its values may be equal, or null.
    fn dictionary(&self, values: &ArrayRef) -> Result<ArrayRef> {
        let values = match &self.ranks {
            Some(ranks) => take(values, ranks, None)?,
            None => values.clone(),
        };
        Ok(Arc::new(DictionaryArray::try_new(Int32Array::new(self.keys.clone(), None), values)?))
    }
}

/// Repeats the value of each run's series once per row.
pub(crate) fn repeat(values: &ArrayRef, runs: &[Run], rows: usize) -> Result<ArrayRef> {
    let array = values.as_ref();
    downcast_primitive_array! {
        array => Ok(Arc::new(repeat_primitive(array, runs, rows))),
        DataType::Utf8 => Ok(Arc::new(repeat_text(array.as_string(), runs, rows)?)),
        _ => {
            let places = runs.iter().flat_map(|r| std::iter::repeat_n(r.rank, r.rows));
            Ok(take(array, &UInt32Array::from_iter_values(places), None)?)
        }
    }
}

fn repeat_primitive<T: ArrowPrimitiveType>(values: &PrimitiveArray<T>, runs: &[Run], rows: usize) -> PrimitiveArray<T> {
    let mut out = Vec::with_capacity(rows);
    for run in runs {
        out.resize(out.len() + run.rows, values.value(run.rank as usize));
    }
    PrimitiveArray::new(ScalarBuffer::from(out), repeat_nulls(values, runs, rows))
        .with_data_type(values.data_type().clone())
}

/// Repeats the code of each run's series; all batches share the values.
fn repeat_codes(values: &DictionaryArray<Int32Type>, runs: &[Run], rows: usize) -> ArrayRef {
    let codes = repeat_primitive(values.keys(), runs, rows);
    // Checking each key takes longer than making it.
    // SAFETY: each key is one of a dictionary array with the same values, or null as there.
    #[expect(unsafe_code, reason = "Arrow checks the keys of each row otherwise")]
    Arc::new(unsafe { DictionaryArray::new_unchecked(codes, values.values().clone()) })
}

fn repeat_nulls(values: &dyn Array, runs: &[Run], rows: usize) -> Option<NullBuffer> {
    if values.null_count() == 0 || runs.iter().all(|r| values.is_valid(r.rank as usize)) {
        return None;
    }
    let mut valid = BooleanBufferBuilder::new(rows);
    runs.iter().for_each(|r| valid.append_n(r.rows, values.is_valid(r.rank as usize)));
    Some(NullBuffer::new(valid.finish()))
}

fn repeat_text(values: &StringArray, runs: &[Run], rows: usize) -> Result<StringArray> {
    let bytes: usize = runs.iter().map(|r| values.value(r.rank as usize).len() * r.rows).sum();
    if bytes > i32::MAX as usize {
        return Err(Error::internal("text of one output batch is too long").with("bytes", bytes));
    }
    let mut data = Vec::with_capacity(bytes);
    let mut offsets: Vec<i32> = Vec::with_capacity(rows + 1);
    offsets.push(0);
    for run in runs.iter().filter(|run| run.rows > 0) {
        let text = values.value(run.rank as usize).as_bytes();
        let start = data.len();
        data.extend_from_slice(text);
        // Each copy doubles the text: a few copies of many bytes in place of one of a few bytes for each row.
        let end = start + text.len() * run.rows;
        while data.len() < end {
            data.extend_from_within(start..start + (data.len() - start).min(end - data.len()));
        }
        offsets.extend((1..=run.rows).map(|row| (start + row * text.len()) as i32));
    }
    let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
    Ok(StringArray::try_new(offsets, data.into(), repeat_nulls(values, runs, rows))?)
}

#[cfg(test)]
mod tests {
    use arrow::{
        array::{Int32Array, TimestampMillisecondArray},
        datatypes::{Field, Schema},
    };

    use super::*;

    #[test]
    fn a_value_is_repeated_for_each_row_of_its_series() {
        let runs = [Run { rank: 2, rows: 2 }, Run { rank: 0, rows: 1 }, Run { rank: 1, rows: 1 }];
        let ints: ArrayRef = Arc::new(Int32Array::from(vec![Some(7), None, Some(9)]));
        assert_eq!(repeat(&ints, &runs, 4).unwrap().as_ref(), &Int32Array::from(vec![Some(9), Some(9), Some(7), None]));
        let texts: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), None, Some("")]));
        let expected = StringArray::from(vec![Some(""), Some(""), Some("a"), None]);
        assert_eq!(repeat(&texts, &runs, 4).unwrap().as_ref(), &expected);
        let flags: ArrayRef = Arc::new(BooleanArray::from(vec![Some(true), None, Some(false)]));
        let expected = BooleanArray::from(vec![Some(false), Some(false), Some(true), None]);
        assert_eq!(repeat(&flags, &runs, 4).unwrap().as_ref(), &expected);
    }

    #[tokio::test]
    async fn small_batches_are_joined_and_large_ones_are_not_split() {
        let batch = |(rank, from, rows): (u32, i32, usize)| {
            let values: ArrayRef = Arc::new(Int32Array::from_iter_values(from..from + rows as i32));
            let batch = RecordBatch::try_from_iter([("v", values)]).unwrap();
            Ok(Decoded { batch, dictionaries: Vec::new(), times: None, runs: vec![Run { rank, rows }] })
        };
        let sizes = [(0, 0, 3), (0, 3, 0), (0, 3, 1), (1, 4, 2), (1, 6, 30), (2, 36, 1), (3, 37, 7), (3, 44, 1)];
        for rows in [0, 1, 2, 8, 10, 100] {
            let joined: Vec<Decoded> =
                joined(stream::iter(sizes.map(batch)).boxed(), rows).try_collect().await.unwrap();
            let values = joined
                .iter()
                .flat_map(|d| d.batch.column(0).as_primitive::<arrow::datatypes::Int32Type>().values().to_vec());
            assert!(values.eq(0..45), "{rows}");
            let mut of_series = [0; 4];
            for decoded in &joined {
                assert_eq!(decoded.runs.iter().map(|run| run.rows).sum::<usize>(), decoded.batch.num_rows());
                decoded.runs.iter().for_each(|run| of_series[run.rank as usize] += run.rows);
            }
            assert_eq!(of_series, [4, 32, 1, 8], "{rows}");
            let lengths: Vec<usize> = joined.iter().map(|d| d.batch.num_rows()).collect();
            match rows {
                8 => assert_eq!(lengths, [4, 2, 30, 8, 1]),
                100 => assert_eq!(lengths, [45]),
                _ => {}
            }
        }
    }

    #[test]
    fn dictionaries_of_series_have_the_values_of_their_rows_and_share_keys() {
        let runs = vec![Run { rank: 2, rows: 2 }, Run { rank: 0, rows: 3 }, Run { rank: 1, rows: 1 }];
        let batch = RecordBatchOptions::new().with_row_count(Some(6));
        let batch = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), Vec::new(), &batch).unwrap();
        let decoded = Decoded { batch, dictionaries: Vec::new(), times: None, runs };
        for series in [3, 6, 7] {
            let names = StringArray::from_iter_values((0..series).map(|rank| format!("d{rank}")));
            let tags =
                StringArray::from_iter((0..series).map(|rank| (rank != 1).then(|| format!("room {}", rank % 2))));
            let tags: [ArrayRef; 2] = [Arc::new(names), Arc::new(tags)];
            let text: Vec<ArrayRef> = tags.iter().map(|tag| repeat(tag, &decoded.runs, 6).unwrap()).collect();
            let fields = ["name", "tag"].map(|name| Field::new(name, crate::wire::tag_dictionary(), true));
            let columns = tags.clone().map(OutputColumn::Series);
            let schema = Arc::new(Schema::new(fields.to_vec()));
            let found = assemble(&decoded, &columns, &schema).unwrap();
            for (column, text) in found.columns().iter().zip(&text) {
                assert_eq!(&arrow::compute::cast(column, &DataType::Utf8).unwrap(), text, "{series} series");
                let dictionary = column.as_dictionary::<arrow::datatypes::Int32Type>();
                assert_eq!(dictionary.logical_null_count(), text.null_count());
                assert_eq!(dictionary.values().len(), if series <= 6 { series } else { 3 }, "{series} series");
            }
            let keys = |at| found.column(at).as_dictionary::<arrow::datatypes::Int32Type>().keys().values().as_ptr();
            assert_eq!(keys(0), keys(1), "columns share their keys");

            let coded = tags.map(|tag| arrow::compute::cast(&tag, &crate::wire::tag_dictionary()).unwrap());
            let found = assemble(&decoded, &coded.clone().map(OutputColumn::Series), &schema).unwrap();
            for ((column, text), coded) in found.columns().iter().zip(&text).zip(&coded) {
                assert_eq!(&arrow::compute::cast(column, &DataType::Utf8).unwrap(), text, "{series} series");
                let values = |of: &ArrayRef| of.as_dictionary::<Int32Type>().values().clone();
                assert!(Arc::ptr_eq(&values(column), &values(coded)), "all batches share the values");
            }
        }
    }

    #[test]
    fn clipping_keeps_what_lies_in_the_ranges_of_each_run() {
        let ts = vec![1, 2, 3, 1, 2, 9];
        let unit = DataType::Timestamp(TimeUnit::Millisecond, None);
        let schema = Arc::new(Schema::new(vec![Field::new("ts", unit, false)]));
        let column = Arc::new(TimestampMillisecondArray::from(ts.clone()));
        let batch = RecordBatch::try_new(schema, vec![column]).unwrap();
        let runs = vec![Run { rank: 4, rows: 3 }, Run { rank: 5, rows: 3 }];
        let ranges = [TimeRange { first: 2, last: 2 }, TimeRange { first: 5, last: 20 }];
        let clipped = clip(Decoded { batch, dictionaries: Vec::new(), times: None, runs }, &ts, |i| {
            (i == 1).then_some(&ranges[..])
        })
        .unwrap();
        assert_eq!(clipped.runs, [Run { rank: 4, rows: 3 }, Run { rank: 5, rows: 2 }]);
        assert_eq!(ticks(clipped.batch.column(0)).unwrap(), [1, 2, 3, 2, 9]);
    }
}
