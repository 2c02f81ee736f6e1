//! Random tables and rows of every type, and an in-memory store with one file.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use arrow::{
    array::{
        ArrayRef, BinaryArray, BooleanArray, Float32Array, Float64Array, Int64Array, RecordBatch, StringArray,
        TimestampMillisecondArray, UInt32Array,
    },
    compute::cast,
    datatypes::{DataType, FieldRef, Schema},
};
use rand::{Rng, rngs::StdRng};

use crate::{
    file::{DataFile, DataFileOptions, DataFileWriter, EncodedFile},
    ids::{DatabaseId, TableId},
    rows::{Block, SeriesSet, tbname_field},
    schema::{Role, Supertable, arrow_field},
    store::Store,
    types::{Precision, Type},
};

pub(crate) const TYPES: [Type; 15] = [
    Type::Bool,
    Type::TinyInt,
    Type::SmallInt,
    Type::Int,
    Type::BigInt,
    Type::UTinyInt,
    Type::USmallInt,
    Type::UInt,
    Type::UBigInt,
    Type::Float,
    Type::Double,
    Type::Timestamp,
    Type::Binary(None),
    Type::NChar(Some(4)),
    Type::VarBinary(None),
];

/// Returns a table with a field and a tag of every type.
pub(crate) fn table_of_every_type() -> Arc<Supertable> {
    let time = ("ts".to_owned(), Role::Time, Type::Timestamp);
    let fields = TYPES.iter().enumerate().map(|(i, ty)| (format!("f{i}"), Role::Field, *ty));
    let tags = TYPES.iter().enumerate().map(|(i, ty)| (format!("t{i}"), Role::Tag, *ty));
    let columns = [time].into_iter().chain(fields).chain(tags);
    Arc::new(Supertable::new(TableId(7), DatabaseId(1), "every", columns).unwrap())
}

/// How the values of a column are drawn.
#[derive(Clone, Copy)]
pub(crate) enum Values {
    /// Few distinct values.
    Few,
    /// Any values, often extremes of the type.
    Any,
    /// Each value near the one before it; stretches of the column have steps of different sizes, some none.
    Walk,
    /// Only nulls.
    Null,
}

pub(crate) fn random_array(rng: &mut StdRng, ty: &DataType, rows: usize, kind: Values, nulls: f64) -> ArrayRef {
    let nulls = if matches!(kind, Values::Null) { 1.0 } else { nulls };
    let (mut last, mut bits, mut left) = (rng.random_range(0..1_000u64), 0, 0);
    let mut value = |rng: &mut StdRng| match kind {
        Values::Few => rng.random_range(0..5u64),
        Values::Walk => {
            if left == 0 {
                (bits, left) = (rng.random_range(0..=64), rng.random_range(1..300));
            }
            left -= 1;
            // Of a step of `bits` bits, the upper half of the values are negative steps.
            let step = rng.random::<u64>().checked_shr(64 - bits).unwrap_or(0);
            last = last.wrapping_add(step.wrapping_sub(1u64.checked_shl(bits).unwrap_or(0) >> 1));
            last
        }
        _ if rng.random_bool(0.1) => [0, u64::MAX, i64::MIN as u64, i64::MAX as u64][rng.random_range(0..4)],
        _ => rng.random(),
    };
    let raw: Vec<Option<u64>> = (0..rows).map(|_| (!rng.random_bool(nulls)).then(|| value(rng))).collect();
    let text = |v: u64| "aé\u{0}".repeat((v % 7) as usize) + &(v % 1_000).to_string();
    // Measured values have few decimals.
    let float = |v: u64| if matches!(kind, Values::Walk) { v as i64 as f64 / 100.0 } else { special(v) };
    match ty {
        DataType::Boolean => Arc::new(raw.iter().map(|v| v.map(|v| v % 2 == 1)).collect::<BooleanArray>()),
        DataType::Float32 => Arc::new(raw.iter().map(|v| v.map(|v| float(v) as f32)).collect::<Float32Array>()),
        DataType::Float64 => Arc::new(raw.iter().map(|v| v.map(float)).collect::<Float64Array>()),
        DataType::Utf8 => Arc::new(raw.iter().map(|v| v.map(text)).collect::<StringArray>()),
        DataType::Binary => Arc::new(raw.iter().map(|v| v.map(|v| v.to_be_bytes())).collect::<BinaryArray>()),
        DataType::UInt64 => Arc::new(raw.into_iter().collect::<arrow::array::UInt64Array>()),
        DataType::Int64 | DataType::Timestamp(..) => {
            let values: Int64Array = raw.iter().map(|v| v.map(|v| v as i64)).collect();
            cast(&values, ty).unwrap()
        }
        small => {
            // The low bits, sign-extended for signed types.
            let bits = small.primitive_width().unwrap() as u32 * 8;
            let values: Int64Array = raw
                .iter()
                .map(|v| {
                    v.map(|v| match small.is_signed_integer() {
                        true => (v << (64 - bits)) as i64 >> (64 - bits),
                        false => (v << (64 - bits) >> (64 - bits)) as i64,
                    })
                })
                .collect();
            cast(&values, small).unwrap()
        }
    }
}

fn special(v: u64) -> f64 {
    match v % 11 {
        0 => f64::NAN,
        1 => -0.0,
        2 => f64::INFINITY,
        3 => 0.0,
        _ => f64::from_bits(v & 0x7fef_ffff_ffff_ffff) * if v.is_multiple_of(2) { 1.0 } else { -1.0 },
    }
}

/// Series `s00000…` in order, with random tags.
pub(crate) fn random_series(rng: &mut StdRng, table: &Supertable, count: usize, kind: Values) -> SeriesSet {
    let schema = SeriesSet::schema_of(table, Precision::Milli);
    let names: ArrayRef = Arc::new(StringArray::from_iter_values((0..count).map(|i| format!("s{i:05}"))));
    let tags = schema.fields().iter().skip(1).map(|f| random_array(rng, f.data_type(), count, kind, 0.2));
    let columns = [names].into_iter().chain(tags.collect::<Vec<_>>()).collect();
    SeriesSet::try_new(RecordBatch::try_new(schema, columns).unwrap()).unwrap()
}

/// Sorted rows without repeats: `lengths[i]` rows of series i.
pub(crate) fn random_rows(rng: &mut StdRng, table: &Supertable, lengths: &[usize], kind: Values) -> RecordBatch {
    let schema = Block::rows_schema(table, Precision::Milli);
    let rows = lengths.iter().sum();
    let series = lengths.iter().enumerate().flat_map(|(i, n)| std::iter::repeat_n(i as u32, *n));
    let mut times = Vec::with_capacity(rows);
    for n in lengths {
        let start = rng.random_range(-1_000_000..1_000_000i64);
        // Regular, irregular, or regular with gaps.
        let kind = rng.random_range(0..4);
        let mut time = start;
        times.extend((0..*n as i64).map(|i| {
            time = match kind {
                0 => time + 1_000,
                1 if rng.random_bool(0.02) => time + rng.random_range(1..1_000_000_000),
                1 => time + 1_000,
                _ => start + i * 1_000 + rng.random_range(0..999),
            };
            time
        }));
    }
    let mut columns: Vec<ArrayRef> =
        vec![Arc::new(UInt32Array::from_iter_values(series)), Arc::new(TimestampMillisecondArray::from(times))];
    for field in schema.fields().iter().skip(2) {
        let nulls = [0.0, 0.0, 0.3, 0.95][rng.random_range(0..4)];
        columns.push(random_array(rng, field.data_type(), rows, kind, nulls));
    }
    RecordBatch::try_new(schema, columns).unwrap()
}

pub(crate) fn encode(
    table: &Arc<Supertable>,
    options: DataFileOptions,
    series: &SeriesSet,
    rows: &RecordBatch,
) -> EncodedFile {
    let mut writer = DataFileWriter::new(table.clone(), Precision::Milli, options).unwrap();
    writer.write(series, rows).unwrap();
    writer.finish().unwrap()
}

/// Expected content of the file: ts, fields, tags, `tbname`, row by row.
pub(crate) fn whole(table: &Supertable, series: &SeriesSet, rows: &RecordBatch) -> RecordBatch {
    let fields: Vec<FieldRef> =
        table.columns.iter().map(|c| Arc::new(arrow_field(c, Precision::Milli))).chain([tbname_field()]).collect();
    let index = rows.column(0);
    let of = |values: &ArrayRef| arrow::compute::take(values, index, None).unwrap();
    let mut columns = rows.columns()[1..].to_vec();
    columns.extend(series.batch().columns()[1..].iter().map(of));
    columns.push(of(&series.batch().columns()[0]));
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap()
}

pub(crate) async fn put(file: &EncodedFile) -> (Store, Arc<DataFile>) {
    let store = Store::in_memory();
    store.create("data/7/0/x.parquet", file.data.clone()).await.unwrap();
    let opened = DataFile::open(&store, "data/7/0/x.parquet", file.data.len() as u64).await.unwrap();
    (store, opened)
}
