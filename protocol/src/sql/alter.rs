//! ALTER.

use tidelake_format::{
    Error, Result,
    schema::{Role, check_name},
    types::Type,
};

use super::{
    access,
    ddl::{DATABASE_OPTIONS, column_options, column_type, ignored_value, keep_ms, literal, unknown_option},
    lexer::Cursor,
    statement::{Alter, AlterAction, AlterDatabase, Statement, unsupported},
};

/// Parses the rest of ALTER.
pub(super) fn alter(cursor: &mut Cursor<'_>) -> Result<Statement> {
    if cursor.take_word("DATABASE") {
        return database(cursor);
    }
    if cursor.take_word("USER") {
        return access::alter_user(cursor);
    }
    if !cursor.take_word("STABLE") && !cursor.take_word("TABLE") {
        return Err(unsupported(cursor, "ALTER"));
    }
    let table = cursor.table_name()?;
    let word = cursor.peek_word();
    let mut ignored = Vec::new();
    let action = match word.to_ascii_uppercase().as_str() {
        "" => return Err(cursor.unexpected("ADD, DROP, MODIFY, RENAME, SET or KEEP")),
        "ADD" => {
            let (name, role, ty) = typed_column(cursor, word, &mut ignored)?;
            AlterAction::Add { name, role, ty }
        }
        "DROP" => {
            let (name, role) = column(cursor, word)?;
            AlterAction::Drop { name, role }
        }
        "MODIFY" => {
            let (name, role, ty) = typed_column(cursor, word, &mut ignored)?;
            AlterAction::Modify { name, role, ty }
        }
        "RENAME" => {
            let (name, role) = column(cursor, word)?;
            let _ = cursor.take_word("TO");
            let to = cursor.name("a column name")?;
            check_name("column", &to)?;
            AlterAction::Rename { name, role, to }
        }
        "SET" => {
            cursor.at += word.len();
            set_tags(cursor)?
        }
        "KEEP" => {
            cursor.at += word.len();
            AlterAction::Keep(keep_ms(cursor)?)
        }
        _ => return Err(unsupported(cursor, "ALTER TABLE …")),
    };
    Ok(Statement::Alter(Alter { table, action, ignored }))
}

/// Consumes the action's word, COLUMN or TAG, and a name.
fn column(cursor: &mut Cursor<'_>, action: &str) -> Result<(String, Role)> {
    cursor.at += action.len();
    let role = if cursor.take_word("COLUMN") {
        Role::Field
    } else if cursor.take_word("TAG") {
        Role::Tag
    } else if action.eq_ignore_ascii_case("RENAME") && cursor.peek_word().eq_ignore_ascii_case("TO") {
        return Err(unsupported(cursor, "ALTER TABLE RENAME"));
    } else {
        return Err(cursor.unexpected("COLUMN or TAG"));
    };
    Ok((cursor.name("a column name")?, role))
}

/// Consumes the same as [`column()`], and a type with its options.
fn typed_column(cursor: &mut Cursor<'_>, action: &str, ignored: &mut Vec<String>) -> Result<(String, Role, Type)> {
    let (name, role) = column(cursor, action)?;
    let ty = column_type(cursor, role)?;
    column_options(cursor, ignored)?;
    Ok((name, role, ty))
}

/// Consumes `TAG a = v, b = v`.
fn set_tags(cursor: &mut Cursor<'_>) -> Result<AlterAction> {
    cursor.expect_word("TAG")?;
    let mut tags: Vec<(String, _)> = Vec::new();
    loop {
        let name = cursor.name("a tag name")?;
        cursor.expect(b'=')?;
        let value = literal(cursor)?;
        if tags.iter().any(|(other, _)| *other == name) {
            return Err(Error::invalid("tag is set twice").with("tag", name));
        }
        tags.push((name, value));
        if !cursor.take(b',') {
            return Ok(AlterAction::SetTags(tags));
        }
        let _ = cursor.take_word("TAG");
    }
}

fn database(cursor: &mut Cursor<'_>) -> Result<Statement> {
    let mut alter = AlterDatabase { name: cursor.name("a database name")?, keep_ms: None, ignored: Vec::new() };
    let mut options = 0;
    loop {
        let option = cursor.peek_word().to_ascii_uppercase();
        if option.is_empty() {
            return if options > 0 { Ok(Statement::AlterDatabase(alter)) } else { Err(cursor.unexpected("KEEP")) };
        }
        options += 1;
        match option.as_str() {
            "KEEP" => {
                cursor.at += option.len();
                alter.keep_ms = Some(keep_ms(cursor)?);
            }
            "PRECISION" | "DURATION" | "DAYS" => {
                let error = Error::unsupported(format!("cannot change {option} of a database"));
                return Err(cursor.locate(error.with("database", alter.name), cursor.at));
            }
            known if DATABASE_OPTIONS.contains(&known) => {
                cursor.at += option.len();
                ignored_value(cursor)?;
                alter.ignored.push(option.clone());
            }
            _ => return Err(unknown_option(cursor, &option)),
        }
    }
}
