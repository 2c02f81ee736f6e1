//! Valid statements and their results.

use std::collections::BTreeMap;

use tidelake_format::{Kind, access::Principal};
use tidelake_protocol::sql::DoubleQuotes;

use super::support::*;
use crate::session::Session;

/// A timestamp in ms as arrow prints it.
fn time(ms: i64) -> String {
    let t = chrono::DateTime::from_timestamp_millis(ms).unwrap();
    t.format(if ms % 1_000 == 0 { "%Y-%m-%dT%H:%M:%S" } else { "%Y-%m-%dT%H:%M:%S%.3f" }).to_string()
}

/// count, sum, avg, min, max of the temperatures of some rows.
#[derive(Default, Clone)]
struct Sum {
    rows: i64,
    count: i64,
    sum: i64,
    min: Option<i32>,
    max: Option<i32>,
}

impl Sum {
    fn of<'a>(rows: impl Iterator<Item = &'a Row>) -> Self {
        let mut all = Self::default();
        for row in rows {
            all.rows += 1;
            if let Some(t) = row.temperature {
                all.count += 1;
                all.sum += i64::from(t);
                all.min = Some(all.min.map_or(t, |m| m.min(t)));
                all.max = Some(all.max.map_or(t, |m| m.max(t)));
            }
        }
        all
    }

    fn avg(&self) -> f64 {
        self.sum as f64 / self.count as f64
    }
}

fn by_minute(filter: impl Fn(&Row) -> bool) -> BTreeMap<i64, Sum> {
    let mut windows: BTreeMap<i64, Vec<Row>> = BTreeMap::new();
    for row in rows().into_iter().filter(filter) {
        windows.entry(row.ts.div_euclid(60_000) * 60_000).or_default().push(row);
    }
    windows.into_iter().map(|(k, v)| (k, Sum::of(v.iter()))).collect()
}

#[tokio::test]
async fn q1_gives_ts_fields_and_tags_of_a_group() {
    let (names, found) = run("select * from db.devices where devgroup=0;").await;
    assert_eq!(names, ["ts", "temperature", "humidity", "devid", "devname", "devgroup"]);
    assert_eq!(found.len(), rows().iter().filter(|r| r.devgroup == 0).count());
}

#[tokio::test]
async fn q2_gives_every_aggregate_under_its_text() {
    let all = rows();
    let sum = Sum::of(all.iter().filter(|r| r.devgroup < 2));
    for (f, expected) in [
        ("avg", sum.avg().to_string()),
        ("sum", sum.sum.to_string()),
        ("max", sum.max.unwrap().to_string()),
        ("min", sum.min.unwrap().to_string()),
        ("spread", f64::from(sum.max.unwrap() - sum.min.unwrap()).to_string()),
        ("count", sum.count.to_string()),
    ] {
        let (names, found) = run(&format!("select {f}(temperature) from db.devices where devgroup<2;")).await;
        assert_eq!(names, [format!("{f}(temperature)")]);
        assert_eq!(found[0][0].parse::<f64>().unwrap(), expected.parse::<f64>().unwrap(), "{f}");
    }
    let (names, found) = run("select count(*) from db.devices where devgroup<2;").await;
    assert_eq!((names, found), (vec!["count(*)".to_owned()], vec![vec![sum.rows.to_string()]]));
}

#[tokio::test]
async fn q3_groups_by_a_tag() {
    let (names, mut found) = run(
        "select count(temperature), sum(temperature), avg(temperature) from db.devices where devgroup<3 group by devgroup;",
    )
    .await;
    assert_eq!(names, ["count(temperature)", "sum(temperature)", "avg(temperature)"]);
    found.sort();
    let all = rows();
    let mut expected: Vec<Vec<String>> = (0..3)
        .map(|g| {
            let s = Sum::of(all.iter().filter(|r| r.devgroup == g));
            vec![s.count.to_string(), s.sum.to_string(), s.avg().to_string()]
        })
        .collect();
    expected.sort();
    assert_eq!(found, expected);
}

#[tokio::test]
async fn q4_gives_the_selected_columns_ascending_by_minute() {
    let (names, found) = run(
        "select count(temperature), sum(temperature), avg(temperature) from db.devices where devgroup<3 interval(1m);",
    )
    .await;
    assert_eq!(names, ["count(temperature)", "sum(temperature)", "avg(temperature)"]);
    let expected: Vec<Vec<String>> = by_minute(|r| r.devgroup < 3)
        .into_values()
        .map(|s| vec![s.count.to_string(), s.sum.to_string(), s.avg().to_string()])
        .collect();
    assert!(expected.len() >= 3);
    assert_eq!(found, expected);
}

#[tokio::test]
async fn a_window_works_in_every_nested_select() {
    let windows = by_minute(|_| true);
    let counts: Vec<String> = windows.values().map(|s| s.count.to_string()).collect();
    let total: i64 = windows.values().map(|s| s.count).sum();
    let w = "select _wstart, count(temperature) as n from devices interval(1m)";
    assert_eq!(lines(&format!("select n from ({w}) order by _wstart")).await, counts);
    assert_eq!(lines(&format!("with x as ({w}) select n from x order by _wstart")).await, counts);
    assert_eq!(lines(&format!("select (select sum(n) from ({w})) as s")).await, [total.to_string()]);
    assert_eq!(lines(&format!("select sum(n) from ({w}) as t")).await, [total.to_string()]);
    let both = lines(&format!("{w} union all {w}")).await;
    assert_eq!(both.len(), 2 * counts.len());
    assert_eq!(lines(&format!("select count(*) from devices where ts in (select _wstart from ({w}))")).await.len(), 1);
    assert!(lines(&format!("explain {w}")).await.join("\n").contains("window_start"));
    assert!(!lines(&format!("explain analyze {w}")).await.is_empty());
    assert_eq!(lines(&format!("{w} limit 1")).await.len(), 1);
    // A window over windows: the start of the inner window is the time column.
    let outer = format!("select _wstart, sum(n) from ({w}) interval(1d)");
    assert_eq!(lines(&outer).await, [format!("{} {total}", time(T0 - T0 % 86_400_000))]);
}

#[tokio::test]
async fn the_windows_start_end_and_duration_can_be_named_anywhere() {
    let found = lines(
        "select _wstart, _wend, _wduration, count(*) from devices interval(1m) having _wend > 0 order by _wstart desc limit 1",
    )
    .await;
    let (start, sum) = by_minute(|_| true).into_iter().next_back().unwrap();
    assert_eq!(found, [format!("{} {} 60000 {}", time(start), time(start + 60_000), sum.rows)]);
    let found = lines("select count(*) from devices interval(1m, 30s)").await;
    let mut windows: BTreeMap<i64, i64> = BTreeMap::new();
    rows().iter().for_each(|r| *windows.entry((r.ts - 30_000).div_euclid(60_000)).or_default() += 1);
    assert_eq!(found, windows.values().map(i64::to_string).collect::<Vec<_>>());
    assert_eq!(
        lines("select count(*) from devices interval(1m) sliding(1m) fill(none)").await.len(),
        by_minute(|_| true).len()
    );
}

#[tokio::test]
async fn a_row_is_in_every_sliding_window_that_covers_it() {
    for (width, step, offset, clause) in [
        (60, 20, 0, "interval(1m) sliding(20s)"),
        (60, 45, 0, "interval(1m) sliding(45s)"),
        (60, 20, 50, "interval(1m, 50s) sliding(20s)"),
    ] {
        let mut windows: BTreeMap<i64, Vec<Row>> = BTreeMap::new();
        for row in rows().into_iter().filter(|r| r.devgroup == 1) {
            for k in row.ts.div_euclid(step * 1_000) - 10..row.ts.div_euclid(step * 1_000) + 10 {
                let start = (k * step + offset) * 1_000;
                if start <= row.ts && row.ts < start + width * 1_000 {
                    windows.entry(start).or_default().push(row.clone());
                }
            }
        }
        let expected: Vec<String> = windows
            .iter()
            .map(|(start, rows)| {
                let sum = Sum::of(rows.iter());
                format!("{} {} 60000 {} {}", time(*start), time(start + width * 1_000), sum.count, sum.sum)
            })
            .collect();
        let sql = format!(
            "select _wstart, _wend, _wduration, count(temperature), sum(d.temperature) from db.devices d where d.devgroup = 1 {clause}"
        );
        assert_eq!(lines(&sql).await, expected, "{clause}");
        let sql = format!(
            "select count(devices.temperature), last(temperature) from devices where tbname = 'dev1' partition by devices.devid {clause}"
        );
        assert!(!lines(&sql).await.is_empty());
    }
}

#[tokio::test]
async fn generated_names_are_not_accepted_in_statements() {
    let all = lines("select count(*) from devices").await;
    for name in ["__windows_0", "__fill_0", "windows0", "fill0", "filled"] {
        let sql = format!(
            "select sum(n) from (select count(*) n from devices interval(1m) sliding(30s) union all \
             select count(*) from (select ts from devices) \"{name}\")"
        );
        let twice: i64 = lines("select count(*) n from devices interval(1m) sliding(30s)")
            .await
            .iter()
            .map(|n| n.parse::<i64>().unwrap())
            .sum();
        let expected = twice + all[0].parse::<i64>().unwrap();
        assert_eq!(lines(&sql).await, [expected.to_string()], "{name}");
        let sql =
            format!("select count(\"{name}\".ts) from (select ts from devices) \"{name}\" interval(1m) fill(null)");
        assert!(!lines(&sql).await.is_empty(), "{name}");
    }
    let sql = "select count(*) from (select ts, temperature as \"__window_start\" from devices) x interval(1m)";
    let e = run_in(&session(), sql).await.unwrap_err();
    assert!(e.kind() == Kind::Invalid && e.to_string().contains("rename it in a subquery"), "{e}");
    let sql = "select count(*) from devices as \"\u{1f}windows0\" interval(1m)";
    let e = run_in(&session(), sql).await.unwrap_err();
    assert!(e.kind() == Kind::Invalid && e.to_string().contains("U+001F"), "{e}");
}

#[tokio::test]
async fn a_partition_has_its_own_windows_in_order() {
    let found =
        lines("select devgroup, _wstart, count(temperature) from devices partition by devgroup interval(1m)").await;
    let mut expected = Vec::new();
    for g in 0..4 {
        for (start, sum) in by_minute(|r| r.devgroup == g) {
            expected.push(format!("{g} {} {}", time(start), sum.count));
        }
    }
    assert_eq!(found, expected);
    // A tag may be selected with tbname.
    let found =
        lines("select tbname, devgroup, count(*) from devices where devid < 2 partition by tbname interval(1h)").await;
    assert!(found.iter().all(|l| l.starts_with("dev0 0 ") || l.starts_with("dev1 1 ")), "{found:?}");
    let found =
        lines("select tbname, devgroup, avg(humidity) from devices group by tbname order by tbname limit 1").await;
    assert!(found[0].starts_with("dev0 0 "));
    assert_eq!(lines("select tbname, count(*) from devices partition by tbname").await.len(), DEVICES as usize);
}

#[tokio::test]
async fn a_days_window_starts_at_the_sessions_midnight() {
    let berlin = Session { time_zone: chrono_tz::Europe::Berlin, ..session() };
    let (_, found) =
        run_in(&berlin, "select _wstart, count(*) from devices where devid = 0 interval(1d)").await.unwrap();
    // 2019-07-16 00:00 in Berlin.
    assert_eq!(found, [[time(1_563_228_000_000), ROWS.to_string()]]);
}

#[tokio::test]
async fn times_compare_with_ticks_texts_and_durations() {
    let count = |from: i64, to: i64| rows().iter().filter(|r| from <= r.ts && r.ts < to).count().to_string();
    let (a, b) = (T0 + 5_000, T0 + 9_000);
    for condition in [
        format!("ts >= {a} and ts < {b}"),
        format!("{a} <= ts and {b} > ts"),
        format!("ts between {a} and {b} - 1000"),
        format!("ts >= {a} and ts < {a} + 4s"),
        format!("ts >= {a} and ts - 4s < {a}"),
        format!("ts >= {a} and ts < {a} + 4000"),
        format!("_c0 >= {a} and _rowts < {b}"),
        "ts >= '2019-07-16 04:01:45.0' and ts < '2019-07-16T04:01:49Z'".to_owned(),
        "ts >= '2019-07-16T06:01:45+02:00' and ts < '2019-07-16 04:01:48.0000001'".to_owned(),
        "ts > '2019-07-16 04:01:44.9999' and ts <= '2019-07-16 04:01:48.9'".to_owned(),
        "ts between '2019-07-16 04:01:45' and '2019-07-16 04:01:48'".to_owned(),
        format!("ts in ({a}, '2019-07-16 04:01:46', {a} + 2000, {a} + 3s)"),
        "ts >= timestamp '2019-07-16T04:01:45Z' and ts < cast('2019-07-16T04:01:49Z' as timestamp)".to_owned(),
        "ts >= '2019-07-16 04:01:45' and ts < timestamp '2019-07-16T04:01:48.000000001Z'".to_owned(),
        format!("not (ts < {a} or ts >= {b})"),
    ] {
        let found = lines(&format!("select count(*) from devices where {condition}")).await;
        assert_eq!(found, [count(a, b)], "{condition}");
    }
    let all = rows().len().to_string();
    for condition in [
        "ts < now",
        "ts < now()",
        "ts < now - 1h",
        "ts < now() - 1d + 10a",
        "ts < today()",
        "ts <= now() - interval '1 hour'",
        "ts not in (1, 2)",
        "ts < '9999-12-31'",
        "ts > '0001-01-01'",
        "ts != '2019-07-16 04:01:40.5'",
        "ts not between 1 and 2",
    ] {
        assert_eq!(
            lines(&format!("select count(*) from devices where {condition}")).await,
            std::slice::from_ref(&all),
            "{condition}"
        );
    }
    for condition in ["ts = '2019-07-16 04:01:40.5'", "ts > now", "ts = '9999-12-31'", "ts between 2 and 1"] {
        assert_eq!(lines(&format!("select count(*) from devices where {condition}")).await, ["0"], "{condition}");
    }
    let berlin = Session { time_zone: chrono_tz::Europe::Berlin, ..session() };
    let sql = "select count(*) from devices where ts >= '2019-07-16 06:01:45' and ts < '2019-07-16 06:01:49'";
    assert_eq!(run_in(&berlin, sql).await.unwrap().1, [[count(a, b)]]);
    assert_eq!(lines("select v from us.points where ts > 1 and at < 20 or at = 30 order by v").await, ["3"]);
    assert_eq!(
        lines("select v from us.points where ts between 2 and '1970-01-01 00:00:03' order by v").await,
        ["2", "3"]
    );
}

#[tokio::test]
async fn comparisons_of_time_reach_the_scan_as_plain_literals() {
    for condition in [
        "ts >= 1563249705000",
        "ts >= '2019-07-16 04:01:45.0'",
        "ts >= timestamp '2019-07-16T04:01:45Z'",
        "ts > now() - 1h",
        "ts between now - 1d and now",
        "ts in (1563249705000)",
        "ts < today()",
    ] {
        let planned = planned_in(&session(), &format!("select count(*) from devices where {condition}")).await.unwrap();
        let world = std::sync::Arc::new(world());
        let plan = context(&world).state().optimize(&planned.plan).unwrap().display_indent().to_string();
        let filter = plan.lines().find(|l| l.contains("Filter:") || l.contains("filters=")).unwrap_or_default();
        assert!(
            filter.contains("TimestampMillisecond(") && !filter.contains("CAST") && !filter.contains("tick"),
            "{condition}: {plan}"
        );
    }
}

#[tokio::test]
async fn first_last_and_last_row_are_ordered_by_time() {
    let all = rows();
    let latest = all.iter().filter(|r| r.temperature.is_some()).map(|r| r.ts).max().unwrap();
    let expected = all.iter().filter(|r| r.ts == latest).filter_map(|r| r.temperature).max().unwrap();
    let (names, found) = run("select last(temperature), LAST(ts) from devices").await;
    assert_eq!(names, ["last(temperature)", "LAST(ts)"]);
    assert_eq!(found, [[expected.to_string(), time(all.iter().map(|r| r.ts).max().unwrap())]]);
    let (names, found) = run("select last(*) from devices where devid = 3").await;
    assert_eq!(names, ["last(ts)", "last(temperature)", "last(humidity)"]);
    let of = |f: &dyn Fn(&&Row) -> bool| all.iter().rfind(f).unwrap().clone();
    let t = of(&|r| r.devid == 3 && r.temperature.is_some()).temperature.unwrap();
    let h = of(&|r| r.devid == 3).humidity;
    assert_eq!(found[0][1..], [t.to_string(), format!("{h:?}")]);
    let found =
        lines("select tbname, first(temperature), last_row(temperature) from devices group by tbname order by tbname")
            .await;
    let mut expected: Vec<String> = (0..DEVICES)
        .map(|d| {
            let own: Vec<&Row> = all.iter().filter(|r| i64::from(r.devid) == d).collect();
            let first = own.iter().find_map(|r| r.temperature).unwrap();
            let last = own.last().unwrap().temperature.map_or("-".to_owned(), |t| t.to_string());
            format!("dev{d} {first} {last}")
        })
        .collect();
    expected.sort_by_key(|l| l.split(' ').next().unwrap().to_owned());
    assert_eq!(found, expected);
    assert_eq!(lines("select last(d.temperature) from devices d where devid = 3").await, [t.to_string()]);
    assert_eq!(lines("select last(temperature) from devices where devid = 999").await, ["-"]);
}

#[tokio::test]
async fn stddev_is_of_the_population() {
    let values: Vec<f64> = rows().iter().filter_map(|r| r.temperature).map(f64::from).collect();
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let expected = (values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / values.len() as f64).sqrt();
    let found: f64 = lines("select stddev(temperature) from devices").await[0].parse().unwrap();
    assert!((found - expected).abs() < 1e-9 * expected);
    assert_eq!(lines("select spread(temperature), spread(ts) from devices where devid=99").await, ["- -"]);
    assert_eq!(lines("select spread(ts) from devices").await, [format!("{:?}", ((ROWS - 1) * 1_000) as f64)]);
}

#[tokio::test]
async fn names_are_the_select_text_and_may_repeat() {
    for (sql, expected) in [
        (
            "select avg(temperature)  +  1, Max( humidity ) from devices",
            &["avg(temperature) + 1", "Max( humidity )"][..],
        ),
        ("select count(*), count(*), count(*) c from devices", &["count(*)", "count(*)", "c"]),
        (
            "select ts, ts, d.ts, devices from (select ts, devid as devices from devices) d",
            &["ts", "ts", "ts", "devices"],
        ),
        ("select 1, 1, -1, 'a b', now() > 0", &["1", "1", "-1", "'a b'", "now() > 0"]),
        ("select avg(temperature) as AvgT, temperature/10 as B from devices group by b order by avgt", &["AvgT", "B"]),
        ("select \"avg(temperature)\" from (select avg(temperature) from devices)", &["avg(temperature)"]),
        ("select TS, Temperature t from DB.Devices limit 1", &["ts", "t"]),
        ("select _wstart, /* n */ count(*)\n from devices interval(1m)", &["_wstart", "count(*)"]),
        ("select count(*) from devices union all select 1", &["count(*)"]),
        ("select a.*, b.v from us.points a join us.points b on a.ts = b.ts", &["ts", "v", "at", "v"]),
        ("select * from us.points a join us.points b using (ts)", &["ts", "v", "at", "v", "at"]),
        ("select * except (ts, at) from us.points", &["v"]),
        ("select x.* from (select *, tbname from us.points) x", &["ts", "v", "at", "tbname"]),
        ("select database(), server_status()", &["database()", "server_status()"]),
        ("select * from information_schema.schemata", &["catalog_name", "schema_name", "schema_owner"]),
    ] {
        assert_eq!(run(sql).await.0, expected, "{sql}");
    }
}

#[tokio::test]
async fn names_match_without_case_when_unique() {
    let expected = ["a 1", "a 4", "b 2"];
    for sql in [
        "select tbname, value from mixed order by host, time",
        "select TBNAME, VALUE from DB.MIXED order by HOST, TIME",
        "select m.tbname, M.value from Db.Mixed m order by m.host, M.`Time`",
        "select mixed.tbname, db.mixed.\"Value\" from \"db\".`Mixed` order by 1, 2",
        "select n, v from (select tbname as N, Value as V from mixed) order by N, V",
        "with C as (select tbname n, value from Mixed) select n, VALUE from c order by N, c.value",
    ] {
        assert_eq!(lines(sql).await, expected, "{sql}");
    }
    assert_eq!(lines("select count(*) from mixed where exists (select 1 from us.points where v = Value)").await, ["2"]);
    assert_eq!(lines("select max(Value) from mixed interval(1m)").await, ["2", "4"]);
}

#[tokio::test]
async fn a_series_is_a_table_of_its_own_rows() {
    let (names, found) = run("select * from dev3").await;
    assert_eq!(names, ["ts", "temperature", "humidity"]);
    assert_eq!(found.len(), ROWS as usize);
    assert_eq!(lines("select count(*), max(devid) from db.dev3 where dev3.devgroup = 3").await, [format!("{ROWS} 3")]);
    assert_eq!(lines("select count(*) from dev3 x interval(1d)").await, [ROWS.to_string()]);
}

#[tokio::test]
async fn select_tags_returns_one_row_per_series() {
    let (names, found) = run("select tags tbname, devgroup from devices where devid < 3").await;
    assert_eq!(names, ["tbname", "devgroup"]);
    assert_eq!(found.len(), 3);
    assert_eq!(run("select distinct devgroup from devices").await.1.len(), 4);
}

#[tokio::test]
async fn the_session_sets_the_meaning_of_double_quotes() {
    let text = Session { double_quotes: DoubleQuotes::Text, ..session() };
    for (session, sql) in [
        (&text, "select count(*) from devices where devname = \"dev_1\""),
        (&text, r"select count(*) from devices where devname = 'dev_1' or devname = 'o\'x'"),
        (&session(), "select count(*) from devices where \"devname\" = 'dev_1'"),
        (&session(), "select count(*) from devices where `devname` = 'dev_1' or devname = 'o''x'"),
    ] {
        assert_eq!(run_in(session, sql).await.unwrap().1, [[ROWS.to_string()]], "{sql}");
    }
}

#[tokio::test]
async fn plain_sql_stays_what_it_is() {
    for (sql, expected) in [
        ("select v from us.points order by v limit 1, 2", vec!["2", "3"]),
        ("select v from us.points order by v limit 1 offset 2", vec!["3"]),
        ("select v from us.points order by v desc offset 2", vec!["1"]),
        (
            "select v % 2 as odd, count(*) from us.points group by odd having count(*) > 0 order by odd",
            vec!["0 1", "1 2"],
        ),
        ("select v + 1, v * 2.5 from us.points where v - 1 = 0", vec!["2 2.5"]),
        ("values (1, 'a'), (2, 'b')", vec!["1 a", "2 b"]),
        ("select case when v > 1 then 'x' else 'y' end from us.points order by v", vec!["y", "x", "x"]),
        ("select count(*) from us.points where at is distinct from null", vec!["2"]),
        ("select sum(v) over (order by ts) from us.points order by 1", vec!["1", "3", "6"]),
        ("select sum(v) over (partition by tbname order by ts) from us.points order by 1", vec!["1", "3", "6"]),
        ("select interval '1 hour' + timestamp '2020-01-01T00:00:00'", vec!["2020-01-01T01:00:00"]),
        ("select tags from (select 1 as tags) t", vec!["1"]),
        ("select fill from (select 2 as fill) session", vec!["2"]),
        (
            "with recursive n as (select 1 as i union all select i + 1 from n where i < 3) select i from n order by i",
            vec!["1", "2", "3"],
        ),
        ("select v from us.points where v in (select max(v) from us.points)", vec!["3"]),
        ("select extract(year from ts), datepart('minute', ts) from us.points where v = 3", vec!["1970 0"]),
        (
            "select date_bin(interval '60 second', ts, timestamp '1970-01-01T00:00:00Z') as c_binned, count(*) from us.points group by 1",
            vec!["1970-01-01T00:00:00 3"],
        ),
        ("select a.v from us.points a left join us.points b on a.v = b.v + 1 where b.v is null", vec!["1"]),
        ("(select 1) union (select 1)", vec!["1"]),
        ("select -- no ? here\n 'why?' as \"q?\" /* ? */", vec!["why?"]),
        ("select min(v), max(v) from (select v from us.points union all select 10)", vec!["1 10"]),
        ("select cast(ts as bigint) from us.points where v = 2", vec!["2"]),
        ("select ts + 1s, ts - 1u from us.points where v = 3", vec!["1970-01-01T00:00:04 1970-01-01T00:00:02.999999"]),
        ("select ts + 1 from us.points where v = 1", vec!["1970-01-01T00:00:00.000002"]),
    ] {
        assert_eq!(lines(sql).await, expected, "{sql}");
    }
}

#[tokio::test]
async fn session_functions_return_session_settings() {
    assert_eq!(lines("select database(), current_database(), current_schema()").await, ["db db db"]);
    assert_eq!(run_in(&Session::of(Principal::AUTH_OFF), "select database()").await.unwrap().1, [["-"]]);
    assert_eq!(lines("select server_status(), timezone(), current_user()").await, ["1 UTC root"]);
    assert!(lines("SELECT SERVER_VERSION()").await[0].starts_with("3."));
    assert_eq!(run("select server_version()  as version").await.0, ["version"]);
}

#[tokio::test]
async fn grafana_and_jdbc_can_browse() {
    assert_eq!(
        lines("SELECT DISTINCT TABLE_SCHEMA from information_schema.TABLES where TABLE_TYPE != 'SYSTEM VIEW' ORDER BY TABLE_SCHEMA").await,
        ["db", "us"]
    );
    let tables = "SELECT table_name FROM information_schema.tables WHERE table_schema = database() ORDER BY table_name";
    assert_eq!(lines(tables).await, ["Mixed", "devices"]);
    assert_eq!(
        lines("SELECT column_name, data_type FROM information_schema.columns WHERE table_schema = 'us' AND table_name = 'points' ORDER BY column_name").await,
        ["at TIMESTAMP", "ts TIMESTAMP", "v INT"]
    );
    assert_eq!(
        lines("select name, `precision` as `precision` from information_schema.ins_databases order by name").await,
        ["db ms", "us us"]
    );
    let sql = "select stable_name from information_schema.ins_stables where 1 = 1  and db_name = 'db' order by 1";
    assert_eq!(lines(sql).await, ["Mixed", "devices"]);
    assert_eq!(
        lines("select count(*) from information_schema.ins_tags where stable_name='devices'").await,
        [(3 * DEVICES).to_string()]
    );
}

#[tokio::test]
async fn show_and_describe_return_what_tdengine_does() {
    assert_eq!(
        run("show  databases;").await,
        (vec!["name".to_owned()], vec![vec!["db".to_owned()], vec!["us".to_owned()]])
    );
    assert_eq!(lines("show databases like 'u%'").await, ["us"]);
    assert_eq!(
        run("show `db`.stables like '%'").await,
        (vec!["stable_name".to_owned()], vec![vec!["Mixed".to_owned()], vec!["devices".to_owned()]])
    );
    assert_eq!(lines("SHOW TABLES LIKE 'dev1_'").await.len(), 10);
    assert!(lines("show db.views like '%'").await.is_empty());
    let (names, found) = run("describe `db`.`devices`").await;
    assert_eq!(names, ["field", "type", "length", "note"]);
    assert_eq!(found[4], ["devname", "VARCHAR", "16", "TAG"]);
    assert_eq!(found[0], ["ts", "TIMESTAMP", "8", ""]);
    assert_eq!(run("desc devices").await.1, found);
    let (names, found) = run("show create table devices").await;
    assert_eq!(names, ["Table", "Create Table"]);
    assert_eq!(
        found[0][1],
        "CREATE STABLE `devices` (`ts` TIMESTAMP, `temperature` INT, `humidity` FLOAT) TAGS (`devid` INT, `devname` VARCHAR(16), `devgroup` INT)"
    );
    assert!(lines("show create database db").await[0].contains("PRECISION 'ms'"));
    assert_eq!(
        lines("show tags from dev3").await,
        ["dev3 db devices devid INT 3", "dev3 db devices devname VARCHAR(16) dev_3", "dev3 db devices devgroup INT -"]
    );
}
