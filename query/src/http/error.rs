//! From our errors to HTTP.

use axum::{body::Body, extract::rejection::BytesRejection, http::StatusCode, response::Response};
use tidelake_format::{Error, Kind};
use tidelake_protocol::http::{Api, routes::MAX_STATEMENT_BYTES};
use tonic::{Code, Status};

/// The answer of an API to an error, by its kind.
pub(super) fn response(api: Api, error: &Error) -> Response {
    with_status(api, api.status(error.kind()), error)
}

/// The same with a status that says more than the kind does.
pub(super) fn with_status(api: Api, status: StatusCode, error: &Error) -> Response {
    // What a person should look at goes to the log.
    if matches!(error.kind(), Kind::Internal | Kind::Corrupt) {
        tracing::error!(kind = ?error.kind(), ?error, "an HTTP query failed");
    }
    api.answer_as(status, error).map(Body::from)
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
        .with("limit", format!("{MAX_STATEMENT_BYTES} bytes"));
    (rejection.status(), error)
}

/// The error of a path that names a database by no text.
pub(super) fn not_text() -> Error {
    Error::invalid("the name of the database in the path is not UTF-8 text")
}
