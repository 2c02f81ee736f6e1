//! Routes for operators: health, metrics, figures of the node, compaction, data files, the log filter and the OpenAPI document.

use http::Method;
use tidelake_format::access::Right;

use super::{
    super::{
        Body, Document, Route,
        parameters::{CHECK_ROWS, COUNT_OF_FIGURES, LOG_LEVEL, LOG_WORDS, TABLE_OF_FILES, UNTIL},
    },
    MAX_FILTER_BYTES, MAX_FIRST_USER_BYTES,
};

/// `GET /health`.
pub static HEALTH: Route = Route::tidelake(Method::GET, "/health", Right::Open).described(Document {
    operation: "health",
    tag: "operations",
    summary: "Liveness check",
    description: "",
    answers: &[(200, "Healthy"), (400, "OperationInvalid")],
});

/// `GET /ready`.
pub static READY: Route = Route::tidelake(Method::GET, "/ready", Right::Open).described(Document {
    operation: "ready",
    tag: "operations",
    summary: "Readiness check",
    description: "",
    answers: &[(200, "IsReady"), (400, "OperationInvalid"), (503, "IsNotReady")],
});

/// `GET /metrics`.
pub static METRICS: Route = Route::tidelake(Method::GET, "/metrics", Right::AnyUser).described(Document {
    operation: "metrics",
    tag: "operations",
    summary: "Metrics of the process",
    description: "",
    answers: &[
        (200, "Counts"),
        (400, "OperationInvalid"),
        (401, "Unauthenticated"),
        (500, "Internal"),
        (503, "Unavailable"),
    ],
});

/// `GET /api/v1/node`.
pub static NODE: Route = Route::tidelake(Method::GET, "/api/v1/node", Right::Administrator)
    .described(Document {
        operation: "node",
        tag: "operations",
        summary: "Figures of the node",
        description: "For administrators. Totals count since the start of the process; the others are those of this moment, at most a second old. Figures of the log are at most 2 s old on a directory, and 30 s on a remote store, where they cost a request.",
        answers: &[
            (200, "NodeFigures"), (400, "OperationInvalid"),
            (401, "Unauthenticated"),
            (403, "Forbidden"),
            (500, "Internal"),
            (503, "Unavailable"),
        ],
    });

/// `GET /api/v1/node/events`.
pub static NODE_EVENTS: Route = Route::tidelake(Method::GET, "/api/v1/node/events", Right::Administrator)
    .with_parameters(&[COUNT_OF_FIGURES, LOG_LEVEL, LOG_WORDS])
    .described(Document {
        operation: "nodeEvents",
        tag: "operations",
        summary: "Follow the figures of the node and its log",
        description: "For administrators. Server-Sent Events: `node` each second, with the body of `/api/v1/node`; `log` for each log line of the wanted level with the wanted words, those among the newest 1 000 first. A client that reads too slowly misses lines. The server ends the stream after 15 minutes, so that the rights of a client that connects again are checked again.",
        answers: &[
            (200, "NodeFollowed"),
            (400, "OperationInvalid"),
            (401, "Unauthenticated"),
            (403, "Forbidden"),
            (500, "Internal"),
            (503, "Unavailable"),
        ],
    });

/// `POST /api/v1/compact`.
pub static COMPACT: Route = Route::tidelake(Method::POST, "/api/v1/compact", Right::Administrator)
    .with_parameters(&[UNTIL])
    .described(Document {
        operation: "compact",
        tag: "operations",
        summary: "Fold and merge now",
        description: "For administrators. The response is sent when the compaction is done.",
        answers: &[
            (200, "CompactDone"),
            (400, "OperationInvalid"),
            (401, "Unauthenticated"),
            (403, "Forbidden"),
            (409, "OperationConflict"),
            (500, "Internal"),
            (503, "OperationUnavailable"),
            (507, "StoreFull"),
        ],
    });

/// `POST /api/v1/check`.
pub static CHECK: Route = Route::tidelake(Method::POST, "/api/v1/check", Right::Administrator)
    .with_parameters(&[CHECK_ROWS])
    .described(Document {
        operation: "check",
        tag: "operations",
        summary: "Check every object of the root",
        description: "For administrators. Changes nothing. The response is sent when the check has ended, within an hour; a client that closes the connection ends it. A server runs one check at a time.",
        answers: &[
            (200, "CheckDone"),
            (400, "OperationInvalid"),
            (401, "Unauthenticated"),
            (403, "Forbidden"),
            (500, "Internal"),
            (503, "OperationUnavailable"),
        ],
    });

/// `GET /api/v1/files`.
pub static FILES: Route = Route::tidelake(Method::GET, "/api/v1/files", Right::Administrator)
    .with_parameters(&[TABLE_OF_FILES])
    .described(Document {
        operation: "files",
        tag: "operations",
        summary: "List the live data files of a table",
        description: "For administrators. Each folded row is in exactly one of the files; rows of the last seconds are in the log.",
        answers: &[
            (200, "FilesListed"),
            (400, "OperationInvalid"),
            (401, "Unauthenticated"),
            (403, "Forbidden"),
            (404, "OperationNotFound"),
            (409, "OperationConflict"),
            (500, "Internal"),
            (503, "OperationUnavailable"),
        ],
    });

/// `GET /api/v1/log`.
pub static LOG_GET: Route = Route::tidelake(Method::GET, "/api/v1/log", Right::Administrator).described(Document {
    operation: "logFilter",
    tag: "operations",
    summary: "Get the log filter",
    description: "For administrators.",
    answers: &[
        (200, "LogFilterShown"),
        (400, "OperationInvalid"),
        (401, "Unauthenticated"),
        (403, "Forbidden"),
        (500, "Internal"),
        (503, "OperationUnavailable"),
    ],
});

/// `PUT /api/v1/log`.
pub static LOG_PUT: Route = Route::tidelake(Method::PUT, "/api/v1/log", Right::Administrator)
    .with_body(Body::Short(MAX_FILTER_BYTES, "LogFilter"))
    .described(Document {
        operation: "changeLogFilter",
        tag: "operations",
        summary: "Set the log filter until the process ends",
        description: "For administrators.",
        answers: &[
            (200, "LogFilterChanged"),
            (400, "OperationInvalid"),
            (401, "Unauthenticated"),
            (403, "Forbidden"),
            (413, "LogTooLarge"),
            (500, "Internal"),
            (503, "OperationUnavailable"),
        ],
    });

/// `GET /api/v1/openapi.json`.
pub static OPENAPI: Route = Route::tidelake(Method::GET, "/api/v1/openapi.json", Right::AnyUser).described(Document {
    operation: "describe",
    tag: "operations",
    summary: "This document",
    description: "",
    answers: &[
        (200, "Description"),
        (400, "OperationInvalid"),
        (401, "Unauthenticated"),
        (500, "Internal"),
        (503, "Unavailable"),
    ],
});

/// `GET /`: the web console.
pub static CONSOLE: Route = Route::tidelake(Method::GET, "/", Right::Open);

/// `GET /assets/{*file}`: a file of the web console.
pub static CONSOLE_FILE: Route = Route::tidelake(Method::GET, "/assets/{*file}", Right::Open);

/// `POST /api/v1/login`.
pub static LOGIN: Route = Route::tidelake(Method::POST, "/api/v1/login", Right::Login)
    .described(Document {
        operation: "beginSession",
        tag: "session",
        summary: "Begin a session of a web page",
        description: "For pages of this server. The credentials are those of the Authorization header. The reply sets a cookie that \
                      authenticates later requests of the browser; those with a method other than GET also need the header \
                      X-Tidelake-Csrf. Other clients send their credentials with each request.",
        answers: &[(200, "SessionBegun"), (400, "OperationInvalid"), (401, "Unauthenticated"), (500, "Internal"), (503, "Unavailable")],
    });

/// `POST /api/v1/logout`.
pub static LOGOUT: Route = Route::tidelake(Method::POST, "/api/v1/logout", Right::Open).described(Document {
    operation: "endSession",
    tag: "session",
    summary: "Remove the cookie of a session",
    description: "The session itself ends after twelve hours, by ROTATE SESSIONS, or when the password changes.",
    answers: &[(204, "SessionEnded"), (400, "OperationInvalid")],
});

/// `GET /api/v1/first-user`.
pub static FIRST_USER_GET: Route = Route::tidelake(Method::GET, "/api/v1/first-user", Right::Open)
    .described(Document {
        operation: "firstUserAwaited",
        tag: "session",
        summary: "Whether the first user is to be created",
        description: "True while authentication is on, the root has no users, and the server was started without a password for the first one.",
        answers: &[(200, "FirstUserAwaited"), (400, "OperationInvalid")],
    });

/// `POST /api/v1/first-user`.
pub static FIRST_USER_POST: Route = Route::tidelake(Method::POST, "/api/v1/first-user", Right::Open)
    .with_body(Body::Short(MAX_FIRST_USER_BYTES, "FirstUser"))
    .described(Document {
        operation: "createFirstUser",
        tag: "session",
        summary: "Create the first user of a root, an administrator",
        description: "With the code that the server logged at its start. A wrong code takes a second.",
        answers: &[
            (200, "FirstUserCreated"),
            (400, "OperationInvalid"),
            (401, "Unauthenticated"),
            (409, "OperationConflict"),
            (413, "FirstUserTooLarge"),
            (500, "Internal"),
            (503, "OperationUnavailable"),
        ],
    });

/// `GET /api/v1/whoami`.
pub static WHOAMI: Route = Route::tidelake(Method::GET, "/api/v1/whoami", Right::AnyUser).described(Document {
    operation: "whoami",
    tag: "session",
    summary: "Get the user of the request",
    description: "",
    answers: &[
        (200, "Caller"),
        (400, "OperationInvalid"),
        (401, "Unauthenticated"),
        (500, "Internal"),
        (503, "Unavailable"),
    ],
});
