//! Fuzzes all targets, or the named ones, for a given time each.

use std::time::Duration;

use clap::Parser;

#[derive(Parser)]
struct Arguments {
    /// Seconds per target.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Seed of every target.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only these targets.
    targets: Vec<String>,
}

#[expect(clippy::print_stdout, reason = "a person started this and waits for its result")]
fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    for target in tidelake_fuzz::targets()? {
        if arguments.targets.is_empty() || arguments.targets.iter().any(|name| name == target.name) {
            let time = Duration::from_secs(arguments.seconds);
            let fuzzed = tidelake_fuzz::fuzz(&target, arguments.seed, time, u64::MAX)?;
            println!("{:<14} {:>10} inputs, {:>9} accepted", target.name, fuzzed.inputs, fuzzed.accepted);
        }
    }
    Ok(())
}
