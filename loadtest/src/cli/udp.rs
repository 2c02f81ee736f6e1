//! `udp`: line protocol in datagrams.

use super::args::{Data, Server, bar_for};
use anyhow::Result;
use clap::Args;
use tidelake_loadtest::drive::udp::{UdpOptions, send_datagrams};
use tidelake_loadtest::drive::{Existing, create_database};
use tidelake_loadtest::workload::generate::{Order, Source};

/// Arguments of `udp`.
#[derive(Debug, Args)]
pub(crate) struct Udp {
    #[command(flatten)]
    server: Server,
    #[command(flatten)]
    data: Data,
    /// UDP address of the server, host:port; start it with `--udp-listen`, `--udp-database db --udp-precision ms`
    #[arg(long)]
    to: String,
    /// Rows per datagram
    #[arg(long, default_value_t = 10)]
    rows_per_datagram: usize,
    /// Rows per second; unlimited by default
    #[arg(long)]
    rate: Option<f64>,
}

impl Udp {
    #[expect(clippy::print_stdout, reason = "a command prints its result")]
    pub(crate) async fn run(self) -> Result<()> {
        let http = self.server.options();
        create_database(&self.server.url, &http, Existing::Drop).await?;
        let source = Source::Generated(self.data.devices(), Order::Time);
        let options = UdpOptions {
            to: self.to,
            addresses: self.server.addresses(),
            http,
            rows_per_datagram: self.rows_per_datagram,
            rows_per_second: self.rate.filter(|rate| *rate > 0.0),
        };
        let bar = bar_for(source.len());
        let sample = send_datagrams(&source, &options, &|rows| bar.set_position(rows)).await;
        bar.finish_and_clear();
        let sample = sample?;
        println!(
            "udp: {} rows sent in {:.2} s = {:.0} rows/s ({} rows/datagram); {} arrived = {:.2} %",
            sample.sent,
            sample.seconds,
            sample.sent_per_second(),
            self.rows_per_datagram,
            sample.arrived,
            100.0 * sample.arrived as f64 / sample.sent.max(1) as f64,
        );
        Ok(())
    }
}
