//! Parts that all replies of the write path's HTTP endpoints share.

use std::borrow::Cow;

use axum::{
    body::Body,
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri},
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};
use tidelake_format::{Error, ids::Token};
use tidelake_protocol::http::{
    Route,
    api::json_answer,
    headers::{self, WriteReply},
    routes::PING,
};
use uuid::Uuid;

use crate::write::{IdempotencyKey, Ingest, Written};

/// Capacity for the headers of a write reply, so that the map does not grow while they are added.
const REPLY_HEADERS: usize = 10;
/// The server version reported to InfluxDB clients: that of the dialect, then Tidelake's.
const VERSION: &str = concat!("1.8.10-tidelake-", env!("CARGO_PKG_VERSION"));

/// Header names looked up in every request or set in every reply: parsed once.
static TOKEN: HeaderName = HeaderName::from_static(headers::TOKEN);
static IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static(headers::IDEMPOTENCY_KEY);
static IMPLAUSIBLE_TIMES: HeaderName = HeaderName::from_static(headers::IMPLAUSIBLE_TIMES);
static INFLUX_VERSION: HeaderName = HeaderName::from_static("x-influxdb-version");
static INFLUX_BUILD: HeaderName = HeaderName::from_static("x-influxdb-build");
static REQUEST_ID: HeaderName = HeaderName::from_static("request-id");
static X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The parameters of a request, from its URL or from a form.
pub(super) struct Parameters<'a>(Vec<(Cow<'a, str>, Cow<'a, str>)>);

impl<'a> Parameters<'a> {
    /// Parameters of a URL.
    pub(super) fn of(uri: &'a Uri) -> Self {
        Self::read(uri.query().unwrap_or_default())
    }

    /// Parameters of a form, or of the query part of a URL. Invalid UTF-8 becomes replacement characters.
    pub(super) fn read(form: &'a str) -> Self {
        Self(form_urlencoded::parse(form.as_bytes()).collect())
    }

    /// The value of a parameter; the last one if it is repeated.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().rev().find(|(key, _)| key == name).map(|(_, value)| &**value)
    }

    /// Rejects parameters that a route does not know.
    ///
    /// # Errors
    /// Invalid with the name and the nearest known one.
    pub(super) fn check(&self, route: &Route) -> Result<(), Error> {
        self.0.iter().try_for_each(|(name, _)| route.check_parameter(name))
    }

    /// Whether a flag is set: by its name alone, or by any value but `false` and `0`.
    pub(super) fn flag(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| !matches!(value, "false" | "0"))
    }
}

/// A JSON reply.
pub(super) fn json(status: StatusCode, body: &Value) -> Response {
    json_answer(status, body).map(Body::from)
}

/// The write handle for a request's headers: with its idempotency key, at least as new as the writes of its tokens, and with
/// its own rule for implausible times.
pub(super) fn keyed<'a>(ingest: &'a Ingest, headers: &HeaderMap) -> Result<Cow<'a, Ingest>, Error> {
    let mut ingest = Cow::Borrowed(ingest);
    if let Some(rule) = headers.get(&IMPLAUSIBLE_TIMES) {
        let rule = String::from_utf8_lossy(rule.as_bytes()).parse();
        ingest =
            Cow::Owned(ingest.with_implausible(rule.map_err(|e: Error| e.with("header", headers::IMPLAUSIBLE_TIMES))?));
    }
    let mut tokens: Vec<Token> = Vec::new();
    for value in headers.get_all(&TOKEN) {
        let list = value.to_str().map_err(|e| Error::invalid("invalid token: expected ASCII text").source(e))?;
        tokens.extend(headers::tokens(list)?);
    }
    if !tokens.is_empty() {
        ingest = Cow::Owned(ingest.after(&tokens));
    }
    if let Some(value) = headers.get(&IDEMPOTENCY_KEY) {
        let text =
            value.to_str().map_err(|e| Error::invalid("invalid idempotency key: expected ASCII text").source(e))?;
        ingest = Cow::Owned(ingest.with_key(Some(IdempotencyKey::new(text)?)));
    }
    Ok(ingest)
}

/// Adds the headers that describe a write.
pub(super) fn describe(headers: &mut HeaderMap, write: WriteReply<'_>) {
    for (name, value) in write.headers() {
        if let Ok(value) = HeaderValue::from_str(&value) {
            headers.insert(HeaderName::from_static(name), value);
        }
    }
}

/// Adds headers for the token of a write, its row counts, and whether it replays an earlier one.
pub(super) fn with_token(mut response: Response, written: &Written) -> Response {
    let Written { token, replayed, notices, .. } = written;
    let write = WriteReply { token: *token, replayed: *replayed, rows: written.counts(), notices };
    response.headers_mut().reserve(REPLY_HEADERS);
    describe(response.headers_mut(), write);
    response
}

/// An empty reply to a write that was accepted in full.
pub(super) fn taken(written: &Written) -> Response {
    with_token(StatusCode::NO_CONTENT.into_response(), written)
}

/// Adds the headers that InfluxDB clients expect.
pub(super) fn stamp(mut response: Response, id: u128) -> Response {
    let mut text = Uuid::encode_buffer();
    let id = Uuid::from_u128(id).hyphenated().encode_lower(&mut text);
    let headers = response.headers_mut();
    headers.insert(&INFLUX_VERSION, HeaderValue::from_static(VERSION));
    headers.insert(&INFLUX_BUILD, HeaderValue::from_static("Tidelake"));
    if let Ok(id) = HeaderValue::from_str(id) {
        headers.insert(&REQUEST_ID, id.clone());
        headers.insert(&X_REQUEST_ID, id);
    }
    response
}

/// `GET|HEAD /ping`: 204, or the version if `?verbose=true`.
pub(super) async fn ping(uri: Uri) -> Response<Body> {
    let parameters = Parameters::of(&uri);
    if let Err(error) = parameters.check(&PING) {
        return PING.api.answer(&error).map(Body::from);
    }
    match parameters.flag("verbose") {
        true => json(StatusCode::OK, &json!({ "version": VERSION })),
        false => StatusCode::NO_CONTENT.into_response(),
    }
}
