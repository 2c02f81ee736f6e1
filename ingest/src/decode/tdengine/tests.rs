#![allow(clippy::unwrap_used)]

mod parameters;
mod subtables;
mod values;

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray},
    datatypes::UInt32Type,
};
use chrono_tz::Tz;
use rand::{Rng, SeedableRng, rngs::StdRng, seq::IndexedRandom};
use tidelake_format::{
    Error, Kind,
    schema::Role,
    types::{Precision, Scalar, Type},
};
use tidelake_protocol::sql::{self, DoubleQuotes, Statement};

use super::*;
use crate::decode::{Decoded, Subtable, fixture::Fixture};

/// 2026-11-20 00:00:00 UTC.
const NOW: i64 = 1_795_132_800_000_000_000;

fn parse(sql: &str) -> Result<Statement, Error> {
    sql::parse(sql, DoubleQuotes::Text).map(|statement| statement.expect("no query"))
}

fn session(fixture: &Fixture) -> Session<'_> {
    Session { database: Some(&fixture.database), time_zone: Tz::UTC, now_ns: NOW }
}

fn read_with(fixture: &Fixture, sql: &str, parameters: Option<&RecordBatch>) -> Result<Inserted, Error> {
    match parse(sql)? {
        Statement::Insert(statement) => insert(statement.cursor(sql), fixture, &session(fixture), parameters),
        other => panic!("{other:?}"),
    }
}

fn read(fixture: &Fixture, sql: &str) -> Result<Decoded, Error> {
    match read_with(fixture, sql, None)? {
        Inserted::Ready(decoded) => Ok(decoded),
        Inserted::Unresolved(names) => panic!("{names:?}"),
    }
}

fn rows(fixture: &Fixture, sql: &str) -> Vec<String> {
    fixture.rows(&read(fixture, sql).unwrap_or_else(|e| panic!("{sql}: {e}")).blocks)
}

fn refused(fixture: &Fixture, sql: &str) -> Error {
    match read_with(fixture, sql, None) {
        Err(e) => e,
        Ok(taken) => panic!("{sql}: {taken:?}"),
    }
}

#[test]
fn the_statements_of_the_papers_run_as_written() {
    let fixture = Fixture::devices();
    assert_eq!(
        rows(&fixture, "insert into dev1 using devices tags(1,'d1',0) values(1545038786000,1,3.560000);"),
        ["devices|dev1|devgroup=0 devid=1 devname=d1|1545038786000|humidity=3.56 temperature=1"]
    );
    let sql = "insert into dev1 using devices tags(1,'dev_1',1) values(1563249700000,40,12.000000)\
               (1563249701000,44,9.000000) dev2 using devices tags(2,'dev_2',2) values(1563249700000,51,3.000000);";
    assert_eq!(
        rows(&fixture, sql),
        [
            "devices|dev1|devgroup=1 devid=1 devname=dev_1|1563249700000|humidity=12.0 temperature=40",
            "devices|dev1|devgroup=1 devid=1 devname=dev_1|1563249701000|humidity=9.0 temperature=44",
            "devices|dev2|devgroup=2 devid=2 devname=dev_2|1563249700000|humidity=3.0 temperature=51",
        ]
    );
}

#[test]
fn blanks_comments_commas_case_and_quotes_change_nothing() {
    let fixture = Fixture::devices();
    let plain = rows(&fixture, "insert into d1 using devices tags(1,'a',2) values(1,2,3)(2,3,4)");
    for sql in [
        "INSERT INTO D1 USING Devices TAGS ( 1 , 'a' , 2 ) VALUES ( 1 , 2 , 3 ) , ( 2 , 3 , 4 ) ; ",
        "  insert /* x */ into db.d1 using `db`.`devices` tags(1,\"a\",2)\n-- note\nvalues(1,2,3)\t(2,3,4);;",
        "insert into `d1` using db.devices (devgroup, DEVID, devname) tags (2, 1, 'a') (humidity,ts,temperature) values (3,1,2),(4,2,3)",
        "insert into devices (tbname, ts, temperature, humidity, devid, devname, devgroup) values ('d1',1,2,3,1,'a',2) ('d1',2,3,4,1,'a',2)",
        "insert into d1 using devices tags(1,'a',2) values(1,2,3) d1 values(2,3,4)",
        "insert into d1 (humidity,ts,temperature) using devices tags(1,'a',2) values(3,1,2)(4,2,3)",
    ] {
        assert_eq!(rows(&fixture, sql), plain, "{sql}");
    }
    let quoted = rows(&fixture, "insert into `D1` using devices tags(1,'a',2) values(1,2,3)");
    assert!(quoted[0].starts_with("devices|D1|"));
}

#[test]
fn columns_and_tags_that_are_not_named_are_null() {
    let fixture = Fixture::devices();
    let sql = "insert into d using devices (devname) tags ('x') (ts, humidity) values (1, NULL) (2, 5)";
    assert_eq!(rows(&fixture, sql), ["devices|d|devname=x|1|", "devices|d|devname=x|2|humidity=5.0"]);
    let sql = "insert into devices (ts, devid, devgroup, temperature) values (1, 7, null, 2)";
    assert_eq!(rows(&fixture, sql), ["devices|devid=7|devid=7|1|temperature=2"], "named as by line protocol");
}

#[test]
fn a_known_series_has_its_tags_and_an_unknown_series_is_unresolved() {
    let mut fixture = Fixture::devices();
    let table = Arc::clone(fixture.named("devices"));
    let tag = |name: &str| table.column(name).unwrap().id;
    let tags = vec![(tag("devid"), Scalar::Int(1)), (tag("devname"), Scalar::Text("x".into()))];
    fixture.subtables.push(("d1".into(), Subtable { table: Arc::clone(&table), tags }));
    assert_eq!(
        rows(&fixture, "insert into d1 values (1,2,3)"),
        ["devices|d1|devid=1 devname=x|1|humidity=3.0 temperature=2"]
    );
    let sql = "insert into d1 values (1,2,3) d2 values (1,'a)''(',now+1s) (2,3,4) d3 (ts) values (1)";
    match read_with(&fixture, sql, None).unwrap() {
        Inserted::Unresolved(names) => {
            assert_eq!(names, [(fixture.database.id, "d2".to_owned()), (fixture.database.id, "d3".to_owned())]);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_table_without_tags_is_one_series_with_its_name() {
    let mut fixture = Fixture::new(Precision::Milli);
    fixture.create("plain", &[("ts", Role::Time, Type::Timestamp), ("v", Role::Field, Type::Double)]);
    assert_eq!(
        rows(&fixture, "insert into plain values (1, 2.5) (2, -1e3)"),
        ["plain|plain||1|v=2.5", "plain|plain||2|v=-1000.0"]
    );
    let error = refused(&fixture, "insert into x using plain tags (1) values (1,2)");
    assert_eq!(error.message(), "the table has no tags");
}

#[test]
fn several_tables_of_one_statement_become_one_block_each() {
    let mut fixture = Fixture::devices();
    fixture.create(
        "meters",
        &[
            ("ts", Role::Time, Type::Timestamp),
            ("current", Role::Field, Type::Float),
            ("voltage", Role::Field, Type::Int),
            ("phase", Role::Field, Type::Float),
            ("groupid", Role::Tag, Type::Int),
            ("location", Role::Tag, Type::Binary(Some(24))),
        ],
    );
    let sql = "insert into m1 using meters tags(2,'Beijing.Chaoyang') values(1,10.3,219,0.31) \
               d1 using devices tags(1,'a',1) values(1,1,1) m2 using meters tags(2,'x') values(1,1,1,1)";
    let decoded = read(&fixture, sql).unwrap();
    assert_eq!(decoded.blocks.len(), 2);
    assert_eq!(
        fixture.rows(&decoded.blocks)[0],
        "meters|m1|groupid=2 location=Beijing.Chaoyang|1|current=10.3 phase=0.31 voltage=219"
    );
    assert_eq!(decoded.accepted, 3);
}

#[test]
fn faults_name_row_column_expected_and_found() {
    let fixture = Fixture::devices();
    let error = refused(&fixture, "insert into d using devices tags(1,'a',1) values (1,2,3) (2,'x',4)");
    assert_eq!(error.kind(), Kind::Invalid);
    for (key, value) in [("table", "d"), ("row", "2"), ("column", "temperature"), ("expected", "INT"), ("found", "'x'")]
    {
        assert_eq!(error.context(key), Some(value), "{error}");
    }
    let tags = "insert into d using devices tags";
    for (sql, what) in [
        (format!("{tags}('x','a',1) values(1,2,3)"), "invalid tag value"),
        (format!("{tags}(1,'{}',1) values(1,2,3)", "a".repeat(17)), "too long: 17, at most 16"),
        (format!("{tags}(1,'a') values(1,2,3)"), "number of tags"),
        (format!("{tags}(1,'a',1,2) values(1,2,3)"), "number of tags"),
        (format!("{tags}(1,'a',1) values(1,2)"), "number of columns"),
        (format!("{tags}(1,'a',1) values(1,2,3,4)"), "number of columns"),
        (format!("{tags}(1,'a',1) (ts,ts) values(1,2)"), "duplicated column names"),
        (format!("{tags}(1,'a',1) (temperature) values(1)"), "must include the time column"),
        (format!("{tags}(1,'a',1) (ts,nope) values(1,2)"), "Invalid column name: nope"),
        (format!("{tags}(1,'a',1) (ts,devid) values(1,2)"), "only allowed in an INSERT into the supertable"),
        (format!("{tags}(1,'a',1) values(null,2,3)"), "wrong type"),
        (format!("{tags}(1,'a',1) values(1,2147483648,3)"), "out of range"),
        (format!("{tags}(1,'a',1) values(1,1.5,3)"), "not exactly representable"),
        (format!("{tags}(1,'a',1) values(1,1,1e39)"), "out of range"),
        (format!("{tags}(1,'a',1) values(9223372036854775807,1,1)"), "out of range"),
        (format!("{tags}(1,'a',1) values(99999999999999999999999999999999999999999999,1,1)"), "out of range"),
        (format!("{tags}(1,'a',1) values(now+9223372036854775807w,1,1)"), "out of range"),
        (format!("{tags}(1,'a',1) values('2019-13-01',1,1)"), "wrong type"),
        (format!("{tags}(1,'a',1) values('9999-01-01',1,1)"), "out of range"),
        (format!("{tags}(1,'a',1) values"), "syntax error near \"end of statement\""),
        (format!("{tags}(1,'a',1) values(1,2,3"), "syntax error near"),
        (format!("{tags}(1,'a',1) values(1,2,3),"), "'(' of the next row"),
        (format!("{tags}(1,'a',1) values(1,2,3) garbage"), "syntax error near"),
        (format!("{tags}(1,'a',1) values(1,2,'x)"), "a closing quote"),
        (format!("{tags}(1,'a',1) values(1,2,3); select 1"), "expected one statement"),
        (format!("{tags}(1,'a',1) values(1,2,foo)"), "syntax error near \"foo)\": expected a value"),
        (format!("{tags}(1,'a',1) values(1,2,?)"), "parameters"),
        (format!("{tags}(1,'a',1) file 'x.csv'"), "FILE is not supported"),
        ("insert into d using nope tags(1) values(1,2)".into(), "Table does not exist: nope"),
        ("insert into x.d values(1,2)".into(), "Database not exist: x"),
        ("insert into devices values(1,2,3)".into(), "must list its columns"),
        ("insert into devices (ts,temperature) values(1,2)".into(), "with tbname or tags among them"),
        ("insert into devices (tbname,ts) values(5,2)".into(), "wrong type"),
        ("insert into devices (tbname,ts) values('',2)".into(), "1 to 192 bytes"),
        ("insert into `` values(1)".into(), "a table name"),
        ("insert d values(1)".into(), "expected INTO"),
        ("insert into".into(), "a table name"),
    ] {
        let error = refused(&fixture, &sql);
        assert!(error.to_string().contains(what), "{sql}: {error}");
        assert!(matches!(error.kind(), Kind::Invalid | Kind::NotFound | Kind::Unsupported), "{sql}: {error:?}");
    }
    let without = Session { database: None, time_zone: Tz::UTC, now_ns: NOW };
    let sql = "insert into d values(1)";
    let Ok(Statement::Insert(statement)) = parse(sql) else { panic!() };
    let error = insert(statement.cursor(sql), &fixture, &without, None).unwrap_err();
    assert_eq!(error.message(), "Database not specified");
}

#[test]
fn a_row_older_than_the_database_keeps_refuses_the_statement() {
    let mut fixture = Fixture::devices();
    fixture.database.keep_ms = 86_400_000;
    let sql = |ts: &str| format!("insert into d using devices tags(1,'a',1) values({ts},2,3)");
    assert!(refused(&fixture, &sql("now-25h")).message().starts_with("Timestamp data out of range"));
    assert_eq!(rows(&fixture, &sql("now-23h")).len(), 1);
}

#[test]
fn no_text_makes_the_reader_panic() {
    let seeds = [
        "insert into dev1 using devices tags(1,'dev_1',1) values(1563249700000,40,12.000000)(now+1s,null,-9e9) d2 using db.devices (devid) tags(?) (ts) values ('2019-07-16 04:01:40.000')",
        "create table if not exists db.s (ts timestamp, `a b` binary(16), v int unsigned comment 'x') tags (t nchar(4), j json) sma(v);",
        "create table d1 using s tags (1, 'a\\'b') if not exists d2 using s (x) tags (today()+1d)",
        "create database if not exists x precision 'us' keep 3650d,10 duration 14400m vgroups 2 wal_level 1;",
        "alter stable s add column c varchar(10) /* c */ -- d",
        "drop table if exists a, b.c; use `x`",
    ];
    let alphabet: Vec<char> = " ,()'\"`;?.*-+/\\0xb9eE_aZ\u{e4}\u{1f600}\n\0".chars().collect();
    let fixture = Fixture::devices();
    let mut rng = StdRng::seed_from_u64(11);
    for _ in 0..20_000 {
        let mut sql: Vec<char> = seeds.choose(&mut rng).unwrap().chars().collect();
        for _ in 0..rng.random_range(0..5) {
            let at = rng.random_range(0..sql.len());
            match rng.random_range(0..4) {
                0 => sql[at] = *alphabet.choose(&mut rng).unwrap(),
                1 => sql.insert(at, *alphabet.choose(&mut rng).unwrap()),
                2 => {
                    sql.remove(at);
                }
                _ => sql.truncate(at.max(1)),
            }
            if sql.is_empty() {
                break;
            }
        }
        let sql: String = sql.into_iter().collect();
        let kind = match sql::parse(&sql, DoubleQuotes::Text) {
            Ok(Some(Statement::Insert(statement))) => {
                insert(statement.cursor(&sql), &fixture, &session(&fixture), None).err().map(|e| e.kind())
            }
            Ok(Some(Statement::CreateSubtables(subtables))) => {
                create_subtables(&subtables, &fixture, &session(&fixture)).err().map(|e| e.kind())
            }
            Ok(_) => None,
            Err(e) => Some(e.kind()),
        };
        assert!(!matches!(kind, Some(Kind::Internal | Kind::Corrupt)), "{sql}: {kind:?}");
    }
}
