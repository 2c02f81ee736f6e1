//! Results for clients: objects written piece by piece and read through a link. No object of a root is written this
//! way.

use std::time::Duration;

use bytes::Bytes;
use futures::{TryStreamExt, stream::BoxStream};
use object_store::{Attribute, Attributes, ObjectStore, PutMultipartOptions, WriteMultipart};

use super::{Store, failed};
use crate::error::{Error, Result};

/// Number of parts, of 8 MiB each, sent concurrently.
const PARTS: usize = 3;
const PART_BYTES: usize = 8 << 20;

impl Store {
    /// Puts an object of any size under a new name, part by part, and returns its size in bytes. It may be lost in a
    /// power loss, and concurrent puts of the same name are not detected.
    ///
    /// # Errors
    /// Those of the body, or Unavailable; the parts sent so far are discarded.
    pub async fn put_large(
        &self,
        key: &str,
        content_type: &str,
        mut body: BoxStream<'_, Result<Bytes>>,
    ) -> Result<u64> {
        let path = self.path(key)?;
        let of_store = |e| failed(key, e);
        let attributes = Attributes::from_iter([(Attribute::ContentType, content_type.to_owned())]);
        let options = PutMultipartOptions { attributes, ..PutMultipartOptions::default() };
        let upload = self.shared.object.put_multipart_opts(&path, options).await.map_err(of_store)?;
        let mut upload = WriteMultipart::new_with_chunk_size(upload, PART_BYTES);
        let mut bytes = 0;
        let sent = async {
            while let Some(piece) = body.try_next().await? {
                upload.wait_for_capacity(PARTS).await.map_err(of_store)?;
                bytes += piece.len();
                upload.put(piece);
            }
            Ok::<_, Error>(())
        };
        if let Err(error) = sent.await {
            let _ = upload.abort().await; // the bucket's rule for unfinished uploads does it otherwise
            return Err(error);
        }
        upload.finish().await.map_err(of_store)?;
        (0..=bytes / PART_BYTES)
            .for_each(|part| self.shared.counters.put(bytes.min(PART_BYTES * (part + 1)) - PART_BYTES * part));
        Ok(bytes as u64)
    }

    /// A link with which anybody can read an object for the duration `valid`.
    ///
    /// # Errors
    /// Unsupported for a store that cannot sign links.
    pub async fn signed_link(&self, key: &str, valid: Duration) -> Result<String> {
        let path = self.path(key)?;
        let signer = self.shared.signer.as_ref();
        let signer =
            signer.ok_or_else(|| Error::unsupported("this store cannot sign links").with("store", self.describe()))?;
        let link = signer.signed_url(http::Method::GET, &path, valid).await.map_err(|e| failed(key, e))?;
        Ok(link.into())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use futures::{StreamExt, stream};

    use super::*;

    #[tokio::test]
    async fn a_body_of_any_size_is_stored_completely_and_a_broken_one_not_at_all() {
        let store = Store::in_memory();
        let pieces = |sizes: &[usize]| -> Vec<Result<Bytes>> {
            sizes.iter().enumerate().map(|(i, n)| Ok(Bytes::from(vec![i as u8; *n]))).collect()
        };
        for sizes in [&[][..], &[1, 0, 2], &[PART_BYTES], &[PART_BYTES - 1, 5 << 20, 9 << 20, 3]] {
            let key = format!("results/{}", sizes.len());
            let expected: Vec<u8> = pieces(sizes).into_iter().flat_map(|p| p.unwrap().to_vec()).collect();
            let before = store.counters();
            let bytes = store.put_large(&key, "text/csv", stream::iter(pieces(sizes)).boxed()).await.unwrap();
            assert_eq!(bytes, expected.len() as u64);
            assert_eq!(store.counters().put_bytes - before.put_bytes, bytes);
            assert!(store.get(&key).await.unwrap() == expected);
        }
        let mut broken = pieces(&[PART_BYTES, 7]);
        broken.push(Err(Error::internal("broke off")));
        let error = store.put_large("results/broken", "text/csv", stream::iter(broken).boxed()).await.unwrap_err();
        assert_eq!(error.message(), "broke off");
        assert!(store.get("results/broken").await.is_err());
        assert!(store.signed_link("results/1", Duration::from_secs(1)).await.is_err());
    }
}
