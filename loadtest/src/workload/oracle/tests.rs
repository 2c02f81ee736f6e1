#![allow(clippy::unwrap_used)]

use super::*;
use crate::workload::{Q1_GROUPS, all_queries};

/// All rows of a set with their device's group.
fn rows(set: &Devices) -> Vec<(u32, crate::Row)> {
    set.ids().flat_map(|devid| set.rows(devid).into_iter().map(move |row| (devid % 100, row))).collect()
}

fn avg(values: &[i32]) -> f64 {
    values.iter().map(|&v| f64::from(v)).sum::<f64>() / values.len() as f64
}

#[test]
fn every_answer_equals_a_second_computation_row_by_row() {
    let set = Devices { devices: 250, rows: 150, seed: 9 };
    let (oracle, rows) = (Oracle::new(set), rows(&set));
    for percent in [1, 10, 50, 99, 100] {
        let chosen: Vec<i32> = rows.iter().filter(|(g, _)| *g < percent).map(|(_, row)| row.temperature).collect();
        let (low, high) = (*chosen.iter().min().unwrap(), *chosen.iter().max().unwrap());
        for function in Function::ALL {
            let expected = match function {
                Function::Count => Column::Int(vec![Some(chosen.len() as i64)]),
                Function::Avg => Column::Float(vec![Some(avg(&chosen))]),
                Function::Sum => Column::Int(vec![Some(chosen.iter().map(|&v| i64::from(v)).sum())]),
                Function::Max => Column::Int(vec![Some(i64::from(high))]),
                Function::Min => Column::Int(vec![Some(i64::from(low))]),
                Function::Spread => Column::Float(vec![Some(f64::from(high - low))]),
            };
            let answer = oracle.answer(&Question::Q2 { function, percent });
            assert_eq!(answer, Answer { names: vec![function.select()], columns: vec![expected] });
        }
        let mut minutes: Vec<i64> = rows.iter().map(|(_, row)| row.ts / 60_000).collect();
        minutes.sort_unstable();
        minutes.dedup();
        let q4 = oracle.answer(&Question::Q4 { percent });
        assert_eq!(q4.rows(), minutes.len());
        for (at, minute) in minutes.iter().enumerate() {
            let bucket = rows.iter().filter(|(g, row)| *g < percent && row.ts / 60_000 == *minute);
            let values: Vec<i32> = bucket.map(|(_, row)| row.temperature).collect();
            assert_eq!(q4.columns[0].value(at), crate::workload::answer::Value::Int(values.len() as i64));
            assert_eq!(q4.columns[2].value(at), crate::workload::answer::Value::Float(avg(&values)));
        }
        let q3 = oracle.answer(&Question::Q3 { percent });
        assert_eq!(q3.rows(), percent as usize);
        for group in 0..percent {
            let values: Vec<i32> = rows.iter().filter(|(g, _)| *g == group).map(|(_, row)| row.temperature).collect();
            let sum = values.iter().map(|&v| i64::from(v)).sum();
            assert_eq!(q3.columns[1].value(group as usize), crate::workload::answer::Value::Int(sum));
            assert_eq!(q3.columns[2].value(group as usize), crate::workload::answer::Value::Float(avg(&values)));
        }
    }
    for group in [0, 1, 99] {
        assert_eq!(oracle.answer(&Question::Q1 { group }).rows() as u64, oracle.rows_of_group(group));
    }
}

#[test]
fn no_rows_give_nulls_and_no_groups() {
    let oracle = Oracle::new(Devices { devices: 5, rows: 0, seed: 1 });
    for question in all_queries(&Q1_GROUPS, &[10, 100]) {
        let answer = oracle.answer(&question);
        match question {
            Question::Q2 { function: Function::Count, .. } => assert_eq!(answer.columns[0], Column::Int(vec![Some(0)])),
            Question::Q2 { .. } => assert_eq!(answer.row(0), [crate::workload::answer::Value::Null]),
            _ => assert_eq!(answer.rows(), 0),
        }
    }
}
