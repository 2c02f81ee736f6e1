//! Runs seeds of the simulation, as many as one likes.

use std::collections::BTreeMap;

use clap::Parser;
use tidelake_simulation::run::run;

/// Runs the simulation with one seed after another and prints what befell it.
#[derive(Debug, Parser)]
struct Arguments {
    /// How many seeds.
    #[arg(long, default_value_t = 100)]
    seeds: u64,
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Only this seed, with everything that happens, line by line.
    #[arg(long)]
    seed: Option<u64>,
    /// Stop at the first violation.
    #[arg(long)]
    stop: bool,
}

#[expect(clippy::print_stdout, reason = "the report of the command")]
fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let seeds = match arguments.seed {
        Some(seed) => seed..=seed,
        None => arguments.from..=arguments.from + arguments.seeds.max(1) - 1,
    };
    let (mut faults, mut failed, mut runs, mut requests) = (BTreeMap::<&str, u64>::new(), 0_u64, 0_u64, 0_u64);
    let (mut writes, mut operations) = ((0, 0, 0), 0);
    for seed in seeds {
        let report = run(seed, arguments.seed.is_some())?;
        report.lines.iter().for_each(|line| println!("{line}"));
        for violation in report.violations.iter().take(3) {
            println!("seed {seed}: {violation}");
        }
        failed += u64::from(!report.violations.is_empty());
        runs += 1;
        operations += report.operations;
        requests += report.requests;
        writes = (writes.0 + report.writes.0, writes.1 + report.writes.1, writes.2 + report.writes.2);
        report.faults.into_iter().for_each(|(name, n)| *faults.entry(name).or_default() += n);
        if failed > 0 && arguments.stop {
            break;
        }
        if arguments.seed.is_some() {
            println!("trace {:016x}", report.trace);
        }
    }
    faults.into_iter().for_each(|(name, n)| println!("{n:>10} {name}"));
    println!(
        "{requests:>10} requests, of writes {} acknowledged, {} refused, {} unknown",
        writes.0, writes.1, writes.2
    );
    println!("{operations:>10} operations");
    println!("{runs} runs, {failed} with violations");
    anyhow::ensure!(failed == 0, "promises do not hold");
    Ok(())
}
