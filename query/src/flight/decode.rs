//! Decodes the batches of a Flight stream.
//!
//! Columns of large bodies share the memory of their message where they are aligned, as text always is. The decoder of
//! arrow-flight copies every body that does not begin at a multiple of 64 bytes, and behind a gRPC header a body rarely does.

use std::{collections::HashMap, future::ready, panic::AssertUnwindSafe, sync::Arc};

use arrow::{
    array::{ArrayRef, RecordBatch},
    buffer::Buffer,
    datatypes::{Schema, SchemaRef},
    error::ArrowError,
    ipc::{
        MessageHeader,
        reader::{read_dictionary, read_record_batch},
        root_as_message,
    },
};
use arrow_flight::FlightData;
use futures::{Stream, StreamExt, TryStreamExt, stream::BoxStream};
use tidelake_format::{Error, Result};
use tonic::Status;

use super::{guard, status::from_flight};
use crate::buffer::{StatementBuffer, Taken};

/// Smaller bodies are copied: the buffer that holds them may be much larger.
const SHARED_BYTES: usize = 64 << 10;

/// Whether batches share the memory of their messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bodies {
    /// Columns share the memory of a message that holds little else.
    Shared,
    /// Bodies are copied: for batches that are kept for long and accounted by their own size.
    Copied,
}

/// Accounts for decompressed bytes in the statement buffer.
#[derive(Debug)]
pub(super) struct Unpacked {
    taken: Taken,
    dictionaries: Taken,
    /// Whether the bytes of a batch count until its stream ends; else until the next batch.
    keeps: bool,
}

impl Unpacked {
    /// For batches that are processed one at a time.
    pub(super) fn one_by_one(buffer: &StatementBuffer) -> Self {
        Self { taken: buffer.begin(), dictionaries: buffer.begin(), keeps: false }
    }

    /// For batches that are kept until the last one is read.
    pub(super) fn together(buffer: &StatementBuffer) -> Self {
        Self { keeps: true, ..Self::one_by_one(buffer) }
    }

    /// Counts a message's decompressed bytes before it is decompressed.
    fn add(&mut self, bytes: usize, is_dictionary: bool) -> Result<()> {
        if is_dictionary {
            return self.dictionaries.add(bytes);
        }
        if !self.keeps {
            self.taken.clear();
        }
        self.taken.add(bytes)
    }
}

/// The batches of a Flight stream. A stream without a schema (an update without parameters) has no batches.
pub(super) fn decoded(
    data: impl Stream<Item = Result<FlightData, Status>> + Send + 'static,
    bodies: Bodies,
    unpacked: Unpacked,
) -> BoxStream<'static, Result<RecordBatch>> {
    batches(data, Decoder { bodies, unpacked, tells_schema: false, schema: None, dictionaries: HashMap::new() })
}

/// The same, with an empty batch first, which carries the schema of a stream without rows.
pub(super) fn decoded_with_schema(
    data: impl Stream<Item = Result<FlightData, Status>> + Send + 'static,
    bodies: Bodies,
    unpacked: Unpacked,
) -> BoxStream<'static, Result<RecordBatch>> {
    batches(data, Decoder { bodies, unpacked, tells_schema: true, schema: None, dictionaries: HashMap::new() })
}

fn batches(
    data: impl Stream<Item = Result<FlightData, Status>> + Send + 'static,
    mut decoder: Decoder,
) -> BoxStream<'static, Result<RecordBatch>> {
    let batches = data
        .map_err(|e| from_flight(e.into()))
        // A message may hold only the command.
        .try_filter(|message| ready(!message.data_header.is_empty()))
        .try_filter_map(move |message| ready(decoder.take(&message)));
    // Malformed input that passes the check may make Arrow panic: that must fail only this call.
    AssertUnwindSafe(batches)
        .catch_unwind()
        .map(|caught| caught.unwrap_or_else(|_| Err(Error::invalid("invalid Arrow IPC message"))))
        .boxed()
}

/// Decoder state from the messages so far: schema and dictionaries.
#[derive(Debug)]
struct Decoder {
    bodies: Bodies,
    unpacked: Unpacked,
    tells_schema: bool,
    schema: Option<SchemaRef>,
    dictionaries: HashMap<i64, ArrayRef>,
}

impl Decoder {
    /// Decodes a message; `None` for one that holds no batch.
    fn take(&mut self, data: &FlightData) -> Result<Option<RecordBatch>> {
        let bytes = guard::check(data)?;
        let is_dictionary =
            root_as_message(&data.data_header).is_ok_and(|m| m.header_type() == MessageHeader::DictionaryBatch);
        self.unpacked.add(bytes, is_dictionary)?;
        self.read(data).map_err(|e| Error::invalid("invalid stream of Arrow batches").with("reason", &e).source(e))
    }

    fn read(&mut self, data: &FlightData) -> Result<Option<RecordBatch>, ArrowError> {
        let wrong = |what: &str| ArrowError::IpcError(what.to_owned());
        let message = root_as_message(&data.data_header).map_err(|e| wrong(&e.to_string()))?;
        let body = || match self.bodies {
            Bodies::Shared if is_worth_sharing(data) => Buffer::from(data.data_body.clone()),
            Bodies::Shared | Bodies::Copied => Buffer::from(&data.data_body[..]),
        };
        let first = || wrong("message before the schema");
        match message.header_type() {
            MessageHeader::NONE => Ok(None),
            MessageHeader::Schema if self.schema.is_some() => Err(wrong("more than one schema message")),
            MessageHeader::Schema => {
                let schema: SchemaRef = Arc::new(Schema::try_from(data)?);
                self.schema = Some(schema.clone());
                Ok(self.tells_schema.then(|| RecordBatch::new_empty(schema)))
            }
            MessageHeader::DictionaryBatch => {
                let schema = self.schema.as_ref().ok_or_else(first)?;
                let batch =
                    message.header_as_dictionary_batch().ok_or_else(|| wrong("dictionary batch without a header"))?;
                read_dictionary(&body(), batch, schema, &mut self.dictionaries, &message.version())?;
                Ok(None)
            }
            MessageHeader::RecordBatch => {
                let schema = self.schema.clone().ok_or_else(first)?;
                let batch = message.header_as_record_batch().ok_or_else(|| wrong("record batch without a header"))?;
                read_record_batch(&body(), batch, schema, &self.dictionaries, None, &message.version()).map(Some)
            }
            other => Err(wrong(&format!("unexpected message type: {other:?}"))),
        }
    }
}

/// Whether a message holds little memory beyond its body.
fn is_worth_sharing(data: &FlightData) -> bool {
    let beside = data.data_header.len() + data.app_metadata.len();
    data.data_body.len() >= SHARED_BYTES.max(8 * beside)
}

#[cfg(test)]
mod tests {
    use arrow::{
        array::{
            AsArray, BooleanArray, DictionaryArray, Float64Array, Int64Array, ListArray, StringArray, StringViewArray,
        },
        datatypes::Int32Type,
        ipc::{CompressionType, writer::IpcWriteOptions},
    };
    use arrow_flight::{
        decode::FlightRecordBatchStream,
        encode::{DictionaryHandling, FlightDataEncoderBuilder},
    };
    use futures::stream;
    use rand::{Rng, SeedableRng, rngs::StdRng};

    use super::super::parameters::plain_batch;
    use super::*;
    use crate::Kind;

    fn unpacked() -> Unpacked {
        Unpacked::one_by_one(&StatementBuffer::new(1 << 30))
    }

    async fn read(data: &[FlightData]) -> Result<Vec<RecordBatch>> {
        let data = data.to_vec();
        let [shared, copied] = [Bodies::Shared, Bodies::Copied].map(|bodies| {
            decoded(stream::iter(data.clone().into_iter().map(Ok)), bodies, unpacked()).try_collect::<Vec<_>>()
        });
        let (shared, copied) = (shared.await, copied.await);
        assert_eq!(shared.as_ref().ok(), copied.as_ref().ok());
        shared
    }

    /// Every kind of column, with nulls.
    fn batch(random: &mut StdRng, rows: usize) -> RecordBatch {
        let mut sometimes = |n: i64| random.random_bool(0.8).then_some(n);
        let numbers: Vec<Option<i64>> = (0..rows as i64).map(&mut sometimes).collect();
        let text = |n: &Option<i64>| n.map(|n| "a text of some length ".repeat(n as usize % 3));
        let lists = numbers.iter().map(|n| n.map(|n| vec![Some(n as i32), None]));
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("n", Arc::new(Int64Array::from(numbers.clone()))),
            ("f", Arc::new(Float64Array::from_iter(numbers.iter().map(|n| n.map(|n| n as f64 / 3.0))))),
            ("b", Arc::new(BooleanArray::from_iter(numbers.iter().map(|n| n.map(|n| n % 2 == 0))))),
            ("s", Arc::new(StringArray::from_iter(numbers.iter().map(text)))),
            ("v", Arc::new(StringViewArray::from_iter(numbers.iter().map(text)))),
            ("l", Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(lists))),
            (
                "d",
                Arc::new(DictionaryArray::<Int32Type>::from_iter(
                    numbers.iter().map(|n| n.map(|n| ["k", "l"][n as usize % 2])),
                )),
            ),
        ];
        RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, c)| (n, c, true))).unwrap()
    }

    #[tokio::test]
    async fn batches_equal_those_of_arrow_flight_at_any_body_alignment() {
        let mut random = StdRng::seed_from_u64(11);
        for round in 0..64 {
            let batches: Vec<RecordBatch> = [1, 77, 5_000].iter().map(|rows| batch(&mut random, *rows)).collect();
            let compression = [None, Some(CompressionType::LZ4_FRAME), Some(CompressionType::ZSTD)][round % 3];
            let encoder = FlightDataEncoderBuilder::new()
                .with_dictionary_handling(if round % 2 == 0 {
                    DictionaryHandling::Resend
                } else {
                    DictionaryHandling::Hydrate
                })
                .with_options(IpcWriteOptions::default().try_with_compression(compression).unwrap())
                .build(stream::iter(batches.clone().into_iter().map(Ok)));
            let mut data: Vec<FlightData> = encoder.try_collect().await.unwrap();
            for message in &mut data {
                let before = vec![0; round];
                message.data_body = bytes::Bytes::from([&before, &message.data_body[..]].concat()).slice(round..);
            }
            let expected =
                FlightRecordBatchStream::new_from_flight_data(stream::iter(data.clone().into_iter().map(Ok)));
            let expected: Vec<RecordBatch> = expected.try_collect().await.unwrap();
            assert_eq!(read(&data).await.unwrap(), expected, "bodies from byte {round}");
            assert_eq!(expected.len(), batches.len());
        }
    }

    #[tokio::test]
    async fn text_columns_share_the_memory_of_large_messages() {
        for (rows, bodies, metadata, stay) in [
            (5_000, Bodies::Shared, 0, true),
            (5_000, Bodies::Copied, 0, false),
            // Too small a part of the message.
            (500, Bodies::Shared, 0, false),
            (5_000, Bodies::Shared, 100_000, false),
        ] {
            let batch = batch(&mut StdRng::seed_from_u64(5), rows).project(&[3]).unwrap();
            let encoder = FlightDataEncoderBuilder::new().build(stream::iter([Ok(batch)]));
            let mut data: Vec<FlightData> = encoder.try_collect().await.unwrap();
            data[1].data_body = bytes::Bytes::from([b"7 bytes", &data[1].data_body[..]].concat()).slice(7..);
            data[1].app_metadata = vec![0; metadata].into();
            let messages = stream::iter(data.clone().into_iter().map(Ok));
            let decoded: Vec<RecordBatch> = decoded(messages, bodies, unpacked()).try_collect().await.unwrap();
            let (values, body) = (decoded[0].column(0).as_string::<i32>().values(), data[1].data_body.as_ptr_range());
            assert!(values.len() > 1_000);
            assert_eq!(body.contains(&values.as_ptr()), stay, "{rows} rows, {bodies:?}, {metadata} bytes beside");
        }
    }

    #[tokio::test]
    async fn messages_out_of_order_are_refused() {
        let batch = batch(&mut StdRng::seed_from_u64(5), 10);
        let encoder = FlightDataEncoderBuilder::new()
            .with_dictionary_handling(DictionaryHandling::Resend)
            .build(stream::iter([Ok(batch)]));
        let data: Vec<FlightData> = encoder.try_collect().await.unwrap();
        let [schema, dictionary, rows] = &data[..] else { panic!("{} messages", data.len()) };
        for (messages, reason) in [
            (vec![dictionary, schema, rows], "before the schema"),
            (vec![rows], "before the schema"),
            (vec![schema, schema], "more than one schema"),
            (vec![schema, rows], "out of bounds"),
        ] {
            let messages: Vec<FlightData> = messages.into_iter().cloned().collect();
            let error = read(&messages).await.unwrap_err();
            assert!(error.kind() == Kind::Invalid && error.to_string().contains(reason), "{reason}: {error}");
        }
        assert_eq!(read(&[]).await.unwrap(), []);
        assert_eq!(read(&[FlightData::default(), schema.clone()]).await.unwrap(), []);
    }

    #[tokio::test]
    async fn damaged_messages_are_errors_and_never_panics() {
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("n", Arc::new(Int64Array::from(vec![Some(1), None, Some(3)]))),
            ("s", Arc::new(StringArray::from(vec![Some("ab"), Some(""), None]))),
            ("v", Arc::new(StringViewArray::from(vec!["a view of some length", "x", "y"]))),
            ("d", Arc::new(DictionaryArray::<Int32Type>::from_iter(["k", "l", "k"]))),
        ];
        let batch = RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, c)| (n, c, true))).unwrap();
        let encoder = FlightDataEncoderBuilder::new()
            .with_dictionary_handling(DictionaryHandling::Resend)
            .build(stream::iter([Ok(batch)]));
        let good: Vec<FlightData> = encoder.try_collect().await.unwrap();
        let mut random = StdRng::seed_from_u64(7);
        let mut decoded_anyway = 0;
        for round in 0..3_000 {
            let mut data = good.clone();
            if round > 0 {
                let message = &mut data[random.random_range(0..good.len())];
                let part = if random.random() { &mut message.data_header } else { &mut message.data_body };
                let mut bytes = part.to_vec();
                if bytes.is_empty() {
                    continue;
                }
                let at = random.random_range(0..bytes.len());
                match random.random_range(0..3) {
                    0 => bytes[at] ^= 1 << random.random_range(0..8),
                    1 => bytes[at] = random.random(),
                    _ => bytes.truncate(at),
                }
                *part = bytes.into();
            }
            match read(&data).await.and_then(|batches| batches.iter().map(plain_batch).collect::<Result<Vec<_>>>()) {
                Ok(_) => decoded_anyway += 1,
                Err(e) => assert_eq!(e.kind(), Kind::Invalid, "{e}"),
            }
        }
        assert!(decoded_anyway > 0);
    }

    #[tokio::test]
    async fn a_compressed_buffer_cannot_claim_an_absurd_size() {
        let column: ArrayRef = Arc::new(Int64Array::from(vec![7; 1_000]));
        let batch = RecordBatch::try_from_iter([("n", column)]).unwrap();
        let options = IpcWriteOptions::default().try_with_compression(Some(CompressionType::LZ4_FRAME)).unwrap();
        let encoder = FlightDataEncoderBuilder::new().with_options(options).build(stream::iter([Ok(batch)]));
        let mut data: Vec<FlightData> = encoder.try_collect().await.unwrap();
        assert_eq!(read(&data).await.unwrap()[0].num_rows(), 1_000);
        let body = data[1].data_body.to_vec();
        let size = body.windows(8).position(|w| w == 8_000i64.to_le_bytes()).unwrap();
        let claim = [&body[..size], &i64::MAX.to_le_bytes(), &body[size + 8..]].concat();
        data[1].data_body = claim.into();
        assert_eq!(read(&data).await.unwrap_err().kind(), Kind::Invalid);
    }

    #[tokio::test]
    async fn what_is_unpacked_has_room_in_the_buffer_of_statements_or_is_refused_before() {
        let column: ArrayRef = Arc::new(Int64Array::from(vec![7; 1_000_000]));
        let batch = RecordBatch::try_from_iter([("n", column)]).unwrap();
        let options = IpcWriteOptions::default().try_with_compression(Some(CompressionType::ZSTD)).unwrap();
        let batches = stream::iter([Ok(batch.clone()), Ok(batch)]);
        let encoder =
            FlightDataEncoderBuilder::new().with_options(options).with_max_flight_data_size(64 << 20).build(batches);
        let data: Vec<FlightData> = encoder.try_collect().await.unwrap();
        let sent: usize = data.iter().map(|message| message.data_body.len()).sum();
        assert!(sent < 10_000, "{sent} bytes");
        let read = async |buffer: &StatementBuffer, keeps: bool| {
            let unpacked = if keeps { Unpacked::together(buffer) } else { Unpacked::one_by_one(buffer) };
            let messages = stream::iter(data.clone().into_iter().map(Ok));
            decoded(messages, Bodies::Copied, unpacked).try_collect::<Vec<_>>().await
        };
        for (most, keeps, fits) in
            [(7_000_000, false, false), (9_000_000, false, true), (9_000_000, true, false), (17_000_000, true, true)]
        {
            let buffer = StatementBuffer::new(most);
            match read(&buffer, keeps).await {
                Ok(batches) => assert!(fits && batches.len() == 2, "{most} {keeps}"),
                Err(e) => assert!(!fits && e.kind() == Kind::Unavailable, "{most} {keeps}: {e}"),
            }
            assert_eq!(buffer.parts().0.load(std::sync::atomic::Ordering::Relaxed), 0);
        }
    }
}
