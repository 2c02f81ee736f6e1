//! DoPut with a fallible request stream.
//!
//! The generated client takes an infallible stream of messages: a stream that stops early looks complete to the server. The
//! stream of this call may yield an error, which resets the call, so that the server stores nothing.

use arrow_flight::error::FlightError;
use arrow_flight::{FlightData, PutResult};
use futures::Stream;
use prost::Message;
use tonic::client::Grpc;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder, Streaming};
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Channel;
use tonic::{Request, Status};

/// Calls DoPut.
///
/// # Errors
/// An error of the server, a broken connection, or an error of the stream (as a status with its text).
pub(super) async fn do_put(
    channel: Channel,
    messages: impl Stream<Item = Result<FlightData, FlightError>> + Send + 'static,
) -> Result<Streaming<PutResult>, Status> {
    let mut client = Grpc::new(channel);
    client.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
    let path = PathAndQuery::from_static("/arrow.flight.protocol.FlightService/DoPut");
    Ok(client.streaming(Request::new(messages), path, PutCodec).await?.into_inner())
}

/// Protocol buffer codec whose outgoing messages may be errors.
#[derive(Debug, Clone, Copy)]
struct PutCodec;

impl Codec for PutCodec {
    type Encode = Result<FlightData, FlightError>;
    type Decode = PutResult;
    type Encoder = PutCodec;
    type Decoder = PutCodec;

    fn encoder(&mut self) -> Self::Encoder {
        PutCodec
    }

    fn decoder(&mut self) -> Self::Decoder {
        PutCodec
    }
}

impl Encoder for PutCodec {
    type Item = Result<FlightData, FlightError>;
    type Error = Status;

    fn encode(&mut self, item: Self::Item, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        item?.encode(to).map_err(|error| Status::internal(error.to_string()))
    }
}

impl Decoder for PutCodec {
    type Item = PutResult;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<PutResult>, Status> {
        PutResult::decode(from).map(Some).map_err(|error| Status::internal(error.to_string()))
    }
}
