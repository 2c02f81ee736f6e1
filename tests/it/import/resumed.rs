//! Imports that were interrupted and go on.

use std::{
    collections::BTreeSet,
    io::Write as _,
    net::SocketAddr,
    path::Path,
    process::{Command, Stdio},
    sync::{Arc, Mutex},
    time::Duration,
};

use serde_json::Value;
use tidelake_tests::{Http, Server, process};

use super::{Scene, cells, csv, done, err, expected, failed, fleet, stored};

/// Forwards connections to a server that changes its address.
async fn forward(to: Arc<Mutex<SocketAddr>>) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut from, _)) = listener.accept().await {
            let to = *to.lock().unwrap();
            tokio::spawn(async move {
                if let Ok(mut to) = tokio::net::TcpStream::connect(to).await {
                    let _ = tokio::io::copy_bidirectional(&mut from, &mut to).await;
                }
            });
        }
    });
    format!("http://{address}")
}

/// The number of rows or lines of the first file that the state of an import counts.
fn counted(state: &str) -> u64 {
    let text = std::fs::read(state).unwrap_or_default();
    let state: Value = serde_json::from_slice(&text).unwrap_or_default();
    state["files"][0]["done"].as_u64().unwrap_or(0)
}

/// Starts an import and kills it once its state counts this number of rows; returns the number that it counts then.
pub(super) fn interrupted(command: &mut Command, state: &str, rows: u64) -> u64 {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    while counted(state) < rows {
        assert!(child.try_wait().unwrap().is_none(), "it ended before it was interrupted");
        std::thread::sleep(Duration::from_millis(2));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    counted(state)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resumed_import_lists_each_rejected_line_once() {
    let scene = Scene::new(&[]);
    let (mut text, mut wrong) = (String::new(), BTreeSet::new());
    for n in 0..400_000 {
        let value = if n % 1_000 == 7 { "oops".to_owned() } else { format!("{n}i") };
        let line = format!("measurement,host=machine{} value={value} {n}", n % 10);
        if n % 1_000 == 7 {
            wrong.insert((n + 1, line.clone()));
        }
        text += &format!("{line}\n");
    }
    let (file, state, rejects) = (scene.write("lines.lp", &text), scene.path("state"), scene.path("rejects.csv"));
    let arguments = [&file, "--resume", &state, "--reject-file", &rejects];
    let mut command = Command::new(process::binary());
    command.args(["import", "--url", &scene.server.url(), "-d", "d"]).args(arguments);
    let sent = interrupted(&mut command, &state, 1);
    assert!((1..400_000).contains(&sent), "{sent}");
    // As if it had been killed between the reject file and the state.
    let mut file = std::fs::File::options().append(true).open(&rejects).unwrap();
    file.write_all(b"lines.lp,400000,again,\"measurement\"\n").unwrap();
    assert_eq!(
        done(&scene.import(&arguments)).trim(),
        "399600 rows imported: 399600 written, 0 replaced, 0 refused, 400 rejected"
    );
    let found = cells(&std::fs::read_to_string(&rejects).unwrap());
    let texts: BTreeSet<(usize, String)> =
        found[1..].iter().map(|row| (row[1].parse().unwrap(), row[3].clone())).collect();
    assert_eq!((texts, found.len() - 1), (wrong, 400));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_import_that_was_interrupted_continues_where_the_server_stopped() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let server = Server::start(&path("root"), [] as [&str; 0]);
    let address = Arc::new(Mutex::new(server.address));
    let url = forward(address.clone()).await;
    let rows = fleet(1_767_254_401..1_767_266_401);
    std::fs::write(path("a.csv"), csv(&rows)).unwrap();
    let arguments = ["import", "--url", &url, "-t", "d.t", "--precision", "s", "--tags", "host", "--part-rows", "500"];
    let mut command = Command::new(process::binary());
    command.args(arguments).args(["--resume", &path("state"), &path("a.csv")]).stdin(Stdio::null());
    let mut first = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    while counted(&path("state")) < 2_000 {
        assert!(first.try_wait().unwrap().is_none(), "it ended before it was interrupted");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    server.kill();
    let told = failed(&first.wait_with_output().unwrap());
    assert!(told.contains("run the command again to continue"), "{told}");
    let sent = counted(&path("state"));
    assert!((2_000..60_000).contains(&sent), "{sent}");

    let server = Server::start(&path("root"), [] as [&str; 0]);
    *address.lock().unwrap() = server.address;
    let http = Http::new(&server.url());
    // Another import is not taken for this one.
    let other =
        process::run(arguments.iter().copied().chain(["--null", "-", "--resume", &path("state"), &path("a.csv")]));
    assert!(failed(&other).contains("--null has changed"), "{}", err(&other));
    let output = command.output().unwrap();
    assert_eq!(done(&output).trim(), "60000 rows imported: 60000 written, 0 replaced, 0 refused");
    assert!(err(&output).contains(&format!("continuing: {sent} rows")), "{}", err(&output));
    let metrics = http.get("/metrics").await.unwrap().body;
    let written = metrics.lines().find(|line| line.starts_with("tidelake_ingest_rows_total")).unwrap();
    assert_eq!(written.rsplit(' ').next().unwrap(), (60_000 - sent).to_string());
    assert_eq!(stored(&http, "t").await, expected(&rows));
    assert!(!Path::new(&path("state")).exists());
}
