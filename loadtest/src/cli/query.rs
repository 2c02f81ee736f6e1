//! `query`: statements through one or more query interfaces.

use super::args::{Data, Server, list};
use anyhow::{Context, Result, bail};
use clap::Args;
use std::path::PathBuf;
use tidelake_loadtest::drive::query::{Asker, Door, QuerySample, statements};
use tidelake_loadtest::workload::oracle::Oracle;
use tidelake_loadtest::workload::verify::Verified;
use tidelake_loadtest::workload::verify::verify;
use tidelake_loadtest::workload::{Question, all_queries};

/// Queries to run, number of runs, and interfaces.
#[derive(Debug, Clone, Args)]
pub(crate) struct Questions {
    /// Runs of each statement
    #[arg(long, default_value_t = 5)]
    pub(crate) repeat: usize,
    /// Percentages of q2-q4
    #[arg(long, default_value = "10,20,30,40,50,60,70,80,90,100")]
    pub(crate) percent: String,
    /// Groups of q1
    #[arg(long, default_value = "0,10,20,30,40,50,60,70,80,90")]
    pub(crate) groups: String,
    /// Query interfaces
    #[arg(long, value_enum, value_delimiter = ',', default_value = "flight,http-arrow")]
    pub(crate) doors: Vec<Door>,
    /// File of statements to run instead, one per line; # begins a comment
    #[arg(long)]
    pub(crate) statements: Option<PathBuf>,
}

/// Arguments of `query`.
#[derive(Debug, Args)]
pub(crate) struct Query {
    #[command(flatten)]
    server: Server,
    #[command(flatten)]
    questions: Questions,
    /// Compare each answer with one computed from this data set's rows
    #[arg(long)]
    verify: bool,
    #[command(flatten)]
    data: Data,
    /// Print the samples as JSON
    #[arg(long)]
    json: bool,
}

impl Query {
    #[expect(clippy::print_stdout, reason = "a command prints its result")]
    pub(crate) async fn run(self) -> Result<()> {
        let oracle = self.verify.then(|| Oracle::new(self.data.devices()));
        let (samples, verified) = ask(&self.server, &self.questions, oracle.as_ref())?;
        if self.json {
            println!("{}", serde_json::to_string_pretty(&samples)?);
        } else {
            for sample in &samples {
                println!(
                    "{:12} {:10} {:>10.3} ms {:>10} rows  {}",
                    sample.name,
                    sample.door.name(),
                    sample.median_ms(),
                    sample.rows,
                    sample.sql
                );
            }
        }
        if verified.wrong.is_empty() {
            return Ok(());
        }
        bail!("{} of the answers are wrong:\n{}", verified.wrong.len(), verified.wrong.join("\n"))
    }
}

/// A named statement; with its query if it is one of the papers'.
struct Statement {
    name: String,
    sql: String,
    question: Option<Question>,
}

impl Questions {
    fn all(&self) -> Result<Vec<Statement>> {
        if let Some(path) = &self.statements {
            let text = std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
            let all = statements(&text);
            let writes = |sql: &&String| sql.get(..6).is_some_and(|word| word.eq_ignore_ascii_case("insert"));
            if let Some(sql) = all.iter().find(writes) {
                bail!(
                    "{}: expected questions, which are asked again and again, found {sql:?}; `statements` runs each once",
                    path.display()
                );
            }
            let named = all.into_iter().enumerate();
            return Ok(named
                .map(|(at, sql)| Statement { name: format!("statement {}", at + 1), sql, question: None })
                .collect());
        }
        let questions = all_queries(&list(&self.groups)?, &list(&self.percent)?);
        let named = questions.into_iter();
        Ok(named.map(|one| Statement { name: one.name(), sql: one.sql(), question: Some(one) }).collect())
    }
}

/// Runs all statements through every interface. With an oracle, verifies the answers to the papers' queries.
///
/// Queries run one at a time on a single-threaded runtime, to avoid handing each answer from thread to thread. Must be called on
/// a multi-threaded runtime.
///
/// # Errors
/// A statement that fails. Wrong answers are counted, not returned as errors.
pub(crate) fn ask(
    server: &Server,
    questions: &Questions,
    oracle: Option<&Oracle>,
) -> Result<(Vec<QuerySample>, Verified)> {
    tokio::task::block_in_place(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("start a client")?;
        runtime.block_on(ask_all(server, questions, oracle))
    })
}

async fn ask_all(
    server: &Server,
    questions: &Questions,
    oracle: Option<&Oracle>,
) -> Result<(Vec<QuerySample>, Verified)> {
    let (mut samples, mut verified) = (Vec::new(), Verified::default());
    let all = questions.all()?;
    for &door in &questions.doors {
        let mut asker = Asker::connect(door, &server.addresses(), &server.options()).await?;
        for statement in &all {
            let (sample, answer) = asker.sample(&statement.name, &statement.sql, questions.repeat).await?;
            samples.push(sample);
            if let (Some(oracle), Some(question)) = (oracle, &statement.question) {
                match verify(oracle, question, &answer) {
                    Ok(()) => verified.right += 1,
                    Err(error) => verified.wrong.push(format!("{}: {error:#}", door.name())),
                }
            }
        }
    }
    Ok((samples, verified))
}
