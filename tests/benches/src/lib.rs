//! Data of the benches: rows of the benchmark's thermohygrometers, as requests and as a root in memory.

use std::{sync::Arc, time::Duration};

use anyhow::Context;
use bytes::Bytes;
use futures::TryStreamExt;
use tidelake_format::{
    ids::DatabaseId,
    meta::{Catalog, Root},
    schema::{Database, Supertable},
    snapshot::SnapshotReader,
    store::Store,
};
use tidelake_ingest::{
    compact::CompactRequest,
    config::{CompactConfig, IngestConfig},
    decode::{Lookup, Subtable},
    write::{Durability, Ingest},
};
use tidelake_loadtest::{
    Device, Devices,
    workload::generate::encode::Text,
    workload::{CREATE_SUPERTABLE, DATABASE, SUPERTABLE},
};
use tidelake_query::{
    engine::{Engine, EngineConfig, Outcome},
    session::Session,
    writer::ReadOnlyWriter,
};

/// Devices of the root.
pub const DEVICES: u32 = 200;
/// Rows of each device of the root.
pub const ROWS: u32 = 5_000;
const SEED: u64 = 1;

/// The tables of a root, for decoders.
pub struct Tables(Arc<Catalog>);

impl Tables {
    /// The database.
    ///
    /// # Errors
    /// There is none.
    pub fn database(&self) -> anyhow::Result<&Arc<Database>> {
        self.0.database(DATABASE).context("the root has the database")
    }

    /// The papers' supertable.
    ///
    /// # Errors
    /// There is none.
    pub fn devices(&self) -> anyhow::Result<&Arc<Supertable>> {
        self.0.table(self.database()?.id, SUPERTABLE).context("the root has the table")
    }
}

impl Lookup for Tables {
    fn database(&self, name: &str) -> Option<Arc<Database>> {
        self.0.database(name).cloned()
    }

    fn table(&self, database: DatabaseId, name: &str) -> Option<Arc<Supertable>> {
        self.0.table(database, name).cloned()
    }

    fn subtable(&self, _: DatabaseId, name: &str) -> Option<Subtable> {
        name.strip_prefix("dev")?.parse::<u32>().ok()?;
        Some(Subtable { table: self.devices().ok()?.clone(), tags: Vec::new() })
    }
}

/// The rows of the first devices.
pub fn devices(devices: u32, rows: u32) -> Devices {
    Devices { devices, rows, seed: SEED }
}

/// A request with `rows` rows of one device.
pub fn request(text: Text, rows: u32) -> Bytes {
    let mut body = Vec::new();
    text.begin(&mut body);
    text.push(&mut body, &Device::numbered(1), &devices(1, rows).rows(1));
    text.end(&mut body);
    body.into()
}

/// A root in memory with all rows in data files, in the benchmark's table.
///
/// # Errors
/// Those of writing.
pub async fn root() -> anyhow::Result<Root> {
    let root = Root::open(Store::in_memory()).await?;
    let compact = CompactConfig { background: false, fold_margin_ms: Some(0), ..CompactConfig::default() };
    let ingest = Ingest::open(root.clone(), IngestConfig { compact, ..IngestConfig::default() }).await?;
    ingest.execute(None, &format!("create database {DATABASE} precision 'ms' keep 36500d"), None).await?;
    ingest.execute(Some(DATABASE), CREATE_SUPERTABLE, None).await?;
    let all = devices(DEVICES, ROWS);
    for id in all.ids() {
        let (device, mut body) = (Device::numbered(id), Vec::new());
        Text::TdEngine.begin(&mut body);
        Text::TdEngine.push(&mut body, &device, &all.rows(id));
        Text::TdEngine.end(&mut body);
        ingest.execute(Some(DATABASE), std::str::from_utf8(&body)?, None).await?;
    }
    // OpenTSDB has one table per metric.
    ingest.write_opentsdb(DATABASE, request(Text::OpenTsdb, 1), Durability::Stored).await?;
    ingest.compact(CompactRequest::Full).await?;
    ingest.shutdown().await;
    Ok(root)
}

/// The tables of a root.
pub fn tables(root: &Root) -> Tables {
    Tables(root.catalog())
}

/// A query engine over a root, with one partition.
pub fn engine(root: &Root) -> Engine {
    let snapshots = Arc::new(SnapshotReader::new(root.clone(), Default::default()));
    let config = EngineConfig {
        memory_bytes: 1 << 30,
        partitions: 1,
        timeout: Duration::from_secs(60),
        concurrency: 4,
        waiting: 4,
        ..EngineConfig::default()
    };
    Engine::new(root.clone(), snapshots, Arc::new(ReadOnlyWriter), config)
}

/// Number of rows that a query returns.
///
/// # Errors
/// The query's.
pub async fn ask(engine: &Engine, session: &Session, sql: &str) -> anyhow::Result<usize> {
    let Outcome::Rows(rows) = engine.query(session, sql).await?.1 else { anyhow::bail!("{sql} gives no rows") };
    Ok(rows.try_fold(0, |sum, batch| async move { Ok(sum + batch.num_rows()) }).await?)
}
