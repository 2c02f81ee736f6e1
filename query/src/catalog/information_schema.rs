//! The schema `information_schema`: the catalog's contents as tables.

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, Int64Array, RecordBatch, StringArray, TimestampMillisecondArray},
    datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit},
};
use async_trait::async_trait;
use datafusion::{
    catalog::{SchemaProvider, Session, TableProvider},
    datasource::{TableType, memory::MemorySourceConfig},
    error::Result as DfResult,
    logical_expr::{Expr, TableProviderFilterPushDown},
    physical_plan::ExecutionPlan,
};
use tidelake_format::{
    Error, Result,
    access::{Grants, Scope, User},
    ids::DatabaseId,
    rows::SeriesSet,
    schema::{Database, Role, Supertable},
    types::Type,
};
use tidelake_protocol::CATALOG;

use super::{CatalogInfo, CurrentCatalog, INFORMATION_SCHEMA, series::Listed};
use crate::{
    conditions::{Equalities, pushed},
    error::to_datafusion,
    visible::Visible,
};

/// The schema `information_schema`: `tables`, `columns`, `schemata` and `views` of the SQL standard, and TDengine's
/// `ins_databases`, `ins_stables`, `ins_tables`, `ins_columns`, `ins_tags`, `ins_users`, `ins_user_privileges`, `ins_tokens`
/// and `ins_views`. Columns without a value here (replicas, owners, creation times) are NULL.
pub fn information_schema(info: Arc<dyn CatalogInfo>) -> Arc<dyn SchemaProvider> {
    Arc::new(InformationSchema { info })
}

const TABLES: [&str; 13] = [
    "columns",
    "ins_columns",
    "ins_databases",
    "ins_stables",
    "ins_tables",
    "ins_tags",
    "ins_tokens",
    "ins_user_privileges",
    "ins_users",
    "ins_views",
    "schemata",
    "tables",
    "views",
];

#[derive(Debug)]
struct InformationSchema {
    info: Arc<dyn CatalogInfo>,
}

#[async_trait]
impl SchemaProvider for InformationSchema {
    fn table_names(&self) -> Vec<String> {
        TABLES.map(str::to_owned).into()
    }

    async fn table(&self, name: &str) -> DfResult<Option<Arc<dyn TableProvider>>> {
        let Some(name) = TABLES.into_iter().find(|known| *known == name) else { return Ok(None) };
        let schema = match Listed::of(name) {
            Some(listed) => listed.schema(),
            None => Self { info: Arc::new(Nothing) }.rows(name, false).await?.schema(),
        };
        Ok(Some(Arc::new(InfoTable { name, schema, info: self.info.clone() })))
    }

    fn table_exist(&self, name: &str) -> bool {
        TABLES.contains(&name)
    }
}

/// An empty catalog, with which the columns of a table are determined.
#[derive(Debug)]
struct Nothing;

#[async_trait]
impl CatalogInfo for Nothing {
    fn databases(&self) -> Vec<Arc<Database>> {
        Vec::new()
    }

    fn tables(&self, _: DatabaseId) -> Vec<Arc<Supertable>> {
        Vec::new()
    }

    async fn series(&self, _: &Supertable) -> Result<Vec<SeriesSet>> {
        Ok(Vec::new())
    }
}

/// A table of `information_schema`. Each scan computes its rows from the session's [`CurrentCatalog`].
#[derive(Debug)]
struct InfoTable {
    name: &'static str,
    schema: SchemaRef,
    /// Used where a session has no [`CurrentCatalog`].
    info: Arc<dyn CatalogInfo>,
}

#[async_trait]
impl TableProvider for InfoTable {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn table_type(&self) -> TableType {
        TableType::View
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> DfResult<Vec<TableProviderFilterPushDown>> {
        Ok(pushed(filters))
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        _limit: Option<usize>,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        let current = state.config().get_extension::<CurrentCatalog>();
        let info = current.map_or_else(|| self.info.clone(), |current| current.0.clone());
        if let Some(listed) = Listed::of(self.name) {
            let (schema, batches) = listed.rows(info.as_ref(), &Equalities::of(filters), projection).await?;
            return Ok(MemorySourceConfig::try_new_exec(&[batches], schema, None)?);
        }
        let has =
            |column| projection.is_none_or(|chosen| chosen.iter().any(|i| self.schema.field(*i).name() == column));
        let rows = InformationSchema { info }.rows(self.name, has("ntables")).await?;
        Ok(MemorySourceConfig::try_new_exec(&[vec![rows]], self.schema.clone(), projection.cloned())?)
    }
}

/// A value of a table of `information_schema`.
enum Cell {
    Text(String),
    Number(i64),
    Null,
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Cell::Text(text.to_owned())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Cell::Text(text)
    }
}

impl From<&String> for Cell {
    fn from(text: &String) -> Self {
        Cell::Text(text.clone())
    }
}

impl From<i64> for Cell {
    fn from(number: i64) -> Self {
        Cell::Number(number)
    }
}

/// Rows of texts, then numbers, then times in milliseconds since the epoch. Columns after a row's last value are NULL.
struct Rows {
    texts: Vec<&'static str>,
    times: Vec<&'static str>,
    numbers: Vec<&'static str>,
    rows: Vec<Vec<Cell>>,
}

impl Rows {
    /// Creates rows with text columns followed by time columns.
    fn new<const T: usize, const N: usize>(texts: [&'static str; T], times: [&'static str; N]) -> Self {
        Self { texts: texts.into(), times: times.into(), numbers: Vec::new(), rows: Vec::new() }
    }

    /// Adds integer columns between the text and the time columns.
    fn with_numbers<const N: usize>(mut self, numbers: [&'static str; N]) -> Self {
        self.numbers = numbers.into();
        self
    }

    fn push(&mut self, row: Vec<Cell>) {
        self.rows.push(row);
    }

    fn finish(self) -> DfResult<RecordBatch> {
        let mut fields = Vec::new();
        let mut arrays: Vec<ArrayRef> = Vec::new();
        for (i, name) in self.texts.iter().enumerate() {
            let column = self.rows.iter().map(|r| match r.get(i) {
                Some(Cell::Text(text)) => Some(text.as_str()),
                _ => None,
            });
            fields.push(Field::new(*name, DataType::Utf8, true));
            arrays.push(Arc::new(column.collect::<StringArray>()));
        }
        for (i, name) in self.numbers.iter().enumerate() {
            let column = self.rows.iter().map(|r| match r.get(self.texts.len() + i) {
                Some(Cell::Number(n)) => Some(*n),
                _ => None,
            });
            fields.push(Field::new(*name, DataType::Int64, true));
            arrays.push(Arc::new(column.collect::<Int64Array>()));
        }
        for (i, name) in self.times.iter().enumerate() {
            let column = self.rows.iter().map(|r| match r.get(self.texts.len() + self.numbers.len() + i) {
                Some(Cell::Number(ms)) => Some(*ms),
                _ => None,
            });
            fields.push(Field::new(*name, DataType::Timestamp(TimeUnit::Millisecond, None), true));
            arrays.push(Arc::new(column.collect::<TimestampMillisecondArray>()));
        }
        Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)?)
    }
}

/// A duration as KEEP and DURATION take it: in days if it is a whole number of days, else in minutes.
pub(crate) fn duration(ms: i64) -> String {
    const DAY_MS: i64 = 86_400_000;
    if ms % DAY_MS == 0 { format!("{}d", ms / DAY_MS) } else { format!("{}m", ms / 60_000) }
}

impl InformationSchema {
    /// The rows of the table of this name. With `counted`, the series of databases are counted, which reads all tag manifests.
    async fn rows(&self, name: &str, counted: bool) -> DfResult<RecordBatch> {
        let rows = match name {
            "tables" => self.standard_tables(),
            "columns" => self.standard_columns(),
            "schemata" => self.schemata(),
            "views" => Rows::new(["table_catalog", "table_schema", "table_name", "definition"], []),
            "ins_databases" => self.databases(counted).await.map_err(to_datafusion)?,
            "ins_stables" => self.stables(),
            "ins_columns" => self.columns(),
            "ins_tokens" => self.tokens(),
            "ins_user_privileges" => self.privileges(),
            "ins_users" => self.users(),
            "ins_views" => Rows::new(["view_name", "db_name", "effective_user"], ["create_time"]),
            _ => return Err(to_datafusion(Error::internal("no such table in information_schema").with("table", name))),
        };
        rows.finish()
    }

    fn each_table(&self) -> impl Iterator<Item = (Arc<Database>, Arc<Supertable>)> {
        let info = Arc::clone(&self.info);
        self.info
            .databases()
            .into_iter()
            .flat_map(move |d| info.tables(d.id).into_iter().map(move |t| (Arc::clone(&d), t)))
    }

    fn standard_tables(&self) -> Rows {
        let mut rows = Rows::new(["table_catalog", "table_schema", "table_name", "table_type"], []);
        for (database, table) in self.each_table() {
            rows.push(vec![CATALOG.into(), (&database.name).into(), (&table.name).into(), "BASE TABLE".into()]);
        }
        for name in TABLES {
            rows.push(vec![CATALOG.into(), INFORMATION_SCHEMA.into(), name.into(), "SYSTEM VIEW".into()]);
        }
        rows
    }

    fn standard_columns(&self) -> Rows {
        let texts = [
            "table_catalog",
            "table_schema",
            "table_name",
            "column_name",
            "column_default",
            "is_nullable",
            "data_type",
        ];
        let mut rows = Rows::new(texts, []).with_numbers(["ordinal_position", "character_maximum_length"]);
        for (database, table) in self.each_table() {
            for (i, column) in table.columns.iter().enumerate() {
                let width = match column.ty {
                    Type::Binary(n) | Type::NChar(n) | Type::VarBinary(n) => {
                        n.map_or(Cell::Null, |n| Cell::Number(i64::from(n)))
                    }
                    _ => Cell::Null,
                };
                rows.push(vec![
                    CATALOG.into(),
                    (&database.name).into(),
                    (&table.name).into(),
                    (&column.name).into(),
                    Cell::Null,
                    if column.role == Role::Time { "NO" } else { "YES" }.into(),
                    column.ty.name().into(),
                    (i as i64 + 1).into(),
                    width,
                ]);
            }
        }
        rows
    }

    fn schemata(&self) -> Rows {
        let mut rows = Rows::new(["catalog_name", "schema_name", "schema_owner"], []);
        let databases = self.info.databases();
        for name in databases.iter().map(|d| d.name.as_str()).chain([INFORMATION_SCHEMA]) {
            rows.push(vec![CATALOG.into(), name.into(), Cell::Null]);
        }
        rows
    }

    async fn databases(&self, counted: bool) -> Result<Rows> {
        let mut rows = Rows::new(["name", "strict", "duration", "keep", "precision", "status"], ["create_time"])
            .with_numbers(["vgroups", "ntables", "replica"]);
        for database in self.info.databases() {
            let mut series = 0;
            for table in self.info.tables(database.id).iter().filter(|_| counted) {
                series += self.info.series(table).await?.iter().map(SeriesSet::len).sum::<usize>() as i64;
            }
            rows.push(vec![
                (&database.name).into(),
                "on".into(),
                duration(database.partition_ms).into(),
                duration(database.keep_ms).into(),
                database.precision.as_str().into(),
                "ready".into(),
                Cell::Null,
                series.into(),
                Cell::Null,
            ]);
        }
        Ok(rows)
    }

    fn stables(&self) -> Rows {
        let mut rows = Rows::new(["stable_name", "db_name", "table_comment"], ["create_time", "last_update"])
            .with_numbers(["columns", "tags"]);
        for (database, table) in self.each_table() {
            let tags = table.tags().count() as i64;
            let columns = table.columns.len() as i64 - tags;
            rows.push(vec![(&table.name).into(), (&database.name).into(), Cell::Null, columns.into(), tags.into()]);
        }
        rows
    }

    fn columns(&self) -> Rows {
        let mut rows = Rows::new(["table_name", "db_name", "table_type", "col_name", "col_type"], []).with_numbers([
            "col_length",
            "col_precision",
            "col_scale",
            "col_nullable",
        ]);
        for (database, table) in self.each_table() {
            for column in &table.columns {
                rows.push(vec![
                    (&table.name).into(),
                    (&database.name).into(),
                    "SUPER_TABLE".into(),
                    (&column.name).into(),
                    column.ty.to_string().into(),
                    i64::from(column.ty.width()).into(),
                    Cell::Null,
                    Cell::Null,
                    i64::from(column.role != Role::Time).into(),
                ]);
            }
        }
        rows
    }

    /// The users that the statement's principal may see: an administrator sees all users, any other user only itself.
    fn known_users(&self) -> impl Iterator<Item = (&str, &User)> {
        let seen = self.info.visible().map(Visible::parts).into_iter();
        seen.flat_map(|(catalog, principal)| {
            catalog.users().iter().filter(|(name, _)| principal.is_admin() || principal.user() == Some(name))
        })
    }

    fn users(&self) -> Rows {
        let numbers = ["super", "enable", "password", "tokens", "max_queries", "max_query_memory", "max_query_ms"];
        let mut rows = Rows::new(["name"], []).with_numbers(numbers);
        let limit =
            |limit: Option<u64>| limit.map_or(Cell::Null, |n| Cell::Number(i64::try_from(n).unwrap_or(i64::MAX)));
        for (name, user) in self.known_users() {
            let password = i64::from(user.password.is_some());
            let (admin, enabled) = (i64::from(user.admin), i64::from(!user.disabled));
            rows.push(vec![
                name.into(),
                admin.into(),
                enabled.into(),
                password.into(),
                (user.tokens.len() as i64).into(),
                limit(user.limits.queries.map(u64::from)),
                limit(user.limits.memory),
                limit(user.limits.time_ms),
            ]);
        }
        rows
    }

    /// Grants as (privileges, database name), with `*` for all databases. Grants on dropped databases are omitted.
    fn granted<'a>(&'a self, grants: &'a Grants) -> impl Iterator<Item = (String, String)> + 'a {
        grants.iter().filter_map(|(scope, privileges)| {
            let on = match scope {
                Scope::Everywhere => "*".to_owned(),
                Scope::Database(id) => self.info.visible()?.parts().0.database_by_id(*id)?.name.clone(),
            };
            Some((privileges.to_string(), on))
        })
    }

    fn privileges(&self) -> Rows {
        let mut rows = Rows::new(["user_name", "privilege", "db_name"], []);
        for (name, user) in self.known_users() {
            if user.admin {
                rows.push(vec![name.into(), "ADMIN".into(), "*".into()]);
            }
            for (privilege, on) in self.granted(&user.grants) {
                rows.push(vec![name.into(), privilege.into(), on.into()]);
            }
        }
        rows
    }

    fn tokens(&self) -> Rows {
        let mut rows = Rows::new(["name", "user_name", "privileges"], ["create_time", "expire_time"]);
        for (name, user) in self.known_users() {
            for token in user.tokens.values() {
                let narrowed = token.grants.as_ref().map_or(Cell::Null, |grants| {
                    let granted = self.granted(grants).map(|(privilege, on)| format!("{privilege} ON {on}"));
                    granted.collect::<Vec<_>>().join(", ").into()
                });
                let expires = token.expires_ms.map_or(Cell::Null, Cell::Number);
                rows.push(vec![(&token.name).into(), name.into(), narrowed, token.created_ms.into(), expires]);
            }
        }
        rows
    }
}
