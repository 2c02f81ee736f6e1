//! Paths of other systems' APIs, and what to use here: the answer to an unknown path names it.

/// `(path, what to use)`; a path that ends with `/` covers all paths with this prefix.
const PATHS: &[(&str, &str)] = &[
    ("/-/", "GET /health and GET /ready"),
    ("/api/aggregators", "POST /api/v1/sql with SQL: avg, min, max, sum, count, …"),
    ("/api/config", "SHOW VARIABLES by POST /api/v1/sql"),
    ("/api/query", "POST /api/v1/sql with SQL: SELECT … INTERVAL(1m)"),
    ("/api/query/", "POST /api/v1/sql with SQL: SELECT … INTERVAL(1m)"),
    ("/api/search/lookup", "POST /api/v1/sql with SQL: SHOW TABLES"),
    ("/api/suggest", "POST /api/v1/sql with SQL: SHOW STABLES, DESCRIBE table"),
    ("/api/version", "POST /api/v1/sql with SQL: SELECT version()"),
    ("/api/v1/label/", "POST /api/v1/sql with SQL: SELECT DISTINCT tag FROM table"),
    ("/api/v1/labels", "POST /api/v1/sql with SQL: DESCRIBE table"),
    ("/api/v1/metadata", "POST /api/v1/sql with SQL: SHOW STABLES"),
    ("/api/v1/otlp/", "POST /write with line protocol"),
    ("/api/v1/query", "POST /api/v1/sql with SQL"),
    ("/api/v1/query_range", "POST /api/v1/sql with SQL: SELECT … INTERVAL(1m)"),
    ("/api/v1/series", "POST /api/v1/sql with SQL: SHOW TABLES"),
    ("/api/v1/write", "POST /write with line protocol"),
    ("/api/v2/buckets", "POST /api/v1/sql with SQL: SHOW DATABASES, CREATE DATABASE name"),
    ("/api/v2/delete", "POST /api/v1/sql with SQL: DELETE FROM table WHERE ts < '…'"),
    ("/api/v2/me", "POST /api/v1/sql with SQL: SELECT current_user()"),
    ("/api/v2/orgs", "POST /api/v1/sql with SQL: SHOW DATABASES; there are no organisations"),
    ("/api/v2/query", "POST /api/v1/sql with SQL; Flux is not supported"),
    ("/api/v2/setup", "--admin-password-file of tidelake serve, then CREATE USER"),
    (
        "/api/v3/configure/database",
        "POST /api/v1/sql with SQL: SHOW DATABASES, CREATE DATABASE name, DROP DATABASE name",
    ),
    ("/api/v3/query_influxql", "POST /api/v1/sql with SQL; InfluxQL is not supported"),
    ("/api/v3/query_sql", "POST /api/v1/sql"),
    ("/api/v3/write_lp", "POST /write, or POST /api/v2/write"),
    ("/exec", "POST /api/v1/sql"),
    ("/exp", "POST /api/v1/sql?format=csv"),
    ("/healthz", "GET /health"),
    ("/imp", "POST /write with line protocol, or tidelake import FILE"),
    ("/livez", "GET /health"),
    ("/play", "POST /api/v1/sql, or the shell: tidelake sql"),
    ("/readyz", "GET /ready"),
    ("/v1/logs", "POST /write with line protocol"),
    ("/v1/metrics", "POST /write with line protocol"),
    ("/v1/traces", "POST /write with line protocol"),
    ("/", "POST /api/v1/sql with SQL, POST /write with line protocol, or the shell: tidelake sql"),
];

/// What to use in place of a path that no route has.
///
/// ```
/// use tidelake_protocol::http::instead_of_path;
/// assert_eq!(instead_of_path("/exec"), Some("POST /api/v1/sql"));
/// assert_eq!(instead_of_path("/-/ready"), Some("GET /health and GET /ready"));
/// assert_eq!(instead_of_path("/executive"), None);
/// ```
pub fn instead_of_path(path: &str) -> Option<&'static str> {
    let is = |known: &str| known == path || (known.len() > 1 && known.ends_with('/') && path.starts_with(known));
    PATHS.iter().find(|(known, _)| is(known)).map(|(_, instead)| *instead)
}
