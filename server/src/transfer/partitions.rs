//! Exports rows into a file for each period of time, in directories such as `date=2026-11-29`.

use std::{
    collections::{BTreeMap, HashMap},
    io::BufWriter,
    path::{Path, PathBuf},
};

use anyhow::{Context, ensure};
use arrow::{
    array::{Array, ArrayRef, AsArray, RecordBatch, UInt32Array},
    compute::{cast, take_record_batch},
    datatypes::{DataType, SchemaRef, TimeUnit},
};
use chrono::{DateTime, Datelike, Days, Months, NaiveDate, NaiveDateTime, TimeDelta, Timelike};
use futures::StreamExt;
use indicatif::ProgressBar;

use super::{
    FileFormat,
    export::write,
    line_protocol,
    output::{Directory, Output},
    sink::Sink,
};
use crate::client::Client;

/// Number of files that are open at once for the rows of a query, which may come in any order of time.
const MOST_OPEN: usize = 16;
/// Bytes that each of them collects.
const COLLECTED: usize = 8 << 20;

/// A period of time in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum PartitionBy {
    /// date=2026-11-29
    Day,
    /// date=2026-11-29/hour=13
    Hour,
    /// month=2026-11
    Month,
}

impl PartitionBy {
    fn name(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Hour => "hour",
            Self::Month => "month",
        }
    }

    /// Begin of the period of a time.
    fn begin(self, seconds: i64) -> anyhow::Result<NaiveDateTime> {
        let time = DateTime::from_timestamp(seconds, 0).context("a time is out of range")?.naive_utc();
        let date = match self {
            Self::Month => NaiveDate::from_ymd_opt(time.year(), time.month(), 1).context("a time is out of range")?,
            Self::Day | Self::Hour => time.date(),
        };
        let hour = if self == Self::Hour { time.hour() } else { 0 };
        date.and_hms_opt(hour, 0, 0).context("a time is out of range")
    }

    /// End of the period that begins at a time.
    fn end(self, begin: NaiveDateTime) -> anyhow::Result<NaiveDateTime> {
        let end = match self {
            Self::Month => begin.checked_add_months(Months::new(1)),
            Self::Day => begin.checked_add_days(Days::new(1)),
            Self::Hour => begin.checked_add_signed(TimeDelta::hours(1)),
        };
        end.context("a time is out of range")
    }

    /// The directory of a period.
    fn directory(self, begin: NaiveDateTime) -> PathBuf {
        match self {
            Self::Day => begin.format("date=%Y-%m-%d").to_string().into(),
            Self::Month => begin.format("month=%Y-%m").to_string().into(),
            Self::Hour => begin.format("date=%Y-%m-%d/hour=%H").to_string().into(),
        }
    }
}

/// A directory or a prefix of a bucket that is being filled; unless it is completed, what was written to it is removed.
struct Target {
    directory: Directory,
    by: PartitionBy,
    format: FileFormat,
}

impl Target {
    /// # Errors
    /// The path is a file, or a directory or prefix that is not empty.
    fn new(root: &Path, by: PartitionBy, format: FileFormat) -> anyhow::Result<Self> {
        Ok(Self { directory: Directory::create(root)?, by, format })
    }

    /// Creates a file of a period.
    fn file(&mut self, begin: NaiveDateTime, part: usize) -> anyhow::Result<Output> {
        let name = self.by.directory(begin).join(format!("part-{part}.{}", self.format.extension()));
        self.directory.file(&name)
    }
}

/// Exports a table: one statement for each period that has rows, so that one file is open at a time and no rows are sorted.
///
/// # Errors
/// A statement fails, or a file cannot be written; then no file stays.
pub(super) async fn table(
    client: &mut Client,
    table: &str,
    roles: &line_protocol::Roles,
    by: PartitionBy,
    format: FileFormat,
    root: &Path,
    bar: &ProgressBar,
) -> anyhow::Result<()> {
    let mut target = Target::new(root, by, format)?;
    let time = format!("`{}`", roles.time.replace('`', "``"));
    let periods = format!("select distinct date_trunc('{}', {time}) as period from {table} order by period", by.name());
    let mut begins = Vec::new();
    for batch in client.collect(&periods).await? {
        for seconds in seconds(batch.column(0), &roles.time)? {
            begins.push(by.begin(seconds)?);
        }
    }
    for begin in begins {
        let shown = |time: NaiveDateTime| time.format("%Y-%m-%dT%H:%M:%SZ");
        let (from, to) = (shown(begin), shown(by.end(begin)?));
        let sql = format!("select * from {table} where {time} >= '{from}' and {time} < '{to}'");
        let output = target.file(begin, 0)?;
        let of_line = (format == FileFormat::Line).then(|| roles.clone());
        write(client, &sql, format, of_line, output.writer()?, bar).await?;
        output.complete()?;
    }
    target.directory.complete();
    Ok(())
}

/// Exports the rows of a query, in the order in which they come. At most [`MOST_OPEN`] files are open: a period whose file was
/// closed gets another one.
///
/// # Errors
/// The query fails, its column of times is missing or null, or a file cannot be written; then no file stays.
pub(super) async fn query(
    client: &mut Client,
    sql: &str,
    time: &str,
    by: PartitionBy,
    format: FileFormat,
    root: &Path,
    bar: &ProgressBar,
) -> anyhow::Result<()> {
    let mut reply = client.execute(sql).await?;
    let at = column(&reply.schema, time)?;
    let target = Target::new(root, by, format)?;
    let mut writers = Writers { target, open: Vec::new(), parts: HashMap::new(), turn: 0 };
    while let Some(batch) = reply.batches.next().await {
        let batch = batch?;
        let mut rows: BTreeMap<NaiveDateTime, Vec<u32>> = BTreeMap::new();
        for (row, seconds) in (0..).zip(seconds(batch.column(at), time)?) {
            rows.entry(by.begin(seconds)?).or_default().push(row);
        }
        for (begin, rows) in rows {
            writers.write(begin, &take_record_batch(&batch, &UInt32Array::from(rows))?)?;
        }
        bar.inc(batch.num_rows() as u64);
    }
    writers.finish()
}

fn column(schema: &SchemaRef, time: &str) -> anyhow::Result<usize> {
    let names = || schema.fields().iter().map(|f| f.name().as_str()).collect::<Vec<_>>().join(", ");
    let at = schema
        .index_of(time)
        .map_err(|_| anyhow::anyhow!("--time: the query has no column {time:?}; its columns are {}", names()))?;
    let found = schema.field(at).data_type();
    let is_time = matches!(found, DataType::Timestamp(..) | DataType::Date32 | DataType::Date64);
    ensure!(is_time, "--time: the column {time:?} holds {found}; expected times");
    Ok(at)
}

/// The times of a column in seconds, rounded towards the past.
fn seconds(column: &ArrayRef, name: &str) -> anyhow::Result<Vec<i64>> {
    ensure!(column.null_count() == 0, "the column {name:?} is null in a row; expected a time in every row");
    // Casts between units round towards zero, so nanoseconds come first.
    let nanos = cast(column, &DataType::Timestamp(TimeUnit::Nanosecond, None))?;
    let nanos = nanos.as_primitive::<arrow::datatypes::TimestampNanosecondType>();
    ensure!(nanos.null_count() == 0, "the column {name:?} has a time out of range; expected 1677 to 2262");
    Ok(nanos.values().iter().map(|nanos| nanos.div_euclid(1_000_000_000)).collect())
}

/// An open file.
struct Open {
    begin: NaiveDateTime,
    sink: Sink,
    output: Output,
    used: u64,
}

/// The open files of a query.
struct Writers {
    target: Target,
    open: Vec<Open>,
    /// Number of files of each period.
    parts: HashMap<NaiveDateTime, usize>,
    turn: u64,
}

impl Writers {
    fn write(&mut self, begin: NaiveDateTime, batch: &RecordBatch) -> anyhow::Result<()> {
        self.turn += 1;
        let at = match self.open.iter().position(|open| open.begin == begin) {
            Some(at) => at,
            None => {
                if self.open.len() >= MOST_OPEN
                    && let Some(oldest) = (0..self.open.len()).min_by_key(|at| self.open[*at].used)
                {
                    close(self.open.swap_remove(oldest))?;
                }
                let part = self.parts.entry(begin).or_default();
                let output = self.target.file(begin, *part)?;
                *part += 1;
                let (format, schema) = (self.target.format, batch.schema());
                let sink = Sink::collecting(format, BufWriter::new(output.writer()?), &schema, None, COLLECTED)?;
                self.open.push(Open { begin, sink, output, used: 0 });
                self.open.len() - 1
            }
        };
        self.open[at].used = self.turn;
        self.open[at].sink.write(batch)
    }

    fn finish(mut self) -> anyhow::Result<()> {
        self.open.drain(..).try_for_each(close)?;
        self.target.directory.complete();
        Ok(())
    }
}

fn close(open: Open) -> anyhow::Result<()> {
    open.sink.finish()?;
    open.output.complete()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use arrow::array::TimestampMillisecondArray;

    use super::*;

    #[test]
    fn a_time_has_the_directory_of_its_period() {
        let seconds = 1_795_959_296; // 2026-11-29T13:34:56Z
        for (by, directory, end) in [
            (PartitionBy::Day, "date=2026-11-29", "2026-11-30 00:00:00"),
            (PartitionBy::Hour, "date=2026-11-29/hour=13", "2026-11-29 14:00:00"),
            (PartitionBy::Month, "month=2026-11", "2026-12-01 00:00:00"),
        ] {
            let begin = by.begin(seconds).unwrap();
            assert_eq!((by.directory(begin), by.end(begin).unwrap().to_string()), (directory.into(), end.to_owned()));
        }
        let before_1970: ArrayRef = std::sync::Arc::new(TimestampMillisecondArray::from(vec![-1, 1_999]));
        assert_eq!(super::seconds(&before_1970, "t").unwrap(), [-1, 1]);
    }

    #[test]
    fn few_files_are_open_at_once_and_an_unfinished_export_leaves_none() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("out");
        let batch = |ms: i64| {
            let times: ArrayRef = std::sync::Arc::new(TimestampMillisecondArray::from(vec![ms]));
            RecordBatch::try_from_iter([("t", times)]).unwrap()
        };
        let run = |is_finished: bool| {
            let target = Target::new(&root, PartitionBy::Day, FileFormat::Csv).unwrap();
            let mut writers = Writers { target, open: Vec::new(), parts: HashMap::new(), turn: 0 };
            // Two rounds over more days than files may be open.
            for day in (0..20).chain(0..20) {
                let ms = day * 86_400_000;
                writers.write(PartitionBy::Day.begin(ms / 1_000).unwrap(), &batch(ms)).unwrap();
                assert!(writers.open.len() <= MOST_OPEN);
            }
            if is_finished {
                writers.finish().unwrap()
            }
        };
        run(false);
        assert!(!root.exists());
        run(true);
        let files: usize =
            fs::read_dir(&root).unwrap().map(|day| fs::read_dir(day.unwrap().path()).unwrap().count()).sum();
        assert_eq!(files, 40);
        assert!(root.join("date=1970-01-20/part-1.csv").exists());
        assert!(Target::new(&root, PartitionBy::Day, FileFormat::Csv).is_err(), "it has files");
    }
}
