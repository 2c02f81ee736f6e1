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
        Arc::new(Tables { files: self.clone(), state: state.clone() })
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
        let location = match self.files.named.get(name) {
            Some(location) => location.clone(),
            None if is_location(name) => name.to_owned(),
            None => return Ok(None),
        };
        let (locate, of) = (self.files.locate.clone(), location.clone());
        let located = tokio::task::spawn_blocking(move || locate.locate(&of)).await;
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
        let (options_of, state) = (&options, &self.state);
        let read = |file: ListingTableUrl| async move { options_of.infer_schema(state, &file).await };
        let schemas = stream::iter(files.clone()).map(read).buffered(FOOTERS_AT_ONCE);
        let schema = schemas.try_collect::<Vec<_>>().await.and_then(|schemas| {
            let schemas = schemas.iter().map(|schema| Schema::clone(schema).with_metadata(HashMap::new()));
            Ok(Schema::try_merge(schemas)?)
        });
        let schema = schema.map_err(|e| {
            let error = Error::invalid("cannot read as one table of Parquet files").with("files", &location);
            to_datafusion(error.with("reason", e.strip_backtrace()).source(e))
        })?;
        let config = ListingTableConfig::new_with_multi_paths(files).with_listing_options(options);
        Ok(Some(Arc::new(ListingTable::try_new(config.with_schema(Arc::new(schema)))?)))
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
