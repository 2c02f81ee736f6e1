//! Columns of files and of existing tables: names and types.

use arrow::datatypes::{DataType, Schema};
use tidelake_format::{
    schema::{Column, Role, Supertable},
    types::Type,
};

/// What a column of a table holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holds {
    /// true or false.
    Bool,
    /// Integers of any width.
    Integer,
    /// Floats.
    Float,
    /// Text.
    Text,
    /// Times.
    Time,
    /// Bytes.
    Bytes,
}

impl Holds {
    /// What a type holds, by its name in DESCRIBE.
    pub fn of(type_name: &str) -> Self {
        match type_name {
            "BOOL" => Self::Bool,
            "FLOAT" | "DOUBLE" => Self::Float,
            "TIMESTAMP" => Self::Time,
            "VARBINARY" => Self::Bytes,
            integer if integer.contains("INT") => Self::Integer,
            _ => Self::Text,
        }
    }
}

/// A column of an existing table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableColumn {
    /// Its name.
    pub name: String,
    /// Its role.
    pub role: Role,
    /// What it holds.
    pub holds: Holds,
}

/// An existing table: its name, and its columns with the time first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Table {
    /// The name.
    pub name: String,
    /// The columns.
    pub columns: Vec<TableColumn>,
    /// Whether messages must not list the columns: the caller may write to the table but not read it.
    pub is_hidden: bool,
}

impl Table {
    /// A table of the catalog.
    pub fn of(table: &Supertable) -> Self {
        let column = |column: &Column| TableColumn {
            name: column.name.clone(),
            role: column.role,
            holds: Holds::of(column.ty.name()),
        };
        Self { name: table.name.clone(), columns: table.columns.iter().map(column).collect(), is_hidden: false }
    }

    /// The columns of some role, or all, for a message.
    pub fn list(&self, role: Option<Role>) -> String {
        let listed = self.columns.iter().filter(|column| role.is_none_or(|role| column.role == role));
        let names: Vec<&str> = listed.map(|column| column.name.as_str()).collect();
        match names.as_slice() {
            _ if self.is_hidden => "hidden without the right to read".to_owned(),
            [] => "none".to_owned(),
            names => names.join(", "),
        }
    }

    /// A column by name: an exact match, else ignoring case.
    pub fn column(&self, name: &str) -> Option<&TableColumn> {
        let exact = self.columns.iter().find(|column| column.name == name);
        exact.or_else(|| self.columns.iter().find(|column| column.name.eq_ignore_ascii_case(name)))
    }

    /// Whether the table has tags.
    pub(crate) fn has_tags(&self) -> bool {
        self.columns.iter().any(|column| column.role == Role::Tag)
    }
}

/// The column names of a file, separated by commas.
pub(crate) fn names(schema: &Schema) -> String {
    schema.fields().iter().map(|f| f.name().as_str()).collect::<Vec<_>>().join(", ")
}

/// Index of a column: exact match, else ignoring case.
pub fn place(schema: &Schema, name: &str) -> Option<usize> {
    let fields = schema.fields();
    let exact = fields.iter().position(|f| f.name() == name);
    exact.or_else(|| fields.iter().position(|f| f.name().eq_ignore_ascii_case(name)))
}

/// Whether a type is that of times.
pub(crate) fn is_time(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Timestamp(..) | DataType::Date32 | DataType::Date64)
}

/// Whether a type is that of texts.
pub(crate) fn is_text(data_type: &DataType) -> bool {
    match data_type {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => true,
        DataType::Dictionary(_, values) => is_text(values),
        _ => false,
    }
}

/// User-visible name of a type.
pub(crate) fn type_name(data_type: &DataType) -> String {
    match data_type {
        _ if is_text(data_type) => "text".to_owned(),
        _ if is_time(data_type) => "timestamp".to_owned(),
        _ if data_type.is_integer() => "integer".to_owned(),
        _ if data_type.is_floating() => "number".to_owned(),
        DataType::Boolean => "boolean".to_owned(),
        other => other.to_string(),
    }
}

/// Name of a type as `types=` takes it; the Arrow type if that option has no name for it.
pub(crate) fn short_name(data_type: &DataType) -> String {
    match data_type {
        _ if is_text(data_type) => "text".to_owned(),
        _ if is_time(data_type) => "timestamp".to_owned(),
        _ if data_type.is_integer() => "int".to_owned(),
        _ if data_type.is_floating() => "double".to_owned(),
        DataType::Boolean => "bool".to_owned(),
        other => other.to_string(),
    }
}

/// Name of a column type as `types=` takes it.
pub(crate) fn short_name_of(ty: Type) -> &'static str {
    match Holds::of(ty.name()) {
        Holds::Bool => "bool",
        Holds::Integer => "int",
        Holds::Float => "double",
        Holds::Text => "text",
        Holds::Time => "timestamp",
        Holds::Bytes => "bytes",
    }
}
