//! State shared by all actors of a run: store, model, processes, and remaining operations.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use parking_lot::Mutex;
use rand::{Rng, SeedableRng, rngs::StdRng};
use tidelake_format::{Error, Kind, rollup::RollupOptions};
use tidelake_ingest::{
    config::{CompactConfig, IngestConfig},
    write::IdempotencyKey,
};
use tokio::{sync::Notify, task::AbortHandle, time::sleep};

use crate::{
    actors::{Request, Role},
    model::{Batch, Model, Seen},
    process::{Life, Process},
    server::{DAY_MS, LONGEST_FLIGHT, MIDNIGHT_MS, Server, Weather},
};

/// The tables written to; the second is sometimes dropped, the third keeps its rows for two days.
pub const TABLES: [&str; 3] = ["steady", "fleeting", "aging"];
/// How long the third table keeps its rows, in milliseconds.
pub const AGING_KEEP_MS: i64 = 2 * DAY_MS;
/// How long writers hurry: some seconds around a DROP.
const HURRY_MS: u64 = 6_000;

/// Parameters of a run, derived from the seed.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The seed.
    pub seed: u64,
    /// Milliseconds between two ticks of the store's clock.
    pub tick_ms: i64,
    /// Keys per page of a list.
    pub page: usize,
    /// Numbers of writers, compactors and readers.
    pub actors: (u64, u64, u64),
    /// Number of operations of all actors together.
    pub operations: u64,
    /// Fault rates of requests.
    pub weather: Weather,
    /// Whether wall clocks step; otherwise monotonic clocks stop while their process is frozen.
    pub steps: bool,
    /// Whether the store is a directory on one machine, which sometimes loses power.
    pub is_directory: bool,
    /// Number of puts after which one is torn.
    pub tears: Option<u64>,
    /// Whether writers' clocks are off by a millisecond to hours.
    pub skews: bool,
    /// Whether operators remove segments and restore them.
    pub holes: bool,
    /// Whether operators swap objects and undo it.
    pub swaps: bool,
    /// Whether the store is sometimes full.
    pub fills: bool,
    /// True time of midnight, when the oldest rows of the third table expire.
    pub midnight_ms: i64,
}

impl Plan {
    /// Derives the plan of a seed.
    pub fn of(seed: u64) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let truncates = rng.random_bool(0.25);
        let is_directory = rng.random_bool(0.3);
        let tears = rng.random_bool(0.1).then(|| rng.random_range(50..400));
        // Separate randomness, so that the seed's other draws do not change.
        let mut later = StdRng::seed_from_u64(seed ^ 0x1a7e);
        let (skews, holes) = (later.random_bool(0.5), later.random_bool(0.3));
        let (swaps, fills) = (later.random_bool(0.3), later.random_bool(0.2));
        let directory_tick_ms = [1, 1, 4, 1_000][later.random_range(0..4)];
        Self {
            skews,
            holes,
            swaps,
            fills,
            is_directory,
            tears,
            seed,
            tick_ms: match is_directory {
                true => directory_tick_ms,
                false => [1, 1_000][usize::from(rng.random_bool(0.9))],
            },
            page: [3, 10, 1_000][rng.random_range(0..3)],
            actors: (rng.random_range(3..=5), rng.random_range(2..=3), rng.random_range(2..=3)),
            operations: rng.random_range(200..260),
            weather: Weather {
                faults: [10, 40, 100][rng.random_range(0..3)],
                truncated: if truncates { 10 } else { 0 },
                strikes: [0, 10, 30][rng.random_range(0..3)],
                cuts: if is_directory { 20 } else { 0 },
                latency_ms: [5, 40, 400][rng.random_range(0..3)],
            },
            steps: rng.random_bool(0.5),
            midnight_ms: rng.random_range(300_000..2_400_000),
        }
    }
}

/// A process and the task that runs in it.
#[derive(Debug)]
struct Running {
    process: Process,
    role: Role,
    task: AbortHandle,
}

/// A request under an idempotency key, kept to be resent.
#[derive(Debug, Clone)]
pub struct Keyed {
    /// The key.
    pub key: IdempotencyKey,
    /// The write in the model: a single one, however often it is sent.
    pub event: usize,
    /// Time of the first send.
    pub begun: u64,
    /// The request.
    pub request: Request,
}

/// State shared by the actors of a run.
#[derive(Debug)]
pub struct World {
    /// The plan.
    pub plan: Plan,
    /// The store.
    pub server: Arc<Server>,
    /// The model of allowed reads.
    pub model: Mutex<Model>,
    /// Sent batches, kept to be resent.
    pub sent: Mutex<Vec<Batch>>,
    /// Requests sent under a key, kept to be resent.
    pub keyed: Mutex<Vec<Keyed>>,
    /// Number of running compactions.
    pub compacting: AtomicU64,
    /// Digests that readers saw, by content identity and table.
    contents: Mutex<BTreeMap<(String, String), u64>>,
    violations: Mutex<Vec<String>>,
    rng: Mutex<StdRng>,
    /// Randomness of skews, tokens of writes and operator mistakes.
    later: Mutex<StdRng>,
    left: AtomicU64,
    /// End of the writers' hurry, and its notification.
    hurry: (AtomicU64, Notify),
    processes: AtomicU64,
    values: AtomicU64,
    running: Mutex<Vec<Running>>,
}

impl World {
    /// A world before its first operation.
    pub fn new(plan: Plan, keeps_lines: bool) -> Arc<Self> {
        let seed = plan.seed ^ 0x5e1f;
        let begins_ms = MIDNIGHT_MS - plan.midnight_ms;
        let server = Server::new(seed, begins_ms, plan.tick_ms, plan.page, plan.is_directory, keeps_lines);
        // Processes on one directory share stamps.
        let apart_ms = if plan.is_directory { 0 } else { plan.tick_ms.unsigned_abs() };
        let mut model = Model::new(begins_ms, apart_ms);
        model.keep(TABLES[2], AGING_KEEP_MS);
        Arc::new(Self {
            model: Mutex::new(model),
            sent: Mutex::default(),
            keyed: Mutex::default(),
            compacting: AtomicU64::new(0),
            contents: Mutex::default(),
            violations: Mutex::default(),
            rng: Mutex::new(StdRng::seed_from_u64(plan.seed ^ 0xac70)),
            later: Mutex::new(StdRng::seed_from_u64(plan.seed ^ 0x1a7e_ac70)),
            left: AtomicU64::new(plan.operations),
            processes: AtomicU64::new(0),
            values: AtomicU64::new(0),
            running: Mutex::default(),
            hurry: Default::default(),
            server: Arc::new(server),
            plan,
        })
    }

    /// Draws from the run's own randomness.
    pub fn draw<T>(&self, draw: impl FnOnce(&mut StdRng) -> T) -> T {
        draw(&mut self.rng.lock())
    }

    /// Draws for later additions to the simulation, so that the other draws of a seed do not change.
    pub fn draw_later<T>(&self, draw: impl FnOnce(&mut StdRng) -> T) -> T {
        draw(&mut self.later.lock())
    }

    /// Takes one of the remaining operations, after the usual pause between two operations.
    pub async fn next(&self) -> bool {
        self.think().await;
        self.take()
    }

    /// [`World::next`] of a writer.
    pub async fn next_of_writer(&self) -> bool {
        if !self.is_hurry() {
            tokio::select! {
                biased;
                () = self.hurry.1.notified() => {}
                () = self.think() => {}
            }
        }
        if self.is_hurry() {
            sleep(Duration::from_millis(self.draw(|rng| rng.random_range(0..500)))).await;
        }
        self.take()
    }

    /// Makes writers run operations in quick succession on the second table for some seconds.
    pub fn hurry(&self) {
        self.hurry.0.store(self.server.elapsed_ms() + HURRY_MS, Relaxed);
        self.hurry.1.notify_waiters();
    }

    /// Whether writers hurry.
    pub fn is_hurry(&self) -> bool {
        self.server.elapsed_ms() < self.hurry.0.load(Relaxed)
    }

    fn take(&self) -> bool {
        self.left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok()
    }

    async fn think(&self) {
        let think = self.draw(|rng| match rng.random_range(0..100) {
            0..60 => rng.random_range(0..1_500),
            60..90 => rng.random_range(0..30_000),
            90..99 => rng.random_range(0..900_000),
            _ => rng.random_range(0..7_200_000),
        });
        sleep(Duration::from_millis(think)).await;
    }

    /// Number of operations begun.
    pub fn begun(&self) -> u64 {
        self.plan.operations - self.left.load(Relaxed)
    }

    /// Whether operations are left.
    pub fn goes_on(&self) -> bool {
        self.left.load(Relaxed) > 0
    }

    /// A new process with its own clock.
    pub fn process(&self) -> Process {
        let number = self.processes.fetch_add(1, Relaxed);
        let skew_ms: i64 = self.draw(|rng| rng.random_range(-180_000..=180_000));
        if skew_ms.abs() > 60_000 {
            self.server.count("clock skew of minutes");
        }
        Process::new(&self.server, number, self.plan.seed, skew_ms)
    }

    /// A new process in a role. Clocks that decide expiry are off by minutes at most; those of writers may be off by more.
    pub fn process_of(&self, role: Role) -> Process {
        let process = self.process();
        if self.plan.skews && role == Role::Writer {
            let skew_ms = self.draw_later(|rng| {
                let most: i64 = [10, 1_000, 60_000, 4 * 3_600_000][rng.random_range(0..4)];
                rng.random_range(-most..=most)
            });
            self.server.count("clock of a writer off by a millisecond to hours");
            process.hands.set_skew(skew_ms);
        }
        process
    }

    /// A value that was never written.
    pub fn value(&self) -> i64 {
        i64::try_from(self.values.fetch_add(1, Relaxed)).unwrap_or(i64::MAX)
    }

    /// Registers a process to be frozen and killed.
    pub fn expose(&self, process: &Process, role: Role, task: AbortHandle) {
        let mut running = self.running.lock();
        running.retain(|r| !r.task.is_finished());
        running.push(Running { process: process.clone(), role, task });
    }

    /// A random running process.
    pub fn victim(&self) -> Option<Process> {
        let mut running = self.running.lock();
        running.retain(|r| !r.task.is_finished());
        let awake: Vec<&Running> = running.iter().filter(|r| r.process.gate.life() == Life::Running).collect();
        let n = awake.len();
        let at = if n == 0 { return None } else { self.draw(|rng| rng.random_range(0..n)) };
        awake.get(at).map(|r| r.process.clone())
    }

    /// A registered process by number, and its role.
    pub fn find(&self, number: u64) -> Option<(Process, Role)> {
        self.running.lock().iter().find(|r| r.process.number == number).map(|r| (r.process.clone(), r.role))
    }

    /// Kills a process; its requests may still be in flight.
    pub fn kill(&self, process: &Process) {
        process.gate.set(Life::Dead);
        let running = self.running.lock();
        running.iter().filter(|r| r.process.number == process.number).for_each(|r| r.task.abort());
        drop(running);
        self.buried(process);
    }

    /// Cuts the power of the machine of all processes: they die, and unsynced data may be lost.
    pub fn lose_power(&self) {
        let running = std::mem::take(&mut *self.running.lock());
        for Running { process, task, .. } in running {
            process.gate.set(Life::Dead);
            task.abort();
            self.model.lock().died(process.number, self.server.elapsed_ms());
        }
        self.server.lose_power();
    }

    /// Records in the model that a dead process's running requests take effect soon or never.
    pub fn buried(&self, process: &Process) {
        process.gate.set(Life::Dead);
        let flight = u64::try_from(LONGEST_FLIGHT.as_millis()).unwrap_or(u64::MAX);
        self.model.lock().died(process.number, self.server.elapsed_ms() + flight);
    }

    /// Records a violated guarantee.
    pub fn violation(&self, what: String) {
        self.server.note(&format!("VIOLATION {what}"));
        self.violations.lock().push(what);
    }

    /// The violations so far.
    pub fn violations(&self) -> Vec<String> {
        self.violations.lock().clone()
    }

    /// Judges whether an error is allowed under the run's faults.
    pub fn judge(&self, what: &str, error: &Error) {
        self.server.note(&format!("{what} failed: {error}"));
        let may = match error.kind() {
            Kind::Unavailable | Kind::Full | Kind::Conflict | Kind::Invalid | Kind::NotFound => true,
            Kind::Corrupt => self.is_of_torn(error),
            Kind::Unsupported | Kind::Internal | Kind::Unauthenticated | Kind::Forbidden => false,
        };
        if !may {
            self.violation(format!("{what} failed: {error:?}"));
        }
    }

    /// Whether an error names an object that was torn, removed or swapped.
    pub fn is_of_torn(&self, error: &Error) -> bool {
        let said = format!("{error:?}");
        let mut spoiled = self.server.torn().into_iter().chain(self.server.spoiled());
        spoiled.any(|key| said.contains(&key))
    }

    /// Checks a read of a table.
    pub fn saw(&self, what: &str, seen: &Seen) {
        if let Err(e) = self.model.lock().check(seen) {
            self.violation(format!("{what} from {} to {}: {e}", seen.begun, seen.ended));
        }
    }

    /// Checks that rows equal those seen earlier for the same content.
    pub fn same(&self, what: &str, content: String, table: &str, digest: u64) {
        let first = *self.contents.lock().entry((content, table.to_owned())).or_insert(digest);
        if first != digest {
            self.violation(format!("{what}: {table} has other rows than before, of the same segments"));
        }
    }
}

/// Settings of a process: no background work, merges of few files, one or three lanes.
pub fn config(process: u64) -> IngestConfig {
    // Rows are a second apart, and few.
    let rollup = RollupOptions { width_ms: 2_000, least_rows: 2, least_rows_per_bucket: 0, ..RollupOptions::default() };
    let compact = CompactConfig { background: false, merge_files: 3, rollup, ..CompactConfig::default() };
    let writers = if process.is_multiple_of(3) { 3 } else { 1 };
    // Each batch of a bulk ingest has its own segment, and each group is put immediately.
    IngestConfig {
        flush_interval_ms: Some(0),
        compact,
        writers: Some(writers),
        bulk_segment_bytes: 1,
        ..IngestConfig::default()
    }
}
