//! Audit log entries of objects that rows create.

use tidelake_format::{access::Deed, meta::Catalog, schema::Database};

use crate::decode::SchemaChange;

/// Detail of objects that a write created, not a statement.
pub(super) const BY_ROWS: &str = "by a write";

/// Deeds for the tables and columns that rows need, that a catalog version lacks, and that are about to be created.
pub(super) fn by_rows(catalog: &Catalog, database: &Database, missing: &[SchemaChange]) -> Vec<Deed> {
    let (mut tables, mut widened, mut columns) = (Vec::new(), Vec::new(), Vec::new());
    for change in missing {
        match change {
            SchemaChange::CreateTable { name, .. } => tables.push(format!("{}.{name}", database.name)),
            SchemaChange::AddColumn { table, name, ty, .. } => {
                let table = catalog.table_by_id(*table).map_or("?", |table| table.name.as_str());
                let object = format!("{}.{table}", database.name);
                if widened.last() != Some(&object) {
                    widened.push(object);
                }
                columns.push(format!("{table}.{name} {ty}"));
            }
        }
    }
    let create = Deed { action: "CREATE TABLE", objects: tables, detail: BY_ROWS.to_owned() };
    let widen = Deed { action: "ADD COLUMN", objects: widened, detail: format!("{BY_ROWS}: {}", columns.join(", ")) };
    [create, widen].into_iter().filter(|deed| !deed.objects.is_empty()).collect()
}
