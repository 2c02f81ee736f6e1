//! Queries without a server: an engine in this process that only reads the root.

use std::{sync::Arc, time::Duration};

use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    service::TowerToHyperService,
};
use tidelake_format::{auth::Gate, meta::Root, snapshot::SnapshotReader, store::Store};
use tidelake_protocol::settings as declared;
pub use tidelake_query::files::{FILES, Files, Locate, Located};
use tidelake_query::{
    engine::{Engine, EngineConfig},
    flight,
    writer::ReadOnlyWriter,
};
use tokio::{io::DuplexStream, runtime::Handle};
use tonic::transport::{Channel, Endpoint, Uri};

use crate::{
    serve::{open_existing_root, snapshot_options},
    settings::{Layer, Settings},
};

/// Bytes between client and engine.
const PIPE_BYTES: usize = 1 << 20;
/// Limit of a query's time.
const TIMEOUT: Duration = Duration::from_secs(24 * 3_600);

/// Opens the root at `store`, or an empty one, and returns a channel to an engine over it, which also reads files. No one else can
/// connect to the engine.
///
/// # Errors
/// There is no root, or it cannot be read.
pub async fn open(store: Option<&str>, files: Files) -> anyhow::Result<Channel> {
    let mut layer = Layer::default();
    if let Some(store) = store {
        layer.set(&declared::STORE, store);
    }
    let settings = Settings::resolve(None, layer)?;
    let root = match store {
        Some(_) => open_existing_root(&settings).await?,
        None => Root::open(Store::in_memory()).await?,
    };
    let snapshots = Arc::new(SnapshotReader::new(root.clone(), snapshot_options(&settings)));
    let config = EngineConfig {
        memory_bytes: settings.get(&declared::QUERY_MEMORY),
        page_bytes: settings.get(&declared::PAGE_CACHE),
        partitions: std::thread::available_parallelism().map_or(1, usize::from),
        timeout: TIMEOUT,
        // As in a server: sorts that spill need it.
        sort_threads: Some(Handle::current()),
        files: Some(files),
        ..EngineConfig::default()
    };
    let engine = Engine::new(root, snapshots, Arc::new(ReadOnlyWriter), config);
    let router = flight::routes(engine).behind(&Gate::Off);
    let connect = move |_: Uri| {
        let router = router.clone();
        async move {
            let (near, far) = tokio::io::duplex(PIPE_BYTES);
            tokio::spawn(async move {
                let service = TowerToHyperService::new(router);
                // The connection ends with the client.
                let _ = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                    .serve_connection(TokioIo::new(far), service)
                    .await;
            });
            Ok::<TokioIo<DuplexStream>, std::io::Error>(TokioIo::new(near))
        }
    };
    // The connector ignores the address.
    let endpoint = Endpoint::from_static("http://localhost");
    Ok(endpoint.connect_with_connector(tower::service_fn(connect)).await?)
}
