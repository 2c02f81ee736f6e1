//! Hashes of passwords, few at a time: each takes a core for tens of milliseconds, and 19 MiB.

use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};

use super::{
    Secret,
    secret::{hash_password, is_password},
};
use crate::{
    error::{Error, Result},
    offload::offload,
};

/// How many this process makes at once, whoever asks for them.
static TURNS: Semaphore = Semaphore::const_new(2);
/// How long one waits for its turn.
const PATIENCE: Duration = Duration::from_secs(10);

async fn turn() -> Result<SemaphorePermit<'static>> {
    let turn = tokio::time::timeout(PATIENCE, TURNS.acquire()).await.ok().and_then(|turn| turn.ok());
    turn.ok_or_else(|| Error::unavailable("too many passwords are being checked; try again, or use a token"))
}

/// What is kept of a password, in its turn.
///
/// # Errors
/// Those of [`hash_password`]; [`Kind::Unavailable`](crate::Kind::Unavailable) when too many wait.
pub async fn hash_in_turn(password: Secret) -> Result<String> {
    let turn = turn().await?;
    // Who asks may go; the work does not.
    offload(move || {
        let _turn = turn;
        hash_password(password.expose())
    })
    .await
}

/// Whether a password is the one of a hash, in its turn.
pub(super) async fn verify_in_turn(password: String, hash: Option<String>) -> Result<bool> {
    let turn = turn().await?;
    offload(move || {
        let _turn = turn;
        Ok(is_password(&password, hash.as_deref()))
    })
    .await
}
