//! The SQL front end: DataFusion's SQL plus TDengine's clauses and literals.
//!
//! Turns a text into an analyzed plan; independent of files, snapshots and the wire. The steps: tokens (`lex`) → TDengine's
//! clauses removed, so that the SQL parser accepts the rest (`clauses`) → statement → names resolved, windows and functions
//! rewritten (`resolve`) → logical plan (`planner`). SHOW and DESCRIBE become queries of `information_schema` (`show`).
//!
//! Tables are looked up in the session state as schema = database, table = supertable, both by their exact names, with the
//! columns ts, fields, tags and last `tbname` ([`tidelake_format::schema::TBNAME`]).

mod clauses;
mod depth;
mod distinct_from;
mod from_first;
mod lex;
mod mistakes;
mod names;
mod planner;
mod repeated;
mod resolve;
mod shape;
mod show;
mod visit;

use async_trait::async_trait;
use datafusion::{
    error::DataFusionError,
    execution::SessionState,
    sql::{
        parser::{DFParserBuilder, Statement},
        sqlparser::{
            dialect::GenericDialect,
            parser::ParserError,
            tokenizer::{Token, TokenWithSpan},
        },
    },
};
use tidelake_format::{Error, Result, nearest::nearest};
use tidelake_protocol::sql::{DoubleQuotes, Update, instead_of};

use super::{Frontend, Planned, Query, Read, Shape, parameter_fields};
use crate::{catalog::CatalogInfo, error::of_planning, session::Session};

/// Maximum nesting depth of expressions and queries.
const DEPTH: usize = 64;
/// Below this nesting depth the parser never fails because of the depth.
const DEEP: usize = 50;

/// A parsed query with unresolved names: SELECT, WITH, VALUES, EXPLAIN, SHOW, DESCRIBE.
#[derive(Debug, Clone)]
pub struct Parsed {
    /// Number of parameters (`?`, or the highest `$n`).
    pub parameters: usize,
    body: Body,
}

/// Input of [`plan`].
#[derive(Debug, Clone)]
enum Body {
    Query(Box<Statement>, clauses::Clauses),
    Show(show::Show),
}

/// Maximum number of tokens of a query. A list of 50 000 items has 100 000. Parsing takes a few microseconds per token.
const MOST_TOKENS: usize = 200_000;

/// The SQL front end.
pub(super) struct Sql;

impl Frontend for Sql {
    fn shape(&self, session: &Session, text: &str) -> Option<Shape> {
        shape::shape(text, session.double_quotes)
    }

    fn read(&self, session: &Session, text: &str) -> Result<Read> {
        Ok(match Update::parse(text, session.double_quotes)? {
            Some(update) => Read::Update(update),
            None => Read::Query(Box::new(parse(text, session.double_quotes)?)),
        })
    }

    fn count_tokens(&self, session: &Session, text: &str) -> usize {
        lex::lex(text, session.double_quotes).map_or(0, |lexed| lexed.tokens.len())
    }

    fn locate(&self, session: &Session, text: &str, error: Error) -> Error {
        mistakes::values::locate(error, text, session.double_quotes)
    }

    /// SHOW QUERIES, CONNECTIONS and VARIABLES.
    fn shows_this_node(&self, text: &str) -> bool {
        let mut words = text.split([' ', '\t', '\r', '\n', ';']).filter(|word| !word.is_empty());
        let mut is_next =
            |any: &[&str]| words.next().is_some_and(|word| any.iter().any(|of| word.eq_ignore_ascii_case(of)));
        is_next(&["show"]) && is_next(&["queries", "connections", "variables"])
    }
}

#[async_trait]
impl Query for Parsed {
    async fn plan(&self, state: &SessionState, session: &Session, info: &dyn CatalogInfo) -> Result<Planned> {
        plan(self, state, session, info).await
    }
}

/// Parses one query. [`Update::parse`](tidelake_protocol::sql::Update::parse) parses other statements.
///
/// # Errors
/// Invalid for a text that is empty, has several statements or a syntax error, with the position (line and column), the expected
/// and the found syntax. Unsupported for syntax that is recognised but not supported.
pub fn parse(sql: &str, quotes: DoubleQuotes) -> Result<Parsed> {
    let lexed = lex::lex(sql, quotes)?;
    let body = match lex::first_word(sql).as_str() {
        "SHOW" | "DESCRIBE" | "DESC" => Body::Show(show::parse(&lexed.tokens, sql)?),
        "SELECT" | "WITH" | "VALUES" | "EXPLAIN" | "TABLE" | "FROM" => {
            let (statement, clauses) = query(sql, &lexed.tokens)?;
            Body::Query(Box::new(statement), clauses)
        }
        _ => {
            return Err(lex::at(unknown_statement(sql, &lexed.tokens), lexed.tokens[0].span.start));
        }
    };
    Ok(Parsed { parameters: lexed.parameters, body })
}

/// Parses a query, or an EXPLAIN of one.
fn query(sql: &str, tokens: &[lex::Tok]) -> Result<(Statement, clauses::Clauses)> {
    if tokens.len() > MOST_TOKENS {
        let error =
            Error::invalid("the statement has too many tokens; put its values into a table and join that table");
        return Err(error.with("limit", MOST_TOKENS).with("found", tokens.len()));
    }
    depth::check(tokens)?;
    let (rewritten, clauses) = clauses::rewrite(sql, tokens)?;
    let dialect = GenericDialect {};
    let mut parser = DFParserBuilder::new(rewritten)
        .with_dialect(&dialect)
        .with_recursion_limit(DEPTH)
        .build()
        .map_err(|e| syntax_error(e, tokens))?;
    let mut statement = parser.parse_statement().map_err(|e| syntax_error(e, tokens))?;
    from_first::select_all(&mut statement);
    distinct_from::correct(&mut statement);
    depth::balance(&mut statement);
    let rest = parser.parser.peek_token();
    if rest.token != Token::EOF {
        if depth::nesting(tokens) >= DEEP {
            return Err(too_deep());
        }
        return Err(unexpected_rest(sql, tokens, &rest));
    }
    Ok((statement, clauses))
}

/// The words that a statement begins with.
const STATEMENTS: [&str; 16] = [
    "SELECT", "WITH", "VALUES", "EXPLAIN", "SHOW", "DESCRIBE", "USE", "INSERT", "CREATE", "ALTER", "DROP", "DELETE",
    "GRANT", "REVOKE", "KILL", "ROTATE",
];

/// The words that a clause of a SELECT begins with, and the operators that are words.
const CLAUSES: [&str; 24] = [
    "FROM",
    "WHERE",
    "GROUP",
    "HAVING",
    "ORDER",
    "LIMIT",
    "OFFSET",
    "PARTITION",
    "INTERVAL",
    "SLIDING",
    "FILL",
    "QUALIFY",
    "JOIN",
    "LEFT",
    "INNER",
    "CROSS",
    "UNION",
    "AND",
    "OR",
    "LIKE",
    "BETWEEN",
    "EXCEPT",
    "INTERSECT",
    "WINDOW",
];

/// The error of a text that begins like no statement.
fn unknown_statement(sql: &str, tokens: &[lex::Tok]) -> Error {
    let found = &sql[tokens[0].start..tokens[0].end];
    let error = Error::invalid("syntax error: this is not the beginning of a statement");
    let error = error.with("found", found.chars().take(40).collect::<String>());
    let words = sql[tokens[0].start..].split_whitespace().take(3).collect::<Vec<_>>().join(" ");
    error.suggest_or(instead_of(&words), found, STATEMENTS).with("expected one of", STATEMENTS.join(", "))
}

/// The error of a token that cannot follow a complete query. A misspelt keyword has often become an alias: then the token before
/// it is the mistake.
fn unexpected_rest(sql: &str, tokens: &[lex::Tok], rest: &TokenWithSpan) -> Error {
    let i = tokens.iter().position(|t| t.span.start == rest.span.start);
    let text = |i: usize| tokens.get(i).map_or("", |t| &sql[t.start..t.end]);
    let misspelt = i.and_then(|i| {
        let near = |i: usize| Some((i, nearest(text(i), CLAUSES).filter(|near| !near.eq_ignore_ascii_case(text(i)))?));
        near(i).or_else(|| i.checked_sub(1).and_then(near))
    });
    let expected = "expected a comma, an operator, a clause or the end of the statement";
    match misspelt {
        Some((i, near)) => {
            let error = Error::invalid(format!("syntax error: {expected}")).with("found", text(i));
            lex::at(error.with("did you mean", near), tokens[i].span.start)
        }
        None => {
            lex::at(Error::invalid(format!("syntax error: {expected}")).with("found", &rest.token), rest.span.start)
        }
    }
}

fn too_deep() -> Error {
    Error::invalid("the statement is nested too deeply").with("limit", DEPTH)
}

/// Converts the parser's error, with its position as context.
fn syntax_error(error: DataFusionError, tokens: &[lex::Tok]) -> Error {
    // At its depth limit the parser tries an alternative and reports what that lacks.
    if depth::nesting(tokens) >= DEEP {
        return too_deep();
    }
    let message = match error {
        DataFusionError::SQL(error, _) => match *error {
            ParserError::ParserError(message) | ParserError::TokenizerError(message) => message,
            ParserError::RecursionLimitExceeded => return too_deep(),
        },
        other => return of_planning(other),
    };
    let (text, place) = match message.rsplit_once(" at Line: ") {
        Some((text, place)) => (text.to_owned(), Some(place.to_owned())),
        None => (message, None),
    };
    let error = of_parser(text.trim_start_matches("sql parser error: "));
    let place = place.and_then(|p| {
        let (line, column) = p.split_once(", Column: ")?;
        Some((line.trim().parse::<u64>().ok()?, column.trim().parse::<u64>().ok()?))
    });
    match place.filter(|(line, _)| *line > 0) {
        Some((line, column)) => error.with("line", line).with("column", column),
        None => match tokens.last() {
            Some(last) => lex::at(error, last.span.end),
            None => error,
        },
    }
}

/// The parser's text: what was expected, and what was found as context.
fn of_parser(text: &str) -> Error {
    let end = |token: &str| if token == "EOF" { "the end of the statement".to_owned() } else { token.to_owned() };
    if let Some((expected, found)) =
        text.strip_prefix("Expected: ").and_then(|expectation| expectation.rsplit_once(", found: "))
    {
        return Error::invalid(format!("syntax error: expected {expected}")).with("found", end(found));
    }
    let word = text.strip_prefix("No infix parser for token ").map(|token| match token.split_once("value: \"") {
        Some((_, rest)) => rest.split('"').next().unwrap_or_default(),
        None => token,
    });
    match word {
        Some(word) => Error::invalid("syntax error: expected an operator").with("found", end(word)),
        None => Error::invalid(format!("syntax error: {text}")),
    }
}

/// Plans a query. Resolves names in `info` and tables in `state`.
///
/// `state` must have the functions of [`crate::functions::register`] and, in its default catalog, the schema
/// `information_schema` of [`information_schema`](crate::catalog::information_schema), with DataFusion's own disabled
/// (`SessionConfig::with_information_schema(false)`).
///
/// # Errors
/// NotFound for a database or table, Invalid for other unknown names and for type or clause errors, Unsupported for
/// syntax that is recognised but not supported.
pub async fn plan(parsed: &Parsed, state: &SessionState, session: &Session, info: &dyn CatalogInfo) -> Result<Planned> {
    let (mut statement, clauses) = match &parsed.body {
        Body::Query(statement, clauses) => (statement.as_ref().clone(), clauses.clone()),
        Body::Show(show) => {
            let sql = show.to_sql(state, session, info).await?;
            let lexed = lex::lex(&sql, DoubleQuotes::Identifier)?;
            query(&sql, &lexed.tokens)?
        }
    };
    let names = names::Names::of(&statement, state, session, info).await?;
    let nodes = resolve::resolve(&mut statement, &names, session, &clauses, state)?;
    let plan = planner::plan(statement, nodes, state, session.time_zone).await.map_err(|error| match &parsed.body {
        Body::Query(statement, _) => mistakes::explain(error, statement, state),
        Body::Show(_) => error,
    })?;
    let parameters = parameter_fields(&plan, parsed.parameters)?;
    let names = plan.schema().fields().iter().map(|f| final_name(f.name()).to_owned()).collect();
    Ok(Planned { plan, names, parameters })
}

/// A column's name without the suffix that makes it unique.
fn final_name(name: &str) -> &str {
    name.split_once(lex::UNNAMED).map_or(name, |(name, _)| name)
}

#[cfg(test)]
mod tests;
