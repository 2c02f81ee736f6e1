//! A third-party S3-compatible server: versitygw over a temporary directory.

use std::{
    net::{TcpListener, TcpStream},
    process::{Child, Command, Stdio},
    time::Duration,
};

/// A running server with one empty bucket, `tidelake`; stopped when dropped.
pub struct S3Server {
    child: Child,
    port: u16,
    directory: tempfile::TempDir,
}

impl S3Server {
    /// Starts the server on a free port; `None` if `TIDELAKE_VERSITYGW` is not set.
    ///
    /// # Panics
    /// When it does not answer within 15 seconds.
    pub fn start() -> Option<Self> {
        let program = crate::tool("TIDELAKE_VERSITYGW")?;
        let directory = tempfile::tempdir().expect("a temporary directory");
        std::fs::create_dir(directory.path().join("tidelake")).expect("the bucket");
        let port = TcpListener::bind("127.0.0.1:0").expect("a free port").local_addr().expect("its address").port();
        let child = Command::new(program)
            .args(["--quiet", "--port", &format!("127.0.0.1:{port}"), "--region", "us-east-1", "posix"])
            .arg(directory.path())
            .env("ROOT_ACCESS_KEY", "test")
            .env("ROOT_SECRET_KEY", "testtest")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .expect("the S3 server starts");
        let server = Self { child, port, directory };
        for _ in 0..150 {
            if TcpStream::connect(("127.0.0.1", port)).is_ok() {
                return Some(server);
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("the S3 server does not answer");
    }

    /// Listen address, `host:port`.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// URL of a root in the bucket, for `--store`.
    pub fn root(&self, prefix: &str) -> String {
        format!("s3://tidelake/{prefix}")
    }

    /// The directory with the bucket's objects, and the parts of unfinished uploads.
    pub fn directory(&self) -> &std::path::Path {
        self.directory.path()
    }

    /// Uploads the files of a directory under a prefix, like a program that copies a root.
    ///
    /// # Panics
    /// When they cannot be copied.
    pub fn upload(&self, from: &std::path::Path, prefix: &str) {
        let to = self.directory.path().join("tidelake").join(prefix);
        let status = Command::new("cp").arg("-r").arg(from).arg(to).status().expect("cp starts");
        assert!(status.success(), "cp ended with {status}");
    }

    /// Environment variables that a process needs to reach the server.
    pub fn environment(&self) -> Vec<(&'static str, String)> {
        vec![
            ("AWS_ENDPOINT_URL", format!("http://127.0.0.1:{}", self.port)),
            ("AWS_ACCESS_KEY_ID", "test".to_owned()),
            ("AWS_SECRET_ACCESS_KEY", "testtest".to_owned()),
            ("AWS_REGION", "us-east-1".to_owned()),
        ]
    }

    /// The same as options of a store.
    pub fn options(&self) -> Vec<(String, String)> {
        vec![
            ("endpoint".to_owned(), format!("http://127.0.0.1:{}", self.port)),
            ("access_key_id".to_owned(), "test".to_owned()),
            ("secret_access_key".to_owned(), "testtest".to_owned()),
            ("region".to_owned(), "us-east-1".to_owned()),
        ]
    }
}

impl Drop for S3Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
