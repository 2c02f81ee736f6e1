#![allow(clippy::unwrap_used)]

use super::*;
use crate::drive::fake::{Fake, no_content, serve};
use std::{process::Command, time::Instant};

const SET: Devices = Devices { devices: 200, rows: 15, seed: 3 };

/// An adapter that is a shell script.
fn adapter(script: &str) -> Adapter {
    Adapter::start(Command::new("sh").args(["-c", script])).unwrap()
}

/// The script of an adapter of the server at `url`, which then does what `rest` says.
fn of_server(url: &str, rest: &str) -> String {
    let ready = format!(r#"{{"event":"ready","peer":"Fake","version":"1.2","url":"{url}"}}"#);
    format!("echo '{ready}'; read line; [ \"$line\" = loaded ] || exit 3; {rest}")
}

fn measured(url: &str, rest: &str) -> Result<(PeerLoad, Vec<PeerSample>)> {
    measured_over(Protocol::Line, url, rest)
}

fn measured_over(protocol: Protocol, url: &str, rest: &str) -> Result<(PeerLoad, Vec<PeerSample>)> {
    let (adapter, runtime) = (adapter(&of_server(url, rest)), Handle::current());
    let measuring = std::thread::spawn(move || measure_server(adapter, &SET, protocol, &runtime));
    measuring.join().unwrap()
}

const SETTLED: &str = r#"echo '{"event":"settled","rows":3000,"seconds":1.5,"bytes":4096}';"#;
const ANSWER: &str = r#"echo '{"event":"answer","peer":"Fake","version":"1.2","name":"q2 count 100 %","sql":"count","millis":[2,1,3],"rows":[[3000]],"in_process":false}';"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_written_to_by_our_clients_and_heard_through_its_adapter() {
    let Fake { url, requests, .. } = serve(|_, _| no_content("")).await;
    let (load, answers) = measured(&url, &format!("{SETTLED}{ANSWER}")).unwrap();
    assert_eq!((load.peer.as_str(), load.version.as_str(), load.rows, load.clients), ("Fake", "1.2", 3_000, 4));
    assert_eq!((load.settle_seconds, load.disk_bytes, load.in_process), (1.5, 4_096, false));
    let [answer] = answers.as_slice() else { panic!("{answers:?}") };
    assert_eq!((answer.data_rows, answer.median_ms()), (3_000, 2.0));
    let requests = requests.lock().unwrap();
    let lines: usize = requests.iter().map(|request| request.body.split(|byte| *byte == b'\n').count() - 1).sum();
    assert_eq!(lines, 3_000);
    assert!(requests.iter().all(|request| request.line.starts_with("POST /write?db=db&precision=ms")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_takes_points_is_sent_two_for_each_row() {
    let Fake { url, requests, .. } = serve(|_, _| no_content("")).await;
    let (load, _) = measured_over(Protocol::OpenTsdb, &url, SETTLED).unwrap();
    assert_eq!((load.rows, load.clients, load.rows_per_request), (3_000, 4, 1_000));
    let requests = requests.lock().unwrap();
    let points = requests.iter().map(|request| {
        assert!(request.line.starts_with("POST /api/put"), "{}", request.line);
        serde_json::from_slice::<Vec<serde_json::Value>>(&request.body).unwrap().len()
    });
    assert_eq!(points.sum::<usize>(), 6_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_lost_rows_refuses_them_or_breaks_off_is_an_error() {
    let taking = serve(|_, _| no_content("")).await.url;
    let refusing = serve(|_, _| crate::drive::fake::reply(400, "", "bad line")).await.url;
    for (url, rest, expected) in [
        (&taking, r#"echo '{"event":"settled","rows":2999,"seconds":1,"bytes":1}'"#, "sent 3000 rows and holds 2999"),
        (&refusing, SETTLED, "bad line"),
        (&taking, "exit 7", "exit status: 7"),
        (&taking, "echo nonsense", "nonsense"),
        (&taking, ANSWER, "expected event \"settled\""),
        (&taking, &format!("{SETTLED}{SETTLED}"), "expected answers"),
    ] {
        let error = format!("{:#}", measured(url, rest).unwrap_err());
        assert!(error.contains(expected), "{rest}: {error}");
    }
}

#[test]
fn an_adapter_that_is_silent_is_an_error_in_time_and_ends_when_dropped() {
    let dir = tempfile::tempdir().unwrap();
    let pid = dir.path().join("pid");
    let mut silent = adapter(&format!("echo $$ > {}; exec sleep 600", pid.display()));
    let begun = Instant::now();
    let error = silent.next(Duration::from_millis(300)).unwrap_err();
    assert!(error.to_string().contains("has said nothing for 300ms"), "{error}");
    assert!(begun.elapsed() < Duration::from_secs(30));
    let process = format!("/proc/{}", std::fs::read_to_string(pid).unwrap().trim());
    assert!(std::path::Path::new(&process).exists());
    drop(silent);
    assert!(!std::path::Path::new(&process).exists());
}

#[test]
fn an_engine_in_an_adapter_takes_the_rows_from_its_input() {
    let dir = tempfile::tempdir().unwrap();
    let taken = dir.path().join("stream");
    let settled =
        r#"{"event":"settled","rows":3000,"seconds":0.5,"bytes":10,"load":{"peer":"E","version":"3","seconds":2}}"#;
    let script = format!("cat > {}; echo '{settled}'; {ANSWER}", taken.display());
    let (load, answers) = measure_fed(adapter(&script), &SET).unwrap();
    let load = load.unwrap();
    assert_eq!((load.peer.as_str(), load.rows, load.seconds, load.in_process), ("E", 3_000, 2.0, true));
    assert_eq!(answers.len(), 1);
    let stream = std::fs::File::open(taken).unwrap();
    let batches = arrow::ipc::reader::StreamReader::try_new(stream, None).unwrap();
    assert_eq!(batches.map(|batch| batch.unwrap().num_rows()).sum::<usize>(), 3_000);

    // One that reads files has no use for rows and says nothing of a load.
    let (load, answers) = measure_fed(adapter(&format!("exec <&-; {ANSWER}")), &SET).unwrap();
    assert_eq!((load, answers.len()), (None, 1));
    let short = settled.replace("3000", "2000");
    let error = measure_fed(adapter(&format!("cat > /dev/null; echo '{short}'")), &SET).unwrap_err();
    assert!(error.to_string().contains("sent 3000 rows and holds 2000"), "{error}");
}
