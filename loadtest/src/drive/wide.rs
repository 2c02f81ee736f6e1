//! Wide row load: many writers write to a new server by DoPut; the rate is compared with that of the disk or of the link to the
//! store.

use std::{
    fs::File,
    io::Write,
    ops::Range,
    path::{Path, PathBuf},
    process::Stdio,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use futures::{StreamExt, future::try_join_all, stream};
use serde::{Deserialize, Serialize};
use tokio::{
    net::{TcpListener, TcpStream},
    process::{Child, Command},
};

use super::{
    bare,
    database::create_table,
    flight,
    http::HttpOptions,
    latency::{Latencies, Percentiles},
    query::{Addresses, Asker, Door},
    server::{Server, ServerOptions},
};
use crate::{
    distant::{self, Distance, Passed},
    measure,
    workload::wide::{CREATE_SUPERTABLE, DATABASE, ROW_BYTES, SCHEMA, SUPERTABLE, Wide},
};

/// Timeout of one DoPut.
const PUT_TIME: Duration = Duration::from_secs(120);
/// Maximum wait for the S3 server to start.
const START_TIME: Duration = Duration::from_secs(15);
/// Bucket, access key and secret of the S3 server.
const BUCKET: [&str; 3] = ["tidelake", "loadtest", "loadtest-secret"];
/// Bytes of one write of [`disk_rate`], each followed by fdatasync.
const BLOCK: usize = 16 << 20;

/// Settings of the load.
#[derive(Debug, Clone)]
pub struct WideOptions {
    /// The server's program.
    pub program: PathBuf,
    /// A new directory: the root of the server, or the data of the S3 server.
    pub directory: PathBuf,
    /// Concurrent writers.
    pub writers: usize,
    /// Rows per DoPut.
    pub rows_per_put: u32,
    /// Link to an S3 server; by default the root is in the directory itself.
    pub line: Option<Line>,
}

/// An S3 server behind a link with limited bandwidth for all uploads together.
#[derive(Debug, Clone)]
pub struct Line {
    /// The S3 server's program, versitygw.
    pub program: PathBuf,
    /// Simulated distance.
    pub distance: Distance,
}

/// Result of one load.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct WideSample {
    /// Concurrent writers.
    pub writers: usize,
    /// Rows per DoPut.
    pub rows_per_put: u32,
    /// Rows that the server acknowledged.
    pub rows: u64,
    /// Seconds from the first request to the last reply.
    pub seconds: f64,
    /// Latency of DoPut.
    pub latency: Percentiles,
    /// Bytes that the server wrote to disk during the load; with an S3 server, bytes over the link in both directions.
    pub written_bytes: u64,
    /// Rate of the disk for large blocks, each synced, in bytes per second: before and after the load.
    pub disk_bytes_per_second: Option<[f64; 2]>,
    /// Bytes of rows per second that a bare Flight server receives from the same writers and drops; measured with the disk.
    #[serde(default)]
    pub bare_bytes_per_second: Option<f64>,
    /// Bandwidth of the link to the store, in bytes per second.
    pub line_bytes_per_second: Option<u64>,
    /// Processor time of the server, in seconds.
    pub server_cpu_seconds: f64,
    /// Processor time of the clients, the proxy included, in seconds.
    pub client_cpu_seconds: f64,
}

impl WideSample {
    /// Acknowledged rows per second.
    pub fn rows_per_second(&self) -> f64 {
        self.rows as f64 / self.seconds.max(1e-9)
    }

    /// Bytes of acknowledged rows per second.
    pub fn bytes_per_second(&self) -> f64 {
        self.rows_per_second() * ROW_BYTES as f64
    }

    /// Rate of the link or, without one, mean rate of the disk, in bytes per second.
    pub fn limit(&self) -> Option<f64> {
        let line = self.line_bytes_per_second.map(|line| line as f64);
        line.or(self.disk_bytes_per_second.map(|[before, after]| f64::midpoint(before, after)))
    }
}

/// Measures the write rate of a directory, in bytes per second: writes `bytes` of random content to one file in blocks of
/// 16 MiB, each synced before the next, and removes the file.
///
/// # Errors
/// Any error of the file system.
pub fn disk_rate(directory: &Path, bytes: usize) -> Result<f64> {
    let path = directory.join("disk-rate");
    let mut block = vec![0; BLOCK];
    rand::Rng::fill(&mut <rand::rngs::StdRng as rand::SeedableRng>::seed_from_u64(1), &mut block[..]);
    let written = (|| {
        let mut file = File::create(&path)?;
        let begun = Instant::now();
        for _ in 0..bytes.div_ceil(BLOCK).max(1) {
            file.write_all(&block)?;
            file.sync_data()?;
        }
        Ok::<_, std::io::Error>(begun.elapsed())
    })();
    let removed = std::fs::remove_file(&path);
    let took = written.with_context(|| format!("write {}", path.display()))?;
    removed.with_context(|| format!("remove {}", path.display()))?;
    Ok((bytes.div_ceil(BLOCK).max(1) * BLOCK) as f64 / took.as_secs_f64())
}

/// Starts a server over a new root, writes the whole data set, and compares counts, sums and one row with the generator's.
///
/// # Errors
/// A server that does not start, a request that fails, a wrong answer.
pub async fn load(set: Wide, options: &WideOptions) -> Result<WideSample> {
    let passed = Arc::new(Passed::default());
    let Some(line) = &options.line else {
        let (before, root) = (rate_of(set, options).await?, options.directory.join("root"));
        let mut sample = written(set, options, root.display().to_string(), Vec::new(), &passed).await?;
        sample.disk_bytes_per_second = Some([before, rate_of(set, options).await?]);
        sample.bare_bytes_per_second = Some(bare_rate(set, options).await?);
        return Ok(sample);
    };
    let (s3, address) = start_s3(&line.program, &options.directory).await?;
    let listener = TcpListener::bind("127.0.0.1:0").await.context("listen for the proxy")?;
    let endpoint = format!("http://{}", listener.local_addr()?);
    let (distance, counted) = (line.distance, passed.clone());
    let proxy = tokio::spawn(async move { distant::serve(listener, &address, distance, 1, counted).await });
    let [bucket, key, secret] = BUCKET;
    let environment = [
        ("AWS_ENDPOINT_URL", endpoint.as_str()),
        ("AWS_ACCESS_KEY_ID", key),
        ("AWS_SECRET_ACCESS_KEY", secret),
        ("AWS_REGION", "us-east-1"),
    ];
    let environment = environment.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    let sample = written(set, options, format!("s3://{bucket}/wide"), environment, &passed).await;
    proxy.abort();
    drop(s3);
    let mut sample = sample?;
    sample.line_bytes_per_second = distance.upload_bytes_per_second;
    Ok(sample)
}

/// Measures the disk's rate with as many bytes as the rows have: a disk may be faster for a shorter burst.
async fn rate_of(set: Wide, options: &WideOptions) -> Result<f64> {
    let (directory, bytes) = (options.directory.clone(), set.len() as usize * ROW_BYTES as usize);
    tokio::task::spawn_blocking(move || disk_rate(&directory, bytes)).await.context("measure the disk")?
}

/// Measures the writers' rate, in bytes of rows per second, to a server that neither decodes nor stores the rows.
async fn bare_rate(set: Wide, options: &WideOptions) -> Result<f64> {
    let (_process, url) = bare::start(&[set.batch(1, 0..1)?]).await?;
    let begun = Instant::now();
    put_all(set, options, &url).await?;
    Ok((set.len() * ROW_BYTES) as f64 / begun.elapsed().as_secs_f64())
}

/// Starts an S3 server with one empty bucket in a directory; killed when dropped.
async fn start_s3(program: &Path, directory: &Path) -> Result<(Child, String)> {
    let [bucket, key, secret] = BUCKET;
    std::fs::create_dir_all(directory.join("s3").join(bucket)).context("make the bucket")?;
    // Free the port again: the S3 server does not accept an open listener.
    let address = TcpListener::bind("127.0.0.1:0").await.context("find a free port")?.local_addr()?.to_string();
    let mut child = Command::new(program)
        .args(["--quiet", "--port", &address, "--region", "us-east-1", "posix"])
        .arg(directory.join("s3"))
        .env("ROOT_ACCESS_KEY", key)
        .env("ROOT_SECRET_KEY", secret)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .with_context(|| format!("start {}", program.display()))?;
    let begun = Instant::now();
    while TcpStream::connect(&address).await.is_err() {
        ensure!(child.try_wait()?.is_none(), "{} ended before it served", program.display());
        ensure!(begun.elapsed() < START_TIME, "{} does not answer after {START_TIME:?}", program.display());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok((child, address))
}

/// Starts the server, writes, checks the answers, and stops the server.
async fn written(
    set: Wide,
    options: &WideOptions,
    store: String,
    environment: Vec<(String, String)>,
    passed: &Passed,
) -> Result<WideSample> {
    let is_local = environment.is_empty();
    let program = options.program.clone();
    let server = Server::start(&ServerOptions { program, store, environment, cores: None }).await?;
    create_table(&server.url, &HttpOptions::default(), DATABASE, CREATE_SUPERTABLE).await?;
    let (server_id, own_id) = (server.id().context("the server ended")?, std::process::id());
    let so_far = || {
        let bytes = if is_local { measure::written_bytes(server_id)? } else { passed.bytes() };
        Ok::<_, anyhow::Error>((measure::cpu_seconds(server_id)?, measure::cpu_seconds(own_id)?, bytes))
    };
    let before = so_far()?;
    let begun = Instant::now();
    let latencies = put_all(set, options, &server.url.replacen("http://", "grpc://", 1)).await?;
    let seconds = begun.elapsed().as_secs_f64();
    let after = so_far()?;

    let addresses = Addresses { url: server.url.clone(), flight: None };
    let mut asker = Asker::connect(Door::HttpArrow, &addresses, &HttpOptions::default()).await?;
    if !is_local {
        // On a bucket, a query without a token may see a state up to a second old.
        tokio::time::sleep(Duration::from_millis(1_200)).await;
    }
    let mut answers = Vec::new();
    for sql in set.questions() {
        answers.push(asker.ask(&sql).await?.0.into_answer()?);
    }
    set.check(&answers[0], &answers[1])?;
    server.kill().await?;
    Ok(WideSample {
        writers: options.writers,
        rows_per_put: options.rows_per_put,
        rows: set.len(),
        seconds,
        latency: latencies.percentiles(),
        written_bytes: after.2 - before.2,
        disk_bytes_per_second: None,
        bare_bytes_per_second: None,
        line_bytes_per_second: None,
        server_cpu_seconds: after.0 - before.0,
        client_cpu_seconds: after.1 - before.1,
    })
}

/// Writes all rows: each writer has its own subtables and sends one DoPut at a time.
async fn put_all(set: Wide, options: &WideOptions, url: &str) -> Result<Latencies> {
    let writers = options.writers.max(1) as u64;
    let share = |writer: u64| 1 + (u64::from(set.subtables) * writer / writers) as u32;
    let tasks = (0..writers).map(|writer| {
        let (subtables, rows, url) = (share(writer)..share(writer + 1), options.rows_per_put.max(1), url.to_owned());
        tokio::spawn(async move { put_share(set, subtables, rows, &url).await })
    });
    let mut all = Latencies::default();
    for done in try_join_all(tasks).await? {
        all.merge(&done?);
    }
    Ok(all)
}

async fn put_share(set: Wide, subtables: Range<u32>, rows: u32, url: &str) -> Result<Latencies> {
    let channel = flight::connect(url, PUT_TIME).await?;
    let mut latencies = Latencies::default();
    for subtable in subtables {
        for first in (0..set.rows).step_by(rows as usize) {
            let numbers = first..(first.saturating_add(rows)).min(set.rows);
            let batch = set.batch(subtable, numbers.clone())?;
            let start = Instant::now();
            let batches = stream::iter([Ok(batch)]).boxed();
            let put = flight::ingest_into([DATABASE, SUPERTABLE], SCHEMA.clone(), channel.clone(), batches, PUT_TIME);
            let acknowledged = put.await?;
            latencies.record(start.elapsed());
            let expected = numbers.len() as u64;
            ensure!(acknowledged == expected, "DoPut of {expected} rows: the server acknowledged {acknowledged}");
        }
    }
    Ok(latencies)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn the_disk_takes_some_bytes_a_second_and_nothing_is_left_behind() {
        let directory = tempfile::tempdir().unwrap();
        assert!(disk_rate(directory.path(), 1).unwrap() > 1e5);
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
        assert!(disk_rate(&directory.path().join("none"), 1).is_err());
    }

    #[tokio::test]
    async fn a_program_that_is_no_s3_server_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let error = start_s3(Path::new("true"), directory.path()).await.unwrap_err();
        assert!(error.to_string().contains("ended before it served"), "{error:#}");
    }
}
