//! TDengine's `/rest/sql` in a process without a query side: writing statements, with the replies of taosAdapter.

use axum::{
    body::Body,
    extract::{Path, rejection::PathRejection},
    http::{HeaderMap, HeaderValue, StatusCode, Uri, header},
    response::Response,
};
use serde_json::json;
use tidelake_format::{Error, Kind};
use tidelake_protocol::http::{
    Api,
    headers::{self, WriteReply},
    routes::REST_SQL,
};

use super::{
    Door,
    body::{self, Fault},
    named,
    reply::{self, Parameters},
};
use crate::write::{Executed, Ingest};

/// `POST /rest/sql[?tz=ZONE]`.
pub(super) async fn sql(Door(ingest): Door, uri: Uri, headers: HeaderMap, body: Body) -> Response {
    answer(&ingest, None, &uri, &headers, body).await
}

/// `POST /rest/sql/{database}`.
pub(super) async fn sql_in(
    Door(ingest): Door,
    database: Result<Path<String>, PathRejection>,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Response {
    match named(database) {
        Ok(database) => answer(&ingest, Some(database), &uri, &headers, body).await,
        Err(error) => refused(StatusCode::BAD_REQUEST, &error),
    }
}

async fn answer(ingest: &Ingest, database: Option<String>, uri: &Uri, headers: &HeaderMap, body: Body) -> Response {
    let ingest = match in_zone(ingest, &Parameters::of(uri)) {
        Ok(ingest) => ingest,
        Err(error) => return refused(StatusCode::BAD_REQUEST, &error),
    };
    let named = |name| headers.get(name).and_then(|v| v.to_str().ok()).filter(|v| !v.is_empty());
    let by_header = headers::DATABASE.into_iter().rev().find_map(named).map(str::to_owned);
    let database = database.filter(|d| !d.is_empty()).or(by_header);
    match execute(&ingest, database.as_deref(), headers, body).await {
        Ok(done) => affected(&done),
        Err(Fault::TooLarge { limit }) => {
            let error = Error::invalid("request body too large").with("limit", format!("{limit} bytes"));
            refused(StatusCode::PAYLOAD_TOO_LARGE, &error)
        }
        // Clients read errors from the body, not from the status.
        Err(Fault::Error(error)) => refused(Api::TdEngine.status(error.kind()), &error),
    }
}

/// The write handle in the time zone that the parameters name.
///
/// # Errors
/// Invalid for a parameter that no TDengine client sends, and for an unknown time zone.
fn in_zone(ingest: &Ingest, parameters: &Parameters<'_>) -> Result<Ingest, Error> {
    parameters.check(&REST_SQL)?;
    let zone = parameters.get("tz").or_else(|| parameters.get("conn_tz")).filter(|zone| !zone.is_empty());
    let Some(zone) = zone else { return Ok(ingest.clone()) };
    let known = zone
        .parse()
        .map_err(|_| Error::invalid("expected an IANA time zone such as 'Europe/Berlin'").with("found", zone))?;
    Ok(ingest.in_time_zone(known))
}

async fn execute(ingest: &Ingest, database: Option<&str>, headers: &HeaderMap, body: Body) -> Result<Executed, Fault> {
    let (body, reservation) = body::read(ingest, headers, body, ingest.config().body_bytes).await?;
    let sql = std::str::from_utf8(&body)
        .map_err(|e| Error::invalid("statement is not UTF-8").with("byte", e.valid_up_to()).source(e))?;
    drop(reservation); // the statement makes its own reservations
    Ok(reply::keyed(ingest, headers)?.execute(database, sql, None).await?)
}

fn affected(done: &Executed) -> Response {
    let rows = done.affected_rows;
    let body = match &done.secret {
        None => {
            let notices = match done.notices.is_empty() {
                true => String::new(),
                false => format!("\"notices\":{},", json!(done.notices)),
            };
            format!(
                "{{\"code\":0,{notices}\"column_meta\":[[\"affected_rows\",\"INT\",4]],\"data\":[[{rows}]],\"rows\":1}}"
            )
        }
        Some(secret) => json!({
            "code": 0,
            "column_meta": [["token", "VARCHAR", 64]],
            "data": [[secret.expose()]],
            "rows": 1,
        })
        .to_string(),
    };
    let mut response = Response::new(Body::from(body));
    let headers = response.headers_mut();
    let (token, replayed) = (done.token, done.replayed);
    reply::describe(headers, WriteReply { token, replayed, rows: done.rows, notices: &done.notices });
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json; charset=utf-8"));
    response
}

fn refused(status: StatusCode, error: &Error) -> Response {
    if matches!(error.kind(), Kind::Internal | Kind::Corrupt) {
        tracing::error!(kind = ?error.kind(), ?error, "statement failed");
    }
    Api::TdEngine.answer_as(status, error).map(Body::from)
}
