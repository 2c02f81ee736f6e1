//! SQL over HTTP: `/api/v1/sql` in five formats, and TDengine's `/rest/sql`.
//!
//! The handlers only translate: a request to a session and a statement ([`sql`], [`tdengine`]), the engine's batches to bytes as
//! they arrive ([`output`]), an error to a reply of the API ([`error`]). A failure after the headers were sent aborts the
//! connection, so that a client never takes a partial result for a complete one.

mod error;
mod events;
mod output;
mod sql;
mod tdengine;
mod text;
mod track;

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

/// The route `/api/v1/queries/{id}/events`, for a server: it follows statements of its own process.
pub fn event_routes(engine: Engine) -> Routes {
    Routes::new().on(&routes::QUERY_EVENTS, events::events).with_state(engine)
}
