//! Requests that a web browser sends, and the challenge that a refused one receives.

use http::{HeaderMap, HeaderValue, header};

/// For clients that send a password only after a Basic challenge (`wget`, the HTTP clients of Java and Python).
const BASIC: &str = "Basic realm=\"tidelake\"";
/// For browsers, which ignore Bearer. To Basic they would respond with a dialog, and then send the password with every
/// request of every page to this origin.
const BEARER: &str = "Bearer realm=\"tidelake\"";
/// Headers that browsers add and that scripts cannot remove.
const OF_BROWSERS: [&str; 4] = ["origin", "sec-fetch-site", "sec-fetch-mode", "sec-fetch-dest"];

/// Whether a web browser sent a request. The user agent is checked as well: older browsers do not send `Sec-Fetch-*`
/// headers, nor do new ones to a plain `http://` address of another machine, but every browser's agent begins with
/// `Mozilla/`.
pub fn is_of_browser(request: &HeaderMap) -> bool {
    let is_mozilla = |agent: &HeaderValue| agent.as_bytes().starts_with(b"Mozilla/");
    OF_BROWSERS.iter().any(|name| request.contains_key(*name))
        || request.get(header::USER_AGENT).is_some_and(is_mozilla)
}

/// The value of `WWW-Authenticate` for the sender of a request without valid credentials.
///
/// ```
/// use http::{HeaderMap, HeaderValue};
/// use tidelake_format::auth::challenge;
/// let mut request = HeaderMap::new();
/// assert_eq!(challenge(&request), "Basic realm=\"tidelake\"");
/// request.insert("user-agent", HeaderValue::from_static("Mozilla/5.0 (X11; Linux x86_64)"));
/// assert_eq!(challenge(&request), "Bearer realm=\"tidelake\"");
/// ```
pub fn challenge(request: &HeaderMap) -> HeaderValue {
    HeaderValue::from_static(if is_of_browser(request) { BEARER } else { BASIC })
}
