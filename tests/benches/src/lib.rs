//! What the benches measure on: the rows of the papers' thermohygrometers, as requests and as a root in memory.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use futures::TryStreamExt;
use tidelake_format::{
    ids::{DatabaseId, TableId},
    meta::Root,
    schema::{Database, Role, Supertable},
    snapshot::SnapshotReader,
    store::Store,
    types::{Precision, Type},
};
use tidelake_ingest::{
    compact::CompactRequest,
    config::{CompactConfig, IngestConfig},
    decode::{Lookup, Subtable, line_protocol::LinePrecision},
    write::{Durability, Ingest},
};
use tidelake_loadtest::{Devices, drive::encode::Text, workload::SUPERTABLE};
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

/// A catalog of the database `db` with the papers' supertable alone.
pub struct Catalog {
    /// The database: of milliseconds, without an end of its rows.
    pub database: Arc<Database>,
    /// The supertable.
    pub table: Arc<Supertable>,
}

impl Catalog {
    /// Makes it.
    ///
    /// # Errors
    /// None with these columns.
    pub fn new() -> anyhow::Result<Self> {
        let database = Database {
            id: DatabaseId(1),
            name: "db".to_owned(),
            precision: Precision::Milli,
            keep_ms: Database::LONGEST_KEEP_MS,
            partition_ms: Database::DEFAULT_PARTITION_MS,
        };
        let columns = [
            ("ts", Role::Time, Type::Timestamp),
            ("temperature", Role::Field, Type::Int),
            ("humidity", Role::Field, Type::Float),
            ("devid", Role::Tag, Type::Int),
            ("devname", Role::Tag, Type::Binary(Some(16))),
            ("devgroup", Role::Tag, Type::Int),
        ];
        let columns = columns.map(|(name, role, ty)| (name.to_owned(), role, ty));
        let table = Supertable::new(TableId(1), database.id, SUPERTABLE, columns)?;
        Ok(Self { database: Arc::new(database), table: Arc::new(table) })
    }
}

impl Lookup for Catalog {
    fn database(&self, name: &str) -> Option<Arc<Database>> {
        (name == self.database.name).then(|| self.database.clone())
    }

    fn table(&self, _: DatabaseId, name: &str) -> Option<Arc<Supertable>> {
        (name == self.table.name).then(|| self.table.clone())
    }

    fn subtable(&self, _: DatabaseId, name: &str) -> Option<Subtable> {
        name.strip_prefix("dev")?.parse::<u32>().ok()?;
        Some(Subtable { table: self.table.clone(), tags: Vec::new() })
    }
}

/// The rows of the first devices.
pub fn devices(devices: u32, rows: u32) -> Devices {
    Devices { devices, rows, seed: SEED }
}

/// A request with so many rows of one device.
pub fn request(text: Text, rows: u32) -> Bytes {
    let mut body = Vec::new();
    text.begin(&mut body);
    for device in devices(1, rows).ids() {
        text.push(&mut body, &tidelake_loadtest::Device::numbered(device), &devices(1, rows).rows(device));
    }
    text.end(&mut body);
    body.into()
}

/// A root in memory that holds all rows in data files.
///
/// # Errors
/// Those of writing.
pub async fn root() -> anyhow::Result<Root> {
    let root = Root::open(Store::in_memory()).await?;
    let compact = CompactConfig { background: false, fold_margin_ms: Some(0), ..CompactConfig::default() };
    let ingest = Ingest::open(root.clone(), IngestConfig { compact, ..IngestConfig::default() }).await?;
    let all = devices(DEVICES, ROWS);
    for device in all.ids() {
        let mut body = Vec::new();
        Text::Line.push(&mut body, &tidelake_loadtest::Device::numbered(device), &all.rows(device));
        let written = ingest.write_line_protocol("db", body.into(), LinePrecision::Milli, Durability::Stored).await?;
        anyhow::ensure!(written.rejected.is_empty(), "{:?}", written.rejected);
    }
    ingest.compact(CompactRequest::Full).await?;
    ingest.shutdown().await;
    Ok(root)
}

/// An engine over a root, of one partition.
pub fn engine(root: &Root) -> Engine {
    let snapshots = Arc::new(SnapshotReader::new(root.clone(), Default::default()));
    let config = EngineConfig {
        memory_bytes: 1 << 30,
        partitions: 1,
        timeout: Duration::from_secs(60),
        concurrency: 4,
        waiting: 4,
    };
    Engine::new(root.clone(), snapshots, Arc::new(ReadOnlyWriter), config)
}

/// The number of rows that a query gives.
///
/// # Errors
/// The query's.
pub async fn ask(engine: &Engine, session: &Session, sql: &str) -> anyhow::Result<usize> {
    let Outcome::Rows(rows) = engine.query(session, sql).await?.1 else { anyhow::bail!("{sql} gives no rows") };
    Ok(rows.try_fold(0, |sum, batch| async move { Ok(sum + batch.num_rows()) }).await?)
}
