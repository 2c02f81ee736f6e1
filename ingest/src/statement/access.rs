//! Users, rights, tokens and sessions: CREATE, ALTER and DROP USER, GRANT, REVOKE, CREATE and DROP TOKEN, ROTATE SESSIONS.
//!
//! A statement that changes something returns two seconds after its commit: by then no node authenticates on an older version.

use tidelake_format::{
    Error, Result,
    access::{ApiToken, Grants, Principal, Privilege, Privileges, Scope, Secret, User, Users, new_token},
    auth::{confirm_password, hash_in_turn},
    meta::Draft,
};
use tidelake_protocol::sql::{AccessStatement, Granted, On, UserChange};
use tokio::time::Instant;

use super::no_database;
use crate::write::{Executed, Ingest};

/// Most users of a root, and most tokens of a user: every node keeps them in memory.
const MOST_USERS: usize = 10_000;
const MOST_TOKENS: usize = 1_000;

impl Ingest {
    pub(super) async fn access(&self, statement: AccessStatement, start: Instant) -> Result<Executed> {
        let is_own = |name: Option<&String>| match (name, self.principal.user()) {
            (Some(name), Some(user)) => name == user,
            (name, user) => name.is_none() && user.is_some(),
        };
        let is_self_service = match &statement {
            AccessStatement::AlterUser { name, change: UserChange::Password { .. } } => is_own(Some(name)),
            AccessStatement::CreateToken { owner, .. } | AccessStatement::DropToken { owner, .. } => {
                is_own(owner.as_ref())
            }
            AccessStatement::RotateSessions { user: Some(user) } => is_own(Some(user)),
            _ => false,
        };
        if !is_self_service {
            self.principal.check_admin("change users, rights and tokens of others")?;
        }
        if !self.principal.is_whole() {
            return Err(Error::forbidden("a restricted or expiring token may not change users and tokens")
                .with("user", &self.principal));
        }
        let (principal, by) = (&self.principal, self.principal.clone());
        let now_ms = self.shared.ambient().wall_ms();
        let mut secret = None;
        let change: Box<dyn FnMut(&mut Draft) -> Result<bool> + Send> = match statement {
            AccessStatement::CreateUser { name, if_not_exists, password, admin } => {
                let password = hashed(password).await?;
                Box::new(move |draft| {
                    if if_not_exists && draft.catalog().users().get(&name).is_some() {
                        return Ok(false);
                    }
                    create_user(draft.users_mut(), &name, password.clone(), admin)?;
                    Ok(true)
                })
            }
            AccessStatement::AlterUser { name, change: UserChange::Password { new, old, keep_tokens } } => {
                let confirmed = self.confirm(&name, old, start).await?;
                let hash = hashed(Some(new)).await?.unwrap_or_default();
                Box::new(move |draft| {
                    let user = draft.users_mut().get_mut(&name)?;
                    if confirmed.as_ref().is_some_and(|old| user.password.as_ref() != Some(old)) {
                        return Err(Error::conflict("the password was changed concurrently").with("user", &name));
                    }
                    // Anyone who knew the old password may have created the tokens.
                    if user.password.is_some() && !keep_tokens {
                        user.tokens.clear();
                    }
                    user.set_password(hash.clone());
                    Ok(true)
                })
            }
            AccessStatement::AlterUser { name, change } => Box::new(move |draft| {
                let user = draft.users_mut().get_mut(&name)?;
                match change {
                    UserChange::Enabled(enabled) => {
                        user.disabled = !enabled;
                        user.generation += 1;
                    }
                    UserChange::Admin(admin) => user.admin = admin,
                    UserChange::Limits(change) => user.limits = user.limits.changed(change),
                    UserChange::Password { .. } => {}
                }
                draft.users_mut().check().map(|()| true)
            }),
            AccessStatement::RotateSessions { user } => {
                Box::new(move |draft| draft.users_mut().end_sessions(user.as_deref()).map(|()| true))
            }
            AccessStatement::DropUser { name, if_exists } => Box::new(move |draft| {
                if if_exists && draft.catalog().users().get(&name).is_none() {
                    return Ok(false);
                }
                draft.remove_user(&name).map(|()| true)
            }),
            AccessStatement::Grant { granted, user } => Box::new(move |draft| {
                let on = scope_of(draft, &granted, &by)?;
                let user = draft.users_mut().get_mut(&user)?;
                match on {
                    None => user.admin = true,
                    Some((scope, privileges)) => user.grant(scope, privileges),
                }
                Ok(true)
            }),
            AccessStatement::Revoke { granted, user } => Box::new(move |draft| {
                let on = scope_of(draft, &granted, &by)?;
                let user = draft.users_mut().get_mut(&user)?;
                match on {
                    None => user.admin = false,
                    Some((scope, privileges)) => user.revoke(scope, privileges),
                }
                draft.users_mut().check().map(|()| true)
            }),
            AccessStatement::CreateToken { name, owner, grants, expires_ms } => {
                let owner = owner_of(owner, principal)?;
                Users::check_name(&name)?;
                let (id, text, digest) = new_token()?;
                secret = Some(text);
                Box::new(move |draft| {
                    let grants = grants.as_deref().map(|grants| scopes_of(draft, grants, &by)).transpose()?;
                    let user = draft.users_mut().get_mut(&owner)?;
                    if user.tokens.values().any(|token| token.name == name) {
                        return Err(Error::invalid("a token of this name already exists")
                            .with("token", &name)
                            .with("user", &owner));
                    }
                    if user.tokens.len() >= MOST_TOKENS {
                        return Err(Error::invalid("too many tokens for one user").with("limit", MOST_TOKENS));
                    }
                    let expires_ms = expires_ms.map(|length| now_ms.saturating_add(length));
                    let token =
                        ApiToken { name: name.clone(), digest: digest.clone(), created_ms: now_ms, expires_ms, grants };
                    user.tokens.insert(id.clone(), token);
                    Ok(true)
                })
            }
            AccessStatement::DropToken { name, owner, if_exists } => {
                let owner = owner_of(owner, principal)?;
                Box::new(move |draft| {
                    let user = draft.users_mut().get_mut(&owner)?;
                    let before = user.tokens.len();
                    user.tokens.retain(|_, token| token.name != name);
                    if user.tokens.len() == before && !if_exists {
                        return Err(Error::not_found("token not found").with("token", &name).with("user", &owner));
                    }
                    Ok(user.tokens.len() < before)
                })
            }
        };
        let (changed, executed) = self.define(start, change).await?;
        self.forbidden(changed).await;
        Ok(Executed { secret, ..executed })
    }

    /// Checks that the caller may change a user's password, with the old password if given; returns the hash of the latter.
    async fn confirm(&self, name: &str, old: Option<Secret>, start: Instant) -> Result<Option<String>> {
        let Some(old) = old else {
            // Programs keep tokens in files, and the holder of a token need not know the password.
            if self.principal.came_by_token() && self.principal.user() == Some(name) {
                return Err(Error::forbidden("a token may change its user's password only with the old password")
                    .with("user", name)
                    .with("expected", "ALTER USER … PASSWORD 'new' OLD 'old', or a login with the password"));
            }
            return Ok(None);
        };
        let catalog = self.shared.probe.catalog(start.elapsed()).await?;
        let found = catalog.users().get(name).and_then(|user| user.password.clone());
        confirm_password(name, old, found.clone()).await?;
        Ok(found)
    }
}

async fn hashed(password: Option<Secret>) -> Result<Option<String>> {
    match password {
        None => Ok(None),
        Some(password) => hash_in_turn(password).await.map(Some),
    }
}

fn create_user(users: &mut Users, name: &str, password: Option<String>, admin: bool) -> Result<()> {
    if users.is_empty() && !admin {
        return Err(Error::invalid("the first user must be an administrator: CREATE USER … PASSWORD '…' ADMIN")
            .with("user", name));
    }
    if users.iter().count() >= MOST_USERS {
        return Err(Error::invalid("too many users").with("limit", MOST_USERS));
    }
    users.add(name, User::new(password, admin)?)
}

fn owner_of(owner: Option<String>, principal: &Principal) -> Result<String> {
    owner.or_else(|| principal.user().map(str::to_owned)).ok_or_else(|| {
        Error::invalid("no user is logged in: name the token's owner").with("expected", "CREATE TOKEN name FOR user")
    })
}

/// The scope and privileges of a grant; `None` is the administrator's right to everything.
fn scope_of(draft: &Draft, granted: &Granted, by: &Principal) -> Result<Option<(Scope, Privileges)>> {
    match granted {
        Granted::Admin => Ok(None),
        Granted::On(privileges, on) => Ok(Some((scope(draft, on, by)?, *privileges))),
    }
}

fn scopes_of(draft: &Draft, grants: &[(Privileges, On)], by: &Principal) -> Result<Grants> {
    let mut found = Grants::new();
    for (privileges, on) in grants {
        let known = found.entry(scope(draft, on, by)?).or_default();
        *known = known.or(*privileges);
    }
    Ok(found)
}

/// Resolves a name to a scope; does not reveal a database to a principal without any right on it.
fn scope(draft: &Draft, on: &On, by: &Principal) -> Result<Scope> {
    match on {
        On::Everywhere => Ok(Scope::Everywhere),
        On::Database(name) => {
            let found = draft.catalog().database(name);
            let found = found.ok_or_else(|| by.missing(Privilege::Read, name, no_database(name)))?;
            if !by.knows(found) {
                by.check(Privilege::Read, found)?;
            }
            Ok(Scope::Database(found.id))
        }
    }
}
