//! Request bodies: read and unpacked piece by piece. Each piece is reserved in the write buffer when it arrives; an announced
//! Content-Length reserves nothing. Until a body is complete, its received bytes count in its user's share.

use std::{
    io::{self, Read},
    time::Duration,
};

use axum::{
    body::{Body, BodyDataStream},
    http::{HeaderMap, header},
};
use bytes::{Buf, Bytes, BytesMut};
use futures::{FutureExt as _, TryStreamExt};
use tidelake_format::{Error, Result};

use crate::write::{Budget, Ingest, Reservation, Share};

/// Unpacked bytes between two reservations in the buffer.
const STEP: usize = 1 << 20;
/// Growth factor of a buffer, as long as the announced length allows.
const GROWTH: usize = 4;
/// Most bytes read, and longest time spent reading, from a body that is refused, before the client gets its reply.
const DISCARD_BYTES: usize = 256 << 20;
const DISCARD_TIME: Duration = Duration::from_secs(5);

/// Reason why a body is refused.
#[derive(Debug)]
pub(super) enum Fault {
    /// The body is larger than the setting allows.
    TooLarge {
        /// The limit in bytes.
        limit: usize,
    },
    /// The body is broken, or the buffer has no room for it.
    Error(Error),
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Fault::Error(error)
    }
}

/// Returns the body of an admitted request. Discards that of a refused one, within bounds.
///
/// # Errors
/// That of `checked`.
pub(super) async fn unless_refused(checked: Result<()>, body: Body) -> Result<Body, Fault> {
    match checked {
        Ok(()) => Ok(body),
        Err(error) => {
            discard(body.into_data_stream()).await;
            Err(error.into())
        }
    }
}

/// Reads the body and unpacks it, with its reservation in the buffer.
///
/// # Errors
/// See [`Fault`]: Invalid for an unknown or broken encoding, Unavailable when the buffer is full, or the part of it that
/// incomplete bodies of one user may hold.
pub(super) async fn read(
    ingest: &Ingest,
    headers: &HeaderMap,
    body: Body,
    limit: usize,
) -> Result<(Bytes, Reservation), Fault> {
    let length = headers.get(header::CONTENT_LENGTH).and_then(|v| v.to_str().ok()?.parse::<u64>().ok());
    if length.is_some_and(|n| n > limit as u64) {
        discard(body.into_data_stream()).await;
        return Err(Fault::TooLarge { limit });
    }
    let encoding = match headers.get(header::CONTENT_ENCODING) {
        None => "identity",
        Some(value) => value.to_str().map_err(|_| unknown(&format!("{value:?}")))?.trim(),
    };
    let (packed, mut reservation) = collect(ingest, body, length.unwrap_or(0) as usize, limit).await?;
    let budget = ingest.budget();
    match encoding.to_ascii_lowercase().as_str() {
        "" | "identity" => Ok((packed, reservation)),
        "gzip" | "x-gzip" => {
            let reader = flate2::bufread::MultiGzDecoder::new(packed.reader());
            Ok((unpack("gzip", reader, limit, budget, &mut reservation).await?, reservation))
        }
        "zstd" => {
            let reader = zstd::stream::read::Decoder::with_buffer(packed.reader()).map_err(|e| broken("zstd", &e))?;
            Ok((unpack("zstd", reader, limit, budget, &mut reservation).await?, reservation))
        }
        other => Err(unknown(other).into()),
    }
}

/// Collects all pieces of a body with an announced length of `expected` bytes.
async fn collect(ingest: &Ingest, body: Body, expected: usize, limit: usize) -> Result<(Bytes, Reservation), Fault> {
    let budget = ingest.budget();
    let mut stream = body.into_data_stream();
    let lost = |e: axum::Error| Error::invalid("request body ended early").with("reason", &e).source(e);
    let Some(first) = stream.try_next().await.map_err(lost)? else {
        return Ok((Bytes::new(), budget.reserve(0).await?));
    };
    let mut held = budget.reserve(0).await?;
    let mut share = Share::default();
    // Most bodies arrive in one piece: no copy.
    let (mut first, mut all) = (Some(first), BytesMut::new());
    loop {
        let come = first.as_ref().map_or(all.len(), Bytes::len);
        if come > limit {
            discard(stream).await;
            return Err(Fault::TooLarge { limit });
        }
        let next = match stream.try_next().now_or_never() {
            Some(next) => {
                budget.grow(&mut held, come).await?;
                next
            }
            None => {
                // Take the share first: a request that waits for it holds none of the buffer.
                ingest.hold_share(&mut share, come).await?;
                budget.grow(&mut held, come).await?;
                stream.try_next().await
            }
        };
        let Some(piece) = next.map_err(lost)? else {
            return Ok((first.unwrap_or_else(|| all.freeze()), held));
        };
        if let Some(first) = first.take() {
            all.extend_from_slice(&first);
        }
        let needed = all.len() + piece.len();
        if needed > all.capacity() {
            // Allocate the announced length only after a good part of it has arrived.
            let more = expected.min(needed.saturating_mul(GROWTH)).min(limit);
            all.reserve(needed.max(more) - all.len());
        }
        all.extend_from_slice(&piece);
    }
}

/// Reads and discards the rest of a body, within bounds: most clients read the reply only after they have sent everything.
pub(super) async fn discard(mut stream: BodyDataStream) {
    let reading = async {
        let mut left = DISCARD_BYTES;
        while let Ok(Some(piece)) = stream.try_next().await {
            match left.checked_sub(piece.len()) {
                Some(rest) => left = rest,
                None => break,
            }
        }
    };
    let _ = tokio::time::timeout(DISCARD_TIME, reading).await; // a timeout is fine: the body is only discarded
}

async fn unpack(
    encoding: &str,
    mut reader: impl Read,
    limit: usize,
    budget: &Budget,
    held: &mut Reservation,
) -> Result<Bytes, Fault> {
    let mut all = Vec::new();
    loop {
        let step = STEP.min(limit + 1 - all.len());
        let n = (&mut reader).take(step as u64).read_to_end(&mut all).map_err(|e| broken(encoding, &e))?;
        if all.len() > limit {
            return Err(Fault::TooLarge { limit });
        }
        budget.grow(held, all.len()).await?;
        if n < step {
            return Ok(all.into());
        }
        tokio::task::yield_now().await;
    }
}

fn broken(encoding: &str, error: &io::Error) -> Error {
    Error::invalid(format!("the request body is not valid {encoding}")).with("reason", error)
}

fn unknown(encoding: &str) -> Error {
    Error::invalid("unknown Content-Encoding").with("expected", "gzip, zstd or identity").with("found", encoding)
}
