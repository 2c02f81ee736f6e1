//! Filters of a scan as values that can be encoded.

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, RecordBatch, RecordBatchOptions, new_null_array},
    datatypes::{DataType, Field, Schema},
    ipc::{reader::StreamReader, writer::StreamWriter},
};
use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use datafusion::{
    common::{Column, ScalarValue},
    logical_expr::{Between, BinaryExpr, Cast, Expr, TryCast, cast, expr::InList, is_null, lit, not, try_cast},
};
use serde::{Deserialize, Serialize};
use tidelake_format::{Error, Result, ids::ColumnId, schema::Supertable};

use crate::{error::from_datafusion, scan::predicate::OPERATORS};

/// Filters of a scan, all of which must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Terms {
    terms: Vec<Term>,
    /// An Arrow IPC stream in base64: one row with the constants; the types of casts are those of columns that are null.
    constants: String,
}

/// An expression; constants and types are indexes into [`Terms::constants`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Term {
    Column(ColumnId),
    Constant(usize),
    Binary(Box<Term>, String, Box<Term>),
    Not(Box<Term>),
    IsNull(Box<Term>),
    IsNotNull(Box<Term>),
    Cast(Box<Term>, usize),
    TryCast(Box<Term>, usize),
    Between(Box<Term>, Box<Term>, Box<Term>),
    NotBetween(Box<Term>, Box<Term>, Box<Term>),
    In(Box<Term>, Vec<usize>),
    NotIn(Box<Term>, Vec<usize>),
}

impl Terms {
    /// Encodes filters that a scan applies.
    ///
    /// # Errors
    /// Internal for an expression that a scan does not apply, or a column that the table lacks; not expected.
    pub(super) fn of(filters: &[Expr], table: &Supertable) -> Result<Self> {
        if filters.is_empty() {
            return Ok(Self::default());
        }
        let mut encoder = Encoder { table, constants: Vec::new() };
        let terms = filters.iter().map(|filter| encoder.term(filter)).collect::<Result<_>>()?;
        Ok(Self { terms, constants: encode(encoder.constants)? })
    }

    /// Decodes the filters.
    ///
    /// # Errors
    /// Invalid for anything that [`Terms::of`] does not return.
    pub(super) fn filters(&self, table: &Supertable) -> Result<Vec<Expr>> {
        if self.terms.is_empty() {
            return Ok(Vec::new());
        }
        let decoder = Decoder { table, constants: decode(&self.constants)? };
        self.terms.iter().map(|term| decoder.expression(term)).collect()
    }
}

struct Encoder<'a> {
    table: &'a Supertable,
    constants: Vec<ArrayRef>,
}

impl Encoder<'_> {
    fn term(&mut self, expr: &Expr) -> Result<Term> {
        Ok(match expr {
            Expr::Column(column) => {
                let of = self.table.columns.iter().find(|c| c.name == column.name);
                let of =
                    of.ok_or_else(|| Error::internal("unknown column in a filter").with("column", &column.name))?;
                Term::Column(of.id)
            }
            Expr::Literal(value, _) => Term::Constant(self.constant(value)?),
            Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
                let name = OPERATORS.iter().find(|(known, _)| known == op).map(|(_, name)| (*name).to_owned());
                let name = name.ok_or_else(|| unexpected(expr))?;
                Term::Binary(self.boxed(left)?, name, self.boxed(right)?)
            }
            Expr::Not(of) => Term::Not(self.boxed(of)?),
            Expr::IsNull(of) => Term::IsNull(self.boxed(of)?),
            Expr::IsNotNull(of) => Term::IsNotNull(self.boxed(of)?),
            Expr::Cast(Cast { expr, field }) => Term::Cast(self.boxed(expr)?, self.data_type(field.data_type())),
            Expr::TryCast(TryCast { expr, field }) => {
                Term::TryCast(self.boxed(expr)?, self.data_type(field.data_type()))
            }
            Expr::Between(Between { expr, negated, low, high }) => {
                let (of, low, high) = (self.boxed(expr)?, self.boxed(low)?, self.boxed(high)?);
                if *negated { Term::NotBetween(of, low, high) } else { Term::Between(of, low, high) }
            }
            Expr::InList(InList { expr, list, negated }) => {
                let of = self.boxed(expr)?;
                let constants = list.iter().map(|item| match item {
                    Expr::Literal(value, _) => self.constant(value),
                    other => Err(unexpected(other)),
                });
                let constants = constants.collect::<Result<_>>()?;
                if *negated { Term::NotIn(of, constants) } else { Term::In(of, constants) }
            }
            other => return Err(unexpected(other)),
        })
    }

    fn boxed(&mut self, expr: &Expr) -> Result<Box<Term>> {
        self.term(expr).map(Box::new)
    }

    fn constant(&mut self, value: &ScalarValue) -> Result<usize> {
        self.constants.push(value.to_array().map_err(from_datafusion)?);
        Ok(self.constants.len() - 1)
    }

    fn data_type(&mut self, data_type: &DataType) -> usize {
        self.constants.push(new_null_array(data_type, 1));
        self.constants.len() - 1
    }
}

fn unexpected(expr: &Expr) -> Error {
    Error::internal("a scan does not apply this expression").with("found", expr)
}

struct Decoder<'a> {
    table: &'a Supertable,
    constants: Vec<ArrayRef>,
}

impl Decoder<'_> {
    fn expression(&self, term: &Term) -> Result<Expr> {
        Ok(match term {
            Term::Column(id) => {
                let column = self.table.column_by_id(*id).ok_or_else(|| {
                    Error::invalid("a column of the scan's filter is not in its table").with("column", id.0)
                })?;
                Expr::Column(Column::from_name(&column.name))
            }
            Term::Constant(at) => self.constant(*at)?,
            Term::Binary(left, name, right) => {
                let op = OPERATORS.iter().find(|(_, known)| known == name).map(|(op, _)| *op);
                let op = op.ok_or_else(|| {
                    let expected = OPERATORS.map(|(_, name)| name).join(", ");
                    Error::invalid("unknown operator in the scan's filter")
                        .with("expected one of", expected)
                        .with("found", name)
                })?;
                Expr::BinaryExpr(BinaryExpr { left: self.boxed(left)?, op, right: self.boxed(right)? })
            }
            Term::Not(of) => not(self.expression(of)?),
            Term::IsNull(of) => is_null(self.expression(of)?),
            Term::IsNotNull(of) => Expr::IsNotNull(self.boxed(of)?),
            Term::Cast(of, to) => cast(self.expression(of)?, self.array(*to)?.data_type().clone()),
            Term::TryCast(of, to) => try_cast(self.expression(of)?, self.array(*to)?.data_type().clone()),
            Term::Between(of, low, high) => self.between(of, low, high, false)?,
            Term::NotBetween(of, low, high) => self.between(of, low, high, true)?,
            Term::In(of, list) => self.in_list(of, list, false)?,
            Term::NotIn(of, list) => self.in_list(of, list, true)?,
        })
    }

    fn boxed(&self, term: &Term) -> Result<Box<Expr>> {
        self.expression(term).map(Box::new)
    }

    fn between(&self, of: &Term, low: &Term, high: &Term, negated: bool) -> Result<Expr> {
        let (expr, low, high) = (self.boxed(of)?, self.boxed(low)?, self.boxed(high)?);
        Ok(Expr::Between(Between { expr, negated, low, high }))
    }

    fn in_list(&self, of: &Term, list: &[usize], negated: bool) -> Result<Expr> {
        let list = list.iter().map(|at| self.constant(*at)).collect::<Result<_>>()?;
        Ok(Expr::InList(InList { expr: self.boxed(of)?, list, negated }))
    }

    fn array(&self, at: usize) -> Result<&ArrayRef> {
        self.constants.get(at).ok_or_else(|| {
            Error::invalid("a constant of the scan's filter is missing")
                .with("expected", format!("an index below {}", self.constants.len()))
                .with("found", at)
        })
    }

    fn constant(&self, at: usize) -> Result<Expr> {
        Ok(lit(ScalarValue::try_from_array(self.array(at)?, 0).map_err(from_datafusion)?))
    }
}

fn encode(constants: Vec<ArrayRef>) -> Result<String> {
    let fields = constants.iter().map(|array| Field::new("", array.data_type().clone(), true)).collect::<Vec<_>>();
    let schema = Arc::new(Schema::new(fields));
    let options = RecordBatchOptions::new().with_row_count(Some(1));
    let batch = RecordBatch::try_new_with_options(schema.clone(), constants, &options)?;
    let mut writer = StreamWriter::try_new(Vec::new(), &schema)?;
    writer.write(&batch)?;
    Ok(BASE64.encode(writer.into_inner()?))
}

fn decode(constants: &str) -> Result<Vec<ArrayRef>> {
    let unread = || Error::invalid("invalid constants of the scan's filter").with("expected", "Arrow IPC in base64");
    let bytes = BASE64.decode(constants).map_err(|e| unread().source(e))?;
    let mut reader = StreamReader::try_new(bytes.as_slice(), None).map_err(|e| unread().source(e))?;
    match reader.next() {
        Some(Ok(batch)) if batch.num_rows() == 1 => Ok(batch.columns().to_vec()),
        Some(Err(e)) => Err(unread().source(e)),
        _ => Err(unread().with("found", "no single row")),
    }
}
