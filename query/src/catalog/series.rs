//! `information_schema.ins_tables` and `ins_tags`: rows for each series, of which a table may have millions. Names and values are those
//! of the tag manifests, without a copy where the types allow it; only the columns of a statement are made.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, StringArray, new_null_array},
    compute::cast,
    datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit},
};
use datafusion::{common::ScalarValue, error::Result};
use tidelake_format::{
    rows::SeriesSet,
    schema::{Column, Database, Supertable},
};

use super::CatalogInfo;
use crate::{conditions::Equalities, error::to_datafusion};

/// A table with rows for each series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Listed {
    /// One row a series.
    Tables,
    /// One row for each tag of each series.
    Tags,
}

/// The series of a table of the catalog, with one of their tags.
struct Part<'a> {
    database: &'a Database,
    table: &'a Supertable,
    set: &'a SeriesSet,
    tag: Option<&'a Column>,
}

impl Listed {
    /// The table of this name.
    pub(super) fn of(name: &str) -> Option<Self> {
        match name {
            "ins_tables" => Some(Listed::Tables),
            "ins_tags" => Some(Listed::Tags),
            _ => None,
        }
    }

    pub(super) fn schema(self) -> SchemaRef {
        let of = |names: &[&str], ty: DataType| {
            names.iter().map(|name| Field::new(*name, ty.clone(), true)).collect::<Vec<_>>()
        };
        let fields = match self {
            Listed::Tables => [
                of(&["table_name", "db_name", "stable_name", "type", "table_comment"], DataType::Utf8),
                of(&["columns", "uid", "vgroup_id", "ttl"], DataType::Int64),
                of(&["create_time"], DataType::Timestamp(TimeUnit::Millisecond, None)),
            ]
            .concat(),
            Listed::Tags => {
                of(&["table_name", "db_name", "stable_name", "tag_name", "tag_type", "tag_value"], DataType::Utf8)
            }
        };
        Arc::new(Schema::new(fields))
    }

    /// The rows that may meet the equalities, with the columns of a projection and their schema: one batch for the series of a
    /// table, or for one tag of these.
    ///
    /// # Errors
    /// Those of reading tag manifests and the tail of the log.
    pub(super) async fn rows(
        self,
        info: &dyn CatalogInfo,
        equal: &Equalities<'_>,
        projection: Option<&Vec<usize>>,
    ) -> Result<(SchemaRef, Vec<RecordBatch>)> {
        let schema = match projection {
            Some(chosen) => Arc::new(self.schema().project(chosen)?),
            None => self.schema(),
        };
        let mut batches = Vec::new();
        for database in info.databases().iter().filter(|database| equal.allow("db_name", &database.name)) {
            for table in info.tables(database.id).iter().filter(|table| equal.allow("stable_name", &table.name)) {
                for set in &info.series(table).await.map_err(to_datafusion)? {
                    for tag in self.tags(table, equal) {
                        batches.push(Part { database, table, set, tag }.batch(&schema)?);
                    }
                }
            }
        }
        Ok((schema, batches))
    }

    /// The tags whose values have rows; `None` for rows of series.
    fn tags<'a>(self, table: &'a Supertable, equal: &Equalities<'_>) -> Vec<Option<&'a Column>> {
        match self {
            Listed::Tables => vec![None],
            Listed::Tags => table.tags().filter(|tag| equal.allow("tag_name", &tag.name)).map(Some).collect(),
        }
    }
}

impl Part<'_> {
    fn batch(&self, schema: &SchemaRef) -> Result<RecordBatch> {
        let columns = schema.fields().iter().map(|field| self.column(field)).collect::<Result<_>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(self.set.len()));
        Ok(RecordBatch::try_new_with_options(schema.clone(), columns, &options)?)
    }

    /// A column of the rows. Those without a value in Tidelake are NULL.
    fn column(&self, field: &Field) -> Result<ArrayRef> {
        let names = self.set.names();
        let constant = match (field.name().as_str(), self.tag) {
            ("table_name", _) => return Ok(Arc::new(names.clone())),
            ("tag_value", Some(tag)) => {
                let values = self.set.tag(tag.id).map(|values| cast(values, &DataType::Utf8)).transpose()?;
                return Ok(values.unwrap_or_else(|| new_null_array(&DataType::Utf8, names.len())));
            }
            ("tag_name", Some(tag)) => ScalarValue::from(tag.name.as_str()),
            ("tag_type", Some(tag)) => ScalarValue::from(tag.ty.to_string()),
            ("db_name", _) => ScalarValue::from(self.database.name.as_str()),
            ("stable_name", None) if self.table.tags().next().is_none() => {
                return Ok(self.by_name(None, Some(&self.table.name)));
            }
            ("type", None) if self.table.tags().next().is_none() => {
                return Ok(self.by_name(Some("NORMAL_TABLE"), Some("CHILD_TABLE")));
            }
            ("stable_name", _) => ScalarValue::from(self.table.name.as_str()),
            ("type", _) => ScalarValue::from("CHILD_TABLE"),
            ("columns", _) => ScalarValue::from((self.table.columns.len() - self.table.tags().count()) as i64),
            _ => return Ok(new_null_array(field.data_type(), names.len())),
        };
        constant.to_array_of_size(names.len())
    }

    /// A text for a series with the name of the table, which is TDengine's table that no supertable has, and one for others.
    fn by_name(&self, normal: Option<&str>, child: Option<&str>) -> ArrayRef {
        let of = |name: Option<&str>| if name == Some(&self.table.name) { normal } else { child };
        Arc::new(self.set.names().iter().map(of).collect::<StringArray>())
    }
}
