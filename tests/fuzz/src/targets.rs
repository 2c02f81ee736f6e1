//! The parsers and decoders, each as a function of bytes that returns whether it accepted them.

use std::sync::Arc;

use bytes::Bytes;
use chrono_tz::Tz;
use futures::TryStreamExt;
use tidelake_format::{
    file::DataFile,
    ids::{DatabaseId, TableId, Token},
    layout,
    meta::Root,
    schema::{Database, Role, Supertable},
    segment,
    store::Store,
    tags::TagManifest,
    types::{Precision, Type},
};
use tidelake_ingest::{
    compact::CompactRequest,
    config::{CompactConfig, IngestConfig},
    decode::{
        Lookup, Subtable,
        line_protocol::{self, LinePrecision},
        opentsdb, tdengine,
    },
    write::{Durability, Ingest},
};
use tidelake_protocol::sql::{self, DoubleQuotes, Statement};
use tidelake_query::frontend;
use tokio::runtime::Runtime;

use crate::{corpus, doors::doors};

/// Runs an input; returns whether it was accepted.
type Run = Box<dyn Fn(&[u8]) -> bool>;

/// One parser or decoder.
pub struct Target {
    /// Name of the target and of its directory in the corpus.
    pub name: &'static str,
    /// Inputs from which mutations start.
    pub seeds: Vec<Vec<u8>>,
    /// Runs an input.
    pub run: Run,
}

/// All targets.
///
/// # Errors
/// When the inputs of binary targets cannot be made.
pub fn targets() -> anyhow::Result<Vec<Target>> {
    let mut all = vec![
        text("line_protocol", line),
        text("tdengine", statement),
        text("dialect", query),
        text("opentsdb", |input| opentsdb::decode(input, &Tables::new(), &database(), 0).is_ok()),
        text("token", |input| std::str::from_utf8(input).is_ok_and(|text| text.parse::<Token>().is_ok())),
    ];
    all.extend(binary()?);
    all.extend(doors()?);
    Ok(all)
}

fn text(name: &'static str, run: impl Fn(&[u8]) -> bool + 'static) -> Target {
    Target { name, seeds: corpus(name), run: Box::new(run) }
}

fn line(input: &[u8]) -> bool {
    let decoded = line_protocol::decode(input, &Tables::new(), &database(), LinePrecision::Nano, 0);
    decoded.accepted > 0
}

fn statement(input: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(input) else { return false };
    let (tables, database) = (Tables::new(), database());
    let session = tdengine::Session { database: Some(&database), time_zone: Tz::UTC, now_ns: 0 };
    let quotes = [DoubleQuotes::Text, DoubleQuotes::Identifier];
    let done = quotes.map(|quotes| match sql::parse(text, quotes) {
        Ok(Some(Statement::Insert(insert))) => {
            let described = tdengine::insert_parameters(insert.cursor(text), &tables, &session).is_ok();
            tdengine::insert(insert.cursor(text), &tables, &session, None).is_ok() || described
        }
        Ok(Some(Statement::CreateSubtables(all))) => tdengine::create_subtables(&all, &tables, &session).is_ok(),
        other => other.is_ok(),
    });
    done.contains(&true)
}

fn query(input: &[u8]) -> bool {
    let Ok(sql) = std::str::from_utf8(input) else { return false };
    let texts = frontend::sql::parse(sql, DoubleQuotes::Text).is_ok();
    frontend::sql::parse(sql, DoubleQuotes::Identifier).is_ok() || texts
}

/// Segments, versions, tag manifests and data files, from a root that the write path made in memory.
fn binary() -> anyhow::Result<Vec<Target>> {
    let runtime = Arc::new(tokio::runtime::Builder::new_current_thread().enable_all().build()?);
    let made = runtime.block_on(make())?;
    let of = |prefix: &str, suffix: &str| -> Vec<Vec<u8>> {
        let ours = made.iter().filter(|(key, _)| key.starts_with(prefix) && key.ends_with(suffix));
        ours.map(|(_, bytes)| bytes.to_vec()).collect()
    };
    let (versions, files) = (runtime.clone(), runtime);
    Ok(vec![
        Target {
            name: "segment",
            seeds: of("log/", ""),
            run: Box::new(|input| segment::decode("key", &Bytes::copy_from_slice(input)).is_ok()),
        },
        Target {
            name: "tag_manifest",
            seeds: of("data/", ".tags"),
            run: Box::new(|input| TagManifest::decode("key", &Bytes::copy_from_slice(input)).is_ok()),
        },
        Target {
            name: "version",
            seeds: of("meta/", ""),
            run: Box::new(move |input| versions.block_on(open_version(input))),
        },
        Target {
            name: "data_file",
            seeds: of("data/", ".parquet"),
            run: Box::new(move |input| read_file(&files, input)),
        },
    ])
}

/// A root with a table `devices` in database `db`, and some of its rows in files.
pub(crate) async fn filled() -> anyhow::Result<Store> {
    let store = Store::in_memory();
    let compact = CompactConfig { background: false, fold_margin_ms: Some(0), ..CompactConfig::default() };
    let config = IngestConfig { compact, ..IngestConfig::default() };
    let ingest = Ingest::open(Root::open(store.clone()).await?, config).await?;
    for file in 0..2 {
        let line = |i: i64| format!("devices,devid={i} temperature={i}i,humidity=1.5,note=\"n{i}\" {}", file * 100 + i);
        let body: Vec<String> = (0..5).map(line).collect();
        let body = Bytes::from(body.join("\n"));
        ingest.write_line_protocol("db", body, LinePrecision::Nano, Durability::Stored).await?;
        if file == 0 {
            ingest.compact(CompactRequest::Fold).await?;
        }
    }
    ingest.shutdown().await;
    Ok(store)
}

async fn make() -> anyhow::Result<Vec<(String, Bytes)>> {
    let store = Store::in_memory();
    let compact = CompactConfig { background: false, fold_margin_ms: Some(0), ..CompactConfig::default() };
    let config = IngestConfig { compact, ..IngestConfig::default() };
    let ingest = Ingest::open(Root::open(store.clone()).await?, config).await?;
    let mut found = Vec::new();
    for round in 0..2_i64 {
        let line = |i: i64| format!("m{},h=h{i} f={i},i={i}i,b=true,s=\"t{i}\" {}", i % 2, round * 1_000 + i);
        let body: Vec<String> = (0..20).map(line).collect();
        let body = Bytes::from(body.join("\n"));
        ingest.write_line_protocol("db", body, LinePrecision::Nano, Durability::Stored).await?;
    }
    for meta in store.list(layout::LOG).await? {
        found.push((meta.location.to_string(), store.get(meta.location.as_ref()).await?));
    }
    ingest.compact(CompactRequest::Fold).await?;
    for prefix in [layout::META, layout::DATA] {
        for meta in store.list(prefix).await? {
            found.push((meta.location.to_string(), store.get(meta.location.as_ref()).await?));
        }
    }
    ingest.shutdown().await;
    Ok(found)
}

/// Opens a root whose newest version has these bytes.
async fn open_version(input: &[u8]) -> bool {
    let Some(version) = input.get(16..24).and_then(|b| Some(u64::from_le_bytes(b.try_into().ok()?))) else {
        return false;
    };
    let store = Store::in_memory();
    let key = layout::meta_key(tidelake_format::ids::Version(version.min(1 << 40)));
    store.create(&key, Bytes::copy_from_slice(input)).await.is_ok() && Root::open(store).await.is_ok()
}

/// Opens a data file and reads all of it.
fn read_file(runtime: &Runtime, input: &[u8]) -> bool {
    runtime.block_on(async {
        let store = Store::in_memory();
        if store.create("data/file", Bytes::copy_from_slice(input)).await.is_err() {
            return false;
        }
        let Ok(file) = DataFile::open(&store, "data/file", input.len() as u64).await else { return false };
        let columns: Vec<_> = file.schema().fields().iter().cloned().collect();
        // Wrong row counts are detected only by reading the pages.
        let Ok(rows) = file.read(&store, vec![0..file.rows()], &columns, 1_024) else { return false };
        rows.try_for_each(|_| async { Ok(()) }).await.is_ok()
    })
}

pub(crate) fn database() -> Database {
    Database {
        id: DatabaseId(1),
        name: "db".to_owned(),
        precision: Precision::Nano,
        keep_ms: Database::LONGEST_KEEP_MS,
        partition_ms: Database::DEFAULT_PARTITION_MS,
    }
}

/// A catalog with one supertable of many types.
pub(crate) struct Tables(Option<Arc<Supertable>>);

impl Tables {
    /// The one supertable.
    pub(crate) fn devices() -> Arc<Supertable> {
        Self::new().0.expect("these columns make a table")
    }

    fn new() -> Self {
        let columns = [
            ("ts", Role::Time, Type::Timestamp),
            ("temperature", Role::Field, Type::Int),
            ("humidity", Role::Field, Type::Float),
            ("ok", Role::Field, Type::Bool),
            ("note", Role::Field, Type::NChar(Some(8))),
            ("devid", Role::Tag, Type::Int),
            ("devname", Role::Tag, Type::Binary(Some(16))),
        ];
        let columns = columns.map(|(name, role, ty)| (name.to_owned(), role, ty));
        Self(Supertable::new(TableId(1), DatabaseId(1), "devices", columns).ok().map(Arc::new))
    }
}

impl Lookup for Tables {
    fn database(&self, name: &str) -> Option<Arc<Database>> {
        name.eq_ignore_ascii_case("db").then(|| Arc::new(database()))
    }

    fn table(&self, _: DatabaseId, name: &str) -> Option<Arc<Supertable>> {
        self.0.clone().filter(|t| t.name.eq_ignore_ascii_case(name))
    }

    fn subtable(&self, _: DatabaseId, name: &str) -> Option<Subtable> {
        let table = self.0.clone().filter(|_| name == "d1")?;
        Some(Subtable { table, tags: Vec::new() })
    }
}
