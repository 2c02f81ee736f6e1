//! TDengine's writing statements: INSERT and dispatch here, definitions in `define`, DELETE in `delete`.

mod access;
mod count;
mod define;
mod delete;
mod filter;
mod parameters;
mod tags;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use arrow::{
    array::RecordBatch,
    row::{RowConverter, SortField},
};
use tidelake_format::{
    Error, Kind, Reason, Result,
    access::{Deed, Privilege},
    ids::{DatabaseId, Position, Token},
    log,
    meta::{Catalog, PROBE_AGE},
    offload::offload,
    rows::{Block, RowCounts, SeriesSet},
    schema::Database,
};
use tidelake_protocol::sql::{CreateSubtable, DoubleQuotes, Insert, Statement, TableName, Update};
use tokio::time::Instant;

use crate::{
    decode::{
        Decoded, Protocol,
        tdengine::{self, Inserted, Session},
    },
    write::{
        Durability, Executed, Ingest, Written,
        idempotent::{Known, Mark, digest},
        rows::doubted,
        series::{SeriesDirectory, View},
    },
};

/// Statements of more bytes are parsed on a thread for blocking work.
const READ_INLINE: usize = 1 << 20;
/// Most attempts to parse a statement again because tables or series were created meanwhile.
const ROUNDS: usize = 6;

impl Ingest {
    /// Executes the text of one non-query statement of TDengine's SQL, in which double quotes enclose texts; see
    /// [`Ingest::execute_update`].
    ///
    /// # Errors
    /// Invalid for a syntax error, Unsupported for a query; otherwise as [`Ingest::execute_update`].
    pub async fn execute(
        &self,
        database: Option<&str>,
        sql: &str,
        parameters: Option<&RecordBatch>,
    ) -> Result<Executed> {
        match Update::parse(sql, DoubleQuotes::Text)? {
            Some(update) => self.execute_update(database, &update, parameters).await,
            None => {
                let error = Error::unsupported("this statement does not write; send it to a query endpoint");
                let refused = Err(error);
                Deed { action: "QUERY", ..Deed::default() }.record_refusal(&self.principal, &refused);
                refused
            }
        }
    }

    /// Executes one statement, with timestamps without a zone in the handle's zone; `parameters` holds one row per execution.
    ///
    /// An INSERT is written as a whole or not at all. A statement that forbids formerly allowed writes (a DROP, a shorter KEEP)
    /// returns two seconds after its commit: by then no writer acknowledges rows on an older version.
    ///
    /// # Errors
    /// Invalid for an invalid statement, NotFound for an unknown database or table, Unsupported for KILL, Unavailable when the
    /// buffer is full or the store does not confirm in time.
    pub async fn execute_update(
        &self,
        database: Option<&str>,
        update: &Update,
        parameters: Option<&RecordBatch>,
    ) -> Result<Executed> {
        let start = Instant::now();
        let (text, statement) = (update.text(), update.statement());
        let is_audited = !matches!(statement, Statement::Insert(_) | Statement::Use(_) | Statement::Kill(_));
        let ignored = statement.ignored();
        let deed = statement.deed(database);
        let mut done = match self.mark_of(self.statement_digest(database, text, parameters)?) {
            Some(mark) if is_audited && parameters.is_none() => {
                self.run_once(database, text, parameters, statement.clone(), start, mark).await
            }
            _ => self.run(database, text, parameters, statement.clone(), start).await,
        };
        if let (Ok(done), false) = (&mut done, ignored.is_empty()) {
            let notice = format!("options that have no effect here were ignored: {}", ignored.join(", "));
            tracing::info!(notice, "ignored unsupported options of a statement");
            done.notices.push(notice);
        }
        match is_audited {
            true => deed.record(&self.principal, &done),
            false => deed.record_refusal(&self.principal, &done),
        }
        done
    }

    /// Executes an INSERT, and no other statement: for interfaces that may only write rows.
    ///
    /// # Errors
    /// Forbidden for any other statement; otherwise as [`Ingest::execute`].
    pub async fn execute_insert(&self, database: Option<&str>, sql: &str) -> Result<Executed> {
        let update = Update::parse(sql, DoubleQuotes::Text)?;
        if let Some(insert) = update.as_ref().filter(|update| matches!(update.statement(), Statement::Insert(_))) {
            return self.execute_update(database, insert, None).await;
        }
        let error = Error::forbidden("only INSERT is allowed here; send other statements to a server");
        let refused = Err(error.with("user", &self.principal));
        let query = Deed { action: "QUERY", ..Deed::default() };
        let deed = update.map_or(query, |update| update.statement().deed(database));
        deed.record(&self.principal, &refused);
        refused
    }

    /// Executes a statement on a database that another dialect has parsed.
    pub(crate) async fn execute_parsed(&self, statement: Statement) -> Result<Executed> {
        let deed = statement.deed(None);
        let done = self.run(None, &Arc::from(""), None, statement, Instant::now()).await;
        deed.record(&self.principal, &done);
        done
    }

    /// Executes a statement that leaves a mark, unless the catalog already has the mark.
    async fn run_once(
        &self,
        database: Option<&str>,
        text: &Arc<str>,
        parameters: Option<&RecordBatch>,
        statement: Statement,
        start: Instant,
        mark: Mark,
    ) -> Result<Executed> {
        let replayed = Executed { replayed: true, ..Executed::default() };
        if mark.is_in(self.shared.probe.catalog(start.elapsed()).await?.as_ref()) {
            return Ok(replayed);
        }
        let marking = self.marking(mark.clone());
        let done = marking.run(database, text, parameters, statement, start).await;
        let Err(error) = done else { return done };
        // Another copy may have been first, or the commit succeeded without its reply arriving.
        match self.shared.probe.catalog(Duration::ZERO).await {
            Ok(catalog) if mark.is_in(&catalog) => Ok(replayed),
            _ => Err(error),
        }
    }

    async fn run(
        &self,
        database: Option<&str>,
        text: &Arc<str>,
        parameters: Option<&RecordBatch>,
        statement: Statement,
        start: Instant,
    ) -> Result<Executed> {
        match statement {
            Statement::Insert(insert) => self.insert(database, text, insert, parameters, start).await,
            Statement::CreateDatabase(create) => self.create_database(create).await,
            Statement::DropDatabase { name, if_exists } => self.drop_database(&name, if_exists, start).await,
            Statement::CreateTable(create) => self.create_table(database, create, start).await,
            Statement::CreateSubtables(creates) => self.create_subtables(database, text, creates, start).await,
            Statement::DropTables(drop) => self.drop_tables(database, drop, start).await,
            Statement::Alter(alter) => self.alter(database, alter, start).await,
            Statement::AlterDatabase(alter) => self.alter_database(alter, start).await,
            Statement::Delete(delete) => self.delete_each(database, delete, parameters, start).await,
            Statement::Access(statement) => self.access(statement, start).await,
            Statement::GiveUp(position) => self.give_up(position).await,
            Statement::Use(name) => {
                let (_, found) = self.find_database(Privilege::Read, &name, start).await?;
                if !self.principal.knows(&found) {
                    self.principal.check(Privilege::Read, &found)?;
                }
                Ok(Executed { use_database: Some(found.name.clone()), ..Executed::default() })
            }
            Statement::Kill(_) => Err(Error::unsupported("KILL does not write; send it to a query endpoint")),
        }
    }

    /// Commits that queries and folds skip a log segment that is missing or unreadable.
    async fn give_up(&self, position: Position) -> Result<Executed> {
        self.principal.check_admin("give up rows of the log")?;
        let done = log::give_up(&self.shared.root, position).await?;
        let notice = done.to_string();
        tracing::warn!("{notice}");
        Ok(Executed { token: Some(Token::Version(done.version)), notices: vec![notice], ..Executed::default() })
    }

    /// Digest of a statement's text and bound values if the handle has a key. The bytes of bound values are copied.
    fn statement_digest(&self, database: Option<&str>, text: &str, parameters: Option<&RecordBatch>) -> Result<u128> {
        if self.key.is_none() {
            return Ok(0);
        }
        let shape = parameters.map_or([0; 2], |p| [p.num_rows() as u64, p.num_columns() as u64]);
        let values = parameters.map(bytes_of).transpose()?;
        let (name, shape) = (database.unwrap_or_default().as_bytes(), shape.map(u64::to_le_bytes).concat());
        let parts = [&b"statement"[..], name, text.as_bytes(), &shape];
        Ok(match &values {
            None => digest(&parts),
            Some(values) => digest(&[parts[0], parts[1], parts[2], parts[3], values]),
        })
    }

    async fn create_subtables(
        &self,
        database: Option<&str>,
        text: &str,
        creates: Vec<CreateSubtable>,
        start: Instant,
    ) -> Result<Executed> {
        let digest = self.statement_digest(database, text, None)?;
        self.catch_up().await?;
        let claim = match self.mark {
            None => None,
            // Declared series are put to the log like rows, without a commit that could leave the mark.
            Some(_) => match self.known(digest).await? {
                Some(Known::Written(written)) => return Ok(replayed(written)),
                Some(Known::Free(claim)) => Some(claim),
                None => None,
            },
        };
        let mut names = Vec::new();
        for create in &creates {
            let (_, database) = self.database_of(&create.table, database, start).await?;
            names.push((database.id, create.table.name.clone()));
            self.database_of(&create.using, Some(&database.name), start).await?;
        }
        self.find(&names).await?;
        let creates = Arc::new(creates);
        let read = move |view: &View, session: &Session<'_>| tdengine::create_subtables(&creates, view, session);
        let (decoded, catalog): (Decoded, _) = self.read(database, start, false, read).await?;
        self.check_blocks(&catalog, &decoded.blocks)?;
        self.register(&catalog, &decoded.blocks)?;
        let registered = Registered::new(self, &catalog, &decoded.blocks);
        if self.mark.is_some() && decoded.blocks.iter().all(|block| block.series.is_empty()) {
            // On redelivery the series may be gone again, so a commit leaves the mark.
            return Ok(self.define(start, |_| Ok(())).await?.1);
        }
        let reservation = self.reserve(1).await?;
        match self.submit(decoded.blocks, reservation, Durability::Stored, Some(catalog.version), claim).await {
            Ok(token) => {
                registered.stay();
                Ok(Executed { token, ..Executed::default() })
            }
            Err(error) => self.overtaken(error, digest).await.map(replayed),
        }
    }

    async fn insert(
        &self,
        database: Option<&str>,
        text: &Arc<str>,
        insert: Insert,
        parameters: Option<&RecordBatch>,
        start: Instant,
    ) -> Result<Executed> {
        self.shared.body_bytes.increment(text.len() as u64);
        let reservation = self.reserve(text.len()).await?;
        let digest = self.statement_digest(database, text, parameters)?;
        let claim = match self.known(digest).await? {
            Some(Known::Written(written)) => return Ok(replayed(written)),
            Some(Known::Free(claim)) => Some(claim),
            None => None,
        };
        let mut asked: BTreeSet<(DatabaseId, String)> = BTreeSet::new();
        for _ in 0..ROUNDS {
            let (inserted, catalog) = self.read_insert(database, text, insert, parameters, start).await?;
            let decoded = match inserted {
                Inserted::Unresolved(names) => {
                    if let Some((_, name)) = names.iter().find(|n| asked.contains(*n)) {
                        return Err(Error::not_found("Table does not exist")
                            .because(Reason::TableNotFound)
                            .with("table", name));
                    }
                    self.find(&names).await?;
                    asked.extend(names);
                    continue;
                }
                Inserted::Ready(decoded) => decoded,
            };
            // A series name unknown to this process may exist under another supertable of its database.
            let mut new = self.unproved(&catalog, &decoded.blocks);
            new.retain(|name| !asked.contains(name));
            if !new.is_empty() {
                let found = self.find(&new).await?;
                asked.extend(new);
                if found > 0 {
                    continue;
                }
            }
            self.check_blocks(&catalog, &decoded.blocks)?;
            self.register(&catalog, &decoded.blocks)?;
            let affected_rows = decoded.accepted as u64;
            let replaced = decoded.blocks.iter().map(Block::replaced).sum();
            let written = affected_rows.saturating_sub(replaced);
            let rows = Some(RowCounts { written, replaced, refused: 0 });
            let notices = doubted(decoded.doubtful);
            let claim = claim.map(|claim| claim.of(affected_rows, 0, &[]));
            return match self
                .submit(decoded.blocks, reservation, Durability::Stored, Some(catalog.version), claim)
                .await
            {
                Ok(token) => {
                    self.shared.activity.accepted(Protocol::Sql, affected_rows);
                    Ok(Executed { affected_rows, token, rows, notices, ..Executed::default() })
                }
                Err(error) => self.overtaken(error, digest).await.map(replayed),
            };
        }
        Err(Error::unavailable("other requests keep changing the same tables"))
    }

    async fn read_insert(
        &self,
        database: Option<&str>,
        text: &Arc<str>,
        insert: Insert,
        parameters: Option<&RecordBatch>,
        start: Instant,
    ) -> Result<(Inserted, Arc<Catalog>)> {
        let (large, text, parameters) = (text.len() > READ_INLINE, text.clone(), parameters.cloned());
        let read = move |view: &View, session: &Session<'_>| {
            tdengine::insert(insert.cursor(&text), view, session, parameters.as_ref())
        };
        self.read(database, start, large, read).await
    }

    /// Parses a statement against the catalog; an error is final only if that catalog is not older than the statement.
    async fn read<T: Send + 'static>(
        &self,
        database: Option<&str>,
        start: Instant,
        large: bool,
        read: impl Fn(&View, &Session<'_>) -> Result<T> + Clone + Send + 'static,
    ) -> Result<(T, Arc<Catalog>)> {
        // Another process may have dropped a series known here: a DROP waits for the maximum age of this catalog.
        let mut catalog = self.shared.probe.catalog(PROBE_AGE).await?;
        loop {
            let view = self.view(catalog.clone(), 0);
            let (name, time_zone, now_ns) = (database.map(str::to_owned), self.time_zone, self.now_ns());
            let read = read.clone();
            let work = move || {
                let database = match &name {
                    None => None,
                    Some(name) => {
                        let missing = || view.principal.missing(Privilege::Write, name, no_database(name));
                        Some(view.catalog.database(name).ok_or_else(missing)?.clone())
                    }
                };
                read(&view, &Session { database: database.as_deref(), time_zone, now_ns })
            };
            let result = if large { offload(work).await } else { work() };
            match result {
                Err(error) if matches!(error.kind(), Kind::Invalid | Kind::NotFound | Kind::Forbidden) => {
                    let newest = self.shared.probe.since(start).await?;
                    if newest.version == catalog.version {
                        return Err(error);
                    }
                    catalog = newest;
                }
                result => return Ok((result?, catalog)),
            }
        }
    }

    /// Series of the blocks for which only the statement itself names the supertable.
    fn unproved(&self, catalog: &Catalog, blocks: &[Block]) -> Vec<(DatabaseId, String)> {
        let mut unproved = Vec::new();
        for block in blocks {
            let Some(table) = catalog.table_by_id(block.table) else { continue };
            if catalog.tables(table.database).nth(1).is_none() {
                continue; // the only table of its database
            }
            let names = block.series.names().iter().flatten();
            let new = names.filter(|name| !self.shared.directory.knows(catalog, table.database, name));
            unproved.extend(new.map(|name| (table.database, name.to_owned())));
        }
        unproved
    }

    async fn find(&self, names: &[(DatabaseId, String)]) -> Result<usize> {
        let mut databases: BTreeMap<DatabaseId, Vec<String>> = BTreeMap::new();
        for (database, name) in names {
            databases.entry(*database).or_default().push(name.clone());
        }
        let mut found = 0;
        for (database, names) in databases {
            found += self.shared.directory.find(database, &names).await?;
        }
        Ok(found)
    }

    /// Checks that the principal may write to the databases of the blocks.
    fn check_blocks(&self, catalog: &Catalog, blocks: &[Block]) -> Result<()> {
        for block in blocks {
            let table = catalog.table_by_id(block.table);
            if let Some(database) = table.and_then(|table| catalog.database_by_id(table.database)) {
                self.principal.check(Privilege::Write, database)?;
            }
        }
        Ok(())
    }

    /// Registers the series of a statement that is about to be written.
    fn register(&self, catalog: &Catalog, blocks: &[Block]) -> Result<()> {
        for block in blocks {
            if let Some(table) = catalog.table_by_id(block.table) {
                self.shared.directory.register(catalog, table.database, std::slice::from_ref(block))?;
            }
        }
        Ok(())
    }

    /// The error of a table that a database does not have, with the nearest name if the principal may read it.
    fn no_table(&self, catalog: &Catalog, database: DatabaseId, name: &str) -> Error {
        let error = Error::not_found("Table does not exist").because(Reason::TableNotFound).with("table", name);
        let may = catalog.database_by_id(database).is_some_and(|of| self.principal.may(Privilege::Read, of));
        error.suggest(name, catalog.tables(database).filter(|_| may).map(|table| table.name.as_str()))
    }

    async fn database_of(
        &self,
        table: &TableName,
        database: Option<&str>,
        start: Instant,
    ) -> Result<(Arc<Catalog>, Arc<Database>)> {
        let name = table.database.as_deref().or(database);
        let name = name.ok_or_else(|| {
            Error::invalid("Database not specified").because(Reason::DatabaseNotSpecified).with("table", &table.name)
        })?;
        self.database(name, start).await
    }
}

/// Series registered without rows. Forgotten if their segment was not put or the caller stopped waiting for it: a statement
/// that creates them again must not find them.
struct Registered {
    directory: Arc<SeriesDirectory>,
    names: Vec<(DatabaseId, Box<str>)>,
}

impl Registered {
    fn new(ingest: &Ingest, catalog: &Catalog, blocks: &[Block]) -> Self {
        let of = |block: &Block| catalog.table_by_id(block.table).map(|table| (table.database, block.series.clone()));
        let names = |(database, series): (DatabaseId, SeriesSet)| {
            series.names().iter().flatten().map(|name| (database, name.into())).collect::<Vec<_>>()
        };
        let names = blocks.iter().filter_map(of).flat_map(names).collect();
        Self { directory: ingest.shared.directory.clone(), names }
    }

    fn stay(mut self) {
        self.names.clear();
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.directory.forget(&self.names);
    }
}

/// Encodes the values bound to a statement, so that equal values have equal bytes.
///
/// # Errors
/// [`Kind::Internal`] for a type without an order, which no parameter has.
fn bytes_of(parameters: &RecordBatch) -> Result<Vec<u8>> {
    let fields = parameters.schema().fields().iter().map(|field| SortField::new(field.data_type().clone())).collect();
    let rows = RowConverter::new(fields)?.convert_columns(parameters.columns())?;
    let mut bytes = Vec::new();
    for row in &rows {
        bytes.extend_from_slice(row.as_ref());
    }
    Ok(bytes)
}

/// The reply to a copy of a statement.
fn replayed(written: Written) -> Executed {
    let Written { accepted: affected_rows, token, replayed, .. } = written;
    Executed { affected_rows, token, replayed, ..Executed::default() }
}

fn no_database(name: &str) -> Error {
    Error::not_found("Database not exist").because(Reason::DatabaseNotFound).with("database", name)
}

#[cfg(test)]
mod tests;
