//! What an operator asks: is it alive, what does it count, compact now.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::Context;
use axum::{
    Json,
    body::Body,
    extract::{RawQuery, State, rejection::StringRejection},
    http::{Method, StatusCode, Uri, header},
    response::{IntoResponse, Response},
};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use serde_json::json;
use tidelake_format::{Error, Reason, access::Deed, layout, meta::Root, nearest::nearest};
use tidelake_ingest::{compact::CompactRequest, write::Ingest};
use tidelake_protocol::http::{Api, Route, api::json_answer, instead_of_path, openapi, routes};
use tidelake_routes::{Caller, Routes};
use tokio::sync::{Mutex, watch};

use super::logging;

#[derive(Clone)]
struct Operations {
    root: Root,
    ingest: Ingest,
    metrics: PrometheusHandle,
    stopped: watch::Receiver<bool>,
    /// When the store was last asked whether it answers, and what was wrong.
    asked: Arc<Mutex<Option<(Instant, Option<String>)>>>,
}

/// The store is asked at most this often whether it answers: each question is a request.
const ASK_EVERY: Duration = Duration::from_secs(5);
/// How long it has.
const ANSWERS_WITHIN: Duration = Duration::from_secs(2);

/// Makes the process count; a second server in it shares the counters.
pub(super) fn install_metrics() -> anyhow::Result<PrometheusHandle> {
    static HANDLE: parking_lot::Mutex<Option<PrometheusHandle>> = parking_lot::Mutex::new(None);
    // Locked until it is installed: servers that start at once share it, too.
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

/// `/health`, `/ready`, `/metrics`, `/api/v1/compact`, `/api/v1/files`, `/api/v1/log` and `/api/v1/openapi.json`.
pub(super) fn routes(root: Root, ingest: Ingest, metrics: PrometheusHandle, stopped: watch::Receiver<bool>) -> Routes {
    Routes::new()
        .on(&routes::HEALTH, health)
        .on(&routes::READY, ready)
        .on(&routes::METRICS, render_metrics)
        .on(&routes::COMPACT, compact)
        .on(&routes::FILES, files)
        .on(&routes::LOG_GET, log)
        .on(&routes::LOG_PUT, change_log)
        .on(&routes::OPENAPI, describe)
        .fallback(unknown)
        .with_state(Operations { root, ingest, metrics, stopped, asked: Arc::default() })
}

/// A path that no route has.
async fn unknown(method: Method, uri: Uri) -> Response {
    let error = Error::not_found("no such path; /api/v1/openapi.json lists all of them");
    let error = error.with("found", format!("{method} {}", uri.path()));
    let known = routes::ALL.iter().map(|route| route.path).collect::<Vec<_>>();
    failure(&match (instead_of_path(uri.path()), nearest(uri.path(), &known)) {
        (Some(instead), _) => error.with("use", instead),
        (None, Some(near)) => error.with("did you mean", near),
        (None, None) => error,
    })
}

/// 200 while the process serves; says which version of the root it knows.
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

/// 200 while requests are to be sent here: the store answers, and the server was not told to stop. `store_full` says why
/// writes are refused where the store has no space left.
async fn ready(State(state): State<Operations>) -> Response {
    let unready = |message: String| {
        let body = json!({ "name": "tidelake", "status": "not ready", "message": message });
        json_answer(StatusCode::SERVICE_UNAVAILABLE, &body).map(Body::from)
    };
    if *state.stopped.borrow() {
        return unready("the server is stopping".to_owned());
    }
    // Held while the store is asked: who asks meanwhile waits for the same answer.
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
            // Queries go on: who sends requests elsewhere would not find more space there.
            if let Some(lack) = state.root.store().lack() {
                body["store_full"] = json!(lack);
            }
            Json(body).into_response()
        }
        Some(fault) => unready(fault),
    }
}

async fn render_metrics(State(state): State<Operations>) -> Response {
    let mut text = state.metrics.render();
    let store = state.root.store().counters();
    let requests =
        [("put", store.put), ("get", store.get), ("head", store.head), ("list", store.list), ("delete", store.delete)];
    text.push_str(
        "# HELP tidelake_store_full Whether the object store has no space left for what was to be written.\n",
    );
    text.push_str("# TYPE tidelake_store_full gauge\n");
    text.push_str(&format!("tidelake_store_full {}\n", u8::from(state.root.store().lack().is_some())));
    text.push_str("# HELP tidelake_store_requests_total Requests to the object store, repeated ones included.\n");
    text.push_str("# TYPE tidelake_store_requests_total counter\n");
    for (kind, count) in requests {
        text.push_str(&format!("tidelake_store_requests_total{{kind=\"{kind}\"}} {count}\n"));
    }
    text.push_str("# HELP tidelake_store_bytes_total Bytes sent to and received from the object store.\n");
    text.push_str("# TYPE tidelake_store_bytes_total counter\n");
    for (direction, bytes) in [("sent", store.put_bytes), ("received", store.get_bytes)] {
        text.push_str(&format!("tidelake_store_bytes_total{{direction=\"{direction}\"}} {bytes}\n"));
    }
    let cached = [("hit", store.cache_blocks), ("miss", store.cache_misses), ("error", store.cache_errors)];
    text.push_str(
        "# HELP tidelake_disk_cache_blocks_total Blocks looked up in the disk cache; an error is a miss too.\n",
    );
    text.push_str("# TYPE tidelake_disk_cache_blocks_total counter\n");
    for (result, count) in cached {
        text.push_str(&format!("tidelake_disk_cache_blocks_total{{result=\"{result}\"}} {count}\n"));
    }
    text.push_str("# HELP tidelake_disk_cache_bytes_total Bytes read from the disk cache and not from the store.\n");
    text.push_str("# TYPE tidelake_disk_cache_bytes_total counter\n");
    text.push_str(&format!("tidelake_disk_cache_bytes_total {}\n", store.cache_bytes));
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response()
}

/// Folds what the log holds (`until=fold`), drops expired partitions and does the merges that are due (`due`) or merges
/// every partition (`full`, the default) before it answers.
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

/// The live data files of a table: what another engine reads to see its folded rows once each. Files that a merge
/// replaced stay in the store for a while and are not among them.
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
    let (database, table) =
        name.split_once('.').ok_or_else(|| Error::invalid("a table is named as database.table").with("found", name))?;
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
            }));
        }
    }
    Ok(json!({"version": catalog.version.0, "files": files}))
}

/// What every route of the server takes and answers.
async fn describe() -> Response {
    Json(openapi()).into_response()
}

/// What the log is filtered by.
async fn log() -> Response {
    Json(json!({ "log": logging::current() })).into_response()
}

/// Has the log filtered by what the body says, until the server ends.
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
        return failure(&Error::invalid("a filter of the log is a level, or target=level: info,tidelake_ingest=debug"));
    }
    let before = logging::current().unwrap_or_default();
    let changed = logging::change(filter);
    Deed::new("SET LOG FILTER", filter).with(format!("before: {before}")).record(&principal, &changed);
    match changed {
        Ok(()) => log().await,
        Err(e) => failure(&e),
    }
}

/// The value of the one parameter that a route has, where it has one.
///
/// # Errors
/// Invalid for a parameter that the route does not know.
fn parameter(query: Option<&str>, route: &Route, name: &str) -> tidelake_format::Result<Option<String>> {
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
    Error::invalid("the query string is wrong").with("expected", expected).with("found", found)
}

fn failure(error: &Error) -> Response {
    Api::Tidelake.answer(error).map(Body::from)
}
