//! Rights, limits and principals.

use std::{
    collections::BTreeMap,
    fmt,
    hash::{Hash, Hasher},
    net::IpAddr,
    sync::Arc,
};

use serde::{Deserialize, Serialize};

use super::named::Named;
use crate::{
    error::{Error, Result},
    ids::DatabaseId,
    schema::Database,
};

/// A privilege on a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Privilege {
    /// Query it.
    Read,
    /// Write, define and delete in it.
    Write,
}

/// A set of privileges.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Privileges {
    /// Whether [`Privilege::Read`] is among them.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub read: bool,
    /// Whether [`Privilege::Write`] is among them.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub write: bool,
}

impl Privilege {
    fn verb(self) -> &'static str {
        match self {
            Privilege::Read => "read",
            Privilege::Write => "write",
        }
    }
}

impl Privileges {
    /// All of them.
    pub const ALL: Self = Self { read: true, write: true };

    /// Whether the set is empty.
    pub fn is_empty(self) -> bool {
        self == Self::default()
    }

    pub(super) fn has(self, privilege: Privilege) -> bool {
        match privilege {
            Privilege::Read => self.read,
            Privilege::Write => self.write,
        }
    }

    /// Union of both sets.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self { read: self.read || other.read, write: self.write || other.write }
    }

    /// Intersection of both sets.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self { read: self.read && other.read, write: self.write && other.write }
    }

    /// This set without the other's privileges.
    #[must_use]
    pub fn without(self, other: Self) -> Self {
        Self { read: self.read && !other.read, write: self.write && !other.write }
    }
}

impl fmt::Display for Privileges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match (self.read, self.write) {
            (true, true) => "ALL",
            (true, false) => "READ",
            (false, true) => "WRITE",
            (false, false) => "NOTHING",
        })
    }
}

/// Target of a grant; serialized as `*` or the database ID.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// Every database, including future ones; WRITE includes creating databases.
    Everywhere,
    /// One database, by ID: a later database of the same name is not included.
    Database(DatabaseId),
}

impl Serialize for Scope {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Scope::Everywhere => to.serialize_str("*"),
            Scope::Database(id) => to.collect_str(&id.0),
        }
    }
}

impl<'de> Deserialize<'de> for Scope {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        match text.as_str() {
            "*" => Ok(Scope::Everywhere),
            id => id.parse().map(|id| Scope::Database(DatabaseId(id))).map_err(serde::de::Error::custom),
        }
    }
}

/// Privileges by scope.
pub type Grants = BTreeMap<Scope, Privileges>;

/// Rights of a principal.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Rights {
    /// Everything: an administrator.
    Admin,
    /// The grants of a user or of a user's narrowed token.
    Granted(Grants),
    /// Privileges of a service by database name, from the settings of the process.
    Named(Named),
}

impl Rights {
    /// Whether a database may be read or written.
    pub fn may(&self, privilege: Privilege, database: &Database) -> bool {
        match self {
            Rights::Admin => true,
            Rights::Granted(grants) => {
                let of = |scope| grants.get(&scope).is_some_and(|p| p.has(privilege));
                of(Scope::Everywhere) || of(Scope::Database(database.id))
            }
            Rights::Named(named) => named.on(&database.name).has(privilege),
        }
    }

    /// Whether a database of this name may be created.
    pub fn may_create(&self, name: &str) -> bool {
        match self {
            Rights::Admin => true,
            Rights::Granted(grants) => grants.get(&Scope::Everywhere).is_some_and(|p| p.write),
            Rights::Named(named) => named.on(name).write,
        }
    }

    /// Intersection with the grants `by`.
    #[must_use]
    pub fn narrowed(self, by: &Grants) -> Self {
        let own = match self {
            Rights::Admin => return Rights::Granted(by.clone()),
            Rights::Granted(own) => own,
            // API tokens belong to users, and users have no rights by name.
            Rights::Named(_) => return Rights::Granted(Grants::new()),
        };
        let everywhere = |grants: &Grants| grants.get(&Scope::Everywhere).copied().unwrap_or_default();
        let (own_all, by_all) = (everywhere(&own), everywhere(by));
        let of = |grants: &Grants, scope, all: Privileges| grants.get(scope).copied().unwrap_or_default().or(all);
        let both =
            own.keys().chain(by.keys()).map(|scope| (*scope, of(&own, scope, own_all).and(of(by, scope, by_all))));
        Rights::Granted(both.filter(|(_, privileges)| !privileges.is_empty()).collect())
    }
}

/// Limits of a user's queries on a node; `None`: only the node's own limits apply.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Limits {
    /// Maximum number of concurrent queries; further ones wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queries: Option<u32>,
    /// Memory of all queries together, in bytes; they spill beyond it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<u64>,
    /// Maximum duration of a query, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_ms: Option<u64>,
}

impl Limits {
    /// Whether no limit is set.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// Replaces the limits that `change` sets; zero removes a limit.
    #[must_use]
    pub fn changed(self, change: Limits) -> Self {
        fn of<T: Default + PartialEq>(own: Option<T>, change: Option<T>) -> Option<T> {
            match change {
                None => own,
                Some(limit) => Some(limit).filter(|limit| *limit != T::default()),
            }
        }
        Self {
            queries: of(self.queries, change.queries),
            memory: of(self.memory, change.memory),
            time_ms: of(self.time_ms, change.time_ms),
        }
    }
}

/// Identity and rights of the caller of a request. Cheap to clone.
///
/// No `Default`: code that creates a request must name its principal. Other than the two constants, a principal is a
/// user or a [service](Principal::service).
#[derive(Clone)]
pub struct Principal {
    who: Who,
    /// Address of the client. Ignored by `==` and `Hash`: it does not affect rights.
    peer: Option<IpAddr>,
}

impl PartialEq for Principal {
    fn eq(&self, other: &Self) -> bool {
        self.who == other.who
    }
}

impl Eq for Principal {}

impl Hash for Principal {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.who.hash(state);
    }
}

#[derive(Clone, PartialEq, Eq, Hash)]
enum Who {
    AuthOff,
    Process,
    Known(Arc<Known>),
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Known {
    user: String,
    is_user: bool,
    rights: Rights,
    is_whole: bool,
    by_token: bool,
    limits: Limits,
}

impl fmt::Debug for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Principal({self})")
    }
}

impl fmt::Display for Principal {
    /// The name of the user or [service](Principal::service), `auth off` or `this process`. User names contain no colon
    /// or space.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match &self.who {
            Who::AuthOff => "auth off",
            Who::Process => "this process",
            Who::Known(known) => &known.user,
        })
    }
}

impl Principal {
    /// Any client of a server or function whose authentication is off; may do everything. Only the authentication layer
    /// assigns it to a request.
    pub const AUTH_OFF: Self = Self { who: Who::AuthOff, peer: None };

    /// The process itself: its background work, and commands that access the store directly. May do everything. Never
    /// assigned to a request from the network.
    pub const PROCESS: Self = Self { who: Who::Process, peer: None };

    fn known(&self) -> Option<&Known> {
        match &self.who {
            Who::AuthOff | Who::Process => None,
            Who::Known(known) => Some(known),
        }
    }

    /// Sets the client's address.
    #[must_use]
    pub fn at(self, peer: Option<IpAddr>) -> Self {
        Self { peer, ..self }
    }

    /// The client's address, if known.
    pub fn peer(&self) -> Option<IpAddr> {
        self.peer
    }

    /// A user.
    pub fn new(user: &str, rights: Rights) -> Self {
        Self::of(user, true, rights, true)
    }

    /// A user authenticated by a token with reduced rights or an expiry.
    pub fn narrowed(user: &str, rights: Rights) -> Self {
        Self::of(user, true, rights, false).by_token()
    }

    /// Marks the principal as authenticated by an API token, without a password.
    #[must_use]
    pub fn by_token(mut self) -> Self {
        if let Who::Known(known) = &mut self.who {
            Arc::make_mut(known).by_token = true;
        }
        self
    }

    /// An input of the process that is not a user, such as a queue, a UDP socket or a token of a function; its rights
    /// come from the settings of the process. The name contains a colon, as in `service:udp`, which no user name does.
    pub fn service(name: &str, named: Named) -> Self {
        debug_assert!(name.contains(':'), "a user may have this name: {name}");
        Self::of(name, false, Rights::Named(named), false)
    }

    fn of(user: &str, is_user: bool, rights: Rights, is_whole: bool) -> Self {
        let (user, limits) = (user.to_owned(), Limits::default());
        let known = Known { user, is_user, rights, is_whole, by_token: false, limits };
        Self { who: Who::Known(Arc::new(known)), peer: None }
    }

    /// Sets the limits of the principal's queries.
    #[must_use]
    pub fn limited(mut self, limits: Limits) -> Self {
        if let Who::Known(known) = &mut self.who {
            Arc::make_mut(known).limits = limits;
        }
        self
    }

    /// Limits of the principal's queries.
    pub fn limits(&self) -> Limits {
        self.known().map_or_else(Limits::default, |known| known.limits)
    }

    /// Whether the principal has all rights of its user. Only then may it change its own password and create tokens.
    /// False for services.
    pub fn is_whole(&self) -> bool {
        self.known().is_none_or(|known| known.is_whole)
    }

    /// Whether an API token authenticated the principal, not a password or a session.
    pub fn came_by_token(&self) -> bool {
        self.known().is_some_and(|known| known.by_token)
    }

    /// Whether the principal may see and end work that `owner` began: an administrator any; a user their own; a
    /// narrowed token or a service only that of an equal principal.
    pub fn may_end(&self, owner: &Principal) -> bool {
        let is_own = self.user() == owner.user();
        self.is_admin() || (is_own && (self.is_whole() || self == owner))
    }

    /// The user's name; `None` for services, the process, and without authentication.
    pub fn user(&self) -> Option<&str> {
        self.known().filter(|known| known.is_user).map(|known| known.user.as_str())
    }

    /// The rights; `None` (may do everything) for the process and without authentication.
    pub fn rights(&self) -> Option<&Rights> {
        self.known().map(|known| &known.rights)
    }

    /// Whether the principal may do everything.
    pub fn is_admin(&self) -> bool {
        self.rights().is_none_or(|rights| *rights == Rights::Admin)
    }

    /// Whether the principal may read or write a database.
    pub fn may(&self, privilege: Privilege, database: &Database) -> bool {
        self.rights().is_none_or(|rights| rights.may(privilege, database))
    }

    /// Whether the principal may read or write a database, and so may know that it exists.
    pub fn knows(&self, database: &Database) -> bool {
        self.may(Privilege::Read, database) || self.may(Privilege::Write, database)
    }

    /// Checks that the principal may read or write a database.
    ///
    /// # Errors
    /// [`Kind::Forbidden`](crate::Kind::Forbidden) naming user, privilege and database.
    pub fn check(&self, privilege: Privilege, database: &Database) -> Result<()> {
        if self.may(privilege, database) {
            return Ok(());
        }
        if !self.knows(database) {
            return Err(self.unknown(privilege, &database.name));
        }
        let verb = privilege.verb();
        Err(self.refused(format!("not authorized to {verb} this database")).with("database", &database.name))
    }

    /// The error for a database that does not exist, in place of `error`. Only principals with a right on every
    /// database, or with rights by name that cover this name, learn that it does not exist.
    pub fn missing(&self, privilege: Privilege, name: &str, error: Error) -> Error {
        match self.rights() {
            Some(Rights::Granted(grants)) if !grants.contains_key(&Scope::Everywhere) => self.unknown(privilege, name),
            Some(Rights::Named(named)) if named.on(name).is_empty() => self.unknown(privilege, name),
            _ => error,
        }
    }

    /// The error for a database that the principal has no right on, and for one that does not exist.
    fn unknown(&self, privilege: Privilege, name: &str) -> Error {
        let verb = privilege.verb();
        // Lower case: the requested spelling and the stored one must not differ.
        self.refused(format!("not authorized to {verb} this database, or it does not exist"))
            .with("database", name.to_ascii_lowercase())
    }

    /// Checks that the principal may create a database of this name.
    ///
    /// # Errors
    /// [`Kind::Forbidden`](crate::Kind::Forbidden).
    pub fn check_create(&self, name: &str) -> Result<()> {
        if self.rights().is_none_or(|rights| rights.may_create(name)) {
            return Ok(());
        }
        let message = match self.rights() {
            Some(Rights::Named(_)) => "not authorized to create this database: the settings do not include its name",
            _ => "not authorized to create databases: requires WRITE on *.*",
        };
        Err(self.refused(message).with("database", name))
    }

    /// Checks that the principal is an administrator.
    ///
    /// # Errors
    /// [`Kind::Forbidden`](crate::Kind::Forbidden) naming the action.
    pub fn check_admin(&self, what: &str) -> Result<()> {
        if self.is_admin() {
            return Ok(());
        }
        Err(self.refused(format!("only an administrator may {what}")))
    }

    fn refused(&self, message: impl Into<String>) -> Error {
        Error::forbidden(message).with("user", self)
    }
}
