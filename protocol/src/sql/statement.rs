//! Statements, as they are written.

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
        /// Which.
        name: String,
        /// No error where there is none.
        if_exists: bool,
    },
    /// CREATE STABLE, or CREATE TABLE with a list of columns.
    CreateTable(CreateTable),
    /// CREATE TABLE … USING … TAGS …, several in one statement.
    CreateSubtables(Vec<CreateSubtable>),
    /// INSERT, not yet read beyond its first words.
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
    /// GIVE UP: a log segment that is missing or cannot be read.
    GiveUp(Position),
    /// USE.
    Use(String),
    /// KILL QUERY or KILL CONNECTION.
    Kill(Kill),
}

impl Statement {
    /// The options that it has and that change nothing here.
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
        /// Who.
        name: String,
        /// No error where there is one.
        if_not_exists: bool,
        /// Without one only tokens let the user in.
        password: Option<Secret>,
        /// May do everything.
        admin: bool,
    },
    /// ALTER USER.
    AlterUser {
        /// Who.
        name: String,
        /// What.
        change: UserChange,
    },
    /// DROP USER.
    DropUser {
        /// Who.
        name: String,
        /// No error where there is none.
        if_exists: bool,
    },
    /// GRANT.
    Grant {
        /// What.
        granted: Granted,
        /// To whom.
        user: String,
    },
    /// REVOKE.
    Revoke {
        /// What.
        granted: Granted,
        /// From whom.
        user: String,
    },
    /// CREATE TOKEN.
    CreateToken {
        /// What people call it.
        name: String,
        /// Whose; `None` is whoever asks.
        owner: Option<String>,
        /// What it is narrowed to.
        grants: Option<Vec<(Privileges, On)>>,
        /// After how long it lets nobody in.
        expires_ms: Option<i64>,
    },
    /// DROP TOKEN.
    DropToken {
        /// What people call it.
        name: String,
        /// Whose; `None` is whoever asks.
        owner: Option<String>,
        /// No error where there is none.
        if_exists: bool,
    },
    /// ROTATE SESSIONS.
    RotateSessions {
        /// Whose sessions end; `None` is everybody's.
        user: Option<String>,
    },
}

impl From<AccessStatement> for Statement {
    fn from(statement: AccessStatement) -> Self {
        Statement::Access(statement)
    }
}

/// What an ALTER USER changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UserChange {
    /// The password.
    Password {
        /// The new one.
        new: Secret,
        /// The one before it, where it is told.
        old: Option<Secret>,
        /// Whether the user's tokens stay.
        keep_tokens: bool,
    },
    /// Whether the user may come in.
    Enabled(bool),
    /// Whether the user may do everything.
    Admin(bool),
    /// What the user's queries may take, where it is given; zero takes a limit away.
    Limits(Limits),
}

/// What a GRANT or REVOKE is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Granted {
    /// Everything, users as well.
    Admin,
    /// Some privileges on something.
    On(Privileges, On),
}

/// What privileges are on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum On {
    /// Every database.
    Everywhere,
    /// The database of a name.
    Database(String),
}

/// A table or series, with its database where one is given.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TableName {
    /// `None` is the session's.
    pub database: Option<String>,
    /// In lower case unless it was quoted.
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
    /// Its name.
    pub name: String,
    /// No error where it exists.
    pub if_not_exists: bool,
    /// PRECISION; `None` is the default.
    pub precision: Option<Precision>,
    /// KEEP in milliseconds; `None` is the default.
    pub keep_ms: Option<i64>,
    /// DURATION in milliseconds; `None` is the default.
    pub partition_ms: Option<i64>,
    /// Options that change nothing.
    pub ignored: Vec<String>,
}

/// CREATE STABLE or CREATE TABLE.
#[derive(Debug, Clone, PartialEq)]
pub struct CreateTable {
    /// Its name.
    pub table: TableName,
    /// No error where it exists.
    pub if_not_exists: bool,
    /// Time first, then fields, then tags (none for a plain table).
    pub columns: Vec<(String, Role, Type)>,
    /// KEEP in milliseconds; `None` is the database's.
    pub keep_ms: Option<i64>,
    /// Options of columns and of the table that change nothing.
    pub ignored: Vec<String>,
}

/// One subtable of a CREATE TABLE … USING.
#[derive(Debug, Clone, PartialEq)]
pub struct CreateSubtable {
    /// Its name.
    pub table: TableName,
    /// No error where it exists.
    pub if_not_exists: bool,
    /// Its supertable.
    pub using: TableName,
    /// The tags that are given, where they are named; `None` is all, in their order.
    pub tags: Option<Vec<String>>,
    /// Their values.
    pub values: Vec<Literal>,
}

/// DROP TABLE or DROP STABLE.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DropTables {
    /// Which, each with whether IF EXISTS was said.
    pub tables: Vec<(TableName, bool)>,
}

/// ALTER TABLE or ALTER STABLE.
#[derive(Debug, Clone, PartialEq)]
pub struct Alter {
    /// Which.
    pub table: TableName,
    /// What.
    pub action: AlterAction,
    /// Options of a column that change nothing.
    pub ignored: Vec<String>,
}

/// What an ALTER does.
#[derive(Debug, Clone, PartialEq)]
pub enum AlterAction {
    /// ADD COLUMN or ADD TAG.
    Add {
        /// Its name.
        name: String,
        /// A field or a tag.
        role: Role,
        /// Its type.
        ty: Type,
    },
    /// DROP COLUMN or DROP TAG.
    Drop {
        /// Its name.
        name: String,
        /// A field or a tag.
        role: Role,
    },
    /// MODIFY COLUMN or MODIFY TAG.
    Modify {
        /// Its name.
        name: String,
        /// A field or a tag.
        role: Role,
        /// Its new type.
        ty: Type,
    },
    /// RENAME COLUMN or RENAME TAG.
    Rename {
        /// Its name.
        name: String,
        /// A field or a tag.
        role: Role,
        /// Its new name.
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
    /// Its name.
    pub name: String,
    /// KEEP in milliseconds, where it is given.
    pub keep_ms: Option<i64>,
    /// Options that change nothing.
    pub ignored: Vec<String>,
}

/// DELETE FROM.
#[derive(Debug, Clone, PartialEq)]
pub struct Delete {
    /// A supertable, a plain table or a subtable.
    pub table: TableName,
    /// WHERE; `None` = every row.
    pub filter: Option<Predicate>,
    /// How many parameters it has.
    pub parameters: usize,
}

/// A condition of WHERE, not yet typed.
#[derive(Debug, Clone, PartialEq)]
pub enum Predicate {
    /// All of them.
    And(Vec<Predicate>),
    /// At least one of them.
    Or(Vec<Predicate>),
    /// The opposite, unknown where that is unknown.
    Not(Box<Predicate>),
    /// `column op value`; an operand on the other side has been turned round.
    Compare {
        /// Its name.
        column: String,
        /// The comparison.
        op: Comparison,
        /// What it is compared with.
        value: Literal,
    },
    /// `column IN (…)`.
    In {
        /// Its name.
        column: String,
        /// The values.
        values: Vec<Literal>,
    },
    /// `column LIKE 'pattern'`.
    Like {
        /// Its name.
        column: String,
        /// A text: `%` is any text, `_` any character, `\` takes what follows as it is.
        pattern: Literal,
    },
    /// `column IS NULL`.
    IsNull {
        /// Its name.
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
    /// A quoted text, its escapes resolved.
    Text(String),
    /// Anything else, as written: a number, NULL, TRUE, a time expression.
    Bare(String),
    /// An instant that was bound, in nanoseconds since the epoch.
    Instant(i128),
    /// The parameter of this place, from 0.
    Parameter(usize),
}

/// What a KILL ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kill {
    /// The query of an id.
    Query(String),
    /// The connection of an id.
    Connection(String),
}

/// An INSERT statement; the write path reads its text against the catalog in one pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Insert {
    /// The byte offset of the first table name in the text.
    pub at: usize,
    /// What its double quotes mean.
    pub quotes: DoubleQuotes,
}

impl Insert {
    /// A cursor at its first table name in the text that it was parsed from.
    pub fn cursor<'a>(&self, sql: &'a str) -> Cursor<'a> {
        Cursor { sql, at: self.at, quotes: self.quotes }
    }
}

/// Parses one statement; `None` for a query, which is not read: SELECT, SHOW, DESCRIBE, EXPLAIN and whatever begins with
/// another word.
///
/// ```
/// use tidelake_protocol::sql::{DoubleQuotes, Statement, parse};
/// assert_eq!(parse("USE Power;", DoubleQuotes::Text).unwrap(), Some(Statement::Use("power".into())));
/// assert_eq!(parse("USE \"Power\"", DoubleQuotes::Identifier).unwrap(), Some(Statement::Use("Power".into())));
/// assert_eq!(parse("select 1", DoubleQuotes::Text).unwrap(), None);
/// ```
///
/// # Errors
/// [`Kind::Invalid`](tidelake_format::Kind::Invalid) for a syntax error, naming the text where it lies;
/// [`Kind::Unsupported`](tidelake_format::Kind::Unsupported) for a statement of TDengine's that is not done here.
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
            return Err(Error::invalid("the statement is empty: expected SELECT, SHOW, INSERT, …"));
        }
        // A query may begin with a bracket.
        "" if cursor.byte() == b'\\' => {
            let error = Error::invalid("this is a command of a shell, not a statement").with("found", cursor.near());
            let error = error.with("use", "DESCRIBE table or SHOW TABLES, or the command in tidelake sql");
            return Err(cursor.locate(error, cursor.at));
        }
        "" if cursor.byte() != b'(' => return Err(cursor.unexpected("a statement")),
        _ => return Ok(None),
    };
    cursor.finish()?;
    Ok(Some(statement))
}

/// Reads what follows KILL: `QUERY 'id'` or `CONNECTION 'id'`.
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

/// Reads what follows GIVE: `UP 'log/WRITER/NUMBER'`.
fn give_up(cursor: &mut Cursor<'_>) -> Result<Statement> {
    const EXPECTED: &str = "GIVE UP 'log/WRITER/NUMBER', the key of a log segment as the error of a query names it";
    cursor.expect_word("UP")?;
    cursor.skip();
    if !cursor.is_text() {
        return Err(cursor.unexpected(EXPECTED));
    }
    let key = cursor.text()?;
    let position = layout::parse_log(&key).ok_or_else(|| {
        Error::invalid("this is not the key of a log segment").with("expected", EXPECTED).with("found", &key)
    })?;
    Ok(Statement::GiveUp(position))
}

/// The error of a statement that Tidelake does not have; the cursor is behind its first word, `first`.
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
