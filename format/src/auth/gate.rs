//! The gate before a route: authenticates a request and checks the right that the route requires.

use std::net::IpAddr;

use http::request::Parts;

use super::{Authenticator, Credentials, cookie};
use crate::{
    access::{Deed, Principal, Right},
    error::{Error, Result},
};

/// The client's address, an extension of the request.
#[derive(Debug, Clone, Copy)]
pub struct Peer(pub IpAddr);

/// How a process authenticates requests. Cheap to clone.
#[derive(Debug, Clone)]
pub enum Gate {
    /// Authentication is off: each request gets [`Principal::AUTH_OFF`].
    Off,
    /// The users of a root.
    Users(Authenticator),
    /// An earlier layer authenticated the request and added its [`Principal`] as an extension.
    Decided,
}

impl Gate {
    /// Admits a request to a route that requires `right`: adds its [`Principal`] as an extension and, on a login route,
    /// [`LoggedIn`](super::LoggedIn). A request to an open route gets neither. `path` is the route's path, for the
    /// audit log: the path of the request may contain a password.
    ///
    /// # Errors
    /// Unauthenticated or Forbidden, and those of the store.
    pub async fn admit(&self, right: Right, path: &str, request: &mut Parts) -> Result<()> {
        if let Some(admitted) = self.admit_at_once(right, request) {
            return admitted;
        }
        let peer = peer_of(request);
        let principal = match self {
            Gate::Users(authenticator) => authenticator.admit(right, path, request, peer).await,
            Gate::Off | Gate::Decided => Err(unauthenticated()),
        };
        admitted(right, request, principal, peer)
    }

    /// As [`Gate::admit`] without waiting; `None` if a user has to be authenticated.
    ///
    /// # Errors
    /// As for [`Gate::admit`].
    pub fn admit_at_once(&self, right: Right, request: &mut Parts) -> Option<Result<()>> {
        if right == Right::Open {
            return Some(Ok(()));
        }
        let principal = match self {
            Gate::Users(_) => return None,
            Gate::Off => Ok(Principal::AUTH_OFF),
            Gate::Decided => Principal::of_request(&request.extensions),
        };
        let peer = peer_of(request);
        Some(admitted(right, request, principal, peer))
    }
}

impl Authenticator {
    /// Authenticates a request to a route that requires `right` and returns its principal. On a login route, adds
    /// [`LoggedIn`](super::LoggedIn) as an extension.
    async fn admit(&self, right: Right, path: &str, request: &mut Parts, peer: Option<IpAddr>) -> Result<Principal> {
        let credentials = match Credentials::of(&request.headers, &request.uri) {
            Credentials::None => cookie::credentials_of(&request.method, &request.headers).inspect_err(|error| {
                Deed { action: "AUTHENTICATE", ..Deed::default() }.write("", peer, Some(error));
            })?,
            given => given,
        };
        match right {
            Right::Login => {
                let session = self.log_in(&credentials, peer).await?;
                let principal = session.principal.clone().at(peer);
                Deed::new("LOGIN", principal.to_string()).with(path).record(&principal, &Ok(()));
                request.extensions.insert(session);
                Ok(principal)
            }
            Right::Open | Right::AnyUser | Right::Administrator => self.authenticate(&credentials, peer).await,
        }
    }
}

fn peer_of(request: &Parts) -> Option<IpAddr> {
    request.extensions.get().map(|Peer(peer)| peer.to_canonical())
}

/// Checks the principal's right and adds the principal to the request.
fn admitted(right: Right, request: &mut Parts, principal: Result<Principal>, peer: Option<IpAddr>) -> Result<()> {
    let principal = principal?.at(peer);
    let checked = right.check(&principal);
    if checked.is_err() {
        let deed = Deed::new("REQUEST", request.uri.path()).with(request.method.as_str());
        deed.record_refusal(&principal, &checked);
    }
    request.extensions.insert(principal);
    checked
}

impl Principal {
    /// The principal of a request, from its extensions.
    ///
    /// # Errors
    /// [`Kind::Internal`](crate::Kind::Internal) if no layer before the handler authenticated the request.
    pub fn of_request(extensions: &http::Extensions) -> Result<Self> {
        extensions.get().cloned().ok_or_else(unauthenticated)
    }
}

fn unauthenticated() -> Error {
    Error::internal("request refused: no authentication layer ran before this handler")
        .with("expected", "a route that declares its right, behind an authentication gate")
}
