use super::*;

fn table(name: &str) -> TableName {
    TableName { database: None, name: name.into() }
}

#[test]
fn create_database_reads_its_options_and_refuses_unknown_ones() {
    let ignoring = |precision, keep_ms, partition_ms, ignored: &[&str]| {
        Statement::CreateDatabase(CreateDatabase {
            name: "power".into(),
            if_not_exists: false,
            precision,
            keep_ms,
            partition_ms,
            ignored: ignored.iter().map(|option| (*option).to_owned()).collect(),
        })
    };
    let database = |precision, keep_ms, partition_ms| ignoring(precision, keep_ms, partition_ms, &[]);
    let day = 86_400_000;
    for (sql, wanted) in [
        ("create database power", database(None, None, None)),
        ("CREATE DATABASE Power PRECISION 'us';", database(Some(Precision::Micro), None, None)),
        (
            "create database power precision \"NS\" keep 365 duration 10d",
            database(Some(Precision::Nano), Some(365 * day), Some(10 * day)),
        ),
        ("create database power keep 100h,200h,5000h", database(None, Some(5_000 * 3_600_000), None)),
        ("create database power keep 14400m days 2", database(None, Some(10 * day), Some(2 * day))),
        (
            "create database power vgroups 4 buffer 256 cachemodel 'both' wal_retention_period -1 replica 1 comp 2 minrows 100",
            ignoring(
                None,
                None,
                None,
                &["VGROUPS", "BUFFER", "CACHEMODEL", "WAL_RETENTION_PERIOD", "REPLICA", "COMP", "MINROWS"],
            ),
        ),
    ] {
        assert_eq!(parse(sql).unwrap_or_else(|e| panic!("{sql}: {e}")), wanted, "{sql}");
    }
    let Ok(Statement::CreateDatabase(created)) = parse("create database if not exists `Po Wer`") else { panic!() };
    assert_eq!((created.name.as_str(), created.if_not_exists), ("Po Wer", true));
    for (sql, what) in [
        ("create database", "a database name"),
        ("create database x foo 1", "unknown database option (found: FOO"),
        ("create database x precision 'xs'", "'ms', 'us' or 'ns'"),
        ("create database x precision 5", "'ms', 'us' or 'ns'"),
        ("create database x keep 99999999999999999999d", "a duration like"),
        ("create database x keep 4294967295w", "KEEP is out of range"),
        ("create database x keep 1h", "KEEP is out of range"),
        ("create database x keep", "a duration like"),
        ("create database x keep -1", "a duration like"),
        ("create database x duration 1m", "DURATION is out of range"),
        ("create database x duration 3651", "DURATION is out of range"),
        ("create database x vgroups", "the value of the option"),
        ("create database x; create database y", "expected one statement"),
        ("create database if exists x", "expected NOT"),
    ] {
        let error = parse(sql).unwrap_err();
        assert!(error.kind() == Kind::Invalid && error.to_string().contains(what), "{sql}: {error}");
    }
}

#[test]
fn create_table_reads_every_type() {
    let sql = "create stable if not exists db.s (ts timestamp, a bool, b tinyint, c smallint unsigned, d INTEGER, e bigint unsigned, \
               f float, g double, h binary(16), i varchar(8) comment 'note', j nchar(4) encode 'disabled' compress 'lz4', \
               k varbinary(9), l timestamp) tags (m int, `N m` json) comment 'x' sma(a, b)";
    let Statement::CreateTable(created) = parse(sql).unwrap() else { panic!() };
    assert_eq!(created.ignored, ["COMMENT", "ENCODE", "COMPRESS", "SMA"]);
    assert_eq!(created.table, TableName { database: Some("db".into()), name: "s".into() });
    assert!(created.if_not_exists);
    let columns: Vec<_> = created.columns.iter().map(|(n, r, t)| format!("{n} {r:?} {t}")).collect();
    assert_eq!(
        columns,
        [
            "ts Time TIMESTAMP",
            "a Field BOOL",
            "b Field TINYINT",
            "c Field SMALLINT UNSIGNED",
            "d Field INT",
            "e Field BIGINT UNSIGNED",
            "f Field FLOAT",
            "g Field DOUBLE",
            "h Field VARCHAR(16)",
            "i Field VARCHAR(8)",
            "j Field NCHAR(4)",
            "k Field VARBINARY(9)",
            "l Field TIMESTAMP",
            "m Tag INT",
            "N m Tag JSON",
        ]
    );
    let papers = "create table devices(ts timestamp, temperature int, humidity float) tags(devid int, devname binary(16), devgroup int);";
    let Statement::CreateTable(created) = parse(papers).unwrap() else { panic!() };
    assert_eq!(created.columns.iter().filter(|c| c.1 == Role::Tag).count(), 3);
    let Statement::CreateTable(plain) = parse("create table t (ts timestamp, v int)").unwrap() else { panic!() };
    assert_eq!(plain.columns.len(), 2);
    for (sql, what) in [
        ("create table t (v int, ts timestamp)", "must be of type TIMESTAMP"),
        ("create table t ()", "a column name"),
        ("create table t", "'('"),
        ("create table t (ts timestamp, v foo)", "no such type (found: FOO"),
        ("create table t (ts timestamp, v doubel)", "did you mean: DOUBLE"),
        ("create table t (ts timestamp, v binary(0))", "a width"),
        ("create table t (ts timestamp, v binary(99999999999))", "a width"),
        ("create table t (ts timestamp, v nchar(16380))", "a width"),
        ("create table t (ts timestamp, v json)", "the type JSON is for tags"),
        ("create table t (ts timestamp, v int) tags ()", "a column name"),
        ("create table t (ts timestamp, v int) what", "end of the statement"),
        ("create table t (ts timestamp, v int", "')'"),
        ("create table `t (ts timestamp)", "a closing '`'"),
    ] {
        let error = parse(sql).unwrap_err();
        assert!(error.kind() == Kind::Invalid && error.to_string().contains(what), "{sql}: {error}");
    }
    for sql in [
        "create table t (ts timestamp, v decimal(10,2))",
        "create table t (ts timestamp, v int primary key)",
        "create table t (ts timestamp, v int) ttl 5",
    ] {
        assert_eq!(parse(sql).unwrap_err().kind(), Kind::Unsupported, "{sql}");
    }
}

#[test]
fn subtables_are_declared_without_rows() {
    let sql = "create table d1 using devices tags (1, 'a\\'b', 2) if not exists `D2` using db.devices (devname) tags ('x') d3 using devices tags(-3,null,0x10)";
    let Statement::CreateSubtables(subtables) = parse(sql).unwrap() else { panic!() };
    assert_eq!(subtables.iter().map(|s| s.if_not_exists).collect::<Vec<_>>(), [false, true, false]);
    assert_eq!(subtables[0].table, table("d1"));
    assert!(parse("create table d using devices tags (?)").is_err());
}

#[test]
fn the_other_statements_are_read_or_named() {
    assert_eq!(parse("use `Db`;").unwrap(), Statement::Use("Db".into()));
    assert_eq!(
        parse("drop database if exists Db").unwrap(),
        Statement::DropDatabase { name: "db".into(), if_exists: true }
    );
    let dropped = Statement::DropTables(DropTables { tables: vec![(table("a"), true), (table("b"), false)] });
    assert_eq!(parse("drop table if exists a, b").unwrap(), dropped);
    assert!(matches!(parse("drop stable x.y").unwrap(), Statement::DropTables(_)));
    let added = |role, ty| {
        Statement::Alter(Alter {
            table: table("s"),
            action: AlterAction::Add { name: "c".into(), role, ty },
            ignored: Vec::new(),
        })
    };
    assert_eq!(parse("alter stable s add column c binary(4)").unwrap(), added(Role::Field, Type::Binary(Some(4))));
    assert_eq!(parse("ALTER TABLE S ADD TAG C INT UNSIGNED").unwrap(), added(Role::Tag, Type::UInt));
    for (sql, name) in [
        ("alter table d ttl 1", "ALTER TABLE … TTL"),
        ("alter database d duration 1", "cannot change DURATION of a database"),
        ("create stream s into t as select 1", "CREATE STREAM"),
        ("drop topic t", "DROP TOPIC"),
        ("flush database d", "found: FLUSH, use: tidelake compact"),
        ("truncate table d", "found: TRUNCATE, use: DELETE FROM table"),
        ("replace into d values (now, 1)", "found: REPLACE, use: INSERT"),
        ("comment on table d is 'x'", "found: COMMENT"),
        ("trim database d", "found: TRIM"),
    ] {
        let error = parse(sql).unwrap_err();
        assert!(error.kind() == Kind::Unsupported && error.to_string().contains(name), "{sql}: {error}");
    }
    for sql in
        ["select 1", "show databases", "(select 1)", "explain select 1", "describe t", "with x as (select 1) select 2"]
    {
        assert_eq!(super::super::parse(sql, DoubleQuotes::Text).unwrap(), None, "{sql}");
    }
    for sql in ["", "  ", ";", "-- only a comment", "/* open", "'x'", "\u{1f600}"] {
        assert_eq!(parse(sql).unwrap_err().kind(), Kind::Invalid, "{sql:?}");
    }
}

#[test]
fn use_and_kill_name_one_object() {
    assert_eq!(parse("use `My Db`;").unwrap(), Statement::Use("My Db".into()));
    assert_eq!(parse("KILL QUERY 'ab-1'").unwrap(), Statement::Kill(Kill::Query("ab-1".into())));
    assert_eq!(parse("kill connection \"7\";").unwrap(), Statement::Kill(Kill::Connection("7".into())));
    for (sql, expected) in [
        ("use", "the name of a database"),
        ("use a b", "the end of the statement"),
        ("kill", "KILL QUERY 'id'"),
        ("kill query", "KILL QUERY 'id'"),
        ("kill query 7", "KILL QUERY 'id'"),
        ("kill queries '7'", "KILL QUERY 'id'"),
        ("kill query '7' '8'", "the end of the statement"),
    ] {
        let error = parse(sql).unwrap_err();
        assert!(error.kind() == Kind::Invalid && error.message().contains(expected), "{sql}: {error}");
    }
}
