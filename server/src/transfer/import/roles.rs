//! Roles of a file's columns: time, tags and fields.

use std::{collections::HashSet, fmt::Write as _, hash::BuildHasher};

use anyhow::bail;
use arrow::{
    array::AsArray,
    compute::cast,
    datatypes::{DataType, Schema},
};
use indicatif::ProgressBar;
use tidelake_format::schema::TBNAME;

use crate::transfer::rows::Source;

/// Number of rows from which tags are guessed.
const GUESS_ROWS: usize = 1_000_000;
/// A text column with more distinct values than this is not guessed to be a tag.
const MOST_VALUES: usize = 100_000;

/// Roles of columns, by column index in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Roles {
    /// Time column.
    pub(super) time: usize,
    /// The tags.
    pub(super) tags: Vec<usize>,
    /// The column `tbname`, if the file has it: it identifies the series instead of the tags.
    pub(super) name: Option<usize>,
}

impl Roles {
    /// The columns that identify a row's series.
    pub(super) fn series(&self) -> Vec<usize> {
        self.name.map_or_else(|| self.tags.clone(), |name| vec![name])
    }
}

/// An existing table, from DESCRIBE.
#[derive(Debug, Default)]
pub(super) struct Table {
    /// Time column.
    pub(super) time: String,
    /// The tags.
    pub(super) tags: Vec<String>,
}

/// The column names of a file, separated by commas.
pub(super) fn names(schema: &Schema) -> String {
    schema.fields().iter().map(|f| f.name().as_str()).collect::<Vec<_>>().join(", ")
}

/// Index of a column: exact match, else ignoring case.
pub(super) fn place(schema: &Schema, name: &str) -> Option<usize> {
    let fields = schema.fields();
    let exact = fields.iter().position(|f| f.name() == name);
    exact.or_else(|| fields.iter().position(|f| f.name().eq_ignore_ascii_case(name)))
}

/// Index of the time column: the named one, the table's, `ts` or `time`, or the first timestamp column.
///
/// # Errors
/// There is no such column; the error lists the file's columns.
pub(super) fn time(schema: &Schema, named: Option<&str>, table: Option<&Table>) -> anyhow::Result<usize> {
    if let Some(name) = named {
        let found = place(schema, name);
        return found.ok_or_else(|| {
            anyhow::anyhow!("--time: the file has no column {name:?}; its columns are {}", names(schema))
        });
    }
    if let Some(table) = table {
        let found = place(schema, &table.time);
        return found.ok_or_else(|| {
            anyhow::anyhow!(
                "the file lacks the table's time column {:?}; its columns are {}",
                table.time,
                names(schema)
            )
        });
    }
    let fields = schema.fields();
    let named = fields.iter().position(|f| ["ts", "time"].iter().any(|name| f.name().eq_ignore_ascii_case(name)));
    let found = named.or_else(|| fields.iter().position(|f| is_time(f.data_type())));
    found.ok_or_else(|| anyhow::anyhow!("no time column found: no column is named ts or time or holds timestamps; use --time; the file's columns are {}", names(schema)))
}

/// Index of the column that the server would choose as the time of a new table with this schema.
pub(super) fn new_table_time(schema: &Schema) -> Option<usize> {
    let fields = schema.fields();
    let named = |name: &str| name.eq_ignore_ascii_case("ts") || name.eq_ignore_ascii_case("time");
    let first = fields.iter().position(|f| is_time(f.data_type()) && named(f.name()));
    first.or_else(|| fields.iter().position(|f| is_time(f.data_type())))
}

fn is_time(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Timestamp(..) | DataType::Date32 | DataType::Date64)
}

/// Column indexes of the tags named by the user.
///
/// # Errors
/// The file lacks one of the columns.
pub(super) fn tags(schema: &Schema, named: &[String]) -> anyhow::Result<Vec<usize>> {
    let mut tags = Vec::new();
    for name in named.iter().map(|name| name.trim()).filter(|name| !name.is_empty()) {
        match place(schema, name) {
            Some(at) => tags.push(at),
            None => bail!("--tags: the file has no column {name:?}; its columns are {}", names(schema)),
        }
    }
    Ok(tags)
}

/// Guess from the first rows.
pub(super) struct Guess {
    /// Number of rows read.
    rows: usize,
    /// Number of distinct values of each text column; `None` for other columns and above [`MOST_VALUES`].
    values: Vec<Option<usize>>,
    /// Columns guessed to be tags.
    pub(super) tags: Vec<usize>,
}

/// Guesses the tags: text columns whose values occur at least twice on average, and text dictionaries.
///
/// # Errors
/// When the file cannot be read.
pub(super) fn guess(source: &Source, time: usize) -> anyhow::Result<Guess> {
    let state = std::hash::RandomState::new();
    let fields = source.schema.fields();
    let is_text =
        |at: usize| at != time && !fields[at].name().eq_ignore_ascii_case(TBNAME) && text(fields[at].data_type());
    let mut seen: Vec<Option<HashSet<u64>>> = (0..fields.len()).map(|at| is_text(at).then(HashSet::new)).collect();
    let mut rows = 0;
    for batch in source.rows(&ProgressBar::hidden())? {
        let batch = batch?.batch;
        rows += batch.num_rows();
        for (at, values) in seen.iter_mut().enumerate() {
            let Some(known) = values else { continue };
            let column = cast(batch.column(at), &DataType::Utf8)?;
            known.extend(column.as_string::<i32>().iter().flatten().map(|text| state.hash_one(text)));
            if known.len() > MOST_VALUES {
                *values = None;
            }
        }
        if rows >= GUESS_ROWS {
            break;
        }
    }
    let values: Vec<Option<usize>> = seen.into_iter().map(|values| values.map(|values| values.len())).collect();
    let is_tag = |at: &usize| {
        let is_dictionary = matches!(fields[*at].data_type(), DataType::Dictionary(..));
        values[*at].is_some_and(|n| n > 0 && (is_dictionary || 2 * n <= rows))
    };
    let tags = (0..fields.len()).filter(is_tag).collect();
    Ok(Guess { rows, values, tags })
}

fn text(data_type: &DataType) -> bool {
    match data_type {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => true,
        DataType::Dictionary(_, values) => text(values),
        _ => false,
    }
}

impl Guess {
    /// One line per column: name, role, type and number of distinct values.
    pub(super) fn describe(&self, schema: &Schema, roles: &Roles) -> String {
        let width = schema.fields().iter().map(|f| f.name().chars().count()).max().unwrap_or(0);
        let mut out = String::new();
        for (at, field) in schema.fields().iter().enumerate() {
            let role = match at {
                _ if at == roles.time => "time",
                _ if roles.name == Some(at) => "name",
                _ if roles.tags.contains(&at) => "tag",
                _ => "field",
            };
            let values = match (role, self.values[at]) {
                ("tag" | "field", Some(n)) => format!("{n} different values in {} rows", self.rows),
                _ => String::new(),
            };
            let line = format!("  {:<width$}  {role:<5}  {:<9}  {values}", field.name(), type_name(field.data_type()));
            let _ = writeln!(out, "{}", line.trim_end());
        }
        out
    }
}

/// User-visible name of a type.
fn type_name(data_type: &DataType) -> String {
    match data_type {
        _ if text(data_type) => "text".to_owned(),
        _ if is_time(data_type) => "timestamp".to_owned(),
        _ if data_type.is_integer() => "integer".to_owned(),
        _ if data_type.is_floating() => "number".to_owned(),
        DataType::Boolean => "boolean".to_owned(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transfer::FileFormat;

    fn source(text: &str) -> (tempfile::NamedTempFile, Source) {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let source = Source::inspect(file.path().to_owned(), FileFormat::Csv, Vec::new()).unwrap();
        (file, source)
    }

    #[test]
    fn text_of_few_values_is_guessed_to_be_a_tag_and_text_of_many_a_field() {
        let mut text = "host,note,ts,usage\n".to_owned();
        for n in 0..200 {
            text += &format!("h{},note {n},{n},{n}.5\n", n % 10);
        }
        let (_file, source) = source(&text);
        let time = time(&source.schema, None, None).unwrap();
        let guess = guess(&source, time).unwrap();
        assert_eq!((time, guess.tags.clone()), (2, vec![0]));
        let roles = Roles { time, tags: guess.tags.clone(), name: None };
        let told = guess.describe(&source.schema, &roles);
        let expected = "  host   tag    text       10 different values in 200 rows\n  \
                        note   field  text       200 different values in 200 rows\n  \
                        ts     time   integer\n  usage  field  number\n";
        assert_eq!(told, expected);
    }

    #[test]
    fn a_column_that_the_file_lacks_is_named_with_what_it_has() {
        let (_file, source) = source("at,site\n1,x\n");
        let error = time(&source.schema, Some("when"), None).unwrap_err().to_string();
        assert!(error.contains("\"when\"") && error.contains("at, site"), "{error}");
        let error = tags(&source.schema, &["sites".to_owned()]).unwrap_err().to_string();
        assert!(error.contains("\"sites\"") && error.contains("at, site"), "{error}");
        assert!(time(&source.schema, None, None).unwrap_err().to_string().contains("--time"));
    }
}
