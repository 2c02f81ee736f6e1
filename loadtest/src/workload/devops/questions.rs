//! Queries of the fleet, as in TSBS, and the expected answers computed by plain loops.

use super::{DATABASE, Draws, FIRST_TS, Fleet, STEP_MS};
use crate::{
    workload::answer::{Answer, Column},
    workload::generate::random::mix,
    workload::verify::TOLERANCE,
};
use anyhow::{Result, bail, ensure};
use serde::{Deserialize, Serialize};
use std::ops::Range;

const MINUTE_MS: i64 = 60_000;
const HOUR_MS: i64 = 3_600_000;
/// Nanoseconds per millisecond: line protocol has created the database with precision ns.
const NANOS: i64 = 1_000_000;

/// Query shapes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Form {
    /// Maximum `usage_user` of one host in each minute of a random hour.
    OneHostOneHour,
    /// The same of eight hosts together.
    EightHostsOneHour,
    /// The same of one host in twelve hours.
    OneHostTwelveHours,
    /// All rows of one host in twelve hours whose `usage_user` is above 90.
    HighCpu,
    /// Last `usage_user` of each host.
    LastPoint,
    /// Maximum `usage_user` of all hosts in each of the last five minutes before an instant.
    GroupByOrderByLimit,
}

impl Form {
    /// All of them.
    pub const ALL: [Form; 6] = [
        Self::OneHostOneHour,
        Self::EightHostsOneHour,
        Self::OneHostTwelveHours,
        Self::HighCpu,
        Self::LastPoint,
        Self::GroupByOrderByLimit,
    ];

    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::OneHostOneHour => "one-host-one-hour",
            Self::EightHostsOneHour => "eight-hosts-one-hour",
            Self::OneHostTwelveHours => "one-host-twelve-hours",
            Self::HighCpu => "high-cpu",
            Self::LastPoint => "last-point",
            Self::GroupByOrderByLimit => "group-by-order-by-limit",
        }
    }
}

/// One query.
#[derive(Debug, Clone, PartialEq)]
pub struct Asked {
    /// Its shape.
    pub form: Form,
    /// Hosts of the query; empty for all.
    hosts: Vec<u32>,
    /// Half-open, in milliseconds since 1970.
    span: Range<i64>,
}

impl Asked {
    /// Returns the `nth` random query of a shape.
    pub fn random(fleet: &Fleet, form: Form, nth: u32) -> Self {
        let mut draws = Draws(mix(fleet.seed ^ mix(u64::from(nth) << 8 | form as u64)));
        let mut below = |n: u64| draws.bits() % n.max(1);
        let end = fleet.ts(fleet.steps);
        let count = match form {
            Form::OneHostOneHour | Form::OneHostTwelveHours | Form::HighCpu => 1,
            Form::EightHostsOneHour => 8,
            Form::LastPoint | Form::GroupByOrderByLimit => 0,
        };
        let mut hosts: Vec<u32> = Vec::new();
        while hosts.len() < count.min(fleet.hosts as usize) {
            let host = below(fleet.hosts.into()) as u32;
            if !hosts.contains(&host) {
                hosts.push(host);
            }
        }
        let length = match form {
            Form::OneHostOneHour | Form::EightHostsOneHour => HOUR_MS,
            Form::OneHostTwelveHours | Form::HighCpu => 12 * HOUR_MS,
            Form::LastPoint => end - FIRST_TS,
            Form::GroupByOrderByLimit => {
                // From the beginning to a random instant of the second half.
                (end - FIRST_TS) / 2 + below(((end - FIRST_TS) / 2) as u64) as i64
            }
        };
        let length = length.min(end - FIRST_TS);
        let start = match form {
            Form::LastPoint | Form::GroupByOrderByLimit => FIRST_TS,
            _ => FIRST_TS + below((end - FIRST_TS - length + 1) as u64) as i64,
        };
        Self { form, hosts, span: start..start + length }
    }

    /// Returns the statement with parameters, and their values.
    pub fn parameters(&self) -> (String, Vec<serde_json::Value>) {
        let mut values: Vec<serde_json::Value> = self.hosts.iter().map(|h| format!("host_{h}").into()).collect();
        let marks = vec!["?"; self.hosts.len()].join(", ");
        let of_hosts = match self.hosts.len() {
            0 => String::new(),
            1 => "hostname = ? and ".to_owned(),
            _ => format!("hostname in ({marks}) and "),
        };
        // A parameter compared with a time is in milliseconds, whatever the database's precision.
        let (from, to) = (self.span.start, self.span.end);
        let table = format!("{DATABASE}.cpu");
        let sql = match self.form {
            Form::OneHostOneHour | Form::EightHostsOneHour | Form::OneHostTwelveHours => {
                values.extend([from.into(), to.into()]);
                format!("select max(usage_user) from {table} where {of_hosts}ts >= ? and ts < ? interval(1m)")
            }
            Form::HighCpu => {
                values.extend([from.into(), to.into()]);
                format!("select * from {table} where {of_hosts}ts >= ? and ts < ? and usage_user > 90.0 order by ts")
            }
            Form::LastPoint => {
                format!("select hostname, last(usage_user) from {table} group by hostname order by hostname")
            }
            Form::GroupByOrderByLimit => {
                values.push(to.into());
                format!("select max(usage_user) from {table} where ts < ? interval(1m) order by _wstart desc limit 5")
            }
        };
        (sql, values)
    }

    /// Returns the statement with literal values, times in the database's precision.
    pub fn sql(&self) -> String {
        let (sql, values) = self.parameters();
        let mut text = String::new();
        let mut values = values.iter();
        for part in sql.split_inclusive('?') {
            match part.strip_suffix('?').zip(values.next()) {
                Some((before, serde_json::Value::String(value))) => text += &format!("{before}'{value}'"),
                Some((before, value)) => text += &format!("{before}{}", value.as_i64().unwrap_or_default() * NANOS),
                None => text += part,
            }
        }
        text
    }
}

/// Returns the InfluxQL text of a query of the maximum of one host.
///
/// # Errors
/// Another shape.
pub fn influxql(asked: &Asked) -> Result<String> {
    let (Form::OneHostOneHour | Form::OneHostTwelveHours, [host]) = (asked.form, asked.hosts.as_slice()) else {
        bail!("{} is not put to InfluxDB", asked.form.name());
    };
    let Range { start, end } = asked.span;
    Ok(format!(
        "select max(usage_user) from cpu where hostname = 'host_{host}' and time >= {start}ms and time < {end}ms \
         group by time(1m) fill(none)"
    ))
}

/// Computes the expected answer: the values of the compared column.
pub fn answer(fleet: &Fleet, asked: &Asked) -> Vec<f64> {
    let hosts: Vec<u32> = if asked.hosts.is_empty() { (0..fleet.hosts).collect() } else { asked.hosts.clone() };
    let series = |host: u32| fleet.series(host, "cpu", "usage_user");
    let rows = |host: u32| {
        let values = series(host).into_iter().enumerate();
        let timed = values.map(|(step, value)| (FIRST_TS + step as i64 * STEP_MS, value));
        timed.filter(|(ts, _)| asked.span.contains(ts)).collect::<Vec<_>>()
    };
    match asked.form {
        Form::HighCpu => rows(hosts[0]).into_iter().map(|(_, value)| value).filter(|value| *value > 90.0).collect(),
        Form::LastPoint => {
            let mut last: Vec<(String, f64)> =
                hosts.iter().map(|host| (format!("host_{host}"), series(*host)[fleet.steps as usize - 1])).collect();
            last.sort_by(|a, b| a.0.cmp(&b.0));
            last.into_iter().map(|(_, value)| value).collect()
        }
        _ => {
            let mut minutes = std::collections::BTreeMap::new();
            for (ts, value) in hosts.iter().flat_map(|host| rows(*host)) {
                let greatest = minutes.entry(ts.div_euclid(MINUTE_MS)).or_insert(f64::NEG_INFINITY);
                *greatest = greatest.max(value);
            }
            let all = minutes.into_values();
            if asked.form == Form::GroupByOrderByLimit { all.rev().take(5).collect() } else { all.collect() }
        }
    }
}

/// Compares a server's answer with the right one.
///
/// # Errors
/// The first difference.
pub fn check(fleet: &Fleet, asked: &Asked, found: &Answer) -> Result<()> {
    let name = match asked.form {
        Form::HighCpu => "usage_user",
        Form::LastPoint => "last(usage_user)",
        _ => "max(usage_user)",
    };
    let Column::Float(values) = found.column(name)? else { bail!("{name} is no column of floats") };
    check_values(fleet, asked, values)
}

/// Compares the values of an answer with the right ones, in order.
///
/// # Errors
/// The first difference.
pub fn check_values(fleet: &Fleet, asked: &Asked, values: &[Option<f64>]) -> Result<()> {
    let (expected, sql) = (answer(fleet, asked), asked.sql());
    ensure!(values.len() == expected.len(), "{sql}: expected {} rows, found {}", expected.len(), values.len());
    for (row, (want, have)) in expected.iter().zip(values).enumerate() {
        let close = have.is_some_and(|have| (have - want).abs() <= TOLERANCE * want.abs().max(1e-300));
        ensure!(close, "{sql}: row {row}: expected {want}, found {have:?}");
    }
    Ok(())
}
