//! Wire types: the few Arrow types that every client can read.
//!
//! JDBC rejects view types, shows large unsigned integers as negative and cannot return zoned timestamps; Grafana reads every
//! timestamp as nanoseconds; ADBC requires the stream to have the announced schema. So FlightInfo, prepared statements, GetTables
//! and the stream itself use the same normalised schema.
//!
//! | in the engine | on the wire |
//! |---|---|
//! | Utf8View, LargeUtf8, dictionary or run-end encoded text | Utf8; a tag Dictionary(Int32, Utf8) where the session says so |
//! | BinaryView, LargeBinary, FixedSizeBinary | Binary |
//! | UInt8, UInt16, UInt32 | Int16, Int32, Int64 |
//! | UInt64 | Int64; a value above 9223372036854775807 is an error with a hint how to cast it |
//! | Float16 | Float32 |
//! | Timestamp of any unit and zone | Timestamp(ns) without zone, UTC; an instant outside 1677…2262 is an error |
//! | LargeList, list views, lists, structs, maps | List, struct, map of wire types |
//! | anything else | itself |
//!
//! Flight SQL's column metadata keeps the original type: [`TYPE_NAME`] (`INT UNSIGNED`) and [`PRECISION`] (the fraction digits of a
//! timestamp, the width of a text). JDBC shows them and the HTTP formats use them.

mod split;
#[cfg(test)]
mod tests;

use std::{collections::HashMap, sync::Arc};

use arrow::{
    array::{
        Array, ArrayRef, AsArray, DictionaryArray, Int64Array, PrimitiveArray, RecordBatch, RecordBatchOptions,
        StringArray,
    },
    buffer::ScalarBuffer,
    compute::{CastOptions, cast_with_options, take},
    datatypes::{
        ArrowPrimitiveType, DataType, Field, FieldRef, Fields, Int32Type, Int64Type, Schema, SchemaRef, TimeUnit,
        TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt64Type,
    },
};
use tidelake_format::{
    Error, Result,
    schema::{Supertable, arrow_field},
    types::{Precision, Type},
};
use tidelake_protocol::sql::Update;

pub(crate) use self::split::split;
use crate::{session::TagEncoding, writer::WriteOutcome};

/// Flight SQL's metadata key for the database's name of the type.
pub const TYPE_NAME: &str = "ARROW:FLIGHT:SQL:TYPE_NAME";
/// Flight SQL's metadata key for the fraction digits of a timestamp or the width of a text column.
pub const PRECISION: &str = "ARROW:FLIGHT:SQL:PRECISION";

/// Metadata key of the fields that are text tags or series names; its value is empty.
const TAG: &str = "tidelake:tag";

const NANOSECONDS: DataType = DataType::Timestamp(TimeUnit::Nanosecond, None);

/// Maps a type to its wire type: see the table above.
pub fn wire_type(data_type: &DataType) -> DataType {
    let inner = |field: &FieldRef| Arc::new(field.as_ref().clone().with_data_type(wire_type(field.data_type())));
    match data_type {
        DataType::Utf8View | DataType::LargeUtf8 => DataType::Utf8,
        DataType::BinaryView | DataType::LargeBinary | DataType::FixedSizeBinary(_) => DataType::Binary,
        DataType::UInt8 => DataType::Int16,
        DataType::UInt16 => DataType::Int32,
        DataType::UInt32 | DataType::UInt64 => DataType::Int64,
        DataType::Float16 => DataType::Float32,
        DataType::Timestamp(_, _) => NANOSECONDS,
        DataType::Dictionary(_, value) => wire_type(value),
        DataType::RunEndEncoded(_, values) => wire_type(values.data_type()),
        DataType::List(f) | DataType::LargeList(f) | DataType::ListView(f) | DataType::LargeListView(f) => {
            DataType::List(inner(f))
        }
        DataType::FixedSizeList(f, n) => DataType::FixedSizeList(inner(f), *n),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(inner).collect::<Fields>()),
        DataType::Map(entries, sorted) => DataType::Map(inner(entries), *sorted),
        other => other.clone(),
    }
}

/// Maps a field to its wire field: same name and nullability, wire type, only Flight SQL's metadata.
///
/// Source metadata under [`TYPE_NAME`] and [`PRECISION`] is kept where it fits the type; otherwise both are derived from the type.
pub fn wire_field(field: &Field) -> Field {
    let mut metadata = HashMap::new();
    let (name, precision) = type_name(field.data_type());
    // A cast keeps the metadata of its input. So a type name is used only if it names this type, or a type whose wire type
    // this is.
    let integer = field.data_type().is_integer();
    let fits = |given: &&String| {
        **given == name
            || (name == "VARCHAR" && matches!(given.as_str(), "NCHAR" | "JSON"))
            || (integer && given.ends_with(" UNSIGNED"))
    };
    match field.metadata().get(TYPE_NAME).filter(fits) {
        Some(given) => {
            metadata.insert(TYPE_NAME.to_owned(), given.clone());
            if let Some(width) = field.metadata().get(PRECISION) {
                metadata.insert(PRECISION.to_owned(), width.clone());
            }
        }
        None => {
            metadata.insert(TYPE_NAME.to_owned(), name);
            if let Some(digits) = precision {
                metadata.insert(PRECISION.to_owned(), digits.to_string());
            }
        }
    }
    Field::new(field.name(), wire_type(field.data_type()), field.is_nullable()).with_metadata(metadata)
}

/// Maps a schema to its wire schema, field by field, without schema metadata. Idempotent.
pub fn wire_schema(schema: &Schema) -> SchemaRef {
    Arc::new(Schema::new(schema.fields().iter().map(|f| wire_field(f)).collect::<Vec<_>>()))
}

/// The wire schema of a query's result. With [`TagEncoding::Dictionary`], text columns marked by [`mark_tag`] are
/// [`tag_dictionary`].
pub(crate) fn result_schema(schema: &Schema, tags: TagEncoding) -> SchemaRef {
    let encoded = |field: &FieldRef| {
        let wire = wire_field(field);
        let is_text_tag = field.metadata().contains_key(TAG) && *wire.data_type() == DataType::Utf8;
        if is_text_tag && tags == TagEncoding::Dictionary { wire.with_data_type(tag_dictionary()) } else { wire }
    };
    Arc::new(Schema::new(schema.fields().iter().map(encoded).collect::<Vec<_>>()))
}

/// Marks a field as a tag or the name of the series. The mark stays where a query returns, groups by or renames the column.
pub(crate) fn mark_tag(mut field: Field) -> Field {
    field.metadata_mut().insert(TAG.to_owned(), String::new());
    field
}

/// The type of text tags that are dictionaries: Dictionary(Int32, Utf8).
pub(crate) fn tag_dictionary() -> DataType {
    DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))
}

/// Adds a column type's name, text width and timestamp precision to the field's metadata, as the Arrow type does not express them.
pub fn describe(field: Field, ty: Type, precision: Precision) -> Field {
    let mut metadata = field.metadata().clone();
    metadata.insert(TYPE_NAME.to_owned(), ty.name().to_owned());
    let width = match ty {
        Type::Binary(width) | Type::NChar(width) | Type::VarBinary(width) => width,
        Type::Timestamp => Some(fraction_digits(precision.unit())),
        _ => None,
    };
    if let Some(width) = width {
        metadata.insert(PRECISION.to_owned(), width.to_string());
    }
    field.with_metadata(metadata)
}

/// The wire schema of a supertable: ts, fields, tags, each with its type name.
pub fn table_schema(table: &Supertable, precision: Precision) -> SchemaRef {
    let fields = table.columns.iter().map(|c| wire_field(&describe(arrow_field(c, precision), c.ty, precision)));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// The SQL name of a type and, for timestamps, the number of fraction digits.
fn type_name(data_type: &DataType) -> (String, Option<u32>) {
    let name = match data_type {
        DataType::Boolean => "BOOL",
        DataType::Int8 => "TINYINT",
        DataType::Int16 => "SMALLINT",
        DataType::Int32 => "INT",
        DataType::Int64 => "BIGINT",
        DataType::UInt8 => "TINYINT UNSIGNED",
        DataType::UInt16 => "SMALLINT UNSIGNED",
        DataType::UInt32 => "INT UNSIGNED",
        DataType::UInt64 => "BIGINT UNSIGNED",
        DataType::Float16 | DataType::Float32 => "FLOAT",
        DataType::Float64 => "DOUBLE",
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "VARCHAR",
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => "VARBINARY",
        DataType::Timestamp(unit, _) => return ("TIMESTAMP".to_owned(), Some(fraction_digits(*unit))),
        DataType::Date32 | DataType::Date64 => "DATE",
        DataType::Time32(_) | DataType::Time64(_) => "TIME",
        DataType::Interval(_) | DataType::Duration(_) => "INTERVAL",
        DataType::Decimal32(p, s)
        | DataType::Decimal64(p, s)
        | DataType::Decimal128(p, s)
        | DataType::Decimal256(p, s) => return (format!("DECIMAL({p}, {s})"), None),
        DataType::Dictionary(_, value) => return type_name(value),
        DataType::RunEndEncoded(_, values) => return type_name(values.data_type()),
        DataType::Null => "NULL",
        DataType::List(_)
        | DataType::LargeList(_)
        | DataType::ListView(_)
        | DataType::LargeListView(_)
        | DataType::FixedSizeList(_, _) => "ARRAY",
        DataType::Struct(_) => "STRUCT",
        DataType::Map(_, _) => "MAP",
        DataType::Union(_, _) => "UNION",
    };
    (name.to_owned(), None)
}

fn fraction_digits(unit: TimeUnit) -> u32 {
    match unit {
        TimeUnit::Second => 0,
        TimeUnit::Millisecond => 3,
        TimeUnit::Microsecond => 6,
        TimeUnit::Nanosecond => 9,
    }
}

/// The dictionaries of a stream's columns, as they are sent: by column, the values as the engine had them, and for each of these
/// values its code among distinct ones; `None` where they are distinct and not null.
#[derive(Debug, Default)]
pub(crate) struct Dictionaries(HashMap<usize, (ArrayRef, Option<DictionaryArray<Int32Type>>)>);

/// Converts the next batch of a stream to wire types: `schema` is what [`wire_schema`] returned for the batch's schema.
///
/// Columns that already have their wire type are shared, not copied. Names and metadata are taken from `schema`.
///
/// # Errors
/// [`Kind::Invalid`](crate::Kind::Invalid) with column, row and value where the wire type cannot represent a value (see
/// the table); [`Kind::Internal`](crate::Kind::Internal) when the columns are not those of `schema`.
pub(crate) fn wire_batch(batch: &RecordBatch, schema: &SchemaRef, known: &mut Dictionaries) -> Result<RecordBatch> {
    if batch.num_columns() != schema.fields().len() {
        return Err(Error::internal("batch does not match the announced schema")
            .with("expected", format!("{} columns", schema.fields().len()))
            .with("found", format!("{} columns", batch.num_columns())));
    }
    let columns = batch.columns().iter().zip(schema.fields()).enumerate();
    let columns = columns.map(|(at, (column, field))| match (column.data_type(), field.data_type()) {
        (DataType::Dictionary(_, _), DataType::Dictionary(_, _)) => known.distinct(at, column),
        _ => wire_array(column, field),
    });
    let columns = columns.collect::<Result<_>>()?;
    let rows = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(schema.clone(), columns, &rows)
        .map_err(|e| Error::internal("batch does not match the announced schema").with("reason", &e).source(e))
}

/// The result schema of a statement that is not a query: `token VARCHAR NOT NULL` if it creates a token, else
/// `affected_rows BIGINT NOT NULL`.
pub fn outcome_schema(update: &Update) -> SchemaRef {
    let field = match update.creates_token() {
        true => Field::new("token", DataType::Utf8, false),
        false => Field::new("affected_rows", DataType::Int64, false),
    };
    wire_schema(&Schema::new(vec![field]))
}

/// The single row of [`outcome_schema`].
///
/// # Errors
/// [`Kind::Internal`](crate::Kind::Internal): none is expected.
pub fn outcome_row(outcome: &WriteOutcome) -> Result<RecordBatch> {
    let (field, column): (_, ArrayRef) = match &outcome.secret {
        Some(secret) => {
            (Field::new("token", DataType::Utf8, false), Arc::new(StringArray::from(vec![secret.expose()])))
        }
        None => {
            let rows = i64::try_from(outcome.affected_rows).unwrap_or(i64::MAX);
            (Field::new("affected_rows", DataType::Int64, false), Arc::new(Int64Array::from(vec![rows])))
        }
    };
    Ok(RecordBatch::try_new(wire_schema(&Schema::new(vec![field])), vec![column])?)
}

fn wire_array(array: &ArrayRef, field: &Field) -> Result<ArrayRef> {
    let name = field.name();
    match (array.data_type(), field.data_type()) {
        (from, to) if from == to => Ok(array.clone()),
        (DataType::Timestamp(unit, _), DataType::Timestamp(TimeUnit::Nanosecond, None)) => match unit {
            TimeUnit::Second => nanoseconds::<TimestampSecondType>(array, 1_000_000_000, name),
            TimeUnit::Millisecond => nanoseconds::<TimestampMillisecondType>(array, 1_000_000, name),
            TimeUnit::Microsecond => nanoseconds::<TimestampMicrosecondType>(array, 1_000, name),
            TimeUnit::Nanosecond => Ok(Arc::new(
                array.as_primitive::<TimestampNanosecondType>().clone().with_timezone_opt(None::<Arc<str>>),
            )),
        },
        (DataType::UInt64, DataType::Int64) => signed(array.as_primitive::<UInt64Type>(), name),
        (from, to) => {
            let strict = CastOptions { safe: false, ..Default::default() };
            cast_with_options(array, to, &strict).map_err(|e| {
                Error::invalid("value does not fit its wire type")
                    .with("column", name)
                    .with("from", from)
                    .with("to", to)
                    .with("reason", &e)
                    .source(e)
            })
        }
    }
}

impl Dictionaries {
    /// The column with distinct values, none of them null, as some clients require (pandas), and no more values than rows.
    ///
    /// Batches that share their values share the distinct ones: these are found once, and clients receive them once.
    fn distinct(&mut self, at: usize, column: &ArrayRef) -> Result<ArrayRef> {
        let dictionary = column.as_dictionary::<Int32Type>();
        let (keys, values) = (dictionary.keys(), dictionary.values());
        if values.len() > keys.len() {
            let texts = take(values, keys, None)?;
            return Ok(cast_with_options(&texts, &tag_dictionary(), &CastOptions::default())?);
        }
        let known = self.0.get(&at).filter(|(of, _)| Arc::ptr_eq(of, values)).map(|(_, known)| known.clone());
        let known = match known {
            Some(known) => known,
            None => {
                let coded = cast_with_options(values, &tag_dictionary(), &CastOptions::default())?;
                let coded = coded.as_dictionary::<Int32Type>();
                let is_distinct = coded.values().len() == values.len() && coded.keys().null_count() == 0;
                let coded = (!is_distinct).then(|| coded.clone());
                self.0.insert(at, (values.clone(), coded.clone()));
                coded
            }
        };
        let Some(known) = known else { return Ok(column.clone()) };
        let codes = take(known.keys(), keys, None)?;
        Ok(Arc::new(DictionaryArray::try_new(codes.as_primitive::<Int32Type>().clone(), known.values().clone())?))
    }
}

/// Converts ticks of `factor` ns to ns. NULL slots may hold any value.
fn nanoseconds<T: ArrowPrimitiveType<Native = i64>>(array: &ArrayRef, factor: i64, column: &str) -> Result<ArrayRef> {
    let array: &PrimitiveArray<T> = array.as_primitive();
    let (low, high) = (i64::MIN / factor, i64::MAX / factor);
    let fits = |v: &i64| (low..=high).contains(v);
    // Check the whole buffer first: two passes without branches cost less than one with branches.
    if !array.values().iter().fold(true, |all, v| all & fits(v))
        && let Some(row) = (0..array.len()).find(|row| array.is_valid(*row) && !fits(&array.value(*row)))
    {
        return Err(Error::invalid("timestamp out of range: nanoseconds hold the years 1677 to 2262")
            .with("column", column)
            .with("row", row)
            .with("found", format!("{} in 1/{} s", array.value(row), 1_000_000_000 / factor)));
    }
    let values: ScalarBuffer<i64> = array.values().iter().map(|v| v.wrapping_mul(factor)).collect();
    Ok(Arc::new(PrimitiveArray::<TimestampNanosecondType>::new(values, array.nulls().cloned())))
}

/// Reinterprets unsigned integers as signed without a copy.
fn signed(array: &PrimitiveArray<UInt64Type>, column: &str) -> Result<ArrayRef> {
    let fits = |v: u64| v <= i64::MAX as u64;
    if !array.values().iter().fold(true, |all, v| all & fits(*v))
        && let Some(row) = (0..array.len()).find(|row| array.is_valid(*row) && !fits(array.value(*row)))
    {
        return Err(Error::invalid(
            "unsigned value too large for its wire type BIGINT; select CAST(… AS DECIMAL(20, 0))",
        )
        .with("column", column)
        .with("row", row)
        .with("found", array.value(row)));
    }
    let values = ScalarBuffer::new(array.values().inner().clone(), 0, array.len());
    Ok(Arc::new(PrimitiveArray::<Int64Type>::new(values, array.nulls().cloned())))
}
