//! Lanes that wait for space in the store, with rows acknowledged from the buffer.

use parking_lot::Mutex;
use tidelake_format::{Error, Result};

/// Number of waiting lanes, and the reason.
#[derive(Debug, Default)]
pub(crate) struct Blocked(Mutex<(usize, String)>);

impl Blocked {
    pub(crate) fn block(&self, error: &Error) {
        let mut blocked = self.0.lock();
        *blocked = (blocked.0 + 1, error.to_string());
    }

    pub(crate) fn unblock(&self) {
        self.0.lock().0 -= 1;
    }

    /// Refuses a request that would queue up behind them.
    ///
    /// # Errors
    /// Full.
    pub(crate) fn check(&self) -> Result<()> {
        match &*self.0.lock() {
            (0, _) => Ok(()),
            (_, reason) => Err(Error::full(reason.clone())),
        }
    }
}
