//! The HTTP interface as values: routes with the rights they need, header names, and the error responses of each API.

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
