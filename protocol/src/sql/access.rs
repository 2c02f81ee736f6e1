//! Parsers of statements on users, rights and tokens, in the syntax of TDengine and InfluxDB.

use std::fmt::{Display, Formatter, Result as Written};

use tidelake_format::{
    Error, Result,
    access::{Limits, Privileges, Secret},
};

use super::{
    ddl::duration_ms,
    lexer::Cursor,
    statement::{AccessStatement, Granted, On, Statement, UserChange, unsupported},
};

/// Formats SQL that parses to the same statement, except for passwords, which are masked.
impl Display for AccessStatement {
    fn fmt(&self, f: &mut Formatter<'_>) -> Written {
        match self {
            AccessStatement::CreateUser { name, if_not_exists, password, admin } => {
                let if_not_exists = if *if_not_exists { "IF NOT EXISTS " } else { "" };
                write!(f, "CREATE USER {if_not_exists}{}", Name(name))?;
                f.write_str(if password.is_some() { " PASSWORD '***'" } else { "" })?;
                f.write_str(if *admin { " ADMIN" } else { "" })
            }
            AccessStatement::AlterUser { name, change } => write!(f, "ALTER USER {} {change}", Name(name)),
            AccessStatement::DropUser { name, if_exists } => {
                write!(f, "DROP USER {}{}", if *if_exists { "IF EXISTS " } else { "" }, Name(name))
            }
            AccessStatement::Grant { granted, user } => write!(f, "GRANT {granted} TO {}", Name(user)),
            AccessStatement::Revoke { granted, user } => write!(f, "REVOKE {granted} FROM {}", Name(user)),
            AccessStatement::CreateToken { name, owner, grants, expires_ms } => {
                write!(f, "CREATE TOKEN {}", Name(name))?;
                if let Some(owner) = owner {
                    write!(f, " FOR {}", Name(owner))?;
                }
                for (n, (privileges, on)) in grants.iter().flatten().enumerate() {
                    write!(f, "{} {privileges} ON {on}", if n == 0 { " WITH" } else { "," })?;
                }
                expires_ms.map_or(Ok(()), |length| write!(f, " EXPIRES IN {}s", length / 1_000))
            }
            AccessStatement::DropToken { name, owner, if_exists } => {
                write!(f, "DROP TOKEN {}{}", if *if_exists { "IF EXISTS " } else { "" }, Name(name))?;
                owner.as_ref().map_or(Ok(()), |owner| write!(f, " FOR {}", Name(owner)))
            }
            AccessStatement::RotateSessions { user } => {
                f.write_str("ROTATE SESSIONS")?;
                user.as_ref().map_or(Ok(()), |user| write!(f, " FOR {}", Name(user)))
            }
        }
    }
}

impl Display for UserChange {
    fn fmt(&self, f: &mut Formatter<'_>) -> Written {
        match self {
            UserChange::Password { old, keep_tokens, .. } => {
                f.write_str("PASSWORD '***'")?;
                f.write_str(if old.is_some() { " OLD '***'" } else { "" })?;
                f.write_str(if *keep_tokens { " KEEP TOKENS" } else { "" })
            }
            UserChange::Enabled(enabled) => write!(f, "ENABLE {}", u8::from(*enabled)),
            UserChange::Admin(admin) => write!(f, "ADMIN {}", u8::from(*admin)),
            UserChange::Limits(Limits { queries, memory, time_ms }) => {
                let queries = queries.map(|count| format!("QUERIES {count}"));
                let memory = memory.map(|bytes| format!("MEMORY {bytes}"));
                let time = time_ms.map(|time| format!("TIME {}s", time / 1_000));
                let limits: Vec<_> = [queries, memory, time].into_iter().flatten().collect();
                write!(f, "LIMIT {}", limits.join(", "))
            }
        }
    }
}

impl Display for Granted {
    fn fmt(&self, f: &mut Formatter<'_>) -> Written {
        match self {
            Granted::Admin => f.write_str("ADMIN"),
            Granted::On(privileges, on) => write!(f, "{privileges} ON {on}"),
        }
    }
}

impl Display for On {
    fn fmt(&self, f: &mut Formatter<'_>) -> Written {
        match self {
            On::Everywhere => f.write_str("*.*"),
            On::Database(name) => write!(f, "{}.*", Name(name)),
        }
    }
}

/// Formats a name unquoted if it parses to the same name, else in backticks.
struct Name<'a>(&'a str);

impl Display for Name<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Written {
        let is_word = self.0.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
            && self.0.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
        if is_word && !self.0.eq_ignore_ascii_case("if") {
            return f.write_str(self.0);
        }
        write!(f, "`{}`", self.0.replace('`', "``"))
    }
}

/// Parses the rest of CREATE USER.
pub(super) fn create_user(cursor: &mut Cursor<'_>) -> Result<Statement> {
    let if_not_exists = cursor.if_not_exists()?;
    let name = user(cursor)?;
    let (mut password, mut admin) = (None, false);
    loop {
        let with = cursor.take_word("WITH");
        if cursor.take_word("PASS") || cursor.take_word("PASSWORD") {
            password = Some(secret(cursor)?);
        } else if cursor.take_word("ADMIN") {
            admin = true;
        } else if with && cursor.take_word("ALL") {
            cursor.expect_word("PRIVILEGES")?;
            admin = true;
        } else if with || !cursor.is_at_end() {
            return Err(cursor.unexpected("PASSWORD 'text' or ADMIN"));
        } else {
            return Ok(AccessStatement::CreateUser { name, if_not_exists, password, admin }.into());
        }
    }
}

/// Parses the rest of ALTER USER.
pub(super) fn alter_user(cursor: &mut Cursor<'_>) -> Result<Statement> {
    let name = user(cursor)?;
    let change = if cursor.take_word("PASS") || cursor.take_word("PASSWORD") {
        password(cursor)?
    } else if cursor.take_word("ENABLE") {
        UserChange::Enabled(switch(cursor)?)
    } else if cursor.take_word("ADMIN") {
        UserChange::Admin(switch(cursor)?)
    } else if cursor.take_word("LIMIT") {
        UserChange::Limits(limits(cursor)?)
    } else {
        return Err(cursor.unexpected("PASSWORD 'text', ENABLE 0, ENABLE 1, ADMIN 0, ADMIN 1 or LIMIT"));
    };
    Ok(AccessStatement::AlterUser { name, change }.into())
}

/// Parses the rest of ALTER USER name PASSWORD.
fn password(cursor: &mut Cursor<'_>) -> Result<UserChange> {
    let new = secret(cursor)?;
    let old = if cursor.take_word("OLD") { Some(secret(cursor)?) } else { None };
    let keep_tokens = cursor.take_word("KEEP");
    if keep_tokens {
        cursor.expect_word("TOKENS")?;
    }
    Ok(UserChange::Password { new, old, keep_tokens })
}

/// Parses the rest of DROP USER.
pub(super) fn drop_user(cursor: &mut Cursor<'_>) -> Result<Statement> {
    let if_exists = cursor.if_exists()?;
    Ok(AccessStatement::DropUser { name: user(cursor)?, if_exists }.into())
}

/// Parses the rest of CREATE TOKEN.
pub(super) fn create_token(cursor: &mut Cursor<'_>) -> Result<Statement> {
    let name = user(cursor)?;
    let owner = if cursor.take_word("FOR") { Some(user(cursor)?) } else { None };
    let mut grants = None;
    if cursor.take_word("WITH") {
        let grants: &mut Vec<_> = grants.insert(Vec::new());
        loop {
            let privileges = privileges(cursor)?;
            cursor.expect_word("ON")?;
            grants.push((privileges, on(cursor)?));
            if !cursor.take(b',') {
                break;
            }
        }
    }
    let mut expires_ms = None;
    if cursor.take_word("EXPIRES") {
        cursor.expect_word("IN")?;
        let length = duration_ms(cursor)?;
        if length <= 0 {
            return Err(
                Error::invalid("invalid EXPIRES IN: expected a duration above 0").with("found", format!("{length} ms"))
            );
        }
        expires_ms = Some(length);
    }
    Ok(AccessStatement::CreateToken { name, owner, grants, expires_ms }.into())
}

/// Parses the rest of DROP TOKEN.
pub(super) fn drop_token(cursor: &mut Cursor<'_>) -> Result<Statement> {
    let if_exists = cursor.if_exists()?;
    let name = user(cursor)?;
    let owner = if cursor.take_word("FOR") { Some(user(cursor)?) } else { None };
    Ok(AccessStatement::DropToken { name, owner, if_exists }.into())
}

/// Parses the rest of ROTATE.
pub(super) fn rotate(cursor: &mut Cursor<'_>) -> Result<Statement> {
    cursor.expect_word("SESSIONS")?;
    let user = if cursor.take_word("FOR") { Some(user(cursor)?) } else { None };
    Ok(AccessStatement::RotateSessions { user }.into())
}

/// Parses the rest of GRANT.
pub(super) fn grant(cursor: &mut Cursor<'_>) -> Result<Statement> {
    let granted = granted(cursor, "GRANT")?;
    cursor.expect_word("TO")?;
    Ok(AccessStatement::Grant { granted, user: user(cursor)? }.into())
}

/// Parses the rest of REVOKE.
pub(super) fn revoke(cursor: &mut Cursor<'_>) -> Result<Statement> {
    let granted = granted(cursor, "REVOKE")?;
    cursor.expect_word("FROM")?;
    Ok(AccessStatement::Revoke { granted, user: user(cursor)? }.into())
}

fn granted(cursor: &mut Cursor<'_>, verb: &str) -> Result<Granted> {
    if cursor.take_word("ADMIN") {
        return Ok(Granted::Admin);
    }
    if !["ALL", "READ", "WRITE"].iter().any(|word| cursor.peek_word().eq_ignore_ascii_case(word)) {
        return Err(unsupported(cursor, verb).with("expected", "ALL, READ, WRITE or ADMIN"));
    }
    let privileges = privileges(cursor)?;
    if cursor.take_word("ON") {
        return Ok(Granted::On(privileges, on(cursor)?));
    }
    match privileges {
        Privileges::ALL => Ok(Granted::Admin),
        _ => Err(cursor.unexpected("ON database.* or ON *.*")),
    }
}

fn privileges(cursor: &mut Cursor<'_>) -> Result<Privileges> {
    let mut privileges = Privileges::default();
    loop {
        if cursor.take_word("ALL") {
            cursor.take_word("PRIVILEGES");
            privileges = Privileges::ALL;
        } else if cursor.take_word("READ") {
            privileges.read = true;
        } else if cursor.take_word("WRITE") {
            privileges.write = true;
        } else {
            return Err(cursor.unexpected("ALL, READ or WRITE"));
        }
        if !cursor.take(b',') {
            return Ok(privileges);
        }
    }
}

/// Consumes `*.*`, `*`, `database.*` or `database`.
fn on(cursor: &mut Cursor<'_>) -> Result<On> {
    let on = if cursor.take(b'*') { On::Everywhere } else { On::Database(cursor.name("a database name or *.*")?) };
    if cursor.take(b'.') {
        cursor.expect(b'*')?;
    }
    Ok(on)
}

/// Consumes the name of a user or token, written as a name or a text literal.
fn user(cursor: &mut Cursor<'_>) -> Result<String> {
    cursor.skip();
    if cursor.is_text() { cursor.text().map(|text| text.into_owned()) } else { cursor.name("a name") }
}

/// Consumes a text literal that must not appear in messages.
fn secret(cursor: &mut Cursor<'_>) -> Result<Secret> {
    cursor.skip();
    let text = if cursor.is_text() { cursor.text().ok() } else { None };
    let text = text.ok_or_else(|| {
        let error = Error::invalid("expected a password in single quotes");
        cursor.locate(error, cursor.at)
    })?;
    Ok(Secret::new(text.into_owned()))
}

/// Consumes at least one limit of `QUERIES 4, MEMORY '512MiB', TIME 30s`.
fn limits(cursor: &mut Cursor<'_>) -> Result<Limits> {
    let mut limits = Limits::default();
    loop {
        if cursor.take_word("QUERIES") {
            limits.queries = Some(whole(cursor)?);
        } else if cursor.take_word("MEMORY") {
            limits.memory = Some(size(cursor)?);
        } else if cursor.take_word("TIME") {
            limits.time_ms = Some(u64::try_from(duration_ms(cursor)?).unwrap_or_default());
        } else {
            return Err(cursor.unexpected("QUERIES 4, MEMORY '512MiB' or TIME 30s (0 is no limit)"));
        }
        if !cursor.take(b',') {
            return Ok(limits);
        }
    }
}

fn whole<T: std::str::FromStr>(cursor: &mut Cursor<'_>) -> Result<T> {
    cursor.skip();
    let len = cursor.bytes()[cursor.at..].iter().take_while(|b| b.is_ascii_digit()).count();
    let Ok(number) = cursor.sql[cursor.at..cursor.at + len].parse() else {
        return Err(cursor.unexpected("a whole number"));
    };
    cursor.at += len;
    Ok(number)
}

/// Consumes a number of bytes, or a text such as `'512MiB'`.
fn size(cursor: &mut Cursor<'_>) -> Result<u64> {
    cursor.skip();
    if !cursor.is_text() {
        return whole(cursor);
    }
    let start = cursor.at;
    let text = cursor.text()?;
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic() || c == ' ');
    let unit = match text[digits.len()..].trim().to_ascii_lowercase().as_str() {
        "" | "b" => Some(1_u64),
        "kib" | "k" => Some(1 << 10),
        "mib" | "m" => Some(1 << 20),
        "gib" | "g" => Some(1 << 30),
        _ => None,
    };
    let bytes = digits.parse::<u64>().ok().zip(unit).and_then(|(count, unit)| count.checked_mul(unit));
    bytes.ok_or_else(|| {
        cursor.at = start;
        cursor.unexpected("a size such as '512MiB', with KiB, MiB or GiB")
    })
}

fn switch(cursor: &mut Cursor<'_>) -> Result<bool> {
    cursor.skip();
    let on = match cursor.byte() {
        b'0' => false,
        b'1' => true,
        _ => return Err(cursor.unexpected("0 or 1")),
    };
    cursor.at += 1;
    Ok(on)
}
