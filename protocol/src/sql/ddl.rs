//! Parsers of CREATE and DROP.

use tidelake_format::{
    Error, Result,
    schema::{Role, check_name},
    types::{Precision, Type},
};

use super::{
    access,
    foreign::instead_of_type,
    lexer::{Cursor, Value},
    statement::{CreateDatabase, CreateSubtable, CreateTable, DropTables, Literal, Statement, TableName, unsupported},
};

/// Parses the rest of CREATE.
pub(super) fn create(cursor: &mut Cursor<'_>) -> Result<Statement> {
    if cursor.take_word("DATABASE") {
        return database(cursor);
    }
    if cursor.take_word("STABLE") || cursor.take_word("TABLE") {
        return table(cursor);
    }
    if cursor.take_word("USER") {
        return access::create_user(cursor);
    }
    if cursor.take_word("TOKEN") {
        return access::create_token(cursor);
    }
    Err(unsupported(cursor, "CREATE"))
}

/// Parses the rest of DROP.
pub(super) fn drop(cursor: &mut Cursor<'_>) -> Result<Statement> {
    if cursor.take_word("DATABASE") {
        let if_exists = cursor.if_exists()?;
        return Ok(Statement::DropDatabase { name: cursor.name("a database name")?, if_exists });
    }
    if cursor.take_word("USER") {
        return access::drop_user(cursor);
    }
    if cursor.take_word("TOKEN") {
        return access::drop_token(cursor);
    }
    if !cursor.take_word("STABLE") && !cursor.take_word("TABLE") {
        return Err(unsupported(cursor, "DROP"));
    }
    let mut tables = Vec::new();
    loop {
        let if_exists = cursor.if_exists()?;
        tables.push((cursor.table_name()?, if_exists));
        if !cursor.take(b',') {
            return Ok(Statement::DropTables(DropTables { tables }));
        }
    }
}

fn database(cursor: &mut Cursor<'_>) -> Result<Statement> {
    let if_not_exists = cursor.if_not_exists()?;
    let name = cursor.name("a database name")?;
    check_name("database", &name)?;
    let mut database =
        CreateDatabase { name, if_not_exists, precision: None, keep_ms: None, partition_ms: None, ignored: Vec::new() };
    loop {
        let option = cursor.peek_word().to_ascii_uppercase();
        if option.is_empty() {
            return Ok(Statement::CreateDatabase(database));
        }
        if !DATABASE_OPTIONS.contains(&option.as_str()) {
            return Err(unknown_option(cursor, &option));
        }
        cursor.at += option.len();
        match option.as_str() {
            "PRECISION" => {
                let text = match cursor.value() {
                    Ok(Value::Text(text)) => text.into_owned(),
                    _ => cursor.name("'ms', 'us' or 'ns'")?,
                };
                database.precision = Some(text.parse::<Precision>()?);
            }
            "KEEP" => {
                database.keep_ms = Some(keep_ms(cursor)?);
            }
            "DURATION" | "DAYS" => {
                database.partition_ms =
                    Some(between("DURATION", duration_ms(cursor)?, 60 * MINUTE_MS, 3_650 * DAY_MS)?);
            }
            _ => {
                ignored_value(cursor)?;
                database.ignored.push(option.clone());
            }
        }
    }
}

/// The error of an option that databases do not have.
pub(super) fn unknown_option(cursor: &Cursor<'_>, option: &str) -> Error {
    let error = Error::invalid("unknown database option").with("found", option);
    let error = error.suggest(option, DATABASE_OPTIONS).with("expected one of", "PRECISION, KEEP, DURATION");
    cursor.locate(error, cursor.at)
}

const MINUTE_MS: i64 = 60_000;
const DAY_MS: i64 = 86_400_000;

/// Consumes the durations of KEEP. TDengine allows three, one per storage tier; rows are dropped after the longest.
pub(super) fn keep_ms(cursor: &mut Cursor<'_>) -> Result<i64> {
    let mut keep = duration_ms(cursor)?;
    while cursor.take(b',') {
        keep = keep.max(duration_ms(cursor)?);
    }
    between("KEEP", keep, DAY_MS, tidelake_format::schema::Database::LONGEST_KEEP_MS)
}

/// Known options of CREATE DATABASE; all except PRECISION, KEEP and DURATION (DAYS) tune TDengine's storage and have no
/// effect.
pub(super) const DATABASE_OPTIONS: [&str; 44] = [
    "BLOCKS",
    "BUFFER",
    "CACHE",
    "CACHELAST",
    "CACHEMODEL",
    "CACHESIZE",
    "COMP",
    "COMPACT_INTERVAL",
    "COMPACT_TIME_OFFSET",
    "COMPACT_TIME_RANGE",
    "DAYS",
    "DNODES",
    "DURATION",
    "ENCRYPT_ALGORITHM",
    "FSYNC",
    "IS_AUDIT",
    "KEEP",
    "KEEP_TIME_OFFSET",
    "MAXROWS",
    "MINROWS",
    "PAGES",
    "PAGESIZE",
    "PRECISION",
    "QUORUM",
    "REPLICA",
    "RETENTIONS",
    "SINGLE_STABLE",
    "SS_CHUNKPAGES",
    "SS_COMPACT",
    "SS_KEEPLOCAL",
    "STRICT",
    "STT_TRIGGER",
    "TABLE_PREFIX",
    "TABLE_SUFFIX",
    "TSDB_PAGESIZE",
    "UPDATE",
    "VGROUPS",
    "WAL",
    "WAL_FSYNC_PERIOD",
    "WAL_LEVEL",
    "WAL_RETENTION_PERIOD",
    "WAL_RETENTION_SIZE",
    "WAL_ROLL_PERIOD",
    "WAL_SEGMENT_SIZE",
];

/// Records an option without effect, once.
fn ignore(ignored: &mut Vec<String>, option: &str) {
    if !ignored.iter().any(|known| known == option) {
        ignored.push(option.to_owned());
    }
}

/// Consumes the value of an option without effect: a number with or without unit, a text or a word.
pub(super) fn ignored_value(cursor: &mut Cursor<'_>) -> Result<()> {
    cursor.skip();
    if cursor.is_text() {
        return cursor.text().map(|_| ());
    }
    let rest = &cursor.bytes()[cursor.at..];
    let len = rest.iter().take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'+' | b'_' | b':')).count();
    if len == 0 {
        return Err(cursor.unexpected("the value of the option"));
    }
    cursor.at += len;
    if cursor.take(b',') { ignored_value(cursor) } else { Ok(()) }
}

/// Consumes `10`, `10d`, `240h`, `14400m` or the same in quotes; returns milliseconds. Without unit the number is in days.
pub(super) fn duration_ms(cursor: &mut Cursor<'_>) -> Result<i64> {
    cursor.skip();
    let quoted = cursor.is_text();
    let (start, text) = (cursor.at, if quoted { cursor.text()?.into_owned() } else { bare(cursor) });
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" | "d" => Some(DAY_MS),
        "h" => Some(60 * MINUTE_MS),
        "m" => Some(MINUTE_MS),
        "s" => Some(1_000),
        "w" => Some(7 * DAY_MS),
        _ => None,
    };
    match (digits.parse::<u32>().ok(), unit) {
        (Some(count), Some(unit)) => Ok(i64::from(count) * unit),
        _ => {
            cursor.at = start;
            Err(cursor.unexpected("a duration like 10, 10d, 240h or 14400m"))
        }
    }
}

fn bare(cursor: &mut Cursor<'_>) -> String {
    let rest = &cursor.bytes()[cursor.at..];
    let len = rest.iter().take_while(|b| b.is_ascii_alphanumeric()).count();
    let text = cursor.sql[cursor.at..cursor.at + len].to_owned();
    cursor.at += len;
    text
}

fn between(option: &str, found: i64, low: i64, high: i64) -> Result<i64> {
    if (low..=high).contains(&found) {
        return Ok(found);
    }
    let minutes = |ms: i64| format!("{}m", ms / MINUTE_MS);
    Err(Error::invalid(format!("{option} is out of range"))
        .with("expected", format!("{} to {}", minutes(low), minutes(high)))
        .with("found", minutes(found)))
}

fn table(cursor: &mut Cursor<'_>) -> Result<Statement> {
    let if_not_exists = cursor.if_not_exists()?;
    let table = cursor.table_name()?;
    if cursor.take_word("USING") {
        return subtables(cursor, table, if_not_exists);
    }
    if cursor.peek_word().eq_ignore_ascii_case("AS") {
        return Err(unsupported(cursor, "CREATE TABLE"));
    }
    let mut ignored = Vec::new();
    let mut columns = column_list(cursor, Role::Field, &mut ignored)?;
    if let Some((name, role, ty)) = columns.first_mut() {
        if *ty != Type::Timestamp {
            return Err(Error::invalid("the first column must be of type TIMESTAMP")
                .with("table", &table)
                .with("column", name)
                .with("found", *ty));
        }
        *role = Role::Time;
    }
    if cursor.take_word("TAGS") {
        columns.extend(column_list(cursor, Role::Tag, &mut ignored)?);
    }
    let keep_ms = table_options(cursor, &mut ignored)?;
    Ok(Statement::CreateTable(CreateTable { table, if_not_exists, columns, keep_ms, ignored }))
}

/// Consumes `(name type, …)`.
fn column_list(cursor: &mut Cursor<'_>, role: Role, ignored: &mut Vec<String>) -> Result<Vec<(String, Role, Type)>> {
    let mut columns = Vec::new();
    cursor.expect(b'(')?;
    loop {
        let name = cursor.name("a column name")?;
        let ty = column_type(cursor, role)?;
        column_options(cursor, ignored)?;
        columns.push((name, role, ty));
        if !cursor.take(b',') {
            cursor.expect(b')')?;
            return Ok(columns);
        }
    }
}

/// Consumes a type.
pub(super) fn column_type(cursor: &mut Cursor<'_>, role: Role) -> Result<Type> {
    let (start, word) = (cursor.at, cursor.peek_word().to_ascii_uppercase());
    cursor.at += word.len();
    let (signed, unsigned) = match word.as_str() {
        "BOOL" | "BOOLEAN" => return Ok(Type::Bool),
        "TINYINT" => (Type::TinyInt, Type::UTinyInt),
        "SMALLINT" => (Type::SmallInt, Type::USmallInt),
        "INT" | "INTEGER" => (Type::Int, Type::UInt),
        "BIGINT" => (Type::BigInt, Type::UBigInt),
        "FLOAT" => return Ok(Type::Float),
        "DOUBLE" => return Ok(Type::Double),
        "TIMESTAMP" if cursor.take(b'(') => {
            let error = Error::invalid("TIMESTAMP takes no precision: it is the same in all tables of a database");
            let error =
                error.with("found", "TIMESTAMP(").with("use", "CREATE DATABASE name PRECISION 'ms' (or 'us', 'ns')");
            return Err(cursor.locate(error, cursor.at - 1));
        }
        "TIMESTAMP" => return Ok(Type::Timestamp),
        "BINARY" | "VARCHAR" => return Ok(Type::Binary(width(cursor, 65_517)?)),
        "NCHAR" => return Ok(Type::NChar(width(cursor, 16_379)?)),
        "VARBINARY" => return Ok(Type::VarBinary(width(cursor, 65_517)?)),
        "JSON" if role == Role::Tag => return Ok(Type::Json),
        "JSON" => {
            return Err(cursor.locate(Error::invalid("the type JSON is for tags: expected another type"), start));
        }
        _ if word.is_empty() => return Err(cursor.unexpected(&format!("a type: {TYPES}"))),
        _ => return Err(cursor.locate(unknown_type(&word), start)),
    };
    Ok(if cursor.take_word("UNSIGNED") { unsigned } else { signed })
}

/// The types of columns, for messages.
const TYPES: &str = "TIMESTAMP, BOOL, TINYINT, SMALLINT, INT, BIGINT (each also UNSIGNED), FLOAT, DOUBLE, VARCHAR(n), NCHAR(n), \
                     VARBINARY(n) or, for a tag, JSON";

/// The error of a type that columns cannot have.
fn unknown_type(word: &str) -> Error {
    const NAMES: [&str; 15] = [
        "TIMESTAMP",
        "BOOL",
        "BOOLEAN",
        "TINYINT",
        "SMALLINT",
        "INT",
        "INTEGER",
        "BIGINT",
        "FLOAT",
        "DOUBLE",
        "BINARY",
        "VARCHAR",
        "NCHAR",
        "VARBINARY",
        "JSON",
    ];
    if let Some(instead) = instead_of_type(word) {
        return Error::unsupported("this type is not supported").with("found", word).with("use", instead);
    }
    Error::invalid("no such type").with("found", word).suggest(word, NAMES).with("expected one of", TYPES)
}

/// Consumes `(n)` if it is next.
fn width(cursor: &mut Cursor<'_>, most: u32) -> Result<Option<u32>> {
    if !cursor.take(b'(') {
        return Ok(None);
    }
    cursor.skip();
    let start = cursor.at;
    let width = bare(cursor);
    match width.parse::<u32>() {
        Ok(n) if (1..=most).contains(&n) => {
            cursor.expect(b')')?;
            Ok(Some(n))
        }
        _ => {
            cursor.at = start;
            Err(cursor.unexpected(&format!("a width from 1 to {most}")))
        }
    }
}

/// Consumes the options of a column: TDengine's encoding options and a comment.
pub(super) fn column_options(cursor: &mut Cursor<'_>, ignored: &mut Vec<String>) -> Result<()> {
    loop {
        if let Some(word) = ["ENCODE", "COMPRESS", "LEVEL", "COMMENT"].iter().find(|word| cursor.take_word(word)) {
            ignored_value(cursor)?;
            ignore(ignored, word);
        } else if cursor.peek_word().eq_ignore_ascii_case("PRIMARY") {
            let error = Error::unsupported("PRIMARY KEY is not supported: the tags and the time of a row identify it");
            return Err(cursor.locate(error.with("use", "TAGS (…) for the other parts of the key"), cursor.at));
        } else {
            return Ok(());
        }
    }
}

/// Consumes the options of a table; returns KEEP, the others have no effect.
fn table_options(cursor: &mut Cursor<'_>, ignored: &mut Vec<String>) -> Result<Option<i64>> {
    let mut keep = None;
    loop {
        if cursor.take_word("KEEP") {
            keep = Some(keep_ms(cursor)?);
        } else if cursor.take_word("COMMENT") {
            ignored_value(cursor)?;
            ignore(ignored, "COMMENT");
        } else if cursor.take_word("SMA") {
            ignore(ignored, "SMA");
            cursor.expect(b'(')?;
            cursor.name("a column name")?;
            while cursor.take(b',') {
                cursor.name("a column name")?;
            }
            cursor.expect(b')')?;
        } else {
            let option = cursor.peek_word();
            if option.is_empty() {
                return Ok(keep);
            }
            const KNOWN: [&str; 7] =
                ["TTL", "ROLLUP", "WATERMARK", "MAX_DELAY", "DELETE_MARK", "VIRTUAL", "SECURITY_LEVEL"];
            if KNOWN.iter().any(|known| known.eq_ignore_ascii_case(option)) {
                let option = option.to_ascii_uppercase();
                let error = Error::unsupported("this table option is not supported").with("found", option);
                return Err(cursor.locate(error.with("expected one of", "KEEP, COMMENT, SMA"), cursor.at));
            }
            return Err(cursor.unexpected("the end of the statement"));
        }
    }
}

/// Consumes the subtables of CREATE TABLE after the first USING.
fn subtables(cursor: &mut Cursor<'_>, first: TableName, if_not_exists: bool) -> Result<Statement> {
    let mut subtables = Vec::new();
    let (mut table, mut if_not_exists) = (first, if_not_exists);
    loop {
        check_name("table", &table.name)?;
        let using = cursor.table_name()?;
        let tags = if cursor.take(b'(') { Some(name_list(cursor)?) } else { None };
        cursor.expect_word("TAGS")?;
        cursor.expect(b'(')?;
        let mut values = Vec::new();
        loop {
            values.push(literal(cursor)?);
            if !cursor.take(b',') {
                cursor.expect(b')')?;
                break;
            }
        }
        subtables.push(CreateSubtable { table, if_not_exists, using, tags, values });
        cursor.skip();
        let _ = cursor.take(b',');
        cursor.skip();
        if matches!(cursor.byte(), 0 | b';') {
            return Ok(Statement::CreateSubtables(subtables));
        }
        // Each subtable may have its own IF NOT EXISTS; the one before the first subtable applies only to it.
        if_not_exists = cursor.if_not_exists()?;
        table = cursor.table_name()?;
        cursor.expect_word("USING")?;
    }
}

/// Consumes names up to the closing parenthesis.
pub fn name_list(cursor: &mut Cursor<'_>) -> Result<Vec<String>> {
    let mut names = vec![cursor.name("a column name")?];
    while cursor.take(b',') {
        names.push(cursor.name("a column name")?);
    }
    cursor.expect(b')')?;
    Ok(names)
}

pub(super) fn literal(cursor: &mut Cursor<'_>) -> Result<Literal> {
    cursor.skip();
    let start = cursor.at;
    match cursor.value()? {
        Value::Text(text) => Ok(Literal::Text(text.into_owned())),
        Value::Parameter(_) => {
            cursor.at = start;
            Err(cursor.unexpected("a value (parameters are for INSERT and DELETE)"))
        }
        _ => Ok(Literal::Bare(cursor.sql[start..cursor.at].trim_end().to_owned())),
    }
}
