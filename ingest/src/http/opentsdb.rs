//! OpenTSDB's `/api/put`.

use axum::{
    body::Body,
    extract::{Path, rejection::PathRejection},
    http::{HeaderMap, StatusCode, Uri},
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};
use tidelake_format::Error;
use tidelake_protocol::http::{Api, routes::PUT_INTO};

use super::{
    Door,
    body::{self, Fault},
    named,
    reply::{self, Parameters},
};
use crate::{
    decode::{Rejected, opentsdb::Points},
    write::{Durability, Ingest, Written},
};

/// `POST /api/put[?db=…][&summary][&details]`: one data point or an array of them.
pub(super) async fn put(Door(ingest): Door, uri: Uri, headers: HeaderMap, body: Body) -> Response {
    put_points(&ingest, None, &uri, &headers, body).await
}

/// `POST /opentsdb/v1/put/json/{db}`.
pub(super) async fn put_into(
    Door(ingest): Door,
    database: Result<Path<String>, PathRejection>,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Response {
    match named(database) {
        Ok(database) => put_points(&ingest, Some(database), &uri, &headers, body).await,
        Err(error) => refused(StatusCode::BAD_REQUEST, &error),
    }
}

async fn put_points(ingest: &Ingest, database: Option<String>, uri: &Uri, headers: &HeaderMap, body: Body) -> Response {
    let parameters = Parameters::of(uri);
    // PUT_INTO accepts all parameters of the other route; the database in the path takes precedence over `db`.
    if let Err(error) = parameters.check(&PUT_INTO) {
        return refused(StatusCode::BAD_REQUEST, &error);
    }
    let database = database.or_else(|| parameters.get("db").map(str::to_owned));
    let database = database.unwrap_or_else(|| ingest.config().opentsdb_database.clone());
    let durability = if parameters.flag("no_sync") { Durability::Buffered } else { Durability::Stored };
    let written = async {
        let body = body::unless_refused(ingest.check_write(&database).await, body).await?;
        let (body, reservation) = body::read(ingest, headers, body, ingest.config().body_bytes).await?;
        let ingest = reply::keyed(ingest, headers)?;
        let durability = ingest.granted(durability);
        Ok(ingest.write_reserved(&database, body, durability, reservation, Points).await?)
    };
    match written.await {
        Ok(written) => answer(&written, parameters.flag("summary"), parameters.flag("details")),
        Err(Fault::TooLarge { limit }) => {
            let error = Error::invalid(format!("the body is larger than the limit of {limit} bytes"));
            refused(StatusCode::PAYLOAD_TOO_LARGE, &error)
        }
        Err(Fault::Error(error)) => refused(Api::OpenTsdb.status(error.kind()), &error),
    }
}

fn answer(written: &Written, summary: bool, details: bool) -> Response {
    let failed = written.dropped;
    let status = if failed == 0 { StatusCode::OK } else { StatusCode::BAD_REQUEST };
    let response = if details {
        let point = |text: &str| serde_json::from_str::<Value>(text).unwrap_or_else(|_| json!(text));
        let errors: Vec<Value> =
            written.rejected.iter().map(|r| json!({ "datapoint": point(&r.text), "error": r.reason })).collect();
        reply::json(status, &json!({ "success": written.accepted, "failed": failed, "errors": errors }))
    } else if summary {
        reply::json(status, &json!({ "success": written.accepted, "failed": failed }))
    } else if failed == 0 {
        StatusCode::NO_CONTENT.into_response()
    } else {
        let first = &written.rejected[0];
        let details = format!(
            "{failed} of {} failed, the first at position {}: {}; append \"details\" to the put request for the first {}",
            failed + written.accepted,
            first.line,
            first.reason,
            Rejected::MAX_LISTED
        );
        let error = json!({ "code": 400, "message": "One or more data points had errors", "details": details });
        reply::json(status, &json!({ "error": error }))
    };
    reply::with_token(response, written)
}

fn refused(status: StatusCode, error: &Error) -> Response {
    Api::OpenTsdb.answer_as(status, error).map(Body::from)
}
