//! Types of columns, named by the user.

use std::{fmt, str::FromStr};

use tidelake_format::{Error, Result};

use crate::words::{Words, name};

/// A type that a column of a file can be given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnType {
    /// true or false.
    Bool,
    /// A signed integer of 64 bits.
    Int,
    /// A float of 64 bits.
    Double,
    /// Text.
    Text,
    /// A time, as text or as a number in the unit of the precision.
    Timestamp,
    /// None: the column is not imported.
    Omit,
}

impl FromStr for ColumnType {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text.to_ascii_lowercase().as_str() {
            "bool" => Ok(Self::Bool),
            "int" => Ok(Self::Int),
            "double" => Ok(Self::Double),
            "text" => Ok(Self::Text),
            "timestamp" => Ok(Self::Timestamp),
            "omit" => Ok(Self::Omit),
            _ => Err(Error::invalid("unknown type of a column")
                .with("expected", "bool, int, double, text, timestamp or omit")
                .with("found", format!("{text:?}"))),
        }
    }
}

impl fmt::Display for ColumnType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Double => "double",
            Self::Text => "text",
            Self::Timestamp => "timestamp",
            Self::Omit => "omit",
        })
    }
}

/// Parses `column:type,column:type`; a column name may contain colons.
///
/// # Errors
/// Invalid naming the entry that is none.
pub fn types(list: &str, words: Words) -> Result<Vec<(String, ColumnType)>> {
    let entries = list.split(',').map(str::trim).filter(|entry| !entry.is_empty());
    let parsed = entries.map(|entry| {
        let option = name(words.types);
        let (column, ty) = entry.rsplit_once(':').ok_or_else(|| {
            Error::invalid(format!("{option}: not a type of a column"))
                .with("expected", "column:type, such as usage:double")
                .with("found", format!("{entry:?}"))
        })?;
        let ty = ty.trim().parse().map_err(|e| crate::at(format!("{option}, column {:?}", column.trim()), &e))?;
        Ok((column.trim().to_owned(), ty))
    });
    let parsed: Vec<(String, ColumnType)> = parsed.collect::<Result<_>>()?;
    for (at, (column, ty)) in parsed.iter().enumerate() {
        if let Some((_, other)) = parsed[..at].iter().find(|(before, _)| before == column) {
            let error = Error::invalid(format!("{}: a column has two types", name(words.types))).with("column", column);
            return Err(error.with("expected", "one of them").with("found", format!("{other} and {ty}")));
        }
    }
    Ok(parsed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_named_by_column() {
        let parsed = types("usage:double, a:b:INT,note:omit", Words::HTTP).unwrap();
        let expected = [("usage", ColumnType::Double), ("a:b", ColumnType::Int), ("note", ColumnType::Omit)];
        assert_eq!(parsed, expected.map(|(name, ty)| (name.to_owned(), ty)));
        for (list, part) in [
            ("usage", "found: \"usage\""),
            ("usage:number", "expected: bool, int"),
            ("v:omit,u:int, v:int", "found: omit and int"),
        ] {
            let error = types(list, Words::HTTP).unwrap_err().to_string();
            assert!(error.contains("types") && error.contains(part), "{error}");
        }
    }
}
