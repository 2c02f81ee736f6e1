//! Announces this server in its root, so that operators see which nodes there are.

use std::{net::SocketAddr, time::Duration};

use tidelake_format::nodes::{Announcer, Node};
use tidelake_ingest::write::Ingest;
use tokio::{
    sync::watch,
    time::{Instant, timeout},
};

use super::origin::own_names;

/// How often a server that stores rows announces itself.
const WRITING: Duration = Duration::from_secs(60);
/// How often another server does; less than the time after which it would be forgotten.
const IDLE: Duration = Duration::from_secs(12 * 3_600);
/// Delay of the first announcement: the first requests of a new process come before it.
const FIRST: Duration = Duration::from_secs(1);
/// Limit of an announcement's time.
const WITHIN: Duration = Duration::from_secs(30);

/// The longest pause after a failure.
const PAUSE: Duration = Duration::from_secs(3_600);
/// Limit of the time in which a server that stops takes back its announcement.
const LEFT_WITHIN: Duration = Duration::from_secs(2);

/// Announces the server until it stops. A failure is logged and tried again: the server works without it.
pub(super) async fn announce(ingest: Ingest, address: SocketAddr, mut stopped: watch::Receiver<bool>) -> Announcer {
    let store = ingest.root().store().clone();
    let started_ms = store.ambient().wall_ms();
    let mut announcer = Announcer::new(store);
    let (mut announced, mut rows, mut pause) = (None::<Instant>, 0, FIRST);
    // An error of the channel means that the server is gone.
    while let Err(_) | Ok(Ok(())) = timeout(pause, stopped.changed()).await
        && !*stopped.borrow()
    {
        let stored: u64 = ingest.rows_by_table().iter().map(|(_, rows)| rows).sum();
        if stored > rows || announced.is_none_or(|at| at.elapsed() >= IDLE) {
            let node = Node {
                version: env!("CARGO_PKG_VERSION").to_owned(),
                host: own_names().into_iter().next().unwrap_or_default(),
                address: address.to_string(),
                started_ms,
                has_written: stored > 0,
                writers: ingest.writers().iter().map(ToString::to_string).collect(),
            };
            let result = tokio::select! {
                result = timeout(WITHIN, announcer.announce(&node)) => result,
                _ = stopped.wait_for(|stopped| *stopped) => break,
            };
            let fault = match result {
                Ok(Ok(())) => {
                    (announced, rows, pause) = (Some(Instant::now()), stored, WRITING);
                    continue;
                }
                Ok(Err(error)) => error.to_string(),
                Err(_) => "the store does not answer".to_owned(),
            };
            pause = (pause * 2).clamp(WRITING, PAUSE);
            tracing::debug!(fault, "cannot announce this server in its root");
        } else {
            pause = WRITING;
        }
    }
    announcer
}

/// Takes back the announcement of a server that has stopped.
pub(super) async fn leave(announcer: Announcer) {
    match timeout(LEFT_WITHIN, announcer.leave()).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "the announcement of this server stays for a day"),
        Err(_) => tracing::debug!("the announcement of this server stays for a day: the store does not answer"),
    }
}
