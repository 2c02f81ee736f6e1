//! The audit log: one line for each change and each refusal, with the log target [`TARGET`].
//!
//! A line says who (`user`, `peer`), what was understood (`action`, `object`, `detail`) and how it ended (`outcome`,
//! `kind`). Names come first and are never cut off; the text of a request is not shown.

use std::net::IpAddr;

use super::Principal;
use crate::error::{Error, Kind, Result};

/// The target of all lines of the audit log.
pub const TARGET: &str = "tidelake::audit";

/// Maximum number of objects per line; further objects go to further lines.
const OBJECTS: usize = 100;
/// Maximum bytes of the detail in a line.
const DETAIL: usize = 4 << 10;

/// The action of a request, done or refused, as parsed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Deed {
    /// The kind of change, as a statement would begin: `DROP TABLE`.
    pub action: &'static str,
    /// The objects of the action: `database`, `database.table`, a user, a path.
    pub objects: Vec<String>,
    /// Further details, without passwords and tokens.
    pub detail: String,
}

impl Deed {
    /// A deed on one object.
    pub fn new(action: &'static str, object: impl Into<String>) -> Self {
        Self { action, objects: vec![object.into()], detail: String::new() }
    }

    /// The same deed with its details.
    #[must_use]
    pub fn with(self, detail: impl Into<String>) -> Self {
        Self { detail: detail.into(), ..self }
    }

    /// Records how the deed ended.
    pub fn record<T>(&self, principal: &Principal, result: &Result<T>) {
        self.write(&principal.to_string(), principal.peer(), result.as_ref().err());
    }

    /// Records the deed if it was refused for lack of a right. Errors of other kinds are not recorded.
    pub fn record_refusal<T>(&self, principal: &Principal, result: &Result<T>) {
        if let Err(error) = result
            && error.kind() == Kind::Forbidden
        {
            let mut deed = self.clone();
            if deed.objects.is_empty() {
                deed.objects.extend(["database", "table"].iter().find_map(|key| error.context(key)).map(str::to_owned));
            }
            deed.write(&principal.to_string(), principal.peer(), Some(error));
        }
    }

    /// Records that a request was refused before its sender was authenticated.
    pub fn record_unauthenticated(&self, peer: Option<IpAddr>, error: &Error) {
        self.write("", peer, Some(error));
    }

    /// Writes the lines; `user` is empty if unknown.
    pub(crate) fn write(&self, user: &str, peer: Option<IpAddr>, error: Option<&Error>) {
        let outcome = match error.map(Error::kind) {
            None => "done",
            Some(Kind::Forbidden | Kind::Unauthenticated) => "refused",
            Some(_) => "failed",
        };
        let peer = peer.map(tracing::field::display);
        let kind = error.map(|error| format!("{:?}", error.kind()));
        let (kind, reason) = (kind.as_deref(), error.map(Error::message));
        let (action, detail) = (self.action, &self.detail[..self.detail.floor_char_boundary(DETAIL)]);
        let none = [String::new()];
        let objects = if self.objects.is_empty() { &none[..] } else { &self.objects };
        for objects in objects.chunks(OBJECTS) {
            let object = objects.join(", ");
            tracing::info!(target: TARGET, user, peer, action, object, detail, outcome, kind, reason, "audit");
        }
    }
}

/// Records that a request was refused because its sender is not authenticated.
pub fn unauthenticated(peer: Option<IpAddr>, reason: &str) {
    Deed { action: "AUTHENTICATE", ..Deed::default() }.write("", peer, Some(&Error::unauthenticated(reason)));
}

/// Whether a log filter from the settings turns the audit log off.
pub fn is_turned_off(filter: &str) -> bool {
    // The last directive of the target applies.
    let directives = filter.rsplit(',').filter_map(|directive| directive.trim().split_once('='));
    let mut own = directives.filter(|(target, _)| target.trim() == TARGET).map(|(_, level)| level.trim());
    own.next().is_some_and(|level| level.eq_ignore_ascii_case("off"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_settings_turn_the_audit_log_off_by_its_name_alone() {
        for off in ["tidelake::audit=off", "info, tidelake::audit = OFF", "tidelake::audit=info,tidelake::audit=off"] {
            assert!(is_turned_off(off), "{off}");
        }
        for on in
            ["off", "", "info", "tidelake=off", "tidelake::audit=error", "tidelake::audit=off,tidelake::audit=info"]
        {
            assert!(!is_turned_off(on), "{on}");
        }
    }
}
