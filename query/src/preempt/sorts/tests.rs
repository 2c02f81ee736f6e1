//! Checks on which threads sorts, their inputs and their consumers compute.

#![allow(clippy::unwrap_used)]

use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicUsize, Ordering},
    task::Poll,
    time::Duration,
};

use arrow::{
    array::{ArrayRef, AsArray, Int64Array, StringArray},
    datatypes::{DataType, Int64Type},
};
use datafusion::{
    datasource::MemTable,
    execution::{SessionStateBuilder, memory_pool::FairSpillPool, runtime_env::RuntimeEnvBuilder},
    logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility},
    physical_optimizer::optimizer::PhysicalOptimizer,
    physical_plan::execute_stream,
    prelude::{SessionConfig, SessionContext},
};
use tokio::runtime::{Builder, Runtime};

use super::*;

const ROWS: i64 = 1_000_000;
const BATCH: i64 = 8_192;
const LARGE: usize = 1 << 30;

/// Returns its argument and records the thread.
#[derive(Debug)]
struct Noted {
    name: &'static str,
    signature: Signature,
    threads: Arc<Mutex<BTreeSet<String>>>,
}

impl PartialEq for Noted {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Noted {}

impl std::hash::Hash for Noted {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ScalarUDFImpl for Noted {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        self.threads.lock().insert(thread::current().name().unwrap_or_default().to_owned());
        Ok(args.args[0].clone())
    }
}

fn threads(name: &str) -> Runtime {
    Builder::new_multi_thread().worker_threads(2).thread_name(name).build().unwrap()
}

fn noted(context: &SessionContext, name: &'static str) -> Arc<Mutex<BTreeSet<String>>> {
    let threads = Arc::new(Mutex::default());
    let signature = Signature::exact(vec![DataType::Int64], Volatility::Volatile);
    context.register_udf(ScalarUDF::from(Noted { name, signature, threads: threads.clone() }));
    threads
}

fn key(n: i64) -> i64 {
    n * 7_919 % 1_000_003
}

/// In two partitions, or in one.
fn table(partitions: usize, rows: i64) -> MemTable {
    let batch = |first: i64| {
        let keys = (first..(first + BATCH).min(rows)).map(key);
        RecordBatch::try_from_iter([("k", Arc::new(Int64Array::from_iter_values(keys)) as ArrayRef)]).unwrap()
    };
    let batches: Vec<_> = (0..rows).step_by(BATCH as usize).map(batch).collect();
    let (left, right) = batches.split_at((partitions - 1) * batches.len() / 3);
    let all = [left, right].into_iter().filter(|p| !p.is_empty()).map(<[_]>::to_vec).collect();
    MemTable::try_new(batches[0].schema(), all).unwrap()
}

/// Records the peak reservation.
#[derive(Debug)]
struct Peak {
    pool: FairSpillPool,
    peak: AtomicUsize,
}

impl fmt::Display for Peak {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.pool.fmt(f)
    }
}

impl MemoryPool for Peak {
    fn name(&self) -> &str {
        "peak"
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.pool.register(consumer);
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        self.pool.unregister(consumer);
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.pool.grow(reservation, additional);
        self.peak.fetch_max(self.pool.reserved(), Ordering::Relaxed);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.pool.shrink(reservation, shrink);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        self.pool.try_grow(reservation, additional)?;
        self.peak.fetch_max(self.pool.reserved(), Ordering::Relaxed);
        Ok(())
    }

    fn reserved(&self) -> usize {
        self.pool.reserved()
    }
}

/// Peak reserved memory of a context.
fn peak_bytes(context: &SessionContext) -> usize {
    let env = context.runtime_env();
    env.memory_pool.downcast_ref::<Peak>().unwrap().peak.load(Ordering::Relaxed)
}

/// A context with limited memory whose sorts run on other threads.
fn context(threads: &Runtime, partitions: usize, memory_bytes: usize) -> SessionContext {
    let mut rules = PhysicalOptimizer::new().rules;
    rules.push(Arc::new(SortOnThreads::new(threads.handle().clone())));
    let pool = Arc::new(Peak { pool: FairSpillPool::new(memory_bytes), peak: AtomicUsize::new(0) });
    let state = SessionStateBuilder::new_with_default_features()
        .with_config(SessionConfig::new().with_target_partitions(partitions))
        .with_physical_optimizer_rules(rules)
        .with_runtime_env(RuntimeEnvBuilder::new().with_memory_pool(pool).build_arc().unwrap())
        .build();
    SessionContext::new_with_state(state)
}

#[test]
fn a_sort_of_many_batches_runs_its_tasks_on_its_threads_and_nothing_else_does() {
    let (home, apart) = (threads("home"), threads("apart"));
    let context = context(&apart, 2, LARGE);
    context.register_table("rows", Arc::new(table(2, ROWS))).unwrap();
    let [read, sorted, given] = ["read", "sorted", "given"].map(|name| noted(&context, name));
    let sql = "select given(k) as k from (select read(k) as k from rows) order by sorted(k), k";
    // Spawn everything as tasks: a thread blocked on a runtime is not one of the runtime's threads.
    let batches = home.block_on(async {
        let query = tokio::spawn(async move { context.sql(sql).await.unwrap().collect().await.unwrap() });
        query.await.unwrap()
    });
    let keys: Vec<i64> =
        batches.iter().flat_map(|b| b.column(0).as_primitive::<Int64Type>().values().to_vec()).collect();
    let mut expected: Vec<i64> = (0..ROWS).map(key).collect();
    expected.sort_unstable();
    assert!(keys == expected);
    let of = |name: &str| BTreeSet::from([name.to_owned()]);
    // The sorted batches are also merged there.
    assert!(sorted.lock().contains("apart"), "{sorted:?}");
    assert_eq!(*read.lock(), of("home"));
    assert_eq!(*given.lock(), of("home"));
}

/// Computes for a while per batch, and counts batches on the query's threads.
#[derive(Debug)]
struct Slow {
    signature: Signature,
    calls: Arc<AtomicUsize>,
}

impl PartialEq for Slow {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Slow {}

impl std::hash::Hash for Slow {
    fn hash<H: std::hash::Hasher>(&self, _: &mut H) {}
}

impl ScalarUDFImpl for Slow {
    fn name(&self) -> &str {
        "slow"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if thread::current().name() == Some("home") {
            self.calls.fetch_add(1, Ordering::Relaxed);
            thread::sleep(SLICE / 2);
        }
        Ok(args.args[0].clone())
    }
}

#[test]
fn the_merge_of_a_sort_yields_by_time() {
    let (home, apart) = (threads("home"), threads("apart"));
    let context = context(&apart, 1, LARGE);
    context.register_table("rows", Arc::new(table(1, ROWS))).unwrap();
    let calls = Arc::new(AtomicUsize::new(0));
    let signature = Signature::exact(vec![DataType::Int64], Volatility::Volatile);
    context.register_udf(ScalarUDF::from(Slow { signature, calls: calls.clone() }));
    let counted = calls.clone();
    let (turns, rows) = home.block_on(async {
        let query = tokio::spawn(async move {
            let frame = context.sql("select k from rows order by slow(k), k").await.unwrap();
            let mut batches = frame.execute_stream().await.unwrap();
            let (mut turns, mut rows, mut before) = (Vec::new(), 0, 0);
            std::future::poll_fn(|cx| {
                loop {
                    let next = batches.poll_next_unpin(cx);
                    let calls = counted.load(Ordering::Relaxed);
                    match next {
                        Poll::Ready(Some(batch)) => rows += batch.unwrap().num_rows(),
                        Poll::Ready(None) => return Poll::Ready(()),
                        Poll::Pending => {
                            turns.push(calls - std::mem::replace(&mut before, calls));
                            return Poll::Pending;
                        }
                    }
                }
            })
            .await;
            (turns, rows)
        });
        query.await.unwrap()
    });
    assert_eq!(rows, ROWS as usize);
    let (most, all) = (turns.iter().max().unwrap(), calls.load(Ordering::Relaxed));
    assert!(all >= 100 && *most <= 10, "{most} of {all} batches in one turn");
}

/// Outcome of a query.
struct Ran {
    batches: Vec<RecordBatch>,
    /// Bytes spilled by its sorts.
    spilled_bytes: usize,
    peak_bytes: usize,
    longest_turn: Duration,
    all_turns: Duration,
}

fn ran(context: &SessionContext, sql: &'static str) -> Ran {
    let context = context.clone();
    let home = threads("home");
    home.block_on(async {
        let query = tokio::spawn(async move {
            let plan = context.sql(sql).await.unwrap().create_physical_plan().await.unwrap();
            let mut stream = execute_stream(plan.clone(), context.task_ctx()).unwrap();
            let (mut batches, mut longest_turn, mut all_turns) = (Vec::new(), Duration::ZERO, Duration::ZERO);
            std::future::poll_fn(|cx| {
                let began = Instant::now();
                loop {
                    let next = stream.poll_next_unpin(cx);
                    if let Poll::Ready(Some(batch)) = next {
                        batches.push(batch.unwrap());
                        continue;
                    }
                    longest_turn = longest_turn.max(began.elapsed());
                    all_turns += began.elapsed();
                    return next.map(|_| ());
                }
            })
            .await;
            let (spilled_bytes, peak_bytes) = (spilled_bytes(&plan), peak_bytes(&context));
            Ran { batches, spilled_bytes, peak_bytes, longest_turn, all_turns }
        });
        query.await.unwrap()
    })
}

/// No poll may take longer than `1 / parts` of the whole. Other processes may preempt it, so it is retried a few times.
fn gives_way(first: Ran, parts: u32, again: impl Fn() -> Ran) {
    let mut tries = Vec::new();
    let short = std::iter::once(first).chain(std::iter::repeat_with(again).take(3)).any(|ran| {
        tries.push((ran.longest_turn, ran.all_turns));
        ran.longest_turn < ran.all_turns / parts
    });
    assert!(short, "{tries:?}: in one turn, in all");
}

/// Bytes spilled by the sorts of a plan.
fn spilled_bytes(plan: &Arc<dyn ExecutionPlan>) -> usize {
    let own = plan.metrics().and_then(|metrics| metrics.spilled_bytes()).unwrap_or(0);
    own + plan.children().into_iter().map(spilled_bytes).sum::<usize>()
}

fn keys(batches: &[RecordBatch]) -> Vec<i64> {
    batches.iter().flat_map(|b| b.column(0).as_primitive::<Int64Type>().values().to_vec()).collect()
}

fn sorted_keys(rows: i64) -> Vec<i64> {
    let mut keys: Vec<i64> = (0..rows).map(key).collect();
    keys.sort_unstable();
    keys
}

#[test]
fn a_spilling_sort_yields_while_it_merges() {
    let apart = threads("apart");
    let context = context(&apart, 1, 80 << 20);
    context.register_table("rows", Arc::new(table(1, 6 * ROWS))).unwrap();
    let sql = "select k from rows order by k";
    let first = ran(&context, sql);
    assert!(keys(&first.batches) == sorted_keys(6 * ROWS));
    assert!(first.spilled_bytes > 0, "nothing was spilled");
    gives_way(first, 20, || ran(&context, sql));
}

#[test]
fn a_sort_with_too_many_files_for_one_merge_loses_nothing() {
    let apart = threads("apart");
    let context = context(&apart, 1, 64 << 20);
    let rows = 100_000;
    let batch = |first: i64| {
        let keys = Int64Array::from_iter_values((first..first + 500).map(key));
        let texts = (first..first + 500).map(|n| format!("{:01000}", key(n)));
        let columns: [(&str, ArrayRef); 2] =
            [("k", Arc::new(keys)), ("t", Arc::new(StringArray::from_iter_values(texts)))];
        RecordBatch::try_from_iter(columns).unwrap()
    };
    let batches: Vec<_> = (0..rows).step_by(500).map(batch).collect();
    let table = MemTable::try_new(batches[0].schema(), vec![batches]).unwrap();
    context.register_table("wide", Arc::new(table)).unwrap();
    let sql = "select k, t from wide order by k";
    let first = ran(&context, sql);
    assert!(first.spilled_bytes > 3 * rows as usize * 1_000 / 2, "{} bytes were written", first.spilled_bytes);
    assert!(keys(&first.batches) == sorted_keys(rows));
    for batch in &first.batches {
        for (k, t) in
            batch.column(0).as_primitive::<Int64Type>().values().iter().zip(batch.column(1).as_string::<i32>())
        {
            assert_eq!(t, Some(format!("{k:01000}").as_str()));
        }
    }
    gives_way(first, 8, || ran(&context, sql));
}

#[test]
fn a_sort_by_several_keys_leaves_room_for_their_rows() {
    let apart = threads("apart");
    let memory = 64 << 20;
    let context = context(&apart, 2, memory);
    context.register_table("rows", Arc::new(table(2, 4 * ROWS))).unwrap();
    let got = ran(&context, "select k from rows order by k / 1000, k");
    assert!(keys(&got.batches) == sorted_keys(4 * ROWS));
    assert!(got.spilled_bytes > 0, "nothing was spilled");
    assert!(got.peak_bytes <= memory + (1 << 20), "{} bytes were reserved", got.peak_bytes);
}

#[test]
fn a_batch_that_is_larger_than_others_ends_a_part() {
    let apart = threads("apart");
    let context = context(&apart, 1, 64 << 20);
    let sizes: Vec<i64> =
        std::iter::repeat_n(BATCH, 380).chain([6 * ROWS]).chain(std::iter::repeat_n(BATCH, 9)).collect();
    let mut first = 0;
    let mut batch = |rows: i64| {
        let keys = Int64Array::from_iter_values((first..first + rows).map(key));
        first += rows;
        RecordBatch::try_from_iter([("k", Arc::new(keys) as ArrayRef)]).unwrap()
    };
    let batches: Vec<_> = sizes.iter().map(|rows| batch(*rows)).collect();
    let table = MemTable::try_new(batches[0].schema(), vec![batches]).unwrap();
    context.register_table("rows", Arc::new(table)).unwrap();
    let got = ran(&context, "select k from rows order by k");
    assert!(got.spilled_bytes > 0, "nothing was spilled");
    assert!(keys(&got.batches) == sorted_keys(sizes.iter().sum()));
}

#[tokio::test]
async fn single_key_sorts_read_batches_that_need_no_further_concatenation() {
    let batch = |rows: i64| {
        let keys = Int64Array::from_iter_values((0..rows).map(|n| rows * 1_000_000 + n));
        RecordBatch::try_from_iter([("k", Arc::new(keys) as ArrayRef)]).unwrap()
    };
    // A slice retains all of its buffer.
    let given: Vec<_> = (1..2_000).map(batch).chain([batch(300_000), batch(500_000).slice(7, 9)]).collect();
    let rows = |batches: &[RecordBatch]| -> Vec<i64> {
        batches.iter().flat_map(|b| b.column(0).as_primitive::<Int64Type>().values().to_vec()).collect()
    };
    for bytes in [0, 1 << 16, 1 << 20] {
        let schema = given[0].schema();
        let batches = stream::iter(given.clone().into_iter().map(Ok));
        let got: Vec<_> = runs(batches, schema, bytes).try_collect().await.unwrap();
        assert!(rows(&got) == rows(&given), "{bytes}");
        let sizes = got.iter().map(|b| get_record_batch_memory_size(b) + size_of::<i64>() * b.num_rows());
        let sizes: Vec<_> = sizes.collect();
        // A larger batch flushes the rows before it, however few.
        let apart = |sizes: &[usize]| sizes[0] + sizes[1] > bytes || sizes[2] > bytes;
        assert!(sizes.windows(3).all(apart), "{bytes}: {sizes:?}");
        assert!(bytes > 0 || got.len() == given.len());
    }
}
