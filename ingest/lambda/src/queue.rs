//! Batches of messages: writes the contents of all messages in one segment; the reply names the messages that were not written.
//!
//! A message holds rows like a request to the server: line protocol, OpenTSDB data points or one INSERT of TDengine's SQL.
//! Attributes of an SQS message (`format`, `db`, `precision`, `content-encoding`) choose among the values that the settings
//! allow: any sender of a message may write to the databases of the settings, and do nothing else. Rows of a later message are
//! newer; rows without a time get the time at which their message was sent, the same on each delivery. A message that cannot be
//! written, or only in part, is named in the reply: it is redelivered on its own and ends as a dead letter. Writing parts of it
//! again has no effect.
//!
//! In a FIFO queue the messages of a group are written in order: messages after a failed one are not written and are named as
//! well, and a statement waits for the messages before it. Of a stream, everything from the first failure on is redelivered
//! anyway; records after it are written nevertheless, since the stream may give them up together with the failed one.

use std::{
    collections::{HashMap, HashSet},
    io::Read,
    time::Duration,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use futures::future::join_all;
use lambda_runtime::{Context, LambdaEvent, service_fn};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tidelake_format::{
    Error, Kind, Result,
    access::{Deed, Named, Principal},
    meta::Root,
    store::Store,
};
use tidelake_ingest::{
    config::IngestConfig,
    decode::line_protocol::LinePrecision,
    write::{Durability, IdempotencyKey, Ingest},
};
use tidelake_lambda::{lazily::Lazily, telemetry::Telemetry, time_left, variables::Variables};
use tracing::Instrument as _;

/// Format of a message's rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    /// InfluxDB's line protocol.
    Line,
    /// OpenTSDB's JSON.
    OpenTsdb,
    /// An INSERT of TDengine's SQL.
    TdEngine,
}

impl Format {
    fn parse(text: &str) -> Result<Self, &'static str> {
        match text {
            "line" => Ok(Self::Line),
            "opentsdb" => Ok(Self::OpenTsdb),
            "tdengine" => Ok(Self::TdEngine),
            _ => Err("line, opentsdb or tdengine"),
        }
    }

    /// Formats separated by commas; the first is the default for messages that name none.
    fn list(text: &str) -> Result<Vec<Self>, &'static str> {
        let formats = text.split(',').map(|name| Self::parse(name.trim()));
        formats
            .collect::<Result<_, _>>()
            .map_err(|_| "line, opentsdb or tdengine, or several of them separated by commas")
    }
}

/// Settings for messages.
#[derive(Debug, Clone)]
pub struct QueueSettings {
    /// Formats that messages may have; the first is the default.
    formats: Vec<Format>,
    database: Option<String>,
    /// Further databases that messages may write to.
    databases: Vec<String>,
    precision: LinePrecision,
    /// Whether a redelivered message is not written again, whatever happened in between.
    dedup: bool,
}

impl QueueSettings {
    /// Reads `TIDELAKE_QUEUE_FORMAT`, `TIDELAKE_QUEUE_DATABASE`, `TIDELAKE_QUEUE_DATABASES`, `TIDELAKE_QUEUE_PRECISION` and
    /// `TIDELAKE_DEDUP`.
    pub fn read(variables: &mut Variables<'_>) -> Self {
        let database = variables.text("TIDELAKE_QUEUE_DATABASE");
        let databases = variables.text("TIDELAKE_QUEUE_DATABASES").unwrap_or_default();
        let names = databases.split(',').map(str::trim).filter(|name| !name.is_empty());
        let databases: Vec<String> = names.map(str::to_owned).collect();
        let formats = variables.parsed("TIDELAKE_QUEUE_FORMAT", "line", Format::list);
        if database.is_none() && databases.is_empty() && formats.iter().any(|format| *format != Format::OpenTsdb) {
            variables.fault(
                "TIDELAKE_QUEUE_DATABASE: expected the database that messages write to, or in TIDELAKE_QUEUE_DATABASES those \
                 that they may name, found neither"
                    .to_owned(),
            );
        }
        Self {
            formats,
            database,
            databases,
            precision: variables.parsed("TIDELAKE_QUEUE_PRECISION", "ns", precision),
            dedup: variables.boolean("TIDELAKE_DEDUP", false),
        }
    }

    /// Any sender of messages may write to the databases of the settings, and do nothing else.
    fn principal(&self, config: &IngestConfig) -> Principal {
        let default = match &self.database {
            None if self.formats.contains(&Format::OpenTsdb) => Some(&config.opentsdb_database),
            database => database.as_ref(),
        };
        Principal::service("service:queue", Named::write(self.databases.iter().chain(default)))
    }
}

fn precision(text: &str) -> Result<LinePrecision, &'static str> {
    text.parse().map_err(|_| "ns, us, ms, s, m or h")
}

/// The queue function.
pub struct QueueFunction {
    store: Store,
    config: IngestConfig,
    settings: QueueSettings,
    ingest: Lazily<Ingest>,
    telemetry: &'static Telemetry,
}

/// The messages that were not written: the platform redelivers these, and no others.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Unwritten {
    batch_item_failures: Vec<Item>,
}

/// The ID of a message, or the sequence number of a record.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Item {
    item_identifier: String,
}

/// One message, from any source.
struct Message {
    /// The message's ID in the reply.
    id: String,
    /// A unique key, the same on each delivery.
    key: String,
    body: Result<Vec<u8>>,
    format: Option<String>,
    database: Option<String>,
    precision: Option<String>,
    /// When the message was sent, in milliseconds since the epoch.
    sent_ms: Option<i64>,
    /// The group of a FIFO queue in which the message keeps its order.
    group: Option<String>,
}

impl QueueFunction {
    /// A function that writes into a root.
    pub fn new(store: Store, config: IngestConfig, settings: QueueSettings, telemetry: &'static Telemetry) -> Self {
        Self { store, config, settings, ingest: Lazily::default(), telemetry }
    }

    /// Handles events until the platform ends the process.
    ///
    /// # Errors
    /// If no events can be fetched from the platform.
    pub async fn serve(self) -> Result<(), lambda_runtime::Error> {
        if let Err(error) = self.ingest(Duration::from_secs(8)).await {
            tracing::warn!(%error, "cannot open the root at the start; the first batch will retry");
        }
        let this = &self;
        lambda_runtime::run(service_fn(move |event: LambdaEvent<Value>| this.answer(event))).await
    }

    async fn ingest(&self, limit: Duration) -> Result<&Ingest> {
        let open = || async {
            let ingest = Ingest::open(Root::open(self.store.clone()).await?, self.config.clone()).await?;
            Ok(ingest.for_principal(self.settings.principal(&self.config)))
        };
        self.ingest.get(limit, open).await
    }

    async fn answer(&self, event: LambdaEvent<Value>) -> Result<Unwritten, lambda_runtime::Error> {
        let LambdaEvent { payload, context } = event;
        let span = self.telemetry.begin(&context);
        let answer = self.write(payload, &context).instrument(span).await;
        if answer.is_err() {
            self.telemetry.failed();
        }
        self.telemetry.tell(&context.request_id, &[]);
        Ok(answer?)
    }

    /// Writes the messages of an event.
    ///
    /// # Errors
    /// Invalid for any other event, Unavailable if the root cannot be opened: the platform redelivers all messages.
    pub async fn write(&self, event: Value, context: &Context) -> Result<Unwritten> {
        let messages = messages(event)?;
        let ids: Vec<String> = messages.iter().map(|message| message.id.clone()).collect();
        let ingest = self.ingest(time_left(context)).await?;
        let mut failures: HashSet<usize> = HashSet::new();
        // Groups, with the place of the first message in each that was not written.
        let mut broken: HashMap<String, usize> = HashMap::new();
        let mut waiting: Vec<(usize, Message)> = messages.into_iter().enumerate().collect();
        while !waiting.is_empty() {
            let (turn, later) = self.turn(waiting);
            let group = |(at, message): &(usize, Message)| Some((*at, message.group.clone()?));
            let groups: HashMap<usize, String> = turn.iter().filter_map(group).collect();
            for at in self.write_turn(ingest, turn, time_left(context)).await {
                failures.insert(at);
                if let Some(group) = groups.get(&at) {
                    broken.entry(group.clone()).or_insert(at);
                }
            }
            // A message put together with an earlier one that failed is redelivered after that one.
            let is_late = |(at, group): &(&usize, &String)| broken.get(*group).is_some_and(|first| first < *at);
            failures.extend(groups.iter().filter(is_late).map(|(at, _)| *at));
            let is_broken = |message: &Message| message.group.as_ref().is_some_and(|group| broken.contains_key(group));
            let (lost, kept): (Vec<_>, _) = later.into_iter().partition(|(_, message)| is_broken(message));
            failures.extend(lost.into_iter().map(|(at, _)| at));
            waiting = kept;
        }
        let failed = ids.into_iter().enumerate().filter(|(at, _)| failures.contains(at));
        Ok(Unwritten { batch_item_failures: failed.map(|(_, id)| Item { item_identifier: id }).collect() })
    }

    /// Divides messages into those to write next and later ones: of a group, rows together, and a statement by itself.
    fn turn(&self, waiting: Vec<(usize, Message)>) -> (Vec<(usize, Message)>, Vec<(usize, Message)>) {
        // Whether more messages of a group may join.
        let mut groups: HashMap<String, bool> = HashMap::new();
        waiting.into_iter().partition(|(_, message)| {
            let Some(group) = &message.group else { return true };
            let is_statement = message.format(&self.settings).is_ok_and(|format| format == Format::TdEngine);
            match groups.get_mut(group) {
                None => {
                    groups.insert(group.clone(), !is_statement);
                    true
                }
                Some(is_open) => {
                    *is_open &= !is_statement;
                    *is_open
                }
            }
        })
    }

    /// Writes messages together; returns those that were not written, in order.
    async fn write_turn(&self, ingest: &Ingest, turn: Vec<(usize, Message)>, left: Duration) -> Vec<usize> {
        let orders: Vec<Option<&str>> = turn.iter().map(|(_, message)| message.group.as_deref()).collect();
        let handles = ingest.together(&orders);
        let writes = turn.into_iter().zip(handles).map(|((at, message), ingest)| async move {
            let late = |_| Err(Error::unavailable("the function ran out of time; the message may still be written"));
            let id = message.id.clone();
            let written = tokio::time::timeout(left, self.write_one(&ingest, message)).await.unwrap_or_else(late);
            if written.is_err() {
                ingest.failed();
            }
            drop(ingest);
            let error = written.err()?;
            tracing::warn!(message_id = id, kind = ?error.kind(), %error, "a message was not written");
            if !error.kind().is_callers() {
                self.telemetry.failed();
            }
            Some(at)
        });
        join_all(writes).await.into_iter().flatten().collect()
    }

    async fn write_one(&self, ingest: &Ingest, message: Message) -> Result<()> {
        let settings = &self.settings;
        let invalid = |what: &'static str, expected: &'static str, found: &str| {
            Error::invalid(format!("invalid {what} of a message")).with("expected", expected).with("found", found)
        };
        let format = message.format(settings);
        Deed::new("WRITE", message.database.as_ref().or(settings.database.as_ref()).map_or("", String::as_str))
            .record_refusal(ingest.principal(), &format);
        let format = format?;
        let precision = match &message.precision {
            None => settings.precision,
            Some(text) => precision(text).map_err(|expected| invalid("precision", expected, text))?,
        };
        let database = message.database.or_else(|| settings.database.clone());
        let body = unpacked(message.body?, self.config.body_bytes)?;
        let ingest = match message.sent_ms {
            Some(sent_ms) => ingest.sent_at(sent_ms, &message.key),
            None => ingest.clone(),
        };
        let keyed = match settings.dedup {
            true => ingest.with_key(Some(IdempotencyKey::of_message(&message.key)?)),
            false => ingest,
        };
        let named = || {
            database.as_deref().ok_or_else(|| {
                Error::invalid("message without a database: set its attribute 'db' or TIDELAKE_QUEUE_DATABASE")
            })
        };
        let written = match format {
            Format::Line => keyed.write_line_protocol(named()?, body, precision, Durability::Stored).await?,
            Format::OpenTsdb => {
                let database = database.as_deref().unwrap_or(&self.config.opentsdb_database);
                keyed.write_opentsdb(database, body, Durability::Stored).await?
            }
            Format::TdEngine => {
                let sql = std::str::from_utf8(&body).map_err(|e| Error::invalid("statement is not UTF-8").source(e))?;
                return keyed.execute_insert(database.as_deref(), sql).await.map(|_| ());
            }
        };
        match written.rejected.first() {
            None if written.dropped == 0 => Ok(()),
            first => {
                let reason = first.map_or("", |rejected| rejected.reason.as_str());
                Err(Error::new(Kind::Invalid, "some lines of a message were rejected")
                    .with("lines", written.dropped)
                    .with("reason", reason))
            }
        }
    }
}

impl Message {
    /// The format of the message's rows: one that the settings allow.
    fn format(&self, settings: &QueueSettings) -> Result<Format> {
        let Some(name) = self.format.as_deref() else { return Ok(settings.formats[0]) };
        let wrong = |error: Error, expected: &str| error.with("expected", expected).with("found", name);
        let format =
            Format::parse(name).map_err(|expected| wrong(Error::invalid("invalid format of a message"), expected))?;
        if !settings.formats.contains(&format) {
            let error = Error::forbidden("the settings do not allow messages of this format");
            return Err(wrong(error, "a format in TIDELAKE_QUEUE_FORMAT"));
        }
        Ok(format)
    }
}

/// The messages of an event of SQS or Kinesis.
fn messages(event: Value) -> Result<Vec<Message>> {
    let unknown = || Error::invalid("expected an event with records of SQS or Kinesis");
    let Value::Object(mut event) = event else { return Err(unknown()) };
    let Some(Value::Array(records)) = event.remove("Records") else { return Err(unknown()) };
    let message = |record: Value| {
        let Value::Object(record) = record else { return Err(unknown()) };
        match record.get("eventSource").and_then(Value::as_str) {
            Some("aws:sqs") => of_sqs(record),
            Some("aws:kinesis") => of_kinesis(record),
            source => Err(unknown().with("found", source.unwrap_or("a record without a source"))),
        }
    };
    records.into_iter().map(message).collect()
}

/// Takes a text field; the platform always sends these fields.
fn field(record: &mut Map<String, Value>, name: &'static str) -> Result<String> {
    match record.remove(name) {
        Some(Value::String(text)) => Ok(text),
        _ => Err(Error::invalid("missing field in a record").with("field", name)),
    }
}

fn of_sqs(mut record: Map<String, Value>) -> Result<Message> {
    let id = field(&mut record, "messageId")?;
    let body = field(&mut record, "body")?;
    let attributes = record.get("messageAttributes");
    let attribute = |name: &str| {
        let value = attributes?.get(name)?.get("stringValue")?.as_str()?;
        Some(value.to_owned())
    };
    let body = match attribute("content-encoding").as_deref() {
        None | Some("identity") => Ok(body.into_bytes()),
        // The body of an SQS message is text.
        Some("gzip" | "zstd") => {
            let wrong = |e| Error::invalid("invalid packed message: expected base64 text").with("reason", &e).source(e);
            STANDARD.decode(body.trim()).map_err(wrong)
        }
        Some(other) => {
            let error = Error::invalid("unknown content-encoding of a message");
            Err(error.with("expected", "gzip, zstd or identity").with("found", other))
        }
    };
    let (format, database, precision) = (attribute("format"), attribute("db"), attribute("precision"));
    let of_queue = |name: &str| record.get("attributes")?.get(name)?.as_str();
    let sent_ms = of_queue("SentTimestamp").and_then(|ms| ms.parse().ok());
    // Standard queues have groups too, but without an order.
    let is_ordered = record.get("eventSourceARN").and_then(Value::as_str).is_some_and(|arn| arn.ends_with(".fifo"));
    let group = of_queue("MessageGroupId").filter(|_| is_ordered).map(str::to_owned);
    Ok(Message { key: id.clone(), id, body, format, database, precision, sent_ms, group })
}

fn of_kinesis(mut record: Map<String, Value>) -> Result<Message> {
    let key = field(&mut record, "eventID")?;
    let Some(Value::Object(mut kinesis)) = record.remove("kinesis") else {
        return Err(Error::invalid("missing field in a record").with("field", "kinesis"));
    };
    let id = field(&mut kinesis, "sequenceNumber")?;
    let wrong = |e| Error::invalid("invalid record data: expected base64").with("reason", &e).source(e);
    let body = STANDARD.decode(field(&mut kinesis, "data")?).map_err(wrong);
    // Seconds and a fraction.
    let arrived_s = kinesis.get("approximateArrivalTimestamp").and_then(Value::as_f64);
    let sent_ms = arrived_s.map(|s| (s * 1_000.0).round() as i64);
    Ok(Message { id, key, body, format: None, database: None, precision: None, sent_ms, group: None })
}

/// The bytes of a body; packed ones are recognised by their first bytes, with which no rows begin.
fn unpacked(body: Vec<u8>, limit: usize) -> Result<Bytes> {
    let reader: Box<dyn Read> = match body.as_slice() {
        [0x1f, 0x8b, ..] => Box::new(flate2::bufread::MultiGzDecoder::new(body.as_slice())),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => {
            Box::new(zstd::stream::read::Decoder::with_buffer(body.as_slice()).map_err(|e| broken(&e))?)
        }
        _ => return Ok(body.into()),
    };
    let mut all = Vec::new();
    reader.take(limit as u64 + 1).read_to_end(&mut all).map_err(|e| broken(&e))?;
    if all.len() > limit {
        return Err(Error::invalid("unpacked message too large").with("limit", format!("{limit} bytes")));
    }
    Ok(all.into())
}

fn broken(error: &std::io::Error) -> Error {
    Error::invalid("cannot unpack a message").with("reason", error)
}

#[cfg(test)]
mod tests;
