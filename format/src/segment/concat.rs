//! Unites the blocks of one group commit.

use std::sync::Arc;

use arrow::{
    array::{AsArray, RecordBatch, UInt32Array},
    datatypes::{Schema, UInt32Type},
};
use hashbrown::HashMap;

use crate::{
    error::Result,
    merge::{unite_columns, unite_series},
    rows::{Block, SeriesSet},
};

/// Unites blocks so that each table has one, in the order of its first block; rows keep their order.
///
/// Series are united by name, tag by tag: the first non-null value wins. Columns are united by id; a field absent from
/// some blocks is null in their rows, and has the widest type that it has in any block.
///
/// # Errors
/// [`Kind::Internal`](crate::Kind::Internal) when types of one column cannot be united.
pub fn concat_blocks(blocks: Vec<Block>) -> Result<Vec<Block>> {
    let mut groups: Vec<Vec<Block>> = Vec::new();
    let mut by_table: HashMap<_, usize> = HashMap::new();
    for block in blocks {
        let group = *by_table.entry(block.table).or_insert_with(|| {
            groups.push(Vec::new());
            groups.len() - 1
        });
        groups[group].push(block);
    }
    groups.into_iter().map(unite).collect()
}

/// Unites the blocks of one table; `blocks` is not empty.
fn unite(mut blocks: Vec<Block>) -> Result<Block> {
    if blocks.len() == 1 {
        return Ok(blocks.remove(0));
    }
    let table = blocks[0].table;
    let sets: Vec<&SeriesSet> = blocks.iter().map(|b| &b.series).collect();
    let (series, ranks) = unite_series(&sets)?;
    let mut indices = Vec::with_capacity(blocks.iter().map(Block::len).sum());
    for (block, ranks) in blocks.iter().zip(&ranks) {
        let local = block.rows.column(0).as_primitive::<UInt32Type>();
        indices.extend(local.values().iter().map(|i| ranks[*i as usize]));
    }
    let batches: Vec<&RecordBatch> = blocks.iter().map(|b| &b.rows).collect();
    let first = blocks[0].rows.schema();
    let (mut fields, mut columns) = unite_columns(&batches, 1)?;
    fields.insert(0, first.fields()[0].clone());
    columns.insert(0, Arc::new(UInt32Array::from(indices)));
    let rows = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)?;
    Ok(Block { table, series, rows })
}
