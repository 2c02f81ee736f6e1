//! Password hashing with bounded concurrency: each hash takes a core for tens of milliseconds, and 19 MiB.

use std::{sync::LazyLock, time::Duration};

use tokio::sync::{Semaphore, SemaphorePermit};

use super::failures::Failures;
use crate::{
    access::{
        MAX_PASSWORD, Secret,
        secret::{hash_password, is_password},
    },
    error::{Error, Result},
    offload::offload,
};

/// Limits the concurrent hashes of this process, over all callers.
static TURNS: Semaphore = Semaphore::const_new(2);
/// The longest wait for a turn.
const PATIENCE: Duration = Duration::from_secs(10);

async fn turn() -> Result<SemaphorePermit<'static>> {
    let turn = tokio::time::timeout(PATIENCE, TURNS.acquire()).await.ok().and_then(|turn| turn.ok());
    turn.ok_or_else(|| Error::unavailable("too many passwords are being checked; try again, or use a token"))
}

/// Hashes a password, in its turn.
///
/// # Errors
/// Those of [`hash_password`]; [`Kind::Unavailable`](crate::Kind::Unavailable) when too many wait.
pub async fn hash_in_turn(password: Secret) -> Result<String> {
    let turn = turn().await?;
    // The hash holds its turn until it ends, even if the caller is cancelled.
    offload(move || {
        let _turn = turn;
        hash_password(password.expose())
    })
    .await
}

/// Checks the password of a user who is already authenticated; after many wrong passwords, further ones are refused for
/// a time.
///
/// # Errors
/// [`Kind::Forbidden`](crate::Kind::Forbidden) for a wrong one; [`Kind::Unavailable`](crate::Kind::Unavailable) when
/// too many wait.
pub async fn confirm_password(user: &str, password: Secret, hash: Option<String>) -> Result<()> {
    static TRIES: LazyLock<Failures> = LazyLock::new(Failures::default);
    let wrong = || Error::forbidden("the old password is wrong").with("user", user);
    if password.expose().len() > MAX_PASSWORD {
        return Err(wrong());
    }
    // The user is authenticated and need not wait here: a try whose turn is later is refused unverified.
    let now = tokio::time::Instant::now().into_std();
    if let Err(wait) = TRIES.begin_at_once(None, user, now) {
        return Err(Error::forbidden("too many wrong passwords; wait").with("seconds", wait.as_secs().max(1)));
    }
    let is_right = verify_in_turn(password.expose().to_owned(), hash).await;
    if !matches!(is_right, Ok(false)) {
        TRIES.forgive(None, user);
    }
    if is_right? { Ok(()) } else { Err(wrong()) }
}

/// Whether a password matches a hash, in its turn.
pub(super) async fn verify_in_turn(password: String, hash: Option<String>) -> Result<bool> {
    let turn = turn().await?;
    offload(move || {
        let _turn = turn;
        Ok(is_password(&password, hash.as_deref()))
    })
    .await
}
