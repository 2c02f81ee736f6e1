//! Random queries over random states, against the rows.

use std::collections::{BTreeMap, BTreeSet};

use futures::StreamExt;
use rand::{Rng, SeedableRng, rngs::StdRng};
use tidelake_format::types::Type;

use super::{
    batches_in, engine, explain, float, lines, lines_in, ordered_lines, session, text,
    world::{START, STEPS, Tags, Values, World},
};
use crate::{
    engine::Engine,
    session::{Levels, Session, TagEncoding},
};

/// One logical row.
struct Row<'a> {
    name: &'a str,
    ts: i64,
    tags: &'a Tags,
    values: &'a Values,
}

type Test = Box<dyn Fn(&Row<'_>) -> bool + Send + Sync>;

/// A random WHERE with its meaning.
fn condition(rng: &mut StdRng) -> (String, Test) {
    let mut parts: Vec<(String, Test)> = Vec::new();
    let n = rng.random_range(0..4);
    match rng.random_range(0..8) {
        0 => parts.push((format!("g < {n}"), Box::new(move |r| r.tags.0.is_some_and(|g| g < n)))),
        1 => parts.push((format!("g = {n} or s = 'x'"), {
            Box::new(move |r| r.tags.0 == Some(n) || r.tags.1.as_deref() == Some("x"))
        })),
        2 => parts.push((format!("tbname in ('d{n}', 'd5')"), {
            Box::new(move |r| r.name == format!("d{n}") || r.name == "d5")
        })),
        3 => parts.push(("s is null".to_owned(), Box::new(|r| r.tags.1.is_none()))),
        _ => (),
    }
    let from = START + rng.random_range(-2..STEPS) * 1_000 + rng.random_range(0..2) * 500;
    let to = from + rng.random_range(0..20_000);
    match rng.random_range(0..6) {
        0 => parts.push((format!("ts >= {from} and ts < {to}"), Box::new(move |r| (from..to).contains(&r.ts)))),
        1 => parts.push((format!("ts > {from}"), Box::new(move |r| r.ts > from))),
        2 => parts.push((format!("ts between {from} and {to}"), Box::new(move |r| (from..=to).contains(&r.ts)))),
        3 => parts.push((format!("ts <= {to}"), Box::new(move |r| r.ts <= to))),
        _ => (),
    }
    let k = rng.random_range(-20..20);
    match rng.random_range(0..30) {
        0..4 => parts.push((format!("a > {k}"), Box::new(move |r| r.values.0.is_some_and(|a| a > k)))),
        4 => parts.push((format!("a <= {k} or b is null"), {
            Box::new(move |r| r.values.0.is_some_and(|a| a <= k) || r.values.1.is_none())
        })),
        5 => parts.push((format!("not (a = {k})"), Box::new(move |r| r.values.0.is_some_and(|a| a != k)))),
        6 => parts.push((format!("b >= {} and a is not null", f64::from(k) + 0.5), {
            Box::new(move |r| r.values.1.is_some_and(|b| b >= f64::from(k) + 0.5) && r.values.0.is_some())
        })),
        7 => parts.push((format!("a in ({k}, {}, 3)", k + 1), {
            Box::new(move |r| r.values.0.is_some_and(|a| [k, k + 1, 3].contains(&a)))
        })),
        8 => parts.push((format!("a not between {k} and {}", k + 9), {
            Box::new(move |r| r.values.0.is_some_and(|a| !(k..=k + 9).contains(&a)))
        })),
        9 => parts.push(("a < b".to_owned(), {
            Box::new(|r| r.values.0.zip(r.values.1).is_some_and(|(a, b)| f64::from(a) < b))
        })),
        10 => parts.push(("c is not null and c <> ''".to_owned(), {
            Box::new(|r| r.values.2.as_ref().is_some_and(|c| !c.is_empty()))
        })),
        11 => parts.push((format!("ts <> {from} and (ts < {from} or ts > {to})"), {
            Box::new(move |r| r.ts != from && (r.ts < from || r.ts > to))
        })),
        12 => parts.push(("a is distinct from 3".to_owned(), Box::new(|r| r.values.0 != Some(3)))),
        _ => (),
    }
    if rng.random_bool(0.05) {
        parts.push(("(g = 1 or b > 0)".to_owned(), {
            Box::new(|r| r.tags.0 == Some(1) || r.values.1.is_some_and(|b| b > 0.0))
        }));
    }
    let sql = parts.iter().map(|(sql, _)| format!("({sql})")).collect::<Vec<_>>().join(" and ");
    let sql = if sql.is_empty() { sql } else { format!(" where {sql}") };
    (sql, Box::new(move |row| parts.iter().all(|(_, test)| test(row))))
}

type Column = (&'static str, fn(&Row<'_>) -> String);

const COLUMNS: [Column; 7] = [
    ("ts", |r| r.ts.to_string()),
    ("a", |r| text(r.values.0)),
    ("b", |r| text(r.values.1.map(float))),
    ("c", |r| text(r.values.2.clone())),
    ("g", |r| text(r.tags.0)),
    ("s", |r| text(r.tags.1.clone())),
    ("tbname", |r| r.name.to_owned()),
];

const KEYS: [(&str, fn(&Row<'_>) -> String); 12] = [
    ("g", |r| text(r.tags.0)),
    ("s", |r| text(r.tags.1.clone())),
    ("tbname", |r| r.name.to_owned()),
    ("g % 2", |r| text(r.tags.0.map(|g| g % 2))),
    ("date_bin(interval '7 seconds', ts)", |r| (r.ts.div_euclid(7_000) * 7_000).to_string()),
    ("date_bin(interval '40 seconds', ts, timestamp '1970-01-01 00:00:03')", |r| {
        ((r.ts - 3_000).div_euclid(40_000) * 40_000 + 3_000).to_string()
    }),
    ("date_trunc('second', ts)", |r| (r.ts.div_euclid(1_000) * 1_000).to_string()),
    ("date_trunc('MINUTE', ts)", |r| (r.ts.div_euclid(60_000) * 60_000).to_string()),
    ("a % 3", |r| text(r.values.0.map(|a| a % 3))),
    ("floor(a / 4)", |r| text(r.values.0.map(|a| float(f64::from(a / 4))))),
    ("case when a < -5 then 'low' when a < 7 then 'middle' else 'high' end", |r| {
        let class = |a: i32| {
            if a < -5 {
                "low"
            } else if a < 7 {
                "middle"
            } else {
                "high"
            }
        };
        r.values.0.map_or("high", class).to_owned()
    }),
    ("a > 3 and g = 1", |r| {
        // AND of a comparison with NULL is false where the other side is.
        let (a, g) = (r.values.0.map(|a| a > 3), r.tags.0.map(|g| g == 1));
        text(if a == Some(false) || g == Some(false) { Some(false) } else { a.zip(g).map(|(a, g)| a && g) })
    }),
];

type Aggregate = (&'static str, fn(&[&Row<'_>]) -> String);

fn a(rows: &[&Row<'_>]) -> Vec<i64> {
    rows.iter().filter_map(|r| r.values.0).map(i64::from).collect()
}

fn b(rows: &[&Row<'_>]) -> Vec<f64> {
    rows.iter().filter_map(|r| r.values.1).collect()
}

fn mean(values: &[f64]) -> String {
    text((!values.is_empty()).then(|| float(values.iter().sum::<f64>() / values.len() as f64)))
}

fn least(values: &[f64]) -> Option<f64> {
    values.iter().copied().min_by(f64::total_cmp)
}

fn most(values: &[f64]) -> Option<f64> {
    values.iter().copied().max_by(f64::total_cmp)
}

/// The values of a and b of the rows that have both.
fn both(rows: &[&Row<'_>]) -> Vec<(f64, f64)> {
    rows.iter().filter_map(|r| Some((f64::from(r.values.0?), r.values.1?))).collect()
}

const AGGREGATES: [Aggregate; 24] = [
    ("count(*)", |rows| rows.len().to_string()),
    ("count(a)", |rows| a(rows).len().to_string()),
    ("sum(a)", |rows| text((!a(rows).is_empty()).then(|| a(rows).iter().sum::<i64>()))),
    ("avg(a)", |rows| mean(&a(rows).iter().map(|v| *v as f64).collect::<Vec<_>>())),
    ("min(a)", |rows| text(a(rows).iter().min())),
    ("max(a)", |rows| text(a(rows).iter().max())),
    ("count(b)", |rows| b(rows).len().to_string()),
    ("sum(b)", |rows| text((!b(rows).is_empty()).then(|| float(b(rows).iter().sum())))),
    ("avg(b)", |rows| mean(&b(rows))),
    ("min(b)", |rows| text(least(&b(rows)).map(float))),
    ("spread(b)", |rows| text(least(&b(rows)).map(|min| float(most(&b(rows)).unwrap() - min)))),
    ("count(c)", |rows| rows.iter().filter(|r| r.values.2.is_some()).count().to_string()),
    ("max(ts)", |rows| text(rows.iter().map(|r| r.ts).max())),
    ("count(ts)", |rows| rows.len().to_string()),
    ("first(ts)", |rows| text(rows.iter().map(|r| r.ts).min())),
    ("first(a)", |rows| {
        let first = rows.iter().filter_map(|r| Some((r.ts, -r.values.0?))).min();
        text(first.map(|(_, v)| -v))
    }),
    ("last(b)", |rows| {
        let with = rows.iter().filter_map(|r| Some((r.ts, r.values.1?)));
        text(with.max_by(|x, y| x.0.cmp(&y.0).then(x.1.total_cmp(&y.1))).map(|(_, v)| float(v)))
    }),
    ("avg((a + b) / 2)", |rows| mean(&both(rows).iter().map(|(a, b)| (a + b) / 2.0).collect::<Vec<_>>())),
    ("max(a - b)", |rows| text(most(&both(rows).iter().map(|(a, b)| a - b).collect::<Vec<_>>()).map(float))),
    ("sum(a * 2)", |rows| text((!a(rows).is_empty()).then(|| a(rows).iter().sum::<i64>() * 2))),
    ("min(abs(a))", |rows| text(a(rows).iter().map(|v| v.abs()).min())),
    ("count(case when a > 3 then c end)", |rows| {
        rows.iter().filter(|r| r.values.0.is_some_and(|a| a > 3) && r.values.2.is_some()).count().to_string()
    }),
    ("count(nullif(a, 3))", |rows| a(rows).iter().filter(|a| **a != 3).count().to_string()),
    ("sum(case when b > 0 then a when b is null then 1 end)", |rows| {
        let value = |r: &&Row<'_>| match r.values.1 {
            None => Some(1),
            Some(b) => r.values.0.filter(|_| b > 0.0).map(i64::from),
        };
        let values: Vec<i64> = rows.iter().filter_map(value).collect();
        text((!values.is_empty()).then(|| values.iter().sum::<i64>()))
    }),
];

/// Aggregates by accumulators, which only rows answer.
const ACCUMULATED: [Aggregate; 11] = [
    ("max(c)", |rows| text(rows.iter().filter_map(|r| r.values.2.clone()).max())),
    ("sum(distinct a)", |rows| {
        text((!a(rows).is_empty()).then(|| a(rows).into_iter().collect::<BTreeSet<_>>().iter().sum::<i64>()))
    }),
    ("count(distinct a)", |rows| a(rows).into_iter().collect::<BTreeSet<_>>().len().to_string()),
    ("stddev_pop(a)", |rows| {
        text(variance(&a(rows).iter().map(|v| *v as f64).collect::<Vec<_>>()).map(|v| float(v.sqrt())))
    }),
    ("var_pop(b - a)", |rows| text(variance(&both(rows).iter().map(|(a, b)| b - a).collect::<Vec<_>>()).map(float))),
    ("median(b)", |rows| text(middle(b(rows)).map(float))),
    ("percentile_cont(0.5) within group (order by b desc)", |rows| text(middle(b(rows)).map(float))),
    ("median(a)", |rows| text(middle(a(rows).into_iter().map(|a| a as f64).collect()).map(float))),
    ("percentile_cont(0.95) within group (order by a)", |rows| {
        text(between(a(rows).into_iter().map(|a| a as f64).collect(), 0.95).map(float))
    }),
    ("percentile_cont(0.3) within group (order by b)", |rows| text(between(b(rows), 0.3).map(float))),
    ("bool_or(a > 3)", |rows| text((!a(rows).is_empty()).then(|| a(rows).iter().any(|v| *v > 3)))),
];

fn variance(values: &[f64]) -> Option<f64> {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    (!values.is_empty()).then(|| values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / values.len() as f64)
}

fn middle(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let at = values.len() / 2;
    (!values.is_empty()).then(|| if values.len() % 2 == 1 { values[at] } else { (values[at - 1] + values[at]) / 2.0 })
}

/// The number that has this share of the numbers below it, between two numbers if need be.
fn between(mut values: Vec<f64>, share: f64) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let place = share * values.len().checked_sub(1)? as f64;
    let (low, high) = (values[place as usize], values[(place.ceil()) as usize]);
    Some(low + (high - low) * (place - place.floor()))
}

fn some<'a, T>(rng: &mut StdRng, of: &'a [T], share: f64) -> Vec<&'a T> {
    of.iter().filter(|_| rng.random_bool(share)).collect()
}

/// The rows that satisfy a condition.
fn chosen<'a>(world: &'a World, test: &Test) -> Vec<Row<'a>> {
    let rows = world.rows.iter().map(|((name, ts), values)| Row { name, ts: *ts, tags: &world.tags[name], values });
    rows.filter(|r| test(r)).collect()
}

/// A session that reads tags as text or as dictionaries.
fn any_session(rng: &mut StdRng) -> Session {
    let tag_encoding = if rng.random() { TagEncoding::Text } else { TagEncoding::Dictionary };
    Session { tag_encoding, ..session() }
}

async fn check_rows(world: &World, engine: &Engine, rng: &mut StdRng, seed: u64) {
    let (condition, test) = condition(rng);
    let session = any_session(rng);
    let mut columns = some(rng, &COLUMNS, 0.5);
    if columns.is_empty() {
        columns.push(&COLUMNS[0]);
    }
    let names = columns.iter().map(|(n, _)| *n).collect::<Vec<_>>().join(", ");
    let sql = format!("select {names} from t{condition}");
    let rows = chosen(world, &test);
    let mut expected: Vec<String> =
        rows.iter().map(|r| columns.iter().map(|(_, of)| of(r)).collect::<Vec<_>>().join("|")).collect();
    expected.sort();
    for run in ["planned", "planned before"] {
        assert_eq!(lines_in(engine, &session, &sql).await, expected, "seed {seed}, {session:?}: {sql}, {run}");
    }

    let limit = rng.random_range(0..30);
    let sql = format!("{sql} limit {limit}");
    let found = lines_in(engine, &session, &sql).await;
    assert_eq!(found.len(), limit.min(expected.len()), "seed {seed}: {sql}");
    assert!(found.iter().all(|line| expected.contains(line)), "seed {seed}: {sql}");
}

/// The first rows by time: a scan reads the chunks with the newest or the oldest times first.
async fn check_first(world: &World, engine: &Engine, rng: &mut StdRng, seed: u64) {
    let (condition, test) = condition(rng);
    let session = any_session(rng);
    let mut rows = chosen(world, &test);
    let (descending, by_name) = (rng.random(), rng.random());
    let (limit, offset) = (rng.random_range(0..30), if rng.random() { 0 } else { rng.random_range(0..20) });
    rows.sort_by(|x, y| {
        let order = x.ts.cmp(&y.ts);
        (if descending { order.reverse() } else { order }).then_with(|| y.name.cmp(x.name))
    });
    let line =
        |r: &Row<'_>| if by_name { format!("{}|{}|{}", r.ts, r.name, text(r.values.0)) } else { r.ts.to_string() };
    let mut expected: Vec<String> = rows.iter().skip(offset).take(limit).map(line).collect();
    expected.sort();
    let (columns, key) = if by_name { ("ts, tbname, a", ", tbname desc") } else { ("ts", "") };
    let direction = if descending { "desc" } else { "asc" };
    let sql = format!("select {columns} from t{condition} order by ts {direction}{key} limit {limit} offset {offset}");
    for run in ["planned", "planned before"] {
        assert_eq!(lines_in(engine, &session, &sql).await, expected, "seed {seed}, {session:?}: {sql}, {run}");
    }
}

/// The last or first row of each series, and of each group of series.
async fn check_ends(world: &World, engine: &Engine, rng: &mut StdRng, seed: u64) {
    let (condition, test) = condition(rng);
    let session = any_session(rng);
    let descending = rng.random();
    let mut ends: BTreeMap<&str, Row<'_>> = BTreeMap::new();
    let rows = chosen(world, &test);
    // The value of the last row of each group; of several at that time the greatest, NULL below all.
    let mut groups: BTreeMap<Option<i32>, (i64, Option<i32>)> = BTreeMap::new();
    for row in &rows {
        let last = (row.ts, row.values.0);
        groups.entry(row.tags.0).and_modify(|known| *known = last.max(*known)).or_insert(last);
    }
    for row in rows {
        let is_end = |known: &Row<'_>| if descending { row.ts > known.ts } else { row.ts < known.ts };
        if ends.get(row.name).is_none_or(is_end) {
            ends.insert(row.name, row);
        }
    }
    // Tag manifests have the last value of a number, and none of a text.
    let (third, of_third): (&str, fn(&Row<'_>) -> String) = match rng.random() {
        true => ("c", |r| text(r.values.2.clone())),
        false => ("b", |r| text(r.values.1.map(float))),
    };
    let line = |r: &Row<'_>| format!("{}|{}|{}|{}", r.name, r.ts, text(r.values.0), of_third(r));
    let expected: Vec<String> = ends.values().map(line).collect();
    let direction = if descending { "desc" } else { "asc" };
    let sql =
        format!("select distinct on (tbname) tbname, ts, a, {third} from t{condition} order by tbname, ts {direction}");
    for run in ["planned", "planned before"] {
        assert_eq!(lines_in(engine, &session, &sql).await, expected, "seed {seed}, {session:?}: {sql}, {run}");
    }
    let mut expected: Vec<String> =
        groups.iter().map(|(g, (ts, a))| format!("{}|{}|{ts}", text(*g), text(*a))).collect();
    expected.sort();
    for sql in [
        format!("select g, last_row(a), last_row(ts) from t{condition} group by g"),
        format!(
            "select g, first_value(a order by ts desc, a desc nulls last), last_value(ts order by ts) from t{condition} group by g"
        ),
    ] {
        assert_eq!(lines(engine, &sql).await, expected, "seed {seed}: {sql}");
    }
}

/// Rows in the order of tags and time, and window functions of each series: a scan reads series by series.
async fn check_order(world: &World, engine: &Engine, rng: &mut StdRng, seed: u64) {
    let (condition, test) = condition(rng);
    let session = any_session(rng);
    let mut rows = chosen(world, &test);
    // NULL is the greatest: last if ascending, first if descending.
    let group = |r: &Row<'_>| (r.tags.0.is_none(), r.tags.0);
    let text_tag = |r: &Row<'_>| (r.tags.1.is_some(), r.tags.1.clone());
    let keys = match rng.random_range(0..5) {
        0 => {
            rows.sort_by(|x, y| (x.name, x.ts).cmp(&(y.name, y.ts)));
            "tbname, ts"
        }
        1 => {
            rows.sort_by(|x, y| y.name.cmp(x.name).then(x.ts.cmp(&y.ts)));
            "tbname desc, ts, a"
        }
        2 => {
            rows.sort_by(|x, y| (group(x), x.name, x.ts).cmp(&(group(y), y.name, y.ts)));
            "g, tbname, ts"
        }
        3 => {
            rows.sort_by(|x, y| (text_tag(x), x.name, x.ts).cmp(&(text_tag(y), y.name, y.ts)));
            "s nulls first, tbname, ts"
        }
        _ => {
            rows.sort_by(|x, y| (group(x), x.ts, x.name).cmp(&(group(y), y.ts, y.name)));
            "g, ts, tbname"
        }
    };
    let expected: Vec<String> = rows.iter().map(|r| format!("{}|{}|{}", r.ts, r.name, text(r.values.0))).collect();
    let sql = format!("select ts, tbname, a from t{condition} order by {keys}");
    for run in ["planned", "planned before"] {
        let found = ordered_lines(&batches_in(engine, &session, &sql).await.unwrap());
        assert_eq!(found, expected, "seed {seed}, {session:?}: {sql}, {run}");
    }

    rows.sort_by(|x, y| (x.name, x.ts).cmp(&(y.name, y.ts)));
    let mut expected = Vec::new();
    for series in rows.chunk_by(|x, y| x.name == y.name) {
        for (at, row) in series.iter().enumerate() {
            let before = at.checked_sub(1).map(|at| &series[at]);
            let lag = before.and_then(|row| row.values.0);
            let lead = series.get(at + 2).map_or(Some(-1.5), |row| row.values.1);
            let passed = before.map_or(0, |before| row.ts - before.ts);
            expected.push(format!(
                "{}|{}|{}|{}|{}|{passed}",
                row.name,
                text(row.values.2.clone()),
                text(lag),
                text(lead.map(float)),
                at + 1,
            ));
        }
    }
    expected.sort();
    let over = "over (partition by tbname order by ts)";
    let sql = format!(
        "select tbname, c, lag(a) {over}, lead(b, 2, -1.5) {over}, row_number() {over}, \
         coalesce(cast(ts as bigint) - cast(lag(ts) {over} as bigint), 0) from t{condition}"
    );
    for run in ["planned", "planned before"] {
        assert_eq!(lines_in(engine, &session, &sql).await, expected, "seed {seed}, {session:?}: {sql}, {run}");
    }
}

/// All levels, and a different choice of them.
async fn check_aggregates(world: &World, engine: &Engine, rng: &mut StdRng, seed: u64) {
    let (condition, test) = condition(rng);
    let count = [0, 1, 1, 2][rng.random_range(0..4)];
    let mut keys: Vec<&Column> = Vec::new();
    for _ in 0..count {
        let key = &KEYS[rng.random_range(0..KEYS.len())];
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    let mut aggregates = some(rng, &AGGREGATES, 0.25);
    if rng.random_bool(0.25) {
        aggregates.extend(some(rng, &ACCUMULATED, 0.4));
    }
    if aggregates.is_empty() {
        aggregates.push(&AGGREGATES[0]);
    }
    let items: Vec<&str> = keys.iter().map(|k| k.0).chain(aggregates.iter().map(|x| x.0)).collect();
    let mut sql = format!("select {} from t{condition}", items.join(", "));
    if !keys.is_empty() {
        sql = format!("{sql} group by {}", keys.iter().map(|k| k.0).collect::<Vec<_>>().join(", "));
    }
    let rows = chosen(world, &test);
    let mut groups: BTreeMap<Vec<String>, Vec<&Row<'_>>> = BTreeMap::new();
    if keys.is_empty() {
        groups.insert(Vec::new(), Vec::new());
    }
    for row in &rows {
        groups.entry(keys.iter().map(|k| (k.1)(row)).collect()).or_default().push(row);
    }
    let line = |(key, rows): (&Vec<String>, &Vec<&Row<'_>>)| {
        key.iter().cloned().chain(aggregates.iter().map(|x| (x.1)(rows))).collect::<Vec<_>>().join("|")
    };
    let mut expected: Vec<String> = groups.iter().map(line).collect();
    expected.sort();
    let others = rng.random_range(0..7u8);
    let others = Levels { manifests: others & 1 > 0, rollups: others & 2 > 0, scan: others & 4 > 0 };
    for levels in [Levels::default(), others] {
        let session = Session { levels, ..session() };
        for run in ["planned", "planned before"] {
            assert_eq!(lines_in(engine, &session, &sql).await, expected, "seed {seed}, levels {levels}: {sql}, {run}");
        }
    }
}

/// Runs `queries` random queries for rows and as many for aggregates on the state of each seed.
async fn check_seeds(seeds: std::ops::Range<u64>, queries: usize) {
    futures::stream::iter(seeds.map(|seed| tokio::spawn(check_seed(seed, queries))))
        .buffer_unordered(2)
        .for_each(|done| async { done.unwrap() })
        .await;
}

async fn check_seed(seed: u64, queries: usize) {
    let world = World::random(seed).await;
    let engine = engine(&world);
    let mut rng = StdRng::seed_from_u64(seed ^ 0x5eed);
    for _ in 0..queries {
        check_rows(&world, &engine, &mut rng, seed).await;
        check_first(&world, &engine, &mut rng, seed).await;
        check_ends(&world, &engine, &mut rng, seed).await;
        check_order(&world, &engine, &mut rng, seed).await;
        check_aggregates(&world, &engine, &mut rng, seed).await;
    }
}

/// The seeds of `TIDELAKE_FUZZ_SEEDS=from..to`, else the default.
fn seeds(default: std::ops::Range<u64>) -> std::ops::Range<u64> {
    let given = std::env::var("TIDELAKE_FUZZ_SEEDS").ok();
    let parsed = given.and_then(|s| s.split_once("..").map(|(a, b)| a.parse().unwrap()..b.parse().unwrap()));
    parsed.unwrap_or(default)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_queries_over_random_states_give_what_the_rows_give() {
    // Five statements or more for each of 26 queries: more than 5 200 statements.
    check_seeds(seeds(0..40), 26).await;
}

/// Six series and forty seconds: the segments share keys, and each query finds groups of different sizes.
#[tokio::test]
async fn a_tail_of_many_segments_gives_what_its_rows_give_while_it_grows() {
    let seed = 0;
    let mut world = World::regular().await;
    world.add_column("c", Type::Binary(None)).await;
    let engine = engine(&world);
    let mut rng = StdRng::seed_from_u64(seed);
    for _ in 0..60 {
        for _ in 0..rng.random_range(1..8) {
            world.segment(&mut rng).await;
        }
        check_rows(&world, &engine, &mut rng, seed).await;
        check_first(&world, &engine, &mut rng, seed).await;
        check_ends(&world, &engine, &mut rng, seed).await;
        check_order(&world, &engine, &mut rng, seed).await;
        check_aggregates(&world, &engine, &mut rng, seed).await;
    }
    let plan = explain(&engine, "select count(*) from t").await;
    let blocks = plan.split_once("log_blocks=").unwrap().1.split(',').next().unwrap();
    assert!(blocks.parse::<usize>().unwrap() < 60, "{plan}");
}
