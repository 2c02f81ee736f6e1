//! Line protocol in messages of an SQS queue: the queue acknowledges messages, and a function stores their rows later.

mod aws;

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::time::sleep;

use self::aws::Sqs;
use super::{
    Progress,
    http::HttpOptions,
    latency::{Latencies, Percentiles},
    query::{Addresses, Asker, Door},
    udp::count,
};
use crate::workload::generate::{Feed, Source, encode::Text};

/// Maximum messages per request of SQS.
const MESSAGES: usize = 10;
/// Maximum total bytes of the messages of one request of SQS.
const MOST_BYTES: usize = 256 << 10;
/// Pause between two counts of the arrived rows, and between two attempts of a request.
const PAUSE: Duration = Duration::from_millis(500);
/// Maximum attempts of one request.
const TRIES: u32 = 20;

/// Settings of sending.
#[derive(Debug, Clone)]
pub struct QueueOptions {
    /// URL of the queue. Endpoint and credentials come from the environment, as for AWS's own tools.
    pub queue_url: String,
    /// Server to query for the number of arrived rows.
    pub addresses: Addresses,
    /// Limits of the query client.
    pub http: HttpOptions,
    /// Rows per message.
    pub rows_per_message: usize,
    /// Concurrent clients.
    pub clients: usize,
    /// Maximum wait for the rows after the last message.
    pub patience: Duration,
}

/// Numbers of rows sent and arrived.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct QueueSample {
    /// Rows in messages acknowledged by the queue.
    pub sent: u64,
    /// Rows counted by a query once all have arrived or the wait has ended.
    pub arrived: u64,
    /// Number of messages.
    pub messages: u64,
    /// Bytes of the messages.
    pub bytes: u64,
    /// Seconds from the first request to the last reply.
    pub seconds: f64,
    /// Seconds from the last reply until all rows had arrived.
    pub arrived_seconds: f64,
    /// Time of one request of up to ten messages.
    pub latency: Percentiles,
    /// Requests repeated in whole or in part.
    pub repeated: u64,
}

/// Result of one client.
#[derive(Debug, Default)]
struct Sent {
    rows: u64,
    messages: u64,
    bytes: u64,
    repeated: u64,
    latencies: Latencies,
}

/// Sends all rows of `source` and waits until they have arrived.
///
/// # Errors
/// A queue that refuses messages repeatedly, rows too large for a message, or a failed query.
pub async fn send_messages(source: &Source, options: &QueueOptions, progress: Progress<'_>) -> Result<QueueSample> {
    let sqs = Sqs::from_env()?;
    let begun = Instant::now();
    let mut clients = tokio::task::JoinSet::new();
    for (number, feed) in source.feeds(options.clients.max(1)).into_iter().enumerate() {
        clients.spawn(client(sqs.clone(), options.clone(), feed, number));
    }
    let mut sum = Sent::default();
    while let Some(done) = clients.join_next().await {
        let done = done.context("a client ended")??;
        sum.rows += done.rows;
        sum.messages += done.messages;
        sum.bytes += done.bytes;
        sum.repeated += done.repeated;
        sum.latencies.merge(&done.latencies);
        progress(sum.rows);
    }
    let (seconds, sent) = (begun.elapsed().as_secs_f64(), Instant::now());
    let mut asker = Asker::connect(Door::HttpJson, &options.addresses, &options.http).await?;
    let arrived = loop {
        // The table does not exist before the first message has been stored.
        let arrived = match count(&mut asker).await {
            Ok(rows) => rows,
            Err(error) if sent.elapsed() >= options.patience => return Err(error),
            Err(_) => 0,
        };
        if arrived >= sum.rows || sent.elapsed() >= options.patience {
            break arrived;
        }
        sleep(PAUSE).await;
    };
    Ok(QueueSample {
        sent: sum.rows,
        arrived,
        messages: sum.messages,
        bytes: sum.bytes,
        seconds,
        arrived_seconds: sent.elapsed().as_secs_f64(),
        latency: sum.latencies.percentiles(),
        repeated: sum.repeated,
    })
}

async fn client(sqs: Sqs, options: QueueOptions, mut feed: Feed, number: usize) -> Result<Sent> {
    let (mut sent, mut waiting) = (Sent::default(), Vec::new());
    let is_fifo = options.queue_url.ends_with(".fifo");
    loop {
        let mut body = Vec::new();
        let wanted = options.rows_per_message.max(1);
        let rows = feed.next(wanted, &mut |device, rows| Text::Line.push(&mut body, device, rows))?;
        let bytes: usize = waiting.iter().map(Message::len).sum();
        if rows == 0 || waiting.len() == MESSAGES || bytes + body.len() > MOST_BYTES {
            send(&sqs, &options.queue_url, std::mem::take(&mut waiting), &mut sent).await?;
        }
        if rows == 0 {
            return Ok(sent);
        }
        if body.len() > MOST_BYTES {
            bail!("a message of {rows} rows has {} bytes: expected at most {MOST_BYTES}", body.len());
        }
        let text = String::from_utf8(body).context("line protocol is text")?;
        let group = is_fifo
            .then(|| (format!("client-{number}"), format!("client-{number}-{}", sent.messages + waiting.len() as u64)));
        waiting.push(Message { text, rows: rows as u64, group });
    }
}

/// A message that the queue has not acknowledged yet.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Message {
    text: String,
    rows: u64,
    /// For a FIFO queue: message group ID, within which order is kept, and deduplication ID.
    group: Option<(String, String)>,
}

impl Message {
    fn len(&self) -> usize {
        self.text.len()
    }

    /// Returns the message as an entry of a request.
    fn entry(&self, number: usize) -> Value {
        let mut entry = json!({ "Id": number.to_string(), "MessageBody": self.text });
        if let Some((group, id)) = &self.group {
            entry["MessageGroupId"] = group.as_str().into();
            entry["MessageDeduplicationId"] = id.as_str().into();
        }
        entry
    }
}

/// Sends messages until the queue has acknowledged all of them.
async fn send(sqs: &Sqs, queue_url: &str, mut messages: Vec<Message>, sent: &mut Sent) -> Result<()> {
    for tries in 1.. {
        if messages.is_empty() {
            break;
        }
        let entries: Vec<Value> = messages.iter().enumerate().map(|(number, message)| message.entry(number)).collect();
        let body = json!({ "QueueUrl": queue_url, "Entries": entries }).to_string();
        let begun = Instant::now();
        let reason = match sqs.post("SendMessageBatch", body).await {
            Ok(reply) => {
                sent.latencies.record(begun.elapsed());
                let taken = taken(&reply, messages.len())?;
                let mut numbers = taken.iter();
                messages.retain(|message| {
                    let is_taken = numbers.next().is_some_and(|is_taken| *is_taken);
                    if is_taken {
                        sent.rows += message.rows;
                        sent.messages += 1;
                        sent.bytes += message.len() as u64;
                    }
                    !is_taken
                });
                String::from_utf8_lossy(&reply[..reply.len().min(300)]).into_owned()
            }
            Err(error) => format!("{error:#}"),
        };
        if !messages.is_empty() {
            sent.repeated += 1;
            if tries == TRIES {
                bail!("{} messages were refused {TRIES} times: {reason}", messages.len());
            }
            sleep(PAUSE).await;
        }
    }
    Ok(())
}

/// Returns for each of `messages` messages whether the queue acknowledged it.
fn taken(reply: &[u8], messages: usize) -> Result<Vec<bool>> {
    let reply: Value = serde_json::from_slice(reply).context("a reply of the queue")?;
    let mut taken = vec![false; messages];
    for done in reply["Successful"].as_array().into_iter().flatten() {
        let number = done["Id"].as_str().and_then(|id| id.parse::<usize>().ok());
        let place = number.and_then(|number| taken.get_mut(number));
        *place.with_context(|| format!("expected ids below {messages}, found {}", done["Id"]))? = true;
    }
    Ok(taken)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn messages_count_once_the_queue_has_named_them() {
        let reply =
            br#"{"Successful":[{"Id":"2","MessageId":"m"},{"Id":"0"}],"Failed":[{"Id":"1","SenderFault":false}]}"#;
        assert_eq!(taken(reply, 3).unwrap(), [true, false, true]);
        assert_eq!(taken(b"{}", 2).unwrap(), [false, false]);
        assert!(taken(reply, 2).unwrap_err().to_string().contains("expected ids below 2, found \"2\""));
        assert!(taken(b"<html>", 2).is_err());
    }

    #[test]
    fn only_messages_of_a_fifo_queue_have_a_group() {
        let plain = Message { text: "m v=1".into(), rows: 1, group: None };
        assert_eq!(plain.entry(3), json!({"Id": "3", "MessageBody": "m v=1"}));
        let grouped = Message { group: Some(("g".into(), "g-1".into())), ..plain };
        let expected =
            json!({"Id": "0", "MessageBody": "m v=1", "MessageGroupId": "g", "MessageDeduplicationId": "g-1"});
        assert_eq!(grouped.entry(0), expected);
    }
}
