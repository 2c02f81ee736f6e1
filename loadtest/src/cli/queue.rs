//! `queue`: line protocol in messages of an SQS queue.

use super::args::{Data, Server, bar_for};
use anyhow::{Result, bail};
use clap::Args;
use std::time::Duration;
use tidelake_loadtest::drive::queue::{QueueOptions, send_messages};
use tidelake_loadtest::workload::generate::{Order, Source};

/// Arguments of `queue`.
#[derive(Debug, Args)]
pub(crate) struct Queue {
    #[command(flatten)]
    server: Server,
    #[command(flatten)]
    data: Data,
    /// URL of the queue; its function must write to database `db` with precision ms. Endpoint and credentials: AWS_* variables
    #[arg(long)]
    queue_url: String,
    /// Rows per message
    #[arg(long, default_value_t = 100)]
    rows_per_message: usize,
    /// Concurrent clients
    #[arg(long, default_value_t = 4)]
    clients: usize,
    /// Maximum wait after the last message until a query at --url counts all rows, in seconds
    #[arg(long, default_value_t = 120)]
    patience: u64,
    /// Print the sample as JSON
    #[arg(long)]
    json: bool,
}

impl Queue {
    #[expect(clippy::print_stdout, reason = "a command prints its result")]
    pub(crate) async fn run(self) -> Result<()> {
        let source = Source::Generated(self.data.devices(), Order::Device);
        let options = QueueOptions {
            queue_url: self.queue_url,
            addresses: self.server.addresses(),
            http: self.server.options(),
            rows_per_message: self.rows_per_message,
            clients: self.clients,
            patience: Duration::from_secs(self.patience),
        };
        let bar = bar_for(source.len());
        let sample = send_messages(&source, &options, &|rows| bar.set_position(rows)).await;
        bar.finish_and_clear();
        let sample = sample?;
        if self.json {
            println!("{}", serde_json::to_string_pretty(&sample)?);
        } else {
            println!(
                "queue: {} rows in {} messages in {:.2} s; {} arrived {:.2} s later; {} requests repeated",
                sample.sent, sample.messages, sample.seconds, sample.arrived, sample.arrived_seconds, sample.repeated,
            );
        }
        if sample.arrived != sample.sent {
            bail!("expected {} rows, found {}", sample.sent, sample.arrived);
        }
        Ok(())
    }
}
