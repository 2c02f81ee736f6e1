//! Merge: data files of one partition → one run of larger ones, a window of series at a time.

use std::{collections::BTreeSet, ops::Range, sync::Arc, time::Duration};

use arrow::{
    array::{RecordBatch, UInt32Array},
    datatypes::{FieldRef, SchemaRef},
};
use futures::{StreamExt, TryStreamExt, future::try_join_all, stream::BoxStream};
use metrics::counter;
use tidelake_format::{
    Error, Kind, Result,
    file::{DataFile, EncodedFile},
    ids::{FileId, TableId, Version},
    layout::{data_key, tags_key},
    merge::{Dropped, series_order},
    meta::{Catalog, Draft, FileEntry},
    offload::offload,
    rows::{Block, SeriesSet},
    schema::{Database, Supertable},
    store::{Moment, Store},
    tags::TagManifest,
};

use super::{
    ATTEMPTS, CompactReport, Inner, failed,
    fold::{LONGEST, ticks},
    plan::{self, Extent},
    publish::{Published, publish},
    rewrite::{Books, Limits, Rewriter, slice, windows},
};
use crate::metrics::{DUPLICATE_ROWS, MERGE_ROWS, MERGES};

/// The most rows of one batch read from a file.
const BATCH_ROWS: usize = 1 << 16;

/// One input file.
#[derive(Debug)]
struct Input {
    /// Files of one order do not overlap each other.
    order: Version,
    file: Arc<DataFile>,
    manifest: TagManifest,
    /// The place of each of its series in the output's order.
    ranks: Vec<u32>,
    /// Its series, by rank.
    by_rank: Vec<u32>,
}

/// The order of the output and how it is cut into steps.
struct Plan {
    schema: SchemaRef,
    series: SeriesSet,
    windows: Vec<Range<usize>>,
    rows: Vec<u64>,
    limit: u64,
    /// Rows of one batch read from a file: those of all runs together fit a window.
    batch_rows: usize,
}

/// Files on their way into the store.
struct Output<'a> {
    store: &'a Store,
    table: TableId,
    partition: i64,
    published: Vec<Published>,
}

impl Output<'_> {
    async fn put(&mut self, files: Vec<EncodedFile>) -> Result<()> {
        for file in files {
            let now_ms = self.store.ambient().wall_ms();
            self.published.push(publish(self.store, now_ms, self.table, self.partition, file).await?);
        }
        Ok(())
    }
}

impl Inner {
    pub(super) async fn merge_forever(&self) {
        loop {
            // Folds make merges due, and so does time.
            let _ = tokio::time::timeout(Duration::from_secs(60), self.folded.notified()).await;
            failed("retain", self.retain().await.map(|_| ()));
            failed("merge", self.merge_all(plan::Extent::Due).await.map(|_| ()));
        }
    }

    /// Merges every partition of every table as far as `extent` says.
    pub(super) async fn merge_all(&self, extent: Extent) -> Result<CompactReport> {
        let _one = self.merging.lock().await;
        let mut report = CompactReport::default();
        let catalog = self.root.refresh().await?;
        let partitions: Vec<(TableId, i64)> = catalog
            .databases()
            .flat_map(|d| catalog.tables(d.id))
            .flat_map(|t| catalog.partitions(t.id).filter(|(_, s)| s.files > 1).map(|(p, _)| (t.id, p)))
            .collect();
        // One partition that cannot be merged does not keep the others from it.
        let mut failure = None;
        for (table, partition) in partitions {
            let mut lost = 0;
            loop {
                match self.merge(table, partition, extent).await {
                    Ok(None) => break,
                    Ok(Some(done)) => report.add(&done),
                    Err(error) if matches!(error.kind(), Kind::Conflict | Kind::NotFound) && lost < ATTEMPTS => {
                        lost += 1;
                    }
                    Err(error) => {
                        tracing::warn!(table = table.0, partition, %error, "a partition was not merged");
                        failure = failure.or(Some(error.with("table", table.0).with("partition", partition)));
                        break;
                    }
                }
            }
        }
        failure.map_or(Ok(report), Err)
    }

    /// Does the next merge of a partition that is due; `None` when there is none.
    ///
    /// # Errors
    /// Conflict when somebody else replaced an input meanwhile; NotFound when one was collected.
    async fn merge(&self, table: TableId, partition: i64, extent: Extent) -> Result<Option<CompactReport>> {
        let store = self.root.store();
        let started = Moment::now(store.ambient().as_ref());
        let known = self.root.files(&self.root.catalog(), table, partition).await?;
        if plan::choose(&known, extent, &self.config, store.ambient().wall_ms()).is_none() {
            return Ok(None); // mostly so, and without a question to the store
        }
        let catalog = self.root.refresh().await?;
        let files = self.root.files(&catalog, table, partition).await?;
        let Some(chosen) = plan::choose(&files, extent, &self.config, self.wall_ms()) else { return Ok(None) };
        let Some(supertable) = catalog.table_by_id(table).cloned() else { return Ok(None) };
        let database = catalog.database_by_id(supertable.database).cloned();
        let database = database.ok_or_else(|| Error::internal("a table without a database").with("table", table.0))?;

        let limits = Limits::new(&self.config, self.wall_ms());
        let mut books = Books::default();
        chosen.iter().for_each(|f| books.add(f.rows, f.hash));
        let mut report =
            CompactReport { merged_files: chosen.len() as u64, merged_rows: books.rows, ..CompactReport::default() };
        let mut output = Output { store, table, partition, published: Vec::new() };
        let dropped = rewrite(&mut output, supertable.clone(), database, &chosen, books, limits).await?;
        report.duplicates = dropped.rows;
        report.files = output.published.len() as u64;
        report.bytes = output.published.iter().map(Published::bytes).sum();
        if started.age(store.ambient().as_ref()) > LONGEST {
            return Err(Error::conflict("a merge took too long to be committed").with("limit_s", LONGEST.as_secs()));
        }
        let touching = [(table, partition)];
        self.root
            .commit(&touching, |draft| apply(draft, &catalog, &files, &supertable, &chosen, &output.published))
            .await?;
        counter!(MERGES).increment(1);
        counter!(MERGE_ROWS).increment(report.merged_rows);
        counter!(DUPLICATE_ROWS).increment(report.duplicates);
        tracing::info!(table = table.0, partition, ?report, "merged");
        Ok(Some(report))
    }
}

/// Applies a merge if its inputs are live, nothing of an order between them has appeared, and what it read of the
/// table is unchanged.
fn apply(
    draft: &mut Draft,
    base: &Catalog,
    known: &[FileEntry],
    table: &Supertable,
    inputs: &[FileEntry],
    outputs: &[Published],
) -> Result<()> {
    let now = draft.catalog().table_by_id(table.id);
    let now = now.ok_or_else(|| Error::conflict("the table was dropped during a merge").with("table", &table.name))?;
    if now.tombstones != table.tombstones || now.overrides != table.overrides {
        return Err(Error::conflict("rows or tags of a table changed during a merge").with("table", &table.name));
    }
    let (Some(first), Some(last)) = (inputs.first(), inputs.last()) else { return Ok(()) };
    let partition = first.partition;
    for file in inputs {
        draft.remove_file(table.id, partition, file.id)?;
    }
    // Those that were there and are no input overlap none of them.
    let known: BTreeSet<FileId> = known.iter().map(|f| f.id).collect();
    let between = |f: &FileEntry| (first.order..=last.order).contains(&f.order) && !known.contains(&f.id);
    if draft.files(table.id, partition)?.iter().any(between) {
        return Err(Error::conflict("a file of an order between the inputs has appeared").with("table", &table.name));
    }
    outputs.iter().try_for_each(|file| draft.add_file(table.id, file.entry(last.order, base.version)))
}

/// Reads the inputs a window of series at a time, the next one while the one before is sorted and encoded.
async fn rewrite(
    output: &mut Output<'_>,
    table: Arc<Supertable>,
    database: Arc<Database>,
    files: &[FileEntry],
    books: Books,
    limits: Limits,
) -> Result<Dropped> {
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
    rewriter.declare(&plan.series, &plan.rows)?;
    let (rest, dropped) = offload(move || rewriter.finish(books)).await?;
    output.put(rest).await?;
    Ok(dropped)
}

/// Opens the inputs, lowest order first, and orders their series: the tags of the oldest win.
async fn open(
    store: &Store,
    table: Arc<Supertable>,
    database: &Database,
    files: &[FileEntry],
    limits: Limits,
) -> Result<(Vec<Input>, Plan)> {
    let opened = files.iter().map(|file| {
        let (data, tags) =
            (data_key(table.id, file.partition, file.data.id), tags_key(table.id, file.partition, file.tags.id));
        async move {
            let (data, manifest) = tokio::join!(DataFile::open(store, &data, file.data.bytes), async {
                TagManifest::decode(&tags, &store.get(&tags).await?)
            });
            Ok::<_, Error>((data?, manifest?))
        }
    });
    let opened = try_join_all(opened).await?;
    let sets: Vec<&SeriesSet> = opened.iter().map(|(_, m)| m.series()).collect();
    let order = series_order(&sets, &table, database.precision)?;
    let mut rows = vec![0u64; order.series.len()];
    let mut inputs = Vec::with_capacity(files.len());
    for (((file, manifest), ranks), order) in opened.into_iter().zip(order.ranks).zip(files.iter().map(|f| f.order)) {
        let mut by_rank: Vec<u32> = (0..ranks.len() as u32).collect();
        by_rank.sort_unstable_by_key(|i| ranks[*i as usize]);
        for (rank, n) in ranks.iter().zip(manifest.row_count()) {
            rows[*rank as usize] += n;
        }
        inputs.push(Input { order, file, manifest, ranks, by_rank });
    }
    let (bytes, total) = (files.iter().map(|f| f.data.bytes).sum::<u64>(), rows.iter().sum::<u64>());
    // Encoded rows take a tenth of their memory or less when they compress well, and their own size when they do not.
    let row_bytes = (bytes * 4 / total.max(1)) as usize + 8 * (table.fields().count() + 2);
    let limit = limits.window_rows(row_bytes);
    let windows = windows(&rows, limit);
    let schema = Block::rows_schema(&table, database.precision);
    let runs = files.chunk_by(|a, b| a.order == b.order).count();
    let batch_rows = usize::try_from(limit).unwrap_or(BATCH_ROWS) / runs.max(1);
    let batch_rows = batch_rows.clamp(1_024.min(BATCH_ROWS), BATCH_ROWS);
    Ok((inputs, Plan { schema, series: order.series, windows, rows, limit, batch_rows }))
}

/// The rows of a window of series, one batch of the rows schema per piece, oldest first; `series` counts from the
/// start of the window.
async fn read(store: &Store, inputs: &[Input], plan: &Plan, window: &Range<usize>) -> Result<Vec<RecordBatch>> {
    let read = inputs.iter().map(|input| async { input.rows(store, plan, window).try_collect::<Vec<_>>().await });
    Ok(try_join_all(read).await?.into_iter().flatten().collect())
}

impl Input {
    /// The first time of a series, by its rank.
    fn first_ts(&self, rank: usize) -> Option<i64> {
        let at = self.by_rank.partition_point(|i| (self.ranks[*i as usize] as usize) < rank);
        let series = *self.by_rank.get(at)? as usize;
        (self.ranks[series] as usize == rank).then(|| self.manifest.min_ts()[series])
    }

    /// The rows of a window of series in the order of the file.
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
        let columns: Vec<FieldRef> = plan.schema.fields().iter().skip(1).cloned().collect();
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
                            .ok_or_else(|| Error::corrupt("a data file gives more rows than its tag manifest says"))?;
                    }
                    let n = left.1.min((batch.num_rows() - indices.len()) as u64);
                    indices.resize(indices.len() + n as usize, left.0);
                    left.1 -= n;
                }
                let mut columns = vec![Arc::new(UInt32Array::from(indices)) as _];
                columns.extend(batch.columns().iter().cloned());
                Ok(RecordBatch::try_new(plan.schema.clone(), columns)?)
            })
            .boxed()
    }
}

/// Sorts and writes what was read, on a thread for blocking work.
async fn write(
    mut rewriter: Rewriter,
    plan: &Plan,
    ahead: Option<(Range<usize>, Vec<RecordBatch>)>,
) -> Result<Rewriter> {
    let Some((window, batches)) = ahead else { return Ok(rewriter) };
    let series = slice(&plan.series, &window)?;
    offload(move || rewriter.write(&series, &batches).map(|()| rewriter)).await
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
        // Up to the earliest end of a head, every input's rows are in memory.
        let mut cut: Option<i64> = None;
        for head in heads.iter().flatten() {
            let last = *ticks(head)?.last().ok_or_else(|| Error::internal("a data file gave an empty batch"))?;
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
