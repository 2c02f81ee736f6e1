//! The query parameters of an import.

use arrow::datatypes::TimeUnit;
use tidelake_format::{Error, Result};
use tidelake_import::{
    at,
    input::FileFormat,
    roles::Named,
    source::{ColumnType, types},
    words::Words,
};
use tidelake_ingest::decode::line_protocol::LinePrecision;
use tidelake_protocol::http::routes::IMPORT;

/// The unit of numeric times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Precision {
    Nano,
    Micro,
    Milli,
    Second,
}

impl Precision {
    pub(super) fn unit(self) -> TimeUnit {
        match self {
            Self::Nano => TimeUnit::Nanosecond,
            Self::Micro => TimeUnit::Microsecond,
            Self::Milli => TimeUnit::Millisecond,
            Self::Second => TimeUnit::Second,
        }
    }

    pub(super) fn of_lines(self) -> LinePrecision {
        match self {
            Self::Nano => LinePrecision::Nano,
            Self::Micro => LinePrecision::Micro,
            Self::Milli => LinePrecision::Milli,
            Self::Second => LinePrecision::Second,
        }
    }
}

/// What a request asks for.
#[derive(Debug, Clone)]
pub(super) struct Parameters {
    pub(super) database: String,
    /// The table; empty for line protocol.
    pub(super) table: String,
    pub(super) format: FileFormat,
    pub(super) named: Named,
    pub(super) precision: Precision,
    pub(super) nulls: Vec<String>,
    pub(super) types: Vec<(String, ColumnType)>,
    pub(super) overwrites: bool,
    pub(super) preview: bool,
}

impl Parameters {
    /// Reads the query string.
    ///
    /// # Errors
    /// Invalid naming the parameter that is unknown, missing or has a wrong value, with what was expected.
    pub(super) fn read(query: Option<&str>) -> Result<Self> {
        let (mut database, mut table, mut format) = (None, String::new(), None);
        let (mut named, mut precision, mut nulls, mut typed) =
            (Named::default(), Precision::Nano, Vec::new(), Vec::new());
        let (mut overwrites, mut preview) = (false, false);
        for (name, value) in url::form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
            IMPORT.check_parameter(&name)?;
            match &*name {
                "db" => database = Some(value.into_owned()),
                "table" => table = value.into_owned(),
                "format" => format = Some(value.parse().map_err(|e| at("format", &e))?),
                "tags" => named.tags = Some(value.split(',').map(str::to_owned).collect()),
                "time" => named.time = Some(value.into_owned()).filter(|name| !name.is_empty()),
                "null" => nulls.push(value.into_owned()),
                "types" => typed = types(&value, Words::HTTP)?,
                "overwrite" => overwrites = flag("overwrite", &value)?,
                "preview" => preview = flag("preview", &value)?,
                "precision" => {
                    precision = match &*value {
                        "ns" | "" => Precision::Nano,
                        "us" => Precision::Micro,
                        "ms" => Precision::Milli,
                        "s" => Precision::Second,
                        other => return Err(unexpected("precision", "ns, us, ms or s", other)),
                    };
                }
                // Credentials, which the gate has read.
                _ => {}
            }
        }
        let missing = |name: &str, expected: &str| {
            Error::invalid(format!("{name} is required")).with("expected", expected.to_owned())
        };
        let database = database.filter(|name| !name.is_empty()).ok_or_else(|| missing("db", "db=DATABASE"))?;
        let format = format.ok_or_else(|| missing("format", "format=csv, ndjson, line or parquet"))?;
        if table.is_empty() && format != FileFormat::Line {
            return Err(missing("table", "table=NAME"));
        }
        Ok(Self { database, table, format, named, precision, nulls, types: typed, overwrites, preview })
    }

    /// Notices about parameters that have no effect on line protocol.
    pub(super) fn without_effect(&self) -> Vec<String> {
        let given = [
            ("table", !self.table.is_empty()),
            ("tags", self.named.tags.is_some()),
            ("time", self.named.time.is_some()),
            ("null", !self.nulls.is_empty()),
            ("types", !self.types.is_empty()),
        ];
        let given: Vec<&str> = given.into_iter().filter(|(_, is_given)| *is_given).map(|(name, _)| name).collect();
        if given.is_empty() {
            return Vec::new();
        }
        vec![format!(
            "parameters without effect: {}; lines name their tables, tags, fields and types",
            given.join(", ")
        )]
    }
}

fn flag(name: &str, value: &str) -> Result<bool> {
    match value {
        "true" | "" => Ok(true),
        "false" => Ok(false),
        other => Err(unexpected(name, "true or false", other)),
    }
}

fn unexpected(name: &str, expected: &str, found: &str) -> Error {
    Error::invalid(format!("invalid value of {name}")).with("expected", expected).with("found", format!("{found:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_read_and_faults_name_them() {
        let query = "db=d&table=t&format=csv&tags=a,b&null=N/A&null=-&types=v:int&precision=ms&overwrite=true&u=x";
        let read = Parameters::read(Some(query)).unwrap();
        assert_eq!((read.database.as_str(), read.table.as_str(), read.format), ("d", "t", FileFormat::Csv));
        assert_eq!(read.named.tags, Some(vec!["a".to_owned(), "b".to_owned()]));
        assert_eq!((read.nulls.len(), read.types.len(), read.overwrites, read.preview), (2, 1, true, false));
        assert_eq!(read.precision, Precision::Milli);
        for (query, parts) in [
            ("table=t&format=csv", ["db is required", "db=DATABASE"]),
            ("db=d&format=csv", ["table is required", "table=NAME"]),
            ("db=d&table=t", ["format is required", "format=csv"]),
            ("db=d&table=t&format=xls", ["format", "found: \"xls\""]),
            ("db=d&table=t&format=csv&preview=yes", ["preview", "expected: true or false"]),
            ("db=d&table=t&format=csv&precision=h", ["precision", "found: \"h\""]),
            ("db=d&table=t&format=csv&types=v", ["types", "column:type"]),
            ("db=d&table=t&format=csv&tag=v", ["found: tag", "tags"]),
        ] {
            let error = Parameters::read(Some(query)).unwrap_err().to_string();
            assert!(parts.iter().all(|part| error.contains(part)), "{query}: {error}");
        }
        let read = Parameters::read(Some("db=d&table=t&format=line&tags=")).unwrap();
        assert!(read.without_effect()[0].contains("table, tags"), "{:?}", read.without_effect());
    }
}
