//! Calls the routes without a socket.

#![allow(clippy::unwrap_used)]

use std::{io::Cursor, sync::Arc};

use arrow::{
    array::{AsArray, RecordBatch},
    datatypes::Int64Type,
    ipc::reader::StreamReader,
};
use axum::{
    Router,
    body::{Body, Bytes},
    http::{HeaderMap, Method, Request, StatusCode},
};
use futures::{StreamExt, stream};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde_json::{Value, json};
use tidelake_format::{Error, access::Principal, auth::Gate};
use tower::ServiceExt;

use super::*;
use crate::fixture::{self, Notes, ROWS, START, token};
use crate::session::Session;

struct Reply {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

impl Reply {
    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|e| panic!("{e}: {:?}", self.body))
    }

    fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }
}

async fn server() -> (Router, Arc<Notes>) {
    let (engine, notes) = fixture::engine().await;
    (routes(engine).behind(&Gate::Off), notes)
}

async fn call(router: &Router, method: Method, uri: &str, headers: &[(&str, &str)], body: &str) -> Reply {
    let mut request = Request::builder().method(method).uri(uri);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = router.clone().oneshot(request.body(Body::from(body.to_owned())).unwrap()).await.unwrap();
    let (parts, body) = response.into_parts();
    let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
    Reply { status: parts.status, headers: parts.headers, body }
}

async fn post(router: &Router, uri: &str, body: &str) -> Reply {
    call(router, Method::POST, uri, &[], body).await
}

async fn get(router: &Router, uri: &str) -> Reply {
    call(router, Method::GET, uri, &[], "").await
}

const FIRST: &str =
    "select ts, temperature, humidity, ticks, devname from w1.devices where devid = 1 order by ts limit 1";

#[tokio::test]
async fn json_names_columns_and_types_and_counts_rows() {
    let (router, _) = server().await;
    let reply = post(&router, "/api/v1/sql", FIRST).await;
    assert_eq!((reply.status, reply.headers["content-type"].to_str().unwrap()), (StatusCode::OK, "application/json"));
    assert_eq!(
        reply.json(),
        json!({
            "columns": [
                {"name": "ts", "type": "TIMESTAMP"}, {"name": "temperature", "type": "INT"},
                {"name": "humidity", "type": "FLOAT"}, {"name": "ticks", "type": "BIGINT UNSIGNED"},
                {"name": "devname", "type": "NCHAR"},
            ],
            "data": [["2019-07-16T04:01:40.000Z", 10, 0.0, 0, "dev_1"]],
            "rows": 1
        })
    );
}

#[tokio::test]
async fn a_statement_is_accepted_in_every_form_of_request() {
    let (router, _) = server().await;
    let count = "select count(*) as n from devices where devid < 2";
    let form = format!("db=w1&q={}", count.replace(' ', "+").replace('<', "%3C"));
    let document = json!({"sql": "select count(*) as n from devices where devid < ?", "database": "w1", "params": [2]});
    let replies = [
        get(&router, &format!("/api/v1/sql?{form}")).await,
        post(&router, "/api/v1/sql?database=w1", count).await,
        call(&router, Method::POST, "/api/v1/sql", &[("database", "w1")], count).await,
        call(&router, Method::POST, "/api/v1/sql", &[("content-type", "application/x-www-form-urlencoded")], &form)
            .await,
        call(
            &router,
            Method::POST,
            "/api/v1/sql?db=w1",
            &[("content-type", "application/x-www-form-urlencoded")],
            count,
        )
        .await,
        call(&router, Method::POST, "/api/v1/sql", &[("content-type", "application/json")], &document.to_string())
            .await,
        post(&router, "/api/v1/sql", &document.to_string()).await,
    ];
    for (i, reply) in replies.iter().enumerate() {
        assert_eq!(reply.status, StatusCode::OK, "{i}: {}", reply.text());
        assert_eq!(reply.json()["data"], json!([[2 * ROWS]]), "{i}");
    }
}

#[tokio::test]
async fn csv_and_ndjson_have_a_line_per_row() {
    let (router, _) = server().await;
    let sql = "select ts, humidity, devname from w1.devices where devid = 0 order by ts desc limit 2";
    let csv = post(&router, "/api/v1/sql?format=csv&tz=Asia/Shanghai", sql).await;
    assert_eq!(
        csv.text(),
        "ts,humidity,devname\n2019-07-16T12:01:43.000+08:00,,dev_0\n2019-07-16T12:01:42.000+08:00,1.0,dev_0\n"
    );
    let accept = [("accept", "text/html;q=0.5, application/x-ndjson")];
    let lines = call(&router, Method::POST, "/api/v1/sql", &accept, sql).await;
    let first: Value = serde_json::from_str(lines.text().lines().next().unwrap()).unwrap();
    assert_eq!(first, json!({"ts": "2019-07-16T04:01:43.000Z", "humidity": null, "devname": "dev_0"}));
    assert_eq!(lines.text().lines().count(), 2);
    for (accept, is_csv) in [("application/json;q=0.1, text/csv", true), ("text/csv; q=0.2, application/json", false)] {
        let reply = call(&router, Method::POST, "/api/v1/sql", &[("accept", accept)], sql).await;
        assert_eq!(reply.text().starts_with("ts,humidity"), is_csv, "{accept}: {}", reply.text());
    }
}

#[tokio::test]
async fn a_result_is_truncated_to_max_rows_and_json_reports_it() {
    let (router, _) = server().await;
    let sql = "select n from generate_series(1, 20000) as s(n)";
    for most in [0, 1, 8_192, 8_193, 19_999, 20_000, 20_001] {
        let reply = post(&router, &format!("/api/v1/sql?max_rows={most}"), sql).await.json();
        let rows: Vec<i64> = reply["data"].as_array().unwrap().iter().map(|row| row[0].as_i64().unwrap()).collect();
        assert_eq!(rows, (1..=most.min(20_000)).collect::<Vec<_>>());
        assert_eq!((&reply["rows"], reply.get("truncated").is_some()), (&json!(rows.len()), most < 20_000), "{most}");
    }
    // An endless result is not computed to its end.
    let endless = "select n from generate_series(1, 1000000000000) as s(n)";
    let body = json!({"sql": endless, "max_rows": 3, "format": "csv"}).to_string();
    assert_eq!(post(&router, "/api/v1/sql", &body).await.text(), "n\n1\n2\n3\n");
    let reply = post(&router, "/api/v1/sql?max_rows=-1", sql).await;
    assert!(reply.status == StatusCode::BAD_REQUEST && reply.text().contains("max_rows"), "{}", reply.text());
}

#[tokio::test]
async fn arrow_and_parquet_hold_the_same_rows() {
    let (router, _) = server().await;
    let sql = "select ticks from w1.devices where devid = 2 order by ts";
    let arrow = post(&router, "/api/v1/sql?format=arrow", sql).await;
    let batches: Vec<RecordBatch> =
        StreamReader::try_new(Cursor::new(arrow.body), None).unwrap().map(Result::unwrap).collect();
    let parquet = post(&router, "/api/v1/sql?format=parquet", sql).await;
    let reader = ParquetRecordBatchReaderBuilder::try_new(parquet.body).unwrap().build().unwrap();
    let read: Vec<RecordBatch> = reader.map(Result::unwrap).collect();
    for batches in [batches, read] {
        let values = batches.iter().flat_map(|b| b.column(0).as_primitive::<Int64Type>().values().to_vec());
        assert_eq!(values.collect::<Vec<_>>(), (0..ROWS).collect::<Vec<_>>());
    }
    let empty = post(&router, "/api/v1/sql?format=parquet", "select ticks from w1.devices where devid = 77").await;
    assert_eq!(ParquetRecordBatchReaderBuilder::try_new(empty.body).unwrap().build().unwrap().count(), 0);
}

#[tokio::test]
async fn a_user_error_is_a_4xx_with_a_message() {
    let (router, _) = server().await;
    for (uri, body, status) in [
        ("/api/v1/sql", "", 400),
        ("/api/v1/sql", "selec 1", 400),
        ("/api/v1/sql", "select 1; select 2", 400),
        ("/api/v1/sql?format=xml", "select 1", 400),
        ("/api/v1/sql?tz=Nowhere", "select 1", 400),
        ("/api/v1/sql?q=select+1", "select 2", 400),
        ("/api/v1/sql", "{\"sql\":1}", 400),
        ("/api/v1/sql", "{\"sql\":\"select ?\",\"params\":[[1]]}", 400),
        ("/api/v1/sql", "{\"sql\":\"select 1\",\"params\":[1]}", 400),
    ] {
        let reply = post(&router, uri, body).await;
        assert_eq!(reply.status.as_u16(), status, "{uri} {body}: {}", reply.text());
        assert!(reply.json()["error"]["message"].as_str().is_some_and(|m| !m.is_empty()));
    }
    let missing = post(&router, "/api/v1/sql", "select * from w1.nosuch").await;
    assert!(
        missing.status.is_client_error() && missing.text().contains("nosuch"),
        "{} {}",
        missing.status,
        missing.text()
    );
    let written = get(&router, "/api/v1/sql?q=create+database+x").await;
    assert_eq!(written.status, StatusCode::METHOD_NOT_ALLOWED);
    let zipped = call(&router, Method::POST, "/api/v1/sql", &[("content-encoding", "gzip")], "select 1").await;
    assert_eq!(zipped.status, StatusCode::UNSUPPORTED_MEDIA_TYPE);
}

#[tokio::test]
async fn a_write_returns_its_rows_and_its_token() {
    let (router, notes) = server().await;
    let reply = post(&router, "/api/v1/sql?db=w1", "insert into d0 values (now, 1, 2, 3)").await;
    assert_eq!(reply.json()["data"], json!([[1]]));
    assert_eq!(reply.headers["x-tidelake-token"].to_str().unwrap(), token().to_string());
    assert_eq!(notes.executed.lock()[0].0.as_deref(), Some("w1"));
    let headers = [("x-tidelake-token", token().to_string())];
    let headers: Vec<(&str, &str)> = headers.iter().map(|(n, v)| (*n, v.as_str())).collect();
    let seen = call(&router, Method::POST, "/api/v1/sql", &headers, "select count(*) from w1.devices").await;
    assert_eq!(seen.json()["data"], json!([[3 * ROWS]]));
}

#[tokio::test]
async fn a_failure_in_the_middle_aborts_the_body() {
    let (engine, _) = fixture::engine().await;
    let (_, outcome) = engine.query(&Session::of(Principal::AUTH_OFF), "select 1 as n").await.unwrap();
    let crate::engine::Outcome::Rows(rows) = outcome else { panic!("rows are expected") };
    let (schema, batches) = (rows.schema(), datafusion::physical_plan::common::collect(rows).await.unwrap());
    let batches = stream::iter([Ok(batches[0].clone()), Err(Error::unavailable("gone"))]).boxed();
    let body = output::Format::Json.body(schema, chrono_tz::Tz::UTC, batches, None).await.unwrap();
    let pieces: Vec<_> = body.into_data_stream().collect().await;
    assert!(pieces[0].is_ok() && pieces.last().unwrap().is_err());
}

#[tokio::test]
async fn tdengine_replies_have_its_form_for_queries_writes_and_errors() {
    let (router, notes) = server().await;
    let reply = post(&router, "/rest/sql/w1?tz=Asia/Shanghai&req_id=7", &FIRST.replace("w1.devices", "devices")).await;
    assert_eq!(reply.status, StatusCode::OK);
    let document = reply.json();
    assert_eq!((&document["code"], &document["rows"]), (&json!(0), &json!(1)));
    assert_eq!(document["data"], json!([["2019-07-16T12:01:40.000+08:00", 10, 0.0, 0, "dev_1"]]));
    assert_eq!(document["column_meta"][0], json!(["ts", "TIMESTAMP", 8]));
    assert_eq!(document["column_meta"][3], json!(["ticks", "BIGINT UNSIGNED", 8]));
    assert_eq!(document["column_meta"][4], json!(["devname", "NCHAR", 16]));
    let objects = post(
        &router,
        "/rest/sql?row_with_meta=true",
        "select devname from w1.devices where devname = \"dev_2\" limit 1",
    )
    .await;
    assert_eq!(objects.json()["data"], json!([{"devname": "dev_2"}]));
    assert_eq!(post(&router, "/rest/sql/", "select 1").await.json()["rows"], json!(1));
    let written = post(&router, "/rest/sql/w1", "insert into d0 values (now, 1, 2, 3)").await;
    let expected = json!({"code": 0, "column_meta": [["affected_rows", "INT", 4]], "data": [[1]], "rows": 1});
    assert_eq!(written.json(), expected);
    assert!(written.headers.contains_key("x-tidelake-token"));
    assert_eq!(notes.executed.lock().len(), 1);
    for (sql, code) in [("selec 1", 9728), ("", 9728), ("insert into nowhere values (1)", 9826), ("use nosuch", 904)] {
        let reply = post(&router, "/rest/sql/w1", sql).await;
        assert_eq!((reply.status, &reply.json()["code"]), (StatusCode::OK, &json!(code)), "{sql}: {}", reply.text());
        assert!(reply.json()["desc"].is_string());
    }
    let no_text = post(&router, "/rest/sql/%ff", "select 1").await;
    assert_eq!((no_text.status.as_u16(), &no_text.json()["code"]), (400, &json!(9728)));
    let login = get(&router, "/rest/login/root/taosdata").await;
    assert_eq!(login.json()["code"], json!(0));
    assert_eq!(START % 1_000, 0);
}

#[tokio::test]
async fn a_misspelt_parameter_and_a_wrong_method_are_refused_by_name() {
    let (router, _) = server().await;
    for (uri, found, nearest) in [
        ("/api/v1/sql?databse=w1&q=select+1", "databse", "database"),
        ("/api/v1/sql?maxrows=1&q=select+1", "maxrows", "max_rows"),
        ("/api/v1/sql?epoch=ms&q=select+1", "epoch", "time_zone"),
    ] {
        let reply = get(&router, uri).await;
        assert_eq!(reply.status, StatusCode::BAD_REQUEST, "{uri}");
        let message = reply.json()["error"]["message"].as_str().unwrap().to_owned();
        assert!(message.contains(&format!("found: {found}")) && message.contains(nearest), "{uri}: {message}");
    }
    let form = [("content-type", "application/x-www-form-urlencoded")];
    let reply = call(&router, Method::POST, "/api/v1/sql", &form, "q=select+1&fromat=csv").await;
    assert_eq!(reply.status, StatusCode::BAD_REQUEST);
    let reply = post(&router, "/rest/sql?row_with_mata=true", "select 1").await;
    assert_eq!((reply.status, reply.json()["code"].clone()), (StatusCode::BAD_REQUEST, json!(0x2600)));
    assert!(reply.json()["desc"].as_str().unwrap().contains("did you mean: row_with_meta"), "{}", reply.text());
    let reply = post(&router, "/rest/sql?req_id=7&tz=UTC&conn_tz=UTC&row_with_meta=false&token=t", "select 1").await;
    assert_eq!((reply.status, reply.json()["code"].clone()), (StatusCode::OK, json!(0)));
    for (method, uri, allow, at) in [
        (Method::PUT, "/api/v1/sql", "GET,HEAD,POST", "/error/message"),
        (Method::GET, "/rest/sql", "POST", "/desc"),
        (Method::POST, "/rest/login/a/b", "GET,HEAD", "/desc"),
    ] {
        let reply = call(&router, method, uri, &[], "").await;
        assert_eq!(reply.status, StatusCode::METHOD_NOT_ALLOWED, "{uri}");
        assert_eq!(reply.headers["allow"], allow, "{uri}");
        assert!(reply.json().pointer(at).unwrap().as_str().unwrap().contains("Allow"), "{uri}: {}", reply.text());
    }
}
