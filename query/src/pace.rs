//! Makes queries yield: their threads also serve the network.

use std::{
    pin::Pin,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use futures::{Stream, StreamExt};
use tokio::runtime::{Handle, RuntimeFlavor};

/// How long a query computes before it yields; a kill takes effect about as fast.
pub(crate) const SLICE: Duration = Duration::from_millis(5);

/// Yields between batches that a plan reads, after computing for [`SLICE`]; DataFusion yields after a number of
/// batches, regardless of the work per batch.
pub(crate) fn paced<S: Stream + Send + Unpin>(batches: S) -> impl Stream<Item = S::Item> + Send {
    Paced { batches, since: None }
}

/// Runs long uninterrupted work: a multi-threaded runtime continues without this thread.
pub(crate) fn beside_the_runtime<T>(work: impl FnOnce() -> T) -> T {
    let flavor = Handle::try_current().map(|handle| handle.runtime_flavor());
    if flavor.is_ok_and(|flavor| flavor == RuntimeFlavor::MultiThread) {
        tokio::task::block_in_place(work)
    } else {
        work()
    }
}

struct Paced<S> {
    batches: S,
    /// Start of the task's time slice.
    since: Option<Instant>,
}

impl<S: Stream + Unpin> Stream for Paced<S> {
    type Item = S::Item;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let now = Instant::now();
        if now.saturating_duration_since(*self.since.get_or_insert(now)) > SLICE {
            self.since = None;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let next = self.batches.poll_next_unpin(cx);
        if next.is_pending() {
            self.since = None;
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use futures::stream;

    use super::*;

    #[tokio::test]
    async fn long_computations_yield_and_lose_nothing() {
        let computes = stream::iter(0..40).map(|n| {
            let until = Instant::now() + SLICE / 4;
            while Instant::now() < until {
                std::hint::spin_loop();
            }
            n
        });
        let mut batches = paced(computes);
        let (mut got, mut gave_way) = (Vec::new(), 0);
        std::future::poll_fn(|cx| {
            loop {
                match batches.poll_next_unpin(cx) {
                    Poll::Ready(Some(n)) => got.push(n),
                    Poll::Ready(None) => return Poll::Ready(()),
                    Poll::Pending => {
                        gave_way += 1;
                        return Poll::Pending;
                    }
                }
            }
        })
        .await;
        assert_eq!(got, (0..40).collect::<Vec<_>>());
        assert!(gave_way >= 5, "{gave_way} times in ten slices");
    }
}
