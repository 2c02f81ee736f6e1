//! Retries reads, so that a temporary failure fails no query and no fold.

use std::time::Duration;

use tokio::time::{Instant, sleep, timeout_at};

use super::{Store, create::is_final, failed};
use crate::{
    error::{Error, Result},
    step,
    steps::stepped,
};

const FIRST_WAIT: Duration = Duration::from_millis(10);
const LONGEST_WAIT: Duration = Duration::from_millis(500);
/// Maximum number of attempts: failures return quickly, so their number limits the cost.
const ATTEMPTS: u32 = 8;

impl Store {
    /// How long reading, listing and deleting are retried when the store does not respond or reports a temporary error
    /// (429, 500, 503, a timeout, a broken connection). A caller with less time drops the future.
    pub const READ_DEADLINE: Duration = Duration::from_secs(60);

    /// Runs an idempotent request and repeats it after temporary failures, with random waits that double up to half a
    /// second. `operation` is its name in traces.
    pub(super) async fn retried<T, F>(&self, operation: &'static str, key: &str, request: impl Fn() -> F) -> Result<T>
    where
        F: Future<Output = Result<T, object_store::Error>>,
    {
        stepped(step!("store", operation, key), self.retried_in_step(key, request)).await
    }

    async fn retried_in_step<T, F>(&self, key: &str, request: impl Fn() -> F) -> Result<T>
    where
        F: Future<Output = Result<T, object_store::Error>>,
    {
        let deadline = Instant::now() + Self::READ_DEADLINE;
        let mut wait = FIRST_WAIT;
        let mut attempt = 1;
        loop {
            let fault = match timeout_at(deadline, request()).await {
                Ok(Ok(found)) => return Ok(found),
                Ok(Err(e)) if !is_transient(&e) || attempt == ATTEMPTS => return Err(failed(key, e)),
                Ok(Err(e)) => e,
                Err(_) => return Err(Error::unavailable("the store did not answer").with("key", key)),
            };
            let pause = wait.mul_f64(0.5 + (self.ambient().random() >> 11) as f64 / (1_u64 << 53) as f64);
            if Instant::now() + pause >= deadline {
                return Err(failed(key, fault));
            }
            tracing::debug!(key, attempt, error = %fault, "retrying a store request");
            sleep(pause).await;
            wait = (wait * 2).min(LONGEST_WAIT);
            attempt += 1;
        }
    }
}

/// Whether the same request may succeed shortly.
fn is_transient(e: &object_store::Error) -> bool {
    use object_store::Error as E;
    match e {
        E::AlreadyExists { .. } | E::Precondition { .. } | E::NotModified { .. } => false,
        _ => !is_final(e),
    }
}
