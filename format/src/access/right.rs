//! The right that a route needs.

use super::Principal;
use crate::error::Result;

/// Who may use a route. Each route declares one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Right {
    /// Everybody, without credentials: such a route shows nothing of the data.
    Open,
    /// A user, who gets a session by it.
    Login,
    /// A user; what the request may do is then a matter of the rights to the databases that it names.
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
