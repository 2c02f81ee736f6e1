//! `tidelake access`: changes users, rights and tokens of a root without a server; needs write access to the store.

use anyhow::Context as _;
use clap::Args;
use tidelake_ingest::write::Ingest;
use tidelake_protocol::sql::{DoubleQuotes, Statement, Update};

use tidelake_node::serve;

use crate::arguments::StoreArgs;

/// Options of `access`.
#[derive(Debug, Args)]
pub(crate) struct AccessArgs {
    /// CREATE USER, ALTER USER, DROP USER, GRANT, REVOKE, CREATE TOKEN, DROP TOKEN or ROTATE SESSIONS; `-` reads statements from
    /// standard input, one per line
    #[arg(value_name = "STATEMENT", required = true)]
    statements: Vec<Hidden>,
    #[command(flatten)]
    store: StoreArgs,
}

/// A statement that may hold a password.
#[derive(Clone)]
struct Hidden(String);

impl std::fmt::Debug for Hidden {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("…")
    }
}

impl std::str::FromStr for Hidden {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self(text.to_owned()))
    }
}

/// Executes the statements in order and prints the tokens they create.
///
/// # Errors
/// That of the first statement that fails or does not concern access; the statements before it took effect.
#[expect(clippy::print_stdout, reason = "the command's result")]
pub(crate) async fn run(args: AccessArgs) -> anyhow::Result<()> {
    let settings = args.store.settings()?;
    serve::logging::start(&settings)?;
    let mut statements = Vec::new();
    for Hidden(statement) in args.statements {
        match statement.as_str() {
            "-" => statements.extend(std::io::stdin().lines().collect::<Result<Vec<_>, _>>()?),
            _ => statements.push(statement),
        }
    }
    statements.retain(|statement| !statement.trim().is_empty());
    let updates = statements.iter().map(|statement| access_statement(statement)).collect::<anyhow::Result<Vec<_>>>()?;
    let mut config = serve::ingest_config(&settings);
    config.compact.background = false;
    let ingest = Ingest::open(serve::open_or_create_root(&settings).await?, config).await?;
    for update in &updates {
        match ingest.execute_update(None, update, None).await?.secret {
            Some(token) => println!("{}", token.expose()),
            None => println!("done"),
        }
    }
    ingest.shutdown().await;
    ingest.root().store().close().await;
    Ok(())
}

/// Parses a statement about users, rights or tokens.
fn access_statement(text: &str) -> anyhow::Result<Update> {
    let update = Update::parse(text, DoubleQuotes::Identifier)?;
    update
        .filter(|update| matches!(update.statement(), Statement::Access(_)))
        .context("expected a statement about users, rights or tokens; send other statements to a server")
}
