//! Creates and drops databases and tables over `/rest/sql`.

use super::http::{Client, HttpOptions};
use super::send::affected_rows;
use crate::workload::{CREATE_SUPERTABLE, DATABASE};
use anyhow::{Context, Result, bail};

/// Treatment of an existing database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Existing {
    /// Keep the database and add rows.
    Keep,
    /// Drop the database, as the papers did between runs.
    Drop,
}

/// Creates database `db` (precision ms) and the papers' supertable; with `Existing::Drop`, drops the old database first.
///
/// # Errors
/// A failed request or an error reply.
pub async fn create_database(url: &str, options: &HttpOptions, existing: Existing) -> Result<()> {
    let mut client = Client::new(url, options.clone())?;
    if existing == Existing::Drop {
        define(&mut client, None, &format!("drop database if exists {DATABASE};")).await?;
    }
    define(&mut client, None, &format!("create database if not exists {DATABASE} precision 'ms' keep 36500d;")).await?;
    let create = CREATE_SUPERTABLE.replacen("create table ", "create table if not exists ", 1);
    let sql = if existing == Existing::Drop { CREATE_SUPERTABLE } else { &create };
    define(&mut client, Some(DATABASE), sql).await
}

/// Creates a database (precision ms), which must not exist, and a table in it.
///
/// # Errors
/// A failed request or an error reply.
pub(super) async fn create_table(url: &str, options: &HttpOptions, database: &str, create: &str) -> Result<()> {
    let mut client = Client::new(url, options.clone())?;
    define(&mut client, None, &format!("create database {database} precision 'ms' keep 36500d;")).await?;
    define(&mut client, Some(database), create).await
}

/// Runs a DDL statement; `database`, if given, is named in the path.
async fn define(client: &mut Client, database: Option<&str>, sql: &str) -> Result<()> {
    let target = database.map_or("/rest/sql".to_owned(), |database| format!("/rest/sql/{database}"));
    let content_type = "text/plain; charset=utf-8";
    // Statements with IF [NOT] EXISTS are idempotent and may be retried.
    let reply = match sql.contains(" exists ") {
        true => client.send_again("POST", &target, content_type, sql.as_bytes()).await?.0,
        false => client.send("POST", &target, content_type, sql.as_bytes()).await?,
    };
    if !reply.is_success() {
        bail!("{sql}: {}", reply.excerpt());
    }
    affected_rows(&reply.body).with_context(|| sql.to_owned()).map(|_| ())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::super::fake::{Fake, reply, serve};
    use super::*;

    fn sent(fake: &Fake) -> Vec<(String, String)> {
        let requests = fake.requests.lock().unwrap();
        requests.iter().map(|r| (r.line.clone(), String::from_utf8(r.body.clone()).unwrap())).collect()
    }

    #[tokio::test]
    async fn the_database_and_the_papers_supertable_are_created_over_rest() {
        let fake = serve(|_, _| reply(200, "", "{\"code\":0,\"data\":[[0]]}")).await;
        create_database(&fake.url, &HttpOptions::default(), Existing::Drop).await.unwrap();
        let expected = [
            ("POST /rest/sql", "drop database if exists db;"),
            ("POST /rest/sql", "create database if not exists db precision 'ms' keep 36500d;"),
            ("POST /rest/sql/db", CREATE_SUPERTABLE),
        ];
        assert_eq!(sent(&fake), expected.map(|(line, sql)| (line.to_owned(), sql.to_owned())));
    }

    #[tokio::test]
    async fn another_table_is_created_in_a_new_database_of_its_own() {
        let fake = serve(|_, _| reply(200, "", "{\"code\":0,\"data\":[[0]]}")).await;
        create_table(&fake.url, &HttpOptions::default(), "power", "create table t(ts timestamp);").await.unwrap();
        let expected = [
            ("POST /rest/sql", "create database power precision 'ms' keep 36500d;"),
            ("POST /rest/sql/power", "create table t(ts timestamp);"),
        ];
        assert_eq!(sent(&fake), expected.map(|(line, sql)| (line.to_owned(), sql.to_owned())));
        let fake = serve(|_, _| reply(200, "", "{\"code\":897,\"desc\":\"database exists\"}")).await;
        let error = create_table(&fake.url, &HttpOptions::default(), "power", "").await.unwrap_err();
        assert!(format!("{error:#}").contains("create database power"), "{error:#}");
    }
}
