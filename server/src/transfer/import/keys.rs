//! Finds rows of a file with the same series and time: in the table the later one replaces the earlier one.
//!
//! Keys are compared by a 128-bit hash. Up to [`IN_MEMORY`] entries are held in memory (24 bytes each, 96 MiB). More
//! rows are partitioned by the first bits of the hash into [`PARTS`] temporary files, 24 bytes per row, which are
//! processed one at a time: a file of 10^9 rows takes about 100 MiB of memory and 24 GB of temporary space.

use std::{
    fs::File,
    hash::{BuildHasher, RandomState},
    io::{BufWriter, Read, Seek, Write},
};

use anyhow::Context;
use arrow::{
    array::{ArrayRef, RecordBatch},
    row::{RowConverter, SortField},
};
use indicatif::ProgressBar;

use super::roles::Roles;
use crate::transfer::rows::{Numbered, Source};

/// Maximum number of keys held in memory.
const IN_MEMORY: usize = 4 << 20;
/// Number of temporary files.
const PARTS: usize = 256;

/// Hash of a key and its row number, from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    hash: (u64, u64),
    row: u64,
}

/// Converts rows of the file to the rows that are sent, so that keys compare as on the server.
pub(super) type Prepare<'a> = &'a dyn Fn(&Numbered) -> anyhow::Result<RecordBatch>;

/// Repeated keys of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Repeats {
    /// Number of all rows.
    pub(super) rows: u64,
    /// Number of rows whose key occurs in an earlier row.
    pub(super) replaced: u64,
    /// Row numbers, from 0, of a pair with the same key.
    pub(super) example: Option<(u64, u64)>,
}

/// Counts the rows that repeat the key of another row.
///
/// # Errors
/// The file or a temporary file cannot be read or written; errors of `prepare`.
pub(super) fn repeats(source: &Source, prepare: Prepare<'_>, roles: &Roles) -> anyhow::Result<Repeats> {
    let series = roles.series();
    count(source, prepare, &[&[roles.time], series.as_slice()].concat(), IN_MEMORY)
}

/// The columns that each make all keys unique as an additional tag; if no single column does, all differing columns together.
///
/// # Errors
/// As [`repeats`].
pub(super) fn distinguishing(
    source: &Source,
    prepare: Prepare<'_>,
    roles: &Roles,
    example: (u64, u64),
) -> anyhow::Result<Vec<usize>> {
    let (first, second) = (values(source, example.0)?, values(source, example.1)?);
    let fields = source.schema.fields();
    let is_candidate = |at: &usize| {
        let data_type = fields[*at].data_type();
        let is_tag = data_type.is_integer() || !(data_type.is_numeric() || data_type.is_temporal());
        *at != roles.time && !roles.series().contains(at) && is_tag && first.1[*at] != second.1[*at]
    };
    let mut candidates: Vec<usize> = (0..fields.len()).filter(is_candidate).collect();
    // Text columns first: they are more likely tags than numbers.
    candidates.sort_by_key(|at| fields[*at].data_type().is_integer());
    candidates.truncate(8);
    let key = [&[roles.time], roles.series().as_slice()].concat();
    for candidate in &candidates {
        if count(source, prepare, &[key.as_slice(), &[*candidate]].concat(), IN_MEMORY)?.replaced == 0 {
            return Ok(vec![*candidate]);
        }
    }
    if candidates.len() > 1 && count(source, prepare, &[key, candidates.clone()].concat(), IN_MEMORY)?.replaced == 0 {
        return Ok(candidates);
    }
    Ok(Vec::new())
}

/// Returns a row's position in the file and its values as text.
///
/// # Errors
/// As [`repeats`].
pub(super) fn values(source: &Source, row: u64) -> anyhow::Result<(u64, Vec<String>)> {
    let mut before = 0;
    for numbered in source.rows(&ProgressBar::hidden())? {
        let numbered = numbered?;
        let rows = numbered.batch.num_rows() as u64;
        if row < before + rows {
            let at = usize::try_from(row - before).context("a row of a batch")?;
            let text = |column: &ArrayRef| arrow::util::display::array_value_to_string(column, at);
            let values = numbered.batch.columns().iter().map(text).collect::<Result<_, _>>()?;
            return Ok((numbered.places[at], values));
        }
        before += rows;
    }
    anyhow::bail!("{} was truncated while it was read", source.name())
}

fn count(source: &Source, prepare: Prepare<'_>, key: &[usize], in_memory: usize) -> anyhow::Result<Repeats> {
    let states = (RandomState::new(), RandomState::new());
    let mut converter = None;
    let mut keys = Keys { held: Vec::new(), in_memory, files: Vec::new() };
    let mut rows = 0;
    for numbered in source.rows(&ProgressBar::hidden())? {
        let batch = prepare(&numbered?).with_context(|| format!("{}: nothing was written", source.name()))?;
        let columns: Vec<ArrayRef> = key.iter().map(|at| batch.column(*at).clone()).collect();
        let converter = match &mut converter {
            Some(converter) => converter,
            none => {
                let fields = columns.iter().map(|column| SortField::new(column.data_type().clone())).collect();
                none.insert(RowConverter::new(fields).context("the columns of the key")?)
            }
        };
        for row in &converter.convert_columns(&columns)? {
            let bytes: &[u8] = row.as_ref();
            keys.add(Entry { hash: (states.0.hash_one(bytes), states.1.hash_one(bytes)), row: rows })?;
            rows += 1;
        }
    }
    keys.finish(rows)
}

/// Collected keys.
struct Keys {
    held: Vec<Entry>,
    in_memory: usize,
    /// Empty, or one file per part.
    files: Vec<BufWriter<File>>,
}

impl Keys {
    fn add(&mut self, entry: Entry) -> anyhow::Result<()> {
        self.held.push(entry);
        if self.held.len() >= self.in_memory { self.spill() } else { Ok(()) }
    }

    fn spill(&mut self) -> anyhow::Result<()> {
        while self.files.len() < PARTS {
            let file = tempfile::tempfile().context("cannot make a temporary file for the keys of the rows")?;
            self.files.push(BufWriter::with_capacity(16 << 10, file));
        }
        for Entry { hash, row } in self.held.drain(..) {
            let part = (hash.0 >> 56) as usize;
            let bytes = [hash.0, hash.1, row].map(u64::to_le_bytes).concat();
            self.files[part].write_all(&bytes).context("cannot write the keys of the rows to a temporary file")?;
        }
        Ok(())
    }

    fn finish(mut self, rows: u64) -> anyhow::Result<Repeats> {
        let mut repeats = Repeats { rows, ..Repeats::default() };
        if self.files.is_empty() {
            look(&mut self.held, &mut repeats);
            return Ok(repeats);
        }
        self.spill()?;
        self.held = Vec::new();
        for file in self.files {
            let mut file = file.into_inner().context("cannot write the keys of the rows to a temporary file")?;
            file.rewind()?;
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes)?;
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
    use super::*;
    use crate::transfer::FileFormat;

    fn plain(rows: &Numbered) -> anyhow::Result<RecordBatch> {
        Ok(rows.batch.clone())
    }

    /// A CSV file with the columns `host,unit,ts`.
    fn source(rows: impl Iterator<Item = (u32, u32, u32)>) -> (tempfile::NamedTempFile, Source) {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut text = "host,unit,ts\n".to_owned();
        rows.for_each(|(host, unit, ts)| text += &format!("h{host},u{unit},{ts}\n"));
        std::fs::write(file.path(), text).unwrap();
        let source = Source::inspect(file.path().to_owned(), FileFormat::Csv, Vec::new()).unwrap();
        (file, source)
    }

    #[test]
    fn rows_of_one_series_and_time_are_counted_and_the_first_is_named() {
        let (_file, source) = source([(1, 1, 7), (2, 1, 7), (1, 1, 8), (1, 2, 7), (2, 1, 7)].into_iter());
        let by =
            |tags: &[usize]| repeats(&source, &plain, &Roles { time: 2, tags: tags.to_vec(), name: None }).unwrap();
        assert_eq!(by(&[]), Repeats { rows: 5, replaced: 3, example: Some((0, 1)) });
        assert_eq!(by(&[0]), Repeats { rows: 5, replaced: 2, example: Some((0, 3)) });
        assert_eq!(by(&[0, 1]), Repeats { rows: 5, replaced: 1, example: Some((1, 4)) });
        assert_eq!(values(&source, 4).unwrap(), (6, vec!["h2".to_owned(), "u1".to_owned(), "7".to_owned()]));
    }

    #[test]
    fn the_column_that_makes_keys_unique_is_found() {
        let (_file, source) = source([(1, 1, 7), (2, 1, 7), (1, 2, 7), (2, 2, 7)].into_iter());
        let with = |tags: &[usize]| {
            let roles = Roles { time: 2, tags: tags.to_vec(), name: None };
            distinguishing(&source, &plain, &roles, repeats(&source, &plain, &roles).unwrap().example.unwrap()).unwrap()
        };
        assert_eq!(with(&[0]), [1]);
        assert_eq!(with(&[1]), [0]);
    }

    #[test]
    fn keys_beyond_the_bound_go_to_files_and_give_the_same_counts() {
        let (_file, source) = source((0..5_000).map(|n| (n % 50, n % 3, n / 100)));
        for key in [&[2][..], &[2, 0], &[2, 0, 1]] {
            let (held, spilled) =
                (count(&source, &plain, key, IN_MEMORY).unwrap(), count(&source, &plain, key, 64).unwrap());
            assert_eq!(held, spilled);
            let distinct: std::collections::BTreeSet<_> = (0..5_000_u32)
                .map(|n| (n / 100, if key.len() > 1 { n % 50 } else { 0 }, if key.len() > 2 { n % 3 } else { 0 }))
                .collect();
            assert_eq!(held.replaced, 5_000 - distinct.len() as u64);
        }
    }
}
