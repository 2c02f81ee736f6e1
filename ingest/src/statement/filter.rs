//! The WHERE clause of a DELETE: a time range and a condition on series.

use std::cmp::Ordering;

use arrow::array::ArrayRef;
use tidelake_format::{
    Error, Reason, Result,
    ids::ColumnId,
    rows::SeriesSet,
    schema::{Role, Supertable, TBNAME},
    types::{Scalar, Type},
};
use tidelake_protocol::sql::{Comparison, Literal, Predicate};

use crate::{
    decode::tdengine::{Clock, TypedLiteral as _},
    scalar::scalar_at,
};

/// Rows selected by a DELETE.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Filter {
    /// First and last tick, both inclusive; empty if the first is greater.
    pub(super) range: (i64, i64),
    /// Condition on series; `None` selects all.
    pub(super) series: Option<Condition>,
}

/// A condition on the tags and the name of a series.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Condition {
    All(Vec<Condition>),
    Any(Vec<Condition>),
    Not(Box<Condition>),
    Compare { tag: Tag, op: Comparison, value: Option<Scalar> },
    In { tag: Tag, values: Vec<Option<Scalar>> },
    Like { tag: Tag, pattern: Vec<Match> },
    IsNull(Tag),
}

/// A tag, or the series name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tag {
    Name,
    Of(ColumnId),
}

/// One piece of a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Match {
    Char(char),
    AnyChar,
    AnyText,
}

impl Filter {
    /// Selects everything of all series.
    pub(super) const ALL: Filter = Filter { range: (i64::MIN, i64::MAX), series: None };

    /// Converts a WHERE clause for a table.
    ///
    /// # Errors
    /// Unsupported for anything but a time range and conditions on tags and `tbname`; NotFound for a column that the table
    /// lacks; Invalid for a value that cannot be compared with its column.
    pub(super) fn of(predicate: Option<&Predicate>, table: &Supertable, clock: Clock) -> Result<Self> {
        let mut filter = Self::ALL;
        let mut conditions = Vec::new();
        let mut left: Vec<&Predicate> = predicate.into_iter().collect();
        while let Some(predicate) = left.pop() {
            match predicate {
                Predicate::And(parts) => left.extend(parts.iter().rev()),
                Predicate::Compare { column, op, value } if is_time(table, column) => {
                    let (first, last) = range(*op, value, clock)?;
                    filter.range = (filter.range.0.max(first), filter.range.1.min(last));
                }
                other => conditions.push(condition(other, table, clock)?),
            }
        }
        if !conditions.is_empty() {
            filter.series = Some(Condition::All(conditions));
        }
        Ok(filter)
    }

    /// Whether no row can match.
    pub(super) fn is_empty(&self) -> bool {
        self.range.0 > self.range.1
    }
}

pub(super) fn is_time(table: &Supertable, column: &str) -> bool {
    column.eq_ignore_ascii_case("_rowts") || table.column(column).is_some_and(|c| c.role == Role::Time)
}

/// The ticks that satisfy `time op value`.
fn range(op: Comparison, value: &Literal, clock: Clock) -> Result<(i64, i64)> {
    const NONE: (i64, i64) = (i64::MAX, i64::MIN);
    let Some(ticks) = value.ticks(clock)? else { return Ok(NONE) };
    Ok(match op {
        Comparison::Equal => (ticks, ticks),
        Comparison::Less => ticks.checked_sub(1).map_or(NONE, |last| (i64::MIN, last)),
        Comparison::LessOrEqual => (i64::MIN, ticks),
        Comparison::Greater => ticks.checked_add(1).map_or(NONE, |first| (first, i64::MAX)),
        Comparison::GreaterOrEqual => (ticks, i64::MAX),
        Comparison::NotEqual => return Err(not_a_range()),
    })
}

fn not_a_range() -> Error {
    Error::unsupported(
        "DELETE supports one time range (=, <, <=, >, >=, BETWEEN, joined by AND) and no other condition on time",
    )
}

fn condition(predicate: &Predicate, table: &Supertable, clock: Clock) -> Result<Condition> {
    let all = |parts: &[Predicate]| parts.iter().map(|p| condition(p, table, clock)).collect::<Result<Vec<_>>>();
    Ok(match predicate {
        Predicate::And(parts) => Condition::All(all(parts)?),
        Predicate::Or(parts) => Condition::Any(all(parts)?),
        Predicate::Not(inner) => Condition::Not(Box::new(condition(inner, table, clock)?)),
        Predicate::Compare { column, op, value } => {
            let (tag, column) = tag(table, column)?;
            Condition::Compare { tag, op: *op, value: value.operand(&column, clock)? }
        }
        Predicate::In { column, values } => {
            let (tag, column) = tag(table, column)?;
            let values = values.iter().map(|v| v.operand(&column, clock)).collect::<Result<_>>()?;
            Condition::In { tag, values }
        }
        Predicate::Like { column, pattern } => {
            let (tag, column) = tag(table, column)?;
            if !matches!(column.ty, Type::Binary(_) | Type::NChar(_) | Type::Json) {
                return Err(Error::invalid("LIKE needs a text column")
                    .with("column", column.name)
                    .with("found", column.ty));
            }
            let Literal::Text(pattern) = pattern else {
                return Err(Error::invalid("LIKE needs a text pattern").with("column", column.name));
            };
            Condition::Like { tag, pattern: pieces(pattern) }
        }
        Predicate::IsNull { column } => Condition::IsNull(tag(table, column)?.0),
    })
}

/// The columns that conditions of a DELETE may name.
fn deletable(table: &Supertable) -> String {
    let tags = table.tags().map(|tag| tag.name.as_str());
    std::iter::once(table.time().name.as_str()).chain(tags).chain([TBNAME]).collect::<Vec<_>>().join(", ")
}

/// Finds a tag or `tbname`, and its column.
fn tag(table: &Supertable, name: &str) -> Result<(Tag, tidelake_format::schema::Column)> {
    if name.eq_ignore_ascii_case(TBNAME) {
        let (id, ty) = (ColumnId::TBNAME, Type::Binary(None));
        return Ok((Tag::Name, tidelake_format::schema::Column::new(id, TBNAME.to_owned(), Role::Tag, ty)));
    }
    if is_time(table, name) {
        return Err(not_a_range());
    }
    let column = table.column(name).ok_or_else(|| {
        Error::not_found("Invalid column name")
            .because(Reason::ColumnNotFound)
            .with("table", &table.name)
            .with("column", name)
    })?;
    match column.role {
        Role::Tag => Ok((Tag::Of(column.id), column.clone())),
        _ => Err(Error::unsupported("DELETE supports conditions on time, tags and tbname, not on fields")
            .with("table", &table.name)
            .with("found", name)
            .with("expected one of", deletable(table))),
    }
}

fn pieces(pattern: &str) -> Vec<Match> {
    let mut pieces = Vec::new();
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        let piece = match c {
            '%' if pieces.last() == Some(&Match::AnyText) => continue,
            '%' => Match::AnyText,
            '_' => Match::AnyChar,
            '\\' => Match::Char(chars.next().unwrap_or('\\')),
            c => Match::Char(c),
        };
        pieces.push(piece);
    }
    pieces
}

impl Condition {
    /// The series of a set for which the condition is true (not unknown).
    pub(super) fn select(&self, set: &SeriesSet) -> Vec<bool> {
        (0..set.len()).map(|row| self.holds(set, row) == Some(true)).collect()
    }

    /// Evaluates in three-valued logic: `None` is unknown.
    fn holds(&self, set: &SeriesSet, row: usize) -> Option<bool> {
        match self {
            Condition::All(parts) => together(parts.iter().map(|p| p.holds(set, row)), false),
            Condition::Any(parts) => together(parts.iter().map(|p| p.holds(set, row)), true),
            Condition::Not(inner) => inner.holds(set, row).map(|holds| !holds),
            Condition::Compare { tag, op, value } => {
                let found = value_of(set, *tag, row)?;
                compare(&found, value.as_ref()?).map(|order| holds(*op, order))
            }
            Condition::In { tag, values } => {
                let found = value_of(set, *tag, row)?;
                let equal = |v: &Option<Scalar>| compare(&found, v.as_ref()?).map(|order| order == Ordering::Equal);
                together(values.iter().map(equal), true)
            }
            Condition::Like { tag, pattern } => match value_of(set, *tag, row)? {
                Scalar::Text(text) => Some(matches(&text, pattern)),
                _ => None,
            },
            Condition::IsNull(tag) => Some(value_of(set, *tag, row).is_none()),
        }
    }
}

/// AND (`decisive` = false) or OR (`decisive` = true) of three-valued parts.
fn together(parts: impl Iterator<Item = Option<bool>>, decisive: bool) -> Option<bool> {
    let mut unknown = false;
    for part in parts {
        match part {
            Some(value) if value == decisive => return Some(decisive),
            Some(_) => {}
            None => unknown = true,
        }
    }
    (!unknown).then_some(!decisive)
}

fn value_of(set: &SeriesSet, tag: Tag, row: usize) -> Option<Scalar> {
    match tag {
        Tag::Name => Some(Scalar::Text(set.names().value(row).to_owned())),
        Tag::Of(id) => {
            let values: &ArrayRef = set.tag(id)?;
            scalar_at(values, row)
        }
    }
}

fn holds(op: Comparison, order: Ordering) -> bool {
    match op {
        Comparison::Equal => order.is_eq(),
        Comparison::NotEqual => order.is_ne(),
        Comparison::Less => order.is_lt(),
        Comparison::LessOrEqual => order.is_le(),
        Comparison::Greater => order.is_gt(),
        Comparison::GreaterOrEqual => order.is_ge(),
    }
}

/// Orders two values: numbers by value regardless of type, texts by bytes; `None` if they are not comparable.
fn compare(a: &Scalar, b: &Scalar) -> Option<Ordering> {
    let integer = |v: &Scalar| match v {
        Scalar::Int(v) => Some(i128::from(*v)),
        Scalar::UInt(v) => Some(i128::from(*v)),
        _ => None,
    };
    let float = |v: &Scalar| match v {
        Scalar::Int(v) => Some(*v as f64),
        Scalar::UInt(v) => Some(*v as f64),
        Scalar::Float(v) => Some(*v),
        _ => None,
    };
    match (a, b) {
        (Scalar::Bool(a), Scalar::Bool(b)) => Some(a.cmp(b)),
        (Scalar::Text(a), Scalar::Text(b)) => Some(a.cmp(b)),
        (Scalar::Bytes(a), Scalar::Bytes(b)) => Some(a.cmp(b)),
        _ => match (integer(a), integer(b)) {
            (Some(a), Some(b)) => Some(a.cmp(&b)),
            _ => float(a)?.partial_cmp(&float(b)?),
        },
    }
}

/// Whether a text matches a pattern; takes at most its length times the pattern's length in steps.
fn matches(text: &str, pattern: &[Match]) -> bool {
    let text: Vec<char> = text.chars().collect();
    let (mut at, mut p) = (0, 0);
    // Where to resume when the last `%` has to match one more character.
    let mut back: Option<(usize, usize)> = None;
    while at < text.len() {
        match pattern.get(p) {
            Some(Match::AnyText) => {
                back = Some((at, p + 1));
                p += 1;
            }
            Some(Match::AnyChar) => (at, p) = (at + 1, p + 1),
            Some(Match::Char(c)) if text[at] == *c => (at, p) = (at + 1, p + 1),
            _ => match back {
                None => return false,
                Some((from, next)) => {
                    (at, p) = (from + 1, next);
                    back = Some((from + 1, next));
                }
            },
        }
    }
    pattern[p..].iter().all(|m| *m == Match::AnyText)
}

#[cfg(test)]
mod tests;
