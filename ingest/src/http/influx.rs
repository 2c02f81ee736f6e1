//! Line protocol over HTTP: InfluxDB's `/write` and `/api/v2/write`.

use axum::{
    body::Body,
    http::{HeaderMap, HeaderValue, StatusCode, Uri},
    response::Response,
};
use serde_json::{Value, json};
use tidelake_format::{Error, Kind};

use super::{
    Door,
    body::{self, Fault},
    reply::{self, Parameters},
};
use crate::{
    decode::{Rejected, line_protocol::LinePrecision},
    write::{Durability, Ingest, Written},
};

/// What clients of InfluxDB 1 say; retention policies and consistency mean nothing here.
const KNOWN_V1: [&str; 5] = ["db", "precision", "no_sync", "rp", "consistency"];
/// What clients of InfluxDB 2 say; organisations mean nothing here.
const KNOWN_V2: [&str; 6] = ["bucket", "precision", "no_sync", "org", "orgID", "consistency"];
/// Rejected lines that an answer names; their number is always told.
const NAMED: usize = 100;

/// `POST /write?db=…[&precision=…][&no_sync=true]`; `rp`, `consistency`, `u` and `p` mean nothing here.
pub(super) async fn write_v1(Door(ingest): Door, uri: Uri, headers: HeaderMap, body: Body) -> Response {
    let parameters = Parameters::of(&uri);
    if let Err(error) = parameters.check(&KNOWN_V1) {
        return refused_v1(StatusCode::BAD_REQUEST, &error.to_string());
    }
    let Some(database) = parameters.get("db").filter(|db| !db.is_empty()) else {
        return refused_v1(StatusCode::BAD_REQUEST, "database is required");
    };
    match write(&ingest, database, &parameters, &headers, body).await {
        Ok(written) if written.dropped == 0 => reply::taken(&written),
        Ok(written) => reply::with_token(refused_v1(StatusCode::BAD_REQUEST, &partial_write(&written)), &written),
        Err(Fault::TooLarge { limit }) => refused_v1(StatusCode::PAYLOAD_TOO_LARGE, &too_large(limit)),
        // The one answer that makes every v1 client wait and send again.
        Err(Fault::Error(error)) if error.kind().is_retryable() && error.kind() != Kind::Full => {
            tracing::info!(%error, "a write was put off");
            refused_v1(StatusCode::INTERNAL_SERVER_ERROR, "timeout")
        }
        Err(Fault::Error(error)) => refused_v1(reply::status(error.kind()), &text(&error)),
    }
}

/// `POST /api/v2/write?bucket=…[&precision=…]`; the bucket is the database (`db/rp` names `db`), `org` means nothing.
pub(super) async fn write_v2(Door(ingest): Door, uri: Uri, headers: HeaderMap, body: Body) -> Response {
    let parameters = Parameters::of(&uri);
    if let Err(error) = parameters.check(&KNOWN_V2) {
        return refused_v2(StatusCode::BAD_REQUEST, &error.to_string());
    }
    let bucket = parameters.get("bucket").unwrap_or_default();
    let database = bucket.split_once('/').map_or(bucket, |(database, _)| database);
    if database.is_empty() {
        return refused_v2(StatusCode::BAD_REQUEST, "bucket is required");
    }
    match write(&ingest, database, &parameters, &headers, body).await {
        Ok(written) if written.dropped == 0 => reply::taken(&written),
        Ok(written) => {
            let lines: Vec<Value> = written.rejected.iter().take(NAMED).map(line_v2).collect();
            let body = json!({ "code": "invalid", "message": partial_write(&written), "errors": lines });
            reply::with_token(reply::json(StatusCode::BAD_REQUEST, &body), &written)
        }
        Err(Fault::TooLarge { limit }) => refused_v2(StatusCode::PAYLOAD_TOO_LARGE, &too_large(limit)),
        Err(Fault::Error(error)) => refused_v2(reply::status(error.kind()), &text(&error)),
    }
}

async fn write(
    ingest: &Ingest,
    database: &str,
    parameters: &Parameters<'_>,
    headers: &HeaderMap,
    body: Body,
) -> Result<Written, Fault> {
    let precision: LinePrecision = parameters.get("precision").unwrap_or_default().parse()?;
    let durability = if parameters.flag("no_sync") { Durability::Buffered } else { Durability::Stored };
    let body = body::unless_refused(ingest.check_write(database).await, body).await?;
    let (body, reservation) = body::read(ingest, headers, body, ingest.config().body_bytes).await?;
    let ingest = reply::keyed(ingest, headers)?;
    Ok(ingest.write_line_protocol_reserved(database, body, precision, durability, reservation).await?)
}

/// InfluxDB's text for lines that were not taken; line numbers where there is more than one line.
fn partial_write(written: &Written) -> String {
    let rejected = &written.rejected;
    if let ([only], 1, 0) = (&rejected[..], written.dropped, written.accepted)
        && !only.reason.starts_with("field type conflict")
    {
        return only.reason.clone();
    }
    let alone = written.dropped + written.accepted == 1;
    let named = rejected.iter().take(NAMED).map(|r| match r.line {
        0 => r.reason.clone(),
        _ if alone => r.reason.clone(),
        line => format!("line {line}: {}", r.reason),
    });
    let named: Vec<String> = named.collect();
    // Fewer lines than `NAMED` are described where their texts are long.
    let others = written.dropped.saturating_sub(named.len() as u64);
    let mut text = named.join("\n");
    if others > 0 {
        text += &format!("\nand {others} more");
    }
    format!("partial write: {text} dropped={}", written.dropped)
}

fn line_v2(rejected: &Rejected) -> Value {
    json!({ "line": rejected.line, "message": rejected.reason, "text": rejected.text })
}

/// The text of an error: InfluxDB's own texts stay as they are, ours say where.
fn text(error: &Error) -> String {
    match error.kind() {
        Kind::NotFound => error.message().to_owned(),
        _ => error.to_string(),
    }
}

fn too_large(limit: usize) -> String {
    format!("Request Entity Too Large: the body is larger than the limit of {limit} bytes")
}

fn refused_v1(status: StatusCode, message: &str) -> Response {
    let mut response = reply::json(status, &json!({ "error": message }));
    let line: String = message.chars().map(|c| if c.is_ascii() && !c.is_ascii_control() { c } else { ' ' }).collect();
    if let Ok(value) = HeaderValue::from_str(&line) {
        response.headers_mut().insert("x-influxdb-error", value);
    }
    response
}

fn refused_v2(status: StatusCode, message: &str) -> Response {
    let code = match status {
        StatusCode::NOT_FOUND => "not found",
        StatusCode::UNAUTHORIZED => "unauthorized",
        StatusCode::FORBIDDEN => "forbidden",
        StatusCode::PAYLOAD_TOO_LARGE => "request too large",
        StatusCode::SERVICE_UNAVAILABLE => "unavailable",
        StatusCode::INSUFFICIENT_STORAGE => "store full",
        StatusCode::INTERNAL_SERVER_ERROR => "internal error",
        _ => "invalid",
    };
    reply::json(status, &json!({ "code": code, "message": message }))
}
