//! Writes over HTTP: every protocol of the server, one segment per request.

use tidelake_format::{auth::Authenticator, meta::Root};
use tidelake_ingest::{http, write::Ingest};
use tidelake_ingest_lambda::{run, settings};
use tidelake_lambda::{
    http::{Admits, HttpFunction},
    memory_bytes, store,
    telemetry::Telemetry,
    variables::Variables,
};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> Result<(), lambda_runtime::Error> {
    run(async {
        let mut variables = Variables::default();
        let telemetry = Telemetry::start(&mut variables)?;
        let config = settings::writing(&mut variables, memory_bytes());
        let asked = Admits::of(&mut variables);
        let opened = store(&mut variables);
        variables.finish()?;
        let admits = asked.open()?;
        let Some(store) = opened else { return Ok(()) };
        telemetry.watch(&store);
        let open = move || -> futures::future::BoxFuture<'static, _> {
            let (store, config) = (store.clone(), config.clone());
            Box::pin(async move {
                let ingest = Ingest::open(Root::open(store).await?, config).await?;
                let authenticator = Authenticator::new(ingest.root().clone())?;
                Ok((http::routes(ingest.clone()).merge(http::statements(ingest)), authenticator))
            })
        };
        HttpFunction::new(Box::new(open), admits, telemetry).serve().await
    })
}
