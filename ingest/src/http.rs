//! HTTP endpoints of the write path: InfluxDB's, OpenTSDB's and TDengine's. Translation only.
//!
//! `influx` takes line protocol, `query` the few database statements of InfluxDB's write clients, `opentsdb` data points,
//! `tdengine` writing statements in a process without a query side. `body` reads and unpacks bodies within the bound of the
//! write buffer; `reply` holds parts that all replies share.

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
    body::Body,
    extract::{FromRequestParts, Path, rejection::PathRejection},
    http::{HeaderMap, request::Parts},
};
use tidelake_format::{Error, Result};
use tidelake_protocol::http::{headers::WriteReply, routes};
use tidelake_routes::{Caller, Routes, Unauthenticated};
use tower::util::MapResponseLayer;

use crate::write::Ingest;

/// The write path shared by all requests. Handlers reach it only through [`Door`], which authenticates the request.
#[derive(Clone)]
struct Shared(Arc<Ingest>);

/// The write path on behalf of a request's principal.
struct Door(Ingest);

impl FromRequestParts<Shared> for Door {
    type Rejection = Unauthenticated;

    async fn from_request_parts(parts: &mut Parts, shared: &Shared) -> Result<Self, Unauthenticated> {
        let Caller(principal) = Caller::from_request_parts(parts, shared).await?;
        Ok(Self(shared.0.for_principal(principal)))
    }
}

/// Serves `/write`, `/api/v2/write`, `/api/put`, `/query`, `/ping` and their aliases over one [`Ingest`].
pub fn routes(ingest: Ingest) -> Routes {
    let ambient = ingest.root().store().ambient().clone();
    let stamp = move |response| reply::stamp(response, ambient.random_id());
    Routes::new()
        .on(&routes::WRITE, influx::write_v1)
        .on(&routes::WRITE_BESIDE_TDENGINE, influx::write_v1)
        .on(&routes::WRITE_BUCKET, influx::write_v2)
        .on(&routes::PUT, opentsdb::put)
        .on(&routes::PUT_INTO, opentsdb::put_into)
        .on(&routes::QUERY_GET, query::get)
        .on(&routes::QUERY_POST, query::post)
        .on(&routes::PING, reply::ping)
        .layer(MapResponseLayer::new(stamp))
        .with_state(Shared(Arc::new(ingest)))
}

/// Serves writing statements at `/rest/sql` and `/rest/sql/{db}`, for processes without a query side.
pub fn statements(ingest: Ingest) -> Routes {
    Routes::new()
        .on(&routes::REST_SQL, tdengine::sql)
        .on(&routes::REST_SQL_SLASH, tdengine::sql)
        .on(&routes::REST_SQL_IN, tdengine::sql_in)
        .with_state(Shared(Arc::new(ingest)))
}

/// The write path for a request with these headers: under its idempotency key, at least as new as the writes of its tokens, and
/// with its own rule for times that seem to be in another unit.
///
/// # Errors
/// Invalid naming the header that cannot be read.
pub fn of_request(ingest: &Ingest, headers: &HeaderMap) -> Result<Ingest> {
    Ok(reply::keyed(ingest, headers)?.into_owned())
}

/// Adds the headers that describe a write to a reply.
pub fn describe(headers: &mut HeaderMap, write: WriteReply<'_>) {
    reply::describe(headers, write);
}

/// Reads and discards the body of a refused request, within bounds: most clients read the reply only after they have sent
/// everything.
pub async fn discard(body: Body) {
    body::discard(body.into_data_stream()).await;
}

/// The database name in a path.
fn named(database: Result<Path<String>, PathRejection>) -> Result<String> {
    let name = database.map(|Path(name)| name);
    name.map_err(|_| Error::invalid("the name of the database in the path is not UTF-8 text"))
}
