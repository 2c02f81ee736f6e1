//! Tables of this node. Each scan reads the current state; they do not depend on a snapshot.

use std::sync::Arc;

use arrow::{
    array::{RecordBatch, StringArray},
    datatypes::{DataType, Field, Schema, SchemaRef},
};
use datafusion::{
    catalog::{TableProvider, streaming::StreamingTable},
    common::Result,
    execution::{SendableRecordBatchStream, TaskContext},
    physical_plan::{stream::RecordBatchStreamAdapter, streaming::PartitionStream},
};
use tidelake_format::access::Principal;

use super::System;

/// A table of this node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Table {
    Queries,
    Connections,
    Variables,
    Functions,
}

impl Table {
    pub(super) const ALL: [Self; 4] = [Table::Queries, Table::Connections, Table::Variables, Table::Functions];

    pub(super) fn name(self) -> &'static str {
        match self {
            Table::Queries => "queries",
            Table::Connections => "connections",
            Table::Variables => "variables",
            Table::Functions => "functions",
        }
    }
}

/// A table with the rows that the principal may see.
pub(super) fn provider(table: Table, system: &System, by: &Principal) -> Result<Arc<dyn TableProvider>> {
    let schema = rows(table, system, by)?.schema();
    let part = Part { table, system: system.clone(), by: by.clone(), schema: schema.clone() };
    Ok(Arc::new(StreamingTable::try_new(schema, vec![Arc::new(part)])?))
}

fn rows(table: Table, system: &System, by: &Principal) -> Result<RecordBatch> {
    Ok(match table {
        Table::Queries => system.queries.table(by)?,
        Table::Connections => system.connections.table(by)?,
        Table::Functions => system.functions.clone(),
        Table::Variables => {
            let fields = ["name", "value"].map(|name| Field::new(name, DataType::Utf8, false));
            let seen = || system.variables.iter().filter(|_| by.is_admin());
            let names = StringArray::from_iter_values(seen().map(|(name, _)| name));
            let values = StringArray::from_iter_values(seen().map(|(_, value)| value));
            RecordBatch::try_new(Arc::new(Schema::new(fields.to_vec())), vec![Arc::new(names), Arc::new(values)])?
        }
    })
}

#[derive(Debug)]
struct Part {
    table: Table,
    system: System,
    by: Principal,
    schema: SchemaRef,
}

impl PartitionStream for Part {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let rows = futures::stream::iter([rows(self.table, &self.system, &self.by)]);
        Box::pin(RecordBatchStreamAdapter::new(self.schema.clone(), rows))
    }
}
