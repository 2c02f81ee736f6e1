//! The order of series in a data file.

use crate::{
    error::{Error, Result},
    rows::SeriesSet,
    schema::Supertable,
    types::Precision,
};

/// The united series of several sets, in file order.
#[derive(Debug, Clone)]
pub struct SeriesOrder {
    /// Every series once, in file order, with every tag of the table (overrides applied): its schema is
    /// [`SeriesSet::schema_of`].
    pub series: SeriesSet,
    /// For each input set, for each of its series: its index in `series`.
    pub ranks: Vec<Vec<u32>>,
}

/// Unites sets of series by name and orders them: tags by lowest cardinality first, then name; nulls first.
///
/// `sets` are in order of precedence: for each series and tag the override of the table wins, then the first value
/// that is not null. Tags that the table no longer has are left out; widened ones are cast.
///
/// # Errors
/// [`Kind::Internal`](crate::Kind::Internal) when a tag cannot be cast to the table's type.
pub fn series_order(sets: &[&SeriesSet], table: &Supertable, precision: Precision) -> Result<SeriesOrder> {
    let _ = (sets, table, precision);
    Err(Error::internal("series cannot be ordered yet"))
}
