//! Who may do what: users, the tokens of programs, and their rights, kept in the catalog, so that every node agrees.
//!
//! Values here, in `user` and `rights`; `secret` makes and checks passwords and the tokens of programs, `sessions` those of
//! sessions; `credentials` reads what a request brings; `authenticate` is the one place that decides who it is; `gate` does that
//! for requests of HTTP, and checks the right that each route declares.

pub mod audit;
mod authenticate;
mod browser;
mod credentials;
mod failures;
mod gate;
mod hashing;
mod named;
mod rights;
mod secret;
mod sessions;
#[cfg(test)]
mod tests;
mod user;

pub use audit::Deed;
pub use authenticate::{Authenticator, LoggedIn};
pub use browser::{challenge, is_of_browser};
pub use credentials::Credentials;
pub use failures::network;
pub use gate::{Gate, Peer, Right};
pub use hashing::{confirm_password, hash_in_turn};
pub use named::Named;
pub use rights::{Grants, Limits, Principal, Privilege, Privileges, Rights, Scope};
pub use secret::{MAX_PASSWORD, MIN_PASSWORD, Secret, hash_password, new_token};
pub use user::{ApiToken, User, Users};
