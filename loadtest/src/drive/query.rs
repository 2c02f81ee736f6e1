//! Runs statements through any of the server's query interfaces and times them at the client.

use super::flight::{self, Session};
use super::http::{Client, HttpOptions};
use crate::measure::median;
use crate::workload::DATABASE;
use crate::workload::answer::Answer;
use anyhow::{Context, Result, bail};
use arrow::array::RecordBatch;
use arrow::ipc::reader::StreamReader;
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

/// A query interface of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Door {
    /// Arrow Flight SQL.
    Flight,
    /// Arrow Flight SQL, with tags as dictionaries.
    FlightDictionaries,
    /// `POST /api/v1/sql`, answer in Arrow IPC.
    HttpArrow,
    /// `POST /api/v1/sql`, answer in JSON.
    HttpJson,
    /// `POST /rest/sql/db`, answer in TDengine's JSON.
    Rest,
}

impl Door {
    /// All of them.
    pub const ALL: [Door; 5] = [Self::Flight, Self::FlightDictionaries, Self::HttpArrow, Self::HttpJson, Self::Rest];

    /// The name in settings and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Flight => "flight",
            Self::FlightDictionaries => "flight-dictionaries",
            Self::HttpArrow => "http-arrow",
            Self::HttpJson => "http-json",
            Self::Rest => "rest",
        }
    }
}

/// Addresses of the server.
#[derive(Debug, Clone)]
pub struct Addresses {
    /// The HTTP endpoint, `http://host:port`.
    pub url: String,
    /// The Flight SQL endpoint, `grpc://host:port`.
    pub flight: Option<String>,
}

/// Runs of one statement through one interface.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct QuerySample {
    /// The statement's name in reports.
    pub name: String,
    /// The statement.
    pub sql: String,
    /// The interface.
    pub door: Door,
    /// Rows of the answer.
    pub rows: u64,
    /// Time of each run in order, in milliseconds, from the request to the last byte of the answer. The first may be cold.
    pub millis: Vec<f64>,
}

impl QuerySample {
    /// Median of all runs, in milliseconds; NaN without runs.
    pub fn median_ms(&self) -> f64 {
        median(&self.millis)
    }
}

/// An answer as received; parsing it is not part of the measured time.
#[derive(Debug)]
pub enum Raw {
    /// Decoded by the Flight client.
    Batches(Vec<RecordBatch>),
    /// An Arrow IPC stream.
    Ipc(Vec<u8>),
    /// JSON of one of the two JSON interfaces.
    Json(Door, Vec<u8>),
}

impl Raw {
    /// Returns the batches of an answer in Arrow.
    ///
    /// # Errors
    /// An answer in JSON, or bytes that are not an Arrow stream.
    pub fn into_batches(self) -> Result<Vec<RecordBatch>> {
        match self {
            Self::Batches(batches) => Ok(batches),
            Self::Ipc(bytes) => batches_of(&bytes),
            Self::Json(door, _) => bail!("expected an answer in Arrow, found {}", door.name()),
        }
    }

    /// Parses the answer.
    ///
    /// # Errors
    /// Bytes that are not in the interface's format.
    pub fn into_answer(self) -> Result<Answer> {
        match self {
            Self::Batches(batches) => Answer::from_batches(&batches),
            Self::Ipc(bytes) => Answer::from_batches(&batches_of(&bytes)?),
            Self::Json(Door::Rest, bytes) => from_rest(&bytes),
            Self::Json(_, bytes) => from_json(&bytes),
        }
    }
}

/// The batches of an Arrow stream, after an empty one with its schema.
fn batches_of(ipc: &[u8]) -> Result<Vec<RecordBatch>> {
    let reader = StreamReader::try_new(ipc, None).context("expected an Arrow stream")?;
    let mut batches = vec![RecordBatch::new_empty(reader.schema())];
    for batch in reader {
        batches.push(batch.context("the answer is an incomplete Arrow stream")?);
    }
    Ok(batches)
}

/// A client of one query interface, on one connection.
#[derive(Debug)]
pub struct Asker {
    door: Door,
    way: Way,
}

#[derive(Debug)]
enum Way {
    Flight(Box<Session>),
    Http(Box<Client>),
}

impl Asker {
    /// Connects.
    ///
    /// # Errors
    /// No Flight SQL endpoint given for Flight SQL, an invalid address, or no connection.
    pub async fn connect(door: Door, addresses: &Addresses, options: &HttpOptions) -> Result<Self> {
        let way = match door {
            Door::Flight | Door::FlightDictionaries => {
                let url = addresses.flight.as_deref().context("no Flight SQL endpoint given")?;
                let channel = flight::connect(url, options.request_timeout).await?;
                let mut session = Session::new(channel, options.request_timeout);
                session.set_database(DATABASE);
                options.levels.iter().for_each(|levels| session.set_levels(levels));
                if door == Door::FlightDictionaries {
                    session.set_tag_dictionaries();
                }
                Way::Flight(Box::new(session))
            }
            Door::HttpArrow | Door::HttpJson | Door::Rest => {
                Way::Http(Box::new(Client::new(&addresses.url, options.clone())?))
            }
        };
        Ok(Self { door, way })
    }

    /// Sets the read-your-write tokens (see [`super::WriteSample::tokens`]) sent with every later statement.
    pub fn set_tokens(&mut self, tokens: &[String]) {
        match &mut self.way {
            Way::Flight(session) => session.set_tokens(tokens),
            Way::Http(client) => client.set_tokens(tokens),
        }
    }

    /// Runs a statement once; returns the answer and the time from the request to its last byte.
    ///
    /// # Errors
    /// An error of the server, a broken connection, or the timeout.
    pub async fn ask(&mut self, sql: &str) -> Result<(Raw, Duration)> {
        let start = Instant::now();
        let raw = match &mut self.way {
            Way::Flight(session) => Raw::Batches(session.query(sql).await?),
            Way::Http(client) => {
                let rest = format!("/rest/sql/{DATABASE}");
                let target = match self.door {
                    Door::Rest => rest.as_str(),
                    Door::HttpArrow => "/api/v1/sql?db=db&format=arrow",
                    Door::HttpJson | Door::Flight | Door::FlightDictionaries => "/api/v1/sql?db=db&format=json",
                };
                let reply = client.send("POST", target, "text/plain; charset=utf-8", sql.as_bytes()).await?;
                if !reply.is_success() {
                    bail!("{sql}: {}", reply.excerpt());
                }
                match self.door {
                    Door::HttpArrow => Raw::Ipc(reply.body),
                    door => Raw::Json(door, reply.body),
                }
            }
        };
        Ok((raw, start.elapsed()))
    }

    /// Runs a statement sequentially, at least `repeat` times (at least once) and until [`SAMPLE_TIME`] or [`SAMPLE_RUNS`] is
    /// reached; returns the last answer and the times of all runs.
    ///
    /// # Errors
    /// As for [`Asker::ask`].
    pub async fn sample(&mut self, name: &str, sql: &str, repeat: usize) -> Result<(QuerySample, Answer)> {
        let mut millis = Vec::new();
        let begun = Instant::now();
        loop {
            let (raw, took) = self.ask(sql).await?;
            millis.push(took.as_secs_f64() * 1e3);
            let is_sampled = begun.elapsed() >= SAMPLE_TIME || millis.len() >= SAMPLE_RUNS;
            if millis.len() >= repeat.max(1) && is_sampled {
                let answer = raw.into_answer().with_context(|| sql.to_owned())?;
                let rows = answer.rows() as u64;
                let sample = QuerySample { name: name.into(), sql: sql.into(), door: self.door, rows, millis };
                return Ok((sample, answer));
            }
        }
    }
}

/// Minimum total time of a statement's runs, also for other engines: scheduling noise would dominate the median of a few runs
/// below a millisecond.
pub const SAMPLE_TIME: Duration = Duration::from_millis(300);
/// Maximum number of runs, unless more are requested.
pub const SAMPLE_RUNS: usize = 100;

/// TDengine's answer: `{"code":0,"column_meta":[["ts","TIMESTAMP",8],…],"data":[[…]],"rows":n}`.
fn from_rest(bytes: &[u8]) -> Result<Answer> {
    #[derive(Deserialize)]
    struct Shape {
        code: i64,
        #[serde(default)]
        desc: String,
        #[serde(default)]
        column_meta: Vec<(String, String, i64)>,
        #[serde(default)]
        data: Vec<serde_json::Value>,
    }
    let shape: Shape = serde_json::from_slice(bytes).context("expected an answer in TDengine's format")?;
    if shape.code != 0 {
        bail!("TDengine error {:#06x}: {}", shape.code, shape.desc);
    }
    let times: Vec<bool> = shape.column_meta.iter().map(|(_, kind, _)| kind == "TIMESTAMP").collect();
    let names = shape.column_meta.into_iter().map(|(name, _, _)| name).collect();
    Answer::from_json(names, &times, &shape.data)
}

/// The answer of `/api/v1/sql`: `{"columns":[{"name":…,"type":…},…],"data":[[…]],…}`.
fn from_json(bytes: &[u8]) -> Result<Answer> {
    #[derive(Deserialize)]
    struct Named {
        name: String,
        #[serde(rename = "type")]
        kind: String,
    }
    #[derive(Deserialize)]
    struct Shape {
        columns: Vec<Named>,
        data: Vec<serde_json::Value>,
    }
    let shape: Shape = serde_json::from_slice(bytes).context("expected an answer in the JSON format of /api/v1/sql")?;
    let times: Vec<bool> = shape.columns.iter().map(|column| column.kind.to_lowercase().contains("time")).collect();
    Answer::from_json(shape.columns.into_iter().map(|column| column.name).collect(), &times, &shape.data)
}

/// Splits a text into statements, one per line; skips empty lines and lines that begin with `#` or `--`.
pub fn statements(text: &str) -> Vec<String> {
    let lines = text.lines().map(str::trim);
    lines
        .filter(|line| !line.is_empty() && !line.starts_with('#') && !line.starts_with("--"))
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests;
