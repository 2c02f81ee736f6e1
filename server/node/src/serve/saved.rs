//! Saved queries: the caller's own, or those of all clients while authentication is off.

use axum::{
    Json,
    body::{Body, Bytes},
    extract::{
        Path, RawQuery, State,
        rejection::{BytesRejection, PathRejection},
    },
    http::{HeaderMap, HeaderName, StatusCode, header},
    response::{IntoResponse, Response},
};
use chrono::{DateTime, SecondsFormat};
use serde::Deserialize;
use serde_json::{Value, json};
use tidelake_format::{
    Error, Result,
    access::{Deed, Principal},
    ids::Version,
    meta::{Expected, Root, SavedQuery},
};
use tidelake_protocol::http::{Api, Route, routes};
use tidelake_routes::{Caller, Routes};

use super::operations::{failure, parameter};

/// `/api/v1/saved-queries`.
pub(super) fn routes(root: Root) -> Routes {
    Routes::new()
        .on(&routes::SAVED_LIST, list)
        .on(&routes::SAVED_PUT, save)
        .on(&routes::SAVED_DELETE, delete)
        .with_state(root)
}

/// The body of a request that saves a query.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    statement: String,
    #[serde(default)]
    database: Option<String>,
}

async fn list(State(root): State<Root>, Caller(principal): Caller, RawQuery(query): RawQuery) -> Response {
    let listed = async {
        parameter(query.as_deref(), &routes::SAVED_LIST, "")?;
        let owner = owner(&principal)?;
        let queries = root.saved_queries(owner).await?;
        let queries = queries.iter().map(|(name, query, version)| described(name, query, owner, *version));
        Ok(json!({ "queries": queries.collect::<Vec<_>>() }))
    };
    match listed.await {
        Ok(listed) => ([(header::CACHE_CONTROL, "no-store")], Json(listed)).into_response(),
        Err(error) => failure(&error),
    }
}

async fn save(
    State(root): State<Root>,
    Caller(principal): Caller,
    name: std::result::Result<Path<String>, PathRejection>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    body: std::result::Result<Bytes, BytesRejection>,
) -> Response {
    let body = match body {
        Ok(body) => body,
        Err(rejection) => {
            let error = Error::invalid(rejection.body_text());
            return Api::Tidelake.answer_as(rejection.status(), &error).map(Body::from);
        }
    };
    let updated_ms = root.store().ambient().wall_ms();
    let prepared = name_of(name, query.as_deref(), &routes::SAVED_PUT).and_then(|name| {
        let Asked { statement, database } = serde_json::from_slice(&body).map_err(|error| {
            let expected = r#"{"statement": "…", "database": "…"}"#;
            Error::invalid("invalid body").with("expected", expected).with("found", error)
        })?;
        let database = database.filter(|database| !database.is_empty());
        Ok((name, SavedQuery { statement, database, updated_ms }, expected(&headers)?))
    });
    let (name, query, expected) = match prepared {
        Ok(prepared) => prepared,
        Err(error) => return failure(&error),
    };
    let saved = async {
        let owner = owner(&principal)?;
        let change = root.commit(&[], |draft| draft.save_query(owner, &name, query.clone(), expected));
        let ((), catalog) = change.await?;
        Ok(described(&name, &query, owner, catalog.version))
    };
    let saved = saved.await;
    Deed::new("SAVE QUERY", &name).record(&principal, &saved);
    match saved {
        Ok(saved) => Json(saved).into_response(),
        Err(error) => failure(&error),
    }
}

async fn delete(
    State(root): State<Root>,
    Caller(principal): Caller,
    name: std::result::Result<Path<String>, PathRejection>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Response {
    let prepared =
        name_of(name, query.as_deref(), &routes::SAVED_DELETE).and_then(|name| Ok((name, expected(&headers)?)));
    let (name, expected) = match prepared {
        Ok(prepared) => prepared,
        Err(error) => return failure(&error),
    };
    let deleted = async {
        let owner = owner(&principal)?;
        root.commit(&[], |draft| draft.delete_saved_query(owner, &name, expected)).await.map(drop)
    };
    let deleted = deleted.await;
    Deed::new("DELETE SAVED QUERY", &name).record(&principal, &deleted);
    match deleted {
        Ok(()) => StatusCode::NO_CONTENT.into_response(),
        Err(error) => failure(&error),
    }
}

/// The user whose saved queries the caller uses; `None` while authentication is off.
///
/// # Errors
/// Forbidden for a restricted token and a service: a statement may name data that they may not read.
fn owner(principal: &Principal) -> Result<Option<&str>> {
    match (principal.user(), principal.rights()) {
        (user, None) => Ok(user),
        (Some(user), Some(_)) if principal.is_whole() => Ok(Some(user)),
        _ => Err(Error::forbidden("saved queries need a password, or a token with all rights of its user")),
    }
}

fn described(name: &str, query: &SavedQuery, owner: Option<&str>, version: Version) -> Value {
    let updated = DateTime::from_timestamp_millis(query.updated_ms).unwrap_or_default();
    json!({
        "name": name,
        "statement": query.statement,
        "database": query.database,
        "owner": owner,
        "updated": updated.to_rfc3339_opts(SecondsFormat::Millis, true),
        "etag": format!("\"{}\"", version.0),
    })
}

/// The name in the path of a request without query parameters.
fn name_of(
    name: std::result::Result<Path<String>, PathRejection>,
    query: Option<&str>,
    route: &Route,
) -> Result<String> {
    parameter(query, route, "")?;
    name.map(|Path(name)| name)
        .map_err(|rejection| Error::invalid("invalid name in the path").with("found", rejection.body_text()))
}

/// What `If-Match` and `If-None-Match` let the request replace.
fn expected(headers: &HeaderMap) -> Result<Expected> {
    let text = |name: HeaderName| headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    let wrong = |expected: &str, found: &str| {
        let found: String = found.escape_debug().take(80).collect();
        Err(Error::invalid("invalid condition of a request").with("expected", expected).with("found", found))
    };
    match (text(header::IF_MATCH).as_deref(), text(header::IF_NONE_MATCH).as_deref()) {
        (None, None) => Ok(Expected::Any),
        (None, Some("*")) => Ok(Expected::Absent),
        (None, Some(other)) => wrong("If-None-Match: *", other),
        (Some("*"), None) => Ok(Expected::Present),
        (Some(etag), None) => {
            let version = etag.strip_prefix('"').and_then(|etag| etag.strip_suffix('"')?.parse().ok());
            version.map_or_else(
                || wrong("If-Match: with the etag of a saved query", etag),
                |version| Ok(Expected::Of(Version(version))),
            )
        }
        (Some(_), Some(_)) => wrong("If-Match or If-None-Match", "both"),
    }
}
