//! Encodes results: one encoder per format, and the stream that drives it.

mod binary;
mod json;
mod limit;
mod lines;

use std::{collections::VecDeque, str::FromStr};

use arrow::{array::RecordBatch, datatypes::SchemaRef};
use axum::{
    body::{Body, Bytes},
    http::HeaderValue,
};
use chrono_tz::Tz;
use futures::{StreamExt, stream, stream::BoxStream};
use tidelake_format::{Error, Result};

pub(super) use binary::{IpcStream, Parquet};
pub(super) use json::{Json, Rows};
pub(super) use limit::Cut;
pub(super) use lines::{Csv, NdJson};

use crate::{pace::paced, wire::split};

/// Number of bytes of the rows in one piece of a body. A piece is encoded without a yield and held in memory as text.
const PIECE_BYTES: usize = 1 << 20;

/// Encodes batches of one schema as the bytes of a body.
pub(super) trait Encode: Send + 'static {
    /// The bytes before the first row.
    ///
    /// # Errors
    /// [`Kind::Internal`](crate::Kind::Internal) for a schema that the format cannot represent.
    fn start(&mut self) -> Result<Vec<u8>>;

    /// Encodes the rows of a batch.
    ///
    /// # Errors
    /// As for [`Encode::start`].
    fn rows(&mut self, batch: &RecordBatch) -> Result<Vec<u8>>;

    /// The bytes after the last row.
    ///
    /// # Errors
    /// As for [`Encode::start`].
    fn end(&mut self) -> Result<Vec<u8>>;
}

/// The formats of `/api/v1/sql`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Format {
    /// `{"columns":[{"name","type"}],"data":[[…]],"rows":n}`, plus `"truncated":true` where a limit truncated it.
    #[default]
    Json,
    /// One JSON object per line, one line per row.
    NdJson,
    /// RFC 4180 with a header.
    Csv,
    /// An Arrow IPC stream.
    Arrow,
    /// A Parquet file, zstd.
    Parquet,
}

impl FromStr for Format {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        match name.to_ascii_lowercase().as_str() {
            "json" => Ok(Format::Json),
            "ndjson" | "jsonl" => Ok(Format::NdJson),
            "csv" => Ok(Format::Csv),
            "arrow" => Ok(Format::Arrow),
            "parquet" => Ok(Format::Parquet),
            _ => Err(Error::invalid("invalid format: expected 'json', 'ndjson', 'csv', 'arrow' or 'parquet'")
                .with("found", crate::error::shorten(name))),
        }
    }
}

impl Format {
    /// The supported format with the highest weight in an Accept header, the first of equals; JSON when it names none.
    pub(super) fn accepted(accept: &str) -> Self {
        let of_type = |media: &str| match media {
            "application/json" => Some(Format::Json),
            "application/x-ndjson" | "application/ndjson" | "application/jsonl" => Some(Format::NdJson),
            "text/csv" => Some(Format::Csv),
            "application/vnd.apache.arrow.stream" => Some(Format::Arrow),
            "application/vnd.apache.parquet" => Some(Format::Parquet),
            _ => None,
        };
        let mut best = (0.0, Format::default());
        for asked in accept.split(',') {
            let mut parts = asked.split(';').map(str::trim);
            let Some(format) = of_type(parts.next().unwrap_or_default()) else { continue };
            let weight = parts.find_map(|part| part.strip_prefix("q=")?.parse().ok()).unwrap_or(1.0_f32);
            if weight > best.0 {
                best = (weight, format);
            }
        }
        best.1
    }

    /// The media type.
    pub(super) fn content_type(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Format::Json => "application/json",
            Format::NdJson => "application/x-ndjson",
            Format::Csv => "text/csv; charset=utf-8; header=present",
            Format::Arrow => "application/vnd.apache.arrow.stream",
            Format::Parquet => "application/vnd.apache.parquet",
        })
    }

    /// The body of a result of at most `most` rows.
    ///
    /// # Errors
    /// As for [`body`].
    pub(super) async fn body(
        self,
        schema: SchemaRef,
        zone: Tz,
        batches: BoxStream<'static, Result<RecordBatch>>,
        most: Option<usize>,
    ) -> Result<Body> {
        let cut = Cut::default();
        let batches = match most {
            Some(most) => cut.rows(batches, most),
            None => batches,
        };
        match self {
            Format::Json => body(Json::new(schema, zone).cut(cut), batches).await,
            Format::NdJson => body(NdJson::new(schema, zone), batches).await,
            Format::Csv => body(Csv::new(schema, zone), batches).await,
            Format::Arrow => body(IpcStream::new(&schema)?, batches).await,
            Format::Parquet => body(Parquet::new(schema)?, batches).await,
        }
    }
}

/// The body of a result, encoded while it is sent.
///
/// Awaits the first batch before it returns, so that most failures are still reported with a status. A later failure aborts the
/// connection.
///
/// # Errors
/// Errors of the statement before its first batch.
pub(super) async fn body<E: Encode>(
    mut encode: E,
    mut batches: BoxStream<'static, Result<RecordBatch>>,
) -> Result<Body> {
    let first = batches.next().await.transpose()?;
    let mut head = encode.start()?;
    let mut waiting = first.map(pieces).unwrap_or_default();
    if let Some(batch) = waiting.pop_front() {
        head.append(&mut encode.rows(&batch)?);
    }
    struct State<E> {
        encode: E,
        batches: BoxStream<'static, Result<RecordBatch>>,
        waiting: VecDeque<RecordBatch>,
        done: bool,
    }
    impl<E: Encode> State<E> {
        async fn next(&mut self) -> Result<Option<Vec<u8>>> {
            loop {
                if let Some(batch) = self.waiting.pop_front() {
                    return self.encode.rows(&batch).map(Some);
                }
                if self.done {
                    return Ok(None);
                }
                match self.batches.next().await.transpose()? {
                    Some(batch) => self.waiting = pieces(batch),
                    None => {
                        self.done = true;
                        return self.encode.end().map(Some);
                    }
                }
            }
        }
    }
    let state = State { encode, batches, waiting, done: false };
    let rest = stream::try_unfold(state, |mut state| async move {
        match state.next().await {
            Ok(piece) => Ok(piece.map(|piece| (piece, state))),
            Err(error) => {
                tracing::warn!(error = ?error, "result aborted after its headers were sent");
                Err(error)
            }
        }
    });
    let all = stream::iter([Ok(head)]).chain(rest).filter(|p| {
        let empty = p.as_ref().is_ok_and(Vec::is_empty);
        std::future::ready(!empty)
    });
    // Paced, as the connection polls many pieces in one turn while they are ready.
    Ok(Body::from_stream(paced(all.boxed()).map(|piece| piece.map(Bytes::from))))
}

fn pieces(batch: RecordBatch) -> VecDeque<RecordBatch> {
    if batch.num_rows() > 0 { split(batch, PIECE_BYTES) } else { VecDeque::new() }
}
