//! Verification of answers: integers exactly, floats to a relative 1e-9, columns by name, rows in the order that the
//! statement guarantees.

use crate::workload::Question;
use crate::workload::answer::{Answer, Column, Value};
use crate::workload::generate::{Device, Devices, FIRST_TS, GROUPS, STEP_MS};
use crate::workload::oracle::Oracle;
use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;

/// Largest relative difference of two floats that count as equal.
pub const TOLERANCE: f64 = 1e-9;

/// Numbers of correct and wrong answers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verified {
    /// Answers equal to the oracle's.
    pub right: u64,
    /// The others, each with its first difference.
    pub wrong: Vec<String>,
}

/// Compares a server's answer with the oracle's.
///
/// q1 and q3 are compared as sets of rows (q1 guarantees no order, q3 does not select its key), q2 and q4 in order.
///
/// # Errors
/// The first difference: which column, which row, what was expected and what was found.
pub fn verify(oracle: &Oracle, question: &Question, answer: &Answer) -> Result<()> {
    let context = || format!("{}: {}", question.name(), question.sql());
    if let Question::Q1 { group } = question {
        return verify_q1(oracle.devices(), *group, oracle.rows_of_group(*group), answer).with_context(context);
    }
    let (expected, found) = (oracle.answer(question), answer.clone());
    let (expected, found) = match question {
        Question::Q3 { .. } => (sorted(&expected), sorted(&found)),
        _ => (expected, found),
    };
    compare(&expected, &found).with_context(context)
}

/// Compares two answers: names, number of rows, and every value in order.
///
/// # Errors
/// The first difference.
pub fn compare(expected: &Answer, found: &Answer) -> Result<()> {
    if expected.names != found.names {
        bail!("columns differ: expected {:?}, found {:?}", expected.names, found.names);
    }
    if expected.rows() != found.rows() {
        bail!("number of rows: expected {}, found {}", expected.rows(), found.rows());
    }
    for ((name, expected), found) in expected.names.iter().zip(&expected.columns).zip(&found.columns) {
        for row in 0..expected.len() {
            let (want, have) = (expected.value(row), found.value(row));
            if !same(&want, &have) {
                bail!("column {name:?} row {row}: expected {want:?}, found {have:?}");
            }
        }
    }
    Ok(())
}

/// Summary of q1's answer that adapters report instead of its rows: the number of rows and the sums of four columns.
pub fn sums_of_q1(oracle: &Oracle, group: u32) -> Answer {
    let set = oracle.devices();
    let (mut count, mut ts, mut temperature, mut humidity, mut devids) = (0, 0, 0, 0.0, 0);
    for devid in set.ids().filter(|devid| devid % GROUPS == group) {
        for row in set.rows(devid) {
            count += 1;
            ts += row.ts;
            temperature += i64::from(row.temperature);
            humidity += f64::from(row.humidity);
            devids += i64::from(devid);
        }
    }
    let int = |value| Column::Int(vec![Some(value)]);
    Answer {
        names: ["count", "ts", "temperature", "humidity", "devid"].map(str::to_owned).to_vec(),
        columns: vec![int(count), int(ts), int(temperature), Column::Float(vec![Some(humidity)]), int(devids)],
    }
}

/// Equal, or floats within the tolerance. A float that happens to be whole may arrive as an integer (JSON has one kind of
/// number), an integer never as a float.
fn same(expected: &Value, found: &Value) -> bool {
    match (expected, found) {
        (Value::Float(a), Value::Float(b)) => close(*a, *b),
        (Value::Float(a), Value::Int(b)) => close(*a, *b as f64),
        (a, b) => a == b,
    }
}

fn close(a: f64, b: f64) -> bool {
    a == b || (a - b).abs() <= TOLERANCE * a.abs().max(b.abs())
}

/// Sorts the rows, for answers without a guaranteed order.
fn sorted(answer: &Answer) -> Answer {
    let mut order: Vec<usize> = (0..answer.rows()).collect();
    order.sort_by(|&a, &b| {
        let pairs = answer.columns.iter().map(|column| compare_values(&column.value(a), &column.value(b)));
        pairs.fold(Ordering::Equal, Ordering::then)
    });
    let columns = answer
        .columns
        .iter()
        .map(|column| match column {
            Column::Int(values) => Column::Int(order.iter().map(|&row| values[row]).collect()),
            Column::Float(values) => Column::Float(order.iter().map(|&row| values[row]).collect()),
            Column::Text(values) => Column::Text(order.iter().map(|&row| values[row].clone()).collect()),
        })
        .collect();
    Answer { names: answer.names.clone(), columns }
}

fn compare_values(a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::Int(a), Value::Int(b)) => a.cmp(b),
        (Value::Float(a), Value::Float(b)) => a.total_cmp(b),
        (Value::Text(a), Value::Text(b)) => a.cmp(b),
        (Value::Null, Value::Null) => Ordering::Equal,
        (Value::Null, _) => Ordering::Less,
        (_, Value::Null) => Ordering::Greater,
        _ => Ordering::Equal,
    }
}

/// Checks that every row of the group occurs once and equals the generator's, in any order.
fn verify_q1(set: &Devices, group: u32, rows: u64, answer: &Answer) -> Result<()> {
    let expected = ["ts", "temperature", "humidity", "devid", "devname", "devgroup"];
    if rows == 0 && answer.rows() == 0 {
        return Ok(());
    }
    if answer.names != expected {
        bail!("columns differ: expected {expected:?}, found {:?}", answer.names);
    }
    if answer.rows() as u64 != rows {
        bail!("number of rows: expected {rows}, found {}", answer.rows());
    }
    let mut seen = vec![false; answer.rows()];
    for row in 0..answer.rows() {
        let values = answer.row(row);
        let (Value::Int(ts), Value::Int(devid)) = (&values[0], &values[3]) else {
            bail!("row {row}: expected a time and a device id, found {values:?}");
        };
        let devid = u32::try_from(*devid).ok().filter(|devid| set.ids().contains(devid) && devid % GROUPS == group);
        let devid = devid.with_context(|| format!("row {row}: no device of group {group}: {values:?}"))?;
        let number = (ts - FIRST_TS).div_euclid(STEP_MS);
        let number = usize::try_from(number).ok().filter(|&number| number < set.rows as usize);
        let number = number.with_context(|| format!("row {row}: time outside the data: {values:?}"))?;
        let want = set.row(devid, number as u32);
        let device = Device::numbered(devid);
        let want = [
            Value::Int(want.ts),
            Value::Int(i64::from(want.temperature)),
            Value::Float(f64::from(want.humidity)),
            Value::Int(i64::from(devid)),
            Value::Text(device.devname),
            Value::Int(i64::from(device.devgroup)),
        ];
        if !want.iter().zip(&values).all(|(want, have)| same(want, have)) {
            bail!("row {row}: expected {want:?}, found {values:?}");
        }
        // Devices of a group are `GROUPS` apart, so this numbers them 0, 1, 2, … (group 0 begins with device 100).
        let nth = (devid - if group == 0 { GROUPS } else { group }) / GROUPS;
        let place = &mut seen[nth as usize * set.rows as usize + number];
        if std::mem::replace(place, true) {
            bail!("row {row}: duplicate of its device and time: {values:?}");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
