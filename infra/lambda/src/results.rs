//! Stores responses that exceed the platform's limit and redirects the client to a link.

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

/// Lifetime of a link. The bucket's lifecycle rule for `results/` deletes the object later.
const VALID: Duration = Duration::from_secs(15 * 60);

/// Maximum size of a body within the JSON response, as text or base64; the platform's limit is 6 MiB including headers.
const MOST: usize = (6 << 20) - (256 << 10);

/// Storage of large responses.
#[derive(Debug, Clone)]
pub struct Results {
    store: Store,
}

impl Results {
    /// Stores under `results/` in a root's store.
    pub fn new(store: Store) -> Self {
        Self { store }
    }

    /// Returns the response unchanged if it is small enough, else a redirect to the stored body.
    ///
    /// # Errors
    /// Internal if the response fails midway; those of the store.
    pub async fn within_limit(&self, response: Response) -> Result<Response> {
        let (parts, body) = response.into_parts();
        let content_type = parts.headers.get(header::CONTENT_TYPE).cloned();
        let content_type = content_type.and_then(|value| value.to_str().ok().map(str::to_owned)).unwrap_or_default();
        let is_text = content_type.is_empty()
            || ["text/", "application/json"].iter().any(|media| content_type.starts_with(media));
        let broken = |e: axum::Error| Error::internal("response failed midway").with("reason", &e).source(e);
        let mut rest = body.into_data_stream().map_err(broken).boxed();
        let (mut begun, mut bytes) = (Vec::new(), 0);
        while let Some(piece) = rest.try_next().await? {
            bytes += if is_text { in_json(&piece) } else { piece.len() };
            begun.push(piece);
            if (if is_text { bytes } else { bytes.div_ceil(3) * 4 }) > MOST {
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
        tracing::info!(key, bytes, "response exceeds the platform's limit; stored it and redirected the client");
        let location = HeaderValue::from_str(&link)
            .map_err(|e| Error::internal("link is not a valid header value").with("key", &key).source(e))?;
        let body = Json(json!({ "location": link, "bytes": bytes, "expires_in_seconds": VALID.as_secs() }));
        Ok((StatusCode::SEE_OTHER, [(header::LOCATION, location)], body).into_response())
    }
}

/// Length of a text within JSON, in bytes.
fn in_json(text: &[u8]) -> usize {
    let of = |byte: &u8| match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 8 | 12 => 2,
        ..0x20 => 6,
        _ => 1,
    };
    text.iter().map(of).sum()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use axum::body::to_bytes;

    use super::*;

    #[test]
    fn texts_are_counted_as_json_has_them() {
        let all: String = (0..=0x2ff).filter_map(char::from_u32).collect();
        assert_eq!(in_json(all.as_bytes()) + 2, serde_json::to_string(&all).unwrap().len());
    }

    #[tokio::test]
    async fn an_answer_that_grows_on_its_way_beyond_the_limit_goes_into_the_store() {
        for (content_type, row, bytes) in
            [("text/csv; charset=utf-8", "1\n", MOST / 3 * 2 + 2), ("application/x-ndjson", "[]", MOST / 4 * 3 + 2)]
        {
            let store = Store::in_memory();
            let body = row.repeat(bytes / 2);
            let response = ([(header::CONTENT_TYPE, content_type)], body).into_response();
            assert!(Results::new(store.clone()).within_limit(response).await.is_err(), "no link is signed");
            assert_eq!(store.list(layout::RESULTS).await.unwrap().len(), 1, "{content_type}");
        }
    }

    fn answer(content_type: &'static str, bytes: usize) -> Response {
        ([(header::CONTENT_TYPE, content_type), (header::ETAG, "kept")], vec![b'x'; bytes]).into_response()
    }

    #[tokio::test]
    async fn a_small_answer_stays_as_it_is() {
        let results = Results::new(Store::in_memory());
        for (content_type, bytes) in [("application/json", MOST), ("application/x-ndjson", MOST / 4 * 3)] {
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
        let error = Results::new(store.clone()).within_limit(answer("text/csv", MOST + 1)).await.unwrap_err();
        assert_eq!(error.kind(), tidelake_format::Kind::Unsupported);
        let put = store.list(layout::RESULTS).await.unwrap();
        assert_eq!(put.iter().map(|object| object.size).collect::<Vec<_>>(), [MOST as u64 + 1]);
    }
}
