//! Request bodies: read and unpacked piece by piece. Each piece is reserved in the write buffer when it has come; what a
//! request only announces reserves nothing. While the rest of a body has not come, what has counts in its user's share.

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

/// Unpacked bytes between two looks at the buffer.
const STEP: usize = 1 << 20;
/// A buffer becomes this many times as large as what is in it, where so much is announced.
const GROWTH: usize = 4;
/// The most that is read of a body that is too large, and for how long, before its sender is told.
const DISCARD_BYTES: usize = 256 << 20;
const DISCARD_TIME: Duration = Duration::from_secs(5);

/// Why a body cannot be taken.
#[derive(Debug)]
pub(super) enum Fault {
    /// It is larger than the setting allows.
    TooLarge {
        /// The limit in bytes.
        limit: usize,
    },
    /// It is broken, or there is no room for it.
    Error(Error),
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Fault::Error(error)
    }
}

/// The body, of a request that may go on. Of one that may not it is read and thrown away, within bounds.
///
/// # Errors
/// What was checked.
pub(super) async fn unless_refused(checked: Result<()>, body: Body) -> Result<Body, Fault> {
    match checked {
        Ok(()) => Ok(body),
        Err(error) => {
            discard(body.into_data_stream()).await;
            Err(error.into())
        }
    }
}

/// The body as its sender meant it, and its place in the buffer.
///
/// # Errors
/// As [`Fault`] says: Invalid for an encoding that is unknown or broken, Unavailable when the buffer is full, or the part of
/// it that bodies of one user may hold while they arrive.
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

/// All pieces of a body, which announces that there are `expected` bytes.
async fn collect(ingest: &Ingest, body: Body, expected: usize, limit: usize) -> Result<(Bytes, Reservation), Fault> {
    let budget = ingest.budget();
    let mut stream = body.into_data_stream();
    let lost = |e: axum::Error| Error::invalid("the request body ended early").with("reason", &e).source(e);
    let Some(first) = stream.try_next().await.map_err(lost)? else {
        return Ok((Bytes::new(), budget.reserve(0).await?));
    };
    let mut held = budget.reserve(0).await?;
    let mut share = Share::default();
    // Mostly there is one piece: no copy.
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
                // The share goes first: who waits for it holds nothing that others need.
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
            // What is announced is allocated once a good part of it has come.
            let more = expected.min(needed.saturating_mul(GROWTH)).min(limit);
            all.reserve(needed.max(more) - all.len());
        }
        all.extend_from_slice(&piece);
    }
}

/// Reads on and throws away, within bounds: most clients hear an answer only after they have sent everything.
async fn discard(mut stream: BodyDataStream) {
    let reading = async {
        let mut left = DISCARD_BYTES;
        while let Ok(Some(piece)) = stream.try_next().await {
            match left.checked_sub(piece.len()) {
                Some(rest) => left = rest,
                None => break,
            }
        }
    };
    let _ = tokio::time::timeout(DISCARD_TIME, reading).await; // late is as good as done
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
