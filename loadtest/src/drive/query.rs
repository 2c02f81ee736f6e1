//! Asking: statements through any of the server's doors, timed at the client.

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

/// A way to ask the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Door {
    /// Arrow Flight SQL.
    Flight,
    /// `POST /api/v1/sql`, answer in Arrow IPC.
    HttpArrow,
    /// `POST /api/v1/sql`, answer in JSON.
    HttpJson,
    /// `POST /rest/sql/db`, answer in TDengine's JSON.
    Rest,
}

impl Door {
    /// All of them.
    pub const ALL: [Door; 4] = [Self::Flight, Self::HttpArrow, Self::HttpJson, Self::Rest];

    /// The name in settings and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Flight => "flight",
            Self::HttpArrow => "http-arrow",
            Self::HttpJson => "http-json",
            Self::Rest => "rest",
        }
    }
}

/// Where the server listens.
#[derive(Debug, Clone)]
pub struct Addresses {
    /// The HTTP endpoint, `http://host:port`.
    pub url: String,
    /// The Flight SQL endpoint, `grpc://host:port`.
    pub flight: Option<String>,
}

/// One statement, asked several times through one door.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct QuerySample {
    /// The statement's name in reports.
    pub name: String,
    /// The statement.
    pub sql: String,
    /// The door.
    pub door: Door,
    /// Rows of the answer.
    pub rows: u64,
    /// Each run in order, in milliseconds, from the request to the last byte of the answer. The first may be cold.
    pub millis: Vec<f64>,
}

impl QuerySample {
    /// The median of all runs, in milliseconds; NaN when there is none.
    pub fn median_ms(&self) -> f64 {
        median(&self.millis)
    }
}

/// An answer as it came, not yet taken apart, so that taking it apart is not measured.
#[derive(Debug)]
pub enum Raw {
    /// Decoded by the Flight client.
    Batches(Vec<RecordBatch>),
    /// An Arrow IPC stream.
    Ipc(Vec<u8>),
    /// JSON of one of the two HTTP doors.
    Json(Door, Vec<u8>),
}

impl Raw {
    /// Takes the answer apart.
    ///
    /// # Errors
    /// Bytes that are not what the door promises.
    pub fn into_answer(self) -> Result<Answer> {
        match self {
            Self::Batches(batches) => Answer::from_batches(&batches),
            Self::Ipc(bytes) => {
                let reader = StreamReader::try_new(bytes.as_slice(), None).context("the answer is no Arrow stream")?;
                let empty = RecordBatch::new_empty(reader.schema());
                let mut batches = vec![empty];
                for batch in reader {
                    batches.push(batch.context("the answer is no whole Arrow stream")?);
                }
                Answer::from_batches(&batches)
            }
            Self::Json(Door::Rest, bytes) => from_rest(&bytes),
            Self::Json(_, bytes) => from_json(&bytes),
        }
    }
}

/// Asks through one door, on one connection.
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
    /// No Flight SQL endpoint given for [`Door::Flight`], an address that is none, nobody there.
    pub async fn connect(door: Door, addresses: &Addresses, options: &HttpOptions) -> Result<Self> {
        let way = match door {
            Door::Flight => {
                let url = addresses.flight.as_deref().context("asking over Flight needs the Flight SQL endpoint")?;
                let channel = flight::connect(url, options.request_timeout).await?;
                let mut session = Session::new(channel, options.request_timeout);
                session.set_database(DATABASE);
                options.levels.iter().for_each(|levels| session.set_levels(levels));
                Way::Flight(Box::new(session))
            }
            Door::HttpArrow | Door::HttpJson | Door::Rest => {
                Way::Http(Box::new(Client::new(&addresses.url, options.clone())?))
            }
        };
        Ok(Self { door, way })
    }

    /// Sends the read-your-write tokens of writes (see [`super::WriteSample::tokens`]) with every statement from now on.
    pub fn set_tokens(&mut self, tokens: &[String]) {
        match &mut self.way {
            Way::Flight(session) => session.set_tokens(tokens),
            Way::Http(client) => client.set_tokens(tokens),
        }
    }

    /// Asks once; gives the answer and the time from the request to its last byte.
    ///
    /// # Errors
    /// What the server answers, a broken connection, the timeout.
    pub async fn ask(&mut self, sql: &str) -> Result<(Raw, Duration)> {
        let start = Instant::now();
        let raw = match &mut self.way {
            Way::Flight(session) => Raw::Batches(session.query(sql).await?),
            Way::Http(client) => {
                let rest = format!("/rest/sql/{DATABASE}");
                let target = match self.door {
                    Door::Rest => rest.as_str(),
                    Door::HttpArrow => "/api/v1/sql?db=db&format=arrow",
                    Door::HttpJson | Door::Flight => "/api/v1/sql?db=db&format=json",
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

    /// Asks one after the other, `repeat` times (at least once) and until [`SAMPLE_TIME`] or [`SAMPLE_RUNS`] is
    /// reached, and gives the last answer with the times of all.
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

/// A statement is asked again for at least this long, as the other engines are: the median of a few runs of less than
/// a millisecond would tell of the scheduler.
pub const SAMPLE_TIME: Duration = Duration::from_millis(300);
/// No more runs than this, if they were not asked for.
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
    let shape: Shape = serde_json::from_slice(bytes).context("the answer has not TDengine's shape")?;
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
    let shape: Shape = serde_json::from_slice(bytes).context("the answer has not the JSON of /api/v1/sql")?;
    let times: Vec<bool> = shape.columns.iter().map(|column| column.kind.to_lowercase().contains("time")).collect();
    Answer::from_json(shape.columns.into_iter().map(|column| column.name).collect(), &times, &shape.data)
}

/// Statements of a text: one a line; empty lines and lines that begin with `#` or `--` are passed over.
pub fn statements(text: &str) -> Vec<String> {
    let lines = text.lines().map(str::trim);
    lines
        .filter(|line| !line.is_empty() && !line.starts_with('#') && !line.starts_with("--"))
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests;
