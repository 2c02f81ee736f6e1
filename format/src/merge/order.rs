//! The order of series in a data file.

use std::sync::Arc;

use arrow::{
    array::{
        Array, ArrayRef, BinaryArray, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray, UInt32Array,
        UInt64Array, new_null_array,
    },
    compute::{CastOptions, cast_with_options, interleave, take},
    datatypes::DataType,
    row::{RowConverter, SortField},
};
use hashbrown::{HashMap, HashSet};

use super::unite::unite_series;
use crate::{
    error::{Error, Result},
    rows::SeriesSet,
    schema::{Column, Supertable},
    types::{Precision, Scalar},
};

/// The united series of several sets, in file order.
#[derive(Debug, Clone)]
pub struct SeriesOrder {
    /// Every series once, in file order, with every tag of the table (overrides applied); the schema is
    /// [`SeriesSet::schema_of`].
    pub series: SeriesSet,
    /// For each input set, for each of its series: its index in `series`.
    pub ranks: Vec<Vec<u32>>,
}

/// Unites sets of series by name and orders them: tags by lowest cardinality first (then in table order), then name;
/// nulls first, numbers by value (NaN last), texts and names by bytes.
///
/// `sets` are in order of precedence: for each series and tag the override of the table wins, then the first non-null
/// value. Tags that the table no longer has are left out; widened ones are cast.
///
/// # Errors
/// [`Kind::Internal`](crate::Kind::Internal) when a tag cannot be cast to the table's type.
pub fn series_order(sets: &[&SeriesSet], table: &Supertable, precision: Precision) -> Result<SeriesOrder> {
    let (united, mut ranks) = unite_series(sets)?;
    let overrides = Overrides::of(&united, table);
    let mut tags = Vec::new();
    for tag in table.tags() {
        let ty = tag.ty.data_type(precision);
        let values = match united.tag(tag.id) {
            None => new_null_array(&ty, united.len()),
            Some(values) => convert(values, &ty).map_err(|e| e.with("tag", &tag.name).with("table", &table.name))?,
        };
        tags.push(overrides.apply(tag, values)?);
    }
    let order = file_order(&united, &tags)?;
    let mut columns = vec![take(united.names(), &order, None)?];
    for values in &tags {
        columns.push(take(values, &order, None)?);
    }
    let series = SeriesSet::try_new(RecordBatch::try_new(SeriesSet::schema_of(table, precision), columns)?)?;
    let mut place = vec![0u32; order.len()];
    order.values().iter().enumerate().for_each(|(rank, i)| place[*i as usize] = rank as u32);
    ranks.iter_mut().flatten().for_each(|i| *i = place[*i as usize]);
    Ok(SeriesOrder { series, ranks })
}

/// The indices of the series in file order.
fn file_order(set: &SeriesSet, tags: &[ArrayRef]) -> Result<UInt32Array> {
    let mut keyed = Vec::with_capacity(tags.len());
    for values in tags {
        let converter = RowConverter::new(vec![SortField::new(values.data_type().clone())])?;
        let rows = converter.convert_columns(std::slice::from_ref(values))?;
        let distinct: HashSet<&[u8]> = rows.iter().map(|r| r.data()).collect();
        keyed.push((distinct.len(), values.clone()));
    }
    keyed.sort_by_key(|(distinct, _)| *distinct);
    keyed.retain(|(distinct, _)| *distinct > 1);
    let mut keys: Vec<ArrayRef> = keyed.into_iter().map(|(_, values)| values).collect();
    keys.push(Arc::new(set.names().clone()));
    let converter = RowConverter::new(keys.iter().map(|k| SortField::new(k.data_type().clone())).collect())?;
    let rows = converter.convert_columns(&keys)?;
    let mut order: Vec<u32> = (0..set.len() as u32).collect();
    order.sort_unstable_by(|a, b| rows.row(*a as usize).cmp(&rows.row(*b as usize)));
    Ok(order.into())
}

/// Casts; a value that does not fit is an error.
fn convert(values: &ArrayRef, ty: &DataType) -> Result<ArrayRef> {
    if values.data_type() == ty {
        return Ok(values.clone());
    }
    Ok(cast_with_options(values, ty, &CastOptions { safe: false, ..CastOptions::default() })?)
}

/// The overrides of a table for the series of one set.
struct Overrides<'a> {
    /// (index in the set, overrides of that series)
    of: Vec<(usize, &'a std::collections::BTreeMap<crate::ids::ColumnId, Option<Scalar>>)>,
}

impl<'a> Overrides<'a> {
    fn of(set: &SeriesSet, table: &'a Supertable) -> Self {
        if table.overrides.is_empty() {
            return Self { of: Vec::new() };
        }
        let places: HashMap<&str, usize> = set.names().iter().flatten().enumerate().map(|(i, n)| (n, i)).collect();
        let of = table.overrides.iter().filter_map(|(name, tags)| Some((*places.get(name.as_str())?, tags)));
        Self { of: of.collect() }
    }

    /// The values of one tag with its overrides applied.
    fn apply(&self, tag: &Column, values: ArrayRef) -> Result<ArrayRef> {
        let mut sources: Vec<ArrayRef> = vec![values];
        let mut from: Vec<(usize, usize)> = Vec::new();
        for (place, tags) in &self.of {
            let Some(value) = tags.get(&tag.id) else { continue };
            if from.is_empty() {
                from = (0..sources[0].len()).map(|i| (0, i)).collect();
            }
            let array = one_value(value.as_ref(), sources[0].data_type()).map_err(|e| e.with("tag", &tag.name))?;
            from[*place] = (sources.len(), 0);
            sources.push(array);
        }
        if from.is_empty() {
            return Ok(sources.remove(0));
        }
        Ok(interleave(&sources.iter().map(|s| s.as_ref() as &dyn Array).collect::<Vec<_>>(), &from)?)
    }
}

/// An array of one value of a type.
fn one_value(value: Option<&Scalar>, ty: &DataType) -> Result<ArrayRef> {
    let array: ArrayRef = match value {
        None => return Ok(new_null_array(ty, 1)),
        Some(Scalar::Bool(v)) => Arc::new(BooleanArray::from(vec![*v])),
        Some(Scalar::Int(v)) => Arc::new(Int64Array::from(vec![*v])),
        Some(Scalar::UInt(v)) => Arc::new(UInt64Array::from(vec![*v])),
        Some(Scalar::Float(v)) => Arc::new(Float64Array::from(vec![*v])),
        Some(Scalar::Text(v)) => Arc::new(StringArray::from(vec![v.as_str()])),
        Some(Scalar::Bytes(v)) => Arc::new(BinaryArray::from(vec![v.as_slice()])),
    };
    convert(&array, ty)
        .map_err(|e| Error::internal("tag override does not match the tag's type").with("expected", ty).source(e))
}
