//! Answers computed by plain loops over the generator's rows, one host after the other.

use std::collections::BTreeMap;

use super::{FIELDS, STEP_MS, Tsbs, Values};
use crate::workload::answer::{Answer, Column, Value};

/// Sums of one group of rows.
#[derive(Debug, Clone, Copy)]
pub(super) struct Group {
    pub(super) count: i64,
    pub(super) sums: [i64; FIELDS.len()],
    pub(super) greatest: Values,
    pub(super) least: Values,
}

impl Group {
    const EMPTY: Self =
        Self { count: 0, sums: [0; FIELDS.len()], greatest: [0; FIELDS.len()], least: [u8::MAX; FIELDS.len()] };

    fn add(&mut self, values: &Values) {
        self.count += 1;
        for (at, value) in values.iter().enumerate() {
            self.sums[at] += i64::from(*value);
            self.greatest[at] = self.greatest[at].max(*value);
            self.least[at] = self.least[at].min(*value);
        }
    }

    /// Average of a field.
    pub(super) fn mean(&self, field: usize) -> Value {
        Value::Float(self.sums[field] as f64 / self.count as f64)
    }
}

/// Groups by a number that depends on the row, and a text that depends on the host.
pub(super) type Groups = BTreeMap<(i64, String), Group>;

/// Groups the rows of some hosts (all if `hosts` is empty): `text` is a tag of the host or nothing; `number` returns the number
/// of a row's group from its time and values, or nothing for a row without a group.
pub(super) fn group(
    set: &Tsbs,
    hosts: &[u32],
    tag: Option<usize>,
    number: impl Fn(i64, &Values) -> Option<i64>,
) -> Groups {
    let mut groups = Groups::new();
    let all: Vec<u32> = if hosts.is_empty() { (0..set.hosts).collect() } else { hosts.to_vec() };
    for host in all {
        let text = tag.map_or(String::new(), |tag| set.tags(host)[tag].clone());
        let mut of_host: BTreeMap<i64, Group> = BTreeMap::new();
        for (ts, values) in rows(set, host) {
            if let Some(number) = number(ts, &values) {
                of_host.entry(number).or_insert(Group::EMPTY).add(&values);
            }
        }
        for (number, more) in of_host {
            groups.entry((number, text.clone())).and_modify(|group| group.merge(&more)).or_insert(more);
        }
    }
    groups
}

impl Group {
    fn merge(&mut self, other: &Self) {
        self.count += other.count;
        for at in 0..FIELDS.len() {
            self.sums[at] += other.sums[at];
            self.greatest[at] = self.greatest[at].max(other.greatest[at]);
            self.least[at] = self.least[at].min(other.least[at]);
        }
    }
}

/// The rows of a host with their times.
pub(super) fn rows(set: &Tsbs, host: u32) -> impl Iterator<Item = (i64, Values)> {
    let first = set.ts(0);
    set.rows(host).into_iter().enumerate().map(move |(step, values)| (first + step as i64 * STEP_MS, values))
}

/// An answer from its rows, with columns that are named by their places.
pub(super) fn table(rows: impl IntoIterator<Item = Vec<Value>>) -> Answer {
    let mut columns: Vec<Column> = Vec::new();
    for row in rows {
        if columns.is_empty() {
            columns = row.iter().map(empty).collect();
        }
        for (column, value) in columns.iter_mut().zip(row) {
            match (column, value) {
                (Column::Int(values), Value::Int(value)) => values.push(Some(value)),
                (Column::Float(values), Value::Float(value)) => values.push(Some(value)),
                (Column::Text(values), Value::Text(value)) => values.push(Some(value)),
                (Column::Int(values), _) => values.push(None),
                (Column::Float(values), _) => values.push(None),
                (Column::Text(values), _) => values.push(None),
            }
        }
    }
    Answer { names: (0..columns.len()).map(|at| at.to_string()).collect(), columns }
}

fn empty(value: &Value) -> Column {
    match value {
        Value::Int(_) | Value::Null => Column::Int(Vec::new()),
        Value::Float(_) => Column::Float(Vec::new()),
        Value::Text(_) => Column::Text(Vec::new()),
    }
}
