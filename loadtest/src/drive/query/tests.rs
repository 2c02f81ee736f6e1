#![allow(clippy::unwrap_used)]

use super::super::fake::{Act, reply, serve};
use super::*;
use crate::workload::answer::Column;
use arrow::array::{ArrayRef, Int64Array};
use arrow::ipc::writer::StreamWriter;
use std::sync::Arc;

fn expected() -> Answer {
    Answer { names: vec!["count(*)".into()], columns: vec![Column::Int(vec![Some(5)])] }
}

#[tokio::test]
async fn every_http_door_gives_the_same_answer() {
    let fake = serve(|_, request| match request.line.as_str() {
        "POST /api/v1/sql?db=db&format=arrow" => {
            let values: ArrayRef = Arc::new(Int64Array::from(vec![5]));
            let batch = RecordBatch::try_from_iter([("count(*)", values)]).unwrap();
            let mut body = Vec::new();
            let mut writer = StreamWriter::try_new(&mut body, &batch.schema()).unwrap();
            writer.write(&batch).unwrap();
            writer.finish().unwrap();
            drop(writer);
            let mut bytes = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len()).into_bytes();
            bytes.extend(body);
            Act::Send(bytes)
        }
        "POST /api/v1/sql?db=db&format=json" => {
            reply(200, "", r#"{"columns":[{"name":"count(*)","type":"BIGINT"}],"data":[[5]],"rows":1}"#)
        }
        "POST /rest/sql/db" => {
            reply(200, "", r#"{"code":0,"column_meta":[["count(*)","BIGINT",8]],"data":[[5]],"rows":1}"#)
        }
        other => reply(404, "", other),
    })
    .await;
    let addresses = Addresses { url: fake.url.clone(), flight: None };
    for door in [Door::HttpArrow, Door::HttpJson, Door::Rest] {
        let mut asker = Asker::connect(door, &addresses, &HttpOptions::default()).await.unwrap();
        let (sample, answer) = asker.sample("q2 count", "select count(*) from db.devices;", 3).await.unwrap();
        assert_eq!(answer, expected(), "{door:?}");
        assert_eq!((sample.rows, sample.door), (1, door));
        assert!((3..=SAMPLE_RUNS).contains(&sample.millis.len()), "{}", sample.millis.len());
    }
    assert!(fake.requests.lock().unwrap().iter().all(|r| r.body == b"select count(*) from db.devices;"));
    let error = Asker::connect(Door::Flight, &addresses, &HttpOptions::default()).await.unwrap_err();
    assert!(error.to_string().contains("Flight SQL endpoint"));
}

#[tokio::test]
async fn a_servers_error_carries_its_text_and_the_statement() {
    for (status, body) in [(400, "no such table"), (200, r#"{"code":9731,"desc":"no such table"}"#)] {
        let fake = serve(move |_, _| reply(status, "", body)).await;
        let addresses = Addresses { url: fake.url, flight: None };
        let mut asker = Asker::connect(Door::Rest, &addresses, &HttpOptions::default()).await.unwrap();
        let error = format!("{:#}", asker.sample("x", "select 1 from nowhere", 1).await.unwrap_err());
        assert!(error.contains("no such table") && error.contains("select 1 from nowhere"), "{error}");
    }
}

#[test]
fn the_median_is_the_middle_run() {
    let sample = |millis: &[f64]| QuerySample {
        name: "n".into(),
        sql: "s".into(),
        door: Door::Flight,
        rows: 0,
        millis: millis.to_vec(),
    };
    assert_eq!(sample(&[9.0, 1.0, 3.0]).median_ms(), 3.0);
    assert_eq!(sample(&[9.0, 1.0, 3.0, 4.0]).median_ms(), 3.5);
    assert!(sample(&[]).median_ms().is_nan());
}

#[test]
fn statements_are_the_lines_of_a_file_without_comments() {
    let text = "# q1\nselect 1;\n\n  select 2;\n-- no\n";
    assert_eq!(statements(text), ["select 1;", "select 2;"]);
}
