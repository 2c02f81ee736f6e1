//! Counts of accepted rows by protocol, and of stored rows by table, since the start of the process.

use metrics::{Counter, counter};
use parking_lot::Mutex;
use tidelake_format::ids::TableId;

use crate::{decode::Protocol, metrics::PROTOCOL_ROWS};

/// Most tables whose rows are counted; rows of later tables are not.
const TABLES: usize = 10_000;

/// The counts of a process.
#[derive(Debug)]
pub(crate) struct Activity {
    /// By [`Protocol`]; looked up once, because each request updates one.
    protocols: [Counter; 4],
    tables: Mutex<hashbrown::HashMap<TableId, u64>>,
}

impl Activity {
    pub(crate) fn new() -> Self {
        let protocols = ["influxdb", "opentsdb", "sql", "arrow"];
        Self { protocols: protocols.map(|name| counter!(PROTOCOL_ROWS, "protocol" => name)), tables: Mutex::default() }
    }

    /// Counts rows that a request of this protocol brought and that were accepted.
    pub(crate) fn accepted(&self, protocol: Protocol, rows: u64) {
        self.protocols[protocol as usize].increment(rows);
    }

    /// Counts rows of tables that are in the store now.
    pub(crate) fn stored(&self, rows: impl IntoIterator<Item = (TableId, u64)>) {
        let mut tables = self.tables.lock();
        for (table, rows) in rows {
            let known = tables.len();
            match tables.get_mut(&table) {
                Some(sum) => *sum += rows,
                None if known < TABLES => drop(tables.insert(table, rows)),
                None => {}
            }
        }
    }

    /// Rows stored by table, the most first.
    pub(crate) fn by_table(&self) -> Vec<(TableId, u64)> {
        let mut tables: Vec<(TableId, u64)> = self.tables.lock().iter().map(|(id, rows)| (*id, *rows)).collect();
        tables.sort_unstable_by_key(|(id, rows)| (std::cmp::Reverse(*rows), *id));
        tables
    }
}

#[cfg(test)]
mod tests {
    use tidelake_format::store::Store;

    use crate::{
        testing::{config, nano},
        write::{Durability, tests::line},
    };

    #[tokio::test]
    async fn rows_are_counted_for_their_table_once_they_are_stored() {
        let ingest = nano(&Store::in_memory(), config()).await;
        for text in ["a v=1 1\na v=1 2\nb v=1 1", "b v=2 2"] {
            line(&ingest, text, Durability::Stored).await.unwrap();
        }
        let catalog = ingest.root().refresh().await.unwrap();
        let name = |id| catalog.table_by_id(id).unwrap().name.clone();
        let counted: Vec<(String, u64)> =
            ingest.rows_by_table().into_iter().map(|(id, rows)| (name(id), rows)).collect();
        assert_eq!(counted, [("a".to_owned(), 2), ("b".to_owned(), 2)]);
    }
}
