//! The lists of live files: held against the sums in the chain, against each other and against the objects.

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
            // Everybody went on meanwhile: what this version named is no longer promised.
            Err(e) if e.kind() == Kind::NotFound => continue,
            other => other,
        };
        let Some(files) = report.judge(&key, listed)? else { continue };
        let at = format!("table {}, partition {partition}", table.0);
        let Some(supertable) = catalog.table_by_id(table) else {
            report.fault(Finding::new(&key, "files of a table that does not exist").found(at));
            continue;
        };
        let Some(database) = catalog.database_by_id(supertable.database) else { continue };
        let summary = catalog.partitions(table).find(|(p, _)| *p == partition).map(|(_, s)| s);
        let expected = PartitionSummary::of(&files);
        if summary != expected {
            let finding = Finding::new(&key, format!("the sums of a partition are not those of its files: {at}"));
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
            report.fault(Finding::new(&key, "a partition is summed up and has no list of files").found(found));
        }
    }
    Ok(())
}

/// What a list says of its files, without looking at them.
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
        report.fault(Finding::new(key, "a list of files is not in the order of (order, id)").found(found));
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
            fault("a file or one of its objects is named twice", file.id.to_string());
        }
        if file.order > catalog.version || file.clean > catalog.version {
            fault("order and clean are not above the version", format!("{} and {}", file.order, file.clean));
        }
        let outside = |ts: i64| database.partition_of(ts) != partition;
        let wrong = file.min_ts > file.max_ts || outside(file.min_ts) || outside(file.max_ts);
        if file.partition != partition || (file.rows > 0 && wrong) {
            let found = format!("{}..={} in partition {partition}", file.min_ts, file.max_ts);
            fault("a file's rows lie outside of its partition", found);
        }
    }
}

/// The time ranges of series in the files of one order: none may hold a key twice.
pub(super) struct Spans(Option<HashMap<u64, Vec<(i64, i64, FileId)>>>);

impl Spans {
    fn new(several: bool) -> Self {
        Self(several.then(HashMap::new))
    }

    /// A file before this one that has the same series in the same time.
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

/// Checks one file: its objects against its entry.
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
        // What readers look at before they believe an object.
        let store = root.store();
        let tags = layout::tags_key(table.id, file.partition, file.tags.id);
        report.judge(&tags, file.tag_manifest(store, table.id).await)?;
        let data = layout::data_key(table.id, file.partition, file.data.id);
        report.judge(&data, file.data_file(store, table.id).await)?;
    }
    if report.faults.len() > faults && !is_live(root, table.id, file).await? {
        // A compaction replaced it, and a collector took it, while it was looked at.
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
