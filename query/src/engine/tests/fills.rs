//! FILL over tables, with every level and every form of a time range.

use std::{collections::BTreeMap, sync::Arc};

use arrow::array::{ArrayRef, RecordBatch, TimestampMillisecondArray};
use futures::TryStreamExt as _;

use super::{World, engine, lines, lines_in, session, shown, world::START};
use crate::{
    engine::Outcome,
    session::{Levels, Session},
};

#[tokio::test]
async fn gaps_are_filled_alike_for_every_level_and_form_of_bound() {
    const WIDTH: i64 = 5_000;
    for seed in 0..8 {
        let world = World::random(seed).await;
        let engine = engine(&world);
        let select =
            "select cast(_wstart as bigint), count(*) from t where ts >= {} and ts < {} interval(5s) fill(value, 0)";
        let of = |from: &str, to: &str| select.replacen("{}", from, 1).replacen("{}", to, 1);
        let prepared = engine.prepare(&session(), &of("?", "?")).await.unwrap();
        for (from, to) in [(-7, 3), (2, 17), (10, 60), (38, 41), (100, 200)] {
            let (from, to) = (START + from * 1_000, START + to * 1_000);
            let mut windows = BTreeMap::<i64, usize>::new();
            for (_, ts) in world.rows.keys().filter(|(_, ts)| (from..to).contains(ts)) {
                *windows.entry(ts.div_euclid(WIDTH) * WIDTH).or_default() += 1;
            }
            let first = from.div_euclid(WIDTH) * WIDTH;
            let starts = (0..).map(|k| first + k * WIDTH).take_while(|start| *start < to && !windows.is_empty());
            let expected: Vec<String> =
                starts.map(|start| format!("{start}|{}", windows.get(&start).copied().unwrap_or(0))).collect();

            let sql = of(&from.to_string(), &to.to_string());
            assert_eq!(lines(&engine, &sql).await, expected, "seed {seed}: {sql}");
            let from_rows = Session { levels: Levels::NONE, ..session() };
            assert_eq!(lines_in(&engine, &from_rows, &sql).await, expected, "seed {seed}: {sql}");
            let values = [("1", from), ("2", to)]
                .map(|(name, ms)| (name, Arc::new(TimestampMillisecondArray::from(vec![ms])) as ArrayRef));
            let values = RecordBatch::try_from_iter(values).unwrap();
            let Outcome::Rows(rows) = engine.run(&session(), &prepared, Some(values)).await.unwrap() else {
                panic!("rows")
            };
            let rows: Vec<RecordBatch> = rows.try_collect().await.unwrap();
            assert_eq!(shown(&rows), expected, "seed {seed}, prepared: {sql}");
        }
    }
}
