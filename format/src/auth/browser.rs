//! Requests that a web browser sends, and the challenge that a refused one receives.

use http::{HeaderMap, HeaderValue, header};

/// Clients that send a password only after this challenge (`wget`, Java's and Python's HTTP clients) need Basic.
const BASIC: &str = "Basic realm=\"tidelake\"";
/// A browser answers Basic with a dialog, and then sends the password with every request of every page to this origin. It
/// does nothing about Bearer.
const BEARER: &str = "Bearer realm=\"tidelake\"";
/// Browsers add these headers, and no script can remove them.
const OF_BROWSERS: [&str; 4] = ["origin", "sec-fetch-site", "sec-fetch-mode", "sec-fetch-dest"];

/// Whether a web browser sent a request. Older browsers add none of the `Sec-Fetch-*` headers, nor do new ones to a plain
/// `http://` address of another machine; every browser calls itself Mozilla.
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
