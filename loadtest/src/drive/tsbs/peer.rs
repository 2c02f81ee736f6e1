//! Another engine inside its adapter's process: gets the rows as an Arrow stream, then one statement after the other.

use std::{
    fs::File,
    io::{BufReader, BufWriter, Write},
    path::Path,
    process::ChildStdin,
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use arrow::ipc::{reader::StreamReader, writer::StreamWriter};
use serde_json::json;

use super::{ANSWER_TIME, Timing, timing};
use crate::{
    drive::{
        adapter::{Adapter, Event},
        sample::PeerLoad,
    },
    workload::tsbs::{Batches, Dialect, Digest, Digester, Question, SCHEMA, Tsbs},
};

/// Rows per batch.
const BATCH_ROWS: u32 = 1 << 16;
/// Maximum wait until all rows are stored and merged.
const SETTLE_TIME: Duration = Duration::from_secs(3_600);

/// A loaded engine.
#[derive(Debug)]
pub struct Peer {
    /// Name of the engine.
    name: String,
    dialect: Dialect,
    adapter: Adapter,
    /// Loading.
    pub load: PeerLoad,
}

impl Peer {
    /// Sends all rows to an adapter and waits until its engine has stored and merged them. Blocks.
    ///
    /// # Errors
    /// The adapter fails or is silent for too long; the engine holds another number of rows.
    pub fn load(mut adapter: Adapter, dialect: Dialect, set: &Tsbs) -> Result<Self> {
        let input = adapter.take_input().context("the adapter has no standard input")?;
        let sent = *set;
        let feeder = std::thread::spawn(move || feed(sent, input));
        let (taken, seconds, disk_bytes) = match adapter.next(SETTLE_TIME)? {
            Some(Event::Settled { rows, seconds, bytes, load: Some(taken) }) => {
                ensure!(rows == Some(set.len()), "the engine was sent {} rows and holds {rows:?}", set.len());
                (taken, seconds, bytes)
            }
            other => bail!("expected event \"settled\" with load statistics, found {other:?}"),
        };
        match feeder.join() {
            Ok(input) => adapter.return_input(input.context("send rows to the adapter")?),
            Err(_) => bail!("the thread that sends rows to the adapter panicked"),
        }
        let load = PeerLoad {
            peer: taken.peer.clone(),
            version: taken.version,
            rows: set.len(),
            seconds: taken.seconds,
            clients: 0,
            rows_per_request: 0,
            settle_seconds: seconds,
            disk_bytes,
            in_process: true,
        };
        Ok(Self { name: taken.peer, dialect, adapter, load })
    }

    /// Name of the engine.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs a question: once uncounted, then at least `repeat` times. A statement that fails is part of the sample. Blocks.
    ///
    /// # Errors
    /// The adapter fails or is silent for too long.
    pub fn ask(&mut self, question: &Question, repeat: usize) -> Result<(Timing, Option<Digest>)> {
        let sql = question.sql(self.dialect);
        self.adapter.say(&json!({ "sql": sql, "repeat": repeat }).to_string())?;
        let result = match self.adapter.next(ANSWER_TIME)? {
            Some(Event::Table { millis, file: Some(file), .. }) => {
                digest(&file, question).map(|digest| (millis, digest))
            }
            Some(Event::Table { error: Some(error), .. }) => Err(anyhow::anyhow!("{error}")),
            other => bail!("{}: expected event \"table\", found {other:?}", self.name),
        };
        Ok(timing(&self.name, sql, result))
    }

    /// Runs all questions by a number of concurrent clients; returns the seconds from the first statement to the last answer.
    /// Blocks.
    ///
    /// # Errors
    /// The adapter fails, a statement fails, or there is no answer in time.
    pub fn mixed(&mut self, questions: &[Question], clients: usize) -> Result<f64> {
        let statements: Vec<String> = questions.iter().map(|question| question.sql(self.dialect)).collect();
        self.adapter.say(&json!({ "mixed": statements, "clients": clients }).to_string())?;
        match self.adapter.next(ANSWER_TIME)? {
            Some(Event::Mixed { seconds }) => Ok(seconds),
            other => bail!("{}: expected event \"mixed\", found {other:?}", self.name),
        }
    }

    /// Ends the adapter and waits for its exit. Blocks.
    ///
    /// # Errors
    /// The adapter does not exit in time, or has failed.
    pub fn stop(self) -> Result<()> {
        self.adapter.stop()
    }
}

/// Sends all rows as an Arrow stream; returns the adapter's standard input for what follows.
fn feed(set: Tsbs, to: ChildStdin) -> Result<ChildStdin> {
    let mut writer = StreamWriter::try_new(BufWriter::with_capacity(1 << 20, to), &SCHEMA)?;
    for batch in Batches::new(set, BATCH_ROWS) {
        writer.write(&batch?)?;
    }
    let mut buffered = writer.into_inner()?;
    buffered.flush()?;
    buffered.into_inner().map_err(|error| error.into_error()).context("flush the rows")
}

/// Digests the Arrow stream of a file, and removes the file.
fn digest(path: &Path, question: &Question) -> Result<Digest> {
    let (columns, is_ordered) = question.columns();
    let file = File::open(path).with_context(|| format!("open {}", path.display()))?;
    let mut digester = Digester::new(columns, is_ordered);
    for batch in StreamReader::try_new(BufReader::new(file), None).context("expected an Arrow stream")? {
        digester.add_batch(&batch.context("the answer is an incomplete Arrow stream")?)?;
    }
    std::fs::remove_file(path).with_context(|| format!("remove {}", path.display()))?;
    Ok(digester.finish())
}
