//! Databases, supertables and their columns: the named objects in the chain.

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
};

use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use serde::{Deserialize, Serialize};

use crate::{
    error::{Error, Result},
    ids::{ColumnId, DatabaseId, Position, TableId, Version},
    types::{Precision, Scalar, Type},
};

/// The name of the series column in results and data files.
pub const TBNAME: &str = "tbname";
/// The Arrow metadata key that carries a column's [`ColumnId`]; the Parquet writer turns it into `field_id`.
pub const FIELD_ID: &str = "PARQUET:field_id";

/// A namespace of supertables and their defaults.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Database {
    /// Permanent id.
    pub id: DatabaseId,
    /// As written in CREATE DATABASE; matched ignoring case when unquoted.
    pub name: String,
    /// The unit of every timestamp of the database; never changes.
    pub precision: Precision,
    /// Retention in milliseconds (KEEP); rows older than now − keep are rejected on write and expire.
    pub keep_ms: i64,
    /// Length of a time partition in milliseconds (DURATION).
    pub partition_ms: i64,
}

impl Database {
    /// KEEP if none is given: 3650 days.
    pub const DEFAULT_KEEP_MS: i64 = 3_650 * 86_400_000;
    /// Maximum KEEP: a thousand years, for databases created by InfluxDB clients, which expect unlimited retention.
    pub const LONGEST_KEEP_MS: i64 = 365_000 * 86_400_000;
    /// DURATION if none is given: 10 days.
    pub const DEFAULT_PARTITION_MS: i64 = 10 * 86_400_000;

    /// The number of the partition that holds a timestamp in ticks, counted from the epoch; negative before it.
    pub fn partition_of(&self, ts: i64) -> i64 {
        ts.div_euclid(self.partition_ticks())
    }

    /// The first partition not entirely older than KEEP at `now_ms`; lower ones are expired.
    pub fn first_kept(&self, now_ms: i64) -> i64 {
        let Some(oldest_ms) = now_ms.checked_sub(self.keep_ms) else { return i64::MIN };
        self.partition_of(oldest_ms.saturating_mul(self.precision.per_second() / 1_000))
    }

    /// Length of a partition in ticks of the database's precision, at least 1.
    pub fn partition_ticks(&self) -> i64 {
        self.partition_ms.saturating_mul(self.precision.per_second() / 1_000).max(1)
    }
}

/// Purpose of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The key: exactly one, the first, [`ColumnId::TS`].
    Time,
    /// A measured value, nullable.
    Field,
    /// A property of the series, nullable.
    Tag,
}

/// One column of a supertable.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Column {
    /// Permanent id.
    pub id: ColumnId,
    /// Unique in the table, even ignoring case.
    pub name: String,
    /// Time, field or tag.
    pub role: Role,
    /// The type; it can only be widened.
    #[serde(rename = "type")]
    pub ty: Type,
    #[serde(skip)]
    made: MadeField,
}

impl Column {
    /// Creates a column.
    pub fn new(id: ColumnId, name: String, role: Role, ty: Type) -> Self {
        Self { id, name, role, ty, made: MadeField::default() }
    }

    /// [`arrow_field`], as the same `Arc` on each call while the column is unchanged, so that comparison is cheap.
    pub fn field(&self, precision: Precision) -> FieldRef {
        let make = || Arc::new(arrow_field(self, precision));
        let made = self.made.0.get_or_init(make);
        let is_current = *made.name() == self.name && *made.data_type() == self.ty.data_type(precision);
        if is_current { made.clone() } else { make() }
    }
}

/// Cached Arrow field of a column; ignored when columns are compared, and not copied with one.
#[derive(Debug, Default)]
struct MadeField(OnceLock<FieldRef>);

impl Clone for MadeField {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl PartialEq for MadeField {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// Scope of a delete in the files and segments that it covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Covers {
    /// Rows: the series remain, with their tags.
    #[default]
    Rows,
    /// The series themselves: their rows, names and tags.
    Series,
}

impl Covers {
    fn is_rows(&self) -> bool {
        *self == Covers::Rows
    }
}

/// The series and rows that a delete removed, and the files and segments that it covers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Tombstone {
    /// The version that committed the delete: it covers files whose `clean` is lower.
    pub version: Version,
    /// The names of the series; `None` means every series of the table.
    pub series: Option<Vec<String>>,
    /// First and last timestamp in ticks, both inclusive.
    pub range: (i64, i64),
    /// The positions of the unfolded segments that it covers.
    pub positions: Vec<Position>,
    /// Whether it removes rows or whole series (DROP TABLE of child tables).
    #[serde(default, skip_serializing_if = "Covers::is_rows")]
    pub covers: Covers,
}

impl Tombstone {
    /// Whether it covers a file with this `clean`.
    pub fn covers_file(&self, clean: Version) -> bool {
        clean < self.version
    }

    /// Whether it covers a segment of the log.
    pub fn covers_segment(&self, position: Position) -> bool {
        self.positions.contains(&position)
    }

    /// Whether its range overlaps these times, both inclusive.
    pub fn meets(&self, first: i64, last: i64) -> bool {
        self.range.0 <= last && first <= self.range.1
    }

    /// Whether it applies to a series; without names it applies to all.
    pub fn names(&self, series: &str) -> bool {
        self.series.as_ref().is_none_or(|names| names.iter().any(|n| n == series))
    }
}

/// A schema shared by many series.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Supertable {
    /// Permanent id.
    pub id: TableId,
    /// The database of the table.
    pub database: DatabaseId,
    /// Name; a rename changes nothing else.
    pub name: String,
    /// Time first, then fields, then tags, each group in order of creation: the order of `select *`.
    pub columns: Vec<Column>,
    /// The id of the next column.
    pub next_column: u32,
    /// Tags set by ALTER: series name → column → value (`None` = set to NULL).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub overrides: BTreeMap<String, BTreeMap<ColumnId, Option<Scalar>>>,
    /// Deletes that still apply to some file or segment.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tombstones: Vec<Tombstone>,
    /// Retention in milliseconds if it differs from the database's (KEEP of CREATE STABLE).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep_ms: Option<i64>,
    /// The last version that dropped series: knowledge about series from before it must be looked up again.
    #[serde(default, skip_serializing_if = "is_first")]
    pub forgotten: Version,
    /// The last version that dropped a column: files whose `clean` is lower may contain its values.
    #[serde(default, skip_serializing_if = "is_first")]
    pub stale: Version,
}

fn is_first(version: &Version) -> bool {
    *version == Version::default()
}

impl Supertable {
    /// Maximum number of columns of a table.
    pub const MAX_COLUMNS: usize = 4_096;
    /// Maximum number of tags of a table.
    pub const MAX_TAGS: usize = 128;
    /// Maximum number of series of a table with overridden tags: all are read with the catalog.
    pub const MAX_OVERRIDES: usize = 1_000_000;

    /// A new table from `(name, role, type)`; the first must be the time column.
    ///
    /// # Errors
    /// [`Kind::Invalid`](crate::Kind::Invalid) when a name is a duplicate (ignoring case), empty, longer than 192 bytes
    /// or reserved (`tbname`), when the first column is not a TIMESTAMP in the role of time, or when there is no field.
    pub fn new(
        id: TableId,
        database: DatabaseId,
        name: &str,
        columns: impl IntoIterator<Item = (String, Role, Type)>,
    ) -> Result<Self> {
        let mut table = Self::without_columns(id, database, name);
        check_name("table", name)?;
        for (i, (name, role, ty)) in columns.into_iter().enumerate() {
            if (i == 0) != (role == Role::Time) || (role == Role::Time && ty != Type::Timestamp) {
                return Err(Error::invalid("the first column, and only the first, must be the TIMESTAMP key")
                    .with("table", &table.name)
                    .with("column", name)
                    .with("found", ty));
            }
            table.add_column(&name, role, ty)?;
        }
        if table.fields().next().is_none() {
            return Err(Error::invalid("a table needs a TIMESTAMP column and at least one field").with("table", name));
        }
        Ok(table)
    }

    /// Creates a table without columns.
    pub fn without_columns(id: TableId, database: DatabaseId, name: &str) -> Self {
        Self {
            id,
            database,
            name: name.to_owned(),
            columns: Vec::new(),
            next_column: 0,
            overrides: BTreeMap::new(),
            tombstones: Vec::new(),
            keep_ms: None,
            forgotten: Version::default(),
            stale: Version::default(),
        }
    }

    /// Retention of the rows, in milliseconds: the table's KEEP, else that of its database.
    pub fn kept_ms(&self, database: &Database) -> i64 {
        self.keep_ms.unwrap_or(database.keep_ms)
    }

    /// As [`Database::first_kept`], with the KEEP of this table.
    pub fn first_kept(&self, database: &Database, now_ms: i64) -> i64 {
        Database { keep_ms: self.kept_ms(database), ..database.clone() }.first_kept(now_ms)
    }

    /// Adds a column at the end of its group and returns its id.
    ///
    /// # Errors
    /// [`Kind::Invalid`](crate::Kind::Invalid) as in [`Supertable::new`], or when a limit on columns is exceeded.
    pub fn add_column(&mut self, name: &str, role: Role, ty: Type) -> Result<ColumnId> {
        check_name("column", name)?;
        if name.eq_ignore_ascii_case(TBNAME) {
            return Err(
                Error::invalid("the column name 'tbname' is reserved for the series name").with("table", &self.name)
            );
        }
        if let Some(same) = self.columns.iter().find(|c| c.name.eq_ignore_ascii_case(name)) {
            return Err(Error::invalid("a column of this name exists")
                .with("table", &self.name)
                .with("column", name)
                .with("found", format!("{} {}", same.name, same.ty)));
        }
        if ty == Type::Json && role != Role::Tag {
            return Err(Error::invalid("type JSON is allowed for tags only").with("column", name));
        }
        if self.columns.len() >= Self::MAX_COLUMNS || (role == Role::Tag && self.tags().count() >= Self::MAX_TAGS) {
            return Err(Error::invalid("too many columns")
                .with("table", &self.name)
                .with("limit", format!("{} columns, {} tags", Self::MAX_COLUMNS, Self::MAX_TAGS)));
        }
        let id = ColumnId(self.next_column);
        self.next_column += 1;
        let at = match role {
            Role::Tag => self.columns.len(),
            _ => self.columns.iter().position(|c| c.role == Role::Tag).unwrap_or(self.columns.len()),
        };
        self.columns.insert(at, Column::new(id, name.to_owned(), role, ty));
        Ok(id)
    }

    /// The time column.
    pub fn time(&self) -> &Column {
        &self.columns[0]
    }

    /// The fields, in order.
    pub fn fields(&self) -> impl Iterator<Item = &Column> {
        self.columns.iter().filter(|c| c.role == Role::Field)
    }

    /// The tags, in order.
    pub fn tags(&self) -> impl Iterator<Item = &Column> {
        self.columns.iter().filter(|c| c.role == Role::Tag)
    }

    /// The column of exactly this name, else the one whose name equals it ignoring case.
    pub fn column(&self, name: &str) -> Option<&Column> {
        self.columns
            .iter()
            .find(|c| c.name == name)
            .or_else(|| self.columns.iter().find(|c| c.name.eq_ignore_ascii_case(name)))
    }

    /// The column of this id, unless it was dropped.
    pub fn column_by_id(&self, id: ColumnId) -> Option<&Column> {
        self.columns.iter().find(|c| c.id == id)
    }

    /// The Arrow schema of the table in queries: ts (not null), fields, tags, each with its [`FIELD_ID`]; without
    /// `tbname`.
    pub fn arrow_schema(&self, precision: Precision) -> SchemaRef {
        Arc::new(Schema::new(self.columns.iter().map(|c| c.field(precision)).collect::<Vec<_>>()))
    }
}

/// The Arrow field of a column: name, type, nullable unless it is the time column, id as metadata.
pub fn arrow_field(column: &Column, precision: Precision) -> Field {
    field_with_id(&column.name, column.ty.data_type(precision), column.role != Role::Time, column.id)
}

/// An Arrow field with a column id as [`FIELD_ID`].
pub fn field_with_id(name: &str, data_type: DataType, nullable: bool, id: ColumnId) -> Field {
    Field::new(name, data_type, nullable).with_metadata([(FIELD_ID.to_owned(), id.0.to_string())].into())
}

/// The column id of a field, if it has one.
pub fn field_id(field: &Field) -> Option<ColumnId> {
    field.metadata().get(FIELD_ID).and_then(|id| id.parse().ok()).map(ColumnId)
}

/// Checks the name of a database, table, series or column: 1 to 192 bytes, no control characters.
///
/// # Errors
/// [`Kind::Invalid`](crate::Kind::Invalid), with the kind of name and the limit.
pub fn check_name(what: &'static str, name: &str) -> Result<()> {
    if name.is_empty() || name.len() > 192 || name.chars().any(char::is_control) {
        return Err(Error::invalid(format!("invalid {what} name: expected 1 to 192 bytes and no control characters"))
            .with("found", format!("{:?} ({} bytes)", name.chars().take(64).collect::<String>(), name.len())));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn devices() -> Supertable {
        Supertable::new(
            TableId(1),
            DatabaseId(0),
            "devices",
            [
                ("ts".to_owned(), Role::Time, Type::Timestamp),
                ("temperature".to_owned(), Role::Field, Type::Int),
                ("devid".to_owned(), Role::Tag, Type::Int),
            ],
        )
        .unwrap()
    }

    #[test]
    fn a_new_field_is_placed_before_the_tags_and_gets_a_new_id() {
        let mut t = devices();
        assert_eq!(t.time().id, ColumnId::TS);
        assert_eq!(t.add_column("humidity", Role::Field, Type::Float).unwrap(), ColumnId(3));
        let names: Vec<_> = t.columns.iter().map(|c| c.name.as_str()).collect();
        assert_eq!(names, ["ts", "temperature", "humidity", "devid"]);
        assert_eq!(field_id(t.arrow_schema(Precision::Milli).field(2)), Some(ColumnId(3)));
    }

    #[test]
    fn a_name_that_differs_only_by_case_is_refused() {
        let e = devices().add_column("Temperature", Role::Field, Type::Int).unwrap_err();
        assert_eq!(e.context("found"), Some("temperature INT"));
        assert!(devices().add_column("TBNAME", Role::Tag, Type::Int).is_err());
    }

    #[test]
    fn partitions_before_the_epoch_are_negative() {
        let db = Database {
            id: DatabaseId(0),
            name: "d".into(),
            precision: Precision::Milli,
            keep_ms: Database::DEFAULT_KEEP_MS,
            partition_ms: 86_400_000,
        };
        assert_eq!(db.partition_of(-1), -1);
        assert_eq!(db.partition_of(86_400_000), 1);
    }

    #[test]
    fn a_partition_is_kept_until_its_last_row_is_beyond_keep() {
        const DAY: i64 = 86_400_000;
        for precision in [Precision::Milli, Precision::Micro, Precision::Nano] {
            let (id, name) = (DatabaseId(0), "d".to_owned());
            let db = Database { id, name, precision, keep_ms: 10 * DAY, partition_ms: DAY };
            // Partition 4 ends with day 5: at the end of day 15 nothing of it is kept.
            assert_eq!(db.first_kept(15 * DAY - 1), 4);
            assert_eq!(db.first_kept(15 * DAY), 5);
            assert_eq!(db.first_kept(0), -10);
            let forever = Database { keep_ms: i64::MAX, ..db.clone() };
            assert!(forever.first_kept(0) <= forever.partition_of(i64::MIN) + 1);
            assert_eq!(forever.first_kept(-2), i64::MIN);
        }
    }

    #[test]
    fn the_arrow_field_of_a_column_is_cached_and_follows_changes() {
        let mut column = Column::new(ColumnId(2), "t".to_owned(), Role::Field, Type::Timestamp);
        let field = column.field(Precision::Milli);
        assert!(Arc::ptr_eq(&field, &column.field(Precision::Milli)));
        assert_eq!(*field, arrow_field(&column, Precision::Milli));
        assert_eq!(*column.field(Precision::Nano), arrow_field(&column, Precision::Nano));
        assert_eq!(column, column.clone());
        column.name = "renamed".to_owned();
        assert_eq!(*column.field(Precision::Milli), arrow_field(&column, Precision::Milli));
        column.ty = Type::BigInt;
        assert_eq!(*column.field(Precision::Milli), arrow_field(&column, Precision::Milli));
    }
}
