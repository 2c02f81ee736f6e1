//! Events of function URLs, API Gateway and load balancers as requests for the routes of a server.

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::{
    Json, Router,
    body::Body,
    http::{HeaderValue, Request, StatusCode, Uri, header},
    response::{IntoResponse, Response},
};
use futures::future::BoxFuture;
use lambda_http::{RequestExt as _, request::RequestContext, service_fn};
use serde_json::json;
use tidelake_format::{Error, Kind, Result};
use tower::ServiceExt as _;
use tracing::Instrument as _;

use crate::{lazily::Lazily, results::Results, telemetry::Telemetry, time_left, tokens::Tokens};

/// How long the root may take to open at the start; after that it is opened by the first request.
const AT_START: Duration = Duration::from_secs(8);

/// Makes the routes: opens what they stand on.
pub type Open = Box<dyn Fn() -> BoxFuture<'static, Result<Router>> + Send + Sync>;

/// A function that answers HTTP.
pub struct HttpFunction {
    open: Open,
    routes: Lazily<Router>,
    tokens: Option<Tokens>,
    /// Where answers go that are too large for the platform.
    results: Option<Results>,
    telemetry: &'static Telemetry,
}

impl HttpFunction {
    /// A function with the routes that `open` makes, for everybody or for those who bring a token.
    pub fn new(open: Open, tokens: Option<Tokens>, telemetry: &'static Telemetry) -> Self {
        Self { open, routes: Lazily::default(), tokens, results: None, telemetry }
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
        if let Err(error) = self.routes.get(AT_START, &self.open).await {
            tracing::warn!(kind = ?error.kind(), %error, "not opened at the start; the first request tries again");
        }
    }

    /// The answer to one event.
    async fn answer(&self, request: lambda_http::Request) -> Response {
        let context = request.lambda_context();
        let span = self.telemetry.begin(&context);
        let left = time_left(&context);
        let answer = tokio::time::timeout(left, self.routed(request, left));
        let response = match answer.instrument(span.clone()).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => {
                span.in_scope(|| tracing::warn!(kind = ?error.kind(), %error, "a request was not routed"));
                refused(&error)
            }
            Err(_) => {
                let error = Error::unavailable("the function ran out of time; what it was asked may be done yet");
                span.in_scope(|| tracing::warn!(%error, "a request was given up"));
                refused(&error)
            }
        };
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
        if let Some(tokens) = &self.tokens
            && !tokens.admit(&parts.headers, &parts.uri).await?
        {
            return Ok(unauthorized());
        }
        let routes = self.routes.get(left, &self.open).await?.clone();
        let body = match body {
            lambda_http::Body::Text(text) => Body::from(text),
            lambda_http::Body::Binary(bytes) => Body::from(bytes),
            _ => Body::empty(),
        };
        let response = routes.oneshot(Request::from_parts(parts, body)).await.unwrap_or_else(|never| match never {});
        match &self.results {
            Some(results) => results.within_limit(response).await,
            None => Ok(response),
        }
    }
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

/// An answer of the function itself, in words that clients of each protocol find.
fn refused(error: &Error) -> Response {
    let status = match error.kind() {
        Kind::Invalid | Kind::Unsupported => StatusCode::BAD_REQUEST,
        Kind::NotFound => StatusCode::NOT_FOUND,
        Kind::Conflict | Kind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        Kind::Corrupt | Kind::Internal => StatusCode::INTERNAL_SERVER_ERROR,
    };
    let mut response = (status, Json(json!({ "error": error.to_string() }))).into_response();
    if error.kind().is_retryable() {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}

fn unauthorized() -> Response {
    let body = Json(json!({ "error": "unauthorized: bring one of the tokens, as Authorization: Bearer …" }));
    (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, "Bearer")], body).into_response()
}

#[cfg(test)]
mod tests;
