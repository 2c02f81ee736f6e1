//! Authentication of requests.

use std::sync::Arc;

use axum::{
    Router,
    body::Body,
    extract::Request,
    middleware::{Next, from_fn},
    response::Response,
};
use tidelake_format::{
    Result,
    access::Principal,
    auth::{Authenticator, Gate},
    meta::Root,
};
use tidelake_protocol::http::Route;
use tidelake_routes::Routes;

use super::{bodies::Held, listen::Counted};
use crate::settings::Settings;

/// The gate that authenticates requests.
///
/// # Errors
/// The operating system has no random bytes.
pub(super) fn gate(settings: &Settings, root: &Root) -> Result<Gate> {
    Ok(match settings.asks_who() {
        true => Gate::Users(Authenticator::new(root.clone())?),
        false => Gate::Off,
    })
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
