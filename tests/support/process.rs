//! The `tidelake` binary as a child process.

use std::{
    io::{BufRead, BufReader},
    net::SocketAddr,
    path::PathBuf,
    process::{Child, Command, Output, Stdio},
    time::Duration,
};

/// The binary under test: `TIDELAKE_BIN`, else the output of `cargo build --release`.
///
/// # Panics
/// When there is none.
pub fn binary() -> PathBuf {
    let path = std::env::var_os("TIDELAKE_BIN").map_or_else(
        || {
            let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("../target"), PathBuf::from);
            target.join("release/tidelake")
        },
        PathBuf::from,
    );
    assert!(path.is_file(), "{} does not exist: cargo build --release -p tidelake", path.display());
    path
}

/// Runs a command of the binary to its end.
///
/// # Panics
/// When it cannot be started.
pub fn run<I: AsRef<std::ffi::OsStr>>(arguments: impl IntoIterator<Item = I>) -> Output {
    Command::new(binary()).args(arguments).stdin(Stdio::null()).output().expect("the binary starts")
}

/// A server process; killed when dropped.
pub struct Server {
    child: Child,
    /// `http` or `https`.
    scheme: String,
    /// Listen address.
    pub address: SocketAddr,
    /// Reported address of Flight SQL.
    pub flight: SocketAddr,
}

impl Server {
    /// Starts `tidelake serve` over a store on a free port of 127.0.0.1 and waits until it serves.
    ///
    /// # Panics
    /// When it ends or does not serve within 30 seconds.
    pub fn start<I: AsRef<std::ffi::OsStr>>(store: &str, arguments: impl IntoIterator<Item = I>) -> Self {
        Self::start_with(store, arguments, &[])
    }

    /// [`Server::start`] with more environment variables.
    pub fn start_with<I: AsRef<std::ffi::OsStr>>(
        store: &str,
        arguments: impl IntoIterator<Item = I>,
        environment: &[(&str, String)],
    ) -> Self {
        Self::spawn(store, arguments, environment, Stdio::inherit())
    }

    /// [`Server::start`], its log in a file.
    pub fn start_logged<I: AsRef<std::ffi::OsStr>>(
        store: &str,
        arguments: impl IntoIterator<Item = I>,
        log: std::fs::File,
    ) -> Self {
        Self::spawn(store, arguments, &[], log.into())
    }

    fn spawn<I: AsRef<std::ffi::OsStr>>(
        store: &str,
        arguments: impl IntoIterator<Item = I>,
        environment: &[(&str, String)],
        log: Stdio,
    ) -> Self {
        let mut child = Command::new(binary())
            .args(["serve", "--store", store, "--listen", "127.0.0.1:0"])
            .args(arguments)
            .envs(environment.iter().map(|(k, v)| (k, v)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .expect("the binary starts");
        let mut lines = BufReader::new(child.stdout.take().expect("standard output is piped")).lines();
        let mut said = |what: &str| loop {
            let line = lines.next().expect("the server says where it listens before it ends").expect("text");
            if let Some((_, rest)) = line.split_once(what) {
                let url = rest.split_whitespace().next().expect("a URL");
                let (scheme, address) = url.split_once("://").expect("a URL");
                break (scheme.to_owned(), address.parse().expect("an address"));
            }
        };
        let (scheme, address) = said("HTTP        ");
        let (_, flight) = said("Flight SQL  ");
        // Drain the output so that the server never blocks on a full pipe.
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, scheme, address, flight }
    }

    /// `http://…`, or `https://…` with TLS.
    pub fn url(&self) -> String {
        format!("{}://{}", self.scheme, self.address)
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// SIGKILL: nothing is flushed.
    pub fn kill(mut self) {
        self.child.kill().expect("it was running");
        self.child.wait().expect("it ends");
    }

    /// SIGTERM, then waits for its end.
    ///
    /// # Panics
    /// When it does not end within 30 seconds, or not with status 0.
    pub fn stop(mut self) {
        let id = self.child.id().to_string();
        Command::new("kill").args(["-TERM", &id]).status().expect("kill runs");
        for _ in 0..300 {
            if let Some(status) = self.child.try_wait().expect("its status") {
                assert!(status.success(), "the server ended with {status}");
                return;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("the server did not end within 30 s of SIGTERM");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Already ended is fine.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
