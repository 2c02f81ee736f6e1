//! Uniting the blocks of one group commit.

use crate::{
    error::{Error, Result},
    rows::Block,
};

/// Unites blocks so that each table has one, in the order of its first block; rows keep their order.
///
/// Series are united by name, tag by tag: the first value that is not null wins. Columns are united by id; a field
/// that only some blocks carry is null in the rows of the others.
///
/// # Errors
/// [`Kind::Internal`](crate::Kind::Internal) when blocks of one table disagree on the type of a column.
pub fn concat_blocks(blocks: Vec<Block>) -> Result<Vec<Block>> {
    let _ = blocks;
    Err(Error::internal("blocks cannot be united yet"))
}
