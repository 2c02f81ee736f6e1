//! Checks the consistency of databases, tables and columns within the newest version.

use std::collections::BTreeSet;

use crate::{layout, meta::Catalog, schema::Role};

use super::{CheckReport, Finding};

/// Checks names, retention, IDs, columns, tag overrides, tombstones and the tables of partitions.
pub(super) fn check(catalog: &Catalog, report: &mut CheckReport) {
    let key = layout::meta_key(catalog.version);
    let mut fault = |what: &str, found: String| report.fault(Finding::new(&key, what).found(found));
    let mut names = BTreeSet::new();
    for database in catalog.databases() {
        if !names.insert((None, database.name.to_ascii_lowercase())) {
            fault("duplicate database name", database.name.clone());
        }
        if database.keep_ms <= 0 || database.partition_ms <= 0 {
            fault("database has a retention or partition length of 0 or less", database.name.clone());
        }
    }
    for table in catalog.all_tables() {
        let of = |what: &str| format!("{what} of table {} ({})", table.name, table.id.0);
        if catalog.database_by_id(table.database).is_none() {
            fault("table belongs to a database that does not exist", of(&format!("database {}", table.database.0)));
        }
        if !names.insert((Some(table.database), table.name.to_ascii_lowercase())) {
            fault("duplicate table name", of("name"));
        }
        let mut ids = BTreeSet::new();
        for (i, column) in table.columns.iter().enumerate() {
            if !ids.insert(column.id) || column.id.0 >= table.next_column {
                fault("column ID is used twice or not assigned yet", of(&format!("column {}", column.id.0)));
            }
            if (i == 0) != (column.role == Role::Time) {
                fault("time column is not the first column, or there are several", of(&column.name));
            }
        }
        for (series, tags) in &table.overrides {
            let unknown = tags.keys().find(|id| table.column_by_id(**id).is_none_or(|c| c.role != Role::Tag));
            if let Some(id) = unknown {
                fault("tag override of a column that is not a tag", of(&format!("column {} of series {series}", id.0)));
            }
        }
        for tombstone in &table.tombstones {
            if tombstone.version > catalog.version || tombstone.range.0 > tombstone.range.1 {
                let (first, last) = tombstone.range;
                fault(
                    "tombstone has a future version or an empty time range",
                    of(&format!("{} {first}..={last}", tombstone.version)),
                );
            }
        }
    }
    for (table, _) in catalog.all_partitions() {
        if catalog.table_by_id(table).is_none() {
            fault("partition of a table that does not exist", format!("table {}", table.0));
        }
    }
}
