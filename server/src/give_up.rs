//! `tidelake give-up`: gives up log segments that are missing or unreadable, on an operator's decision.

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

/// Options of `give-up`.
#[derive(Debug, Args)]
pub(crate) struct GiveUpArgs {
    /// Keys of the segments, as reported by queries and `tidelake check`: log/WRITER/NUMBER
    #[arg(value_name = "KEY", required = true, value_parser = position)]
    positions: Vec<Position>,
    #[command(flatten)]
    store: StoreArgs,
}

fn position(key: &str) -> Result<Position, String> {
    layout::parse_log(key).ok_or_else(|| "invalid key of a log segment: expected log/WRITER/NUMBER".to_owned())
}

/// Gives up the segments in order.
///
/// # Errors
/// That of the first segment that cannot be given up; the segments before it have been given up.
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
