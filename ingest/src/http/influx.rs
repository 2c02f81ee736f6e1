//! Line protocol over HTTP: InfluxDB's `/write` and `/api/v2/write`.

use axum::{
    body::Body,
    http::{HeaderMap, StatusCode, Uri},
    response::Response,
};
use serde_json::{Value, json};
use tidelake_format::Error;
use tidelake_protocol::http::{
    Api,
    api::is_put_off,
    routes::{WRITE, WRITE_BUCKET},
};

use super::{
    Door,
    body::{self, Fault},
    reply::{self, Parameters},
};
use crate::{
    decode::{Rejected, line_protocol::LinePrecision},
    write::{Durability, Ingest, Written},
};

/// Most rejected lines described in a reply; their total number is always reported.
const NAMED: usize = 100;

/// `POST /write?db=…[&precision=…][&no_sync=true]`; `rp`, `consistency`, `u` and `p` are ignored.
pub(super) async fn write_v1(Door(ingest): Door, uri: Uri, headers: HeaderMap, body: Body) -> Response {
    let parameters = Parameters::of(&uri);
    if let Err(error) = parameters.check(&WRITE) {
        return refused(Api::Influx1Write, StatusCode::BAD_REQUEST, &error);
    }
    let Some(database) = parameters.get("db").filter(|db| !db.is_empty()) else {
        let error = Error::invalid("database is required").with("expected", "/write?db=NAME");
        return refused(Api::Influx1Write, StatusCode::BAD_REQUEST, &error);
    };
    match write(&ingest, database, &parameters, &headers, body).await {
        Ok(written) if written.dropped == 0 => reply::taken(&written),
        Ok(written) => {
            let error = Error::invalid(partial_write(&written));
            reply::with_token(refused(Api::Influx1Write, StatusCode::BAD_REQUEST, &error), &written)
        }
        Err(fault) => not_written(Api::Influx1Write, fault),
    }
}

/// `POST /api/v2/write?bucket=…[&precision=…]`; the bucket names the database (`db/rp` names `db`), `org` is ignored.
pub(super) async fn write_v2(Door(ingest): Door, uri: Uri, headers: HeaderMap, body: Body) -> Response {
    let parameters = Parameters::of(&uri);
    if let Err(error) = parameters.check(&WRITE_BUCKET) {
        return refused(Api::Influx2, StatusCode::BAD_REQUEST, &error);
    }
    let bucket = parameters.get("bucket").unwrap_or_default();
    let database = bucket.split_once('/').map_or(bucket, |(database, _)| database);
    if database.is_empty() {
        return refused(Api::Influx2, StatusCode::BAD_REQUEST, &Error::invalid("bucket is required"));
    }
    match write(&ingest, database, &parameters, &headers, body).await {
        Ok(written) if written.dropped == 0 => reply::taken(&written),
        Ok(written) => {
            let lines: Vec<Value> = written.rejected.iter().take(NAMED).map(line_v2).collect();
            let body = json!({ "code": "invalid", "message": partial_write(&written), "errors": lines });
            reply::with_token(reply::json(StatusCode::BAD_REQUEST, &body), &written)
        }
        Err(fault) => not_written(Api::Influx2, fault),
    }
}

/// The reply to a request that wrote nothing.
fn not_written(api: Api, fault: Fault) -> Response {
    match fault {
        Fault::TooLarge { limit } => {
            let text = format!("Request Entity Too Large: the body is larger than the limit of {limit} bytes");
            refused(api, StatusCode::PAYLOAD_TOO_LARGE, &Error::invalid(text))
        }
        Fault::Error(error) => {
            if api == Api::Influx1Write && is_put_off(error.kind()) {
                tracing::info!(%error, "write refused temporarily; the client should retry");
            }
            refused(api, api.status(error.kind()), &error)
        }
    }
}

fn refused(api: Api, status: StatusCode, error: &Error) -> Response {
    api.answer_as(status, error).map(Body::from)
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

/// InfluxDB's text for rejected lines; with line numbers if the request has more than one line.
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
    // Long texts can leave fewer than `NAMED` lines described.
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
