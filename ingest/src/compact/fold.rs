//! Fold: log segments → data files.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use arrow::{array::RecordBatch, buffer::BooleanBuffer};
use metrics::counter;
use tidelake_format::{
    Error, Result,
    ids::{Position, TableId},
    log::{Cut, cut_within},
    merge::{Deletes, SeriesOrder, series_order},
    meta::{Catalog, Draft},
    offload::{Urgency, offload_by},
    rows::{Block, SeriesSet},
    schema::{Covers, Database, Supertable},
    step,
    steps::stepped,
    store::Moment,
};

use super::{
    CompactReport, Inner,
    folding::{Counts, Folded, Folding, Input},
    publish::{Published, Unnamed, publish},
    rewrite::Limits,
    tags::{Kept, Named, named, set_overrides},
};
use tokio::time::Instant;

use crate::metrics::{DUPLICATE_ROWS, EXPIRED_ROWS, FOLD_ROWS, FOLDS};

/// Longest fold or merge; a longer one is discarded and starts again.
pub(super) const LONGEST: Duration = Duration::from_secs(30 * 60);

impl Inner {
    /// Folds one cut of the log; an empty cut is not an error.
    ///
    /// # Errors
    /// Conflict if another process folded the same segments meanwhile; if all remaining segments wait for one that cannot be
    /// read, the error of that one.
    pub(super) async fn fold(&self) -> Result<CompactReport> {
        stepped(step!("fold"), self.fold_cut()).await
    }

    async fn fold_cut(&self) -> Result<CompactReport> {
        let started = Moment::now(self.root.store().ambient().as_ref());
        let looked = Instant::now();
        let (mut most, memory) = (self.config.fold_max_bytes, self.config.fold_memory_bytes);
        if let Some(free) = self.root.store().free_bytes() {
            // The segments are deleted only some time after their files exist.
            most = most.min(free / 2);
        }
        let cut = Arc::new(cut_within(&self.root, self.margin(), most, memory).await?);
        for fault in &cut.faults {
            let kind = fault.error.kind();
            tracing::error!(position = %fault.position, ?kind, error = %fault.error, "a faulty segment blocks the log");
        }
        let held = cut.faults.first().filter(|_| cut.segments.is_empty());
        let held = held.map(|fault| fault.error.copied());
        let urgency = self.look_back(cut.has_more);
        if cut.is_empty() {
            return held.map_or_else(|| Ok(CompactReport::default()), Err);
        }
        self.root.store().check_space(cut.segments.iter().map(|s| s.bytes).sum())?;
        let taken = cut.clone();
        let mut tables = offload_by(urgency, move || order(&taken)).await?;
        self.keep_tags_of(&cut, &mut tables, urgency).await?;
        let tables: Ordered = tables.into_iter().map(|(table, ordered)| (table, Arc::new(ordered))).collect();
        let limits = Limits::new(&self.config, self.wall_ms(), urgency);
        let mut unnamed = Unnamed::default();
        let written = self.write_files(inputs(&cut, &tables, limits)?, limits, &mut unnamed).await;
        let (published, counts) = match written {
            Ok(written) => written,
            Err(error) => {
                unnamed.delete(self.root.store()).await;
                return Err(error);
            }
        };
        let report = CompactReport {
            segments: cut.segments.len() as u64,
            folded_rows: counts.rows,
            duplicates: counts.dropped,
            expired_rows: counts.expired,
            deleted: counts.deleted,
            files: published.len() as u64,
            bytes: published.iter().map(Published::bytes).sum(),
            ..CompactReport::default()
        };
        if started.age(self.root.store().ambient().as_ref()) > LONGEST {
            return Err(Error::conflict("a fold took too long to be committed").with("limit_s", LONGEST.as_secs()));
        }
        let touching: BTreeSet<_> = published.iter().map(|f| (f.table, f.partition())).collect();
        let touching: Vec<_> = touching.into_iter().collect();
        let change = |draft: &mut Draft| apply(draft, &cut, &tables, &published, counts.expired > 0);
        if let Err(error) = self.root.commit(&touching, change).await {
            if error.wrote_nothing() {
                unnamed.delete(self.root.store()).await;
            }
            return Err(error);
        }
        self.root.store().has_space();
        for (table, ordered) in tables.iter().filter(|(_, ordered)| !ordered.named.is_empty()) {
            let files = published.iter().filter(|f| f.table == *table).map(Published::tags);
            self.established.folded(*table, files, &ordered.named);
        }
        counter!(FOLDS).increment(1);
        counter!(FOLD_ROWS).increment(report.folded_rows);
        counter!(DUPLICATE_ROWS).increment(report.duplicates);
        counter!(EXPIRED_ROWS).increment(report.expired_rows);
        match cut.has_more {
            true => self.backlog.folded(cut.segments.iter().map(|s| s.memory_bytes()).sum()),
            // The margin is measured by the store's clock, which may be as coarse as a second.
            false => self.backlog.folded_until(looked - self.margin() - Duration::from_secs(1)),
        }
        let CompactReport { segments, folded_rows, duplicates, expired_rows, deleted, files, bytes, .. } = report;
        tracing::info!(segments, rows = folded_rows, duplicates, expired_rows, deleted, files, bytes, "folded");
        held.map_or(Ok(report), Err)
    }
}

impl Inner {
    /// Writes the files of some tables and puts each as soon as it is complete.
    async fn write_files(
        &self,
        inputs: Vec<Input>,
        limits: Limits,
        unnamed: &mut Unnamed,
    ) -> Result<(Vec<Published>, Counts)> {
        let mut published = Vec::new();
        let mut folding = Folding::new(inputs, limits);
        loop {
            let turn = offload_by(limits.urgency, move || folding.turn()).await?;
            for Folded { table, partition, file } in turn.files {
                published.push(publish(self.root.store(), self.wall_ms(), table, partition, file, unnamed).await?);
            }
            match turn.rest {
                Some(rest) => folding = rest,
                None => return Ok((published, turn.counts)),
            }
        }
    }

    /// As [`Compactor::files_of_new`](super::Compactor::files_of_new).
    pub(super) async fn files_of_new(
        &self,
        table: &Arc<Supertable>,
        database: &Arc<Database>,
        position: Position,
        blocks: &Arc<Vec<Block>>,
    ) -> Result<Vec<Published>> {
        // A client waits for it.
        let limits = Limits::new(&self.config, self.wall_ms(), Urgency::Now);
        let blocks: Vec<_> = blocks.iter().map(|block| (position, block.clone())).collect();
        let (table, database) = (table.clone(), database.clone());
        let order = move || {
            let of_table: Vec<_> = blocks.iter().map(|(at, block)| (*at, block)).collect();
            let ordered = Arc::new(order_table(&table, &database, &of_table, &[])?);
            let first_kept = table.first_kept(&database, limits.now_ms);
            Ok(Input { table, database, blocks, ordered, first_kept })
        };
        let input = offload_by(limits.urgency, order).await?;
        let mut unnamed = Unnamed::default();
        match self.write_files(vec![input], limits, &mut unnamed).await {
            Ok((published, _)) => Ok(published),
            Err(error) => {
                unnamed.delete(self.root.store()).await;
                Err(error)
            }
        }
    }

    /// Records whether the log grows faster than it is folded: only then compaction is as urgent as the writes.
    fn look_back(&self, has_more: bool) -> Urgency {
        self.is_late.store(has_more, Relaxed);
        self.urgency()
    }

    pub(super) fn urgency(&self) -> Urgency {
        if self.is_late.load(Relaxed) { Urgency::Now } else { Urgency::Behind }
    }

    /// Preserves the tags of series that have other tags in live files.
    async fn keep_tags_of(
        &self,
        cut: &Arc<Cut>,
        tables: &mut BTreeMap<TableId, OrderedTable>,
        urgency: Urgency,
    ) -> Result<()> {
        for (id, ordered) in tables {
            let Some((table, database)) = table_of(&cut.catalog, *id)? else { continue };
            ordered.kept =
                self.keep_tags(&cut.catalog, (table, database), &ordered.order.series, &ordered.named).await?;
            if ordered.kept.before.is_empty() {
                continue;
            }
            let (taken, id, before) = (cut.clone(), *id, std::mem::take(&mut ordered.kept.before));
            let again = offload_by(urgency, move || {
                let blocks = blocks(&taken);
                let of_table = blocks.get(&id).map(Vec::as_slice).unwrap_or_default();
                table_of(&taken.catalog, id)?.map(|(t, d)| order_table(t, d, of_table, &before)).transpose()
            });
            if let Some(again) = again.await? {
                *ordered = OrderedTable { kept: std::mem::take(&mut ordered.kept), ..again };
            }
        }
        Ok(())
    }
}

/// Applies a fold if all its base watermarks, and the parts of its tables that it read, are unchanged.
fn apply(draft: &mut Draft, cut: &Cut, ordered: &Ordered, published: &[Published], some_expired: bool) -> Result<()> {
    if ordered.values().any(|t| !t.named.is_empty()) {
        cut.apply_alone(draft)?
    } else {
        cut.apply(draft)?
    };
    let kept = |catalog: &Catalog, table: TableId| {
        let table = catalog.table_by_id(table)?;
        Some(table.kept_ms(catalog.database_by_id(table.database)?))
    };
    let kept_longer =
        |t: &&Arc<Supertable>| kept(draft.catalog(), t.id).is_some_and(|now| kept(&cut.catalog, t.id) < Some(now));
    let mut tables = cut.catalog.databases().flat_map(|d| cut.catalog.tables(d.id));
    if some_expired && let Some(table) = tables.find(kept_longer) {
        return Err(Error::conflict("KEEP of a table was raised during a fold that dropped expired rows")
            .with("table", &table.name));
    }
    let order = draft.version();
    for file in published {
        let (Some(now), Some(base)) = (draft.catalog().table_by_id(file.table), cut.catalog.table_by_id(file.table))
        else {
            continue; // dropped meanwhile: the file is an orphan
        };
        if changed(base, now, cut) {
            return Err(Error::conflict("rows or tags of a table changed during a fold").with("table", &base.name));
        }
        draft.add_file(file.table, file.entry(order, order))?;
    }
    ordered.iter().try_for_each(|(table, ordered)| set_overrides(draft, *table, &ordered.kept))?;
    settle(draft)
}

/// Whether a fold that read its table as `base` must be repeated: a delete covered some of its rows, or series whose tags it
/// may have used; or a column was dropped whose values would stay in its files for ever, since these are newer than the drop.
fn changed(base: &Supertable, now: &Supertable, cut: &Cut) -> bool {
    let new = now.tombstones.iter().filter(|t| base.tombstones.iter().all(|old| old.version != t.version));
    let mut taken =
        new.filter(|t| t.covers == Covers::Series || cut.segments.iter().any(|s| t.covers_segment(s.position)));
    taken.next().is_some()
        || now.stale != base.stale
        || now.forgotten != base.forgotten
        || base.overrides.keys().any(|series| !now.overrides.contains_key(series))
}

/// Removes folded positions from tombstones: remaining rows are in files.
fn settle(draft: &mut Draft) -> Result<()> {
    let mut settled = Vec::new();
    for database in draft.catalog().databases() {
        for table in draft.catalog().tables(database.id) {
            let folded = |p: &Position| draft.catalog().is_folded(*p);
            if table.tombstones.iter().any(|t| t.positions.iter().any(folded)) {
                let mut table = table.as_ref().clone();
                table.tombstones.iter_mut().for_each(|t| t.positions.retain(|p| !folded(p)));
                settled.push(table);
            }
        }
    }
    settled.into_iter().try_for_each(|table| draft.put_table(table))
}

/// The blocks of a cut, by table.
fn blocks(cut: &Cut) -> BTreeMap<TableId, Vec<(Position, &Block)>> {
    let mut tables: BTreeMap<TableId, Vec<(Position, &Block)>> = BTreeMap::new();
    for segment in &cut.segments {
        for block in &segment.segment.blocks {
            tables.entry(block.table).or_default().push((segment.position, block));
        }
    }
    tables
}

/// A table that still exists, and its database.
fn table_of(catalog: &Catalog, id: TableId) -> Result<Option<(&Arc<Supertable>, &Arc<Database>)>> {
    let Some(table) = catalog.table_by_id(id) else { return Ok(None) };
    let database = catalog.database_by_id(table.database);
    let database = database.ok_or_else(|| Error::internal("a table without a database").with("table", &table.name))?;
    Ok(Some((table, database)))
}

/// The tables of a fold with their series in file order.
type Ordered = BTreeMap<TableId, Arc<OrderedTable>>;

/// The ordered series of one table.
#[derive(Debug)]
pub(super) struct OrderedTable {
    /// For each block with dropped series: its series without the tags of those, and a mask of those.
    pub(super) masks: Vec<Option<(SeriesSet, BooleanBuffer)>>,
    pub(super) order: SeriesOrder,
    named: Vec<Named>,
    kept: Kept,
}

/// Orders the series of a cut. Rows of dropped tables are left out.
fn order(cut: &Cut) -> Result<BTreeMap<TableId, OrderedTable>> {
    let mut ordered = BTreeMap::new();
    for (id, blocks) in blocks(cut) {
        if let Some((table, database)) = table_of(&cut.catalog, id)? {
            ordered.insert(id, order_table(table, database, &blocks, &[])?);
        }
    }
    Ok(ordered)
}

/// Orders the series of a table; the tags of `before` take precedence over those of the blocks.
fn order_table(
    table: &Supertable,
    database: &Database,
    blocks: &[(Position, &Block)],
    before: &[SeriesSet],
) -> Result<OrderedTable> {
    let mask = |(at, block): &(Position, &Block)| Deletes::of_segment(table, *at).mask(&block.series);
    let masks: Vec<_> = blocks.iter().map(mask).collect::<Result<_>>()?;
    let sets = blocks.iter().zip(&masks).map(|((_, b), mask)| mask.as_ref().map_or(&b.series, |m| &m.0));
    let mut order = series_order(&before.iter().chain(sets).collect::<Vec<_>>(), table, database.precision)?;
    order.ranks.drain(..before.len());
    let named = named(table, &order.series)?;
    Ok(OrderedTable { masks, order, named, kept: Kept::default() })
}

/// The inputs of a cut, for each table that still exists.
fn inputs(cut: &Cut, tables: &Ordered, limits: Limits) -> Result<Vec<Input>> {
    let mut inputs = Vec::new();
    let now_ms = cut.clock_ms.min(limits.now_ms);
    for (id, blocks) in blocks(cut) {
        let (Some((table, database)), Some(ordered)) = (table_of(&cut.catalog, id)?, tables.get(&id)) else { continue };
        let first_kept = table.first_kept(database, now_ms);
        let blocks = blocks.into_iter().map(|(at, block)| (at, block.clone())).collect();
        let (table, database, ordered) = (table.clone(), database.clone(), ordered.clone());
        inputs.push(Input { table, database, blocks, ordered, first_kept });
    }
    Ok(inputs)
}

/// The time column as ticks.
pub(super) fn ticks(rows: &RecordBatch) -> Result<arrow::buffer::ScalarBuffer<i64>> {
    use arrow::array::Array;
    let data = rows.column(1).to_data();
    let ticks = data.buffers().first().map(|b| arrow::buffer::ScalarBuffer::new(b.clone(), data.offset(), data.len()));
    ticks.ok_or_else(|| Error::internal("time column is not a timestamp"))
}
