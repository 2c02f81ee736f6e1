//! Who comes in: every request but those of health checks is of somebody, where nobody is let in unknown.
//!
//! What a request brings is read and judged elsewhere; here that is done for requests of HTTP, before any route, and refused in the words of the route's protocol.

use std::net::IpAddr;

use http::{HeaderValue, Response, StatusCode, header, request::Parts};
use serde_json::json;

use super::{Authenticator, Credentials, challenge};
use crate::error::{Error, Kind};

/// Where a request comes from, among its extensions.
#[derive(Debug, Clone, Copy)]
pub struct Peer(pub IpAddr);

/// Where Flight's methods are.
const FLIGHT: &str = "/arrow.flight.protocol.FlightService/";
/// Answers without asking who wants to know: nothing here tells of data.
const OPEN: [&str; 3] = ["/health", "/ready", "/ping"];
/// For administrators alone.
const ADMINISTRATION: [&str; 3] = ["/api/v1/compact", "/api/v1/files", "/api/v1/log"];

impl Authenticator {
    /// Lets a request in: it gets its [`Principal`](super::Principal) as an extension, and where it begins a session
    /// [`LoggedIn`](super::LoggedIn). Its [`Peer`] is read there.
    ///
    /// # Errors
    /// The answer to a request that is not let in, in the words of its route's protocol.
    pub async fn admit(&self, request: &mut Parts) -> Result<(), Box<Response<String>>> {
        let path = request.uri.path();
        if OPEN.contains(&path) {
            return Ok(());
        }
        let credentials = Credentials::of(&request.headers, &request.uri);
        let peer = request.extensions.get().map(|Peer(peer)| peer.to_canonical());
        let begins_session = path.starts_with("/rest/login/") || path.strip_prefix(FLIGHT) == Some("Handshake");
        let checked = async {
            if begins_session {
                let session = self.log_in(&credentials, peer).await?;
                return Ok((session.principal.clone(), Some(session)));
            }
            let principal = self.authenticate(&credentials, peer).await?;
            if ADMINISTRATION.contains(&path) {
                principal.check_admin("use this")?;
            }
            Ok((principal, None))
        };
        let (principal, session) = checked.await.map_err(|error: Error| {
            let mut refusal = refused(path, &error);
            if error.kind() == Kind::Unauthenticated && !path.starts_with(FLIGHT) {
                refusal.headers_mut().insert(header::WWW_AUTHENTICATE, challenge(&request.headers));
            }
            Box::new(refusal)
        })?;
        request.extensions.insert(principal);
        if let Some(session) = session {
            request.extensions.insert(session);
        }
        Ok(())
    }
}

/// The answer of a route's protocol to a request that is not let in.
fn refused(path: &str, error: &Error) -> Response<String> {
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
