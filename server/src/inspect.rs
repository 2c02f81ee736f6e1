//! `tidelake inspect`: shows the contents of a root, read directly from the store.

use std::{collections::BTreeMap, fmt::Write as _};

use anyhow::Context;
use arrow::{
    array::{
        ArrayRef, RecordBatch, StringArray, TimestampMicrosecondArray, TimestampMillisecondArray,
        TimestampNanosecondArray, UInt64Array,
    },
    util::pretty::pretty_format_batches,
};
use clap::{Args, Subcommand};
use indicatif::HumanBytes;
use std::sync::Arc;
use tidelake_format::{
    holders::{Holder, State, Wanted, holders},
    ids::FileId,
    layout,
    meta::{Catalog, FileEntry, Root},
    schema::{Database, Supertable},
    segment,
    tags::Aggregate,
    types::Precision,
};

use tidelake_node::serve;

use crate::{arguments::StoreArgs, terminal};

/// Options of `inspect`.
#[derive(Debug, Args)]
pub(crate) struct InspectArgs {
    #[command(flatten)]
    store: StoreArgs,
    #[command(subcommand)]
    what: Option<What>,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Databases, tables with their columns and partitions, and sizes by kind of object (the default)
    Catalog,
    /// The live data files of a table
    Files {
        /// database.table
        table: String,
    },
    /// The tag manifest of a data file: series, row ranges, time ranges and aggregates
    Tags {
        /// database.table
        table: String,
        /// The file's id, from `inspect files`
        file: FileId,
    },
    /// The log segments in the store
    Log,
    /// Every object that holds rows of a series and time range, referenced by a version or not: shows what is left after
    /// a delete
    Rows {
        /// database.table
        table: String,
        /// Only this series
        #[arg(long)]
        series: Option<String>,
        /// First time, inclusive: RFC 3339, or ticks of the database's precision
        #[arg(long)]
        from: Option<String>,
        /// Last time, inclusive
        #[arg(long)]
        to: Option<String>,
    },
}

/// Prints the requested part.
#[expect(clippy::print_stdout, reason = "the command's result")]
pub(crate) async fn run(args: InspectArgs) -> anyhow::Result<()> {
    let settings = args.store.settings()?;
    let root = serve::open_existing_root(&settings).await?;
    let catalog = root.catalog();
    let text = match args.what.unwrap_or(What::Catalog) {
        What::Catalog => summary(&root, &catalog).await?,
        What::Files { table } => files(&root, &catalog, &table).await?,
        What::Tags { table, file } => tags(&root, &catalog, &table, file).await?,
        What::Log => log(&root, &catalog).await?,
        What::Rows { table, series, from, to } => {
            let (database, table) = find(&catalog, &table)?;
            let time = |text: Option<String>, open| text.map_or(Ok(open), |text| ticks(&text, database.precision));
            let wanted = Wanted { series, range: (time(from, i64::MIN)?, time(to, i64::MAX)?) };
            rows(&root, database, table, &wanted).await?
        }
    };
    println!("{}", terminal::escaped(text.trim_end()));
    Ok(())
}

async fn summary(root: &Root, catalog: &Catalog) -> anyhow::Result<String> {
    let mut out = format!("root {} at {}\n", root.store().describe(), catalog.version);
    let mut kinds: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for object in root.store().list("").await? {
        let key = object.location.as_ref();
        let kind = match key.split('/').next().unwrap_or_default() {
            "data" if key.ends_with(".parquet") => "data files",
            "data" if key.ends_with(".tags") => "tag manifests",
            "data" if key.ends_with(".rollup") => "rollups",
            "log" => "log segments",
            "meta" => "chain",
            _ => "other",
        };
        let (count, bytes) = kinds.entry(kind).or_default();
        *count += 1;
        *bytes += object.size;
    }
    for (kind, (count, bytes)) in &kinds {
        writeln!(out, "  {kind:<14} {count:>8} objects  {bytes:>14} bytes  ({})", HumanBytes(*bytes))?;
    }
    for database in catalog.databases() {
        writeln!(
            out,
            "\ndatabase {} (id {}, precision {}, partitions of {} h, kept {} d)",
            database.name,
            database.id.0,
            database.precision,
            database.partition_ms / 3_600_000,
            database.keep_ms / 86_400_000
        )?;
        for table in catalog.tables(database.id) {
            writeln!(out, "  table {} (id {})", table.name, table.id.0)?;
            for column in &table.columns {
                writeln!(
                    out,
                    "    {:>5} {:<24} {:<20} {:?}",
                    column.id.0,
                    column.name,
                    column.ty.to_string(),
                    column.role
                )?;
            }
            for (partition, sum) in catalog.partitions(table.id) {
                writeln!(
                    out,
                    "    partition {partition}: {} files, {} rows, {} bytes, {:.3} bytes/row",
                    sum.files,
                    sum.rows,
                    sum.bytes,
                    sum.bytes as f64 / sum.rows.max(1) as f64
                )?;
            }
        }
    }
    Ok(out)
}

fn find<'a>(catalog: &'a Catalog, name: &str) -> anyhow::Result<(&'a Arc<Database>, &'a Arc<Supertable>)> {
    let (database, table) = name.split_once('.').with_context(|| format!("expected database.table, found {name:?}"))?;
    let database = catalog.database(database).with_context(|| format!("no database {database:?}"))?;
    let table =
        catalog.table(database.id, table).with_context(|| format!("no table {table:?} in {}", database.name))?;
    Ok((database, table))
}

async fn entries(root: &Root, catalog: &Catalog, table: &Supertable) -> anyhow::Result<Vec<FileEntry>> {
    let mut all = Vec::new();
    let partitions: Vec<i64> = catalog.partitions(table.id).map(|(partition, _)| partition).collect();
    for partition in partitions {
        all.extend(root.files(catalog, table.id, partition).await?.iter().cloned());
    }
    Ok(all)
}

fn times(ticks: Vec<i64>, precision: Precision) -> ArrayRef {
    match precision {
        Precision::Milli => Arc::new(TimestampMillisecondArray::from(ticks)),
        Precision::Micro => Arc::new(TimestampMicrosecondArray::from(ticks)),
        Precision::Nano => Arc::new(TimestampNanosecondArray::from(ticks)),
    }
}

async fn files(root: &Root, catalog: &Catalog, name: &str) -> anyhow::Result<String> {
    let (database, table) = find(catalog, name)?;
    let files = entries(root, catalog, table).await?;
    let column =
        |f: fn(&FileEntry) -> u64| -> ArrayRef { Arc::new(UInt64Array::from_iter_values(files.iter().map(f))) };
    let text =
        |f: &dyn Fn(&FileEntry) -> String| -> ArrayRef { Arc::new(StringArray::from_iter_values(files.iter().map(f))) };
    let batch = RecordBatch::try_from_iter([
        ("file", text(&|f| f.id.to_string())),
        ("partition", text(&|f| f.partition.to_string())),
        ("order", text(&|f| f.order.to_string())),
        ("rows", column(|f| f.rows)),
        ("series", column(|f| f.series)),
        ("data bytes", column(|f| f.data.bytes)),
        ("tags bytes", column(|f| f.tags.bytes)),
        ("min ts", times(files.iter().map(|f| f.min_ts).collect(), database.precision)),
        ("max ts", times(files.iter().map(|f| f.max_ts).collect(), database.precision)),
    ])?;
    Ok(pretty_format_batches(&[batch])?.to_string())
}

async fn tags(root: &Root, catalog: &Catalog, name: &str, id: FileId) -> anyhow::Result<String> {
    let (database, table) = find(catalog, name)?;
    let files = entries(root, catalog, table).await?;
    let file = files.iter().find(|f| f.id == id).with_context(|| format!("{name} has no live file {id}"))?;
    let key = layout::tags_key(table.id, file.partition, file.tags.id);
    let manifest = file.tag_manifest(root.store(), table.id).await?;
    let mut columns: Vec<(String, ArrayRef)> = Vec::new();
    let series = manifest.series().batch();
    for (field, array) in series.schema().fields().iter().zip(series.columns()) {
        columns.push((field.name().clone(), array.clone()));
    }
    columns.push(("first row".to_owned(), Arc::new(UInt64Array::from(manifest.first_row().to_vec()))));
    columns.push(("rows".to_owned(), Arc::new(UInt64Array::from(manifest.row_count().to_vec()))));
    columns.push(("min ts".to_owned(), times(manifest.min_ts().to_vec(), database.precision)));
    columns.push(("max ts".to_owned(), times(manifest.max_ts().to_vec(), database.precision)));
    for field in table.fields() {
        let aggregates = [
            ("count", Aggregate::Count),
            ("sum", Aggregate::Sum),
            ("min", Aggregate::Min),
            ("max", Aggregate::Max),
            ("first", Aggregate::First),
            ("last", Aggregate::Last),
        ];
        for (what, aggregate) in aggregates {
            if let Some(values) = manifest.aggregate(field.id, aggregate) {
                columns.push((format!("{what}({})", field.name), values.clone()));
            }
        }
    }
    let batch = RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, a)| (n, a, true)))?;
    Ok(format!("{key}\n{}", pretty_format_batches(&[batch])?))
}

async fn log(root: &Root, catalog: &Catalog) -> anyhow::Result<String> {
    let mut out = String::new();
    for object in root.store().list(layout::LOG).await? {
        let key = object.location.as_ref();
        let state = match layout::parse_log(key) {
            None => "not a segment".to_owned(),
            Some(p) if catalog.watermark(p.writer).and_then(|w| w.faulty(p.seq)).is_some_and(|f| f.given_up) => {
                "given up".to_owned()
            }
            Some(p)
                if catalog
                    .watermark(p.writer)
                    .is_some_and(|w| w.is_quarantined(p.seq, object.last_modified.timestamp_millis(), object.size)) =>
            {
                "quarantined".to_owned()
            }
            Some(p) if catalog.is_folded(p) => "folded".to_owned(),
            Some(_) => match root.store().get(key).await.and_then(|bytes| segment::decode(key, &bytes)) {
                Ok(segment) => {
                    let rows: usize = segment.blocks.iter().map(|b| b.len()).sum();
                    format!("{rows} rows of {} tables", segment.blocks.len())
                }
                Err(e) => e.to_string(),
            },
        };
        writeln!(out, "{key}  {:>10} bytes  {state}", object.size)?;
    }
    Ok(if out.is_empty() { "the log is empty".to_owned() } else { out })
}

/// Parses a time as ticks.
fn ticks(text: &str, precision: Precision) -> anyhow::Result<i64> {
    if let Ok(ticks) = text.parse() {
        return Ok(ticks);
    }
    let time = chrono::DateTime::parse_from_rfc3339(text).with_context(|| {
        format!("expected a time such as 2026-01-31T10:00:00Z or ticks of the database ({precision}), found {text:?}")
    })?;
    let nanos = i128::from(time.timestamp()) * 1_000_000_000 + i128::from(time.timestamp_subsec_nanos());
    let ticks = nanos.div_euclid(1_000_000_000 / i128::from(precision.per_second()));
    i64::try_from(ticks).with_context(|| format!("the time {text} is out of range at precision {precision}"))
}

async fn rows(root: &Root, database: &Database, table: &Supertable, wanted: &Wanted) -> anyhow::Result<String> {
    let found = holders(root, table, database.precision, wanted).await?;
    if found.is_empty() {
        return Ok("no object holds matching rows".to_owned());
    }
    let mut out = String::new();
    for Holder { key, state, rows, unreadable } in &found {
        let state = match state {
            State::Log => "in the log",
            State::Folded => "folded, to be collected",
            State::Quarantined => "quarantined: not folded, and kept",
            State::Live => "live",
            State::Unnamed => "in no version, to be collected",
        };
        match unreadable {
            None => writeln!(out, "{key}  {rows:>12} rows  {state}")?,
            Some(why) => writeln!(out, "{key}  may hold matching rows: {why}  {state}")?,
        }
    }
    Ok(out)
}
