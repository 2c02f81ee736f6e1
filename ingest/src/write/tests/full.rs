//! Writes while the store has no space.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tidelake_format::{
    Kind,
    store::{
        Store,
        faults::{Fault, Operation},
    },
};
use tokio::time::Instant;

use super::line;
use crate::{
    testing::{config, nano, open, rows},
    write::{Durability, Ingest},
};

/// A handle whose store has no space for segments while the flag is set.
async fn place() -> (Store, Ingest, Arc<AtomicBool>) {
    let inner = Store::in_memory();
    line(&nano(&inner, config()).await, "m v=1 1", Durability::Stored).await.unwrap();
    let full = Arc::new(AtomicBool::new(true));
    let plan = full.clone();
    let store = inner.with_faults(move |request| {
        let is_segment = request.operation == Operation::Put && request.key.starts_with("log");
        if is_segment && plan.load(Ordering::Relaxed) { Fault::Full } else { Fault::None }
    });
    let ingest = open(&store, config()).await;
    (inner, ingest, full)
}

#[tokio::test(start_paused = true)]
async fn a_write_without_space_is_refused_at_once_with_the_cause_and_the_next_one_with_space_is_stored() {
    let (inner, ingest, full) = place().await;
    let started = Instant::now();
    for ts in 2..5 {
        let error = line(&ingest, &format!("m v=1 {ts}"), Durability::Stored).await.unwrap_err();
        assert_eq!(error.kind(), Kind::Full);
        assert!(error.to_string().contains("no space left"), "{error}");
    }
    assert!(started.elapsed() < Duration::from_secs(1), "{:?}", started.elapsed());
    assert_eq!(rows(&inner, "db", "m", &[]).await.len(), 1);
    full.store(false, Ordering::Relaxed);
    line(&ingest, "m v=1 9", Durability::Stored).await.unwrap();
    assert_eq!(rows(&inner, "db", "m", &[]).await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn rows_acknowledged_from_the_buffer_wait_for_space_while_requests_are_refused() {
    let (inner, ingest, full) = place().await;
    line(&ingest, "m v=1 2", Durability::Buffered).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    for durability in [Durability::Stored, Durability::Buffered] {
        let started = Instant::now();
        let error = line(&ingest, "m v=1 3", durability).await.unwrap_err();
        assert_eq!(error.kind(), Kind::Full, "{error}");
        assert!(started.elapsed() < Duration::from_secs(1));
    }
    full.store(false, Ordering::Relaxed);
    tokio::time::sleep(Duration::from_secs(10)).await;
    line(&ingest, "m v=1 4", Durability::Stored).await.unwrap();
    let found: Vec<i64> = rows(&inner, "db", "m", &[]).await.keys().map(|(_, ts)| *ts).collect();
    assert_eq!(found, [1, 2, 4]);
}
