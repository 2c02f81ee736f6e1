//! Requests that are to share a group, in their order: nothing is taken until all of them have come. Where one builds on
//! another, it is not taken when that has failed.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use parking_lot::Mutex;
use tidelake_format::{Error, Result};
use tokio::sync::oneshot;

use super::Queue;

/// A request that is expected. It counts as come once it [is there](Place::taken) or its place is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    queue: Arc<Queue>,
    /// Ends when the place before is taken or dropped.
    before: Mutex<Option<oneshot::Receiver<()>>>,
    /// Dropped when this one is.
    taken: Mutex<Option<oneshot::Sender<()>>>,
    /// Whether it failed, wholly or in part.
    failed: Arc<AtomicBool>,
    /// Whether the one that it builds on did.
    base_failed: Option<Arc<AtomicBool>>,
}

impl Place {
    /// Waits for the place before.
    ///
    /// # Errors
    /// Unavailable where the one that it builds on has failed.
    pub(crate) async fn turn(&self) -> Result<()> {
        let before = self.before.lock().take();
        if let Some(before) = before {
            let _ = before.await; // an error is its end
        }
        match &self.base_failed {
            Some(failed) if failed.load(Ordering::Acquire) => {
                Err(Error::unavailable("the request that this one builds on was not written; send both again"))
            }
            _ => Ok(()),
        }
    }

    /// The request was not written, or some of it was not.
    pub(crate) fn failed(&self) {
        self.failed.store(true, Ordering::Release);
    }

    /// The request is in the queue.
    pub(crate) fn taken(&self) {
        if self.taken.lock().take().is_some() {
            self.queue.arrived();
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.taken();
    }
}

impl Queue {
    /// Places for requests; until all are taken or dropped, lanes take nothing. Each of an order builds on the one before it
    /// in that.
    pub(crate) fn hold(queue: &Arc<Queue>, orders: &[Option<&str>]) -> Vec<Place> {
        queue.state.lock().expected += orders.len();
        let (mut before, mut last) = (None, HashMap::new());
        let places = orders.iter().map(|order| {
            let (sender, receiver) = oneshot::channel();
            let failed = Arc::<AtomicBool>::default();
            Place {
                queue: queue.clone(),
                before: Mutex::new(before.replace(receiver)),
                taken: Mutex::new(Some(sender)),
                base_failed: order.and_then(|order| last.insert(order, failed.clone())),
                failed,
            }
        });
        places.collect()
    }

    fn arrived(&self) {
        let mut state = self.state.lock();
        state.expected -= 1;
        if state.expected == 0 {
            self.tell(state, true);
        }
    }
}
