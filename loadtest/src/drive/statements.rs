//! Runs the statements of a file in order, each once, as the papers' tools do.

use std::io::BufRead;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use super::{
    latency::{Latencies, Percentiles},
    query::Asker,
};
use crate::workload::answer::{Answer, Value};

/// Maximum length of a statement, in bytes: the server's limit of a request body.
const MAX_STATEMENT: usize = 64 << 20;

/// Result of the statements of one kind.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct KindSample {
    /// Number of statements.
    pub statements: u64,
    /// Rows of the answers; for writes, the affected rows that the server reports.
    pub rows: u64,
    /// Total time from request to last byte of the answer, in seconds.
    pub seconds: f64,
    /// Time per statement.
    pub latency: Percentiles,
}

/// Result of a file of statements.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct StatementsSample {
    /// INSERT.
    pub writes: KindSample,
    /// All others.
    pub others: KindSample,
}

/// Runs the statements of a text, one per line, in order and each once; skips empty lines and lines that begin with `#` or
/// `--`. Calls `tell` for each statement that is not an INSERT, with its line, answer, milliseconds and text.
///
/// # Errors
/// The first statement that fails, with its line; an INSERT whose answer is not a number of rows.
pub async fn run(
    asker: &mut Asker,
    mut text: impl BufRead,
    tell: &mut dyn FnMut(u64, &Answer, f64, &str),
) -> Result<StatementsSample> {
    let (mut sample, mut latencies) = (StatementsSample::default(), [Latencies::default(), Latencies::default()]);
    let (mut line, mut number) = (String::new(), 0);
    loop {
        line.clear();
        number += 1;
        let limit = MAX_STATEMENT as u64 + 1;
        if std::io::Read::take(&mut text, limit).read_line(&mut line).with_context(|| format!("line {number}"))? == 0 {
            break;
        }
        if line.len() > MAX_STATEMENT {
            bail!("line {number}: expected a statement of at most {MAX_STATEMENT} bytes");
        }
        let sql = line.trim();
        if sql.is_empty() || sql.starts_with('#') || sql.starts_with("--") {
            continue;
        }
        let (raw, took) = asker.ask(sql).await.with_context(|| format!("line {number}"))?;
        let answer = raw.into_answer().with_context(|| format!("line {number}"))?;
        let is_write = sql.get(..6).is_some_and(|word| word.eq_ignore_ascii_case("insert"));
        let (kind, rows) = if is_write {
            (&mut sample.writes, affected(&answer).with_context(|| format!("line {number}"))?)
        } else {
            tell(number, &answer, took.as_secs_f64() * 1e3, sql);
            (&mut sample.others, answer.rows() as u64)
        };
        kind.statements += 1;
        kind.rows += rows;
        kind.seconds += took.as_secs_f64();
        latencies[usize::from(!is_write)].record(took);
    }
    let [writes, others] = latencies.map(|latencies| latencies.percentiles());
    (sample.writes.latency, sample.others.latency) = (writes, others);
    Ok(sample)
}

/// Returns the number of rows that a statement wrote.
fn affected(answer: &Answer) -> Result<u64> {
    match answer.column("affected_rows")?.value(0) {
        Value::Int(rows) => u64::try_from(rows).with_context(|| format!("a number of {rows} rows")),
        other => bail!("expected a number of affected rows, found {other:?}"),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::super::fake::{reply, serve};
    use super::super::http::HttpOptions;
    use super::super::query::{Addresses, Door};
    use super::*;

    const ONE: &str = "{\"code\":0,\"column_meta\":[[\"n\",\"BIGINT\",8]],\"data\":[[7],[8]],\"rows\":2}";
    const AFFECTED: &str = "{\"code\":0,\"column_meta\":[[\"affected_rows\",\"INT\",4]],\"data\":[[3]],\"rows\":1}";

    async fn asker(url: &str) -> Asker {
        let addresses = Addresses { url: url.to_owned(), flight: None };
        Asker::connect(Door::Rest, &addresses, &HttpOptions::default()).await.unwrap()
    }

    #[tokio::test]
    async fn every_statement_is_sent_once_in_order_and_written_rows_are_counted() {
        let fake =
            serve(|_, request| reply(200, "", if request.body.starts_with(b"INSERT") { AFFECTED } else { ONE })).await;
        let text = "# a comment\nINSERT INTO d values (1,2);\n\n  select 1;\n-- another\nINSERT INTO d values (2,3);";
        let mut told = Vec::new();
        let mut tell = |line, answer: &Answer, _, sql: &str| told.push((line, answer.rows(), sql.to_owned()));
        let sample = run(&mut asker(&fake.url).await, text.as_bytes(), &mut tell).await.unwrap();
        assert_eq!((sample.writes.statements, sample.writes.rows, sample.writes.latency.count), (2, 6, 2));
        assert_eq!((sample.others.statements, sample.others.rows), (1, 2));
        assert_eq!(told, [(4, 2, "select 1;".to_owned())]);
        let sent: Vec<Vec<u8>> = fake.requests.lock().unwrap().iter().map(|request| request.body.clone()).collect();
        assert_eq!(
            sent,
            ["INSERT INTO d values (1,2);", "select 1;", "INSERT INTO d values (2,3);"]
                .map(|sql| sql.as_bytes().to_vec())
        );
    }

    #[tokio::test]
    async fn a_failure_names_its_line() {
        let fake = serve(|_, _| reply(200, "", ONE)).await;
        let failed = run(&mut asker(&fake.url).await, "select 1\ninsert into d".as_bytes(), &mut |_, _, _, _| ()).await;
        let error = format!("{:#}", failed.unwrap_err());
        assert!(error.contains("line 2") && error.contains("affected_rows"), "{error}");
        let fake = serve(|_, _| reply(200, "", "{\"code\":9728,\"desc\":\"syntax error\"}")).await;
        let failed = run(&mut asker(&fake.url).await, "\nselct".as_bytes(), &mut |_, _, _, _| ()).await;
        let error = format!("{:#}", failed.unwrap_err());
        assert!(error.contains("line 2") && error.contains("syntax error"), "{error}");
    }
}
