//! A data file of 1 000 000 rows of 200 series: pages encoded and decoded, and its tag manifest.

use std::hint::black_box;

use anyhow::{Context, Result};
use arrow::datatypes::FieldRef;
use criterion::{Criterion, Throughput};
use futures::TryStreamExt;
use tidelake_benches::{DEVICES, ROWS, root, tables};
use tidelake_format::{
    file::{DataFile, DataFileOptions, DataFileWriter, ReadOptions},
    ids::ColumnId,
    layout::{data_key, tags_key},
    rows::Block,
    schema::field_id,
    tags::TagManifest,
    types::Precision,
};

fn main() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let root = runtime.block_on(root())?;
    let (store, catalog) = (root.store().clone(), root.catalog());
    let table = tables(&root).devices()?.clone();
    let (partition, _) = catalog.partitions(table.id).next().context("the table has a partition")?;
    let entry = runtime.block_on(root.files(&catalog, table.id, partition))?[0].clone();
    let (data, tags) = (data_key(table.id, partition, entry.data.id), tags_key(table.id, partition, entry.tags.id));
    let file = runtime.block_on(DataFile::open(&store, &data, entry.data.bytes))?;
    let manifest_bytes = runtime.block_on(store.get(&tags))?;
    let manifest = TagManifest::decode(&tags, &manifest_bytes)?;
    let fields: Vec<FieldRef> = file.schema().fields().iter().cloned().collect();

    let mut criterion = Criterion::default().configure_from_args();
    let mut group = criterion.benchmark_group("files");
    group.throughput(Throughput::Elements(file.rows())).sample_size(20);

    let decode = |column: ColumnId, coded: bool| {
        let field: Vec<FieldRef> = fields.iter().filter(|f| field_id(f) == Some(column)).cloned().collect();
        let (all, store, file, runtime) = (vec![0..file.rows()], &store, &file, &runtime);
        move || {
            runtime.block_on(async {
                let rows = if coded {
                    let options = ReadOptions { batch_rows: 65_536, codes: true, ..ReadOptions::default() };
                    let rows = file.read_with(store, all.clone(), &field, options)?;
                    rows.try_fold(0, |sum, batch| async move { Ok(sum + batch.rows.num_rows()) }).await?
                } else {
                    let rows = file.read(store, all.clone(), &field, 65_536)?;
                    rows.try_fold(0, |sum, batch| async move { Ok(sum + batch.num_rows()) }).await?
                };
                anyhow::ensure!(rows as u64 == file.rows(), "{rows} rows");
                Ok(rows)
            })
        }
    };
    for name in ["ts", "temperature", "humidity"] {
        let column = table.column(name).context("the table has its columns")?.id;
        decode(column, false)()?;
        group.bench_function(format!("decode {name}"), |b| b.iter(decode(column, false)));
        decode(column, true)()?;
        group.bench_function(format!("decode {name} as codes"), |b| b.iter(decode(column, true)));
    }

    let schema = Block::rows_schema(&table, Precision::Milli);
    let columns: Vec<FieldRef> = schema.fields().iter().filter(|f| field_id(f).is_some()).cloned().collect();
    let batches: Vec<_> = runtime.block_on(async {
        file.read(&store, vec![0..file.rows()], &columns, 1 << 20)?.try_collect().await.map_err(anyhow::Error::from)
    })?;
    let rows = arrow::compute::concat_batches(&batches[0].schema(), &batches)?;
    let first = manifest.first_row();
    let series = (0..manifest.len()).flat_map(|s| std::iter::repeat_n(s as u32, manifest.row_count()[s] as usize));
    anyhow::ensure!(first[0] == 0 && rows.num_rows() == (DEVICES * ROWS) as usize, "one file holds all rows");
    let mut all: Vec<arrow::array::ArrayRef> =
        vec![std::sync::Arc::new(arrow::array::UInt32Array::from_iter_values(series))];
    all.extend(rows.columns().iter().cloned());
    let batch = arrow::array::RecordBatch::try_new(schema, all)?;
    let encode = || -> Result<u64> {
        let mut writer = DataFileWriter::new(table.clone(), Precision::Milli, DataFileOptions::default())?;
        writer.write(manifest.series(), black_box(&batch))?;
        Ok(writer.finish()?.data.len() as u64)
    };
    anyhow::ensure!(encode()?.abs_diff(file.bytes()) < file.bytes() / 10, "the file again: {} bytes", encode()?);
    group.bench_function("encode", |b| b.iter(encode));
    group.finish();

    let mut group = criterion.benchmark_group("tag manifests");
    group.throughput(Throughput::Elements(manifest.len() as u64));
    group.bench_function("decode", |b| b.iter(|| TagManifest::decode(&tags, black_box(&manifest_bytes))));
    group.bench_function("encode", |b| b.iter(|| black_box(&manifest).encode()));
    group.finish();
    criterion.final_summary();
    Ok(())
}
