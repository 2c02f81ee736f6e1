//! Parquet files as tables: `FROM 'dir/*.parquet'`. Only for an engine whose only client is the process that created it: a client of
//! a server must not read the server's files.

use std::{collections::HashMap, fmt, sync::Arc};

use arrow::datatypes::{Field, Schema};
use async_trait::async_trait;
use datafusion::{
    catalog::{SchemaProvider, TableProvider},
    common::Result as DfResult,
    datasource::{
        file_format::parquet::ParquetFormat,
        listing::{ListingOptions, ListingTable, ListingTableConfig, ListingTableUrl},
    },
    execution::SessionState,
    object_store::ObjectStore,
};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use parking_lot::Mutex;
use tidelake_format::{Error, Result, types::Type};
use url::Url;

use crate::error::to_datafusion;

/// Number of files of a table whose footers are read at once.
const FOOTERS_AT_ONCE: usize = 16;
/// The schema of the tables that are files.
pub const FILES: &str = "files";

/// Finds the files that a path, a pattern or a URL means.
pub trait Locate: fmt::Debug + Send + Sync {
    /// Returns at least one file. Blocks.
    ///
    /// # Errors
    /// There is no such file, or it cannot be read.
    fn locate(&self, location: &str) -> Result<Located>;
}

/// Files of one table.
#[derive(Debug, Clone)]
pub struct Located {
    /// Their URLs, all of one scheme and host.
    pub files: Vec<Url>,
    /// The bucket in which they are; `None` for local files.
    pub bucket: Option<Arc<dyn ObjectStore>>,
}

/// The files that statements may read.
#[derive(Debug, Clone)]
pub struct Files {
    locate: Arc<dyn Locate>,
    /// Locations of tables by name.
    named: Arc<HashMap<String, String>>,
}

impl Files {
    /// Files by their location, and by these names.
    pub fn new(locate: Arc<dyn Locate>, named: HashMap<String, String>) -> Self {
        Self { locate, named: Arc::new(named) }
    }

    /// The schema of one statement.
    pub(crate) fn schema(&self, state: &SessionState) -> Arc<dyn SchemaProvider> {
        Arc::new(Tables { files: self.clone(), state: state.clone(), opened: Mutex::default() })
    }
}

/// Whether a name in FROM is the location of a file instead of the name of a table.
fn is_location(name: &str) -> bool {
    name.contains(['/', '*', '?']) || name.to_ascii_lowercase().ends_with(".parquet")
}

/// Named files, and every other file by its location.
struct Tables {
    files: Files,
    state: SessionState,
    /// Tables whose files are listed and whose footers are read, by name: a statement sees one state of them.
    opened: Mutex<HashMap<String, Arc<dyn TableProvider>>>,
}

impl Tables {
    /// The columns of all files. A column of several files has one type.
    async fn schema(&self, options: &ListingOptions, files: &[ListingTableUrl]) -> Result<Schema> {
        let read = |file: ListingTableUrl| async move {
            match options.infer_schema(&self.state, &file).await {
                Ok(schema) => Ok((file, schema)),
                Err(e) => {
                    let error = Error::invalid("cannot read as a Parquet file").with("file", &file);
                    Err(error.with("reason", e.strip_backtrace()).source(e))
                }
            }
        };
        let mut schemas = stream::iter(files.to_vec()).map(read).buffered(FOOTERS_AT_ONCE);
        let mut columns: Vec<Field> = Vec::new();
        // The first file that has the column, and the column's number.
        let mut first: HashMap<String, (ListingTableUrl, usize)> = HashMap::new();
        while let Some((file, schema)) = schemas.try_next().await? {
            for field in schema.fields() {
                match first.get(field.name()) {
                    None => {
                        first.insert(field.name().clone(), (file.clone(), columns.len()));
                        columns.push(field.as_ref().clone().with_nullable(true).with_metadata(HashMap::new()));
                    }
                    Some((other, number)) if columns[*number].data_type() != field.data_type() => {
                        let error = Error::invalid("files of one table have a column of different types");
                        let error =
                            error.with("column", field.name()).with("file", &file).with("found", field.data_type());
                        let expected = format!("{}, as in {other}", columns[*number].data_type());
                        return Err(error.with("expected", expected));
                    }
                    Some(_) => {}
                }
            }
        }
        Ok(Schema::new(columns))
    }
}

impl fmt::Debug for Tables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.files.fmt(f)
    }
}

#[async_trait]
impl SchemaProvider for Tables {
    fn table_names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.files.named.keys().cloned().collect();
        names.sort();
        names
    }

    async fn table(&self, name: &str) -> DfResult<Option<Arc<dyn TableProvider>>> {
        if let Some(table) = self.opened.lock().get(name) {
            return Ok(Some(table.clone()));
        }
        let location = match self.files.named.get(name) {
            Some(location) => location.clone(),
            None if is_location(name) => name.to_owned(),
            None => return Ok(None),
        };
        let locate = self.files.locate.clone();
        let located = tokio::task::spawn_blocking(move || locate.locate(&location)).await;
        let located =
            located.unwrap_or_else(|e| Err(Error::internal("cannot list files").with("reason", &e).source(e)));
        let Located { files, bucket } = located.map_err(to_datafusion)?;
        let files: Vec<ListingTableUrl> =
            files.into_iter().map(|file| ListingTableUrl::try_new(file, None)).collect::<DfResult<_>>()?;
        if let (Some(bucket), Some(file)) = (bucket, files.first()) {
            self.state.runtime_env().register_object_store(file.object_store().as_ref(), bucket);
        }
        let parquet = ParquetFormat::default().with_force_view_types(false);
        let options = ListingOptions::new(Arc::new(parquet)).with_file_extension("");
        let schema = Arc::new(self.schema(&options, &files).await.map_err(to_datafusion)?);
        let config = ListingTableConfig::new_with_multi_paths(files).with_listing_options(options);
        let table: Arc<dyn TableProvider> = Arc::new(ListingTable::try_new(config.with_schema(schema))?);
        self.opened.lock().insert(name.to_owned(), table.clone());
        Ok(Some(table))
    }

    fn table_exist(&self, name: &str) -> bool {
        self.files.named.contains_key(name) || is_location(name)
    }
}

/// The name and the width of a column's type, as DESCRIBE shows them.
pub(crate) fn type_of(column: &Field) -> (String, u32) {
    match Type::of(column.data_type()) {
        Some(ty) => (ty.name().to_owned(), ty.width()),
        None => (column.data_type().to_string(), 0),
    }
}
