//! Who a request is from, by the users in the catalog of a root.
//!
//! `credentials` reads what a request brings; `authenticate` is the one place that decides who it is, with `hashing` for
//! passwords and `failures` for those who guess; `gate` does that for requests of HTTP, and checks the right that each route
//! declares.

mod authenticate;
mod browser;
mod credentials;
mod failures;
mod gate;
mod hashing;
#[cfg(test)]
mod tests;

pub use authenticate::{Authenticator, LoggedIn};
pub use browser::{challenge, is_of_browser};
pub use credentials::Credentials;
pub use failures::network;
pub use gate::{Gate, Peer};
pub use hashing::{confirm_password, hash_in_turn};
