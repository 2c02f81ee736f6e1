//! Smallest and largest values of every integer type, at distant times, through aggregates, windows and arithmetic:
//! each result equals 128-bit arithmetic over the rows, or is an error if it exceeds its type. In the log, in folded
//! and in merged files.

use std::collections::{BTreeMap, BTreeSet};

use rand::{Rng, SeedableRng, rngs::StdRng, seq::IndexedRandom};
use serde_json::Value;
use tidelake_tests::{Http, Server};

/// Name, type and range of each column.
const COLUMNS: [(&str, &str, i128, i128); 8] = [
    ("i8", "tinyint", i8::MIN as i128, i8::MAX as i128),
    ("i16", "smallint", i16::MIN as i128, i16::MAX as i128),
    ("i32", "int", i32::MIN as i128, i32::MAX as i128),
    ("i64", "bigint", i64::MIN as i128, i64::MAX as i128),
    ("u8", "tinyint unsigned", 0, u8::MAX as i128),
    ("u16", "smallint unsigned", 0, u16::MAX as i128),
    ("u32", "int unsigned", 0, u32::MAX as i128),
    ("u64", "bigint unsigned", 0, u64::MAX as i128),
];
const SERIES: usize = 3;

/// Rows by time: the series, and a value or NULL of each column.
type Rows = BTreeMap<i64, (usize, [Option<i128>; 8])>;

struct Case {
    table: String,
    ticks_of_day: i64,
    rows: Rows,
}

fn random_rows(random: &mut StdRng, ticks_of_day: i64) -> Rows {
    // The largest valid timestamp in ticks; the smallest is its negative.
    let far = (i64::MAX - 1) / (86_400_000_000_000 / ticks_of_day);
    let ends = [far, far - 1, -far, 1 - far, 0, -1, ticks_of_day, ticks_of_day - 1, -ticks_of_day];
    let mut rows = Rows::new();
    for _ in 0..12 {
        let ts = match random.random_bool(0.6) {
            true => *ends.choose(random).unwrap(),
            false => random.random_range(-far..=far) >> random.random_range(0..20),
        };
        let values = COLUMNS.map(|(_, _, least, most)| {
            let some = [least, least + 1, 0, 1, most - 1, most];
            random.random_bool(0.8).then(|| *some.choose(random).unwrap())
        });
        rows.insert(ts, (random.random_range(0..SERIES), values));
    }
    rows
}

async fn written(http: &Http, precision: &str, ticks_of_day: i64, random: &mut StdRng, number: usize) -> Case {
    let table = format!("db_{precision}.t{number}");
    let columns: Vec<String> = COLUMNS.iter().map(|(name, ty, ..)| format!("{name} {ty}")).collect();
    http.rest_sql(&format!("create stable {table} (ts timestamp, {}) tags (g int)", columns.join(", "))).await;
    let rows = random_rows(random, ticks_of_day);
    for (ts, (series, values)) in &rows {
        let values: Vec<String> = values.iter().map(|v| v.map_or("NULL".to_owned(), |v| v.to_string())).collect();
        let into = format!("db_{precision}.d{number}_{series} using {table} tags ({series})");
        http.rest_sql(&format!("insert into {into} values ({ts}, {})", values.join(", "))).await;
    }
    Case { table, ticks_of_day, rows }
}

/// Rows of a query, or the text of its error.
async fn ask(http: &Http, sql: &str) -> Result<Vec<Vec<Value>>, String> {
    let reply = http.post("/api/v1/sql?format=json", &[], sql.to_owned()).await.unwrap();
    if reply.status != 200 {
        assert!(reply.status == 400, "{sql}: {} {}", reply.status, reply.body);
        return Err(reply.body);
    }
    let rows = reply.json()["data"].as_array().unwrap().clone();
    Ok(rows.into_iter().map(|row| row.as_array().unwrap().clone()).collect())
}

fn whole(value: &Value) -> Option<i128> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.parse().unwrap_or_else(|_| panic!("{text} is no whole number"))),
        other => Some(other.to_string().parse().unwrap_or_else(|_| panic!("{other} is no whole number"))),
    }
}

/// A whole number as text, because the protocols do not support unsigned BIGINT.
fn exactly(expression: &str, column: &str) -> String {
    if column == "u64" { format!("cast({expression} as decimal(20, 0))") } else { expression.to_owned() }
}

/// A grouping: the text after FROM, and the group key of a row.
type Grouping<'a> = (&'static str, &'static str, Box<dyn Fn(i64, usize) -> (Option<i128>, Option<usize>) + 'a>);

fn groupings(day: i64) -> Vec<Grouping<'static>> {
    let start = move |ts: i64| (i128::from(ts).div_euclid(day.into()) * i128::from(day)).max(i64::MIN.into());
    vec![
        ("NULL as w, NULL as g,", "", Box::new(|_, _| (None, None))),
        ("NULL as w, g,", "partition by g", Box::new(|_, series| (None, Some(series)))),
        ("cast(_wstart as bigint) as w, NULL as g,", "interval(1d)", Box::new(move |ts, _| (Some(start(ts)), None))),
        (
            "cast(_wstart as bigint) as w, g,",
            "partition by g interval(1d)",
            Box::new(move |ts, series| (Some(start(ts)), Some(series))),
        ),
    ]
}

async fn aggregates_are_right(http: &Http, case: &Case, state: &str) {
    for (at, (column, _, least, _)) in COLUMNS.into_iter().enumerate() {
        for (keys, clause, key) in groupings(case.ticks_of_day) {
            // In the order of time.
            let mut groups: BTreeMap<_, Vec<i128>> = BTreeMap::new();
            for (ts, (series, values)) in &case.rows {
                groups.entry(key(*ts, *series)).or_default().extend(values[at]);
            }
            let of = format!("from {} {clause}", case.table);
            let whole_numbers = ["min", "max", "first", "last"].map(|f| exactly(&format!("{f}({column})"), column));
            let whole_numbers = whole_numbers.join(", ");
            let sql = format!("select {keys} count({column}), {whole_numbers}, avg({column}), spread({column}) {of}");
            let found = ask(http, &sql).await.unwrap_or_else(|e| panic!("{state}: {sql}: {e}"));
            assert_eq!(found.len(), groups.len(), "{state}: {sql}: {found:?}");
            for row in &found {
                let key = (whole(&row[0]), whole(&row[1]).map(|g| usize::try_from(g).unwrap()));
                let values = groups.get(&key).unwrap_or_else(|| panic!("{state}: {sql}: no group {key:?}"));
                let (min, max) = (values.iter().min().copied(), values.iter().max().copied());
                let expected = [Some(values.len() as i128), min, max, values.first().copied(), values.last().copied()];
                let whole: Vec<Option<i128>> = row[2..7].iter().map(whole).collect();
                assert_eq!(whole, expected, "{state}: {sql}: {key:?}");
                let sum: i128 = values.iter().sum();
                let count = values.len() as f64;
                for (value, exact, scale) in [
                    (&row[7], sum as f64 / count, max.unwrap_or(0).abs().max(min.unwrap_or(0).abs()) as f64),
                    (&row[8], (max.unwrap_or(0) - min.unwrap_or(0)) as f64, 0.0),
                ] {
                    match value.as_f64() {
                        None => assert!(values.is_empty() && value.is_null(), "{state}: {sql}: {value}"),
                        Some(value) => {
                            let error = (value - exact).abs();
                            assert!(error <= 1e-12 * scale.max(exact.abs()), "{state}: {sql}: {value}, not {exact}");
                        }
                    }
                }
            }
            let sums: BTreeMap<_, Option<i128>> = groups
                .iter()
                .map(|(key, values)| (*key, (!values.is_empty()).then(|| values.iter().sum::<i128>())))
                .collect();
            let fits = |sum: i128| if least == 0 { u64::try_from(sum).is_ok() } else { i64::try_from(sum).is_ok() };
            // Sorted, so that all groups are computed before the response begins: a later error would close the connection.
            let sum = exactly(&format!("sum({column})"), column);
            let sql = format!("select {keys} {sum} {of} order by 1, 2");
            match ask(http, &sql).await {
                Ok(found) => {
                    let found = found.iter().map(|row| {
                        ((whole(&row[0]), whole(&row[1]).map(|g| usize::try_from(g).unwrap())), whole(&row[2]))
                    });
                    assert_eq!(found.collect::<BTreeMap<_, _>>(), sums, "{state}: {sql}");
                }
                Err(error) => {
                    assert!(sums.values().flatten().any(|sum| !fits(*sum)), "{state}: {sql}: {error}, not {sums:?}");
                    assert!(error.contains("sum("), "{state}: {sql}: {error}");
                }
            }
        }
    }
}

async fn arithmetic_is_right(http: &Http, case: &Case, state: &str) -> [usize; 2] {
    type Compute = fn(i128) -> i128;
    let expressions: [(&str, Compute); 5] = [
        ("C + 1", |c| c + 1),
        ("C - 1", |c| c - 1),
        ("C * C", |c| c.saturating_mul(c)),
        ("0 - C", |c| -c),
        ("C + C", |c| c + c),
    ];
    let mut outcomes = [0; 2];
    for (at, (column, _, least, most)) in COLUMNS.into_iter().enumerate() {
        let values: BTreeSet<i128> = case.rows.values().filter_map(|(_, values)| values[at]).collect();
        for (expression, compute) in expressions {
            let expression = exactly(&expression.replace('C', column), column);
            let sql =
                format!("select distinct {expression} as x from {} where {column} is not null order by 1", case.table);
            let exact: BTreeSet<i128> = values.iter().map(|value| compute(*value)).collect();
            // Of two values of one type, the result is of that type.
            let is_beyond = |v: &i128| !(least..=most).contains(v) || i64::try_from(*v).is_err();
            match ask(http, &sql).await {
                Ok(found) => {
                    outcomes[0] += 1;
                    let found: BTreeSet<i128> = found.iter().filter_map(|row| whole(&row[0])).collect();
                    assert_eq!(found, exact, "{state}: {sql}");
                }
                Err(error) => {
                    outcomes[1] += 1;
                    assert!(exact.iter().chain(&values).any(is_beyond), "{state}: {sql}: {error}");
                }
            }
        }
    }
    outcomes
}

#[tokio::test(flavor = "multi_thread")]
async fn every_integer_type_is_aggregated_and_computed_with_to_its_ends_or_the_error_says_what_is_beyond() {
    let directory = tempfile::tempdir().unwrap();
    let arguments = ["--fold-interval", "1h", "--implausible-times", "accept"];
    let server = Server::start(directory.path().to_str().unwrap(), arguments);
    let http = Http::new(&server.url());
    let mut random = StdRng::seed_from_u64(64);
    let mut cases = Vec::new();
    for (precision, ticks_of_day) in [("ms", 86_400_000), ("us", 86_400_000_000), ("ns", 86_400_000_000_000)] {
        http.rest_sql(&format!("create database db_{precision} precision '{precision}' duration 3650d keep 365000d"))
            .await;
        for number in 0..2 {
            cases.push(written(&http, precision, ticks_of_day, &mut random, number).await);
        }
    }
    for state in ["log", "fold", "full"] {
        if state != "log" {
            http.compact(state).await;
        }
        for case in &cases {
            aggregates_are_right(&http, case, state).await;
            let outcomes = arithmetic_is_right(&http, case, state).await;
            assert!(outcomes.iter().all(|times| *times > 0), "{state}: {outcomes:?}");
        }
    }
    server.stop();
}
