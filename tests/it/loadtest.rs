//! The load test's commands at a small scale against the real server: they end, their comparisons are correct, and
//! their reports are complete.

use std::{collections::BTreeSet, path::Path, process::Command};

use serde_json::Value;
use tidelake_loadtest::drive::{self, Existing, HttpOptions};
use tidelake_tests::{Http, Server, process, tool};

/// Runs a command of the load test and returns its output; `None` if `TIDELAKE_LOADTEST_BIN` is not set.
fn run(arguments: &[&str]) -> Option<String> {
    let output = Command::new(tool("TIDELAKE_LOADTEST_BIN")?).args(arguments).output().expect("the load test starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{arguments:?}: {}{}", text(&output.stdout), text(&output.stderr));
    Some(text(&output.stdout))
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn program() -> String {
    process::binary().to_str().unwrap().to_owned()
}

/// The identifying value of each sample.
fn names(samples: &Value, name: impl Fn(&Value) -> String) -> BTreeSet<String> {
    samples.as_array().unwrap().iter().map(name).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_measures_every_protocol_the_wire_alone_and_a_writer_beside_queries() {
    let directory = tempfile::tempdir().unwrap();
    let (root, out) = (directory.path().join("root"), directory.path().join("out"));
    let server = Server::start(root.to_str().unwrap(), [] as [&str; 0]);
    let url = server.url();
    let mut arguments = vec!["run", "--url", &url, "--devices", "200", "--rows", "500", "--percent", "100"];
    arguments.extend(["--groups", "0", "--doors", "flight", "--parts", "--beside", "--beside-rate", "20000"]);
    arguments.extend(["--beside-lead", "1", "--matrix", "--matrix-rows", "10", "--matrix-clients", "2"]);
    arguments.extend(["--matrix-requests", "20", "--matrix-bulk-clients", "1", "--matrix-most", "50000"]);
    arguments.extend(["--out", out.to_str().unwrap(), "--root", root.to_str().unwrap()]);
    let Some(printed) = run(&arguments) else { return };

    let report = json(&out.join("report.json"));
    let kinds = names(&report["matrix"], |one| format!("{} {}", one["protocol"], one["durability"]).replace('"', ""));
    let expected = ["flight stored", "line buffered", "line stored", "opentsdb buffered", "opentsdb stored"];
    let expected: BTreeSet<String> = expected.into_iter().chain(["tdengine stored"]).map(str::to_owned).collect();
    assert_eq!(kinds, expected);
    assert!(report["matrix"].as_array().unwrap().iter().all(|one| one["rows"] == 400 && one["requests"] == 40));
    assert_eq!((&report["bulk"][0]["rows_per_request"], &report["bulk"][0]["rows"]), (&10_000.into(), &50_000.into()));
    // Group 0 of 200 devices has two devices.
    assert_eq!(report["bare"]["rows"], 1_000, "{printed}");
    assert!(report["bare"]["millis"].as_array().unwrap().len() >= 5);
    let questions = report["beside"]["questions"].as_array().unwrap();
    let parts = names(&report["beside"]["questions"], |one| one["part"].as_str().unwrap().to_owned());
    assert_eq!((questions.len(), parts.len()), (19, 5), "{parts:?}");
    let runs = |one: &Value, name: &str| one[name].as_array().unwrap().len();
    assert!(questions.iter().all(|one| runs(one, "quiet_millis") >= 5 && runs(one, "millis") >= 5));
    assert!(report["beside"]["writer"]["rows"].as_u64().unwrap() >= 20_000, "{printed}");
    assert_eq!(report["verified"]["wrong"].as_array().unwrap().len(), 0);
    let page = std::fs::read_to_string(out.join("report.md")).unwrap();
    for picture in ["writing.svg", "latency.svg"] {
        assert!(page.contains(picture) && std::fs::read_to_string(out.join(picture)).unwrap().contains("<polyline"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn statements_of_a_file_are_run_once_each_through_every_door() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path().join("root").to_str().unwrap(), [] as [&str; 0]);
    let (file, url) = (directory.path().join("inserts.sql"), server.url());
    let path = file.to_str().unwrap();
    let generated = ["generate", "--devices", "7", "--rows", "30", "--rows-per-statement", "20", "--statements", path];
    if run(&generated).is_none() {
        return;
    }
    std::fs::write(
        &file,
        std::fs::read_to_string(&file).unwrap() + "# all of them\nselect count(*) from db.devices;\n",
    )
    .unwrap();
    for door in ["rest", "http-json", "http-arrow", "flight"] {
        drive::create_database(&url, &HttpOptions::default(), Existing::Drop).await.unwrap();
        let printed = run(&["statements", path, "--url", &url, "--door", door, "--json"]).unwrap();
        let sample: Value = serde_json::from_str(&printed).unwrap();
        assert_eq!((&sample["writes"]["statements"], &sample["writes"]["rows"]), (&11.into(), &210.into()), "{door}");
        assert_eq!((&sample["others"]["statements"], &sample["others"]["rows"]), (&1.into(), &1.into()), "{door}");
        let rows = Http::new(&url).sql("select count(*) from db.devices").await;
        assert_eq!(rows[0][0], 210, "{door}");
    }
}

#[test]
fn smart_meters_arrive_whole_on_a_server_with_one_processor() {
    let directory = tempfile::tempdir().unwrap();
    let (out, dir, program) = (directory.path().join("out"), directory.path().join("roots"), program());
    let mut arguments = vec!["meters", "--program", &program, "--subtables", "10", "--rows", "700", "--cores", "1"];
    arguments.extend(["--rows-per-request", "300", "--clients", "3", "--dir", dir.to_str().unwrap()]);
    arguments.extend(["--out", out.to_str().unwrap()]);
    if run(&arguments).is_none() {
        return;
    }
    let samples = json(&out.join("report.json"))["samples"].take();
    assert_eq!(names(&samples, |one| one["form"].to_string()).len(), 2);
    for sample in samples.as_array().unwrap() {
        assert_eq!((&sample["sent"]["rows"], &sample["cores"]), (&7_000.into(), &1.into()), "{sample}");
    }
    assert_eq!(std::fs::read_dir(dir).unwrap().count(), 0, "the roots are removed");
}

#[test]
fn wide_rows_arrive_whole_on_a_disk_and_over_a_line_to_a_bucket() {
    let Some(s3) = tool("TIDELAKE_VERSITYGW") else { return };
    let directory = tempfile::tempdir().unwrap();
    let (out, dir, program) = (directory.path().join("out"), directory.path().join("roots"), program());
    let mut arguments = vec!["wide", "--program", &program, "--subtables", "5", "--rows", "20", "--line-rows", "20"];
    arguments.extend(["--rows-per-put", "8", "--writers", "3", "--dir", dir.to_str().unwrap()]);
    arguments.extend(["--s3-program", &s3, "--upload-megabytes", "4", "--out", out.to_str().unwrap()]);
    if run(&arguments).is_none() {
        return;
    }
    let samples = json(&out.join("report.json"))["samples"].take();
    let [disk, line] = samples.as_array().unwrap().as_slice() else { panic!("{samples}") };
    assert_eq!((&disk["rows"], &line["rows"]), (&100.into(), &100.into()));
    assert!(disk["disk_bytes_per_second"][0].as_f64().unwrap() > 0.0 && disk["written_bytes"].as_u64().unwrap() > 0);
    // 3.25 MB, of which compression saves at most an eighth, pass a link of 4 MB/s.
    assert_eq!(line["line_bytes_per_second"], 4_000_000);
    assert!(line["seconds"].as_f64().unwrap() > 0.65, "{line}");
    assert_eq!(std::fs::read_dir(dir).unwrap().count(), 0, "the roots are removed");
}

#[test]
fn tsbs_is_loaded_asked_and_compared_with_the_generators_rows() {
    let directory = tempfile::tempdir().unwrap();
    let (root, out) = (directory.path().join("root"), directory.path().join("out"));
    let server = Server::start(root.to_str().unwrap(), [] as [&str; 0]);
    let url = server.url();
    let mut arguments = vec!["tsbs", "--url", &url, "--hosts", "12", "--hours", "3", "--lines-per-request", "700"];
    arguments.extend(["--settle", "0", "--repeat", "1", "--mixed-queries", "10", "--out", out.to_str().unwrap()]);
    let Some(printed) = run(&arguments) else { return };
    let report = json(&out.join("report.json"));
    assert_eq!((&report["load"]["lines"], &report["load"]["values"]), (&12_960.into(), &129_600.into()), "{printed}");
    assert_eq!(names(&report["questions"], |one| one["name"].to_string()).len(), 36);
    for question in report["questions"].as_array().unwrap() {
        // Flight SQL with tags as text and as dictionaries, and HTTP return what the generator's rows give.
        assert_eq!((&question["equal"], question["timings"].as_array().unwrap().len()), (&3.into(), 3), "{question}");
        assert_eq!(question["differences"].as_array().unwrap().len(), 0, "{question}");
    }
    let encodings = names(&report["bare"], |one| format!("{} {}", one["sql"], one["tag_dictionaries"]));
    assert_eq!(encodings.len(), 4, "{printed}");
    let clients = names(&report["mixed"], |one| one["clients"].to_string());
    assert_eq!(clients, BTreeSet::from(["1", "4"].map(str::to_owned)));
    assert!(std::fs::read_to_string(out.join("report.md")).unwrap().contains("| groupby-orderby-limit | 5 |"));
}

#[test]
fn data_sets_that_grow_are_loaded_and_asked_and_their_figures_reported() {
    let directory = tempfile::tempdir().unwrap();
    let (roots, out, program) = (directory.path().join("roots"), directory.path().join("out.json"), program());
    let arguments = ["growth", "--program", &program, "--devices", "7,70", "--rows", "500", "--repeat", "1"];
    let paths = ["--dir", roots.to_str().unwrap(), "--out", out.to_str().unwrap()];
    let Some(printed) = run(&[&arguments[..], &paths].concat()) else { return };
    let samples = json(&out);
    let rows: Vec<_> = samples.as_array().unwrap().iter().map(|s| s["load"]["rows"].as_u64().unwrap()).collect();
    assert_eq!(rows, [3_500, 35_000], "{printed}");
    assert_eq!(samples[1]["queries"].as_array().unwrap().len(), 8, "{printed}");
    assert_eq!(std::fs::read_dir(&roots).unwrap().count(), 0, "roots stay behind");
}

#[test]
#[ignore = "waits for a server's collection of garbage, a minute"]
fn a_root_is_measured_after_it_was_folded_merged_and_collected() {
    let directory = tempfile::tempdir().unwrap();
    let (root, out, program) = (directory.path().join("root"), directory.path().join("out"), program());
    let server = Server::start(root.to_str().unwrap(), [] as [&str; 0]);
    let (url, set) = (server.url(), ["--devices", "200", "--rows", "1000"]);
    let asked = ["run", "--url", &url, "--percent", "100", "--groups", "0", "--out", out.to_str().unwrap()];
    if run(&[&asked[..], &set].concat()).is_none() {
        return;
    }
    server.stop();
    let report = out.join("report.json");
    let arguments = ["collected", "--program", &program, "--root", root.to_str().unwrap()];
    let printed = run(&[&arguments[..], &["--into", report.to_str().unwrap()]].concat()).unwrap();
    let sample = json(&report)["collected"].clone();
    assert_eq!(sample["rows"], 200_000, "{printed}");
    assert_eq!(sample["collected"]["log"]["objects"], 0, "{printed}");
    let objects = |of: &str| sample[of]["meta"]["objects"].as_u64().unwrap();
    assert!(objects("collected") < objects("merged"), "{printed}");
}
