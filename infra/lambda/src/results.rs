//! Answers that are larger than the platform hands on: they go into the store, and the client to a link.

use std::time::Duration;

use axum::{
    Json,
    body::{Body, Bytes},
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use futures::{StreamExt, TryStreamExt, stream};
use serde_json::json;
use tidelake_format::{Error, Result, layout, store::Store};

/// How long a link works. The object goes later, by the rule of the bucket for `results/`.
const VALID: Duration = Duration::from_secs(15 * 60);

/// The most of an answer that the platform hands on is 6 MB of JSON, in which the body is text or base64.
const TEXT: usize = 5 << 20;
const BINARY: usize = 4 << 20;

/// Where large answers go.
#[derive(Debug, Clone)]
pub struct Results {
    store: Store,
}

impl Results {
    /// Under `results/` of a root's store.
    pub fn new(store: Store) -> Self {
        Self { store }
    }

    /// The answer as it is where it is small enough; else one that leads to it.
    ///
    /// # Errors
    /// Internal when the answer breaks off; those of the store.
    pub async fn within_limit(&self, response: Response) -> Result<Response> {
        let (parts, body) = response.into_parts();
        let content_type = parts.headers.get(header::CONTENT_TYPE).cloned();
        let content_type = content_type.and_then(|value| value.to_str().ok().map(str::to_owned)).unwrap_or_default();
        let is_text = content_type.is_empty() || content_type.starts_with("text/") || content_type.contains("json");
        let limit = if is_text { TEXT } else { BINARY };
        let broken = |e: axum::Error| Error::internal("an answer broke off").with("reason", &e).source(e);
        let mut rest = body.into_data_stream().map_err(broken).boxed();
        let (mut begun, mut bytes) = (Vec::new(), 0);
        while let Some(piece) = rest.try_next().await? {
            bytes += piece.len();
            begun.push(piece);
            if bytes > limit {
                let whole = stream::iter(begun.into_iter().map(Ok)).chain(rest);
                return self.put(whole.boxed(), &content_type).await;
            }
        }
        Ok(Response::from_parts(parts, Body::from(begun.concat())))
    }

    async fn put(&self, body: stream::BoxStream<'_, Result<Bytes>>, content_type: &str) -> Result<Response> {
        let key = layout::result_key(self.store.ambient().random_id());
        let bytes = self.store.put_large(&key, content_type, body).await?;
        let link = self.store.signed_link(&key, VALID).await?;
        tracing::info!(key, bytes, "an answer is larger than the platform hands on; it went into the store");
        let location = HeaderValue::from_str(&link)
            .map_err(|e| Error::internal("a link is no header").with("key", &key).source(e))?;
        let body = Json(json!({ "location": link, "bytes": bytes, "expires_in_seconds": VALID.as_secs() }));
        Ok((StatusCode::SEE_OTHER, [(header::LOCATION, location)], body).into_response())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use axum::body::to_bytes;

    use super::*;

    fn answer(content_type: &'static str, bytes: usize) -> Response {
        ([(header::CONTENT_TYPE, content_type), (header::ETAG, "kept")], vec![b'x'; bytes]).into_response()
    }

    #[tokio::test]
    async fn a_small_answer_stays_as_it_is() {
        let results = Results::new(Store::in_memory());
        for (content_type, bytes) in [("application/json", TEXT), ("application/vnd.apache.arrow.stream", BINARY)] {
            let response = results.within_limit(answer(content_type, bytes)).await.unwrap();
            assert_eq!(
                (response.status(), &response.headers()[header::ETAG]),
                (StatusCode::OK, &HeaderValue::from_static("kept"))
            );
            assert_eq!(to_bytes(response.into_body(), usize::MAX).await.unwrap().len(), bytes);
        }
    }

    #[tokio::test]
    async fn a_store_that_signs_no_links_says_so() {
        let store = Store::in_memory();
        let error = Results::new(store.clone()).within_limit(answer("text/csv", TEXT + 1)).await.unwrap_err();
        assert_eq!(error.kind(), tidelake_format::Kind::Unsupported);
        let put = store.list(layout::RESULTS).await.unwrap();
        assert_eq!(put.iter().map(|object| object.size).collect::<Vec<_>>(), [TEXT as u64 + 1]);
    }
}
