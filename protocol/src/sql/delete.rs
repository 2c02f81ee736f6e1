//! Parser of DELETE FROM and its WHERE.

use tidelake_format::{Error, Result};

use super::{
    ddl::literal,
    lexer::Cursor,
    parameters::Numbers,
    statement::{Comparison, Delete, Literal, Predicate, Statement},
};

/// Maximum nesting depth of parentheses and NOT.
const DEPTH: usize = 64;
/// Maximum number of comparisons and values in a WHERE.
const PARTS: usize = 100_000;

/// Parses the rest of DELETE.
pub(super) fn delete(cursor: &mut Cursor<'_>) -> Result<Statement> {
    cursor.expect_word("FROM")?;
    let table = cursor.table_name()?;
    let mut reader = Reader::default();
    let filter = if cursor.take_word("WHERE") { Some(reader.any(cursor)?) } else { None };
    Ok(Statement::Delete(Delete { table, filter, parameters: reader.parameters.count }))
}

impl Delete {
    /// The column that each parameter is compared with, by parameter index.
    pub fn compared(&self) -> Vec<Option<&str>> {
        let mut columns = vec![None; self.parameters];
        if let Some(filter) = &self.filter {
            filter.each_literal(&mut |column, literal| {
                if let Literal::Parameter(at) = literal {
                    columns[*at] = Some(column);
                }
            });
        }
        columns
    }

    /// Returns the statement with its literals replaced, for example parameters by values.
    ///
    /// # Errors
    /// Those of `change`.
    pub fn with_literals(&self, mut change: impl FnMut(&Literal) -> Result<Literal>) -> Result<Delete> {
        let filter = self.filter.as_ref().map(|filter| filter.with_literals(&mut change)).transpose()?;
        Ok(Delete { table: self.table.clone(), filter, parameters: self.parameters })
    }
}

impl Predicate {
    /// Calls `seen` with every literal and its column.
    fn each_literal<'a>(&'a self, seen: &mut impl FnMut(&'a str, &'a Literal)) {
        match self {
            Predicate::And(parts) | Predicate::Or(parts) => parts.iter().for_each(|part| part.each_literal(seen)),
            Predicate::Not(inner) => inner.each_literal(seen),
            Predicate::Compare { column, value, .. } => seen(column, value),
            Predicate::In { column, values } => values.iter().for_each(|value| seen(column, value)),
            Predicate::Like { column, pattern } => seen(column, pattern),
            Predicate::IsNull { .. } => (),
        }
    }

    fn with_literals(&self, change: &mut impl FnMut(&Literal) -> Result<Literal>) -> Result<Predicate> {
        let mut all = |parts: &[Predicate]| parts.iter().map(|part| part.with_literals(change)).collect::<Result<_>>();
        Ok(match self {
            Predicate::And(parts) => Predicate::And(all(parts)?),
            Predicate::Or(parts) => Predicate::Or(all(parts)?),
            Predicate::Not(inner) => Predicate::Not(Box::new(inner.with_literals(change)?)),
            Predicate::Compare { column, op, value } => {
                Predicate::Compare { column: column.clone(), op: *op, value: change(value)? }
            }
            Predicate::In { column, values } => {
                let values = values.iter().map(change).collect::<Result<_>>()?;
                Predicate::In { column: column.clone(), values }
            }
            Predicate::Like { column, pattern } => {
                Predicate::Like { column: column.clone(), pattern: change(pattern)? }
            }
            Predicate::IsNull { column } => Predicate::IsNull { column: column.clone() },
        })
    }
}

#[derive(Default)]
struct Reader {
    depth: usize,
    parts: usize,
    parameters: Numbers,
}

impl Reader {
    /// Parses conditions separated by OR.
    fn any(&mut self, cursor: &mut Cursor<'_>) -> Result<Predicate> {
        let mut parts = vec![self.all(cursor)?];
        while cursor.take_word("OR") {
            parts.push(self.all(cursor)?);
        }
        Ok(one_or(parts, Predicate::Or))
    }

    /// Parses conditions separated by AND.
    fn all(&mut self, cursor: &mut Cursor<'_>) -> Result<Predicate> {
        let mut parts = vec![self.factor(cursor)?];
        while cursor.take_word("AND") {
            parts.push(self.factor(cursor)?);
        }
        Ok(one_or(parts, Predicate::And))
    }

    fn factor(&mut self, cursor: &mut Cursor<'_>) -> Result<Predicate> {
        self.depth += 1;
        if self.depth > DEPTH {
            return Err(Error::invalid("WHERE is nested too deeply").with("limit", DEPTH));
        }
        let predicate = if cursor.take_word("NOT") {
            Predicate::Not(Box::new(self.factor(cursor)?))
        } else if cursor.take(b'(') {
            let inner = self.any(cursor)?;
            cursor.expect(b')')?;
            inner
        } else {
            self.condition(cursor)?
        };
        self.depth -= 1;
        Ok(predicate)
    }

    fn count(&mut self) -> Result<()> {
        self.parts += 1;
        if self.parts > PARTS {
            return Err(Error::invalid("WHERE has too many conditions").with("limit", PARTS));
        }
        Ok(())
    }

    /// Parses a value or parameter.
    fn literal(&mut self, cursor: &mut Cursor<'_>) -> Result<Literal> {
        cursor.skip();
        if !matches!(cursor.byte(), b'?' | b'$') {
            return literal(cursor);
        }
        let number = cursor.parameter()?;
        self.count()?;
        self.parameters.place(number).map(Literal::Parameter)
    }

    fn condition(&mut self, cursor: &mut Cursor<'_>) -> Result<Predicate> {
        self.count()?;
        cursor.skip();
        let starts_value = cursor.is_text() || matches!(cursor.byte(), b'?' | b'$' | b'0'..=b'9' | b'-' | b'+' | b'.');
        let is_word =
            ["NULL", "TRUE", "FALSE", "NOW", "TODAY"].iter().any(|w| cursor.peek_word().eq_ignore_ascii_case(w));
        if starts_value || is_word {
            let value = self.literal(cursor)?;
            let op = comparison(cursor).ok_or_else(|| cursor.unexpected("a comparison"))?;
            return Ok(Predicate::Compare { column: cursor.name("a column name")?, op: turned(op), value });
        }
        let column = cursor.name("a column name")?;
        if cursor.byte() == b'(' {
            return Err(Error::unsupported("functions of columns are not supported in the WHERE of DELETE")
                .with("found", column));
        }
        if cursor.byte() == b'.' {
            return Err(
                Error::unsupported("qualified columns are not supported in the WHERE of DELETE").with("found", column)
            );
        }
        if let Some(op) = comparison(cursor) {
            return Ok(Predicate::Compare { column, op, value: self.literal(cursor)? });
        }
        if cursor.take_word("IS") {
            let not = cursor.take_word("NOT");
            cursor.expect_word("NULL")?;
            return Ok(negated(not, Predicate::IsNull { column }));
        }
        let not = cursor.take_word("NOT");
        if cursor.take_word("BETWEEN") {
            let low = self.literal(cursor)?;
            cursor.expect_word("AND")?;
            let high = self.literal(cursor)?;
            let at_least = Predicate::Compare { column: column.clone(), op: Comparison::GreaterOrEqual, value: low };
            let at_most = Predicate::Compare { column, op: Comparison::LessOrEqual, value: high };
            return Ok(negated(not, Predicate::And(vec![at_least, at_most])));
        }
        if cursor.take_word("IN") {
            cursor.expect(b'(')?;
            let mut values = Vec::new();
            loop {
                self.count()?;
                values.push(self.literal(cursor)?);
                if !cursor.take(b',') {
                    cursor.expect(b')')?;
                    return Ok(negated(not, Predicate::In { column, values }));
                }
            }
        }
        if cursor.take_word("LIKE") {
            let pattern = self.literal(cursor)?;
            if !matches!(pattern, Literal::Text(_) | Literal::Parameter(_)) {
                return Err(cursor.unexpected("a pattern in quotes"));
            }
            return Ok(negated(not, Predicate::Like { column, pattern }));
        }
        Err(cursor.unexpected("=, <>, <, <=, >, >=, BETWEEN, IN, LIKE or IS NULL"))
    }
}

fn one_or(mut parts: Vec<Predicate>, many: impl FnOnce(Vec<Predicate>) -> Predicate) -> Predicate {
    if parts.len() == 1 { parts.remove(0) } else { many(parts) }
}

fn negated(not: bool, predicate: Predicate) -> Predicate {
    if not { Predicate::Not(Box::new(predicate)) } else { predicate }
}

/// Consumes a comparison operator if it is next.
fn comparison(cursor: &mut Cursor<'_>) -> Option<Comparison> {
    let sign = cursor.peek_sign();
    let op = match sign {
        "=" | "==" => Comparison::Equal,
        "!=" | "<>" => Comparison::NotEqual,
        "<" => Comparison::Less,
        "<=" => Comparison::LessOrEqual,
        ">" => Comparison::Greater,
        ">=" => Comparison::GreaterOrEqual,
        _ => return None,
    };
    cursor.at += sign.len();
    Some(op)
}

/// The comparison with its sides exchanged.
fn turned(op: Comparison) -> Comparison {
    match op {
        Comparison::Less => Comparison::Greater,
        Comparison::LessOrEqual => Comparison::GreaterOrEqual,
        Comparison::Greater => Comparison::Less,
        Comparison::GreaterOrEqual => Comparison::LessOrEqual,
        same => same,
    }
}
