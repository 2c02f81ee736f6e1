//! The doors of the write path: InfluxDB's and OpenTSDB's HTTP endpoints. Translation only.
//!
//! `influx` takes line protocol, `query` the few statements that its clients send beside it, `opentsdb` data points,
//! `tdengine` statements that write, where no query side takes them;
//! `body` reads and unpacks bodies within the buffer's bound; `reply` holds what every answer has.

mod body;
mod influx;
mod opentsdb;
mod query;
mod reply;
mod tdengine;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use axum::{
    extract::{FromRequestParts, Path, rejection::PathRejection},
    http::request::Parts,
    routing::{get, post},
};
use tidelake_format::{Error, Result, access::Right};
use tidelake_routes::{Caller, Routes, Unauthenticated};
use tower::util::MapResponseLayer;

use crate::write::Ingest;

/// The write path of all requests. Handlers get it by [`Door`] alone, which says whose the request is.
#[derive(Clone)]
struct Shared(Arc<Ingest>);

/// The write path for the principal of a request.
struct Door(Ingest);

impl FromRequestParts<Shared> for Door {
    type Rejection = Unauthenticated;

    async fn from_request_parts(parts: &mut Parts, shared: &Shared) -> Result<Self, Unauthenticated> {
        let Caller(principal) = Caller::from_request_parts(parts, shared).await?;
        Ok(Self(shared.0.for_principal(principal)))
    }
}

/// `/write`, `/api/v2/write`, `/api/put`, `/query`, `/ping` and their aliases over one [`Ingest`].
pub fn routes(ingest: Ingest) -> Routes {
    let ambient = ingest.root().store().ambient().clone();
    let stamp = move |response| reply::stamp(response, ambient.random_id());
    Routes::new()
        .route("/write", Right::AnyUser, post(influx::write_v1))
        .route("/influxdb/v1/write", Right::AnyUser, post(influx::write_v1))
        .route("/api/v2/write", Right::AnyUser, post(influx::write_v2))
        .route("/api/put", Right::AnyUser, post(opentsdb::put))
        .route("/opentsdb/v1/put/json/{db}", Right::AnyUser, post(opentsdb::put_into))
        .route("/query", Right::AnyUser, get(query::get).post(query::post))
        .route("/ping", Right::Open, get(reply::ping))
        .method_not_allowed_fallback(reply::wrong_method)
        .layer(MapResponseLayer::new(stamp))
        .with_state(Shared(Arc::new(ingest)))
}

/// `/rest/sql` and `/rest/sql/{db}` for statements that write, where no query side answers there.
pub fn statements(ingest: Ingest) -> Routes {
    Routes::new()
        .route("/rest/sql", Right::AnyUser, post(tdengine::sql))
        .route("/rest/sql/", Right::AnyUser, post(tdengine::sql))
        .route("/rest/sql/{database}", Right::AnyUser, post(tdengine::sql_in))
        .method_not_allowed_fallback(reply::wrong_method)
        .with_state(Shared(Arc::new(ingest)))
}

/// The name of the database in a path.
fn named(database: Result<Path<String>, PathRejection>) -> Result<String> {
    let name = database.map(|Path(name)| name);
    name.map_err(|_| Error::invalid("the name of the database in the path is not UTF-8 text"))
}
