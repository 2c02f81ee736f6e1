//! Schedule of small groups where each PUT has a price, as on a bucket.

use std::time::Duration;

use tokio::time::Instant;

/// Number of groups taken at once after a pause.
pub(super) const AT_ONCE: u32 = 4;
/// If no request arrived for this time and no group is unanswered, waiting for more is useless: clients that send requests in
/// sequence wait for their replies.
pub(super) const LULL: Duration = Duration::from_millis(20);

/// Schedule of small groups: some at once after a pause, then one per interval while requests keep coming.
#[derive(Debug)]
pub(super) struct Turns {
    pub(super) interval: Duration,
    /// When all of [`AT_ONCE`] are free again.
    all_free: Option<Instant>,
    /// When the last request arrived.
    last: Option<Instant>,
    /// Groups taken and not answered yet: their clients may send more afterwards.
    pub(super) unanswered: usize,
}

impl Turns {
    pub(super) fn new(interval: Duration) -> Self {
        Self { interval, all_free: None, last: None, unanswered: 0 }
    }

    /// Records the arrival of a request.
    pub(super) fn came(&mut self) {
        if !self.interval.is_zero() {
            self.last = Some(Instant::now());
        }
    }

    /// When the next turn is free; `None` if one is free now.
    pub(super) fn next(&self) -> Option<Instant> {
        self.all_free.and_then(|at| at.checked_sub(self.interval * (AT_ONCE - 1)))
    }

    /// When waiting requests are taken if no more arrive; `None` means at once.
    pub(super) fn due(&self) -> Option<Instant> {
        let (turn, last) = (self.next()?, self.last?);
        Some(if self.unanswered == 0 { turn.min(last + LULL) } else { turn })
    }

    /// Uses up the next turn for a group, taken in time or early.
    pub(super) fn take(&mut self, now: Instant) {
        if !self.interval.is_zero() {
            let all_free = self.all_free.map_or(now, |at| at.max(now)) + self.interval;
            self.all_free = Some(all_free.min(now + self.interval * AT_ONCE));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_turns_are_free_again_after_a_pause() {
        let (interval, begun) = (Duration::from_millis(500), Instant::now());
        let mut turns = Turns::new(interval);
        let mut taken = 0;
        for at in (0..60).map(|n| begun + interval * n / 10) {
            if turns.next().is_none_or(|next| next <= at) {
                turns.take(at);
                taken += 1;
            }
        }
        // Those at once, and one in each interval.
        assert_eq!(taken, AT_ONCE + 5);
        let later = begun + interval * 6 + interval * AT_ONCE;
        for _ in 0..AT_ONCE {
            assert!(turns.next().is_some_and(|next| next <= later));
            turns.take(later);
        }
        assert!(turns.next().is_some_and(|next| next > later));
    }
}
