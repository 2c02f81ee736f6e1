//! Authentication of requests, and the creation of the first user.

use std::sync::Arc;

use anyhow::{Context, bail};
use axum::{
    Router,
    body::Body,
    extract::Request,
    middleware::{Next, from_fn},
    response::Response,
};
use tidelake_format::{
    access::{Deed, Principal, User, hash_password},
    auth::{Authenticator, Gate},
    meta::{Draft, Root},
};
use tidelake_protocol::{http::Route, settings as declared};
use tidelake_routes::Routes;

use super::{bodies::Held, listen::Counted};
use crate::settings::Settings;

/// Name of the first user, created at the first start on a root.
const ADMIN: &str = "admin";
/// Environment variable with the first user's password.
const PASSWORD: &str = "TIDELAKE_ADMIN_PASSWORD";

/// Opens the gate that authenticates requests. Creates the first administrator if the root has no users.
///
/// # Errors
/// The root has no users, and no password for the first one is given.
pub(super) async fn open(settings: &Settings, root: &Root) -> anyhow::Result<Gate> {
    if !settings.asks_who() {
        return Ok(Gate::Off);
    }
    if root.refresh().await?.users().is_empty() {
        let Some(password) = first_password(settings)? else {
            bail!(
                "authentication is on, but the root has no users: set the password of the first user '{ADMIN}' in \
                 {PASSWORD} or in the file of --admin-password-file; or create users with `tidelake access`; or turn \
                 authentication off with --auth off"
            );
        };
        let hash = hash_password(&password).context("invalid administrator password")?;
        let change = |draft: &mut Draft| {
            if !draft.catalog().users().is_empty() {
                return Ok(false); // another node created the first user
            }
            draft.users_mut().add(ADMIN, User::new(Some(hash.clone()), true)?).map(|()| true)
        };
        if root.commit(&[], change).await?.0 {
            Deed::new("CREATE USER", ADMIN).with("the first user").record(&Principal::PROCESS, &Ok(()));
        }
    }
    Ok(Gate::Users(Authenticator::new(root.clone())?))
}

fn first_password(settings: &Settings) -> anyhow::Result<Option<String>> {
    if let Some(path) = settings.get(&declared::ADMIN_PASSWORD_FILE) {
        let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        return Ok(Some(text.trim_end_matches(['\r', '\n']).to_owned()));
    }
    Ok(std::env::var(PASSWORD).ok().filter(|password| !password.is_empty()))
}

/// Puts the routes behind the gate. When users authenticate, each connection and body is counted for its user, and SHOW
/// CONNECTIONS lists the user.
pub(super) fn guard(routes: Routes, gate: &Gate) -> Router {
    match gate {
        Gate::Off | Gate::Decided => routes.behind(gate),
        Gate::Users(_) => routes.layer(from_fn(note)).behind(gate),
    }
}

async fn note(request: Request, next: Next) -> Response {
    let extensions = request.extensions();
    let principal = extensions.get::<Principal>();
    let user = principal.and_then(Principal::user);
    let counted = extensions.get::<Counted>();
    if let (Some(counted), Some(user)) = (counted, user)
        && let Err(error) = counted.place.of(user)
    {
        return Route::api_of(request.uri().path()).refuse(&error).map(Body::from);
    }
    if let (Some(held), Some(user)) = (extensions.get::<Arc<Held>>(), user) {
        held.of(user);
    }
    if let (Some(counted), Some(principal)) = (counted, principal) {
        counted.listed.of(principal);
    }
    next.run(request).await
}
