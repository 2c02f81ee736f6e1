//! Fold: log segments → data files.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, atomic::Ordering::Relaxed},
};

use arrow::{
    array::{AsArray, RecordBatch, UInt32Array},
    buffer::BooleanBuffer,
    compute::{filter_record_batch, take_record_batch},
    datatypes::UInt32Type,
};
use metrics::counter;
use tidelake_format::{
    Error, Result,
    file::EncodedFile,
    ids::{Position, TableId},
    log::{Cut, cut},
    merge::{Deletes, SeriesOrder, content_hash, series_order},
    meta::{Catalog, Draft},
    offload::{Urgency, offload_by},
    rows::{Block, SeriesSet, batch_bytes},
    schema::{Covers, Database, Supertable},
    step,
    steps::stepped,
    store::Moment,
};

use super::{
    CompactReport, Inner,
    publish::{Published, publish},
    rewrite::{Books, Limits, Rewriter, conform, covers, slice, windows},
    tags::{Kept, Named, named, set_overrides},
};
use crate::metrics::{DUPLICATE_ROWS, EXPIRED_ROWS, FOLD_ROWS, FOLDS};

/// A fold or merge that takes longer starts afresh.
pub(super) const LONGEST: std::time::Duration = std::time::Duration::from_secs(30 * 60);

/// The files of one partition of one table.
struct Folded {
    table: TableId,
    partition: i64,
    files: Vec<EncodedFile>,
}

/// What folding gave: files, rows read, rows dropped for newer ones, rows beyond KEEP, rows that deletes took.
#[derive(Default)]
struct Output {
    folded: Vec<Folded>,
    rows: u64,
    dropped: u64,
    expired: u64,
    deleted: u64,
}

impl Inner {
    /// Folds one cut of the log; nothing to fold is no error.
    ///
    /// # Errors
    /// Conflict when somebody else folded the same segments meanwhile; when all that is left waits for a segment that
    /// cannot be read, the error of that one.
    pub(super) async fn fold(&self) -> Result<CompactReport> {
        stepped(step!("fold"), self.fold_cut()).await
    }

    async fn fold_cut(&self) -> Result<CompactReport> {
        let started = Moment::now(self.root.store().ambient().as_ref());
        let cut = Arc::new(cut(&self.root, self.margin(), self.config.fold_max_bytes).await?);
        for fault in &cut.faults {
            let kind = fault.error.kind();
            tracing::error!(position = %fault.position, ?kind, error = %fault.error, "a segment holds up the log");
        }
        let held = cut.faults.first().filter(|_| cut.segments.is_empty());
        let held = held.map(|fault| Error::new(fault.error.kind(), fault.error.to_string()));
        if cut.is_empty() {
            return held.map_or_else(|| Ok(CompactReport::default()), Err);
        }
        let urgency = self.look_back(cut.has_more);
        let taken = cut.clone();
        let mut tables = offload_by(urgency, move || order(&taken)).await?;
        self.keep_tags_of(&cut, &mut tables, urgency).await?;
        let limits = Limits::new(&self.config, self.wall_ms(), urgency);
        let (tables, taken, ordered) = {
            let tables = Arc::new(tables);
            (tables.clone(), cut.clone(), tables)
        };
        let output = offload_by(urgency, move || rewrite(&taken, &ordered, limits)).await?;

        let mut report = CompactReport {
            segments: cut.segments.len() as u64,
            folded_rows: output.rows,
            duplicates: output.dropped,
            expired_rows: output.expired,
            deleted: output.deleted,
            ..CompactReport::default()
        };
        let published = self.publish_all(output.folded).await?;
        report.files = published.len() as u64;
        report.bytes = published.iter().map(Published::bytes).sum();
        if started.age(self.root.store().ambient().as_ref()) > LONGEST {
            return Err(Error::conflict("a fold took too long to be committed").with("limit_s", LONGEST.as_secs()));
        }
        let touching: BTreeSet<_> = published.iter().map(|f| (f.table, f.partition())).collect();
        let touching: Vec<_> = touching.into_iter().collect();
        self.root.commit(&touching, |draft| apply(draft, &cut, &tables, &published, output.expired > 0)).await?;
        for (table, ordered) in tables.iter().filter(|(_, ordered)| !ordered.named.is_empty()) {
            let files = published.iter().filter(|f| f.table == *table).map(Published::tags);
            self.established.folded(*table, files, &ordered.named);
        }
        counter!(FOLDS).increment(1);
        counter!(FOLD_ROWS).increment(report.folded_rows);
        counter!(DUPLICATE_ROWS).increment(report.duplicates);
        counter!(EXPIRED_ROWS).increment(report.expired_rows);
        tracing::info!(?report, "folded");
        held.map_or(Ok(report), Err)
    }
}

impl Inner {
    async fn publish_all(&self, folded: Vec<Folded>) -> Result<Vec<Published>> {
        let mut published = Vec::new();
        for Folded { table, partition, files } in folded {
            for file in files {
                published.push(publish(self.root.store(), self.wall_ms(), table, partition, file).await?);
            }
        }
        Ok(published)
    }

    /// As [`Compactor::files_of_new`](super::Compactor::files_of_new).
    pub(super) async fn files_of_new(
        &self,
        table: &Arc<Supertable>,
        database: &Arc<Database>,
        position: Position,
        blocks: &Arc<Vec<Block>>,
    ) -> Result<Vec<Published>> {
        // Somebody waits for it.
        let limits = Limits::new(&self.config, self.wall_ms(), Urgency::Now);
        let (table, database, blocks) = (table.clone(), database.clone(), blocks.clone());
        let output = offload_by(limits.urgency, move || {
            let blocks: Vec<_> = blocks.iter().map(|block| (position, block)).collect();
            let ordered = order_table(&table, &database, &blocks, &[])?;
            let first_kept = table.first_kept(&database, limits.now_ms);
            let mut output = Output::default();
            fold_table((&table, &database), &blocks, &ordered, limits, first_kept, &mut output)?;
            Ok::<_, Error>(output)
        });
        self.publish_all(output.await?.folded).await
    }

    /// Takes note of whether the log grows faster than it is folded: only then compaction is as urgent as what makes it grow.
    fn look_back(&self, has_more: bool) -> Urgency {
        self.is_late.store(has_more, Relaxed);
        self.urgency()
    }

    pub(super) fn urgency(&self) -> Urgency {
        if self.is_late.load(Relaxed) { Urgency::Now } else { Urgency::Behind }
    }

    /// Lets series that have other tags in live files keep them.
    async fn keep_tags_of(&self, cut: &Arc<Cut>, tables: &mut Ordered, urgency: Urgency) -> Result<()> {
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

/// Applies a fold if every watermark that it starts from, and what it read of its tables, is unchanged.
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
        return Err(
            Error::conflict("a table keeps rows longer than when a fold left some out").with("table", &table.name)
        );
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

/// Whether a fold that read its table as `base` has to be done again: a delete took some of its rows, or series whose
/// tags it may have gone by; or a column went that its files would hold for good, since they are newer than that.
fn changed(base: &Supertable, now: &Supertable, cut: &Cut) -> bool {
    let new = now.tombstones.iter().filter(|t| base.tombstones.iter().all(|old| old.version != t.version));
    let mut taken =
        new.filter(|t| t.covers == Covers::Series || cut.segments.iter().any(|s| t.covers_segment(s.position)));
    taken.next().is_some()
        || now.stale != base.stale
        || now.forgotten != base.forgotten
        || base.overrides.keys().any(|series| !now.overrides.contains_key(series))
}

/// Forgets the positions of tombstones that are folded now: what is left of their rows lies in files.
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
type Ordered = BTreeMap<TableId, OrderedTable>;

/// The series of one table.
#[derive(Debug)]
struct OrderedTable {
    /// For each block: its series without the tags of those that a DROP covers, and which these are.
    masks: Vec<Option<(SeriesSet, BooleanBuffer)>>,
    order: SeriesOrder,
    named: Vec<Named>,
    kept: Kept,
}

/// Orders the series of a cut. Rows of dropped tables go with them.
fn order(cut: &Cut) -> Result<Ordered> {
    let mut ordered = Ordered::new();
    for (id, blocks) in blocks(cut) {
        if let Some((table, database)) = table_of(&cut.catalog, id)? {
            ordered.insert(id, order_table(table, database, &blocks, &[])?);
        }
    }
    Ok(ordered)
}

/// Orders the series of a table; the tags of `before` come before those of the blocks.
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

/// Segments into files, table by table.
fn rewrite(cut: &Cut, tables: &Ordered, limits: Limits) -> Result<Output> {
    let mut output = Output::default();
    let now_ms = cut.clock_ms.min(limits.now_ms);
    for (id, blocks) in blocks(cut) {
        let (Some((table, database)), Some(ordered)) = (table_of(&cut.catalog, id)?, tables.get(&id)) else { continue };
        fold_table((table, database), &blocks, ordered, limits, table.first_kept(database, now_ms), &mut output)?;
    }
    Ok(output)
}

/// Rows of one batch that belong to one partition, grouped by window.
struct Part {
    rows: RecordBatch,
    order: UInt32Array,
    ends: Vec<usize>,
}

fn fold_table(
    (table, database): (&Arc<Supertable>, &Arc<Database>),
    blocks: &[(Position, &Block)],
    OrderedTable { masks, order, .. }: &OrderedTable,
    limits: Limits,
    first_kept: i64,
    output: &mut Output,
) -> Result<()> {
    let deletes: Vec<Deletes<'_>> = blocks.iter().map(|(at, _)| Deletes::of_segment(table, *at)).collect();
    // A series that exists has at least one block that no DROP covers.
    let mut exists = vec![false; order.series.len()];
    for (ranks, mask) in order.ranks.iter().zip(masks) {
        let gone = |local: usize| mask.as_ref().is_some_and(|m| m.1.value(local));
        ranks.iter().enumerate().for_each(|(local, rank)| exists[*rank as usize] |= !gone(local));
    }
    let schema = Block::rows_schema(table, database.precision);
    let mut partitions: BTreeMap<i64, (Vec<RecordBatch>, Books)> = BTreeMap::new();
    for (((_, block), deletes), ranks) in blocks.iter().zip(&deletes).zip(&order.ranks) {
        output.rows += block.len() as u64;
        let mut rows = conform(&block.rows, Some(ranks), &schema)?;
        let keep = deletes.keep(&block.series, &block.rows)?;
        if let Some(keep) = &keep {
            rows = filter_record_batch(&rows, keep)?;
            output.deleted += (block.len() - rows.num_rows()) as u64;
        }
        let mut left = rows.num_rows();
        let parts = split(&rows, database)?;
        let whole = parts.len() == 1 && keep.is_none() && covers(table, block);
        for (partition, rows) in parts {
            left -= rows.num_rows();
            if partition < first_kept {
                output.expired += rows.num_rows() as u64;
                continue;
            }
            // The sum over the block as it was read covers the steps since, too.
            let hash =
                if whole { content_hash(&block.series, &block.rows)? } else { content_hash(&order.series, &rows)? };
            let (batches, books) = partitions.entry(partition).or_default();
            books.add(rows.num_rows() as u64, hash);
            batches.push(rows);
        }
        if left > 0 {
            return Err(Error::internal("rows of a segment fell into no partition").with("found", left));
        }
    }
    // Series that are only declared are named in one file, if need be in one without rows.
    let mut total: Vec<u64> = exists.iter().map(|exists| u64::from(!exists)).collect();
    if partitions.is_empty() && exists.contains(&true) {
        let now = limits.now_ms.saturating_mul(database.precision.per_second() / 1_000);
        partitions.entry(database.partition_of(now)).or_default();
    }
    let last = partitions.keys().next_back().copied();
    for (partition, (batches, books)) in partitions {
        let mut counts = vec![0u64; order.series.len()];
        for batch in &batches {
            batch.column(0).as_primitive::<UInt32Type>().values().iter().for_each(|s| counts[*s as usize] += 1);
        }
        total.iter_mut().zip(&counts).for_each(|(total, n)| *total += n);
        let bytes: usize = batches.iter().map(batch_bytes).sum();
        let windows = windows(&counts, limits.window_rows(bytes / (books.rows as usize).max(1)));
        let mut window_of = vec![0u32; order.series.len()];
        for (w, window) in windows.iter().enumerate() {
            window_of[window.clone()].fill(w as u32);
        }
        let parts: Vec<Part> = batches.into_iter().map(|rows| group(rows, &window_of, windows.len())).collect();
        let mut rewriter = Rewriter::new(table.clone(), database.clone(), limits);
        for (w, window) in windows.iter().enumerate() {
            let series = slice(&order.series, window)?;
            let mut rows = Vec::new();
            for part in &parts {
                let (start, end) = (if w == 0 { 0 } else { part.ends[w - 1] }, part.ends[w]);
                if start < end {
                    let taken = take_record_batch(&part.rows, &part.order.slice(start, end - start))?;
                    rows.push(rebase(&taken, window.start as u32)?);
                }
            }
            rewriter.write(&series, &rows)?;
        }
        if Some(partition) == last {
            rewriter.declare(&order.series, &total)?;
        }
        let (files, dropped) = rewriter.finish(books)?;
        output.dropped += dropped.rows;
        output.folded.push(Folded { table: table.id, partition, files });
    }
    Ok(())
}

/// Rows by the partition of their time.
fn split(rows: &RecordBatch, database: &Database) -> Result<Vec<(i64, RecordBatch)>> {
    let ticks = ticks(rows)?;
    let (Some(min), Some(max)) = (ticks.iter().min(), ticks.iter().max()) else { return Ok(Vec::new()) };
    let (first, last) = (database.partition_of(*min), database.partition_of(*max));
    if first == last {
        return Ok(vec![(first, rows.clone())]);
    }
    let mut partitions: BTreeMap<i64, Vec<u32>> = BTreeMap::new();
    for (i, ts) in ticks.iter().enumerate() {
        partitions.entry(database.partition_of(*ts)).or_default().push(i as u32);
    }
    let take = |(partition, at): (i64, Vec<u32>)| Ok((partition, take_record_batch(rows, &UInt32Array::from(at))?));
    partitions.into_iter().map(take).collect()
}

/// The time column as ticks.
pub(super) fn ticks(rows: &RecordBatch) -> Result<arrow::buffer::ScalarBuffer<i64>> {
    use arrow::array::Array;
    let data = rows.column(1).to_data();
    let ticks = data.buffers().first().map(|b| arrow::buffer::ScalarBuffer::new(b.clone(), data.offset(), data.len()));
    ticks.ok_or_else(|| Error::internal("the second column of rows is not a timestamp"))
}

/// A stable grouping of rows by window: a counting sort of their places.
fn group(rows: RecordBatch, window_of: &[u32], windows: usize) -> Part {
    let series = rows.column(0).as_primitive::<UInt32Type>().values();
    let mut ends = vec![0usize; windows];
    series.iter().for_each(|s| ends[window_of[*s as usize] as usize] += 1);
    let mut next = Vec::with_capacity(windows);
    let mut sum = 0;
    for end in &mut ends {
        next.push(sum);
        sum += *end;
        *end = sum;
    }
    let mut order = vec![0u32; series.len()];
    for (i, s) in series.iter().enumerate() {
        let at = &mut next[window_of[*s as usize] as usize];
        order[*at] = i as u32;
        *at += 1;
    }
    Part { order: UInt32Array::from(order), ends, rows }
}

/// Rows whose series count from the start of a window.
pub(super) fn rebase(rows: &RecordBatch, start: u32) -> Result<RecordBatch> {
    let series = rows.column(0).as_primitive::<UInt32Type>().unary::<_, UInt32Type>(|s| s - start);
    let mut columns = rows.columns().to_vec();
    columns[0] = Arc::new(series);
    Ok(RecordBatch::try_new(rows.schema(), columns)?)
}
