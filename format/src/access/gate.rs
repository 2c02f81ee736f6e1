//! The right that a route needs, and the gate that checks it before the route's handler runs.

use std::net::IpAddr;

use http::{Response, header, request::Parts};

use super::{
    Authenticator, Deed, Peer, Principal,
    admit::{FLIGHT, refused},
    challenge,
};
use crate::error::{Error, Kind, Result};

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
    /// [`Kind::Forbidden`].
    pub fn check(self, principal: &Principal) -> Result<()> {
        match self {
            Right::Open | Right::Login | Right::AnyUser => Ok(()),
            Right::Administrator => principal.check_admin("use this"),
        }
    }
}

/// How a process authenticates requests. Cheap to clone.
#[derive(Debug, Clone)]
pub enum Gate {
    /// Authentication is off: each request gets [`Principal::AUTH_OFF`].
    Off,
    /// The users of a root.
    Users(Authenticator),
    /// A layer before this one has authenticated the request and put a [`Principal`] among its extensions.
    Decided,
}

impl Gate {
    /// Lets a request through to a route that needs `right`: the request gets its [`Principal`] as an extension, and where
    /// a session begins [`LoggedIn`](super::LoggedIn). A request to an open route gets neither.
    ///
    /// # Errors
    /// The answer to a request that is refused, in the words of its route's protocol.
    pub async fn admit(&self, right: Right, request: &mut Parts) -> Result<(), Box<Response<String>>> {
        if let Some(admitted) = self.admit_at_once(right, request) {
            return admitted;
        }
        let peer = peer_of(request);
        let principal = match self {
            Gate::Users(authenticator) => authenticator.admit(right, request, peer).await,
            Gate::Off | Gate::Decided => Err(unauthenticated()),
        };
        admitted(right, request, principal, peer)
    }

    /// As [`Gate::admit`], where nothing has to be awaited for that; `None` where a user has to be authenticated.
    ///
    /// # Errors
    /// As for [`Gate::admit`].
    pub fn admit_at_once(&self, right: Right, request: &mut Parts) -> Option<Result<(), Box<Response<String>>>> {
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

fn peer_of(request: &Parts) -> Option<IpAddr> {
    request.extensions.get().map(|Peer(peer)| peer.to_canonical())
}

/// Lets the request of a principal who has the right through.
fn admitted(
    right: Right,
    request: &mut Parts,
    principal: Result<Principal>,
    peer: Option<IpAddr>,
) -> Result<(), Box<Response<String>>> {
    let checked = principal.and_then(|principal| {
        let principal = principal.at(peer);
        let checked = right.check(&principal);
        if checked.is_err() {
            let deed = Deed::new("REQUEST", request.uri.path()).with(request.method.as_str());
            deed.record_refusal(&principal, &checked);
        }
        request.extensions.insert(principal);
        checked
    });
    checked.map_err(|error| Box::new(answer(request, &error)))
}

/// The answer to a request that is refused, with the challenge for its client where it has no valid credentials.
fn answer(request: &Parts, error: &Error) -> Response<String> {
    let path = request.uri.path();
    let mut response = refused(path, error);
    if error.kind() == Kind::Unauthenticated && !path.starts_with(FLIGHT) {
        response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge(&request.headers));
    }
    response
}

impl Principal {
    /// Who a request is from, by its extensions.
    ///
    /// # Errors
    /// [`Kind::Internal`] where no layer before the handler has authenticated the request: it is
    /// refused, whoever sent it.
    pub fn of_request(extensions: &http::Extensions) -> Result<Self> {
        extensions.get().cloned().ok_or_else(unauthenticated)
    }
}

fn unauthenticated() -> Error {
    Error::internal(
        "refused: no authentication layer ran before this handler, so it is unknown who the request is from",
    )
    .with("expected", "a route that declares its right, behind a gate")
}
