//! Events of function URLs, API Gateway and load balancers as requests for the routes of a server.

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

/// How long the root may take to open at the start; after that it is opened by the first request.
const AT_START: Duration = Duration::from_secs(8);

/// Makes the routes, and what authenticates requests by the users of the root that the routes are over.
pub type Open = Box<dyn Fn() -> BoxFuture<'static, Result<(Routes, Authenticator)>> + Send + Sync>;

/// Whom a function lets in, of those whom the platform lets in.
pub enum Admits {
    /// Everybody.
    Anyone,
    /// Whoever brings one of the tokens of a secret, which says what each may do.
    Tokens(Tokens),
    /// The users of the root, and their programs.
    Users {
        /// Whether events say where they come from. Those of a function that everybody may invoke say what they like.
        has_sources: bool,
    },
}

impl Admits {
    /// What the variables `TIDELAKE_AUTH` (`users`, or nothing), `TIDELAKE_TOKEN_SECRET` and `TIDELAKE_SOURCE_ADDRESS`
    /// (`trusted` or `ignored`) say.
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

/// Whom a function is to let in.
#[derive(Debug)]
pub struct Asked {
    users: bool,
    secret: Option<String>,
    /// Whether events say where they come from.
    has_sources: bool,
}

impl Asked {
    /// Whom it lets in.
    ///
    /// # Errors
    /// Invalid for both a secret and users, or without credentials of the platform to read the secret with.
    pub fn open(self) -> Result<Admits> {
        match (self.users, self.secret) {
            (true, Some(_)) => Err(Error::invalid("TIDELAKE_AUTH=users and TIDELAKE_TOKEN_SECRET are one too many")),
            (true, None) => Ok(Admits::Users { has_sources: self.has_sources }),
            (false, Some(secret)) => Ok(Admits::Tokens(Tokens::new(secret, Aws::from_env()?))),
            (false, None) => Ok(Admits::Anyone),
        }
    }
}

/// A function that answers HTTP.
pub struct HttpFunction {
    open: Open,
    router: Lazily<Router>,
    admits: Admits,
    /// Where answers go that are too large for the platform.
    results: Option<Results>,
    telemetry: &'static Telemetry,
}

impl HttpFunction {
    /// A function with the routes that `open` makes, for those whom it lets in.
    pub fn new(open: Open, admits: Admits, telemetry: &'static Telemetry) -> Self {
        Self { open, router: Lazily::default(), admits, results: None, telemetry }
    }

    /// The same, with a place for answers that are too large for the platform; where they are streamed none is.
    #[must_use]
    pub fn with_results(self, results: Results) -> Self {
        Self { results: Some(results), ..self }
    }

    /// Answers events until the platform ends the process.
    ///
    /// # Errors
    /// When the platform cannot be asked for events.
    pub async fn serve(self) -> Result<(), lambda_http::Error> {
        self.start().await;
        let this = Arc::new(self);
        let answer = move |request| {
            let this = this.clone();
            async move { Ok::<_, Infallible>(this.answer(request).await) }
        };
        lambda_http::run(service_fn(answer)).await
    }

    /// The same, with answers that are sent as they are made.
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
                // The one that the event came by is the one that the answer goes by.
                crate::nodelay::set();
                Ok::<_, Infallible>(response)
            }
        };
        lambda_http::run_with_streaming_response(service_fn(answer)).await
    }

    /// Opens what the routes stand on before the first event: the platform gives a start more processor.
    async fn start(&self) {
        if let Err(error) = self.router(AT_START).await {
            tracing::warn!(kind = ?error.kind(), %error, "not opened at the start; the first request tries again");
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

    /// The answer to one event.
    async fn answer(&self, request: lambda_http::Request) -> Response {
        let context = request.lambda_context();
        let span = self.telemetry.begin(&context);
        let left = time_left(&context);
        let path = without_stage(request.uri(), request.extensions().get());
        let api = Route::api_of(path.as_ref().unwrap_or(request.uri()).path());
        // Boxed: the compiler gives up on futures that are nested too deeply.
        let answer = tokio::time::timeout(left, Box::pin(self.routed(request, left)));
        let mut response = match answer.instrument(span.clone()).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => {
                span.in_scope(|| tracing::warn!(kind = ?error.kind(), %error, "a request was not routed"));
                api.refuse(&error).map(Body::from)
            }
            Err(_) => {
                let error = Error::unavailable("the function ran out of time; what it was asked may be done yet");
                span.in_scope(|| tracing::warn!(%error, "a request was given up"));
                api.refuse(&error).map(Body::from)
            }
        };
        // What a body holds is what its Content-Type says: no browser takes text for a script or a page.
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
                    audit::unauthenticated(peer.map(|Peer(peer)| peer), "the request brings no token of the secret");
                    let error = Error::unauthenticated("bring one of the tokens, as Authorization: Bearer …");
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

/// Where the platform says that a request comes from.
fn peer_of(parts: &axum::http::request::Parts) -> Option<Peer> {
    let text = match parts.extensions.get::<RequestContext>() {
        Some(RequestContext::ApiGatewayV1(context)) => context.identity.source_ip.clone(),
        Some(RequestContext::ApiGatewayV2(context)) => context.http.source_ip.clone(),
        // The load balancer adds the address that it sees after those that it is told.
        _ => {
            let told = parts.headers.get("x-forwarded-for").and_then(|value| value.to_str().ok());
            told.and_then(|value| value.rsplit(',').next()).map(|text| text.trim().to_owned())
        }
    };
    text?.parse().ok().map(Peer)
}

/// The URI without the stage that API Gateway puts before the path; `None` where there is none.
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
