//! Encodes batches as Flight messages. Uncompressed unless the call requests compression: on a fast link compression costs more
//! than it saves, and not every client can read it.
//!
//! The body of a message is not copied: it is a list of the buffers of its batch. [`super::reply`] sends them as they are.

use std::{collections::VecDeque, pin::Pin};

use arrow::{
    array::RecordBatch,
    buffer::Buffer,
    datatypes::SchemaRef,
    error::ArrowError,
    ipc::{
        CompressionType, MessageHeader, root_as_message,
        writer::{IpcWriteOptions, StreamEncoder},
    },
};
use arrow_flight::{FlightData, IpcMessage, SchemaAsIpc};
use bytes::Buf;
use futures::{Stream, StreamExt, TryStreamExt, stream};
use tidelake_format::{Error, Result};
use tonic::{Status, codegen::Bytes};

use super::status::to_status;
use crate::{pace::paced, wire::split};

/// The messages of a DoGet.
pub(super) type Messages = Pin<Box<dyn Stream<Item = Result<Message, Status>> + Send>>;

/// A Flight message.
#[derive(Debug, Default)]
pub(super) struct Message {
    /// All but the body.
    pub head: FlightData,
    /// The body, in parts.
    pub body: Vec<Bytes>,
}

impl From<Message> for FlightData {
    fn from(message: Message) -> Self {
        Self { data_body: message.body.concat().into(), ..message.head }
    }
}

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
) -> Result<Messages> {
    let options = IpcWriteOptions::default().try_with_compression(compression);
    let options = options.map_err(|e| Error::internal("cannot enable IPC compression").with("reason", &e).source(e))?;
    let first = FlightData { app_metadata, ..SchemaAsIpc::new(&schema, &options).into() };
    let first = Message { head: first, body: Vec::new() };
    let mut encoder = StreamEncoder::try_new_with_options(&schema, options).map_err(failed)?;
    let pieces = batches.map_ok(|batch| stream::iter(split(batch, MESSAGE_BYTES)).map(Ok)).try_flatten();
    let later = pieces.map(move |piece: Result<RecordBatch>| {
        let encoded = piece.and_then(|piece| encoded(&mut encoder, &piece));
        encoded.map(|messages| stream::iter(messages).map(Ok)).map_err(|error| to_status(&error))
    });
    let later = later.try_flatten();
    Ok(paced(stream::iter([Ok(first)]).chain(later).boxed()).boxed())
}

fn failed(error: ArrowError) -> Error {
    Error::internal("cannot encode a batch").with("reason", &error).source(error)
}

/// The messages of a batch: those of its new dictionaries, and its own.
fn encoded(encoder: &mut StreamEncoder, batch: &RecordBatch) -> Result<Vec<Message>> {
    let buffers = encoder.encode(batch).map_err(failed)?.into_iter().filter(|buffer| !buffer.is_empty());
    let mut parts = Parts(buffers.map(shared).collect());
    let mut messages = Vec::new();
    while !parts.0.is_empty() {
        // A mark that is always the same, and the length of the header.
        let header = parts.take(8).slice(4..).get_i32_le();
        let header = parts.take(usize::try_from(header).unwrap_or_default());
        let told = || Error::internal("the encoder of Arrow messages wrote another format than expected");
        let message = root_as_message(&header).map_err(|e| told().with("reason", &e))?;
        let body = parts.split(usize::try_from(message.bodyLength()).map_err(|e| told().source(e))?);
        // The stream began with the schema.
        if message.header_type() != MessageHeader::Schema {
            messages.push(Message { head: FlightData { data_header: header, ..Default::default() }, body });
        }
    }
    Ok(messages)
}

/// A buffer as bytes that share its memory.
fn shared(buffer: Buffer) -> Bytes {
    struct Owner(Buffer);
    impl AsRef<[u8]> for Owner {
        fn as_ref(&self) -> &[u8] {
            &self.0
        }
    }
    Bytes::from_owner(Owner(buffer))
}

/// Bytes in parts, none of them empty, from which the first are taken.
struct Parts(VecDeque<Bytes>);

impl Parts {
    /// The next bytes, as many as asked for if there are, in parts.
    fn split(&mut self, mut length: usize) -> Vec<Bytes> {
        let mut taken = Vec::new();
        while length > 0
            && let Some(first) = self.0.front_mut()
        {
            let part = first.split_to(length.min(first.len()));
            length -= part.len();
            if first.is_empty() {
                self.0.pop_front();
            }
            taken.push(part);
        }
        taken
    }

    /// Same, in one part.
    fn take(&mut self, length: usize) -> Bytes {
        let mut parts = self.split(length);
        if parts.len() == 1 { parts.remove(0) } else { parts.concat().into() }
    }
}

/// Encodes a schema as an encapsulated IPC message, for prepared statements.
pub(super) fn schema_message(schema: &SchemaRef) -> Result<Bytes> {
    let message: Result<IpcMessage, ArrowError> = SchemaAsIpc::new(schema, &IpcWriteOptions::default()).try_into();
    message.map(|m| m.0).map_err(|e| Error::internal("cannot encode a schema").with("reason", &e).source(e))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::{
        array::{
            ArrayRef, AsArray, BooleanArray, DictionaryArray, Int32Array, Int64Array, ListArray, RecordBatch,
            StringArray,
        },
        compute::cast,
        datatypes::{DataType, Int64Type},
    };
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
        let data: Vec<FlightData> = data.map_ok(FlightData::from).try_collect().await.unwrap();
        assert_eq!(data.len(), 11, "a schema and ten batches");
    }

    #[tokio::test]
    async fn no_message_is_larger_than_clients_accept_and_no_row_is_lost() {
        let whole = integers(1_000_000);
        let mut sizes = Vec::new();
        for compression in [None, Some(CompressionType::LZ4_FRAME), Some(CompressionType::ZSTD)] {
            let data = messages(whole.schema(), stream::iter([Ok(whole.clone())]), Bytes::new(), compression).unwrap();
            let data: Vec<FlightData> = data.map_ok(FlightData::from).try_collect().await.unwrap();
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
        let data: Vec<FlightData> = data.map_ok(FlightData::from).try_collect().await.unwrap();
        assert_eq!((data.len(), data[0].app_metadata.as_ref()), (1, &b"v7"[..]));
    }

    #[tokio::test]
    async fn clients_read_the_rows_of_all_types_slices_and_dictionaries() {
        let texts = |n: usize| (0..n).map(|i| (i % 5 > 0).then(|| "x".repeat(i % 40))).collect::<StringArray>();
        let part = |n: usize, values: &[&str]| {
            let keys: Int32Array = (0..n).map(|i| (i % 3 > 0).then_some((i % values.len()) as i32)).collect();
            let lists = (0..n).map(|i| (i % 4 > 0).then(|| (0..i % 6).map(|v| Some(v as i64)).collect::<Vec<_>>()));
            let lists = ListArray::from_iter_primitive::<Int64Type, _, _>(lists);
            let columns: Vec<(&str, ArrayRef)> = vec![
                ("flag", Arc::new((0..n).map(|i| (i % 7 > 0).then_some(i % 2 == 0)).collect::<BooleanArray>())),
                ("text", Arc::new(texts(n))),
                ("tag", Arc::new(DictionaryArray::new(keys, Arc::new(StringArray::from(values.to_vec()))))),
                ("list", Arc::new(lists)),
                ("n", Arc::new(Int64Array::from_iter_values(0..n as i64))),
            ];
            RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, column)| (name, column, true)))
                .unwrap()
        };
        let (first, second) = (part(5_000, &["a", "b"]), part(70_000, &["c", "d", "e"]));
        let batches = [first.slice(3, 77), first.clone(), first.slice(0, 0), second.slice(1, 69_998), first];
        for compression in [None, Some(CompressionType::ZSTD)] {
            let sent = stream::iter(batches.clone().map(Ok));
            let data = messages(batches[0].schema(), sent, Bytes::new(), compression).unwrap();
            let data = data.map_ok(FlightData::from).map_err(arrow_flight::error::FlightError::from);
            let decoded = FlightRecordBatchStream::new_from_flight_data(data);
            let decoded: Vec<RecordBatch> = decoded.try_collect().await.unwrap();
            let whole = |batches: &[RecordBatch]| {
                let plain = batches.iter().map(|batch| {
                    let tag = cast(batch.column_by_name("tag").unwrap(), &DataType::Utf8).unwrap();
                    let mut columns = batch.columns().to_vec();
                    columns[2] = tag;
                    RecordBatch::try_from_iter(["f", "t", "d", "l", "n"].into_iter().zip(columns)).unwrap()
                });
                let plain: Vec<RecordBatch> = plain.collect();
                plain
                    .iter()
                    .flat_map(|batch| (0..batch.num_rows()).map(|row| format!("{:?}", batch.slice(row, 1))))
                    .collect::<Vec<_>>()
            };
            assert_eq!(whole(&decoded), whole(&batches));
        }
    }
}
