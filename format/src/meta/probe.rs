//! Reads the newest version as rarely as correctness allows, shared by all callers.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::Mutex,
    time::{Instant, sleep_until},
};

use super::{Catalog, Root};
use crate::error::Result;

/// Maximum age of the version that rows and rights are checked against: a statement that revokes a right waits this
/// long before it returns.
pub const PROBE_AGE: Duration = Duration::from_secs(2);

/// Number of reads that refusals may cause at once before they are spread out.
const BURST: u32 = 16;
/// Interval between reads caused by refusals once the burst is used up.
const REFUSAL_EVERY: Duration = Duration::from_secs(1);

/// Tracks the age of the known version and reads a newer one when required. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Probe {
    root: Root,
    asking: Arc<Mutex<Tokens>>,
}

#[derive(Debug)]
struct Tokens {
    left: u32,
    since: Instant,
}

impl Probe {
    /// Creates a probe of a root.
    pub fn new(root: Root) -> Self {
        Self { root, asking: Arc::new(Mutex::new(Tokens { left: BURST, since: Instant::now() })) }
    }

    /// The root of the probe.
    pub fn root(&self) -> &Root {
        &self.root
    }

    /// The newest version, confirmed by a request sent less than `age` ago.
    ///
    /// # Errors
    /// Those of [`Root::refresh`].
    pub async fn catalog(&self, age: Duration) -> Result<Arc<Catalog>> {
        if self.root.confirmed_age() < age {
            return Ok(self.root.catalog());
        }
        let _asking = self.asking.lock().await;
        if self.root.confirmed_age() < age {
            return Ok(self.root.catalog());
        }
        self.root.refresh().await
    }

    /// The newest version, confirmed by a request sent after `start`: the basis of a refusal. Except on a directory,
    /// where a request is cheap, all refusals together cause about one request a second.
    ///
    /// # Errors
    /// Those of [`Root::refresh`].
    pub async fn since(&self, start: Instant) -> Result<Arc<Catalog>> {
        let mut tokens = self.asking.lock().await;
        if self.root.confirmed_age() < start.elapsed() {
            return Ok(self.root.catalog());
        }
        if !self.root.store().is_directory() {
            let earned = tokens.since.elapsed().as_secs() as u32;
            if earned > 0 {
                *tokens = Tokens { left: tokens.left.saturating_add(earned).min(BURST), since: Instant::now() };
            }
            if tokens.left == 0 {
                sleep_until(tokens.since + REFUSAL_EVERY).await;
                *tokens = Tokens { left: 1, since: Instant::now() };
            }
            tokens.left -= 1;
        }
        self.root.refresh().await
    }
}
