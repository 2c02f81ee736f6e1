//! The third data set: smart meters, as in TDengine's published measurements of writing with 1, 2, … processors.
//!
//! Every reading is a pure function of (seed, subtable, row number), as the thermohygrometers' rows are. Fractions are
//! drawn as hundredths, so that their text is exact and each is the single-precision number nearest to it.

use crate::workload::answer::{Answer, Value};
use crate::workload::generate::digits::{Backward, push_int};
use crate::workload::generate::random::{GAMMA, mix};
use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// The database.
pub const DATABASE: &str = "power";
/// The statement that creates the supertable, as the paper prints it.
pub const CREATE_SUPERTABLE: &str = "create table meters(ts timestamp, current float, voltage int, phase float) \
                                     tags(groupid int, location binary(24));";
/// Counts and sums of each subtable: a subtable has a group of its own.
pub const SUMS: &str = "select groupid, count(*) as n, sum(current) as current, sum(voltage) as voltage, \
                        sum(phase) as phase from power.meters group by groupid order by groupid";
/// Time of every first reading, in milliseconds since 1970.
const FIRST_TS: i64 = 1_500_000_000_000;
/// Time between two readings of a meter, in milliseconds.
const STEP_MS: i64 = 1_000;

/// TDengine's published rows per second with 1, 2, … 6 and 12 processors, and MB/s written to disk.
const PUBLISHED: [(usize, u64, u64); 7] = [
    (1, 380_000, 13),
    (2, 880_000, 36),
    (3, 1_480_000, 45),
    (4, 1_930_000, 60),
    (5, 2_450_000, 73),
    (6, 2_880_000, 85),
    (12, 5_730_000, 167),
];

const LOCATIONS: [&str; 5] = [
    "California.SanFrancisco",
    "California.LosAngles",
    "California.SanDiego",
    "California.SanJose",
    "California.PaloAlto",
];

/// Write protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Form {
    /// TDengine statements of many rows, `POST /rest/sql/power`.
    #[value(name = "tdengine")]
    TdEngine,
    /// InfluxDB line protocol, `POST /write`.
    Line,
}

impl Form {
    /// The name in settings and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::TdEngine => "tdengine",
            Self::Line => "line",
        }
    }

    /// Path and query of a request.
    pub fn target(self) -> String {
        match self {
            Self::TdEngine => format!("/rest/sql/{DATABASE}"),
            Self::Line => format!("/write?db={DATABASE}&precision=ms"),
        }
    }
}

/// A data set: `subtables` × `rows`, chosen by `seed`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meters {
    /// Number of meters; their groups are 1..=subtables.
    pub subtables: u32,
    /// Readings per meter.
    pub rows: u32,
    /// Random seed: equal seeds give equal rows.
    pub seed: u64,
}

/// One reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    /// Milliseconds since 1970.
    pub ts: i64,
    /// Hundredths of an ampere, 800..1300.
    pub current: i32,
    /// Volts, 210..230.
    pub voltage: i32,
    /// Hundredths, 0..100.
    pub phase: i32,
}

fn fraction(hundredths: i32) -> f32 {
    // Both are exact in single precision, and a quotient is rounded to the nearest.
    hundredths as f32 / 100.0
}

impl Meters {
    /// Rows in all.
    pub fn len(&self) -> u64 {
        u64::from(self.subtables) * u64::from(self.rows)
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One reading of a meter (1..=subtables).
    pub fn reading(&self, subtable: u32, number: u32) -> Reading {
        let key = mix(mix(self.seed.wrapping_add(GAMMA)) ^ u64::from(subtable).wrapping_mul(GAMMA));
        let bits = mix(key.wrapping_add(GAMMA.wrapping_mul(u64::from(number) + 1)));
        let uniform = |shift: u32, n: u64| ((((bits >> shift) & 0xf_ffff) * n) >> 20) as i32;
        Reading {
            ts: FIRST_TS + i64::from(number) * STEP_MS,
            current: 800 + uniform(0, 500),
            voltage: 210 + uniform(20, 20),
            phase: uniform(40, 100),
        }
    }

    /// Compares the answer to [`SUMS`] with the generator's rows.
    ///
    /// # Errors
    /// The first difference.
    pub fn check(&self, answer: &Answer) -> Result<()> {
        let subtables = self.subtables as usize;
        ensure!(answer.rows() == subtables, "expected {subtables} groups, found {}", answer.rows());
        for (row, subtable) in (1..=self.subtables).enumerate() {
            let (mut current, mut voltage, mut phase) = (0.0, 0, 0.0);
            for reading in (0..self.rows).map(|number| self.reading(subtable, number)) {
                current += f64::from(fraction(reading.current));
                voltage += i64::from(reading.voltage);
                phase += f64::from(fraction(reading.phase));
            }
            let found = answer.row(row);
            let whole = [Value::Int(subtable.into()), Value::Int(self.rows.into())];
            ensure!(
                found[..2] == whole && found[3] == Value::Int(voltage),
                "group {subtable}: expected {whole:?} and a sum of {voltage} volts, found {found:?}"
            );
            for (name, at, expected) in [("current", 2, current), ("phase", 4, phase)] {
                let Value::Float(sum) = found[at] else {
                    anyhow::bail!("group {subtable}, sum({name}): expected a float, found {:?}", found[at]);
                };
                let is_close = (sum - expected).abs() <= crate::workload::verify::TOLERANCE * expected.abs();
                ensure!(is_close, "group {subtable}, sum({name}): expected {expected}, found {sum}");
            }
        }
        Ok(())
    }
}

/// Rows of a range of meters as request bodies: a stretch of one meter in each.
#[derive(Debug)]
pub struct Feed {
    set: Meters,
    form: Form,
    subtables: Range<u32>,
    /// The next reading of the first of `subtables`.
    number: u32,
}

impl Feed {
    /// All rows of the meters `subtables`.
    pub fn new(set: Meters, form: Form, subtables: Range<u32>) -> Self {
        Self { set, form, subtables, number: 0 }
    }

    /// Appends up to `rows` rows, meter by meter, and returns their number; 0 at the end.
    pub fn next(&mut self, rows: u32, body: &mut Vec<u8>) -> u64 {
        if self.form == Form::TdEngine {
            body.extend_from_slice(b"insert into");
        }
        let mut left = rows;
        while left > 0 && !self.subtables.is_empty() && self.set.rows > 0 {
            let run = self.number..self.number + left.min(self.set.rows - self.number);
            left -= run.len() as u32;
            self.push(self.subtables.start, run.clone(), body);
            self.number = run.end;
            if run.end == self.set.rows {
                (self.subtables.start, self.number) = (self.subtables.start + 1, 0);
            }
        }
        u64::from(rows - left)
    }

    fn push(&self, subtable: u32, numbers: Range<u32>, body: &mut Vec<u8>) {
        let location = LOCATIONS[subtable as usize % LOCATIONS.len()];
        let mut text = Backward::new();
        let hundredths = |text: &mut Backward, value: i32| {
            text.int(i64::from(value % 10));
            text.int(i64::from(value / 10 % 10));
            text.push(b".");
            text.int(i64::from(value / 100));
        };
        let prefix = match self.form {
            Form::TdEngine => {
                body.extend_from_slice(b" d");
                push_int(body, subtable.into());
                body.extend_from_slice(b" using meters tags(");
                push_int(body, subtable.into());
                body.extend_from_slice(format!(",'{location}') values").as_bytes());
                0..0
            }
            Form::Line => {
                let start = body.len();
                body.extend_from_slice(b"meters,groupid=");
                push_int(body, subtable.into());
                body.extend_from_slice(format!(",location={location} current=").as_bytes());
                start..body.len()
            }
        };
        for (at, reading) in numbers.map(|number| self.set.reading(subtable, number)).enumerate() {
            text.clear();
            match self.form {
                Form::TdEngine => {
                    text.push(b")");
                    hundredths(&mut text, reading.phase);
                    text.push(b",");
                    text.int(reading.voltage.into());
                    text.push(b",");
                    hundredths(&mut text, reading.current);
                    text.push(b",");
                    text.int(reading.ts);
                    text.push(b"(");
                }
                Form::Line => {
                    if at > 0 {
                        body.extend_from_within(prefix.clone());
                    }
                    text.push(b"\n");
                    text.int(reading.ts);
                    text.push(b" ");
                    hundredths(&mut text, reading.phase);
                    text.push(b"i,phase=");
                    text.int(reading.voltage.into());
                    text.push(b",voltage=");
                    hundredths(&mut text, reading.current);
                }
            }
            body.extend_from_slice(text.text());
        }
    }
}

/// The paper's rows per second and MB/s to disk with `cores` processors, if published.
pub fn published(cores: usize) -> Option<(u64, u64)> {
    PUBLISHED.iter().find(|(of, ..)| *of == cores).map(|&(_, rows, megabytes)| (rows, megabytes))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::workload::answer::Column;

    const SET: Meters = Meters { subtables: 3, rows: 5, seed: 1 };

    fn all(form: Form, rows: u32) -> Vec<String> {
        let mut feed = Feed::new(SET, form, 1..4);
        let mut bodies = Vec::new();
        loop {
            let mut body = Vec::new();
            if feed.next(rows, &mut body) == 0 {
                return bodies;
            }
            bodies.push(String::from_utf8(body).unwrap());
        }
    }

    #[test]
    fn a_request_holds_stretches_of_one_meter_after_the_other() {
        let Reading { ts, current, voltage, phase } = SET.reading(2, 1);
        let (current, phase) = (f64::from(current) / 100.0, f64::from(phase) / 100.0);
        let statements = all(Form::TdEngine, 7);
        assert_eq!(statements.len(), 3);
        assert!(
            statements[0]
                .starts_with("insert into d1 using meters tags(1,'California.LosAngles') values(1500000000000,")
        );
        assert_eq!(statements[0].matches(" using meters ").count(), 2);
        assert_eq!(statements.concat().matches("(15000000").count(), 15);
        let values = format!("({ts},{current:.2},{voltage},{phase:.2})");
        assert!(statements[0].contains(&values), "{values} is not in {}", statements[0]);

        let lines = all(Form::Line, 4);
        assert_eq!(lines.concat().lines().count(), 15);
        let tags = "meters,groupid=2,location=California.SanDiego";
        let line = format!("{tags} current={current:.2},voltage={voltage}i,phase={phase:.2} {ts}");
        assert!(lines.concat().lines().any(|found| found == line), "{line} is not in {lines:?}");
    }

    #[test]
    fn sums_are_compared_with_the_generators() {
        let readings = |group: u32| (0..SET.rows).map(move |number| SET.reading(group, number));
        let sum = |of: &dyn Fn(Reading) -> f64| {
            Column::Float((1..=3).map(|group| Some(readings(group).map(of).sum::<f64>())).collect())
        };
        let voltage = (1..=3).map(|group| Some(readings(group).map(|one| i64::from(one.voltage)).sum())).collect();
        let columns = vec![
            Column::Int(vec![Some(1), Some(2), Some(3)]),
            Column::Int(vec![Some(5); 3]),
            sum(&|one| f64::from(fraction(one.current))),
            Column::Int(voltage),
            sum(&|one| f64::from(fraction(one.phase))),
        ];
        let names = ["groupid", "n", "current", "voltage", "phase"].map(str::to_owned).to_vec();
        let right = Answer { names, columns };
        SET.check(&right).unwrap();
        let mut wrong = right.clone();
        wrong.columns[1] = Column::Int(vec![Some(5), Some(4), Some(5)]);
        assert!(SET.check(&wrong).unwrap_err().to_string().contains("group 2"));
        let mut wrong = right;
        wrong.columns[4] = Column::Float(vec![Some(1.0); 3]);
        assert!(SET.check(&wrong).unwrap_err().to_string().contains("sum(phase)"));
    }

    #[test]
    fn the_hundredths_text_reads_back_as_the_number_that_is_summed() {
        for hundredths in 0..1300 {
            let text = format!("{}.{:02}", hundredths / 100, hundredths % 100);
            assert_eq!(text.parse::<f32>().unwrap(), fraction(hundredths));
        }
        assert_eq!(published(2), Some((880_000, 36)));
        assert_eq!(published(7), None);
    }
}
