//! Queries over 1 000 000 rows in memory: planning, each level of aggregates, and tag filters.

use std::cell::Cell;

use anyhow::Result;
use criterion::{Criterion, Throughput};
use tidelake_benches::{DEVICES, ROWS, ask, engine, root};
use tidelake_format::access::Principal;
use tidelake_query::session::{Levels, Session};

fn main() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let root = runtime.block_on(root())?;
    let engine = engine(&root);
    let session = |levels| Session { database: Some("db".to_owned()), levels, ..Session::of(Principal::PROCESS) };
    let levels = Levels::default();
    let run = |levels, sql: &str| runtime.block_on(ask(&engine, &session(levels), sql));
    let mut criterion = Criterion::default().configure_from_args();

    let mut group = criterion.benchmark_group("planning");
    let drawn = Cell::new(0_u32);
    let next = || {
        drawn.set(drawn.get().wrapping_add(1));
        drawn.get()
    };
    let same = "select max(temperature) from devices where devid = 7 and ts >= 1563249700000 interval(1m)";
    run(levels, same)?;
    group.bench_function("the same text", |b| b.iter(|| run(levels, same)));
    let other = |b: &mut criterion::Bencher<'_>, literal: fn(u32) -> String| {
        b.iter(|| {
            let n = next();
            let (device, from) = (literal(n % DEVICES), 1_563_249_700_000 + i64::from(n % ROWS));
            let sql =
                format!("select max(temperature) from devices where devid = {device} and ts >= {from} interval(1m)");
            run(levels, &sql)
        });
    };
    group.bench_function("other literals", |b| other(b, |n| n.to_string()));
    // A literal in parentheses prevents sharing of a cached plan.
    group.bench_function("another text", |b| other(b, |n| format!("({n})")));
    group.finish();

    let mut group = criterion.benchmark_group("aggregates");
    group.throughput(Throughput::Elements(u64::from(DEVICES) * u64::from(ROWS))).sample_size(20);
    let scan = Levels { scan: true, ..Levels::NONE };
    let rollups = Levels { rollups: true, scan: true, ..Levels::NONE };
    for (name, levels) in [("none", Levels::NONE), ("scan", scan), ("rollups", rollups), ("all levels", levels)] {
        for (what, tail) in [("all rows", ""), ("by tag", " group by devgroup"), ("by minute", " interval(1m)")] {
            let sql = format!("select count(temperature), avg(temperature) from devices{tail}");
            run(levels, &sql)?;
            group.bench_function(format!("{what}, {name}"), |b| b.iter(|| run(levels, &sql)));
        }
    }
    group.finish();

    let mut group = criterion.benchmark_group("tag filters");
    for (what, filter) in [("one series", "devid = 7"), ("a tenth", "devgroup < 10"), ("a name", "tbname = 'dev7'")] {
        let sql = format!("select count(*) from devices where {filter}");
        run(levels, &sql)?;
        group.bench_function(what, |b| b.iter(|| run(levels, &sql)));
    }
    group.finish();
    criterion.final_summary();
    Ok(())
}
