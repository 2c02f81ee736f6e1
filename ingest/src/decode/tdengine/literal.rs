//! Converts literals of statements other than INSERT to values.

use arrow::array::RecordBatch;
use tidelake_format::{
    Error, Result,
    schema::Column,
    types::{Scalar, Type},
};
use tidelake_protocol::sql::{Cursor, Delete, DoubleQuotes, Literal, Value};

use super::{
    insert::tag_fault,
    parameters::{Parameters, unbound},
    typed::{Clock, Typed as _},
};
use crate::decode::builder::{Fault, Tag};

/// Conversions of a literal to a tag value, a comparison operand or a time.
pub(crate) trait TypedLiteral {
    /// The value of a tag, as strictly as in an INSERT; `None` is NULL.
    ///
    /// # Errors
    /// [`Kind::Invalid`](crate::Kind::Invalid) naming the series, the tag, its type and what was found.
    fn tag(&self, series: &str, column: &Column, clock: Clock) -> Result<Option<Scalar>>;

    /// The comparison operand for a column: a number of any size and sign for a numeric column, a text of any length for a text
    /// column. `None` is NULL.
    ///
    /// # Errors
    /// [`Kind::Invalid`](crate::Kind::Invalid) naming the column, its type and what was found.
    fn operand(&self, column: &Column, clock: Clock) -> Result<Option<Scalar>>;

    /// The value as a time in ticks; `None` is NULL.
    ///
    /// # Errors
    /// [`Kind::Invalid`](crate::Kind::Invalid) naming what was found.
    fn ticks(&self, clock: Clock) -> Result<Option<i64>>;
}

impl TypedLiteral for Literal {
    fn tag(&self, series: &str, column: &Column, clock: Clock) -> Result<Option<Scalar>> {
        let (sql, value) = read(self)?;
        let described = value.describe();
        let fault = |fault| tag_fault(series, column, &described, fault);
        let value = value.into_bytes(column.ty).map_err(fault)?;
        let tag = value.typed(sql, column.ty, clock).map_err(fault)?;
        Ok(tag.map(scalar))
    }

    fn operand(&self, column: &Column, clock: Clock) -> Result<Option<Scalar>> {
        let (sql, value) = read(self)?;
        let described = value.describe();
        let fault = |fault: Fault| {
            Error::invalid(format!("cannot compare the column with this value: {fault}"))
                .with("column", &column.name)
                .with("expected", column.ty)
                .with("found", &described)
        };
        let ty = match column.ty {
            Type::Binary(_) | Type::NChar(_) | Type::Json => Type::Binary(None),
            Type::VarBinary(_) => Type::VarBinary(None),
            ty if ty.is_numeric() => {
                let exact = [Type::BigInt, Type::UBigInt].into_iter();
                let mut exact = exact.filter_map(|ty| value.typed(sql, ty, clock).ok());
                match exact.next() {
                    Some(tag) => return Ok(tag.map(scalar)),
                    None => Type::Double,
                }
            }
            ty => ty,
        };
        let value = value.into_bytes(ty).map_err(fault)?;
        let tag = value.typed(sql, ty, clock).map_err(fault)?;
        Ok(tag.map(scalar))
    }

    fn ticks(&self, clock: Clock) -> Result<Option<i64>> {
        let (sql, value) = read(self)?;
        if matches!(value, Value::Null) {
            return Ok(None);
        }
        let ticks = value.ticks(sql, clock);
        ticks.map(Some).map_err(|fault| {
            let what = match fault {
                // An unreadable time is not a value of the wrong type.
                Fault::Type => "invalid time".to_owned(),
                fault => format!("invalid time: {fault}"),
            };
            Error::invalid(what)
                .with("expected", format!("'2026-01-31 10:00:00', a number of {} or now", clock.precision))
                .with("found", value.describe())
        })
    }
}

/// Binds a row of values to the parameters of a DELETE.
///
/// # Errors
/// [`Kind::Invalid`](crate::Kind::Invalid) for a wrong number of values, or a value of a type that cannot be compared.
pub(crate) fn bind(delete: &Delete, batch: &RecordBatch, row: usize) -> Result<Delete> {
    let mut parameters = Parameters::new(batch, row);
    let bound = delete.with_literals(|literal| parameters.literal(literal))?;
    parameters.finish()?;
    Ok(Delete { parameters: 0, ..bound })
}

impl Parameters<'_> {
    /// Returns the value bound to a literal that is a parameter, else the literal itself.
    ///
    /// # Errors
    /// [`Kind::Invalid`](crate::Kind::Invalid) if no value is bound to the parameter, or its type cannot be compared.
    fn literal(&mut self, literal: &Literal) -> Result<Literal> {
        let Literal::Parameter(at) = literal else { return Ok(literal.clone()) };
        let bare = |text: &str| Ok(Literal::Bare(text.to_owned()));
        match self.take(Some(*at))? {
            Value::Null => bare("NULL"),
            Value::Bool(true) => bare("TRUE"),
            Value::Bool(false) => bare("FALSE"),
            Value::Integer(number) => bare(&number.to_string()),
            Value::Float(number) if number.is_finite() => bare(&format!("{number:?}")),
            Value::Instant(nanos) => Ok(Literal::Instant(nanos)),
            Value::Text(text) => Ok(Literal::Text(text.into_owned())),
            other => Err(Error::invalid("a parameter of this type cannot be compared")
                .with("parameter", at + 1)
                .with("found", other.describe())),
        }
    }
}

fn read(literal: &Literal) -> Result<(&str, Value<'_>)> {
    Ok(match literal {
        Literal::Text(text) => ("", Value::Text(text.as_str().into())),
        Literal::Bare(text) => (text.as_str(), Cursor::new(text, DoubleQuotes::Text).value()?),
        Literal::Instant(nanos) => ("", Value::Instant(*nanos)),
        Literal::Parameter(_) => return Err(unbound()),
    })
}

fn scalar(tag: Tag<'_>) -> Scalar {
    match tag {
        Tag::Bool(v) => Scalar::Bool(v),
        Tag::Int(v) => Scalar::Int(v),
        Tag::UInt(v) => Scalar::UInt(v),
        Tag::Float(v) => Scalar::Float(f64::from(v)),
        Tag::Double(v) => Scalar::Float(v),
        Tag::Text(v) => Scalar::Text(v.to_owned()),
        Tag::Bytes(v) => Scalar::Bytes(v.to_vec()),
    }
}
