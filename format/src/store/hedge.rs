//! Sends a second request when the reply to the first does not begin in time: a few replies of a remote store begin
//! late, and a query waits for the slowest of its requests.

use std::{
    pin::pin,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use futures::future::{Either, select};
use tokio::time::{Instant, timeout};

/// Initial limit above which a reply is late.
const FIRST_LIMIT: Duration = Duration::from_millis(100);
/// Minimum and maximum of the limit.
const LEAST_LIMIT: Duration = Duration::from_millis(5);
const MOST_LIMIT: Duration = Duration::from_secs(2);
/// The limit is adjusted so that one reply in this many is late.
const ONE_IN: f64 = 20.0;
/// At most one request in this many is sent twice.
const TWICE_ONE_IN: u64 = 10;

/// Response times of a store.
#[derive(Debug)]
pub(super) struct Pace {
    limit_us: AtomicU64,
    requests: AtomicU64,
    twice: AtomicU64,
}

impl Default for Pace {
    fn default() -> Self {
        let limit_us = AtomicU64::new(FIRST_LIMIT.as_micros() as u64);
        Self { limit_us, requests: AtomicU64::new(0), twice: AtomicU64::new(0) }
    }
}

impl Pace {
    /// Sends a request, and a second one if the reply is late. The first reply counts, or the other one if that is an
    /// error.
    pub(super) async fn hedged<T, E, F>(&self, request: impl Fn() -> F) -> Result<T, E>
    where
        F: Future<Output = Result<T, E>>,
    {
        let begun = Instant::now();
        let limit = self.limit();
        self.requests.fetch_add(1, Relaxed);
        let mut first = pin!(request());
        let reply = match timeout(limit, &mut first).await {
            Ok(reply) => reply,
            Err(_) if !self.may_send_twice() => first.await,
            Err(_) => {
                self.twice.fetch_add(1, Relaxed);
                match select(first, pin!(request())).await {
                    Either::Left((Err(_), other)) => other.await,
                    Either::Right((Err(_), other)) => other.await,
                    Either::Left((reply, _)) | Either::Right((reply, _)) => reply,
                }
            }
        };
        self.observe(begun.elapsed() > limit);
        reply
    }

    fn limit(&self) -> Duration {
        Duration::from_micros(self.limit_us.load(Relaxed))
    }

    fn may_send_twice(&self) -> bool {
        self.twice.load(Relaxed) * TWICE_ONE_IN <= self.requests.load(Relaxed)
    }

    /// Moves the limit towards the time that all but one reply in [`ONE_IN`] take: up by a large step for a late reply,
    /// down by a small one otherwise.
    fn observe(&self, was_late: bool) {
        let step = 0.1;
        let factor = if was_late { 1.0 + step * (1.0 - 1.0 / ONE_IN) } else { 1.0 - step / ONE_IN };
        let limit = self.limit().mul_f64(factor).clamp(LEAST_LIMIT, MOST_LIMIT);
        // One of two concurrent updates may be lost: the limit is an estimate.
        self.limit_us.store(limit.as_micros() as u64, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::{cell::Cell, future::pending};

    use rand::{Rng, SeedableRng, rngs::StdRng};

    use super::*;

    #[derive(Clone, Copy)]
    enum Reply {
        Right,
        Wrong,
        Never,
        /// Right, once a second request was sent.
        AfterAnother,
        WrongAfterAnother,
    }

    /// The result of the two given replies with a limit of 20 ms, and the number of requests sent.
    async fn asked(pace: &Pace, replies: [Reply; 2]) -> (Result<usize, usize>, usize) {
        pace.limit_us.store(20_000, Relaxed);
        let sent = Cell::new(0);
        let reply = pace.hedged(|| {
            let at = sent.replace(sent.get() + 1);
            let sent = &sent;
            async move {
                let another = async || {
                    while sent.get() < 2 {
                        tokio::time::sleep(Duration::from_millis(1)).await;
                    }
                };
                match replies[at] {
                    Reply::Right => Ok(at),
                    Reply::Wrong => Err(at),
                    Reply::Never => pending().await,
                    Reply::AfterAnother => {
                        another().await;
                        Ok(at)
                    }
                    Reply::WrongAfterAnother => {
                        another().await;
                        Err(at)
                    }
                }
            }
        });
        (reply.await, sent.get())
    }

    #[tokio::test]
    async fn a_late_request_is_sent_again_and_the_first_reply_counts() {
        use Reply::{AfterAnother, Never, Right, Wrong, WrongAfterAnother};
        let fresh = Pace::default;
        assert_eq!(asked(&fresh(), [Right, Right]).await, (Ok(0), 1));
        assert_eq!(asked(&fresh(), [Wrong, Right]).await, (Err(0), 1));
        assert_eq!(asked(&fresh(), [Never, Right]).await, (Ok(1), 2));
        assert_eq!(asked(&fresh(), [AfterAnother, Never]).await, (Ok(0), 2));
        assert_eq!(asked(&fresh(), [AfterAnother, Wrong]).await, (Ok(0), 2));
        assert_eq!(asked(&fresh(), [WrongAfterAnother, AfterAnother]).await, (Ok(1), 2));
        assert_eq!(asked(&fresh(), [WrongAfterAnother, WrongAfterAnother]).await.1, 2);
    }

    #[tokio::test]
    async fn few_requests_are_sent_twice() {
        let pace = Pace::default();
        let mut all = 0;
        for _ in 0..40 {
            all += asked(&pace, [Reply::Right; 2]).await.1;
        }
        // Four more may be late, and one to begin with.
        for _ in 0..4 {
            all += asked(&pace, [Reply::Never, Reply::Right]).await.1;
        }
        assert_eq!(all, 40 + 2 * 4);
        assert_eq!(asked(&pace, [Reply::Never, Reply::Right]).await, (Ok(1), 2));
        let third = tokio::time::timeout(Duration::from_millis(100), asked(&pace, [Reply::Never, Reply::Right])).await;
        assert!(third.is_err(), "the allowance is used up");
    }

    #[test]
    fn the_limit_follows_the_store() {
        let pace = Pace::default();
        let mut rng = StdRng::seed_from_u64(4);
        for (from, to) in [(10, 30), (1_000, 1_100), (20, 40)] {
            for _ in 0..3_000 {
                let takes = Duration::from_micros(rng.random_range(from * 1_000..to * 1_000));
                pace.observe(takes > pace.limit());
            }
            let limit = pace.limit().as_secs_f64() * 1e3;
            // All but one in twenty.
            let expected = to as f64 - (to - from) as f64 / 20.0;
            assert!((expected * 0.85..expected * 1.15).contains(&limit), "{limit} ms, expected some {expected}");
        }
        (0..1_000).for_each(|_| pace.observe(true));
        assert_eq!(pace.limit(), MOST_LIMIT);
        (0..10_000).for_each(|_| pace.observe(false));
        assert_eq!(pace.limit(), LEAST_LIMIT);
    }
}
