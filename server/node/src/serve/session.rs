//! Sessions of the web pages that this server serves: a cookie that the browser sends and scripts cannot read.

use axum::{
    Extension, Json,
    extract::State,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};
use tidelake_format::{
    access::Principal,
    auth::{LoggedIn, SESSION_COOKIE, csrf_token, session_of},
};
use tidelake_protocol::http::routes;
use tidelake_routes::{Caller, Routes};

/// `/api/v1/login`, `/api/v1/logout` and `/api/v1/whoami`. Browsers send a cookie of an encrypted server only under TLS.
pub(super) fn routes(is_encrypted: bool) -> Routes {
    Routes::new()
        .on(&routes::LOGIN, log_in)
        .on(&routes::LOGOUT, log_out)
        .on(&routes::WHOAMI, who_am_i)
        .with_state(Cookie { is_encrypted })
}

#[derive(Clone)]
struct Cookie {
    is_encrypted: bool,
}

impl Cookie {
    fn header(&self, token: &str, seconds: u64) -> [(header::HeaderName, String); 1] {
        let secure = if self.is_encrypted { "; Secure" } else { "" };
        let cookie = format!("{SESSION_COOKIE}={token}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}");
        [(header::SET_COOKIE, cookie)]
    }
}

/// The caller, as JSON. `session` is the token in the request's or reply's cookie.
fn described(principal: &Principal, session: Option<&str>) -> Json<Value> {
    Json(json!({
        "user": principal.user(),
        "admin": principal.is_admin(),
        "authentication": principal.user().is_some(),
        "csrf": session.map(csrf_token),
    }))
}

/// Sets the cookie of the session that the gate began. Where authentication is off, there is none.
async fn log_in(
    State(cookie): State<Cookie>,
    Caller(principal): Caller,
    session: Option<Extension<LoggedIn>>,
) -> Response {
    match session {
        Some(Extension(session)) => {
            let body = described(&principal, Some(&session.token));
            (no_store(), cookie.header(&session.token, LoggedIn::SECONDS), body).into_response()
        }
        None => (no_store(), described(&principal, None)).into_response(),
    }
}

async fn log_out(State(cookie): State<Cookie>) -> Response {
    (StatusCode::NO_CONTENT, cookie.header("", 0)).into_response()
}

async fn who_am_i(Caller(principal): Caller, headers: HeaderMap) -> Response {
    let session = session_of(&headers).filter(|_| principal.user().is_some());
    (no_store(), described(&principal, session)).into_response()
}

/// The reply has the CSRF token of one user.
fn no_store() -> [(header::HeaderName, HeaderValue); 1] {
    [(header::CACHE_CONTROL, HeaderValue::from_static("no-store"))]
}
