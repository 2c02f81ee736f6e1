//! Named invariants of every commit; checked before each one, so that a bug causes an error and not an unreadable root.

use std::collections::BTreeSet;

use super::{Catalog, Draft, FileEntry};
use crate::{
    error::{Error, Result},
    ids::{ColumnId, TableId},
    schema::Role,
};

type Invariant = fn(&Catalog, &Draft) -> Result<(), String>;

/// Maximum age of a file to be committed: the garbage collector may take an older one for an orphan.
const OLDEST_FILE_MS: i64 = 6 * 3_600_000;

const INVARIANTS: [(&str, Invariant); 9] = [
    ("ids of databases and tables are never reused", ids_are_never_reused),
    ("names are unique ignoring case", names_are_unique),
    ("every table belongs to a database", tables_lie_in_databases),
    ("ids of columns are never reused", columns_are_never_reused),
    ("no object is referenced twice", objects_are_named_once),
    ("order and clean are not above the version", orders_are_past),
    ("a file's rows belong to its partition", files_lie_in_their_partition),
    ("files belong to existing tables", files_lie_in_tables),
    ("a watermark never goes back", watermarks_never_go_back),
];

/// Checks a draft.
///
/// # Errors
/// [`Kind::Internal`](crate::Kind::Internal), naming the invariant and the violation;
/// [`Kind::Conflict`](crate::Kind::Conflict) for a file written too long ago: the fold or merge must start again.
pub(super) fn check(draft: &Draft, now_ms: i64) -> Result<()> {
    for (name, holds) in INVARIANTS {
        holds(draft.base(), draft).map_err(|found| {
            Error::internal(format!("a commit would break: {name}"))
                .with("version", draft.version())
                .with("found", found)
        })?;
    }
    let added = draft.added();
    for (_, _, files) in draft.changed_files() {
        for file in files.iter().filter(|f| added.contains(&f.id)) {
            let age_ms = now_ms.saturating_sub(file.written_ms);
            if age_ms > OLDEST_FILE_MS {
                return Err(Error::conflict("a file was written too long ago to be committed")
                    .with("file", file.id)
                    .with("expected", format!("at most {OLDEST_FILE_MS} ms"))
                    .with("found", format!("{age_ms} ms")));
            }
        }
    }
    Ok(())
}

fn ids_are_never_reused(base: &Catalog, draft: &Draft) -> Result<(), String> {
    let now = draft.catalog();
    if now.next_database < base.next_database || now.next_table < base.next_table {
        return Err("an id counter decreased".to_owned());
    }
    for id in now.names.databases.keys() {
        let is_new = !base.names.databases.contains_key(id);
        if id.0 >= now.next_database || (is_new && id.0 < base.next_database) {
            return Err(format!("database {}", id.0));
        }
    }
    for id in now.names.tables.keys() {
        let is_new = !base.names.tables.contains_key(id);
        if id.0 >= now.next_table || (is_new && id.0 < base.next_table) {
            return Err(format!("table {}", id.0));
        }
    }
    Ok(())
}

fn names_are_unique(base: &Catalog, draft: &Draft) -> Result<(), String> {
    if std::sync::Arc::ptr_eq(&base.names, &draft.catalog().names) {
        return Ok(());
    }
    let mut seen = BTreeSet::new();
    let names = &draft.catalog().names;
    let databases = names.databases.values().map(|d| (None, d.name.to_ascii_lowercase()));
    let tables = names.tables.values().map(|t| (Some(t.database), t.name.to_ascii_lowercase()));
    match databases.chain(tables).find(|name| !seen.insert(name.clone())) {
        Some((_, name)) => Err(name),
        None => Ok(()),
    }
}

fn tables_lie_in_databases(_: &Catalog, draft: &Draft) -> Result<(), String> {
    let names = &draft.catalog().names;
    match names.tables.values().find(|t| !names.databases.contains_key(&t.database)) {
        Some(table) => Err(format!("table {} ({})", table.id.0, table.name)),
        None => Ok(()),
    }
}

fn columns_are_never_reused(base: &Catalog, draft: &Draft) -> Result<(), String> {
    for table in draft.catalog().names.tables.values() {
        let old = base.table_by_id(table.id);
        if old.is_some_and(|old| std::sync::Arc::ptr_eq(old, table)) {
            continue;
        }
        let mut seen = BTreeSet::new();
        let first_new = old.map_or(0, |old| old.next_column);
        let bad = |id: ColumnId| format!("column {} of table {}", id.0, table.name);
        if table.next_column < first_new || table.columns.first().is_none_or(|c| c.role != Role::Time) {
            return Err(bad(ColumnId::TS));
        }
        for column in &table.columns {
            let before = old.and_then(|old| old.column_by_id(column.id));
            let reused = old.is_some() && before.is_none() && column.id.0 < first_new;
            let changed_role = before.is_some_and(|b| b.role != column.role);
            if column.id.0 >= table.next_column || reused || changed_role || !seen.insert(column.id) {
                return Err(bad(column.id));
            }
        }
    }
    Ok(())
}

fn objects(file: &FileEntry) -> impl Iterator<Item = crate::ids::FileId> {
    [Some(file.data.id), Some(file.tags.id), file.rollup.map(|r| r.id)].into_iter().flatten()
}

fn objects_are_named_once(_: &Catalog, draft: &Draft) -> Result<(), String> {
    for (table, partition, files) in draft.changed_files() {
        let mut ids = BTreeSet::new();
        let mut seen = BTreeSet::new();
        for file in files {
            // Objects of one file may share an id: their keys differ by kind.
            let distinct: BTreeSet<_> = objects(file).collect();
            if !ids.insert(file.id) || distinct.into_iter().any(|id| !seen.insert(id)) {
                return Err(format!("file {} of table {}, partition {partition}", file.id, table.0));
            }
        }
    }
    Ok(())
}

fn orders_are_past(_: &Catalog, draft: &Draft) -> Result<(), String> {
    let version = draft.version();
    let tables = draft.catalog().names.tables.values();
    let mut tombstones = tables.flat_map(|t| t.tombstones.iter().map(move |d| (t.id, d.version)));
    if let Some((table, found)) = tombstones.find(|(_, v)| *v > version) {
        return Err(format!("a tombstone of {found} in table {}", table.0));
    }
    let mut files = draft.changed_files().flat_map(|(_, _, files)| files);
    match files.find(|f| f.order > version || f.clean > version) {
        Some(file) => Err(format!("file {} of order {} and clean {}", file.id, file.order, file.clean)),
        None => Ok(()),
    }
}

fn files_lie_in_their_partition(_: &Catalog, draft: &Draft) -> Result<(), String> {
    let added = draft.added();
    for (table, partition, files) in draft.changed_files() {
        let catalog = draft.catalog();
        let database = catalog.table_by_id(table).and_then(|t| catalog.database_by_id(t.database));
        for file in files.iter().filter(|f| added.contains(&f.id)) {
            let outside = |ts: i64| database.is_some_and(|d| d.partition_of(ts) != partition);
            let wrong = file.min_ts > file.max_ts || outside(file.min_ts) || outside(file.max_ts);
            if file.partition != partition || (file.rows > 0 && wrong) {
                return Err(format!("file {} of {}..={} in partition {partition}", file.id, file.min_ts, file.max_ts));
            }
        }
    }
    Ok(())
}

fn files_lie_in_tables(_: &Catalog, draft: &Draft) -> Result<(), String> {
    let names = &draft.catalog().names;
    let gone = |table: &TableId| !names.tables.contains_key(table);
    let files = draft.changed_files().filter(|(_, _, files)| !files.is_empty()).map(|(table, _, _)| table);
    match files.chain(draft.catalog().partitions.keys().copied()).find(gone) {
        Some(table) => Err(format!("table {}", table.0)),
        None => Ok(()),
    }
}

fn watermarks_never_go_back(base: &Catalog, draft: &Draft) -> Result<(), String> {
    for (old, new) in base.watermarks.iter().zip(&draft.catalog().watermarks) {
        if std::sync::Arc::ptr_eq(old, new) {
            continue;
        }
        for (writer, new) in new.iter() {
            if let Some(old) = old.get(writer)
                && (new.next < old.next
                    || new.time_ms < old.time_ms
                    || new.start_ms != old.start_ms
                    || old.voids.iter().any(|seq| !new.is_void(*seq))
                    || !new.faulty.is_sorted_by(|a, b| a.seq < b.seq))
            {
                return Err(format!("writer {writer}: {old:?}, then {new:?}"));
            }
        }
    }
    Ok(())
}
