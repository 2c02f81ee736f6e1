//! Checks a rollup against the rows of its data file.

use arrow::{
    array::Array,
    compute::kernels::cmp::not_distinct,
    datatypes::{Field, FieldRef},
};
use futures::TryStreamExt;

use super::{
    CheckReport, Finding,
    rows::{BATCH_ROWS, near, starts, text},
};
use crate::{
    error::{Error, Result},
    ids::{ColumnId, TableId},
    meta::{FileEntry, RollupRef},
    rollup::{Rollup, RollupBuilder, RollupOptions},
    schema::{Column, Role},
    store::Store,
    tags::Aggregate,
    types::{Precision, Type},
};

/// Returns a builder that computes the rollup of a file again, over these fields; `None` if the aggregates have no
/// column IDs.
pub(super) fn builder(
    table: TableId,
    fields: &[(ColumnId, &Field)],
    precision: Precision,
    said: RollupRef,
) -> Result<Option<RollupBuilder>> {
    let time = Column::new(ColumnId::TS, "ts".to_owned(), Role::Time, Type::Timestamp);
    let field =
        |(id, field): &(ColumnId, &Field)| Ok(Column::new(*id, field.name().clone(), Role::Field, type_of(field)?));
    let columns = [Ok(time)].into_iter().chain(fields.iter().map(field)).collect::<Result<Vec<_>>>()?;
    let width_ms = said.width / (precision.per_second() / 1_000);
    let when = RollupOptions {
        width_ms,
        least_rows: 0,
        least_rows_per_bucket: 0,
        coarse_width_ms: 0,
        least_rows_per_coarse_bucket: 0,
    };
    RollupBuilder::new(table, &columns, precision, when)
}

fn type_of(field: &Field) -> Result<Type> {
    Type::of(field.data_type()).ok_or_else(|| {
        let error = Error::corrupt("data file has a field of an unsupported type");
        error.with("column", field.name()).with("found", field.data_type())
    })
}

/// Compares the stored rollup with the one computed from the rows.
pub(super) async fn compare(
    builder: RollupBuilder,
    store: &Store,
    entry: &FileEntry,
    key: &str,
    report: &mut CheckReport,
) -> Result<()> {
    let Some(said) = report.judge(key, Rollup::open(store, key, entry).await)? else { return Ok(()) };
    starts(store, key, report).await?;
    // Read every page of every column, including columns that are not compared.
    let columns: Vec<FieldRef> = said.file().schema().fields().iter().cloned().collect();
    let all = std::iter::once(0..said.file().rows()).collect();
    let read = async { said.file().read(store, all, &columns, BATCH_ROWS)?.try_for_each(async |_| Ok(())).await };
    if report.judge(key, read.await)?.is_none() {
        return Ok(());
    }
    let Some(found) = builder.finish(usize::MAX)? else {
        report.fault(Finding::new(key, "data file without rows has a rollup"));
        return Ok(());
    };
    let memory = Store::in_memory();
    let rollup =
        entry.rollup.map(|r| RollupRef { bytes: found.bytes.len() as u64, width: found.width, crc: None, ..r });
    memory.create(key, found.bytes).await?;
    let found = Rollup::open(&memory, key, &FileEntry { rollup, ..entry.clone() }).await?;
    let series = usize::try_from(entry.series).unwrap_or(usize::MAX);
    let same_buckets = said.starts() == found.starts()
        && said.first_row() == found.first_row()
        && (0..series).all(|s| said.buckets(s) == found.buckets(s));
    if !same_buckets {
        report.fault(Finding::new(key, "buckets of the rollup differ from those of its rows"));
        return Ok(());
    }
    let parts = |of: &Rollup| of.parts().collect::<Vec<(ColumnId, Aggregate)>>();
    if parts(&said) != parts(&found) {
        report.fault(Finding::new(key, "aggregates of the rollup do not match the columns of its data file"));
        return Ok(());
    }
    for (id, what) in found.parts() {
        let read = said.aggregate(store, id, what).await;
        let Some(Some(expected)) = report.judge(key, read)? else { return Ok(()) };
        let Some(found) = found.aggregate(&memory, id, what).await? else { continue };
        let name = |i: usize| format!("{} of column {} in the bucket at {}", what.name(), id.0, said.starts()[i]);
        if found.data_type() != expected.data_type() {
            report.fault(Finding::new(key, format!("{} of column {} has another type", what.name(), id.0)));
            continue;
        }
        let same = not_distinct(&found, &expected)?;
        let agrees = |i: &usize| same.value(*i) || what == Aggregate::Sum && near(&found, &expected, *i);
        if let Some(i) = (0..same.len()).find(|i| !agrees(i)) {
            let finding = Finding::new(key, format!("{} differs from that of its rows", name(i)));
            report.fault(finding.expected(text(&found, i)).found(text(&expected, i)));
        }
    }
    Ok(())
}
