//! INSERT: parses values straight into columns.
//!
//! `INSERT INTO t [USING s [(tag, …)] TAGS (…)] [(column, …)] VALUES (…)(…) t2 …`, where `t` is a series, a table without tags,
//! or a supertable whose `tbname` or tags are among the columns. The statement is accepted as a whole or refused with its first
//! fault.

mod describe;
mod row;

use std::sync::Arc;

use arrow::array::RecordBatch;
use chrono_tz::Tz;
use tidelake_format::{
    Error, Reason, Result,
    ids::{ColumnId, DatabaseId},
    schema::{Column, Database, Role, Supertable, TBNAME, check_name},
    types::Type,
};
use tidelake_protocol::sql::{CreateSubtable, Cursor, DoubleQuotes, Literal, TableName, Value, instead_of, name_list};

pub use describe::{Described, insert_parameters};

use super::{
    parameters::{Parameters, unbound},
    typed::{Clock, Typed as _},
};
use crate::decode::{
    Decoded, Lookup,
    builder::{BlockBuilder, Fault, Tag, untagged_name},
    time::{self, Implausible},
};

/// Context of a statement.
#[derive(Debug, Clone, Copy)]
pub struct Session<'a> {
    /// The default database of names without one.
    pub database: Option<&'a Database>,
    /// The zone of timestamps without one.
    pub time_zone: Tz,
    /// The wall clock in nanoseconds since the epoch, used for `now`.
    pub now_ns: i64,
}

/// Result of parsing an INSERT.
#[derive(Debug)]
pub enum Inserted {
    /// The decoded rows; `rejected` and `missing` are empty.
    Ready(Decoded),
    /// These series are neither tables nor known to [`Lookup::subtable`]. Resolve them and parse again, or report that they do
    /// not exist.
    Unresolved(Vec<(DatabaseId, String)>),
}

/// Parses an INSERT from its first table name on: all its rows, or the first fault. With parameters, the statement is parsed
/// once per parameter row; `?` is allowed in place of a value or a table name.
///
/// # Errors
/// [`Kind::Invalid`](crate::Kind::Invalid) naming row, column, expected and found;
/// [`Kind::NotFound`](crate::Kind::NotFound) naming the database, table or column that does not exist.
pub fn insert<'a>(
    text: Cursor<'a>,
    lookup: &'a dyn Lookup,
    session: &Session<'a>,
    parameters: Option<&'a RecordBatch>,
) -> Result<Inserted> {
    let mut reader = Reader::new(lookup, session);
    match parameters.filter(|batch| batch.num_columns() > 0) {
        None => reader.statement(text, None)?,
        Some(batch) => {
            for row in 0..batch.num_rows() {
                reader.statement(text, Some(Parameters::new(batch, row)))?;
            }
        }
    }
    reader.finish()
}

/// Builds blocks that declare subtables: series without rows. An existing subtable (by [`Lookup::subtable`], or declared
/// earlier in the statement) is skipped under IF NOT EXISTS, else it is an error. `accepted` counts the declared ones.
///
/// # Errors
/// As [`insert`].
pub fn create_subtables(subtables: &[CreateSubtable], lookup: &dyn Lookup, session: &Session<'_>) -> Result<Decoded> {
    let mut reader = Reader::new(lookup, session);
    for subtable in subtables {
        let database = reader.database(&subtable.table)?;
        let target = reader.supertable(&subtable.using)?;
        let name = &subtable.table.name;
        let known = lookup.subtable(database.id, name).is_some()
            || lookup.table(database.id, name).is_some()
            || reader.targets.iter().any(|t| t.builder.find_series(name).is_some());
        if known && subtable.if_not_exists {
            continue;
        }
        if known {
            return Err(Error::invalid(format!("Table already exists: {name}")).because(Reason::TableExists));
        }
        let tags = reader.declared_tags(target, subtable.tags.as_deref())?;
        let mut values = Vec::with_capacity(subtable.values.len());
        for literal in &subtable.values {
            values.push(match literal {
                Literal::Text(text) => ("", Value::Text(text.as_str().into())),
                Literal::Bare(text) => (text.as_str(), Cursor::new(text, DoubleQuotes::Text).value()?),
                Literal::Instant(nanos) => ("", Value::Instant(*nanos)),
                Literal::Parameter(_) => return Err(unbound()),
            });
        }
        reader.declare(target, name, &tags, values)?;
        reader.accepted += 1;
    }
    match reader.finish()? {
        Inserted::Ready(decoded) => Ok(decoded),
        Inserted::Unresolved(_) => Err(Error::internal("CREATE TABLE left a series unresolved")),
    }
}

/// One supertable of the statement.
struct Target {
    table: Arc<Supertable>,
    clock: Clock,
    /// The oldest accepted timestamp, in ticks.
    oldest: i64,
    builder: BlockBuilder,
    implausible: Implausible,
    /// Describes the first time that seems to be in another unit and was accepted nevertheless.
    doubtful: Option<String>,
}

/// Destination of a value in a row.
#[derive(Debug, Clone, Copy)]
enum Slot {
    Time,
    /// A field: its index in the builder.
    Field(usize, Type),
    /// A tag, in an INSERT into the supertable: its index among the table's columns.
    Tag(usize),
    /// The series name, in an INSERT into the supertable.
    Name,
}

/// The series of the rows in a VALUES clause.
enum Rows {
    /// All rows belong to this series.
    Series(u32),
    /// Each row names its series.
    Named,
}

struct Reader<'a> {
    lookup: &'a dyn Lookup,
    session: Session<'a>,
    targets: Vec<Target>,
    unresolved: Vec<(DatabaseId, String)>,
    /// The text of the last USING clause and its target.
    last_using: Option<(&'a str, usize)>,
    accepted: usize,
    slots: Vec<Slot>,
}

impl<'a> Reader<'a> {
    fn new(lookup: &'a dyn Lookup, session: &Session<'a>) -> Self {
        Self {
            lookup,
            session: *session,
            targets: Vec::new(),
            unresolved: Vec::new(),
            last_using: None,
            accepted: 0,
            slots: Vec::new(),
        }
    }

    fn finish(self) -> Result<Inserted> {
        if !self.unresolved.is_empty() {
            return Ok(Inserted::Unresolved(self.unresolved));
        }
        let (mut blocks, mut doubtful) = (Vec::new(), None);
        for target in self.targets.into_iter().filter(|t| t.builder.series_count() > 0) {
            doubtful = doubtful.or(target.doubtful);
            blocks.push(target.builder.finish()?);
        }
        Ok(Inserted::Ready(Decoded { blocks, accepted: self.accepted, doubtful, ..Decoded::default() }))
    }

    /// Reads the clauses of the statement.
    fn statement(&mut self, mut cursor: Cursor<'a>, mut parameters: Option<Parameters<'a>>) -> Result<()> {
        loop {
            self.clause(&mut cursor, &mut parameters)?;
            cursor.skip();
            if matches!(cursor.byte(), b';' | 0) {
                break;
            }
        }
        cursor.finish()?;
        parameters.map_or(Ok(()), |p| p.finish())
    }

    /// Reads one table of the statement and its rows.
    fn clause(&mut self, cursor: &mut Cursor<'a>, parameters: &mut Option<Parameters<'a>>) -> Result<()> {
        let name = table_name(cursor, parameters)?;
        // TDengine also accepts the column list before USING.
        let mut columns = if cursor.take(b'(') { Some(name_list(cursor)?) } else { None };
        let (target, rows) = if cursor.take_word("USING") {
            let target = self.using(cursor)?;
            let series = self.using_tags(cursor, parameters, target, &name)?;
            (Some(target), Rows::Series(series))
        } else {
            self.resolve(&name)?
        };
        if columns.is_none() && cursor.take(b'(') {
            columns = Some(name_list(cursor)?);
        }
        if cursor.take_word("FILE") {
            let error = Error::unsupported("INSERT … FILE is not supported").with("use", "tidelake import FILE");
            return Err(cursor.locate(error, cursor.at - "FILE".len()));
        }
        if !cursor.take_word("VALUES") {
            let is_select = ["SELECT", "WITH", "FROM"].iter().any(|word| cursor.peek_word().eq_ignore_ascii_case(word));
            let error = cursor.unexpected("VALUES");
            return Err(match instead_of("INSERT SELECT") {
                Some(instead) if is_select => error.with("use", instead),
                _ => error,
            });
        }
        let Some(target) = target else { return skip_rows(cursor, parameters) };
        self.plan(target, &rows, columns.as_deref())?;
        self.rows(cursor, parameters, target, &name, &rows)
    }

    /// The database of a name.
    fn database(&self, name: &TableName) -> Result<Arc<Database>> {
        let database = match (&name.database, self.session.database) {
            (Some(database), _) => self.lookup.database(database).ok_or_else(|| self.lookup.missing(database))?,
            (None, Some(database)) => Arc::new(database.clone()),
            (None, None) => {
                return Err(Error::invalid("Database not specified")
                    .because(Reason::DatabaseNotSpecified)
                    .with("table", &name.name));
            }
        };
        self.lookup.check(&database)?;
        Ok(database)
    }

    /// The index of a supertable among the targets.
    fn supertable(&mut self, name: &TableName) -> Result<usize> {
        let database = self.database(name)?;
        let table = self.lookup.table(database.id, &name.name);
        match table {
            Some(table) => Ok(self.target(&database, table)),
            None => {
                let error = Error::not_found(format!("Table does not exist: {name}")).because(Reason::TableNotFound);
                let readable = self.lookup.readable(&database);
                Err(error.suggest(&name.name, readable.iter().map(|table| table.name.as_str())))
            }
        }
    }

    fn target(&mut self, database: &Database, table: Arc<Supertable>) -> usize {
        if let Some(at) = self.targets.iter().position(|t| t.table.id == table.id) {
            return at;
        }
        let precision = database.precision;
        let now = self.session.now_ns.div_euclid(time::nanos_per_tick(precision));
        self.targets.push(Target {
            clock: Clock { zone: self.session.time_zone, precision, now_ns: self.session.now_ns },
            oldest: time::oldest_kept(table.kept_ms(database), precision, now),
            builder: BlockBuilder::new(&table, precision),
            table,
            implausible: self.lookup.implausible(),
            doubtful: None,
        });
        self.targets.len() - 1
    }

    /// Reads the supertable after USING.
    fn using(&mut self, cursor: &mut Cursor<'a>) -> Result<usize> {
        cursor.skip();
        let start = cursor.at;
        // Most statements repeat the same supertable.
        if let Some((text, target)) = self.last_using
            && cursor.sql[start..].starts_with(text)
            && !cursor.bytes().get(start + text.len()).is_some_and(|b| b.is_ascii_alphanumeric() || b"_$.`".contains(b))
        {
            cursor.at += text.len();
            return Ok(target);
        }
        let name = cursor.table_name()?;
        let text = &cursor.sql[start..cursor.at];
        let target = self.supertable(&name)?;
        self.last_using = Some((text, target));
        Ok(target)
    }

    /// Reads `[(tag, …)] TAGS (…)` and returns the series.
    fn using_tags(
        &mut self,
        cursor: &mut Cursor<'a>,
        parameters: &mut Option<Parameters<'a>>,
        target: usize,
        name: &TableName,
    ) -> Result<u32> {
        let names = if cursor.take(b'(') { Some(name_list(cursor)?) } else { None };
        cursor.expect_word("TAGS")?;
        cursor.expect(b'(')?;
        let tags = self.declared_tags(target, names.as_deref())?;
        let mut values = Vec::with_capacity(tags.len());
        loop {
            values.push((cursor.sql, bound(cursor, parameters)?));
            if !cursor.take(b',') {
                cursor.expect(b')')?;
                break;
            }
        }
        check_name("table", &name.name)?;
        self.declare(target, &name.name, &tags, values)
    }

    /// Indexes of the given tags: those named, or all.
    fn declared_tags(&self, target: usize, names: Option<&[String]>) -> Result<Vec<usize>> {
        let table = &self.targets[target].table;
        let is_tag = |c: &Column| c.role == Role::Tag;
        let Some(names) = names else {
            let all: Vec<_> = (0..table.columns.len()).filter(|at| is_tag(&table.columns[*at])).collect();
            if all.is_empty() {
                return Err(Error::invalid("the table has no tags").with("table", &table.name));
            }
            return Ok(all);
        };
        let mut tags = Vec::with_capacity(names.len());
        for name in names {
            let at = column_place(table, name)?;
            if !is_tag(&table.columns[at]) || tags.contains(&at) {
                return Err(Error::invalid("expected distinct tags").with("table", &table.name).with("found", name));
            }
            tags.push(at);
        }
        Ok(tags)
    }

    /// Adds a series with its tags.
    fn declare(&mut self, target: usize, name: &str, tags: &[usize], values: Vec<(&str, Value<'_>)>) -> Result<u32> {
        let target = &mut self.targets[target];
        let table = &target.table;
        if tags.len() != values.len() {
            return Err(Error::invalid("number of tags and number of values differ")
                .with("table", name)
                .with("expected", tags.len())
                .with("found", values.len()));
        }
        let mut given = Vec::with_capacity(values.len());
        for (at, (sql, value)) in tags.iter().zip(values) {
            let column = &table.columns[*at];
            let described = value.describe();
            let value = value.into_bytes(column.ty).map_err(|f| tag_fault(name, column, &described, f))?;
            given.push((column, sql, value));
        }
        let mut typed: Vec<(&Column, Tag<'_>)> = Vec::with_capacity(given.len());
        for (column, sql, value) in &given {
            let tag = value
                .typed(sql, column.ty, target.clock)
                .map_err(|fault| tag_fault(name, column, &value.describe(), fault))?;
            typed.extend(tag.map(|tag| (*column, tag)));
        }
        Ok(target.builder.series(name, &typed))
    }

    /// Resolves a table name without USING; returns no target if the name is unknown.
    fn resolve(&mut self, name: &TableName) -> Result<(Option<usize>, Rows)> {
        let database = self.database(name)?;
        for (at, target) in self.targets.iter().enumerate().filter(|(_, t)| t.table.database == database.id) {
            if let Some(series) = target.builder.find_series(&name.name) {
                return Ok((Some(at), Rows::Series(series)));
            }
        }
        if let Some(table) = self.lookup.table(database.id, &name.name) {
            let plain = table.tags().next().is_none().then(|| untagged_name(&table.name));
            let target = self.target(&database, table);
            return Ok(match plain {
                Some(series) => {
                    let series = self.targets[target].builder.series(&series, &[]);
                    (Some(target), Rows::Series(series))
                }
                None => (Some(target), Rows::Named),
            });
        }
        let Some(subtable) = self.lookup.subtable(database.id, &name.name) else {
            self.unresolved.push((database.id, name.name.clone()));
            return Ok((None, Rows::Named));
        };
        let target = self.target(&database, subtable.table);
        let Target { table, builder, .. } = &mut self.targets[target];
        let tags: Vec<(&Column, Tag<'_>)> = subtable
            .tags
            .iter()
            .filter_map(|(id, value)| table.column_by_id(*id).map(|c| (c, Tag::of_scalar(c.ty, value))))
            .collect();
        let series = builder.series(&name.name, &tags);
        Ok((Some(target), Rows::Series(series)))
    }

    /// Maps the column list to slots for the rows that follow.
    fn plan(&mut self, target: usize, rows: &Rows, names: Option<&[String]>) -> Result<()> {
        let Target { table, builder, .. } = &mut self.targets[target];
        self.slots.clear();
        let named = matches!(rows, Rows::Named);
        let mut slot = |at: usize| match table.columns[at].role {
            Role::Time => Slot::Time,
            Role::Field => Slot::Field(builder.column(&table.columns[at]), table.columns[at].ty),
            Role::Tag => Slot::Tag(at),
        };
        let Some(names) = names else {
            if named {
                return Err(without_series(table, "no list of columns"));
            }
            let columns = (0..table.columns.len()).filter(|at| table.columns[*at].role != Role::Tag);
            self.slots.extend(columns.map(slot));
            return Ok(());
        };
        let mut seen: Vec<Option<ColumnId>> = Vec::with_capacity(names.len());
        for name in names {
            let (id, place) = if name.eq_ignore_ascii_case(TBNAME) {
                (None, Slot::Name)
            } else {
                let at = column_place(table, name)?;
                (Some(table.columns[at].id), slot(at))
            };
            if seen.contains(&id) {
                return Err(Error::invalid("duplicated column names").with("table", &table.name).with("column", name));
            }
            if !named && matches!(place, Slot::Tag(_) | Slot::Name) {
                return Err(Error::invalid("tags and tbname are only allowed in an INSERT into the supertable")
                    .with("column", name));
            }
            seen.push(id);
            self.slots.push(place);
        }
        if !seen.contains(&Some(ColumnId::TS)) {
            return Err(Error::invalid("the column list must include the time column")
                .with("table", &table.name)
                .with("expected", &table.time().name));
        }
        if named && !self.slots.iter().any(|slot| matches!(slot, Slot::Name | Slot::Tag(_))) {
            return Err(without_series(table, &names.join(", ")));
        }
        Ok(())
    }

    /// Reads `(…)(…), (…)`.
    fn rows(
        &mut self,
        cursor: &mut Cursor<'a>,
        parameters: &mut Option<Parameters<'a>>,
        target: usize,
        name: &TableName,
        rows: &Rows,
    ) -> Result<()> {
        let target = &mut self.targets[target];
        let mut row = 0;
        loop {
            cursor.skip();
            if cursor.byte() != b'(' {
                break;
            }
            cursor.at += 1;
            row += 1;
            let mut reader = row::Row { target, slots: &self.slots, cursor, parameters, name, row };
            match rows {
                Rows::Series(series) => reader.of(*series)?,
                Rows::Named => reader.named()?,
            }
            self.accepted += 1;
            cursor.skip();
            if cursor.byte() == b',' {
                cursor.at += 1;
                cursor.skip();
                if cursor.byte() != b'(' {
                    return Err(cursor.unexpected("'(' of the next row"));
                }
            }
        }
        if row == 0 { Err(cursor.unexpected("'(' of the first row")) } else { Ok(()) }
    }
}

/// Takes a table name, or the text bound to a `?` as it is.
fn table_name(cursor: &mut Cursor<'_>, parameters: &mut Option<Parameters<'_>>) -> Result<TableName> {
    cursor.skip();
    if matches!(cursor.byte(), b'?' | b'$') {
        return match parameter(cursor.parameter()?, parameters)? {
            Value::Text(name) => Ok(TableName { database: None, name: name.into_owned() }),
            other => Err(Error::invalid("expected the name of a table").with("found", other.describe())),
        };
    }
    cursor.table_name()
}

/// Takes a literal, or the value bound to a `?`.
fn bound<'a>(cursor: &mut Cursor<'a>, parameters: &mut Option<Parameters<'a>>) -> Result<Value<'a>> {
    match cursor.value()? {
        Value::Parameter(number) => parameter(number, parameters),
        value => Ok(value),
    }
}

fn parameter<'a>(number: Option<usize>, parameters: &mut Option<Parameters<'a>>) -> Result<Value<'a>> {
    match parameters {
        Some(parameters) => parameters.take(number),
        None => Err(unbound()),
    }
}

/// Skips `(…)(…)` of an unresolved series.
fn skip_rows<'a>(cursor: &mut Cursor<'a>, parameters: &mut Option<Parameters<'a>>) -> Result<()> {
    while cursor.take(b'(') {
        loop {
            bound(cursor, parameters)?;
            if !cursor.take(b',') {
                cursor.expect(b')')?;
                break;
            }
        }
        let _ = cursor.take(b',');
    }
    Ok(())
}

/// The index of a column by name.
fn column_place(table: &Supertable, name: &str) -> Result<usize> {
    let exact = table.columns.iter().position(|c| c.name == name);
    exact.or_else(|| table.columns.iter().position(|c| c.name.eq_ignore_ascii_case(name))).ok_or_else(|| {
        let names: Vec<&str> = table.columns.iter().map(|column| column.name.as_str()).collect();
        let error = Error::not_found(format!("Invalid column name: {name}")).because(Reason::ColumnNotFound);
        let error = error.with("table", &table.name).with("column", name);
        let error = error.suggest(name, names.iter().copied());
        error.with("expected one of", names.into_iter().take(20).collect::<Vec<_>>().join(", "))
    })
}

/// The error of an INSERT into a supertable that does not say which series its rows are of.
fn without_series(table: &Supertable, found: &str) -> Error {
    let tags = table.tags().map(|tag| tag.name.as_str()).collect::<Vec<_>>().join(", ");
    Error::invalid("an INSERT into a supertable must list its columns, with tbname or tags among them")
        .with("table", &table.name)
        .with("expected", format!("columns such as (tbname, {}, …), or tags: {tags}", table.time().name))
        .with("found", found)
        .with("use", format!("INSERT INTO child USING {} TAGS (…) VALUES (…)", table.name))
}

pub(super) fn tag_fault(series: &str, column: &Column, found: &str, fault: Fault) -> Error {
    Error::invalid(format!("invalid tag value: {fault}"))
        .with("table", series)
        .with("tag", &column.name)
        .with("expected", column.ty)
        .with("found", found)
}
