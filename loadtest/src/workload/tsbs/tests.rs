#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;

use arrow::array::{AsArray, Int64Array, RecordBatch};
use arrow::datatypes::{Int64Type, TimestampMicrosecondType};

use super::*;
use crate::workload::answer::{Answer, Column};

const SET: Tsbs = Tsbs { hosts: 25, steps: 8_640, seed: 123 };

/// The rows of the line protocol: time, host, values.
fn lines(set: Tsbs) -> Vec<(i64, String, Vec<i64>)> {
    let mut body = Vec::new();
    Feed::new(set, 0..set.hosts).next(usize::MAX, &mut body);
    let parse = |line: &str| {
        let [tags, fields, ts] = line.split(' ').collect::<Vec<_>>().try_into().unwrap();
        let host = tags.strip_prefix("cpu,hostname=").unwrap().split(',').next().unwrap().to_owned();
        let values = fields.split(',').zip(FIELDS).map(|(field, name)| {
            let value = field.strip_prefix(name).and_then(|rest| rest.strip_prefix('='));
            value.and_then(|rest| rest.strip_suffix('i')).unwrap().parse().unwrap()
        });
        (ts.parse::<i64>().unwrap() / 1_000_000, host, values.collect())
    };
    String::from_utf8(body).unwrap().lines().map(parse).collect()
}

#[test]
fn the_default_set_has_the_size_and_the_tags_of_tsbs() {
    let set = Tsbs { hosts: 1_000, steps: 24 * 360, seed: 123 };
    assert_eq!((set.len(), set.ts(0), set.ts(set.steps)), (8_640_000, 1_767_225_600_000, 1_767_312_000_000));
    let tags: Vec<[String; 10]> = (0..set.hosts).map(|host| set.tags(host)).collect();
    let distinct = |tag: usize| tags.iter().map(|tags| &tags[tag]).collect::<BTreeSet<_>>().len();
    let numbers: Vec<usize> = (0..TAGS.len()).map(distinct).collect();
    assert_eq!(numbers, [1_000, 9, 27, 100, 3, 2, 4, 20, 2, 3]);
    assert!(tags.iter().all(|tags| tags[2].starts_with(&tags[1])), "a datacenter is in its region");
}

#[test]
fn lines_come_in_time_order_and_do_not_depend_on_how_they_are_cut() {
    let set = Tsbs { hosts: 3, steps: 7, seed: 5 };
    let mut whole = Vec::new();
    assert_eq!(Feed::new(set, 0..3).next(usize::MAX, &mut whole), (21, 210));
    let (mut parts, mut feed) = (Vec::new(), Feed::new(set, 0..3));
    while feed.next(4, &mut parts).0 > 0 {}
    assert_eq!(whole, parts);
    let text = String::from_utf8(whole).unwrap();
    let line = text.lines().find(|line| line.starts_with("cpu,hostname=host_2,region=")).unwrap();
    assert_eq!((line.matches(',').count(), line.matches('=').count()), (10 + 9, 20), "{line}");
    assert!(line.ends_with(" 1767225600000000000"), "{line}");
    assert!(lines(set).is_sorted_by_key(|(ts, ..)| *ts));
}

#[test]
fn lines_batches_and_hosts_have_the_same_values() {
    let set = Tsbs { hosts: 4, steps: 30, seed: 9 };
    let lines = lines(set);
    let batches: Vec<RecordBatch> = Batches::new(set, 10).map(Result::unwrap).collect();
    assert_eq!(batches.len(), 10);
    let mut at = 0;
    for batch in &batches {
        let times = batch.column(0).as_primitive::<TimestampMicrosecondType>();
        let hosts = arrow::compute::cast(batch.column(11), &arrow::datatypes::DataType::Utf8).unwrap();
        for row in 0..batch.num_rows() {
            let value = |field: usize| batch.column(1 + field).as_primitive::<Int64Type>().value(row);
            let found = (
                times.value(row) / 1_000,
                hosts.as_string::<i32>().value(row).to_owned(),
                (0..10).map(value).collect(),
            );
            assert_eq!(lines[at], found);
            at += 1;
        }
    }
    assert_eq!(at, 120);
    for host in 0..set.hosts {
        let of_host = lines.iter().filter(|(_, name, _)| *name == format!("host_{host}"));
        let values: Vec<Vec<i64>> = of_host.map(|(.., values)| values.clone()).collect();
        let rows: Vec<Vec<i64>> = set.rows(host).iter().map(|row| row.map(i64::from).to_vec()).collect();
        assert_eq!(values, rows);
    }
    assert_ne!(set.rows(0), Tsbs { seed: 10, ..set }.rows(0));
}

#[test]
fn fields_walk_by_steps_of_deviation_one_within_their_range() {
    let (mut squares, mut steps, mut seen) = (0, 0, [false; 101]);
    for row in (0..SET.hosts).flat_map(|host| SET.rows(host).windows(2).map(|two| [two[0], two[1]]).collect::<Vec<_>>())
    {
        for field in 0..FIELDS.len() {
            let step = i64::from(row[1][field]) - i64::from(row[0][field]);
            assert!(step.abs() <= 5, "{row:?}");
            squares += step * step;
            steps += 1;
            seen[usize::from(row[0][field])] = true;
        }
    }
    // Rounding adds a twelfth twice; clamping takes some of it.
    let variance = squares as f64 / f64::from(steps);
    assert!((1.0..1.2).contains(&variance), "{variance}");
    assert!(seen.iter().all(|seen| *seen), "{seen:?}");
}

#[test]
fn questions_have_names_of_their_own_and_windows_within_the_data() {
    assert_eq!(NAMES.iter().collect::<BTreeSet<_>>().len(), 36);
    let all = SET.ts(0)..=SET.ts(SET.steps);
    let questions = [Question::all(&SET), Question::mixed(&SET, 40)].concat();
    for question in &questions {
        let [start, end] = [question.span.start, question.span.end];
        assert!(start < end && all.contains(&start) && all.contains(&end), "{question:?}");
        assert_eq!(question.hosts.iter().collect::<BTreeSet<_>>().len(), question.hosts.len(), "{question:?}");
        let [ours, duckdb, clickhouse] =
            [Dialect::Tidelake, Dialect::DuckDb, Dialect::ClickHouse].map(|dialect| question.sql(dialect));
        assert!([&ours, &duckdb, &clickhouse].iter().all(|sql| sql.contains(" from tsbs.cpu")), "{ours}");
        assert!(!duckdb.contains("interval(") && !clickhouse.contains("interval("), "{duckdb}");
    }
    let hours = |name: &str| {
        let question = questions.iter().find(|question| question.name == name).unwrap();
        (question.span.end - question.span.start) / 3_600_000
    };
    assert_eq!(["single-groupby-5-8-1", "cpu-max-all-8", "double-groupby-1", "high-cpu-1"].map(hours), [1, 8, 12, 12]);
    let starts: BTreeSet<i64> = questions.iter().map(|question| question.span.start % 1_000).collect();
    assert!(starts.len() > 10, "windows begin within seconds: {starts:?}");
    // A set that is shorter than a window, with fewer hosts than a question asks for.
    let tiny = Tsbs { hosts: 1, steps: 10, seed: 1 };
    assert!(
        Question::all(&tiny)
            .iter()
            .all(|question| question.span == (tiny.ts(0)..tiny.ts(10)) || question.hosts.is_empty())
    );
    Question::all(&tiny).iter().for_each(|question| {
        expected(&tiny, question).unwrap();
    });
}

/// The expected answer of one question must equal one that is computed from the lines.
fn check(name: &str, compute: impl Fn(&Question, &[(i64, String, Vec<i64>)]) -> Answer) {
    let question = Question::all(&SET).into_iter().find(|question| question.name == name).unwrap();
    let (columns, is_ordered) = question.columns();
    let answer = compute(&question, &lines(SET));
    assert!(answer.rows() > 0, "{name}");
    let digest = Digest::of(columns, is_ordered, &answer).unwrap();
    expected(&SET, &question).unwrap().compare(&digest).unwrap_or_else(|error| panic!("{name}: {error:#}"));
}

fn ints(columns: impl IntoIterator<Item = Vec<i64>>) -> Answer {
    let columns: Vec<Column> =
        columns.into_iter().map(|values| Column::Int(values.into_iter().map(Some).collect())).collect();
    Answer { names: (0..columns.len()).map(|at| format!("c{at}")).collect(), columns }
}

#[test]
fn expected_answers_are_those_of_the_lines() {
    check("A10 count(*)", |_, lines| ints([vec![lines.len() as i64]]));
    check("count of high values", |_, lines| ints([vec![lines.iter().filter(|(.., v)| v[0] > 90).count() as i64]]));
    check("A11 histogram by floor", |_, lines| {
        let count = |tenth| lines.iter().filter(|(.., v)| v[0] / 10 == tenth).count() as i64;
        ints([(0..=10).collect(), (0..=10).map(count).collect()])
    });
    check("single-groupby-1-8-1", |question, lines| {
        let names: Vec<String> = question.hosts.iter().map(|host| format!("host_{host}")).collect();
        let of_hosts: Vec<_> =
            lines.iter().filter(|(ts, host, _)| names.contains(host) && question.span.contains(ts)).collect();
        let minutes: BTreeSet<i64> = of_hosts.iter().map(|(ts, ..)| ts / 60_000 * 60_000).collect();
        let greatest =
            |minute: &i64| of_hosts.iter().filter(|(ts, ..)| ts / 60_000 * 60_000 == *minute).map(|l| l.2[0]).max();
        ints([minutes.iter().copied().collect(), minutes.iter().filter_map(greatest).collect()])
    });
    check("A6 changes by lag", |_, lines| {
        let before = |at: usize| lines[..at].iter().rev().find(|line| line.1 == lines[at].1);
        let differs = |at: &usize| before(*at).is_some_and(|line| (line.2[0] - lines[*at].2[0]).abs() >= 2);
        ints([vec![(0..lines.len()).filter(differs).count() as i64]])
    });
    check("A7 join of two hosts", |question, lines| {
        let [a, b] = [0, 1].map(|at| format!("host_{}", question.hosts[at]));
        let sum = |host: &str| lines.iter().filter(|line| line.1 == host).map(|line| line.2[0]).sum::<i64>() as f64;
        let mean = (sum(&a) - sum(&b)) / f64::from(SET.steps);
        Answer { names: vec!["mean".into()], columns: vec![Column::Float(vec![Some(mean)])] }
    });
    check("max and avg of the whole table", |_, lines| {
        let column = |at: usize| {
            let values = lines.iter().map(|line| line.2[at / 2] as f64);
            if at.is_multiple_of(2) { values.fold(0.0, f64::max) } else { values.sum::<f64>() / lines.len() as f64 }
        };
        let columns = (0..20).map(|at| Column::Float(vec![Some(column(at))])).collect();
        Answer { names: (0..20).map(|at| at.to_string()).collect(), columns }
    });
}

#[test]
fn equal_answers_have_equal_digests_whatever_the_order_of_rows_types_and_columns() {
    use Kind::{Exact, Float};
    let answer = |order: [usize; 3]| {
        let pick = |values: [f64; 3]| order.iter().map(|at| Some(values[*at])).collect();
        let names = order.iter().map(|at| Some(["a", "b", "c"][*at].to_owned())).collect();
        let columns =
            vec![Column::Text(names), Column::Float(pick([1.5, 2.5, 4.0])), Column::Float(pick([7.0, 8.0, 9.0]))];
        Answer { names: ["x", "y", "z"].map(str::to_owned).to_vec(), columns }
    };
    let listed = || Columns::Listed(vec![Exact, Float, Exact]);
    let digest = |answer: &Answer, is_ordered| Digest::of(listed(), is_ordered, answer).unwrap();
    let first = answer([0, 1, 2]);
    digest(&first, false).compare(&digest(&answer([2, 0, 1]), false)).unwrap();
    assert!(digest(&first, true).compare(&digest(&answer([2, 0, 1]), true)).is_err());
    let mut whole = first.clone();
    whole.columns[2] = Column::Int(vec![Some(7), Some(8), Some(9)]);
    digest(&first, true).compare(&digest(&whole, true)).unwrap();
    // Columns of `*` are compared by name, also when they arrive in batches.
    let batch = |names: [&str; 2]| {
        let column = |name: &str| std::sync::Arc::new(Int64Array::from(vec![name.len() as i64; 20_000])) as _;
        RecordBatch::try_from_iter(names.map(|name| (name, column(name)))).unwrap()
    };
    let [one, other] = [["ts", "usage"], ["usage", "ts"]]
        .map(|names| Digest::of_batches(Columns::Named, false, &[batch(names), batch(names)]).unwrap());
    assert_eq!(one.rows, 40_000);
    one.compare(&other).unwrap();
    let times = Digest::of_batches(Columns::Times, true, &[batch(["ts", "usage"])]).unwrap();
    assert!(Digest::of_batches(Columns::Times, true, &[batch(["time", "usage"])]).is_err() && times.rows == 20_000);
}

#[test]
fn every_kind_of_difference_is_found() {
    use Kind::{Approximate, Exact, Float, Interpolated};
    let digest = |names: [&str; 2], floats: [f64; 2], kind| {
        let columns = vec![
            Column::Text(names.map(|name| Some(name.to_owned())).to_vec()),
            Column::Float(floats.map(Some).to_vec()),
        ];
        let answer = Answer { names: vec!["host".into(), "mean".into()], columns };
        Digest::of(Columns::Listed(vec![Exact, kind]), false, &answer).unwrap()
    };
    let wanted = digest(["a", "b"], [1.0, 2.0], Float);
    wanted.compare(&digest(["a", "b"], [1.0 + 1e-12, 2.0], Float)).unwrap();
    for (names, floats, message) in [
        (["a", "b"], [1.0 + 1e-7, 2.0], "column 1 (mean): expected the sum 3, found 3.0000001"),
        (["a", "b"], [2.0, 1.0], "column 1 (mean): expected the sum"),
        (["a", "c"], [1.0, 2.0], "column 0 (host): expected the sum"),
    ] {
        let error = wanted.compare(&digest(names, floats, Float)).unwrap_err().to_string();
        assert!(error.starts_with(message), "{error}");
    }
    let between = digest(["a", "b"], [64.05, 2.0], Interpolated);
    between.compare(&digest(["a", "b"], [64.049999, 2.0], Interpolated)).unwrap();
    assert!(between.compare(&digest(["a", "b"], [64.04, 2.0], Interpolated)).is_err());
    let about = digest(["a", "b"], [100.0, 200.0], Approximate);
    about.compare(&digest(["a", "b"], [100.5, 199.0], Approximate)).unwrap();
    assert!(about.compare(&digest(["a", "b"], [104.0, 204.0], Approximate)).is_err());
    let numbers = |a: [i64; 2], b: [i64; 2]| {
        Digest::of(Columns::Listed(vec![Exact, Exact]), false, &ints([a.to_vec(), b.to_vec()])).unwrap()
    };
    let error = numbers([1, 2], [3, 4]).compare(&numbers([1, 2], [4, 3])).unwrap_err();
    assert!(error.to_string().contains("values are in other rows"), "{error}");
    let fewer = Digest::of(Columns::Listed(vec![Exact]), false, &ints([vec![1]])).unwrap();
    let error = numbers([1, 2], [3, 4]).compare(&fewer).unwrap_err();
    assert_eq!(error.to_string(), "expected 2 rows, found 1");
    assert!(Digest::of(Columns::Listed(vec![Exact]), false, &ints([vec![1], vec![2]])).is_err());
    // Answers without rows may have no columns.
    let none = Digest::of(Columns::Listed(vec![Exact]), false, &Answer::default()).unwrap();
    none.compare(&Digest::of(Columns::Named, true, &ints([vec![], vec![]])).unwrap()).unwrap();
}
