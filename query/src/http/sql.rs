//! `GET|POST /api/v1/sql`: executes one statement and returns its result in the requested format.
//!
//! | | |
//! |---|---|
//! | statement | `?q=` or `?sql=`; a POST body of SQL text, a form (`q=…`) or JSON `{"sql", "database", "params", "format", "time_zone", "max_rows"}` |
//! | format | `?format=json\|ndjson\|csv\|arrow\|parquet`, `"format"`, or the Accept header; JSON by default |
//! | rows | `?max_rows=`: the maximum number of rows; JSON has `"truncated":true` where there were more |
//! | session | `?database=` (`db`), `?time_zone=` (`tz`), headers `database`, `time-zone`, `x-tidelake-token` |
//!
//! A GET accepts queries only. The reply to a write is the row `affected_rows`, with the token in `x-tidelake-token`.

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, BooleanArray, Float64Array, Int64Array, NullArray, RecordBatch, StringArray, UInt64Array},
    datatypes::SchemaRef,
};
use axum::{
    body::Bytes,
    extract::{RawQuery, State, rejection::BytesRejection},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use futures::{StreamExt, TryStreamExt, stream, stream::BoxStream};
use serde::Deserialize;
use serde_json::Value;
use tidelake_format::{Error, Result, access::Principal};
use tidelake_protocol::http::{Api, routes::SQL_POST};
use tidelake_routes::Caller;

use super::{error, output::Format, track::Statement};
use crate::{
    engine::{Engine, Outcome, Prepared, Statement as Planned, located},
    error::from_datafusion,
    flight::bind,
    request,
    session::Session,
    wire,
    writer::WriteOutcome,
};

/// The inputs of a request, from its body and its query string.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    #[serde(default, alias = "q", alias = "query")]
    sql: String,
    #[serde(default, alias = "db")]
    database: Option<String>,
    #[serde(default, alias = "tz")]
    time_zone: Option<String>,
    #[serde(default)]
    format: Option<String>,
    #[serde(default, alias = "parameters")]
    params: Vec<Value>,
    #[serde(default)]
    max_rows: Option<usize>,
}

/// Whether a request may write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Access {
    Read,
    Write,
}

/// `GET /api/v1/sql?q=…`.
pub(super) async fn get(
    State(engine): State<Engine>,
    Caller(principal): Caller,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Response {
    let asked = in_query(query.as_deref().unwrap_or_default(), Asked::default());
    match asked {
        Ok(asked) => answer(&engine, principal, asked, &headers, Access::Read).await,
        Err(e) => error::response(Api::Tidelake, &e),
    }
}

/// `POST /api/v1/sql`.
pub(super) async fn post(
    State(engine): State<Engine>,
    Caller(principal): Caller,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    let body = match body {
        Ok(body) => body,
        Err(rejection) => {
            let (status, e) = error::of_body(&rejection);
            return error::with_status(Api::Tidelake, status, &e);
        }
    };
    if let Some(encoding) = headers.get(header::CONTENT_ENCODING).filter(|e| *e != "identity") {
        let e = Error::unsupported("compressed statements are not supported").with("found", format!("{encoding:?}"));
        return error::with_status(Api::Tidelake, StatusCode::UNSUPPORTED_MEDIA_TYPE, &e);
    }
    match in_body(&body, &headers).and_then(|asked| in_query(query.as_deref().unwrap_or_default(), asked)) {
        Ok(asked) => answer(&engine, principal, asked, &headers, Access::Write).await,
        Err(e) => error::response(Api::Tidelake, &e),
    }
}

async fn answer(engine: &Engine, principal: Principal, asked: Asked, headers: &HeaderMap, access: Access) -> Response {
    let statement = match Statement::begin(engine, &principal, headers) {
        Ok(statement) => statement,
        Err(e) => return error::response(Api::Tidelake, &e),
    };
    match respond(engine, principal, &statement, asked, headers, access).await {
        Ok(response) => statement.answered(response, None),
        Err(e) if access == Access::Read && e.context("method").is_some() => {
            let mut response = error::with_status(Api::Tidelake, StatusCode::METHOD_NOT_ALLOWED, &e);
            response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("POST"));
            statement.answered(response, Some(&e))
        }
        Err(e) => statement.answered(error::response(Api::Tidelake, &e), Some(&e)),
    }
}

async fn respond(
    engine: &Engine,
    principal: Principal,
    statement: &Statement,
    asked: Asked,
    headers: &HeaderMap,
    access: Access,
) -> Result<Response> {
    let format = match &asked.format {
        Some(name) => name.parse()?,
        None => Format::accepted(&accept(headers)),
    };
    let session = statement.name(session_of(principal, &asked, headers)?);
    let (schema, batches, written) = match run(engine, &session, &asked, access).await? {
        Outcome::Rows(rows) => (rows.schema(), rows.map_err(from_datafusion).boxed(), None),
        Outcome::Updated(outcome) => affected(outcome)?,
    };
    let body = format.body(schema, session.time_zone, batches, asked.max_rows).await?;
    let mut response = (StatusCode::OK, [(header::CONTENT_TYPE, format.content_type())], body).into_response();
    if let Some(outcome) = written {
        hand_out(&outcome, response.headers_mut());
    }
    Ok(response)
}

async fn run(engine: &Engine, session: &Session, asked: &Asked, access: Access) -> Result<Outcome> {
    if access == Access::Write && asked.params.is_empty() {
        return Ok(engine.query(session, &asked.sql).await?.1);
    }
    let prepared = engine.prepare(session, &asked.sql).await?;
    if access == Access::Read && matches!(prepared.kind, Planned::Update(_)) {
        return Err(Error::invalid("statement is not a query: send it by POST").with("method", "GET"));
    }
    let parameters = bound(&prepared, &asked.params).map_err(|error| located(session, &asked.sql, error))?;
    engine.run(session, &prepared, parameters).await
}

/// Schema and rows of an update's result, with its outcome.
type Rows = (SchemaRef, BoxStream<'static, Result<RecordBatch>>, Option<WriteOutcome>);

pub(super) fn affected(outcome: WriteOutcome) -> Result<Rows> {
    let batch = wire::outcome_row(&outcome)?;
    Ok((batch.schema(), stream::iter([Ok(batch)]).boxed(), Some(outcome)))
}

/// Adds the headers of a write to the reply: its token, its row counts, and whether it was a replay.
pub(super) fn hand_out(outcome: &WriteOutcome, headers: &mut HeaderMap) {
    for (name, value) in outcome.reply().headers() {
        if let Ok(value) = HeaderValue::from_str(&value) {
            headers.insert(name, value);
        }
    }
}

fn session_of(principal: Principal, asked: &Asked, headers: &HeaderMap) -> Result<Session> {
    let mut session = Session::of(principal);
    request::apply_headers(&mut session, |name| values(headers, name))?;
    if let Some(database) = asked.database.as_ref().filter(|d| !d.is_empty()) {
        session.database = Some(database.clone());
    }
    if let Some(zone) = &asked.time_zone {
        session.time_zone = request::time_zone(zone)?;
    }
    Ok(session)
}

/// The text values of a header.
pub(super) fn values<'a>(headers: &'a HeaderMap, name: &str) -> std::vec::IntoIter<&'a str> {
    headers.get_all(name).iter().filter_map(|v| v.to_str().ok()).collect::<Vec<_>>().into_iter()
}

fn accept(headers: &HeaderMap) -> String {
    values(headers, header::ACCEPT.as_str()).collect::<Vec<_>>().join(",")
}

/// Adds the parameters of the query string, which override those of the body.
fn in_query(query: &str, mut asked: Asked) -> Result<Asked> {
    for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
        let value = value.into_owned();
        match name.as_ref() {
            "q" | "sql" if asked.sql.is_empty() => asked.sql = value,
            "q" | "sql" => {
                return Err(Error::invalid("more than one statement: given in the query string and elsewhere"));
            }
            "db" | "database" => asked.database = Some(value),
            "tz" | "time_zone" => asked.time_zone = Some(value),
            "format" => asked.format = Some(value),
            "max_rows" => asked.max_rows = Some(max_rows(&value)?),
            "params" => {
                asked.params = serde_json::from_str(&value).map_err(|e| {
                    Error::invalid("invalid params: expected a JSON array of values").with("reason", &e).source(e)
                })?;
            }
            other => SQL_POST.check_parameter(other)?,
        }
    }
    Ok(asked)
}

fn max_rows(text: &str) -> Result<usize> {
    text.parse().map_err(|_| {
        Error::invalid("invalid max_rows: expected a number of rows").with("found", crate::error::shorten(text))
    })
}

fn in_body(body: &Bytes, headers: &HeaderMap) -> Result<Asked> {
    let media = headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default();
    let text = std::str::from_utf8(body).map_err(|e| {
        Error::invalid("invalid statement: expected UTF-8 text").with("byte", e.valid_up_to()).source(e)
    })?;
    if media.contains("json") || text.trim_start().starts_with('{') {
        return serde_json::from_str(text).map_err(|e| {
            Error::invalid(
                "invalid body: expected JSON with \"sql\" and optionally \"database\", \"params\", \"format\", \"time_zone\", \"max_rows\"",
            )
            .with("reason", &e)
            .source(e)
        });
    }
    // curl's -d labels any text as a form: treat it as a form only if it begins with a known field.
    let form = ["q=", "sql=", "db=", "database=", "format=", "max_rows="].iter().any(|name| text.starts_with(name));
    if form && media.starts_with("application/x-www-form-urlencoded") {
        return in_query(text, Asked::default());
    }
    Ok(Asked { sql: text.to_owned(), ..Asked::default() })
}

/// Converts the values of a JSON array to one row of parameters.
fn bound(prepared: &Prepared, values: &[Value]) -> Result<Option<RecordBatch>> {
    if values.is_empty() && prepared.parameters.is_empty() {
        return Ok(None);
    }
    let columns = values.iter().enumerate().map(|(i, value)| {
        let column: ArrayRef = match value {
            Value::Null => Arc::new(NullArray::new(1)),
            Value::Bool(b) => Arc::new(BooleanArray::from(vec![*b])),
            Value::Number(n) => match (n.as_i64(), n.as_u64()) {
                (Some(n), _) => Arc::new(Int64Array::from(vec![n])),
                (None, Some(n)) => Arc::new(UInt64Array::from(vec![n])),
                (None, None) => Arc::new(Float64Array::from(vec![n.as_f64()])),
            },
            Value::String(s) => Arc::new(StringArray::from(vec![s.as_str()])),
            Value::Array(_) | Value::Object(_) => {
                return Err(Error::invalid("invalid parameter: expected null, a boolean, a number or a string")
                    .with("parameter", i + 1)
                    .with("found", crate::error::shorten(&value.to_string())));
            }
        };
        Ok(((i + 1).to_string(), column))
    });
    let columns = columns.collect::<Result<Vec<_>>>()?;
    let expected = || {
        Error::invalid("wrong number of parameters")
            .with("expected", prepared.parameters.len())
            .with("found", values.len())
    };
    if columns.is_empty() {
        return Err(expected());
    }
    bind(prepared, &RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, c)| (n, c, true)))?).map(Some)
}
