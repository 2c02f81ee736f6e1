//! Counts the rows that a DELETE covers, and finds their series and log segments.
//!
//! Whole chunks within the range that do not overlap others are counted from the tag manifests. Times are read only where
//! chunks of a series overlap, extend beyond the range or have deleted rows.

use std::{collections::BTreeSet, ops::Range, sync::Arc};

use arrow::{
    array::{ArrayRef, RecordBatch, UInt32Array},
    datatypes::{FieldRef, Schema},
};
use futures::{StreamExt, TryStreamExt, stream};
use tidelake_format::{
    Error, Result,
    ids::Position,
    merge::{Deletes, series_order},
    meta::FileEntry,
    rows::{Block, SeriesSet, series_field, ticks},
    schema::{Database, Supertable},
    snapshot::Snapshot,
    tags::TagManifest,
};

use super::{
    delete::{blocks_of, keys_of},
    filter::Filter,
};
use crate::write::Ingest;

/// Manifests and files read concurrently.
const PARALLEL: usize = 8;
/// Most times held in memory, unless a single series has more.
const KEYS: u64 = 8 << 20;
/// Rows in one batch read from a file.
const BATCH_ROWS: usize = 1 << 16;

/// Coverage of a DELETE.
#[derive(Debug, Default)]
pub(super) struct Counted {
    /// Rows, one per (series, time).
    pub(super) rows: u64,
    /// Names of the rows' series.
    pub(super) series: BTreeSet<String>,
    /// Log segments that contain some of the rows.
    pub(super) positions: BTreeSet<Position>,
}

/// A file or log block of a table, with its series and applicable deletes.
struct Source<'a> {
    deletes: Deletes<'a>,
    set: SeriesSet,
    origin: Origin<'a>,
}

enum Origin<'a> {
    File(Box<FileEntry>, Box<TagManifest>),
    Block(Position, &'a Block),
}

/// Rows of one series in one source, with their time span.
#[derive(Debug, Clone)]
struct Chunk {
    rank: u32,
    source: usize,
    local: u32,
    rows: Range<u64>,
    span: (i64, i64),
    /// Whether all rows count and no time occurs twice.
    plain: bool,
}

impl Ingest {
    /// Counts the rows of a table that a DELETE covers, of one series or of those that match the filter.
    pub(super) async fn count(
        &self,
        snapshot: &Snapshot,
        table: &Arc<Supertable>,
        database: &Database,
        filter: &Filter,
        only: Option<&str>,
    ) -> Result<Counted> {
        // The tags of a series are those of its oldest rows, which may be before the range.
        let looked_at = if filter.series.is_some() { (i64::MIN, i64::MAX) } else { filter.range };
        let sources = self.sources(snapshot, table, looked_at).await?;
        let masks = sources.iter().map(|s| s.deletes.mask(&s.set)).collect::<Result<Vec<_>>>()?;
        let sets = sources.iter().zip(&masks).map(|(s, mask)| mask.as_ref().map_or(&s.set, |m| &m.0));
        let order = series_order(&sets.collect::<Vec<_>>(), table, database.precision)?;
        let mut wanted = match &filter.series {
            None => vec![true; order.series.len()],
            Some(condition) => condition.select(&order.series),
        };
        if let Some(only) = only {
            order.series.names().iter().zip(&mut wanted).for_each(|(name, wanted)| *wanted &= name == Some(only));
        }
        let mut chunks = Vec::new();
        for (at, (source, ranks)) in sources.iter().zip(&order.ranks).enumerate() {
            chunks.extend(source.chunks(at, ranks, &wanted, filter.range)?);
        }
        chunks.sort_by_key(|c| (c.rank, c.span));

        let mut counted = Counted::default();
        let mut hit = vec![false; order.series.len()];
        let mut close: Vec<Chunk> = Vec::new();
        for group in chunks.chunk_by(|a, b| a.rank == b.rank) {
            let mut end = i64::MIN;
            let mut overlaps = false;
            for chunk in group {
                overlaps |= end >= chunk.span.0 && end > i64::MIN;
                end = end.max(chunk.span.1);
            }
            if !overlaps && group.iter().all(|c| c.plain) {
                counted.rows += group.iter().map(|c| c.rows.end - c.rows.start).sum::<u64>();
                hit[group[0].rank as usize] = true;
            } else {
                close.extend_from_slice(group);
            }
        }
        // Segments with only deleted rows could be left out, but including them is harmless.
        counted.positions = chunks.iter().filter_map(|c| sources[c.source].position()).collect();
        let mut window: Vec<Chunk> = Vec::new();
        let mut held = 0;
        for group in close.chunk_by(|a, b| a.rank == b.rank) {
            let rows: u64 = group.iter().map(|c| c.rows.end - c.rows.start).sum();
            if held > 0 && held + rows > KEYS {
                self.distinct(table, database, &sources, &window, filter.range, &mut counted.rows, &mut hit).await?;
                window.clear();
                held = 0;
            }
            window.extend_from_slice(group);
            held += rows;
        }
        self.distinct(table, database, &sources, &window, filter.range, &mut counted.rows, &mut hit).await?;
        let names = order.series.names().iter().flatten().zip(hit).filter(|(_, hit)| *hit);
        counted.series = names.map(|(name, _)| name.to_owned()).collect();
        Ok(counted)
    }

    /// All files and blocks of a table that may have rows in a range, oldest first.
    async fn sources<'a>(
        &self,
        snapshot: &'a Snapshot,
        table: &'a Supertable,
        range: (i64, i64),
    ) -> Result<Vec<Source<'a>>> {
        let (root, catalog) = (&self.shared.root, &snapshot.catalog);
        let mut files = Vec::new();
        for (partition, summary) in catalog.partitions(table.id) {
            if summary.min_ts <= range.1 && range.0 <= summary.max_ts {
                let list = root.files(catalog, table.id, partition).await?;
                files.extend(list.iter().filter(|f| f.min_ts <= range.1 && range.0 <= f.max_ts).cloned());
            }
        }
        files.sort_by_key(|f| (f.order, f.id));
        let load = |file: FileEntry| async move {
            let manifest = file.tag_manifest(root.store(), table.id).await?;
            let (deletes, set) = (Deletes::of_file(table, file.clean), manifest.series().clone());
            Ok::<_, Error>(Source { deletes, set, origin: Origin::File(Box::new(file), Box::new(manifest)) })
        };
        let mut sources: Vec<Source<'a>> = stream::iter(files).map(load).buffered(PARALLEL).try_collect().await?;
        for (position, block) in blocks_of(snapshot, table.id)? {
            let deletes = Deletes::of_segment(table, position);
            sources.push(Source { deletes, set: block.series.clone(), origin: Origin::Block(position, block) });
        }
        Ok(sources)
    }

    /// Counts distinct times within a range. The chunks are those of whole series, sorted by rank.
    #[expect(clippy::too_many_arguments, reason = "one step of one function, over everything that it holds")]
    async fn distinct(
        &self,
        table: &Supertable,
        database: &Database,
        sources: &[Source<'_>],
        chunks: &[Chunk],
        range: (i64, i64),
        rows: &mut u64,
        hit: &mut [bool],
    ) -> Result<()> {
        let mut keys: Vec<(u32, i64)> = Vec::new();
        let mut by_source: Vec<Vec<&Chunk>> = vec![Vec::new(); sources.len()];
        chunks.iter().for_each(|c| by_source[c.source].push(c));
        for (source, mut chunks) in sources.iter().zip(by_source) {
            if chunks.is_empty() {
                continue;
            }
            chunks.sort_by_key(|c| c.rows.start);
            source.keys(&self.shared.root, table, database, &chunks, range, &mut keys).await?;
        }
        keys.sort_unstable();
        keys.dedup();
        *rows += keys.len() as u64;
        keys.iter().for_each(|(rank, _)| hit[*rank as usize] = true);
        Ok(())
    }
}

impl Source<'_> {
    fn position(&self) -> Option<Position> {
        match self.origin {
            Origin::File(..) => None,
            Origin::Block(position, _) => Some(position),
        }
    }

    /// Chunks of the wanted series within a range.
    fn chunks(&self, source: usize, ranks: &[u32], wanted: &[bool], range: (i64, i64)) -> Result<Vec<Chunk>> {
        let mut chunks = Vec::new();
        let meets = |span: (i64, i64)| span.0 <= range.1 && range.0 <= span.1;
        match &self.origin {
            Origin::File(_, manifest) => {
                for (local, rank) in ranks.iter().enumerate().filter(|(_, rank)| wanted[**rank as usize]) {
                    let (first, count) = (manifest.first_row()[local], manifest.row_count()[local]);
                    let span = (manifest.min_ts()[local], manifest.max_ts()[local]);
                    if count == 0 || !meets(span) {
                        continue;
                    }
                    let name = self.set.names().value(local);
                    let touched = self.deletes.tombstones().iter().any(|t| t.meets(span.0, span.1) && t.names(name));
                    let plain = range.0 <= span.0 && span.1 <= range.1 && !touched;
                    let rows = first..first + count;
                    chunks.push(Chunk { rank: *rank, source, local: local as u32, rows, span, plain });
                }
            }
            Origin::Block(_, block) => {
                let (series, ts) = keys_of(block)?;
                let mut spans: Vec<Option<(i64, i64, u64)>> = vec![None; ranks.len()];
                for (series, ts) in series.iter().zip(ts).filter(|(_, ts)| meets((**ts, **ts))) {
                    let span = spans[*series as usize].get_or_insert((*ts, *ts, 0));
                    *span = (span.0.min(*ts), span.1.max(*ts), span.2 + 1);
                }
                for (local, span) in spans.into_iter().enumerate() {
                    let (Some((first, last, count)), rank) = (span, ranks[local]) else { continue };
                    if wanted[rank as usize] {
                        let (rows, span) = (0..count, (first, last));
                        chunks.push(Chunk { rank, source, local: local as u32, rows, span, plain: false });
                    }
                }
            }
        }
        Ok(chunks)
    }

    /// Adds the keys of the chunks' rows that are in the range and not deleted yet. The chunks are sorted by row.
    async fn keys(
        &self,
        root: &tidelake_format::meta::Root,
        table: &Supertable,
        database: &Database,
        chunks: &[&Chunk],
        range: (i64, i64),
        keys: &mut Vec<(u32, i64)>,
    ) -> Result<()> {
        let mut rank_of = vec![None; self.set.len()];
        chunks.iter().for_each(|c| rank_of[c.local as usize] = Some(c.rank));
        let mut add = |rows: &RecordBatch| -> Result<()> {
            let keep = self.deletes.keep(&self.set, rows)?;
            let series = tidelake_format::rows::series_of(rows)?;
            let ts = ticks(rows.column(1)).ok_or_else(|| Error::internal("time column is not a timestamp"))?;
            for (i, (series, ts)) in series.iter().zip(ts).enumerate() {
                let Some(rank) = rank_of[*series as usize] else { continue };
                if (range.0..=range.1).contains(ts) && keep.as_ref().is_none_or(|keep| keep.value(i)) {
                    keys.push((rank, *ts));
                }
            }
            Ok(())
        };
        let file = match &self.origin {
            Origin::Block(_, block) => return add(&block.rows.project(&[0, 1])?),
            Origin::File(file, _) => file,
        };
        let data = file.data_file(root.store(), table.id).await?;
        let columns: [FieldRef; 1] = [table.time().field(database.precision)];
        let schema = Arc::new(Schema::new(vec![series_field(), columns[0].clone()]));
        let ranges = chunks.iter().map(|c| c.rows.clone()).collect();
        let mut batches = std::pin::pin!(data.read(root.store(), ranges, &columns, BATCH_ROWS)?);
        let (mut at, mut done) = (0, 0u64);
        while let Some(batch) = batches.try_next().await? {
            let mut series = Vec::with_capacity(batch.num_rows());
            while series.len() < batch.num_rows() {
                let Some(chunk) = chunks.get(at) else {
                    return Err(Error::corrupt("data file has more rows than its tag manifest").with("key", data.key()));
                };
                let left = (chunk.rows.end - chunk.rows.start) - done;
                let n = left.min((batch.num_rows() - series.len()) as u64);
                series.resize(series.len() + n as usize, chunk.local);
                done += n;
                if n == left {
                    (at, done) = (at + 1, 0);
                }
            }
            let columns: Vec<ArrayRef> = vec![Arc::new(UInt32Array::from(series)), batch.column(0).clone()];
            add(&RecordBatch::try_new(schema.clone(), columns)?)?;
        }
        Ok(())
    }
}
