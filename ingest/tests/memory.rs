//! A fold of a log that is many times larger than its memory stays within it, counted by the allocator.

#![allow(clippy::unwrap_used, missing_docs)]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::{
        Arc,
        atomic::{AtomicIsize, Ordering::Relaxed},
    },
};

use arrow::array::{ArrayRef, Float64Array, RecordBatch, StringArray, TimestampNanosecondArray};
use futures::stream;
use rand::{Rng, SeedableRng, rngs::StdRng};
use tidelake_format::{meta::Root, store::Store};
use tidelake_ingest::{
    compact::CompactRequest,
    config::{CompactConfig, IngestConfig},
    write::{IfAbsent, IfExists, Ingest, IngestTarget},
};

/// Counts what is allocated.
struct Counting;

static LIVE: AtomicIsize = AtomicIsize::new(0);
static PEAK: AtomicIsize = AtomicIsize::new(0);

fn add(bytes: usize) {
    let live = LIVE.fetch_add(bytes as isize, Relaxed) + bytes as isize;
    PEAK.fetch_max(live, Relaxed);
}

#[expect(unsafe_code, reason = "an allocator has no safe interface")]
// SAFETY: every call is passed on to the system's allocator as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add(layout.size());
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size() as isize, Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Memory of folds and merges together; a fold may take half of it.
const MEMORY: usize = 64 << 20;
/// Decoded rows of the log.
const LOG: usize = 96 << 20;
const BATCH_ROWS: usize = 32 << 10;
/// Bytes of a row: series, time and four doubles.
const ROW: usize = 44;

async fn open(store: &Store, compact: CompactConfig) -> Ingest {
    let compact = CompactConfig { background: false, fold_margin_ms: Some(0), ..compact };
    let root = Root::open(store.clone()).await.unwrap();
    Ingest::open(root, IngestConfig { compact, ..IngestConfig::default() }).await.unwrap()
}

#[tokio::test]
async fn a_fold_of_a_log_three_times_its_memory_stays_within_its_memory() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(directory.path().to_str().unwrap(), &[]).unwrap();
    let writer = open(&store, CompactConfig::default()).await;
    writer.execute(None, "create database db precision 'ns' keep 73000d", None).await.unwrap();
    let mut rng = StdRng::seed_from_u64(7);
    let batches = LOG / ROW / BATCH_ROWS;
    for batch in 0..batches {
        let times = (0..BATCH_ROWS).map(|i| (batch * BATCH_ROWS + i) as i64 * 1_000_000);
        let mut columns: Vec<(String, ArrayRef)> = vec![
            ("ts".into(), Arc::new(TimestampNanosecondArray::from_iter_values(times))),
            ("tbname".into(), Arc::new(StringArray::from_iter_values((0..BATCH_ROWS).map(|i| format!("s{}", i % 50))))),
        ];
        for field in 0..4 {
            let values = Float64Array::from_iter_values((0..BATCH_ROWS).map(|_| rng.random::<f64>()));
            columns.push((format!("f{field}"), Arc::new(values)));
        }
        let target = IngestTarget {
            database: "db".into(),
            table: "m".into(),
            if_absent: IfAbsent::Create,
            if_exists: IfExists::Append,
        };
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        writer.ingest_batches(target, stream::iter([Ok(batch)])).await.unwrap();
    }
    drop(writer);
    let folder = open(&store, CompactConfig::default().within(MEMORY)).await;
    let before = LIVE.load(Relaxed);
    PEAK.store(before, Relaxed);
    let report = folder.compact(CompactRequest::Fold).await.unwrap();
    let taken = PEAK.load(Relaxed) - before;
    assert_eq!(report.folded_rows, (batches * BATCH_ROWS) as u64);
    assert!(taken < MEMORY as isize / 2, "{taken} bytes");
}
