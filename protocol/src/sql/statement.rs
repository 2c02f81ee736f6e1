//! Parsed statements.

use tidelake_format::{
    Error, Result,
    access::{Limits, Privileges, Secret},
    ids::Position,
    layout,
    schema::Role,
    types::{Precision, Type},
};

use super::{DoubleQuotes, access, alter, ddl, delete, foreign::instead_of, lexer::Cursor};

/// One statement that is not a query.
#[derive(Debug, Clone, PartialEq)]
pub enum Statement {
    /// CREATE DATABASE.
    CreateDatabase(CreateDatabase),
    /// DROP DATABASE.
    DropDatabase {
        /// Name of the database.
        name: String,
        /// `IF EXISTS` was given.
        if_exists: bool,
    },
    /// CREATE STABLE, or CREATE TABLE with a list of columns.
    CreateTable(CreateTable),
    /// CREATE TABLE … USING … TAGS …, several in one statement.
    CreateSubtables(Vec<CreateSubtable>),
    /// INSERT; only its first words are parsed.
    Insert(Insert),
    /// DROP TABLE or DROP STABLE.
    DropTables(DropTables),
    /// ALTER TABLE or ALTER STABLE.
    Alter(Alter),
    /// ALTER DATABASE.
    AlterDatabase(AlterDatabase),
    /// DELETE FROM.
    Delete(Delete),
    /// A statement about users, rights or tokens.
    Access(AccessStatement),
    /// GIVE UP of a log segment that is missing or unreadable.
    GiveUp(Position),
    /// USE.
    Use(String),
    /// KILL QUERY or KILL CONNECTION.
    Kill(Kill),
}

impl Statement {
    /// Options of the statement that have no effect here.
    pub fn ignored(&self) -> Vec<String> {
        match self {
            Statement::CreateDatabase(create) => create.ignored.clone(),
            Statement::CreateTable(create) => create.ignored.clone(),
            Statement::Alter(alter) => alter.ignored.clone(),
            Statement::AlterDatabase(alter) => alter.ignored.clone(),
            _ => Vec::new(),
        }
    }
}

/// A statement about users, rights or tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AccessStatement {
    /// CREATE USER.
    CreateUser {
        /// Name of the user.
        name: String,
        /// `IF NOT EXISTS` was given.
        if_not_exists: bool,
        /// Password; without one the user authenticates only by tokens.
        password: Option<Secret>,
        /// Whether the user is an administrator.
        admin: bool,
    },
    /// ALTER USER.
    AlterUser {
        /// Name of the user.
        name: String,
        /// The change.
        change: UserChange,
    },
    /// DROP USER.
    DropUser {
        /// Name of the user.
        name: String,
        /// `IF EXISTS` was given.
        if_exists: bool,
    },
    /// GRANT.
    Grant {
        /// What is granted.
        granted: Granted,
        /// Name of the user.
        user: String,
    },
    /// REVOKE.
    Revoke {
        /// What is revoked.
        granted: Granted,
        /// Name of the user.
        user: String,
    },
    /// CREATE TOKEN.
    CreateToken {
        /// Name of the token.
        name: String,
        /// User who owns the token; `None` is the caller.
        owner: Option<String>,
        /// Privileges to which the token is restricted.
        grants: Option<Vec<(Privileges, On)>>,
        /// Lifetime in milliseconds.
        expires_ms: Option<i64>,
    },
    /// DROP TOKEN.
    DropToken {
        /// Name of the token.
        name: String,
        /// User who owns the token; `None` is the caller.
        owner: Option<String>,
        /// `IF EXISTS` was given.
        if_exists: bool,
    },
    /// ROTATE SESSIONS.
    RotateSessions {
        /// User whose sessions end; `None` ends all sessions.
        user: Option<String>,
    },
}

impl From<AccessStatement> for Statement {
    fn from(statement: AccessStatement) -> Self {
        Statement::Access(statement)
    }
}

/// Change made by an ALTER USER.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UserChange {
    /// The password.
    Password {
        /// New password.
        new: Secret,
        /// Old password, if given.
        old: Option<Secret>,
        /// Whether the user's tokens stay valid.
        keep_tokens: bool,
    },
    /// Whether the user may authenticate.
    Enabled(bool),
    /// Whether the user is an administrator.
    Admin(bool),
    /// Limits of the user's queries; only the given ones change, and zero removes a limit.
    Limits(Limits),
}

/// Object of a GRANT or REVOKE.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Granted {
    /// Administration: all rights, including those on users.
    Admin,
    /// Privileges on databases.
    On(Privileges, On),
}

/// Scope of privileges.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum On {
    /// Every database.
    Everywhere,
    /// The database with this name.
    Database(String),
}

/// Name of a table or series with an optional database.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TableName {
    /// Database; `None` is the session's.
    pub database: Option<String>,
    /// Name, in lower case unless it was quoted.
    pub name: String,
}

impl std::fmt::Display for TableName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.database {
            Some(database) => write!(f, "{database}.{}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

/// CREATE DATABASE.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateDatabase {
    /// Name of the database.
    pub name: String,
    /// `IF NOT EXISTS` was given.
    pub if_not_exists: bool,
    /// PRECISION; `None` is the default.
    pub precision: Option<Precision>,
    /// KEEP in milliseconds; `None` is the default.
    pub keep_ms: Option<i64>,
    /// DURATION in milliseconds; `None` is the default.
    pub partition_ms: Option<i64>,
    /// Options without effect.
    pub ignored: Vec<String>,
}

/// CREATE STABLE or CREATE TABLE.
#[derive(Debug, Clone, PartialEq)]
pub struct CreateTable {
    /// Name of the table.
    pub table: TableName,
    /// `IF NOT EXISTS` was given.
    pub if_not_exists: bool,
    /// Columns: time, then fields, then tags (none for a plain table).
    pub columns: Vec<(String, Role, Type)>,
    /// KEEP in milliseconds; `None` is the database's.
    pub keep_ms: Option<i64>,
    /// Options of columns and of the table without effect.
    pub ignored: Vec<String>,
}

/// One subtable of a CREATE TABLE … USING.
#[derive(Debug, Clone, PartialEq)]
pub struct CreateSubtable {
    /// Name of the subtable.
    pub table: TableName,
    /// `IF NOT EXISTS` was given.
    pub if_not_exists: bool,
    /// The supertable.
    pub using: TableName,
    /// Names of the given tags; `None` is all tags in declaration order.
    pub tags: Option<Vec<String>>,
    /// Values of the tags.
    pub values: Vec<Literal>,
}

/// DROP TABLE or DROP STABLE.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DropTables {
    /// The tables, each with whether `IF EXISTS` was given.
    pub tables: Vec<(TableName, bool)>,
}

/// ALTER TABLE or ALTER STABLE.
#[derive(Debug, Clone, PartialEq)]
pub struct Alter {
    /// Name of the table.
    pub table: TableName,
    /// The change.
    pub action: AlterAction,
    /// Column options without effect.
    pub ignored: Vec<String>,
}

/// Change made by an ALTER TABLE.
#[derive(Debug, Clone, PartialEq)]
pub enum AlterAction {
    /// ADD COLUMN or ADD TAG.
    Add {
        /// Name of the column.
        name: String,
        /// Field or tag.
        role: Role,
        /// Type of the column.
        ty: Type,
    },
    /// DROP COLUMN or DROP TAG.
    Drop {
        /// Name of the column.
        name: String,
        /// Field or tag.
        role: Role,
    },
    /// MODIFY COLUMN or MODIFY TAG.
    Modify {
        /// Name of the column.
        name: String,
        /// Field or tag.
        role: Role,
        /// New type.
        ty: Type,
    },
    /// RENAME COLUMN or RENAME TAG.
    Rename {
        /// Name of the column.
        name: String,
        /// Field or tag.
        role: Role,
        /// New name.
        to: String,
    },
    /// SET TAG of a subtable, each tag once.
    SetTags(Vec<(String, Literal)>),
    /// KEEP, in milliseconds.
    Keep(i64),
}

/// ALTER DATABASE.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlterDatabase {
    /// Name of the database.
    pub name: String,
    /// KEEP in milliseconds, if given.
    pub keep_ms: Option<i64>,
    /// Options without effect.
    pub ignored: Vec<String>,
}

/// DELETE FROM.
#[derive(Debug, Clone, PartialEq)]
pub struct Delete {
    /// A supertable, a plain table or a subtable.
    pub table: TableName,
    /// WHERE; `None` deletes every row.
    pub filter: Option<Predicate>,
    /// Number of parameters.
    pub parameters: usize,
}

/// A condition of WHERE, not yet typed.
#[derive(Debug, Clone, PartialEq)]
pub enum Predicate {
    /// All of the conditions.
    And(Vec<Predicate>),
    /// At least one of the conditions.
    Or(Vec<Predicate>),
    /// Negation; unknown if the condition is unknown.
    Not(Box<Predicate>),
    /// `column op value`; `value op column` is parsed with the sides exchanged.
    Compare {
        /// Name of the column.
        column: String,
        /// The comparison.
        op: Comparison,
        /// Value the column is compared with.
        value: Literal,
    },
    /// `column IN (…)`.
    In {
        /// Name of the column.
        column: String,
        /// The values.
        values: Vec<Literal>,
    },
    /// `column LIKE 'pattern'`.
    Like {
        /// Name of the column.
        column: String,
        /// Pattern text: `%` matches any text, `_` any character; `\` escapes the next character.
        pattern: Literal,
    },
    /// `column IS NULL`.
    IsNull {
        /// Name of the column.
        column: String,
    },
}

/// A comparison of two values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    /// `=`
    Equal,
    /// `<>`, `!=`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
}

/// A literal of a statement, not yet typed.
#[derive(Debug, Clone, PartialEq)]
pub enum Literal {
    /// A quoted text with escapes resolved.
    Text(String),
    /// Anything else, as written: a number, NULL, TRUE, a time expression.
    Bare(String),
    /// A bound instant, in nanoseconds since the epoch.
    Instant(i128),
    /// The parameter with this index, from 0.
    Parameter(usize),
}

/// Object of a KILL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kill {
    /// The query with this ID.
    Query(String),
    /// The connection with this ID.
    Connection(String),
}

/// An INSERT statement; the write path parses its text against the catalog in one pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Insert {
    /// Byte offset of the first table name in the text.
    pub at: usize,
    /// Meaning of double quotes in the text.
    pub quotes: DoubleQuotes,
}

impl Insert {
    /// A cursor at the first table name; `sql` is the text from which the statement was parsed.
    pub fn cursor<'a>(&self, sql: &'a str) -> Cursor<'a> {
        Cursor { sql, at: self.at, quotes: self.quotes }
    }
}

/// Parses one statement; `None` for a query, which is not parsed: SELECT, SHOW, DESCRIBE, EXPLAIN and any statement that
/// begins with another word.
///
/// ```
/// use tidelake_protocol::sql::{DoubleQuotes, Statement, parse};
/// assert_eq!(parse("USE Power;", DoubleQuotes::Text).unwrap(), Some(Statement::Use("power".into())));
/// assert_eq!(parse("USE \"Power\"", DoubleQuotes::Identifier).unwrap(), Some(Statement::Use("Power".into())));
/// assert_eq!(parse("select 1", DoubleQuotes::Text).unwrap(), None);
/// ```
///
/// # Errors
/// [`Kind::Invalid`](tidelake_format::Kind::Invalid) for a syntax error, with the text at its position;
/// [`Kind::Unsupported`](tidelake_format::Kind::Unsupported) for a TDengine statement that is not supported.
pub fn parse(sql: &str, quotes: DoubleQuotes) -> Result<Option<Statement>> {
    let mut cursor = Cursor::new(sql, quotes);
    let first = cursor.peek_word().to_ascii_uppercase();
    let start = cursor.at;
    cursor.at += first.len();
    let statement = match first.as_str() {
        "INSERT" => {
            cursor.expect_word("INTO")?;
            cursor.skip();
            return Ok(Some(Statement::Insert(Insert { at: cursor.at, quotes })));
        }
        "CREATE" => ddl::create(&mut cursor)?,
        "DROP" => ddl::drop(&mut cursor)?,
        "ALTER" => alter::alter(&mut cursor)?,
        "DELETE" => delete::delete(&mut cursor)?,
        "GIVE" => give_up(&mut cursor)?,
        "GRANT" => access::grant(&mut cursor)?,
        "KILL" => kill(&mut cursor)?,
        "REVOKE" => access::revoke(&mut cursor)?,
        "ROTATE" => access::rotate(&mut cursor)?,
        "USE" => Statement::Use(cursor.name("the name of a database")?),
        other if instead_of(other).is_some() => return Err(cursor.locate(not_supported(other), start)),
        "" if matches!(cursor.byte(), 0 | b';') => {
            return Err(Error::invalid("empty statement: expected SELECT, SHOW, INSERT, …"));
        }
        "" if cursor.byte() == b'\\' => {
            let error = Error::invalid("this is a command of a shell, not a statement").with("found", cursor.near());
            let error = error.with("use", "DESCRIBE table or SHOW TABLES, or the command in tidelake sql");
            return Err(cursor.locate(error, cursor.at));
        }
        // A query may begin with a parenthesis.
        "" if cursor.byte() != b'(' => return Err(cursor.unexpected("a statement")),
        _ => return Ok(None),
    };
    cursor.finish()?;
    Ok(Some(statement))
}

/// Parses the rest of KILL: `QUERY 'id'` or `CONNECTION 'id'`.
fn kill(cursor: &mut Cursor<'_>) -> Result<Statement> {
    const EXPECTED: &str = "KILL QUERY 'id' or KILL CONNECTION 'id', with an id of SHOW QUERIES or SHOW CONNECTIONS";
    let of = if cursor.take_word("QUERY") {
        Kill::Query
    } else if cursor.take_word("CONNECTION") {
        Kill::Connection
    } else {
        return Err(cursor.unexpected(EXPECTED));
    };
    cursor.skip();
    if !cursor.is_text() {
        return Err(cursor.unexpected(EXPECTED));
    }
    Ok(Statement::Kill(of(cursor.text()?.into_owned())))
}

/// Parses the rest of GIVE: `UP 'log/WRITER/NUMBER'`.
fn give_up(cursor: &mut Cursor<'_>) -> Result<Statement> {
    const EXPECTED: &str = "GIVE UP 'log/WRITER/NUMBER', the key of a log segment as the error of a query names it";
    cursor.expect_word("UP")?;
    cursor.skip();
    if !cursor.is_text() {
        return Err(cursor.unexpected(EXPECTED));
    }
    let key = cursor.text()?;
    let position = layout::parse_log(&key).ok_or_else(|| {
        Error::invalid("invalid key of a log segment in GIVE UP").with("expected", EXPECTED).with("found", &key)
    })?;
    Ok(Statement::GiveUp(position))
}

/// Error for a statement that is not supported; the cursor is behind its first word, `first`.
pub(super) fn unsupported(cursor: &mut Cursor<'_>, first: &str) -> Error {
    let words = format!("{first} {}", cursor.peek_word().to_ascii_uppercase());
    cursor.locate(not_supported(words.trim_end()), cursor.at)
}

/// The error of a statement that begins with `words`, with the statement to use where one is known.
fn not_supported(words: &str) -> Error {
    let error = Error::unsupported("this statement is not supported").with("found", words);
    match instead_of(words) {
        Some(instead) => error.with("use", instead),
        None => error,
    }
}
