//! `tidelake demo`: starts a server, loads the benchmark's data set, runs its queries and keeps serving.

use std::{
    io::IsTerminal,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::Context;
use clap::Args;
use comfy_table::{CellAlignment, ContentArrangement, Table, presets::NOTHING};
use indicatif::{HumanBytes, HumanCount, ProgressBar, ProgressStyle};
use tidelake_loadtest::{
    Devices,
    drive::{
        self, Existing, HttpOptions, WriteOptions,
        query::{Addresses, Asker, Door},
    },
    workload::answer::Value,
    workload::generate::{Order, Source},
    workload::oracle::Oracle,
    workload::verify::verify,
    workload::{Function, Question},
};
use tidelake_protocol::settings as declared;

use tidelake_node::{
    serve::{self, Server},
    settings::{Layer, Settings},
};

use crate::{allocator, console};

/// Options of the demo.
#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Number of devices; each has --rows rows
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    devices: u32,
    /// Number of rows per device
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    rows: u32,
    /// Exit after the queries instead of serving
    #[arg(long)]
    exit: bool,
    /// Keep the data in this directory; without it, a temporary directory is deleted at the end
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Address of HTTP and Flight SQL; port 0 takes a free one
    #[arg(long, default_value = "127.0.0.1:8086")]
    listen: String,
}

/// Number of runs of each query; the table shows the median.
const RUNS: usize = 5;

/// Loads the data, runs and verifies the queries, prints the results and serves until Ctrl-C.
#[expect(clippy::print_stdout, reason = "the demo is its output")]
pub(crate) async fn run(args: DemoArgs) -> anyhow::Result<()> {
    // The temporary directory is deleted when its handle is dropped, at the end.
    let (directory, _temporary) = match &args.keep {
        Some(directory) => (directory.clone(), None),
        None => {
            let temporary = tempfile::tempdir().context("cannot create a temporary directory")?;
            (temporary.path().to_owned(), Some(temporary))
        }
    };
    let store = directory.to_str().context("the name of the directory is not UTF-8")?.to_owned();
    if directory.read_dir().is_ok_and(|mut entries| entries.next().is_some()) {
        anyhow::bail!("the directory is not empty: expected a new one with --keep, found {store}");
    }
    let mut layer = Layer::default();
    layer.set(&declared::STORE, &store);
    layer.set(&declared::LISTEN, &args.listen);
    layer.set(&declared::LOG, "warn");
    let settings = Settings::resolve(None, layer.clone())?;
    allocator::fit_to(settings.get(&declared::MEMORY));
    serve::logging::start(&settings)?;
    let server = match Server::start(settings, Some(console::assets)).await {
        Ok(server) => server,
        // Most likely the port is taken, for example by InfluxDB: retry on a free port.
        Err(_) => {
            layer.set(&declared::LISTEN, "127.0.0.1:0");
            Server::start(Settings::resolve(None, layer)?, Some(console::assets)).await?
        }
    };
    let set = Devices { devices: args.devices, rows: args.rows, seed: 1 };
    println!("Tidelake {} with data in {store}, serving http://{}", env!("CARGO_PKG_VERSION"), server.address);
    println!(
        "{} devices report temperature and humidity {} times each, tagged with devid, devname and devgroup.",
        HumanCount(set.devices.into()),
        HumanCount(set.rows.into())
    );
    let asked = async {
        load(&server, set).await?;
        compact(&server).await?;
        ask(&server, set).await?;
        chart(&server).await
    };
    tokio::select! {
        done = asked => done?,
        () = serve::stop_signal() => {
            server.stop().await?;
            anyhow::bail!("interrupted");
        }
    }

    if args.exit {
        return server.stop().await;
    }
    if !std::io::stdout().is_terminal() {
        println!("\nThe demo ends here because standard output is not a terminal.");
        println!("Next: tidelake serve, then docs/import.md for your own data.");
        return server.stop().await;
    }
    let address = server.address;
    println!("\nLook at the data from another terminal:");
    println!("  tidelake sql --url http://{address} -d db");
    println!("  curl http://{address}/api/v1/sql -d 'select avg(temperature) from db.devices where devgroup<10'");
    println!("  jdbc:arrow-flight-sql://{address}?useEncryption=false");
    match &args.keep {
        Some(_) => println!("\nServing until Ctrl-C. To serve the data again: tidelake serve --store {store}"),
        None => println!("\nServing until Ctrl-C, then deleting the data; --keep DIR keeps it."),
    }
    serve::stop_signal().await;
    server.stop().await
}

/// Writes the data set as line protocol over HTTP, with a progress bar.
#[expect(clippy::print_stdout, reason = "the demo is its output")]
async fn load(server: &Server, set: Devices) -> anyhow::Result<()> {
    let url = format!("http://{}", server.address);
    drive::create_database(&url, &HttpOptions::default(), Existing::Keep).await?;
    let style = ProgressStyle::with_template("loading {bar:30} {human_pos}/{human_len} rows, {per_sec}");
    let bar = Arc::new(ProgressBar::new(set.len()).with_style(style.context("a constant template")?));
    let shown = bar.clone();
    let sample = drive::write(&Source::Generated(set, Order::Device), &WriteOptions::new(url), &move |rows| {
        shown.set_position(rows);
    })
    .await?;
    bar.finish_and_clear();
    println!(
        "loaded {} rows in {:.2} s: {} rows/s, line protocol over HTTP, 4 clients × 2000 rows, each acknowledged after fsync",
        HumanCount(sample.rows),
        sample.seconds,
        HumanCount(sample.rows_per_second as u64)
    );
    Ok(())
}

/// Compacts until the whole log is in data files.
#[expect(clippy::print_stdout, reason = "the demo is its output")]
async fn compact(server: &Server) -> anyhow::Result<()> {
    let started = Instant::now();
    // A fold skips segments younger than its margin, so compact again after the margin.
    server.ingest.compact(tidelake_ingest::compact::CompactRequest::Fold).await?;
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    server.ingest.compact(tidelake_ingest::compact::CompactRequest::Full).await?;
    let root = server.ingest.root();
    let catalog = root.catalog();
    let (mut rows, mut bytes, mut files) = (0, 0, 0);
    for database in catalog.databases() {
        for table in catalog.tables(database.id) {
            for (_, partition) in catalog.partitions(table.id) {
                rows += partition.rows;
                bytes += partition.bytes;
                files += partition.files;
            }
        }
    }
    println!(
        "compacted in {:.2} s: {} rows in {files} Parquet files with tag manifests, {} = {:.2} bytes/row",
        started.elapsed().as_secs_f64(),
        HumanCount(rows),
        HumanBytes(bytes),
        bytes as f64 / rows.max(1) as f64
    );
    Ok(())
}

/// Runs the benchmark queries over Flight SQL, compares each result with the generator's rows, and prints a table.
#[expect(clippy::print_stdout, reason = "the demo is its output")]
async fn ask(server: &Server, set: Devices) -> anyhow::Result<()> {
    let oracle = Oracle::new(set);
    let address = server.address;
    let addresses = Addresses { url: format!("http://{address}"), flight: Some(format!("http://{address}")) };
    let mut asker = Asker::connect(Door::Flight, &addresses, &HttpOptions::default()).await?;
    let mut table = Table::new();
    table.load_preset(NOTHING).set_content_arrangement(ContentArrangement::Dynamic).set_width(width());
    table.set_header(["query", "statement", "rows", "median"]);
    let questions = [Question::Q1 { group: 0 }]
        .into_iter()
        .chain(Function::ALL.map(|function| Question::Q2 { function, percent: 10 }))
        .chain([10, 100].map(|percent| Question::Q3 { percent }))
        .chain([10, 100].map(|percent| Question::Q4 { percent }));
    for question in questions {
        let (sample, answer) = asker.sample(&question.name(), &question.sql(), RUNS).await?;
        verify(&oracle, &question, &answer)?;
        table.add_row([
            question.name(),
            question.sql(),
            HumanCount(sample.rows).to_string(),
            format!("{:.2} ms", sample.median_ms()),
        ]);
    }
    for column in [2, 3] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    println!("{table}\nevery answer equals the one computed from the generated rows");
    Ok(())
}

/// Columns of the terminal; 100 where the output is not a terminal.
fn width() -> u16 {
    Table::new().width().unwrap_or(100).clamp(60, 160)
}

/// The most bars of the chart.
const MOST_BARS: usize = 20;

/// Prints the average temperature by minute as bars.
#[expect(clippy::print_stdout, reason = "the demo is its output")]
async fn chart(server: &Server) -> anyhow::Result<()> {
    const SQL: &str = "select _wstart, avg(temperature) from db.devices where devgroup<10 interval(1m)";
    let address = server.address;
    let addresses = Addresses { url: format!("http://{address}"), flight: Some(format!("http://{address}")) };
    let mut asker = Asker::connect(Door::Flight, &addresses, &HttpOptions::default()).await?;
    let (sample, answer) = asker.sample("chart", SQL, 1).await?;
    let points: Vec<(i64, f64)> = (0..answer.rows())
        .filter_map(|row| match answer.row(row).as_slice() {
            [Value::Int(millis), Value::Float(average)] => Some((*millis, *average)),
            _ => None,
        })
        .take(MOST_BARS)
        .collect();
    let (low, high) = points.iter().fold((f64::MAX, f64::MIN), |(low, high), (_, v)| (low.min(*v), high.max(*v)));
    println!("\n{SQL}: {} rows in {:.2} ms\n", answer.rows(), sample.median_ms());
    for (millis, average) in &points {
        let minute = millis.div_euclid(60_000).rem_euclid(24 * 60);
        println!("{:02}:{:02} {:8.3} {}", minute / 60, minute % 60, average, bar(*average, low, high, width() - 20));
    }
    println!("UTC; bars from {low:.3} to {high:.3}");
    Ok(())
}

/// A bar whose length shows where a value is between two others: one block for the lowest one.
fn bar(value: f64, low: f64, high: f64, width: u16) -> String {
    let share = if high > low { (value - low) / (high - low) } else { 1.0 };
    "█".repeat(1 + (share * f64::from(width.saturating_sub(1))).round() as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_go_from_one_block_to_the_whole_width() {
        let length = |value| bar(value, 10.0, 20.0, 40).chars().count();
        assert_eq!([10.0, 15.0, 20.0].map(length), [1, 21, 40]);
        assert_eq!(bar(5.0, 5.0, 5.0, 40).chars().count(), 40);
    }
}
