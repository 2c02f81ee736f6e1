//! Requests of 1000 rows from text (or Arrow) to columns.

use std::hint::black_box;

use anyhow::{Result, ensure};
use chrono_tz::Tz;
use criterion::{Criterion, Throughput};
use tidelake_benches::{devices, request, root, tables};
use tidelake_ingest::decode::{
    arrow,
    line_protocol::{self, LinePrecision},
    opentsdb,
    tdengine::{self, Inserted, Session},
};
use tidelake_loadtest::{
    Device,
    workload::generate::encode::{Batch, Text},
};
use tidelake_protocol::sql::{DoubleQuotes, Statement, parse};

const ROWS: u32 = 1_000;
/// The wall clock in milliseconds, after all rows' times.
const NOW: i64 = 1_600_000_000_000;

fn main() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let tables = tables(&runtime.block_on(root())?);
    let (database, table) = (tables.database()?.as_ref(), tables.devices()?.as_ref());
    let mut criterion = Criterion::default().configure_from_args();
    let mut group = criterion.benchmark_group("parsers");
    group.throughput(Throughput::Elements(ROWS.into()));

    let body = request(Text::Line, ROWS);
    let line = || line_protocol::decode(black_box(&body), &tables, database, LinePrecision::Milli, NOW);
    ensure!(line().accepted == ROWS as usize, "line protocol: {:?}", line());
    group.bench_function("line protocol", |b| b.iter(line));

    let body = request(Text::TdEngine, ROWS);
    let session = Session { database: Some(database), time_zone: Tz::UTC, now_ns: NOW * 1_000_000 };
    let insert = || -> Result<usize> {
        let text = black_box(std::str::from_utf8(&body)?);
        let Some(Statement::Insert(insert)) = parse(text, DoubleQuotes::Text)? else { anyhow::bail!("not an INSERT") };
        match tdengine::insert(insert.cursor(text), &tables, &session, None)? {
            Inserted::Ready(decoded) => Ok(decoded.accepted),
            Inserted::Unresolved(names) => anyhow::bail!("{names:?} are not known"),
        }
    };
    ensure!(insert()? == ROWS as usize, "INSERT");
    group.bench_function("TDengine INSERT", |b| b.iter(insert));

    let body = request(Text::OpenTsdb, ROWS);
    let json = || opentsdb::decode(black_box(&body), &tables, database, NOW);
    ensure!(json()?.accepted > 0, "OpenTSDB: {:?}", json()?.missing);
    group.bench_function("OpenTSDB JSON", |b| b.iter(json));

    let mut batch = Batch::default();
    batch.push(&Device::numbered(1), &devices(1, ROWS).rows(1));
    let batch = batch.finish()?;
    let columns = || arrow::decode(black_box(&batch), table, database, NOW);
    ensure!(columns()?.accepted == ROWS as usize, "Arrow");
    group.bench_function("Arrow", |b| b.iter(columns));

    group.finish();
    criterion.final_summary();
    Ok(())
}
