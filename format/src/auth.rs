//! Authentication of requests, by the users in the catalog of a root.
//!
//! `credentials` reads the credentials of a request. `authenticate` verifies them, with `hashing` for passwords and
//! `failures` to slow down guessing. `gate` applies it to HTTP requests and checks the right that each route declares.

mod authenticate;
mod browser;
mod cookie;
mod credentials;
mod failures;
mod gate;
mod hashing;
#[cfg(test)]
mod tests;

pub use authenticate::{Authenticator, LoggedIn};
pub use browser::{challenge, is_of_browser};
pub use cookie::{CSRF_HEADER, SESSION_COOKIE, csrf_token, session_of};
pub use credentials::Credentials;
pub use failures::network;
pub use gate::{Gate, Peer};
pub use hashing::{confirm_password, hash_in_turn};
