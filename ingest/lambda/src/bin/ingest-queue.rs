//! Messages of SQS and Kinesis: one segment per batch, and a reply that names the messages not written.

use tidelake_ingest_lambda::{
    queue::{QueueFunction, QueueSettings},
    run, settings,
};
use tidelake_lambda::{memory_bytes, store, telemetry::Telemetry, variables::Variables};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> Result<(), lambda_runtime::Error> {
    run(async {
        let mut variables = Variables::default();
        let telemetry = Telemetry::start(&mut variables)?;
        let config = settings::writing(&mut variables, memory_bytes());
        let queue = QueueSettings::read(&mut variables);
        let opened = store(&mut variables);
        variables.finish()?;
        let Some(store) = opened else { return Ok(()) };
        telemetry.watch(&store);
        QueueFunction::new(store, config, queue, telemetry).serve().await
    })
}
