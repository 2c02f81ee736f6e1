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

use std::convert::Infallible;

use axum::{
    Router,
    extract::{DefaultBodyLimit, FromRequestParts},
    http::request::Parts,
    routing::{get, post},
};

use tidelake_format::access::Principal;

use crate::engine::Engine;

pub use error::{name_of, status_of};

/// The longest statement that a request may bring, in bytes: an INSERT holds many rows.
pub const MAX_STATEMENT_BYTES: usize = 64 << 20;

/// Whom a request is from.
struct Caller(Principal);

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self(parts.extensions.get().cloned().unwrap_or_default()))
    }
}

/// The routes `/api/v1/sql`, `/rest/sql`, `/rest/sql/{db}` and `/rest/login/{user}/{password}`.
///
/// Whom a request is from, the [`Principal`] among its extensions says; without one it is anyone.
pub fn router(engine: Engine) -> Router {
    Router::new()
        .route("/api/v1/sql", get(sql::get).post(sql::post))
        .route("/rest/sql", post(tdengine::sql))
        .route("/rest/sql/", post(tdengine::sql))
        .route("/rest/sql/{database}", post(tdengine::sql_in))
        .route("/rest/login/{user}/{password}", get(tdengine::login))
        .layer(DefaultBodyLimit::max(MAX_STATEMENT_BYTES))
        .with_state(engine)
}
