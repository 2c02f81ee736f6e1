//! The first user of a root: created from the settings, or by a client that has the one-time code of the server's log.

use std::{sync::Arc, time::Duration};

use anyhow::Context;
use axum::{
    Json,
    body::{Body, Bytes},
    extract::{State, rejection::BytesRejection},
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde::Deserialize;
use serde_json::json;
use tidelake_format::{
    Error, Result,
    access::{Deed, Digest, Principal, Secret, User, hash_password},
    auth::Peer,
    meta::{Draft, Root},
    offload::offload,
};
use tidelake_protocol::{
    http::{Api, routes},
    settings as declared,
};
use tidelake_routes::Routes;
use tokio::sync::Mutex;

use super::logging;
use crate::settings::Settings;

/// Name of the first user of the settings.
const ADMIN: &str = "admin";
/// Environment variable with the first user's password.
const PASSWORD: &str = "TIDELAKE_ADMIN_PASSWORD";
/// Time that a wrong code takes; one code is checked at a time.
const WRONG_TAKES: Duration = Duration::from_secs(1);

/// Permission to create the first user with a code. Cheap to clone.
#[derive(Clone)]
pub(super) struct Invitation(Arc<Inner>);

struct Inner {
    root: Root,
    code: Digest,
    turn: Mutex<()>,
}

/// Creates the administrator of the settings if the root has no users. Without a password in the settings, returns an
/// invitation and its code.
///
/// # Errors
/// The password is too short, its file cannot be read, or the store does not answer.
pub(super) async fn prepare(settings: &Settings, root: &Root) -> anyhow::Result<Option<(Invitation, Secret)>> {
    if !root.refresh().await?.users().is_empty() {
        return Ok(None);
    }
    let Some(password) = first_password(settings)? else {
        let code = format!("{:032x}", root.store().ambient().random_id());
        let invitation = Inner { root: root.clone(), code: Digest::of(&code), turn: Mutex::default() };
        return Ok(Some((Invitation(Arc::new(invitation)), Secret::new(code))));
    };
    let hash = hash_password(&password).context("invalid administrator password")?;
    if create(root, ADMIN, &hash).await? {
        Deed::new("CREATE USER", ADMIN).with("the first user").record(&Principal::PROCESS, &Ok(()));
    }
    Ok(None)
}

/// Shows the code of the first user on standard error: in the log at WARN, or beside it where the filter leaves that out, since the
/// operator needs it. Once a user exists, the code is refused.
#[expect(clippy::print_stderr, reason = "the code must not depend on the filter of the log")]
pub(super) fn show(code: &Secret, url: &str) {
    let code = code.expose();
    if logging::shows_warnings() {
        tracing::warn!(code, "the root has no users: open {url} and create the first one with this code");
    } else {
        eprintln!("the root has no users: open {url} and create the first one with the code {code}");
    }
}

fn first_password(settings: &Settings) -> anyhow::Result<Option<String>> {
    if let Some(path) = settings.get(&declared::ADMIN_PASSWORD_FILE) {
        let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        return Ok(Some(text.trim_end_matches(['\r', '\n']).to_owned()));
    }
    Ok(std::env::var(PASSWORD).ok().filter(|password| !password.is_empty()))
}

/// Adds an administrator unless the root has users; returns whether it did.
async fn create(root: &Root, name: &str, hash: &str) -> Result<bool> {
    let change = |draft: &mut Draft| {
        if !draft.catalog().users().is_empty() {
            return Ok(false); // created meanwhile, perhaps by another node
        }
        draft.users_mut().add(name, User::new(Some(hash.to_owned()), true)?).map(|()| true)
    };
    Ok(root.commit(&[], change).await?.0)
}

/// `/api/v1/first-user`.
pub(super) fn routes(invitation: Option<Invitation>) -> Routes {
    Routes::new().on(&routes::FIRST_USER_GET, is_awaited).on(&routes::FIRST_USER_POST, accept).with_state(invitation)
}

/// The body of the request.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Answer {
    code: String,
    user: String,
    password: String,
}

/// Returns whether the server waits for its first user.
async fn is_awaited(State(invitation): State<Option<Invitation>>) -> Response {
    let awaited = invitation.is_some_and(|invitation| invitation.0.root.catalog().users().is_empty());
    Json(json!({ "awaited": awaited })).into_response()
}

async fn accept(
    State(invitation): State<Option<Invitation>>,
    peer: Option<axum::Extension<Peer>>,
    body: std::result::Result<Bytes, BytesRejection>,
) -> Response {
    let body = match body {
        Ok(body) => body,
        Err(rejection) => {
            let error = Error::invalid(rejection.body_text());
            return Api::Tidelake.answer_as(rejection.status(), &error).map(Body::from);
        }
    };
    let accepted = match invitation {
        Some(invitation) => invitation.accept(&body).await,
        None => Err(Error::conflict("the first user exists already: log in")),
    };
    match accepted {
        Ok(name) => {
            let by = Principal::PROCESS.at(peer.map(|peer| peer.0.0));
            Deed::new("CREATE USER", name.clone()).with("the first user, by code").record(&by, &Ok(()));
            (StatusCode::OK, Json(json!({ "user": name }))).into_response()
        }
        Err(error) => Api::Tidelake.answer(&error).map(Body::from),
    }
}

impl Invitation {
    /// Creates the first user; returns the user's name.
    ///
    /// # Errors
    /// Invalid for a body of another form, a name or password that is not allowed; Unauthenticated for a wrong code; Conflict if
    /// the root has users.
    async fn accept(&self, body: &[u8]) -> Result<String> {
        let answer: Answer = serde_json::from_slice(body).map_err(|error| {
            let expected = r#"{"code": "…", "user": "…", "password": "…"}"#;
            Error::invalid("invalid body").with("expected", expected).with("found", error)
        })?;
        let _turn = self.0.turn.lock().await;
        if !self.0.root.refresh().await?.users().is_empty() {
            return Err(Error::conflict("the first user exists already: log in"));
        }
        if !Digest::of(answer.code.trim()).equals(&self.0.code) {
            tokio::time::sleep(WRONG_TAKES).await;
            return Err(Error::unauthenticated("wrong code: expected the one that this server logged at its start"));
        }
        let hash = offload(move || hash_password(&answer.password)).await?;
        match create(&self.0.root, &answer.user, &hash).await? {
            true => Ok(answer.user),
            false => Err(Error::conflict("the first user exists already: log in")),
        }
    }
}
