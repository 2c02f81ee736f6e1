//! `tidelake serve`: ingest, query and operations in one process on one port.

mod activity;
mod auth;
mod bodies;
mod check;
mod console;
#[cfg(test)]
mod doors;
mod figures;
mod first_user;
mod import;
mod listen;
pub mod logging;
mod operations;
mod origin;
mod places;
mod presence;
mod proxy;
mod saved;
mod session;
#[cfg(test)]
mod tests;
mod threads;
mod tls;
mod traces;
mod writer;

use std::{future::Future, io::Write as _, net::SocketAddr, sync::Arc, time::Duration};

use anyhow::Context;
use tidelake_format::{
    Error, Kind,
    meta::Root,
    nodes::Announcer,
    snapshot::{SnapshotOptions, SnapshotReader},
    store::Store,
};
use tidelake_ingest::{config::IngestConfig, udp::UdpTarget, write::Ingest};
use tidelake_protocol::settings as declared;
use tidelake_query::engine::{Engine, EngineConfig};
use tidelake_routes::Routes;
use tokio::{net::TcpListener, sync::watch};

pub use self::console::Assets;
use self::threads::ComputeThreads;
use crate::settings::Settings;

/// Serves until Ctrl-C or SIGTERM, then finishes running requests and flushes. `assets` are the files of the web console.
pub async fn run(settings: Settings, assets: Assets) -> anyhow::Result<()> {
    logging::start(&settings)?;
    if let Some(file) = &settings.found_file {
        tracing::info!(
            file = %file.display(),
            "using a settings file found in the working directory; ignore it with --config none"
        );
    }
    // Without a handler, the SIGHUP of a certificate renewal would end a server without TLS.
    let _hangups = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::hangup())?;
    let server = Server::start(settings, Some(assets)).await?;
    announce(&server);
    let stop = server.stop.clone();
    tokio::spawn(async move {
        stop_signal().await;
        tracing::info!("stopping: finishing requests and flushing");
        stop.send_replace(true);
    });
    let ended = server.wait().await;
    traces::stop().await;
    ended
}

/// Prints the addresses on standard output; a failure to print is ignored.
fn announce(server: &Server) {
    let (address, version) = (server.address, env!("CARGO_PKG_VERSION"));
    let flight = server.flight.unwrap_or(address);
    let (http, grpc, encryption) = match server.is_encrypted {
        true => ("https", "grpc+tls", ""),
        false => ("http", "grpc", "?useEncryption=false"),
    };
    let udp = server.udp.map_or(String::new(), |udp| format!("  UDP         udp://{udp}  (line protocol)\n"));
    let text = format!(
        "Tidelake {version} serves {}\n  \
         Console     {http}://{address}/\n  \
         HTTP        {http}://{address}  (/write, /api/v2/write, /api/put, /rest/sql, /api/v1/sql, /health, /metrics)\n  \
         Flight SQL  {grpc}://{flight}  jdbc:arrow-flight-sql://{flight}{encryption}\n  \
         Shell       tidelake sql --url {http}://{address}\n{udp}",
        server.store
    );
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// A running server.
pub struct Server {
    /// Listen address.
    pub address: SocketAddr,
    /// Whether TLS is on.
    is_encrypted: bool,
    /// Separate listen address of Flight SQL.
    flight: Option<SocketAddr>,
    /// Listen address of UDP.
    udp: Option<SocketAddr>,
    /// The write path.
    pub ingest: Ingest,
    store: String,
    stop: watch::Sender<bool>,
    tasks: Vec<tokio::task::JoinHandle<anyhow::Result<()>>>,
    presence: tokio::task::JoinHandle<Announcer>,
    compute: ComputeThreads,
}

impl Server {
    /// Opens the root, binds the addresses and serves in the background, with the web console if its files are given.
    ///
    /// # Errors
    /// The root cannot be opened, or an address is in use; the error names it.
    pub async fn start(settings: Settings, assets: Option<Assets>) -> anyhow::Result<Self> {
        let metrics = operations::install_metrics()?;
        let tls = settings.tls.as_ref().map(tls::Tls::load).transpose()?;
        let mut store = Store::open(&settings.get(&declared::STORE), &settings.store_options)?;
        let uncached = store.clone();
        if let Some(directory) = settings.get(&declared::DISK_CACHE) {
            let opened = store.with_disk_cache(&directory, settings.get(&declared::DISK_CACHE_SIZE) as u64).await;
            store = opened.context("cannot open the disk cache (setting disk_cache)")?;
        }
        let store_name = store.describe();
        let snapshots = SnapshotReader::open(store, snapshot_options(&settings)).await;
        let snapshots = Arc::new(snapshots.with_context(|| format!("cannot open the root {store_name}"))?);
        let root = snapshots.root().clone();
        if root.is_new() {
            tracing::info!("created a new root at {store_name}");
        }
        let gate = auth::gate(&settings, &root)?;
        let invited = if settings.asks_who() { first_user::prepare(&settings, &root).await? } else { None };
        let (invitation, code) = invited.unzip();
        let ingest = Ingest::open(root.clone(), ingest_config(&settings)).await?;
        let compute = ComputeThreads::start()?;
        let engine = Engine::new(
            root.clone(),
            snapshots,
            Arc::new(writer::IngestWriter::new(ingest.clone())),
            EngineConfig {
                memory_bytes: settings.get(&declared::QUERY_MEMORY),
                page_bytes: settings.get(&declared::PAGE_CACHE),
                partitions: std::thread::available_parallelism().map_or(1, usize::from),
                timeout: settings.get(&declared::QUERY_TIMEOUT),
                concurrency: settings.get(&declared::QUERY_CONCURRENCY),
                waiting: settings.get(&declared::QUERY_QUEUE),
                slow: Some(settings.get(&declared::SLOW_QUERY)).filter(|slow| !slow.is_zero()),
                variables: settings.variables(),
                // Not with a remote store: its connections, which writes share, would run on the compute threads.
                compute_threads: compute.plans().filter(|_| root.store().is_local()),
                sort_threads: compute.sorts(),
                // A client must not read the files of the server.
                files: None,
            },
        );
        let limits = listen::Limits {
            connections: settings.get(&declared::MAX_CONNECTIONS),
            idle_timeout: settings.get(&declared::IDLE_TIMEOUT),
            header_bytes: settings.get(&declared::MAX_HEADER),
            header_timeout: settings.get(&declared::HEADER_TIMEOUT),
            body_timeout: settings.get(&declared::BODY_TIMEOUT),
        };
        let front = listen::Front {
            tls: tls.clone(),
            limits,
            bodies: bodies::Bodies::new(settings.get(&declared::STATEMENT_BUFFER)),
            origins: Arc::new(origin::Origins::of(&settings)),
            places: places::Places::new(settings.get(&declared::MAX_CLIENT_CONNECTIONS)),
            proxies: settings.get(&declared::PROXY_PROTOCOL).0.iter().map(|(_, network)| *network).collect(),
            connections: engine.connections().clone(),
        };
        let (stop, stopped) = watch::channel(false);
        let flight_routes = tidelake_query::flight::routes(engine.clone());
        let node_limits = figures::NodeLimits {
            connections: settings.get(&declared::MAX_CONNECTIONS),
            memory_bytes: crate::memory::found(),
            has_disk_cache: settings.get(&declared::DISK_CACHE).is_some(),
        };
        let figures = figures::Figures::new(ingest.clone(), engine.clone(), metrics, node_limits);
        let mut routes = routes(root, ingest.clone(), engine, flight_routes.clone(), figures, stopped.clone())
            .merge(check::routes(uncached))
            .merge(session::routes(tls.is_some()))
            .merge(first_user::routes(invitation));
        if let Some(assets) = assets {
            routes = routes.merge(console::routes(assets));
        }

        let listener = bind(settings.get(&declared::LISTEN)).await?;
        let address = listener.local_addr()?;
        let mut tasks = Vec::new();
        let mut udp = None;
        if let Some(udp_address) = settings.get(&declared::UDP_LISTEN) {
            let socket = listen::bind_udp(udp_address)?;
            udp = Some(socket.local_addr()?);
            if !udp_address.ip().to_canonical().is_loopback() {
                tracing::warn!(
                    address = %udp_address,
                    database = settings.get(&declared::UDP_DATABASE),
                    "udp_listen accepts rows from every sender that can reach it: datagrams carry no credentials"
                );
            }
            let precision = settings.get(&declared::UDP_PRECISION);
            let target = UdpTarget { database: settings.get(&declared::UDP_DATABASE), precision };
            let serving = tidelake_ingest::udp::serve(socket, ingest.clone(), target, stopped.clone());
            tasks.push(tokio::spawn(async move {
                serving.await;
                Ok(())
            }));
        }
        let mut flight = None;
        if let Some(flight_address) = settings.get(&declared::FLIGHT_LISTEN) {
            let listener = bind(flight_address).await?;
            flight = Some(listener.local_addr()?);
            let router = auth::guard(flight_routes, &gate);
            tasks.push(tokio::spawn(listen::serve(listener, router, front.clone(), stopped.clone())));
        }
        if let Some(tls) = &tls {
            tasks.push(tokio::spawn(tls.clone().watch(stopped.clone())));
        }
        let presence = tokio::spawn(presence::announce(ingest.clone(), address, stopped.clone()));
        let is_encrypted = tls.is_some();
        tasks.push(tokio::spawn(listen::serve(listener, auth::guard(routes, &gate), front, stopped)));
        if let Some(code) = code {
            let scheme = if is_encrypted { "https" } else { "http" };
            first_user::show(&code, &format!("{scheme}://{address}/"));
        }
        Ok(Self { address, is_encrypted, flight, udp, ingest, store: store_name, stop, tasks, presence, compute })
    }

    /// Waits for the stop, then flushes.
    ///
    /// # Errors
    /// That of a listener that failed: the others are then stopped and their rows flushed.
    pub async fn wait(self) -> anyhow::Result<()> {
        let mut ended = Ok(());
        for task in self.tasks {
            let result = task.await.context("a listener stopped").flatten();
            if result.is_err() {
                self.stop.send_replace(true);
            }
            ended = ended.and(result);
        }
        self.ingest.shutdown().await;
        // After the rows are flushed, because nothing depends on it.
        if let Ok(announcer) = self.presence.await {
            presence::leave(announcer).await;
        }
        self.ingest.root().store().close().await;
        drop(self.compute);
        ended
    }

    /// Stops accepting connections, finishes running requests and flushes.
    pub async fn stop(self) -> anyhow::Result<()> {
        self.stop.send_replace(true);
        self.wait().await
    }
}

/// All routes of the server.
fn routes(
    root: Root,
    ingest: Ingest,
    engine: Engine,
    flight: Routes,
    figures: figures::Figures,
    stopped: watch::Receiver<bool>,
) -> Routes {
    tidelake_ingest::http::routes(ingest.clone())
        .merge(tidelake_query::http::routes(engine.clone()))
        .merge(tidelake_query::http::event_routes(engine))
        .merge(import::routes(ingest.clone()))
        .merge(saved::routes(root.clone()))
        .merge(operations::routes(root, ingest, figures, stopped))
        .merge(flight)
}

async fn bind(address: SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address}"))
}

/// Opens the root of the settings. Creates it if the store is empty, and reports that on standard error.
pub async fn open_or_create_root(settings: &Settings) -> anyhow::Result<Root> {
    let store = Store::open(&settings.get(&declared::STORE), &settings.store_options)?;
    let name = store.describe();
    let root = Root::open(store).await.with_context(|| format!("cannot open the root {name}"))?;
    if root.is_new() {
        say_created(root.store());
    }
    Ok(root)
}

/// Opens the root of the settings.
///
/// # Errors
/// There is no root; no directory or object is created.
pub async fn open_existing_root(settings: &Settings) -> anyhow::Result<Root> {
    let store = existing_store(settings)?;
    let name = store.describe();
    Root::open_existing(store).await.map_err(|error| no_root(error, &name))
}

/// Opens the store of the settings, which must hold a root.
///
/// # Errors
/// The store is a directory without a root.
pub fn existing_store(settings: &Settings) -> anyhow::Result<Store> {
    let opened = Store::open_existing(&settings.get(&declared::STORE), &settings.store_options);
    opened.map_err(|error| no_root(error, &settings.get(&declared::STORE)))
}

fn no_root(error: Error, store: &str) -> anyhow::Error {
    match error.kind() {
        Kind::NotFound => anyhow::Error::new(error).context(format!(
            "{store} holds no root and none was created: only serve, demo, restore and access create one"
        )),
        _ => anyhow::Error::new(error).context(format!("cannot open the root {store}")),
    }
}

/// Reports on standard error that a root was created.
#[expect(clippy::print_stderr, reason = "a remark beside the command's result")]
pub fn say_created(store: &Store) {
    eprintln!("created a new root at {}", store.describe());
}

/// Derives the options of reading snapshots.
pub(crate) fn snapshot_options(settings: &Settings) -> SnapshotOptions {
    SnapshotOptions {
        max_staleness: settings.get(&declared::MAX_STALENESS),
        tail_cache_bytes: settings.get(&declared::TAIL_CACHE),
        tail_bytes: settings.get(&declared::TAIL_MEMORY),
        allow_quarantined: settings.get(&declared::ALLOW_QUARANTINED),
    }
}

/// Derives the write path's configuration.
pub fn ingest_config(settings: &Settings) -> IngestConfig {
    let mut config = IngestConfig {
        buffer_bytes: settings.get(&declared::INGEST_BUFFER),
        body_bytes: settings.get(&declared::MAX_BODY),
        bulk_bytes: settings.get(&declared::MAX_BULK),
        line_bytes: settings.get(&declared::MAX_LINE),
        tables: settings.get(&declared::MAX_TABLES),
        columns: settings.get(&declared::MAX_COLUMNS),
        auto_create_database: settings.get(&declared::AUTO_CREATE_DATABASE),
        implausible_times: settings.get(&declared::IMPLAUSIBLE_TIMES),
        flush_interval_ms: settings.get(&declared::FLUSH_INTERVAL).map(milliseconds),
        ..IngestConfig::default()
    };
    config.tail_bytes = settings.get(&declared::TAIL_MEMORY);
    // Half of a query's limit, because segments too young to fold add to it.
    config.backlog_bytes = config.tail_bytes / 2;
    // A fold takes whole segments and starts before the log reaches this size.
    config.compact = config.compact.within(settings.get(&declared::COMPACT_MEMORY));
    config.group_bytes = config.group_bytes.min(config.compact.fold_memory_bytes).min(config.buffer_bytes);
    config.bulk_segment_bytes = config.bulk_segment_bytes.min(config.compact.fold_memory_bytes);
    config.compact.fold_bytes = config.compact.fold_bytes.min(config.tail_bytes as u64 / 16).max(1 << 20);
    // A body is held in the buffer; while it arrives, it counts toward its user's half.
    let most = if settings.asks_who() { config.buffer_bytes / 2 } else { config.buffer_bytes };
    config.body_bytes = config.body_bytes.min(most);
    config.compact.fold_age_ms = milliseconds(settings.get(&declared::FOLD_INTERVAL));
    config.compact.interval_ms = config.compact.fold_age_ms.clamp(100, config.compact.interval_ms);
    config
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Resolves at Ctrl-C or SIGTERM.
pub fn stop_signal() -> impl Future<Output = ()> {
    use tokio::signal::unix::{SignalKind, signal};
    let terminate = signal(SignalKind::terminate());
    async move {
        let terminated = async {
            match terminate {
                Ok(mut stream) => stream.recv().await,
                Err(_) => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = tokio::signal::ctrl_c() => {}
            _ = terminated => {}
        }
    }
}
