//! Digests of answers: two answers of any size are compared without keeping their rows.
//!
//! Each row has a hash of its exact values. Floats have a sum and a sum weighted by the row's hash, so a float in another row
//! changes the digest, too. The sums of an answer without order do not depend on the order of the rows.

use anyhow::{Result, bail, ensure};
use arrow::array::RecordBatch;
use serde::{Deserialize, Serialize};

use crate::workload::{
    answer::{Answer, Column, Value},
    generate::random::{GAMMA, mix},
    verify::TOLERANCE,
};

/// Largest relative difference of approximations.
const APPROXIMATE: f64 = 0.01;
/// Largest relative difference of interpolated values: DataFusion's `percentile_cont` truncates the distance from the lower
/// neighbour to a millionth.
const INTERPOLATED: f64 = 1e-6;
/// Rows that are converted at once.
const CHUNK: usize = 8_192;

/// How the values of a column are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Integers, times and texts, also whole numbers stored as floats.
    Exact,
    /// Floats, with a relative tolerance of 1e-9.
    Float,
    /// Percentiles between two values, with a relative tolerance of 1e-6.
    Interpolated,
    /// Approximations, with a relative tolerance of 1 %.
    Approximate,
}

/// Compared columns of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Columns {
    /// All columns, by position: engines name them differently.
    Listed(Vec<Kind>),
    /// All columns, exactly and by name: engines order the columns of `*` differently.
    Named,
    /// Only the column `ts`, exactly: the other columns may be those of any host.
    Times,
}

/// Summary of an answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Digest {
    /// Number of rows.
    pub rows: u64,
    /// Combined hash of the rows' exact values.
    hash: u64,
    /// Compared columns, in the order of comparison.
    columns: Vec<Sums>,
}

/// Sums of one column.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Sums {
    /// The column's name, for messages.
    name: String,
    /// Sum of integers, or of the hashes of texts, modulo 2⁶⁴.
    exact: i64,
    /// Sum of floats.
    sum: f64,
    /// Sum of floats, each multiplied by a number from 0 to 1 that depends on the row's exact values.
    weighted: f64,
    /// Sum of absolute values: the scale of the tolerance.
    magnitude: f64,
    /// Relative tolerance of the floats.
    tolerance: f64,
}

/// Digests an answer in parts.
#[derive(Debug)]
pub struct Digester {
    columns: Columns,
    is_ordered: bool,
    digest: Digest,
    /// Positions of the compared columns, with their kinds; set by the first part.
    picked: Option<Vec<(usize, Kind)>>,
}

impl Digester {
    /// A digester of answers with these columns.
    pub fn new(columns: Columns, is_ordered: bool) -> Self {
        Self { columns, is_ordered, digest: Digest { rows: 0, hash: 0, columns: Vec::new() }, picked: None }
    }

    fn pick(&self, names: &[String]) -> Result<Vec<(usize, Kind)>> {
        Ok(match &self.columns {
            Columns::Listed(kinds) => {
                ensure!(kinds.len() == names.len(), "expected {} columns, found {names:?}", kinds.len());
                kinds.iter().copied().enumerate().collect()
            }
            Columns::Named => {
                let mut order: Vec<usize> = (0..names.len()).collect();
                order.sort_by_key(|at| &names[*at]);
                order.into_iter().map(|at| (at, Kind::Exact)).collect()
            }
            Columns::Times => match names.iter().position(|name| name == "ts") {
                Some(at) => vec![(at, Kind::Exact)],
                None => bail!("expected a column ts, found {names:?}"),
            },
        })
    }

    /// Adds the next rows of the answer.
    ///
    /// # Errors
    /// Other columns than expected, or a text in a column of floats.
    pub fn add(&mut self, part: &Answer) -> Result<()> {
        if part.names.is_empty() {
            return Ok(());
        }
        let picked = match self.picked.take() {
            Some(picked) => picked,
            None => {
                let picked = self.pick(&part.names)?;
                self.digest.columns = picked.iter().map(|(at, kind)| Sums::new(&part.names[*at], *kind)).collect();
                picked
            }
        };
        for row in 0..part.rows() {
            let mut hash = if self.is_ordered { self.digest.rows } else { 0 };
            for ((at, kind), sums) in picked.iter().zip(&mut self.digest.columns) {
                if *kind == Kind::Exact {
                    let (number, mixed) = exact(&part.columns[*at], row);
                    sums.exact = sums.exact.wrapping_add(number);
                    hash = mix(hash.wrapping_mul(GAMMA) ^ mixed);
                }
            }
            let weight = (hash >> 11) as f64 / (1u64 << 53) as f64;
            for ((at, kind), sums) in picked.iter().zip(&mut self.digest.columns) {
                if *kind != Kind::Exact {
                    let value = float(&part.columns[*at].value(row))?;
                    sums.sum += value;
                    sums.weighted += value * weight;
                    sums.magnitude += value.abs();
                }
            }
            self.digest.hash = self.digest.hash.wrapping_add(mix(hash));
            self.digest.rows += 1;
        }
        self.picked = Some(picked);
        Ok(())
    }

    /// Adds the next rows of the answer.
    ///
    /// # Errors
    /// As for [`Digester::add`]; a column of a type that cannot be compared.
    pub fn add_batch(&mut self, batch: &RecordBatch) -> Result<()> {
        let mut at = 0;
        loop {
            let count = CHUNK.min(batch.num_rows() - at);
            self.add(&Answer::from_batches(&[batch.slice(at, count)])?)?;
            at += count;
            if at >= batch.num_rows() {
                return Ok(());
            }
        }
    }

    /// The digest of all rows.
    pub fn finish(self) -> Digest {
        self.digest
    }
}

impl Sums {
    fn new(name: &str, kind: Kind) -> Self {
        let tolerance = match kind {
            Kind::Exact | Kind::Float => TOLERANCE,
            Kind::Interpolated => INTERPOLATED,
            Kind::Approximate => APPROXIMATE,
        };
        Self { name: name.to_owned(), exact: 0, sum: 0.0, weighted: 0.0, magnitude: 0.0, tolerance }
    }
}

/// A value as a number to add and a number to mix into the row's hash.
fn exact(column: &Column, row: usize) -> (i64, u64) {
    let number = |value: i64| (value, mix(value.cast_unsigned() ^ GAMMA));
    match column {
        Column::Int(values) => values[row].map_or((0, GAMMA), number),
        // A whole number may arrive as a float.
        Column::Float(values) => match values[row] {
            None => (0, GAMMA),
            Some(value) if value.fract() == 0.0 && value.abs() < 9e15 => number(value as i64),
            Some(value) => number(value.to_bits().cast_signed()),
        },
        Column::Text(values) => values[row].as_ref().map_or((0, GAMMA), |text| {
            let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
            });
            (hash.cast_signed(), hash)
        }),
    }
}

fn float(value: &Value) -> Result<f64> {
    match value {
        Value::Null => Ok(0.0),
        Value::Int(value) => Ok(*value as f64),
        Value::Float(value) => Ok(*value),
        Value::Text(text) => bail!("expected a number, found {text:?}"),
    }
}

impl Digest {
    /// Digests a complete answer.
    ///
    /// # Errors
    /// As for [`Digester::add`].
    pub fn of(columns: Columns, is_ordered: bool, answer: &Answer) -> Result<Self> {
        let mut digester = Digester::new(columns, is_ordered);
        digester.add(answer)?;
        Ok(digester.finish())
    }

    /// Digests the batches of a complete answer.
    ///
    /// # Errors
    /// As for [`Digester::add_batch`].
    pub fn of_batches(columns: Columns, is_ordered: bool, batches: &[RecordBatch]) -> Result<Self> {
        let mut digester = Digester::new(columns, is_ordered);
        batches.iter().try_for_each(|batch| digester.add_batch(batch))?;
        Ok(digester.finish())
    }

    /// Compares with the digest of another answer to the same question; empty answers may have no columns.
    ///
    /// # Errors
    /// The first difference.
    pub fn compare(&self, found: &Self) -> Result<()> {
        ensure!(self.rows == found.rows, "expected {} rows, found {}", self.rows, found.rows);
        if self.rows == 0 {
            return Ok(());
        }
        let (wanted, others) = (self.columns.len(), found.columns.len());
        ensure!(wanted == others, "expected {wanted} columns, found {others}");
        for (number, (want, have)) in self.columns.iter().zip(&found.columns).enumerate() {
            let name = &want.name;
            ensure!(
                want.exact == have.exact,
                "column {number} ({name}): expected the sum {}, found {}",
                want.exact,
                have.exact
            );
            for (want_sum, have_sum) in [(want.sum, have.sum), (want.weighted, have.weighted)] {
                let close = (want_sum - have_sum).abs() <= want.tolerance * want.magnitude.max(have.magnitude);
                ensure!(close, "column {number} ({name}): expected the sum {want_sum}, found {have_sum}");
            }
        }
        ensure!(self.hash == found.hash, "the sums of all columns are equal, but values are in other rows");
        Ok(())
    }
}
