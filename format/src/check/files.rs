//! Checks the lists of live files against the partition summaries, against each other and against the objects.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use xxhash_rust::xxh3::xxh3_64;

use crate::{
    error::{Kind, Result},
    ids::{FileId, TableId, Version},
    layout::{self, Part},
    meta::{Catalog, FileEntry, PartitionSummary, Root},
    schema::{Database, Supertable},
    tags::TagManifest,
};

use super::{CheckOptions, CheckReport, Finding, rows};

/// Checks every partition of every table.
pub(super) async fn check(
    root: &Root,
    catalog: &Catalog,
    options: CheckOptions,
    report: &mut CheckReport,
) -> Result<()> {
    let key = layout::meta_key(catalog.version);
    for (table, partition) in catalog.file_lists() {
        let listed = match root.files(catalog, table, partition).await {
            // This version is outdated by now: its file lists may have been collected.
            Err(e) if e.kind() == Kind::NotFound => continue,
            other => other,
        };
        let Some(files) = report.judge(&key, listed)? else { continue };
        let at = format!("table {}, partition {partition}", table.0);
        let Some(supertable) = catalog.table_by_id(table) else {
            report.fault(Finding::new(&key, "file list of a table that does not exist").found(at));
            continue;
        };
        let Some(database) = catalog.database_by_id(supertable.database) else { continue };
        let summary = catalog.partitions(table).find(|(p, _)| *p == partition).map(|(_, s)| s);
        let expected = PartitionSummary::of(&files);
        if summary != expected {
            let finding = Finding::new(&key, format!("partition summary differs from its file list: {at}"));
            report.fault(finding.expected(format!("{expected:?}")).found(format!("{summary:?}")));
        }
        list(catalog, database, &key, table, partition, &files, report);
        let mut runs: BTreeMap<Version, Vec<&FileEntry>> = BTreeMap::new();
        files.iter().for_each(|f| runs.entry(f.order).or_default().push(f));
        for run in runs.into_values() {
            let mut spans = Spans::new(run.len() > 1);
            for file in run {
                one(root, supertable, database, file, options, &mut spans, report).await?;
            }
        }
    }
    for (table, partition) in catalog.all_partitions() {
        let has_list = catalog.file_lists().any(|at| at == (table, partition));
        if !has_list {
            let found = format!("table {}, partition {partition}", table.0);
            report.fault(Finding::new(&key, "partition has a summary, but no file list").found(found));
        }
    }
    Ok(())
}

/// Checks the entries of a list without reading the files.
fn list(
    catalog: &Catalog,
    database: &Database,
    key: &str,
    table: TableId,
    partition: i64,
    files: &[FileEntry],
    report: &mut CheckReport,
) {
    let (mut ids, mut objects) = (BTreeSet::new(), BTreeSet::new());
    if !files.is_sorted_by_key(|f| (f.order, f.id)) {
        let found = format!("table {}, partition {partition}", table.0);
        report.fault(Finding::new(key, "file list is not sorted by (order, ID)").found(found));
    }
    for file in files {
        let data = layout::data_key(table, partition, file.data.id);
        let mut fault = |what: &str, found: String| report.fault(Finding::new(&data, what).found(found));
        let named: [(Part, Option<FileId>); 3] = [
            (Part::Data, Some(file.data.id)),
            (Part::Tags, Some(file.tags.id)),
            (Part::Rollup, file.rollup.map(|r| r.id)),
        ];
        let again = named.iter().any(|(part, id)| id.is_some_and(|id| !objects.insert((*part, id))));
        if !ids.insert(file.id) || again {
            fault("file or one of its objects is listed twice", file.id.to_string());
        }
        if file.order > catalog.version || file.clean > catalog.version {
            fault("order or clean of a file is above the version", format!("{} and {}", file.order, file.clean));
        }
        let outside = |ts: i64| database.partition_of(ts) != partition;
        let wrong = file.min_ts > file.max_ts || outside(file.min_ts) || outside(file.max_ts);
        if file.partition != partition || (file.rows > 0 && wrong) {
            let found = format!("{}..={} in partition {partition}", file.min_ts, file.max_ts);
            fault("file has rows outside of its partition", found);
        }
    }
}

/// Time ranges of the series in files of one order, which must not hold the same key (series, time) twice; `None` for a
/// single file.
pub(super) struct Spans(Option<HashMap<u64, Vec<(i64, i64, FileId)>>>);

impl Spans {
    fn new(several: bool) -> Self {
        Self(several.then(HashMap::new))
    }

    /// Adds a file; returns a series and an earlier file in which the time range of that series overlaps.
    fn add(&mut self, file: FileId, manifest: &TagManifest) -> Option<(String, FileId)> {
        let known = self.0.as_mut()?;
        let mut clash = None;
        for (i, name) in manifest.series().names().iter().flatten().enumerate() {
            if manifest.row_count()[i] == 0 {
                continue;
            }
            let (min, max) = (manifest.min_ts()[i], manifest.max_ts()[i]);
            let spans = known.entry(xxh3_64(name.as_bytes())).or_default();
            let other = spans.iter().find(|(from, to, _)| *from <= max && min <= *to);
            clash = clash.or_else(|| other.map(|(_, _, other)| (name.to_owned(), *other)));
            spans.push((min, max, file));
        }
        clash
    }
}

/// Checks one file: its objects against its entry and, through `spans`, against the other files of its order.
async fn one(
    root: &Root,
    table: &Supertable,
    database: &Database,
    file: &FileEntry,
    options: CheckOptions,
    spans: &mut Spans,
    report: &mut CheckReport,
) -> Result<()> {
    let (faults, notes, more) = (report.faults.len(), report.notes.len(), report.more);
    let checked = rows::check(root.store(), table, database, file, options, report).await?;
    if report.faults.len() == faults {
        // The checks that readers make before they trust an object.
        let store = root.store();
        let tags = layout::tags_key(table.id, file.partition, file.tags.id);
        report.judge(&tags, file.tag_manifest(store, table.id).await)?;
        let data = layout::data_key(table.id, file.partition, file.data.id);
        report.judge(&data, file.data_file(store, table.id).await)?;
    }
    if report.faults.len() > faults && !is_live(root, table.id, file).await? {
        // The file was replaced during the check: its objects may have been collected.
        report.faults.truncate(faults);
        report.notes.truncate(notes);
        report.more = more;
        return Ok(());
    }
    report.files += 1;
    report.rows += file.rows;
    report.bytes += file.total_bytes();
    if let Some(manifest) = checked
        && let Some((series, other)) = spans.add(file.id, &manifest)
    {
        let key = layout::data_key(table.id, file.partition, file.data.id);
        let finding = Finding::new(key, "two files of one order may hold the same key");
        report.fault(finding.found(format!("series {series} in file {other} at the same time")));
    }
    Ok(())
}

async fn is_live(root: &Root, table: TableId, file: &FileEntry) -> Result<bool> {
    let catalog = root.newest().await?;
    match root.files(&catalog, table, file.partition).await {
        Ok(files) => Ok(files.iter().any(|f| f.data.id == file.data.id && f.tags.id == file.tags.id)),
        Err(e) if e.kind() == Kind::NotFound => Ok(false),
        Err(e) => Err(e),
    }
}
