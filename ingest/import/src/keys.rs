//! Finds rows of files with the same series and time: in the table the later one replaces the earlier one.
//!
//! Keys are compared by a 128-bit hash, 24 bytes per row. Up to a bound they are held in memory. More rows are partitioned by the
//! first bits of the hash into [`PARTS`] temporary files, which are processed one at a time: files of 10^9 rows take about
//! 100 MiB of memory and 24 GB of temporary space.

use std::{
    fs::File,
    hash::{BuildHasher, RandomState},
    io::{BufWriter, Read, Seek, Write},
};

use arrow::{
    array::{ArrayRef, RecordBatch},
    row::{RowConverter, SortField},
};
use tidelake_format::{Error, Result};

use crate::{
    input::{temporary, unreadable, unwatched},
    roles::Roles,
    shape::Prepared,
    source::{Numbered, Wrongs, shorten},
};

/// Number of keys that a command holds in memory: 96 MiB.
pub const IN_MEMORY: usize = 4 << 20;
/// Number of temporary files.
const PARTS: usize = 256;
/// Number of columns that are tried as additional tags.
const CANDIDATES: usize = 8;

/// How many rows are compared, and how many of their keys are held in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Number of rows.
    pub rows: u64,
    /// Number of keys held in memory; more go to temporary files.
    pub in_memory: usize,
}

impl Bounds {
    /// All rows, as a command compares them.
    pub const COMMAND: Bounds = Bounds { rows: u64::MAX, in_memory: IN_MEMORY };
}

/// Hash of a key and its row number, from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    hash: (u64, u64),
    row: u64,
}

/// Repeated keys of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Repeats {
    /// Number of all rows.
    pub rows: u64,
    /// Number of rows whose key occurs in an earlier row.
    pub replaced: u64,
    /// Row numbers, from 0, of a pair with the same key.
    pub example: Option<(u64, u64)>,
}

/// Counts rows that repeat the key of another row, while they are read.
pub struct Counter {
    columns: Vec<usize>,
    states: (RandomState, RandomState),
    converter: Option<RowConverter>,
    keys: Keys,
    rows: u64,
}

impl Counter {
    /// Counts by the time and the series of these roles; more keys than `in_memory` go to temporary files. Without roles it
    /// counts the rows alone.
    pub fn new(roles: Option<&Roles>, in_memory: usize) -> Self {
        let columns = roles.map(|roles| [&[roles.time], roles.series().as_slice()].concat());
        Self::by(columns.unwrap_or_default(), in_memory)
    }

    fn by(columns: Vec<usize>, in_memory: usize) -> Self {
        let keys = Keys { held: Vec::new(), in_memory, files: Vec::new() };
        Self { columns, states: (RandomState::new(), RandomState::new()), converter: None, keys, rows: 0 }
    }

    /// Adds the rows of a batch.
    ///
    /// # Errors
    /// A temporary file cannot be written.
    pub fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        if self.columns.is_empty() {
            self.rows += batch.num_rows() as u64;
            return Ok(());
        }
        let columns: Vec<ArrayRef> = self.columns.iter().map(|at| batch.column(*at).clone()).collect();
        let converter = match &mut self.converter {
            Some(converter) => converter,
            none => {
                let fields = columns.iter().map(|column| SortField::new(column.data_type().clone())).collect();
                none.insert(RowConverter::new(fields)?)
            }
        };
        for row in &converter.convert_columns(&columns)? {
            let bytes: &[u8] = row.as_ref();
            let hash = (self.states.0.hash_one(bytes), self.states.1.hash_one(bytes));
            self.keys.add(Entry { hash, row: self.rows })?;
            self.rows += 1;
        }
        Ok(())
    }

    /// The counts.
    ///
    /// # Errors
    /// A temporary file cannot be read.
    pub fn finish(self) -> Result<Repeats> {
        self.keys.finish(self.rows)
    }
}

/// The columns that each make all keys unique as an additional tag; if no single column does, all differing columns together.
///
/// # Errors
/// A file or a temporary file cannot be read or written.
pub fn distinguishing(
    prepared: &Prepared,
    roles: &Roles,
    example: (u64, u64),
    wrongs: Wrongs,
    bounds: Bounds,
) -> Result<Vec<usize>> {
    let ((first, at), (second, other)) = (row(prepared, example.0, wrongs)?, row(prepared, example.1, wrongs)?);
    let schema = prepared.shape.schema().clone();
    let is_candidate = |column: &usize| {
        let data_type = schema.field(*column).data_type();
        let is_tag = data_type.is_integer() || !(data_type.is_numeric() || data_type.is_temporal());
        let differs = || text(&first.batch, *column, at) != text(&second.batch, *column, other);
        *column != roles.time && !roles.series().contains(column) && is_tag && differs()
    };
    let mut candidates: Vec<usize> = (0..schema.fields().len()).filter(is_candidate).collect();
    // Text columns first: they are more likely tags than numbers.
    candidates.sort_by_key(|column| schema.field(*column).data_type().is_integer());
    candidates.truncate(CANDIDATES);
    let key = [&[roles.time], roles.series().as_slice()].concat();
    let is_unique = |more: &[usize]| -> Result<bool> {
        Ok(count(prepared, [key.as_slice(), more].concat(), wrongs, bounds)?.replaced == 0)
    };
    for candidate in &candidates {
        if is_unique(&[*candidate])? {
            return Ok(vec![*candidate]);
        }
    }
    if candidates.len() > 1 && is_unique(&candidates)? {
        return Ok(candidates);
    }
    Ok(Vec::new())
}

/// Describes repeated keys: an example with its lines, and ways to resolve it. `tags` are those of an existing table.
///
/// # Errors
/// As [`distinguishing`].
pub fn explain(
    prepared: &Prepared,
    roles: &Roles,
    tags: Option<&str>,
    repeats: &Repeats,
    wrongs: Wrongs,
    bounds: Bounds,
) -> Result<Explained> {
    let Some(example) = repeats.example else { return Ok(Explained::default()) };
    let source = &prepared.source;
    let name = |at: usize| source.schema.field(at).name().as_str();
    let ((first, at), (second, other)) = (row(prepared, example.0, wrongs)?, row(prepared, example.1, wrongs)?);
    let key = [roles.series(), vec![roles.time]].concat();
    let key: Vec<String> =
        key.iter().map(|column| format!("{}={}", name(*column), text(&first.batch, *column, at))).collect();
    let (place, other_place) = (first.places[at], second.places[other]);
    let places = if first.file == second.file {
        format!("{}s {place} and {other_place}", source.place(first.file))
    } else {
        format!("{} and {}", source.position(first.file, place), source.position(second.file, other_place))
    };
    let more = distinguishing(prepared, roles, example, wrongs, bounds)?;
    let hint = match (more.is_empty(), tags) {
        (true, _) => "no additional tag distinguishes them".to_owned(),
        (false, None) => {
            let tags: Vec<&str> = roles.tags.iter().chain(&more).map(|at| name(*at)).collect();
            format!("{}{} makes each row unique", source.words.tags, tags.join(","))
        }
        (false, Some(tags)) => {
            let more: Vec<&str> = more.iter().map(|at| name(*at)).collect();
            format!("they differ in {}, but the tags of the table are: {tags}", more.join(", "))
        }
    };
    Ok(Explained { example: format!("{} at {places}", key.join(", ")), hint })
}

/// An example of repeated keys, and how to resolve it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Explained {
    /// Key and positions of two rows.
    pub example: String,
    /// What would tell such rows apart.
    pub hint: String,
}

fn text(batch: &RecordBatch, column: usize, row: usize) -> String {
    shorten(&arrow::util::display::array_value_to_string(batch.column(column), row).unwrap_or_default())
}

/// The batch that has a row, and the row's index in it.
fn row(prepared: &Prepared, row: u64, wrongs: Wrongs) -> Result<(Numbered, usize)> {
    let mut before = 0;
    for numbered in prepared.rows(wrongs, &unwatched()) {
        let numbered = numbered?;
        let rows = numbered.batch.num_rows() as u64;
        if row < before + rows {
            // Fits: it is less than the number of rows of a batch.
            return Ok((numbered, usize::try_from(row - before).unwrap_or(0)));
        }
        before += rows;
    }
    Err(Error::invalid("a file was truncated while it was read"))
}

fn count(prepared: &Prepared, key: Vec<usize>, wrongs: Wrongs, bounds: Bounds) -> Result<Repeats> {
    let mut counter = Counter::by(key, bounds.in_memory);
    for numbered in prepared.rows(wrongs, &unwatched()) {
        let batch = numbered?.batch;
        let left = usize::try_from(bounds.rows - counter.rows).unwrap_or(usize::MAX);
        counter.add(&batch.slice(0, left.min(batch.num_rows())))?;
        if counter.rows >= bounds.rows {
            break;
        }
    }
    counter.finish()
}

/// Collected keys.
struct Keys {
    held: Vec<Entry>,
    in_memory: usize,
    /// Empty, or one file per part.
    files: Vec<BufWriter<File>>,
}

impl Keys {
    fn add(&mut self, entry: Entry) -> Result<()> {
        self.held.push(entry);
        if self.held.len() >= self.in_memory { self.spill() } else { Ok(()) }
    }

    fn spill(&mut self) -> Result<()> {
        while self.files.len() < PARTS {
            self.files.push(BufWriter::with_capacity(16 << 10, temporary()?));
        }
        for Entry { hash, row } in self.held.drain(..) {
            let part = (hash.0 >> 56) as usize;
            let bytes = [hash.0, hash.1, row].map(u64::to_le_bytes).concat();
            self.files[part].write_all(&bytes).map_err(|e| unreadable("cannot write keys to a temporary file", &e))?;
        }
        Ok(())
    }

    fn finish(mut self, rows: u64) -> Result<Repeats> {
        let mut repeats = Repeats { rows, ..Repeats::default() };
        if self.files.is_empty() {
            look(&mut self.held, &mut repeats);
            return Ok(repeats);
        }
        self.spill()?;
        self.held = Vec::new();
        for file in self.files {
            let mut bytes = Vec::new();
            let read = file.into_inner().map_err(|e| e.into_error()).and_then(|mut file| {
                file.rewind()?;
                file.read_to_end(&mut bytes)
            });
            read.map_err(|e| unreadable("cannot use a temporary file of keys", &e))?;
            let number = |entry: &[u8], at: usize| {
                u64::from_le_bytes(entry[at..at + 8].try_into().expect("eight bytes were taken"))
            };
            let entry = |e: &[u8]| Entry { hash: (number(e, 0), number(e, 8)), row: number(e, 16) };
            let mut entries: Vec<Entry> = bytes.chunks_exact(24).map(entry).collect();
            drop(bytes);
            look(&mut entries, &mut repeats);
        }
        Ok(repeats)
    }
}

/// Adds the repeated keys among `entries` to `repeats`.
fn look(entries: &mut [Entry], repeats: &mut Repeats) {
    entries.sort_unstable();
    for pair in entries.windows(2).filter(|pair| pair[0].hash == pair[1].hash) {
        repeats.replaced += 1;
        let example = (pair[0].row, pair[1].row);
        if repeats.example.is_none_or(|known| (example.1, example.0) < (known.1, known.0)) {
            repeats.example = Some(example);
        }
    }
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::TimeUnit;

    use super::*;
    use crate::{
        input::{FileFormat, Input, spool},
        shape::Shape,
        source::{Reading, Source},
        words::Words,
    };

    fn prepared(files: Vec<(Input, FileFormat)>, roles: &Roles) -> Prepared {
        let reading = Reading { nulls: Vec::new(), types: Vec::new(), sample: 100, words: Words::COMMAND_LINE };
        let source = Source::inspect(files, reading).unwrap();
        let shape = Shape::new(&source, roles, TimeUnit::Second, true, false).unwrap();
        Prepared { source, shape }
    }

    /// A CSV file with the columns `host,unit,ts`.
    fn file(name: &str, rows: impl Iterator<Item = (u32, u32, u32)>) -> (Input, FileFormat) {
        let mut text = "host,unit,ts\n".to_owned();
        rows.for_each(|(host, unit, ts)| text += &format!("h{host},u{unit},{ts}\n"));
        (spool(text.as_bytes(), name).unwrap(), FileFormat::Csv)
    }

    fn by(tags: &[usize]) -> Roles {
        Roles { time: 2, tags: tags.to_vec(), name: None }
    }

    fn repeats(files: &[(Input, FileFormat)], roles: &Roles) -> Repeats {
        let key = [&[roles.time], roles.series().as_slice()].concat();
        count(&prepared(files.to_vec(), roles), key, Wrongs::Fail, Bounds::COMMAND).unwrap()
    }

    #[test]
    fn rows_of_one_series_and_time_are_counted_and_the_first_is_named() {
        let one = [file("a.csv", [(1, 1, 7), (2, 1, 7), (1, 1, 8), (1, 2, 7), (2, 1, 7)].into_iter())];
        // The same rows in two files.
        let two = [
            file("a.csv", [(1, 1, 7), (2, 1, 7), (1, 1, 8)].into_iter()),
            file("b.csv", [(1, 2, 7), (2, 1, 7)].into_iter()),
        ];
        for files in [&one[..], &two[..]] {
            assert_eq!(repeats(files, &by(&[])), Repeats { rows: 5, replaced: 3, example: Some((0, 1)) });
            assert_eq!(repeats(files, &by(&[0])), Repeats { rows: 5, replaced: 2, example: Some((0, 3)) });
            assert_eq!(repeats(files, &by(&[0, 1])), Repeats { rows: 5, replaced: 1, example: Some((1, 4)) });
        }
        let explained = |files: &[(Input, FileFormat)]| {
            let (roles, prepared) = (by(&[0, 1]), prepared(files.to_vec(), &by(&[0, 1])));
            explain(&prepared, &roles, None, &repeats(files, &roles), Wrongs::Fail, Bounds::COMMAND).unwrap()
        };
        assert_eq!(explained(&one).example, "host=h2, unit=u1, ts=1970-01-01T00:00:07 at lines 3 and 6");
        assert!(explained(&two).example.ends_with("at a.csv: line 3 and b.csv: line 3"), "{:?}", explained(&two));
        assert_eq!(explained(&one).hint, "no additional tag distinguishes them");
    }

    #[test]
    fn the_column_that_makes_keys_unique_is_found() {
        let files = [file("a.csv", [(1, 1, 7), (2, 1, 7), (1, 2, 7), (2, 2, 7)].into_iter())];
        let hint = |tags: &[usize]| {
            let (roles, prepared) = (by(tags), prepared(files.to_vec(), &by(tags)));
            explain(&prepared, &roles, None, &repeats(&files, &roles), Wrongs::Fail, Bounds::COMMAND).unwrap().hint
        };
        assert_eq!(hint(&[0]), "--tags host,unit makes each row unique");
        assert_eq!(hint(&[1]), "--tags unit,host makes each row unique");
    }

    #[test]
    fn keys_beyond_the_bound_go_to_files_and_give_the_same_counts() {
        let files = vec![file("a.csv", (0..5_000).map(|n| (n % 50, n % 3, n / 100)))];
        let prepared = prepared(files, &by(&[0]));
        for key in [&[2][..], &[2, 0], &[2, 0, 1]] {
            let counted = |bound: usize| {
                count(&prepared, key.to_vec(), Wrongs::Fail, Bounds { rows: u64::MAX, in_memory: bound }).unwrap()
            };
            let (held, spilled) = (counted(IN_MEMORY), counted(64));
            assert_eq!(held, spilled);
            let distinct: std::collections::BTreeSet<_> = (0..5_000_u32)
                .map(|n| (n / 100, if key.len() > 1 { n % 50 } else { 0 }, if key.len() > 2 { n % 3 } else { 0 }))
                .collect();
            assert_eq!(held.replaced, 5_000 - distinct.len() as u64);
        }
    }
}
