#![allow(clippy::unwrap_used)]

mod access;
mod ddl;
mod quotes;
mod tokens;

use tidelake_format::{
    Error, Kind,
    schema::Role,
    types::{Precision, Type},
};

use super::*;

fn parse(sql: &str) -> Result<Statement, Error> {
    super::parse(sql, DoubleQuotes::Text).map(|statement| statement.expect("no query"))
}
