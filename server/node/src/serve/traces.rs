//! Traces: [steps](tidelake_format::steps) of requests and background work, exported as OpenTelemetry spans to a collector.
//!
//! A request continues the trace of its `traceparent` header (<https://www.w3.org/TR/trace-context/>). A separate
//! thread exports spans in batches; if the collector is unreachable they are lost, and no request waits.

use std::{future::Future, sync::OnceLock, time::Duration};

use anyhow::Context as _;
use axum::{http::HeaderMap, response::Response};
use opentelemetry::{
    Key,
    propagation::{Extractor, TextMapPropagator},
    trace::{Status, TracerProvider as _},
};
use opentelemetry_otlp::{SpanExporter, WithExportConfig};
use opentelemetry_sdk::{
    Resource,
    error::OTelSdkResult,
    propagation::TraceContextPropagator,
    trace::{Sampler, SdkTracerProvider, SpanData},
};
use tidelake_format::{step, steps::TARGET};
use tidelake_protocol::{
    http::Route,
    settings::{self as declared, without_credentials},
};
use tracing::{Instrument as _, Metadata, Span, Subscriber, level_filters::LevelFilter};
use tracing_opentelemetry::OpenTelemetrySpanExt as _;
use tracing_subscriber::{Layer, filter::filter_fn, registry::LookupSpan};

use crate::settings::Settings;

/// The tracer provider of this process, if traces are on.
static PROVIDER: OnceLock<SdkTracerProvider> = OnceLock::new();

/// How long a stop waits for the export of the remaining spans.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// The tracing layer that exports steps, if the settings name a collector.
///
/// # Errors
/// The collector's address is invalid.
pub(super) fn layer<S>(settings: &Settings) -> anyhow::Result<Option<impl Layer<S> + Send + Sync + use<S>>>
where
    S: Subscriber + for<'s> LookupSpan<'s> + Send + Sync,
{
    let Some(endpoint) = settings.get(&declared::TRACE_ENDPOINT) else { return Ok(None) };
    let exporter = SpanExporter::builder().with_tonic().with_endpoint(&endpoint);
    let exporter = exporter.build().with_context(|| format!("trace_endpoint {}", without_credentials(&endpoint)))?;
    let sampler = Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(settings.get(&declared::TRACE_RATIO))));
    let provider = SdkTracerProvider::builder()
        .with_batch_exporter(Marked(exporter))
        .with_sampler(sampler)
        .with_resource(Resource::builder().with_service_name("tidelake").build())
        .build();
    let tracer = provider.tracer("tidelake");
    let _ = PROVIDER.set(provider);
    tidelake_query::engine::keep_spans();
    let is_step = |metadata: &Metadata<'_>| metadata.is_span() && metadata.target() == TARGET;
    let spans = tracing_opentelemetry::layer().with_tracer(tracer).with_location(false).with_threads(false);
    Ok(Some(spans.with_filter(filter_fn(is_step).with_max_level_hint(LevelFilter::TRACE))))
}

/// Exports the remaining spans.
pub(super) async fn stop() {
    let Some(provider) = PROVIDER.get() else { return };
    let last = tokio::task::spawn_blocking(|| provider.shutdown_with_timeout(LAST_WORDS));
    if let Ok(Err(error)) = last.await {
        tracing::warn!(%error, "the remaining traces were not exported");
    }
}

/// The step of a request, within the trace that its headers name.
pub(super) fn request<B>(request: &hyper::Request<B>) -> Span {
    // A closure, so it is evaluated only if the step is recorded.
    let path = || Route::shown(request.uri().path());
    let span = step!(
        "request",
        otel.name = format!("{} {}", request.method(), path()),
        otel.kind = "server",
        http.request.method = request.method().as_str(),
        url.path = path(),
        http.response.status_code = tracing::field::Empty,
    );
    if !span.is_disabled() {
        let caller = TraceContextPropagator::new().extract(&Headers(request.headers()));
        // Fails only for a span that is not recorded.
        let _ = span.set_parent(caller);
    }
    span
}

/// Runs a request within its step.
pub(super) async fn answered<E>(span: Span, answer: impl Future<Output = Result<Response, E>>) -> Result<Response, E> {
    let answer = answer.instrument(span.clone()).await;
    if let Ok(response) = &answer {
        span.record("http.response.status_code", response.status().as_u16());
        if response.status().is_server_error() {
            span.record("error", response.status().as_str());
        }
    }
    answer
}

struct Headers<'a>(&'a HeaderMap);

impl Extractor for Headers<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).and_then(|value| value.to_str().ok())
    }

    fn keys(&self) -> Vec<&str> {
        self.0.keys().map(|key| key.as_str()).collect()
    }
}

/// Sets the error status on spans with an `error` attribute, as collectors expect.
#[derive(Debug)]
struct Marked(SpanExporter);

impl opentelemetry_sdk::trace::SpanExporter for Marked {
    async fn export(&self, mut batch: Vec<SpanData>) -> OTelSdkResult {
        const ERROR: Key = Key::from_static_str("error");
        for span in &mut batch {
            if let Some(error) = span.attributes.iter().find(|attribute| attribute.key == ERROR) {
                span.status = Status::error(error.value.as_str().into_owned());
            }
        }
        self.0.export(batch).await
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.0.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.0.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.0.set_resource(resource);
    }
}
