//! Concatenates columns and series of several batches, matched by id and by name.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, RecordBatch, UInt32Array, new_null_array},
    compute::{cast, concat, take},
    datatypes::{DataType, Field, FieldRef, Schema},
};
use hashbrown::HashMap;

use crate::{
    error::{Error, Result},
    ids::ColumnId,
    rows::{SeriesSet, tbname_field},
    schema::field_id,
};

/// Unites series by name in order of first occurrence; returns the index of each input series in the result.
///
/// Tags are united by id, for each series and tag: the first non-null value wins.
pub(crate) fn unite_series(sets: &[&SeriesSet]) -> Result<(SeriesSet, Vec<Vec<u32>>)> {
    let total = sets.iter().map(|s| s.len()).sum();
    let mut by_name: HashMap<&str, u32> = HashMap::with_capacity(total);
    let mut ranks = Vec::with_capacity(sets.len());
    // The indices of each series in the concatenated sets: the first occurrence, and the later ones as (series, index).
    let (mut first, mut later) = (Vec::with_capacity(total), Vec::new());
    let mut place = 0u32;
    for set in sets {
        let mut of_set = Vec::with_capacity(set.len());
        for i in 0..set.len() {
            let next = first.len() as u32;
            let rank = *by_name.entry(set.names().value(i)).or_insert(next);
            if rank == next {
                first.push(place);
            } else {
                later.push((rank, place));
            }
            of_set.push(rank);
            place += 1;
        }
        ranks.push(of_set);
    }
    let batches: Vec<&RecordBatch> = sets.iter().map(|s| s.batch()).collect();
    let (mut fields, mut columns) = unite_columns(&batches, 1)?;
    for column in &mut columns {
        let mut places = first.clone();
        if column.null_count() > 0 {
            for (rank, place) in &later {
                let chosen = &mut places[*rank as usize];
                if column.is_null(*chosen as usize) {
                    *chosen = *place;
                }
            }
        }
        *column = take(column, &UInt32Array::from(places), None)?;
    }
    let names: Vec<&dyn Array> = sets.iter().map(|s| s.names() as &dyn Array).collect();
    let names = if names.is_empty() { arrow::array::new_empty_array(&DataType::Utf8) } else { concat(&names)? };
    fields.insert(0, tbname_field());
    columns.insert(0, take(&names, &UInt32Array::from(first), None)?);
    let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)?;
    Ok((SeriesSet::try_new(batch)?, ranks))
}

/// Concatenates the columns of batches from index `skip` on, matched by id.
pub(crate) fn unite_columns(batches: &[&RecordBatch], skip: usize) -> Result<(Vec<FieldRef>, Vec<ArrayRef>)> {
    let Some(first) = batches.first() else { return Ok((Vec::new(), Vec::new())) };
    let same = batches.iter().all(|b| {
        Arc::ptr_eq(b.schema_ref(), first.schema_ref()) || b.schema_ref().fields() == first.schema_ref().fields()
    });
    if same {
        let fields: Vec<FieldRef> = first.schema_ref().fields().iter().skip(skip).cloned().collect();
        let columns = (skip..first.num_columns())
            .map(|c| Ok(concat(&batches.iter().map(|b| b.column(c).as_ref()).collect::<Vec<_>>())?))
            .collect::<Result<_>>()?;
        return Ok((fields, columns));
    }
    let mut fields: Vec<Field> = Vec::new();
    let mut at: HashMap<ColumnId, usize> = HashMap::new();
    // For each batch and united column: the column's index in the batch.
    let mut places: Vec<Vec<Option<usize>>> = Vec::with_capacity(batches.len());
    for batch in batches {
        let mut of_batch = vec![None; fields.len()];
        for (place, field) in batch.schema_ref().fields().iter().enumerate().skip(skip) {
            let id =
                field_id(field).ok_or_else(|| Error::internal("a column has no id").with("column", field.name()))?;
            let column = *at.entry(id).or_insert_with(|| {
                fields.push(field.as_ref().clone());
                of_batch.push(None);
                fields.len() - 1
            });
            let ty = unite_types(fields[column].data_type(), field.data_type())
                .ok_or_else(|| Error::internal("incompatible types of one column").with("column", field.name()))
                .map_err(|e| e.with("expected", fields[column].data_type()).with("found", field.data_type()))?;
            fields[column].set_data_type(ty);
            of_batch[column] = Some(place);
        }
        places.push(of_batch);
    }
    let columns = fields.iter().enumerate().map(|(c, field)| {
        let parts = batches.iter().zip(&places).map(|(batch, places)| match places.get(c).copied().flatten() {
            None => Ok(new_null_array(field.data_type(), batch.num_rows())),
            Some(place) if batch.column(place).data_type() == field.data_type() => Ok(batch.column(place).clone()),
            Some(place) => Ok(cast(batch.column(place), field.data_type())?),
        });
        let parts = parts.collect::<Result<Vec<ArrayRef>>>()?;
        Ok(concat(&parts.iter().map(AsRef::as_ref).collect::<Vec<_>>())?)
    });
    let columns = columns.collect::<Result<_>>()?;
    Ok((fields.into_iter().map(Arc::new).collect(), columns))
}

/// The wider of two types of one column; `None` if neither widens to the other.
fn unite_types(a: &DataType, b: &DataType) -> Option<DataType> {
    let width = |ty: &DataType| ty.primitive_width();
    let same_kind = (a.is_signed_integer() && b.is_signed_integer())
        || (a.is_unsigned_integer() && b.is_unsigned_integer())
        || (a.is_floating() && b.is_floating());
    match (a == b, same_kind) {
        (true, _) => Some(a.clone()),
        (false, true) => Some(if width(a) >= width(b) { a.clone() } else { b.clone() }),
        (false, false) => None,
    }
}
