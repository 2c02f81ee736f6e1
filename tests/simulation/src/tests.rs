#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::collections::BTreeMap;

use crate::run::run;

#[test]
fn one_seed_replays_a_run_exactly_also_beside_others() {
    let first = run(7, false).unwrap();
    assert!(first.events.requests > 200);
    let threads: Vec<_> = [7, 8].into_iter().map(|seed| std::thread::spawn(move || run(seed, false))).collect();
    for report in threads.into_iter().map(|t| t.join().unwrap().unwrap()).filter(|r| r.seed == 7) {
        let (a, b) = (&first.events, &report.events);
        assert_eq!((a.trace, a.requests, &a.faults, &a.deeds), (b.trace, b.requests, &b.faults, &b.deeds));
    }
}

/// Seeds with rare combinations of faults: each violates a guarantee if a guard is removed, as `mutations` does.
const RARE: [u64; 2] = [7, 3_442_863_446];

#[test]
fn promises_hold_in_fixed_and_fresh_runs() {
    let fresh: u64 = rand::random::<u32>().into();
    println!("fresh seeds from {fresh}");
    let mut faults = BTreeMap::<&str, u64>::new();
    for seed in (0..2).chain(RARE).chain(fresh..fresh + 2) {
        let report = run(seed, false).unwrap();
        assert!(report.violations.is_empty(), "seed {seed}: {:#?}", report.violations);
        report.events.faults.into_iter().for_each(|(name, n)| *faults.entry(name).or_default() += n);
    }
    println!("{faults:#?}");
}
