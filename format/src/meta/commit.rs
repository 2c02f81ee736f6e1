//! Group commit: all changes of one process that wait at the same time go into one version.
//!
//! A separate task, alive while changes wait, creates one version at a time. It passes a draft to each waiting caller
//! in turn; the caller runs its change in its own task and returns the draft. So the cancellation of one caller does
//! not affect the others, and a change may borrow from its caller. A refused change leaves no trace in the draft. After
//! a lost race, the changes are run again on top of the winner until their group wins, fails or reaches its deadline.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, sleep, timeout, timeout_at},
};

use super::{Catalog, Draft, Root, invariants, root::Attempt};
use crate::{
    error::{Error, Kind, Result},
    ids::TableId,
    store::Moment,
};

/// How long a change is tried before it fails.
pub(super) const COMMIT_DEADLINE: Duration = Duration::from_secs(60);
/// Maximum number of changes in one version.
const MOST: usize = 256;
/// How long a group waits for a caller to run its change. A slower caller joins a later group, which waits twice as
/// long for it.
const TURN: Duration = Duration::from_secs(1);
/// Minimum of the first wait after a lost race, which is otherwise as long as the attempt took: waits shorter than an
/// attempt would not spread the attempts of many committers.
const FIRST_WAIT: Duration = Duration::from_millis(10);
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// The changes that wait for a commit.
#[derive(Debug, Default)]
pub(super) struct Queue(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    waiters: VecDeque<Waiter>,
    /// Whether a committing task is running.
    driven: bool,
}

/// A change that waits for a commit.
#[derive(Debug)]
struct Waiter {
    touching: Vec<(TableId, i64)>,
    called: Moment,
    deadline: Instant,
    /// How long a group waits for the change to run.
    turn: Duration,
    turns: mpsc::UnboundedSender<Turn>,
}

/// Message of the committing task to a waiting caller.
#[derive(Debug)]
enum Turn {
    /// Run the change on this draft and return it; `false` if the change was refused.
    Run(Box<Draft>, oneshot::Sender<(Box<Draft>, bool)>),
    /// The last result of the change is final, as of this version; or the commit failed.
    Done(Result<Arc<Catalog>>),
}

/// Result of passing the draft to a caller.
enum Ran {
    /// The change ran, or was refused (`false`).
    Yes(Box<Draft>, bool),
    /// The caller was cancelled.
    Gone,
    /// The caller has not run the change yet. It sends the draft here once it has; that draft is not used.
    Slow(oneshot::Receiver<(Box<Draft>, bool)>),
}

impl Waiter {
    async fn run(&self, draft: Box<Draft>) -> Ran {
        let (back, mut returned) = oneshot::channel();
        if self.turns.send(Turn::Run(draft, back)).is_err() {
            return Ran::Gone;
        }
        match timeout(self.turn, &mut returned).await {
            Ok(Ok((draft, went))) => Ran::Yes(draft, went),
            Ok(Err(_)) => Ran::Gone,
            Err(_) => Ran::Slow(returned),
        }
    }

    /// Sends the outcome; the caller may be gone. At most one message per turn is sent, so the channel is bounded.
    fn done(self, outcome: Result<Arc<Catalog>>) {
        let _ = self.turns.send(Turn::Done(outcome));
    }
}

fn late() -> Error {
    Error::unavailable("commit timed out before it succeeded; nothing was changed")
}

impl Root {
    /// Commits a change. `change` runs on a draft of the newest version, again on each newer one until it wins, fails
    /// or 60 s have passed; a change that does nothing creates no version. `touching` names the partitions whose files
    /// the change reads or modifies. Changes that wait at the same time share one version, in order of arrival: each
    /// sees those before it.
    ///
    /// The result of `change`, even an error, is returned only if its version was the newest at some moment after this
    /// call. The returned version is that of the commit, or the one on which there was nothing to do.
    ///
    /// # Errors
    /// The error of `change`; [`Kind::Internal`] naming an invariant that the change would break; [`Kind::Unavailable`]
    /// when the outcome is unknown at the deadline (the change is not tried again, but may turn out to be committed),
    /// or when other commits won until the deadline; as [`Root::open`].
    pub async fn commit<T: Send>(
        &self,
        touching: &[(TableId, i64)],
        mut change: impl FnMut(&mut Draft) -> Result<T> + Send,
    ) -> Result<(T, Arc<Catalog>)> {
        let (turns, mut turn) = mpsc::unbounded_channel();
        let called = Moment::now(self.ambient());
        let deadline = Instant::now() + COMMIT_DEADLINE;
        self.enqueue(Waiter { touching: touching.to_vec(), called, deadline, turn: TURN, turns });
        let mut last: Option<Result<T>> = None;
        loop {
            match turn.recv().await {
                Some(Turn::Run(mut draft, back)) => {
                    let done = change(&mut draft);
                    let went = done.is_ok();
                    last = Some(done);
                    // If the change took too long, the receiver is gone and another turn follows.
                    let _ = back.send((draft, went));
                }
                Some(Turn::Done(Ok(catalog))) => {
                    let done = last.ok_or_else(|| Error::internal("a commit ended before its change ran"))?;
                    return done.map(|value| (value, catalog));
                }
                Some(Turn::Done(Err(e))) => return Err(e),
                None => return Err(Error::unavailable("outcome unknown: the process stopped committing")),
            }
        }
    }

    /// Moves a caller that was too slow for its group to a later group once it has answered.
    fn enqueue_again(&self, mut waiter: Waiter, answer: oneshot::Receiver<(Box<Draft>, bool)>) {
        let root = self.clone();
        waiter.turn *= 2;
        tokio::spawn(async move {
            match timeout_at(waiter.deadline, answer).await {
                Ok(Ok(_)) => root.enqueue(waiter),
                Ok(Err(_)) => {}
                Err(_) => waiter.done(Err(late())),
            }
        });
    }

    fn enqueue(&self, waiter: Waiter) {
        let mut waiting = self.queue().0.lock();
        waiting.waiters.push_back(waiter);
        if !std::mem::replace(&mut waiting.driven, true) {
            tokio::spawn(drive(self.clone()));
        }
    }

    /// Commits the changes of a group as one version.
    async fn commit_group(&self, mut group: Vec<Waiter>) {
        let mut wait: Option<Duration> = None;
        let mut base = self.catalog();
        loop {
            let now = Instant::now();
            for overdue in group.extract_if(.., |w| w.deadline <= now) {
                overdue.done(Err(late().with("base", base.version)));
            }
            let Some(deadline) = group.iter().map(|w| w.deadline).min() else { return };
            let draft = match self.draft(&base, &mut group).await {
                Ok(Some(draft)) => draft,
                Ok(None) => match self.refresh().await {
                    Ok(newer) => {
                        base = newer;
                        continue;
                    }
                    Err(e) => return fail(group, &e),
                },
                Err(e) => return fail(group, &e),
            };
            let (draft, refused) = self.run_all(draft, &mut group).await;
            let checked = draft.changes().and_then(|changes| match &changes {
                None => Ok(None),
                Some(_) => invariants::check(&draft, self.ambient().wall_ms()).map(|()| changes),
            });
            let changes = match checked {
                Ok(changes) => changes,
                // One of the changes breaks an invariant: commit each on its own.
                Err(_) if group.len() > 1 => return self.commit_each(group).await,
                Err(e) => return fail(group, &e),
            };
            let Some(changes) = changes else {
                // A refusal or a change that does nothing also needs the newest version.
                let newest = match self.newest_since(&group).await {
                    Ok(newest) => newest,
                    Err(e) => return fail(group, &e),
                };
                if newest.version == base.version {
                    return group.into_iter().for_each(|w| w.done(Ok(base.clone())));
                }
                base = newest;
                continue;
            };
            let winner = match self.append(&base, *draft, changes, deadline).await {
                Ok(Attempt::Won(catalog)) => return group.into_iter().for_each(|w| w.done(Ok(catalog.clone()))),
                Ok(Attempt::Lost(winner)) => winner,
                Err(e) if refused.iter().any(|r| *r) => {
                    // The refused changes were not part of the failed attempt: they are tried again.
                    let mut refused = refused.into_iter();
                    let (others, tried) = group.into_iter().partition(|_| refused.next().unwrap_or(false));
                    fail(tried, &e);
                    return self.commit_each(others).await;
                }
                Err(e) => return fail(group, &e),
            };
            // After one lost race, continue on the winner without a request. After another, there are several
            // committers: wait, then read the newest version.
            let winner = winner.filter(|_| wait.is_none());
            let longest = wait.map_or_else(|| now.elapsed().max(FIRST_WAIT), |wait| wait * 2).min(LONGEST_WAIT);
            wait = Some(longest);
            let pause = longest.mul_f64((self.ambient().random() >> 11) as f64 / (1_u64 << 53) as f64);
            sleep(pause.min(deadline.saturating_duration_since(Instant::now()))).await;
            base = match winner {
                Some(winner) => winner,
                None => match self.leap().await {
                    Ok(newer) => newer,
                    Err(e) => return fail(group, &e),
                },
            };
        }
    }

    /// Runs the changes of a group on the draft; returns which were refused. Removes callers that do not answer.
    async fn run_all(&self, mut draft: Box<Draft>, group: &mut Vec<Waiter>) -> (Box<Draft>, Vec<bool>) {
        let mut refused = Vec::with_capacity(group.len());
        while refused.len() < group.len() {
            let before = draft.clone();
            match group[refused.len()].run(draft).await {
                Ran::Yes(changed, true) => {
                    draft = changed;
                    refused.push(false);
                    continue;
                }
                Ran::Yes(_, false) => refused.push(true),
                Ran::Gone => drop(group.remove(refused.len())),
                Ran::Slow(answer) => self.enqueue_again(group.remove(refused.len()), answer),
            }
            draft = before;
        }
        (draft, refused)
    }

    async fn commit_each(&self, group: Vec<Waiter>) {
        for waiter in group {
            Box::pin(self.commit_group(vec![waiter])).await;
        }
    }

    /// Creates a draft with the files that the group touches; `None` when `base` is too old to be read.
    async fn draft(&self, base: &Arc<Catalog>, group: &mut Vec<Waiter>) -> Result<Option<Box<Draft>>> {
        let mut lists = Vec::new();
        let mut at = 0;
        'group: while at < group.len() {
            for touched in group[at].touching.clone() {
                if lists.iter().any(|(known, _)| *known == touched) {
                    continue;
                }
                match self.files(base, touched.0, touched.1).await {
                    Ok(files) => lists.push((touched, files)),
                    Err(e) if e.kind() == Kind::NotFound => return Ok(None),
                    Err(e) => {
                        group.remove(at).done(Err(e));
                        continue 'group;
                    }
                }
            }
            at += 1;
        }
        Ok(Some(Box::new(Draft::new(base.clone(), lists))))
    }

    /// The newest version as of a moment after each call of the group.
    async fn newest_since(&self, group: &[Waiter]) -> Result<Arc<Catalog>> {
        match self.confirmed_since(|confirmed| group.iter().all(|w| confirmed.not_before(&w.called))) {
            Some(known) => Ok(known),
            None => self.refresh().await,
        }
    }
}

fn fail(group: Vec<Waiter>, error: &Error) {
    group.into_iter().for_each(|w| w.done(Err(error.copied())));
}

/// Commits group after group until no change waits.
async fn drive(root: Root) {
    let mut driver = Driver { root, finished: false };
    loop {
        let group: Vec<Waiter> = {
            let mut waiting = driver.root.queue().0.lock();
            let n = waiting.waiters.len().min(MOST);
            if n == 0 {
                waiting.driven = false;
                driver.finished = true;
                return;
            }
            waiting.waiters.drain(..n).collect()
        };
        driver.root.commit_group(group).await;
    }
}

/// State of the committing task. If the task ends early, with its runtime, the waiting changes are dropped and the next
/// change starts a new task.
struct Driver {
    root: Root,
    finished: bool,
}

impl Drop for Driver {
    fn drop(&mut self) {
        if self.finished {
            return;
        }
        let mut waiting = self.root.queue().0.lock();
        waiting.driven = false;
        waiting.waiters.clear();
    }
}
