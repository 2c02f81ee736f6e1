//! Requests that share a group, in order: no group is taken until all of them have arrived. A request is refused if the
//! previous one of its order failed.

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

/// An expected request. It counts as arrived once it is [queued](Place::taken) or its place is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    queue: Arc<Queue>,
    /// Ends when the previous place is taken or dropped.
    before: Mutex<Option<oneshot::Receiver<()>>>,
    /// Dropped when this place is taken or dropped.
    taken: Mutex<Option<oneshot::Sender<()>>>,
    /// Whether the request failed, in full or in part.
    failed: Arc<AtomicBool>,
    /// Whether the previous request of the same order failed.
    base_failed: Option<Arc<AtomicBool>>,
}

impl Place {
    /// Waits for the previous place.
    ///
    /// # Errors
    /// Unavailable if the previous request of the same order failed.
    pub(crate) async fn turn(&self) -> Result<()> {
        let before = self.before.lock().take();
        if let Some(before) = before {
            let _ = before.await; // an error means that it ended
        }
        match &self.base_failed {
            Some(failed) if failed.load(Ordering::Acquire) => {
                Err(Error::unavailable("the previous request of the same order was not written; send both again"))
            }
            _ => Ok(()),
        }
    }

    /// Records that the request was not written, or not in full.
    pub(crate) fn failed(&self) {
        self.failed.store(true, Ordering::Release);
    }

    /// Records that the request is in the queue.
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
    /// Creates places for requests; lanes take nothing until all places are taken or dropped. Each request of an order depends
    /// on the previous one of that order.
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
