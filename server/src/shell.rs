//! `tidelake sql`: interactive shell, or statements from `-c` or standard input.

mod chart;
mod command;
mod complete;
mod editor;
mod fault;
mod files;
mod highlight;
mod print;
mod progress;
mod script;

use std::{
    io::{IsTerminal, Write as _},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context, bail, ensure};
use clap::Args;
use rustyline::{ColorMode, CompletionType, Config, Editor, error::ReadlineError, history::FileHistory};
use tidelake_import::words::many;
use tidelake_node::local;
use tokio::signal::unix::{SignalKind, signal};

use self::{
    command::Command,
    complete::Catalog,
    editor::ShellHelper,
    fault::place,
    print::{Mode, Printer},
    progress::Progress,
    script::{Item, whole},
};
use crate::{
    arguments::ServerArgs,
    client::Client,
    terminal::escaped,
    transfer::{self, ExportArgs, ImportArgs},
};

/// Maximum depth of files that run other files.
const MOST_NESTED: usize = 16;
/// File in the home directory whose statements and commands an interactive shell runs first.
const STARTUP_FILE: &str = ".tidelakerc";
/// File in the home directory that keeps the input.
const HISTORY_FILE: &str = ".tidelake_history";

/// Options of the shell.
#[derive(Debug, Args)]
pub(crate) struct ShellArgs {
    #[command(flatten)]
    server: ServerArgs,
    /// Query this root without a server, read only: a directory, or the URL of a bucket
    #[arg(long, value_name = "DIRECTORY|URL", conflicts_with_all = ["token", "user"])]
    store: Option<String>,
    /// Query Parquet files without a server: the arguments are files, patterns or s3:// URLs instead of statements, each a table
    /// named after its file
    #[arg(long, conflicts_with_all = ["store", "token", "user", "database"])]
    files: bool,
    /// Run these statements and commands, separated by ';', and exit; may be repeated
    #[arg(long, short = 'c', value_name = "SQL")]
    command: Vec<String>,
    /// Statements, as with --command; with --files, files
    #[arg(value_name = "SQL|FILE")]
    arguments: Vec<String>,
    /// Output format
    #[arg(long, short = 'f', value_enum, default_value_t = Mode::Table)]
    format: Mode,
    /// Maximum number of rows printed in table format; 0 prints all
    #[arg(long, default_value_t = 1_000)]
    max_rows: usize,
    /// History file [default: ~/.tidelake_history]
    #[arg(long, env = "TIDELAKE_HISTORY", value_name = "FILE")]
    history: Option<PathBuf>,
    /// Do not run the statements and commands of ~/.tidelakerc
    #[arg(long)]
    no_rc: bool,
}

/// Runs the shell until end of input, `\q` or the last `-c`.
pub(crate) async fn run(args: ShellArgs) -> anyhow::Result<()> {
    let mut shell = Shell::open(&args).await?;
    let statements = if args.files { &[][..] } else { &args.arguments };
    ensure!(
        args.command.is_empty() || statements.is_empty(),
        "the argument {:?} cannot be used with --command: expected statements in one of both",
        statements.first().map_or("", String::as_str)
    );
    let given = || args.command.iter().chain(statements);
    if given().next().is_some() {
        for text in given() {
            if !shell.script(text).await? {
                break;
            }
        }
        return Ok(());
    }
    if !std::io::stdin().is_terminal() {
        let text = std::io::read_to_string(std::io::stdin()).context("cannot read standard input")?;
        shell.script(&text).await?;
        return Ok(());
    }
    shell.interactive(&args).await
}

/// State of the shell.
struct Shell {
    client: Client,
    /// The server, or `None` for a root that this process reads.
    server: Option<ServerArgs>,
    printer: Printer,
    has_timing: bool,
    /// The last statement, for `\watch` and `\e`.
    last: Option<String>,
    /// Whether a statement may have changed the names that are completed.
    has_new_names: bool,
    /// Files that run each other at the moment.
    nested: usize,
}

impl Shell {
    async fn open(args: &ShellArgs) -> anyhow::Result<Self> {
        let locations = if args.files { &args.arguments[..] } else { &[] };
        let (client, server) = match &args.store {
            None if !args.files => (Client::connect(&args.server).await?, Some(args.server.clone())),
            store => (Client::over(local::open(store.as_deref(), files::files(locations)?).await?), None),
        };
        let printer = Printer::new(args.format, args.max_rows);
        let mut shell = Self { client, server, printer, has_timing: true, last: None, has_new_names: false, nested: 0 };
        if args.files {
            shell.client.use_database(local::FILES);
        } else if let Some(database) = &args.server.database {
            shell.choose(database).await?;
        }
        Ok(shell)
    }

    /// Runs a script; returns false if it ends the shell.
    ///
    /// # Errors
    /// That of the first statement or command that fails, with its number and line.
    async fn script(&mut self, text: &str) -> anyhow::Result<bool> {
        let items = whole(text);
        for (at, (line, item)) in items.iter().enumerate() {
            let done = match item {
                Item::Statement(sql) => self.statement(sql).await.map(|_| true),
                Item::Command(command) => self.command(command).await,
            };
            match done {
                Ok(true) => {}
                Ok(false) => return Ok(false),
                Err(error) => {
                    let (Item::Statement(sql) | Item::Command(sql)) = item;
                    let place = place(&format!("{error:#}"), sql);
                    let error =
                        if place.is_empty() { error } else { anyhow::anyhow!("{error:#}\n{}", place.trim_end()) };
                    return Err(match items.len() {
                        1 => error,
                        count => error.context(format!("statement {} of {count}, line {line}", at + 1)),
                    });
                }
            }
        }
        Ok(true)
    }

    #[expect(clippy::print_stdout, reason = "an interactive shell talks on the terminal")]
    async fn interactive(&mut self, args: &ShellArgs) -> anyhow::Result<()> {
        let color = if std::env::var_os("NO_COLOR").is_some() { ColorMode::Disabled } else { ColorMode::Enabled };
        let config = Config::builder()
            .history_ignore_space(true)
            .auto_add_history(true)
            .completion_type(CompletionType::List)
            .color_mode(color)
            .build();
        let mut editor: Editor<ShellHelper, FileHistory> = Editor::with_config(config)?;
        let history = args.history.clone().or_else(|| std::env::home_dir().map(|home| home.join(HISTORY_FILE)));
        if let Some(path) = &history {
            // The file does not exist on the first start.
            let _ = editor.load_history(path);
        }
        self.printer.has_pager = std::io::stdout().is_terminal();
        self.startup(args).await;
        let catalog = Catalog::load(&mut self.client).await;
        editor.set_helper(Some(ShellHelper::new(catalog, self.client.another())));
        match &self.server {
            Some(server) => print!("Connected to {}.", server.url),
            None => print!("Reading {}.", args.store.as_deref().unwrap_or("files")),
        }
        println!(" End statements with ';'. Type help for commands, quit to exit.");

        loop {
            if let Some(path) = &history {
                // Saved after each input because the shell may be killed; a failure is reported at the end.
                let _ = editor.append_history(path);
            }
            if let Some(helper) = editor.helper_mut() {
                if std::mem::take(&mut self.has_new_names) {
                    helper.catalog = Catalog::load(&mut self.client).await;
                }
                helper.catalog.database = self.client.database().map(str::to_owned);
            }
            let prompt = format!("{}> ", self.client.database().unwrap_or("tidelake"));
            match editor.readline(&prompt) {
                Ok(input) => {
                    if !self.input(&input).await {
                        break;
                    }
                }
                // Ctrl-C at the prompt, or the Ctrl-C that just cancelled a statement.
                Err(ReadlineError::Interrupted | ReadlineError::Signal(_)) => {}
                Err(ReadlineError::Eof) => break,
                Err(e) => return Err(e.into()),
            }
        }
        if let Some(path) = &history {
            editor.append_history(path).with_context(|| format!("cannot save the history to {}", path.display()))?;
        }
        Ok(())
    }

    /// Runs the startup file. Its errors are printed, so that it does not keep the shell from starting.
    async fn startup(&mut self, args: &ShellArgs) {
        let file = std::env::home_dir().map(|home| home.join(STARTUP_FILE));
        if let Some(file) = file.filter(|file| !args.no_rc && file.exists())
            && let Err(error) = self.include(&file).await
        {
            print_error(&format!("{error:#}"));
        }
    }

    /// Runs the statements and commands of an input on the terminal; returns false if one ends the shell.
    #[expect(clippy::print_stdout, reason = "an interactive shell talks on the terminal")]
    async fn input(&mut self, input: &str) -> bool {
        for (_, item) in whole(input) {
            let started = Instant::now();
            let done = match item {
                Item::Statement(sql) => self.interruptible(async |shell| shell.statement(sql).await).await.map(Some),
                Item::Command(text) => match self.interruptible(async |shell| shell.command(text).await).await {
                    Ok(false) => return false,
                    Ok(true) => Ok(None),
                    Err(error) => Err(error),
                },
            };
            match done {
                Ok(None) => {}
                Ok(Some(done)) if self.has_timing => println!("{done}, {:.3} s\n", started.elapsed().as_secs_f64()),
                Ok(Some(done)) => println!("{done}\n"),
                Err(error) => {
                    let message = format!("{error:#}");
                    print_error(&message);
                    if let Item::Statement(sql) = item {
                        print_place(&place(&message, sql));
                    }
                    break; // later statements of the input may depend on this one
                }
            }
        }
        true
    }

    /// Runs an operation that Ctrl-C cancels, on the server too.
    async fn interruptible<T>(&mut self, act: impl AsyncFnOnce(&mut Self) -> anyhow::Result<T>) -> anyhow::Result<T> {
        // The line editor's own signal handler stays installed.
        let mut interrupts = signal(SignalKind::interrupt()).context("cannot listen for Ctrl-C")?;
        tokio::select! {
            done = act(&mut *self) => return done,
            _ = interrupts.recv() => {}
        }
        self.nested = 0;
        Err(self.client.cancel().await)
    }

    /// Sets the database of unqualified table names.
    ///
    /// # Errors
    /// The server has no such database that is visible to the user.
    async fn choose(&mut self, name: &str) -> anyhow::Result<()> {
        let is_known = name.eq_ignore_ascii_case("information_schema") || self.client.knows_database(name).await?;
        ensure!(is_known, "database not found: {name:?}; list databases with SHOW DATABASES");
        self.client.use_database(name);
        Ok(())
    }

    /// Runs a statement of the user, which `\watch` and `\e` then repeat; prints its rows and returns a message with their number.
    async fn statement(&mut self, sql: &str) -> anyhow::Result<String> {
        self.last = Some(sql.to_owned());
        self.execute(sql).await
    }

    /// Runs a statement, prints its rows and returns a message with their number.
    async fn execute(&mut self, sql: &str) -> anyhow::Result<String> {
        // The client sends the database as a header with each request; the server keeps no session.
        let mut words = sql.split_whitespace();
        let first = words.next().unwrap_or_default().to_ascii_lowercase();
        if first == "use" {
            let (Some(name), None) = (words.next(), words.next()) else { bail!("expected: USE database") };
            let name = name.trim_matches(['`', '"']);
            self.choose(name).await?;
            return Ok(format!("using {name}"));
        }
        self.has_new_names |= ["create", "drop", "alter", "insert"].contains(&first.as_str());
        let progress = Progress::start();
        let reply = self.client.execute(sql).await?;
        notice(&reply.notices);
        let rows = self.printer.print(reply, &progress).await?;
        Ok(many(rows as u64, "row"))
    }

    /// Runs a command; returns false to end the shell.
    #[expect(clippy::print_stdout, reason = "the answer of a command")]
    async fn command(&mut self, text: &str) -> anyhow::Result<bool> {
        let on_off = |is_on: bool| if is_on { "on" } else { "off" };
        match Command::parse(text)? {
            Command::Quit => return Ok(false),
            Command::Help => println!("{}", Command::help()),
            Command::Databases => drop(self.execute("show databases").await?),
            Command::Tables => drop(self.execute("show stables").await?),
            Command::Describe(table) => drop(self.execute(&format!("describe {table}")).await?),
            Command::Functions(start) => {
                let start = start.replace('\'', "''").to_lowercase();
                self.execute(&format!("show functions like '{start}%'")).await?;
            }
            Command::Use(database) => self.choose(&database).await?,
            Command::Mode(mode) => self.printer.mode = mode,
            Command::Vertical(is_on) => {
                self.printer.is_vertical = is_on.unwrap_or(!self.printer.is_vertical);
                println!("one line a value: {}", on_off(self.printer.is_vertical));
            }
            Command::Timing(is_on) => {
                self.has_timing = is_on.unwrap_or(!self.has_timing);
                println!("timing: {}", on_off(self.has_timing));
            }
            Command::Pager(is_on) => {
                self.printer.has_pager = is_on.unwrap_or(!self.printer.has_pager);
                println!("pager: {}", on_off(self.printer.has_pager));
            }
            Command::Rows(rows) => self.printer.set_max_rows(rows),
            Command::Output(path) => self.printer.set_output(path)?,
            Command::Include(path) => return Box::pin(self.include(&path)).await,
            Command::Edit => {
                let edited = edit(self.last.as_deref().unwrap_or_default())?;
                return Box::pin(self.script(&edited)).await;
            }
            Command::Watch(every) => self.watch(every).await?,
            Command::CopyTo { source, file } => {
                let rows = transfer::export_rows(&mut self.client, &ExportArgs::of(source, file)).await?;
                println!("{} exported", many(rows, "row"));
            }
            Command::CopyFrom { table, file } => {
                let server =
                    self.server.clone().context("a root that is read without a server cannot be written to")?;
                let database = self.client.database().map(str::to_owned).or(server.database.clone());
                transfer::import(ImportArgs::of(ServerArgs { database, ..server }, table, file)).await?;
                self.has_new_names = true;
            }
        }
        Ok(true)
    }

    /// Runs the statements and commands of a file; returns false if one ends the shell.
    async fn include(&mut self, path: &Path) -> anyhow::Result<bool> {
        let name = path.display();
        ensure!(self.nested < MOST_NESTED, "{name}: files run each other {MOST_NESTED} levels deep");
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {name}"))?;
        self.nested += 1;
        let done = self.script(&text).await.with_context(|| name.to_string());
        self.nested -= 1;
        done
    }

    /// Repeats the last statement until the caller is interrupted or the statement fails.
    #[expect(clippy::print_stdout, reason = "an interactive shell talks on the terminal")]
    async fn watch(&mut self, every: Duration) -> anyhow::Result<()> {
        let sql = self.last.clone().context("no statement to repeat")?;
        let mut ticks = tokio::time::interval(every);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            println!("{}  (every {} s)", chrono::Local::now().format("%Y-%m-%d %H:%M:%S"), every.as_secs_f64());
            self.execute(&sql).await?;
        }
    }
}

/// Lets the user change a text in an editor.
fn edit(text: &str) -> anyhow::Result<String> {
    let named = ["VISUAL", "EDITOR"].iter().find_map(|name| std::env::var(name).ok().filter(|name| !name.is_empty()));
    let editor = named.unwrap_or_else(|| "vi".to_owned());
    let mut file = tempfile::Builder::new().prefix("tidelake-").suffix(".sql").tempfile()?;
    file.write_all(text.as_bytes())?;
    // The editor may be a command with arguments.
    let command = format!("{editor} \"$0\"");
    let status = std::process::Command::new("sh").args(["-c", &command]).arg(file.path()).status();
    let status = status.with_context(|| format!("cannot start the editor {editor}"))?;
    ensure!(status.success(), "the editor {editor} ended with {status}");
    std::fs::read_to_string(file.path()).context("cannot read the edited text")
}

/// Prints the server's notices on standard error.
#[expect(clippy::print_stderr, reason = "remarks beside the rows")]
fn notice(notices: &[String]) {
    notices.iter().for_each(|notice| eprintln!("notice: {}", escaped(notice)));
}

#[expect(clippy::print_stderr, reason = "an interactive shell talks on the terminal")]
fn print_error(message: &str) {
    eprintln!("error: {}", escaped(message));
}

#[expect(clippy::print_stderr, reason = "an interactive shell talks on the terminal")]
fn print_place(place: &str) {
    eprintln!("{}", escaped(place));
}
