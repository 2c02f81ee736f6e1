//! Runs any number of seeds of the simulation.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Instant,
};

use clap::Parser;
use parking_lot::Mutex;
use tidelake_simulation::run::{Report, run};

/// Runs the simulation with consecutive seeds and prints the faults and results.
#[derive(Debug, Parser)]
struct Arguments {
    /// Number of seeds.
    #[arg(long, default_value_t = 100)]
    seeds: u64,
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Begin at a random seed, and print it.
    #[arg(long)]
    fresh: bool,
    /// Number of concurrent runs, each on its own thread.
    #[arg(long, default_value_t = 1)]
    jobs: usize,
    /// Run only this seed and print its trace.
    #[arg(long)]
    seed: Option<u64>,
    /// Stop at the first violation.
    #[arg(long)]
    stop: bool,
    /// Print the progress after each such number of seeds.
    #[arg(long, default_value_t = 1_000)]
    progress: u64,
}

#[derive(Default)]
struct Total {
    faults: BTreeMap<&'static str, u64>,
    deeds: BTreeMap<&'static str, u64>,
    writes: (usize, usize, usize),
    runs: u64,
    failed: u64,
    requests: u64,
    operations: u64,
    least: Option<(u64, u64)>,
}

impl Total {
    fn add(&mut self, report: &Report) {
        let events = &report.events;
        self.runs += 1;
        self.failed += u64::from(!report.violations.is_empty());
        self.operations += report.operations;
        self.requests += events.requests;
        let (a, b, c) = report.writes;
        self.writes = (self.writes.0 + a, self.writes.1 + b, self.writes.2 + c);
        events.faults.iter().for_each(|(name, n)| *self.faults.entry(name).or_default() += n);
        events.deeds.iter().for_each(|(name, n)| *self.deeds.entry(name).or_default() += n);
        let (operations, faults) = self.least.unwrap_or((u64::MAX, u64::MAX));
        self.least = Some((operations.min(report.operations), faults.min(events.faults.values().sum())));
    }

    #[expect(clippy::print_stdout, reason = "the report of the command")]
    fn print(&self, start: Instant) {
        println!("faults:");
        self.faults.iter().for_each(|(name, n)| println!("{n:>10} {name}"));
        println!("deeds:");
        self.deeds.iter().for_each(|(name, n)| println!("{n:>10} {name}"));
        let (acknowledged, refused, unknown) = self.writes;
        println!("{:>10} requests to the store", self.requests);
        println!("{acknowledged:>10} writes acknowledged, {refused} refused, {unknown} unknown");
        let (operations, faults) = self.least.unwrap_or_default();
        println!("{:>10} operations; at least {operations} operations and {faults} faults in a run", self.operations);
        let seconds = start.elapsed().as_secs_f64();
        println!("{} runs in {seconds:.0} s, {} with violations", self.runs, self.failed);
    }
}

#[expect(clippy::print_stdout, reason = "the report of the command")]
fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    if let Some(seed) = arguments.seed {
        let report = run(seed, true)?;
        report.events.lines.iter().for_each(|line| println!("{line}"));
        report.violations.iter().for_each(|violation| println!("seed {seed}: {violation}"));
        println!("trace {:016x}", report.events.trace);
        anyhow::ensure!(report.violations.is_empty(), "promises do not hold");
        return Ok(());
    }
    let from = if arguments.fresh { rand::random::<u32>().into() } else { arguments.from };
    println!("seeds {from} to {}", from + arguments.seeds - 1);
    let (start, next) = (Instant::now(), AtomicU64::new(from));
    let total = Mutex::new(Total::default());
    let work = || -> anyhow::Result<()> {
        loop {
            let seed = next.fetch_add(1, Relaxed);
            if seed >= from + arguments.seeds {
                return Ok(());
            }
            let report = run(seed, false)?;
            let mut total = total.lock();
            total.add(&report);
            for violation in report.violations.iter().take(3) {
                println!("seed {seed}: {}", violation.chars().take(2_000).collect::<String>());
            }
            if total.runs.is_multiple_of(arguments.progress.max(1)) {
                let seconds = start.elapsed().as_secs_f64();
                println!("{} runs, {} with violations, {seconds:.0} s", total.runs, total.failed);
            }
            if arguments.stop && !report.violations.is_empty() {
                // Immediately: if something is broken, another run may never end.
                total.print(start);
                std::process::exit(1);
            }
        }
    };
    std::thread::scope(|scope| -> anyhow::Result<()> {
        let threads: Vec<_> = (0..arguments.jobs.max(1)).map(|_| scope.spawn(work)).collect();
        for thread in threads {
            thread.join().map_err(|_| anyhow::anyhow!("a run panicked"))??;
        }
        Ok(())
    })?;
    let total = total.into_inner();
    total.print(start);
    anyhow::ensure!(total.failed == 0, "promises do not hold");
    Ok(())
}
