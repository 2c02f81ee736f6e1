//! Requests that are to share a group, in their order: nothing is taken until all of them have come.

use std::sync::Arc;

use parking_lot::Mutex;
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
}

impl Place {
    /// Waits for the place before.
    pub(crate) async fn turn(&self) {
        let before = self.before.lock().take();
        if let Some(before) = before {
            let _ = before.await; // an error is its end
        }
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
    /// Places for so many requests; until all are taken or dropped, lanes take nothing.
    pub(crate) fn hold(queue: &Arc<Queue>, requests: usize) -> Vec<Place> {
        queue.state.lock().expected += requests;
        let mut before = None;
        let places = (0..requests).map(|_| {
            let (sender, receiver) = oneshot::channel();
            let before = before.replace(receiver);
            Place { queue: queue.clone(), before: Mutex::new(before), taken: Mutex::new(Some(sender)) }
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
