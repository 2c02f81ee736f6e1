//! A scan as a value: another process over the same root makes it again from its bytes, and reads the same rows.

use std::{fmt, sync::Arc};

use arrow::{array::BooleanArray, buffer::BooleanBuffer};
use datafusion::{catalog::Session, physical_plan::ExecutionPlan};
use serde::{Deserialize, Serialize};
use tidelake_format::{
    Error, Reason, Result,
    ids::{ColumnId, TableId},
    rows::SeriesSet,
    schema::field_id,
    snapshot::{Snapshot, SnapshotId},
};

use super::{
    exec::SeriesScan,
    filters::TimeRange,
    provider::{Scope, SeriesTable, Wanted},
    series::United,
    view::View,
};
use crate::error::from_datafusion;

/// The form of the bytes that this version of Tidelake writes and reads.
const FORMAT: u32 = 1;

/// The most bytes of a spec: the names of about a million series.
const MOST_BYTES: usize = 64 << 20;

/// What a scan reads: the rows of some series of one table, in a range of time, of one snapshot.
///
/// The order of the rows, and how they are divided into batches and partitions, is up to the process that reads them. With a
/// limit, so are the rows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScanSpec {
    format: u32,
    snapshot: SnapshotId,
    table: TableId,
    /// The columns of the result; [`ColumnId::TBNAME`] is the name of the series.
    columns: Vec<ColumnId>,
    range: TimeRange,
    series: Chosen,
    limit: Option<usize>,
}

/// The series that a scan reads, by name: their ranks depend on what a process has read before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Chosen {
    All,
    Only(Vec<String>),
    AllBut(Vec<String>),
}

impl ScanSpec {
    /// The bytes of the spec: JSON.
    ///
    /// # Errors
    /// Internal: none is expected.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        serde_json::to_vec(self).map_err(|e| Error::internal("a scan cannot be written as JSON").source(e))
    }

    /// The spec of some bytes.
    ///
    /// # Errors
    /// Unsupported for the bytes of a later version of Tidelake, Invalid for any others that are no spec.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        if bytes.len() > MOST_BYTES {
            return Err(Error::invalid("these bytes are too many for a scan")
                .with("limit", MOST_BYTES)
                .with("found", bytes.len()));
        }
        #[derive(Deserialize)]
        struct Any {
            format: u32,
        }
        let unread = |e| Error::invalid("these bytes are no scan").with("expected", "JSON of a ScanSpec").source(e);
        let Any { format } = serde_json::from_slice(bytes).map_err(unread)?;
        if format != FORMAT {
            return Err(Error::unsupported("the scan was written by another version of Tidelake")
                .with("expected_format", FORMAT)
                .with("found_format", format));
        }
        serde_json::from_slice(bytes).map_err(unread)
    }

    /// The most rows that are wanted; `None` for all.
    pub(crate) fn limit(&self) -> Option<usize> {
        self.limit
    }

    /// The snapshot whose rows it reads.
    pub fn snapshot(&self) -> &SnapshotId {
        &self.snapshot
    }

    /// The spec of a scan that was planned on a snapshot.
    pub(crate) fn of(scan: &SeriesScan, snapshot: &Snapshot) -> Self {
        let reading = scan.reading();
        let id =
            |field: &Arc<arrow::datatypes::Field>| field_id(field).expect("output columns are made with their ids");
        Self {
            format: FORMAT,
            snapshot: snapshot.id(),
            table: reading.table,
            columns: scan.schema().fields().iter().map(id).collect(),
            range: reading.range,
            series: Chosen::of(reading.wanted.as_ref(), &reading.sources.united.series),
            limit: scan.limit(),
        }
    }

    /// The scan, on a view of its snapshot.
    ///
    /// # Errors
    /// NotFound where the snapshot has no such table; Forbidden where the view's principal may not read it; Invalid for columns
    /// and series that the table does not have; those of the store.
    pub(crate) async fn open(&self, view: &View, state: &dyn Session) -> Result<SeriesScan> {
        let catalog = &view.snapshot.catalog;
        let missing = || {
            Error::not_found("the snapshot of the scan has no such table")
                .because(Reason::TableNotFound)
                .with("table", self.table.0)
                .with("version", catalog.version)
        };
        let table = catalog.table_by_id(self.table).ok_or_else(missing)?;
        let database = catalog.database_by_id(table.database).ok_or_else(missing)?;
        view.visible.check(&database.name)?;
        let whole = SeriesTable::new(database.clone(), table.clone(), Scope::Supertable);
        let fields = whole.columns();
        let place = |id: &ColumnId| {
            fields.iter().position(|field| field_id(field) == Some(*id)).ok_or_else(|| {
                Error::invalid("a column of the scan is not in its table")
                    .with("table", &table.name)
                    .with("column", id.0)
            })
        };
        if self.columns.len() > fields.len() {
            return Err(Error::invalid("the scan has more columns than its table")
                .with("table", &table.name)
                .with("expected", fields.len())
                .with("found", self.columns.len()));
        }
        let columns = self.columns.iter().map(place).collect::<Result<Vec<usize>>>()?;
        let sources = view.reader.sources(&view.snapshot, table, self.range).await?;
        let series = self.series.among(&sources.united)?;
        let wanted = Wanted { columns, series, range: self.range, limit: self.limit };
        whole.open(view, state, table, sources, wanted).map_err(from_datafusion)
    }
}

impl fmt::Display for ScanSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "scan of table {} at {}", self.table.0, self.snapshot.version)
    }
}

impl Chosen {
    fn of(wanted: Option<&BooleanArray>, series: &SeriesSet) -> Self {
        let Some(wanted) = wanted else { return Self::All };
        let are_few = wanted.true_count() * 2 <= wanted.len();
        let listed = (0..wanted.len()).filter(|rank| wanted.value(*rank) == are_few);
        let names = listed.map(|rank| series.names().value(rank).to_owned()).collect();
        if are_few { Self::Only(names) } else { Self::AllBut(names) }
    }

    fn among(&self, united: &United) -> Result<Option<BooleanArray>> {
        let (names, are_listed) = match self {
            Self::All => return Ok(None),
            Self::Only(names) => (names, true),
            Self::AllBut(names) => (names, false),
        };
        let mut wanted = vec![!are_listed; united.series.len()];
        for name in names {
            let rank = united
                .rank(name)
                .ok_or_else(|| Error::invalid("a series of the scan is not in its snapshot").with("series", name))?;
            wanted[rank as usize] = are_listed;
        }
        Ok(Some(BooleanArray::new(BooleanBuffer::from(wanted), None)))
    }
}
