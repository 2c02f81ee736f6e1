//! Tables and table functions of other systems, and what to use here.

/// `(beginning of a qualified name in lower case, what to use)`.
const TABLES: &[(&str, &str)] = &[
    ("pg_catalog.", "information_schema.tables and information_schema.columns"),
    ("sqlite_master", "information_schema.tables"),
    ("duckdb_", "information_schema.tables and information_schema.columns"),
    ("system.parts", "system.files"),
    ("system.tables", "information_schema.tables"),
    ("system.columns", "information_schema.columns"),
    ("system.databases", "SHOW DATABASES"),
    ("system.processes", "SHOW QUERIES"),
    ("system.settings", "SHOW VARIABLES"),
    ("pg_", "information_schema.tables and information_schema.columns"),
];

/// `(table function, what to use)`.
const FUNCTIONS: &[(&str, &str)] = &[
    ("file", IMPORT),
    ("glob", IMPORT),
    ("numbers", "range(0, n)"),
    ("long_sequence", "range(0, n)"),
    ("parquet_scan", IMPORT),
    ("read_csv", IMPORT),
    ("read_csv_auto", IMPORT),
    ("read_json", IMPORT),
    ("read_json_auto", IMPORT),
    ("read_parquet", IMPORT),
    ("s3", IMPORT),
    ("table_columns", "DESCRIBE table"),
    ("tables", "SHOW STABLES"),
    ("url", IMPORT),
];

const IMPORT: &str = "tidelake import FILE, then the name of the table";

/// What to use in place of a table of another system or of a file, by its qualified name.
pub(crate) fn instead_of(name: &str) -> Option<&'static str> {
    let name = name.trim_matches(['\'', '"']).to_lowercase();
    if [".parquet", ".csv", ".json", ".ndjson", ".csv.gz", ".arrow"].iter().any(|end| name.ends_with(end)) {
        return Some(IMPORT);
    }
    TABLES.iter().find(|(beginning, _)| name.starts_with(beginning)).map(|(_, instead)| *instead)
}

/// What to use in place of a table function of another system.
pub(crate) fn instead_of_function(name: &str) -> Option<&'static str> {
    FUNCTIONS.iter().find(|(function, _)| function.eq_ignore_ascii_case(name)).map(|(_, instead)| *instead)
}
