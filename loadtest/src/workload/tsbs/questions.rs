//! The questions: the fifteen query types of TSBS, and further statements. Hosts and times are random within the data.

use std::ops::Range;

use super::{
    Columns, Draws, FIELDS, FIRST_TS, Kind,
    Kind::{Approximate, Exact, Float, Interpolated},
    Tsbs,
};
use crate::workload::generate::random::mix;

const HOUR_MS: i64 = 3_600_000;

/// What a question returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Maximum of the first fields of some hosts, per minute of some hours.
    Minutes {
        /// Number of fields.
        fields: usize,
        /// Number of hosts.
        hosts: u32,
        /// Number of hours.
        hours: i64,
    },
    /// Maximum of all fields of some hosts, per hour of eight hours.
    MaxAll {
        /// Number of hosts.
        hosts: u32,
    },
    /// Average of the first fields of every host, per hour of twelve hours.
    Hours {
        /// Number of fields.
        fields: usize,
    },
    /// Rows of twelve hours whose `usage_user` is above 90; of one host or of all.
    HighCpu {
        /// Whether the rows are those of one host.
        is_of_one: bool,
    },
    /// The last row of every host.
    LastPoint,
    /// Maximum of `usage_user` of all hosts in each of the last five minutes before an instant.
    LastMinutes,
    /// Average of high values by region.
    HighByRegion,
    /// 95th percentile by host, approximated.
    ApproximatePercentile,
    /// 95th percentile by host.
    ExactPercentile,
    /// The ten hosts with the highest average of the last hour.
    TopHosts,
    /// The last ten rows of one host.
    LastRows,
    /// Number of hosts with high values.
    HighHosts,
    /// Number of rows whose value differs by at least two from the host's row before.
    Changes,
    /// Average difference of two hosts at equal times.
    Difference,
    /// Difference of maximum and minimum by service and five minutes, if above 90.
    Spread,
    /// Average of an expression by hour and region.
    Expression,
    /// Number of all rows.
    Count,
    /// Number of regions.
    Regions,
    /// First and last time.
    Bounds,
    /// Number of rows by tenths of the range.
    Histogram,
    /// Number of rows by three classes.
    Classes,
    /// All columns of one hour.
    OneHour,
    /// Ten rows with the latest times.
    Latest,
    /// Number of high values.
    HighCount,
    /// Last value of each field, by host.
    LastValues,
    /// Average by whole hour and host, over all rows.
    HoursOfAll,
    /// Maximum and average of all fields over all rows.
    WholeTable,
}

/// Every question, with its name in reports: first those of TSBS.
const FORMS: [(&str, Form); 36] = [
    ("single-groupby-1-1-1", Form::Minutes { fields: 1, hosts: 1, hours: 1 }),
    ("single-groupby-1-1-12", Form::Minutes { fields: 1, hosts: 1, hours: 12 }),
    ("single-groupby-1-8-1", Form::Minutes { fields: 1, hosts: 8, hours: 1 }),
    ("single-groupby-5-1-1", Form::Minutes { fields: 5, hosts: 1, hours: 1 }),
    ("single-groupby-5-1-12", Form::Minutes { fields: 5, hosts: 1, hours: 12 }),
    ("single-groupby-5-8-1", Form::Minutes { fields: 5, hosts: 8, hours: 1 }),
    ("cpu-max-all-1", Form::MaxAll { hosts: 1 }),
    ("cpu-max-all-8", Form::MaxAll { hosts: 8 }),
    ("double-groupby-1", Form::Hours { fields: 1 }),
    ("double-groupby-5", Form::Hours { fields: 5 }),
    ("double-groupby-all", Form::Hours { fields: FIELDS.len() }),
    ("high-cpu-all", Form::HighCpu { is_of_one: false }),
    ("high-cpu-1", Form::HighCpu { is_of_one: true }),
    ("lastpoint", Form::LastPoint),
    ("groupby-orderby-limit", Form::LastMinutes),
    ("A1 average of high values by region", Form::HighByRegion),
    ("A2 approximate p95 by host", Form::ApproximatePercentile),
    ("A2x exact p95 by host", Form::ExactPercentile),
    ("A3 top 10 hosts of the last hour", Form::TopHosts),
    ("A4 last 10 rows of one host", Form::LastRows),
    ("A5 hosts with high values", Form::HighHosts),
    ("A6 changes by lag", Form::Changes),
    ("A7 join of two hosts", Form::Difference),
    ("A8 spread by 5 minutes and service", Form::Spread),
    ("A9 expression by hour and region", Form::Expression),
    ("A10 count(*)", Form::Count),
    ("A10 count(distinct region)", Form::Regions),
    ("A10 min and max of ts", Form::Bounds),
    ("A11 histogram by floor", Form::Histogram),
    ("A11 classes by CASE", Form::Classes),
    ("A12 one hour, all columns", Form::OneHour),
    ("latest 10 rows", Form::Latest),
    ("count of high values", Form::HighCount),
    ("lastpoint by last values", Form::LastValues),
    ("average by hour and host", Form::HoursOfAll),
    ("max and avg of the whole table", Form::WholeTable),
];

/// Names of all questions.
pub const NAMES: [&str; FORMS.len()] = {
    let mut names = [""; FORMS.len()];
    let mut at = 0;
    while at < names.len() {
        names[at] = FORMS[at].0;
        at += 1;
    }
    names
};

/// The questions that concurrent clients mix.
pub const MIXED: [Form; 5] = [
    Form::Hours { fields: 5 },
    Form::Hours { fields: FIELDS.len() },
    Form::HighCpu { is_of_one: false },
    Form::Changes,
    Form::OneHour,
];

/// One question: a form with its hosts and its time range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// The name in reports.
    pub name: &'static str,
    /// What it returns.
    pub form: Form,
    /// Hosts; empty for all.
    pub hosts: Vec<u32>,
    /// Half-open, in milliseconds since 1970.
    pub span: Range<i64>,
}

impl Question {
    /// The `nth` random question of a form.
    pub fn random(set: &Tsbs, form: Form, nth: u64) -> Self {
        let place = FORMS.iter().position(|(_, other)| *other == form).unwrap_or_default();
        let mut draws = Draws(mix(set.seed ^ mix(nth << 8 | place as u64)));
        let mut below = |n: i64| (draws.bits() % n.max(1).cast_unsigned()).cast_signed();
        let all = FIRST_TS..set.ts(set.steps);
        let (count, hours) = match form {
            Form::Minutes { hosts, hours, .. } => (hosts, Some(hours)),
            Form::MaxAll { hosts } => (hosts, Some(8)),
            Form::Hours { .. } | Form::HighCpu { is_of_one: false } => (0, Some(12)),
            Form::HighCpu { is_of_one: true } => (1, Some(12)),
            Form::LastMinutes | Form::OneHour => (0, Some(1)),
            Form::LastRows => (1, None),
            Form::Difference => (2, None),
            _ => (0, None),
        };
        let mut hosts: Vec<u32> = Vec::new();
        while hosts.len() < count.min(set.hosts) as usize {
            let host = below(set.hosts.into()) as u32;
            if !hosts.contains(&host) {
                hosts.push(host);
            }
        }
        let whole = all.end - all.start;
        let span = match hours {
            // A window that begins at any millisecond, as in TSBS.
            Some(hours) => {
                let length = (hours * HOUR_MS).min(whole);
                let start = all.start + below(whole - length + 1);
                start..start + length
            }
            None if form == Form::TopHosts => (all.end - HOUR_MS).max(all.start)..all.end,
            None => all,
        };
        Self { name: FORMS[place].0, form, hosts, span }
    }

    /// Every question once.
    pub fn all(set: &Tsbs) -> Vec<Self> {
        FORMS.iter().map(|(_, form)| Self::random(set, *form, 0)).collect()
    }

    /// A number of random questions of the forms that concurrent clients mix.
    pub fn mixed(set: &Tsbs, count: usize) -> Vec<Self> {
        (0..count).map(|nth| Self::random(set, MIXED[nth % MIXED.len()], 1 + nth as u64)).collect()
    }

    /// The compared columns of the answer, and whether its rows have an order.
    pub fn columns(&self) -> (Columns, bool) {
        let listed = |before: &[Kind], kind: Kind, count: usize| {
            Columns::Listed(before.iter().copied().chain(std::iter::repeat_n(kind, count)).collect())
        };
        match self.form {
            Form::Minutes { fields, .. } => (listed(&[Exact], Exact, fields), true),
            Form::MaxAll { .. } => (listed(&[Exact], Exact, FIELDS.len()), true),
            Form::Hours { fields } => (listed(&[Exact, Exact], Float, fields), true),
            Form::HighCpu { .. } | Form::LastPoint | Form::OneHour => (Columns::Named, false),
            Form::LastMinutes => (listed(&[], Exact, 2), true),
            Form::HighByRegion => (listed(&[Exact], Float, 1), false),
            Form::ExactPercentile => (listed(&[Exact], Interpolated, 1), false),
            Form::ApproximatePercentile => (listed(&[Exact], Approximate, 1), false),
            Form::TopHosts => (listed(&[Exact], Float, 1), true),
            Form::LastRows => (Columns::Named, true),
            Form::HighHosts | Form::Changes | Form::Count | Form::Regions | Form::HighCount => {
                (listed(&[], Exact, 1), true)
            }
            Form::Difference => (listed(&[], Float, 1), true),
            Form::Spread => (listed(&[], Exact, 3), false),
            Form::Expression | Form::HoursOfAll => (listed(&[Exact, Exact], Float, 1), false),
            Form::Bounds => (listed(&[], Exact, 2), true),
            Form::Histogram | Form::Classes => (listed(&[], Exact, 2), false),
            Form::Latest => (Columns::Times, true),
            Form::LastValues => (listed(&[Exact], Exact, FIELDS.len()), false),
            Form::WholeTable => (listed(&[], Float, 2 * FIELDS.len()), true),
        }
    }
}
