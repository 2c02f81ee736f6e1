//! Statements and types of other systems, with the ones that do the same here: errors name them.

/// `(first words, statement to use)`. Longer beginnings come before their own beginnings.
const STATEMENTS: &[(&str, &str)] = &[
    ("ALTER TABLE RENAME TO", "a new table: tables keep their names; tidelake export and import copy the rows"),
    ("ANALYZE", "EXPLAIN ANALYZE SELECT …; statistics are kept without a statement"),
    ("ATTACH", "SHOW DATABASES and database.table; one server serves one root with all its databases"),
    ("BALANCE", "any process: each one serves every object of the root"),
    ("BEGIN", "no transaction: each INSERT statement is atomic"),
    ("CALL", "SELECT function(…)"),
    ("CHECKPOINT", "tidelake compact, or POST /api/v1/compact"),
    ("COMMENT", "the names of tables and columns: they have no comments"),
    ("COMMIT", "no transaction: each INSERT statement is atomic"),
    ("COMPACT", "tidelake compact, or POST /api/v1/compact"),
    ("COPY", "tidelake import and tidelake export"),
    ("CREATE CONTINUOUS", "a query with INTERVAL(…): tag manifests and rollups answer it without reading the rows"),
    ("CREATE EXTENSION", "the built-in functions, which docs/sql.md lists"),
    ("CREATE FUNCTION", "the built-in functions, which docs/sql.md lists"),
    ("CREATE INDEX", "a tag instead of a field: tags are indexed; ALTER TABLE … ADD TAG adds one"),
    ("CREATE MATERIALIZED", "a query with INTERVAL(…): tag manifests and rollups answer it without reading the rows"),
    ("CREATE RETENTION", "CREATE DATABASE name KEEP 7d, or ALTER DATABASE name KEEP 7d"),
    ("CREATE ROLE", "CREATE USER name PASSWORD '…', then GRANT READ ON database.* TO name"),
    ("CREATE SCHEMA", "CREATE DATABASE name"),
    ("CREATE SEQUENCE", "no sequence: a row is identified by its series (its tags) and its time"),
    ("CREATE SMA", "a query with INTERVAL(…): tag manifests and rollups answer it without reading the rows"),
    ("CREATE STREAM", "a query with INTERVAL(…): tag manifests and rollups answer it without reading the rows"),
    ("CREATE SUBSCRIPTION", "repeated queries: WHERE ts > the last time read, with the header x-tidelake-token"),
    ("CREATE TABLE AS", "CREATE TABLE name (ts TIMESTAMP, …) TAGS (…), then tidelake import"),
    ("CREATE TOPIC", "repeated queries: WHERE ts > the last time read, with the header x-tidelake-token"),
    ("CREATE TSMA", "a query with INTERVAL(…): tag manifests and rollups answer it without reading the rows"),
    ("CREATE TYPE", "one of the built-in types"),
    ("CREATE VIEW", "WITH name AS (SELECT …) SELECT … in each query"),
    ("DEALLOCATE", "the prepared statements of Flight SQL, JDBC or ADBC"),
    ("DECLARE", "Flight SQL, which streams results in batches without a cursor"),
    ("DETACH", "SHOW DATABASES and database.table; one server serves one root with all its databases"),
    ("DROP INDEX", "ALTER TABLE … DROP TAG: an index is a tag"),
    ("DROP MEASUREMENT", "DROP TABLE name"),
    ("DROP RETENTION", "ALTER DATABASE name KEEP 7d"),
    ("DROP ROLE", "DROP USER name"),
    ("DROP SCHEMA", "DROP DATABASE name"),
    ("DROP SERIES", "DROP TABLE name-of-the-series, with a name of SHOW TABLES"),
    ("DROP SHARD", "DELETE FROM table WHERE ts < '…', or KEEP for rows that expire"),
    ("DROP VIEW", "WITH name AS (SELECT …) SELECT … in each query"),
    ("EXECUTE", "the prepared statements of Flight SQL, JDBC or ADBC"),
    ("EXPORT", "tidelake export"),
    ("FETCH", "Flight SQL, which streams results in batches without a cursor"),
    ("FLUSH", "tidelake compact, or POST /api/v1/compact; acknowledged rows are durable without it"),
    ("GRANT", "GRANT READ | WRITE | ALL ON database.* TO user, or GRANT ADMIN TO user"),
    ("IMPORT", "tidelake import"),
    ("INSERT FILE", "tidelake import"),
    ("INSERT SELECT", "tidelake export, then tidelake import: INSERT takes VALUES only"),
    ("INSTALL", "the built-in functions, which docs/sql.md lists"),
    ("LISTEN", "repeated queries: WHERE ts > the last time read, with the header x-tidelake-token"),
    ("LOAD", "tidelake import for data; functions are built in"),
    ("LOCK", "no lock: objects are immutable, and readers see a snapshot"),
    ("MERGE", "INSERT: a row with the same series and time replaces the former one"),
    ("NOTIFY", "repeated queries: WHERE ts > the last time read, with the header x-tidelake-token"),
    ("OPTIMIZE", "tidelake compact, or POST /api/v1/compact"),
    ("PAUSE", "a query with INTERVAL(…): there are no streams to pause"),
    ("PIVOT", "SELECT avg(CASE WHEN tag = 'a' THEN v END) AS a, …: one aggregate with CASE for each column"),
    ("PRAGMA", "DESCRIBE table, or SHOW VARIABLES"),
    ("PREPARE", "the prepared statements of Flight SQL, JDBC or ADBC"),
    ("REDISTRIBUTE", "any process: each one serves every object of the root"),
    ("REFRESH", "the query itself: there are no materialized views"),
    ("REINDEX", "tidelake compact, or POST /api/v1/compact"),
    ("REPLACE", "INSERT: a row with the same series and time replaces the former one"),
    ("RESET", "SHOW VARIABLES; a request sets its database and time zone by the parameters database and tz"),
    ("RESUME", "a query with INTERVAL(…): there are no streams to resume"),
    ("REVOKE", "REVOKE READ | WRITE | ALL ON database.* FROM user, or REVOKE ADMIN FROM user"),
    ("ROLLBACK", "no transaction: each INSERT statement is atomic"),
    ("SET", "SHOW VARIABLES; a request sets its database and time zone by the parameters database and tz"),
    ("SPLIT", "any process: each one serves every object of the root"),
    ("START", "no transaction: each INSERT statement is atomic"),
    ("SUMMARIZE", "DESCRIBE table, or SELECT count(v), min(v), max(v), avg(v) FROM table"),
    ("TRIM", "tidelake compact, or POST /api/v1/compact"),
    ("TRUNCATE", "DELETE FROM table"),
    ("UNPIVOT", "SELECT … UNION ALL SELECT …"),
    ("UPDATE", "INSERT: a row with the same series and time replaces the former one"),
    ("UPSERT", "INSERT: a row with the same series and time replaces the former one"),
    ("VACUUM", "tidelake compact, or POST /api/v1/compact"),
];

/// `(type of another system, type to use)`, in upper case.
const TYPES: &[(&str, &str)] = &[
    ("BIGSERIAL", "BIGINT"),
    ("BYTEA", "VARBINARY(n)"),
    ("CHAR", "VARCHAR(n)"),
    ("DATE", "TIMESTAMP"),
    ("DATETIME", "TIMESTAMP"),
    ("DATETIME64", "TIMESTAMP"),
    ("DECIMAL", "DOUBLE"),
    ("FLOAT32", "FLOAT"),
    ("FLOAT4", "FLOAT"),
    ("FLOAT64", "DOUBLE"),
    ("FLOAT8", "DOUBLE"),
    ("INT16", "SMALLINT"),
    ("INT2", "SMALLINT"),
    ("INT32", "INT"),
    ("INT4", "INT"),
    ("INT64", "BIGINT"),
    ("INT8", "BIGINT"),
    ("LONG", "BIGINT"),
    ("LOWCARDINALITY", "VARCHAR(n), as a tag"),
    ("NUMERIC", "DOUBLE"),
    ("NVARCHAR", "NCHAR(n)"),
    ("REAL", "FLOAT"),
    ("SERIAL", "INT"),
    ("SHORT", "SMALLINT"),
    ("STRING", "VARCHAR(n)"),
    ("SYMBOL", "VARCHAR(n), as a tag"),
    ("TEXT", "VARCHAR(n)"),
    ("TIME", "TIMESTAMP"),
    ("TIMESTAMPTZ", "TIMESTAMP"),
    ("UINT16", "SMALLINT UNSIGNED"),
    ("UINT32", "INT UNSIGNED"),
    ("UINT64", "BIGINT UNSIGNED"),
    ("UINT8", "TINYINT UNSIGNED"),
    ("UUID", "VARCHAR(36)"),
];

/// What to use in place of a statement that begins with `words`, separated by one space and in any case; `None` for
/// beginnings that no known system has.
///
/// ```
/// use tidelake_protocol::sql::instead_of;
/// assert_eq!(instead_of("truncate climate"), Some("DELETE FROM table"));
/// assert_eq!(instead_of("create schema other"), Some("CREATE DATABASE name"));
/// assert_eq!(instead_of("setting"), None);
/// ```
pub fn instead_of(words: &str) -> Option<&'static str> {
    let begins = |beginning: &str| {
        words.get(..beginning.len()).is_some_and(|start| start.eq_ignore_ascii_case(beginning))
            && matches!(words.as_bytes().get(beginning.len()), None | Some(b' '))
    };
    STATEMENTS.iter().find(|(beginning, _)| begins(beginning)).map(|(_, instead)| *instead)
}

/// What to use in place of a type of another system.
pub(super) fn instead_of_type(word: &str) -> Option<&'static str> {
    TYPES.iter().find(|(name, _)| name.eq_ignore_ascii_case(word)).map(|(_, instead)| *instead)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_beginning_comes_first() {
        for (i, (beginning, _)) in STATEMENTS.iter().enumerate() {
            let shadow = STATEMENTS[..i].iter().find(|(b, _)| beginning.starts_with(&format!("{b} ")));
            assert_eq!(shadow, None, "{beginning} is never found");
        }
    }

    #[test]
    fn no_type_of_ours_is_taken_for_a_foreign_one() {
        for name in ["TIMESTAMP", "VARCHAR", "DOUBLE", "BIGINT", "INT", "FLOAT", "BOOL", "JSON", "NCHAR", "VARBINARY"] {
            assert_eq!(instead_of_type(name), None);
        }
    }
}
