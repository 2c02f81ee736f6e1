//! Decides which requests of web pages are admitted, before any route of HTTP or Flight.
//!
//! Any web page can make its visitor's browser send requests to this server. Two headers identify such requests, and
//! scripts cannot forge them: `Host`, the host name the browser connected to (after DNS rebinding it is still the
//! page's own name), and `Origin` or `Sec-Fetch-Site`, the page that sent the request. Other programs send neither
//! `Origin` nor `Sec-Fetch-Site`.

use std::{borrow::Cow, net::IpAddr};

use axum::{body::Body, response::Response};
use hyper::{
    HeaderMap, Method, Request, StatusCode, Uri,
    header::{self, HeaderName, HeaderValue},
};
use tidelake_format::{Error, access::Deed, auth::Peer};
use tidelake_protocol::{
    http::{Route, headers},
    settings as declared,
};

use crate::settings::Settings;

/// Request headers that scripts of an allowed origin may send, in addition to Tidelake's own.
const SENT: [&str; 11] = [
    "authorization",
    "content-type",
    "content-encoding",
    "accept",
    "if-match",
    "if-none-match",
    "traceparent",
    "tracestate",
    "x-grpc-web",
    "x-user-agent",
    "grpc-timeout",
];
/// Response headers that scripts of an allowed origin may read, in addition to Tidelake's own.
const READ: [&str; 5] = ["retry-after", "www-authenticate", "x-influxdb-error", "grpc-status", "grpc-message"];
/// Header with the relation of the sending page to this server; a static because every request is checked for it.
static SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
/// Error for requests of pages of other origins.
const OF_A_PAGE: &str =
    "request of a web page of another origin; to allow it, add the origin to the setting cors_origins";
/// Seconds for which a browser caches the reply to a preflight.
const REMEMBERED: &str = "600";

/// Allowed host names and origins.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Origins {
    /// Host names in lower case; `None` allows all.
    hosts: Option<Vec<String>>,
    /// Other allowed origins, as browsers send them.
    shared: Vec<String>,
}

/// Decision about a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict<'a> {
    /// Passed to its route.
    Pass,
    /// Passed to its route; the reply lets the browser know that pages of this origin may read it.
    Share(&'a str),
    /// A preflight of an allowed origin, answered with permission.
    Preflight(&'a str),
    /// Refused.
    Refuse(Refusal<'a>),
}

/// Why a request is refused.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refusal<'a> {
    /// `Host` is not an allowed name.
    Host(Cow<'a, str>),
    /// The sending page has another origin.
    Origin(Cow<'a, str>),
    /// The sending page is of another site, or of another origin of this site.
    Site(Cow<'a, str>),
}

impl Refusal<'_> {
    fn error(&self) -> Error {
        match self {
            Refusal::Host(found) => Error::forbidden(
                "unknown host name in the request; use the server's IP address, or add the name to the setting \
                 allowed_hosts",
            )
            .with("Host", found),
            Refusal::Origin(found) => Error::forbidden(OF_A_PAGE).with("Origin", found),
            Refusal::Site(found) => Error::forbidden(OF_A_PAGE).with("Sec-Fetch-Site", found),
        }
    }
}

impl Origins {
    /// Reads the settings. If requests need credentials and the setting names no hosts, every host name is allowed: a page of a
    /// rebound name has no credentials to send.
    pub(super) fn of(settings: &Settings) -> Self {
        let named = settings.get(&declared::ALLOWED_HOSTS).0;
        let is_open = (named.is_empty() && settings.asks_who()) || named.iter().any(|name| name == "*");
        let hosts = (!is_open).then(|| own_names().into_iter().chain(named).collect());
        Self { hosts, shared: settings.get(&declared::CORS_ORIGINS).0 }
    }

    /// Decides about a request from its head.
    pub(super) fn decide<'a>(&'a self, method: &Method, uri: &'a Uri, headers: &'a HeaderMap) -> Verdict<'a> {
        let by_header = || headers.get_all(header::HOST).into_iter().map(text);
        let named = || uri.authority().map(|authority| Cow::Borrowed(authority.as_str())).into_iter();
        if let Some(host) = named().chain(by_header()).find(|host| !self.answers_for(host)) {
            return Verdict::Refuse(Refusal::Host(host));
        }
        let mut shared = None;
        for origin in headers.get_all(header::ORIGIN).into_iter().map(text) {
            if let Some(known) = self.shared.iter().find(|known| origin.eq_ignore_ascii_case(known)) {
                shared = Some(known.as_str());
                continue;
            }
            let mut hosts = named().chain(by_header()).peekable();
            let is_own = hosts.peek().is_some() && hosts.all(|host| is_origin_of(&origin, &host));
            if !is_own {
                return Verdict::Refuse(Refusal::Origin(origin));
            }
        }
        if let Some(origin) = shared {
            let asks = *method == Method::OPTIONS && headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
            return if asks { Verdict::Preflight(origin) } else { Verdict::Share(origin) };
        }
        // `none`: a typed address or a bookmark.
        let is_foreign = |site: &Cow<'_, str>| !matches!(&**site, "same-origin" | "none");
        match headers.get_all(&SEC_FETCH_SITE).into_iter().map(text).find(is_foreign) {
            Some(site) => Verdict::Refuse(Refusal::Site(site)),
            None => Verdict::Pass,
        }
    }

    /// Whether a host, with or without a port, is allowed.
    fn answers_for(&self, authority: &str) -> bool {
        let Some(names) = &self.hosts else { return true };
        match host_of(authority) {
            None => false,
            Some(host) if host.eq_ignore_ascii_case("localhost") || is_address(host) => true,
            Some(host) => names.iter().any(|name| host.eq_ignore_ascii_case(name)),
        }
    }

    /// Returns the headers to add to the reply of an admitted request, or the reply to a refused request or preflight.
    pub(super) fn admit<B>(&self, request: &Request<B>) -> Result<Marks, Box<Response>> {
        let mut marks = Marks { varies: !self.shared.is_empty(), origin: None };
        let verdict = self.decide(request.method(), request.uri(), request.headers());
        let value = |origin: &str| HeaderValue::from_str(origin).ok();
        match verdict {
            Verdict::Pass => Ok(marks),
            Verdict::Share(origin) => {
                marks.origin = value(origin);
                Ok(marks)
            }
            Verdict::Preflight(origin) => {
                marks.origin = value(origin);
                Err(Box::new(marks.on(preflight(request.headers()))))
            }
            Verdict::Refuse(refusal) => {
                let (path, error) = (request.uri().path(), refusal.error());
                let peer = request.extensions().get::<Peer>().map(|Peer(peer)| *peer);
                let deed = Deed::new("REQUEST", Route::shown(path)).with(request.method().as_str());
                deed.record_unauthenticated(peer, &error);
                Err(Box::new(marks.on(Route::api_of(path).refuse(&error).map(Body::from))))
            }
        }
    }
}

/// Headers to add to a reply.
#[derive(Debug)]
pub(super) struct Marks {
    /// Replies depend on `Origin`.
    varies: bool,
    /// The origin whose pages may read the reply.
    origin: Option<HeaderValue>,
}

impl Marks {
    /// Adds the headers to a reply.
    pub(super) fn on(self, mut response: Response) -> Response {
        let headers = response.headers_mut();
        // Browsers must not interpret a text body as a script or page.
        headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        if self.varies {
            headers.append(header::VARY, HeaderValue::from_static("origin"));
        }
        if let Some(origin) = self.origin {
            headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
            headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, listed(&READ, &headers::OF_REPLIES));
        }
        response
    }
}

/// Header names as a header value.
fn listed(of_others: &[&str], own: &[&str]) -> HeaderValue {
    let names = [of_others, own].concat().join(", ");
    HeaderValue::try_from(names).expect("names of headers are printable ASCII text")
}

/// Reply to a preflight: allows every request that this server understands.
fn preflight(request: &HeaderMap) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let headers = response.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, HEAD, POST, PUT, DELETE"));
    headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, listed(&SENT, &headers::OF_REQUESTS));
    headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static(REMEMBERED));
    if request.contains_key("access-control-request-private-network") {
        headers.insert("access-control-allow-private-network", HeaderValue::from_static("true"));
    }
    response
}

/// A header's value as text; invalid UTF-8 becomes replacement characters, so it matches no name.
fn text(value: &HeaderValue) -> Cow<'_, str> {
    String::from_utf8_lossy(value.as_bytes())
}

/// The host of `HOST` or `HOST:PORT`, an IPv6 address with brackets; `None` for anything else.
fn host_of(authority: &str) -> Option<&str> {
    let end = match authority.strip_prefix('[') {
        Some(rest) => rest.find(']')? + 2,
        None => authority.find(':').unwrap_or(authority.len()),
    };
    let (host, port) = authority.split_at(end);
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    let is_whole = port.is_empty() || port.strip_prefix(':').is_some_and(is_port);
    let is_name = |byte: u8| !matches!(byte, b'@' | b'/' | b' ');
    // A fully qualified name may end in a dot.
    let host = host.strip_suffix('.').unwrap_or(host);
    (is_whole && !host.is_empty() && host.bytes().all(is_name)).then_some(host)
}

/// Whether a host is an IP address. DNS rebinding works only with names.
fn is_address(host: &str) -> bool {
    match host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        // A zone, as in fe80::1%eth0, is local to the client.
        Some(v6) => matches!(v6.split('%').next().unwrap_or(v6).parse(), Ok(IpAddr::V6(_))),
        None => matches!(host.parse(), Ok(IpAddr::V4(_))),
    }
}

/// Whether an origin is that of the request's host. Both schemes match, because a TLS proxy before this server changes
/// the scheme; browsers omit the scheme's default port in both headers.
fn is_origin_of(origin: &str, authority: &str) -> bool {
    let rest = ["http://", "https://"].into_iter().find_map(|scheme| origin.strip_prefix(scheme));
    rest.is_some_and(|rest| rest.eq_ignore_ascii_case(authority))
}

/// The host name that Linux reports, and the name without its domain; empty on other systems.
pub(super) fn own_names() -> Vec<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim().to_ascii_lowercase();
    let short = name.split('.').next().unwrap_or_default().to_owned();
    [name, short].into_iter().filter(|name| !name.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value))).collect()
    }

    fn origins(hosts: Option<&[&str]>, shared: &[&str]) -> Origins {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        Origins { hosts: hosts.map(owned), shared: owned(shared) }
    }

    #[test]
    fn only_addresses_localhost_and_named_hosts_are_answered_for() {
        let some = origins(Some(&["db.example", "myhost"]), &[]);
        for good in [
            "127.0.0.1",
            "127.0.0.1:8086",
            "192.168.1.7:80",
            "[::1]:8086",
            "[::1]",
            "[fe80::1%25eth0]:1",
            "localhost",
            "LocalHost:8086",
            "localhost.:8086",
            "db.example:443",
            "DB.Example.",
            "myhost:",
        ] {
            assert!(some.answers_for(good), "{good}");
        }
        for bad in [
            "evil.example",
            "evil.example:8086",
            "127.0.0.1.evil.example:8086",
            "localhost.evil.example",
            "db.example.evil.example",
            "x.db.example",
            "localhost:8086@evil.example",
            "evil@localhost",
            "127.0.0.1:8086:1",
            "127.1",
            "2130706433",
            "0x7f000001",
            "017700000001",
            "[::1",
            "[localhost]",
            "[127.0.0.1]",
            "::1",
            "",
            ":8086",
            ".",
            "localhost/",
            "localhost ",
        ] {
            assert!(!some.answers_for(bad), "{bad}");
        }
        assert!(origins(None, &[]).answers_for("anything.example"));
    }

    #[test]
    fn requests_of_foreign_pages_are_refused_and_those_of_programs_and_of_the_own_page_pass() {
        enum Is {
            Passed,
            Shared,
            Preflight,
            NotHost,
            NotOrigin,
            NotSite,
        }
        use Is::*;
        let own = "http://127.0.0.1:8086";
        let named = "https://grafana.example";
        let host = ("host", "127.0.0.1:8086");
        let cases: &[(&str, &str, &[(&str, &str)], Is)] = &[
            // Programs that are not browsers.
            ("POST", "/write", &[host], Passed),
            ("POST", "/write", &[], Passed),
            ("GET", "/query", &[("host", "localhost:8086"), ("user-agent", "Telegraf/1.37.2")], Passed),
            ("POST", "http://127.0.0.1:8086/arrow.flight.protocol.FlightService/DoGet", &[], Passed),
            // A page of this server, and an address typed by the user.
            ("POST", "/api/v1/sql", &[host, ("origin", own), ("sec-fetch-site", "same-origin")], Passed),
            ("GET", "/health", &[host, ("sec-fetch-site", "none"), ("sec-fetch-mode", "navigate")], Passed),
            ("POST", "/api/v1/sql", &[("host", "db.example"), ("origin", "https://db.example")], Passed),
            // Foreign pages: a form, an image, a script, a sandbox, a file, another port of this machine.
            ("POST", "/rest/sql", &[host, ("origin", "https://evil.example")], NotOrigin),
            (
                "POST",
                "/rest/sql",
                &[host, ("origin", "https://evil.example"), ("sec-fetch-site", "cross-site")],
                NotOrigin,
            ),
            ("POST", "/rest/sql", &[host, ("origin", "null")], NotOrigin),
            ("POST", "/rest/sql", &[host, ("origin", "")], NotOrigin),
            ("POST", "/rest/sql", &[host, ("origin", "http://127.0.0.1:3000")], NotOrigin),
            ("POST", "/rest/sql", &[host, ("origin", "http://localhost:8086")], NotOrigin),
            ("POST", "/rest/sql", &[host, ("origin", "http://127.0.0.1:8086.evil.example")], NotOrigin),
            ("POST", "/rest/sql", &[host, ("origin", "file://127.0.0.1:8086")], NotOrigin),
            ("POST", "/rest/sql", &[host, ("origin", own), ("origin", "https://evil.example")], NotOrigin),
            ("POST", "/rest/sql", &[("origin", own)], NotOrigin),
            ("GET", "/query", &[host, ("sec-fetch-site", "cross-site")], NotSite),
            ("GET", "/query", &[host, ("sec-fetch-site", "same-site")], NotSite),
            ("GET", "/query", &[host, ("sec-fetch-site", "of-tomorrow")], NotSite),
            ("POST", "/rest/sql", &[host, ("origin", own), ("sec-fetch-site", "cross-site")], NotSite),
            (
                "OPTIONS",
                "/api/v1/sql",
                &[host, ("origin", "https://evil.example"), ("access-control-request-method", "PUT")],
                NotOrigin,
            ),
            // A name rebound to this machine.
            ("GET", "/api/v1/sql", &[("host", "evil.example:8086"), ("sec-fetch-site", "same-origin")], NotHost),
            ("GET", "/api/v1/sql", &[host, ("host", "evil.example:8086")], NotHost),
            ("GET", "http://evil.example/api/v1/sql", &[host], NotHost),
            ("POST", "http://evil.example:1/arrow.flight.protocol.FlightService/DoGet", &[], NotHost),
            // An origin allowed by the settings.
            ("POST", "/api/v1/sql", &[host, ("origin", named), ("sec-fetch-site", "cross-site")], Shared),
            ("OPTIONS", "/api/v1/sql", &[host, ("origin", named)], Shared),
            (
                "OPTIONS",
                "/api/v1/sql",
                &[host, ("origin", named), ("access-control-request-method", "POST")],
                Preflight,
            ),
            ("POST", "/api/v1/sql", &[host, ("origin", named), ("origin", "https://evil.example")], NotOrigin),
            ("POST", "/api/v1/sql", &[host, ("origin", "https://grafana.example.evil.example")], NotOrigin),
            ("POST", "/api/v1/sql", &[host, ("origin", "http://grafana.example")], NotOrigin),
            ("POST", "/api/v1/sql", &[("host", "evil.example"), ("origin", named)], NotHost),
        ];
        let origins = origins(Some(&["db.example"]), &[named]);
        for (method, uri, pairs, expected) in cases {
            // `append`, because `collect` would keep only one value per name.
            let mut headers = HeaderMap::new();
            for (name, value) in *pairs {
                headers.append(*name, HeaderValue::from_static(value));
            }
            let uri: Uri = uri.parse().unwrap();
            let verdict = origins.decide(&method.parse().unwrap(), &uri, &headers);
            let is_right = match expected {
                Passed => matches!(verdict, Verdict::Pass),
                Shared => verdict == Verdict::Share(named),
                Preflight => verdict == Verdict::Preflight(named),
                NotHost => matches!(verdict, Verdict::Refuse(Refusal::Host(_))),
                NotOrigin => matches!(verdict, Verdict::Refuse(Refusal::Origin(_))),
                NotSite => matches!(verdict, Verdict::Refuse(Refusal::Site(_))),
            };
            assert!(is_right, "{method} {uri} {pairs:?}: {verdict:?}");
        }
    }

    #[test]
    fn every_answer_forbids_sniffing_and_only_those_to_named_origins_may_be_read_by_pages() {
        let origins = origins(None, &["https://a.example"]);
        let ask = |method: &str, pairs: &[(&'static str, &'static str)]| {
            let mut request = Request::builder().method(method).uri("/api/v1/sql").body(()).unwrap();
            *request.headers_mut() = head(pairs);
            origins.admit(&request).map_or_else(|refused| *refused, |marks| marks.on(Response::new(Body::empty())))
        };
        let of = |response: &Response, name: &str| response.headers().get(name).map(|v| v.to_str().unwrap().to_owned());
        let plain = ask("GET", &[("host", "x")]);
        assert_eq!((plain.status().as_u16(), of(&plain, "access-control-allow-origin")), (200, None));
        let shared = ask("GET", &[("host", "x"), ("origin", "https://a.example")]);
        assert_eq!(of(&shared, "access-control-allow-origin").unwrap(), "https://a.example");
        let asked = [("host", "x"), ("origin", "https://a.example"), ("access-control-request-method", "POST")];
        let preflight = ask("OPTIONS", &asked);
        assert_eq!(preflight.status(), 204);
        assert!(of(&preflight, "access-control-allow-headers").unwrap().contains("authorization"));
        assert_eq!(of(&preflight, "access-control-allow-credentials"), None);
        let refused = ask("GET", &[("host", "x"), ("origin", "https://b.example")]);
        assert_eq!((refused.status().as_u16(), of(&refused, "access-control-allow-origin")), (403, None));
        for response in [plain, shared, preflight, refused] {
            assert_eq!(of(&response, "x-content-type-options").unwrap(), "nosniff");
            assert_eq!(of(&response, "vary").unwrap(), "origin");
        }
    }
}
