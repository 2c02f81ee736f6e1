//! Authenticates requests of HTTP by the users of a root, and answers those that are refused in the words of their
//! route's protocol.

use std::net::IpAddr;

use http::{HeaderValue, Response, StatusCode, header, request::Parts};
use serde_json::json;

use super::{Authenticator, Credentials, Deed, Principal, Right};
use crate::error::{Error, Kind, Result};

/// Where a request comes from, among its extensions.
#[derive(Debug, Clone, Copy)]
pub struct Peer(pub IpAddr);

/// Where Flight's methods are.
pub(super) const FLIGHT: &str = "/arrow.flight.protocol.FlightService/";
/// What the path of a login of TDengine's begins with.
const REST_LOGIN: &str = "/rest/login/";

impl Authenticator {
    /// Authenticates a request to a route that needs `right`: who it is from. Where it begins a session it gets
    /// [`LoggedIn`](super::LoggedIn) as an extension.
    ///
    /// # Errors
    /// Unauthenticated, or those of the store.
    pub(super) async fn admit(&self, right: Right, request: &mut Parts, peer: Option<IpAddr>) -> Result<Principal> {
        let credentials = Credentials::of(&request.headers, &request.uri);
        match right {
            Right::Login => {
                let session = self.log_in(&credentials, peer).await?;
                let principal = session.principal.clone().at(peer);
                // The rest of such a path is the user's name and password.
                let path = request.uri.path();
                let path = if path.starts_with(REST_LOGIN) { REST_LOGIN } else { path };
                Deed::new("LOGIN", principal.to_string()).with(path).record(&principal, &Ok(()));
                request.extensions.insert(session);
                Ok(principal)
            }
            Right::Open | Right::AnyUser | Right::Administrator => self.authenticate(&credentials, peer).await,
        }
    }
}

/// The answer of a route's protocol to a request that is not let in.
pub(super) fn refused(path: &str, error: &Error) -> Response<String> {
    let status = match error.kind() {
        Kind::Unauthenticated => StatusCode::UNAUTHORIZED,
        Kind::Forbidden => StatusCode::FORBIDDEN,
        Kind::Corrupt | Kind::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        _ => StatusCode::SERVICE_UNAVAILABLE,
    };
    refused_as(status, path, error)
}

/// The answer to a request that is refused before it reaches its route: an error in the words of the route's protocol.
pub fn refused_as(status: StatusCode, path: &str, error: &Error) -> Response<String> {
    let message = error.to_string();
    if path.starts_with(FLIGHT) {
        return refused_call(error);
    }
    // The one answer that makes every client of InfluxDB 1 wait and send again.
    let is_v1 = ["/write", "/influxdb/v1/write"].contains(&path);
    let (status, message) = match status {
        StatusCode::SERVICE_UNAVAILABLE if is_v1 => (StatusCode::INTERNAL_SERVER_ERROR, "timeout".to_owned()),
        status => (status, message),
    };
    let body = if path.starts_with("/api/v2/") {
        let code = match error.kind() {
            Kind::Unauthenticated => "unauthorized",
            Kind::Forbidden => "forbidden",
            Kind::Invalid if status == StatusCode::METHOD_NOT_ALLOWED => "method not allowed",
            Kind::Invalid => "invalid",
            _ => "unavailable",
        };
        json!({ "code": code, "message": message })
    } else if path.starts_with("/rest/") {
        json!({ "code": error.tdengine_code(), "desc": message })
    } else if path.starts_with("/api/put") || path.starts_with("/opentsdb/") {
        json!({ "error": { "code": status.as_u16(), "message": message } })
    } else if is_v1 || path == "/query" {
        json!({ "error": message })
    } else {
        let kind = match error.kind() {
            Kind::Unauthenticated => "unauthenticated",
            Kind::Forbidden => "forbidden",
            Kind::Invalid => "invalid",
            Kind::Corrupt | Kind::Internal => "internal",
            _ => "unavailable",
        };
        json!({ "error": { "kind": kind, "message": message } })
    };
    let mut response = Response::new(body.to_string());
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if status == StatusCode::SERVICE_UNAVAILABLE {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}

/// A call of gRPC that ends before it begins: its status stands in the headers.
fn refused_call(error: &Error) -> Response<String> {
    let code = match error.kind() {
        Kind::Unauthenticated => "16",
        Kind::Forbidden => "7",
        Kind::Invalid => "3",
        Kind::Corrupt | Kind::Internal => "13",
        _ => "14",
    };
    // Percent-encoded, which leaves most of ASCII as it is.
    let text = error.to_string();
    let message: String = text
        .bytes()
        .map(|byte| match byte {
            b' '..=b'~' if byte != b'%' => char::from(byte).to_string(),
            _ => format!("%{byte:02X}"),
        })
        .collect();
    let mut response = Response::new(String::new());
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    headers.insert("grpc-status", HeaderValue::from_static(code));
    if let Ok(message) = HeaderValue::from_str(&message) {
        headers.insert("grpc-message", message);
    }
    response
}
