//! When small groups are taken where each PUT has its price, as on a bucket.

use std::time::Duration;

use tokio::time::Instant;

/// So many groups of a process that was quiet for a while are taken at once.
pub(super) const AT_ONCE: u32 = 4;
/// When no other request came for so long and none is being answered, waiting for more is of no use: those who send one
/// after the other wait for their answers.
pub(super) const LULL: Duration = Duration::from_millis(20);

/// When small groups are taken: some at once after a pause, then one in each interval while requests keep coming.
#[derive(Debug)]
pub(super) struct Turns {
    pub(super) interval: Duration,
    /// When all of [`AT_ONCE`] are free again.
    all_free: Option<Instant>,
    /// When the last request came.
    last: Option<Instant>,
    /// Groups that were taken and are not answered: whoever waits for them may send more then.
    pub(super) unanswered: usize,
}

impl Turns {
    pub(super) fn new(interval: Duration) -> Self {
        Self { interval, all_free: None, last: None, unanswered: 0 }
    }

    /// A request comes.
    pub(super) fn came(&mut self) {
        if !self.interval.is_zero() {
            self.last = Some(Instant::now());
        }
    }

    /// When the next turn is free; `None` where one is.
    pub(super) fn next(&self) -> Option<Instant> {
        self.all_free.and_then(|at| at.checked_sub(self.interval * (AT_ONCE - 1)))
    }

    /// When what waits is taken if nothing more comes; `None` at once.
    pub(super) fn due(&self) -> Option<Instant> {
        let (turn, last) = (self.next()?, self.last?);
        Some(if self.unanswered == 0 { turn.min(last + LULL) } else { turn })
    }

    /// A group is taken in its turn, or instead of the next one: that is an interval away then.
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
