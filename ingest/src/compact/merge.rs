//! Merge: data files of one partition → one run of larger ones, a window of series at a time.

use std::{collections::BTreeSet, ops::Range, sync::Arc, time::Duration};

use arrow::{
    array::{ArrayRef, RecordBatch, UInt32Array},
    compute::{filter_record_batch, not},
    datatypes::{FieldRef, Schema, SchemaRef},
};
use futures::{StreamExt, TryStreamExt, future::try_join_all, stream::BoxStream};
use metrics::counter;
use parking_lot::Mutex;
use tidelake_format::{
    Error, Kind, Result,
    file::{DataFile, EncodedFile},
    ids::{ColumnId, FileId, TableId, Version},
    merge::{Deletes, Dropped, content_hash, series_order},
    meta::{Catalog, Draft, FileEntry},
    offload::offload_by,
    rows::{Block, SeriesSet, series_of},
    schema::{Database, Supertable, field_id},
    step,
    steps::stepped,
    store::{Moment, Store},
    tags::TagManifest,
};
use tokio::time::{Instant, sleep};

use super::{
    ATTEMPTS, CompactReport, CompactTurn, Inner, Pause, failed,
    fold::{LONGEST, ticks},
    plan::{self, Extent},
    publish::{Published, Unnamed, publish},
    rewrite::{Books, Limits, Rewriter, slice, windows},
};
use crate::metrics::{DUPLICATE_ROWS, MERGE_ROWS, MERGES};

/// Most rows in one batch read from a file.
const BATCH_ROWS: usize = 1 << 16;

/// One input file.
#[derive(Debug)]
struct Input {
    /// Files of one order do not overlap each other.
    order: Version,
    file: Arc<DataFile>,
    manifest: TagManifest,
    /// The output rank of each series of the file.
    ranks: Vec<u32>,
    /// The series of the file, sorted by rank.
    by_rank: Vec<u32>,
    /// The `clean` version of the file's entry.
    clean: Version,
    /// Columns of the file that the table no longer has.
    gone: Vec<FieldRef>,
}

/// The order of the output and its division into windows.
struct Plan {
    table: Arc<Supertable>,
    schema: SchemaRef,
    series: SeriesSet,
    /// Series that a DROP removed: they have no rows left and are no longer named.
    gone: Vec<bool>,
    /// Series that have rows left.
    kept: Mutex<Vec<bool>>,
    /// Rows and values removed by deletes and dropped columns.
    removed: Mutex<Books>,
    windows: Vec<Range<usize>>,
    rows: Vec<u64>,
    limit: u64,
    /// Rows in one batch read from a file: the batches of all runs together fit a window.
    batch_rows: usize,
}

/// Files on their way into the store.
struct Output<'a> {
    store: &'a Store,
    table: TableId,
    partition: i64,
    published: Vec<Published>,
    unnamed: Unnamed,
}

impl Output<'_> {
    async fn put(&mut self, files: Vec<EncodedFile>) -> Result<()> {
        for file in files {
            let now_ms = self.store.ambient().wall_ms();
            self.published
                .push(publish(self.store, now_ms, self.table, self.partition, file, &mut self.unnamed).await?);
        }
        Ok(())
    }
}

impl Inner {
    pub(super) async fn merge_forever(&self) {
        let mut pause = Pause::default();
        loop {
            // Folds make merges due, and so does time.
            let _ = tokio::time::timeout(Duration::from_secs(60), self.folded.notified()).await;
            sleep(pause.left()).await;
            failed("retain", self.retain().await.map(|_| ()));
            let merged = self.merge_all(plan::Extent::Due, None).await.map(|_| ());
            pause.after(&merged);
            failed("merge", merged);
        }
    }

    /// Merges every partition of every table to the given extent; begins no merge after `until`.
    pub(super) async fn merge_all(&self, extent: Extent, until: Option<Instant>) -> Result<CompactTurn> {
        let _one = self.merging.lock().await;
        let mut turn = CompactTurn::default();
        let catalog = self.root.refresh().await?;
        let partitions: Vec<(TableId, i64)> = catalog
            .databases()
            .flat_map(|d| catalog.tables(d.id))
            .flat_map(|t| {
                let may_be_dirty = !t.tombstones.is_empty() || (extent == Extent::Full && t.stale > Version::default());
                catalog.partitions(t.id).filter(move |(_, s)| s.files > 1 || may_be_dirty).map(|(p, _)| (t.id, p))
            })
            .collect();
        // A partition that cannot be merged does not block the others.
        let mut failure = None;
        'all: for (table, partition) in partitions {
            let mut lost = 0;
            loop {
                if until.is_some_and(|until| Instant::now() >= until) {
                    turn.has_more = true;
                    break 'all;
                }
                match self.merge(table, partition, extent).await {
                    Ok(None) => break,
                    Ok(Some(done)) => turn.report.add(&done),
                    Err(error) if matches!(error.kind(), Kind::Conflict | Kind::NotFound) && lost < ATTEMPTS => {
                        lost += 1;
                    }
                    Err(error) => {
                        if error.kind() != Kind::Full {
                            tracing::warn!(table = table.0, partition, %error, "a partition could not be merged");
                        }
                        failure = failure.or(Some(error.with("table", table.0).with("partition", partition)));
                        break;
                    }
                }
            }
        }
        self.settle().await?;
        failure.map_or(Ok(turn), Err)
    }

    /// Performs the next due merge of a partition; `None` if none is due.
    ///
    /// # Errors
    /// Conflict if another process replaced an input meanwhile; NotFound if an input was collected.
    async fn merge(&self, table: TableId, partition: i64, extent: Extent) -> Result<Option<CompactReport>> {
        // The files read are about to be replaced.
        let store = &self.root.store().without_disk_cache();
        let started = Moment::now(store.ambient().as_ref());
        let catalog = self.root.catalog();
        let known = self.root.files(&catalog, table, partition).await?;
        let Some(supertable) = catalog.table_by_id(table) else { return Ok(None) };
        let dirty = self.dirty(supertable, &known, extent).await?;
        if plan::choose(&known, &dirty, extent, &self.config, store.ambient().wall_ms()).is_none() {
            return Ok(None); // the usual case, without a request to the store
        }
        let catalog = self.root.refresh().await?;
        let files = self.root.files(&catalog, table, partition).await?;
        let Some(supertable) = catalog.table_by_id(table).cloned() else { return Ok(None) };
        let dirty = self.dirty(&supertable, &files, extent).await?;
        let chosen = plan::choose(&files, &dirty, extent, &self.config, self.wall_ms());
        let Some(chosen) = chosen else { return Ok(None) };
        let database = catalog.database_by_id(supertable.database).cloned();
        let database = database.ok_or_else(|| Error::internal("a table without a database").with("table", table.0))?;

        let limits = Limits::new(&self.config, self.wall_ms(), self.urgency());
        let mut books = Books::default();
        chosen.iter().for_each(|f| books.add(f.rows, f.hash));
        let mut report =
            CompactReport { merged_files: chosen.len() as u64, merged_rows: books.rows, ..CompactReport::default() };
        let mut output = Output { store, table, partition, published: Vec::new(), unnamed: Unnamed::default() };
        store.check_space(chosen.iter().map(FileEntry::total_bytes).sum())?;
        let rewriting = rewrite(&mut output, supertable.clone(), database, &chosen, books, limits);
        let (dropped, deleted) = match stepped(step!("merge", rows = report.merged_rows), rewriting).await {
            Ok(written) => written,
            Err(error) => {
                output.unnamed.delete(store).await;
                return Err(error);
            }
        };
        (report.duplicates, report.deleted) = (dropped.rows, deleted);
        report.files = output.published.len() as u64;
        report.bytes = output.published.iter().map(Published::bytes).sum();
        if started.age(store.ambient().as_ref()) > LONGEST {
            return Err(Error::conflict("a merge took too long to be committed").with("limit_s", LONGEST.as_secs()));
        }
        let touching = [(table, partition)];
        let change = |draft: &mut Draft| apply(draft, &catalog, &files, &supertable, &chosen, &output.published);
        if let Err(error) = self.root.commit(&touching, change).await {
            if error.wrote_nothing() {
                output.unnamed.delete(store).await;
            }
            return Err(error);
        }
        self.root.store().has_space();
        counter!(MERGES).increment(1);
        counter!(MERGE_ROWS).increment(report.merged_rows);
        counter!(DUPLICATE_ROWS).increment(report.duplicates);
        let CompactReport { merged_files, merged_rows, duplicates, deleted, files, bytes, .. } = report;
        let name = &supertable.name;
        tracing::info!(
            table = %name, partition, merged_files, rows = merged_rows, duplicates, deleted, files, bytes, "merged"
        );
        Ok(Some(report))
    }
}

/// Applies a merge if its inputs are live and no file of an order between them has appeared. Deletes and changes of the table
/// since its base cover the outputs as they covered the inputs, since the outputs' `clean` is that of the base.
fn apply(
    draft: &mut Draft,
    base: &Catalog,
    known: &[FileEntry],
    table: &Supertable,
    inputs: &[FileEntry],
    outputs: &[Published],
) -> Result<()> {
    if draft.catalog().table_by_id(table.id).is_none() {
        return Err(Error::conflict("the table was dropped during a merge").with("table", &table.name));
    }
    let (Some(first), Some(last)) = (inputs.first(), inputs.last()) else { return Ok(()) };
    let partition = first.partition;
    for file in inputs {
        draft.remove_file(table.id, partition, file.id)?;
    }
    // Files that were known and are not inputs overlap none of the inputs.
    let known: BTreeSet<FileId> = known.iter().map(|f| f.id).collect();
    let between = |f: &FileEntry| (first.order..=last.order).contains(&f.order) && !known.contains(&f.id);
    if draft.files(table.id, partition)?.iter().any(between) {
        return Err(
            Error::conflict("a concurrent commit added a file between the merge inputs").with("table", &table.name)
        );
    }
    outputs.iter().try_for_each(|file| draft.add_file(table.id, file.entry(last.order, base.version)))
}

/// Reads the inputs one window of series at a time, each while the previous one is sorted and encoded.
async fn rewrite(
    output: &mut Output<'_>,
    table: Arc<Supertable>,
    database: Arc<Database>,
    files: &[FileEntry],
    books: Books,
    limits: Limits,
) -> Result<(Dropped, u64)> {
    let store = output.store;
    let (inputs, plan) = open(store, table.clone(), &database, files, limits).await?;
    let mut rewriter = Rewriter::new(table, database, limits);
    let mut ahead: Option<(Range<usize>, Vec<RecordBatch>)> = None;
    for at in 0..=plan.windows.len() {
        let window = plan.windows.get(at);
        let large = window.is_some_and(|w| w.len() == 1 && plan.rows[w.start] > plan.limit);
        let read = async {
            match window {
                Some(window) if !large => {
                    Ok::<_, Error>(Some((window.clone(), read(store, &inputs, &plan, window).await?)))
                }
                _ => Ok(None),
            }
        };
        let write = write(rewriter, &plan, ahead.take());
        let (next, written) = tokio::join!(read, write);
        (rewriter, ahead) = (written?, next?);
        if let Some(window) = window.filter(|_| large) {
            rewriter = write_large(output, &inputs, &plan, window, rewriter).await?;
        }
        output.put(rewriter.take()).await?;
    }
    let written = plan.kept.lock().iter().zip(&plan.gone).map(|(kept, gone)| u64::from(*kept || *gone)).collect();
    let declared: Vec<u64> = written;
    rewriter.declare(&plan.series, &declared)?;
    let removed = *plan.removed.lock();
    rewriter.left_out(removed);
    let (rest, dropped) = offload_by(limits.urgency, move || rewriter.finish(books)).await?;
    output.put(rest).await?;
    Ok((dropped, removed.rows))
}

/// Opens the inputs, lowest order first, and orders their series: the tags of the oldest input win.
async fn open(
    store: &Store,
    table: Arc<Supertable>,
    database: &Database,
    files: &[FileEntry],
    limits: Limits,
) -> Result<(Vec<Input>, Plan)> {
    let opened = files.iter().map(|file| {
        let id = table.id;
        async move {
            let (data, manifest) = tokio::join!(file.data_file(store, id), file.tag_manifest(store, id));
            Ok::<_, Error>((data?, manifest?))
        }
    });
    let opened = try_join_all(opened).await?;
    let masks = opened.iter().zip(files).map(|((_, m), f)| Deletes::of_file(&table, f.clean).mask(m.series()));
    let masks = masks.collect::<Result<Vec<_>>>()?;
    let sets = opened.iter().zip(&masks).map(|((_, m), mask)| mask.as_ref().map_or(m.series(), |mask| &mask.0));
    let order = series_order(&sets.collect::<Vec<_>>(), &table, database.precision)?;
    let mut gone = vec![true; order.series.len()];
    for (ranks, mask) in order.ranks.iter().zip(&masks) {
        let masked = |local: usize| mask.as_ref().is_some_and(|m| m.1.value(local));
        ranks.iter().enumerate().for_each(|(local, rank)| gone[*rank as usize] &= masked(local));
    }
    let (mut rows, mut kept) = (vec![0u64; order.series.len()], vec![false; order.series.len()]);
    let mut inputs = Vec::with_capacity(files.len());
    for (((file, manifest), ranks), entry) in opened.into_iter().zip(order.ranks).zip(files) {
        let mut by_rank: Vec<u32> = (0..ranks.len() as u32).collect();
        by_rank.sort_unstable_by_key(|i| ranks[*i as usize]);
        let whole = Deletes::of_file(&table, entry.clean).is_empty();
        for (rank, n) in ranks.iter().zip(manifest.row_count()) {
            rows[*rank as usize] += n;
            kept[*rank as usize] |= whole && *n > 0;
        }
        let is_gone =
            |id| id != ColumnId::TBNAME && table.column_by_id(id).is_none() && manifest.series().tag(id).is_none();
        let columns = file.schema().fields().iter();
        let gone = columns.filter(|f| field_id(f).is_some_and(is_gone)).cloned().collect();
        inputs.push(Input { order: entry.order, file, manifest, ranks, by_rank, clean: entry.clean, gone });
    }
    let (bytes, total) = (files.iter().map(|f| f.data.bytes).sum::<u64>(), rows.iter().sum::<u64>());
    // Encoded rows take a tenth of their memory or less if they compress well, and their full size if they do not.
    let row_bytes = (bytes * 4 / total.max(1)) as usize + 8 * (table.fields().count() + 2);
    let limit = limits.window_rows(row_bytes);
    let windows = windows(&rows, limit);
    let schema = Block::rows_schema(&table, database.precision);
    let runs = files.chunk_by(|a, b| a.order == b.order).count();
    let batch_rows = usize::try_from(limit).unwrap_or(BATCH_ROWS) / runs.max(1);
    let batch_rows = batch_rows.clamp(1_024.min(BATCH_ROWS), BATCH_ROWS);
    let (kept, removed) = (Mutex::new(kept), Mutex::default());
    Ok((inputs, Plan { table, schema, series: order.series, gone, kept, removed, windows, rows, limit, batch_rows }))
}

/// The rows of a window of series as batches of the rows schema, oldest first; `series` is relative to the start of the window.
async fn read(store: &Store, inputs: &[Input], plan: &Plan, window: &Range<usize>) -> Result<Vec<RecordBatch>> {
    let read = inputs.iter().map(|input| async { input.rows(store, plan, window).try_collect::<Vec<_>>().await });
    Ok(try_join_all(read).await?.into_iter().flatten().collect())
}

impl Input {
    /// The first time of the series with this rank.
    fn first_ts(&self, rank: usize) -> Option<i64> {
        let at = self.by_rank.partition_point(|i| (self.ranks[*i as usize] as usize) < rank);
        let series = *self.by_rank.get(at)? as usize;
        (self.ranks[series] as usize == rank).then(|| self.manifest.min_ts()[series])
    }

    /// The rows of a window of series, in file order.
    fn rows<'a>(
        &'a self,
        store: &'a Store,
        plan: &'a Plan,
        window: &Range<usize>,
    ) -> BoxStream<'a, Result<RecordBatch>> {
        let from = self.by_rank.partition_point(|i| (self.ranks[*i as usize] as usize) < window.start);
        let to = self.by_rank.partition_point(|i| (self.ranks[*i as usize] as usize) < window.end);
        let mut chosen = self.by_rank[from..to].to_vec();
        chosen.sort_unstable();
        let (mut ranges, mut series): (Vec<Range<u64>>, Vec<(u32, u64)>) = (Vec::new(), Vec::new());
        for i in chosen {
            let (first, rows) = (self.manifest.first_row()[i as usize], self.manifest.row_count()[i as usize]);
            if rows == 0 {
                continue;
            }
            match ranges.last_mut().filter(|r| r.end == first) {
                Some(range) => range.end += rows,
                None => ranges.push(first..first + rows),
            }
            series.push((self.ranks[i as usize] - window.start as u32, rows));
        }
        if ranges.is_empty() {
            return futures::stream::empty().boxed();
        }
        let columns: Vec<FieldRef> = plan.schema.fields().iter().skip(1).chain(&self.gone).cloned().collect();
        let of_window = match slice(&plan.series, window) {
            Ok(series) => series,
            Err(error) => return futures::stream::once(async { Err(error) }).boxed(),
        };
        let (deletes, start) = (Deletes::of_file(&plan.table, self.clean), window.start);
        let stream = match self.file.read(store, ranges, &columns, plan.batch_rows) {
            Ok(stream) => stream,
            Err(error) => return futures::stream::once(async { Err(error) }).boxed(),
        };
        let (mut series, mut left) = (series.into_iter(), (0u32, 0u64));
        stream
            .map(move |batch| {
                let batch = batch?;
                let mut indices = Vec::with_capacity(batch.num_rows());
                while indices.len() < batch.num_rows() {
                    if left.1 == 0 {
                        left = series
                            .next()
                            .ok_or_else(|| Error::corrupt("data file has more rows than its tag manifest"))?;
                    }
                    let n = left.1.min((batch.num_rows() - indices.len()) as u64);
                    indices.resize(indices.len() + n as usize, left.0);
                    left.1 -= n;
                }
                let mut columns = vec![Arc::new(UInt32Array::from(indices)) as _];
                columns.extend(batch.columns().iter().cloned());
                let rows = self.without_gone_columns(columns, &of_window, plan)?;
                if deletes.is_empty() {
                    return Ok(rows);
                }
                let left = match deletes.keep(&of_window, &rows)? {
                    None => rows,
                    Some(keep) => {
                        let taken = filter_record_batch(&rows, &not(&keep)?)?;
                        plan.removed.lock().add(taken.num_rows() as u64, content_hash(&of_window, &taken)?);
                        filter_record_batch(&rows, &keep)?
                    }
                };
                let mut kept = plan.kept.lock();
                series_of(&left)?.iter().for_each(|s| kept[start + *s as usize] = true);
                drop(kept);
                Ok(left)
            })
            .try_filter(|batch| std::future::ready(batch.num_rows() > 0))
            .boxed()
    }

    /// Builds rows of the plan's schema; removes and books the values of columns that the table no longer has.
    fn without_gone_columns(&self, mut columns: Vec<ArrayRef>, series: &SeriesSet, plan: &Plan) -> Result<RecordBatch> {
        let gone = columns.split_off(plan.schema.fields().len());
        let rows = RecordBatch::try_new(plan.schema.clone(), columns)?;
        if !gone.is_empty() {
            let keys = rows.project(&[0, 1])?;
            let fields = keys.schema().fields().iter().chain(&self.gone).cloned().collect::<Vec<_>>();
            let all = keys.columns().iter().cloned().chain(gone).collect();
            let with = RecordBatch::try_new(Arc::new(Schema::new(fields)), all)?;
            let hash = content_hash(series, &with)?.wrapping_sub(content_hash(series, &keys)?);
            plan.removed.lock().add(0, hash);
        }
        Ok(rows)
    }
}

/// Sorts and writes the rows read, on another thread.
async fn write(
    mut rewriter: Rewriter,
    plan: &Plan,
    ahead: Option<(Range<usize>, Vec<RecordBatch>)>,
) -> Result<Rewriter> {
    let Some((window, batches)) = ahead else { return Ok(rewriter) };
    let series = slice(&plan.series, &window)?;
    offload_by(rewriter.urgency(), move || rewriter.write(&series, &batches).map(|()| rewriter)).await
}

/// Writes one series that is too large for memory: all runs advance together in time, each file by file.
async fn write_large(
    output: &mut Output<'_>,
    inputs: &[Input],
    plan: &Plan,
    window: &Range<usize>,
    mut rewriter: Rewriter,
) -> Result<Rewriter> {
    let store = output.store;
    let mut streams: Vec<BoxStream<'_, Result<RecordBatch>>> = Vec::new();
    for run in inputs.chunk_by(|a, b| a.order == b.order) {
        let mut files: Vec<&Input> = run.iter().collect();
        files.sort_by_key(|input| input.first_ts(window.start));
        streams.push(futures::stream::iter(files).flat_map(|input| input.rows(store, plan, window)).boxed());
    }
    let mut heads: Vec<Option<RecordBatch>> = Vec::new();
    for stream in &mut streams {
        heads.push(stream.try_next().await?);
    }
    loop {
        // Up to the earliest end of a head, the rows of all inputs are in memory.
        let mut cut: Option<i64> = None;
        for head in heads.iter().flatten() {
            let last = *ticks(head)?.last().ok_or_else(|| Error::internal("data file returned an empty batch"))?;
            cut = Some(cut.map_or(last, |cut| cut.min(last)));
        }
        let Some(cut) = cut else { return Ok(rewriter) };
        let mut batches = Vec::new();
        for (head, stream) in heads.iter_mut().zip(&mut streams) {
            let Some(batch) = head.take() else { continue };
            let n = ticks(&batch)?.partition_point(|ts| *ts <= cut);
            batches.push(batch.slice(0, n));
            *head = if n < batch.num_rows() {
                Some(batch.slice(n, batch.num_rows() - n))
            } else {
                stream.try_next().await?
            };
        }
        rewriter = write(rewriter, plan, Some((window.clone(), batches))).await?;
        output.put(rewriter.take()).await?;
    }
}
