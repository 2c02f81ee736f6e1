//! A route: the form of its requests and the right they need.

use http::Method;
use tidelake_format::{Result, access::Right, nearest::unknown_parameter};

use super::{Api, routes::ALL};

/// Query parameters that authenticate a request; every route accepts them.
const OF_SENDERS: [&str; 3] = ["u", "p", "token"];

/// One method of one path.
#[derive(Debug)]
pub struct Route {
    /// The method; a GET is answered to HEAD as well, without its body.
    pub method: Method,
    /// The path; `{name}` matches one segment, `{*name}` the rest of the path.
    pub path: &'static str,
    /// The right that the caller needs. All routes of one path need the same right.
    pub right: Right,
    /// The API whose clients send requests to it.
    pub api: Api,
    /// The body of a request.
    pub body: Body,
    /// The parameters of a request.
    pub parameters: &'static [Parameter],
    /// Query parameters that clients of this API send and that have no effect here.
    pub ignored: &'static [&'static str],
    /// The route's entry in the OpenAPI document; `None` for another spelling of a route and for gRPC.
    pub document: Option<Document>,
}

/// The body of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Body {
    /// No body is read.
    None,
    /// Rows, read piece by piece within the ingest buffer; the setting `max_body` is the limit.
    Rows(&'static str),
    /// A file, copied to a temporary file piece by piece; the setting `max_bulk` is the limit.
    File(&'static str),
    /// A statement of at most [`MAX_STATEMENT_BYTES`](super::routes::MAX_STATEMENT_BYTES), counted in the statement buffer.
    Statement(&'static str),
    /// A body of at most this many bytes.
    Short(usize, &'static str),
    /// A stream of gRPC messages.
    Messages,
}

impl Body {
    /// The OpenAPI component that describes the body.
    pub fn component(self) -> Option<&'static str> {
        match self {
            Body::None | Body::Messages => None,
            Body::Rows(component) | Body::File(component) | Body::Statement(component) | Body::Short(_, component) => {
                Some(component)
            }
        }
    }
}

/// A parameter of a request, described by an OpenAPI component.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parameter {
    /// Location in the request.
    pub place: Place,
    /// Name of the parameter.
    pub name: &'static str,
    /// Name of the OpenAPI component.
    pub component: &'static str,
}

/// Location of a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The query string.
    Query,
    /// The path.
    Path,
    /// The headers.
    Header,
}

/// Fields of a route's entry in the OpenAPI document that [`Route`] lacks.
#[derive(Debug, Clone, Copy)]
pub struct Document {
    /// A unique name for generated clients.
    pub operation: &'static str,
    /// The group of routes.
    pub tag: &'static str,
    /// One-line summary.
    pub summary: &'static str,
    /// Further description; may be empty.
    pub description: &'static str,
    /// Each status with the OpenAPI component that describes the response.
    pub answers: &'static [(u16, &'static str)],
}

impl Route {
    /// A route of Tidelake's own API without parameters and body, which the OpenAPI document does not have.
    pub(super) const fn tidelake(method: Method, path: &'static str, right: Right) -> Self {
        Self {
            method,
            path,
            right,
            api: Api::Tidelake,
            body: Body::None,
            parameters: &[],
            ignored: &[],
            document: None,
        }
    }

    /// The route with a body.
    pub(super) const fn with_body(mut self, body: Body) -> Self {
        self.body = body;
        self
    }

    /// The route with parameters.
    pub(super) const fn with_parameters(mut self, parameters: &'static [Parameter]) -> Self {
        self.parameters = parameters;
        self
    }

    /// The route with its entry in the OpenAPI document.
    pub(super) const fn described(mut self, document: Document) -> Self {
        self.document = Some(document);
        self
    }

    /// Whether requests have no query parameters but those that authenticate. The pages of the web console are no such routes:
    /// links to them may have parameters.
    pub fn has_no_query(&self) -> bool {
        let has_query = self.parameters.iter().any(|one| one.place == Place::Query) || !self.ignored.is_empty();
        !has_query && self.document.is_some()
    }

    /// Rejects an unknown query parameter: ignoring a misspelt one would change the meaning of the request.
    ///
    /// # Errors
    /// Invalid, with the name and the nearest known name.
    pub fn check_parameter(&self, name: &str) -> Result<()> {
        let in_query = || self.parameters.iter().filter(|one| one.place == Place::Query).map(|one| one.name);
        if in_query().any(|known| known == name) || self.ignored.contains(&name) || OF_SENDERS.contains(&name) {
            return Ok(());
        }
        let known: Vec<&str> = in_query().chain(self.ignored.iter().copied()).collect();
        Err(unknown_parameter(name, &known))
    }

    /// The route of a request.
    pub fn of(method: &Method, path: &str) -> Option<&'static Route> {
        let mut same = ALL.into_iter().filter(|route| route.method == *method);
        same.clone().find(|route| route.path == path).or_else(|| same.find(|route| route.matches(path)))
    }

    /// One of the routes of a path, whatever the method.
    fn of_path(path: &str) -> Option<&'static Route> {
        ALL.into_iter().find(|route| route.path == path).or_else(|| ALL.into_iter().find(|route| route.matches(path)))
    }

    /// The API whose clients send requests to a path.
    pub fn api_of(path: &str) -> Api {
        Self::of_path(path).map_or(Api::Tidelake, |route| route.api)
    }

    /// The path of a request for logs: for a login, whose path holds a password, the pattern of the route.
    pub fn shown(path: &str) -> &str {
        let begins = |route: &Route| route.path.split_once('{').is_some_and(|(start, _)| path.starts_with(start));
        ALL.into_iter().find(|route| route.right == Right::Login && begins(route)).map_or(path, |route| route.path)
    }

    fn matches(&self, path: &str) -> bool {
        if !self.path.contains('{') {
            return false;
        }
        let (mut pattern, mut parts) = (self.path.split('/'), path.split('/'));
        loop {
            match (pattern.next(), parts.next()) {
                (Some(name), Some(_)) if name.starts_with("{*") => return true,
                (Some(name), Some(part)) if name.starts_with('{') && !part.is_empty() => {}
                (Some(name), Some(part)) if name == part => {}
                (None, None) => return true,
                _ => return false,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::routes;

    #[test]
    fn the_route_of_a_path_is_found_by_its_pattern() {
        for (path, expected) in [
            ("/write", Some(&routes::WRITE)),
            ("/rest/sql", Some(&routes::REST_SQL)),
            ("/rest/sql/", Some(&routes::REST_SQL_SLASH)),
            ("/rest/sql/home", Some(&routes::REST_SQL_IN)),
            ("/rest/sql/home/x", None),
            ("/rest/login/ada/secret", Some(&routes::REST_LOGIN)),
            ("/rest/login/ada", None),
            ("/arrow.flight.protocol.FlightService/DoGet", Some(&routes::FLIGHT)),
            ("/arrow.flight.protocol.FlightService/Handshake", Some(&routes::FLIGHT_HANDSHAKE)),
            ("/opentsdb/v1/put/json/{db}", Some(&routes::PUT_INTO)),
            ("/writes", None),
            ("/", Some(&routes::CONSOLE)),
            ("/assets/a/b.js", Some(&routes::CONSOLE_FILE)),
            ("/assets", None),
            ("", None),
        ] {
            if let Some(expected) = expected {
                assert_eq!(Route::of(&expected.method, path).map(|route| route.path), Some(expected.path), "{path}");
            }
            assert_eq!(Route::of_path(path).map(|route| route.path), expected.map(|route| route.path), "{path}");
        }
    }

    #[test]
    fn the_route_of_a_request_is_that_of_its_method() {
        for (method, body) in [(Method::GET, Body::None), (Method::POST, Body::Statement("Statement"))] {
            assert_eq!(Route::of(&method, "/api/v1/sql").map(|route| route.body), Some(body));
        }
        assert!(Route::of(&Method::PUT, "/api/v1/sql").is_none());
    }

    #[test]
    fn logs_do_not_show_a_password_of_the_path() {
        for path in ["/rest/login/ada/secret", "/rest/login/ada/secret/with/slashes", "/rest/login/"] {
            assert_eq!(Route::shown(path), "/rest/login/{user}/{password}");
        }
        assert_eq!(Route::shown("/rest/sql/home"), "/rest/sql/home");
        assert_eq!(Route::shown("/nowhere"), "/nowhere");
    }

    #[test]
    fn a_misspelt_parameter_is_refused_with_the_nearest_name() {
        for known in ["db", "precision", "consistency", "u", "p", "token"] {
            routes::WRITE.check_parameter(known).unwrap();
        }
        let error = routes::WRITE.check_parameter("precison").unwrap_err();
        assert_eq!(error.context("did you mean"), Some("precision"));
        // A header is none of the query string.
        assert!(routes::WRITE.check_parameter("idempotency-key").is_err());
    }

    #[test]
    fn the_page_on_http_lists_every_route_and_its_right() {
        let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/clients/http.md")).unwrap();
        let rows = ALL.into_iter().filter_map(|route| {
            let summary = route.document?.summary;
            let who = match route.right {
                Right::Open => "everybody",
                Right::Login => "a user, by password or token",
                Right::AnyUser => "a user",
                Right::Administrator => "an administrator",
            };
            Some(format!("| `{} {}` | {who} | {summary} |\n", route.method, route.path))
        });
        let table = format!("| route | for | |\n|---|---|---|\n{}\n", rows.collect::<String>());
        assert!(page.contains(&table), "expected this table:\n{table}");
    }
}
