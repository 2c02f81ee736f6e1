//! What every answer of these doors has.

use std::collections::HashMap;

use axum::{
    Json,
    body::Body,
    extract::Query,
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, header},
    response::{IntoResponse, Response},
};
use serde_json::json;
use tidelake_format::{Error, Kind};

use super::{KEY_HEADER, REPLAYED_HEADER, TOKEN_HEADER};
use crate::write::{IdempotencyKey, Written};

/// What clients of InfluxDB take for the server's version: that of the dialect, then ours.
const VERSION: &str = concat!("1.8.10-tidelake-", env!("CARGO_PKG_VERSION"));

/// The parameters of a request's URL.
pub(super) fn parameters(uri: &Uri) -> Result<HashMap<String, String>, String> {
    Query::<HashMap<String, String>>::try_from_uri(uri).map(|q| q.0).map_err(|e| e.body_text())
}

/// Whether a flag is set: by its name alone, or by any value but `false` and `0`.
pub(super) fn flag(parameters: &HashMap<String, String>, name: &str) -> bool {
    parameters.get(name).is_some_and(|v| !matches!(v.as_str(), "false" | "0"))
}

/// The status of an error of the write path.
pub(super) fn status(kind: Kind) -> StatusCode {
    match kind {
        Kind::Invalid | Kind::Unsupported => StatusCode::BAD_REQUEST,
        Kind::NotFound => StatusCode::NOT_FOUND,
        Kind::Conflict | Kind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        Kind::Corrupt | Kind::Internal => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// A JSON answer, with Retry-After where the client is to come back.
pub(super) fn json(status: StatusCode, body: &serde_json::Value) -> Response {
    let mut response = (status, Json(body)).into_response();
    if status == StatusCode::SERVICE_UNAVAILABLE {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}

/// The idempotency key of a request.
pub(super) fn key(headers: &HeaderMap) -> Result<Option<IdempotencyKey>, Error> {
    let Some(value) = headers.get(KEY_HEADER) else { return Ok(None) };
    let text = value.to_str().map_err(|e| Error::invalid("an idempotency key is ASCII text").source(e))?;
    IdempotencyKey::new(text).map(Some)
}

/// Adds the token of a write, and whether it was a copy of an earlier one.
pub(super) fn with_token(mut response: Response, written: &Written) -> Response {
    let headers = response.headers_mut();
    if let Some(value) = written.token.and_then(|t| HeaderValue::from_str(&t.to_string()).ok()) {
        headers.insert(HeaderName::from_static(TOKEN_HEADER), value);
    }
    if written.replayed {
        headers.insert(HeaderName::from_static(REPLAYED_HEADER), HeaderValue::from_static("true"));
    }
    response
}

/// An empty answer to a write that was taken whole.
pub(super) fn taken(written: &Written) -> Response {
    with_token(StatusCode::NO_CONTENT.into_response(), written)
}

/// Adds the headers that InfluxDB's clients look for.
pub(super) fn stamp(mut response: Response, id: u128) -> Response {
    let id = format!("{:032x}", id);
    let id = format!("{}-{}-{}-{}-{}", &id[..8], &id[8..12], &id[12..16], &id[16..20], &id[20..]);
    let headers = response.headers_mut();
    headers.insert("x-influxdb-version", HeaderValue::from_static(VERSION));
    headers.insert("x-influxdb-build", HeaderValue::from_static("Tidelake"));
    if let Ok(id) = HeaderValue::from_str(&id) {
        headers.insert("request-id", id.clone());
        headers.insert("x-request-id", id);
    }
    response
}

/// `GET|HEAD /ping`: 204, or with `?verbose=true` the version.
pub(super) async fn ping(uri: Uri) -> Response<Body> {
    match parameters(&uri) {
        Ok(parameters) if flag(&parameters, "verbose") => json(StatusCode::OK, &json!({ "version": VERSION })),
        _ => StatusCode::NO_CONTENT.into_response(),
    }
}
