//! What all actors of a run share: the store, the model, the processes, and how many operations are left.

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

/// The tables that are written to; the second one is dropped now and then, the third one keeps its rows for two days.
pub const TABLES: [&str; 3] = ["steady", "fleeting", "aging"];
/// How long the third table keeps its rows, in milliseconds.
pub const AGING_KEEP_MS: i64 = 2 * DAY_MS;
/// How long writers are in a hurry: some seconds around a DROP.
const HURRY_MS: u64 = 6_000;

/// What the seed decided about the run as a whole.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The seed.
    pub seed: u64,
    /// Milliseconds between two ticks of the store's clock.
    pub tick_ms: i64,
    /// Keys of one page of a list.
    pub page: usize,
    /// Writers, compactors and readers.
    pub actors: (u64, u64, u64),
    /// Operations of all of them together.
    pub operations: u64,
    /// What befalls requests.
    pub weather: Weather,
    /// Whether wall clocks step; otherwise monotonic clocks stand still while their process is frozen.
    pub steps: bool,
    /// Whether the store is a directory of one machine, which loses power now and then.
    pub is_directory: bool,
    /// After how many puts of objects one is torn.
    pub tears: Option<u64>,
    /// Whether writers' clocks are off by a millisecond to hours.
    pub skews: bool,
    /// Whether people take segments away, and bring them back.
    pub holes: bool,
    /// Whether people put objects into each other's place, and undo it.
    pub swaps: bool,
    /// Whether the store has no room now and then.
    pub fills: bool,
    /// When the true time is midnight, and the oldest rows of the third table expire.
    pub midnight_ms: i64,
}

impl Plan {
    /// What a seed means.
    pub fn of(seed: u64) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let truncates = rng.random_bool(0.25);
        let is_directory = rng.random_bool(0.3);
        let tears = rng.random_bool(0.1).then(|| rng.random_range(50..400));
        // Drawn apart, so that what a seed draws beside them stays as it was.
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

/// A request under an idempotency key, to be sent again.
#[derive(Debug, Clone)]
pub struct Keyed {
    /// The key.
    pub key: IdempotencyKey,
    /// The write in the model: one, however often it is sent.
    pub event: usize,
    /// When it was sent first.
    pub begun: u64,
    /// What is sent.
    pub request: Request,
}

/// What the actors of a run share.
#[derive(Debug)]
pub struct World {
    /// The plan.
    pub plan: Plan,
    /// The store.
    pub server: Arc<Server>,
    /// What may be seen.
    pub model: Mutex<Model>,
    /// Batches that were sent, to be sent again.
    pub sent: Mutex<Vec<Batch>>,
    /// Requests that were sent under a key, to be sent again.
    pub keyed: Mutex<Vec<Keyed>>,
    /// How many compactions are under way.
    pub compacting: AtomicU64,
    /// What readers saw of each content: digests by table.
    contents: Mutex<BTreeMap<(String, String), u64>>,
    violations: Mutex<Vec<String>>,
    rng: Mutex<StdRng>,
    /// What is drawn for skews, tokens of writes and people's mistakes.
    later: Mutex<StdRng>,
    left: AtomicU64,
    /// Until when writers are in a hurry, and what tells them so.
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
        // Processes of one directory share their stamps.
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

    /// Draws what came later to the simulation, so that the other draws of a seed stay as they were.
    pub fn draw_later<T>(&self, draw: impl FnOnce(&mut StdRng) -> T) -> T {
        draw(&mut self.later.lock())
    }

    /// Takes one of the operations that are left; waits as an actor does between two of them.
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

    /// For some seconds writers do one thing after another, and write to the second table.
    pub fn hurry(&self) {
        self.hurry.0.store(self.server.elapsed_ms() + HURRY_MS, Relaxed);
        self.hurry.1.notify_waiters();
    }

    /// Whether writers are in a hurry.
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

    /// How many operations were begun.
    pub fn begun(&self) -> u64 {
        self.plan.operations - self.left.load(Relaxed)
    }

    /// Whether operations are left.
    pub fn goes_on(&self) -> bool {
        self.left.load(Relaxed) > 0
    }

    /// A new process with a clock of its own.
    pub fn process(&self) -> Process {
        let number = self.processes.fetch_add(1, Relaxed);
        let skew_ms: i64 = self.draw(|rng| rng.random_range(-180_000..=180_000));
        if skew_ms.abs() > 60_000 {
            self.server.count("clock skew of minutes");
        }
        Process::new(&self.server, number, self.plan.seed, skew_ms)
    }

    /// A new process in a role. What expires is decided by clocks of minutes; those of writers may be off by more.
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

    /// Puts a process where it can be frozen and killed.
    pub fn expose(&self, process: &Process, role: Role, task: AbortHandle) {
        let mut running = self.running.lock();
        running.retain(|r| !r.task.is_finished());
        running.push(Running { process: process.clone(), role, task });
    }

    /// One of the processes that run, by chance.
    pub fn victim(&self) -> Option<Process> {
        let mut running = self.running.lock();
        running.retain(|r| !r.task.is_finished());
        let awake: Vec<&Running> = running.iter().filter(|r| r.process.gate.life() == Life::Running).collect();
        let n = awake.len();
        let at = if n == 0 { return None } else { self.draw(|rng| rng.random_range(0..n)) };
        awake.get(at).map(|r| r.process.clone())
    }

    /// A process that is exposed, by its number, and what it is for.
    pub fn find(&self, number: u64) -> Option<(Process, Role)> {
        self.running.lock().iter().find(|r| r.process.number == number).map(|r| (r.process.clone(), r.role))
    }

    /// Kills a process; its requests may still be on their way.
    pub fn kill(&self, process: &Process) {
        process.gate.set(Life::Dead);
        let running = self.running.lock();
        running.iter().filter(|r| r.process.number == process.number).for_each(|r| r.task.abort());
        drop(running);
        self.buried(process);
    }

    /// The machine on which all processes run loses power: they are gone, and what was not synced may be.
    pub fn lose_power(&self) {
        let running = std::mem::take(&mut *self.running.lock());
        for Running { process, task, .. } in running {
            process.gate.set(Life::Dead);
            task.abort();
            self.model.lock().died(process.number, self.server.elapsed_ms());
        }
        self.server.lose_power();
    }

    /// What a process that is gone had under way takes effect soon or never.
    pub fn buried(&self, process: &Process) {
        process.gate.set(Life::Dead);
        let flight = u64::try_from(LONGEST_FLIGHT.as_millis()).unwrap_or(u64::MAX);
        self.model.lock().died(process.number, self.server.elapsed_ms() + flight);
    }

    /// A promise does not hold.
    pub fn violation(&self, what: String) {
        self.server.note(&format!("VIOLATION {what}"));
        self.violations.lock().push(what);
    }

    /// What did not hold.
    pub fn violations(&self) -> Vec<String> {
        self.violations.lock().clone()
    }

    /// Judges an error: of what may go wrong in such weather, and what may not.
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

    /// Whether an error names an object that was torn, taken away or put into the place of another.
    pub fn is_of_torn(&self, error: &Error) -> bool {
        let said = format!("{error:?}");
        let mut spoiled = self.server.torn().into_iter().chain(self.server.spoiled());
        spoiled.any(|key| said.contains(&key))
    }

    /// Judges what was seen of a table.
    pub fn saw(&self, what: &str, seen: &Seen) {
        if let Err(e) = self.model.lock().check(seen) {
            self.violation(format!("{what} from {} to {}: {e}", seen.begun, seen.ended));
        }
    }

    /// Judges rows by others that were seen of the same content.
    pub fn same(&self, what: &str, content: String, table: &str, digest: u64) {
        let first = *self.contents.lock().entry((content, table.to_owned())).or_insert(digest);
        if first != digest {
            self.violation(format!("{what}: {table} has other rows than before, of the same segments"));
        }
    }
}

/// The settings of a process: nothing in the background, merges of few files, one writer of the log or three.
pub fn config(process: u64) -> IngestConfig {
    // Rows are a second apart, and few.
    let rollup = RollupOptions { width_ms: 2_000, least_rows: 2, least_rows_per_bucket: 0 };
    let compact = CompactConfig { background: false, merge_files: 3, rollup, ..CompactConfig::default() };
    let writers = if process.is_multiple_of(3) { 3 } else { 1 };
    // Each batch of a bulk ingest is a segment of its own, and each group is put at once.
    IngestConfig {
        flush_interval_ms: Some(0),
        compact,
        writers: Some(writers),
        bulk_segment_bytes: 1,
        ..IngestConfig::default()
    }
}
