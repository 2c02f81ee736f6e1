#![allow(clippy::unwrap_used)]

use super::*;
use crate::workload::{Function, all_queries};

fn oracle() -> Oracle {
    Oracle::new(Devices { devices: 210, rows: 130, seed: 4 })
}

/// The rows of an answer from last to first.
fn reversed(answer: &Answer) -> Answer {
    let columns = answer
        .columns
        .iter()
        .map(|column| match column.clone() {
            Column::Int(values) => Column::Int(values.into_iter().rev().collect()),
            Column::Float(values) => Column::Float(values.into_iter().rev().collect()),
            Column::Text(values) => Column::Text(values.into_iter().rev().collect()),
        })
        .collect();
    Answer { names: answer.names.clone(), columns }
}

#[test]
fn right_answers_pass_in_any_order_that_the_statement_allows() {
    let oracle = oracle();
    for question in all_queries(&[0, 7], &[10, 100]) {
        let answer = oracle.answer(&question);
        verify(&oracle, &question, &answer).unwrap();
        let backwards = verify(&oracle, &question, &reversed(&answer));
        assert_eq!(backwards.is_ok(), !matches!(question, Question::Q4 { .. }), "{question:?}");
    }
}

#[test]
fn any_wrong_value_is_found_and_named() {
    let oracle = oracle();
    for question in all_queries(&[0, 7], &[10, 100]) {
        let right = oracle.answer(&question);
        for column in 0..right.columns.len() {
            let mut wrong = right.clone();
            let row = right.rows() / 2;
            match &mut wrong.columns[column] {
                Column::Int(values) => values[row] = values[row].map(|value| value + 1),
                Column::Float(values) => values[row] = values[row].map(|value| value * (1.0 + 1e-8) + 1e-6),
                Column::Text(values) => values[row] = Some("else".into()),
            }
            let error = format!("{:#}", verify(&oracle, &question, &wrong).unwrap_err());
            let reasons = ["expected", "second", "outside the data", "no device of group"];
            assert!(reasons.iter().any(|reason| error.contains(reason)), "{error}");
            assert!(error.contains(&question.sql()), "{error}");
        }
        let mut renamed = right.clone();
        renamed.names[0] = "other".into();
        assert!(verify(&oracle, &question, &renamed).is_err());
    }
}

#[test]
fn a_missing_and_a_repeated_row_of_q1_are_found() {
    let oracle = oracle();
    let question = Question::Q1 { group: 7 };
    let right = oracle.answer(&question);
    let pick = |rows: &[usize]| Answer {
        names: right.names.clone(),
        columns: (right.columns.iter())
            .map(|column| match column {
                Column::Int(values) => Column::Int(rows.iter().map(|&row| values[row]).collect()),
                Column::Float(values) => Column::Float(rows.iter().map(|&row| values[row]).collect()),
                Column::Text(values) => Column::Text(rows.iter().map(|&row| values[row].clone()).collect()),
            })
            .collect(),
    };
    let all: Vec<usize> = (0..right.rows()).collect();
    assert!(verify(&oracle, &question, &pick(&all)).is_ok());
    assert!(verify(&oracle, &question, &pick(&all[1..])).is_err());
    let mut twice = all.clone();
    twice[0] = 1;
    let error = format!("{:#}", verify(&oracle, &question, &pick(&twice)).unwrap_err());
    assert!(error.contains("duplicate of its device and time"), "{error}");
}

#[test]
fn floats_may_differ_by_a_billionth_and_integers_by_nothing() {
    let answer = |value: Column| Answer { names: vec!["a".into()], columns: vec![value] };
    let float = |value: f64| answer(Column::Float(vec![Some(value)]));
    compare(&float(1e6), &float(1e6 + 0.9e-3)).unwrap();
    assert!(compare(&float(1e6), &float(1e6 + 1.1e-3)).is_err());
    compare(&float(3.0), &answer(Column::Int(vec![Some(3)]))).unwrap();
    assert!(compare(&answer(Column::Int(vec![Some(3)])), &float(3.0)).is_err());
    let count = Question::Q2 { function: Function::Count, percent: 100 };
    let oracle = oracle();
    let float_count = Answer { names: vec!["count(*)".into()], columns: vec![Column::Float(vec![Some(27300.0)])] };
    assert!(verify(&oracle, &count, &float_count).is_err());
}
