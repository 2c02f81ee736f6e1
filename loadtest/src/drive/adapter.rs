//! Adapters: processes that run another engine and say what they measure (`loadtest/peers/adapter.py` is the other end).

use super::sample::PeerSample;
use anyhow::{Context, Result, bail};
use serde::Deserialize;
use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, sync_channel},
    time::{Duration, Instant},
};

/// Lines of an adapter that may wait to be heard.
const WAITING_LINES: usize = 16;
/// The longest wait for an adapter that has said its last to end.
const END_TIME: Duration = Duration::from_secs(60);

/// What an adapter says, one JSON object a line.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub enum Event {
    /// A server accepts rows over its protocol.
    Ready {
        /// The engine.
        peer: String,
        /// Its version.
        version: String,
        /// `http://127.0.0.1:port`.
        url: String,
    },
    /// All rows are in, and the store has come to rest.
    Settled {
        /// How many it holds, where it can tell.
        rows: Option<u64>,
        /// From the last row's reply to the rest.
        seconds: f64,
        /// What the store occupies on disk, as `du` counts.
        bytes: u64,
        /// Of an engine that took the rows from the adapter's standard input.
        load: Option<Taken>,
    },
    /// One question.
    Answer(PeerSample),
}

/// How an adapter has given its engine the rows of its standard input.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Taken {
    /// The engine.
    pub peer: String,
    /// Its version.
    pub version: String,
    /// From the first batch of rows to the commit of the last.
    pub seconds: f64,
    /// Clients of the adapter that wrote at once; 0 for an engine inside its process.
    #[serde(default)]
    pub clients: usize,
    /// Rows of their requests.
    #[serde(default)]
    pub rows_per_request: usize,
}

/// An adapter's process; killed when dropped, and with it the server that it has started.
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
    /// Starts a command whose standard input and output are the load test's; its standard error is this process's.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(command: &mut Command) -> Result<Self> {
        let name = format!("{command:?}");
        let mut process =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().with_context(|| format!("start {name}"))?;
        let (input, output) = (process.stdin.take(), process.stdout.take());
        let (sender, lines) = sync_channel(WAITING_LINES);
        let output = output.context("the adapter has no standard output")?;
        // Ends with the process, whose end closes its output, or when nobody hears it any more.
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines() {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Ok(Self { name, process, input, lines })
    }

    /// The adapter's standard input, for rows; to be taken once.
    pub fn take_input(&mut self) -> Option<ChildStdin> {
        self.input.take()
    }

    /// Writes a line to the adapter's standard input.
    ///
    /// # Errors
    /// The adapter has closed it.
    pub fn say(&mut self, line: &str) -> Result<()> {
        let input = self.input.as_mut().with_context(|| format!("{}: its input is closed", self.name))?;
        writeln!(input, "{line}").and_then(|()| input.flush()).with_context(|| format!("say {line:?} to {}", self.name))
    }

    /// The next event; `None` when the adapter has ended with success.
    ///
    /// # Errors
    /// Nothing is said in time, a line that is no event, an adapter that has failed.
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

    /// Closes the adapter's standard input and waits for its end; what it says until then is not heard.
    ///
    /// # Errors
    /// It does not end in time, or has failed.
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
