//! Stamps of a process, which order segments within one tick of the store's clock.

use std::{
    collections::HashSet,
    sync::atomic::{AtomicI64, Ordering},
};

use parking_lot::Mutex;
use tidelake_format::{
    Error, Kind, Result,
    ids::{Position, Token, WriterId},
    layout::log_key,
    segment,
    store::Store,
};

use super::Ingest;

/// Positions remembered as passed by later stamps.
const MOST_PASSED: usize = 1_024;
/// Most writes of other processes that one write may name: each costs a request.
const MOST_TOKENS: usize = 64;

/// The stamps of one process, strictly increasing: of two writes of one client the later one is newer, whichever writers they
/// use and however coarse or unsteady the clocks are. On a directory a stamp also exceeds those of other processes.
#[derive(Debug, Default)]
pub(crate) struct Stamps {
    last: AtomicI64,
    /// The writers of this process.
    own: Mutex<HashSet<WriterId>>,
    /// Positions of other processes that all future stamps exceed.
    passed: Mutex<HashSet<Position>>,
}

impl Stamps {
    /// The next stamp: the wall clock, unless it has been used.
    pub(crate) fn next(&self, store: &Store) -> i64 {
        let wall_ns = store.ambient().wall_ns();
        let later = |last: i64| Some(wall_ns.max(last.saturating_add(1)));
        let last = self.last.fetch_update(Ordering::Relaxed, Ordering::Relaxed, later);
        let stamp = store.stamp(wall_ns.max(last.unwrap_or_default().saturating_add(1)));
        self.raise(stamp);
        stamp
    }

    /// Makes every later stamp exceed this one.
    fn raise(&self, stamp: i64) {
        self.last.fetch_max(stamp, Ordering::Relaxed);
    }

    /// Registers a writer of this process.
    pub(crate) fn own(&self, writer: WriterId) {
        self.own.lock().insert(writer);
    }

    /// The writers of this process.
    pub(crate) fn writers(&self) -> Vec<WriterId> {
        self.own.lock().iter().copied().collect()
    }

    fn is_passed(&self, position: &Position) -> bool {
        self.own.lock().contains(&position.writer) || self.passed.lock().contains(position)
    }
}

impl Ingest {
    /// A handle for a write that is newer than the writes of these tokens, whichever process acknowledged them.
    #[must_use]
    pub fn after(&self, tokens: &[Token]) -> Self {
        let positions = tokens.iter().filter_map(|token| match token {
            Token::Position(position) => Some(*position),
            Token::Version(_) => None,
        });
        Self { after: positions.collect(), ..self.clone() }
    }

    /// Makes all future stamps exceed those of the segments that this write must follow.
    ///
    /// # Errors
    /// Invalid for too many tokens; Unavailable if the store does not respond.
    pub(crate) async fn catch_up(&self) -> Result<()> {
        if self.after.len() > MOST_TOKENS {
            let error = Error::invalid("too many tokens of earlier writes: send the last one of each client");
            return Err(error.with("limit", MOST_TOKENS).with("found", self.after.len()));
        }
        let stamps = &self.shared.stamps;
        for position in self.after.iter().filter(|position| !stamps.is_passed(position)) {
            let key = log_key(*position);
            match Box::pin(self.shared.root.store().get_range(&key, 0..segment::HEADER as u64)).await {
                Ok(bytes) => {
                    let header = segment::header(&bytes).filter(|header| header.position == *position);
                    header.iter().for_each(|header| stamps.raise(header.stamp_ns));
                }
                // The rows are in files, and every log segment is newer than those.
                Err(e) if e.kind() == Kind::NotFound => {}
                Err(e) => return Err(e),
            }
            let mut passed = stamps.passed.lock();
            if passed.len() >= MOST_PASSED {
                passed.clear();
            }
            passed.insert(*position);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::Arc;

    use tidelake_format::store::{Ambient, System};

    use super::*;

    /// A wall clock that a test sets, in nanoseconds.
    #[derive(Debug, Default)]
    struct Set(AtomicI64);

    impl Ambient for Set {
        fn wall_ns(&self) -> i64 {
            self.0.load(Ordering::SeqCst)
        }

        fn random(&self) -> u64 {
            System.random()
        }
    }

    #[test]
    fn stamps_grow_even_when_the_clock_stands_still_or_goes_back() {
        let clock = Arc::new(Set::default());
        let (stamps, store) = (Stamps::default(), Store::in_memory().with_ambient(clock.clone()));
        let next = |wall_ns| {
            clock.0.store(wall_ns, Ordering::SeqCst);
            stamps.next(&store)
        };
        assert_eq!([10, 10, 3, 20].map(next), [10, 11, 12, 20]);
    }
}
