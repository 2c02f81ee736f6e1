//! Access control: users, API tokens and their rights, kept in the catalog, so that every node agrees. Values only:
//! [`auth`](crate::auth) authenticates requests.
//!
//! `user` and `rights` are the catalog's entries; `secret` makes and checks passwords and API tokens, `sessions` session
//! tokens; `right` is the right that a route requires; `audit` logs each change and each refusal.

pub mod audit;
mod named;
mod right;
mod rights;
pub(crate) mod secret;
pub(crate) mod sessions;
mod user;

pub use audit::Deed;
pub use named::Named;
pub use right::Right;
pub use rights::{Grants, Limits, Principal, Privilege, Privileges, Rights, Scope};
pub use secret::{Digest, MAX_PASSWORD, MIN_PASSWORD, Secret, hash_password, new_token};
pub use user::{ApiToken, User, Users};
