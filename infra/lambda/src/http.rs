//! Converts events of function URLs, API Gateway and load balancers to requests for a server's routes.

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::{
    Router,
    body::Body,
    http::{HeaderValue, Request, Uri, header},
    response::Response,
};
use futures::future::BoxFuture;
use lambda_http::{RequestExt as _, request::RequestContext, service_fn};
use tidelake_format::{
    Error, Result,
    access::audit,
    auth::{Authenticator, Gate, Peer},
};
use tidelake_protocol::http::Route;
use tidelake_routes::Routes;
use tower::ServiceExt as _;
use tracing::Instrument as _;

use crate::{
    aws::Aws, lazily::Lazily, results::Results, telemetry::Telemetry, time_left, tokens::Tokens, variables::Variables,
};

/// Time limit for opening the root at the start; after a failure the first request opens it.
const AT_START: Duration = Duration::from_secs(8);

/// Opens the root and returns its routes and the authenticator of its users.
pub type Open = Box<dyn Fn() -> BoxFuture<'static, Result<(Routes, Authenticator)>> + Send + Sync>;

/// Authentication of a function, in addition to the platform's.
pub enum Admits {
    /// No authentication.
    Anyone,
    /// Tokens listed in a secret with their rights.
    Tokens(Tokens),
    /// Users of the root and their tokens.
    Users {
        /// Whether source addresses in events are trusted. If anybody may invoke the function, they can be forged.
        has_sources: bool,
    },
}

impl Admits {
    /// Reads the variables `TIDELAKE_AUTH` (`users` or `off`), `TIDELAKE_TOKEN_SECRET` and `TIDELAKE_SOURCE_ADDRESS`
    /// (`trusted` or `ignored`).
    pub fn of(variables: &mut Variables) -> Asked {
        let users = variables.parsed("TIDELAKE_AUTH", "off", |text| match text {
            "users" => Ok(true),
            "off" => Ok(false),
            _ => Err("users or off"),
        });
        let has_sources = variables.parsed("TIDELAKE_SOURCE_ADDRESS", "trusted", |text| match text {
            "trusted" => Ok(true),
            "ignored" => Ok(false),
            _ => Err("trusted or ignored"),
        });
        Asked { users, secret: variables.text("TIDELAKE_TOKEN_SECRET"), has_sources }
    }
}

/// Requested authentication of a function.
#[derive(Debug)]
pub struct Asked {
    users: bool,
    secret: Option<String>,
    /// Whether source addresses in events are trusted.
    has_sources: bool,
}

impl Asked {
    /// Prepares the authentication.
    ///
    /// # Errors
    /// Invalid if both a secret and users are set, or if AWS credentials to read the secret are missing.
    pub fn open(self) -> Result<Admits> {
        match (self.users, self.secret) {
            (true, Some(_)) => Err(Error::invalid("set only one of TIDELAKE_AUTH=users and TIDELAKE_TOKEN_SECRET")),
            (true, None) => Ok(Admits::Users { has_sources: self.has_sources }),
            (false, Some(secret)) => Ok(Admits::Tokens(Tokens::new(secret, Aws::from_env()?))),
            (false, None) => Ok(Admits::Anyone),
        }
    }
}

/// A function that serves HTTP.
pub struct HttpFunction {
    open: Open,
    router: Lazily<Router>,
    admits: Admits,
    /// Storage of responses that exceed the platform's limit.
    results: Option<Results>,
    telemetry: &'static Telemetry,
}

impl HttpFunction {
    /// A function with the routes of `open` and this authentication.
    pub fn new(open: Open, admits: Admits, telemetry: &'static Telemetry) -> Self {
        Self { open, router: Lazily::default(), admits, results: None, telemetry }
    }

    /// Adds storage for responses that exceed the platform's limit; streamed responses have no such limit.
    #[must_use]
    pub fn with_results(self, results: Results) -> Self {
        Self { results: Some(results), ..self }
    }

    /// Answers events until the platform ends the process.
    ///
    /// # Errors
    /// The platform's event API fails.
    pub async fn serve(self) -> Result<(), lambda_http::Error> {
        self.start().await;
        let this = Arc::new(self);
        let answer = move |request| {
            let this = this.clone();
            async move { Ok::<_, Infallible>(this.answer(request).await) }
        };
        lambda_http::run(service_fn(answer)).await
    }

    /// Answers events with streamed responses.
    ///
    /// # Errors
    /// As [`HttpFunction::serve`].
    pub async fn serve_streaming(self) -> Result<(), lambda_http::Error> {
        self.start().await;
        let this = Arc::new(self);
        let answer = move |request| {
            let this = this.clone();
            async move {
                let response = this.answer(request).await;
                // The response uses the connection on which the event arrived.
                crate::nodelay::set();
                Ok::<_, Infallible>(response)
            }
        };
        lambda_http::run_with_streaming_response(service_fn(answer)).await
    }

    /// Opens the root before the first event: the platform gives the init phase more CPU.
    async fn start(&self) {
        if let Err(error) = self.router(AT_START).await {
            tracing::warn!(kind = ?error.kind(), %error, "opening the root at start failed; the first request retries");
        }
    }

    async fn router(&self, limit: Duration) -> Result<&Router> {
        let open = || async {
            let (routes, authenticator) = (self.open)().await?;
            Ok(routes.behind(&match self.admits {
                Admits::Anyone => Gate::Off,
                Admits::Tokens(_) => Gate::Decided,
                Admits::Users { .. } => Gate::Users(authenticator),
            }))
        };
        self.router.get(limit, open).await
    }

    /// Answers one event.
    async fn answer(&self, request: lambda_http::Request) -> Response {
        let context = request.lambda_context();
        let span = self.telemetry.begin(&context);
        let left = time_left(&context);
        let path = without_stage(request.uri(), request.extensions().get());
        let api = Route::api_of(path.as_ref().unwrap_or(request.uri()).path());
        // Boxed because the compiler fails on too deeply nested futures.
        let answer = tokio::time::timeout(left, Box::pin(self.routed(request, left)));
        let mut response = match answer.instrument(span.clone()).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => {
                span.in_scope(|| tracing::warn!(kind = ?error.kind(), %error, "request failed before its route"));
                api.refuse(&error).map(Body::from)
            }
            Err(_) => {
                let error = Error::unavailable("the function ran out of time; the request may still take effect");
                span.in_scope(|| tracing::warn!(%error, "request timed out"));
                api.refuse(&error).map(Body::from)
            }
        };
        // Browsers must not interpret a text body as a script or page.
        response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        if response.status().is_server_error() {
            self.telemetry.failed();
        }
        self.telemetry.tell(&context.request_id, &[]);
        response
    }

    async fn routed(&self, request: lambda_http::Request, left: Duration) -> Result<Response> {
        let (mut parts, body) = request.into_parts();
        if let Some(uri) = without_stage(&parts.uri, parts.extensions.get()) {
            parts.uri = uri;
        }
        let has_sources = !matches!(self.admits, Admits::Users { has_sources: false });
        let peer = peer_of(&parts).filter(|_| has_sources);
        if let Some(peer) = peer {
            parts.extensions.insert(peer);
        }
        if let Admits::Tokens(tokens) = &self.admits {
            match tokens.admit(&parts.headers, &parts.uri).await? {
                Some(principal) => parts.extensions.insert(principal),
                None => {
                    audit::unauthenticated(peer.map(|Peer(peer)| peer), "unknown or missing token");
                    let error = Error::unauthenticated("missing or unknown token: expected Authorization: Bearer …");
                    let mut response = Route::api_of(parts.uri.path()).refuse(&error).map(Body::from);
                    response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
                    return Ok(response);
                }
            };
        }
        let router = self.router(left).await?.clone();
        let body = match body {
            lambda_http::Body::Text(text) => Body::from(text),
            lambda_http::Body::Binary(bytes) => Body::from(bytes),
            _ => Body::empty(),
        };
        let response = router.oneshot(Request::from_parts(parts, body)).await.unwrap_or_else(|never| match never {});
        match &self.results {
            Some(results) => results.within_limit(response).await,
            None => Ok(response),
        }
    }
}

/// Source address of a request, as reported by the platform.
fn peer_of(parts: &axum::http::request::Parts) -> Option<Peer> {
    let text = match parts.extensions.get::<RequestContext>() {
        Some(RequestContext::ApiGatewayV1(context)) => context.identity.source_ip.clone(),
        Some(RequestContext::ApiGatewayV2(context)) => context.http.source_ip.clone(),
        // The load balancer appends the address it sees to those in the header.
        _ => {
            let told = parts.headers.get("x-forwarded-for").and_then(|value| value.to_str().ok());
            told.and_then(|value| value.rsplit(',').next()).map(|text| text.trim().to_owned())
        }
    };
    text?.parse().ok().map(Peer)
}

/// The URI without API Gateway's stage before the path; `None` if there is no stage.
fn without_stage(uri: &Uri, context: Option<&RequestContext>) -> Option<Uri> {
    let stage = match context? {
        RequestContext::ApiGatewayV1(context) => context.stage.as_deref(),
        RequestContext::ApiGatewayV2(context) => context.stage.as_deref(),
        _ => None,
    };
    let stage = stage.filter(|stage| !stage.is_empty() && *stage != "$default")?;
    let rest = uri.path().strip_prefix('/')?.strip_prefix(stage)?;
    if !rest.is_empty() && !rest.starts_with('/') {
        return None;
    }
    let path = if rest.is_empty() { "/" } else { rest };
    let query = uri.query().map_or(String::new(), |query| format!("?{query}"));
    format!("{path}{query}").parse().ok()
}

#[cfg(test)]
mod tests;
