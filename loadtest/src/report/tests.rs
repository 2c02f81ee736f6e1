#![allow(clippy::unwrap_used)]

use super::*;
use crate::drive::{Door, Durability, Latencies, Protocol};
use crate::measure::Kind;
use crate::workload::part::Part;
use crate::workload::{Question, all_queries};

fn write_sample(rows_per_request: usize, clients: usize, rows_per_second: f64) -> WriteSample {
    WriteSample {
        protocol: Protocol::Line,
        durability: Durability::Stored,
        rows_per_request,
        clients,
        rows: 1_000_000,
        rows_by_client: vec![1_000_000],
        requests: 500,
        bytes: 80_000_000,
        seconds: 1.25,
        rows_per_second,
        latency: Latencies::default().percentiles(),
        repeated_busy: 0,
        repeated_broken: 0,
        tokens: vec!["t".into()],
        sync_ms: None,
    }
}

fn report() -> Report {
    let data = Devices { devices: 1000, rows: 1000, seed: 1 };
    let mut report = Report::new(data, Order::Device);
    report.load = Some(write_sample(2000, 4, 800_000.0));
    let sample = |name: &str, millis: f64| QuerySample {
        name: name.into(),
        sql: String::new(),
        door: Door::Flight,
        rows: 1,
        millis: vec![millis],
    };
    report.parts = ["q3", "q4"]
        .iter()
        .flat_map(|name| {
            [(Part::AllRows, 1.25), (Part::CutMinutes, 2.5)]
                .map(|(part, ms)| PartSample { part, query: sample(name, ms) })
        })
        .collect();
    report.cold = Some(Cold {
        first_byte_ms: 25.0,
        first_byte_p99_ms: 90.0,
        bytes_per_second: 80_000_000,
        samples: vec![ColdSample {
            name: "q4 100 %".into(),
            sql: String::new(),
            millis: vec![120.0, 180.0, 150.0],
            from_start_millis: vec![220.0],
            requests: vec![6, 5, 6],
            from_start_requests: vec![9],
            bytes: vec![10_153_279],
        }],
        beside: None,
    });
    let cold = report.cold.as_mut().unwrap();
    cold.beside = Some(ColdBeside {
        asked_rows_per_second: 100_000.0,
        writer: crate::drive::send::SendSample { rows: 1_230_000, seconds: 12.3, ..Default::default() },
        samples: vec![ColdSample { millis: vec![321.0], requests: vec![23], ..cold.samples[0].clone() }],
    });
    report.bare = Some(crate::drive::bare::BareSample {
        tag_dictionaries: false,
        sql: "select * from db.devices where devgroup=0;".into(),
        rows: 1_000_000,
        batches: 20,
        bytes: 45_000_000,
        millis: vec![120.0, 110.0, 130.0],
        bare_millis: vec![100.0, 90.0, 105.0],
    });
    report.beside = Some(crate::drive::beside::BesideSample {
        asked_rows_per_second: 100_000.0,
        writer: crate::drive::send::SendSample { rows: 995_000, seconds: 10.0, ..Default::default() },
        questions: vec![crate::drive::beside::BesideQuestion {
            name: "q3 100 %".into(),
            sql: String::new(),
            part: Part::CutMinutes,
            quiet_millis: vec![1.0, 2.0, 3.0],
            millis: vec![3.0, 5.0, 7.0],
        }],
    });
    report.matrix = vec![write_sample(2000, 4, 812_345.6), write_sample(1, 1, 9_876.0)];
    let bulk = WriteSample { protocol: Protocol::Flight, bytes: 0, ..write_sample(10_000, 2, 8_123_456.0) };
    report.bulk = vec![bulk];
    let buffered = WriteSample { durability: Durability::Buffered, ..write_sample(100, 7, 500_000.0) };
    report.matrix.push(WriteSample { protocol: Protocol::OpenTsdb, ..buffered });
    report.queries = all_queries(&[0], &[10, 100])
        .iter()
        .map(|question| QuerySample {
            name: question.name(),
            sql: question.sql(),
            door: Door::Flight,
            rows: 1,
            millis: vec![9.0, 1.5, 2.5],
        })
        .collect();
    report.peers = vec![PeerSample {
        peer: "duckdb (our files)".into(),
        version: "2.0.0".into(),
        name: Question::Q3 { percent: 100 }.name(),
        sql: "select 1".into(),
        data_rows: 1_000_000,
        millis: vec![42.0],
        rows: vec![],
        in_process: true,
    }];
    // A server with fewer rows.
    let fewer =
        PeerSample { peer: "InfluxDB".into(), version: "1.6".into(), data_rows: 500_000, ..report.peers[0].clone() };
    report.peers.push(PeerSample { millis: vec![7.0, 9.0], in_process: false, ..fewer });
    report.peer_loads = vec![PeerLoad {
        peer: "InfluxDB".into(),
        version: "1.6".into(),
        rows: 500_000,
        seconds: 2.0,
        clients: 4,
        rows_per_request: 1_000,
        settle_seconds: 12.34,
        disk_bytes: 1_416_500,
        in_process: false,
    }];
    report.size = Some(Size { data: Kind { objects: 1, bytes: 1_305_000, disk_bytes: 1_306_624 }, ..Size::default() });
    report.collected = Some(crate::drive::collected::CollectedSample {
        rows: 1_000_000,
        merged: Size::default(),
        collected: Size { data: Kind { objects: 3, bytes: 1_400_500, disk_bytes: 1_404_928 }, ..Size::default() },
    });
    report.growth = vec![crate::drive::growth::GrowthSample {
        data,
        load: write_sample(10_000, 4, 9_000_000.0),
        compact: crate::drive::compact::CompactSample { seconds: 4.25, reply: serde_json::Value::Null },
        loaded_memory: Memory::default(),
        queries: vec![sample("q3 100 %", 0.5), sample("q4 100 %", 3.0)],
        memory: Memory { resident: 1, peak: 750_000_000 },
    }];
    report.verified = Verified { right: 16, wrong: vec!["q1 group 0: row 5".into()] };
    report
}

#[test]
fn page_compares_figures_with_the_papers() {
    let page = report().markdown();
    for line in [
        "- 1 000 devices × 1 000 rows = 1 000 000 rows, seed 1.",
        "| **Tidelake, line** | 2000 |  |  |  | **812 345** |  |  |  |",
        "| **Tidelake, opentsdb (no_sync)** | 100 |  |  |  |  |  |  | **500 000** |",
        "| flight | 10000 | 2 | 1 000 000 | 1.25 | 8 123 456 |  | 0.00 | 0.00 | 0.00 | 0 |",
        "| TDengine | 2000 | 512 820 | 1 055 520 | 1 174 164 | 1 306 904 | 1 426 635 | 1 458 434 | 1 477 208 |",
        "| q2 avg | **flight** | **2.50** |  |  |  |  |  |  |  |  | **2.50** |",
        "| q4 | TDengine | 237 | 472 | 653 | 902 | 1 134 | 1 422 | 1 753 | 1 784 | 2 085 | 2 549 |",
        "| q3 | 308 890 | 126 410 |",
        "|  | all rows | half of the span, minutes cut |",
        "| q4 | 1.25 | 2.50 |",
        "| q4 100 % | 150 | 120 180 150 | 6 | 220 | 9 | 10.2 MB |",
        "| `select * from db.devices where devgroup=0;` | 1 000 000 | 20 | 45.0 | **120** | 100 | 1.200 | 3 |",
        "| 1 000 000 | 9 000 000 | 4.2 | **0.50** | **3.00** | 750.0 MB |",
        "| q3 100 % | half of the span, minutes cut | 2.00 | **5.00** | 2.50 |",
        "| q4 100 % | 321 | 321 | 23 | 220 | 9 | 10.2 MB |",
        "| q3 100 % | **2.50** |  | 16.80 | 42.0 |",
        "| **Tidelake** | 1 000 000 | 4 × 2000 | **800 000** |  | 1.3 MB | **1.307** |",
        "| InfluxDB 1.6 | 500 000 | 4 × 1000 | 250 000 | 12.3 | 1.4 MB | 2.833 |",
        "Over 500 000 rows, not comparable with the other tables:",
        "|  | InfluxDB 1.6 |",
        "| q3 100 % | 8.00 |",
        "| data files | 1 | 1.3 MB | 1.3 MB | 1.305 |",
        "| **all, after fold, merge and garbage collection** | 3 | 1.4 MB | 1.4 MB | **1.401** |",
        "| TDengine (1e8 rows) |  |  | 459.0 MB | 4.590 |",
        "- WRONG: q1 group 0: row 5",
    ] {
        assert!(page.lines().any(|found| found == line), "{line}\nis not in\n{page}");
    }
}

#[test]
fn rows_of_a_table_have_equal_numbers_of_cells() {
    let page = report().markdown();
    for table in page.split("\n\n").filter(|part| part.starts_with('|')) {
        let widths: Vec<usize> = table.lines().map(|line| line.matches('|').count()).collect();
        assert!(widths.iter().all(|width| *width == widths[0]), "{table}");
    }
}

#[test]
fn reports_round_trip_and_newer_versions_are_rejected() {
    let dir = tempfile::tempdir().unwrap();
    let report = report();
    let [json, page] = report.write(&dir.path().join("new")).unwrap();
    let read = Report::read(&json).unwrap();
    assert_eq!(serde_json::to_value(&read).unwrap(), serde_json::to_value(&report).unwrap());
    assert_eq!(std::fs::read_to_string(page).unwrap(), read.markdown());
    for (picture, lines) in [("writing.svg", 5), ("latency.svg", 6)] {
        let svg = std::fs::read_to_string(json.with_file_name(picture)).unwrap();
        // Each line also has one in the legend.
        assert_eq!(svg.matches("<polyline").count(), 2 * lines, "{svg}");
        assert!(read.markdown().contains(&format!("]({picture})")));
    }
    let newer = std::fs::read_to_string(&json).unwrap().replacen("\"version\":1", "\"version\":2", 1);
    std::fs::write(&json, newer).unwrap();
    assert!(Report::read(&json).unwrap_err().to_string().contains("version 1 or older, found 2"));
}

fn sent(rows: u64, seconds: f64) -> crate::drive::send::SendSample {
    crate::drive::send::SendSample { rows, seconds, ..Default::default() }
}

fn assert_lines(page: &str, lines: &[&str]) {
    for line in lines {
        assert!(page.lines().any(|found| found == *line), "{line}\nis not in\n{page}");
    }
    for table in page.split("\n\n").filter(|part| part.starts_with('|')) {
        let widths: Vec<usize> = table.lines().map(|line| line.matches('|').count()).collect();
        assert!(widths.iter().all(|width| *width == widths[0]), "{table}");
    }
}

#[test]
fn meters_report_compares_rates_with_the_first() {
    let sample = |cores, rows| crate::drive::meters::MetersSample {
        form: crate::workload::meters::Form::Line,
        cores,
        client_cores: "1".into(),
        is_shared: cores == 2,
        clients: 4,
        rows_per_request: 2_000,
        sent: sent(rows, 2.0),
        server_cpu_seconds: 1.5,
        client_cpu_seconds: 0.25,
        stored_bytes: 5_000_000,
    };
    let report = meters::MetersReport {
        conditions: Conditions::here(),
        data: crate::workload::meters::Meters { subtables: 10, rows: 200_000, seed: 1 },
        samples: vec![sample(1, 2_000_000), sample(2, 3_000_000)],
    };
    assert_lines(
        &report.markdown(),
        &[
            "| line | 1 | 1 | 4 × 2000 | **1 000 000** | 1.00 | 380 000 | 2.5 MB | 1.50 | 0.25 | 0.00 | 0.00 |",
            "| line | 2 | shared | 4 × 2000 | **1 500 000** | 1.50 | 880 000 | 2.5 MB | 1.50 | 0.25 | 0.00 | 0.00 |",
        ],
    );
}

#[test]
fn wide_report_compares_rates_with_disk_and_previous_link() {
    let line = |rate: u64, rows| crate::drive::wide::WideSample {
        writers: 16,
        rows_per_put: 100,
        rows,
        seconds: 10.0,
        latency: Latencies::default().percentiles(),
        written_bytes: rate * 10,
        disk_bytes_per_second: None,
        bare_bytes_per_second: None,
        line_bytes_per_second: Some(rate),
        server_cpu_seconds: 3.0,
        client_cpu_seconds: 4.0,
    };
    let disk = crate::drive::wide::WideSample {
        disk_bytes_per_second: Some([400e6, 600e6]),
        bare_bytes_per_second: Some(900e6),
        line_bytes_per_second: None,
        ..line(500_000_000, 100_000)
    };
    let samples = vec![disk, line(50_000_000, 20_000), line(100_000_000, 39_000)];
    let report = wide::WideReport { conditions: Conditions::here(), samples };
    assert_eq!([report.ratio(0), report.ratio(1), report.ratio(2)], [None, None, Some(1.95)]);
    assert_lines(
        &report.markdown(),
        &[
            "A bare Flight server that discards the rows of the same writers receives 900 MB/s here: an upper limit for the load on the disk.",
            "| disk, 400 MB/s before, 600 after | 100 000 | 16 × 100 | 10.00 | **325.2** | 65 % |  | 500.0 | 100 % | 3.00 | 4.00 | 0.00 | 0.00 |",
            "| link of 100 MB/s | 39 000 | 16 × 100 | 10.00 | **126.8** | 127 % | **1.95 ×** | 100.0 | 100 % | 3.00 | 4.00 | 0.00 | 0.00 |",
        ],
    );
}

#[test]
fn fleet_report_works_with_and_without_influxdb() {
    use crate::{
        drive::devops::{FormSample, LoadSample},
        workload::devops::{Fleet, Form},
    };
    let latency = Latencies::default().percentiles();
    let form = |form, with_parameters, mean_ms| FormSample {
        form,
        with_parameters,
        workers: 4,
        questions: 1_000,
        per_second: 7_000.4,
        mean_ms,
        latency,
    };
    let mut report = fleet::FleetReport::new(Fleet { hosts: 10, steps: 100, seed: 1 });
    let load = |seconds| LoadSample {
        lines: 9_000,
        values: 101_000,
        bytes: 1,
        seconds,
        workers: 4,
        lines_per_request: 5_000,
        latency,
    };
    (report.load, report.live_bytes) = (Some(load(0.01)), 151_500);
    report.forms = vec![form(Form::OneHostOneHour, false, 0.75), form(Form::OneHostOneHour, true, 0.5)];
    assert_lines(
        &report.markdown(),
        &[
            "|  | **Tidelake** | InfluxDB 1.4, published | Cassandra, published |",
            "| loading with 4 workers, 5 000 lines per request, values/s | **10 100 000** | 1 432 630 | 103 912 |",
            "| one-host-one-hour | 0.75 | 0.00 | 0.50 | 0.00 | 7 000 |",
        ],
    );
    report.beside = Some(fleet::FleetBeside {
        asked_lines_per_second: 1.0,
        writer: sent(20_000, 2.0),
        forms: vec![form(Form::OneHostOneHour, true, 2.5)],
    });
    report.influxdb = Some(fleet::FleetRival {
        version: "1.6.7".into(),
        load: load(0.05),
        settle_seconds: 1.0,
        disk_bytes: 202_000,
        form: form(Form::OneHostOneHour, false, 1.0),
    });
    assert_lines(
        &report.markdown(),
        &[
            "|  | **Tidelake** | InfluxDB 1.6.7, same run | Tidelake ÷ InfluxDB | InfluxDB 1.4, published | Cassandra, published |",
            "| loading with 4 workers, 5 000 lines per request, values/s | **10 100 000** | 2 020 000 | 5.00 × | 1 432 630 | 103 912 |",
            "| bytes per value after compaction (Tidelake: live files) | **1.500** | 2.000 | 0.75 × | 1.740 | 20.300 |",
            "| one-host-one-hour while 10 000 lines/s with later timestamps are written |  |  | 2.50 | 0.00 | 7 000 |",
        ],
    );
}

#[test]
fn tsbs_report_compares_engines_and_lists_differences() {
    use crate::{
        drive::tsbs::{MixedSample, QuestionSample, Timing},
        workload::tsbs::Tsbs,
    };
    let timing = |engine: &str, millis: &[f64], error: Option<&str>| Timing {
        engine: engine.into(),
        sql: "select 1".into(),
        rows: 1_200,
        millis: millis.to_vec(),
        error: error.map(str::to_owned),
    };
    let question = |name: &str, ours: f64, duckdb: Timing, differences: &[&str]| QuestionSample {
        name: name.into(),
        timings: vec![
            timing("Tidelake, flight", &[ours, 100.0, ours], None),
            timing("Tidelake, http-arrow", &[ours + 1.0], None),
            duckdb,
            timing("ClickHouse", &[8.0], None),
        ],
        equal: 6,
        differences: differences.iter().map(|text| (*text).to_owned()).collect(),
    };
    let mut report = tsbs::TsbsReport::new(Tsbs { hosts: 1_000, steps: 8_640, seed: 1 });
    report.live_bytes = 34_560_000;
    assert!(report.markdown().lines().any(|line| line.ends_with("| 34.6 MB | 4.000 |")), "a report without loading");
    report.load = Some(crate::drive::devops::LoadSample {
        lines: 8_640_000,
        values: 86_400_000,
        bytes: 3_000_000_000,
        seconds: 10.0,
        workers: 4,
        lines_per_request: 5_000,
        latency: Latencies::default().percentiles(),
    });
    report.peer_loads = vec![PeerLoad {
        peer: "DuckDB".into(),
        version: "2.0.0".into(),
        rows: 8_640_000,
        seconds: 20.0,
        clients: 0,
        rows_per_request: 0,
        settle_seconds: 0.25,
        disk_bytes: 86_400_000,
        in_process: true,
    }];
    report.questions = vec![
        question("lastpoint", 2.0, timing("DuckDB", &[4.0], None), &[]),
        question(
            "A1",
            18.0,
            timing("DuckDB", &[], Some("no function")),
            &["A1: DuckDB against the generator: no function"],
        ),
    ];
    assert_eq!(report.questions.iter().map(tsbs::TsbsReport::ratio).collect::<Vec<_>>(), [Some(0.5), Some(2.25)]);
    let mixed = |clients, seconds| MixedSample { engine: "DuckDB".into(), clients, questions: 40, seconds, busy: 1.5 };
    report.mixed = vec![mixed(1, 10.0), mixed(4, 8.0)];
    assert_lines(
        &report.markdown(),
        &[
            "| **Tidelake**, line protocol, live files | 4 × 5000 | **864 000** | 300.0 | 0.00 | 0.00 |  | 34.6 MB | 4.000 |",
            "| DuckDB 2.0.0 | in process, Arrow | 432 000 |  |  |  | 0.2 | 86.4 MB | 10.000 |",
            "|  | rows | **Tidelake, flight** | **Tidelake, http-arrow** | DuckDB | ClickHouse | ratio |",
            "| lastpoint | 1 200 | 2.00 | 3.00 | 4.00 | 8.00 | 0.50 |",
            "| A1 | 1 200 | 18.0 | 19.0 | failed | 8.00 | 2.25 |",
            "Geometric mean of the 2 ratios: 1.06. Tidelake is the fastest in 1 of them.",
            "| DuckDB | 4 | 5.00 | 1.25 | 1.50 |",
            "- A1: DuckDB against the generator: no function",
        ],
    );
    // Without other engines there is no ratio.
    report.questions.iter_mut().for_each(|question| question.timings.truncate(2));
    assert_lines(&report.markdown(), &["| lastpoint | 1 200 | 2.00 | 3.00 |  |"]);
}
