//! The conformance suite of all stores, run on a third-party S3-compatible server.

use tidelake_format::store::{Store, conformance};
use tidelake_tests::S3Server;

#[tokio::test(flavor = "multi_thread")]
async fn an_s3_compatible_server_keeps_the_contract() {
    let Some(s3) = S3Server::start() else { return };
    conformance::check(&Store::open(&s3.root("contract"), &s3.options()).unwrap()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_keeps_the_contract() {
    let directory = tempfile::tempdir().unwrap();
    conformance::check(&Store::open(directory.path().to_str().unwrap(), &[]).unwrap()).await.unwrap();
}
