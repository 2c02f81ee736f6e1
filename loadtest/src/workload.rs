//! Data and expected answers of the load test; no connection, no clock.
//!
//! This module has the statements and the write matrix of the papers' thermohygrometers. [`generate`] has their rows, [`oracle`]
//! the expected answers, and [`mod@verify`] compares them with an [`answer`]. [`devops`], [`meters`], [`tsbs`] and [`wide`] are the
//! other workloads.

pub mod answer;
pub mod devops;
pub mod figures;
pub mod generate;
pub mod meters;
pub mod oracle;
pub mod part;
pub mod tsbs;
pub mod verify;
pub mod wide;

pub use generate::SUPERTABLE;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// The database that every statement names.
pub const DATABASE: &str = "db";

/// The statement that creates the supertable, as the papers print it.
pub const CREATE_SUPERTABLE: &str = "create table devices(ts timestamp, temperature int, humidity float) \
                                     tags(devid int, devname binary(16), devgroup int);";

/// The percentages at which the papers ran q2–q4.
pub const PERCENTS: [u32; 10] = [10, 20, 30, 40, 50, 60, 70, 80, 90, 100];
/// The groups of the papers' q1.
pub const Q1_GROUPS: [u32; 10] = [0, 10, 20, 30, 40, 50, 60, 70, 80, 90];
/// Rows per request of the write matrix (the papers' tables together).
pub const ROWS_PER_REQUEST: [usize; 9] = [1, 10, 30, 50, 80, 100, 500, 1000, 2000];
/// Clients of the write matrix.
pub const CLIENTS: [usize; 7] = [1, 2, 3, 4, 5, 6, 7];

/// The functions of q2, in the papers' order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Function {
    /// `count(*)`
    Count,
    /// `avg(temperature)`
    Avg,
    /// `sum(temperature)`
    Sum,
    /// `max(temperature)`
    Max,
    /// `min(temperature)`
    Min,
    /// `spread(temperature)`: max − min
    Spread,
}

impl Function {
    /// All of them, in the papers' order.
    pub const ALL: [Function; 6] = [Self::Count, Self::Avg, Self::Sum, Self::Max, Self::Min, Self::Spread];

    /// The function's name in SQL and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Count => "count",
            Self::Avg => "avg",
            Self::Sum => "sum",
            Self::Max => "max",
            Self::Min => "min",
            Self::Spread => "spread",
        }
    }

    /// The select expression, which is also the result's column name.
    pub fn select(self) -> String {
        match self {
            Self::Count => "count(*)".into(),
            other => format!("{}(temperature)", other.name()),
        }
    }
}

/// One of the papers' queries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Question {
    /// All rows of one group.
    Q1 {
        /// The group, 0..100.
        group: u32,
    },
    /// One aggregate over the groups below `percent`.
    Q2 {
        /// The aggregate function.
        function: Function,
        /// Percentage of the data, 1..=100; 100 has no filter.
        percent: u32,
    },
    /// Three aggregates for each group below `percent`.
    Q3 {
        /// Percentage of the data, 1..=100; 100 has no filter.
        percent: u32,
    },
    /// Three aggregates for each minute, over the groups below `percent`.
    Q4 {
        /// Percentage of the data, 1..=100; 100 has no filter.
        percent: u32,
    },
}

const THREE: &str = "count(temperature), sum(temperature), avg(temperature)";

impl Question {
    /// The statement, word for word as the papers print it.
    ///
    /// # Example
    /// ```
    /// use tidelake_loadtest::workload::{Function, Question};
    /// let question = Question::Q2 { function: Function::Avg, percent: 10 };
    /// assert_eq!(question.sql(), "select avg(temperature) from db.devices where devgroup<10;");
    /// assert_eq!(Question::Q1 { group: 0 }.sql(), "select * from db.devices where devgroup=0;");
    /// ```
    pub fn sql(&self) -> String {
        self.sql_where(None)
    }

    /// The statement restricted to a half-open time range, in milliseconds since 1970.
    ///
    /// # Example
    /// ```
    /// use tidelake_loadtest::workload::Question;
    /// let sql = "select * from db.devices where devgroup=3 and ts >= 60000 and ts < 120000;";
    /// assert_eq!(Question::Q1 { group: 3 }.sql_within(60_000..120_000), sql);
    /// ```
    pub fn sql_within(&self, span: Range<i64>) -> String {
        self.sql_where(Some(format!("ts >= {} and ts < {}", span.start, span.end)))
    }

    fn sql_where(&self, condition: Option<String>) -> String {
        let filter = |percent: &u32| {
            let groups = (*percent < 100).then(|| format!("devgroup<{percent}"));
            let all: Vec<String> = groups.into_iter().chain(condition.clone()).collect();
            if all.is_empty() { String::new() } else { format!(" where {}", all.join(" and ")) }
        };
        match self {
            Self::Q1 { group } => {
                let more = condition.map_or(String::new(), |condition| format!(" and {condition}"));
                format!("select * from db.devices where devgroup={group}{more};")
            }
            Self::Q2 { function, percent } => {
                format!("select {} from db.devices{};", function.select(), filter(percent))
            }
            Self::Q3 { percent } => format!("select {THREE} from db.devices{} group by devgroup;", filter(percent)),
            Self::Q4 { percent } => format!("select {THREE} from db.devices{} interval(1m);", filter(percent)),
        }
    }

    /// The row of the report's tables: `q1`, `q2 avg`, `q3`, …
    pub fn family(&self) -> String {
        match self {
            Self::Q1 { .. } => "q1".into(),
            Self::Q2 { function, .. } => format!("q2 {}", function.name()),
            Self::Q3 { .. } => "q3".into(),
            Self::Q4 { .. } => "q4".into(),
        }
    }

    /// The column of the report's tables: the percentage, or the group of q1.
    pub fn scale(&self) -> u32 {
        match *self {
            Self::Q1 { group } => group,
            Self::Q2 { percent, .. } | Self::Q3 { percent } | Self::Q4 { percent } => percent,
        }
    }

    /// A unique name: `q2 avg 10 %`, `q1 group 0`.
    pub fn name(&self) -> String {
        match self {
            Self::Q1 { group } => format!("q1 group {group}"),
            other => format!("{} {} %", other.family(), other.scale()),
        }
    }
}

/// q2 (six functions), q3 and q4 at one percentage, in the papers' order.
pub fn queries(percent: u32) -> Vec<Question> {
    let q2 = Function::ALL.iter().map(|&function| Question::Q2 { function, percent });
    q2.chain([Question::Q3 { percent }, Question::Q4 { percent }]).collect()
}

/// q1 of the given groups, then [`queries`] at each percentage.
pub fn all_queries(groups: &[u32], percents: &[u32]) -> Vec<Question> {
    let q1 = groups.iter().map(|&group| Question::Q1 { group });
    q1.chain(percents.iter().flat_map(|&percent| queries(percent))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_statements_are_the_papers_word_for_word() {
        let sql: Vec<String> = queries(10).iter().map(Question::sql).collect();
        assert_eq!(
            sql,
            [
                "select count(*) from db.devices where devgroup<10;",
                "select avg(temperature) from db.devices where devgroup<10;",
                "select sum(temperature) from db.devices where devgroup<10;",
                "select max(temperature) from db.devices where devgroup<10;",
                "select min(temperature) from db.devices where devgroup<10;",
                "select spread(temperature) from db.devices where devgroup<10;",
                "select count(temperature), sum(temperature), avg(temperature) from db.devices where devgroup<10 \
                 group by devgroup;",
                "select count(temperature), sum(temperature), avg(temperature) from db.devices where devgroup<10 \
                 interval(1m);",
            ]
        );
        assert_eq!(
            Question::Q4 { percent: 100 }.sql(),
            "select count(temperature), sum(temperature), avg(temperature) from db.devices interval(1m);"
        );
    }

    #[test]
    fn all_questions_of_the_papers_number_ninety_and_have_names_of_their_own() {
        let all = all_queries(&Q1_GROUPS, &PERCENTS);
        let names: std::collections::BTreeSet<String> = all.iter().map(Question::name).collect();
        assert_eq!((all.len(), names.len()), (90, 90));
    }
}
