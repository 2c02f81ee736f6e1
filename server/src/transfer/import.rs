//! Imports the rows of a file into a supertable.

mod keys;
mod roles;
mod shape;

use std::{
    io::{IsTerminal, Write as _},
    path::PathBuf,
};

use anyhow::{Context, bail, ensure};
use arrow::{
    array::{AsArray, RecordBatch},
    datatypes::TimeUnit,
};
use arrow_flight::error::FlightError;
use clap::Args;
use indicatif::ProgressBar;
use tidelake_format::schema::TBNAME;
use tokio::sync::mpsc;

use self::{
    keys::{Prepare, Repeats},
    roles::{Guess, Roles, Table},
    shape::Shape,
};
use super::{
    FileFormat, bytes_bar, line_file,
    rows::{Numbered, Source},
};
use crate::{arguments::ServerArgs, client::Client};

/// Number of rows per ingest call: they are held in memory and become visible together.
const CALL_ROWS: usize = 1 << 20;

/// Options of an import.
#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    #[command(flatten)]
    pub(super) server: ServerArgs,
    /// Input file
    pub(super) file: PathBuf,
    /// Target supertable, or database.table; created if it does not exist (not for line protocol, which names its tables)
    #[arg(long, short = 't')]
    table: Option<String>,
    /// File format [default: by extension]
    #[arg(long, short = 'f', value_enum)]
    format: Option<FileFormat>,
    /// Tag columns of a new table, separated by commas; '' for none [default: guessed from the file]
    #[arg(long, value_delimiter = ',')]
    tags: Option<Vec<String>>,
    /// Time column [default: ts or time, else the first timestamp column]
    #[arg(long)]
    time: Option<String>,
    /// Unit of numeric timestamps
    #[arg(long, value_enum, default_value_t = Precision::Ns)]
    pub(super) precision: Precision,
    /// Text to read as null, such as N/A; may be repeated
    #[arg(long = "null", value_name = "TEXT")]
    nulls: Vec<String>,
    /// Import rows with the same series and time as another row of the file; the last one wins
    #[arg(long)]
    allow_overwrite: bool,
    /// Import times that seem to be in another unit than --precision, such as seconds read as nanoseconds
    #[arg(long)]
    pub(super) allow_implausible_times: bool,
    /// Accept the guessed tags without asking
    #[arg(long, short = 'y')]
    yes: bool,
}

impl ImportArgs {
    /// An import with default options.
    pub(crate) fn of(server: ServerArgs, table: String, file: PathBuf) -> Self {
        Self {
            server,
            file,
            table: Some(table),
            format: None,
            tags: None,
            time: None,
            precision: Precision::Ns,
            nulls: Vec::new(),
            allow_overwrite: false,
            allow_implausible_times: false,
            yes: false,
        }
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Counts {
    /// Rows stored under a unique series and time.
    pub(super) written: u64,
    /// Rows replaced by another row of the file, or of the same request, with the same series and time.
    pub(super) replaced: u64,
    /// Rows rejected by the server.
    pub(super) refused: u64,
}

impl std::fmt::Display for Counts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { written, replaced, refused } = self;
        write!(f, "{} rows imported: {written} written, {replaced} replaced, {refused} refused", written + replaced)
    }
}

/// Sends the file with a progress bar.
#[expect(clippy::print_stdout, reason = "the command's result")]
pub(crate) async fn import(mut args: ImportArgs) -> anyhow::Result<()> {
    // Statements name tables so, too.
    if args.server.database.is_none()
        && let Some((database, table)) = args.table.as_deref().and_then(|name| name.split_once('.'))
    {
        (args.server.database, args.table) = (Some(database.to_owned()), Some(table.to_owned()));
    }
    let format = args.format.map_or_else(|| FileFormat::of(&args.file), Ok)?;
    let counts = match format {
        FileFormat::Line => line_file::send(&args).await?,
        _ => rows(&args, format).await?,
    };
    println!("{counts}");
    ensure!(counts.refused == 0, "incomplete import: {} rows refused", counts.refused);
    Ok(())
}

/// Imports a file of rows.
async fn rows(args: &ImportArgs, format: FileFormat) -> anyhow::Result<Counts> {
    let name = args.table.as_deref().context("this file format needs --table")?;
    let source = Source::inspect(args.file.clone(), format, args.nulls.clone())?;
    say(source.notices.iter().map(|notice| format!("{}: {notice}", source.name())));
    let mut client = Client::connect(&args.server).await?;
    let is_new_database = lacks_database(&mut client).await?;
    let table = if is_new_database { None } else { table(&mut client, name).await? };
    let roles = roles_of(args, &source, name, table.as_ref())?;
    let shape = Shape::new(&source.schema, &roles, args.precision.unit(), table.is_none(), source.place())?;
    let shape = if args.allow_implausible_times { shape } else { shape.checked() };
    let prepare = |rows: &Numbered| shape.apply(rows);
    let repeats = keys::repeats(&source, &prepare, &roles)?;
    if repeats.replaced > 0 && !args.allow_overwrite {
        bail!("{}", refusal(&source, &prepare, &roles, table.as_ref(), &repeats)?);
    }
    let bar = bytes_bar(std::fs::metadata(&args.file)?.len());
    let sent = send(&mut client, name, &source, shape.clone(), &bar).await;
    bar.finish_and_clear();
    let sent = sent?;
    if is_new_database && let Some(database) = client.database() {
        say([format!("created the database {database:?}")]);
    }
    Ok(Counts { written: sent.saturating_sub(repeats.replaced), replaced: repeats.replaced, refused: 0 })
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
    let mut table = Table::default();
    for batch in described {
        let text =
            |i: usize| batch.column(i).as_string_opt::<i32>().context("unexpected columns in the result of DESCRIBE");
        let (names, notes) = (text(0)?, text(3)?);
        for row in 0..batch.num_rows() {
            match (table.time.is_empty(), notes.value(row)) {
                (true, _) => names.value(row).clone_into(&mut table.time),
                (false, "TAG") => table.tags.push(names.value(row).to_owned()),
                (false, _) => {}
            }
        }
    }
    Ok(Some(table))
}

/// Determines the roles of the columns: from an existing table, from the options, or guessed and confirmed.
fn roles_of(args: &ImportArgs, source: &Source, name: &str, table: Option<&Table>) -> anyhow::Result<Roles> {
    let schema = &source.schema;
    let time = roles::time(schema, args.time.as_deref(), table)?;
    let series = roles::place(schema, TBNAME).filter(|at| *at != time);
    let named = args.tags.as_ref().map(|tags| roles::tags(schema, tags)).transpose()?;
    if let Some(table) = table {
        let is_tag = |at: usize| table.tags.iter().any(|tag| schema.field(at).name().eq_ignore_ascii_case(tag));
        if let Some(at) = named.iter().flatten().find(|at| !is_tag(**at)) {
            let (tag, tags) = (schema.field(*at).name(), table.tags.join(", "));
            bail!("--tags: {tag:?} is not a tag of the table {name}; its tags are: {tags}");
        }
        let tags = (0..schema.fields().len()).filter(|at| *at != time && is_tag(*at)).collect();
        return Ok(Roles { time, tags, name: series });
    }
    if let Some(tags) = named {
        ensure!(!tags.contains(&time), "--tags must not contain the time column {:?}", schema.field(time).name());
        return Ok(Roles { time, tags, name: series });
    }
    let guess = roles::guess(source, time)?;
    let roles = Roles { time, tags: guess.tags.clone(), name: series };
    confirm(args, source, name, &guess, roles)
}

/// Shows the guess; asks for confirmation if standard input is a terminal.
fn confirm(args: &ImportArgs, source: &Source, name: &str, guess: &Guess, roles: Roles) -> anyhow::Result<Roles> {
    let table = guess.describe(&source.schema, &roles);
    say([format!("the table {name} does not exist; columns guessed from {}:", source.name())]);
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
            let tags = roles::tags(&source.schema, &tags)?;
            Ok(Roles { tags, ..roles })
        }
    }
}

#[expect(clippy::print_stderr, reason = "a question on the terminal")]
fn ask(question: &str) -> anyhow::Result<()> {
    eprint!("{question}");
    std::io::stderr().flush().context("cannot ask")
}

/// Error about repeated keys, with an example and ways to resolve it.
fn refusal(
    source: &Source,
    prepare: Prepare<'_>,
    roles: &Roles,
    table: Option<&Table>,
    repeats: &Repeats,
) -> anyhow::Result<String> {
    let Repeats { rows, replaced, example } = *repeats;
    let schema = &source.schema;
    let list = |places: &[usize]| places.iter().map(|at| schema.field(*at).name().as_str()).collect::<Vec<_>>();
    let mut text = format!(
        "{}: nothing was written: {replaced} of {rows} rows have the same series and time as another row and would replace it",
        source.name()
    );
    let Some(example) = example else { return Ok(text) };
    let (first, values) = keys::values(source, example.0)?;
    let second = keys::values(source, example.1)?.0;
    let key = [roles.series(), vec![roles.time]].concat();
    let key: Vec<String> = key.iter().map(|at| format!("{}={}", schema.field(*at).name(), values[*at])).collect();
    let place = source.place();
    text += &format!(", for example {} at {place}s {first} and {second}", key.join(", "));
    let more = keys::distinguishing(source, prepare, roles, example)?;
    text += &match (more.is_empty(), table) {
        (true, _) => "; no additional tag distinguishes them".to_owned(),
        (false, None) => {
            let tags = list(&[roles.tags.as_slice(), more.as_slice()].concat());
            format!("; --tags {} makes each row unique", tags.join(","))
        }
        (false, Some(table)) => {
            let (tags, more) = (table.tags.join(", "), list(&more).join(", "));
            let tags = if tags.is_empty() { "none".to_owned() } else { tags };
            format!("; they differ in {more}, but the tags of the table are: {tags}")
        }
    };
    Ok(text + "; --allow-overwrite imports them, and the last row of each series and time wins")
}

/// Sends all rows; returns the number of rows stored.
async fn send(
    client: &mut Client,
    table: &str,
    source: &Source,
    shape: Shape,
    bar: &ProgressBar,
) -> anyhow::Result<u64> {
    let (tx, mut rx) = mpsc::channel(4);
    let (rows, schema) = (source.rows(bar)?, shape.schema().clone());
    let reading = tokio::task::spawn_blocking(move || {
        for numbered in rows {
            let last = numbered.as_ref().ok().and_then(|n| n.places.last().copied());
            let batch =
                numbered.and_then(|numbered| shape.apply(&numbered)).map(|batch| (batch, last.unwrap_or_default()));
            if tx.blocking_send(batch).is_err() {
                break;
            }
        }
    });
    let (mut total, mut last, mut done) = (0, 0, false);
    while !done {
        let (mut call, mut rows, mut end) = (Vec::new(), 0, last);
        while rows < CALL_ROWS {
            let Some(batch) = rx.recv().await else {
                done = true;
                break;
            };
            let (batch, place) = batch.with_context(|| kept(source, total, last))?;
            rows += batch.num_rows();
            end = place;
            call.push(Ok::<_, FlightError>(batch));
        }
        if call.is_empty() {
            if total == 0 {
                call.push(Ok(RecordBatch::new_empty(schema.clone())));
            } else {
                break;
            }
        }
        let sent = client.ingest(table, futures::stream::iter(call)).await;
        total += sent.with_context(|| kept(source, total, last))?.unsigned_abs();
        last = end;
        bar.set_message(format!("{total} rows"));
    }
    reading.await.context("the reader stopped")?;
    Ok(total)
}

/// Message about the rows stored before a failure.
fn kept(source: &Source, total: u64, last: u64) -> String {
    match total {
        0 => "nothing was written".to_owned(),
        _ => format!("{total} rows were written, up to {} {last}", source.place()),
    }
}
