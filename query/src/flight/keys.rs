//! Schemas and rows of the key commands: a supertable's key is (tbname, ts); there are no foreign keys.

use std::sync::{Arc, LazyLock};

use arrow::{
    array::{Int32Array, RecordBatch, StringArray},
    datatypes::{DataType, Field, Schema, SchemaRef},
};
use tidelake_format::{
    Result,
    schema::{Supertable, TBNAME},
};
use tidelake_protocol::CATALOG;

/// The schema of GetPrimaryKeys, as in the specification.
pub(super) static PRIMARY: LazyLock<SchemaRef> = LazyLock::new(|| {
    schema([
        ("catalog_name", DataType::Utf8, true),
        ("db_schema_name", DataType::Utf8, true),
        ("table_name", DataType::Utf8, false),
        ("column_name", DataType::Utf8, false),
        ("key_sequence", DataType::Int32, false),
        ("key_name", DataType::Utf8, true),
    ])
});

/// The schema of GetImportedKeys, GetExportedKeys and GetCrossReference.
pub(super) static FOREIGN: LazyLock<SchemaRef> = LazyLock::new(|| {
    schema([
        ("pk_catalog_name", DataType::Utf8, true),
        ("pk_db_schema_name", DataType::Utf8, true),
        ("pk_table_name", DataType::Utf8, false),
        ("pk_column_name", DataType::Utf8, false),
        ("fk_catalog_name", DataType::Utf8, true),
        ("fk_db_schema_name", DataType::Utf8, true),
        ("fk_table_name", DataType::Utf8, false),
        ("fk_column_name", DataType::Utf8, false),
        ("key_sequence", DataType::Int32, false),
        ("fk_key_name", DataType::Utf8, true),
        ("pk_key_name", DataType::Utf8, true),
        ("update_rule", DataType::UInt8, false),
        ("delete_rule", DataType::UInt8, false),
    ])
});

fn schema<const N: usize>(fields: [(&str, DataType, bool); N]) -> SchemaRef {
    let fields = fields.into_iter().map(|(name, data_type, nullable)| Field::new(name, data_type, nullable));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// The key columns of tables, given with their database names: two rows per table.
pub(super) fn primary_keys<'a>(tables: impl Iterator<Item = (&'a str, &'a Supertable)>) -> Result<RecordBatch> {
    let keys: Vec<(&str, &Supertable, &str, i32)> = tables
        .flat_map(|(database, table)| [(database, table, TBNAME, 1), (database, table, table.time().name.as_str(), 2)])
        .collect();
    Ok(RecordBatch::try_new(
        PRIMARY.clone(),
        vec![
            Arc::new(StringArray::from_iter_values(keys.iter().map(|_| CATALOG))),
            Arc::new(StringArray::from_iter_values(keys.iter().map(|k| k.0))),
            Arc::new(StringArray::from_iter_values(keys.iter().map(|k| k.1.name.as_str()))),
            Arc::new(StringArray::from_iter_values(keys.iter().map(|k| k.2))),
            Arc::new(Int32Array::from_iter_values(keys.iter().map(|k| k.3))),
            Arc::new(StringArray::from_iter(keys.iter().map(|_| None::<&str>))),
        ],
    )?)
}
