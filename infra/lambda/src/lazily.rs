//! A value opened once at the start, and retried at the next request after a failure.

use std::{future::Future, time::Duration};

use tidelake_format::{Error, Result};
use tokio::{sync::OnceCell, time::timeout};

/// A value whose creation needs requests to the store.
#[derive(Debug)]
pub struct Lazily<T>(OnceCell<T>);

impl<T> Default for Lazily<T> {
    fn default() -> Self {
        Self(OnceCell::new())
    }
}

impl<T> Lazily<T> {
    /// Returns the value; creates it if necessary.
    ///
    /// # Errors
    /// Those of `make`; Unavailable after `limit`. The next call retries.
    pub async fn get<F: Future<Output = Result<T>>>(&self, limit: Duration, make: impl FnOnce() -> F) -> Result<&T> {
        let late = |_| Error::unavailable("the store does not answer").with("waited_ms", limit.as_millis());
        self.0.get_or_try_init(|| async { timeout(limit, make()).await.map_err(late)? }).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_failed_is_tried_again_and_what_is_there_stays() {
        let value = Lazily::default();
        let second = Duration::from_secs(1);
        assert!(value.get(second, || async { Err(Error::corrupt("no")) }).await.is_err());
        let late = value.get(Duration::from_millis(1), || async {
            tokio::time::sleep(Duration::from_secs(60)).await;
            Ok(1)
        });
        assert_eq!(late.await.unwrap_err().kind(), tidelake_format::Kind::Unavailable);
        assert_eq!(value.get(second, || async { Ok(2) }).await.unwrap(), &2);
        assert_eq!(value.get(second, || async { Ok(3) }).await.unwrap(), &2);
    }
}
