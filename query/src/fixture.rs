//! Test fixture for the front doors: an engine over a small root in memory, and a writer that records its calls.

#![allow(clippy::unwrap_used)]

use std::{sync::Arc, time::Duration};

use arrow::array::{
    ArrayRef, Float32Array, Int32Array, RecordBatch, StringArray, TimestampMillisecondArray, UInt32Array, UInt64Array,
};
use async_trait::async_trait;
use futures::{TryStreamExt, stream::BoxStream};
use parking_lot::Mutex;
use tidelake_format::{
    Error, Reason, Result,
    ids::{Position, Token, WriterId},
    layout::log_key,
    meta::Root,
    rows::{Block, SeriesSet},
    schema::{Role, Supertable},
    segment::{Compression, SegmentHeader, encode},
    snapshot::{SnapshotOptions, SnapshotReader},
    store::Store,
    types::{Precision, Type},
};
use tidelake_protocol::sql::Update;

use crate::{
    engine::{Engine, EngineConfig},
    session::Session,
    writer::{IngestTarget, WriteOutcome, Writer},
};

/// First timestamp of every device, in milliseconds: 2019-07-16T04:01:40Z.
pub(crate) const START: i64 = 1_563_249_700_000;
/// Rows per device, one second apart.
pub(crate) const ROWS: i64 = 4;

/// A writer that executes nothing and records everything.
#[derive(Clone, Default)]
pub(crate) struct Notes {
    /// Database, statement and parameters of each execution.
    pub(crate) executed: Arc<Mutex<Vec<(Option<String>, String, Option<RecordBatch>)>>>,
    /// Target and batches of each ingest.
    pub(crate) ingested: Arc<Mutex<Vec<(IngestTarget, Vec<RecordBatch>)>>>,
}

#[async_trait]
impl Writer for Notes {
    async fn execute(
        &self,
        database: Option<&str>,
        update: &Update,
        parameters: Option<RecordBatch>,
    ) -> Result<WriteOutcome> {
        if update.text().contains("nowhere") {
            return Err(Error::not_found("no such table").because(Reason::TableNotFound).with("table", "nowhere"));
        }
        let rows = parameters.as_ref().map_or(1, RecordBatch::num_rows) as u64;
        self.executed.lock().push((database.map(str::to_owned), update.text().to_string(), parameters));
        Ok(WriteOutcome { affected_rows: rows, token: Some(token()), ..WriteOutcome::default() })
    }

    async fn parameters(&self, _: Option<&str>, update: &Update) -> Result<Vec<Option<Type>>> {
        let types = [Type::Timestamp, Type::Int, Type::Float];
        Ok(types.into_iter().map(Some).take(update.text().matches('?').count()).collect())
    }

    fn of_request(&self, _: &Session) -> Result<Arc<dyn Writer>> {
        Ok(Arc::new(self.clone()))
    }

    async fn ingest(
        &self,
        target: IngestTarget,
        batches: BoxStream<'static, Result<RecordBatch>>,
    ) -> Result<WriteOutcome> {
        let batches: Vec<RecordBatch> = batches.try_collect().await?;
        let rows = batches.iter().map(|b| b.num_rows() as u64).sum();
        self.ingested.lock().push((target, batches));
        Ok(WriteOutcome { affected_rows: rows, token: Some(token()), ..WriteOutcome::default() })
    }
}

/// Token of the single segment in the root.
pub(crate) fn token() -> Token {
    Token::Position(Position { writer: WriterId(7), seq: 0 })
}

/// Database `w1` (ms), supertable `devices` (ts, temperature, humidity, ticks; devid, devname, devgroup), devices
/// `d0`, `d1`, `d2` of [`ROWS`] rows: temperature = 10·device + row, humidity = row / 2 (null in row 3), ticks = row.
pub(crate) async fn engine() -> (Engine, Arc<Notes>) {
    let root = Root::open(Store::in_memory()).await.unwrap();
    let create = root.commit(&[], |draft| {
        let database = draft.create_database("w1", Precision::Milli, 3_650 * 86_400_000, 10 * 86_400_000)?;
        let column = |name: &str, role, ty| (name.to_owned(), role, ty);
        draft.create_table(
            database.id,
            "devices",
            [
                column("ts", Role::Time, Type::Timestamp),
                column("temperature", Role::Field, Type::Int),
                column("humidity", Role::Field, Type::Float),
                column("ticks", Role::Field, Type::UBigInt),
                column("devid", Role::Tag, Type::UInt),
                column("devname", Role::Tag, Type::NChar(Some(16))),
                column("devgroup", Role::Tag, Type::Int),
            ],
        )
    });
    let (table, _) = create.await.unwrap();
    let position = Position { writer: WriterId(7), seq: 0 };
    // A segment counts only for two days after its writer's start.
    let now = chrono::Utc::now().timestamp_millis();
    let header = SegmentHeader { position, writer_start_ms: now, stamp_ns: now, queue_keys: false };
    let segment = encode(&header, &[block(&table)], Compression::Always).unwrap();
    root.store().create(&log_key(position), segment).await.unwrap();
    let snapshots = SnapshotReader::new(root.clone(), SnapshotOptions::default());
    let notes = Arc::new(Notes::default());
    let config = EngineConfig {
        memory_bytes: 256 << 20,
        partitions: 1,
        timeout: Duration::from_secs(60),
        concurrency: 8,
        waiting: 80,
        ..EngineConfig::default()
    };
    (Engine::new(root, Arc::new(snapshots), notes.clone(), config), notes)
}

fn block(table: &Supertable) -> Block {
    let tags = SeriesSet::schema_of(table, Precision::Milli);
    let series: Vec<ArrayRef> = vec![
        Arc::new(StringArray::from(vec!["d0", "d1", "d2"])),
        Arc::new(UInt32Array::from(vec![0, 1, 2])),
        Arc::new(StringArray::from(vec!["dev_0", "dev_1", "dev_2"])),
        Arc::new(Int32Array::from(vec![0, 0, 1])),
    ];
    let keys = || (0..3u32).flat_map(|device| (0..ROWS).map(move |row| (device, row)));
    let rows: Vec<ArrayRef> = vec![
        Arc::new(UInt32Array::from_iter_values(keys().map(|(device, _)| device))),
        Arc::new(TimestampMillisecondArray::from_iter_values(keys().map(|(_, row)| START + row * 1_000))),
        Arc::new(Int32Array::from_iter_values(keys().map(|(device, row)| 10 * device as i32 + row as i32))),
        Arc::new(Float32Array::from_iter(keys().map(|(_, row)| (row != 3).then_some(row as f32 / 2.0)))),
        Arc::new(UInt64Array::from_iter_values(keys().map(|(_, row)| row as u64))),
    ];
    let rows = RecordBatch::try_new(Block::rows_schema(table, Precision::Milli), rows).unwrap();
    Block::try_new(table.id, SeriesSet::try_new(RecordBatch::try_new(tags, series).unwrap()).unwrap(), rows).unwrap()
}
