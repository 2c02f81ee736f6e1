//! Waiting a moment for the senders of the group before, on a disk.
//!
//! Who sends one small request after another is back a moment after its group was answered. Taken at once, what waited
//! meanwhile is written while they come back, and then what they sent: two halves by turns, each for the price of a sync.
//! Taken when all are back, one sync serves all of them; that pays where they are back before another sync would be over.

use std::time::Duration;

use tokio::time::Instant;

/// Groups of more bytes are written at once: to encode them while others are written is worth more.
const SMALL: usize = 16 << 10;
/// They are waited for as long as their group took, and no longer than this.
const PATIENCE: Duration = Duration::from_millis(1);
/// After waiting in vain so many groups are taken at once; twice as many each time, up to the second.
const PAUSES: [u32; 2] = [16, 4_096];

/// Whom the next group waits for.
#[derive(Debug)]
pub(super) struct Regroup {
    /// Senders of the group that is being written and when it was taken; `None` where none is waited for.
    writing: Option<(usize, Instant)>,
    expected: Option<Expected>,
    /// So many groups are taken at once.
    pause: u32,
    /// The pause after waiting in vain once more.
    next_pause: u32,
}

/// Senders who are about to come back.
#[derive(Debug, Clone, Copy)]
struct Expected {
    /// How many wait for an answer when all are back.
    senders: usize,
    /// Until when they are waited for.
    until: Instant,
}

impl Regroup {
    pub(super) fn new() -> Self {
        Self { writing: None, expected: None, pause: 0, next_pause: PAUSES[0] }
    }

    /// A small group is taken, of `senders` who wait for an answer.
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

    /// Something else is taken: nobody is waited for.
    pub(super) fn forget(&mut self) {
        (self.writing, self.expected) = (None, None);
    }

    /// Its senders are about to be answered; others wait already.
    pub(super) fn answering(&mut self, waiting: usize, now: Instant) {
        let written = self.writing.take();
        if self.pause > 0 {
            self.pause -= 1;
        } else if let Some((senders, taken)) = written {
            self.expected = Some(Expected { senders: senders + waiting, until: now + (now - taken).min(PATIENCE) });
        }
    }

    /// Until when a group of those who wait is put off.
    pub(super) fn due(&self, waiting: usize, now: Instant) -> Option<Instant> {
        let is_short = |expected: &Expected| waiting < enough(expected.senders) && now < expected.until;
        self.expected.filter(is_short).map(|expected| expected.until)
    }

    /// One that expects so many.
    #[cfg(test)]
    pub(super) fn expecting(senders: usize, until: Instant) -> Self {
        Self { expected: Some(Expected { senders, until }), ..Self::new() }
    }
}

/// One in five may stay away: it finds no processor where all are about to send.
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
    fn a_group_waits_for_the_senders_of_the_one_before() {
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
    fn none_waits_for_a_while_where_they_stay_away_or_are_long_in_coming() {
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
    fn of_many_some_may_stay_away() {
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
    fn large_groups_and_those_of_nobody_who_waits_hold_up_none() {
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
