//! Writes over HTTP: every protocol of the server, one segment a request.

use tidelake_format::meta::Root;
use tidelake_ingest::{http, write::Ingest};
use tidelake_ingest_lambda::{run, settings};
use tidelake_lambda::{
    aws::Aws, http::HttpFunction, memory_bytes, store, telemetry::Telemetry, tokens::Tokens, variables::Variables,
};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> Result<(), lambda_runtime::Error> {
    run(async {
        let mut variables = Variables::default();
        let telemetry = Telemetry::start(&mut variables)?;
        let config = settings::writing(&mut variables, memory_bytes());
        let secret = variables.text("TIDELAKE_TOKEN_SECRET");
        let opened = store(&mut variables);
        variables.finish()?;
        let tokens = match secret {
            Some(secret) => Some(Tokens::new(secret, Aws::from_env()?)),
            None => None,
        };
        let Some(store) = opened else { return Ok(()) };
        telemetry.watch(&store);
        let open = move || -> futures::future::BoxFuture<'static, _> {
            let (store, config) = (store.clone(), config.clone());
            Box::pin(async move {
                let ingest = Ingest::open(Root::open(store).await?, config).await?;
                Ok(http::router(ingest.clone()).merge(http::statements(ingest)))
            })
        };
        HttpFunction::new(Box::new(open), tokens, telemetry).serve().await
    })
}
