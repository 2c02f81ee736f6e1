//! The table of routes. Each handler is registered for one of them; the router, the right that is checked before the handler,
//! the limit of the body, the names that the query string may have, and the OpenAPI document come from here.

mod operations;

use http::Method;
use tidelake_format::access::Right;

use super::{
    Api, Body, Document, Route,
    parameters::{
        BUCKET, CONSISTENCY, DATABASE, DATABASE_HEADER, DETAILS, ENCODING, FORMAT_OF_ROWS, IMPLAUSIBLE_TIMES, KEY,
        LEVELS_HEADER, LOGIN_PASSWORD, LOGIN_USER, MAX_ROWS, NO_SYNC, ORGANISATION, PARAMETERS_OF_STATEMENT,
        POINTS_DATABASE, POINTS_DATABASE_OF_PATH, PRECISION, REQUEST_NUMBER, REST_DATABASE, REST_ZONE, REST_ZONE_ALIAS,
        RETENTION, ROW_WITH_META, SCHEMA_HEADER, SQL, SQL_ALIAS, SQL_DATABASE, SQL_DATABASE_ALIAS, STATEMENTS, SUMMARY,
        TIME_ZONE, TIME_ZONE_ALIAS, TOKEN_HEADER, VERBOSE, ZONE_HEADER,
    },
};

pub use self::operations::*;

/// The longest statement of a request, in bytes: an INSERT holds many rows.
pub const MAX_STATEMENT_BYTES: usize = 64 << 20;
/// The longest form of `POST /query`, in bytes.
pub const MAX_FORM_BYTES: usize = 1 << 20;
/// The longest filter of the log, in bytes.
pub const MAX_FILTER_BYTES: usize = 2 << 20;
/// What the paths of Flight's methods begin with.
pub const FLIGHT_PREFIX: &str = "/arrow.flight.protocol.FlightService/";

/// The answers of a route: each status and the component that describes the answer.
type Answers = &'static [(u16, &'static str)];

/// Every route.
pub static ALL: [&Route; 24] = [
    &WRITE,
    &WRITE_BESIDE_TDENGINE,
    &WRITE_BUCKET,
    &PUT,
    &PUT_INTO,
    &QUERY_GET,
    &QUERY_POST,
    &PING,
    &SQL_GET,
    &SQL_POST,
    &REST_SQL,
    &REST_SQL_SLASH,
    &REST_SQL_IN,
    &REST_LOGIN,
    &HEALTH,
    &READY,
    &METRICS,
    &COMPACT,
    &FILES,
    &LOG_GET,
    &LOG_PUT,
    &OPENAPI,
    &FLIGHT_HANDSHAKE,
    &FLIGHT,
];

const WRITE_ANSWERS: Answers = &[
    (204, "WrittenV1"),
    (400, "InvalidV1"),
    (401, "UnauthenticatedV1"),
    (403, "ForbiddenV1"),
    (404, "NotFoundV1"),
    (413, "TooLargeV1"),
    (500, "TimeoutV1"),
    (503, "UnavailableV1"),
    (507, "StoreFull"),
];
const PUT_ANSWERS: Answers = &[
    (200, "Points"),
    (204, "PointsWritten"),
    (400, "PointsInvalid"),
    (401, "UnauthenticatedPoints"),
    (403, "PointsForbidden"),
    (404, "PointsNotFound"),
    (413, "PointsTooLarge"),
    (500, "InternalPoints"),
    (503, "UnavailablePoints"),
    (507, "StoreFull"),
];
const REST_ANSWERS: Answers = &[
    (200, "RestAnswer"),
    (400, "RestInvalid"),
    (401, "RestUnauthenticated"),
    (413, "RestTooLarge"),
    (500, "RestInternal"),
    (503, "RestUnavailable"),
    (507, "StoreFull"),
];

/// `POST /write`.
pub static WRITE: Route = Route {
    method: Method::POST,
    path: "/write",
    right: Right::AnyUser,
    api: Api::Influx1Write,
    body: Body::Rows("Lines"),
    parameters: &[DATABASE, PRECISION, IMPLAUSIBLE_TIMES, NO_SYNC, RETENTION, CONSISTENCY, KEY, ENCODING],
    ignored: &[],
    document: Some(Document {
        operation: "write",
        tag: "write",
        summary: "Write line protocol, as InfluxDB 1 takes it",
        description: "",
        answers: WRITE_ANSWERS,
    }),
};

/// `POST /influxdb/v1/write`.
pub static WRITE_BESIDE_TDENGINE: Route = Route {
    method: Method::POST,
    path: "/influxdb/v1/write",
    right: Right::AnyUser,
    api: Api::Influx1Write,
    body: Body::Rows("Lines"),
    parameters: WRITE.parameters,
    ignored: &[],
    document: Some(Document {
        operation: "writeBesideTdengine",
        tag: "write",
        summary: "Write line protocol, as InfluxDB 1 takes it",
        description: "",
        answers: WRITE_ANSWERS,
    }),
};

/// `POST /api/v2/write`.
pub static WRITE_BUCKET: Route = Route {
    method: Method::POST,
    path: "/api/v2/write",
    right: Right::AnyUser,
    api: Api::Influx2,
    body: Body::Rows("Lines"),
    parameters: &[BUCKET, ORGANISATION, PRECISION, IMPLAUSIBLE_TIMES, NO_SYNC, KEY, ENCODING],
    ignored: &["consistency", "orgID"],
    document: Some(Document {
        operation: "writeBucket",
        tag: "write",
        summary: "Write line protocol, as InfluxDB 2 takes it",
        description: "",
        answers: &[
            (204, "WrittenV1"),
            (400, "InvalidV2"),
            (401, "UnauthenticatedV2"),
            (403, "ForbiddenV2"),
            (404, "NotFoundV2"),
            (413, "TooLargeV2"),
            (500, "InternalV2"),
            (503, "UnavailableV2"),
            (507, "StoreFull"),
        ],
    }),
};

/// `POST /api/put`.
pub static PUT: Route = Route {
    method: Method::POST,
    path: "/api/put",
    right: Right::AnyUser,
    api: Api::OpenTsdb,
    body: Body::Rows("Points"),
    parameters: &[POINTS_DATABASE, SUMMARY, DETAILS, NO_SYNC, KEY, ENCODING],
    ignored: &["sync", "sync_timeout"],
    document: Some(Document {
        operation: "put",
        tag: "write",
        summary: "Write data points, as OpenTSDB takes them",
        description: "",
        answers: PUT_ANSWERS,
    }),
};

/// `POST /opentsdb/v1/put/json/{db}`.
pub static PUT_INTO: Route = Route {
    method: Method::POST,
    path: "/opentsdb/v1/put/json/{db}",
    right: Right::AnyUser,
    api: Api::OpenTsdb,
    body: Body::Rows("Points"),
    parameters: &[POINTS_DATABASE_OF_PATH, SUMMARY, DETAILS, NO_SYNC, KEY, ENCODING],
    ignored: &["db", "sync", "sync_timeout"],
    document: Some(Document {
        operation: "putInto",
        tag: "write",
        summary: "Write data points, as OpenTSDB takes them",
        description: "",
        answers: PUT_ANSWERS,
    }),
};

/// `GET /query`.
pub static QUERY_GET: Route = Route {
    method: Method::GET,
    path: "/query",
    right: Right::AnyUser,
    api: Api::Influx1,
    body: Body::None,
    parameters: &[STATEMENTS],
    ignored: &["db", "rp", "epoch", "pretty", "chunked", "chunk_size", "params", "consistency"],
    document: Some(Document {
        operation: "manage",
        tag: "write",
        summary: "List databases, as InfluxDB 1 does",
        description: "",
        answers: &[
            (200, "Managed"),
            (400, "ManageInvalid"),
            (401, "UnauthenticatedV1"),
            (405, "ManageWrongMethod"),
            (500, "InternalV1"),
            (503, "UnavailableV1"),
            (507, "StoreFull"),
        ],
    }),
};

/// `POST /query`.
pub static QUERY_POST: Route = Route {
    method: Method::POST,
    path: "/query",
    right: Right::AnyUser,
    api: Api::Influx1,
    body: Body::Short(MAX_FORM_BYTES, "StatementsForm"),
    parameters: &[STATEMENTS, ENCODING],
    ignored: &["db", "rp", "epoch", "pretty", "chunked", "chunk_size", "params", "consistency"],
    document: Some(Document {
        operation: "manageByForm",
        tag: "write",
        summary: "Create, drop and list databases, as InfluxDB 1 does",
        description: "",
        answers: &[
            (200, "Managed"),
            (400, "ManageInvalid"),
            (401, "UnauthenticatedV1"),
            (413, "ManageTooLarge"),
            (500, "InternalV1"),
            (503, "UnavailableV1"),
            (507, "StoreFull"),
        ],
    }),
};

/// `GET /ping`.
pub static PING: Route = Route {
    method: Method::GET,
    path: "/ping",
    right: Right::Open,
    api: Api::Influx1,
    body: Body::None,
    parameters: &[VERBOSE],
    ignored: &[],
    document: Some(Document {
        operation: "ping",
        tag: "operations",
        summary: "Is anybody there?",
        description: "",
        answers: &[(204, "Pong"), (200, "PongVersion")],
    }),
};

/// `GET /api/v1/sql`.
pub static SQL_GET: Route = Route {
    method: Method::GET,
    path: "/api/v1/sql",
    right: Right::AnyUser,
    api: Api::Tidelake,
    body: Body::None,
    parameters: &[
        SQL,
        SQL_ALIAS,
        SQL_DATABASE,
        SQL_DATABASE_ALIAS,
        TIME_ZONE,
        TIME_ZONE_ALIAS,
        FORMAT_OF_ROWS,
        MAX_ROWS,
        PARAMETERS_OF_STATEMENT,
        DATABASE_HEADER,
        SCHEMA_HEADER,
        ZONE_HEADER,
        LEVELS_HEADER,
        TOKEN_HEADER,
    ],
    ignored: &[],
    document: Some(Document {
        operation: "ask",
        tag: "sql",
        summary: "Run a statement that reads",
        description: "",
        answers: &[
            (200, "SqlRows"),
            (400, "SqlInvalid"),
            (401, "Unauthenticated"),
            (403, "SqlForbidden"),
            (404, "SqlNotFound"),
            (405, "SqlWrongMethod"),
            (409, "SqlConflict"),
            (422, "SqlUnsupported"),
            (500, "Internal"),
            (503, "Unavailable"),
            (507, "StoreFull"),
        ],
    }),
};

/// `POST /api/v1/sql`.
pub static SQL_POST: Route = Route {
    method: Method::POST,
    path: "/api/v1/sql",
    right: Right::AnyUser,
    api: Api::Tidelake,
    body: Body::Statement("Statement"),
    parameters: &[
        SQL,
        SQL_ALIAS,
        SQL_DATABASE,
        SQL_DATABASE_ALIAS,
        TIME_ZONE,
        TIME_ZONE_ALIAS,
        FORMAT_OF_ROWS,
        MAX_ROWS,
        PARAMETERS_OF_STATEMENT,
        DATABASE_HEADER,
        SCHEMA_HEADER,
        ZONE_HEADER,
        LEVELS_HEADER,
        TOKEN_HEADER,
        KEY,
    ],
    ignored: &[],
    document: Some(Document {
        operation: "run",
        tag: "sql",
        summary: "Run a statement",
        description: "What the query string says goes over the body. A statement that reads has 4 MiB at most, one that writes 64 MiB. A body that begins with `{` is JSON whatever its type is; a form begins with `q`, `sql`, `db`, `database` or `format`; anything else is the statement.",
        answers: &[
            (200, "SqlRows"),
            (400, "SqlInvalid"),
            (401, "Unauthenticated"),
            (403, "SqlForbidden"),
            (404, "SqlNotFound"),
            (409, "SqlConflict"),
            (413, "SqlTooLarge"),
            (415, "SqlPacked"),
            (422, "SqlUnsupported"),
            (500, "Internal"),
            (503, "Unavailable"),
            (507, "StoreFull"),
        ],
    }),
};

/// `POST /rest/sql`.
pub static REST_SQL: Route = Route {
    method: Method::POST,
    path: "/rest/sql",
    right: Right::AnyUser,
    api: Api::TdEngine,
    body: Body::Statement("RestStatement"),
    parameters: &[
        REST_ZONE,
        REST_ZONE_ALIAS,
        ROW_WITH_META,
        REQUEST_NUMBER,
        DATABASE_HEADER,
        SCHEMA_HEADER,
        ZONE_HEADER,
        LEVELS_HEADER,
        TOKEN_HEADER,
        KEY,
    ],
    ignored: &[],
    document: Some(Document {
        operation: "rest",
        tag: "sql",
        summary: "Run a statement, as TDengine's adapter does",
        description: "A mistake in the statement is told with status 200 and a `code` that is not 0. Text in double quotes is a string here. `/rest/sql/` is the same.",
        answers: REST_ANSWERS,
    }),
};

/// The same under another spelling.
pub static REST_SQL_SLASH: Route = Route {
    method: Method::POST,
    path: "/rest/sql/",
    right: Right::AnyUser,
    api: Api::TdEngine,
    body: REST_SQL.body,
    parameters: REST_SQL.parameters,
    ignored: REST_SQL.ignored,
    document: None,
};

/// `POST /rest/sql/{db}`.
pub static REST_SQL_IN: Route = Route {
    method: Method::POST,
    path: "/rest/sql/{db}",
    right: Right::AnyUser,
    api: Api::TdEngine,
    body: Body::Statement("RestStatement"),
    parameters: &[
        REST_DATABASE,
        REST_ZONE,
        REST_ZONE_ALIAS,
        ROW_WITH_META,
        REQUEST_NUMBER,
        DATABASE_HEADER,
        SCHEMA_HEADER,
        ZONE_HEADER,
        LEVELS_HEADER,
        TOKEN_HEADER,
        KEY,
    ],
    ignored: &[],
    document: Some(Document {
        operation: "restIn",
        tag: "sql",
        summary: "Run a statement, as TDengine's adapter does",
        description: "A mistake in the statement is told with status 200 and a `code` that is not 0. Text in double quotes is a string here.",
        answers: REST_ANSWERS,
    }),
};

/// `GET /rest/login/{user}/{password}`.
pub static REST_LOGIN: Route = Route {
    method: Method::GET,
    path: "/rest/login/{user}/{password}",
    right: Right::Login,
    api: Api::TdEngine,
    body: Body::None,
    parameters: &[LOGIN_USER, LOGIN_PASSWORD],
    ignored: &[],
    document: Some(Document {
        operation: "login",
        tag: "sql",
        summary: "Begin a session",
        description: "Credentials of the path stand in logs of proxies; those of the Authorization header go before them.",
        answers: &[(200, "LoggedIn"), (401, "RestUnauthenticated"), (500, "RestInternal"), (503, "RestUnavailable")],
    }),
};

/// Flight: begins a session.
pub static FLIGHT_HANDSHAKE: Route = Route {
    method: Method::POST,
    path: "/arrow.flight.protocol.FlightService/Handshake",
    right: Right::Login,
    api: Api::Flight,
    body: Body::Messages,
    parameters: &[],
    ignored: &[],
    document: None,
};

/// Flight: every other method; the right that a command or an action needs is checked where it runs.
pub static FLIGHT: Route = Route {
    method: Method::POST,
    path: "/arrow.flight.protocol.FlightService/{*method}",
    right: Right::AnyUser,
    api: Api::Flight,
    body: Body::Messages,
    parameters: &[],
    ignored: &[],
    document: None,
};
