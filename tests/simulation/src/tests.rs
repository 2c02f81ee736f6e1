#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::collections::BTreeMap;

use crate::run::run;

#[test]
fn one_seed_replays_a_run_exactly() {
    let (first, second) = (run(7, false).unwrap(), run(7, false).unwrap());
    assert!(first.requests > 200);
    assert_eq!((first.trace, first.requests, first.faults), (second.trace, second.requests, second.faults));
}

#[test]
fn promises_hold_in_fixed_and_fresh_runs() {
    let fresh: u64 = rand::random::<u32>().into();
    let mut faults = BTreeMap::<&str, u64>::new();
    for seed in (0..10).chain(fresh..fresh + 3) {
        let report = run(seed, false).unwrap();
        assert!(report.violations.is_empty(), "seed {seed}: {:#?}", report.violations);
        assert!(report.operations >= 200 && report.faults.values().sum::<u64>() >= 5, "seed {seed}");
        report.faults.into_iter().for_each(|(name, n)| *faults.entry(name).or_default() += n);
    }
    println!("fresh seeds from {fresh}: {faults:#?}");
}
