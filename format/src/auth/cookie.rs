//! The session cookie of web pages that this server serves, and the token that proves that such a page sent a request.
//!
//! A browser adds a cookie to requests by itself. So a request that changes something must also carry, in a header, a value
//! that only pages of this server can read: the CSRF token. It is derived from the session, and nothing has to be stored.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use http::{HeaderMap, Method, header};
use ring::hmac;

use super::Credentials;
use crate::error::{Error, Result};

/// Name of the cookie that holds a session's token.
pub const SESSION_COOKIE: &str = "tidelake_session";
/// Request header with the CSRF token of the session.
pub const CSRF_HEADER: &str = "x-tidelake-csrf";

/// The CSRF token of a session: an HMAC under the session's token.
///
/// ```
/// use tidelake_format::auth::csrf_token;
/// assert_eq!(csrf_token("tls_one"), csrf_token("tls_one"));
/// assert_ne!(csrf_token("tls_one"), csrf_token("tls_two"));
/// ```
pub fn csrf_token(session: &str) -> String {
    URL_SAFE_NO_PAD.encode(hmac::sign(&key(session), PURPOSE))
}

/// What the HMAC signs, so that it cannot be mistaken for one of another purpose.
const PURPOSE: &[u8] = b"tidelake csrf";

fn key(session: &str) -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, session.as_bytes())
}

/// The session's token in the cookies of a request.
pub fn session_of(headers: &HeaderMap) -> Option<&str> {
    let cookies = headers.get_all(header::COOKIE).into_iter().filter_map(|value| value.to_str().ok());
    let mut pairs = cookies.flat_map(|cookies| cookies.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(name, value)| *name == SESSION_COOKIE && !value.is_empty()).map(|(_, value)| value)
}

/// The credentials in the cookies of a request.
///
/// # Errors
/// [`Kind::Forbidden`](crate::Kind::Forbidden) if the request may change something and lacks the session's CSRF token.
pub(super) fn credentials_of(method: &Method, headers: &HeaderMap) -> Result<Credentials> {
    let Some(session) = session_of(headers) else { return Ok(Credentials::None) };
    let given = headers.get(CSRF_HEADER).and_then(|value| URL_SAFE_NO_PAD.decode(value).ok());
    // Compares in constant time.
    let is_proven = given.is_some_and(|given| hmac::verify(&key(session), PURPOSE, &given).is_ok());
    if is_proven || matches!(*method, Method::GET | Method::HEAD) {
        return Ok(Credentials::Token(session.to_owned()));
    }
    Err(Error::forbidden("request with a session cookie lacks the CSRF token of the session")
        .with("expected", "the header x-tidelake-csrf with the value that GET /api/v1/whoami returns"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Kind;

    fn request(cookie: &'static str, csrf: Option<&str>) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(header::COOKIE, cookie.parse().unwrap());
        csrf.into_iter().for_each(|csrf| drop(headers.insert(CSRF_HEADER, csrf.parse().unwrap())));
        headers
    }

    #[test]
    fn a_session_is_found_among_other_cookies() {
        for (cookies, expected) in [
            ("tidelake_session=tls_a", Some("tls_a")),
            ("theme=dark; tidelake_session=tls_a;x=y", Some("tls_a")),
            ("tidelake_session=; tidelake_session=tls_b", Some("tls_b")),
            ("tidelake_sessions=tls_a", None),
            ("x=tidelake_session=tls_a", None),
            ("tidelake_session", None),
        ] {
            assert_eq!(session_of(&request(cookies, None)), expected, "{cookies}");
        }
        assert_eq!(session_of(&HeaderMap::new()), None);
    }

    #[test]
    fn only_requests_that_read_need_no_csrf_token() {
        let (right, other) = (csrf_token("tls_a"), csrf_token("tls_b"));
        let cookie = "tidelake_session=tls_a";
        let token = Credentials::Token("tls_a".to_owned());
        for method in [Method::GET, Method::HEAD] {
            assert_eq!(credentials_of(&method, &request(cookie, None)).unwrap(), token);
        }
        for method in [Method::POST, Method::PUT, Method::DELETE] {
            for wrong in [None, Some(""), Some("?"), Some(other.as_str())] {
                let error = credentials_of(&method, &request(cookie, wrong)).unwrap_err();
                assert_eq!(error.kind(), Kind::Forbidden, "{method} {wrong:?}");
            }
            assert_eq!(credentials_of(&method, &request(cookie, Some(&right))).unwrap(), token);
            assert_eq!(credentials_of(&method, &HeaderMap::new()).unwrap(), Credentials::None);
        }
    }
}
