//! Converts errors to HTTP replies.

use axum::{body::Body, extract::rejection::BytesRejection, http::StatusCode, response::Response};
use tidelake_format::{Error, Kind};
use tidelake_protocol::http::{Api, routes::MAX_STATEMENT_BYTES};
use tonic::{Code, Status};

/// An API's reply to an error, with the status of the error's kind.
pub(super) fn response(api: Api, error: &Error) -> Response {
    with_status(api, api.status(error.kind()), error)
}

/// The same with a more specific status.
pub(super) fn with_status(api: Api, status: StatusCode, error: &Error) -> Response {
    // Only errors that an operator should look at are logged.
    if matches!(error.kind(), Kind::Internal | Kind::Corrupt) {
        tracing::error!(kind = ?error.kind(), ?error, "HTTP query failed");
    }
    api.answer_as(status, error).map(Body::from)
}

/// The error of a body that could not be read: too large, ended early, or stopped by the server with a gRPC status as the cause.
pub(super) fn of_body(rejection: &BytesRejection) -> (StatusCode, Error) {
    let mut cause: Option<&dyn std::error::Error> = Some(rejection);
    while let Some(error) = cause {
        if let Some(status) = error.downcast_ref::<Status>().filter(|status| status.code() == Code::Unavailable) {
            return (StatusCode::SERVICE_UNAVAILABLE, Error::unavailable(status.message().to_owned()));
        }
        cause = error.source();
    }
    let error = Error::invalid("cannot read the request body")
        .with("reason", rejection.body_text())
        .with("limit", format!("{MAX_STATEMENT_BYTES} bytes"));
    (rejection.status(), error)
}

/// The error of a database name in the path that is not UTF-8.
pub(super) fn not_text() -> Error {
    Error::invalid("invalid database name in the path: expected UTF-8 text")
}
