//! DELETE, and DROP TABLE of subtables: commits a tombstone that names the covered rows.

use std::collections::{BTreeMap, BTreeSet};

use arrow::{
    array::{AsArray, RecordBatch},
    datatypes::UInt32Type,
};
use tidelake_format::{
    Error, Kind, Reason, Result,
    ids::{Position, TableId, Token, Version},
    meta::{Catalog, Draft},
    rows::Block,
    schema::{Covers, Tombstone},
    snapshot::Snapshot,
};
use tidelake_protocol::sql::Delete;
use tokio::time::Instant;

use super::{count::Counted, filter::Filter, no_database};
use crate::{
    decode::tdengine::bind,
    write::{Executed, Ingest},
};

/// Most retries of a statement whose snapshot was collected while being read.
pub(super) const ATTEMPTS: usize = 4;
/// Most tombstones of one table: every query reads them.
const TOMBSTONES: usize = 4_096;
/// Most series named by one tombstone.
const NAMES: usize = 200_000;

/// Coverage of a tombstone in one table.
#[derive(Debug)]
pub(super) struct Reach {
    pub(super) table: TableId,
    pub(super) series: Option<Vec<String>>,
    pub(super) range: (i64, i64),
    pub(super) positions: Vec<Position>,
    pub(super) covers: Covers,
}

impl Ingest {
    /// Runs a DELETE once per row of its parameters, or once if it has none.
    pub(super) async fn delete_each(
        &self,
        database: Option<&str>,
        delete: Delete,
        parameters: Option<&RecordBatch>,
        start: Instant,
    ) -> Result<Executed> {
        let Some(batch) = parameters.filter(|batch| batch.num_columns() > 0) else {
            return self.delete(database, delete, start).await;
        };
        // Bind all rows first: if a value is invalid, nothing is deleted.
        let deletes = (0..batch.num_rows()).map(|row| bind(&delete, batch, row)).collect::<Result<Vec<_>>>()?;
        let mut all = Executed::default();
        for delete in deletes {
            let done = self.delete(database, delete, start).await?;
            all.affected_rows += done.affected_rows;
            all.token = done.token.or(all.token);
        }
        Ok(all)
    }

    async fn delete(&self, database: Option<&str>, delete: Delete, start: Instant) -> Result<Executed> {
        let mut attempt = 0;
        loop {
            match self.delete_once(database, &delete, start).await {
                // Objects were collected while being read, or a fold in the same version took the rows.
                Err(e)
                    if (e.kind() == Kind::Conflict || (e.kind() == Kind::NotFound && e.context("key").is_some()))
                        && attempt < ATTEMPTS =>
                {
                    attempt += 1;
                }
                result => return result,
            }
        }
    }

    async fn delete_once(&self, database: Option<&str>, delete: &Delete, start: Instant) -> Result<Executed> {
        let (_, database) = self.database_of(&delete.table, database, start).await?;
        let name = &delete.table.name;
        let mut snapshot = self.shared.directory.snapshot().await?;
        let (id, only) = match snapshot.catalog.table(database.id, name) {
            Some(table) => (table.id, None),
            None => {
                let table = self.supertable_of(database.id, name).await?;
                let table = table.ok_or_else(|| self.no_table(&snapshot.catalog, database.id, name))?;
                snapshot = self.shared.directory.snapshot().await?;
                (table.id, Some(name.as_str()))
            }
        };
        let catalog = snapshot.catalog.clone();
        let table = catalog.table_by_id(id).ok_or_else(|| {
            Error::not_found("Table does not exist").because(Reason::TableNotFound).with("table", name)
        })?;
        let database = catalog.database_by_id(table.database).ok_or_else(|| no_database(&database.name))?;
        let filter = Filter::of(delete.filter.as_ref(), table, self.clock_of(database))?;
        let counted = match filter.is_empty() {
            true => Counted::default(),
            false => self.count(&snapshot, table, database, &filter, only).await?,
        };
        if counted.rows == 0 && self.mark.is_some() {
            // On redelivery rows may match, so a commit leaves the mark now.
            return Ok(self.define(start, |_| Ok(())).await?.1);
        }
        if counted.rows == 0 {
            return Ok(Executed { token: Some(Token::Version(catalog.version)), ..Executed::default() });
        }
        let all = only.is_none() && filter.series.is_none();
        if !all && counted.series.len() > NAMES {
            return Err(Error::unsupported(
                "DELETE with a condition on tags matches too many series; delete fewer at a time",
            )
            .with("limit", NAMES)
            .with("found", counted.series.len()));
        }
        let reach = Reach {
            table: id,
            series: (!all).then(|| counted.series.into_iter().collect()),
            range: filter.range,
            positions: counted.positions.into_iter().collect(),
            covers: Covers::Rows,
        };
        let reach = [reach];
        let (_, mut executed) = self.define(start, |draft| bury(draft, &reach)).await?;
        executed.affected_rows = counted.rows;
        Ok(executed)
    }

    /// Coverage of dropping some series.
    pub(super) async fn reach_of_series(&self, series: &[(TableId, String)]) -> Result<Vec<Reach>> {
        if series.is_empty() {
            return Ok(Vec::new());
        }
        let snapshot = self.shared.directory.snapshot().await?;
        let mut tables: BTreeMap<TableId, BTreeSet<&str>> = BTreeMap::new();
        for (table, name) in series {
            tables.entry(*table).or_default().insert(name);
        }
        let reach = tables.into_iter().map(|(table, names)| {
            let mut positions = Vec::new();
            for (segment, block) in snapshot.blocks(table)? {
                if block.series.names().iter().flatten().any(|name| names.contains(name)) {
                    positions.push(segment.position);
                }
            }
            let series = Some(names.into_iter().map(str::to_owned).collect());
            Ok(Reach { table, series, range: (i64::MIN, i64::MAX), positions, covers: Covers::Series })
        });
        reach.collect()
    }

    /// Covers rows of dropped series that reached the log or files after the drop, from writers that did not know of it.
    pub(super) async fn bury_late(&self, series: &[(TableId, String)], token: Option<Token>) -> Result<Option<Token>> {
        let Some(Token::Version(dropped)) = token.filter(|_| !series.is_empty()) else { return Ok(None) };
        let reach = self.reach_of_series(series).await?;
        let catalog = self.shared.root.catalog();
        let mut late = Vec::new();
        for reach in reach {
            let known = catalog.table_by_id(reach.table);
            let named = |p: &Position| known.is_some_and(|t| t.tombstones.iter().any(|t| t.covers_segment(*p)));
            let in_log = reach.positions.iter().any(|p| !named(p));
            if known.is_some() && (in_log || self.is_in_newer_files(&catalog, &reach, dropped).await?) {
                late.push(reach);
            }
        }
        if late.is_empty() {
            return Ok(None);
        }
        match self.shared.root.commit(&[], |draft| bury(draft, &late)).await {
            Ok((_, catalog)) => Ok(Some(Token::Version(catalog.version))),
            // Rows folded by that version existed before it, and the next attempt sees them.
            Err(e) if e.kind() == Kind::Conflict => Box::pin(self.bury_late(series, token)).await,
            Err(e) => Err(e),
        }
    }

    /// Whether a file newer than a drop contains one of its series.
    async fn is_in_newer_files(&self, catalog: &Catalog, reach: &Reach, dropped: Version) -> Result<bool> {
        let root = &self.shared.root;
        for (partition, _) in catalog.partitions(reach.table) {
            for file in root.files(catalog, reach.table, partition).await?.iter().filter(|f| f.clean >= dropped) {
                let manifest = file.tag_manifest(root.store(), reach.table).await?;
                let wanted = |name: &str| reach.series.iter().flatten().any(|n| n == name);
                if manifest.series().names().iter().flatten().any(wanted) {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }
}

/// Adds tombstones to a draft; returns whether there were any.
///
/// # Errors
/// NotFound for a table that was dropped meanwhile; Unavailable if it has too many tombstones; Conflict if this version folds
/// rows to be covered.
pub(super) fn bury(draft: &mut Draft, reach: &[Reach]) -> Result<bool> {
    for reach in reach {
        let table = draft.catalog().table_by_id(reach.table);
        let table = table.ok_or_else(|| {
            Error::not_found("Table does not exist").because(Reason::TableNotFound).with("table", reach.table.0)
        })?;
        let mut changed = table.as_ref().clone();
        if changed.tombstones.len() >= TOMBSTONES {
            return Err(Error::unavailable("too many deletes of a table are waiting for its compaction")
                .with("table", &changed.name)
                .with("limit", TOMBSTONES));
        }
        // Segments folded meanwhile are in files that are older than this version.
        let is_above = |at: &Catalog, p: &Position| !at.is_folded(*p);
        let unfolded = |p: &Position| is_above(draft.catalog(), p);
        // A fold in this very version did not apply the tombstone, and its files are not older.
        if reach.positions.iter().any(|p| is_above(draft.base(), p) && !unfolded(p)) {
            return Err(
                Error::conflict("the version that was to delete the rows also folds them").with("table", &changed.name)
            );
        }
        changed.tombstones.push(Tombstone {
            version: draft.version(),
            series: reach.series.clone(),
            range: reach.range,
            positions: reach.positions.iter().copied().filter(unfolded).collect(),
            covers: reach.covers,
        });
        if reach.covers == Covers::Series {
            for name in reach.series.iter().flatten() {
                changed.overrides.remove(name);
            }
        }
        draft.put_table(changed)?;
    }
    Ok(!reach.is_empty())
}

/// The series and the time (in ticks) of each row of a block.
pub(super) fn keys_of(block: &Block) -> Result<(&[u32], &[i64])> {
    let series = block.rows.column(0).as_primitive::<UInt32Type>().values();
    let ts = tidelake_format::rows::ticks(block.rows.column(1));
    Ok((series, ts.ok_or_else(|| Error::internal("time column is not a timestamp"))?))
}

/// The positions and blocks of a table in a snapshot.
pub(super) fn blocks_of(snapshot: &Snapshot, table: TableId) -> Result<Vec<(Position, &Block)>> {
    Ok(snapshot.blocks(table)?.map(|(segment, block)| (segment.position, block)).collect())
}
