//! SHOW and DESCRIBE as queries of `information_schema`.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray},
    datatypes::SchemaRef,
    util::display::array_value_to_string,
};
use datafusion::{catalog::SchemaProvider, execution::SessionState, sql::sqlparser::tokenizer::Token};
use tidelake_format::{
    Error, Reason, Result,
    schema::{Database, Role, Supertable},
    types::Type,
};

use super::{
    lex::{Tok, at, name_of},
    names::{self, Found},
};
use crate::{
    catalog::{CatalogInfo, duration},
    files::{FILES, type_of},
    session::Session,
};

/// A SHOW or DESCRIBE statement.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Show {
    /// SHOW DATABASES.
    Databases { like: Option<String> },
    /// SHOW \[db.\]STABLES, TABLES or VIEWS.
    Names { what: Listed, database: Option<String>, like: Option<String> },
    /// SHOW QUERIES.
    Queries,
    /// SHOW CONNECTIONS.
    Connections,
    /// SHOW VARIABLES.
    Variables { like: Option<String> },
    /// SHOW FUNCTIONS.
    Functions { like: Option<String> },
    /// SHOW USERS.
    Users,
    /// SHOW GRANTS \[FOR user\], SHOW USER PRIVILEGES.
    Grants(Option<String>),
    /// SHOW TOKENS \[FOR user\].
    Tokens(Option<String>),
    /// SHOW CREATE DATABASE.
    CreateDatabase(String),
    /// SHOW CREATE TABLE or STABLE.
    CreateTable { database: Option<String>, table: String },
    /// SHOW TAGS FROM t, SHOW TABLE TAGS FROM t.
    Tags { database: Option<String>, table: String },
    /// DESCRIBE t.
    Describe { database: Option<String>, table: String },
}

/// The kinds of names that SHOW lists in a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Listed {
    Stables,
    Tables,
    Views,
}

impl Listed {
    /// The table of `information_schema`.
    fn table(self) -> &'static str {
        match self {
            Listed::Stables => "ins_stables",
            Listed::Tables => "ins_tables",
            Listed::Views => "ins_views",
        }
    }

    /// The column of names.
    fn column(self) -> &'static str {
        match self {
            Listed::Stables => "stable_name",
            Listed::Tables => "table_name",
            Listed::Views => "view_name",
        }
    }
}

struct Reader<'a> {
    tokens: &'a [Tok],
    sql: &'a str,
    i: usize,
}

/// Parses SHOW …, DESCRIBE … or DESC ….
///
/// # Errors
/// Invalid with the position and the expected syntax; Unsupported for any other kind of SHOW.
pub(crate) fn parse(tokens: &[Tok], sql: &str) -> Result<Show> {
    let mut reader = Reader { tokens, sql, i: 1 };
    let show = if tokens[0].is_word("show") {
        reader.show()?
    } else {
        reader.skip("table");
        let (database, table) = reader.table()?;
        Show::Describe { database, table }
    };
    if reader.i < tokens.len() {
        return Err(reader.expected("the end of the statement"));
    }
    Ok(show)
}

impl Reader<'_> {
    fn show(&mut self) -> Result<Show> {
        if self.skip("create") {
            if self.skip("database") {
                return Ok(Show::CreateDatabase(self.name("the name of a database")?));
            }
            if self.skip("table") || self.skip("stable") {
                let (database, table) = self.table()?;
                return Ok(Show::CreateTable { database, table });
            }
            return Err(self.expected("SHOW CREATE DATABASE, SHOW CREATE TABLE or SHOW CREATE STABLE"));
        }
        if self.skip("databases") || self.skip("schemas") {
            return Ok(Show::Databases { like: self.like()? });
        }
        if self.skip("queries") {
            return Ok(Show::Queries);
        }
        if self.skip("connections") {
            return Ok(Show::Connections);
        }
        if self.skip("variables") {
            return Ok(Show::Variables { like: self.like()? });
        }
        if self.skip("functions") {
            return Ok(Show::Functions { like: self.like()? });
        }
        if self.skip("users") {
            return Ok(Show::Users);
        }
        if self.skip("grants") {
            return Ok(Show::Grants(self.of_user()?));
        }
        if self.skip("tokens") {
            return Ok(Show::Tokens(self.of_user()?));
        }
        if self.skip("user") {
            if !self.skip("privileges") {
                return Err(self.expected("PRIVILEGES"));
            }
            return Ok(Show::Grants(self.of_user()?));
        }
        let start = self.i;
        if self.skip("tags") || (self.skip("table") && self.skip("tags")) {
            if !self.skip("from") {
                return Err(self.expected("FROM"));
            }
            let (mut database, table) = self.table()?;
            if self.skip("from") {
                database = Some(self.name("the name of a database")?);
            }
            return Ok(Show::Tags { database, table });
        }
        self.i = start;
        if self.skip("columns") {
            if !self.skip("from") && !self.skip("in") {
                return Err(self.expected("FROM"));
            }
            let (database, table) = self.table()?;
            return Ok(Show::Describe { database, table });
        }
        let mut database = None;
        if self.tokens.get(self.i + 1).is_some_and(|t| t.token == Token::Period) {
            database = Some(self.name("the name of a database")?);
            self.i += 1;
        }
        let _ = self.skip("normal") || self.skip("child");
        let what = if self.skip("stables") {
            Listed::Stables
        } else if self.skip("tables") {
            Listed::Tables
        } else if self.skip("views") {
            Listed::Views
        } else {
            let found = self.found();
            return Err(match self.tokens.get(self.i) {
                Some(t) => {
                    let error = Error::unsupported("SHOW does not list this").with("found", &found);
                    let next = self.tokens.get(self.i + 1).and_then(name_of).unwrap_or_default();
                    let error = error.suggest_or(instead_of_show(&found, next), &found, LISTS);
                    at(error.with("expected one of", LISTS.join(", ")), t.span.start)
                }
                None => self.expected(&format!("one of {}", LISTS.join(", "))),
            });
        };
        if self.skip("from") {
            database = Some(self.name("the name of a database")?);
        }
        Ok(Show::Names { what, database, like: self.like()? })
    }

    /// Parses an optional `FOR user`.
    fn of_user(&mut self) -> Result<Option<String>> {
        if self.skip("for") { self.name("the name of a user").map(Some) } else { Ok(None) }
    }

    fn like(&mut self) -> Result<Option<String>> {
        if !self.skip("like") {
            return Ok(None);
        }
        match self.tokens.get(self.i).map(|t| &t.token) {
            Some(Token::SingleQuotedString(pattern)) => {
                self.i += 1;
                Ok(Some(pattern.clone()))
            }
            _ => Err(self.expected("a pattern in quotes")),
        }
    }

    /// `t`, `db.t`, or the location of a file in quotes.
    fn table(&mut self) -> Result<(Option<String>, String)> {
        if let Some(Token::SingleQuotedString(location)) = self.tokens.get(self.i).map(|t| &t.token) {
            self.i += 1;
            return Ok((None, location.clone()));
        }
        let first = self.name("the name of a table")?;
        if self.tokens.get(self.i).is_some_and(|t| t.token == Token::Period) {
            self.i += 1;
            return Ok((Some(first), self.name("the name of a table")?));
        }
        Ok((None, first))
    }

    fn name(&mut self, what: &str) -> Result<String> {
        match self.tokens.get(self.i).and_then(name_of) {
            Some(name) => {
                self.i += 1;
                Ok(name.to_owned())
            }
            None => Err(self.expected(what)),
        }
    }

    fn skip(&mut self, word: &str) -> bool {
        let found = self.tokens.get(self.i).is_some_and(|t| t.is_word(word));
        self.i += usize::from(found);
        found
    }

    fn found(&self) -> String {
        self.tokens.get(self.i).map_or("the end".to_owned(), |t| self.sql[t.start..t.end].chars().take(40).collect())
    }

    fn expected(&self, what: &str) -> Error {
        let place = self.tokens.get(self.i).or(self.tokens.last()).expect("a statement has tokens").span.start;
        at(Error::invalid(format!("syntax error: expected {what}")).with("found", self.found()), place)
    }
}

/// What SHOW lists.
const LISTS: [&str; 14] = [
    "DATABASES",
    "STABLES",
    "TABLES",
    "VIEWS",
    "TAGS",
    "COLUMNS",
    "QUERIES",
    "CONNECTIONS",
    "VARIABLES",
    "FUNCTIONS",
    "USERS",
    "GRANTS",
    "TOKENS",
    "CREATE",
];

/// The statement to use in place of a SHOW of another system, by the two words behind SHOW.
fn instead_of_show(word: &str, next: &str) -> Option<&'static str> {
    Some(match (word.to_ascii_uppercase().as_str(), next.to_ascii_uppercase().as_str()) {
        ("MEASUREMENTS", _) => "SHOW STABLES",
        ("SERIES", _) => "SHOW TABLES: each series is a child table",
        ("TAG", "VALUES") => "SELECT DISTINCT tag FROM table",
        ("TAG" | "FIELD", _) => "DESCRIBE table: its tags and fields",
        ("RETENTION", _) => "SHOW CREATE DATABASE name: its KEEP is the retention",
        ("ALL" | "SETTINGS" | "PARAMETERS", _) => "SHOW VARIABLES",
        ("PROCESSLIST", _) => "SHOW QUERIES",
        ("SUPERTABLES", _) => "SHOW STABLES",
        ("INDEXES" | "INDEX" | "KEYS", _) => "DESCRIBE table: tags are indexed",
        ("DNODES" | "MNODES" | "VGROUPS" | "CLUSTER" | "QNODES" | "SNODES", _) => {
            "SHOW CONNECTIONS and SHOW VARIABLES of a node: nodes share a root and nothing else"
        }
        ("STREAMS" | "TOPICS" | "SUBSCRIPTIONS" | "CONSUMERS", _) => "SHOW QUERIES: there are no streams and topics",
        _ => return None,
    })
}

impl Show {
    /// The equivalent query.
    ///
    /// # Errors
    /// NotFound for an unknown database or table, Invalid where no database is given or chosen.
    pub(crate) async fn to_sql(
        &self,
        state: &SessionState,
        session: &Session,
        info: &dyn CatalogInfo,
    ) -> Result<String> {
        Ok(match self {
            Show::Databases { like } => {
                format!("SELECT name FROM information_schema.ins_databases{} ORDER BY name", filter("", "name", like))
            }
            Show::Queries => "SELECT * FROM system.queries ORDER BY started, id".to_owned(),
            Show::Connections => "SELECT * FROM system.connections ORDER BY started, id".to_owned(),
            Show::Variables { like } => {
                format!("SELECT name, value FROM system.variables{} ORDER BY name", filter("", "name", like))
            }
            Show::Functions { like } => {
                format!("SELECT * FROM system.functions{} ORDER BY name", filter("", "name", like))
            }
            Show::Users => "SELECT * FROM information_schema.ins_users ORDER BY name".to_owned(),
            Show::Grants(user) => {
                let filter = of_user("user_name", user);
                format!("SELECT * FROM information_schema.ins_user_privileges{filter} ORDER BY user_name, db_name")
            }
            Show::Tokens(user) => {
                let filter = of_user("user_name", user);
                format!("SELECT * FROM information_schema.ins_tokens{filter} ORDER BY user_name, name")
            }
            Show::Names { what, database, like } if of_files(database.as_deref(), session, state).is_some() => {
                let names = of_files(database.as_deref(), session, state).map(|files| files.table_names());
                let rows: Vec<String> = names.iter().flatten().map(|name| format!("({})", literal(name))).collect();
                let column = what.column();
                let none = vec!["(NULL)".to_owned()];
                let filter = filter(&format!("{column} IS NOT NULL"), column, like);
                let rows = if rows.is_empty() { none } else { rows }.join(", ");
                format!("SELECT {column} FROM (VALUES {rows}) AS t({column}){filter} ORDER BY {column}")
            }
            Show::Names { what, database, like } => {
                let database = find_database(database.as_deref(), session, info)?;
                let (table, column) = (what.table(), what.column());
                let of_database = format!("db_name = {}", literal(&database.name));
                let filter = filter(&of_database, column, like);
                format!("SELECT {column} FROM information_schema.{table}{filter} ORDER BY {column}")
            }
            Show::CreateDatabase(name) => {
                let database = find_database(Some(name), session, info)?;
                let create = format!(
                    "CREATE DATABASE {} PRECISION '{}' KEEP {} DURATION {}",
                    quoted(&database.name),
                    database.precision,
                    duration(database.keep_ms),
                    duration(database.partition_ms),
                );
                format!(
                    "SELECT {} AS \"Database\", {} AS \"Create Database\"",
                    literal(&database.name),
                    literal(&create)
                )
            }
            Show::CreateTable { database, table } => {
                let database = find_database(database.as_deref(), session, info)?;
                let found = find_table(&database, table, info).await?;
                let (name, create) = match names::table(info, &database, table) {
                    Some(_) => (found.name.clone(), create_table(&found)),
                    None => (table.clone(), create_subtable(&found, table, &database, info).await?),
                };
                format!("SELECT {} AS \"Table\", {} AS \"Create Table\"", literal(&name), literal(&create))
            }
            Show::Tags { database, table } => {
                let database = find_database(database.as_deref(), session, info)?;
                let name = names::table(info, &database, table).map_or(table.clone(), |t| t.name.clone());
                format!(
                    "SELECT table_name, db_name, stable_name, tag_name, tag_type, tag_value \
                     FROM information_schema.ins_tags WHERE db_name = {} AND (table_name = {1} OR stable_name = {1})",
                    literal(&database.name),
                    literal(&name)
                )
            }
            Show::Describe { database, table } => {
                let row = |name: &str, ty: &str, width: u32, note: &str| {
                    format!("({}, {}, {width}, '{note}')", literal(name), literal(ty))
                };
                let rows: Vec<String> = match file(database.as_deref(), table, state, session, info).await? {
                    Some(file) => {
                        let columns = file.fields().iter().map(|column| (column.name(), type_of(column)));
                        columns.map(|(name, (ty, width))| row(name, &ty, width, "")).collect()
                    }
                    None => {
                        let database = find_database(database.as_deref(), session, info)?;
                        let table = find_table(&database, table, info).await?;
                        let note = |role: Role| if role == Role::Tag { "TAG" } else { "" };
                        let columns = table.columns.iter();
                        columns.map(|c| row(&c.name, c.ty.name(), c.ty.width(), note(c.role))).collect()
                    }
                };
                format!(
                    "SELECT \"field\", \"type\", CAST(\"length\" AS INT) AS \"length\", \"note\" \
                     FROM (VALUES {}) AS d(\"field\", \"type\", \"length\", \"note\")",
                    rows.join(", ")
                )
            }
        })
    }
}

/// The tables that are files, if a database or that of the session names them.
fn of_files(database: Option<&str>, session: &Session, state: &SessionState) -> Option<Arc<dyn SchemaProvider>> {
    let is_named = database.or(session.database.as_deref()) == Some(FILES);
    names::schema(state, FILES).filter(|_| is_named)
}

/// The columns of a table that is a file; `None` if the name is not that of a file.
async fn file(
    database: Option<&str>,
    table: &str,
    state: &SessionState,
    session: &Session,
    info: &dyn CatalogInfo,
) -> Result<Option<SchemaRef>> {
    let parts: Vec<String> = database.into_iter().chain([table]).map(str::to_owned).collect();
    match names::look_up(&parts, names::Series::Ignore, state, session, info).await? {
        Some(Found::File(_, schema)) => Ok(Some(schema)),
        _ => Ok(None),
    }
}

fn find_database(name: Option<&str>, session: &Session, info: &dyn CatalogInfo) -> Result<Arc<Database>> {
    let Some(name) = name.or(session.database.as_deref()) else {
        return Err(Error::invalid("no database is chosen: name it before the period, or USE one")
            .because(Reason::DatabaseNotSpecified));
    };
    info.visible().map_or(Ok(()), |visible| visible.check(name))?;
    names::database(info, name).ok_or_else(|| {
        let error = match info.visible() {
            Some(visible) => visible.missing(name),
            None => Error::not_found("no such database").because(Reason::DatabaseNotFound).with("database", name),
        };
        let databases = info.databases();
        error.suggest(name, databases.iter().map(|database| database.name.as_str()))
    })
}

async fn find_table(database: &Database, name: &str, info: &dyn CatalogInfo) -> Result<Arc<Supertable>> {
    if let Some(table) = names::table(info, database, name) {
        return Ok(table);
    }
    info.table_of_series(database.id, name).await?.ok_or_else(|| {
        let error = Error::not_found("no such table").because(Reason::TableNotFound).with("table", name);
        let tables = info.tables(database.id);
        error.with("database", &database.name).suggest(name, tables.iter().map(|table| table.name.as_str()))
    })
}

fn create_table(table: &Supertable) -> String {
    let list = |role: fn(Role) -> bool| {
        let columns = table.columns.iter().filter(|c| role(c.role));
        columns.map(|c| format!("{} {}", quoted(&c.name), c.ty)).collect::<Vec<_>>().join(", ")
    };
    let mut create = format!("CREATE STABLE {} ({})", quoted(&table.name), list(|r| r != Role::Tag));
    if table.tags().next().is_some() {
        create.push_str(&format!(" TAGS ({})", list(|r| r == Role::Tag)));
    }
    if let Some(keep_ms) = table.keep_ms {
        create.push_str(&format!(" KEEP {}", duration(keep_ms)));
    }
    create
}

/// The statement that creates a child table with its current tags.
async fn create_subtable(
    table: &Supertable,
    name: &str,
    database: &Database,
    info: &dyn CatalogInfo,
) -> Result<String> {
    let (mut tags, mut values) = (Vec::new(), Vec::new());
    for set in info.series(table).await? {
        let Some(row) = set.names().iter().position(|n| n == Some(name)) else { continue };
        for tag in table.tags() {
            tags.push(quoted(&tag.name));
            values.push(match set.tag(tag.id).filter(|of| of.is_valid(row)) {
                None => "NULL".to_owned(),
                Some(of) => tag_literal(of, row, tag.ty, database)?,
            });
        }
    }
    let (table, name) = (quoted(&table.name), quoted(name));
    Ok(format!("CREATE TABLE {name} USING {table} ({}) TAGS ({})", tags.join(", "), values.join(", ")))
}

/// The value of a tag as a literal of the same value.
fn tag_literal(values: &ArrayRef, row: usize, ty: Type, database: &Database) -> Result<String> {
    if let Some(bytes) = values.as_binary_opt::<i32>() {
        let digits: String = bytes.value(row).iter().map(|b| format!("{b:02x}")).collect();
        return Ok(format!("'\\x{digits}'"));
    }
    if ty == Type::Timestamp {
        let ticks = tidelake_format::rows::ticks(values).and_then(|ticks| ticks.get(row));
        let ticks = ticks.ok_or_else(|| Error::internal("a tag is no timestamp").with("database", &database.name))?;
        return Ok(ticks.to_string());
    }
    let text = array_value_to_string(values, row)?;
    Ok(match ty {
        Type::Binary(_) | Type::NChar(_) | Type::Json => {
            format!("'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
        }
        _ => text,
    })
}

/// A name in backticks.
fn quoted(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

/// ` WHERE …` for a user; empty without one.
fn of_user(column: &str, user: &Option<String>) -> String {
    user.as_ref().map_or(String::new(), |user| format!(" WHERE {column} = {}", literal(user)))
}

/// ` WHERE …` for a condition and a LIKE pattern; empty without both.
fn filter(condition: &str, column: &str, like: &Option<String>) -> String {
    let mut parts = Vec::new();
    if !condition.is_empty() {
        parts.push(condition.to_owned());
    }
    if let Some(pattern) = like {
        parts.push(format!("{column} LIKE {}", literal(pattern)));
    }
    if parts.is_empty() { String::new() } else { format!(" WHERE {}", parts.join(" AND ")) }
}

fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
