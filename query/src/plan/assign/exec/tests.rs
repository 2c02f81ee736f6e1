#![allow(clippy::unwrap_used)]

use arrow::array::{StringArray, TimestampMillisecondArray};
use chrono_tz::Tz;
use datafusion::{
    arrow::datatypes::TimeUnit,
    catalog::memory::MemorySourceConfig,
    physical_plan::{collect, common::collect as collect_stream},
    prelude::SessionContext,
};
use rand::{Rng, SeedableRng, rngs::StdRng};
use tidelake_protocol::sql::Duration;

use super::*;
use crate::{plan::Windows, sizes::batch_bytes};

/// A node over one batch of times, some of them null, and texts.
fn node(times: &[Option<i64>], texts: &[String], width: &str, offset: &str, step: &str) -> Arc<AssignWindowsExec> {
    let times: ArrayRef = Arc::new(TimestampMillisecondArray::from(times.to_vec()));
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values(texts));
    let batch = RecordBatch::try_from_iter_with_nullable([("ts", times, true), ("s", texts, true)]).unwrap();
    let schema = batch.schema();
    let input = MemorySourceConfig::try_new_exec(&[vec![batch]], schema, None).unwrap();
    let [width, offset, step] = [width, offset, step].map(|text| Duration::parse(text).unwrap());
    let starts = Windows { width, offset, step, zone: Tz::UTC }.of_unit(TimeUnit::Millisecond).unwrap();
    Arc::new(AssignWindowsExec::try_new(input, 0, starts).unwrap())
}

/// Text and window start of each row.
fn rows(batches: &[RecordBatch]) -> Vec<(String, i64)> {
    let of = |batch: &RecordBatch| -> Vec<(String, i64)> {
        let starts = cast(batch.column(2), &DataType::Int64).unwrap();
        let starts = starts.as_primitive::<Int64Type>().values().to_vec();
        batch.column(1).as_string::<i32>().iter().map(|text| text.unwrap().to_owned()).zip(starts).collect()
    };
    batches.iter().flat_map(of).collect()
}

#[tokio::test]
async fn a_row_is_returned_once_per_window_that_contains_its_time() {
    let context = SessionContext::new();
    let mut rng = StdRng::seed_from_u64(1);
    for (width, offset, step) in [(10, 0, 4), (10, 7, 3), (7, 5, 2), (100, 0, 1), (5, 0, 5)] {
        let times: Vec<Option<i64>> =
            (0..200).map(|_| rng.random_bool(0.9).then(|| rng.random_range(-300..300))).collect();
        let texts: Vec<String> = (0..200).map(|n| format!("row {n}")).collect();
        let node = node(&times, &texts, &format!("{width}a"), &format!("{offset}a"), &format!("{step}a"));
        let found = rows(&collect(node, context.task_ctx()).await.unwrap());
        let mut expected = Vec::new();
        for (time, text) in times.iter().zip(&texts) {
            let holds = |start: &i64| {
                (start - offset).rem_euclid(step) == 0 && time.is_some_and(|t| *start <= t && t < start + width)
            };
            expected.extend((-500..500).filter(holds).map(|start| (text.clone(), start)));
        }
        assert_eq!(found, expected, "{width} {offset} {step}");
    }
}

#[tokio::test]
async fn copies_of_wide_rows_are_returned_in_small_batches() {
    let context = SessionContext::new();
    let texts: Vec<String> = (0..8).map(|n| n.to_string().repeat(100_000 * (n % 3) + 10)).collect();
    let times: Vec<Option<i64>> = (0..8).map(Some).collect();
    let node = node(&times, &texts, "999a", "0a", "1a");
    let longest = texts.iter().map(String::len).max().unwrap();
    let mut windows = 0;
    let mut batches = node.execute(0, context.task_ctx()).unwrap();
    while let Some(batch) = batches.next().await {
        let batch = batch.unwrap();
        windows += batch.num_rows();
        assert!(batch_bytes(&batch) < BATCH_BYTES as usize + longest + 64, "{} bytes", batch_bytes(&batch));
    }
    assert_eq!(windows, 8 * 999);
    // Narrow rows fill whole batches.
    let texts = vec!["x".to_owned(); 100];
    let narrow = self::node(&vec![Some(5); 100], &texts, "999a", "0a", "1a");
    let batches = collect_stream(narrow.execute(0, context.task_ctx()).unwrap()).await.unwrap();
    assert!(batches.len() < 20, "{} batches", batches.len());
}
