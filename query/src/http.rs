//! SQL over HTTP: `/api/v1/sql` in five formats, and TDengine's `/rest/sql`.
//!
//! The doors only translate: a request becomes a session and a statement ([`sql`], [`tdengine`]), the engine's
//! batches become bytes as they arrive ([`output`]), an error becomes a status and JSON ([`error`]). A failure after
//! the headers went out breaks the connection off, so that half a result never looks like a whole one.

mod error;
mod output;
mod sql;
mod tdengine;
mod text;

#[cfg(test)]
mod tests;

use axum::{
    extract::DefaultBodyLimit,
    routing::{get, post},
};
use tidelake_format::access::Right;
use tidelake_routes::Routes;

use crate::engine::Engine;

pub use error::{name_of, status_of};

/// The longest statement that a request may bring, in bytes: an INSERT holds many rows.
pub const MAX_STATEMENT_BYTES: usize = 64 << 20;

/// The routes `/api/v1/sql`, `/rest/sql`, `/rest/sql/{db}` and `/rest/login/{user}/{password}`.
pub fn routes(engine: Engine) -> Routes {
    Routes::new()
        .route("/api/v1/sql", Right::AnyUser, get(sql::get).post(sql::post))
        .route("/rest/sql", Right::AnyUser, post(tdengine::sql))
        .route("/rest/sql/", Right::AnyUser, post(tdengine::sql))
        .route("/rest/sql/{database}", Right::AnyUser, post(tdengine::sql_in))
        .route("/rest/login/{user}/{password}", Right::Login, get(tdengine::login))
        .method_not_allowed_fallback(error::wrong_method)
        .layer(DefaultBodyLimit::max(MAX_STATEMENT_BYTES))
        .with_state(engine)
}
