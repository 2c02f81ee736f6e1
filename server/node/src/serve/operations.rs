//! Routes for operators: health, readiness, metrics, figures of the node, compaction, data files, log filter and OpenAPI document.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::Context;
use axum::{
    Json,
    body::Body,
    extract::{RawQuery, State, rejection::StringRejection},
    http::{HeaderName, Method, StatusCode, Uri, header},
    response::{IntoResponse, Response},
};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use serde_json::json;
use tidelake_format::{Error, Reason, access::Deed, layout, meta::Root};
use tidelake_ingest::{compact::CompactRequest, write::Ingest};
use tidelake_protocol::http::{Api, Route, api::json_answer, instead_of_path, openapi, routes};
use tidelake_routes::{Caller, Routes};
use tokio::sync::{Mutex, watch};

use super::{
    figures::{self, Figures},
    logging::{self, wanted::Wanted},
};

#[derive(Clone)]
struct Operations {
    root: Root,
    ingest: Ingest,
    figures: Figures,
    stopped: watch::Receiver<bool>,
    /// Time and result of the last store probe; the result holds its fault.
    asked: Arc<Mutex<Option<(Instant, Option<String>)>>>,
}

/// Minimum interval between store probes; each probe is a request.
const ASK_EVERY: Duration = Duration::from_secs(5);
/// Timeout of a store probe.
const ANSWERS_WITHIN: Duration = Duration::from_secs(2);

/// Installs the metrics recorder; a second server in the process shares it.
pub(super) fn install_metrics() -> anyhow::Result<PrometheusHandle> {
    static HANDLE: parking_lot::Mutex<Option<PrometheusHandle>> = parking_lot::Mutex::new(None);
    // Locked until the recorder is installed, so servers that start concurrently share it.
    let mut handle = HANDLE.lock();
    if let Some(handle) = &*handle {
        return Ok(handle.clone());
    }
    let seconds = [0.000_1, 0.000_3, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0];
    let installed = PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), &seconds)?
        .install_recorder()
        .context("cannot install the metrics recorder")?;
    Ok(handle.insert(installed).clone())
}

/// `/health`, `/ready`, `/metrics`, `/api/v1/node` and its events, `/api/v1/compact`, `/api/v1/files`, `/api/v1/log` and `/api/v1/openapi.json`.
pub(super) fn routes(root: Root, ingest: Ingest, figures: Figures, stopped: watch::Receiver<bool>) -> Routes {
    Routes::new()
        .on(&routes::HEALTH, health)
        .on(&routes::READY, ready)
        .on(&routes::METRICS, render_metrics)
        .on(&routes::NODE, node)
        .on(&routes::NODE_EVENTS, node_events)
        .on(&routes::COMPACT, compact)
        .on(&routes::FILES, files)
        .on(&routes::LOG_GET, log)
        .on(&routes::LOG_PUT, change_log)
        .on(&routes::OPENAPI, describe)
        .fallback(unknown)
        .with_state(Operations { root, ingest, figures, stopped, asked: Arc::default() })
}

/// Fallback for unknown paths.
pub(super) async fn unknown(method: Method, uri: Uri) -> Response {
    let error = Error::not_found("no such path; see /api/v1/openapi.json for all paths");
    let error = error.with("found", format!("{method} {}", uri.path()));
    let known = routes::ALL.iter().map(|route| route.path);
    failure(&error.suggest_or(instead_of_path(uri.path()), uri.path(), known))
}

/// Returns 200 while the process serves, with the version of the root it has loaded.
async fn health(State(state): State<Operations>) -> Response {
    let version = state.root.catalog().version;
    Json(json!({
        "name": "tidelake",
        "message": "ready for queries and writes",
        "status": "pass",
        "checks": [],
        "version": env!("CARGO_PKG_VERSION"),
        "root_version": version.0,
    }))
    .into_response()
}

/// Returns 200 if the store answers and the server is not stopping. `store_full` gives the reason if writes are refused
/// because the store has no space left.
async fn ready(State(state): State<Operations>) -> Response {
    let unready = |message: String| {
        let body = json!({ "name": "tidelake", "status": "not ready", "message": message });
        json_answer(StatusCode::SERVICE_UNAVAILABLE, &body).map(Body::from)
    };
    if *state.stopped.borrow() {
        return unready("the server is stopping".to_owned());
    }
    // Held during the probe: concurrent requests wait for its result.
    let mut asked = state.asked.lock().await;
    let fault = match asked.take().filter(|(at, _)| at.elapsed() < ASK_EVERY) {
        Some(known) => asked.insert(known).1.clone(),
        None => {
            let fault = match tokio::time::timeout(ANSWERS_WITHIN, state.root.refresh()).await {
                Ok(Ok(_)) => None,
                Ok(Err(error)) => Some(error.to_string()),
                Err(_) => Some(format!("the store did not answer within {ANSWERS_WITHIN:?}")),
            };
            asked.insert((Instant::now(), fault)).1.clone()
        }
    };
    match fault {
        None => {
            let mut body = json!({ "name": "tidelake", "status": "ready" });
            // Still ready: queries work, and other servers of the root have no more space.
            if let Some(lack) = state.root.store().lack() {
                body["store_full"] = json!(lack);
            }
            Json(body).into_response()
        }
        Some(fault) => unready(fault),
    }
}

async fn render_metrics(State(state): State<Operations>, Caller(principal): Caller) -> Response {
    let text = state.figures.metrics(principal.is_admin()).await;
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response()
}

/// Returns the figures of this node.
async fn node(State(state): State<Operations>) -> Response {
    Json(state.figures.node().await).into_response()
}

/// Sends the figures each second, and the log, as Server-Sent Events.
async fn node_events(State(state): State<Operations>, RawQuery(query): RawQuery) -> Response {
    let count = match parameter(query.as_deref(), &routes::NODE_EVENTS, "count") {
        Ok(None) => None,
        Ok(Some(text)) => match text.parse().ok().filter(|count| (1..=900).contains(count)) {
            Some(count) => Some(count),
            None => return failure(&unexpected("count=1 to 900", &format!("count={text}"))),
        },
        Err(error) => return failure(&error),
    };
    let of = |name| parameter(query.as_deref(), &routes::NODE_EVENTS, name);
    let wanted = of("level").and_then(|level| Wanted::new(level.as_deref(), of("words")?.as_deref()));
    let wanted = match wanted {
        Ok(wanted) => wanted,
        Err(error) => return failure(&error),
    };
    let headers = [(header::CACHE_CONTROL, "no-store"), (HeaderName::from_static("x-accel-buffering"), "no")];
    (headers, figures::events(state.figures, state.stopped, count, wanted)).into_response()
}

/// Folds the log (`until=fold`), drops expired partitions and runs the due merges (`due`), or merges every partition
/// (`full`, the default), then answers.
async fn compact(State(state): State<Operations>, Caller(principal): Caller, RawQuery(query): RawQuery) -> Response {
    let expected = "until=fold, due or full";
    let request = parameter(query.as_deref(), &routes::COMPACT, "until").and_then(|until| match until.as_deref() {
        Some("fold") => Ok(CompactRequest::Fold),
        Some("due") => Ok(CompactRequest::Due),
        None | Some("full") => Ok(CompactRequest::Full),
        Some(other) => Err(unexpected(expected, &format!("until={other}"))),
    });
    let request = match request {
        Ok(request) => request,
        Err(e) => return failure(&e),
    };
    let done = state.ingest.compact(request).await;
    let until = match request {
        CompactRequest::Fold => "fold",
        CompactRequest::Due => "due",
        CompactRequest::Full => "full",
    };
    Deed::new("COMPACT", "/api/v1/compact").with(format!("until={until}")).record(&principal, &done);
    match done {
        Ok(report) => Json(json!({
            "segments": report.segments,
            "folded_rows": report.folded_rows,
            "merged_files": report.merged_files,
            "merged_rows": report.merged_rows,
            "duplicates": report.duplicates,
            "expired_partitions": report.expired_partitions,
            "expired_rows": report.expired_rows,
            "files": report.files,
            "bytes": report.bytes,
        }))
        .into_response(),
        Err(e) => failure(&e),
    }
}

/// Lists the live data files of a table: another engine that reads exactly these sees each folded row once. Files
/// replaced by a merge stay in the store for a while but are not listed.
async fn files(State(state): State<Operations>, RawQuery(query): RawQuery) -> Response {
    let expected = "table=database.table";
    let table = parameter(query.as_deref(), &routes::FILES, "table");
    let table = table.and_then(|table| table.ok_or_else(|| unexpected(expected, "no table")));
    let listed = async { live_files(&state.root, &table?).await };
    match listed.await {
        Ok(listed) => Json(listed).into_response(),
        Err(e) => failure(&e),
    }
}

async fn live_files(root: &Root, name: &str) -> tidelake_format::Result<serde_json::Value> {
    let catalog = root.refresh().await?;
    let (database, table) = name
        .split_once('.')
        .ok_or_else(|| Error::invalid("invalid table name: expected database.table").with("found", name))?;
    let unknown = || Error::not_found("no such table").because(Reason::TableNotFound).with("table", name);
    let database = catalog.database(database).ok_or_else(unknown)?;
    let table = catalog.table(database.id, table).ok_or_else(unknown)?;
    let partitions: Vec<i64> = catalog.partitions(table.id).map(|(partition, _)| partition).collect();
    let mut files = Vec::new();
    for partition in partitions {
        for file in root.files(&catalog, table.id, partition).await?.iter() {
            files.push(json!({
                "data": layout::data_key(table.id, partition, file.data.id),
                "tags": layout::tags_key(table.id, partition, file.tags.id),
                "rows": file.rows,
                "data_bytes": file.data.bytes,
                "tags_bytes": file.tags.bytes,
                "rollup": file.rollup.map(|rollup| layout::rollup_key(table.id, partition, rollup.id)),
                "rollup_bytes": file.rollup.map_or(0, |rollup| rollup.bytes),
            }));
        }
    }
    Ok(json!({"version": catalog.version.0, "files": files}))
}

/// Returns the OpenAPI document of all routes.
async fn describe() -> Response {
    Json(openapi()).into_response()
}

/// Returns the log filter in force.
async fn log() -> Response {
    Json(json!({ "log": logging::current() })).into_response()
}

/// Replaces the log filter by the body, until the server ends.
async fn change_log(
    Caller(principal): Caller,
    RawQuery(query): RawQuery,
    body: Result<String, StringRejection>,
) -> Response {
    if let Err(e) = parameter(query.as_deref(), &routes::LOG_PUT, "") {
        return failure(&e);
    }
    let body = match body {
        Ok(body) => body,
        Err(rejection) => {
            let error = Error::invalid(rejection.body_text());
            return Api::Tidelake.answer_as(rejection.status(), &error).map(Body::from);
        }
    };
    let filter = body.trim();
    if filter.is_empty() {
        return failure(&Error::invalid(
            "invalid log filter: expected a level or target=level, such as info,tidelake_ingest=debug",
        ));
    }
    let before = logging::current().unwrap_or_default();
    let changed = logging::change(filter);
    Deed::new("SET LOG FILTER", filter).with(format!("before: {before}")).record(&principal, &changed);
    match changed {
        Ok(()) => log().await,
        Err(e) => failure(&e),
    }
}

/// Returns the value of the only query parameter of a route, if it is given.
///
/// # Errors
/// Invalid for an unknown parameter.
pub(super) fn parameter(query: Option<&str>, route: &Route, name: &str) -> tidelake_format::Result<Option<String>> {
    let mut found = None;
    for (known, value) in url::form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
        route.check_parameter(&known)?;
        if known == name {
            found = Some(value.into_owned());
        }
    }
    Ok(found)
}

fn unexpected(expected: &str, found: &str) -> Error {
    Error::invalid("invalid query string").with("expected", expected).with("found", found)
}

/// The reply of an error.
pub(super) fn failure(error: &Error) -> Response {
    Api::Tidelake.answer(error).map(Body::from)
}
