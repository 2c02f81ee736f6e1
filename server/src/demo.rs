//! `tidelake demo`: starts a server, loads the benchmark's data set, runs its queries and keeps serving.

use std::{
    io::IsTerminal,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::Context;
use clap::Args;
use comfy_table::{CellAlignment, Table, presets::NOTHING};
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
    /// Listen address of HTTP and Flight SQL; port 0 picks a free port
    #[arg(long, default_value = "127.0.0.1:8086")]
    listen: String,
}

/// Number of runs of each query; the table shows the median.
const RUNS: usize = 5;

/// Loads the data, runs and verifies the queries, prints the results and serves until Ctrl-C.
#[expect(clippy::print_stdout, reason = "the demo is its output")]
pub(crate) async fn run(args: DemoArgs) -> anyhow::Result<()> {
    let directory = tempfile::tempdir().context("cannot make a temporary directory")?;
    let store = directory.path().to_str().context("the temporary directory's name is not UTF-8")?.to_owned();
    let mut layer = Layer::default();
    layer.set(&declared::STORE, store);
    layer.set(&declared::LISTEN, &args.listen);
    layer.set(&declared::LOG, "warn");
    let settings = Settings::resolve(None, layer.clone())?;
    serve::logging::start(&settings)?;
    let server = match Server::start(settings).await {
        Ok(server) => server,
        // Most likely the port is taken, for example by InfluxDB: retry on a free port.
        Err(_) => {
            layer.set(&declared::LISTEN, "127.0.0.1:0");
            Server::start(Settings::resolve(None, layer)?).await?
        }
    };
    let set = Devices { devices: args.devices, rows: args.rows, seed: 1 };
    println!("Tidelake {} in {}", env!("CARGO_PKG_VERSION"), directory.path().display());
    let asked = async {
        load(&server, set).await?;
        compact(&server).await?;
        ask(&server, set).await
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
        println!(
            "\nStandard output is not a terminal, so the demo ends here; use `tidelake serve` for a lasting server."
        );
        return server.stop().await;
    }
    let address = server.address;
    println!("\nConnect while it runs:");
    println!("  tidelake sql --url http://{address}");
    println!("  curl http://{address}/api/v1/sql -d 'select avg(temperature) from db.devices where devgroup<10'");
    println!("  jdbc:arrow-flight-sql://{address}?useEncryption=false");
    println!("\nServing until Ctrl-C, which also deletes the data.");
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
    table.load_preset(NOTHING).set_header(["", "statement", "rows", "median", "answer"]);
    let questions = [Question::Q1 { group: 0 }]
        .into_iter()
        .chain(Function::ALL.map(|function| Question::Q2 { function, percent: 10 }))
        .chain([10, 100].map(|percent| Question::Q3 { percent }))
        .chain([10, 100].map(|percent| Question::Q4 { percent }));
    for question in questions {
        let (sample, answer) = asker.sample(&question.name(), &question.sql(), RUNS).await?;
        verify(&oracle, &question, &answer)?;
        let first = answer.columns.first().map(|_| answer.row(0)).unwrap_or_default();
        let values: Vec<String> = first.iter().take(3).map(text).collect();
        let more = if answer.rows() > 1 || first.len() > 3 { ", …" } else { "" };
        table.add_row([
            question.name(),
            question.sql(),
            HumanCount(sample.rows).to_string(),
            format!("{:.2} ms", sample.median_ms()),
            format!("{}{more}", values.join(", ")),
        ]);
    }
    for column in [2, 3] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    println!("{table}\nevery answer equals the result computed from the generated rows");
    Ok(())
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => "NULL".to_owned(),
        Value::Int(v) => v.to_string(),
        Value::Float(v) => format!("{v:.6}"),
        Value::Text(v) => v.clone(),
    }
}
