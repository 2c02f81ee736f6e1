//! Users and the tokens of their programs, as the catalog keeps them.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize};

use super::{
    Limits, Privileges, Rights, Scope,
    rights::Grants,
    secret::{self, Digest},
    sessions::{SessionKeys, Signer},
};
use crate::{
    error::{Error, Result},
    ids::DatabaseId,
};

/// The section of users.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Users {
    /// Always empty. Earlier programs kept the key here that signed all sessions, and do not read the section without this member.
    #[serde(skip_deserializing)]
    key: String,
    /// Keys that check session tokens.
    #[serde(default, skip_serializing_if = "SessionKeys::is_empty")]
    sessions: SessionKeys,
    users: BTreeMap<String, User>,
}

/// A user: a person or a program.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    /// Hash of the password; without it, only tokens authenticate this user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<String>,
    /// Changes whenever the sessions of this user are ended.
    #[serde(default)]
    pub generation: u64,
    /// May do everything.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub admin: bool,
    /// Cannot authenticate.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub disabled: bool,
    /// What is granted.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub grants: Grants,
    /// By id.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tokens: BTreeMap<String, ApiToken>,
    /// Limits of the user's queries.
    #[serde(default, skip_serializing_if = "Limits::is_none")]
    pub limits: Limits,
}

impl fmt::Debug for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { password, generation, admin, disabled, grants, tokens, limits } = self;
        f.debug_struct("User")
            .field("has_password", &password.is_some())
            .field("generation", generation)
            .field("admin", admin)
            .field("disabled", disabled)
            .field("grants", grants)
            .field("tokens", tokens)
            .field("limits", limits)
            .finish()
    }
}

/// A token that authenticates a program as its user, with at most the user's rights.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApiToken {
    /// Name of the token, unique among the user's tokens.
    pub name: String,
    /// Digest of the token's text.
    pub digest: Digest,
    /// When it was made, milliseconds since the epoch.
    pub created_ms: i64,
    /// End of the token's validity, milliseconds since the epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_ms: Option<i64>,
    /// Grants that narrow the token; without them it has the user's rights.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grants: Option<Grants>,
}

impl User {
    /// A user who may do nothing yet, or everything; `password` is its hash.
    ///
    /// # Errors
    /// [`Kind::Unavailable`](crate::Kind::Unavailable) without random bytes.
    pub fn new(password: Option<String>, admin: bool) -> Result<Self> {
        // Random: sessions of a removed user of the same name must not be valid for this one.
        let generation = u64::from(u32::from_le_bytes(secret::random()?)) << 20;
        let (grants, tokens, limits) = (Grants::new(), BTreeMap::new(), Limits::default());
        Ok(Self { password, generation, admin, disabled: false, grants, tokens, limits })
    }

    /// What the user may do.
    pub fn rights(&self) -> Rights {
        if self.admin { Rights::Admin } else { Rights::Granted(self.grants.clone()) }
    }

    /// What one of the user's tokens may do.
    pub fn rights_of(&self, token: &ApiToken) -> Rights {
        match &token.grants {
            None => self.rights(),
            Some(grants) => self.rights().narrowed(grants),
        }
    }

    /// Grants more.
    pub fn grant(&mut self, scope: Scope, privileges: Privileges) {
        let known = self.grants.entry(scope).or_default();
        *known = known.or(privileges);
    }

    /// Takes away, from tokens as well: they have no more than the user.
    pub fn revoke(&mut self, scope: Scope, privileges: Privileges) {
        if let Some(known) = self.grants.get_mut(&scope) {
            *known = known.without(privileges);
        }
        self.grants.retain(|_, privileges| !privileges.is_empty());
    }

    /// Sets the password, and ends the user's sessions.
    pub fn set_password(&mut self, hash: String) {
        self.password = Some(hash);
        self.generation += 1;
    }
}

impl Users {
    /// The longest name of a user, in bytes.
    pub const MAX_NAME: usize = 64;

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.users.is_empty()
    }

    /// The user of exactly this name.
    pub fn get(&self, name: &str) -> Option<&User> {
        self.users.get(name)
    }

    /// The users by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &User)> {
        self.users.iter().map(|(name, user)| (name.as_str(), user))
    }

    /// The user of this name, to be changed.
    ///
    /// # Errors
    /// [`Kind::NotFound`](crate::Kind::NotFound).
    pub fn get_mut(&mut self, name: &str) -> Result<&mut User> {
        self.users.get_mut(name).ok_or_else(|| Error::not_found("there is no such user").with("user", name))
    }

    /// Checks that a text can be the name of a user or a token.
    ///
    /// # Errors
    /// [`Kind::Invalid`](crate::Kind::Invalid).
    pub fn check_name(name: &str) -> Result<()> {
        let is_name = !name.is_empty()
            && name.len() <= Self::MAX_NAME
            && !name.contains(|c: char| c.is_control() || c.is_whitespace() || ":/'\"`".contains(c))
            && secret::token_id(name).is_none()
            && !secret::is_session(name);
        if is_name {
            return Ok(());
        }
        let shown: String = name.escape_debug().take(80).collect();
        Err(Error::invalid("a name of a user or a token has 1 to 64 bytes, no space, quote, colon or slash")
            .with("found", shown))
    }

    /// Adds a user.
    ///
    /// # Errors
    /// [`Kind::Invalid`](crate::Kind::Invalid) where the name is taken, or none.
    pub fn add(&mut self, name: &str, user: User) -> Result<()> {
        Self::check_name(name)?;
        if self.users.contains_key(name) {
            return Err(Error::invalid("a user of this name exists").with("user", name));
        }
        self.users.insert(name.to_owned(), user);
        Ok(())
    }

    /// Removes a user with all tokens.
    ///
    /// # Errors
    /// [`Kind::NotFound`](crate::Kind::NotFound); [`Kind::Invalid`](crate::Kind::Invalid) as in [`Users::check`].
    pub fn remove(&mut self, name: &str) -> Result<()> {
        self.get_mut(name)?;
        self.users.remove(name);
        self.check()
    }

    /// Checks that an enabled administrator is left.
    ///
    /// # Errors
    /// [`Kind::Invalid`](crate::Kind::Invalid).
    pub fn check(&self) -> Result<()> {
        if self.users.values().any(|user| user.admin && !user.disabled) {
            return Ok(());
        }
        Err(Error::invalid("this would leave no administrator: make another one first"))
    }

    /// Ends the sessions of a user, or all of them.
    ///
    /// # Errors
    /// [`Kind::NotFound`](crate::Kind::NotFound) where there is no such user.
    pub fn end_sessions(&mut self, user: Option<&str>) -> Result<()> {
        match user {
            Some(user) => self.get_mut(user)?.generation += 1,
            None => self.sessions.clear(),
        }
        Ok(())
    }

    /// Lets every node check the sessions that this one begins.
    pub(crate) fn publish(&mut self, signer: &Signer, now_ms: i64) {
        self.sessions.publish(signer, now_ms);
    }

    /// The keys that check sessions.
    pub(crate) fn session_keys(&self) -> &SessionKeys {
        &self.sessions
    }

    /// Removes the grants on a dropped database.
    pub fn forget(&mut self, database: DatabaseId) {
        let scope = Scope::Database(database);
        for user in self.users.values_mut() {
            user.grants.remove(&scope);
            user.tokens.values_mut().filter_map(|token| token.grants.as_mut()).for_each(|grants| {
                grants.remove(&scope);
            });
        }
    }

    /// The user of this name and the token of this text, if the token is the user's.
    pub(crate) fn by_token(&self, name: &str, text: &str) -> Option<(&User, &ApiToken)> {
        let user = self.users.get(name)?;
        let token = user.tokens.get(secret::token_id(text)?)?;
        token.digest.equals(&Digest::of(text)).then_some((user, token))
    }
}
