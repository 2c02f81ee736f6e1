//! Admission control: limits the number of running and of waiting statements and shares both fairly among users.
//!
//! A free permit goes to the user with the fewest running statements; among equals to the user served longest ago. When the queue
//! is full, the last waiting statement of the user with the most is refused in favour of another user's. A user with a limit on
//! concurrent queries never has more permits than that, even if some are free.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use tidelake_format::{Error, Result, access::Principal};
use tokio::sync::oneshot;

/// Hands out the permits. Cheap to clone.
#[derive(Clone)]
pub(super) struct Admission(Arc<Inner>);

struct Inner {
    concurrency: usize,
    most_waiting: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    running: usize,
    waiting: usize,
    turn: u64,
    users: HashMap<User, Queue>,
}

/// The user of a statement; `None` where authentication is off.
type User = Option<Arc<str>>;

#[derive(Default)]
struct Queue {
    running: usize,
    /// The user's limit on running statements, as of the user's last request.
    most: usize,
    served: u64,
    waiting: VecDeque<(u64, oneshot::Sender<Result<Permit>>)>,
}

/// A user who requests a permit, with the user's limit on permits.
#[derive(Clone, Copy)]
pub(super) struct Who<'a> {
    user: Option<&'a str>,
    most: usize,
}

impl<'a> Who<'a> {
    pub(super) fn of(principal: &'a Principal) -> Self {
        let most = principal.limits().queries.map_or(usize::MAX, |most| most as usize);
        Self { user: principal.user(), most: most.max(1) }
    }
}

/// A place among the running statements, until this is dropped. One without an owner does not count among them.
pub(super) struct Permit(Option<(Admission, User)>);

impl Permit {
    /// A permit that does not count, for short statements that must run even when all permits are taken.
    pub(super) fn beside() -> Self {
        Self(None)
    }
}

/// A place in the queue, until this is dropped.
struct Waiting<'a> {
    admission: &'a Admission,
    user: User,
    ticket: u64,
}

impl Admission {
    pub(super) fn new(concurrency: usize, most_waiting: usize) -> Self {
        Self(Arc::new(Inner { concurrency: concurrency.max(1), most_waiting, state: Mutex::default() }))
    }

    /// Waits for a permit.
    ///
    /// # Errors
    /// Unavailable when the queue is full, or after waiting for `patience`.
    pub(super) async fn enter(&self, user: Who<'_>, patience: Duration) -> Result<Permit> {
        self.wait(user, patience, self.0.most_waiting).await
    }

    /// Waits for a new permit in place of a released one, even if the queue is full.
    ///
    /// # Errors
    /// Unavailable after waiting for `patience`.
    pub(super) async fn enter_again(self, principal: Principal, patience: Duration) -> Result<Permit> {
        self.wait(Who::of(&principal), patience, usize::MAX).await
    }

    async fn wait(&self, who: Who<'_>, patience: Duration, most_waiting: usize) -> Result<Permit> {
        let user: User = who.user.map(Arc::from);
        let (waiting, turn) = match self.knock(&user, who.most, most_waiting)? {
            Knocked::Enter(permit) => return Ok(permit),
            Knocked::Wait(ticket, turn) => (Waiting { admission: self, user, ticket }, turn),
        };
        let came = tokio::time::timeout(patience, turn).await;
        drop(waiting);
        match came {
            Ok(Ok(permit)) => permit,
            Ok(Err(_)) => Err(Error::unavailable("the engine is shutting down")),
            Err(_) => {
                Err(Error::unavailable("query waited too long in the queue").with("limit", format!("{patience:?}")))
            }
        }
    }

    fn knock(&self, user: &User, most: usize, most_waiting: usize) -> Result<Knocked> {
        let inner = &self.0;
        let mut state = inner.state.lock();
        let own = state.users.entry(user.clone()).or_default();
        own.most = most;
        // Statements that wait while permits are free wait because of their own user's limit.
        if own.running < most && own.waiting.is_empty() && state.running < inner.concurrency {
            return Ok(Knocked::Enter(self.admit(&mut state, user)));
        }
        let too_many = || Error::unavailable("query queue is full").with("limit", inner.most_waiting);
        let mut given_up = None;
        if state.waiting >= most_waiting {
            let own = state.users.get(user).map_or(0, |queue| queue.waiting.len());
            let most = state.users.values_mut().max_by_key(|queue| queue.waiting.len());
            let Some(most) = most.filter(|queue| queue.waiting.len() > own + 1) else {
                self.forget(&mut state, user);
                return Err(too_many());
            };
            given_up = most.waiting.pop_back();
            state.waiting -= 1;
        }
        state.turn += 1;
        let ticket = state.turn;
        let (sender, turn) = oneshot::channel();
        state.users.entry(user.clone()).or_default().waiting.push_back((ticket, sender));
        state.waiting += 1;
        drop(state);
        if let Some((_, sender)) = given_up {
            let _ = sender.send(Err(too_many()));
        }
        // The user's limit may have been raised: admit the statements that were already waiting.
        while self.next() {}
        Ok(Knocked::Wait(ticket, turn))
    }

    fn admit(&self, state: &mut State, user: &User) -> Permit {
        state.running += 1;
        state.turn += 1;
        let turn = state.turn;
        let queue = state.users.entry(user.clone()).or_default();
        queue.running += 1;
        queue.served = turn;
        Permit(Some((self.clone(), user.clone())))
    }

    /// Gives a free permit to the next waiting statement. Returns whether there were both.
    fn next(&self) -> bool {
        let mut state = self.0.state.lock();
        if state.running >= self.0.concurrency {
            return false;
        }
        // Among users who were never served, the one whose statement has waited longest.
        let may = state.users.iter().filter(|(_, queue)| queue.running < queue.most);
        let waiting = may.filter_map(|(user, q)| Some((user, (q.running, q.served, q.waiting.front()?.0))));
        let Some(user) = waiting.min_by_key(|(_, rank)| *rank).map(|(user, _)| user.clone()) else {
            return false;
        };
        let sender = state.users.get_mut(&user).and_then(|queue| queue.waiting.pop_front());
        state.waiting -= 1;
        let permit = self.admit(&mut state, &user);
        drop(state);
        if let Some((_, sender)) = sender {
            // If the receiver is gone, the permit is dropped, which admits the next statement.
            let _ = sender.send(Ok(permit));
        }
        true
    }

    fn forget(&self, state: &mut State, user: &User) {
        if state.users.get(user).is_some_and(|queue| queue.running == 0 && queue.waiting.is_empty()) {
            state.users.remove(user);
        }
    }
}

enum Knocked {
    Enter(Permit),
    Wait(u64, oneshot::Receiver<Result<Permit>>),
}

impl Drop for Permit {
    fn drop(&mut self) {
        let Some((admission, user)) = &self.0 else { return };
        let mut state = admission.0.state.lock();
        state.running -= 1;
        if let Some(queue) = state.users.get_mut(user) {
            queue.running -= 1;
        }
        admission.forget(&mut state, user);
        drop(state);
        admission.next();
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut state = self.admission.0.state.lock();
        let Some(queue) = state.users.get_mut(&self.user) else { return };
        let before = queue.waiting.len();
        queue.waiting.retain(|(ticket, _)| *ticket != self.ticket);
        if queue.waiting.len() < before {
            state.waiting -= 1;
        }
        self.admission.forget(&mut state, &self.user);
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    const SOON: Duration = Duration::from_secs(60);
    const NOBODY: Who<'static> = Who { user: None, most: usize::MAX };

    fn who(user: &str) -> Who<'_> {
        Who { user: Some(user), most: usize::MAX }
    }

    /// The users admitted, in order, when each returns its permit at once.
    async fn order(admission: &Admission, first: Permit, asked: &[&'static str]) -> Vec<&'static str> {
        let log = Arc::new(Mutex::new(Vec::new()));
        let tasks: Vec<_> = asked
            .iter()
            .map(|user| {
                let (admission, log, user) = (admission.clone(), log.clone(), *user);
                tokio::spawn(async move {
                    if let Ok(_permit) = admission.enter(who(user), SOON).await {
                        log.lock().push(user);
                    }
                })
            })
            .collect();
        tokio::task::yield_now().await;
        drop(first);
        for task in tasks {
            task.await.unwrap();
        }
        log.lock().clone()
    }

    #[tokio::test]
    async fn users_take_turns_whatever_their_number_of_queries() {
        let admission = Admission::new(1, 100);
        let first = admission.enter(who("a"), SOON).await.unwrap();
        let got = order(&admission, first, &["a", "a", "a", "a", "b", "b", "c"]).await;
        assert_eq!(got, ["b", "c", "a", "b", "a", "a", "a"]);
        assert!(admission.0.state.lock().users.is_empty(), "no user is kept");
    }

    #[tokio::test]
    async fn a_permit_goes_to_the_user_with_the_fewest() {
        let admission = Admission::new(3, 100);
        let mut held: Vec<Permit> = Vec::new();
        for user in ["a", "a", "b"] {
            held.push(admission.enter(who(user), SOON).await.unwrap());
        }
        let mut a = Box::pin(admission.enter(who("a"), SOON));
        let mut b = Box::pin(admission.enter(who("b"), SOON));
        assert!((&mut a).now_or_never().is_none() && (&mut b).now_or_never().is_none());
        held.remove(0); // a has one left, and so has b, who was served later
        let of_a = (&mut a).now_or_never();
        assert!(of_a.as_ref().is_some_and(Result::is_ok) && (&mut b).now_or_never().is_none());
        drop(of_a);
        assert!((&mut b).now_or_never().is_some_and(|turn| turn.is_ok()));
    }

    #[tokio::test]
    async fn a_full_queue_evicts_from_the_user_with_the_most() {
        let admission = Admission::new(1, 3);
        let running = admission.enter(who("a"), SOON).await.unwrap();
        let mut of_a: Vec<_> = (0..3).map(|_| Box::pin(admission.enter(who("a"), SOON))).collect();
        of_a.iter_mut().for_each(|waits| assert!(waits.now_or_never().is_none()));
        assert!(admission.enter(who("a"), SOON).await.is_err_and(|e| e.to_string().contains("queue is full")));
        let mut b = Box::pin(admission.enter(who("b"), SOON));
        assert!((&mut b).now_or_never().is_none(), "it waits");
        let given_up: Vec<bool> =
            of_a.iter_mut().map(|waits| waits.now_or_never().is_some_and(|r| r.is_err())).collect();
        assert_eq!(given_up, [false, false, true], "the last of the user with the most");
        drop(running);
        assert!((&mut b).now_or_never().is_some_and(|turn| turn.is_ok()));
    }

    #[tokio::test]
    async fn a_dropped_or_timed_out_waiter_leaves_the_queue() {
        let admission = Admission::new(1, 2);
        let running = admission.enter(NOBODY, SOON).await.unwrap();
        let mut gone = Box::pin(admission.enter(NOBODY, SOON));
        assert!((&mut gone).now_or_never().is_none());
        drop(gone);
        let late = admission.enter(NOBODY, Duration::from_millis(10)).await;
        assert!(late.is_err_and(|e| e.to_string().contains("too long")));
        assert_eq!(admission.0.state.lock().waiting, 0);
        drop(running);
        drop(admission.enter(NOBODY, SOON).await.unwrap());
        assert!(admission.0.state.lock().users.is_empty());
    }

    #[tokio::test]
    async fn a_limited_user_gets_no_more_permits_even_if_some_are_free() {
        let admission = Admission::new(4, 100);
        let limited = Who { user: Some("a"), most: 2 };
        let mut held: Vec<Permit> = Vec::new();
        for _ in 0..2 {
            held.push(admission.enter(limited, SOON).await.unwrap());
        }
        let mut third = Box::pin(admission.enter(limited, SOON));
        assert!((&mut third).now_or_never().is_none());
        // Others do not wait behind it.
        for _ in 0..2 {
            held.push(admission.enter(who("b"), SOON).await.unwrap());
        }
        let mut of_b = Box::pin(admission.enter(who("b"), SOON));
        assert!((&mut of_b).now_or_never().is_none());
        held.pop(); // one of b's: it is for b, who has fewer than a, and a may have no more
        assert!((&mut third).now_or_never().is_none());
        assert!((&mut of_b).now_or_never().is_some_and(|turn| turn.is_ok()));
        held.remove(0);
        assert!((&mut third).now_or_never().is_some_and(|turn| turn.is_ok()));
        drop((third, of_b, held));
        assert!(admission.0.state.lock().users.is_empty(), "no user is kept");
    }

    #[tokio::test]
    async fn a_raised_limit_admits_statements_that_waited_under_the_old_one() {
        let admission = Admission::new(4, 100);
        let (few, more) = (Who { user: Some("a"), most: 1 }, Who { user: Some("a"), most: 3 });
        let first = admission.enter(few, SOON).await.unwrap();
        let mut waited: Vec<_> = (0..2).map(|_| Box::pin(admission.enter(few, SOON))).collect();
        waited.iter_mut().for_each(|waits| assert!(waits.now_or_never().is_none()));
        let mut fourth = Box::pin(admission.enter(more, SOON));
        assert!((&mut fourth).now_or_never().is_none(), "three may run, and two waited for longer");
        let mut held: Vec<_> = waited.iter_mut().filter_map(|waits| waits.now_or_never()).collect();
        assert!(held.len() == 2 && held.iter().all(Result::is_ok));
        held.pop();
        assert!((&mut fourth).now_or_never().is_some_and(|turn| turn.is_ok()));
        drop(first);
    }
}
