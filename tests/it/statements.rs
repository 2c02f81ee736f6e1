//! Deletes, drops of subtables, tag and schema changes over HTTP, read over HTTP and Flight: same results in the log,
//! in folded and merged files and after a restart; deleted rows finally disappear from the objects.

use futures::TryStreamExt as _;
use serde_json::{Value, json};
use tidelake_tests::{Flight, Http, Server};

const ARGUMENTS: [&str; 2] = ["--fold-interval", "1h"];

async fn affected(http: &Http, sql: &str) -> Value {
    http.rest_sql(sql).await[0][0].clone()
}

async fn refused(http: &Http, sql: &str, words: &[&str]) {
    let reply = http.post("/rest/sql", &[], sql.to_owned()).await.unwrap();
    assert_ne!(reply.json()["code"], 0, "{sql}: {}", reply.body);
    assert!(words.iter().all(|word| reply.body.contains(word)), "{sql}: {}", reply.body);
}

/// Rows of the table by HTTP; checks that Flight counts the same.
async fn found(http: &Http, flight: &mut Flight) -> Vec<Vec<Value>> {
    let rows = http.sql("select tbname, site, name, cast(ts as bigint), v from db.s order by tbname, ts").await;
    let counted = flight.query("select ts from db.s").await.unwrap();
    assert_eq!(counted.num_rows(), rows.len());
    let sum: i64 = rows.iter().map(|row| row[4].as_i64().unwrap_or(0)).sum();
    let summed = http.sql("select coalesce(sum(v), 0) from db.s").await;
    assert_eq!(summed, [[json!(sum)]], "aggregates from manifests say the same");
    rows
}

#[tokio::test(flavor = "multi_thread")]
async fn deleted_rows_and_dropped_subtables_are_gone_in_every_state() {
    let directory = tempfile::tempdir().unwrap();
    let store = directory.path().to_str().unwrap();
    let server = Server::start(store, ARGUMENTS);
    let http = Http::new(&server.url());
    let mut flight = Flight::connect(&server.url()).await;
    http.rest_sql("create database db keep 73000d duration 10d").await;
    http.rest_sql("create stable db.s (ts timestamp, v int) tags (site int, name binary(16))").await;
    let mut model: Vec<Vec<Value>> = Vec::new();
    for (name, site) in [("d1", 1), ("d2", 2), ("d3", 1)] {
        let values: String = (0..20).map(|i| format!("({}, {i})", i * 1_000)).collect();
        let sql = format!("insert into db.{name} using db.s tags ({site}, 'SECRET-{name}') values {values}");
        assert_eq!(affected(&http, &sql).await, 20);
        model.extend(
            (0..20)
                .map(|i| vec![json!(name), json!(site), json!(format!("SECRET-{name}")), json!(i * 1_000), json!(i)]),
        );
    }
    assert_eq!(found(&http, &mut flight).await, model, "as written");

    // In the log.
    assert_eq!(affected(&http, "delete from db.s where ts < 5000 and site = 1").await, 10);
    model.retain(|row| !(row[3].as_i64() < Some(5_000) && row[1] == 1));
    assert_eq!(found(&http, &mut flight).await, model, "deleted in the log");
    http.compact("fold").await;
    assert_eq!(found(&http, &mut flight).await, model, "folded");

    // In files.
    assert_eq!(affected(&http, "delete from db.d2 where ts between 3000 and 4000").await, 2);
    model.retain(|row| !(row[0] == "d2" && (Some(3_000)..=Some(4_000)).contains(&row[3].as_i64())));
    assert_eq!(affected(&http, "delete from db.d2 where ts between 3000 and 4000").await, 0, "there is no more");
    http.rest_sql("alter table db.d2 set tag site = 7").await;
    model.iter_mut().filter(|row| row[0] == "d2").for_each(|row| row[1] = json!(7));
    assert_eq!(found(&http, &mut flight).await, model, "deleted in files");
    assert_eq!(http.sql("select count(*) from db.s where site = 7").await, [[json!(18)]]);

    http.rest_sql("drop table db.d3").await;
    model.retain(|row| row[0] != "d3");
    assert_eq!(found(&http, &mut flight).await, model, "d3 is dropped");
    refused(&http, "insert into db.d3 values (1, 1)", &["not exist"]).await;
    assert_eq!(http.sql("show db.tables").await, [[json!("d1")], [json!("d2")]]);
    http.rest_sql("insert into db.d3 using db.s tags (9, 'again') values (1, 1)").await;
    model.push(vec![json!("d3"), json!(9), json!("again"), json!(1), json!(1)]);
    assert_eq!(found(&http, &mut flight).await, model, "the name is free again");

    refused(&http, "delete from db.s where v = 1", &["fields"]).await;
    refused(&http, "delete from db.s where ts < 1 or site = 1", &["one time range"]).await;
    refused(&http, "delete from db.nope", &["not exist"]).await;

    http.compact("full").await;
    assert_eq!(found(&http, &mut flight).await, model, "merged");
    server.stop();
    let server = Server::start(store, ARGUMENTS);
    let http = Http::new(&server.url());
    let mut flight = Flight::connect(&server.url()).await;
    assert_eq!(found(&http, &mut flight).await, model, "after a restart");
    assert_eq!(affected(&http, "delete from db.s").await, model.len());
    assert!(found(&http, &mut flight).await.is_empty());
    http.compact("full").await;
    assert!(found(&http, &mut flight).await.is_empty());
    assert_eq!(http.sql("show db.tables").await.len(), 3, "a DELETE leaves the subtables");
}

#[tokio::test(flavor = "multi_thread")]
async fn schemas_change_under_old_rows_and_show_create_gives_them_again() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path().to_str().unwrap(), ARGUMENTS);
    let http = Http::new(&server.url());
    http.rest_sql("create database db keep 73000d duration 12h precision 'us'").await;
    http.rest_sql("create stable db.s (ts timestamp, v int, f float, t binary(4), x int) tags (a int, `B c` nchar(8)) keep 72000d").await;
    http.rest_sql(
        "insert into db.d using db.s tags (1, 'it''s') values (1, 2147483647, 1.5, 'abcd', 5) (2, 1, 0.1, 'x', 6)",
    )
    .await;
    http.compact("fold").await;

    refused(&http, "insert into db.d (ts, v) values (3, 2147483648)", &["2147483648"]).await;
    for sql in [
        "alter stable db.s modify column v bigint",
        "alter stable db.s modify column f double",
        "alter stable db.s modify column t binary(8)",
        "alter stable db.s rename tag a site",
        "alter stable db.s drop column x",
        "alter stable db.s add column x double",
    ] {
        http.rest_sql(sql).await;
    }
    refused(&http, "alter stable db.s modify column v int", &["widened"]).await;
    refused(&http, "alter stable db.s drop column ts", &["time column"]).await;
    http.rest_sql("insert into db.d values (3, 4294967296, 2.5, 'abcdefgh', 7.5)").await;
    let expected = [
        [json!(2_147_483_647), json!(1.5), json!("abcd"), Value::Null],
        [json!(1), json!(f64::from(0.1_f32)), json!("x"), Value::Null],
        [json!(4_294_967_296_i64), json!(2.5), json!("abcdefgh"), json!(7.5)],
    ];
    for state in ["log", "folded", "merged"] {
        assert_eq!(http.sql("select v, f, t, x from db.s order by ts").await, expected, "{state}");
        let sums =
            http.sql("select sum(v), max(v), min(v), sum(f), count(x), last(v), site from db.s group by site").await;
        let sum = 1.5 + f64::from(0.1_f32) + 2.5;
        let wanted = [json!(6_442_450_944_i64), json!(4_294_967_296_i64), json!(1), json!(sum), json!(1)];
        assert_eq!(sums[0][..5], wanted, "{state}");
        assert_eq!(sums[0][5..], [json!(4_294_967_296_i64), json!(1)], "{state}");
        http.compact(if state == "log" { "fold" } else { "full" }).await;
    }

    // The output of SHOW CREATE creates the same table elsewhere.
    http.rest_sql("alter database db keep 80000d").await;
    http.rest_sql("alter table db.d set tag site = 4").await;
    let mut shown = Vec::new();
    for what in ["database db", "stable db.s", "table db.d"] {
        shown.push(http.sql(&format!("show create {what}")).await[0][1].as_str().unwrap().to_owned());
    }
    let other = tempfile::tempdir().unwrap();
    let again = Server::start(other.path().to_str().unwrap(), ARGUMENTS);
    let again = Http::new(&again.url());
    again.rest_sql(&shown[0]).await;
    for sql in &shown[1..] {
        let reply = again.post("/rest/sql/db", &[], sql.clone()).await.unwrap();
        assert_eq!(reply.json()["code"], 0, "{sql}: {}", reply.body);
    }
    for (i, what) in ["database db", "stable db.s", "table db.d"].into_iter().enumerate() {
        assert_eq!(again.sql(&format!("show create {what}")).await[0][1], shown[i], "{what}");
    }
    assert!(shown[0].contains("KEEP 80000d DURATION 720m") && shown[1].contains("KEEP 72000d"), "{shown:?}");
}

/// New series do not create a new catalog version: a cached plan must find them.
#[tokio::test(flavor = "multi_thread")]
async fn what_describes_the_catalog_shows_series_that_came_after_it_was_asked_the_first_time() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path().to_str().unwrap(), ARGUMENTS);
    let http = Http::new(&server.url());
    let mut flight = Flight::connect(&server.url()).await;
    let mut expected: Vec<Value> = Vec::new();
    let mut prepared = None;
    for number in 0..4 {
        let line = format!("m,host=h{number} v={number} {}", 1_700_000_000_000_u64 + number);
        assert_eq!(http.post("/write?db=d&precision=ms", &[], line).await.unwrap().status, 204);
        expected.push(json!(format!("host=h{number}")));
        let rows: Vec<Vec<Value>> = expected.iter().map(|name| vec![name.clone()]).collect();
        assert_eq!(http.sql("show d.tables").await, rows);
        assert_eq!(http.rest_sql("show d.tables").await, rows);
        let sql = "select count(*) as n from information_schema.ins_tags where stable_name = 'm'";
        assert_eq!(http.sql(sql).await, [[json!(rows.len())]]);
        assert_eq!(http.sql("select ntables from information_schema.ins_databases").await, [[json!(rows.len())]]);
        // One prepared statement, executed each time.
        let client = flight.client();
        if prepared.is_none() {
            prepared = Some(client.prepare("show d.tables".to_owned(), None).await.unwrap());
        }
        let info = prepared.as_mut().unwrap().execute().await.unwrap();
        let ticket = info.endpoint[0].ticket.clone().unwrap();
        let batches: Vec<arrow::array::RecordBatch> = client.do_get(ticket).await.unwrap().try_collect().await.unwrap();
        assert_eq!(batches.iter().map(arrow::array::RecordBatch::num_rows).sum::<usize>(), rows.len());
        if number == 1 {
            http.compact("fold").await;
        }
    }
}
