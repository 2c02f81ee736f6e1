//! The commands of the shell: their names, arguments and help.

use std::{path::PathBuf, time::Duration};

use anyhow::{Context, bail, ensure};
use clap::ValueEnum;
use tidelake_format::nearest::nearest;

use super::print::Mode;
use crate::transfer::Source;

/// A parsed command.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Command {
    /// Lists the commands.
    Help,
    /// Ends the shell.
    Quit,
    /// Lists the databases.
    Databases,
    /// Lists the tables of the database.
    Tables,
    /// Shows the columns of a table.
    Describe(String),
    /// Lists the functions whose names begin so.
    Functions(String),
    /// Sets the database of unqualified table names.
    Use(String),
    /// Sets the output format.
    Mode(Mode),
    /// Prints one line a value; `None` changes between on and off.
    Vertical(Option<bool>),
    /// Prints times of statements.
    Timing(Option<bool>),
    /// Uses the pager for long tables.
    Pager(Option<bool>),
    /// Sets the maximum number of printed rows; 0 prints all.
    Rows(usize),
    /// Writes results to a file, or to the terminal again.
    Output(Option<PathBuf>),
    /// Runs the statements and commands of a file.
    Include(PathBuf),
    /// Edits the last statement in an editor and runs it.
    Edit,
    /// Repeats the last statement.
    Watch(Duration),
    /// Exports a query or table to a file.
    CopyTo {
        /// What to export.
        source: Source,
        /// The file.
        file: PathBuf,
    },
    /// Imports a file into a table.
    CopyFrom {
        /// The table.
        table: String,
        /// The file.
        file: PathBuf,
    },
}

/// Names, argument and purpose of a command, and how it is made of its argument.
struct Entry {
    names: &'static [&'static str],
    argument: &'static str,
    help: &'static str,
    parse: fn(&str) -> anyhow::Result<Command>,
}

const fn entry(
    names: &'static [&'static str],
    argument: &'static str,
    help: &'static str,
    parse: fn(&str) -> anyhow::Result<Command>,
) -> Entry {
    Entry { names, argument, help, parse }
}

/// All commands. The names that begin with a dot are those of SQLite and DuckDB.
static ALL: [Entry; 18] = [
    entry(&["\\?", "\\h", ".help"], "", "this list", |_| Ok(Command::Help)),
    entry(&["\\q", ".quit", ".exit"], "", "end, as quit, exit and Ctrl-D do", |_| Ok(Command::Quit)),
    entry(&["\\l", ".databases"], "", "databases", |_| Ok(Command::Databases)),
    entry(&["\\dt", ".tables"], "", "tables of the database", |_| Ok(Command::Tables)),
    entry(&["\\d", ".schema"], "[TABLE]", "tables of the database, or columns of a table", |argument| {
        Ok(if argument.is_empty() { Command::Tables } else { Command::Describe(argument.to_owned()) })
    }),
    entry(&["\\df", ".functions"], "[START]", "functions, or those whose names begin so", |argument| {
        Ok(Command::Functions(argument.to_owned()))
    }),
    entry(&["\\u", "\\c", ".use"], "DATABASE", "use a database", |argument| {
        ensure!(!argument.is_empty(), "expected the name of a database");
        Ok(Command::Use(argument.trim_matches(['`', '"']).to_owned()))
    }),
    entry(
        &["\\f", ".mode"],
        "FORMAT",
        "output format: table, csv, json, ndjson, markdown, vertical, chart",
        |argument| {
            let expected = || format!("expected a format: {}", Mode::names());
            Mode::from_str(argument, true).map(Command::Mode).map_err(|_| anyhow::anyhow!(expected()))
        },
    ),
    entry(&["\\x"], "[on|off]", "print one line a value", |argument| switch(argument).map(Command::Vertical)),
    entry(&["\\timing", ".timer"], "[on|off]", "print the time of each statement", |argument| {
        switch(argument).map(Command::Timing)
    }),
    entry(&["\\pager"], "[on|off]", "show long tables in a pager: $PAGER, or less", |argument| {
        switch(argument).map(Command::Pager)
    }),
    entry(&["\\rows", ".maxrows"], "N", "maximum number of printed rows; 0 prints all", |argument| {
        argument.parse().map(Command::Rows).context("expected a number of rows")
    }),
    entry(&["\\o", ".output"], "[FILE]", "write results to a file, or to the terminal again", |argument| {
        Ok(Command::Output((!argument.is_empty()).then(|| file(argument))))
    }),
    entry(&["\\i", ".read"], "FILE", "run the statements and commands of a file", |argument| {
        ensure!(!argument.is_empty(), "expected the name of a file");
        Ok(Command::Include(file(argument)))
    }),
    entry(&["\\e", ".edit"], "", "edit the last statement in $EDITOR, then run it", |_| Ok(Command::Edit)),
    entry(
        &["\\watch"],
        "[SECONDS]",
        "repeat the last statement until Ctrl-C, each two seconds by default",
        |argument| {
            let seconds: f64 = if argument.is_empty() { 2.0 } else { argument.parse().unwrap_or(-1.0) };
            ensure!((0.1..=86_400.0).contains(&seconds), "expected seconds from 0.1 to 86400");
            Ok(Command::Watch(Duration::from_secs_f64(seconds)))
        },
    ),
    entry(&["\\copy"], "{TABLE|(QUERY)} to FILE", "export to a CSV, NDJSON, line protocol or Parquet file", copy),
    entry(&["\\copy"], "TABLE from FILE", "import such a file; tags of a new table are guessed", copy),
];

impl Command {
    /// Parses the text of a command.
    ///
    /// # Errors
    /// An unknown name, with the nearest known one, or an argument of another form than expected.
    pub(super) fn parse(text: &str) -> anyhow::Result<Self> {
        let text = text.trim().trim_end_matches(';').trim_end();
        let (name, argument) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        let argument = argument.trim();
        let Some(entry) = ALL.iter().find(|entry| entry.names.contains(&name)) else {
            let near = nearest(name, Self::names()).map(|near| format!("; did you mean {near}?")).unwrap_or_default();
            bail!("unknown command {name}{near} \\? lists all");
        };
        ensure!(!entry.argument.is_empty() || argument.is_empty(), "{name} takes no argument (found: {argument})");
        (entry.parse)(argument).with_context(|| format!("{name} {}", entry.argument))
    }

    /// The names of all commands.
    pub(super) fn names() -> impl Iterator<Item = &'static str> {
        ALL.iter().flat_map(|entry| entry.names.iter().copied())
    }

    /// A line for each command.
    pub(super) fn help() -> String {
        let lines = ALL.iter().map(|entry| {
            let usage = format!("{} {}", entry.names[0], entry.argument);
            let others = entry.names[1..].join(", ");
            let others = if others.is_empty() { others } else { format!(" ({others})") };
            format!("{usage:<33}{}{others}\n", entry.help)
        });
        let lines: String = lines.collect();
        lines
            + "Statements end with ';'. Ctrl-C cancels the running statement or clears the input; Tab completes names."
    }
}

/// Reads on, off, or nothing.
fn switch(text: &str) -> anyhow::Result<Option<bool>> {
    match text.to_ascii_lowercase().as_str() {
        "" => Ok(None),
        "on" | "1" | "true" => Ok(Some(true)),
        "off" | "0" | "false" => Ok(Some(false)),
        _ => bail!("expected on or off"),
    }
}

/// A file name, with or without quotes. `~/` is the home directory.
fn file(text: &str) -> PathBuf {
    let text = ['\'', '"'].iter().find_map(|quote| text.strip_prefix(*quote)?.strip_suffix(*quote)).unwrap_or(text);
    match (text.strip_prefix("~/"), std::env::home_dir()) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => PathBuf::from(text),
    }
}

/// Parses the argument of `\copy`.
fn copy(text: &str) -> anyhow::Result<Command> {
    let expected = "expected: TABLE to FILE, (QUERY) to FILE, or TABLE from FILE";
    let (source, rest) = match text.strip_prefix('(') {
        // The query may contain parentheses, the name of the file rarely does.
        Some(_) => text.rsplit_once(')').map(|(query, rest)| (query[1..].trim(), rest)).context(expected)?,
        None => text.split_once(char::is_whitespace).context(expected)?,
    };
    let (direction, name) = rest.trim().split_once(char::is_whitespace).context(expected)?;
    let (source, file) = (source.to_owned(), file(name.trim()));
    match (direction.to_ascii_lowercase().as_str(), text.starts_with('(')) {
        ("to", true) => Ok(Command::CopyTo { source: Source::Query(source), file }),
        ("to", false) => Ok(Command::CopyTo { source: Source::Table(source), file }),
        ("from", false) => Ok(Command::CopyFrom { table: source, file }),
        _ => bail!(expected),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_have_the_names_of_psql_and_of_duckdb() {
        for (text, expected) in [
            ("\\q", Command::Quit),
            (".exit;", Command::Quit),
            ("\\d", Command::Tables),
            ("\\d  `a b`", Command::Describe("`a b`".to_owned())),
            (".tables", Command::Tables),
            ("\\u `Home`", Command::Use("Home".to_owned())),
            (".mode JSON", Command::Mode(Mode::Json)),
            ("\\f line", Command::Mode(Mode::Vertical)),
            ("\\x", Command::Vertical(None)),
            ("\\timing off", Command::Timing(Some(false))),
            ("\\o 'a b.txt'", Command::Output(Some("a b.txt".into()))),
            ("\\o", Command::Output(None)),
            ("\\watch", Command::Watch(Duration::from_secs(2))),
            ("\\watch 0.5", Command::Watch(Duration::from_millis(500))),
            ("\\copy t to t.csv", Command::CopyTo { source: Source::Table("t".to_owned()), file: "t.csv".into() }),
            (
                "\\copy (select max(v) from t) to 'o.parquet'",
                Command::CopyTo { source: Source::Query("select max(v) from t".to_owned()), file: "o.parquet".into() },
            ),
            ("\\copy t FROM t.csv", Command::CopyFrom { table: "t".to_owned(), file: "t.csv".into() }),
        ] {
            assert_eq!(Command::parse(text).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn a_wrong_command_is_answered_with_what_is_expected() {
        for (text, expected) in [
            ("\\tming", "unknown command \\tming; did you mean \\timing? \\? lists all"),
            ("\\f xml", "\\f FORMAT: expected a format: table, csv, json, ndjson, markdown, vertical, chart"),
            ("\\x maybe", "\\x [on|off]: expected on or off"),
            ("\\watch fast", "\\watch [SECONDS]: expected seconds from 0.1 to 86400"),
            ("\\l all", "\\l takes no argument (found: all)"),
            ("\\u", "\\u DATABASE: expected the name of a database"),
            (
                "\\copy t",
                "\\copy {TABLE|(QUERY)} to FILE: expected: TABLE to FILE, (QUERY) to FILE, or TABLE from FILE",
            ),
        ] {
            assert_eq!(format!("{:#}", Command::parse(text).unwrap_err()), expected);
        }
    }

    #[test]
    fn the_help_has_a_line_for_each_command_that_fits_a_terminal() {
        let help = Command::help();
        assert!(Command::names().all(|name| help.contains(name)));
        assert!(help.lines().all(|line| line.chars().count() <= 120), "{help}");
    }
}
