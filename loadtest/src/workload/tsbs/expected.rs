//! The expected answers to the questions, from the generator's rows.

use std::collections::BTreeSet;

use anyhow::Result;

use super::{
    Columns, Digest, FIELDS, Form, Question, TAGS, Tsbs, Values,
    digest::Digester,
    naive::{Group, Groups, group, rows, table},
};
use crate::workload::answer::{Answer, Value, Value::Int};

const MINUTE_MS: i64 = 60_000;
const HOUR_MS: i64 = 3_600_000;
/// Places of tags in [`TAGS`].
const HOSTNAME: usize = 0;
const REGION: usize = 1;
const SERVICE: usize = 7;

/// The digest of the expected answer.
///
/// # Errors
/// None that can happen with answers of the right shape.
pub fn expected(set: &Tsbs, question: &Question) -> Result<Digest> {
    let (columns, is_ordered) = question.columns();
    if columns != Columns::Named {
        return Digest::of(columns, is_ordered, &answer(set, question));
    }
    let mut digester = Digester::new(columns, is_ordered);
    let hosts: Vec<u32> = if question.hosts.is_empty() { (0..set.hosts).collect() } else { question.hosts.clone() };
    for host in hosts {
        digester.add(&whole_rows(set, question, host))?;
    }
    Ok(digester.finish())
}

/// The rows of a host that a question with all columns returns.
fn whole_rows(set: &Tsbs, question: &Question, host: u32) -> Answer {
    let is_of_range = |ts: i64| question.span.contains(&ts);
    let all = rows(set, host).filter(|(ts, values)| match question.form {
        Form::HighCpu { .. } => is_of_range(*ts) && values[0] > 90,
        Form::OneHour => is_of_range(*ts),
        _ => true,
    });
    let mut all: Vec<(i64, Values)> = all.collect();
    match question.form {
        Form::LastPoint => all = all.split_off(all.len().saturating_sub(1)),
        Form::LastRows => {
            all = all.split_off(all.len().saturating_sub(10));
            all.reverse();
        }
        _ => {}
    }
    let tags = set.tags(host);
    let row = |(ts, values): (i64, Values)| {
        let mut row = vec![Int(ts)];
        row.extend(values.map(|value| Int(value.into())));
        row.extend(tags.iter().cloned().map(Value::Text));
        row
    };
    let names = std::iter::once("ts").chain(FIELDS).chain(TAGS).map(str::to_owned).collect();
    Answer { names, ..table(all.into_iter().map(row)) }
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

fn greatest(group: &Group, fields: usize) -> impl Iterator<Item = Value> {
    group.greatest.into_iter().take(fields).map(|value| Int(value.into()))
}

/// One row for each group: number, text, and what `rest` returns.
fn by_both(groups: &Groups, rest: impl Fn(&Group) -> Vec<Value>) -> Answer {
    table(groups.iter().map(|((number, name), group)| [vec![Int(*number), text(name)], rest(group)].concat()))
}

/// One row for each group: text, and what `rest` returns.
fn by_text(groups: &Groups, rest: impl Fn(&Group) -> Value) -> Answer {
    table(groups.iter().map(|((_, name), group)| vec![text(name), rest(group)]))
}

/// The answer to a question whose columns are listed.
fn answer(set: &Tsbs, question: &Question) -> Answer {
    let floor = |ts: i64, width: i64| ts - ts.rem_euclid(width);
    let span = &question.span;
    let group = |tag, number: &dyn Fn(i64, &Values) -> Option<i64>| group(set, &question.hosts, tag, number);
    let within = |tag, width: i64| group(tag, &|ts, _| span.contains(&ts).then(|| floor(ts, width)));
    let windows = |width: i64, fields: usize| {
        let groups = within(None, width);
        table(groups.iter().map(|((ts, _), group)| std::iter::once(Int(*ts)).chain(greatest(group, fields)).collect()))
    };
    let count = |groups: &Groups| groups.values().map(|group| group.count).sum::<i64>();
    let one = |value: i64| table([vec![Int(value)]]);
    match question.form {
        Form::Minutes { fields, .. } => windows(MINUTE_MS, fields),
        Form::MaxAll { .. } => windows(HOUR_MS, FIELDS.len()),
        Form::Hours { fields } => {
            by_both(&within(Some(HOSTNAME), HOUR_MS), |group| (0..fields).map(|field| group.mean(field)).collect())
        }
        Form::LastMinutes => {
            let groups = group(None, &|ts, _| (ts < span.end).then(|| floor(ts, MINUTE_MS)));
            table(groups.iter().rev().take(5).map(|((ts, _), group)| vec![Int(*ts), Int(group.greatest[0].into())]))
        }
        Form::HighByRegion => {
            by_text(&group(Some(REGION), &|_, row| (row[0] > 50).then_some(0)), |group| group.mean(0))
        }
        Form::ApproximatePercentile | Form::ExactPercentile => {
            table((0..set.hosts).map(|host| vec![text(&set.tags(host)[HOSTNAME]), Value::Float(percentile(set, host))]))
        }
        Form::TopHosts => {
            let mut sums: Vec<(i64, String, Value)> = (within(Some(HOSTNAME), i64::MAX).into_iter())
                .map(|((_, name), group)| (-group.sums[0], name, group.mean(0)))
                .collect();
            // Every host has the same number of rows, so the order of sums is that of averages.
            sums.sort_by(|a, b| (a.0, &a.1).cmp(&(b.0, &b.1)));
            table(sums.into_iter().take(10).map(|(_, name, mean)| vec![Value::Text(name), mean]))
        }
        Form::HighHosts => one(group(Some(HOSTNAME), &|_, row| (row[0] > 90).then_some(0)).len() as i64),
        Form::Changes => one((0..set.hosts).map(|host| changes(&set.rows(host))).sum()),
        Form::Difference => {
            let [a, b] = [0, question.hosts.len() - 1].map(|at| set.rows(question.hosts[at]));
            let sum: i64 = a.iter().zip(&b).map(|(a, b)| i64::from(a[0]) - i64::from(b[0])).sum();
            table([vec![Value::Float(sum as f64 / f64::from(set.steps))]])
        }
        Form::Spread => {
            let mut groups = group(Some(SERVICE), &|ts, _| Some(floor(ts, 5 * MINUTE_MS)));
            let spread = |group: &Group| i64::from(group.greatest[0]) - i64::from(group.least[0]);
            groups.retain(|_, group| spread(group) > 90);
            by_both(&groups, |group| vec![Int(spread(group))])
        }
        Form::Expression => by_both(&group(Some(REGION), &|ts, _| Some(floor(ts, HOUR_MS))), |group| {
            vec![Value::Float((group.sums[0] + group.sums[1]) as f64 / 2.0 / group.count as f64)]
        }),
        Form::Count => one(set.len().cast_signed()),
        Form::Regions => {
            one((0..set.hosts).map(|host| set.tags(host)[REGION].clone()).collect::<BTreeSet<_>>().len() as i64)
        }
        Form::Bounds => table([vec![Int(set.ts(0)), Int(set.ts(set.steps.saturating_sub(1)))]]),
        Form::Histogram => {
            let groups = group(None, &|_, row| Some(i64::from(row[0] / 10)));
            table(groups.iter().map(|((tenth, _), group)| vec![Int(*tenth), Int(group.count)]))
        }
        Form::Classes => {
            let class = |value: u8| if value < 30 { 0 } else { 1 + i64::from(value >= 70) };
            let groups = group(None, &|_, row| Some(class(row[0])));
            let names = ["low", "middle", "high"];
            table(groups.iter().map(|((class, _), group)| vec![text(names[*class as usize]), Int(group.count)]))
        }
        Form::Latest => {
            let last = set.ts(set.steps.saturating_sub(1));
            let times = (0..i64::from(set.steps)).flat_map(|back| {
                let ts = last - back * super::STEP_MS;
                std::iter::repeat_n(vec![Int(ts)], set.hosts as usize)
            });
            Answer { names: vec!["ts".to_owned()], ..table(times.take(10)) }
        }
        Form::HighCount => one(count(&group(None, &|_, row| (row[0] > 90).then_some(0)))),
        Form::LastValues => table((0..set.hosts).filter_map(|host| {
            let last = set.rows(host).pop()?;
            let name = text(&set.tags(host)[HOSTNAME]);
            Some(std::iter::once(name).chain(last.map(|value| Int(value.into()))).collect())
        })),
        Form::HoursOfAll => by_both(&within(Some(HOSTNAME), HOUR_MS), |group| vec![group.mean(0)]),
        Form::WholeTable => table(group(None, &|_, _| Some(0)).values().map(|group| {
            let of_field = |field: usize| [Value::Float(group.greatest[field].into()), group.mean(field)];
            (0..FIELDS.len()).flat_map(of_field).collect()
        })),
        // Questions with all columns.
        Form::HighCpu { .. } | Form::LastPoint | Form::LastRows | Form::OneHour => Answer::default(),
    }
}

/// The 95th percentile of a host's `usage_user`, interpolated between the two nearest values.
fn percentile(set: &Tsbs, host: u32) -> f64 {
    let mut values: Vec<u8> = set.rows(host).iter().map(|row| row[0]).collect();
    values.sort_unstable();
    let place = 0.95 * values.len().saturating_sub(1) as f64;
    let [low, high] = [place.floor(), place.ceil()].map(|at| values.get(at as usize).copied().map_or(0.0, f64::from));
    low + (high - low) * place.fract()
}

/// Number of rows whose `usage_user` differs by at least two from the row before.
fn changes(rows: &[Values]) -> i64 {
    rows.windows(2).filter(|pair| pair[0][0].abs_diff(pair[1][0]) >= 2).count() as i64
}
