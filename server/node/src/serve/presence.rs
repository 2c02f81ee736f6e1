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

/// Announces the server until it stops. A failure is logged: the server works without it.
pub(super) async fn announce(ingest: Ingest, address: SocketAddr, mut stopped: watch::Receiver<bool>) {
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
            match timeout(WITHIN, announcer.announce(&node)).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::debug!(%error, "cannot announce this server in its root"),
                Err(_) => tracing::debug!("cannot announce this server in its root: the store does not answer"),
            }
            (announced, rows) = (Some(Instant::now()), stored);
        }
        pause = WRITING;
    }
    if let Ok(Err(error)) = timeout(WITHIN, announcer.leave()).await {
        tracing::debug!(%error, "the announcement of this server stays for a day");
    }
}
