//! The query function: SQL over HTTP, `/api/v1/sql` and `/rest/sql`. Read-only.
//!
//! Data read from the root stays in memory between invocations. Responses are streamed if the function URL streams
//! (`TIDELAKE_RESPONSE=stream`); otherwise a large response is stored as an object, and the client is redirected to it.

use std::sync::Arc;

use futures::future::BoxFuture;
use tidelake_format::{
    auth::Authenticator,
    snapshot::{SnapshotOptions, SnapshotReader},
};
use tidelake_lambda::{
    certificates,
    http::{Admits, HttpFunction},
    memory_bytes,
    results::Results,
    settings, store,
    telemetry::Telemetry,
    variables::Variables,
};
use tidelake_query::{
    engine::{Engine, EngineConfig},
    http,
    writer::ReadOnlyWriter,
};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// How responses are sent.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sends {
    Whole,
    AsMade,
}

fn main() -> Result<(), lambda_runtime::Error> {
    certificates::from_one_file();
    #[cfg(target_os = "linux")]
    std::thread::spawn(read_ahead);
    tokio::runtime::Builder::new_multi_thread().max_blocking_threads(8).enable_all().build()?.block_on(serve())
}

/// Makes the kernel read the whole executable ahead: otherwise each page is read from disk when it is first executed.
#[cfg(target_os = "linux")]
fn read_ahead() {
    if let Ok(program) = std::fs::File::open("/proc/self/exe") {
        let _ = rustix::fs::fadvise(&program, 0, None, rustix::fs::Advice::WillNeed);
    }
}

async fn serve() -> Result<(), lambda_runtime::Error> {
    let mut variables = Variables::default();
    let telemetry = Telemetry::start(&mut variables)?;
    let memory = memory_bytes();
    let engine = EngineConfig {
        memory_bytes: variables.get_or(&settings::QUERY_MEMORY, &(memory / 2).to_string()),
        page_bytes: variables.get_or(&settings::PAGE_CACHE, &(memory / 16).min(1 << 30).to_string()),
        partitions: std::thread::available_parallelism().map_or(1, usize::from),
        timeout: variables.get_or(&settings::QUERY_TIMEOUT, "55s"),
        // The platform sends an environment one request at a time.
        concurrency: 2,
        waiting: 8,
        // Sorts spill as on a server: DataFusion's own sorts fail if little memory is left to merge spilled runs.
        sort_threads: Some(tokio::runtime::Handle::current()),
        ..EngineConfig::default()
    };
    let options = SnapshotOptions {
        max_staleness: variables.get(&settings::MAX_STALENESS),
        tail_cache_bytes: variables.get_or(&settings::TAIL_CACHE, &(memory / 8).min(256 << 20).to_string()),
        tail_bytes: memory / 3,
        allow_quarantined: variables.get(&settings::ALLOW_QUARANTINED),
    };
    let sends = variables.parsed("TIDELAKE_RESPONSE", "buffered", |text| match text {
        "buffered" => Ok(Sends::Whole),
        "stream" => Ok(Sends::AsMade),
        _ => Err("buffered or stream"),
    });
    let asked = Admits::of(&mut variables);
    let opened = store(&mut variables);
    variables.finish()?;
    let admits = asked.open()?;
    let Some(store) = opened else { return Ok(()) };
    telemetry.watch(&store);
    let results = Results::new(store.clone());
    let open = move || -> BoxFuture<'static, _> {
        let (store, options, engine) = (store.clone(), options.clone(), engine.clone());
        Box::pin(async move {
            let snapshots = Arc::new(SnapshotReader::open(store, options).await?);
            let root = snapshots.root().clone();
            let engine = Engine::new(root.clone(), snapshots, Arc::new(ReadOnlyWriter), engine);
            Ok((http::routes(engine), Authenticator::read_only(root)?))
        })
    };
    let function = HttpFunction::new(Box::new(open), admits, telemetry);
    match sends {
        Sends::Whole => function.with_results(results).serve().await,
        Sends::AsMade => function.serve_streaming().await,
    }
}
