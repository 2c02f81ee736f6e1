//! Whether requests of a connection are under way, and since when none is.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use hyper::body::{Body, Frame, SizeHint};
use tokio::{sync::watch, time::sleep};

/// The requests of a connection that have not been answered to the end. Pings and settings of HTTP/2 are none. Cheap to
/// clone.
#[derive(Clone)]
pub(super) struct Activity(Arc<watch::Sender<Requests>>);

#[derive(Debug, Default)]
struct Requests {
    have_begun: bool,
    underway: usize,
}

/// A request, until its answer is sent or given up.
pub(super) struct Underway(Activity);

impl Activity {
    pub(super) fn new() -> Self {
        Self(Arc::new(watch::Sender::new(Requests::default())))
    }

    /// A request begins.
    pub(super) fn begin(&self) -> Underway {
        self.0.send_modify(|requests| {
            requests.have_begun = true;
            requests.underway += 1;
        });
        Underway(self.clone())
    }

    /// Resolves when a first request has begun.
    pub(super) async fn begun(&self) {
        // It cannot fail: this holds the sender.
        let _ = self.0.subscribe().wait_for(|requests| requests.have_begun).await;
    }

    /// Resolves when no request has been under way for so long.
    pub(super) async fn idle_for(&self, time: Duration) {
        let mut changes = self.0.subscribe();
        loop {
            let is_idle = changes.borrow_and_update().underway == 0;
            // It cannot fail: this holds the sender.
            tokio::select! {
                _ = changes.changed() => {}
                () = sleep(time), if is_idle => return,
            }
        }
    }
}

impl Drop for Underway {
    fn drop(&mut self) {
        self.0.0.send_modify(|requests| requests.underway -= 1);
    }
}

/// A body of an answer, whose request is under way until it is gone.
pub(super) struct Answering<B> {
    body: B,
    _underway: Underway,
}

impl<B> Answering<B> {
    pub(super) fn new(body: B, underway: Underway) -> Self {
        Self { body, _underway: underway }
    }
}

impl<B: Body + Unpin> Body for Answering<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_idle_once_no_request_has_been_under_way_for_the_time() {
        let (activity, minute) = (Activity::new(), Duration::from_secs(60));
        let begun = Instant::now();
        let requests = activity.clone();
        tokio::spawn(async move {
            sleep(minute / 2).await;
            let (first, second) = (requests.begin(), requests.begin());
            sleep(10 * minute).await;
            drop(first);
            sleep(10 * minute).await;
            drop(second);
            sleep(minute / 2).await;
            drop(requests.begin());
        });
        activity.idle_for(minute).await;
        assert_eq!(begun.elapsed(), minute / 2 + 20 * minute + minute / 2 + minute);
    }
}
