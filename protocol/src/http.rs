//! HTTP, as values: the routes with the right that each needs, the names of headers, and the status, code and body by which
//! each API answers an error.

pub mod api;
mod foreign;
pub mod headers;
mod openapi;
mod parameters;
pub mod route;
pub mod routes;

pub use api::{Api, grpc_code};
pub use foreign::instead_of_path;
pub use openapi::openapi;
pub use route::{Body, Document, Parameter, Place, Route};
