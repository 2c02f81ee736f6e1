//! `FILL(…)`: filled windows, compared with windows computed from the generated rows.

use std::collections::BTreeMap;

use super::support::*;

/// The windows of one group: their starts in ms, the maximum of the temperatures, and their number.
type Windows = BTreeMap<i64, (Option<i32>, i64)>;

/// The windows with rows of a group, found by trying each window of each row.
fn windows(rows: &[Row], width: i64, step: i64) -> Windows {
    let mut windows = Windows::new();
    for row in rows {
        let mut start = row.ts.div_euclid(step) * step;
        while start > row.ts - width {
            let (max, count) = windows.entry(start).or_default();
            *max = (*max).max(row.temperature);
            *count += i64::from(row.temperature.is_some());
            start -= step;
        }
    }
    windows
}

/// Every start of a window that overlaps `[from, to]`.
fn starts(from: i64, to: i64, width: i64, step: i64) -> Vec<i64> {
    let first = (from - width).div_euclid(step) * step;
    (0..).map(|k| first + k * step).skip_while(|start| start + width <= from).take_while(|start| *start <= to).collect()
}

/// The value that a mode fills in for the missing window at `at`.
fn filled(known: &BTreeMap<i64, i64>, at: i64, mode: &str, constant: Option<i64>) -> Option<i64> {
    if let Some(value) = known.get(&at) {
        return Some(*value);
    }
    let before = known.range(..at).next_back();
    let after = known.range(at..).next();
    match mode {
        "null" => None,
        "value" => constant,
        "prev" => before.map(|(_, v)| *v),
        "next" => after.map(|(_, v)| *v),
        "near" => match (before, after) {
            (Some((b, v)), Some((a, _))) if at - b <= a - at => Some(*v),
            (_, Some((_, v))) | (Some((_, v)), None) => Some(*v),
            (None, None) => None,
        },
        "linear" => {
            let ((b, low), (a, high)) = (before?, after?);
            let value = *low as f64 + (high - low) as f64 * (at - b) as f64 / (a - b) as f64;
            Some(value.trunc() as i64)
        }
        other => panic!("{other}"),
    }
}

fn text(value: Option<i64>) -> String {
    value.map_or("-".to_owned(), |v| v.to_string())
}

/// The expected lines of a statement: the group's number, then start, maximum and number of rows of each window.
fn expected(groups: &[(Option<i32>, Windows)], range: &[i64], mode: &str) -> Vec<String> {
    let mut lines = Vec::new();
    for (group, windows) in groups.iter().filter(|(_, windows)| !windows.is_empty()) {
        let max = windows.iter().filter_map(|(at, (max, _))| Some((*at, i64::from((*max)?)))).collect();
        let count = windows.iter().map(|(at, (_, count))| (*at, *count)).collect();
        for at in range {
            let values = [filled(&max, *at, mode, Some(-7)), filled(&count, *at, mode, Some(9))].map(text);
            let group = group.map_or(String::new(), |group| format!("{group} "));
            lines.push(format!("{group}{at} {} {}", values[0], values[1]));
        }
    }
    lines
}

const MODES: [&str; 6] = ["null", "value", "prev", "next", "near", "linear"];

fn clause(mode: &str) -> String {
    if mode == "value" { "fill(value, -7, 9)".to_owned() } else { format!("fill({mode})") }
}

#[tokio::test]
async fn windows_without_rows_are_filled_in_every_mode() {
    // Few rows match, so most windows have none; some have rows without a temperature.
    let keep = |r: &Row| r.devid == 3 && r.humidity > 8.0;
    let rows: Vec<Row> = rows().into_iter().filter(keep).collect();
    for (width, step, windowed) in [
        (1_000, 1_000, "interval(1s)"),
        (4_000, 4_000, "interval(4s)"),
        (4_000, 1_000, "interval(4s) sliding(1s)"),
        (3_000, 2_000, "interval(3s) sliding(2s)"),
    ] {
        let (from, to) = (T0 - 20_000, T0 + ROWS * 1_000 + 20_000);
        for mode in MODES {
            let sql = format!(
                "select cast(_wstart as bigint), max(temperature), count(temperature) from devices
                 where devid = 3 and humidity > 8 and ts >= {from} and ts < {to} {windowed} {}",
                clause(mode)
            );
            let groups = [(None, windows(&rows, width, step))];
            assert_eq!(lines(&sql).await, expected(&groups, &starts(from, to - 1, width, step), mode), "{sql}");
        }
    }
}

#[tokio::test]
async fn each_partition_is_filled_separately() {
    // The time range begins and ends within a window.
    let (from, to) = (T0 + 5_000, T0 + 160_000);
    let groups: Vec<(Option<i32>, Windows)> = (0..4)
        .map(|group| {
            let of = |r: &Row| r.devgroup == group && r.humidity > 9.5 && r.devid < 3 && (from..=to).contains(&r.ts);
            (Some(group), windows(&rows().into_iter().filter(of).collect::<Vec<_>>(), 2_000, 2_000))
        })
        .collect();
    assert!(groups[3].1.is_empty(), "a group without rows has no windows");
    for mode in MODES {
        let sql = format!(
            "select devgroup, cast(_wstart as bigint), max(temperature), count(temperature) from devices
             where humidity > 9.5 and devid < 3 and ts > {} and ts <= {to}
             partition by devgroup interval(2s) {}",
            from - 1,
            clause(mode)
        );
        assert_eq!(lines(&sql).await, expected(&groups, &starts(from, to, 2_000, 2_000), mode), "{sql}");
    }
}

#[tokio::test]
async fn other_items_are_computed_for_filled_windows_too() {
    let found = lines(
        "select devgroup + 1, cast(_wstart as bigint) - 1, cast(_wend as bigint), _wduration, 7 as seven, d.tbname, first(temperature) as f
         from devices d where tbname = 'dev1' and (ts = 1563249702000 or ts = 1563249705000)
         partition by tbname, devgroup interval(1s) fill(prev) order by _wstart desc, f",
    )
    .await;
    let temperature = |second: i64| {
        let row = rows().into_iter().find(|r| r.devid == 1 && r.ts == T0 + second * 1_000).unwrap();
        text(row.temperature.map(i64::from))
    };
    let line = |second: i64, of: i64| {
        let start = T0 + second * 1_000;
        format!("2 {} {} 1000 7 dev1 {}", start - 1, start + 1_000, temperature(of))
    };
    assert_eq!(found, [line(5, 5), line(4, 2), line(3, 2), line(2, 2)]);
    let found = lines(
        "select devid % 2, (select max(devid) from devices where devid % 2 = 0), count(*) from devices
         where ts >= 1563249699000 and ts < 1563249701000 partition by devid % 2 interval(1s) fill(value, 0)",
    )
    .await;
    assert_eq!(found, ["0 18 0", "0 18 10", "1 18 0", "1 18 10"], "the name in the nested query is another one's");
    let named = run(
        "select avg(temperature) a, devgroup, count(*) from devices where ts >= 1563249700000 and ts < 1563249701000
         partition by devgroup interval(1s) fill(linear) order by a, devgroup",
    )
    .await
    .0;
    assert_eq!(named, ["a", "devgroup", "count(*)"]);
}

#[tokio::test]
async fn without_a_time_range_the_rows_themselves_are_the_range() {
    let of = |sql: &str| {
        let sql = format!("select cast(_wstart as bigint), count(*) from {sql}");
        async move { lines(&sql).await }
    };
    let some = "devid = 1 and (ts = 1563249701000 or ts = 1563249704000)";
    let line = |second: i64, count: &str| format!("{} {count}", T0 + second * 1_000);
    let between = [line(1, "1"), line(2, "-"), line(3, "-"), line(4, "1")];
    assert_eq!(of(&format!("devices where {some} interval(1s) fill(null)")).await, between);
    // Only one bound.
    let after: Vec<String> = between.iter().cloned().chain([line(5, "-"), line(6, "-")]).collect();
    assert_eq!(of(&format!("devices where {some} and ts <= 1563249706000 interval(1s) fill(null)")).await, after);
    // A subquery's conditions count as well.
    let inner = format!("(select ts from devices where {some} and ts <= 1563249706000)");
    assert_eq!(of(&format!("{inner} interval(1s) fill(null)")).await, after);
    let renamed = format!("(select ts as at from devices d where {some} and d.ts <= 1563249706000)");
    assert_eq!(of(&format!("{renamed} interval(1s) fill(null)")).await, after);
}

#[tokio::test]
async fn bounds_may_be_texts_between_and_calls() {
    let count = |condition: &str| {
        let sql = format!("select count(*) from devices where {condition} interval(1s) fill(value, 0)");
        async move { lines(&sql).await.len() }
    };
    assert_eq!(count("ts between '2019-07-16T04:01:30Z' and '2019-07-16T04:01:49Z'").await, 20);
    assert_eq!(count("ts >= '2019-07-16 04:01:30' and '2019-07-16 04:01:49.0005' >= ts").await, 20);
    assert_eq!(count("ts > '2019-07-16 04:01:29.9995' and ts < '2019-07-16 04:01:49.0005'").await, 20);
    assert_eq!(count("ts >= 1563249700000 - 10s and ts < 1563249700000 + 10s").await, 20);
    assert_eq!(count("ts = 1563249700000").await, 1);
    assert!(count("ts >= 1563249700000 and ts < now() and ts <= 1563249709000").await == 10);
    assert_eq!(count("ts >= 1563249700000 and ts <= NULL").await, 0);
    assert_eq!(count("ts >= 1563249709000 and ts <= 1563249700000").await, 0);
}

#[tokio::test]
async fn a_range_without_rows_is_filled_by_forced_modes() {
    for (mode, value) in
        [("null", "-"), ("value, 3", "3"), ("prev", "-"), ("next", "-"), ("near", "-"), ("linear", "-")]
    {
        let sql = |mode: &str| {
            format!("select count(*) from devices where ts >= 1000 and ts < 4000 interval(1s) fill({mode})")
        };
        assert_eq!(lines(&sql(mode)).await, Vec::<String>::new());
        let forced = match mode.split_once(',') {
            Some((mode, constant)) => format!("{mode}_f,{constant}"),
            None => format!("{mode}_f"),
        };
        assert_eq!(lines(&sql(&forced)).await, [value; 3], "{forced}");
    }
    let keyed =
        "select count(*) from devices where ts >= 1000 and ts < 4000 partition by tbname interval(1s) fill(null_f)";
    assert!(lines(keyed).await.is_empty(), "no group is known");
}

#[tokio::test]
async fn values_of_texts_and_times_are_filled() {
    let sql = |mode: &str| {
        format!(
            "select last(devname), cast(max(ts) as bigint), avg(humidity) from devices
             where devid = 1 and (ts = 1563249701000 or ts = 1563249704000) interval(1s) fill({mode})"
        )
    };
    let humidity = |second: i64| ((1 + second) % 22) as f64 / 2.0;
    let row = |name: &str, at: Option<i64>, humidity: &str| format!("{name} {} {humidity}", text(at));
    let first = row("dev_1", Some(T0 + 1_000), &format!("{:?}", humidity(1)));
    let last = row("dev_1", Some(T0 + 4_000), &format!("{:?}", humidity(4)));
    let found = lines(&sql("linear")).await;
    let third = humidity(1) + (humidity(4) - humidity(1)) / 3.0;
    assert_eq!(found[1], row("-", Some(T0 + 2_000), &format!("{third:?}")));
    assert_eq!((&found[0], &found[3]), (&first, &last));
    assert_eq!(lines(&sql("value, 'none', 5, 1.5")).await[2], row("none", Some(5), "1.5"));
    assert_eq!(lines(&sql("prev")).await, [&first, &first, &first, &last].map(Clone::clone));
}

#[tokio::test]
async fn calendar_windows_are_filled_with_their_own_lengths() {
    let found = lines(
        "select cast(_wstart as date), count(*) from devices where ts >= '2019-01-15' and ts < '2020-03-01' interval(1n) fill(value, 0)",
    )
    .await;
    assert_eq!(found.len(), 14);
    assert_eq!((found[0].as_str(), found[1].as_str()), ("2019-01-01 0", "2019-02-01 0"));
    assert_eq!(found[6], format!("2019-07-01 {}", DEVICES * ROWS));
    assert_eq!(found[13], "2020-02-01 0");
}

#[tokio::test]
async fn a_fill_works_in_every_nested_select() {
    let w = "select _wstart as w, count(*) as n from devices where ts >= 1563249690000 and ts < 1563249710000 interval(1s) fill(value, 0)";
    let zeros = lines(&format!("select count(*) from ({w}) where n = 0")).await;
    assert_eq!(zeros, ["10"]);
    assert_eq!(lines(&format!("with x as ({w}) select count(*) from x, x as y where x.w = y.w")).await, ["20"]);
    assert_eq!(lines(&format!("{w} union all {w}")).await.len(), 40);
    assert_eq!(lines(&format!("select (select sum(n) from ({w}))")).await, [(DEVICES * 10).to_string()]);
    let plan = lines(&format!("explain {w}")).await.join("\n");
    assert!(plan.contains("FillGaps: VALUE, every 1s") && plan.contains("FillGapsExec"), "{plan}");
    // A name similar to the generated names of filled subqueries.
    assert_eq!(lines("select x from (select 1 as x) as __fill_0").await, ["1"]);
}

#[tokio::test]
async fn filled_rows_follow_order_by() {
    let select = "select devgroup, cast(_wstart as bigint) s, count(*) n from devices
         where devid < 2 and ts >= 1563249699000 and ts < 1563249701000 partition by devgroup interval(1s) fill(value, 0)";
    let line = |group: i32, second: i64, count: i32| format!("{group} {} {count}", T0 + second * 1_000);
    let [a, b, c, d] = [line(0, -1, 0), line(0, 0, 1), line(1, -1, 0), line(1, 0, 1)];
    for (order, expected) in [
        ("", [&a, &b, &c, &d]),
        (" order by devgroup, _wstart desc", [&b, &a, &d, &c]),
        (" order by devgroup desc, _wstart", [&c, &d, &a, &b]),
        (" order by devgroup, n desc", [&b, &a, &d, &c]),
        (" order by -n, coalesce(devgroup, 0)", [&b, &d, &a, &c]),
        (" order by 3, 1 desc", [&c, &a, &d, &b]),
        (" order by n desc, devgroup desc", [&d, &b, &c, &a]),
    ] {
        assert_eq!(lines(&format!("{select}{order}")).await, expected.map(Clone::clone), "{order}");
    }
    let before = "select devgroup, s, lag(n) over (partition by devgroup order by s desc) from";
    let found = lines(&format!("{before} ({select}) order by devgroup, s")).await;
    let line = |group: i32, second: i64, count: &str| format!("{group} {} {count}", T0 + second * 1_000);
    assert_eq!(found, [line(0, -1, "1"), line(0, 0, "-"), line(1, -1, "1"), line(1, 0, "-")]);
}

#[tokio::test]
async fn a_condition_without_columns_is_applied_to_filled_windows() {
    let filled = "select count(*) n from devices where ts >= 1000 and ts < 4000 interval(1s) fill(null_f)";
    let of = |condition: &str| {
        let sql = format!("select count(*) from ({filled}) where {condition}");
        async move { lines(&sql).await }
    };
    assert_eq!(of("true").await, ["3"]);
    assert_eq!(of("(select max(devid) from devices) > 1000").await, ["0"]);
    assert_eq!(of("(select max(devid) from devices) > 10").await, ["3"]);
}

#[tokio::test]
async fn a_condition_on_a_key_is_applied_before_gaps_are_filled() {
    let sql =
        "select * from (select devgroup, _wstart, count(*) from devices partition by devgroup interval(1s) fill(null))
               where devgroup = 2";
    assert_eq!(lines(sql).await.len() as i64, ROWS);
    let plan = lines(&format!("explain {sql}")).await.join("\n");
    let (fill, filter) = (plan.find("FillGaps").unwrap(), plan.find("devgroup = Int32(2)").unwrap());
    assert!(fill < filter, "{plan}");
}
