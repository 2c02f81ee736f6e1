//! Routes of HTTP, each with the right that it needs.
//!
//! A route cannot be added without its [`Right`], and routes become a router only behind a [`Gate`]: so no request
//! reaches a handler before it was authenticated. A handler learns by [`Caller`] who sent the request; without a gate
//! the request is refused there.

#[cfg(test)]
mod tests;

use std::{
    convert::Infallible,
    future::ready,
    task::{Context, Poll},
};

use axum::{
    Router,
    body::Body,
    extract::{FromRequestParts, Request},
    handler::Handler,
    http::{StatusCode, header, request::Parts},
    response::{IntoResponse, Response},
    routing::{MethodRouter, Route, any},
};
use futures::{
    FutureExt as _,
    future::{BoxFuture, Either},
};
use serde_json::json;
use tidelake_format::{
    Error,
    access::{Gate, Principal, Right},
};
use tower::{Layer, Service};

/// Routes that wait for their state and their gate.
#[derive(Clone)]
pub struct Routes<S = ()> {
    routes: Vec<One<S>>,
    fallback: Option<MethodRouter<S>>,
}

#[derive(Clone)]
struct One<S> {
    path: String,
    right: Right,
    methods: MethodRouter<S>,
}

impl<S> Default for Routes<S> {
    fn default() -> Self {
        Self { routes: Vec::new(), fallback: None }
    }
}

impl<S: Clone + Send + Sync + 'static> Routes<S> {
    /// No routes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a route and the right that it needs, whatever the method.
    #[must_use]
    pub fn route(mut self, path: impl Into<String>, right: Right, methods: MethodRouter<S>) -> Self {
        self.routes.push(One { path: path.into(), right, methods });
        self
    }

    /// What answers a path that no route has. It is for users: nobody else learns which paths exist.
    #[must_use]
    pub fn fallback<H: Handler<T, S>, T: 'static>(self, handler: H) -> Self {
        Self { fallback: Some(any(handler)), ..self }
    }

    /// What answers a request to one of these routes by a method that the route does not have.
    #[must_use]
    pub fn method_not_allowed_fallback<H: Handler<T, S>, T: 'static>(self, handler: H) -> Self {
        self.map(|methods| methods.fallback(handler.clone()))
    }

    /// Adds the routes of another one; its fallback counts where there is none yet.
    #[must_use]
    pub fn merge(mut self, other: Self) -> Self {
        self.routes.extend(other.routes);
        self.fallback = self.fallback.or(other.fallback);
        self
    }

    /// Puts a layer around each route, behind the gate: it sees only requests that were let through.
    #[must_use]
    pub fn layer<L>(self, layer: L) -> Self
    where
        L: Layer<Route> + Clone + Send + Sync + 'static,
        L::Service: Service<Request> + Clone + Send + Sync + 'static,
        <L::Service as Service<Request>>::Response: IntoResponse + 'static,
        <L::Service as Service<Request>>::Error: Into<Infallible> + 'static,
        <L::Service as Service<Request>>::Future: Send + 'static,
    {
        self.map(|methods| methods.layer(layer.clone()))
    }

    /// Gives the handlers their state.
    #[must_use]
    pub fn with_state(self, state: S) -> Routes {
        self.map(|methods| methods.with_state(state.clone()))
    }

    fn map<S2>(self, change: impl Fn(MethodRouter<S>) -> MethodRouter<S2>) -> Routes<S2> {
        let changed = self.routes.into_iter().map(|one| {
            let One { path, right, methods } = one;
            One { path, right, methods: change(methods) }
        });
        Routes { routes: changed.collect(), fallback: self.fallback.map(&change) }
    }

    /// The paths of all routes, and the right that each needs.
    pub fn rights(&self) -> impl Iterator<Item = (&str, Right)> {
        self.routes.iter().map(|one| (one.path.as_str(), one.right))
    }
}

impl Routes {
    /// The routes behind a gate: each request is let through by the right of its route, or refused before the handler
    /// runs. This is the only way from routes to a router.
    pub fn behind(self, gate: &Gate) -> Router {
        let guarded = |right: Right, methods: MethodRouter| methods.layer(Guard { gate: gate.clone(), right });
        let mut router = Router::new();
        for One { path, right, methods } in self.routes {
            router = router.route(&path, guarded(right, methods));
        }
        let fallback = self.fallback.unwrap_or_else(|| any(|| async { StatusCode::NOT_FOUND }));
        router.fallback_service(guarded(Right::AnyUser, fallback))
    }
}

/// Puts a gate before a route.
#[derive(Clone)]
struct Guard {
    gate: Gate,
    right: Right,
}

impl<S> Layer<S> for Guard {
    type Service = Guarded<S>;

    fn layer(&self, route: S) -> Guarded<S> {
        Guarded { guard: self.clone(), route }
    }
}

/// A route behind its gate.
#[derive(Clone)]
struct Guarded<S> {
    guard: Guard,
    route: S,
}

impl<S> Service<Request> for Guarded<S>
where
    S: Service<Request, Response = Response, Error = Infallible, Future: Send> + Clone + Send + 'static,
{
    type Response = Response;
    type Error = Infallible;
    type Future = Either<S::Future, BoxFuture<'static, Result<Response, Infallible>>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.route.poll_ready(cx)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let Guard { gate, right } = &self.guard;
        let (mut parts, body) = request.into_parts();
        // Without users nothing has to be awaited: small writes would pay for the box.
        match gate.admit_at_once(*right, &mut parts) {
            Some(Ok(())) => return Either::Left(self.route.call(Request::from_parts(parts, body))),
            Some(Err(refusal)) => return Either::Right(ready(Ok(refusal.map(Body::from))).boxed()),
            None => {}
        }
        let (gate, right, route) = (gate.clone(), *right, self.route.clone());
        // The one that is ready is called.
        let mut route = std::mem::replace(&mut self.route, route);
        Either::Right(Box::pin(async move {
            match gate.admit(right, &mut parts).await {
                Ok(()) => route.call(Request::from_parts(parts, body)).await,
                Err(refusal) => Ok(refusal.map(Body::from)),
            }
        }))
    }
}

/// Who sent a request, for its handler.
#[derive(Debug, Clone)]
pub struct Caller(pub Principal);

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = Unauthenticated;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Unauthenticated> {
        Principal::of_request(&parts.extensions).map(Self).map_err(Unauthenticated)
    }
}

/// The answer of a handler that no gate stands before: status 500. Nobody is let through.
#[derive(Debug)]
pub struct Unauthenticated(Error);

impl IntoResponse for Unauthenticated {
    fn into_response(self) -> Response {
        let Self(error) = self;
        tracing::error!(%error, "a request was refused");
        let body = json!({ "error": { "kind": "internal", "message": error.to_string() } }).to_string();
        (StatusCode::INTERNAL_SERVER_ERROR, [(header::CONTENT_TYPE, "application/json")], body).into_response()
    }
}
