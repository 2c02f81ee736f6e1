//! Who may do what: users, the tokens of programs, and their rights, kept in the catalog, so that every node agrees. Values
//! only: who a request is from, [`auth`](crate::auth) decides.
//!
//! `user` and `rights` are what the catalog has; `secret` makes and checks passwords and the tokens of programs, `sessions`
//! those of sessions; `right` is what a route needs; `audit` is the line that each change and each refusal leaves in the log.

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
pub use secret::{MAX_PASSWORD, MIN_PASSWORD, Secret, hash_password, new_token};
pub use user::{ApiToken, User, Users};
