//! The expected answers to q1–q4, computed from the generator's rows by plain loops.
//!
//! Independent of any engine, Arrow kernel and server code, so that agreement is meaningful.

use crate::workload::answer::{Answer, Column};
use crate::workload::generate::{Device, Devices, GROUPS};
use crate::workload::{Function, Question};
use std::{collections::BTreeMap, ops::Range};

/// One minute, the bucket of q4, in milliseconds.
const MINUTE_MS: i64 = 60_000;

/// Aggregates of a set of rows for q2–q4.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cell {
    /// Number of rows.
    pub count: i64,
    /// Sum of the temperatures.
    pub sum: i64,
    /// Lowest temperature.
    pub min: i64,
    /// Highest temperature.
    pub max: i64,
}

impl Cell {
    const EMPTY: Cell = Cell { count: 0, sum: 0, min: i64::MAX, max: i64::MIN };

    fn add(self, other: Cell) -> Cell {
        Cell {
            count: self.count + other.count,
            sum: self.sum + other.sum,
            min: self.min.min(other.min),
            max: self.max.max(other.max),
        }
    }

    fn avg(self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }

    fn non_empty(self, value: i64) -> Option<i64> {
        (self.count > 0).then_some(value)
    }
}

/// Computes answers over one data set. Construction reads every row once; answers are then cheap, except q1.
#[derive(Debug, Clone)]
pub struct Oracle {
    set: Devices,
    /// By (group, start of the minute).
    cells: BTreeMap<(u32, i64), Cell>,
}

impl Oracle {
    /// Reads the whole data set: about a second for 1e8 rows.
    pub fn new(set: Devices) -> Self {
        Self::within(set, i64::MIN..i64::MAX)
    }

    /// Creates an oracle of the rows in a half-open time range, in milliseconds since 1970; not for q1.
    pub fn within(set: Devices, span: Range<i64>) -> Self {
        let mut cells = BTreeMap::new();
        let mut rows = Vec::new();
        for devid in set.ids() {
            rows.clear();
            set.extend(devid, 0..set.rows, &mut rows);
            rows.retain(|row| span.contains(&row.ts));
            for same_minute in rows.chunk_by(|a, b| a.ts.div_euclid(MINUTE_MS) == b.ts.div_euclid(MINUTE_MS)) {
                let minute = same_minute[0].ts.div_euclid(MINUTE_MS) * MINUTE_MS;
                let cell = cells.entry((devid % GROUPS, minute)).or_insert(Cell::EMPTY);
                for row in same_minute {
                    let value = i64::from(row.temperature);
                    *cell = cell.add(Cell { count: 1, sum: value, min: value, max: value });
                }
            }
        }
        Self { set, cells }
    }

    /// The data set.
    pub fn devices(&self) -> &Devices {
        &self.set
    }

    fn fold<K: Ord>(&self, percent: u32, key: impl Fn(u32, i64) -> K) -> BTreeMap<K, Cell> {
        let mut folded = BTreeMap::new();
        for (&(group, minute), &cell) in self.cells.iter().filter(|((group, _), _)| *group < percent) {
            let entry = folded.entry(key(group, minute)).or_insert(Cell::EMPTY);
            *entry = entry.add(cell);
        }
        folded
    }

    /// Count, sum, lowest and highest temperature of the groups below `percent`; `None` without rows.
    pub fn total(&self, percent: u32) -> Option<Cell> {
        self.fold(percent, |_, _| ()).into_values().next()
    }

    /// The same for each group below `percent` that has rows.
    pub fn by_group(&self, percent: u32) -> BTreeMap<u32, Cell> {
        self.fold(percent, |group, _| group)
    }

    /// The same for each minute (its start, in milliseconds since 1970) that has rows, over the groups below `percent`.
    pub fn by_minute(&self, percent: u32) -> BTreeMap<i64, Cell> {
        self.fold(percent, |_, minute| minute)
    }

    /// Number of rows of q1's answer for a group.
    pub fn rows_of_group(&self, group: u32) -> u64 {
        let devices = self.set.ids().filter(|devid| devid % GROUPS == group).count() as u64;
        devices * u64::from(self.set.rows)
    }

    /// The answer to a question, with TDengine's column names and types. Rows of q1 are ordered by (devid, ts), of q3 by
    /// group, of q4 by minute.
    pub fn answer(&self, question: &Question) -> Answer {
        match question {
            Question::Q1 { group } => self.q1(*group),
            Question::Q2 { function, percent } => {
                let cell = self.total(*percent).unwrap_or(Cell::EMPTY);
                let column = match function {
                    Function::Count => Column::Int(vec![Some(cell.count)]),
                    Function::Avg => Column::Float(vec![cell.avg()]),
                    Function::Sum => Column::Int(vec![cell.non_empty(cell.sum)]),
                    Function::Max => Column::Int(vec![cell.non_empty(cell.max)]),
                    Function::Min => Column::Int(vec![cell.non_empty(cell.min)]),
                    Function::Spread => {
                        Column::Float(vec![(cell.count > 0).then_some(cell.max as f64 - cell.min as f64)])
                    }
                };
                Answer { names: vec![function.select()], columns: vec![column] }
            }
            Question::Q3 { percent } => three(self.by_group(*percent).into_values()),
            Question::Q4 { percent } => three(self.by_minute(*percent).into_values()),
        }
    }

    fn q1(&self, group: u32) -> Answer {
        let (mut ts, mut temperature, mut humidity) = (Vec::new(), Vec::new(), Vec::new());
        let (mut devids, mut names, mut groups) = (Vec::new(), Vec::new(), Vec::new());
        for devid in self.set.ids().filter(|devid| devid % GROUPS == group) {
            let device = Device::numbered(devid);
            for row in self.set.rows(devid) {
                ts.push(Some(row.ts));
                temperature.push(Some(i64::from(row.temperature)));
                humidity.push(Some(f64::from(row.humidity)));
                devids.push(Some(i64::from(devid)));
                names.push(Some(device.devname.clone()));
                groups.push(Some(i64::from(device.devgroup)));
            }
        }
        Answer {
            names: ["ts", "temperature", "humidity", "devid", "devname", "devgroup"].map(str::to_owned).to_vec(),
            columns: vec![
                Column::Int(ts),
                Column::Int(temperature),
                Column::Float(humidity),
                Column::Int(devids),
                Column::Text(names),
                Column::Int(groups),
            ],
        }
    }
}

/// The three columns of q3 and q4.
fn three(cells: impl Iterator<Item = Cell>) -> Answer {
    let cells: Vec<Cell> = cells.collect();
    Answer {
        names: ["count(temperature)", "sum(temperature)", "avg(temperature)"].map(str::to_owned).to_vec(),
        columns: vec![
            Column::Int(cells.iter().map(|cell| Some(cell.count)).collect()),
            Column::Int(cells.iter().map(|cell| Some(cell.sum)).collect()),
            Column::Float(cells.iter().map(|cell| cell.avg()).collect()),
        ],
    }
}

#[cfg(test)]
mod tests;
