//! SQL over HTTP: `/api/v1/sql` in five formats, and TDengine's `/rest/sql`.
//!
//! The doors only translate: a request becomes a session and a statement ([`sql`], [`tdengine`]), the engine's
//! batches become bytes as they arrive ([`output`]), an error becomes an answer of the API ([`error`]). A failure after
//! the headers went out breaks the connection off, so that half a result never looks like a whole one.

mod error;
mod output;
mod sql;
mod tdengine;
mod text;

#[cfg(test)]
mod tests;

use tidelake_protocol::http::routes;
use tidelake_routes::Routes;

use crate::engine::Engine;

/// The routes `/api/v1/sql`, `/rest/sql`, `/rest/sql/{db}` and `/rest/login/{user}/{password}`.
pub fn routes(engine: Engine) -> Routes {
    Routes::new()
        .on(&routes::SQL_GET, sql::get)
        .on(&routes::SQL_POST, sql::post)
        .on(&routes::REST_SQL, tdengine::sql)
        .on(&routes::REST_SQL_SLASH, tdengine::sql)
        .on(&routes::REST_SQL_IN, tdengine::sql_in)
        .on(&routes::REST_LOGIN, tdengine::login)
        .with_state(engine)
}
