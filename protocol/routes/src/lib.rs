//! The router: handlers of the routes in the table ([`tidelake_protocol::http::routes`]), each behind a gate.
//!
//! A handler is registered for a [`Route`], which names the right it needs. Handlers become a router only behind a
//! [`Gate`], so no request reaches a handler unauthenticated. A handler gets the principal of a request from
//! [`Caller`]; without a gate the extraction fails and the request is refused.

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
    extract::{DefaultBodyLimit, FromRequestParts, Request},
    handler::Handler,
    http::{HeaderMap, Method, StatusCode, Uri, header, request::Parts},
    middleware::{Next, from_fn},
    response::{IntoResponse, Response},
    routing::{self, MethodFilter, MethodRouter, any, any_service},
};
use futures::{
    FutureExt as _,
    future::{BoxFuture, Either},
};
use metrics::{Counter, counter};
use tidelake_format::{
    Error, Kind,
    access::{Principal, Right},
    auth::{Gate, challenge},
};
use tidelake_protocol::http::{Api, Body as BodyOf, Route, routes::MAX_STATEMENT_BYTES};
use tower::{Layer, Service};

tidelake_protocol::declare_metrics! {
    #[labelled("protocol")]
    counter REQUESTS = "tidelake_requests_total":
        "Requests by protocol: tidelake, influxdb, opentsdb, tdengine or flight; refused ones too.";
}

/// Handlers of routes, before they get their state and gate.
#[derive(Clone)]
pub struct Routes<S = ()> {
    paths: Vec<OnePath<S>>,
    fallback: Option<MethodRouter<S>>,
}

/// The handlers of the routes of one path.
#[derive(Clone)]
struct OnePath<S> {
    /// The path's first route; all routes of a path need the same right and have the same API.
    route: &'static Route,
    methods: MethodRouter<S>,
    /// The routes that have a handler.
    handled: Vec<&'static Route>,
}

impl<S> Default for Routes<S> {
    fn default() -> Self {
        Self { paths: Vec::new(), fallback: None }
    }
}

impl<S: Clone + Send + Sync + 'static> Routes<S> {
    /// No routes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the handler of a route.
    #[must_use]
    pub fn on<H: Handler<T, S>, T: 'static>(mut self, route: &'static Route, handler: H) -> Self {
        let methods = MethodRouter::new().on(filter_of(&route.method), handler);
        let methods = match route.body {
            BodyOf::Statement(_) => methods.layer(DefaultBodyLimit::max(MAX_STATEMENT_BYTES)),
            BodyOf::Short(bytes, _) => methods.layer(DefaultBodyLimit::max(bytes)),
            BodyOf::None | BodyOf::Rows(_) | BodyOf::File(_) | BodyOf::Messages => methods,
        };
        let methods = match route.has_no_query() {
            true => methods.layer(from_fn(move |request, next| refuse_query(route, request, next))),
            false => methods,
        };
        match self.paths.iter_mut().find(|one| one.route.path == route.path) {
            Some(one) => {
                one.methods = std::mem::take(&mut one.methods).merge(methods);
                one.handled.push(route);
            }
            None => {
                self.paths.push(OnePath { route, methods: methods.fallback(wrong_method), handled: vec![route] });
            }
        }
        self
    }

    /// Adds a service that handles a route for all methods.
    #[must_use]
    pub fn serve<T>(mut self, route: &'static Route, service: T) -> Self
    where
        T: Service<Request, Error = Infallible> + Clone + Send + Sync + 'static,
        T::Response: IntoResponse + 'static,
        T::Future: Send + 'static,
    {
        self.paths.push(OnePath { route, methods: any_service(service), handled: vec![route] });
        self
    }

    /// Sets the handler of unknown paths. It needs a user, so that others cannot probe which paths exist.
    #[must_use]
    pub fn fallback<H: Handler<T, S>, T: 'static>(self, handler: H) -> Self {
        Self { fallback: Some(any(handler)), ..self }
    }

    /// Adds the routes of `other`, and its fallback if there is none yet.
    #[must_use]
    pub fn merge(mut self, other: Self) -> Self {
        self.paths.extend(other.paths);
        self.fallback = self.fallback.or(other.fallback);
        self
    }

    /// Puts a layer around each route, behind the gate: it sees only admitted requests.
    #[must_use]
    pub fn layer<L>(self, layer: L) -> Self
    where
        L: Layer<routing::Route> + Clone + Send + Sync + 'static,
        L::Service: Service<Request> + Clone + Send + Sync + 'static,
        <L::Service as Service<Request>>::Response: IntoResponse + 'static,
        <L::Service as Service<Request>>::Error: Into<Infallible> + 'static,
        <L::Service as Service<Request>>::Future: Send + 'static,
    {
        self.map(|methods| methods.layer(layer.clone()))
    }

    /// Provides the handlers' state.
    #[must_use]
    pub fn with_state(self, state: S) -> Routes {
        self.map(|methods| methods.with_state(state.clone()))
    }

    fn map<S2>(self, change: impl Fn(MethodRouter<S>) -> MethodRouter<S2>) -> Routes<S2> {
        let changed = self.paths.into_iter().map(|one| {
            let OnePath { route, methods, handled } = one;
            OnePath { route, methods: change(methods), handled }
        });
        Routes { paths: changed.collect(), fallback: self.fallback.map(&change) }
    }

    /// The routes that have a handler.
    pub fn handled(&self) -> impl Iterator<Item = &'static Route> {
        self.paths.iter().flat_map(|one| one.handled.iter().copied())
    }
}

impl Routes {
    /// Puts the routes behind a gate: each request is checked for the right of its route before the handler runs. This
    /// is the only way to make a router from routes.
    pub fn behind(self, gate: &Gate) -> Router {
        let mut router = Router::new();
        for OnePath { route, methods, .. } in self.paths {
            router = router.route(route.path, methods.layer(Guard::new(gate, route)));
        }
        let fallback = self.fallback.unwrap_or_else(|| any(|| async { StatusCode::NOT_FOUND }));
        let guard = Guard {
            gate: gate.clone(),
            right: Right::AnyUser,
            path: "",
            api: Api::Tidelake,
            requests: counter!(REQUESTS, "protocol" => Api::Tidelake.protocol()),
        };
        router.fallback_service(fallback.layer(guard))
    }
}

fn filter_of(method: &Method) -> MethodFilter {
    match *method {
        Method::POST => MethodFilter::POST,
        Method::PUT => MethodFilter::PUT,
        Method::DELETE => MethodFilter::DELETE,
        _ => MethodFilter::GET,
    }
}

/// Refuses a request with query parameters to a route that has none.
async fn refuse_query(route: &'static Route, request: Request, next: Next) -> Response {
    let query = request.uri().query().unwrap_or_default().as_bytes();
    let checked = form_urlencoded::parse(query).try_for_each(|(name, _)| route.check_parameter(&name));
    match checked {
        Ok(()) => next.run(request).await,
        Err(error) => route.api.answer(&error).map(Body::from),
    }
}

/// Response to an unsupported method; the router adds the header Allow with the supported methods.
async fn wrong_method(method: Method, uri: Uri) -> Response {
    let error = Error::invalid("method not allowed for this path; the header Allow lists the allowed methods");
    let api = Route::api_of(uri.path());
    let taken = |method: &&Method| Route::of(method, uri.path()).is_some();
    let methods = [Method::GET, Method::POST, Method::PUT, Method::DELETE];
    let methods: Vec<&str> = methods.iter().filter(taken).map(Method::as_str).collect();
    let error = error.with("found", format!("{method} {}", uri.path())).with("expected", methods.join(" or "));
    api.answer_as(StatusCode::METHOD_NOT_ALLOWED, &error).map(Body::from)
}

/// Layer that puts a gate before a route.
#[derive(Clone)]
struct Guard {
    gate: Gate,
    right: Right,
    path: &'static str,
    api: Api,
    /// Looked up once: each request increments it.
    requests: Counter,
}

impl Guard {
    fn new(gate: &Gate, route: &'static Route) -> Self {
        let requests = counter!(REQUESTS, "protocol" => route.api.protocol());
        Self { gate: gate.clone(), right: route.right, path: route.path, api: route.api, requests }
    }

    /// Response to a refused request, with a challenge if the credentials are missing or invalid.
    fn refused(&self, request: &HeaderMap, error: &Error) -> Response {
        let mut response = self.api.refuse(error).map(Body::from);
        if error.kind() == Kind::Unauthenticated && self.api != Api::Flight {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge(request));
        }
        response
    }
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
        self.guard.requests.increment(1);
        let (mut parts, body) = request.into_parts();
        // Fast path: without authentication nothing is awaited, and small writes avoid the allocation of the box.
        match self.guard.gate.admit_at_once(self.guard.right, &mut parts) {
            Some(Ok(())) => return Either::Left(self.route.call(Request::from_parts(parts, body))),
            Some(Err(error)) => return Either::Right(ready(Ok(self.guard.refused(&parts.headers, &error))).boxed()),
            None => {}
        }
        let (guard, route) = (self.guard.clone(), self.route.clone());
        // Call the service that was polled ready, and keep its clone.
        let mut route = std::mem::replace(&mut self.route, route);
        Either::Right(Box::pin(async move {
            match guard.gate.admit(guard.right, guard.path, &mut parts).await {
                Ok(()) => route.call(Request::from_parts(parts, body)).await,
                Err(error) => Ok(guard.refused(&parts.headers, &error)),
            }
        }))
    }
}

/// Extractor of the principal that sent a request.
#[derive(Debug, Clone)]
pub struct Caller(pub Principal);

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = Unauthenticated;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Unauthenticated> {
        Principal::of_request(&parts.extensions).map(Self).map_err(Unauthenticated)
    }
}

/// Rejection by a handler without a gate: status 500.
#[derive(Debug)]
pub struct Unauthenticated(Error);

impl IntoResponse for Unauthenticated {
    fn into_response(self) -> Response {
        let Self(error) = self;
        tracing::error!(%error, "request refused: its route has no gate");
        Api::Tidelake.answer(&error).map(Body::from)
    }
}
