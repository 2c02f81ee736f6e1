//! Converts parameters and ingested batches to types that the engine and the writer accept.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions, UnionArray, new_null_array},
    compute::{CastOptions, cast_with_options, concat},
    datatypes::{
        DataType, Field, Schema, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
        TimestampSecondType,
    },
};
use tidelake_format::{Error, Result};

use crate::{
    engine::{Prepared, Statement},
    wire::wire_type,
};

/// Maximum number of bytes of a batch's columns in plain types.
const MOST_PLAIN: u64 = 256 << 20;

/// # Errors
/// [`Kind::Invalid`](crate::Kind::Invalid) for columns of dictionaries, runs or views that are too large once expanded.
fn refuse_large(batch: &RecordBatch) -> Result<()> {
    let bytes = batch.columns().iter().map(|column| plain_bytes(column.as_ref())).fold(0, u64::saturating_add);
    if bytes > MOST_PLAIN {
        return Err(Error::invalid(
            "batch too large once its dictionaries, runs and views are expanded; send fewer rows at once",
        )
        .with("limit", format!("{MOST_PLAIN} bytes"))
        .with("found", format!("{bytes} bytes")));
    }
    Ok(())
}

/// Number of bytes of a column in its plain type, where that may be more than its current size; else 0.
fn plain_bytes(array: &dyn Array) -> u64 {
    let rows = array.len() as u64;
    let of_views = |views: &[u128]| views.iter().map(|view| u64::from(*view as u32)).fold(0, u64::saturating_add);
    let value =
        |values: &ArrayRef, at: usize| values.slice(at, 1).to_data().get_slice_memory_size().unwrap_or(0) as u64;
    let each = |values: &ArrayRef| -> Vec<u64> {
        let of = |at| value(values, at).max(plain_bytes(values.slice(at, 1).as_ref()));
        (0..values.len()).map(of).collect()
    };
    match array.data_type() {
        DataType::Null => rows.saturating_mul(8),
        DataType::Utf8View => of_views(array.as_string_view().views()),
        DataType::BinaryView => of_views(array.as_binary_view().views()),
        DataType::Dictionary(..) => {
            let dictionary = array.as_any_dictionary();
            if dictionary.values().is_empty() {
                return rows;
            }
            let sizes = each(dictionary.values());
            let of = |key: usize| sizes.get(key).copied().unwrap_or(0);
            dictionary.normalized_keys().into_iter().map(of).fold(0, u64::saturating_add)
        }
        DataType::RunEndEncoded(..) => {
            let data = array.to_data();
            let longest = data
                .child_data()
                .get(1)
                .map(|values| each(&arrow::array::make_array(values.clone())).into_iter().max().unwrap_or(0));
            rows.saturating_mul(longest.unwrap_or(0))
        }
        _ => 0,
    }
}

/// Converts strings, binaries, dictionaries and runs to their plain types and timestamps to ones without a zone. Numbers, time
/// units, names and order are unchanged.
///
/// # Errors
/// [`Kind::Invalid`](crate::Kind::Invalid) for values that do not fit (a text above 2 GiB).
pub(super) fn plain_batch(batch: &RecordBatch) -> Result<RecordBatch> {
    refuse_large(batch)?;
    let schema = batch.schema();
    let columns: Vec<ArrayRef> =
        batch.columns().iter().zip(schema.fields()).map(|(c, f)| plain(c, f.name(), None)).collect::<Result<_>>()?;
    let fields: Vec<Field> = columns
        .iter()
        .zip(schema.fields())
        .map(|(c, f)| f.as_ref().clone().with_data_type(c.data_type().clone()).with_nullable(true))
        .collect();
    of_columns(fields, columns, batch.num_rows())
}

/// Converts parameters from a client to one column per parameter of the statement, in order, named `1`, `2`, ….
///
/// For a query each column is cast to its advertised type, but timestamps and times of day keep a finer unit, and for a date
/// parameter an instant is accepted too. For an update values keep their types, as the writer knows the columns.
///
/// # Errors
/// [`Kind::Invalid`](crate::Kind::Invalid) for a wrong number of parameters, or with the name of a parameter whose type does not
/// match.
pub(crate) fn bind(prepared: &Prepared, batch: &RecordBatch) -> Result<RecordBatch> {
    if batch.num_columns() != prepared.parameters.len() {
        return Err(Error::invalid("wrong number of parameters")
            .with("expected", prepared.parameters.len())
            .with("found", batch.num_columns()));
    }
    refuse_large(batch)?;
    let advertised = prepared.parameters.iter().map(|field| match prepared.kind {
        Statement::Query { .. } => Some(field.data_type()),
        Statement::Update(_) => None,
    });
    let columns: Vec<ArrayRef> = batch
        .columns()
        .iter()
        .zip(advertised)
        .enumerate()
        .map(|(i, (column, wanted))| plain(column, &format!("parameter {}", i + 1), wanted))
        .collect::<Result<_>>()?;
    let fields =
        columns.iter().enumerate().map(|(i, c)| Field::new((i + 1).to_string(), c.data_type().clone(), true)).collect();
    of_columns(fields, columns, batch.num_rows())
}

fn of_columns(fields: Vec<Field>, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options)?)
}

/// Converts a column to the wanted type, else to its plain type.
fn plain(array: &ArrayRef, name: &str, wanted: Option<&DataType>) -> Result<ArrayRef> {
    let wanted = match (array.data_type(), wanted) {
        (DataType::Date32 | DataType::Date64, Some(DataType::Date32)) => wanted,
        // Text too: the text of a date parses as its midnight.
        (_, Some(DataType::Date32)) => Some(&DataType::Timestamp(TimeUnit::Millisecond, None)),
        (DataType::Time32(_) | DataType::Time64(_), Some(DataType::Time32(_))) => {
            Some(&DataType::Time64(TimeUnit::Nanosecond))
        }
        (_, Some(DataType::Time32(_))) => Some(&DataType::Utf8),
        (_, wanted) => wanted,
    };
    let array = match array.data_type() {
        DataType::Union(_, _) => &members(array.as_union(), name, wanted)?,
        _ => array,
    };
    match (array.data_type(), wanted) {
        (DataType::Timestamp(_, _), None | Some(DataType::Timestamp(_, _))) => Ok(without_zone(array)),
        (found, Some(wanted)) => cast(array, found, wanted, name),
        (DataType::Utf8View | DataType::LargeUtf8, None) => cast(array, array.data_type(), &DataType::Utf8, name),
        (found @ (DataType::BinaryView | DataType::LargeBinary | DataType::FixedSizeBinary(_)), None) => {
            cast(array, found, &DataType::Binary, name)
        }
        (found @ DataType::Dictionary(_, value), None) => {
            plain(&cast(array, found, &dictionary_value(value), name)?, name, None)
        }
        (found @ DataType::RunEndEncoded(_, values), None) => {
            plain(&cast(array, found, &dictionary_value(values.data_type()), name)?, name, None)
        }
        _ => Ok(array.clone()),
    }
}

/// The type to which a dictionary is cast: the plain type for strings and binaries, else the value type.
fn dictionary_value(value: &DataType) -> DataType {
    match value {
        DataType::Utf8View | DataType::LargeUtf8 | DataType::BinaryView | DataType::LargeBinary => wire_type(value),
        other => other.clone(),
    }
}

fn cast(array: &ArrayRef, found: &DataType, wanted: &DataType, name: &str) -> Result<ArrayRef> {
    if found == wanted {
        return Ok(array.clone());
    }
    let strict = CastOptions { safe: false, ..Default::default() };
    cast_with_options(array, wanted, &strict).map_err(|e| {
        Error::invalid("value does not have the expected type")
            .with("column", name)
            .with("expected", wanted)
            .with("found", found)
            .with("reason", &e)
            .source(e)
    })
}

/// The same instants without a zone.
fn without_zone(array: &ArrayRef) -> ArrayRef {
    let DataType::Timestamp(unit, Some(_)) = array.data_type() else { return array.clone() };
    let none = None::<Arc<str>>;
    match unit {
        TimeUnit::Second => Arc::new(array.as_primitive::<TimestampSecondType>().clone().with_timezone_opt(none)),
        TimeUnit::Millisecond => {
            Arc::new(array.as_primitive::<TimestampMillisecondType>().clone().with_timezone_opt(none))
        }
        TimeUnit::Microsecond => {
            Arc::new(array.as_primitive::<TimestampMicrosecondType>().clone().with_timezone_opt(none))
        }
        TimeUnit::Nanosecond => {
            Arc::new(array.as_primitive::<TimestampNanosecondType>().clone().with_timezone_opt(none))
        }
    }
}

/// Converts a union (flightsql-dbapi sends one per parameter) to the wanted type, else to the common type of its members, Float64
/// for numbers of several types, Utf8 for anything else.
fn members(union: &UnionArray, name: &str, wanted: Option<&DataType>) -> Result<ArrayRef> {
    let values: Vec<ArrayRef> =
        (0..union.len()).map(|row| plain(&union.value(row), name, None)).collect::<Result<_>>()?;
    let present = || values.iter().filter(|v| v.is_valid(0)).map(|v| v.data_type());
    let common = match (wanted, present().next()) {
        (Some(wanted @ DataType::Timestamp(_, _)), Some(first @ DataType::Timestamp(_, _))) => {
            if present().all(|t| t == first) { first.clone() } else { wanted.clone() }
        }
        (Some(wanted), _) => wanted.clone(),
        (None, None) => return Ok(new_null_array(&DataType::Null, union.len())),
        (None, Some(first)) if present().all(|t| t == first) => first.clone(),
        (None, Some(_)) if present().all(DataType::is_numeric) => DataType::Float64,
        (None, Some(_)) => DataType::Utf8,
    };
    let values: Vec<ArrayRef> = values
        .iter()
        .map(|v| if v.is_null(0) { Ok(new_null_array(&common, 1)) } else { cast(v, v.data_type(), &common, name) })
        .collect::<Result<_>>()?;
    if values.is_empty() {
        return Ok(new_null_array(&common, 0));
    }
    Ok(concat(&values.iter().map(|v| v.as_ref()).collect::<Vec<_>>())?)
}

#[cfg(test)]
mod tests {
    use arrow::{
        array::{
            Date32Array, Date64Array, Float64Array, Int32Array, Int64Array, StringArray, StringViewArray,
            Time32MillisecondArray, Time64MicrosecondArray, Time64NanosecondArray, TimestampMillisecondArray,
            TimestampNanosecondArray,
        },
        buffer::ScalarBuffer,
        datatypes::{Int64Type, UnionFields},
    };
    use tidelake_format::access::Principal;
    use tidelake_protocol::sql::{DoubleQuotes, Update};

    use super::*;
    use crate::{Kind, engine::Plan};

    fn prepared(kind: Statement, types: &[DataType]) -> Prepared {
        let parameters = types.iter().map(|t| Field::new("p", t.clone(), true)).collect();
        let principal = Principal::AUTH_OFF;
        Prepared { sql: String::new(), kind, parameters, version: Default::default(), principal }
    }

    fn query(types: &[DataType]) -> Prepared {
        use datafusion::logical_expr::LogicalPlanBuilder;
        let plan = LogicalPlanBuilder::empty(false).build().unwrap();
        prepared(Statement::Query { plan: Arc::new(Plan::Analyzed(plan)), schema: Arc::new(Schema::empty()) }, types)
    }

    fn batch(columns: Vec<ArrayRef>) -> RecordBatch {
        RecordBatch::try_from_iter(columns.into_iter().enumerate().map(|(i, c)| (i.to_string(), c))).unwrap()
    }

    fn dense_union() -> ArrayRef {
        let members = [
            Field::new("i", DataType::Int64, true),
            Field::new("f", DataType::Float64, true),
            Field::new("s", DataType::Utf8, true),
        ];
        let union = UnionArray::try_new(
            UnionFields::try_new([0, 1, 2], members).unwrap(),
            ScalarBuffer::from(vec![0i8, 1, 2]),
            Some(ScalarBuffer::from(vec![0, 0, 0])),
            vec![
                Arc::new(Int64Array::from(vec![1])),
                Arc::new(Float64Array::from(vec![2.0])),
                Arc::new(StringArray::from(vec!["3"])),
            ],
        );
        Arc::new(union.unwrap())
    }

    #[test]
    fn parameters_of_a_query_are_cast_to_the_advertised_types() {
        let bound = bind(
            &query(&[DataType::Int64, DataType::Utf8]),
            &batch(vec![Arc::new(Int32Array::from(vec![7])), Arc::new(StringViewArray::from(vec!["x"]))]),
        )
        .unwrap();
        assert_eq!(bound.column(0).as_primitive::<Int64Type>().value(0), 7);
        assert_eq!(bound.column(1).data_type(), &DataType::Utf8);
        assert_eq!(bound.schema().field(1).name(), "2");
    }

    #[test]
    fn finer_timestamps_are_not_truncated() {
        let ns = Arc::new(TimestampNanosecondArray::from(vec![1]).with_timezone("UTC"));
        let bound = bind(&query(&[DataType::Timestamp(TimeUnit::Millisecond, None)]), &batch(vec![ns])).unwrap();
        assert_eq!(bound.column(0).as_ref(), &TimestampNanosecondArray::from(vec![1]) as &dyn Array);
    }

    #[test]
    fn dates_and_times_are_accepted_in_several_types() {
        let one = |wanted, column: ArrayRef| bind(&query(&[wanted]), &batch(vec![column])).unwrap().column(0).clone();
        let day: ArrayRef = Arc::new(Date32Array::from(vec![18_321]));
        assert_eq!(&one(DataType::Date32, day.clone()), &day);
        assert_eq!(&one(DataType::Date32, Arc::new(Date64Array::from(vec![18_321 * 86_400_000]))), &day);
        let midnight: ArrayRef = Arc::new(TimestampMillisecondArray::from(vec![18_321 * 86_400_000]));
        assert_eq!(&one(DataType::Date32, midnight.clone()), &midnight);
        assert_eq!(&one(DataType::Date32, Arc::new(StringArray::from(vec!["2020-02-29"]))), &midnight);
        let time = || DataType::Time32(TimeUnit::Millisecond);
        let second: ArrayRef = Arc::new(Time64NanosecondArray::from(vec![1_000_000_000]));
        assert_eq!(&one(time(), Arc::new(Time32MillisecondArray::from(vec![1000]))), &second);
        assert_eq!(&one(time(), Arc::new(Time64MicrosecondArray::from(vec![1_000_000]))), &second);
        let text: ArrayRef = Arc::new(StringArray::from(vec!["00:00:01"]));
        assert_eq!(&one(time(), text.clone()), &text);
    }

    #[test]
    fn a_union_is_cast_to_the_statements_type() {
        let bound = bind(&query(&[DataType::Int64]), &batch(vec![dense_union()])).unwrap();
        assert_eq!(bound.column(0).as_primitive::<Int64Type>(), &Int64Array::from(vec![1, 2, 3]));
        let update = || Statement::Update(Update::parse("use a", DoubleQuotes::Text).unwrap().unwrap());
        let bound = bind(&prepared(update(), &[DataType::Utf8]), &batch(vec![dense_union()])).unwrap();
        assert_eq!(bound.column(0).as_string::<i32>(), &StringArray::from(vec!["1", "2.0", "3"]));
        let numbers = bind(&prepared(update(), &[DataType::Utf8]), &batch(vec![dense_union().slice(0, 2)]));
        assert_eq!(numbers.unwrap().column(0).data_type(), &DataType::Float64);
    }

    #[test]
    fn few_bytes_that_say_much_are_refused() {
        use arrow::array::{DictionaryArray, Int32Array as Keys, NullArray};
        let text: ArrayRef = Arc::new(StringArray::from(vec!["x".repeat(1 << 20)]));
        let dictionary: ArrayRef = Arc::new(DictionaryArray::new(Keys::from(vec![0; 1_000]), text.clone()));
        let mut views = arrow::array::StringViewBuilder::new();
        let block = views.append_block(text.as_string::<i32>().values().clone());
        (0..1_000).for_each(|_| views.try_append_view(block, 0, 1 << 20).unwrap());
        let views: ArrayRef = Arc::new(views.finish());
        let nulls: ArrayRef = Arc::new(NullArray::new(1 << 27));
        for column in [dictionary, views, nulls] {
            let error = plain_batch(&batch(vec![column.clone()])).unwrap_err();
            assert!(error.kind() == Kind::Invalid && error.context("limit").is_some(), "{error}");
            assert!(bind(&query(&[DataType::Utf8]), &batch(vec![column])).is_err());
        }
    }

    #[test]
    fn a_wrong_count_or_type_is_reported() {
        let none = RecordBatch::new_empty(Arc::new(Schema::empty()));
        let e = bind(&query(&[DataType::Int64]), &none).unwrap_err();
        assert_eq!((e.kind(), e.context("expected"), e.context("found")), (Kind::Invalid, Some("1"), Some("0")));
        let e = bind(&query(&[DataType::Int64]), &batch(vec![Arc::new(StringArray::from(vec!["x"]))])).unwrap_err();
        assert_eq!((e.kind(), e.context("column")), (Kind::Invalid, Some("parameter 1")));
    }
}
