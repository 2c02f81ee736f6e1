//! Decoded pages that are kept for later queries.

use super::{world::World, *};

const QUERIES: [&str; 8] = [
    "select * from t",
    "select ts, a, tbname from t where g < 2",
    "select ts, b from t where (a between -5 and 9.5 or b is null) and g <> 1",
    "select ts, a, b from t where a > 3",
    "select count(*) from t where b < 2.5",
    "select g, sum(a), avg(b), max(b) from t where ts > 1600000011000 group by g",
    "select ts, c, tbname from t where ts >= 1600000007000 and ts < 1600000023000",
    "select ts, a from t where ts <= 1600000030000 order by ts desc limit 5",
];

fn without_pages(world: &World) -> Engine {
    let snapshots = Arc::new(SnapshotReader::new(world.root.clone(), SnapshotOptions::default()));
    let config = EngineConfig { page_bytes: 0, ..EngineConfig::default() };
    Engine::new(world.root.clone(), snapshots, Arc::new(ReadOnlyWriter), config)
}

#[tokio::test]
async fn queries_answer_from_pages_in_memory_what_they_answer_from_files() {
    let mut held = 0;
    for seed in 0..10 {
        let world = World::random(seed).await;
        let (none, some) = (without_pages(&world), engine(&world));
        for run in 0..4 {
            for sql in QUERIES {
                assert_eq!(lines(&some, sql).await, lines(&none, sql).await, "seed {seed}, run {run}: {sql}");
            }
        }
        assert_eq!(none.page_bytes(), 0);
        held += some.page_bytes();
    }
    assert!(held > 10_000, "{held} bytes");
}
