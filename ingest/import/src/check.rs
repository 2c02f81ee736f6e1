//! One pass over all rows before anything is written: wrong rows, repeated keys, and the values of each column.

use std::{collections::HashSet, hash::BuildHasher, hash::RandomState};

use arrow::array::{Array, ArrayRef};
use tidelake_format::Result;

use crate::{
    input::Progress,
    keys::{Bounds, Counter, Repeats},
    roles::{MOST_VALUES, Roles},
    shape::Prepared,
    source::{Wrong, Wrongs},
    value::value,
};

/// Number of example values of a column.
const EXAMPLES: usize = 3;
/// Characters of the longest example.
const LONGEST_EXAMPLE: usize = 64;

/// Result of the check.
#[derive(Debug, Default)]
pub struct Checked {
    /// Rows and repeated keys.
    pub repeats: Repeats,
    /// Number of wrong rows.
    pub wrong: u64,
    /// What each column holds; empty unless profiled.
    pub profiles: Vec<Profile>,
    /// Whether rows were left after the limit.
    pub is_partial: bool,
}

/// How to check.
pub struct Check<'a> {
    /// Handling of wrong rows.
    pub wrongs: Wrongs,
    /// Number of rows after which the check stops, and of keys held in memory.
    pub bounds: Bounds,
    /// Whether the values of columns are profiled.
    pub profiles: bool,
    /// Receives the number of bytes read.
    pub progress: &'a Progress,
}

/// Values of a column.
#[derive(Debug, Clone, Default)]
pub struct Profile {
    /// Number of nulls.
    pub nulls: u64,
    /// Number of distinct values; `None` if there are too many to count.
    pub distinct: Option<usize>,
    /// The first distinct values, as text.
    pub examples: Vec<String>,
    seen: HashSet<u64>,
}

impl Profile {
    pub(crate) fn new() -> Self {
        Self { distinct: Some(0), ..Self::default() }
    }

    pub(crate) fn add(&mut self, column: &ArrayRef, state: &RandomState) {
        self.nulls += column.null_count() as u64;
        if self.distinct.is_none() {
            return;
        }
        for row in (0..column.len()).filter(|row| column.is_valid(*row)) {
            let value = value(column, row);
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            if self.seen.insert(state.hash_one(&text)) && self.examples.len() < EXAMPLES {
                let mut short: String = text.chars().take(LONGEST_EXAMPLE).collect();
                if text.chars().nth(LONGEST_EXAMPLE).is_some() {
                    short.push('…');
                }
                self.examples.push(short);
            }
            if self.seen.len() > MOST_VALUES {
                (self.seen, self.distinct) = (HashSet::new(), None);
                return;
            }
        }
        self.distinct = Some(self.seen.len());
    }
}

/// Reads the rows of all files once; without roles, keys are not compared. `found` receives each wrong row in the order of the files.
///
/// # Errors
/// A file cannot be read; the first wrong row with [`Wrongs::Fail`]; errors of `found`.
pub fn check(
    prepared: &Prepared,
    roles: Option<&Roles>,
    how: Check<'_>,
    mut found: impl FnMut(Wrong) -> Result<()>,
) -> Result<Checked> {
    let mut counter = Counter::new(roles, how.bounds.in_memory);
    let mut checked = Checked::default();
    let state = RandomState::new();
    let columns = if how.profiles { prepared.shape.schema().fields().len() } else { 0 };
    checked.profiles = vec![Profile::new(); columns];
    let mut rows = 0;
    for numbered in prepared.rows(how.wrongs, how.progress) {
        let mut numbered = numbered?;
        if let Some(most) =
            usize::try_from(how.bounds.rows - rows).ok().filter(|most| *most < numbered.batch.num_rows())
        {
            numbered.batch = numbered.batch.slice(0, most);
            checked.is_partial = true;
        }
        rows += numbered.batch.num_rows() as u64;
        counter.add(&numbered.batch)?;
        for (profile, column) in checked.profiles.iter_mut().zip(numbered.batch.columns()) {
            profile.add(column, &state);
        }
        numbered.wrong.sort_by_key(|wrong| wrong.place);
        for wrong in numbered.wrong {
            checked.wrong += 1;
            found(wrong)?;
        }
        if checked.is_partial {
            break;
        }
    }
    checked.repeats = counter.finish()?;
    Ok(checked)
}
