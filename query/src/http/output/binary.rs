//! The binary formats: Arrow IPC and Parquet.

use arrow::{array::RecordBatch, datatypes::SchemaRef, ipc::writer::StreamWriter};
use parquet::{
    arrow::ArrowWriter,
    basic::{Compression, ZstdLevel},
    file::properties::WriterProperties,
};
use tidelake_format::Result;

use super::Encode;

/// An Arrow IPC stream: schema, batches, end.
pub(in crate::http) struct IpcStream(StreamWriter<Vec<u8>>);

impl IpcStream {
    pub(super) fn new(schema: &SchemaRef) -> Result<Self> {
        Ok(Self(StreamWriter::try_new(Vec::new(), schema)?))
    }

    fn written(&mut self) -> Vec<u8> {
        std::mem::take(self.0.get_mut())
    }
}

impl Encode for IpcStream {
    fn start(&mut self) -> Result<Vec<u8>> {
        Ok(self.written())
    }

    fn rows(&mut self, batch: &RecordBatch) -> Result<Vec<u8>> {
        self.0.write(batch)?;
        Ok(self.written())
    }

    fn end(&mut self) -> Result<Vec<u8>> {
        self.0.finish()?;
        Ok(self.written())
    }
}

/// Maximum number of bytes of a row group. It is held in memory until it is full, then sent.
const ROW_GROUP_BYTES: usize = 64 << 20;

/// A Parquet file of row groups of about a million rows, or [`ROW_GROUP_BYTES`]. Each is sent when it is full.
pub(in crate::http) struct Parquet(ArrowWriter<Vec<u8>>);

impl Parquet {
    pub(super) fn new(schema: SchemaRef) -> Result<Self> {
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::try_new(1)?))
            .set_max_row_group_bytes(Some(ROW_GROUP_BYTES))
            .build();
        Ok(Self(ArrowWriter::try_new(Vec::new(), schema, Some(properties))?))
    }

    fn written(&mut self) -> Vec<u8> {
        std::mem::take(self.0.inner_mut())
    }
}

impl Encode for Parquet {
    fn start(&mut self) -> Result<Vec<u8>> {
        Ok(self.written())
    }

    fn rows(&mut self, batch: &RecordBatch) -> Result<Vec<u8>> {
        self.0.write(batch)?;
        Ok(self.written())
    }

    fn end(&mut self) -> Result<Vec<u8>> {
        self.0.finish()?;
        Ok(self.written())
    }
}
