//! Adapters: processes that run another engine and report measurements (counterpart: `loadtest/peers/adapter.py`).

use super::sample::PeerSample;
use anyhow::{Context, Result, bail};
use serde::Deserialize;
use std::{
    io::{BufRead, BufReader, Write},
    path::PathBuf,
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, sync_channel},
    time::{Duration, Instant},
};

/// Maximum number of unread output lines of an adapter.
const WAITING_LINES: usize = 16;
/// Maximum wait for an adapter to exit after its last event.
const END_TIME: Duration = Duration::from_secs(60);

/// An event of an adapter: one JSON object per line.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub enum Event {
    /// The server accepts rows.
    Ready {
        /// The engine.
        peer: String,
        /// Its version.
        version: String,
        /// `http://127.0.0.1:port`.
        url: String,
    },
    /// All rows are stored and compaction has finished.
    Settled {
        /// Number of stored rows, if the engine reports it.
        rows: Option<u64>,
        /// Seconds from the last row's reply until the store had settled.
        seconds: f64,
        /// Disk usage of the store, as `du` counts it.
        bytes: u64,
        /// Load statistics, for an engine that got its rows through the adapter's standard input.
        load: Option<Taken>,
    },
    /// The result of one query.
    Answer(PeerSample),
    /// The result of one statement of `tsbs`.
    Table {
        /// Time of each run in order, in milliseconds.
        millis: Vec<f64>,
        /// File with the answer of the last run as an Arrow stream; read and removed by the load test.
        file: Option<PathBuf>,
        /// Why the statement failed.
        error: Option<String>,
    },
    /// All statements of several clients are answered.
    Mixed {
        /// Seconds from the first statement to the last answer.
        seconds: f64,
    },
}

/// Statistics of an adapter that loaded the rows from its standard input into its engine.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Taken {
    /// The engine.
    pub peer: String,
    /// Its version.
    pub version: String,
    /// Seconds from the first batch of rows to the commit of the last.
    pub seconds: f64,
    /// Concurrent writing clients of the adapter; 0 for an engine inside its process.
    #[serde(default)]
    pub clients: usize,
    /// Rows per request.
    #[serde(default)]
    pub rows_per_request: usize,
}

/// An adapter's process. Dropping it kills the process, and with it the engine's server.
#[derive(Debug)]
pub struct Adapter {
    name: String,
    process: Child,
    input: Option<ChildStdin>,
    lines: Receiver<std::io::Result<String>>,
}

impl Drop for Adapter {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Adapter {
    /// Starts a command with piped standard input and output; standard error is inherited.
    ///
    /// # Errors
    /// The command cannot be started.
    pub fn start(command: &mut Command) -> Result<Self> {
        let name = format!("{command:?}");
        let mut process =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().with_context(|| format!("start {name}"))?;
        let (input, output) = (process.stdin.take(), process.stdout.take());
        let (sender, lines) = sync_channel(WAITING_LINES);
        let output = output.context("the adapter has no standard output")?;
        // The thread ends when the process closes its output or the receiver is dropped.
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines() {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Ok(Self { name, process, input, lines })
    }

    /// Takes the adapter's standard input, for rows; `None` after the first call.
    pub fn take_input(&mut self) -> Option<ChildStdin> {
        self.input.take()
    }

    /// Returns the standard input taken by [`Adapter::take_input`], for lines after the rows.
    pub fn return_input(&mut self, input: ChildStdin) {
        self.input = Some(input);
    }

    /// Writes a line to the adapter's standard input.
    ///
    /// # Errors
    /// The adapter's standard input is closed.
    pub fn say(&mut self, line: &str) -> Result<()> {
        let input = self.input.as_mut().with_context(|| format!("{}: its input is closed", self.name))?;
        writeln!(input, "{line}").and_then(|()| input.flush()).with_context(|| format!("say {line:?} to {}", self.name))
    }

    /// Waits for the next event; `None` when the adapter has exited successfully.
    ///
    /// # Errors
    /// No event in time, a line that is not an event, an adapter that has failed.
    pub fn next(&mut self, wait: Duration) -> Result<Option<Event>> {
        match self.lines.recv_timeout(wait) {
            Ok(line) => {
                let line = line.with_context(|| format!("read the output of {}", self.name))?;
                let shown = || format!("{} printed {:?}", self.name, line.chars().take(300).collect::<String>());
                serde_json::from_str(&line).map(Some).with_context(shown)
            }
            Err(RecvTimeoutError::Timeout) => bail!("{} has said nothing for {wait:?}", self.name),
            Err(RecvTimeoutError::Disconnected) => self.end().map(|()| None),
        }
    }

    /// Closes the adapter's standard input and waits for its exit; events until then are discarded.
    ///
    /// # Errors
    /// The adapter does not exit in time, or has failed.
    pub fn stop(mut self) -> Result<()> {
        drop(self.input.take());
        while self.next(END_TIME)?.is_some() {}
        Ok(())
    }

    fn end(&mut self) -> Result<()> {
        let begun = Instant::now();
        loop {
            match self.process.try_wait().with_context(|| format!("wait for {}", self.name))? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => bail!("{} ended with {status}", self.name),
                None if begun.elapsed() > END_TIME => bail!("{} does not end within {END_TIME:?}", self.name),
                None => std::thread::sleep(Duration::from_millis(10)),
            }
        }
    }
}
