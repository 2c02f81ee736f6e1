//! Fuzzing on the stable toolchain: seeded mutations of a small corpus, for every parser and decoder that reads bytes
//! from outside. An input passes if its target returns, whatever the result: a panic or a timeout is a finding.
//!
//! `corpus/<target>/` holds seeds and the inputs of past finds; inputs of binary targets are made by the write path
//! itself. `cargo run -p tidelake-fuzz -- --seconds 60` runs for longer, `--seed` repeats a run exactly.

mod doors;
mod mutate;
mod targets;

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    path::PathBuf,
    time::{Duration, Instant},
};

use rand::{Rng, SeedableRng, rngs::StdRng};

pub use targets::{Target, targets};

/// Time limit for an input of a few kilobytes, in an unoptimized build on a busy machine.
const SLOW: Duration = Duration::from_secs(20);
/// Maximum length of an input, in bytes.
const LONGEST: usize = 64 << 10;

/// Counts of fuzzing one target.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Fuzzed {
    /// Inputs that ran.
    pub inputs: u64,
    /// Inputs that the target accepted.
    pub accepted: u64,
}

/// Runs the seeds of a target, then mutations of them until the time or number limit.
///
/// # Errors
/// An input that makes the target panic or take too long, written to a file that the message names.
pub fn fuzz(target: &Target, seed: u64, time: Duration, most: u64) -> anyhow::Result<Fuzzed> {
    let mut random = StdRng::seed_from_u64(seed);
    let mut pool = target.seeds.clone();
    let mut fuzzed = Fuzzed::default();
    for input in &target.seeds {
        fuzzed.accepted += u64::from(try_one(target, input)?);
        fuzzed.inputs += 1;
    }
    let until = Instant::now() + time;
    while fuzzed.inputs < most && Instant::now() < until {
        let mut input = pool[random.random_range(0..pool.len())].clone();
        for _ in 0..random.random_range(1..=4) {
            mutate::mutate(&mut input, &pool, &mut random);
        }
        input.truncate(LONGEST);
        let accepted = try_one(target, &input)?;
        fuzzed.inputs += 1;
        fuzzed.accepted += u64::from(accepted);
        // Accepted inputs reach deeper code.
        if accepted && pool.len() < 256 {
            pool.push(input);
        }
    }
    Ok(fuzzed)
}

/// Whether the target accepts an input.
fn try_one(target: &Target, input: &[u8]) -> anyhow::Result<bool> {
    let started = Instant::now();
    let found = match catch_unwind(AssertUnwindSafe(|| (target.run)(input))) {
        Ok(accepted) if started.elapsed() < SLOW => return Ok(accepted),
        Ok(_) => "took too long",
        Err(_) => "panicked",
    };
    let name = format!("tidelake-fuzz-{}-{:016x}", target.name, hash(input));
    let path = std::env::temp_dir().join(name);
    std::fs::write(&path, input)?;
    anyhow::bail!("{} {found}; the input is in {}", target.name, path.display())
}

fn hash(input: &[u8]) -> u64 {
    input.iter().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x100_0000_01b3))
}

/// The files of a target's corpus, by name.
fn corpus(target: &str) -> Vec<Vec<u8>> {
    let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    let mut paths: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    paths.iter().filter_map(|path| std::fs::read(path).ok()).collect()
}
