//! Request bodies: read and unpacked piece by piece, every piece reserved in the write buffer.

use std::{
    io::{self, Read},
    time::Duration,
};

use axum::{
    body::{Body, BodyDataStream},
    http::{HeaderMap, header},
};
use bytes::{Buf, Bytes, BytesMut};
use futures::TryStreamExt;
use tidelake_format::Error;

use crate::write::{Budget, Reservation};

/// Unpacked bytes between two looks at the buffer.
const STEP: usize = 1 << 20;
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

/// The body as its sender meant it, and its place in the buffer.
///
/// # Errors
/// As [`Fault`] says: Invalid for an encoding that is unknown or broken, Unavailable when the buffer is full.
pub(super) async fn read(
    headers: &HeaderMap,
    body: Body,
    limit: usize,
    budget: &Budget,
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
    let mut reservation = budget.reserve(length.unwrap_or(0) as usize).await?;
    let expected = length.unwrap_or(0) as usize;
    let packed = collect(body, expected, limit, budget, &mut reservation).await?;
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

/// All pieces of a body; `expected` bytes of them are reserved, so they may be allocated at once.
async fn collect(
    body: Body,
    expected: usize,
    limit: usize,
    budget: &Budget,
    held: &mut Reservation,
) -> Result<Bytes, Fault> {
    let mut stream = body.into_data_stream();
    let lost = |e: axum::Error| Error::invalid("the request body ended early").with("reason", &e).source(e);
    let mut all = match stream.try_next().await.map_err(lost)? {
        None => return Ok(Bytes::new()),
        Some(first) => match stream.try_next().await.map_err(lost)? {
            // Mostly there is one piece: no copy.
            None if first.len() <= limit => {
                budget.grow(held, first.len()).await?;
                return Ok(first);
            }
            second => {
                let second = second.unwrap_or_default();
                let mut all = BytesMut::with_capacity(expected.max(first.len() + second.len()));
                all.extend_from_slice(&first);
                all.extend_from_slice(&second);
                all
            }
        },
    };
    loop {
        if all.len() > limit {
            discard(stream).await;
            return Err(Fault::TooLarge { limit });
        }
        budget.grow(held, all.len()).await?;
        match stream.try_next().await.map_err(lost)? {
            None => return Ok(all.freeze()),
            Some(piece) => all.extend_from_slice(&piece),
        }
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
