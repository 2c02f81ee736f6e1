//! Sessions: tokens that a node signs with a key that it never stores.
//!
//! A node makes a pair of Ed25519 keys when the first user logs in there. The private key stays in the memory of the process. The
//! catalog holds the public key, and every node checks signatures with that. So a reader of the root, or a copy of it, can check
//! a session but cannot make one, and a login costs no commit: a node commits one key for all the sessions that it begins in
//! twelve hours.

use std::{
    collections::{BTreeMap, HashSet},
    fmt,
    time::Duration,
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use parking_lot::Mutex;
use ring::{
    digest,
    signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey},
};
use serde::{Deserialize, Serialize};

use super::secret::random;
use crate::error::{Error, Result};

/// Prefix of session tokens.
const PREFIX: &str = "tls_";
/// Maximum time until the end of a session.
const FURTHEST: Duration = Duration::from_secs(12 * 3_600);
/// How long a session lasts: accepted also by a node whose clock is up to five minutes behind.
pub(crate) const LASTS: Duration = Duration::from_secs(12 * 3_600 - 300);
/// How long a node signs with one key.
const SIGNS: Duration = Duration::from_secs(12 * 3_600);
/// Maximum number of keys in the catalog; a further key replaces the one that ends first.
const MOST_KEYS: usize = 1_024;
/// Maximum number of cached valid signatures.
const MOST_CHECKED: usize = 10_000;

/// The public key that checks the sessions of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SessionKey {
    /// Ed25519, 32 bytes in base64url.
    public: String,
    /// End of the key's validity.
    until_ms: i64,
}

/// The public keys of a root's nodes, by id.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct SessionKeys(BTreeMap<String, SessionKey>);

impl SessionKeys {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether sessions of this key are accepted.
    pub(crate) fn has(&self, id: &str) -> bool {
        self.0.contains_key(id)
    }

    /// Ends all sessions.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// Adds a node's key, and removes those that have ended.
    pub(crate) fn publish(&mut self, signer: &Signer, now_ms: i64) {
        self.0.retain(|_, key| key.until_ms > now_ms);
        while self.0.len() >= MOST_KEYS
            && let Some(first) = self.0.iter().min_by_key(|(_, key)| key.until_ms).map(|(id, _)| id.clone())
        {
            self.0.remove(&first);
        }
        self.0.insert(signer.id.clone(), signer.public());
    }
}

/// A node's key.
pub(crate) struct Signer {
    id: String,
    pair: Ed25519KeyPair,
    made_ms: i64,
    /// Whether the public key was committed: if the catalog no longer has it, the sessions of this key were ended.
    pub(crate) is_published: bool,
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signer").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Signer {
    /// A new key, which signs from now on.
    ///
    /// # Errors
    /// [`Kind::Unavailable`](crate::Kind::Unavailable) without random bytes.
    pub(crate) fn new(now_ms: i64) -> Result<Self> {
        let id = random::<8>()?.iter().map(|byte| format!("{byte:02x}")).collect();
        let pair = Ed25519KeyPair::from_seed_unchecked(&random::<32>()?)
            .map_err(|e| Error::internal("session key cannot be created").with("reason", e))?;
        Ok(Self { id, pair, made_ms: now_ms, is_published: false })
    }

    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// Whether sessions may still be begun with it.
    pub(crate) fn signs_at(&self, now_ms: i64) -> bool {
        (self.made_ms..self.made_ms + SIGNS.as_millis() as i64).contains(&now_ms)
    }

    fn public(&self) -> SessionKey {
        let until_ms = self.made_ms + (SIGNS + FURTHEST).as_millis() as i64;
        SessionKey { public: URL_SAFE_NO_PAD.encode(self.pair.public_key()), until_ms }
    }

    /// The token of a session of a user.
    pub(crate) fn session(&self, user: &str, generation: u64, now_ms: i64) -> String {
        let (id, user, until_ms) = (&self.id, URL_SAFE_NO_PAD.encode(user), now_ms + LASTS.as_millis() as i64);
        let signed = format!("{PREFIX}{id}.{user}.{generation}.{until_ms}");
        let signature = URL_SAFE_NO_PAD.encode(self.pair.sign(signed.as_bytes()));
        format!("{signed}.{signature}")
    }
}

/// The content of a session token; untrusted until its signature is checked.
#[derive(Debug)]
pub(crate) struct Claim<'a> {
    text: &'a str,
    signed: &'a str,
    signature: Vec<u8>,
    /// The key that signed it.
    pub(crate) key: &'a str,
    /// The user of the session.
    pub(crate) user: String,
    /// The user's generation when the session began.
    pub(crate) generation: u64,
    until_ms: i64,
}

impl<'a> Claim<'a> {
    /// Reads the text of a token; `None` if it is not a session token.
    pub(crate) fn read(text: &'a str) -> Option<Self> {
        let (signed, signature) = text.rsplit_once('.')?;
        let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
        let mut parts = signed.strip_prefix(PREFIX)?.split('.');
        let key = parts.next()?;
        let user = String::from_utf8(URL_SAFE_NO_PAD.decode(parts.next()?).ok()?).ok()?;
        let (generation, until_ms) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        let is_all = parts.next().is_none();
        is_all.then_some(Self { text, signed, signature, key, user, generation, until_ms })
    }

    /// Whether it has not ended, and ends no later than a session may.
    pub(crate) fn is_timely(&self, now_ms: i64) -> bool {
        self.until_ms > now_ms && self.until_ms.saturating_sub(now_ms) <= FURTHEST.as_millis() as i64
    }
}

/// Caches valid signatures: checking one takes some ten microseconds.
#[derive(Debug, Default)]
pub(crate) struct Signatures(Mutex<HashSet<[u8; 32]>>);

impl Signatures {
    /// Whether a session was signed by a node of this root.
    pub(crate) fn are_right(&self, claim: &Claim<'_>, keys: &SessionKeys) -> bool {
        let Some(key) = keys.0.get(claim.key) else { return false };
        if claim.until_ms > key.until_ms {
            return false;
        }
        let told = digest::digest(&digest::SHA256, format!("{} {}", key.public, claim.text).as_bytes());
        let told: [u8; 32] = told.as_ref().try_into().expect("SHA-256 has 32 bytes");
        if self.0.lock().contains(&told) {
            return true;
        }
        let Ok(public) = URL_SAFE_NO_PAD.decode(&key.public) else { return false };
        if UnparsedPublicKey::new(&ED25519, public).verify(claim.signed.as_bytes(), &claim.signature).is_err() {
            return false;
        }
        let mut right = self.0.lock();
        if right.len() >= MOST_CHECKED {
            right.clear();
        }
        right.insert(told);
        true
    }
}
