//! Types of an INSERT's parameters, before values are bound.

use tidelake_format::{Error, Result, ids::DatabaseId, types::Type};
use tidelake_protocol::sql::{Cursor, Numbers, Value, name_list};

use super::{Reader, Rows, Session, Slot};
use crate::decode::Lookup;

/// The type of a name parameter.
const NAME: Type = Type::Binary(None);

/// Result of describing an INSERT.
#[derive(Debug)]
pub enum Described {
    /// The type of each parameter, in order; `None` if the statement does not determine it.
    Types(Vec<Option<Type>>),
    /// As [`Inserted::Unresolved`](super::Inserted::Unresolved).
    Unresolved(Vec<(DatabaseId, String)>),
}

/// Describes the parameters of an INSERT, parsed from its first table name on: each has the type of its value's column, or text
/// for a table name.
///
/// # Errors
/// As [`insert`](super::insert()), except that values are not checked.
pub fn insert_parameters<'a>(
    mut cursor: Cursor<'a>,
    lookup: &'a dyn Lookup,
    session: &Session<'a>,
) -> Result<Described> {
    let mut describer =
        Describer { reader: Reader::new(lookup, session), numbers: Numbers::default(), types: Vec::new() };
    loop {
        describer.clause(&mut cursor)?;
        if cursor.is_at_end() {
            break;
        }
    }
    cursor.finish()?;
    let Describer { reader, types, .. } = describer;
    if reader.unresolved.is_empty() {
        Ok(Described::Types(types))
    } else {
        Ok(Described::Unresolved(reader.unresolved))
    }
}

struct Describer<'a> {
    reader: Reader<'a>,
    numbers: Numbers,
    types: Vec<Option<Type>>,
}

impl<'a> Describer<'a> {
    /// Records a parameter and the type of its value.
    fn found(&mut self, number: Option<usize>, ty: Option<Type>) -> Result<()> {
        let at = self.numbers.place(number)?;
        self.types.resize(self.numbers.count, None);
        self.types[at] = self.types[at].or(ty);
        Ok(())
    }

    fn clause(&mut self, cursor: &mut Cursor<'a>) -> Result<()> {
        cursor.skip();
        let name = if matches!(cursor.byte(), b'?' | b'$') {
            let number = cursor.parameter()?;
            self.found(number, Some(NAME))?;
            None
        } else {
            Some(cursor.table_name()?)
        };
        let mut columns = if cursor.take(b'(') { Some(name_list(cursor)?) } else { None };
        let (target, rows) = if cursor.take_word("USING") {
            let target = self.reader.using(cursor)?;
            self.tags(cursor, target)?;
            (Some(target), Rows::Series(0))
        } else if let Some(name) = &name {
            self.reader.resolve(name)?
        } else {
            (None, Rows::Named)
        };
        if columns.is_none() && cursor.take(b'(') {
            columns = Some(name_list(cursor)?);
        }
        if !cursor.take_word("VALUES") {
            return Err(cursor.unexpected("VALUES"));
        }
        let types = match target {
            Some(target) => {
                self.reader.plan(target, &rows, columns.as_deref())?;
                let slots = std::mem::take(&mut self.reader.slots);
                let types = slots.iter().map(|slot| self.type_of(target, *slot));
                Some(types.collect::<Vec<_>>())
            }
            None => None,
        };
        while cursor.take(b'(') {
            let found = self.values(cursor, types.as_deref())?;
            if let Some(types) = &types
                && found != types.len()
            {
                return Err(Error::invalid("number of columns and number of values differ")
                    .with("expected", types.len())
                    .with("found", found));
            }
            let _ = cursor.take(b',');
        }
        Ok(())
    }

    /// Reads `[(tag, …)] TAGS (…)`.
    fn tags(&mut self, cursor: &mut Cursor<'a>, target: usize) -> Result<()> {
        let names = if cursor.take(b'(') { Some(name_list(cursor)?) } else { None };
        cursor.expect_word("TAGS")?;
        cursor.expect(b'(')?;
        let tags = self.reader.declared_tags(target, names.as_deref())?;
        let types: Vec<Type> = tags.iter().map(|at| self.reader.targets[target].table.columns[*at].ty).collect();
        let found = self.values(cursor, Some(&types))?;
        if found == types.len() {
            return Ok(());
        }
        Err(Error::invalid("number of tags and number of values differ")
            .with("expected", types.len())
            .with("found", found))
    }

    /// Parses values up to the closing bracket; returns their number.
    fn values(&mut self, cursor: &mut Cursor<'a>, types: Option<&[Type]>) -> Result<usize> {
        for nth in 0.. {
            if let Value::Parameter(number) = cursor.value()? {
                self.found(number, types.and_then(|types| types.get(nth)).copied())?;
            }
            if !cursor.take(b',') {
                cursor.expect(b')')?;
                return Ok(nth + 1);
            }
        }
        Ok(0)
    }

    fn type_of(&self, target: usize, slot: Slot) -> Type {
        match slot {
            Slot::Time => Type::Timestamp,
            Slot::Field(_, ty) => ty,
            Slot::Tag(at) => self.reader.targets[target].table.columns[at].ty,
            Slot::Name => NAME,
        }
    }
}
