//! Roles of a file's columns: time, tags and fields.

use std::{collections::HashSet, fmt::Write as _, hash::BuildHasher};

use arrow::{
    array::AsArray,
    compute::cast,
    datatypes::{DataType, Schema},
};
use tidelake_format::{
    Error, Result,
    schema::{Role, TBNAME},
};

use crate::{
    input::unwatched,
    source::{Source, Wrongs},
    table::{Table, is_text, is_time, names, place, type_name},
    words::name,
};

/// Number of rows from which tags are guessed.
const GUESS_ROWS: usize = 1_000_000;
/// A text column with more distinct values than this is not guessed to be a tag.
pub(crate) const MOST_VALUES: usize = 100_000;
/// Most distinct values of all columns that are held while tags are guessed.
const MOST_HELD: usize = 4 << 20;

/// Roles of columns, by column index in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Roles {
    /// Time column.
    pub time: usize,
    /// The tags.
    pub tags: Vec<usize>,
    /// The column `tbname`, if the file has it: it identifies the series instead of the tags.
    pub name: Option<usize>,
}

impl Roles {
    /// The columns that identify a row's series.
    pub fn series(&self) -> Vec<usize> {
        self.name.map_or_else(|| self.tags.clone(), |name| vec![name])
    }

    /// Name of the role of a column.
    pub fn role(&self, column: usize) -> &'static str {
        match column {
            _ if column == self.time => "time",
            _ if self.name == Some(column) => "name",
            _ if self.tags.contains(&column) => "tag",
            _ => "field",
        }
    }
}

/// The roles that the user names.
#[derive(Debug, Clone, Default)]
pub struct Named {
    /// The time column.
    pub time: Option<String>,
    /// The tags.
    pub tags: Option<Vec<String>>,
}

/// Determines the roles of the columns: from an existing table, from those named, or guessed; the guess is returned too.
///
/// # Errors
/// Invalid naming the column that the file lacks, or has and the table lacks, with the columns that there are.
pub fn roles(source: &Source, named: &Named, table: Option<&Table>) -> Result<(Roles, Option<Guess>)> {
    let (schema, words) = (&source.schema, source.words);
    let time = time(source, named.time.as_deref(), table)?;
    let series = place(schema, TBNAME).filter(|at| *at != time);
    let tags = named.tags.as_ref().map(|tags| self::tags(source, tags)).transpose()?;
    if tags.as_ref().is_some_and(|tags| tags.contains(&time)) {
        let text = format!("{}: the time column {:?} cannot be a tag", name(words.tags), schema.field(time).name());
        return Err(Error::invalid(text));
    }
    let (roles, guess) = match (table, tags) {
        (Some(table), tags) => (of_table(source, table, time, series, tags.as_deref())?, None),
        (None, Some(tags)) => (Roles { time, tags, name: series }, None),
        (None, None) => {
            let guess = guess(source, time)?;
            (Roles { time, tags: guess.tags.clone(), name: series }, Some(guess))
        }
    };
    let needed = [&[roles.time], roles.tags.as_slice(), roles.name.as_slice()].concat();
    if let Some((file, column, columns)) = source.lacking(&needed) {
        let text = format!("{file}: the file lacks the column {column:?}, which identifies its rows");
        return Err(Error::invalid(text).with("found", columns));
    }
    Ok((roles, guess))
}

/// The roles of the columns of an existing table.
fn of_table(
    source: &Source,
    table: &Table,
    time: usize,
    series: Option<usize>,
    tags: Option<&[usize]>,
) -> Result<Roles> {
    let (schema, words) = (&source.schema, source.words);
    let name_of = |at: usize| schema.field(at).name().as_str();
    let is_tag = |at: usize| table.column(name_of(at)).is_some_and(|column| column.role == Role::Tag);
    if let Some(at) = tags.into_iter().flatten().find(|at| !is_tag(**at)) {
        let text = format!("{}: {:?} is not a tag of the table {}", name(words.tags), name_of(*at), table.name);
        return Err(Error::invalid(text).with("expected", table.list(Some(Role::Tag))));
    }
    for at in (0..schema.fields().len()).filter(|at| Some(*at) != series) {
        if table.column(name_of(at)).is_none() {
            let text = format!("the table {} has no column {:?}", table.name, name_of(at));
            return Err(Error::invalid(text).with("expected", table.list(None)).with("found", names(schema)));
        }
    }
    let tags: Vec<usize> = (0..schema.fields().len()).filter(|at| *at != time && is_tag(*at)).collect();
    if tags.is_empty() && series.is_none() && table.has_tags() {
        let text =
            format!("the file has none of the tags of the table {}, so its rows belong to no series", table.name);
        return Err(Error::invalid(text).with("expected", table.list(Some(Role::Tag))).with("found", names(schema)));
    }
    Ok(Roles { time, tags, name: series })
}

/// Index of the time column: the named one, the table's, `ts` or `time`, or the first timestamp column.
///
/// # Errors
/// There is no such column; the error lists the file's columns.
fn time(source: &Source, named: Option<&str>, table: Option<&Table>) -> Result<usize> {
    let (schema, option) = (&source.schema, name(source.words.time));
    let lacks = |text: String| Error::invalid(text).with("found", names(schema));
    if let Some(name) = named {
        return place(schema, name).ok_or_else(|| lacks(format!("{option}: the file has no column {name:?}")));
    }
    if let Some(time) = table.and_then(|table| table.columns.first()) {
        let found = place(schema, &time.name);
        return found.ok_or_else(|| lacks(format!("the file lacks the table's time column {:?}", time.name)));
    }
    found_time(source).ok_or_else(|| {
        lacks(format!(
            "no time column found: name it with {option}; expected a column named ts or time, or one that holds timestamps"
        ))
    })
}

/// The column `ts` or `time`, else the first column of timestamps.
fn found_time(source: &Source) -> Option<usize> {
    let fields = source.schema.fields();
    let named = fields.iter().position(|f| ["ts", "time"].iter().any(|name| f.name().eq_ignore_ascii_case(name)));
    let is_given = |at: &usize| source.times.contains(at) || is_time(fields[*at].data_type());
    named.or_else(|| (0..fields.len()).find(is_given))
}

/// Whether a column is the time without being named.
pub(crate) fn has_time(source: &Source) -> bool {
    found_time(source).is_some()
}

/// Index of the column that the server would choose as the time of a new table with this schema.
pub(crate) fn new_table_time(schema: &Schema) -> Option<usize> {
    let fields = schema.fields();
    let named = |name: &str| name.eq_ignore_ascii_case("ts") || name.eq_ignore_ascii_case("time");
    let first = fields.iter().position(|f| is_time(f.data_type()) && named(f.name()));
    first.or_else(|| fields.iter().position(|f| is_time(f.data_type())))
}

/// Column indexes of the tags named by the user.
///
/// # Errors
/// The file lacks one of the columns.
pub fn tags(source: &Source, named: &[String]) -> Result<Vec<usize>> {
    let mut tags = Vec::new();
    for tag in named.iter().map(|name| name.trim()).filter(|name| !name.is_empty()) {
        match place(&source.schema, tag) {
            Some(at) => tags.push(at),
            None => {
                let text = format!("{}: the file has no column {tag:?}", name(source.words.tags));
                return Err(Error::invalid(text).with("found", names(&source.schema)));
            }
        }
    }
    Ok(tags)
}

/// Guess from the first rows.
#[derive(Debug)]
pub struct Guess {
    /// Number of rows read.
    rows: usize,
    /// Number of distinct values of each text column; `None` for other columns and above [`MOST_VALUES`].
    values: Vec<Option<usize>>,
    /// Columns guessed to be tags.
    pub tags: Vec<usize>,
}

/// Guesses the tags: text columns whose values occur at least twice on average, and text dictionaries.
fn guess(source: &Source, time: usize) -> Result<Guess> {
    let state = std::hash::RandomState::new();
    let fields = source.schema.fields();
    let is_text = |at: usize| {
        at != time
            && !source.times.contains(&at)
            && !fields[at].name().eq_ignore_ascii_case(TBNAME)
            && is_text(fields[at].data_type())
    };
    let mut seen: Vec<Option<HashSet<u64>>> = (0..fields.len()).map(|at| is_text(at).then(HashSet::new)).collect();
    let mut rows = 0;
    for batch in source.rows(Wrongs::Skip, &unwatched()) {
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
        // The columns with the most values are the least likely tags.
        while seen.iter().flatten().map(HashSet::len).sum::<usize>() > MOST_HELD {
            if let Some(most) = seen.iter_mut().max_by_key(|values| values.as_ref().map_or(0, HashSet::len)) {
                *most = None;
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

impl Guess {
    /// One line per column: name, role, type and number of distinct values.
    pub fn describe(&self, schema: &Schema, roles: &Roles) -> String {
        let width = schema.fields().iter().map(|f| f.name().chars().count()).max().unwrap_or(0);
        let mut out = String::new();
        for (at, field) in schema.fields().iter().enumerate() {
            let role = roles.role(at);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        input::{FileFormat, spool},
        source::Reading,
        table::{Holds, TableColumn},
        words::Words,
    };

    fn source(text: &str) -> Source {
        let input = spool(text.as_bytes(), "x.csv").unwrap();
        let reading = Reading { nulls: Vec::new(), types: Vec::new(), sample: 1_000, words: Words::COMMAND_LINE };
        Source::inspect(vec![(input, FileFormat::Csv)], reading).unwrap()
    }

    #[test]
    fn text_of_few_values_is_guessed_to_be_a_tag_and_text_of_many_a_field() {
        let mut text = "host,note,ts,usage\n".to_owned();
        for n in 0..200 {
            text += &format!("h{},note {n},{n},{n}.5\n", n % 10);
        }
        let source = source(&text);
        let (roles, guess) = roles(&source, &Named::default(), None).unwrap();
        assert_eq!((roles.time, roles.tags.clone()), (2, vec![0]));
        let told = guess.unwrap().describe(&source.schema, &roles);
        let expected = "  host   tag    text       10 different values in 200 rows\n  \
                        note   field  text       200 different values in 200 rows\n  \
                        ts     time   integer\n  usage  field  number\n";
        assert_eq!(told, expected);
    }

    #[test]
    fn a_column_that_the_file_lacks_is_named_with_what_it_has() {
        let source = source("at,site\n1,x\n");
        let named = |time: Option<&str>, tags: Option<&str>| Named {
            time: time.map(str::to_owned),
            tags: tags.map(|tags| vec![tags.to_owned()]),
        };
        for (named, parts) in [
            (named(Some("when"), None), ["--time", "\"when\"", "at, site"]),
            (named(Some("at"), Some("sites")), ["--tags", "\"sites\"", "at, site"]),
            (named(None, None), ["--time", "no time column", "at, site"]),
            (named(Some("at"), Some("at")), ["--tags", "time column", "\"at\""]),
        ] {
            let error = roles(&source, &named, None).unwrap_err().to_string();
            assert!(parts.iter().all(|part| error.contains(part)), "{error}");
        }
    }

    #[test]
    fn columns_that_do_not_fit_an_existing_table_are_named() {
        let column = |name: &str, role, holds| TableColumn { name: name.to_owned(), role, holds };
        let table = Table {
            name: "fleet".to_owned(),
            columns: vec![
                column("ts", Role::Time, Holds::Time),
                column("v", Role::Field, Holds::Float),
                column("host", Role::Tag, Holds::Text),
            ],
            is_hidden: false,
        };
        let found = |text: &str| {
            let mut source = source(text);
            source.fit(&table);
            roles(&source, &Named::default(), Some(&table)).map(|(roles, _)| (roles, source))
        };
        let (roles, source) = found("TS,v,Host\n1,x,7\n").unwrap();
        assert_eq!(roles, Roles { time: 0, tags: vec![2], name: None });
        assert_eq!(
            (source.schema.field(1).data_type(), source.schema.field(2).data_type()),
            (&DataType::Float64, &DataType::Utf8)
        );
        for (text, part) in [
            ("v,host\n1,x\n", "time column \"ts\""),
            ("ts,v\n1,1\n", "none of the tags"),
            ("ts,w,host\n1,1,x\n", "no column \"w\""),
        ] {
            let error = found(text).map(|_| ()).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
