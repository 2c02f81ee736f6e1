//! The query engine as a reader: the model must allow its rows, and its aggregates must match its rows, whatever level they
//! come from.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use arrow::{
    array::{Array, ArrayRef, AsArray, RecordBatch},
    compute::cast,
    datatypes::{DataType, Int64Type},
};
use futures::TryStreamExt;
use rand::Rng;
use tidelake_format::{
    Error, Result,
    access::Principal,
    ids::Token,
    meta::Root,
    schema::Role,
    snapshot::{SnapshotOptions, SnapshotReader},
};
use tidelake_query::{
    engine::{Engine, EngineConfig, Outcome},
    error::from_datafusion,
    session::{Levels, Session},
    writer::ReadOnlyWriter,
};
use tokio::time::sleep;

use super::request::random_ts;
use crate::{
    model::Seen,
    process::Process,
    read::{Content, DATABASE, content},
    world::{TABLES, World},
};

/// Result times are in nanoseconds, whatever the database's precision.
const NS_PER_MS: i64 = 1_000_000;
/// How long a snapshot is kept: longer than its queries take.
const STALENESS: Duration = Duration::from_secs(120);

/// Per series: rows, values of `a`, their sum, smallest and largest, and values of `b`.
type Sums = BTreeMap<String, [Option<i64>; 6]>;

/// The engine of one process.
#[derive(Clone)]
pub struct Asker {
    root: Root,
    snapshots: Arc<SnapshotReader>,
    engine: Engine,
}

impl Asker {
    /// The engine of a process on a root.
    pub fn new(root: &Root) -> Self {
        let options = SnapshotOptions { max_staleness: Some(STALENESS), ..SnapshotOptions::default() };
        let snapshots = Arc::new(SnapshotReader::new(root.clone(), options));
        let config = EngineConfig {
            memory_bytes: 64 << 20,
            partitions: 1,
            timeout: Duration::from_secs(600),
            concurrency: 4,
            waiting: 4,
            ..EngineConfig::default()
        };
        let engine = Engine::new(root.clone(), snapshots.clone(), Arc::new(ReadOnlyWriter), config);
        Self { root: root.clone(), snapshots, engine }
    }

    /// Queries all rows of a table and aggregates over it on one snapshot.
    pub async fn ask(&self, world: &World, process: &Process, tokens: &[(usize, Token)]) {
        // Makes the snapshot cached from the last time too old.
        sleep(STALENESS + Duration::from_millis(1)).await;
        let table = world.draw(|rng| TABLES[rng.random_range(0..TABLES.len())]);
        let range = world.draw(|rng| rng.random_bool(0.6).then(|| (random_ts(rng), random_ts(rng))));
        let what = format!("p{} asks for {table}", process.number);
        match self.compare(world, &what, table, range, tokens).await {
            Ok(Some(difference)) => world.violation(format!("{what}: {difference}")),
            Ok(None) => {}
            Err(error) => super::reader::token_error(world, tokens, &error),
        }
    }

    async fn compare(
        &self,
        world: &World,
        what: &str,
        table: &str,
        range: Option<(i64, i64)>,
        tokens: &[(usize, Token)],
    ) -> Result<Option<String>> {
        let begun = world.server.elapsed_ms();
        let asked: Vec<Token> = tokens.iter().map(|(_, token)| *token).collect();
        let session =
            Session { database: Some(DATABASE.to_owned()), tokens: asked.clone(), ..Session::of(Principal::PROCESS) };
        let snapshot = self.snapshots.snapshot(&asked).await?;
        let ended = world.server.elapsed_ms();
        let Some(database) = snapshot.catalog.database(DATABASE) else { return Ok(None) };
        let Some(definition) = snapshot.catalog.table(database.id, table) else { return Ok(None) };
        let fields: Vec<&str> =
            definition.columns.iter().filter(|c| c.role == Role::Field).map(|c| c.name.as_str()).collect();
        if ["dev", "site"].into_iter().any(|tag| definition.column(tag).is_none()) || !fields.contains(&"a") {
            return Ok(None);
        }
        let found = all(&self.engine, &session, table, &fields).await?;
        let b = if fields.contains(&"b") { "count(b)" } else { "cast(0 as bigint)" };
        let filter = range.map(|(a, b)| format!(" where ts >= {} and ts <= {}", a.min(b), a.max(b)));
        let sql = format!(
            "select dev, count(*), count(a), sum(a), min(a), max(a), {b} from {table}{} group by dev",
            filter.unwrap_or_default()
        );
        let without = Session { levels: Levels::NONE, ..session.clone() };
        let (levels, plain) = (sums(&self.engine, &session, &sql).await?, sums(&self.engine, &without, &sql).await?);
        let expected = content(&self.root, &snapshot, table).await?;
        // A clock step may have made the snapshot look old: then the engine used another one.
        if !Arc::ptr_eq(&snapshot, &self.snapshots.snapshot(&asked).await?) {
            return Ok(None);
        }
        let found = match found {
            Ok(found) => found,
            Err(twice) => return Ok(Some(twice)),
        };
        let version = snapshot.catalog.version;
        world.server.note(&format!("{what} of {version}: {} rows", found.rows.len()));
        world.server.count_deed("answers of the engine");
        if found != expected {
            return Ok(Some(format!("of {version} the engine gives {found:?}, not {expected:?}")));
        }
        let right = sums_of(&found, range);
        for (which, found) in [("levels", levels), ("rows", plain)] {
            if found != right {
                return Ok(Some(format!("of {version} {sql} gives from {which} {found:?}, not {right:?}")));
            }
        }
        let tokens = tokens.iter().map(|(id, _)| *id).collect();
        let Content { rows, sites } = found;
        world.saw(what, &Seen { table: table.to_owned(), rows, sites, begun, ended, tokens, ..Seen::default() });
        Ok(None)
    }
}

/// Aggregates of the rows within a time range.
fn sums_of(content: &Content, range: Option<(i64, i64)>) -> Sums {
    let mut sums = Sums::new();
    for ((series, ts), row) in &content.rows {
        if range.is_some_and(|(a, b)| *ts < a.min(b) || *ts > a.max(b)) {
            continue;
        }
        let [rows, values, sum, min, max, others] =
            sums.entry(series.clone()).or_insert([Some(0), Some(0), None, None, None, Some(0)]);
        *rows = rows.map(|n| n + 1);
        *others = others.map(|n| n + i64::from(row.contains_key("b")));
        if let Some(a) = row.get("a") {
            *values = values.map(|n| n + 1);
            *sum = Some(sum.unwrap_or(0) + a);
            *min = Some(min.unwrap_or(i64::MAX).min(*a));
            *max = Some(max.unwrap_or(i64::MIN).max(*a));
        }
    }
    sums
}

async fn batches(engine: &Engine, session: &Session, sql: &str) -> Result<Vec<RecordBatch>> {
    let (_, outcome) = engine.query(session, sql).await?;
    let Outcome::Rows(stream) = outcome else { return Err(Error::internal("a query gave no rows")) };
    stream.try_collect().await.map_err(from_datafusion)
}

fn numbers(column: &ArrayRef) -> Result<ArrayRef> {
    Ok(cast(column, &DataType::Int64)?)
}

async fn sums(engine: &Engine, session: &Session, sql: &str) -> Result<Sums> {
    let mut sums = Sums::new();
    for batch in batches(engine, session, sql).await? {
        let series = cast(batch.column(0), &DataType::Utf8)?;
        let columns = batch.columns()[1..].iter().map(numbers).collect::<Result<Vec<_>>>()?;
        for row in 0..batch.num_rows() {
            let value = |column: &ArrayRef| column.is_valid(row).then(|| column.as_primitive::<Int64Type>().value(row));
            let mut values = [None; 6];
            values.iter_mut().zip(&columns).for_each(|(v, column)| *v = value(column));
            sums.insert(series.as_string::<i32>().value(row).to_owned(), values);
        }
    }
    Ok(sums)
}

/// Every row of a table with its series' tag, or the first duplicate key.
async fn all(engine: &Engine, session: &Session, table: &str, fields: &[&str]) -> Result<Result<Content, String>> {
    let mut all = Content::default();
    let sql = format!("select dev, site, ts, {} from {table}", fields.join(", "));
    for batch in batches(engine, session, &sql).await? {
        let (dev, site) = (cast(batch.column(0), &DataType::Utf8)?, cast(batch.column(1), &DataType::Utf8)?);
        let columns = batch.columns()[2..].iter().map(numbers).collect::<Result<Vec<_>>>()?;
        let values: Vec<_> = columns.iter().map(|c| c.as_primitive::<Int64Type>()).collect();
        for row in 0..batch.num_rows() {
            let series = dev.as_string::<i32>().value(row).to_owned();
            let key = (series.clone(), values[0].value(row) / NS_PER_MS);
            let fields = fields.iter().zip(&values[1..]).filter(|(_, column)| column.is_valid(row));
            let fields = fields.map(|(name, column)| ((*name).to_owned(), column.value(row))).collect();
            let site = site.as_string::<i32>().value(row);
            let known = all.sites.entry(series).or_insert_with(|| site.to_owned());
            if known != site {
                return Ok(Err(format!("the engine gives {key:?} two tags: {known} and {site}")));
            }
            if all.rows.insert(key.clone(), fields).is_some() {
                return Ok(Err(format!("the engine gives {key:?} twice")));
            }
        }
    }
    Ok(Ok(all))
}
