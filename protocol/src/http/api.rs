//! Error responses of each API: status, body and headers in the form of the API's original server.

use std::fmt::Write as _;

use http::{HeaderValue, Response, StatusCode, header};
use serde_json::{Value, json};
use tidelake_format::{Error, Kind, Reason};

/// A supported API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Api {
    /// Tidelake's own: `{"error":{"kind":"invalid","message":"…"}}`.
    Tidelake,
    /// InfluxDB 1, all routes except `/write`: `{"error":"…"}`.
    Influx1,
    /// InfluxDB 1, `/write`: as [`Api::Influx1`], but a retryable error has the response on which every client retries.
    Influx1Write,
    /// InfluxDB 2: `{"code":"invalid","message":"…"}`.
    Influx2,
    /// OpenTSDB: `{"error":{"code":400,"message":"…","details":"…"}}`.
    OpenTsdb,
    /// TDengine's REST adapter: `{"code":9728,"desc":"…"}`, with status 200 if the statement is invalid.
    TdEngine,
    /// Flight SQL: a gRPC call, whose status is in the headers.
    Flight,
}

impl Api {
    /// The name of the protocol in metrics.
    pub fn protocol(self) -> &'static str {
        match self {
            Api::Tidelake => "tidelake",
            Api::Influx1 | Api::Influx1Write | Api::Influx2 => "influxdb",
            Api::OpenTsdb => "opentsdb",
            Api::TdEngine => "tdengine",
            Api::Flight => "flight",
        }
    }

    /// Status of the response when a handler fails with this kind of error.
    pub fn status(self, kind: Kind) -> StatusCode {
        use Api::*;
        match (kind, self) {
            (_, Flight) => StatusCode::OK,
            (Kind::Unauthenticated, _) => StatusCode::UNAUTHORIZED,
            (Kind::Corrupt | Kind::Internal, _) => StatusCode::INTERNAL_SERVER_ERROR,
            (Kind::Full, _) => StatusCode::INSUFFICIENT_STORAGE,
            (Kind::Conflict | Kind::Unavailable, Influx1Write) => StatusCode::INTERNAL_SERVER_ERROR,
            (Kind::Unavailable, _) | (Kind::Conflict, Influx1 | Influx2 | OpenTsdb) => StatusCode::SERVICE_UNAVAILABLE,
            (Kind::Invalid | Kind::NotFound | Kind::Conflict | Kind::Unsupported | Kind::Forbidden, TdEngine) => {
                StatusCode::OK
            }
            (Kind::Invalid, _) | (Kind::Unsupported, Influx1 | Influx1Write | Influx2 | OpenTsdb) => {
                StatusCode::BAD_REQUEST
            }
            (Kind::NotFound, _) => StatusCode::NOT_FOUND,
            (Kind::Forbidden, _) => StatusCode::FORBIDDEN,
            (Kind::Conflict, Tidelake) => StatusCode::CONFLICT,
            (Kind::Unsupported, Tidelake) => StatusCode::UNPROCESSABLE_ENTITY,
        }
    }

    /// The response of a handler that fails with an error.
    pub fn answer(self, error: &Error) -> Response<String> {
        self.answer_as(self.status(error.kind()), error)
    }

    /// The response to a request that is refused before it reaches its handler. The fault is the caller's identity or
    /// the server's, not the content of the request, so other failures, such as of the store, are retryable.
    pub fn refuse(self, error: &Error) -> Response<String> {
        let of_request = if self == Api::TdEngine { Api::Tidelake } else { self };
        match error.kind() {
            Kind::Unauthenticated | Kind::Forbidden | Kind::Corrupt | Kind::Internal | Kind::Full => {
                self.answer_as(of_request.status(error.kind()), error)
            }
            _ => self.answer_as(of_request.status(Kind::Unavailable), &Error::unavailable(error.to_string())),
        }
    }

    /// The response with a given status instead of that of the error's kind.
    pub fn answer_as(self, status: StatusCode, error: &Error) -> Response<String> {
        if self == Api::Flight {
            return refused_call(error);
        }
        let message = self.message(error);
        let body = match self {
            Api::Tidelake | Api::Flight => json!({ "error": { "kind": kind_name(error.kind()), "message": message } }),
            Api::Influx1 | Api::Influx1Write => json!({ "error": message }),
            Api::Influx2 => json!({ "code": influx2_code(status), "message": message }),
            Api::OpenTsdb => {
                json!({ "error": { "code": status.as_u16(), "message": message, "details": error.to_string() } })
            }
            Api::TdEngine => json!({ "code": tdengine_code(error), "desc": message }),
        };
        let mut response = json_answer(status, &body);
        if self == Api::Influx1Write
            && let Ok(line) = HeaderValue::from_str(&on_one_line(&message))
        {
            response.headers_mut().insert("x-influxdb-error", line);
        }
        response
    }

    fn message(self, error: &Error) -> String {
        match self {
            Api::Influx1Write if is_put_off(error.kind()) => "timeout".to_owned(),
            // The original servers' texts, which some clients compare.
            Api::Influx1Write | Api::Influx2 if error.kind() == Kind::NotFound => error.message().to_owned(),
            Api::OpenTsdb => error.message().to_owned(),
            _ => error.to_string(),
        }
    }
}

/// Whether `/write` answers an error of this kind only with a request to retry.
pub fn is_put_off(kind: Kind) -> bool {
    matches!(kind, Kind::Conflict | Kind::Unavailable)
}

/// A JSON response; has a `Retry-After` header if the same request may succeed later.
pub fn json_answer(status: StatusCode, body: &Value) -> Response<String> {
    let mut response = Response::new(body.to_string());
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let seconds = match status {
        StatusCode::CONFLICT | StatusCode::SERVICE_UNAVAILABLE => "1",
        // Longer, because an operator must free space first.
        StatusCode::INSUFFICIENT_STORAGE => "10",
        _ => return response,
    };
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static(seconds));
    response
}

/// Name of an error kind in responses of Tidelake's own API.
pub fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Invalid => "invalid",
        Kind::NotFound => "not_found",
        Kind::Conflict => "conflict",
        Kind::Unauthenticated => "unauthenticated",
        Kind::Forbidden => "forbidden",
        Kind::Unavailable => "unavailable",
        Kind::Full => "store_full",
        Kind::Unsupported => "unsupported",
        Kind::Corrupt => "corrupt",
        Kind::Internal => "internal",
    }
}

/// InfluxDB 2's error code for a status.
fn influx2_code(status: StatusCode) -> &'static str {
    match status {
        StatusCode::NOT_FOUND => "not found",
        StatusCode::UNAUTHORIZED => "unauthorized",
        StatusCode::FORBIDDEN => "forbidden",
        StatusCode::METHOD_NOT_ALLOWED => "method not allowed",
        StatusCode::PAYLOAD_TOO_LARGE => "request too large",
        StatusCode::SERVICE_UNAVAILABLE => "unavailable",
        StatusCode::INSUFFICIENT_STORAGE => "store full",
        StatusCode::INTERNAL_SERVER_ERROR => "internal error",
        _ => "invalid",
    }
}

/// TDengine's error number for the error. Clients of the REST interface depend on it.
fn tdengine_code(error: &Error) -> u16 {
    match error.reason() {
        Some(Reason::DatabaseNotSpecified) => 0x2616,
        Some(Reason::DatabaseNotFound) => 0x0388,
        Some(Reason::TableNotFound) => 0x2662,
        Some(Reason::ColumnNotFound) => 0x2602,
        Some(Reason::DatabaseExists) => 0x0381,
        Some(Reason::TableExists) => 0x0360,
        None => match error.kind() {
            Kind::NotFound => 0x2603,
            Kind::Invalid => 0x2600,
            Kind::Conflict => 0x03d3,
            Kind::Unauthenticated => 0x0357,
            Kind::Forbidden => 0x2644,
            Kind::Unavailable | Kind::Full => 0x000b,
            Kind::Unsupported => 0x0100,
            Kind::Corrupt | Kind::Internal => 0xffff,
        },
    }
}

/// The gRPC status code of an error kind.
pub fn grpc_code(kind: Kind) -> u8 {
    match kind {
        Kind::Invalid => 3,
        Kind::NotFound => 5,
        Kind::Forbidden => 7,
        Kind::Full => 8,
        Kind::Conflict => 10,
        Kind::Unsupported => 12,
        Kind::Internal => 13,
        Kind::Unavailable => 14,
        Kind::Corrupt => 15,
        Kind::Unauthenticated => 16,
    }
}

/// The response to a gRPC call that is refused.
fn refused_call(error: &Error) -> Response<String> {
    // Percent-encoded; most ASCII characters stay unchanged.
    let mut message = String::new();
    for byte in error.to_string().bytes() {
        match byte {
            b' '..=b'~' if byte != b'%' => message.push(char::from(byte)),
            // Writing to a String cannot fail.
            _ => write!(message, "%{byte:02X}").unwrap_or_default(),
        }
    }
    let mut response = Response::new(String::new());
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    headers.insert("grpc-status", HeaderValue::from(u16::from(grpc_code(error.kind()))));
    if let Ok(message) = HeaderValue::from_str(&message) {
        headers.insert("grpc-message", message);
    }
    response
}

fn on_one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_ascii() && !c.is_ascii_control() { c } else { ' ' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const APIS: [Api; 6] = [Api::Tidelake, Api::Influx1, Api::Influx1Write, Api::Influx2, Api::OpenTsdb, Api::TdEngine];
    const KINDS: [Kind; 10] = [
        Kind::Invalid,
        Kind::NotFound,
        Kind::Conflict,
        Kind::Unauthenticated,
        Kind::Forbidden,
        Kind::Unavailable,
        Kind::Full,
        Kind::Corrupt,
        Kind::Unsupported,
        Kind::Internal,
    ];

    fn body(response: &Response<String>) -> Value {
        serde_json::from_str(response.body()).unwrap()
    }

    #[test]
    fn a_mistake_of_the_client_is_never_a_fault_of_the_server() {
        for api in APIS {
            for kind in KINDS {
                let status = api.status(kind);
                assert_eq!(kind.is_callers(), !status.is_server_error() && kind != Kind::Conflict, "{api:?} {kind:?}");
                let response = api.answer(&Error::new(kind, "x"));
                assert_eq!(response.status(), status);
                let waits = response.headers().contains_key(header::RETRY_AFTER);
                // `/write` says "timeout", and TDengine's clients read the code.
                let is_told_otherwise = api == Api::Influx1Write || (api == Api::TdEngine && kind == Kind::Conflict);
                assert_eq!(
                    waits,
                    kind.is_retryable() && (!is_told_otherwise || kind == Kind::Full),
                    "{api:?} {kind:?}"
                );
            }
        }
    }

    #[test]
    fn each_api_answers_in_its_own_form() {
        let error = Error::not_found("no such table").because(Reason::TableNotFound).with("table", "t");
        let told = "no such table (table: t)";
        for (api, status, expected) in [
            (Api::Tidelake, 404, json!({ "error": { "kind": "not_found", "message": told } })),
            (Api::Influx1, 404, json!({ "error": told })),
            (Api::Influx1Write, 404, json!({ "error": "no such table" })),
            (Api::Influx2, 404, json!({ "code": "not found", "message": "no such table" })),
            (Api::OpenTsdb, 404, json!({ "error": { "code": 404, "message": "no such table", "details": told } })),
            (Api::TdEngine, 200, json!({ "code": 9_826, "desc": told })),
        ] {
            let response = api.answer(&error);
            assert_eq!((response.status().as_u16(), body(&response)), (status, expected), "{api:?}");
            assert_eq!(response.headers()[header::CONTENT_TYPE], "application/json");
        }
        assert_eq!(Api::TdEngine.refuse(&error).status(), 503);
        assert_eq!(Api::TdEngine.refuse(&Error::forbidden("x")).status(), 403);
        assert_eq!(body(&Api::Influx1Write.refuse(&Error::conflict("x"))), json!({ "error": "timeout" }));
        let response = Api::Influx1Write.answer(&Error::unavailable("the buffer is full"));
        assert_eq!((response.status().as_u16(), body(&response)), (500, json!({ "error": "timeout" })));
        assert_eq!(response.headers()["x-influxdb-error"], "timeout");
        let response = Api::Influx1Write.answer(&Error::invalid("a\nb\u{e9}"));
        assert_eq!(response.headers()["x-influxdb-error"], "a b ");
    }

    #[test]
    fn a_refused_call_has_its_status_in_the_headers() {
        let response = Api::Flight.answer(&Error::forbidden("50 % of caf\u{e9}"));
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["grpc-status"], "7");
        assert_eq!(response.headers()["grpc-message"], "50 %25 of caf%C3%A9");
    }

    #[test]
    fn a_mistake_has_the_number_that_tdengine_gives_it() {
        let not_found = || Error::not_found("x");
        let invalid = || Error::invalid("x");
        for (error, code) in [
            (invalid(), 9_728),
            (not_found(), 9_731),
            (not_found().because(Reason::TableNotFound), 9_826),
            (not_found().because(Reason::DatabaseNotFound), 904),
            (not_found().because(Reason::ColumnNotFound), 9_730),
            (invalid().because(Reason::TableExists), 864),
            (invalid().because(Reason::DatabaseExists), 897),
            (invalid().because(Reason::DatabaseNotSpecified), 9_750),
            (Error::unauthenticated("x"), 855),
        ] {
            assert_eq!(tdengine_code(&error), code, "{error:?}");
        }
    }
}
