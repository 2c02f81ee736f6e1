//! OpenTSDB's `/api/put` JSON.

use tidelake_format::{Error, Result, schema::Database};

use super::{Decoded, Lookup};

/// Decodes the body of a put: one data point or an array of them. `now` is in ticks of the database.
///
/// # Errors
/// [`Kind::Invalid`](crate::Kind::Invalid) when the body is not JSON of that shape; a bad point is in
/// [`Decoded::rejected`] instead.
pub fn decode(_body: &[u8], _lookup: &dyn Lookup, _database: &Database, _now: i64) -> Result<Decoded> {
    Err(Error::internal("not built yet"))
}
