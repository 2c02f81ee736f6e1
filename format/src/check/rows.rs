//! Checks one data file and its tag manifest: checksums, and every count, bound, aggregate and sum against the rows.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray, RecordBatch, StringArray, UInt32Array},
    compute::kernels::cmp::not_distinct,
    datatypes::{Field, FieldRef, Float64Type, Schema},
    util::display::{ArrayFormatter, FormatOptions},
};
use futures::TryStreamExt;

use crate::{
    error::{Error, Kind, Result},
    file::DataFile,
    ids::ColumnId,
    layout,
    merge::content_hash,
    meta::FileEntry,
    rollup::RollupBuilder,
    rows::{series_field, ticks},
    schema::{Database, Supertable, field_id},
    store::Store,
    tags::{Aggregate, ManifestBuilder, TagManifest},
    types::Precision,
};

use super::{CheckOptions, CheckReport, Finding, rollups};

/// Number of rows decoded at once.
pub(super) const BATCH_ROWS: usize = 1 << 14;

/// Checks a file; returns its manifest if it can be read.
pub(super) async fn check(
    store: &Store,
    table: &Supertable,
    database: &Database,
    entry: &FileEntry,
    options: CheckOptions,
    report: &mut CheckReport,
) -> Result<Option<TagManifest>> {
    let data_key = layout::data_key(table.id, entry.partition, entry.data.id);
    let tags_key = layout::tags_key(table.id, entry.partition, entry.tags.id);
    let rollup = entry.rollup.map(|r| (layout::rollup_key(table.id, entry.partition, r.id), r.bytes));
    for (key, bytes) in [(&data_key, entry.data.bytes), (&tags_key, entry.tags.bytes)]
        .into_iter()
        .chain(rollup.as_ref().map(|(key, bytes)| (key, *bytes)))
    {
        if let Some(meta) = report.judge(key, store.head(key).await)?
            && meta.size != bytes
        {
            let finding = Finding::new(key, "object has another size than in the chain");
            report.fault(finding.expected(bytes).found(meta.size));
        }
    }
    let faults = report.faults.len();
    let read = async { TagManifest::decode(&tags_key, &store.get(&tags_key).await?) };
    let manifest = if absent(report, &tags_key) { None } else { report.judge(&tags_key, read.await)? };
    if let Some(manifest) = &manifest {
        summed_up(manifest, &tags_key, entry, database, report);
    }
    if absent(report, &data_key) {
        return Ok(manifest);
    }
    let opened = DataFile::open(store, &data_key, entry.data.bytes).await;
    let Some(file) = report.judge(&data_key, opened)? else { return Ok(manifest) };
    for (what, expected, found) in [
        ("data file was written for another table", u64::from(table.id.0), u64::from(file.table().0)),
        ("data file has another number of rows than in the chain", entry.rows, file.rows()),
    ] {
        if expected != found {
            report.fault(Finding::new(&data_key, what).expected(expected).found(found));
        }
    }
    starts(store, &data_key, report).await?;
    let Some(manifest) = manifest else { return Ok(None) };
    if options.rows && report.faults.len() == faults {
        let pass = Pass::new(&file, &manifest, entry, database.precision)?;
        if let Some(mut pass) = report.judge(&data_key, pass.run(store, &file, &manifest, entry).await)? {
            if let Some((builder, (key, _))) = pass.rollup.take().zip(rollup) {
                rollups::compare(builder, store, entry, &key, report).await?;
            }
            pass.compare(&manifest, entry, (&data_key, &tags_key), report)?;
        }
    }
    Ok(Some(manifest))
}

/// Checks the magic at the start of a file: neither the footer's checksum nor those of the pages cover it.
pub(super) async fn starts(store: &Store, key: &str, report: &mut CheckReport) -> Result<()> {
    let start = report.judge(key, store.get_range(key, 0..4).await)?;
    if let Some(start) = start.filter(|start| start.as_ref() != b"PAR1") {
        let finding = Finding::new(key, "file does not start with the Parquet magic");
        report.fault(finding.expected("PAR1").found(start.escape_ascii()));
    }
    Ok(())
}

/// Whether the object was reported absent among the last three faults.
fn absent(report: &CheckReport, key: &str) -> bool {
    report.faults.iter().rev().take(3).any(|f| f.key == key && f.what.contains("absent"))
}

/// Compares the manifest with the file's entry.
fn summed_up(manifest: &TagManifest, key: &str, entry: &FileEntry, database: &Database, report: &mut CheckReport) {
    let rows = manifest.row_count().iter().sum::<u64>();
    let bounds = |ts: &[i64], least: bool| {
        let with_rows = ts.iter().zip(manifest.row_count()).filter(|(_, n)| **n > 0).map(|(ts, _)| *ts);
        if least { with_rows.min() } else { with_rows.max() }
    };
    let (min, max) = (bounds(manifest.min_ts(), true), bounds(manifest.max_ts(), false));
    let mut differ = |what: &str, expected: String, found: String| {
        if expected != found {
            report.fault(Finding::new(key, what).expected(expected).found(found));
        }
    };
    differ(
        "tag manifest has another number of series than in the chain",
        entry.series.to_string(),
        manifest.len().to_string(),
    );
    differ("tag manifest has another row count than in the chain", entry.rows.to_string(), rows.to_string());
    if let (Some(min), Some(max)) = (min, max) {
        let of = |min: i64, max: i64| format!("{min}..={max}");
        differ("tag manifest has another time range than in the chain", of(entry.min_ts, entry.max_ts), of(min, max));
        let partitions = of(database.partition_of(min), database.partition_of(max));
        differ("rows of a series belong to another partition", of(entry.partition, entry.partition), partitions);
    }
    let mut seen = hashbrown::HashSet::with_capacity(manifest.len());
    if let Some(name) = manifest.series().names().iter().flatten().find(|name| !seen.insert(*name)) {
        report.fault(Finding::new(key, "tag manifest names a series twice").found(name));
    }
}

/// One pass over the rows of a file.
struct Pass {
    /// Column indexes of the time and the series names in the file.
    time: usize,
    names: usize,
    /// IDs and column indexes of the fields.
    fields: Vec<(ColumnId, usize)>,
    /// The manifest computed from the rows.
    builder: ManifestBuilder,
    rollup: Option<RollupBuilder>,
    hash: u64,
    rows: u64,
}

impl Pass {
    fn new(file: &DataFile, manifest: &TagManifest, entry: &FileEntry, precision: Precision) -> Result<Self> {
        let schema = file.schema();
        let place = |id: ColumnId| schema.fields().iter().position(|f| field_id(f) == Some(id));
        let missing = |what: &str| Error::corrupt(format!("data file has no {what}")).with("key", file.key());
        let time = place(ColumnId::TS).ok_or_else(|| missing("time column"))?;
        let names = place(ColumnId::TBNAME).ok_or_else(|| missing("tbname"))?;
        let mut fields: Vec<(ColumnId, usize)> = Vec::new();
        for (id, _, _) in manifest.aggregates() {
            if fields.last().is_none_or(|(last, _)| *last != id) {
                fields.push((id, place(id).ok_or_else(|| missing("column of an aggregate").with("found", id.0))?));
            }
        }
        let of = |(id, at): &(ColumnId, usize)| (*id, schema.field(*at).data_type().clone());
        let builder = ManifestBuilder::of(manifest.series().batch().schema(), fields.iter().map(of));
        let columns: Vec<(ColumnId, &Field)> = fields.iter().map(|(id, at)| (*id, schema.field(*at))).collect();
        let rollup = entry
            .rollup
            .filter(|said| said.width > 0)
            .map(|said| rollups::builder(file.table(), &columns, precision, said));
        let rollup = rollup.transpose()?.flatten();
        Ok(Self { time, names, fields, builder, rollup, hash: 0, rows: 0 })
    }

    /// Reads every column of every row.
    ///
    /// # Errors
    /// Corrupt: a wrong checksum, or rows that are not those of the manifest's series in order.
    async fn run(
        mut self,
        store: &Store,
        file: &Arc<DataFile>,
        manifest: &TagManifest,
        entry: &FileEntry,
    ) -> Result<Self> {
        let columns: Vec<FieldRef> = file.schema().fields().iter().cloned().collect();
        let mut batches = Box::pin(file.read(store, vec![0..file.rows()], &columns, BATCH_ROWS)?);
        let mut at = Place { series: None, left: 0, last: i64::MIN };
        while let Some(batch) = batches.try_next().await? {
            self.add(&batch, manifest, &mut at, file.key())?;
        }
        // Declared series without rows come after all others.
        let begun = at.series.map_or(0, |s| s + 1);
        for series in begun..manifest.len() {
            if manifest.row_count()[series] > 0 {
                return Err(Error::corrupt("data file has fewer rows than its tag manifest states")
                    .with("key", file.key())
                    .with("expected", manifest.series().names().value(series))
                    .with("found", format!("{} rows", self.rows)));
            }
            self.builder.start_series();
        }
        debug_assert!(entry.rows == self.rows || self.rows != file.rows());
        self.builder.name_series(manifest.series().batch().clone());
        Ok(self)
    }

    fn add(&mut self, batch: &RecordBatch, manifest: &TagManifest, at: &mut Place, key: &str) -> Result<()> {
        let bad = |what: &str| Error::corrupt(what.to_owned()).with("key", key);
        let names: &StringArray =
            batch.column(self.names).as_string_opt::<i32>().ok_or_else(|| bad("series name column is not text"))?;
        let time = ticks(batch.column(self.time)).ok_or_else(|| bad("time column is not a timestamp"))?;
        let fields: Vec<ArrayRef> = self.fields.iter().map(|(_, place)| batch.column(*place).clone()).collect();
        let mut series = Vec::with_capacity(batch.num_rows());
        let mut start = 0;
        while start < batch.num_rows() {
            while at.left == 0 {
                let next = at.series.map_or(0, |s| s + 1);
                at.left = *manifest.row_count().get(next).ok_or_else(|| {
                    bad("data file has more rows than its tag manifest states").with("found", self.rows)
                })?;
                (at.series, at.last) = (Some(next), i64::MIN);
                self.builder.start_series();
            }
            let of = at.series.unwrap_or_default();
            let n = usize::try_from(at.left).unwrap_or(usize::MAX).min(batch.num_rows() - start);
            let expected = manifest.series().names().value(of);
            for (row, ts) in (start..start + n).zip(&time[start..start + n]) {
                if names.value(row) != expected {
                    return Err(bad("row belongs to another series than the tag manifest states")
                        .with("expected", expected)
                        .with("found", format!("{} at row {}", names.value(row), self.rows + (row - start) as u64)));
                }
                let is_first = row == start && at.left == manifest.row_count()[of];
                if !is_first && *ts <= at.last {
                    return Err(bad("rows of a series are not in time order")
                        .with("expected", format!("above {} in {expected}", at.last))
                        .with("found", ts));
                }
                at.last = *ts;
            }
            self.builder.add(time, &fields, start..start + n);
            if let Some(rollup) = &mut self.rollup {
                rollup.add(of as u32, expected, time, &fields, start..start + n)?;
            }
            series.resize(series.len() + n, of as u32);
            self.rows += n as u64;
            at.left -= n as u64;
            start += n;
        }
        self.hash = self.hash.wrapping_add(self.hash_of(batch, series, manifest)?);
        Ok(())
    }

    /// The conservation sum of a batch.
    fn hash_of(&self, batch: &RecordBatch, series: Vec<u32>, manifest: &TagManifest) -> Result<u64> {
        let schema = batch.schema();
        let mut fields = vec![series_field()];
        fields.push(schema.fields()[self.time].clone());
        fields.extend(self.fields.iter().map(|(_, at)| schema.fields()[*at].clone()));
        let mut columns: Vec<ArrayRef> = vec![Arc::new(UInt32Array::from(series)), batch.column(self.time).clone()];
        columns.extend(self.fields.iter().map(|(_, at)| batch.column(*at).clone()));
        content_hash(manifest.series(), &RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)?)
    }

    /// Compares the values computed from the rows with the manifest and the entry.
    fn compare(
        self,
        said: &TagManifest,
        entry: &FileEntry,
        (data_key, tags_key): (&str, &str),
        report: &mut CheckReport,
    ) -> Result<()> {
        if self.hash != entry.hash {
            let finding = Finding::new(data_key, "conservation sum of the rows differs from that in the chain");
            report.fault(finding.expected(format!("{:016x}", entry.hash)).found(format!("{:016x}", self.hash)));
        }
        let found = match self.builder.finish() {
            Err(e) if e.kind() == Kind::Internal => return Ok(()), // duplicate series: reported by `summed_up`
            other => other?,
        };
        let name = |i: usize| said.series().names().value(i).to_owned();
        for (what, expected, found) in
            [("min_ts", said.min_ts(), found.min_ts()), ("max_ts", said.max_ts(), found.max_ts())]
        {
            if let Some(i) = (0..expected.len()).find(|i| expected[*i] != found[*i]) {
                let finding =
                    Finding::new(tags_key, format!("{what} of series {} differs from that of its rows", name(i)));
                report.fault(finding.expected(found[i]).found(expected[i]));
            }
        }
        for (id, what, expected) in said.aggregates() {
            let of = |i: usize| format!("{} of column {} of series {}", what.name(), id.0, name(i));
            let Some(found) = found.aggregate(id, what).filter(|f| f.data_type() == expected.data_type()) else {
                report.fault(Finding::new(tags_key, format!("{} of column {} has another type", what.name(), id.0)));
                continue;
            };
            let same = not_distinct(found, expected)?;
            let agrees = |i: &usize| same.value(*i) || what == Aggregate::Sum && near(found, expected, *i);
            if let Some(i) = (0..same.len()).find(|i| !agrees(i)) {
                let finding = Finding::new(tags_key, format!("{} differs from that of its rows", of(i)));
                report.fault(finding.expected(text(found, i)).found(text(expected, i)));
            }
        }
        Ok(())
    }
}

/// Position of a pass in the manifest.
struct Place {
    series: Option<usize>,
    /// Rows of the series that were not read yet.
    left: u64,
    last: i64,
}

/// Whether two sums of floats are equal but for the rounding that depends on the order of addition.
pub(super) fn near(a: &ArrayRef, b: &ArrayRef, i: usize) -> bool {
    match (a.as_primitive_opt::<Float64Type>(), b.as_primitive_opt::<Float64Type>()) {
        (Some(a), Some(b)) if a.is_valid(i) && b.is_valid(i) => {
            let (a, b) = (a.value(i), b.value(i));
            (a.is_nan() && b.is_nan()) || a == b || (a - b).abs() <= 1e-9 * a.abs().max(b.abs())
        }
        _ => false,
    }
}

pub(super) fn text(values: &ArrayRef, i: usize) -> String {
    if values.is_null(i) {
        return "null".to_owned();
    }
    ArrayFormatter::try_new(values, &FormatOptions::default())
        .map_or_else(|_| "value that cannot be printed".to_owned(), |f| f.value(i).to_string())
}
