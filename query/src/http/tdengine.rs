//! TDengine's REST interface: `POST /rest/sql[/db]`, with the replies of taosAdapter.
//!
//! | | |
//! |---|---|
//! | query | `{"code":0,"column_meta":[["ts","TIMESTAMP",8],…],"data":[[…]],"rows":n}` |
//! | write | the same with one row `affected_rows` INT |
//! | error | `{"code":9728,"desc":"…"}`; HTTP 200 for an error of the statement, as clients expect |
//!
//! `?tz=` or `?conn_tz=` sets the time zone, `?row_with_meta=true` returns rows as objects; `?req_id=` and `?token=` are ignored,
//! and any other name is refused with 400. Text in double quotes is a string here.

use arrow::datatypes::{DataType, FieldRef, SchemaRef};
use axum::{
    Extension, Json as JsonReply,
    body::Bytes,
    extract::{
        Path, RawQuery, State,
        rejection::{BytesRejection, PathRejection},
    },
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};
use futures::{StreamExt, TryStreamExt};
use serde_json::json;
use tidelake_format::{Error, Result, access::Principal, auth::LoggedIn, nearest::UNKNOWN_PARAMETER, types::Type};
use tidelake_protocol::{
    http::{Api, routes::REST_SQL},
    sql::DoubleQuotes,
};
use tidelake_routes::Caller;

use super::{
    error,
    output::{Json, Rows, body},
    sql::{affected, hand_out, values},
    text::json_text,
    track::Statement,
};
use crate::{
    engine::{Engine, Outcome},
    error::from_datafusion,
    request,
    session::Session,
    wire::{PRECISION, TYPE_NAME},
};

/// `POST /rest/sql`.
pub(super) async fn sql(
    State(engine): State<Engine>,
    Caller(principal): Caller,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    answer(&engine, principal, None, query.as_deref().unwrap_or_default(), &headers, body).await
}

/// `POST /rest/sql/{database}`.
pub(super) async fn sql_in(
    State(engine): State<Engine>,
    Caller(principal): Caller,
    database: Result<Path<String>, PathRejection>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    match database {
        Ok(Path(database)) => {
            answer(&engine, principal, Some(database), query.as_deref().unwrap_or_default(), &headers, body).await
        }
        Err(_) => error::with_status(Api::TdEngine, StatusCode::BAD_REQUEST, &error::not_text()),
    }
}

/// `GET /rest/login/{user}/{password}`: returns the session token that the authentication layer created; `anonymous` where
/// authentication is off.
pub(super) async fn login(session: Option<Extension<LoggedIn>>) -> Response {
    let token = session.map_or("anonymous".to_owned(), |Extension(session)| session.token);
    JsonReply(json!({ "code": 0, "desc": token })).into_response()
}

async fn answer(
    engine: &Engine,
    principal: Principal,
    database: Option<String>,
    query: &str,
    headers: &HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    let body = match body {
        Ok(body) => body,
        Err(rejection) => {
            let (status, e) = error::of_body(&rejection);
            return error::with_status(Api::TdEngine, status, &e);
        }
    };
    let named = match Statement::begin(engine, &principal, headers) {
        Ok(named) => named,
        Err(e) => return error::response(Api::TdEngine, &e),
    };
    match respond(engine, principal, &named, database, query, headers, &body).await {
        Ok(response) => named.answered(response, None),
        // An unknown query parameter is an error of the request, not of the statement.
        Err(e) if e.message() == UNKNOWN_PARAMETER => {
            named.answered(error::with_status(Api::TdEngine, StatusCode::BAD_REQUEST, &e), Some(&e))
        }
        Err(e) => named.answered(error::response(Api::TdEngine, &e), Some(&e)),
    }
}

async fn respond(
    engine: &Engine,
    principal: Principal,
    named: &Statement,
    database: Option<String>,
    query: &str,
    headers: &HeaderMap,
    statement: &Bytes,
) -> Result<Response> {
    let mut session = named.name(Session { double_quotes: DoubleQuotes::Text, ..Session::of(principal) });
    request::apply_headers(&mut session, |name| values(headers, name))?;
    session.database = database.filter(|d| !d.is_empty()).or(session.database);
    let mut rows = Rows::Arrays;
    for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
        match name.as_ref() {
            "tz" | "conn_tz" => session.time_zone = request::time_zone(&value)?,
            "row_with_meta" if value.eq_ignore_ascii_case("true") => rows = Rows::Objects,
            other => REST_SQL.check_parameter(other)?,
        }
    }
    let statement = std::str::from_utf8(statement).map_err(|e| {
        Error::invalid("invalid statement: expected UTF-8 text").with("byte", e.valid_up_to()).source(e)
    })?;
    let (schema, batches, written) = match engine.query(&session, statement).await?.1 {
        Outcome::Rows(rows) => (rows.schema(), rows.map_err(from_datafusion).boxed(), None),
        Outcome::Updated(outcome) => affected(outcome)?,
    };
    let notices = written.as_ref().map_or(&[][..], |outcome| &outcome.notices);
    let document = Json::with_head(schema.clone(), session.time_zone, head(&schema, notices), rows);
    let body = body(document, batches).await?;
    let mut response =
        (StatusCode::OK, [(header::CONTENT_TYPE, "application/json; charset=utf-8")], body).into_response();
    if let Some(outcome) = written {
        hand_out(&outcome, response.headers_mut());
    }
    Ok(response)
}

/// `{"code":0,"column_meta":[[name, type, width],…],`; with `"notices"` before `column_meta` where there are some.
fn head(schema: &SchemaRef, notices: &[String]) -> Vec<u8> {
    let mut out = b"{\"code\":0,".to_vec();
    if !notices.is_empty() {
        out.extend_from_slice(format!("\"notices\":{},", json!(notices)).as_bytes());
    }
    out.extend_from_slice(b"\"column_meta\":[");
    for (i, field) in schema.fields().iter().enumerate() {
        out.extend_from_slice(if i > 0 { b",[" } else { b"[" });
        json_text(field.name(), &mut out);
        out.push(b',');
        let (name, width) = column_type(field);
        json_text(&name, &mut out);
        out.extend_from_slice(format!(",{width}]").as_bytes());
    }
    out.extend_from_slice(b"],");
    out
}

/// TDengine's name for the type of a wire field, and its width in bytes (characters for NCHAR).
fn column_type(field: &FieldRef) -> (String, u32) {
    let name = field.metadata().get(TYPE_NAME).map_or("VARCHAR", String::as_str);
    let fixed = |width| (name.to_owned(), width);
    // Clients recognise an update count by one row with one column of this name and type.
    if field.name() == "affected_rows" {
        return ("INT".to_owned(), 4);
    }
    match name {
        "BOOL" | "TINYINT" | "TINYINT UNSIGNED" => fixed(1),
        "SMALLINT" | "SMALLINT UNSIGNED" => fixed(2),
        "INT" | "INT UNSIGNED" | "FLOAT" => fixed(4),
        "BIGINT" | "BIGINT UNSIGNED" | "DOUBLE" | "TIMESTAMP" => fixed(8),
        "VARCHAR" | "NCHAR" | "VARBINARY" => {
            let width = field.metadata().get(PRECISION).and_then(|w| w.parse().ok());
            fixed(width.unwrap_or(Type::MAX_BYTES as u32))
        }
        "JSON" => fixed(Type::Json.width()),
        decimal if decimal.starts_with("DECIMAL") => fixed(match field.data_type() {
            DataType::Decimal32(_, _) | DataType::Decimal64(_, _) => 8,
            _ => 16,
        }),
        // Dates, intervals and nested values are sent as text.
        _ => ("VARCHAR".to_owned(), Type::MAX_BYTES as u32),
    }
}
