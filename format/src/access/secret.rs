//! Passwords and tokens: created, stored as hashes, compared in constant time.
//!
//! | | text | kept |
//! |---|---|---|
//! | password | what a person chose | argon2id with a salt of its own |
//! | token of a program | `tl_<id>_<secret>`, 256 random bits | SHA-256 |
//! | token of a session | see `sessions` | a public key of Ed25519 |

use std::fmt;

use argon2::{
    Algorithm, Argon2, Params, PasswordHasher, PasswordVerifier, Version,
    password_hash::{PasswordHash, SaltString},
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::{
    digest,
    rand::{SecureRandom, SystemRandom},
};
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq;

use crate::error::{Error, Result};

/// Minimum length of a password, in characters.
pub const MIN_PASSWORD: usize = 8;
/// Maximum length of a password, in bytes.
pub const MAX_PASSWORD: usize = 1_024;
/// 19 MiB, two passes, one lane: OWASP's minimum for argon2id (Password Storage Cheat Sheet).
const COST: (u32, u32, u32) = (19_456, 2, 1);

const PROGRAM: &str = "tl_";
const SESSION: &str = "tls_";

/// Random bytes of the system.
pub(crate) fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    let none = |_| Error::unavailable("the operating system returned no random bytes");
    SystemRandom::new().fill(&mut bytes).map_err(none)?;
    Ok(bytes)
}

fn argon2() -> Argon2<'static> {
    let (memory, passes, lanes) = COST;
    let params = Params::new(memory, passes, lanes, None).expect("constants within their bounds");
    Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
}

/// The stored hash of a password; takes tens of milliseconds and 19 MiB.
///
/// # Errors
/// [`Kind::Invalid`](crate::Kind::Invalid) for one that is too short or too long.
pub fn hash_password(password: &str) -> Result<String> {
    if password.chars().count() < MIN_PASSWORD || password.len() > MAX_PASSWORD {
        return Err(Error::invalid("invalid password: expected at least 8 characters and at most 1024 bytes")
            .with("found", format!("{} characters", password.chars().count())));
    }
    let fault = |e: argon2::password_hash::Error| Error::internal("password hashing failed").with("reason", e);
    let salt = SaltString::encode_b64(&random::<16>()?).map_err(fault)?;
    Ok(argon2().hash_password(password.as_bytes(), &salt).map_err(fault)?.to_string())
}

/// Whether a password matches a hash; takes as long without a hash.
pub(crate) fn is_password(password: &str, hash: Option<&str>) -> bool {
    /// A hash that no password matches.
    const NOBODYS: &str =
        "$argon2id$v=19$m=19456,t=2,p=1$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
    let known = hash.and_then(|hash| PasswordHash::new(hash).ok());
    let is_known = known.is_some();
    let Some(hash) = known.or_else(|| PasswordHash::new(NOBODYS).ok()) else { return false };
    argon2().verify_password(password.as_bytes(), &hash).is_ok() && is_known
}

/// A new token of a program: its id, its text, which is returned once, and its stored digest.
///
/// # Errors
/// [`Kind::Unavailable`](crate::Kind::Unavailable) without random bytes.
pub fn new_token() -> Result<(String, Secret, Digest)> {
    let id: String = random::<8>()?.iter().map(|byte| format!("{byte:02x}")).collect();
    let text = format!("{PROGRAM}{id}_{}", URL_SAFE_NO_PAD.encode(random::<32>()?));
    let digest = Digest::of(&text);
    Ok((id, Secret::new(text), digest))
}

/// The id in the text of a program's token, whether or not there is such a token.
pub(crate) fn token_id(text: &str) -> Option<&str> {
    let (id, _) = text.strip_prefix(PROGRAM)?.split_once('_')?;
    (id.len() == 16).then_some(id)
}

/// Whether a text has the prefix of session tokens.
pub(crate) fn is_session(text: &str) -> bool {
    text.starts_with(SESSION)
}

/// A text that is never shown: a password, or the text of a token.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

impl Secret {
    /// Hides a text.
    pub fn new(text: String) -> Self {
        Self(text)
    }

    /// The hidden text.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

/// SHA-256 of a secret with as many random bits; as text 43 characters of base64url.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Digest(String);

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Digest(…)")
    }
}

impl Digest {
    /// The digest of a secret.
    pub fn of(secret: &str) -> Self {
        Self(URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA256, secret.as_bytes())))
    }

    /// Whether two digests are equal; takes the same time where they are not.
    pub fn equals(&self, other: &Self) -> bool {
        self.0.as_bytes().ct_eq(other.0.as_bytes()).into()
    }
}
