#![allow(clippy::unwrap_used)]

use super::*;

/// A Python that has the adapters' packages; `None` skips the test, unless nothing may be skipped.
#[expect(clippy::print_stderr, reason = "a skipped test says so")]
fn python() -> Option<PathBuf> {
    let found = std::env::var_os("TIDELAKE_PYTHON").map(PathBuf::from);
    if found.is_none() {
        assert!(std::env::var_os("TIDELAKE_REQUIRE_ALL").is_none(), "TIDELAKE_PYTHON is not set");
        eprintln!("SKIPPED: TIDELAKE_PYTHON is not set");
    }
    found
}

fn engines(python: PathBuf, work: PathBuf, engines: &[Engine]) -> Engines {
    let adapters = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers");
    let adapters = Adapters { dir: None, python: Some(python), adapters, work: Some(work) };
    Engines { adapters, engines: engines.to_vec(), rows_of_servers: 10_000_000 }
}

const SET: Devices = Devices { devices: 250, rows: 130, seed: 5 };

#[test]
fn every_engine_answers_as_the_oracle_over_default_files_and_over_a_roots() {
    let Some(python) = python() else { return };
    let dir = tempfile::tempdir().unwrap();
    let engines = engines(python, dir.path().join("work"), &[]);
    let oracle = Oracle::new(SET);
    // 16 questions for each engine with SQL, 14 for pyarrow, which has no q4.
    let asked = 16 + 16 + 14;
    let Measured { loads, samples: first, .. } = engines.measure(&SET, None, &[10, 100], 1).unwrap();
    assert_eq!(verify_peers(&oracle, &[10, 100], &first), Verified { right: asked, wrong: vec![] });
    assert!(loads.is_empty());

    let made = dir.path().join("work/w1-250x130-seed5/default0.parquet");
    let root = dir.path().join("root");
    std::fs::create_dir_all(root.join("data/1/0")).unwrap();
    std::fs::copy(made, root.join("data/1/0/5.parquet")).unwrap();
    std::fs::write(root.join("data/1/0/5.tags"), "no Parquet").unwrap();
    let both = engines.measure(&SET, Some(&root), &[10, 100], 2).unwrap().samples;
    assert_eq!(verify_peers(&oracle, &[10, 100], &both), Verified { right: 2 * asked, wrong: vec![] });
    assert!(both.iter().all(|sample| sample.millis.len() >= 2 && sample.in_process));

    let other = Oracle::new(Devices { seed: 6, ..SET });
    assert!(!verify_peers(&other, &[100], &both).wrong.is_empty());
    let error = engines.measure(&SET, Some(&dir.path().join("nowhere")), &[100], 1).unwrap_err();
    assert!(error.to_string().contains("ended with"), "{error:#}");
}

#[test]
fn an_engine_with_a_table_of_its_own_takes_the_rows_and_leaves_nothing_behind() {
    let Some(python) = python() else { return };
    let dir = tempfile::tempdir().unwrap();
    let engines = engines(python, dir.path().to_owned(), &[Engine::DuckdbTable]);
    let Measured { loads, samples, failures } = engines.measure(&SET, None, &[10, 100], 1).unwrap();
    assert_eq!(failures, [""; 0]);
    // q1 of one group beside q2 to q4 at two percentages.
    assert_eq!(verify_peers(&Oracle::new(SET), &[10, 100], &samples), Verified { right: 17, wrong: vec![] });
    let [load] = loads.as_slice() else { panic!("{loads:?}") };
    assert!(load.in_process && load.rows == SET.len() && load.seconds > 0.0 && load.disk_bytes > 0, "{load:?}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    let other = Oracle::new(Devices { seed: 6, ..SET });
    let wrong = verify_peers(&other, &[], &samples).wrong;
    assert!(matches!(wrong.as_slice(), [one] if one.contains("q1 group 0")), "{wrong:?}");
}

#[test]
fn groups_below_a_bound_are_what_influxdb_is_asked_about() {
    let Some(python) = python() else { return };
    let script = "import influxdb, re\n\
                  for bound in range(1, 101):\n\
                  \x20   found = [n for n in range(1000) if re.search(influxdb.below(bound), str(n))]\n\
                  \x20   assert found == list(range(bound)), (bound, found)";
    let adapters = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers");
    let ran = Command::new(python).args(["-B", "-c", script]).current_dir(adapters).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
}

#[test]
fn opentsdb_is_asked_about_whole_minutes_and_its_series_are_put_in_order() {
    let Some(python) = python() else { return };
    let script = "import adapter, json, opentsdb\n\
                  asked = {one.name: one for one in adapter.questions([7], [2, 100])}\n\
                  engine = opentsdb.OpenTSDB()\n\
                  q4 = json.loads(engine.statement(asked['q4 2 %']))\n\
                  assert q4['start'] % 60000 == 0 and q4['start'] <= 1563249700000, q4\n\
                  assert [part['downsample'] for part in q4['queries']] == ['1m-count', '1m-sum'], q4\n\
                  assert q4['queries'][1]['filters'][0]['filter'] == '0|1', q4\n\
                  def series(part, group, *points):\n\
                  \x20   tags = {'devid': str(group), 'devgroup': str(group)}\n\
                  \x20   return {'query': {'index': part}, 'tags': tags, 'dps': list(points)}\n\
                  found = [series(1, 10, [0, 6.0]), series(0, 10, [0, 4.0]), series(0, 2, [0, 2.0]), series(1, 2, [0, 3.0])]\n\
                  rows = engine.rows(asked['q3 100 %'], json.dumps(found))\n\
                  assert rows == [[2, 3, 1.5], [4, 6, 1.5]], rows\n\
                  found = [series(1, 7, [5, 12], [9, 13]), series(0, 7, [5, 40], [9, 41])]\n\
                  rows = engine.rows(asked['q1 group 7'], json.dumps(found))\n\
                  assert rows == [[2, 14, 81, 25.0, 14]], rows";
    let adapters = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers");
    let ran = Command::new(python).args(["-B", "-c", script]).current_dir(adapters).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
}

#[test]
fn servers_are_given_fewer_devices_but_some_of_each_group() {
    let paper = Devices { devices: 10_000, rows: 10_000, seed: 1 };
    let given = |rows_of_servers, engine, set: &Devices| {
        let engines = Engines { rows_of_servers, ..engines("python3".into(), "work".into(), &[]) };
        engines.rows_of(engine, set)
    };
    assert_eq!(given(10_000_000, Engine::Influxdb, &paper), Devices { devices: 1_000, ..paper });
    assert_eq!(given(10_000_000, Engine::Cassandra, &paper), Devices { devices: 100, ..paper });
    assert_eq!(given(10_000_000, Engine::OpenTsdb, &paper), Devices { devices: 100, ..paper });
    assert_eq!(given(1, Engine::Questdb, &paper), Devices { devices: 100, ..paper });
    assert_eq!(given(u64::MAX, Engine::Victoriametrics, &paper), paper);
    assert_eq!(given(10_000_000, Engine::DuckdbTable, &paper), paper);
    assert_eq!(given(10_000_000, Engine::Influxdb, &SET), SET);
}

#[test]
fn an_engine_that_is_not_there_is_told_beside_what_the_others_gave() {
    let dir = tempfile::tempdir().unwrap();
    let absent = engines("no-such-python".into(), dir.path().to_owned(), &[Engine::Influxdb, Engine::Clickhouse]);
    let Measured { loads, samples, failures } = absent.measure(&SET, None, &[100], 1).unwrap();
    assert!(loads.is_empty() && samples.is_empty());
    let [server, embedded] = failures.as_slice() else { panic!("{failures:?}") };
    assert_eq!(server, "influxdb: influxdb needs --peers-dir: install it with loadtest/peers/install");
    assert!(embedded.starts_with("clickhouse: start \"no-such-python\""), "{embedded}");
}
