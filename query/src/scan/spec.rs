//! A serializable scan: another process over the same root rebuilds it from its bytes and reads the same rows.

mod terms;

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

use self::terms::Terms;
use super::{
    exec::SeriesScan,
    filters::TimeRange,
    predicate::is_on_rows,
    provider::{Scope, SeriesTable, Wanted},
    series::United,
    view::View,
};
use crate::error::from_datafusion;

/// Version of the encoding that this version of Tidelake writes and reads.
const FORMAT: u32 = 2;

/// Maximum bytes of a spec: the names of about a million series.
const MOST_BYTES: usize = 64 << 20;

/// Describes a scan: the rows of some series of one table, in a time range, that pass some filters, of one snapshot.
///
/// The reading process decides the order of the rows and their division into batches and partitions, and with a limit
/// also which rows are returned.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScanSpec {
    format: u32,
    snapshot: SnapshotId,
    table: TableId,
    /// Columns of the result; [`ColumnId::TBNAME`] is the name of the series.
    columns: Vec<ColumnId>,
    range: TimeRange,
    series: Chosen,
    filters: Terms,
    limit: Option<usize>,
}

/// Series to read, by name: ranks depend on what a process has read before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Chosen {
    All,
    Only(Vec<String>),
    AllBut(Vec<String>),
}

impl ScanSpec {
    /// Encodes the spec as JSON.
    ///
    /// # Errors
    /// Internal; not expected.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        serde_json::to_vec(self).map_err(|e| Error::internal("cannot encode the scan as JSON").source(e))
    }

    /// Decodes a spec.
    ///
    /// # Errors
    /// Unsupported for the bytes of another version of Tidelake, Invalid for anything else that is not a spec.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        if bytes.len() > MOST_BYTES {
            return Err(Error::invalid("encoded scan is too long")
                .with("limit", MOST_BYTES)
                .with("found", bytes.len()));
        }
        #[derive(Deserialize)]
        struct Any {
            format: u32,
        }
        let unread = |e| Error::invalid("invalid encoded scan").with("expected", "JSON of a ScanSpec").source(e);
        let Any { format } = serde_json::from_slice(bytes).map_err(unread)?;
        if format != FORMAT {
            return Err(Error::unsupported("the scan was written by another version of Tidelake")
                .with("expected_format", FORMAT)
                .with("found_format", format));
        }
        serde_json::from_slice(bytes).map_err(unread)
    }

    /// Maximum number of rows; `None` = all.
    pub(crate) fn limit(&self) -> Option<usize> {
        self.limit
    }

    /// The snapshot to read.
    pub fn snapshot(&self) -> &SnapshotId {
        &self.snapshot
    }

    /// Describes a scan planned on a snapshot.
    ///
    /// # Errors
    /// Internal; not expected.
    pub(crate) fn of(scan: &SeriesScan, snapshot: &Snapshot) -> Result<Self> {
        let reading = scan.reading();
        let filters = match &reading.predicate {
            None => Terms::default(),
            Some(predicate) => {
                let table = snapshot.catalog.table_by_id(reading.table);
                let table = table.ok_or_else(|| Error::internal("table of a planned scan is not in its snapshot"))?;
                Terms::of(predicate.filters(), table)?
            }
        };
        let id =
            |field: &Arc<arrow::datatypes::Field>| field_id(field).expect("output columns are made with their ids");
        Ok(Self {
            format: FORMAT,
            snapshot: snapshot.id(),
            table: reading.table,
            columns: scan.schema().fields().iter().map(id).collect(),
            range: reading.range,
            series: Chosen::of(reading.wanted.as_ref(), &reading.sources.united.series),
            filters,
            limit: scan.limit(),
        })
    }

    /// Opens the scan on a view of its snapshot.
    ///
    /// # Errors
    /// NotFound if the snapshot lacks the table; Forbidden if the view's principal may not read it; Invalid for columns
    /// and series that the table lacks; those of the store.
    pub(crate) async fn open(&self, view: &View, state: &dyn Session) -> Result<SeriesScan> {
        let catalog = &view.snapshot.catalog;
        let missing = || {
            Error::not_found("table of the scan not found in its snapshot")
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
        let filters = self.filters.filters(table)?;
        if let Some(other) = filters.iter().find(|filter| !is_on_rows(filter, table)) {
            return Err(Error::invalid("the scan cannot apply a filter")
                .with("table", &table.name)
                .with("found", other));
        }
        let wanted = Wanted { columns, series, range: self.range, filters, limit: self.limit };
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
