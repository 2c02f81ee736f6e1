//! A supertable, or one series of it, as a DataFusion table.

use std::sync::Arc;

use arrow::{
    array::BooleanArray,
    datatypes::{FieldRef, Fields, Schema, SchemaRef},
};
use async_trait::async_trait;
use datafusion::{
    catalog::{Session, TableProvider},
    common::{DataFusionError, Result},
    datasource::TableType,
    logical_expr::{Expr, TableProviderFilterPushDown},
    physical_plan::ExecutionPlan,
};
use tidelake_format::{
    Error, Reason,
    ids::ColumnId,
    rows::tbname_field,
    schema::{Database, Role, Supertable, arrow_field, field_id},
};

use super::{
    exec::SeriesScan,
    filters::{TimeRange, Use, classify, select, with_any_values},
    output::OutputColumn,
    predicate::{Predicate, is_on_rows},
    read::{Columns, Reading},
    reader::Sources,
    select::Selection,
    view::View,
};
use crate::{
    error::to_datafusion,
    wire::{describe, mark_tag},
};

/// Which rows of a supertable a table contains.
#[derive(Debug, Clone)]
pub(crate) enum Scope {
    /// Rows of every series.
    Supertable,
    /// Rows of the series with this exact name.
    Series(Arc<str>),
}

/// Inputs of a scan.
pub(super) struct Wanted {
    /// Indexes in the table's schema, in the order of the result.
    pub(super) columns: Vec<usize>,
    /// Series by rank; `None` = all.
    pub(super) series: Option<BooleanArray>,
    /// Time range.
    pub(super) range: TimeRange,
    /// Filters on rows, all of which must hold.
    pub(super) filters: Vec<Expr>,
    /// Maximum number of rows, if limited.
    pub(super) limit: Option<usize>,
}

/// The table that queries see: ts (not null), fields, tags, and `tbname` (Utf8, not null) last.
///
/// Every field carries its id and the name of its type; text is Utf8. Output is not ordered. The table is not bound to
/// a snapshot: a scan reads the snapshot of the session state it is planned with.
#[derive(Debug)]
pub(crate) struct SeriesTable {
    database: Arc<Database>,
    table: Arc<Supertable>,
    scope: Scope,
    schema: SchemaRef,
}

impl SeriesTable {
    pub(crate) fn new(database: Arc<Database>, table: Arc<Supertable>, scope: Scope) -> Self {
        let precision = database.precision;
        let columns = table.columns.iter().map(|c| {
            let field = describe(arrow_field(c, precision), c.ty, precision);
            if c.role == Role::Tag { mark_tag(field) } else { field }
        });
        let name = mark_tag(tbname_field().as_ref().clone());
        let schema = Arc::new(Schema::new(columns.chain([name]).collect::<Vec<_>>()));
        Self { database, table, scope, schema }
    }

    /// The table in the snapshot: it may have more columns by now, but the columns of this plan must be unchanged.
    fn current(&self, view: &View) -> tidelake_format::Result<Arc<Supertable>> {
        let current = view.snapshot.catalog.table_by_id(self.table.id).cloned().ok_or_else(|| {
            Error::not_found("the table was dropped after the statement was planned")
                .because(Reason::TableNotFound)
                .with("table", &self.table.name)
        })?;
        // Planning checked the right of the planning principal; the principal that runs the plan needs it too.
        view.visible.check(&self.database.name)?;
        for column in &self.table.columns {
            if current.column_by_id(column.id) != Some(column) {
                return Err(Error::conflict("a column was changed after the statement was planned: plan it again")
                    .with("table", &self.table.name)
                    .with("column", &column.name));
            }
        }
        Ok(current)
    }

    async fn plan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<SeriesScan> {
        let view = state.config().get_extension::<View>().ok_or_else(|| {
            DataFusionError::Internal("table scanned outside of a statement of the query engine".to_owned())
        })?;
        let table = self.current(&view).map_err(to_datafusion)?;
        let mut range = TimeRange::ALL;
        let (mut on_series, mut on_rows) = (Vec::new(), Vec::new());
        for filter in filters {
            match classify(filter, &self.table, self.database.precision) {
                Use::Time(bound) => range = range.and(bound),
                Use::Tags => on_series.push(filter),
                // Only those that a scan can apply were pushed to it.
                Use::Rows => on_rows.push(filter.clone()),
            }
        }
        let sources = view.reader.sources(&view.snapshot, &table, range).await.map_err(to_datafusion)?;
        let series = &sources.united.series;
        let mut wanted = select(state, &on_series, series)?;
        if let Scope::Series(name) = &self.scope {
            let rank = sources.united.rank(name);
            let chosen = |i: usize| rank == Some(i as u32) && wanted.as_ref().is_none_or(|w| w.value(i));
            wanted = Some(BooleanArray::from_iter((0..series.len()).map(|i| Some(chosen(i)))));
        }
        let all: Vec<usize> = (0..self.schema.fields().len()).collect();
        let columns = projection.cloned().unwrap_or(all);
        self.open(&view, state, &table, sources, Wanted { columns, series: wanted, range, filters: on_rows, limit })
    }

    /// Columns of the table.
    pub(super) fn columns(&self) -> &Fields {
        self.schema.fields()
    }

    /// Opens the scan of `wanted` over the sources of that time range; `table` is this table in the snapshot.
    pub(super) fn open(
        &self,
        view: &View,
        state: &dyn Session,
        table: &Supertable,
        sources: Sources,
        wanted: Wanted,
    ) -> Result<SeriesScan> {
        let Wanted { columns, series: wanted, range, filters, limit } = wanted;
        let predicate = Predicate::new(filters, self.schema.fields(), state)?;
        let selection = Selection::new(&sources.list, sources.united.series.len(), wanted.as_ref(), range);
        let series = &sources.united.series;
        let schema = Arc::new(self.schema.project(&columns)?);
        let mut data: Vec<FieldRef> = Vec::new();
        let mut output = Vec::with_capacity(columns.len());
        for field in schema.fields() {
            let id = field_id(field).expect("the schema was made with ids");
            output.push(match self.table.column_by_id(id).map(|c| c.role) {
                None if id == ColumnId::TBNAME => OutputColumn::Series(series.batch().column(0).clone()),
                Some(Role::Tag) => {
                    let values = series.tag(id).cloned();
                    let null = || arrow::array::new_null_array(field.data_type(), series.len());
                    OutputColumn::Series(values.unwrap_or_else(null))
                }
                _ => {
                    data.push(field.clone());
                    OutputColumn::Data(data.len() - 1)
                }
            });
        }
        let time = Arc::new(arrow_field(table.time(), self.database.precision));
        let name = format!("{}.{}", self.database.name, table.name);
        let reading = Reading {
            reader: view.reader.clone(),
            memory: state.runtime_env().memory_pool.clone(),
            name,
            table: table.id,
            sources,
            wanted,
            selection,
            time,
            range,
            predicate,
            answered: None,
        };
        let partitions = state.config().target_partitions();
        Ok(SeriesScan::new(Arc::new(reading), Columns::new(data), output, schema, partitions, limit))
    }
}

#[async_trait]
impl TableProvider for SeriesTable {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        let of = |filter: &&Expr| {
            let filter = with_any_values(filter)?;
            Ok(match classify(&filter, &self.table, self.database.precision) {
                Use::Tags | Use::Time(_) => TableProviderFilterPushDown::Exact,
                Use::Rows if is_on_rows(&filter, &self.table) => TableProviderFilterPushDown::Exact,
                Use::Rows => TableProviderFilterPushDown::Unsupported,
            })
        };
        filters.iter().map(of).collect()
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(self.plan(state, projection, filters, limit).await?))
    }
}
