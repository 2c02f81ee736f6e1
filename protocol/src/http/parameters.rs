//! Parameters of routes: location, name and OpenAPI component.

use super::{Parameter, Place};

pub(super) const DATABASE: Parameter = query("db", "Database");
pub(super) const PRECISION: Parameter = query("precision", "Precision");
pub(super) const NO_SYNC: Parameter = query("no_sync", "NoSync");
pub(super) const KEY: Parameter = header("idempotency-key", "Key");
pub(super) const IMPLAUSIBLE_TIMES: Parameter = header("x-tidelake-implausible-times", "ImplausibleTimes");
pub(super) const ENCODING: Parameter = header("content-encoding", "Encoding");
pub(super) const RETENTION: Parameter = query("rp", "Retention");
pub(super) const CONSISTENCY: Parameter = query("consistency", "Consistency");
pub(super) const BUCKET: Parameter = query("bucket", "Bucket");
pub(super) const ORGANISATION: Parameter = query("org", "Organisation");
pub(super) const SUMMARY: Parameter = query("summary", "Summary");
pub(super) const DETAILS: Parameter = query("details", "Details");
pub(super) const STATEMENTS: Parameter = query("q", "Statements");
pub(super) const SQL: Parameter = query("q", "Sql");
pub(super) const SQL_ALIAS: Parameter = query("sql", "SqlAlias");
pub(super) const SQL_DATABASE: Parameter = query("database", "SqlDatabase");
pub(super) const SQL_DATABASE_ALIAS: Parameter = query("db", "SqlDatabaseAlias");
pub(super) const TIME_ZONE: Parameter = query("time_zone", "TimeZone");
pub(super) const TIME_ZONE_ALIAS: Parameter = query("tz", "TimeZoneAlias");
pub(super) const FORMAT_OF_ROWS: Parameter = query("format", "FormatOfRows");
pub(super) const MAX_ROWS: Parameter = query("max_rows", "MaxRows");
pub(super) const PARAMETERS_OF_STATEMENT: Parameter = query("params", "ParametersOfStatement");
pub(super) const DATABASE_HEADER: Parameter = header("database", "DatabaseHeader");
pub(super) const SCHEMA_HEADER: Parameter = header("schema", "SchemaHeader");
pub(super) const ZONE_HEADER: Parameter = header("time-zone", "ZoneHeader");
pub(super) const LEVELS_HEADER: Parameter = header("aggregate-levels", "LevelsHeader");
pub(super) const TOKEN_HEADER: Parameter = header("x-tidelake-token", "TokenHeader");
pub(super) const QUERY_HEADER: Parameter = header("x-tidelake-query", "QueryHeader");
pub(super) const QUERY_ID: Parameter = path("id", "QueryId");
pub(super) const REST_DATABASE: Parameter = path("db", "RestDatabase");
pub(super) const REST_ZONE: Parameter = query("tz", "RestZone");
pub(super) const REST_ZONE_ALIAS: Parameter = query("conn_tz", "RestZoneAlias");
pub(super) const ROW_WITH_META: Parameter = query("row_with_meta", "RowWithMeta");
pub(super) const REQUEST_NUMBER: Parameter = query("req_id", "RequestNumber");
pub(super) const POINTS_DATABASE: Parameter = query("db", "PointsDatabase");
pub(super) const POINTS_DATABASE_OF_PATH: Parameter = path("db", "PointsDatabaseOfPath");
pub(super) const VERBOSE: Parameter = query("verbose", "Verbose");
pub(super) const LOGIN_USER: Parameter = path("user", "LoginUser");
pub(super) const LOGIN_PASSWORD: Parameter = path("password", "LoginPassword");
pub(super) const UNTIL: Parameter = query("until", "Until");
pub(super) const CHECK_ROWS: Parameter = query("rows", "CheckRows");
pub(super) const COUNT_OF_FIGURES: Parameter = query("count", "CountOfFigures");
pub(super) const LOG_LEVEL: Parameter = query("level", "LogLevel");
pub(super) const LOG_WORDS: Parameter = query("words", "LogWords");
pub(super) const TABLE_OF_FILES: Parameter = query("table", "TableOfFiles");
pub(super) const SAVED_NAME: Parameter = path("name", "SavedName");
pub(super) const IF_MATCH: Parameter = header("if-match", "IfMatch");
pub(super) const IF_NONE_MATCH: Parameter = header("if-none-match", "IfNoneMatch");
pub(super) const FILE_TABLE: Parameter = query("table", "FileTable");
pub(super) const FILE_FORMAT: Parameter = query("format", "FileFormat");
pub(super) const FILE_TAGS: Parameter = query("tags", "FileTags");
pub(super) const FILE_TIME: Parameter = query("time", "FileTime");
pub(super) const FILE_PRECISION: Parameter = query("precision", "FilePrecision");
pub(super) const FILE_NULL: Parameter = query("null", "FileNull");
pub(super) const FILE_TYPES: Parameter = query("types", "FileTypes");
pub(super) const FILE_OVERWRITE: Parameter = query("overwrite", "FileOverwrite");
pub(super) const FILE_PREVIEW: Parameter = query("preview", "FilePreview");

const fn query(name: &'static str, component: &'static str) -> Parameter {
    Parameter { place: Place::Query, name, component }
}

const fn path(name: &'static str, component: &'static str) -> Parameter {
    Parameter { place: Place::Path, name, component }
}

const fn header(name: &'static str, component: &'static str) -> Parameter {
    Parameter { place: Place::Header, name, component }
}
