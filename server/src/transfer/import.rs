//! Imports the rows of files into a supertable.

use std::{
    io::{IsTerminal, Write as _},
    path::PathBuf,
    sync::Arc,
};

use anyhow::{Context, bail, ensure};
use arrow::{array::AsArray, datatypes::TimeUnit};
use clap::Args;
use indicatif::ProgressBar;
use serde::{Deserialize, Serialize};
use tidelake_format::schema::Role;
use tidelake_import::{
    check::{Check, check},
    input,
    keys::{self, Bounds},
    preview::{self, preview, refusal},
    roles::{self, Guess, Named, Roles},
    shape::{Prepared, Shape},
    source::{INFER_ROWS, Reading, Source, Wrongs, types},
    table::{Holds, Table, TableColumn},
    words::{Words, many},
};

use super::{
    FileFormat, bytes_bar, dry_run, files, line_file,
    rejects::{Kept, Rejects},
    resume::{self, State},
    sending::{Sending, send},
};
use crate::{arguments::ServerArgs, client::Client};

/// Default number of rows per ingest call: they are held in memory and become visible together.
const PART_ROWS: u64 = 1 << 20;

/// Options of an import.
#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    #[command(flatten)]
    pub(super) server: ServerArgs,
    /// Input files, patterns such as 'data/*.csv' or 's3://bucket/data/*.csv', or - for standard input; gzip and zstd are
    /// decompressed
    #[arg(required = true, value_name = "FILE")]
    pub(super) files: Vec<PathBuf>,
    /// Target supertable, or database.table; created if it does not exist (not for line protocol, which names its tables)
    #[arg(long, short = 't')]
    table: Option<String>,
    /// File format [default: by extension]
    #[arg(long, short = 'f', value_enum)]
    format: Option<FileFormat>,
    /// Tag columns of a new table, separated by commas; '' for none [default: guessed from the files]
    #[arg(long, value_delimiter = ',')]
    tags: Option<Vec<String>>,
    /// Time column [default: ts or time, else the first timestamp column]
    #[arg(long)]
    time: Option<String>,
    /// Types of columns: bool, int, double, text or timestamp [default: inferred from the files]; omit: the column is not imported
    #[arg(long, value_name = "COLUMN:TYPE,…")]
    types: Option<String>,
    /// Unit of numeric timestamps
    #[arg(long, value_enum, default_value_t = Precision::Ns)]
    pub(super) precision: Precision,
    /// Text to read as null, such as N/A; may be repeated
    #[arg(long = "null", value_name = "TEXT")]
    nulls: Vec<String>,
    /// Import rows with the same series and time as another row of the files; the last one wins
    #[arg(long)]
    allow_overwrite: bool,
    /// Import times that seem to be in another unit than --precision, such as seconds read as nanoseconds
    #[arg(long)]
    pub(super) allow_implausible_times: bool,
    /// Show the columns, the rows that cannot be read and the statement that creates the table; write nothing
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Write rows that cannot be read into this new CSV file and import the others
    #[arg(long, value_name = "FILE")]
    pub(super) reject_file: Option<PathBuf>,
    /// The most rows that may be rejected [default: no limit]
    #[arg(long, value_name = "N", requires = "reject_file")]
    pub(super) reject_limit: Option<u64>,
    /// Number of files that are sent at once
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=64))]
    pub(super) jobs: u64,
    /// Save the progress in this file, and continue from it if it exists; it is removed at the end
    #[arg(long, value_name = "STATEFILE")]
    pub(super) resume: Option<PathBuf>,
    /// Rows of a part, which is held in memory and becomes visible as a whole
    #[arg(long, value_name = "N", default_value_t = PART_ROWS, value_parser = clap::value_parser!(u64).range(1..))]
    part_rows: u64,
    /// Accept the guessed tags without asking
    #[arg(long, short = 'y')]
    yes: bool,
}

impl ImportArgs {
    /// An import with default options.
    pub(crate) fn of(server: ServerArgs, table: String, file: PathBuf) -> Self {
        Self {
            server,
            files: vec![file],
            table: Some(table),
            format: None,
            tags: None,
            time: None,
            types: None,
            precision: Precision::Ns,
            nulls: Vec::new(),
            allow_overwrite: false,
            allow_implausible_times: false,
            dry_run: false,
            reject_file: None,
            reject_limit: None,
            jobs: 2,
            resume: None,
            part_rows: PART_ROWS,
            yes: false,
        }
    }

    /// The options that decide which rows are written, each as text.
    pub(super) fn decisive(&self) -> Vec<(String, String)> {
        let list = |list: &[String]| list.join(",");
        let option = |name: &str, value: Option<String>| (name.to_owned(), value.unwrap_or_default());
        vec![
            option("--url", Some(self.server.url.clone())),
            option("--database", self.server.database.clone()),
            option("--table", self.table.clone()),
            option("--format", self.format.map(|format| format!("{format:?}"))),
            option("--tags", self.tags.as_deref().map(|tags| format!("[{}]", list(tags)))),
            option("--time", self.time.clone()),
            option("--types", self.types.clone()),
            option("--precision", Some(self.precision.name().to_owned())),
            option("--null", Some(list(&self.nulls))),
            option("--allow-overwrite", Some(self.allow_overwrite.to_string())),
            option("--allow-implausible-times", Some(self.allow_implausible_times.to_string())),
            option(resume::REJECT_FILE, self.reject_file.as_ref().map(|file| file.display().to_string())),
        ]
    }
}

/// Units of timestamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Precision {
    Ns,
    Us,
    Ms,
    S,
}

impl Precision {
    fn unit(self) -> TimeUnit {
        match self {
            Precision::Ns => TimeUnit::Nanosecond,
            Precision::Us => TimeUnit::Microsecond,
            Precision::Ms => TimeUnit::Millisecond,
            Precision::S => TimeUnit::Second,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Precision::Ns => "ns",
            Precision::Us => "us",
            Precision::Ms => "ms",
            Precision::S => "s",
        }
    }
}

/// Outcome of an import.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct Counts {
    /// Rows stored under a unique series and time.
    pub(super) written: u64,
    /// Rows replaced by another row of the files, or of the same request, with the same series and time.
    pub(super) replaced: u64,
    /// Rows rejected by the server.
    pub(super) refused: u64,
    /// Rows in the reject file.
    pub(super) rejected: u64,
}

impl std::fmt::Display for Counts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { written, replaced, refused, rejected } = self;
        write!(
            f,
            "{} imported: {written} written, {replaced} replaced, {refused} refused",
            many(written + replaced, "row")
        )?;
        if *rejected > 0 { write!(f, ", {rejected} rejected") } else { Ok(()) }
    }
}

/// Sends the files with a progress bar.
#[expect(clippy::print_stdout, reason = "the command's result")]
pub(crate) async fn import(mut args: ImportArgs) -> anyhow::Result<()> {
    // Statements name tables so, too.
    if args.server.database.is_none()
        && let Some((database, table)) = args.table.as_deref().and_then(|name| name.split_once('.'))
    {
        (args.server.database, args.table) = (Some(database.to_owned()), Some(table.to_owned()));
    }
    let files = files::open(&args.files, args.format)?;
    let state = match &args.resume {
        Some(path) if !args.dry_run => Some(State::open(path, &files, args.decisive())?),
        _ => None,
    };
    let is_line = files.first().is_some_and(|(_, format)| *format == input::FileFormat::Line);
    let counts = match is_line {
        true => line_file::send(&args, files.into_iter().map(|(input, _)| input).collect(), state).await?,
        false => rows(&args, files, state).await?,
    };
    let Some(counts) = counts else { return Ok(()) };
    println!("{counts}");
    if let Some(file) = args.reject_file.as_ref().filter(|_| counts.rejected > 0) {
        say([format!("{} in {}: the reasons are beside them", many(counts.rejected, "rejected row"), file.display())]);
    }
    ensure!(counts.refused == 0, "incomplete import: {} refused", many(counts.refused, "row"));
    Ok(())
}

/// Imports files of rows; returns nothing after a dry run.
async fn rows(
    args: &ImportArgs,
    files: Vec<(input::Input, input::FileFormat)>,
    mut state: Option<State>,
) -> anyhow::Result<Option<Counts>> {
    let name = args.table.as_deref().context("this file format needs --table")?;
    let words = Words::COMMAND_LINE;
    let types = args.types.as_deref().map_or_else(|| Ok(Vec::new()), |list| types(list, words))?;
    let reading = Reading { nulls: args.nulls.clone(), types, sample: INFER_ROWS, words };
    let mut rejects = match &args.reject_file {
        Some(path) if !args.dry_run => {
            let rejects = Rejects::open(path, args.reject_limit, state.as_ref())?;
            // Before the file exists, so that the same command continues it whenever this one ends.
            state.as_ref().filter(|state| !state.is_resumed).map_or(Ok(()), State::save)?;
            Some(rejects)
        }
        _ => None,
    };
    let mut source = Source::inspect(files, reading)?;
    let mut client = Client::connect(&args.server).await?;
    let is_new_database = lacks_database(&mut client).await?;
    let table = if is_new_database { None } else { table(&mut client, name).await? };
    if let Some(table) = &table {
        source.fit(table);
    }
    let named = Named { time: args.time.clone(), tags: args.tags.clone() };
    let (unit, checks) = (args.precision.unit(), !args.allow_implausible_times);
    if args.dry_run {
        let database = client.database();
        let target = preview::Target { database, name, table: table.as_ref(), named: &named, unit, checks };
        let found = preview(source, &target, Bounds::COMMAND)?;
        dry_run::show(&found, args.allow_overwrite, args.reject_file.is_some())?;
        return Ok(None);
    }
    say(source.notices().map(str::to_owned));
    let (roles, guess) = roles::roles(&source, &named, table.as_ref())?;
    let roles = match guess {
        Some(guess) => confirm(args, &source, name, &guess, roles)?,
        None => roles,
    };
    let shape = Shape::new(&source, &roles, unit, table.is_none(), checks)?;
    let prepared = Prepared { source, shape };
    let wrongs = if rejects.is_some() { Wrongs::Keep } else { Wrongs::Fail };
    let checked = match state.as_ref().and_then(|state| state.checked) {
        Some(checked) => checked,
        None => {
            let tags = table.as_ref().map(|table| table.list(Some(Role::Tag)));
            let found = check_all(args, &prepared, &roles, tags.as_deref(), wrongs, rejects.as_mut())?;
            if let Some(state) = &mut state {
                state.checked = Some(found);
                state.rejects = rejects.as_mut().map_or_else(|| Ok(Kept::default()), Rejects::kept)?;
                state.save()?;
            }
            found
        }
    };
    if let Some(state) = state.as_ref().filter(|state| state.all_done() > 0) {
        say([format!("continuing: {} of an earlier run", many(state.all_done(), "row"))]);
    }
    // Of rows with the same key the last one must be sent last.
    let jobs = if checked.replaced > 0 { 1 } else { usize::try_from(args.jobs).unwrap_or(1) };
    let bar = bytes_bar(bytes(&prepared.source)?);
    let part_rows = usize::try_from(args.part_rows).unwrap_or(usize::MAX);
    let sending = Sending::new(name.to_owned(), prepared, part_rows, bar, rejects, state);
    let (stored, rejected) = send(&mut client, Arc::new(sending), jobs).await?;
    if is_new_database && let Some(database) = client.database() {
        say([format!("created the database {database:?}")]);
    }
    let replaced = checked.replaced;
    Ok(Some(Counts { written: stored.saturating_sub(replaced), replaced, refused: 0, rejected }))
}

/// Size of all files.
fn bytes(source: &Source) -> anyhow::Result<u64> {
    source.inputs().try_fold(0, |sum, input| Ok(sum + input.bytes()?))
}

/// A progress that moves a bar.
pub(super) fn moving(bar: &ProgressBar) -> input::Progress {
    let bar = bar.clone();
    Arc::new(move |bytes| bar.inc(bytes))
}

/// Reads all files before anything is written: counts repeated keys, and collects rows that cannot be read.
fn check_all(
    args: &ImportArgs,
    prepared: &Prepared,
    roles: &Roles,
    tags: Option<&str>,
    wrongs: Wrongs,
    mut rejects: Option<&mut Rejects>,
) -> anyhow::Result<resume::Checked> {
    let source = &prepared.source;
    let bar = bytes_bar(bytes(source)?);
    bar.set_message("checking");
    let progress = moving(&bar);
    let how = Check { wrongs, bounds: Bounds::COMMAND, profiles: false, progress: &progress };
    let checked = check(prepared, Some(roles), how, |wrong| match &mut rejects {
        Some(rejects) => rejects
            .add(source.name(wrong.file), wrong.place, &wrong.reason, &wrong.text)
            .map_err(|e| tidelake_import::Error::invalid(format!("{e:#}"))),
        None => Ok(()),
    });
    bar.finish_and_clear();
    let checked = checked.context("nothing was written")?;
    if let Some(rejects) = rejects {
        rejects.kept()?;
        let name = rejects.name();
        ensure!(
            checked.wrong == 0 || checked.repeats.rows > 0,
            "nothing was written: no row of {} can be read; {name} has the reasons",
            checked.wrong
        );
    }
    if checked.repeats.replaced > 0 && !args.allow_overwrite {
        let explained = keys::explain(prepared, roles, tags, &checked.repeats, wrongs, Bounds::COMMAND)?;
        return Err(refusal(source, &checked.repeats, &explained).into());
    }
    Ok(resume::Checked { replaced: checked.repeats.replaced })
}

#[expect(clippy::print_stderr, reason = "remarks beside the command's result")]
pub(super) fn say(lines: impl IntoIterator<Item = String>) {
    lines.into_iter().for_each(|line| eprintln!("{line}"));
}

/// Whether the selected database does not exist yet. Writing rows creates it, unless the server's settings forbid that.
pub(super) async fn lacks_database(client: &mut Client) -> anyhow::Result<bool> {
    match client.database().map(str::to_owned) {
        None => Ok(false), // the server reports that no database is selected
        Some(name) => Ok(!client.knows_database(&name).await?),
    }
}

/// Describes the table; `None` if it does not exist.
async fn table(client: &mut Client, name: &str) -> anyhow::Result<Option<Table>> {
    let quoted = name.replace('`', "``");
    let described = match client.collect(&format!("describe `{quoted}`")).await {
        Ok(described) => described,
        Err(error) if error.to_string().starts_with("no such table") => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut table = Table { name: name.to_owned(), columns: Vec::new(), is_hidden: false };
    for batch in described {
        let text =
            |i: usize| batch.column(i).as_string_opt::<i32>().context("unexpected columns in the result of DESCRIBE");
        let (names, types, notes) = (text(0)?, text(1)?, text(3)?);
        for row in 0..batch.num_rows() {
            let role = match (table.columns.is_empty(), notes.value(row)) {
                (true, _) => Role::Time,
                (false, "TAG") => Role::Tag,
                (false, _) => Role::Field,
            };
            let (name, holds) = (names.value(row).to_owned(), Holds::of(types.value(row)));
            table.columns.push(TableColumn { name, role, holds });
        }
    }
    Ok(Some(table))
}

/// Shows the guess; asks for confirmation if standard input is a terminal.
fn confirm(args: &ImportArgs, source: &Source, name: &str, guess: &Guess, roles: Roles) -> anyhow::Result<Roles> {
    let table = guess.describe(&source.schema, &roles);
    let files = match source.len() {
        1 => source.name(0).to_owned(),
        files => format!("{files} files"),
    };
    say([format!("the table {name} does not exist; columns guessed from {files}:")]);
    say([table.trim_end().to_owned()]);
    if args.yes || !std::io::stdin().is_terminal() {
        say(["using the guessed tags; set others with --tags".to_owned()]);
        return Ok(roles);
    }
    ask("Tags and time identify a row. Import with these roles? [y/N, or the tags separated by commas] ")?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer).context("cannot read the answer")?;
    match answer.trim() {
        "y" | "Y" | "yes" => Ok(roles),
        "" | "n" | "N" | "no" => bail!("nothing was imported"),
        tags => {
            let tags = tags.split(',').map(|tag| tag.trim().to_owned()).collect::<Vec<_>>();
            let tags = roles::tags(source, &tags)?;
            Ok(Roles { tags, ..roles })
        }
    }
}

#[expect(clippy::print_stderr, reason = "a question on the terminal")]
fn ask(question: &str) -> anyhow::Result<()> {
    eprint!("{question}");
    std::io::stderr().flush().context("cannot ask")
}
