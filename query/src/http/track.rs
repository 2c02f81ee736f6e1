//! Names a request's statement and lets clients follow it until its reply has been sent.

use std::sync::Arc;

use axum::{
    body::{Body, Bytes},
    http::{HeaderMap, HeaderValue},
    response::Response,
};
use futures::{StreamExt, stream};
use tidelake_format::{Error, Result, access::Principal};
use tidelake_protocol::http::headers;

use super::sql::values;
use crate::{
    engine::Engine,
    session::Session,
    tracked::{Tracked, Underway, check_id},
};

/// The statement of a request.
pub(super) struct Statement {
    id: Arc<str>,
    underway: Underway,
}

impl Statement {
    /// Names a statement: as the client asks by `x-tidelake-query`, else by a new ID.
    ///
    /// # Errors
    /// Invalid for an ID that is not allowed; Conflict if another running statement of the user has it.
    pub(super) fn begin(engine: &Engine, principal: &Principal, headers: &HeaderMap) -> Result<Self> {
        let id = match values(headers, headers::QUERY).next_back() {
            Some(id) => {
                check_id(id)?;
                Arc::from(id)
            }
            None => engine.query_id(),
        };
        let underway = engine.track(id.clone(), principal)?;
        Ok(Self { id, underway })
    }

    /// Adds the ID and the counts to the session that runs the statement.
    pub(super) fn name(&self, session: Session) -> Session {
        Session { query_id: Some(self.id.clone()), tracked: Some(self.tracked()), ..session }
    }

    fn tracked(&self) -> Arc<Tracked> {
        self.underway.tracked()
    }

    /// Adds the ID to a reply; the statement ends when the reply has been sent. `error` is that of a failed statement.
    pub(super) fn answered(self, mut response: Response, error: Option<&Error>) -> Response {
        if let Ok(value) = HeaderValue::from_str(&self.id) {
            response.headers_mut().insert(headers::QUERY, value);
        }
        match error {
            Some(error) => {
                self.underway.end(Err(error));
                response
            }
            None => response.map(|body| watched(body, self.underway)),
        }
    }
}

/// A body that ends its statement: with its last piece, with its error, or when it is dropped before.
fn watched(body: Body, underway: Underway) -> Body {
    let pieces = stream::unfold((body.into_data_stream(), underway), |(mut body, underway)| async move {
        let piece: Result<Bytes, axum::Error> = match body.next().await {
            Some(Ok(piece)) => Ok(piece),
            Some(Err(error)) => {
                match cause(&error) {
                    Some(cause) => underway.end(Err(cause)),
                    None => underway.end(Err(&Error::internal(error.to_string()))),
                }
                Err(error)
            }
            None => {
                underway.end(Ok(()));
                return None;
            }
        };
        Some((piece, (body, underway)))
    });
    Body::from_stream(pieces)
}

/// The error of the statement within that of the body.
fn cause(error: &axum::Error) -> Option<&Error> {
    let mut within: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = within {
        if let Some(cause) = error.downcast_ref::<Error>() {
            return Some(cause);
        }
        within = error.source();
    }
    None
}
