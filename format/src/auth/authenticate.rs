//! Authenticates requests.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use ring::hmac;
use tokio::sync::Semaphore;

use super::{
    Credentials,
    failures::{Failures, LONGEST, Turn},
    hashing::verify_in_turn,
};
use crate::{
    access::{
        Deed, Principal, User, Users, secret,
        sessions::{Claim, LASTS, Signatures, Signer},
    },
    error::{Error, Kind, Result},
    meta::{Catalog, Draft, PROBE_AGE, Probe, Root},
};

/// Time after its last use for which a valid password is cached without being hashed again.
const KNOWN: Duration = Duration::from_secs(600);
/// Tokens of sessions whose key is not known ask the store for new keys once in this time, all of them together.
const ASK_EVERY: Duration = Duration::from_millis(200);
/// Maximum number of cached passwords.
const MOST_KNOWN: usize = 10_000;
/// Maximum number of password requests that wait after many failures: further ones are refused at once.
const MOST_WAITING: usize = 1_000;

/// Authenticates requests by the users in a root's catalog. Cheap to clone.
///
/// Its knowledge is never older than [`PROBE_AGE`], and a statement that changes users or rights returns no sooner than that:
/// so a change holds on every node once it was answered.
#[derive(Debug, Clone)]
pub struct Authenticator(Arc<Inner>);

/// Held by the one request that has a password looked at.
type Gate = tokio::sync::Mutex<()>;

#[derive(Debug)]
struct Inner {
    probe: Probe,
    failures: Failures,
    waiting: Semaphore,
    /// Passwords that were right lately, by a keyed hash of user and password: the hash that they were right for.
    known: Mutex<HashMap<[u8; 32], (Instant, String)>>,
    /// Passwords that are being looked at.
    gates: Mutex<HashMap<[u8; 32], Weak<Gate>>>,
    key: hmac::Key,
    /// Whose a token is, by its id, and of which users that is so.
    owners: Mutex<(Arc<Users>, HashMap<String, String>)>,
    /// Signs the sessions that this node begins.
    signer: tokio::sync::Mutex<Option<Signer>>,
    signatures: Signatures,
    begins_sessions: bool,
}

/// Result of a login.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoggedIn {
    /// The user.
    pub principal: Principal,
    /// What lets the same user in for [`LoggedIn::SECONDS`], on every node, until the password changes or the session is ended:
    /// sent like any other token.
    pub token: String,
}

impl LoggedIn {
    /// Lifetime of the token in seconds.
    pub const SECONDS: u64 = LASTS.as_secs();
}

impl Authenticator {
    /// By the users of a root.
    ///
    /// # Errors
    /// [`Kind::Unavailable`] without random bytes.
    pub fn new(root: Root) -> Result<Self> {
        Self::build(root, true)
    }

    /// The same in a process that may only read the root: it takes sessions that others began, and begins none.
    ///
    /// # Errors
    /// Those of [`Authenticator::new`].
    pub fn read_only(root: Root) -> Result<Self> {
        Self::build(root, false)
    }

    fn build(root: Root, begins_sessions: bool) -> Result<Self> {
        let none = |_| Error::unavailable("the system has no random bytes");
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &ring::rand::SystemRandom::new()).map_err(none)?;
        let (probe, failures, known) = (Probe::new(root), Failures::default(), Mutex::default());
        let (owners, signer, signatures) = (Mutex::default(), tokio::sync::Mutex::default(), Signatures::default());
        let waiting = Semaphore::new(MOST_WAITING);
        let gates = Mutex::default();
        Ok(Self(Arc::new(Inner {
            probe,
            failures,
            waiting,
            known,
            gates,
            key,
            owners,
            signer,
            signatures,
            begins_sessions,
        })))
    }

    /// The principal of these credentials; `peer` is the client's address.
    ///
    /// # Errors
    /// [`Kind::Unauthenticated`] for none, wrong ones, those of a token that has expired or of a user who is disabled, and,
    /// after many wrong ones, where too many tries of one address wait for their turn;
    /// [`Kind::Unavailable`] when the store cannot be reached.
    pub async fn authenticate(&self, credentials: &Credentials, peer: Option<IpAddr>) -> Result<Principal> {
        let found = self.find(credentials, peer).await;
        if let Err(error) = &found
            && error.kind() == Kind::Unauthenticated
        {
            let user = match credentials {
                // What is no name may be a token in the wrong place.
                Credentials::Password { user, .. } if Users::check_name(user).is_ok() => user.as_str(),
                _ => "",
            };
            Deed { action: "AUTHENTICATE", ..Deed::default() }.write(user, peer, Some(error));
        }
        found
    }

    /// As [`Authenticator::authenticate`], with a token for what comes next.
    ///
    /// # Errors
    /// Those of [`Authenticator::authenticate`]; [`Kind::Forbidden`] where this process may not write to the root, and so cannot
    /// begin a session.
    pub async fn log_in(&self, credentials: &Credentials, peer: Option<IpAddr>) -> Result<LoggedIn> {
        let principal = self.authenticate(credentials, peer).await?;
        // What a token of a program may do is not what its user may: it stays what it is.
        if let Credentials::Token(token) = credentials {
            return Ok(LoggedIn { principal, token: token.clone() });
        }
        if let Credentials::Password { password, .. } = credentials
            && (secret::token_id(password).is_some() || secret::is_session(password))
        {
            return Ok(LoggedIn { principal, token: password.clone() });
        }
        let name = principal.user().unwrap_or_default();
        Ok(LoggedIn { token: self.begin_session(name).await?, principal })
    }

    /// The token of a new session of a user.
    async fn begin_session(&self, name: &str) -> Result<String> {
        if !self.0.begins_sessions {
            return Err(Error::forbidden(
                "no session begins here, where the root is only read: send the password or a token with each \
                                         request, or log in at a node that writes",
            )
            .with("user", name));
        }
        let mut signer = self.0.signer.lock().await;
        let mut catalog = self.0.probe.catalog(PROBE_AGE).await?;
        let now_ms = self.now_ms();
        let is_ended = |signer: &Signer| signer.is_published && !catalog.users().session_keys().has(signer.id());
        if signer.as_ref().is_none_or(|signer| !signer.signs_at(now_ms) || is_ended(signer)) {
            *signer = Some(Signer::new(now_ms)?);
        }
        let signer = signer.as_mut().ok_or_else(|| Error::internal("a node has no key for sessions"))?;
        if !signer.is_published {
            // One that was given up on the way is published again: no session was begun with it.
            let publish = |draft: &mut Draft| {
                draft.users_mut().publish(signer, now_ms);
                Ok(())
            };
            (_, catalog) = self.0.probe.root().commit(&[], publish).await?;
            signer.is_published = true;
        }
        let user = catalog.users().get(name).ok_or_else(wrong)?;
        Ok(signer.session(name, user.generation, now_ms))
    }

    fn now_ms(&self) -> i64 {
        self.0.probe.root().store().ambient().wall_ms()
    }

    async fn find(&self, credentials: &Credentials, peer: Option<IpAddr>) -> Result<Principal> {
        let (user, password) = match credentials {
            Credentials::None => return Err(Error::unauthenticated("this takes a token, or a user and a password")),
            Credentials::Token(token) => (None, token),
            Credentials::Password { user, password } => (Some(user.as_str()), password),
        };
        // Nobody guesses a token: tries are not counted.
        if secret::is_session(password) {
            return self.by_session(password).await;
        }
        let catalog = self.0.probe.catalog(PROBE_AGE).await?;
        match user {
            _ if secret::token_id(password).is_some() => self.by_token(catalog.users(), password),
            Some(user) => self.by_password(catalog.users(), user, password, peer).await,
            None => Err(wrong()),
        }
    }

    /// Whose token has an id: one look, however many users there are.
    fn owner(&self, users: &Arc<Users>, id: &str) -> Option<String> {
        let (of, owners) = &mut *self.0.owners.lock();
        if !Arc::ptr_eq(of, users) {
            let tokens = users.iter().flat_map(|(name, user)| user.tokens.keys().map(move |id| (id, name)));
            *owners = tokens.map(|(id, name)| (id.clone(), name.to_owned())).collect();
            *of = users.clone();
        }
        owners.get(id).cloned()
    }

    async fn by_session(&self, text: &str) -> Result<Principal> {
        let claim = Claim::read(text).filter(|claim| claim.is_timely(self.now_ms())).ok_or_else(wrong)?;
        let mut catalog = self.0.probe.catalog(PROBE_AGE).await?;
        if !catalog.users().session_keys().has(claim.key) {
            // Another node may have begun it a moment ago.
            catalog = self.newer(tokio::time::Instant::now()).await?;
        }
        let users = catalog.users();
        if !self.0.signatures.are_right(&claim, users.session_keys()) {
            return Err(wrong());
        }
        let user = users.get(&claim.user).filter(|user| user.generation == claim.generation).ok_or_else(wrong)?;
        admitted(&claim.user, user)
    }

    /// The newest version by an answer that was asked for after `start`. A client that sends unknown tokens waits, and does
    /// not make this process ask the store more often.
    async fn newer(&self, start: tokio::time::Instant) -> Result<Arc<Catalog>> {
        let root = self.0.probe.root();
        let age = root.confirmed_age();
        if age < start.elapsed() {
            return Ok(root.catalog());
        }
        if !root.store().is_local() {
            tokio::time::sleep(ASK_EVERY.saturating_sub(age)).await;
        }
        root.refresh().await
    }

    fn by_token(&self, users: &Arc<Users>, text: &str) -> Result<Principal> {
        let now_ms = self.now_ms();
        let name = secret::token_id(text).and_then(|id| self.owner(users, id)).ok_or_else(wrong)?;
        let (user, token) = users.by_token(&name, text).ok_or_else(wrong)?;
        if token.expires_ms.is_some_and(|at| at <= now_ms) {
            return Err(Error::unauthenticated("this token has expired"));
        }
        admitted(&name, user)?;
        let rights = user.rights_of(token);
        match token.grants.is_none() && token.expires_ms.is_none() {
            true => Ok(Principal::new(&name, rights).by_token().limited(user.limits)),
            false => Ok(Principal::narrowed(&name, rights).limited(user.limits)),
        }
    }

    async fn by_password(&self, users: &Users, name: &str, password: &str, peer: Option<IpAddr>) -> Result<Principal> {
        if password.len() > secret::MAX_PASSWORD || name.len() > Users::MAX_NAME {
            return Err(wrong());
        }
        let user = users.get(name);
        let hash = user.and_then(|user| user.password.clone());
        let mut told = hmac::Context::with_key(&self.0.key);
        told.update(name.as_bytes());
        told.update(&[0]);
        told.update(password.as_bytes());
        let key: [u8; 32] = told.sign().as_ref().try_into().expect("SHA-256 has 32 bytes");
        if !self.is_known(&key, hash.as_ref()) {
            let gate = self.gate(key);
            // Of requests that bring the same password at once, one has it looked at: the others know it then. Those that
            // bring the same wrong one do not wait for ever.
            let _alone = tokio::time::timeout(LONGEST, gate.lock()).await;
            if !self.is_known(&key, hash.as_ref()) {
                self.check_password(name, password, hash.clone(), peer).await?;
                self.remember(key, hash.clone());
            }
        }
        let user = user.ok_or_else(wrong)?;
        admitted(name, user)
    }

    /// Whether a password is cached as valid for the user's current hash.
    fn is_known(&self, key: &[u8; 32], hash: Option<&String>) -> bool {
        let mut known = self.0.known.lock();
        let found =
            known.get_mut(key).filter(|(at, right)| at.elapsed() < KNOWN && hash.is_some_and(|hash| hash == right));
        found.map(|(at, _)| *at = Instant::now()).is_some()
    }

    fn remember(&self, key: [u8; 32], hash: Option<String>) {
        let Some(hash) = hash else { return };
        let mut known = self.0.known.lock();
        if known.len() >= MOST_KNOWN {
            known.retain(|_, (at, _)| at.elapsed() < KNOWN);
        }
        if known.len() >= MOST_KNOWN {
            known.clear();
        }
        known.insert(key, (Instant::now(), hash));
    }

    /// What requests with the same password wait for each other at.
    fn gate(&self, key: [u8; 32]) -> Arc<Gate> {
        let mut gates = self.0.gates.lock();
        if let Some(gate) = gates.get(&key).and_then(Weak::upgrade) {
            return gate;
        }
        if gates.len() >= MOST_WAITING {
            gates.retain(|_, gate| gate.strong_count() > 0);
        }
        let gate = Arc::default();
        gates.insert(key, Arc::downgrade(&gate));
        gate
    }

    /// Makes the hash of a password and compares it. After many wrong ones it waits for its turn first.
    async fn check_password(
        &self,
        name: &str,
        password: &str,
        hash: Option<String>,
        peer: Option<IpAddr>,
    ) -> Result<()> {
        let failures = &self.0.failures;
        // Counted before it is known to be wrong: those that come at the same time are as many.
        let turn = failures.begin(peer, name, tokio::time::Instant::now().into_std());
        if turn != Turn::In(Duration::ZERO) {
            self.wait(turn).await?;
        }
        let is_right = verify_in_turn(password.to_owned(), hash).await;
        // Nor is one wrong that nobody had the time to look at.
        if !matches!(is_right, Ok(false)) {
            failures.forgive(peer, name);
        }
        if is_right? { Ok(()) } else { Err(wrong()) }
    }

    /// Waits until a password may be verified.
    ///
    /// # Errors
    /// Unauthenticated where too many others wait; that takes as long as the longest turn, unless very many wait.
    async fn wait(&self, turn: Turn) -> Result<()> {
        let refused = |wait: Duration| {
            let seconds = wait.as_secs().max(1);
            Error::unauthenticated("too many wrong passwords were tried; wait, or use a token").with("seconds", seconds)
        };
        let Ok(_place) = self.0.waiting.try_acquire() else { return Err(refused(LONGEST)) };
        match turn {
            Turn::In(wait) => tokio::time::sleep(wait).await,
            Turn::Never(wait) => {
                tokio::time::sleep(LONGEST).await;
                return Err(refused(wait));
            }
        }
        Ok(())
    }
}

fn wrong() -> Error {
    Error::unauthenticated("wrong user, password or token")
}

fn admitted(name: &str, user: &User) -> Result<Principal> {
    if user.disabled {
        return Err(Error::unauthenticated("this user is disabled").with("user", name));
    }
    Ok(Principal::new(name, user.rights()).limited(user.limits))
}
