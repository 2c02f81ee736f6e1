//! From our errors to HTTP: the one place that decides.

use axum::{
    Json,
    body::Body,
    extract::rejection::BytesRejection,
    http::{HeaderValue, Method, StatusCode, Uri, header},
    response::{IntoResponse, Response},
};
use serde_json::json;
use tidelake_format::{Error, Kind, Result, access::refused_as, nearest::unknown_parameter};
use tonic::{Code, Status};

/// The status of an error's kind: 4xx is for the client to fix, 503 to try again.
pub fn status_of(kind: Kind) -> StatusCode {
    match kind {
        Kind::Invalid => StatusCode::BAD_REQUEST,
        Kind::NotFound => StatusCode::NOT_FOUND,
        Kind::Conflict => StatusCode::CONFLICT,
        Kind::Unauthenticated => StatusCode::UNAUTHORIZED,
        Kind::Forbidden => StatusCode::FORBIDDEN,
        Kind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        Kind::Full => StatusCode::INSUFFICIENT_STORAGE,
        Kind::Unsupported => StatusCode::UNPROCESSABLE_ENTITY,
        Kind::Corrupt | Kind::Internal => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// The name of an error's kind in replies.
pub fn name_of(kind: Kind) -> &'static str {
    match kind {
        Kind::Invalid => "invalid",
        Kind::NotFound => "not_found",
        Kind::Conflict => "conflict",
        Kind::Unauthenticated => "unauthenticated",
        Kind::Forbidden => "forbidden",
        Kind::Unavailable => "unavailable",
        Kind::Full => "store_full",
        Kind::Unsupported => "unsupported",
        Kind::Corrupt => "corrupt",
        Kind::Internal => "internal",
    }
}

/// `{"error":{"kind":…,"message":…}}` with the status of the kind.
pub(super) fn response(error: &Error) -> Response {
    with_status(status_of(error.kind()), error)
}

/// The same with a status that says more than the kind does.
pub(super) fn with_status(status: StatusCode, error: &Error) -> Response {
    log(error);
    let body = json!({ "error": { "kind": name_of(error.kind()), "message": error.to_string() } });
    retry_later(error.kind(), (status, Json(body)).into_response())
}

/// Says when to try again, where that helps.
pub(super) fn retry_later(kind: Kind, mut response: Response) -> Response {
    if kind.is_retryable() {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}

/// What a person should look at goes to the log.
pub(super) fn log(error: &Error) {
    if matches!(error.kind(), Kind::Internal | Kind::Corrupt) {
        tracing::error!(kind = ?error.kind(), ?error, "an HTTP query failed");
    }
}

/// A body that could not be read: too large, or broken off, by the server itself where a status of gRPC says why.
pub(super) fn of_body(rejection: &BytesRejection) -> (StatusCode, Error) {
    let mut cause: Option<&dyn std::error::Error> = Some(rejection);
    while let Some(error) = cause {
        if let Some(status) = error.downcast_ref::<Status>().filter(|status| status.code() == Code::Unavailable) {
            return (StatusCode::SERVICE_UNAVAILABLE, Error::unavailable(status.message().to_owned()));
        }
        cause = error.source();
    }
    let error = Error::invalid("the request body cannot be read")
        .with("reason", rejection.body_text())
        .with("limit", format!("{} bytes", super::MAX_STATEMENT_BYTES));
    (rejection.status(), error)
}

/// Parameters that say who sends a request; every route takes them.
const OF_SENDERS: [&str; 3] = ["u", "p", "token"];

/// Refuses a parameter that a route does not know: what a misspelt one was to change must not be done otherwise.
///
/// # Errors
/// Invalid with the name and the nearest known one.
pub(super) fn check_parameter(name: &str, known: &[&str]) -> Result<()> {
    if known.contains(&name) || OF_SENDERS.contains(&name) { Ok(()) } else { Err(unknown_parameter(name, known)) }
}

/// A method that a path does not take; the router names in Allow those that it takes.
pub(super) async fn wrong_method(method: Method, uri: Uri) -> Response {
    let error = Error::invalid("this path does not take this method; the header Allow names those that it takes");
    refused_as(StatusCode::METHOD_NOT_ALLOWED, uri.path(), &error.with("found", method)).map(Body::from)
}

/// The error of a path that names a database by no text.
pub(super) fn not_text() -> Error {
    Error::invalid("the name of the database in the path is not UTF-8 text")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_users_mistake_is_a_4xx() {
        for kind in
            [Kind::Invalid, Kind::NotFound, Kind::Conflict, Kind::Unsupported, Kind::Unauthenticated, Kind::Forbidden]
        {
            assert!(status_of(kind).is_client_error(), "{kind:?}");
        }
        assert_eq!(status_of(Kind::Unavailable), StatusCode::SERVICE_UNAVAILABLE);
        let response = response(&Error::unavailable("busy"));
        assert_eq!(response.headers()[header::RETRY_AFTER], "1");
    }
}
