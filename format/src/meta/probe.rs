//! Asking for the newest version, as rarely as correctness allows and once for all who want to know.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::Mutex,
    time::{Instant, sleep_until},
};

use super::{Catalog, Root};
use crate::error::Result;

/// Rows and rights are good on a version that was the newest this long ago: whoever forbids what was allowed waits for as
/// long before it answers.
pub const PROBE_AGE: Duration = Duration::from_secs(2);

/// Refusals may ask this many times at once before they are spread out.
const BURST: u32 = 16;
/// Refusals ask once in this time when the burst is spent.
const REFUSAL_EVERY: Duration = Duration::from_secs(1);

/// Knows how old the known version is and asks when it must. Cheap to clone.
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
    /// Of a root.
    pub fn new(root: Root) -> Self {
        Self { root, asking: Arc::new(Mutex::new(Tokens { left: BURST, since: Instant::now() })) }
    }

    /// The root that it asks.
    pub fn root(&self) -> &Root {
        &self.root
    }

    /// The newest version by an answer that was asked for less than `age` ago.
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

    /// The newest version by an answer that was asked for after `start`: the ground of a refusal. Outside a
    /// directory, where asking is free, refusals together ask about once a second at most.
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
