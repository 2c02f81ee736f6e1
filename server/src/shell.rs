//! `tidelake sql`: interactive shell, or statements from `-c` or standard input.

mod complete;
mod print;

use std::{io::IsTerminal, path::PathBuf, time::Instant};

use anyhow::Context;
use clap::Args;
use rustyline::{Config, Editor, error::ReadlineError, history::FileHistory};
use tidelake_protocol::sql::comment_end;
use tokio::signal::unix::{SignalKind, signal};

use self::{
    complete::{ShellHelper, Words},
    print::{Format, Printer},
};
use crate::{arguments::ServerArgs, client::Client, terminal::escaped};

/// Options of the shell.
#[derive(Debug, Args)]
pub(crate) struct ShellArgs {
    #[command(flatten)]
    server: ServerArgs,
    /// Run these statements, separated by ';', and exit; may be repeated
    #[arg(long, short = 'c', value_name = "SQL")]
    command: Vec<String>,
    /// Statements, as with --command
    #[arg(value_name = "SQL", conflicts_with = "command")]
    statements: Vec<String>,
    /// Output format
    #[arg(long, short = 'f', value_enum, default_value_t = Format::Table)]
    format: Format,
    /// Maximum number of rows printed in table format; 0 prints all
    #[arg(long, default_value_t = 1_000)]
    max_rows: usize,
    /// History file [default: ~/.tidelake_history]
    #[arg(long, env = "TIDELAKE_HISTORY", value_name = "FILE")]
    history: Option<PathBuf>,
}

/// Runs the shell until end of input, `\q` or the last `-c`.
pub(crate) async fn run(args: ShellArgs) -> anyhow::Result<()> {
    let mut client = Client::connect(&args.server).await?;
    if let Some(database) = &args.server.database {
        choose(&mut client, database).await?;
    }
    let mut printer = Printer::new(args.format, args.max_rows);
    let given = || args.command.iter().chain(&args.statements);
    if given().next().is_some() {
        for sql in given().flat_map(|text| whole(text)) {
            execute(&mut client, &mut printer, sql).await?;
        }
        return Ok(());
    }
    if !std::io::stdin().is_terminal() {
        let text = std::io::read_to_string(std::io::stdin()).context("cannot read standard input")?;
        for sql in whole(&text) {
            execute(&mut client, &mut printer, sql).await?;
        }
        return Ok(());
    }
    interactive(&args, client, printer).await
}

#[expect(clippy::print_stdout, clippy::print_stderr, reason = "an interactive shell talks on the terminal")]
async fn interactive(args: &ShellArgs, mut client: Client, mut printer: Printer) -> anyhow::Result<()> {
    let config = Config::builder().history_ignore_space(true).auto_add_history(true).build();
    let mut editor: Editor<ShellHelper, FileHistory> = Editor::with_config(config)?;
    let history = args.history.clone().or_else(|| std::env::home_dir().map(|home| home.join(".tidelake_history")));
    if let Some(path) = &history {
        // The file does not exist on the first start.
        let _ = editor.load_history(path);
    }
    editor.set_helper(Some(ShellHelper::new(Words::load(&mut client).await)));
    println!("Connected to {}. End statements with ';'. Type help for commands, quit to exit.", args.server.url);

    let mut pending = String::new();
    loop {
        if let Some(path) = &history {
            // Saved after each line because the shell may be killed; a failure is reported at the end.
            let _ = editor.append_history(path);
        }
        let prompt = match (&*pending, client.database()) {
            ("", Some(database)) => format!("{database}> "),
            ("", None) => "tidelake> ".to_owned(),
            _ => "     ...> ".to_owned(),
        };
        match editor.readline(&prompt) {
            Ok(line) if pending.is_empty() && command_of(&line).is_some() => {
                let line = command_of(&line).unwrap_or_default();
                match interruptible(&mut client, async |client| command(line, client, &mut printer).await).await {
                    Ok(true) => {}
                    Ok(false) => break,
                    Err(e) => eprintln!("error: {}", escaped(&format!("{e:#}"))),
                }
            }
            Ok(line) => {
                pending.push_str(&line);
                pending.push('\n');
                let (complete, rest) = statements(&pending);
                for sql in complete {
                    let started = Instant::now();
                    match interruptible(&mut client, async |client| execute(client, &mut printer, sql).await).await {
                        Ok(rows) => println!("{rows}, {:.3} s\n", started.elapsed().as_secs_f64()),
                        Err(e) => {
                            eprintln!("error: {}\n", escaped(&format!("{e:#}")));
                            break; // later statements of the line may depend on this one
                        }
                    }
                }
                pending = rest.trim_start().to_owned();
            }
            // Ctrl-C at the prompt, or the Ctrl-C that just cancelled a statement.
            Err(ReadlineError::Interrupted | ReadlineError::Signal(_)) => pending.clear(),
            Err(ReadlineError::Eof) => break,
            Err(e) => return Err(e.into()),
        }
    }
    if let Some(path) = &history {
        editor.append_history(path).with_context(|| format!("cannot save the history to {}", path.display()))?;
    }
    Ok(())
}

/// Runs a server operation that Ctrl-C cancels on the server.
async fn interruptible<T>(
    client: &mut Client,
    act: impl AsyncFnOnce(&mut Client) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    // The line editor's own signal handler stays installed.
    let mut interrupts = signal(SignalKind::interrupt()).context("cannot listen for Ctrl-C")?;
    tokio::select! {
        done = act(&mut *client) => return done,
        _ = interrupts.recv() => {}
    }
    Err(client.cancel().await)
}

/// Returns the shell command of a line: one that begins with `\`, or `help`, `quit` or `exit`.
fn command_of(line: &str) -> Option<&str> {
    let line = line.trim();
    match line.trim_end_matches(';').trim_end().to_ascii_lowercase().as_str() {
        "help" => Some("\\?"),
        "quit" | "exit" => Some("\\q"),
        _ => line.starts_with('\\').then_some(line),
    }
}

/// Sets the database of unqualified table names.
///
/// # Errors
/// The server has no such database that is visible to the user.
async fn choose(client: &mut Client, name: &str) -> anyhow::Result<()> {
    let is_known = name.eq_ignore_ascii_case("information_schema") || client.knows_database(name).await?;
    anyhow::ensure!(is_known, "database not found: {name:?}; list databases with SHOW DATABASES");
    client.use_database(name);
    Ok(())
}

/// Runs a `\` command; returns false to end the shell.
#[expect(clippy::print_stdout, reason = "an interactive shell talks on the terminal")]
async fn command(line: &str, client: &mut Client, printer: &mut Printer) -> anyhow::Result<bool> {
    let (name, argument) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    match (name, argument.trim()) {
        ("\\q", _) => return Ok(false),
        ("\\?", _) => println!(
            "\\d            tables of the database\n\\d TABLE      columns of a table\n\\l            databases\n\\u DATABASE   \
             use a database\n\\f FORMAT     table, csv, json, ndjson\n\\q            end, as quit and exit do\n\
             Ctrl-C cancels the running statement or clears the line; Ctrl-D exits."
        ),
        ("\\l", _) => {
            execute(client, printer, "show databases").await?;
        }
        ("\\d", "") => {
            execute(client, printer, "show stables").await?;
        }
        ("\\d", table) => {
            execute(client, printer, &format!("describe {table}")).await?;
        }
        ("\\u", database) if !database.is_empty() => choose(client, database).await?,
        ("\\f", format) => printer.set_format(format)?,
        _ => anyhow::bail!("unknown command {line:?}; list commands with \\?"),
    }
    Ok(true)
}

/// Message about what a statement did.
struct Done(String);

impl std::fmt::Display for Done {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

async fn execute(client: &mut Client, printer: &mut Printer, sql: &str) -> anyhow::Result<Done> {
    // The client sends the database as a header with each request; the server keeps no session.
    let mut words = sql.trim().trim_end_matches(';').split_whitespace();
    if words.next().is_some_and(|w| w.eq_ignore_ascii_case("use")) {
        let (Some(name), None) = (words.next(), words.next()) else { anyhow::bail!("expected: USE database") };
        let name = name.trim_matches(['`', '"']);
        choose(client, name).await?;
        return Ok(Done(format!("using {name}")));
    }
    let reply = client.execute(sql).await?;
    notice(&reply.notices);
    Ok(Done(printer.print(reply).await?))
}

/// Prints the server's notices on standard error.
#[expect(clippy::print_stderr, reason = "remarks beside the rows")]
fn notice(notices: &[String]) {
    notices.iter().for_each(|notice| eprintln!("notice: {}", escaped(notice)));
}

/// Splits a complete text into statements; the last one needs no `;`.
fn whole(text: &str) -> Vec<&str> {
    let (mut all, rest) = statements(text);
    let mut i = 0;
    while let Some(byte) = rest.as_bytes().get(i) {
        match comment_end(rest.as_bytes(), i) {
            Some(end) => i = end,
            None if byte.is_ascii_whitespace() => i += 1,
            None => {
                all.push(rest.trim());
                break;
            }
        }
    }
    all
}

/// Splits text into statements at `;` outside quotes and comments; returns them and the rest after the last one.
fn statements(text: &str) -> (Vec<&str>, &str) {
    let (mut out, mut start, mut quote) = (Vec::new(), 0, None);
    let bytes = text.as_bytes();
    let mut i = 0;
    while i < bytes.len() {
        if quote.is_none()
            && let Some(end) = comment_end(bytes, i)
        {
            i = end;
            continue;
        }
        match (quote, bytes[i]) {
            (None, b @ (b'\'' | b'"' | b'`')) => quote = Some(b),
            (Some(q), b) if b == q => quote = None,
            (None, b';') => {
                if !text[start..i].trim().is_empty() {
                    out.push(text[start..i].trim());
                }
                start = i + 1;
            }
            _ => {}
        }
        i += 1;
    }
    (out, &text[start..])
}

#[cfg(test)]
mod tests {
    use super::{command_of, statements, whole};

    #[test]
    fn words_that_people_try_are_commands_with_and_without_a_semicolon() {
        for (line, command) in [
            ("help", Some("\\?")),
            ("  QUIT ;", Some("\\q")),
            ("exit;", Some("\\q")),
            ("\\d t", Some("\\d t")),
            ("help me", None),
            ("select 1", None),
            ("", None),
        ] {
            assert_eq!(command_of(line), command, "{line:?}");
        }
    }

    #[test]
    fn statements_end_at_semicolons_outside_quotes_and_comments() {
        let (all, rest) = statements("select ';' ; -- no; end\nselect 2;\n select");
        assert_eq!(all, ["select ';'", "-- no; end\nselect 2"]);
        assert_eq!(rest.trim(), "select");
        assert_eq!(statements(";;").0, Vec::<&str>::new());
        let (all, rest) = statements("select /* it's; /* a; */ b; */ 1; select /* ");
        assert_eq!((all, rest), (vec!["select /* it's; /* a; */ b; */ 1"], " select /* "));
        assert_eq!(whole("use home; select 1"), ["use home", "select 1"]);
        assert_eq!(whole("select 1; -- ; the end\n /* of ; it */ "), ["select 1"]);
    }
}
