//! A server process started for one measurement, and killed when dropped.

use std::{path::PathBuf, process::Stdio, time::Duration};

use anyhow::{Context, Result, bail};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
};

/// Maximum wait for a server to start.
const START_TIME: Duration = Duration::from_secs(30);

/// Program, store and environment of a server.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// The server's program.
    pub program: PathBuf,
    /// The root: a directory, or `s3://bucket/prefix`.
    pub store: String,
    /// Additional environment variables of the server, mainly credentials.
    pub environment: Vec<(String, String)>,
    /// Processors of the server, as a `taskset -c` list; all by default.
    pub cores: Option<String>,
}

/// A running server process.
#[derive(Debug)]
pub struct Server {
    process: Child,
    /// HTTP endpoint, `http://host:port`; Flight SQL uses the same address.
    pub url: String,
}

impl Server {
    /// Starts a server on a free port of 127.0.0.1 and waits until it serves.
    ///
    /// # Errors
    /// A program that cannot be started, ends at once or does not serve within half a minute.
    pub async fn start(options: &ServerOptions) -> Result<Self> {
        let mut command = match &options.cores {
            None => Command::new(&options.program),
            Some(cores) => {
                let mut pinned = Command::new("taskset");
                pinned.args(["-c", cores]).arg(&options.program);
                pinned
            }
        };
        let process = command
            .args(["serve", "--listen", "127.0.0.1:0", "--log", "warn", "--store", &options.store])
            .envs(options.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("start {}", options.program.display()))?;
        let served = tokio::time::timeout(START_TIME, Self::serving(process)).await;
        served.with_context(|| format!("{} does not serve after {START_TIME:?}", options.program.display()))?
    }

    async fn serving(mut process: Child) -> Result<Self> {
        let mut lines = BufReader::new(process.stdout.take().context("the server's output")?).lines();
        while let Some(line) = lines.next_line().await.context("read the server's output")? {
            let Some(url) = line.trim_start().strip_prefix("HTTP").and_then(|rest| rest.split_whitespace().next())
            else {
                continue;
            };
            let url = url.to_owned();
            // Keep reading, so that the server never blocks on a full pipe.
            tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
            return Ok(Self { process, url });
        }
        bail!("the server ended before it served")
    }

    /// The process ID, while the server runs.
    pub fn id(&self) -> Option<u32> {
        self.process.id()
    }

    /// Kills the server and waits for its exit.
    ///
    /// # Errors
    /// The process cannot be killed.
    pub async fn kill(mut self) -> Result<()> {
        self.process.kill().await.context("end the server")
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// A program that does what a line of shell says.
    fn program(directory: &tempfile::TempDir, script: &str) -> ServerOptions {
        let program = directory.path().join("server");
        std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        ServerOptions { program, store: "here".into(), environment: vec![("WHO".into(), "me".into())], cores: None }
    }

    #[tokio::test]
    async fn a_server_is_known_by_the_address_that_it_prints_and_killed_when_dropped() {
        let directory = tempfile::tempdir().unwrap();
        let script = "echo tidelake; echo \"  HTTP        http://127.0.0.1:7/$WHO/$7  x\"; exec sleep 60";
        let mut options = program(&directory, script);
        for cores in [None, Some("0".to_owned())] {
            options.cores = cores;
            let server = Server::start(&options).await.unwrap();
            assert_eq!(server.url, "http://127.0.0.1:7/me/here");
            let status = format!("/proc/{}/status", server.id().unwrap());
            let allowed = std::fs::read_to_string(&status).unwrap();
            let is_pinned = allowed.lines().any(|line| line.split_whitespace().eq(["Cpus_allowed_list:", "0"]));
            assert!(is_pinned || options.cores.is_none(), "{allowed}");
            server.kill().await.unwrap();
            assert!(!std::path::Path::new(&status).exists());
        }
    }

    #[tokio::test]
    async fn a_server_that_ends_before_it_serves_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let error = Server::start(&program(&directory, "echo no store")).await.unwrap_err();
        assert!(error.to_string().contains("ended before it served"), "{error:#}");
    }
}
