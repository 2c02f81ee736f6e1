//! The reply of a DoGet over HTTP/2. tonic copies each message into a buffer of its own before it sends it; a [`Reply`] sends the
//! parts of a message as they are, so that the bytes of a batch are copied only by the system.

use std::{
    collections::VecDeque,
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll, ready},
};

use arrow_flight::{Ticket, flight_service_server::FlightServiceServer};
use axum::extract::Request;
use bytes::{BufMut, Bytes, BytesMut};
use futures::{FutureExt, StreamExt, future::BoxFuture};
use http_body::{Body, Frame};
use prost::{
    Message as _,
    encoding::{WireType, encode_key, encode_varint, encoded_len_varint, key_len},
};
use tidelake_protocol::http::routes::FLIGHT_PREFIX;
use tonic::{
    Status, Streaming,
    codec::{DecodeBuf, Decoder},
    codegen::http::{self, HeaderMap, HeaderValue, header::CONTENT_TYPE},
    metadata::MetadataMap,
};
use tower::Service;

use super::{
    encode::{Message, Messages},
    service::{FlightSql, MAX_MESSAGE_BYTES},
};

/// Parts of fewer bytes are copied together: each is sent as a frame of its own.
const SMALL: usize = 4 << 10;
/// Number of the field `data_body` of FlightData (Flight.proto).
const DATA_BODY: u32 = 1_000;

/// The Flight service: arrow-flight's, whose DoGet is replaced.
#[derive(Clone)]
pub(super) struct Calls {
    flight: FlightSql,
    others: FlightServiceServer<FlightSql>,
}

impl Calls {
    pub(super) fn new(flight: FlightSql) -> Self {
        let others = FlightServiceServer::new(flight.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES);
        Self { flight, others }
    }
}

impl Service<Request> for Calls {
    type Response = http::Response<tonic::body::Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request) -> Self::Future {
        if request.uri().path().strip_prefix(FLIGHT_PREFIX) != Some("DoGet") {
            return self.others.call(request).boxed();
        }
        let flight = self.flight.clone();
        async move { Ok(get(&flight, request).await.unwrap_or_else(Status::into_http)) }.boxed()
    }
}

async fn get(flight: &FlightSql, request: Request) -> Result<http::Response<tonic::body::Body>, Status> {
    let (head, body) = request.into_parts();
    let mut tickets = Streaming::new_request(Tickets, body, None, Some(MAX_MESSAGE_BYTES));
    let ticket = tickets.message().await?.ok_or_else(|| Status::internal("Missing request message."))?;
    let request = tonic::Request::from_parts(MetadataMap::from_headers(head.headers), head.extensions, ticket);
    let (metadata, messages, extensions) = flight.get(request).await?.into_parts();
    let mut response = http::Response::new(tonic::body::Body::new(Reply::new(messages)));
    *response.headers_mut() = metadata.into_headers();
    *response.extensions_mut() = extensions;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    Ok(response)
}

/// Decodes the request of a DoGet.
struct Tickets;

impl Decoder for Tickets {
    type Item = Ticket;
    type Error = Status;

    fn decode(&mut self, bytes: &mut DecodeBuf<'_>) -> Result<Option<Ticket>, Status> {
        Ticket::decode(bytes).map(Some).map_err(|error| Status::internal(error.to_string()))
    }
}

/// A body of gRPC messages, with the status in the trailers.
struct Reply {
    /// `None` after the last message.
    messages: Option<Messages>,
    /// Parts of the current message that are not sent yet.
    parts: VecDeque<Bytes>,
}

impl Reply {
    fn new(messages: Messages) -> Self {
        Self { messages: Some(messages), parts: VecDeque::new() }
    }
}

impl Body for Reply {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if let Some(part) = self.parts.pop_front() {
            return Poll::Ready(Some(Ok(Frame::data(part))));
        }
        let Some(messages) = &mut self.messages else { return Poll::Ready(None) };
        let next = ready!(messages.poll_next_unpin(cx));
        let status = match next.unwrap_or_else(|| Err(Status::ok(""))) {
            Ok(message) => {
                self.parts = parts(message)?;
                return Poll::Ready(self.parts.pop_front().map(|part| Ok(Frame::data(part))));
            }
            Err(status) => status,
        };
        // A query ends when its rows are dropped.
        self.messages = None;
        let mut trailers = HeaderMap::new();
        status.add_header(&mut trailers)?;
        Poll::Ready(Some(Ok(Frame::trailers(trailers))))
    }
}

/// The bytes of a message with its prefix: one byte that says it is not compressed, and its length in four bytes. There is at least
/// one part.
fn parts(message: Message) -> Result<VecDeque<Bytes>, Status> {
    let body: usize = message.body.iter().map(Bytes::len).sum();
    let length = match body {
        0 => message.head.encoded_len(),
        _ => message.head.encoded_len() + key_len(DATA_BODY) + encoded_len_varint(body as u64) + body,
    };
    let told = u32::try_from(length).map_err(|_| Status::internal("a message has more than 4 GiB"))?;
    let mut parts = VecDeque::with_capacity(message.body.len() + 1);
    let mut small = BytesMut::with_capacity(5 + length - body + 64);
    small.put_u8(0);
    small.put_u32(told);
    message.head.encode_raw(&mut small);
    if body > 0 {
        encode_key(DATA_BODY, WireType::LengthDelimited, &mut small);
        encode_varint(body as u64, &mut small);
    }
    for part in message.body {
        if part.len() < SMALL {
            small.extend_from_slice(&part);
            continue;
        }
        if !small.is_empty() {
            parts.push_back(small.split().freeze());
        }
        parts.push_back(part);
    }
    if !small.is_empty() {
        parts.push_back(small.freeze());
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use arrow_flight::FlightData;
    use futures::{TryStreamExt, stream};

    use super::*;

    fn message(header: usize, body: &[usize]) -> Message {
        let bytes = |length: usize| Bytes::from((0..length).map(|i| (i * 7 + length) as u8).collect::<Vec<_>>());
        let head = FlightData { data_header: bytes(header), app_metadata: bytes(header % 3), ..Default::default() };
        Message { head, body: body.iter().copied().map(bytes).collect() }
    }

    #[test]
    fn parts_are_the_bytes_that_prost_encodes() {
        for header in [0, 1, 200, 70_000] {
            for body in [&[][..], &[0], &[1], &[100, 0, 8_192, 63, 64, 300_000, 5], &[SMALL; 40], &[SMALL - 1; 40]] {
                let mut right = vec![0];
                let data = FlightData::from(message(header, body));
                right.extend_from_slice(&u32::try_from(data.encoded_len()).unwrap().to_be_bytes());
                data.encode(&mut right).unwrap();
                let found = parts(message(header, body)).unwrap();
                assert!(found.iter().all(|part| !part.is_empty()));
                assert_eq!(Vec::from(found).concat(), right, "{header}, {body:?}");
            }
        }
    }

    async fn frames(messages: Vec<Result<Message, Status>>) -> (Vec<u8>, Vec<HeaderMap>) {
        let mut reply = Reply::new(stream::iter(messages).boxed());
        let frames = stream::poll_fn(move |cx| Pin::new(&mut reply).poll_frame(cx));
        let frames: Vec<Frame<Bytes>> = frames.try_collect().await.unwrap();
        let (mut bytes, mut trailers) = (Vec::new(), Vec::new());
        for frame in frames {
            match frame.into_data() {
                Ok(data) => bytes.extend_from_slice(&data),
                Err(frame) => trailers.extend(frame.into_trailers().ok()),
            }
        }
        (bytes, trailers)
    }

    #[tokio::test]
    async fn the_last_frame_has_the_status() {
        let (bytes, trailers) = frames(vec![Ok(message(3, &[9_000])), Ok(message(4, &[]))]).await;
        let length = |header: usize, body: &[usize]| 5 + FlightData::from(message(header, body)).encoded_len();
        assert_eq!((bytes.len(), trailers.len()), (length(3, &[9_000]) + length(4, &[]), 1));
        assert_eq!(trailers[0]["grpc-status"], "0");
        let stop = Err(Status::unavailable("the query was killed"));
        let (bytes, trailers) = frames(vec![Ok(message(4, &[])), stop, Ok(message(5, &[]))]).await;
        assert_eq!((bytes.len(), trailers.len()), (length(4, &[]), 1));
        assert_eq!(trailers[0]["grpc-status"], "14");
        assert_eq!(trailers[0]["grpc-message"], "the%20query%20was%20killed");
    }
}
