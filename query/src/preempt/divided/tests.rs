//! Compares divided aggregations with a naive computation.

#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};

use arrow::{
    array::{ArrayRef, AsArray, Int64Array, RecordBatch, StringArray},
    datatypes::Int64Type,
};
use datafusion::{
    datasource::MemTable,
    execution::{
        SessionStateBuilder,
        memory_pool::FairSpillPool,
        runtime_env::{RuntimeEnv, RuntimeEnvBuilder},
    },
    physical_optimizer::optimizer::PhysicalOptimizer,
    physical_plan::{collect, displayable},
    prelude::{SessionConfig, SessionContext},
};

use super::*;

const ROWS: i64 = 200_000;
const GROUPS: i64 = 100_019;
const LARGE: usize = 1 << 30;
const SMALL: usize = 6 << 20;

/// The key and the value of a row.
fn row(n: i64) -> (String, i64) {
    (format!("key {:08}", n * 7919 % GROUPS), n % 1_000 - 300)
}

fn table(sources: i64) -> MemTable {
    let batch = |rows: std::ops::Range<i64>| {
        let (keys, values): (Vec<String>, Vec<i64>) = rows.map(row).unzip();
        let columns: [(&str, ArrayRef); 2] =
            [("k", Arc::new(StringArray::from(keys))), ("v", Arc::new(Int64Array::from(values)))];
        RecordBatch::try_from_iter(columns).unwrap()
    };
    let source = |s| (0..20).filter(|n| n % sources == s).map(|n| batch(n * ROWS / 20..(n + 1) * ROWS / 20)).collect();
    MemTable::try_new(batch(0..1).schema(), (0..sources).map(source).collect()).unwrap()
}

/// A table `t` with `sources` sources, queried on `partitions` partitions with limited memory and parts of `part_bytes`.
fn context((sources, partitions): (i64, usize), memory_bytes: usize, part_bytes: usize) -> SessionContext {
    let mut rules = PhysicalOptimizer::new().rules;
    rules.push(Arc::new(DivideGroups { memory_bytes: LARGE, part_bytes }));
    let runtime = RuntimeEnvBuilder::new().with_memory_pool(Arc::new(FairSpillPool::new(memory_bytes))).build();
    let mut config = SessionConfig::new().with_target_partitions(partitions);
    config.options_mut().sql_parser.map_string_types_to_utf8view = false;
    config.options_mut().optimizer.hash_join_single_partition_threshold = 0;
    config.options_mut().optimizer.hash_join_single_partition_threshold_rows = 0;
    let state = SessionStateBuilder::new_with_default_features()
        .with_config(config)
        .with_runtime_env(Arc::<RuntimeEnv>::new(runtime.unwrap()))
        .with_physical_optimizer_rules(rules)
        .build();
    let context = SessionContext::new_with_state(state);
    context.register_table("t", Arc::new(table(sources))).unwrap();
    context
}

/// Returns the plan, its sorted rows, and the number of spill files.
async fn run(context: &SessionContext, sql: &str) -> (String, BTreeSet<(String, i64, i64)>, usize) {
    let plan = context.sql(sql).await.unwrap().create_physical_plan().await.unwrap();
    let mut rows = BTreeSet::new();
    for batch in collect(plan.clone(), context.task_ctx()).await.unwrap() {
        let numbers = |column: usize| batch.column(column).as_primitive::<Int64Type>();
        for at in 0..batch.num_rows() {
            let key = batch.column(0).as_string::<i32>().value(at).to_owned();
            assert!(rows.insert((key, numbers(1).value(at), numbers(2).value(at))), "a group comes twice");
        }
    }
    fn spills(plan: &Arc<dyn ExecutionPlan>) -> usize {
        let own = plan.metrics().and_then(|known| known.spill_count()).unwrap_or(0);
        own + plan.children().into_iter().map(spills).sum::<usize>()
    }
    let spilled = spills(&plan);
    (displayable(plan.as_ref()).indent(false).to_string(), rows, spilled)
}

/// Row count and sum by key.
fn naive() -> BTreeMap<String, (i64, i64)> {
    let mut groups = BTreeMap::new();
    for (key, value) in (0..ROWS).map(row) {
        let group: &mut (i64, i64) = groups.entry(key).or_default();
        *group = (group.0 + 1, group.1 + value);
    }
    groups
}

const BY_KEY: &str = "select k, count(*), sum(v) from t group by k";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn divided_groups_match_naive_groups_with_and_without_spilling() {
    let expected: BTreeSet<_> = naive().into_iter().map(|(k, (n, sum))| (k, n, sum)).collect();
    for partitions in [(1, 1), (2, 1), (2, 2), (2, 3)] {
        for (memory, part) in [(LARGE, 1 << 20), (SMALL, 1 << 20), (LARGE, LARGE), (SMALL, LARGE)] {
            let (plan, rows, spilled) = run(&context(partitions, memory, part), BY_KEY).await;
            let what = format!("{partitions:?} partitions, {memory} bytes, parts of {part}:\n{plan}");
            assert_eq!(plan.contains("Divided"), part < LARGE, "{what}");
            assert_eq!(spilled > 0, memory < LARGE, "{spilled} files, {what}");
            assert!(rows == expected, "{} rows, {} expected, {what}", rows.len(), expected.len());
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parts_keep_the_partitioning_below_a_join_or_aggregation() {
    let groups = naive();
    for partitions in [(1, 1), (2, 1), (2, 2), (2, 3)] {
        let context = context(partitions, LARGE, 1 << 20);
        let few = "select k, count(*) as n, sum(v) as s from t where v < 100 group by k";
        let joined = format!(
            "select a.k, a.n, b.n from ({few}) a join (select k, count(*) as n from t group by k) b on a.k = b.k"
        );
        let mut of_few: BTreeMap<String, i64> = BTreeMap::new();
        (0..ROWS).map(row).filter(|(_, v)| *v < 100).for_each(|(k, _)| *of_few.entry(k).or_default() += 1);
        let expected: BTreeSet<_> = of_few.into_iter().map(|(k, n)| (k.clone(), n, groups[&k].0)).collect();
        let (plan, rows, _) = run(&context, &joined).await;
        assert!(rows == expected && plan.matches("Divided").count() == 2, "{} rows\n{plan}", rows.len());

        let twice = format!("select substr(k, 1, 9), count(*), sum(n) from ({few}) group by 1");
        let twice = twice.replace("where v < 100 ", "");
        let mut expected: BTreeMap<String, (i64, i64)> = BTreeMap::new();
        for (key, (n, _)) in &groups {
            let group = expected.entry(key[..9].to_owned()).or_default();
            *group = (group.0 + 1, group.1 + n);
        }
        let expected: BTreeSet<_> = expected.into_iter().map(|(k, (n, sum))| (k, n, sum)).collect();
        let (plan, rows, _) = run(&context, &twice).await;
        assert!(rows == expected && plan.matches("Divided").count() == 2, "{} rows\n{plan}", rows.len());
    }
}

#[tokio::test]
async fn parts_share_one_memory_share_and_larger_parts_spill() {
    let all: Arc<dyn MemoryPool> = Arc::new(FairSpillPool::new(10 * FEW_BYTES));
    let runtime = RuntimeEnvBuilder::new().with_memory_pool(all.clone()).build().unwrap();
    let outer = Arc::new(TaskContext::default().with_runtime(Arc::new(runtime)));
    let spills = |name: &str, pool: &Arc<dyn MemoryPool>| MemoryConsumer::new(name).with_can_spill(true).register(pool);
    let other = spills("other", &all);
    let held = Arc::new(spills("parts", &all));
    let turns = Arc::new(Turns::new(4, all.clone()));
    let pools: Vec<Arc<dyn MemoryPool>> = (0..4)
        .map(|part| Together { outer: outer.clone(), held: held.clone(), part: Some((part, turns.clone())) })
        .map(|pool| Arc::new(pool) as _)
        .collect();
    let parts: Vec<_> = pools.iter().map(|pool| spills("part", pool)).collect();
    // Both consumers have half of the memory, however many parts there are.
    other.try_grow(5 * FEW_BYTES).unwrap();
    parts[0].try_grow(3 * FEW_BYTES).unwrap();
    parts[1].try_grow(2 * FEW_BYTES).unwrap();
    parts[0].try_grow(1).unwrap_err();
    parts[2].try_grow(FEW_BYTES).unwrap();
    parts[2].try_grow(1).unwrap_err();
    assert_eq!((held.size(), all.reserved()), (6 * FEW_BYTES, 11 * FEW_BYTES));
    // Queues have no guaranteed memory.
    let queues: Arc<dyn MemoryPool> = Arc::new(Together { outer, held: held.clone(), part: None });
    spills("queue", &queues).try_grow(1).unwrap_err();
    // Only the part whose turn it is gets memory.
    turns.begin(1).await;
    parts[1].try_grow(FEW_BYTES).unwrap();
    parts[0].try_grow(1).unwrap_err();
    turns.end(1);
    parts[1].try_grow(1).unwrap_err();
    parts[0].free();
    parts[2].try_grow(FEW_BYTES).unwrap();
    drop(parts);
    assert_eq!((held.size(), all.reserved()), (0, 5 * FEW_BYTES));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parts_keep_the_partitioning_required_above() {
    let mut values = BTreeMap::<String, BTreeSet<i64>>::new();
    for (key, value) in (0..ROWS).map(row) {
        values.entry(key).or_default().insert(value);
    }
    let some = |key: &String| values[key].first().is_some_and(|least| *least < 100);
    let few = "(select distinct k from t where v < 100)";
    for partitions in [2, 4, 5] {
        for part_bytes in [512 << 10, 1 << 20, 2 << 20, LARGE] {
            let context = context((2, partitions), LARGE, part_bytes);
            // Groups by (k, v) on a join's partitioning by k, and windows by k above them.
            let windows = format!("select a.k, a.v from t a join {few} b on a.k = b.k group by a.k, a.v");
            let windows = format!("select k, v, count(*) over (partition by k) from ({windows})");
            let of_key =
                |(k, v): (&String, &BTreeSet<i64>)| v.iter().map(|one| (k.clone(), *one, v.len() as i64)).collect();
            let expected = values.iter().filter(|(k, _)| some(k)).flat_map(|group| -> Vec<_> { of_key(group) });
            let (plan, rows, _) = run(&context, &windows).await;
            assert!(rows == expected.collect(), "{} rows, {partitions} partitions, {part_bytes}\n{plan}", rows.len());
            assert!(partitions < 4 || plan.contains("mode=SinglePartitioned"), "{plan}");

            let ordered = "select a.k, array_agg(a.v order by a.v)[1], array_agg(a.v order by a.v)[-1]";
            let ordered = format!("{ordered} from t a join {few} b on a.k = b.k group by a.k");
            let ends = |(k, v): (&String, &BTreeSet<i64>)| Some((k.clone(), *v.first()?, *v.last()?));
            let expected: BTreeSet<_> = values.iter().filter(|(k, _)| some(k)).filter_map(ends).collect();
            let (plan, rows, _) = run(&context, &ordered).await;
            assert!(rows == expected, "{} rows, {partitions} partitions, {part_bytes}\n{plan}", rows.len());
        }
    }
}
