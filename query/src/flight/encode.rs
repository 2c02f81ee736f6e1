//! Encodes batches as Flight messages. Uncompressed unless the call requests compression: on a fast link compression costs more
//! than it saves, and not every client can read it.

use std::pin::Pin;

use arrow::{
    array::RecordBatch,
    datatypes::SchemaRef,
    error::ArrowError,
    ipc::{CompressionType, writer::IpcWriteOptions},
};
use arrow_flight::{
    FlightData, IpcMessage, SchemaAsIpc,
    encode::{DictionaryHandling, FlightDataEncoderBuilder},
};
use futures::{Stream, StreamExt, TryStreamExt, stream};
use tidelake_format::{Error, Result};
use tonic::{Status, codegen::Bytes};

use super::status::to_flight;
use crate::{pace::paced, wire::split};

/// The message stream of a DoGet.
pub(super) type FlightStream = Pin<Box<dyn Stream<Item = Result<FlightData, Status>> + Send>>;

/// Target size of a message's data. By default clients refuse messages above 4 MiB.
const MESSAGE_BYTES: usize = 2 << 20;

/// Encodes the schema, even without rows, then the batches in messages of at most about [`MESSAGE_BYTES`].
///
/// The schema message carries `app_metadata`.
///
/// # Errors
/// Internal for a compression for which this binary was not built.
pub(super) fn messages(
    schema: SchemaRef,
    batches: impl Stream<Item = Result<RecordBatch>> + Send + 'static,
    app_metadata: Bytes,
    compression: Option<CompressionType>,
) -> Result<FlightStream> {
    let options = IpcWriteOptions::default().try_with_compression(compression);
    let options = options.map_err(|e| Error::internal("cannot enable IPC compression").with("reason", &e).source(e))?;
    let pieces =
        batches.map_ok(|batch| stream::iter(split(batch, MESSAGE_BYTES)).map(Ok)).try_flatten().map_err(to_flight);
    // Batches are split already. The encoder's own splitting counts the whole buffers of a sliced batch.
    let messages = FlightDataEncoderBuilder::new()
        .with_options(options)
        .with_schema(schema)
        .with_metadata(app_metadata)
        .with_max_flight_data_size(usize::MAX)
        // Wire types have no dictionaries other than those that the session requested.
        .with_dictionary_handling(DictionaryHandling::Resend)
        .build(pieces);
    Ok(paced(messages.map_err(Status::from)).boxed())
}

/// Encodes a schema as an encapsulated IPC message, for prepared statements.
pub(super) fn schema_message(schema: &SchemaRef) -> Result<Bytes> {
    let message: Result<IpcMessage, ArrowError> = SchemaAsIpc::new(schema, &IpcWriteOptions::default()).try_into();
    message.map(|m| m.0).map_err(|e| Error::internal("cannot encode a schema").with("reason", &e).source(e))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, AsArray, Int64Array};
    use arrow::datatypes::Int64Type;
    use arrow_flight::decode::FlightRecordBatchStream;

    use super::*;

    fn integers(rows: i64) -> RecordBatch {
        RecordBatch::try_from_iter([("n", Arc::new(Int64Array::from_iter_values(0..rows)) as ArrayRef)]).unwrap()
    }

    #[tokio::test]
    async fn a_slice_of_a_large_batch_is_one_message() {
        let whole = integers(4_000_000);
        let slices: Vec<_> = (0..10).map(|i| Ok(whole.slice(i * 1_000, 1_000))).collect();
        let data = messages(whole.schema(), stream::iter(slices), Bytes::new(), None).unwrap();
        let data: Vec<_> = data.try_collect().await.unwrap();
        assert_eq!(data.len(), 11, "a schema and ten batches");
    }

    #[tokio::test]
    async fn no_message_is_larger_than_clients_accept_and_no_row_is_lost() {
        let whole = integers(1_000_000);
        let mut sizes = Vec::new();
        for compression in [None, Some(CompressionType::LZ4_FRAME), Some(CompressionType::ZSTD)] {
            let data = messages(whole.schema(), stream::iter([Ok(whole.clone())]), Bytes::new(), compression).unwrap();
            let data: Vec<_> = data.try_collect().await.unwrap();
            assert!(data.iter().all(|d| d.data_body.len() <= MESSAGE_BYTES + 4_096));
            sizes.push(data.iter().map(|d| d.data_body.len()).sum::<usize>());
            let decoded = FlightRecordBatchStream::new_from_flight_data(stream::iter(data.into_iter().map(Ok)));
            let batches: Vec<RecordBatch> = decoded.try_collect().await.unwrap();
            let back = batches.iter().flat_map(|b| b.column(0).as_primitive::<Int64Type>().values().to_vec());
            assert!(back.eq(0..1_000_000));
        }
        assert!(sizes[1] < sizes[0] && sizes[2] < sizes[1], "{sizes:?}");
    }

    #[tokio::test]
    async fn an_empty_result_still_has_its_schema() {
        let schema = integers(0).schema();
        let data = messages(schema, stream::empty(), Bytes::from_static(b"v7"), None).unwrap();
        let data: Vec<_> = data.try_collect().await.unwrap();
        assert_eq!((data.len(), data[0].app_metadata.as_ref()), (1, &b"v7"[..]));
    }
}
