//! Invalid statements, statements that other parsers misread, and random statements.

use arrow::datatypes::{DataType, TimeUnit};
use rand::{Rng, SeedableRng, rngs::StdRng, seq::IndexedRandom};
use tidelake_format::{Kind, access::Principal};
use tidelake_protocol::sql::DoubleQuotes;

use super::{super::*, support::*};
use crate::session::Session;

/// The error of parsing, planning or running a statement.
async fn fault(sql: &str) -> Error {
    match run_in(&session(), sql).await {
        Err(error) => error,
        Ok((names, rows)) => panic!("{sql} gave {names:?} {rows:?}"),
    }
}

#[tokio::test]
async fn every_invalid_statement_has_a_specific_error() {
    for (sql, kind, says) in [
        ("", Kind::Invalid, "empty"),
        (" ; ", Kind::Invalid, "empty"),
        ("-- nothing", Kind::Invalid, "empty"),
        ("/* nothing", Kind::Invalid, "comment"),
        ("select 1; select 2", Kind::Invalid, "several statements"),
        ("selec 1", Kind::Invalid, "selec"),
        ("select", Kind::Invalid, "column: 7"),
        ("select 1 from", Kind::Invalid, "syntax error"),
        ("select (1", Kind::Invalid, "syntax error"),
        ("select 1)", Kind::Invalid, "end of the statement"),
        ("select 'abc", Kind::Invalid, "unterminated"),
        ("select * from devices where", Kind::Invalid, "syntax error"),
        ("select * from devices where ts >", Kind::Invalid, "syntax error"),
        ("select x from devices", Kind::Invalid, "column: x"),
        ("select\n  humid from devices", Kind::Invalid, "line: 2, column: 3"),
        ("select devices.x from devices", Kind::Invalid, "no such column"),
        ("select * from nothing", Kind::NotFound, "nothing"),
        ("select * from db.nothing", Kind::NotFound, "db.nothing"),
        ("select * from nodb.devices", Kind::NotFound, "nodb.devices"),
        ("select nofunction(ts) from devices", Kind::Invalid, "nofunction"),
        ("select temperature, count(*) from devices", Kind::Invalid, "GROUP BY"),
        ("select * from devices where ts > 'yesterday'", Kind::Invalid, "expected a timestamp"),
        ("select * from devices where ts in ('x')", Kind::Invalid, "expected a timestamp"),
        ("select ? + $1", Kind::Invalid, "parameters"),
        ("select $0", Kind::Invalid, "parameter"),
        ("select 1x", Kind::Invalid, "1x"),
        ("select 1.5h", Kind::Invalid, "1.5h"),
        ("select spread(devname) from devices", Kind::Invalid, "function: spread, expected: a number"),
        ("select spread() from devices", Kind::Invalid, "spread takes one"),
        ("select last() from devices", Kind::Invalid, "last takes one"),
        ("select last(x) from (select 1 as x)", Kind::Invalid, "time column"),
        ("select _wstart from devices", Kind::Invalid, "needs an INTERVAL"),
        ("select a.ts from devices a, devices a", Kind::Invalid, "alias"),
        ("show", Kind::Invalid, "expected"),
        ("show mnodes", Kind::Unsupported, "mnodes"),
        ("show tables like", Kind::Invalid, "pattern"),
        ("show nodb.tables", Kind::NotFound, "nodb"),
        ("describe nothing", Kind::NotFound, "nothing"),
        ("explain insert into devices values (1)", Kind::Unsupported, "expected a query"),
        ("copy devices to 'x'", Kind::Invalid, "copy"),
        ("set time_zone = 'x'", Kind::Invalid, "set"),
        ("select * from devices slimit 1", Kind::Unsupported, "SLIMIT"),
        ("select * from devices sort by ts", Kind::Unsupported, "sort by"),
        ("select * from devices distribute by ts", Kind::Unsupported, "distribute by"),
        ("select * into x from devices", Kind::Unsupported, "INTO"),
    ] {
        let error = fault(sql).await;
        assert_eq!(error.kind(), kind, "{sql}: {error}");
        assert!(error.to_string().contains(says), "{sql}: {error}");
    }
    let error = run_in(&Session::of(Principal::AUTH_OFF), "select * from devices").await.unwrap_err();
    assert!(error.to_string().contains("USE"), "{error}");
}

#[tokio::test]
async fn every_invalid_window_has_a_specific_error() {
    for (clause, kind, says) in [
        ("interval()", Kind::Invalid, "found: )"),
        ("interval(", Kind::Invalid, "the end"),
        ("interval(1)", Kind::Invalid, "duration"),
        ("interval(0s)", Kind::Invalid, "more than 0"),
        ("interval(-1s)", Kind::Invalid, "duration"),
        ("interval(1.5s)", Kind::Invalid, "1.5s"),
        ("interval(1x)", Kind::Invalid, "1x"),
        ("interval(1u)", Kind::Invalid, "whole number"),
        ("interval(99999999999999999999s)", Kind::Invalid, "duration"),
        ("interval(9223372036854775807y)", Kind::Invalid, "1000 years"),
        ("interval(1m, 1m)", Kind::Invalid, "shorter"),
        ("interval(1m, auto)", Kind::Unsupported, "AUTO"),
        ("interval(1m 1s)", Kind::Invalid, "')'"),
        ("interval(1m) sliding(2m)", Kind::Invalid, "SLIDING must not be longer"),
        ("interval(1h) sliding(1s)", Kind::Invalid, "too many windows"),
        ("interval(1n) sliding(1d)", Kind::Unsupported, "fixed length"),
        ("interval(1m) sliding(0s)", Kind::Invalid, "more than 0"),
        ("interval(1m) sliding()", Kind::Invalid, "SLIDING"),
        ("interval(1m) fill(maybe)", Kind::Invalid, "MAYBE"),
        ("interval(1m) fill(none_f)", Kind::Invalid, "NONE_F"),
        ("interval(1m) fill(value)", Kind::Invalid, "needs a constant"),
        ("interval(1m) fill(value, 1 + 1)", Kind::Invalid, "')'"),
        ("interval(1m) fill(value, devid)", Kind::Invalid, "devid"),
        ("interval(1m) fill(value, 1, 2)", Kind::Invalid, "one constant for each column"),
        ("interval(1m) fill(value, 'x')", Kind::Invalid, "another type than its column"),
        ("interval(1m) fill(prev", Kind::Invalid, "')'"),
        ("interval(1m) fill(prev) having count(*) > 1", Kind::Unsupported, "HAVING"),
        ("interval(1m) fill(prev) order by max(temperature)", Kind::Unsupported, "max("),
        ("interval(1m) fill(prev) order by devid", Kind::Invalid, "devid"),
        ("where ts >= 0 and ts < 10000000000000 interval(1s) fill(prev)", Kind::Invalid, "too many windows"),
        ("interval(1m) interval(1m)", Kind::Invalid, "one INTERVAL"),
        ("interval(1m) where devid = 1", Kind::Invalid, "WHERE must stand before"),
        ("interval(1m) group by devid", Kind::Invalid, "cannot be combined with GROUP BY"),
        ("group by devid interval(1m)", Kind::Invalid, "cannot be combined with GROUP BY"),
        ("partition by devid group by devid", Kind::Invalid, "cannot be combined with GROUP BY"),
        ("partition by devid where devid = 1", Kind::Invalid, "WHERE must stand before"),
        ("partition by devid interval(1m) limit 1", Kind::Unsupported, "LIMIT with PARTITION BY"),
        ("sliding(1m)", Kind::Invalid, "must follow INTERVAL"),
        ("where devid = 1 fill(none)", Kind::Invalid, "must follow INTERVAL"),
        ("state_window(devid)", Kind::Unsupported, "STATE_WINDOW"),
        ("session(ts, 10s)", Kind::Unsupported, "SESSION"),
        ("where devid = 1 count_window(10)", Kind::Unsupported, "COUNT_WINDOW"),
        ("event_window start with devid = 1 end with devid = 2", Kind::Unsupported, "EVENT_WINDOW"),
    ] {
        let sql = format!("select count(*) from devices {clause}");
        let error = fault(&sql).await;
        assert_eq!(error.kind(), kind, "{sql}: {error}");
        assert!(error.to_string().contains(says), "{sql}: {error}");
    }
    for (sql, says) in [
        ("select ts, temperature from devices interval(1m)", "needs an aggregate"),
        ("select * from devices interval(1m)", "needs an aggregate"),
        ("select count(*) from (select 1 as x) interval(1m)", "time column"),
        ("select devid, count(*) from devices interval(1m)", "devid"),
        ("select devid, count(*) from devices interval(1m) fill(null)", "devid"),
        ("select count(*) + devid from devices interval(1m) fill(null)", "devid"),
    ] {
        let error = fault(sql).await;
        assert_eq!(error.kind(), Kind::Invalid, "{sql}: {error}");
        assert!(error.to_string().contains(says), "{sql}: {error}");
    }
}

/// Texts that a parser without the rewriting silently misreads.
#[tokio::test]
async fn no_text_is_silently_misread() {
    assert_eq!(run("select tags tbname, devid from devices").await.0, ["tbname", "devid"]);
    for (sql, says) in [
        ("select interval(1) from devices", "INTERVAL(…) is a clause"),
        ("select count(*) from devices where interval(1m)", "INTERVAL(…) is a clause"),
        ("select temperature from devices state_window(status)", "STATE_WINDOW"),
        ("select temperature from devices session(ts)", "SESSION"),
        ("select temperature from devices fill(prev)", "must follow INTERVAL"),
        ("select 1k", "1k"),
        ("select 1st from devices", "1st"),
        ("show db.nothing like '%'", "nothing"),
        ("select 1 limit 1m", "LIMIT"),
    ] {
        let error = fault(sql).await;
        assert!(error.to_string().contains(says), "{sql}: {error}");
    }
    // A duration is one in the select list too.
    assert_eq!(run("select 1b").await.0, ["1b"]);
    assert_eq!(lines("select timestamp '2020-01-01T00:00:00' + 1n").await, ["2020-02-01T00:00:00"]);
    assert_eq!(lines("show db.stables like 'dev%'").await, ["devices"]);
}

#[test]
fn parameters_of_queries_are_counted() {
    for (sql, parameters) in [
        ("select ? where ? > 'a?'", 2),
        ("select $2 + $1 + $2", 2),
        ("(select 1)", 0),
        ("with x as (select 1) select * from x", 0),
        ("explain select ?", 1),
        ("desc t", 0),
    ] {
        assert_eq!(parse(sql, DoubleQuotes::Identifier).unwrap().parameters, parameters, "{sql}");
    }
}

#[tokio::test]
async fn parameters_have_types_that_drivers_can_bind() {
    let sql = "select temperature + ? from devices where ts >= ? and devname = ? and humidity < ? and ? = devid limit ? offset ?";
    let planned = planned_in(&session(), sql).await.unwrap();
    let types: Vec<_> = planned.parameters.iter().map(|f| f.data_type().clone()).collect();
    let ms = DataType::Timestamp(TimeUnit::Millisecond, None);
    assert_eq!(
        types,
        [
            DataType::Int64,
            ms.clone(),
            DataType::Utf8,
            DataType::Float64,
            DataType::Int64,
            DataType::Int64,
            DataType::Int64
        ]
    );
    assert_eq!(planned.parameters[0].name(), "$1");
    let planned = planned_in(&session(), "select count(*) from devices where ts between ? and ? and devid in (?, ?)")
        .await
        .unwrap();
    let types: Vec<_> = planned.parameters.iter().map(|f| f.data_type().clone()).collect();
    assert_eq!(types, [ms.clone(), ms, DataType::Int64, DataType::Int64]);
    assert_eq!(planned_in(&session(), "select ?").await.unwrap().parameters[0].data_type(), &DataType::Utf8);
}

const SEEDS: [&str; 16] = [
    "select * from db.devices where devgroup=0;",
    "select count(temperature), sum(temperature), avg(temperature) from db.devices where devgroup<5 interval(1m);",
    "select _wstart, spread(temperature) from devices where ts > '2019-07-16 04:01:40.0' partition by tbname interval(1d, 2h) sliding(1d) fill(none) order by _wstart limit 1, 2",
    "with x as (select last(*) from devices partition by tbname) select \"last(ts)\" from x",
    "select tags tbname, devid from devices where devname in ('a', \"b\", `devname`)",
    "select (select max(ts) from devices where ts < now - 1h) a, case when 1b > 2u then 3 end from us.points p join us.points q using (ts)",
    "explain analyze select first(humidity) from dev3 union all select 1 order by 1",
    "show create table db.`devices`",
    "show db.stables like '%x\\'%'",
    "describe devices",
    "select ts between ? and ? or ts not in (1, '2019-01-01', now()) from devices",
    "select count(*) over (partition by devid order by ts), date_bin(interval '1 minute', ts) from devices group by all",
    "select * except (ts), d.* from devices d, lateral (select 1) z",
    "use db",
    "values (1, 'a'), (now(), $1)",
    "select sum(v) filter (where v > 1) from us.points group by grouping sets ((v), ()) having sum(v) > 0",
];

/// A random mutation of the seed statements: pieces cut, duplicated, swapped and mixed.
fn mutate(random: &mut StdRng) -> String {
    let mut text: Vec<char> = SEEDS.choose(random).unwrap().chars().collect();
    for _ in 0..random.random_range(0..5) {
        let at = random.random_range(0..=text.len());
        let to = (at + random.random_range(0..12)).min(text.len());
        match random.random_range(0..6) {
            0 => drop(text.drain(at..to)),
            1 => {
                let piece: Vec<char> = text[at..to].to_vec();
                let place = random.random_range(0..=text.len());
                text.splice(place..place, piece);
            }
            2 => {
                let other: Vec<char> = SEEDS.choose(random).unwrap().chars().collect();
                let from = random.random_range(0..other.len());
                let piece = other[from..(from + random.random_range(0..30)).min(other.len())].to_vec();
                text.splice(at..at, piece);
            }
            3 => {
                let bits = [
                    "(",
                    ")",
                    "'",
                    "\"",
                    "`",
                    ",",
                    ".",
                    ";",
                    "?",
                    "$1",
                    "é",
                    "\0",
                    "\u{1f}",
                    "0x",
                    "1e9",
                    "--",
                    "/*",
                    "interval(",
                    " by ",
                    "*",
                    "[",
                    "{",
                ];
                text.splice(at..at, bits.choose(random).unwrap().chars());
            }
            4 => {
                let words = [
                    " interval(1m) ",
                    " partition by tbname ",
                    " tags ",
                    " _wend ",
                    " union ",
                    " select ",
                    " from ",
                    " where ",
                    " group by ",
                    " 9223372036854775808 ",
                    " null ",
                    " 1y ",
                ];
                text.splice(at..at, words.choose(random).unwrap().chars());
            }
            _ => text.truncate(to),
        }
    }
    text.into_iter().collect()
}

#[tokio::test]
async fn no_statement_panics() {
    let seed = std::env::var("TIDELAKE_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(1);
    let rounds = std::env::var("TIDELAKE_FUZZ").ok().and_then(|s| s.parse().ok()).unwrap_or(3_000);
    let mut random = StdRng::seed_from_u64(seed);
    let world = std::sync::Arc::new(world());
    let state = context(&world).state();
    for round in 0..rounds {
        let sql = mutate(&mut random);
        let quotes = if round % 2 == 0 { DoubleQuotes::Identifier } else { DoubleQuotes::Text };
        let session = Session { double_quotes: quotes, ..session() };
        if let Ok(parsed) = parse(&sql, quotes)
            && let Err(e) = plan(&parsed, &state, &session, world.as_ref()).await
        {
            assert_ne!(e.kind(), Kind::Internal, "seed {seed}: {sql}: {e}");
        }
    }
}

#[tokio::test]
async fn long_and_deep_statements_are_answered_or_refused() {
    let deep = format!("select {}1{}", "(".repeat(5_000), ")".repeat(5_000));
    assert!(fault(&deep).await.to_string().contains("deep"));
    let list = (0..20_000).map(|i| i.to_string()).collect::<Vec<_>>().join(",");
    assert_eq!(lines(&format!("select count(*) from devices where devid in ({list})")).await.len(), 1);
    let ors = (0..2_000).map(|i| format!("devid = {i}")).collect::<Vec<_>>().join(" or ");
    assert_eq!(lines(&format!("select count(*) from devices where {ors}")).await.len(), 1);
    let huge = format!("select '{}'", "x".repeat(5 << 20));
    assert!(fault(&huge).await.to_string().contains("too long"));
    let columns = "a, ".repeat(100_000) + "a";
    let e = fault(&format!("select {columns} from devices")).await;
    assert!(e.to_string().contains("too many tokens") && e.context("limit") == Some("200000"), "{e}");
}
