//! Group commit: all changes of one process that wait at the same time go into one version.
//!
//! A task of its own, alive while somebody waits, makes one version at a time. It hands a draft to each who waits, one
//! after the other: each runs its change in its own task and hands the draft back. So nobody's cancellation takes
//! others with it, and a change borrows what it likes. What a change refused leaves no trace in the draft. A change is
//! run again on top of each winner until its group wins, fails or its deadline has passed.

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

/// How long a change is tried.
pub(super) const COMMIT_DEADLINE: Duration = Duration::from_secs(60);
/// The most changes of one version.
const MOST: usize = 256;
/// How long a group waits for one of it to run its change; one that takes longer joins a later group, which waits
/// twice as long for it.
const TURN: Duration = Duration::from_secs(1);
/// The first wait after a lost race is as long as the attempt took, and at least this: attempts of many committers are
/// not spread by waits shorter than they are.
const FIRST_WAIT: Duration = Duration::from_millis(10);
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// Who waits for a commit.
#[derive(Debug, Default)]
pub(super) struct Queue(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    waiters: VecDeque<Waiter>,
    /// Whether a task is at work.
    driven: bool,
}

/// One change that waits.
#[derive(Debug)]
struct Waiter {
    touching: Vec<(TableId, i64)>,
    called: Moment,
    deadline: Instant,
    /// How long a group waits for it.
    turn: Duration,
    turns: mpsc::UnboundedSender<Turn>,
}

/// What the committing task tells one who waits.
#[derive(Debug)]
enum Turn {
    /// Run the change on this draft and hand it back; false when the change refused.
    Run(Box<Draft>, oneshot::Sender<(Box<Draft>, bool)>),
    /// What the change returned last stands, as of this version; or what went wrong.
    Done(Result<Arc<Catalog>>),
}

/// What came of one's turn.
enum Ran {
    /// The change ran, or refused (false).
    Yes(Box<Draft>, bool),
    /// Who waited was cancelled.
    Gone,
    /// Its task has not come to it yet: the draft comes back here when it has, and is of no use then.
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

    /// Who waits may be gone. Not sent more often than there are turns, so what is in the channel is bounded.
    fn done(self, outcome: Result<Arc<Catalog>>) {
        let _ = self.turns.send(Turn::Done(outcome));
    }
}

fn late() -> Error {
    Error::unavailable("the commit did not win before its deadline; nothing was changed")
}

impl Root {
    /// Commits a change. `change` runs on a draft of the newest version, again on each newer one until it wins,
    /// fails or 60 s have passed; a change that does nothing creates no version. `touching` names the partitions
    /// whose files it reads or changes. Changes that wait at the same time share one version, in the order in which
    /// they came: each sees those before it.
    ///
    /// What `change` returns, an error too, stands only for a version that was the newest at some moment after
    /// this call. The version returned is that of the commit, or the one on which nothing was to do.
    ///
    /// # Errors
    /// What `change` returns; [`Kind::Internal`] naming an invariant that the change would break;
    /// [`Kind::Unavailable`] when the outcome is unknown at the deadline (the change is not tried again, but may
    /// turn out to be in), or when it lost to other commits for that long; as [`Root::open`].
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
                    // Nobody takes it back when this took too long: another turn follows.
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

    /// Puts one whose task was too slow for its group in a later one, as soon as it has answered.
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

    /// Commits what a group wants as one version.
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
                // It is one of them, so let each answer for itself.
                Err(_) if group.len() > 1 => return self.commit_each(group).await,
                Err(e) => return fail(group, &e),
            };
            let Some(changes) = changes else {
                // Refusing or doing nothing needs an answer as much as a commit does.
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
                    // What was refused was not tried: it does not share the fate of what was.
                    let mut refused = refused.into_iter();
                    let (others, tried) = group.into_iter().partition(|_| refused.next().unwrap_or(false));
                    fail(tried, &e);
                    return self.commit_each(others).await;
                }
                Err(e) => return fail(group, &e),
            };
            // Who lost once goes on upon the winner, without a question. Who loses again is one of several, and will find
            // the chain further on after a wait.
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

    /// Runs the change of each of a group on the draft; tells who refused. Who does not answer is taken out.
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

    /// A draft with the files that the group touches; `None` when `base` is so old that it cannot be read.
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

    /// The newest version, as of a moment after each of a group called.
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

/// Commits group after group until nobody waits.
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

/// The task. When it ends early, with its runtime, nobody goes on waiting for it, and the next one starts another.
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
