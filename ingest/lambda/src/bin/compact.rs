//! Folding, merging, retention and garbage collection: as much as one invocation has time for.

use tidelake_ingest_lambda::{
    compact::{CompactFunction, Continue},
    run, settings,
};
use tidelake_lambda::{aws::Aws, memory_bytes, store, telemetry::Telemetry, variables::Variables};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> Result<(), lambda_runtime::Error> {
    run(async {
        let mut variables = Variables::default();
        let telemetry = Telemetry::start(&mut variables)?;
        let continues = variables.boolean("TIDELAKE_CONTINUE", false);
        let opened = store(&mut variables);
        variables.finish()?;
        let Some(store) = opened else { return Ok(()) };
        telemetry.watch(&store);
        let next = if continues { Some(Continue::by(Aws::from_env()?)) } else { None };
        CompactFunction::new(store, settings::compaction(memory_bytes()), next, telemetry).serve().await
    })
}
