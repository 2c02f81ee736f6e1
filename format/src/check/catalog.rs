//! Consistency of databases, tables and series within the newest version.

use std::collections::BTreeSet;

use crate::{layout, meta::Catalog, schema::Role};

use super::{CheckReport, Finding};

/// Checks names, ids, columns, overrides and tombstones.
pub(super) fn check(catalog: &Catalog, report: &mut CheckReport) {
    let key = layout::meta_key(catalog.version);
    let mut fault = |what: &str, found: String| report.fault(Finding::new(&key, what).found(found));
    let mut names = BTreeSet::new();
    for database in catalog.databases() {
        if !names.insert((None, database.name.to_ascii_lowercase())) {
            fault("two databases of one name", database.name.clone());
        }
        if database.keep_ms <= 0 || database.partition_ms <= 0 {
            fault("a database keeps rows for no time, or has partitions of no length", database.name.clone());
        }
    }
    for table in catalog.all_tables() {
        let of = |what: &str| format!("{what} of table {} ({})", table.name, table.id.0);
        if catalog.database_by_id(table.database).is_none() {
            fault("a table lies in no database", of(&format!("database {}", table.database.0)));
        }
        if !names.insert((Some(table.database), table.name.to_ascii_lowercase())) {
            fault("two tables of one name", of("name"));
        }
        let mut ids = BTreeSet::new();
        for (i, column) in table.columns.iter().enumerate() {
            if !ids.insert(column.id) || column.id.0 >= table.next_column {
                fault("an id of a column is used twice or not given out yet", of(&format!("column {}", column.id.0)));
            }
            if (i == 0) != (column.role == Role::Time) {
                fault("the first column, and no other, is the time", of(&column.name));
            }
        }
        for (series, tags) in &table.overrides {
            let unknown = tags.keys().find(|id| table.column_by_id(**id).is_none_or(|c| c.role != Role::Tag));
            if let Some(id) = unknown {
                fault("an override of something that is no tag", of(&format!("column {} of series {series}", id.0)));
            }
        }
        for tombstone in &table.tombstones {
            if tombstone.version > catalog.version || tombstone.range.0 > tombstone.range.1 {
                let (first, last) = tombstone.range;
                fault(
                    "a tombstone of the future, or of no time",
                    of(&format!("{} {first}..={last}", tombstone.version)),
                );
            }
        }
    }
    for (table, _) in catalog.all_partitions() {
        if catalog.table_by_id(table).is_none() {
            fault("partitions of a table that does not exist", format!("table {}", table.0));
        }
    }
}
