//! Runs one seed, from an empty store to the final check.

use std::{sync::Arc, time::Duration};

use tidelake_format::{
    Error, Result,
    garbage::{Sweep, collect},
    layout,
    meta::Root,
    snapshot::{SnapshotOptions, SnapshotReader},
};
use tidelake_ingest::{compact::CompactRequest, write::Ingest};
use tokio::time::sleep;

use crate::{
    actors::{Asker, Role, live, misfortune, mistakes, open, repair, strikes},
    model::Seen,
    process::Process,
    read::{Content, DATABASE, content},
    server::{DAY_MS, Events, LONGEST_FLIGHT, Weather},
    world::{AGING_KEEP_MS, Plan, TABLES, World, config},
};

/// Upper bound of a run's virtual time.
const STUCK: Duration = Duration::from_secs(60 * 86_400);

/// Result of a seed.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// Faults, other actions, requests and trace.
    pub events: Events,
    /// Number of operations begun.
    pub operations: u64,
    /// Numbers of acknowledged, refused and other writes.
    pub writes: (usize, usize, usize),
    /// Violated guarantees.
    pub violations: Vec<String>,
}

/// Runs a seed.
///
/// # Errors
/// When no runtime can be built.
pub fn run(seed: u64, keeps_lines: bool) -> std::io::Result<Report> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
    Ok(runtime.block_on(async {
        let world = World::new(Plan::of(seed), keeps_lines);
        if tokio::time::timeout(STUCK, play(&world)).await.is_err() {
            world.violation("the run got stuck".to_owned());
        }
        let writes = world.model.lock().counts();
        let operations = world.begun();
        let faults: u64 = world.server.report_faults();
        let (writers, compactors, readers) = world.plan.actors;
        if operations < 200 || faults < 5 || writers < 3 || compactors < 2 || readers < 2 {
            world.violation(format!("a run of {operations} operations and {faults} faults shows too little"));
        }
        Report { seed, events: world.server.report(), operations, writes, violations: world.violations() }
    }))
}

async fn play(world: &Arc<World>) {
    world.server.note(&format!("{:?}", world.plan));
    let first = world.process();
    if let Err(error) = prepare(&first).await {
        return world.violation(format!("an empty store in good weather fails: {error:?}"));
    }
    world.server.set_weather(world.plan.weather);
    world.server.tear_after(world.plan.tears);
    if world.plan.tick_ms == 1_000 {
        world.server.count("store clock of one second");
    }
    let (writers, compactors, readers) = world.plan.actors;
    let roles = [(Role::Writer, writers), (Role::Compactor, compactors), (Role::Reader, readers)];
    let actors = roles.into_iter().flat_map(|(role, n)| (0..n).map(move |_| role));
    let mut tasks: Vec<_> = actors.map(|role| tokio::spawn(live(world.clone(), role))).collect();
    tasks.push(tokio::spawn(misfortune(world.clone())));
    let aide = tokio::spawn(strikes(world.clone()));
    tasks.push(tokio::spawn(repair(world.clone())));
    tasks.push(tokio::spawn(mistakes(world.clone())));
    for task in tasks {
        if let Err(e) = task.await {
            world.violation(format!("the simulation itself panicked: {e}"));
        }
    }
    aide.abort();
    // Requests in flight arrive.
    world.server.tear_after(None);
    world.server.set_weather(Weather { latency_ms: 20, ..Weather::default() });
    sleep(2 * LONGEST_FLIGHT).await;
    world.server.note("the end begins");
    for key in world.server.torn() {
        world.server.delete_torn(&key);
    }
    if let Err(error) = finish(world).await {
        world.violation(format!("good weather, and still: {error:?}"));
    }
}

async fn prepare(process: &Process) -> Result<()> {
    let ingest = Ingest::open(Root::open(process.store.clone()).await?, config(process.number)).await?;
    let create = format!("create database {DATABASE} precision 'ms' duration 1d keep 73000d");
    ingest.execute(None, &create, None).await?;
    let create = format!(
        "create stable {} (ts timestamp, a bigint, b bigint) tags (dev binary(16), site binary(16)) keep {}d",
        TABLES[2],
        AGING_KEEP_MS / DAY_MS
    );
    ingest.execute(Some(DATABASE), &create, None).await?;
    ingest.shutdown().await;
    Ok(())
}

/// Without faults: checks that acknowledged rows are present, also after folds, merges and garbage collection, and that
/// no garbage is left.
async fn finish(world: &Arc<World>) -> Result<()> {
    let process = world.process();
    let root = open(world, &process).await;
    let ingest = Ingest::open(root.clone(), config(process.number)).await?;
    let options = SnapshotOptions { max_staleness: Some(Duration::ZERO), ..SnapshotOptions::default() };
    let reader = SnapshotReader::new(root.clone(), options);
    let before = look(world, &reader, "at the end", false).await?;
    for (request, what) in [(CompactRequest::Fold, "folded"), (CompactRequest::Full, "merged")] {
        ingest.compact(request).await?;
        let after = look(world, &reader, what, false).await?;
        same(world, what, &before, &after);
    }
    let snapshot = reader.snapshot(&[]).await?;
    if !snapshot.tail.is_empty() {
        world.violation(format!("{} segments cannot be folded", snapshot.tail.len()));
    }
    Asker::new(&root).ask(world, &process, &[]).await;
    // Orphans are collected after a day and a later commit.
    for day in 0..4 {
        sleep(Duration::from_secs(86_400 + 3_600)).await;
        if day == 0 {
            // Removes expired rows and unfinished bulk ingests.
            ingest.compact(CompactRequest::Full).await?;
            look(world, &reader, "expired", true).await?;
        }
        collect(&root, Sweep::Full).await?;
    }
    let after = look(world, &reader, "collected", false).await?;
    same(world, "collected", &before, &after);
    tidy(world, &root).await
}

/// Checks that an operation changed no row of the tables, except expired ones.
fn same(world: &World, what: &str, before: &[Content], after: &[Content]) {
    for (table, (before, after)) in TABLES.iter().zip(before.iter().zip(after)).take(2) {
        if before != after {
            world.violation(format!("once all is {what}, rows of {table} differ: {before:?} and {after:?}"));
        }
    }
}

/// Reads and checks every table.
async fn look(world: &World, reader: &SnapshotReader, what: &str, is_tidied: bool) -> Result<Vec<Content>> {
    let begun = world.server.elapsed_ms();
    let snapshot = reader.snapshot(&[]).await?;
    let mut all = Vec::new();
    for table in TABLES {
        let content = content(reader.root(), &snapshot, table).await?;
        let ended = world.server.elapsed_ms();
        let Content { rows, sites } = content.clone();
        world.saw(what, &Seen { table: table.to_owned(), rows, sites, begun, ended, is_tidied, ..Seen::default() });
        all.push(content);
    }
    Ok(all)
}

/// Checks that only objects referenced by the newest version are left.
async fn tidy(world: &World, root: &Root) -> Result<()> {
    let catalog = root.refresh().await?;
    let mut named = Vec::new();
    let tables = catalog.databases().flat_map(|d| catalog.tables(d.id)).collect::<Vec<_>>();
    for table in tables {
        for (partition, _) in catalog.partitions(table.id) {
            for file in root.files(&catalog, table.id, partition).await?.iter() {
                named.push(layout::data_key(table.id, partition, file.data.id));
                named.push(layout::tags_key(table.id, partition, file.tags.id));
                named.extend(file.rollup.map(|r| layout::rollup_key(table.id, partition, r.id)));
            }
        }
    }
    named.sort();
    let keys = world.server.keys();
    let data: Vec<String> = keys.iter().filter(|k| k.starts_with("data/")).cloned().collect();
    if data != named {
        world.violation(format!("data files are left over or missing: {data:?}, named are {named:?}"));
    }
    let others: Vec<&String> = keys.iter().filter(|k| !k.starts_with("data/") && !k.starts_with("meta/")).collect();
    if !others.is_empty() {
        world.violation(format!("objects are left over: {others:?}"));
    }
    let newest = layout::meta_key(catalog.version);
    if !keys.contains(&newest) {
        return Err(Error::internal("the newest version is gone").with("key", newest));
    }
    Ok(())
}
