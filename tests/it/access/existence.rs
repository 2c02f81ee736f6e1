//! No interface reveals the existence of a database to a user without a right on it.

use arrow_flight::sql::CommandGetTables;
use tidelake_tests::Flight;

use super::*;

/// Two names of equal length: a database with a table `m` and series `m1`, and a name that does not exist.
const NAMES: [&str; 2] = ["hidden", "absent"];

/// Statements about a database.
const STATEMENTS: [&str; 38] = [
    "select * from DB.m",
    "select * from `DB`.m",
    "select * from DB.nothing",
    "select 1 from DB.m1",
    "select count(*) from DB.m a, own.m b",
    "with a as (select 1) select * from DB.m, a",
    "explain select * from DB.m",
    "select * from tidelake.DB.m",
    "select * from information_schema.tables where table_schema = 'DB'",
    "select * from information_schema.ins_tables where db_name = 'DB'",
    "show DB.tables",
    "show DB.stables",
    "show create database DB",
    "show create table DB.m",
    "show create stable DB.m",
    "describe DB.m",
    "describe DB.nothing",
    "use DB",
    "insert into DB.m1 using DB.m tags ('x') values (1700000000000, 1)",
    "insert into DB.m1 values (1700000000000, 1)",
    "insert into own.m1 using own.m tags ('x') values (1700000000000, 1) DB.m1 values (1700000000000, 1)",
    "insert into DB.nothing values (1700000000000, 1)",
    "create stable DB.s (ts timestamp, v int) tags (t int)",
    "create table DB.t using DB.m tags (1)",
    "create table own.t using DB.m tags (1)",
    "drop table DB.m",
    "drop table if exists DB.m",
    "drop stable DB.nothing",
    "alter table DB.m add column x int",
    "delete from DB.m",
    "delete from DB.nothing where ts < 0",
    "create database DB",
    "create database if not exists DB",
    "drop database DB",
    "drop database if exists DB",
    "alter database DB keep 10",
    "grant read on DB to bob",
    "create token of_DB with read on DB.*",
];

/// Statements without database name, which use the session's.
const WITHIN: [&str; 9] = [
    "select 1",
    "select * from m",
    "select * from nothing",
    "select * from m1",
    "show tables",
    "describe m",
    "insert into m1 values (1700000000000, 1)",
    "insert into nothing values (1700000000000, 1)",
    "delete from m",
];

/// Requests about a database.
const REQUESTS: [(&str, &str, &str); 16] = [
    ("POST", "/write?db=DB&precision=ms", "m,host=h v=1 1700000000000"),
    ("POST", "/write?db=DB&precision=ms", "wrong line"),
    ("POST", "/influxdb/v1/write?db=DB&precision=ms", "m,host=h v=1 1700000000000"),
    ("POST", "/api/v2/write?bucket=DB&precision=ms", "m,host=h v=1 1700000000000"),
    ("POST", "/opentsdb/v1/put/json/DB", r#"{"metric":"m","timestamp":1700000000,"value":1,"tags":{"host":"h"}}"#),
    ("GET", "/query?db=DB&q=show+databases", ""),
    ("POST", "/query?db=DB&q=show+databases", ""),
    ("POST", "/query?q=create+database+DB", ""),
    ("POST", "/query?q=drop+database+DB", ""),
    ("POST", "/rest/sql/DB", "select * from m"),
    ("GET", "/api/v1/files?table=DB.m", ""),
    ("GET", "/api/v1/files?table=DB.nothing", ""),
    ("POST", "/api/v1/compact?table=DB.m", ""),
    ("POST", "/api/v1/compact?until=fold&table=DB.m", ""),
    ("GET", "/api/v1/sql?db=DB&q=select+*+from+m", ""),
    ("GET", "/api/v1/sql?q=select+*+from+DB.m", ""),
];

#[tokio::test(flavor = "multi_thread")]
async fn whether_a_database_exists_is_told_to_nobody_who_has_no_right_on_it() {
    let directory = tempfile::tempdir().unwrap();
    let node = Node::start(directory.path().join("root").to_str().unwrap(), directory.path(), &[]);
    for database in ["own", "hidden"] {
        assert_eq!(
            node.ask(ADA, "POST", &format!("/write?db={database}"), "n,host=h v=1").await.status,
            204,
            "{database}"
        );
        node.rows(ADA, &format!("create stable {database}.m (ts timestamp, v int) tags (host binary(9))")).await;
        node.rows(ADA, &format!("insert into {database}.m1 using {database}.m tags ('h') values (1700000000000, 1)"))
            .await;
    }
    for sql in
        ["create user bob password 'bob''s own'", "grant all on own to bob", "create user eve password 'eve''s own'"]
    {
        node.rows(ADA, sql).await;
    }
    let who = [Who::Basic("bob", "bob's own"), Who::Basic("eve", "eve's own")];
    let mut requests: Vec<(&str, String, String)> =
        REQUESTS.iter().map(|(method, path, body)| (*method, (*path).to_owned(), (*body).to_owned())).collect();
    for path in ["/api/v1/sql", "/rest/sql"] {
        requests.extend(STATEMENTS.map(|sql| ("POST", path.to_owned(), sql.to_owned())));
    }
    for path in ["/api/v1/sql?database=DB", "/rest/sql/DB"] {
        requests.extend(WITHIN.map(|sql| ("POST", path.to_owned(), sql.to_owned())));
    }
    let mut told = Vec::new();
    for who in who {
        for (method, path, body) in &requests {
            let mut answers = Vec::new();
            for name in NAMES {
                let reply = node.ask(who, method, &path.replace("DB", name), &body.replace("DB", name)).await;
                answers.push((reply.status, reply.body.replace(name, "DB")));
            }
            if answers[0] != answers[1] {
                told.push(format!("{who:?} {method} {path} {body}: {answers:?}"));
            }
        }
    }
    for (user, password) in [("bob", "bob's own"), ("eve", "eve's own")] {
        let mut flights = Vec::new();
        for name in NAMES {
            let mut flight = Flight::connect(&node.server.url()).await;
            flight.client().handshake(user, password).await.unwrap();
            let mut answers = Vec::new();
            for sql in STATEMENTS {
                let sql = sql.replace("DB", name);
                answers.push(format!("{sql}: {:?}", flight.query(&sql).await.map(|rows| rows.num_rows())));
                let updated = flight.client().execute_update(sql.clone(), None).await;
                answers.push(format!("{sql}: {:?}", updated.map_err(|e| e.to_string())));
            }
            let command = CommandGetTables { db_schema_filter_pattern: Some(name.to_owned()), ..Default::default() };
            let info = flight.client().get_tables(command).await.unwrap();
            answers.push(format!("{} bytes, {} records", info.total_bytes, info.total_records));
            flight.client().set_header("database", name);
            for sql in WITHIN {
                answers.push(format!("{sql}: {:?}", flight.query(sql).await.map(|rows| rows.num_rows())));
            }
            flights.push(answers.into_iter().map(|answer| answer.replace(name, "DB")).collect::<Vec<_>>());
        }
        let pairs = flights[0].iter().zip(&flights[1]).filter(|(one, other)| one != other);
        told.extend(pairs.map(|(one, other)| format!("Flight, {user}: {one} but {other}")));
    }
    assert!(told.is_empty(), "{} answers differ:\n{}", told.len(), told.join("\n"));
    // A user with a right on all databases may know.
    node.rows(ADA, "grant read on *.* to eve").await;
    let eve = Who::Basic("eve", "eve's own");
    let reply = node.sql(eve, "use absent").await;
    assert!(reply.status == 404 && reply.body.contains("no such database"), "{reply:?}");
    node.server.stop();
}
