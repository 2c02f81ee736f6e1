//! The schema `system`: the tables `queries`, `connections`, `variables` and `functions` describe this node; `files`, `manifests` and `log`
//! describe the statement's snapshot, `nodes` the servers of the root.

mod connections;
pub(crate) mod functions;
mod node;
mod nodes;
mod queries;
mod snapshot;

use std::{fmt, sync::Arc};

use arrow::array::RecordBatch;
use async_trait::async_trait;
use datafusion::{
    catalog::{SchemaProvider, TableProvider},
    common::Result as DfResult,
};
use tidelake_format::access::Principal;

pub use connections::{Connection, Connections};
pub use queries::Load;
pub(crate) use queries::{Queries, Underway};

use crate::tracked::Tracking;

/// The schema's name.
pub(crate) const SYSTEM: &str = "system";

/// Running queries, connections and settings of this node. Cheap to clone.
#[derive(Clone)]
pub(crate) struct System {
    pub(crate) queries: Queries,
    pub(crate) tracking: Tracking,
    pub(crate) connections: Connections,
    variables: Arc<Vec<(String, String)>>,
    functions: RecordBatch,
}

impl fmt::Debug for System {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("System").finish_non_exhaustive()
    }
}

impl System {
    /// Creates the state of a node without connections; `functions` are the rows of the table of that name.
    pub(crate) fn new(queries: Queries, variables: Vec<(String, String)>, functions: RecordBatch) -> Self {
        Self {
            queries,
            tracking: Tracking::default(),
            connections: Connections::default(),
            variables: Arc::new(variables),
            functions,
        }
    }

    /// The schema as a principal may see it: users see their own entries, administrators all.
    pub(crate) fn seen_by(&self, principal: &Principal) -> Arc<dyn SchemaProvider> {
        Arc::new(Seen { system: self.clone(), by: principal.clone() })
    }
}

#[derive(Debug)]
struct Seen {
    system: System,
    by: Principal,
}

#[async_trait]
impl SchemaProvider for Seen {
    fn table_names(&self) -> Vec<String> {
        let of_node = node::Table::ALL.map(node::Table::name).into_iter();
        of_node.chain(snapshot::Table::ALL.map(snapshot::Table::name)).chain([nodes::NAME]).map(str::to_owned).collect()
    }

    async fn table(&self, name: &str) -> DfResult<Option<Arc<dyn TableProvider>>> {
        if let Some(table) = node::Table::ALL.into_iter().find(|table| table.name() == name) {
            return node::provider(table, &self.system, &self.by).map(Some);
        }
        if name == nodes::NAME {
            return nodes::provider().map(Some);
        }
        let table = snapshot::Table::ALL.into_iter().find(|table| table.name() == name);
        Ok(table.map(|table| Arc::new(snapshot::Provider::new(table)) as _))
    }

    fn table_exist(&self, name: &str) -> bool {
        self.table_names().iter().any(|known| known == name)
    }
}
