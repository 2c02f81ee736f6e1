//! TLS on every port with real clients; client certificates; certificate renewal while the server runs.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
    time::Duration,
};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose};
use reqwest::{Client, Identity, Version};
use tidelake_tests::{Server, process::run, tool};

/// A CA and a directory of PEM files.
struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    directory: PathBuf,
    name: &'static str,
}

impl Authority {
    fn new(directory: &Path, name: &'static str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        params.distinguished_name.push(DnType::CommonName, name);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let this = Self { issuer, directory: directory.to_owned(), name };
        fs::write(this.path(), this.issuer.pem()).unwrap();
        this
    }

    /// Path of the CA certificate.
    fn path(&self) -> String {
        self.directory.join(format!("{}.pem", self.name)).to_str().unwrap().to_owned()
    }

    /// Signs a certificate for this machine; returns the paths of certificate and key.
    fn sign(&self, name: &str) -> [String; 2] {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["localhost".to_owned(), "127.0.0.1".to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let files = ["pem", "key"].map(|end| self.directory.join(format!("{name}.{end}")).to_str().unwrap().to_owned());
        fs::write(&files[0], certificate.pem()).unwrap();
        fs::write(&files[1], key.serialize_pem()).unwrap();
        files
    }

    /// A client that trusts only this CA.
    fn client(&self, identity: Option<&[String; 2]>) -> Client {
        let trusted = reqwest::Certificate::from_pem(self.issuer.pem().as_bytes()).unwrap();
        let client = Client::builder().tls_built_in_root_certs(false).add_root_certificate(trusted);
        let client = match identity {
            Some(files) => {
                let pem = files.iter().map(|file| fs::read_to_string(file).unwrap()).collect::<String>();
                client.identity(Identity::from_pem(pem.as_bytes()).unwrap())
            }
            None => client,
        };
        client.timeout(Duration::from_secs(30)).build().unwrap()
    }
}

/// Whether a client gets a response.
async fn is_answered(client: &Client, server: &Server) -> bool {
    match client.get(format!("{}/health", server.url())).send().await {
        Ok(reply) => reply.status().is_success(),
        Err(_) => false,
    }
}

/// Output of a query by the ADBC driver.
fn adbc(server: &Server, python: &str, tls: &[&str]) -> Output {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/python/tls.py");
    let url = format!("grpc+tls://{}", server.address);
    Command::new(python).args([script, &url]).args(tls).output().unwrap()
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[tokio::test(flavor = "multi_thread")]
async fn every_port_speaks_tls_to_those_who_trust_its_certificate_and_to_nobody_else() {
    let Some(python) = tool("TIDELAKE_PYTHON") else { return };
    let directory = tempfile::tempdir().unwrap();
    let (authority, other) = (Authority::new(directory.path(), "ours"), Authority::new(directory.path(), "other"));
    let [certificate, key] = authority.sign("server");
    let root = directory.path().join("root").to_str().unwrap().to_owned();
    let server = Server::start(&root, ["--tls-certificate", &certificate, "--tls-key", &key]);
    assert!(server.url().starts_with("https://127.0.0.1:"), "{}", server.url());

    let client = authority.client(None);
    let write = format!("{}/write?db=d&precision=ms", server.url());
    let reply = client.post(&write).body("m,host=h v=1 1700000000000").send().await.unwrap();
    assert_eq!((reply.status().as_u16(), reply.version()), (204, Version::HTTP_2));
    let trusted = reqwest::Certificate::from_pem(authority.issuer.pem().as_bytes()).unwrap();
    let old = Client::builder().http1_only().tls_built_in_root_certs(false).add_root_certificate(trusted);
    let reply = old.build().unwrap().post(&write).body("m,host=h v=2 1700000000001").send().await.unwrap();
    assert_eq!((reply.status().as_u16(), reply.version()), (204, Version::HTTP_11));
    assert!(!is_answered(&other.client(None), &server).await, "a client that trusts somebody else");
    let plain = reqwest::get(format!("http://{}/health", server.address)).await;
    assert!(plain.is_err_and(|error| !error.is_connect()), "a client without TLS is not answered");

    let url = server.url();
    let ask = "select count(*) as n from d.m";
    let shell = run(["sql", "--url", &url, "--tls-ca", &authority.path(), "--command", ask]);
    assert!(shell.status.success() && text(&shell).contains('2'), "{}", text(&shell));
    let shell = run(["sql", "--url", &url, "--tls-ca", &other.path(), "--command", ask]);
    assert!(!shell.status.success(), "{}", text(&shell));
    let health = run(["health", "--url", &url, "--tls-ca", &authority.path()]);
    assert!(health.status.success(), "{}", text(&health));
    assert!(!run(["health", "--url", &url]).status.success());
    let found = adbc(&server, &python, &[&authority.path()]);
    assert_eq!((text(&found).trim(), found.status.success()), ("[(2,)]", true));
    assert!(!adbc(&server, &python, &[&other.path()]).status.success());
    server.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn with_an_authority_for_clients_only_those_that_it_signed_get_in() {
    let Some(python) = tool("TIDELAKE_PYTHON") else { return };
    let directory = tempfile::tempdir().unwrap();
    let (authority, clients) = (Authority::new(directory.path(), "ours"), Authority::new(directory.path(), "clients"));
    let [certificate, key] = authority.sign("server");
    let (known, unknown) = (clients.sign("known"), authority.sign("unknown"));
    let root = directory.path().join("root").to_str().unwrap().to_owned();
    let settings = ["--tls-certificate", &certificate, "--tls-key", &key, "--tls-client-ca", &clients.path()];
    let server = Server::start(&root, settings);

    assert!(is_answered(&authority.client(Some(&known)), &server).await);
    assert!(!is_answered(&authority.client(None), &server).await, "no certificate");
    assert!(!is_answered(&authority.client(Some(&unknown)), &server).await, "one of somebody else");
    let (url, ca) = (server.url(), authority.path());
    let shell = |more: &[&str]| {
        let arguments = ["sql", "--url", &url, "--tls-ca", &ca, "--command", "select 7"];
        run(arguments.into_iter().chain(more.iter().copied()))
    };
    let found = shell(&["--tls-client-certificate", &known[0], "--tls-client-key", &known[1]]);
    assert!(found.status.success() && text(&found).contains('7'), "{}", text(&found));
    assert!(!shell(&[]).status.success());
    assert!(!shell(&["--tls-client-certificate", &unknown[0], "--tls-client-key", &unknown[1]]).status.success());
    let found = adbc(&server, &python, &[&ca, &known[0], &known[1]]);
    assert!(text(&found).contains("d.m"), "it gets as far as a table that is not there: {}", text(&found));
    server.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn renewed_certificates_are_used_by_the_next_connections_and_open_ones_go_on() {
    let directory = tempfile::tempdir().unwrap();
    let (before, after) = (Authority::new(directory.path(), "before"), Authority::new(directory.path(), "after"));
    let [certificate, key] = before.sign("server");
    let root = directory.path().join("root").to_str().unwrap().to_owned();
    let server = Server::start(&root, ["--tls-certificate", &certificate, "--tls-key", &key]);
    let open = before.client(None);
    assert!(is_answered(&open, &server).await);
    assert!(!is_answered(&after.client(None), &server).await);

    let hangup = || assert!(Command::new("kill").args(["-HUP", &server.id().to_string()]).status().unwrap().success());
    // An incomplete renewal: the certificate without its key.
    let renewed = after.sign("renewed");
    fs::copy(&renewed[0], &certificate).unwrap();
    hangup();
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(is_answered(&before.client(None), &server).await, "what does not fit together is not used");
    fs::copy(&renewed[1], &key).unwrap();
    hangup();
    let mut is_renewed = false;
    for _ in 0..100 {
        is_renewed = is_answered(&after.client(None), &server).await;
        if is_renewed {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(is_renewed, "the new certificate is not used");
    assert!(!is_answered(&before.client(None), &server).await, "the old one is not used any more");
    assert!(is_answered(&open, &server).await, "a connection goes on with what it began with");
    server.stop();
}

#[test]
fn a_server_does_not_start_with_tls_that_cannot_be() {
    let directory = tempfile::tempdir().unwrap();
    let authority = Authority::new(directory.path(), "ours");
    let ([certificate, _], [_, other_key]) = (authority.sign("one"), authority.sign("two"));
    let root = directory.path().join("root").to_str().unwrap().to_owned();
    let serve = |more: &[&str]| {
        let arguments = ["serve", "--store", &root, "--listen", "127.0.0.1:0"];
        text(&run(arguments.into_iter().chain(more.iter().copied())))
    };
    let fault = serve(&["--tls-certificate", &certificate]);
    assert!(fault.contains("tls_key: expected a file of PEM"), "{fault}");
    let fault = serve(&["--tls-certificate", &certificate, "--tls-key", &other_key]);
    assert!(fault.contains("one.pem") && fault.contains("two.key") && fault.contains("match"), "{fault}");
    let fault = serve(&["--tls-certificate", "/nowhere.pem", "--tls-key", &other_key]);
    assert!(fault.contains("/nowhere.pem"), "{fault}");
}
