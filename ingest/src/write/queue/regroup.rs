//! Waits a moment for the senders of the previous group, on a disk.
//!
//! A sender of small requests in sequence is back a moment after its group was answered. If waiting requests are taken at once,
//! they are written while those senders come back, and then the senders' new requests: two half groups in turn, each for the
//! price of a sync. If a group is taken only when all senders are back, one sync serves all of them; that pays if they are back
//! before another sync would be over.

use std::time::Duration;

use tokio::time::Instant;

/// Larger groups are written at once: encoding them while others are written saves more.
const SMALL: usize = 16 << 10;
/// Longest wait: as long as the group took, and no longer than this.
const PATIENCE: Duration = Duration::from_millis(1);
/// Number of groups taken at once after a wait in vain; doubles each time, up to the second value.
const PAUSES: [u32; 2] = [16, 4_096];

/// The senders that the next group waits for.
#[derive(Debug)]
pub(super) struct Regroup {
    /// Number of senders of the group being written, and when it was taken; `None` if no sender is waited for.
    writing: Option<(usize, Instant)>,
    expected: Option<Expected>,
    /// Number of groups still to be taken at once.
    pause: u32,
    /// The pause after the next wait in vain.
    next_pause: u32,
}

/// Senders expected back.
#[derive(Debug, Clone, Copy)]
struct Expected {
    /// Number of requests waiting for a reply when all senders are back.
    senders: usize,
    /// End of the wait.
    until: Instant,
}

impl Regroup {
    pub(super) fn new() -> Self {
        Self { writing: None, expected: None, pause: 0, next_pause: PAUSES[0] }
    }

    /// Records that a small group is taken, with `senders` requests that wait for a reply.
    pub(super) fn taken(&mut self, senders: usize, bytes: usize, now: Instant) {
        if let Some(expected) = self.expected.take() {
            if senders >= enough(expected.senders) && now <= expected.until {
                self.next_pause = PAUSES[0];
            } else {
                self.pause = self.next_pause;
                self.next_pause = (2 * self.next_pause).min(PAUSES[1]);
            }
        }
        self.writing = (senders > 0 && bytes <= SMALL).then_some((senders, now));
    }

    /// Records that another kind of group is taken: no sender is waited for.
    pub(super) fn forget(&mut self) {
        (self.writing, self.expected) = (None, None);
    }

    /// Records that the group is about to be answered while other requests are `waiting`.
    pub(super) fn answering(&mut self, waiting: usize, now: Instant) {
        let written = self.writing.take();
        if self.pause > 0 {
            self.pause -= 1;
        } else if let Some((senders, taken)) = written {
            self.expected = Some(Expected { senders: senders + waiting, until: now + (now - taken).min(PATIENCE) });
        }
    }

    /// The time until which a group of `waiting` requests is delayed.
    pub(super) fn due(&self, waiting: usize, now: Instant) -> Option<Instant> {
        let is_short = |expected: &Expected| waiting < enough(expected.senders) && now < expected.until;
        self.expected.filter(is_short).map(|expected| expected.until)
    }

    /// A state that expects this many senders.
    #[cfg(test)]
    pub(super) fn expecting(senders: usize, until: Instant) -> Self {
        Self { expected: Some(Expected { senders, until }), ..Self::new() }
    }
}

/// One in five may be missing: it gets no processor while all are about to send.
fn enough(expected: usize) -> usize {
    expected - expected / 5
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A disk's sync, and a moment in which senders come back.
    const SYNC: Duration = Duration::from_micros(200);
    const MOMENT: Duration = Duration::from_micros(100);

    struct Clock(Regroup, Instant);

    impl Clock {
        fn new() -> Self {
            Self(Regroup::new(), Instant::now())
        }

        fn taken(&mut self, senders: usize, bytes: usize, after: Duration) {
            self.1 += after;
            self.0.taken(senders, bytes, self.1);
        }

        fn answered(&mut self, waiting: usize) {
            self.1 += SYNC;
            self.0.answering(waiting, self.1);
        }

        fn waits(&self, waiting: usize) -> bool {
            assert_eq!(self.0.due(waiting, self.1 + SYNC), None, "longer than a sync");
            let due = self.0.due(waiting, self.1);
            assert!(due.is_none_or(|due| due == self.1 + SYNC));
            due.is_some()
        }
    }

    #[test]
    fn a_group_waits_for_the_senders_of_the_previous_group() {
        let mut clock = Clock::new();
        assert!(!clock.waits(0));
        clock.taken(2, 100, MOMENT);
        assert!(!clock.waits(1), "none is back before it was answered");
        clock.answered(2);
        assert!(clock.waits(0) && clock.waits(3) && !clock.waits(4));
        clock.taken(4, 100, MOMENT);
        clock.answered(0);
        assert!(clock.waits(3) && !clock.waits(4));
    }

    #[test]
    fn groups_do_not_wait_for_a_while_after_senders_stayed_away_or_were_late() {
        for (back, after) in [(3, MOMENT), (4, 2 * SYNC)] {
            let mut clock = Clock::new();
            clock.taken(4, 100, MOMENT);
            clock.answered(0);
            for pause in [16, 32, 64, 128, 256, 512, 1_024, 2_048, 4_096, 4_096] {
                clock.taken(back, 100, after);
                for _ in 0..pause {
                    clock.answered(4 - back);
                    assert!(!clock.waits(1));
                    clock.taken(back, 100, after);
                }
                clock.answered(4 - back);
                assert!(clock.waits(3), "after {pause} groups");
            }
            clock.taken(4, 100, MOMENT);
            clock.answered(0);
            clock.taken(back, 100, after);
            for _ in 0..16 {
                clock.answered(0);
                assert!(!clock.waits(1));
                clock.taken(4, 100, MOMENT);
            }
            clock.answered(0);
            assert!(clock.waits(1), "once it has paid, the pauses are short again");
        }
    }

    #[test]
    fn one_in_five_senders_may_stay_away() {
        for (expected, enough) in [(1, 1), (4, 4), (5, 4), (7, 6), (10, 8), (100, 80)] {
            let mut clock = Clock::new();
            clock.taken(expected, 100, MOMENT);
            clock.answered(0);
            assert!(clock.waits(enough - 1) && !clock.waits(enough), "{expected} senders");
            clock.taken(enough, 100, MOMENT);
            clock.answered(0);
            assert!(clock.waits(0), "{expected} senders");
        }
    }

    #[test]
    fn groups_do_not_wait_after_large_groups_or_groups_without_waiters() {
        let mut clock = Clock::new();
        for (senders, bytes) in [(3, SMALL + 1), (0, 100)] {
            clock.taken(senders, bytes, MOMENT);
            clock.answered(1);
            assert!(!clock.waits(1));
        }
        clock.taken(3, SMALL, MOMENT);
        clock.0.forget();
        clock.answered(1);
        assert!(!clock.waits(1));
        clock.taken(3, SMALL, MOMENT);
        clock.answered(1);
        assert!(clock.waits(1));
    }
}
