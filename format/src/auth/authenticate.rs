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

/// Time after its last use for which a valid password is accepted without hashing it again.
const KNOWN: Duration = Duration::from_secs(600);
/// Minimum interval between the requests to the store that session tokens with unknown keys cause, all together.
const ASK_EVERY: Duration = Duration::from_millis(200);
/// Maximum number of cached passwords.
const MOST_KNOWN: usize = 10_000;
/// Maximum number of requests that wait after many wrong passwords; further ones are refused at once.
const MOST_WAITING: usize = 1_000;

/// Authenticates requests by the users in a root's catalog. Cheap to clone.
///
/// Users and rights are at most [`PROBE_AGE`] old. A statement that changes them waits that long before it returns, so
/// the change applies on every node once the statement has returned.
#[derive(Debug, Clone)]
pub struct Authenticator(Arc<Inner>);

/// Held by the request that verifies a password.
type Gate = tokio::sync::Mutex<()>;

#[derive(Debug)]
struct Inner {
    probe: Probe,
    failures: Failures,
    waiting: Semaphore,
    /// Valid passwords, by an HMAC of user and password: time of the last use, and the stored hash that the password
    /// matched.
    known: Mutex<HashMap<[u8; 32], (Instant, String)>>,
    /// Passwords that are being verified, by the same key.
    gates: Mutex<HashMap<[u8; 32], Weak<Gate>>>,
    key: hmac::Key,
    /// Owners of tokens, by token ID, and the users that the map was built from.
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
    /// Session token, or the API token that the client sent. A session is valid on every node for
    /// [`LoggedIn::SECONDS`], until the password changes or the session is ended; clients send it like any other token.
    pub token: String,
}

impl LoggedIn {
    /// Lifetime of the token in seconds.
    pub const SECONDS: u64 = LASTS.as_secs();
}

impl Authenticator {
    /// Creates an authenticator for the users of a root.
    ///
    /// # Errors
    /// [`Kind::Unavailable`] without random bytes.
    pub fn new(root: Root) -> Result<Self> {
        Self::build(root, true)
    }

    /// As [`Authenticator::new`] in a process that may only read the root: accepts sessions of other nodes, but begins
    /// none.
    ///
    /// # Errors
    /// Those of [`Authenticator::new`].
    pub fn read_only(root: Root) -> Result<Self> {
        Self::build(root, false)
    }

    fn build(root: Root, begins_sessions: bool) -> Result<Self> {
        let none = |_| Error::unavailable("the operating system returned no random bytes");
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

    /// Verifies credentials and returns the principal; `peer` is the client's address.
    ///
    /// # Errors
    /// [`Kind::Unauthenticated`] for missing or wrong credentials, an expired token or a disabled user, and, after many
    /// wrong passwords, when too many tries wait for their turn; [`Kind::Unavailable`] when the store cannot be reached
    /// or too many passwords are being verified.
    pub async fn authenticate(&self, credentials: &Credentials, peer: Option<IpAddr>) -> Result<Principal> {
        let found = self.find(credentials, peer).await;
        if let Err(error) = &found
            && error.kind() == Kind::Unauthenticated
        {
            let user = match credentials {
                // An invalid name may be a token in the wrong place: do not log it.
                Credentials::Password { user, .. } if Users::check_name(user).is_ok() => user.as_str(),
                _ => "",
            };
            Deed { action: "AUTHENTICATE", ..Deed::default() }.write(user, peer, Some(error));
        }
        found
    }

    /// As [`Authenticator::authenticate`]; also returns a token for later requests.
    ///
    /// # Errors
    /// Those of [`Authenticator::authenticate`]; [`Kind::Forbidden`] if this process may not write to the root and so
    /// cannot begin a session.
    pub async fn log_in(&self, credentials: &Credentials, peer: Option<IpAddr>) -> Result<LoggedIn> {
        let principal = self.authenticate(credentials, peer).await?;
        // An API token may have fewer rights than its user: return it unchanged. So is a session token.
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

    /// Begins a session and returns its token.
    async fn begin_session(&self, name: &str) -> Result<String> {
        if !self.0.begins_sessions {
            return Err(Error::forbidden(
                "cannot begin a session: this server only reads the root; send the password or a token with each \
                                         request, or log in at a server that writes",
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
        let signer = signer.as_mut().ok_or_else(|| Error::internal("no session key was created"))?;
        if !signer.is_published {
            // A cancelled publication is repeated: the key has not signed a session yet.
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
            Credentials::None => return Err(Error::unauthenticated("no credentials: expected a token or password")),
            Credentials::Token(token) => (None, token),
            Credentials::Password { user, password } => (Some(user.as_str()), password),
        };
        // Tokens cannot be guessed: do not count failures.
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

    /// Owner of a token, by the token's ID; one lookup, whatever the number of users.
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
            // Another node may have published the key a moment ago.
            catalog = self.newer(tokio::time::Instant::now()).await?;
        }
        let users = catalog.users();
        if !self.0.signatures.are_right(&claim, users.session_keys()) {
            return Err(wrong());
        }
        let user = users.get(&claim.user).filter(|user| user.generation == claim.generation).ok_or_else(wrong)?;
        admitted(&claim.user, user)
    }

    /// The newest version, confirmed by a request to the store sent after `start`. Limits the rate of these requests,
    /// unless the store is local: a client that sends unknown tokens waits.
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
            // Concurrent requests with the same password: one verifies it, the others find it cached. The timeout
            // bounds the wait of those that send the same wrong password.
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

    /// The lock shared by requests with the same password.
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

    /// Hashes a password and compares; after many wrong ones, waits for its turn first.
    async fn check_password(
        &self,
        name: &str,
        password: &str,
        hash: Option<String>,
        peer: Option<IpAddr>,
    ) -> Result<()> {
        let failures = &self.0.failures;
        // Counts as a failure before it is verified, so that concurrent tries count too.
        let turn = failures.begin(peer, name, tokio::time::Instant::now().into_std());
        if turn != Turn::In(Duration::ZERO) {
            self.wait(turn).await?;
        }
        let is_right = verify_in_turn(password.to_owned(), hash).await;
        // A password that was not verified because of an error is no failure either.
        if !matches!(is_right, Ok(false)) {
            failures.forgive(peer, name);
        }
        if is_right? { Ok(()) } else { Err(wrong()) }
    }

    /// Waits until a password may be verified.
    ///
    /// # Errors
    /// Unauthenticated after [`LONGEST`] if all turns are taken; at once if [`MOST_WAITING`] requests are waiting.
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
