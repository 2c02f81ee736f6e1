//! The table of routes. Each handler is registered for one route. The router, the right checked before the handler, the
//! body limit, the known query parameters and the OpenAPI document come from this table.

mod operations;
mod saved;

use http::Method;
use tidelake_format::access::Right;

use super::{
    Api, Body, Document, Route,
    parameters::{
        BUCKET, CONSISTENCY, DATABASE, DATABASE_HEADER, DETAILS, ENCODING, FILE_FORMAT, FILE_NULL, FILE_OVERWRITE,
        FILE_PRECISION, FILE_PREVIEW, FILE_TABLE, FILE_TAGS, FILE_TIME, FILE_TYPES, FORMAT_OF_ROWS, IMPLAUSIBLE_TIMES,
        KEY, LEVELS_HEADER, LOGIN_PASSWORD, LOGIN_USER, MAX_ROWS, NO_SYNC, ORGANISATION, PARAMETERS_OF_STATEMENT,
        POINTS_DATABASE, POINTS_DATABASE_OF_PATH, PRECISION, QUERY_HEADER, QUERY_ID, REQUEST_NUMBER, REST_DATABASE,
        REST_ZONE, REST_ZONE_ALIAS, RETENTION, ROW_WITH_META, SCHEMA_HEADER, SQL, SQL_ALIAS, SQL_DATABASE,
        SQL_DATABASE_ALIAS, STATEMENTS, SUMMARY, TIME_ZONE, TIME_ZONE_ALIAS, TOKEN_HEADER, VERBOSE, ZONE_HEADER,
    },
};

pub use self::{operations::*, saved::*};

/// Longest statement of a request, in bytes; large because an INSERT holds many rows.
pub const MAX_STATEMENT_BYTES: usize = 64 << 20;
/// Longest form of `POST /query`, in bytes.
pub const MAX_FORM_BYTES: usize = 1 << 20;
/// Longest log filter, in bytes.
pub const MAX_FILTER_BYTES: usize = 2 << 20;
/// Largest body of a request that creates the first user.
pub const MAX_FIRST_USER_BYTES: usize = 8 << 10;
/// Path prefix of Flight methods.
pub const FLIGHT_PREFIX: &str = "/arrow.flight.protocol.FlightService/";

/// Responses of a route: each status with the OpenAPI component that describes the response.
type Answers = &'static [(u16, &'static str)];

/// Every route.
pub static ALL: [&Route; 39] = [
    &WRITE,
    &WRITE_BESIDE_TDENGINE,
    &WRITE_BUCKET,
    &PUT,
    &PUT_INTO,
    &IMPORT,
    &QUERY_GET,
    &QUERY_POST,
    &PING,
    &SQL_GET,
    &SQL_POST,
    &REST_SQL,
    &REST_SQL_SLASH,
    &REST_SQL_IN,
    &REST_LOGIN,
    &QUERY_EVENTS,
    &SAVED_LIST,
    &SAVED_PUT,
    &SAVED_DELETE,
    &HEALTH,
    &READY,
    &METRICS,
    &NODE,
    &NODE_EVENTS,
    &COMPACT,
    &CHECK,
    &FILES,
    &LOG_GET,
    &LOG_PUT,
    &OPENAPI,
    &CONSOLE,
    &CONSOLE_FILE,
    &LOGIN,
    &LOGOUT,
    &WHOAMI,
    &FIRST_USER_GET,
    &FIRST_USER_POST,
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
        summary: "Write line protocol (InfluxDB 1)",
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
        summary: "Write line protocol (InfluxDB 1)",
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
        summary: "Write line protocol (InfluxDB 2)",
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
        summary: "Write data points (OpenTSDB)",
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
        summary: "Write data points (OpenTSDB)",
        description: "",
        answers: PUT_ANSWERS,
    }),
};

/// `POST /api/v1/import`.
pub static IMPORT: Route = Route {
    method: Method::POST,
    path: "/api/v1/import",
    right: Right::AnyUser,
    api: Api::Tidelake,
    body: Body::File("File"),
    parameters: &[
        DATABASE,
        FILE_TABLE,
        FILE_FORMAT,
        FILE_TAGS,
        FILE_TIME,
        FILE_PRECISION,
        FILE_NULL,
        FILE_TYPES,
        FILE_OVERWRITE,
        FILE_PREVIEW,
        IMPLAUSIBLE_TIMES,
        TOKEN_HEADER,
        KEY,
        ENCODING,
    ],
    ignored: &[],
    document: Some(Document {
        operation: "importFile",
        tag: "write",
        summary: "Import a file, or preview it",
        description: "The rows of a CSV, NDJSON or Parquet file become visible all at once. Nothing is written if a row cannot be read, or if two rows have the same series and time, unless `overwrite=true`.",
        answers: &[
            (200, "FileImported"),
            (400, "FileInvalid"),
            (401, "Unauthenticated"),
            (403, "FileForbidden"),
            (404, "SqlNotFound"),
            (409, "SqlConflict"),
            (413, "FileTooLarge"),
            (422, "SqlUnsupported"),
            (500, "Internal"),
            (503, "Unavailable"),
            (507, "StoreFull"),
        ],
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
        summary: "List databases (InfluxDB 1)",
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
        summary: "Create, drop and list databases (InfluxDB 1)",
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
    ignored: &["wait_for_leader"],
    document: Some(Document {
        operation: "ping",
        tag: "operations",
        summary: "Test whether the server responds",
        description: "",
        answers: &[(204, "Pong"), (200, "PongVersion"), (400, "InvalidV1")],
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
        QUERY_HEADER,
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
        QUERY_HEADER,
        KEY,
    ],
    ignored: &[],
    document: Some(Document {
        operation: "run",
        tag: "sql",
        summary: "Run a statement",
        description: "The query string takes precedence over the body. Limits: 4 MiB for a statement that reads, 64 MiB for one that writes. A body that begins with `{` is JSON whatever its Content-Type; a form begins with `q`, `sql`, `db`, `database` or `format`; any other body is the statement.",
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

/// `GET /api/v1/queries/{id}/events`.
pub static QUERY_EVENTS: Route = Route {
    method: Method::GET,
    path: "/api/v1/queries/{id}/events",
    right: Right::AnyUser,
    api: Api::Tidelake,
    body: Body::None,
    parameters: &[QUERY_ID],
    ignored: &[],
    document: Some(Document {
        operation: "queryEvents",
        tag: "sql",
        summary: "Follow the progress of a query",
        description: "Server-Sent Events of a statement that a client sent to `/api/v1/sql` or `/rest/sql` of this server: `progress` every 200 ms, and `end`, after which the stream ends. The user of the query and administrators may follow it; the end can be read for a minute. The server ends the stream after 15 minutes.",
        answers: &[
            (200, "QueryFollowed"),
            (400, "OperationInvalid"),
            (401, "Unauthenticated"),
            (404, "QueryNotFound"),
            (500, "Internal"),
            (503, "Unavailable"),
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
        QUERY_HEADER,
        KEY,
    ],
    ignored: &[],
    document: Some(Document {
        operation: "rest",
        tag: "sql",
        summary: "Run a statement (TDengine REST)",
        description: "An invalid statement is answered with status 200 and a non-zero `code`. Text in double quotes is a string here. `/rest/sql/` is the same.",
        answers: REST_ANSWERS,
    }),
};

/// `POST /rest/sql/`, another spelling of [`REST_SQL`].
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
        QUERY_HEADER,
        KEY,
    ],
    ignored: &[],
    document: Some(Document {
        operation: "restIn",
        tag: "sql",
        summary: "Run a statement (TDengine REST)",
        description: "An invalid statement is answered with status 200 and a non-zero `code`. Text in double quotes is a string here.",
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
        description: "Credentials in the path appear in logs of proxies; credentials in the Authorization header take precedence.",
        answers: &[
            (200, "LoggedIn"),
            (400, "RestInvalid"),
            (401, "RestUnauthenticated"),
            (500, "RestInternal"),
            (503, "RestUnavailable"),
        ],
    }),
};

/// Flight: `Handshake`, which opens a session.
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

/// Flight: all other methods; a command or action checks the right it needs itself.
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
