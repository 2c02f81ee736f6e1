//! `POST /api/v1/check`: the check of the whole root that `tidelake check` makes, on the server.

use std::{sync::Arc, time::Duration};

use axum::{
    Json,
    extract::{RawQuery, State},
    response::{IntoResponse, Response},
};
use tidelake_format::{
    Error, Result,
    access::Deed,
    check::{CheckOptions, CheckReport},
    store::Store,
};
use tidelake_protocol::http::routes;
use tidelake_routes::{Caller, Routes};
use tokio::{
    runtime::Handle,
    sync::{Semaphore, oneshot},
    task::spawn_blocking,
    time::timeout,
};

use super::operations::{failure, parameter};

/// The longest time that a check takes.
const LIMIT: Duration = Duration::from_secs(3_600);

#[derive(Clone)]
struct Checks {
    /// The store itself: a cache could answer for a damaged object.
    store: Store,
    /// One check at a time: each reads as fast as the store answers.
    running: Arc<Semaphore>,
}

/// `/api/v1/check`.
pub(super) fn routes(store: Store) -> Routes {
    let checks = Checks { store, running: Arc::new(Semaphore::new(1)) };
    Routes::new().on(&routes::CHECK, check).with_state(checks)
}

async fn check(State(checks): State<Checks>, Caller(principal): Caller, RawQuery(query): RawQuery) -> Response {
    let rows = parameter(query.as_deref(), &routes::CHECK, "rows").and_then(|rows| match rows.as_deref() {
        None | Some("true") => Ok(true),
        Some("false") => Ok(false),
        Some(other) => Err(Error::invalid("invalid query string")
            .with("expected", "rows=true or false")
            .with("found", format!("rows={other}"))),
    });
    let rows = match rows {
        Ok(rows) => rows,
        Err(error) => return failure(&error),
    };
    let done = checks.run(CheckOptions { rows }).await;
    Deed::new("CHECK", "/api/v1/check").with(format!("rows={rows}")).record(&principal, &done);
    match done {
        Ok(report) => Json(report).into_response(),
        Err(error) => failure(&error),
    }
}

impl Checks {
    /// Runs a check on a thread of its own, because it decodes all rows. It ends when its request is dropped.
    async fn run(&self, options: CheckOptions) -> Result<CheckReport> {
        let Ok(permit) = self.running.clone().try_acquire_owned() else {
            return Err(Error::unavailable("another check is running on this server: try again when it has ended"));
        };
        let (store, runtime) = (self.store.clone(), Handle::current());
        let (request, mut dropped) = oneshot::channel::<()>();
        let checking = spawn_blocking(move || {
            let _permit = permit;
            runtime.block_on(async {
                tokio::select! {
                    done = timeout(LIMIT, tidelake_format::check::check(&store, options)) => done.unwrap_or_else(|_| {
                        let error = Error::unavailable("the check takes too long: run tidelake check on the store");
                        Err(error.with("limit", format!("{} s", LIMIT.as_secs())))
                    }),
                    _ = &mut dropped => Err(Error::unavailable("the client of the check is gone")),
                }
            })
        });
        let done = checking.await;
        drop(request);
        done.unwrap_or_else(|e| Err(Error::internal("the check stopped").with("reason", &e).source(e)))
    }
}

#[cfg(test)]
mod tests {
    use tidelake_format::{Kind, meta::Root};

    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn a_server_runs_one_check_at_a_time_and_a_dropped_request_frees_it() {
        let store = Store::in_memory();
        Root::open(store.clone()).await.unwrap();
        let checks = Checks { store, running: Arc::new(Semaphore::new(1)) };
        let other = checks.running.clone().acquire_owned().await.unwrap();
        let refused = checks.run(CheckOptions::default()).await.unwrap_err();
        assert!(refused.kind() == Kind::Unavailable && refused.to_string().contains("another check"), "{refused}");
        drop(other);
        assert!(checks.run(CheckOptions::default()).await.unwrap().is_sound());

        let dropped = checks.run(CheckOptions::default());
        // It has begun, and has ended only if it was quicker than this line.
        drop(timeout(Duration::ZERO, dropped).await);
        let freed = timeout(Duration::from_secs(60), checks.running.acquire()).await;
        assert!(freed.is_ok(), "the thread of the dropped request still runs");
    }
}
