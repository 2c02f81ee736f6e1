//! `peers`: the same questions to other engines, by the adapters of `loadtest/peers`.

use super::args::{Data, list};
use anyhow::{Context, Result, bail};
use arrow::ipc::writer::StreamWriter;
use clap::Args;
use std::io::{BufRead, BufReader, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tidelake_loadtest::answer::Answer;
use tidelake_loadtest::drive::encode::{Batch, SCHEMA};
use tidelake_loadtest::oracle::Oracle;
use tidelake_loadtest::report::{PeerSample, Verified};
use tidelake_loadtest::verify::compare;
use tidelake_loadtest::workload::queries;
use tidelake_loadtest::{Device, Devices};

/// Which engines read what.
#[derive(Debug, Clone, Args)]
pub(crate) struct Engines {
    /// Python with the packages of loadtest/peers/requirements.txt
    #[arg(long = "peers-python", default_value = "python3")]
    python: PathBuf,
    /// The adapter
    #[arg(long = "peers-adapter", default_value = "loadtest/peers/parquet_engines.py")]
    adapter: PathBuf,
    /// Directory where files of the same rows with pyarrow's defaults are made, and found again by the next run
    #[arg(long = "peers-work")]
    work: Option<PathBuf>,
    /// Engines
    #[arg(long = "peers-engines", default_value = "datafusion,duckdb,pyarrow")]
    engines: String,
}

/// Arguments of `peers`.
#[derive(Debug, Args)]
pub(crate) struct Peers {
    #[command(flatten)]
    data: Data,
    #[command(flatten)]
    engines: Engines,
    /// Root directory of a server, whose data files are read too
    #[arg(long)]
    root: Option<PathBuf>,
    /// Percentages of q2-q4
    #[arg(long, default_value = "10,20,30,40,50,60,70,80,90,100")]
    percent: String,
    /// Runs of each question
    #[arg(long, default_value_t = 5)]
    repeat: usize,
}

impl Peers {
    #[expect(clippy::print_stdout, reason = "a command prints its result")]
    pub(crate) fn run(self) -> Result<()> {
        let set = self.data.devices();
        let percents = list(&self.percent)?;
        let samples = self.engines.measure(&set, self.root.as_deref(), &percents, self.repeat)?;
        let verified = verify_peers(&Oracle::new(set), &percents, &samples);
        println!("{}", serde_json::to_string_pretty(&samples)?);
        match verified.wrong.as_slice() {
            [] => Ok(()),
            wrong => bail!("{} answers are wrong:\n{}", wrong.len(), wrong.join("\n")),
        }
    }
}

impl Engines {
    /// Runs the adapter: over the data files of `root`, and over default files of the same rows where a work directory is
    /// given.
    pub(crate) fn measure(
        &self,
        set: &Devices,
        root: Option<&Path>,
        percents: &[u32],
        repeat: usize,
    ) -> Result<Vec<PeerSample>> {
        let percents: Vec<String> = percents.iter().map(u32::to_string).collect();
        let mut command = Command::new(&self.python);
        command.arg(&self.adapter).args(["--percent", &percents.join(","), "--repeat", &repeat.to_string()]);
        command.args(["--engines", &self.engines]);
        if let Some(root) = root {
            command.arg("--root").arg(root);
        }
        if let Some(work) = &self.work {
            command.arg("--work").arg(work.join(format!("w1-{}x{}-seed{}", set.devices, set.rows, set.seed)));
        }
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("start {} {}", self.python.display(), self.adapter.display()))?;
        let stdin = child.stdin.take().context("the adapter has no standard input")?;
        let stdout = child.stdout.take().context("the adapter has no standard output")?;
        let set = *set;
        let feeder = std::thread::spawn(move || feed(&set, stdin));
        let mut samples = Vec::new();
        for text in BufReader::new(stdout).lines() {
            let text = text.context("read the adapter's output")?;
            samples.push(serde_json::from_str(&text).with_context(|| format!("the adapter printed {text:?}"))?);
        }
        let status = child.wait().context("wait for the adapter")?;
        let fed = feeder.join();
        if !status.success() {
            bail!("{} ended with {status}", self.adapter.display());
        }
        match fed {
            Ok(fed) => fed.context("send rows to the adapter")?,
            Err(_) => bail!("the thread that sends rows to the adapter ended"),
        }
        Ok(samples)
    }
}

/// Sends all rows as an Arrow stream; an adapter that needs none closes its end, which is no error.
fn feed(set: &Devices, to: impl Write) -> Result<()> {
    let result = try_feed(set, to);
    match &result {
        Err(error) => {
            let broken = error.chain().filter_map(|cause| cause.downcast_ref::<std::io::Error>());
            let text = format!("{error:#}");
            let closed = broken.map(std::io::Error::kind).any(|kind| kind == ErrorKind::BrokenPipe);
            if closed || text.contains("Broken pipe") { Ok(()) } else { result }
        }
        Ok(()) => Ok(()),
    }
}

fn try_feed(set: &Devices, to: impl Write) -> Result<()> {
    let mut writer = StreamWriter::try_new(BufWriter::with_capacity(1 << 20, to), &SCHEMA)?;
    let (mut batch, mut rows, mut held) = (Batch::default(), Vec::new(), 0);
    for devid in set.ids() {
        rows.clear();
        set.extend(devid, 0..set.rows, &mut rows);
        batch.push(&Device::numbered(devid), &rows);
        held += rows.len();
        if held >= 1 << 16 || devid == set.devices {
            writer.write(&batch.finish()?)?;
            held = 0;
        }
    }
    writer.finish()?;
    Ok(())
}

/// Compares the engines' answers with the oracle's, so that a figure is never one of a wrong answer.
pub(crate) fn verify_peers(oracle: &Oracle, percents: &[u32], samples: &[PeerSample]) -> Verified {
    let mut verified = Verified::default();
    for question in percents.iter().flat_map(|&percent| queries(percent)) {
        let expected = oracle.answer(&question);
        for sample in samples.iter().filter(|sample| sample.name == question.name()) {
            let rows: Vec<serde_json::Value> = sample.rows.iter().cloned().map(serde_json::Value::Array).collect();
            let found = Answer::from_json(expected.names.clone(), &[], &rows);
            match found.and_then(|found| compare(&expected, &found)) {
                Ok(()) => verified.right += 1,
                Err(error) => verified.wrong.push(format!("{}, {}: {error:#}", sample.peer, sample.name)),
            }
        }
    }
    verified
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// A Python that has the adapter's packages; `None` skips the test, unless nothing may be skipped.
    #[expect(clippy::print_stderr, reason = "a skipped test says so")]
    fn python() -> Option<PathBuf> {
        let found = std::env::var_os("TIDELAKE_PYTHON").map(PathBuf::from);
        if found.is_none() {
            assert!(std::env::var_os("TIDELAKE_REQUIRE_ALL").is_none(), "TIDELAKE_PYTHON is not set");
            eprintln!("SKIPPED: TIDELAKE_PYTHON is not set");
        }
        found
    }

    #[test]
    fn every_engine_answers_as_the_oracle_over_default_files_and_over_a_roots() {
        let Some(python) = python() else { return };
        let dir = tempfile::tempdir().unwrap();
        let adapter = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers/parquet_engines.py");
        let engines = Engines {
            python,
            adapter,
            work: Some(dir.path().join("work")),
            engines: "datafusion,duckdb,pyarrow".into(),
        };
        let set = Devices { devices: 250, rows: 130, seed: 5 };
        let oracle = Oracle::new(set);
        // 16 questions for each engine with SQL, 14 for pyarrow, which has no q4.
        let asked = 16 + 16 + 14;
        let first = engines.measure(&set, None, &[10, 100], 1).unwrap();
        assert_eq!(verify_peers(&oracle, &[10, 100], &first), Verified { right: asked, wrong: vec![] });

        let made = dir.path().join("work/w1-250x130-seed5/default0.parquet");
        let root = dir.path().join("root");
        std::fs::create_dir_all(root.join("data/1/0")).unwrap();
        std::fs::copy(made, root.join("data/1/0/5.parquet")).unwrap();
        std::fs::write(root.join("data/1/0/5.tags"), "no Parquet").unwrap();
        let both = engines.measure(&set, Some(&root), &[10, 100], 2).unwrap();
        assert_eq!(verify_peers(&oracle, &[10, 100], &both), Verified { right: 2 * asked, wrong: vec![] });
        assert!(both.iter().all(|sample| sample.millis.len() >= 2 && sample.in_process));

        let other = Oracle::new(Devices { seed: 6, ..set });
        assert!(!verify_peers(&other, &[100], &both).wrong.is_empty());
        let error = engines.measure(&set, Some(&dir.path().join("nowhere")), &[100], 1).unwrap_err();
        assert!(error.to_string().contains("ended with"), "{error:#}");
    }
}
