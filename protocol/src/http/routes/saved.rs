//! Routes of saved queries.

use http::Method;
use tidelake_format::access::Right;

use super::super::{
    Api, Body, Document, Route,
    parameters::{IF_MATCH, IF_NONE_MATCH, SAVED_NAME},
};

/// Largest body of a request that saves a query: the longest statement with each byte as an escape of JSON.
pub const MAX_SAVED_BYTES: usize = 256 << 10;

/// `GET /api/v1/saved-queries`.
pub static SAVED_LIST: Route = Route {
    method: Method::GET,
    path: "/api/v1/saved-queries",
    right: Right::AnyUser,
    api: Api::Tidelake,
    body: Body::None,
    parameters: &[],
    ignored: &[],
    document: Some(Document {
        operation: "savedQueries",
        tag: "saved",
        summary: "List the saved queries of the user",
        description: "By name. While authentication is off, all clients have one list.",
        answers: &[
            (200, "SavedListed"),
            (401, "Unauthenticated"),
            (403, "SavedForbidden"),
            (500, "Internal"),
            (503, "Unavailable"),
        ],
    }),
};

/// `PUT /api/v1/saved-queries/{name}`.
pub static SAVED_PUT: Route = Route {
    method: Method::PUT,
    path: "/api/v1/saved-queries/{name}",
    right: Right::AnyUser,
    api: Api::Tidelake,
    body: Body::Short(MAX_SAVED_BYTES, "SavedBody"),
    parameters: &[SAVED_NAME, IF_MATCH, IF_NONE_MATCH],
    ignored: &[],
    document: Some(Document {
        operation: "saveQuery",
        tag: "saved",
        summary: "Save a query under a name",
        description: "Replaces the query of this name, unless `If-None-Match: *` or `If-Match` forbids it. The statement is not checked. A user has at most 100 saved queries.",
        answers: &[
            (200, "Saved"),
            (400, "OperationInvalid"),
            (401, "Unauthenticated"),
            (403, "SavedForbidden"),
            (409, "SavedConflict"),
            (413, "SavedTooLarge"),
            (500, "Internal"),
            (503, "OperationUnavailable"),
            (507, "StoreFull"),
        ],
    }),
};

/// `DELETE /api/v1/saved-queries/{name}`.
pub static SAVED_DELETE: Route = Route {
    method: Method::DELETE,
    path: "/api/v1/saved-queries/{name}",
    right: Right::AnyUser,
    api: Api::Tidelake,
    body: Body::None,
    parameters: &[SAVED_NAME, IF_MATCH],
    ignored: &[],
    document: Some(Document {
        operation: "deleteSavedQuery",
        tag: "saved",
        summary: "Delete a saved query",
        description: "",
        answers: &[
            (204, "SavedDeleted"),
            (400, "OperationInvalid"),
            (401, "Unauthenticated"),
            (403, "SavedForbidden"),
            (404, "SavedNotFound"),
            (409, "SavedConflict"),
            (500, "Internal"),
            (503, "OperationUnavailable"),
            (507, "StoreFull"),
        ],
    }),
};
