//! Tracks the running requests of a connection and its idle time.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst},
    },
    task::{Context, Poll},
    time::Duration,
};

use hyper::body::{Body, Frame, SizeHint};
use tokio::{
    sync::Notify,
    time::{Instant, sleep},
};

/// Requests of a connection that are not completely answered; HTTP/2 pings and settings do not count. Cheap to clone.
/// The begin or end of a request wakes no task: the task that waits for an idle connection uses timers.
#[derive(Clone)]
pub(super) struct Activity(Arc<Requests>);

#[derive(Debug)]
struct Requests {
    opened: Instant,
    has_begun: AtomicBool,
    first: Notify,
    underway: AtomicUsize,
    /// End of the last request, in nanoseconds since the connection was opened.
    ended: AtomicU64,
}

/// A request until its reply is sent or dropped.
pub(super) struct Underway(Activity);

impl Activity {
    pub(super) fn new() -> Self {
        Self(Arc::new(Requests {
            opened: Instant::now(),
            has_begun: AtomicBool::new(false),
            first: Notify::new(),
            underway: AtomicUsize::new(0),
            ended: AtomicU64::new(0),
        }))
    }

    /// Counts a new request.
    pub(super) fn begin(&self) -> Underway {
        self.0.underway.fetch_add(1, SeqCst);
        if !self.0.has_begun.load(SeqCst) && !self.0.has_begun.swap(true, SeqCst) {
            self.0.first.notify_one();
        }
        Underway(self.clone())
    }

    /// Resolves when the first request has begun. Only one task may wait.
    pub(super) async fn begun(&self) {
        self.0.first.notified().await;
    }

    /// Resolves when no request has been running for `time`.
    pub(super) async fn idle_for(&self, time: Duration) {
        loop {
            let left = match self.0.underway.load(SeqCst) {
                0 => time.saturating_sub(self.0.idle()),
                _ => time,
            };
            if left.is_zero() {
                return;
            }
            sleep(left).await;
        }
    }
}

impl Requests {
    fn since_opened(&self) -> Duration {
        self.opened.elapsed()
    }

    /// Time since the last request ended or the connection was opened.
    fn idle(&self) -> Duration {
        let ended = Duration::from_nanos(self.ended.load(SeqCst));
        self.since_opened().saturating_sub(ended)
    }
}

impl Drop for Underway {
    fn drop(&mut self) {
        let requests = &self.0.0;
        let now = u64::try_from(requests.since_opened().as_nanos()).unwrap_or(u64::MAX);
        requests.ended.fetch_max(now, SeqCst);
        requests.underway.fetch_sub(1, SeqCst);
    }
}

/// A response body; its request counts as running until the body is dropped.
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
