//! The right that a route requires.

use super::Principal;
use crate::error::Result;

/// Who may use a route. Each route declares one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Right {
    /// Everybody, without credentials: the route returns no data.
    Open,
    /// A user; the route starts a session.
    Login,
    /// A user; the handler checks the user's rights on the databases that the request names.
    AnyUser,
    /// An administrator.
    Administrator,
}

impl Right {
    /// Checks that a principal has this right.
    ///
    /// # Errors
    /// [`Kind::Forbidden`](crate::Kind::Forbidden).
    pub fn check(self, principal: &Principal) -> Result<()> {
        match self {
            Right::Open | Right::Login | Right::AnyUser => Ok(()),
            Right::Administrator => principal.check_admin("use this"),
        }
    }
}
