//! `tidelake give-up`: does without log segments that are missing or cannot be read, by a person's decision.

use anyhow::Context as _;
use clap::Args;
use tidelake_format::{
    access::{Deed, Principal},
    ids::Position,
    layout,
    log::give_up,
};

use tidelake_node::serve;

use crate::arguments::StoreArgs;

/// Which root, and which segments.
#[derive(Debug, Args)]
pub(crate) struct GiveUpArgs {
    /// The keys of the segments, as queries and `tidelake check` name them: log/WRITER/NUMBER
    #[arg(value_name = "KEY", required = true, value_parser = position)]
    positions: Vec<Position>,
    #[command(flatten)]
    store: StoreArgs,
}

fn position(key: &str) -> Result<Position, String> {
    layout::parse_log(key).ok_or_else(|| "expected the key of a log segment: log/WRITER/NUMBER".to_owned())
}

/// Gives up one segment after the other.
///
/// # Errors
/// That of the first segment that cannot be given up; those before it are.
#[expect(clippy::print_stdout, reason = "the command's result")]
pub(crate) async fn run(args: GiveUpArgs) -> anyhow::Result<()> {
    let settings = args.store.settings()?;
    serve::logging::start(&settings)?;
    let root = serve::open_existing_root(&settings).await?;
    for position in args.positions {
        let key = layout::log_key(position);
        let done = give_up(&root, position).await;
        Deed::new("GIVE UP", &key).record(&Principal::PROCESS, &done);
        println!("{}", done.with_context(|| format!("cannot give up {key}"))?);
    }
    root.store().close().await;
    Ok(())
}
