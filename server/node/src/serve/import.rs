//! `POST /api/v1/import`: a file as the body, described or written.
//!
//! The body is copied to a temporary file without a name, because its rows are read more than once: types and tags are
//! inferred, rows and keys are checked, and only then anything is written. The file disappears with the request, whatever its
//! end. Rows take the path of bulk ingests, so that they become visible all at once.

mod parameters;
mod slots;

use std::{sync::Arc, time::Duration};

use arrow::array::RecordBatch;
use axum::{
    body::Body,
    extract::{RawQuery, State},
    http::{HeaderMap, StatusCode, header},
    response::Response,
};
use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tidelake_format::{Error, Result, access::Privilege, rows::RowCounts};
use tidelake_import::{
    check::{Check, check},
    input::{self, FileFormat, Input, unwatched},
    keys::{self, Bounds},
    lines::Parts,
    preview::{self, Preview, preview, refusal},
    roles,
    shape::{Prepared, Shape},
    source::{INFER_ROWS, Reading, Source, Wrongs},
    table::Table,
    trial::Trial,
    words::Words,
};
use tidelake_ingest::{
    decode::time::Implausible,
    http::{describe, discard, of_request},
    write::{Durability, IfAbsent, IfExists, Ingest, IngestTarget, Written},
};
use tidelake_protocol::http::{Api, api::json_answer, headers::WriteReply, routes};
use tidelake_routes::{Caller, Routes};
use tokio::{
    io::AsyncWriteExt as _,
    sync::{OwnedSemaphorePermit, Semaphore, mpsc},
};

use self::{parameters::Parameters, slots::Slots};

/// Number of keys of a file that are held in memory, at 24 bytes each.
const KEYS_IN_MEMORY: usize = 1 << 20;
/// All rows of a file are compared.
const ALL_ROWS: Bounds = Bounds { rows: u64::MAX, in_memory: KEYS_IN_MEMORY };
/// Number of files that are read at once, for their checks or for a preview.
const READ_AT_ONCE: usize = 2;
/// How long a file waits until it may be read.
const READ_WITHIN: Duration = Duration::from_secs(60);
/// Most rows and most cells of a preview.
const PREVIEW_ROWS: usize = 10_000;
const PREVIEW_CELLS: usize = 2_000_000;
/// Bytes of a preview from which its last record is taken for incomplete.
const PROBABLY_CUT: u64 = 64 << 10;
/// Bytes of line protocol that are written at once.
const PART_BYTES: usize = 4 << 20;
/// Refused lines that a reply describes.
const NAMED: usize = 100;

#[derive(Clone)]
struct Imports {
    ingest: Ingest,
    slots: Slots,
    reading: Arc<Semaphore>,
}

/// The route of imports.
pub(super) fn routes(ingest: Ingest) -> Routes {
    let imports = Imports { ingest, slots: Slots::default(), reading: Arc::new(Semaphore::new(READ_AT_ONCE)) };
    Routes::new().on(&routes::IMPORT, import).with_state(imports)
}

/// Why a file is not imported.
enum Fault {
    /// The body is larger than this number of bytes.
    TooLarge(usize),
    Error(Error),
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Fault::Error(error)
    }
}

async fn import(
    State(imports): State<Imports>,
    Caller(principal): Caller,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let ingest = imports.ingest.for_principal(principal);
    let answer = async {
        let (parameters, ingest, slot) = match admitted(&imports, &ingest, query.as_deref(), &headers).await {
            Ok(admitted) => admitted,
            Err(error) => {
                discard(body).await;
                return Err(error.into());
            }
        };
        let input = spool(&ingest, &headers, body).await?;
        let permit = turn(&imports.reading, READ_WITHIN).await?;
        let import = Import { ingest, parameters, held: Arc::new((slot, permit)) };
        match (import.parameters.format, import.parameters.preview) {
            (FileFormat::Line, true) => import.preview_lines(input).await,
            (FileFormat::Line, false) => import.write_lines(input).await,
            (_, true) => import.preview_rows(input).await,
            (_, false) => import.write_rows(input).await,
        }
    };
    match answer.await {
        Ok(response) => response,
        Err(Fault::Error(error)) => Api::Tidelake.answer(&error).map(Body::from),
        Err(Fault::TooLarge(limit)) => {
            let error =
                Error::invalid("the file is larger than the limit max_bulk: import it in parts, or raise the setting");
            let error = error.with("limit_bytes", limit);
            Api::Tidelake.answer_as(StatusCode::PAYLOAD_TOO_LARGE, &error).map(Body::from)
        }
    }
}

/// Checks a request before its body is read.
async fn admitted(
    imports: &Imports,
    ingest: &Ingest,
    query: Option<&str>,
    headers: &HeaderMap,
) -> Result<(Parameters, Ingest, slots::Slot)> {
    let parameters = Parameters::read(query)?;
    if let Some(encoding) = headers.get(header::CONTENT_ENCODING) {
        let encoding = String::from_utf8_lossy(encoding.as_bytes()).to_ascii_lowercase();
        if !["", "identity", "gzip", "x-gzip", "zstd"].contains(&encoding.as_str()) {
            let unknown = Error::invalid("unknown Content-Encoding").with("expected", "gzip, zstd or identity");
            return Err(unknown.with("found", encoding));
        }
    }
    let ingest = of_request(ingest, headers)?;
    ingest.check_write(&parameters.database).await?;
    let slot = imports.slots.take(ingest.principal().user())?;
    Ok((parameters, ingest, slot))
}

/// Waits until another file may be read.
///
/// # Errors
/// Unavailable if the files of other requests take longer than this.
async fn turn(reading: &Arc<Semaphore>, within: Duration) -> Result<OwnedSemaphorePermit> {
    match tokio::time::timeout(within, reading.clone().acquire_owned()).await {
        Ok(permit) => permit.map_err(|_| Error::unavailable("the server is stopping")),
        Err(_) => Err(Error::unavailable("other files are being imported; retry later")
            .with("limit", format!("{READ_AT_ONCE} at once"))
            .with("waited", format!("{} s", within.as_secs()))),
    }
}

/// Copies the body to a temporary file.
async fn spool(ingest: &Ingest, headers: &HeaderMap, body: Body) -> Result<Input, Fault> {
    let limit = ingest.config().bulk_bytes;
    let length = headers.get(header::CONTENT_LENGTH).and_then(|v| v.to_str().ok()?.parse::<u64>().ok());
    if length.is_some_and(|length| length > limit as u64) {
        discard(body).await;
        return Err(Fault::TooLarge(limit));
    }
    let failed = |e: std::io::Error| {
        let error = Error::unavailable("cannot write the file to the temporary directory");
        error.with("directory", std::env::temp_dir().display()).with("reason", &e).source(e)
    };
    let file = input::temporary()?;
    let mut to = tokio::fs::File::from_std(file.try_clone().map_err(failed)?);
    let (mut body, mut come) = (body.into_data_stream(), 0);
    while let Some(piece) = body.try_next().await.map_err(ended_early)? {
        come += piece.len();
        if come > limit {
            discard(Body::from_stream(body)).await;
            return Err(Fault::TooLarge(limit));
        }
        to.write_all(&piece).await.map_err(failed)?;
    }
    to.flush().await.map_err(failed)?;
    Ok(Input::open("", file).at_most(limit as u64))
}

fn ended_early(error: axum::Error) -> Error {
    Error::invalid("request body ended early").with("reason", &error).source(error)
}

/// An admitted request.
struct Import {
    ingest: Ingest,
    parameters: Parameters,
    held: Held,
}

/// The places of an import. Threads that read its file hold them too: they may go on after the client has left.
type Held = Arc<(slots::Slot, OwnedSemaphorePermit)>;

/// Runs code that reads files on a thread for blocking work.
async fn blocking<T: Send + 'static>(held: Held, run: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    let run = move || {
        let ended = run();
        drop(held);
        ended
    };
    let ended = tokio::task::spawn_blocking(run).await;
    ended.unwrap_or_else(|e| Err(Error::internal("reading the file failed").with("reason", &e).source(e)))
}

impl Import {
    /// The table, if it exists.
    async fn table(&self) -> Result<Option<Table>> {
        let catalog = self.ingest.root().refresh().await?;
        let Some(database) = catalog.database(&self.parameters.database) else { return Ok(None) };
        let table = catalog.table(database.id, &self.parameters.table).map(|table| Table::of(table));
        let is_hidden = !self.ingest.principal().may(Privilege::Read, database);
        Ok(table.map(|table| Table { is_hidden, ..table }))
    }

    fn checks_times(&self) -> bool {
        self.ingest.implausible() == Implausible::Refuse
    }

    fn reading(&self) -> Reading {
        let Parameters { nulls, types, .. } = &self.parameters;
        Reading { nulls: nulls.clone(), types: types.clone(), sample: INFER_ROWS, words: Words::HTTP }
    }

    /// Describes a file of rows.
    async fn preview_rows(self, input: Input) -> Result<Response, Fault> {
        let (table, reading, checks) = (self.table().await?, self.reading(), self.checks_times());
        let Parameters { database, table: name, named, precision, format, .. } = self.parameters;
        let described = blocking(self.held.clone(), move || {
            let mut source = Source::inspect(vec![(first_part(input, format)?, format)], reading)?;
            if let Some(table) = &table {
                source.fit(table);
            }
            let limit = (PREVIEW_CELLS / source.schema.fields().len().max(1)).clamp(1, PREVIEW_ROWS);
            let (database, table, unit) = (Some(database.as_str()), table.as_ref(), precision.unit());
            let target = preview::Target { database, name: &name, table, named: &named, unit, checks };
            preview(source, &target, Bounds { rows: limit as u64, in_memory: KEYS_IN_MEMORY })
        });
        Ok(shown(described.await?))
    }

    /// Describes a file of line protocol.
    async fn preview_lines(self, input: Input) -> Result<Response, Fault> {
        let catalog = self.ingest.root().refresh().await?;
        let principal = self.ingest.principal().clone();
        let known = catalog.database(&self.parameters.database).map(|database| {
            // The tables of a database that the caller may not read are treated as unknown.
            let is_shown = principal.may(Privilege::Read, database);
            let tables = catalog.tables(database.id).filter(|_| is_shown).cloned().collect();
            (database.clone(), tables)
        });
        let (implausible, precision) = (self.ingest.implausible(), self.parameters.precision.of_lines());
        let (database, notices) = (self.parameters.database.clone(), self.parameters.without_effect());
        let now_ns = self.ingest.root().store().ambient().wall_ns();
        let described = blocking(self.held.clone(), move || {
            let input = first_part(input, FileFormat::Line)?;
            let mut parts = Parts::new(std::io::BufReader::new(input.reader(&unwatched())?));
            let mut trial = Trial::new(known, implausible);
            let mut is_partial = true;
            while trial.read() < PREVIEW_ROWS as u64 {
                let part = parts.next_part(PART_BYTES / 16).map_err(|e| unreadable(&e))?;
                if part.body.is_empty() {
                    is_partial = false;
                    break;
                }
                trial.add("", &part, precision, now_ns)?;
            }
            let mut described = trial.preview(Some(&database))?;
            described.is_partial = is_partial;
            described.notices.extend(notices);
            Ok(described)
        });
        Ok(shown(described.await?))
    }

    /// Writes a file of rows.
    async fn write_rows(self, input: Input) -> Result<Response, Fault> {
        let (table, reading, checks) = (self.table().await?, self.reading(), self.checks_times());
        let Parameters { database, table: name, named, precision, format, overwrites, .. } = self.parameters;
        let checked = blocking(self.held.clone(), move || {
            let mut source = Source::inspect(vec![(input, format)], reading)?;
            if let Some(table) = &table {
                source.fit(table);
            }
            let (roles, guess) = roles::roles(&source, &named, table.as_ref())?;
            let shape = Shape::new(&source, &roles, precision.unit(), table.is_none(), checks)?;
            let mut notices: Vec<String> = source.notices().map(str::to_owned).collect();
            if guess.is_some() {
                let tags: Vec<&str> = roles.tags.iter().map(|at| source.schema.field(*at).name().as_str()).collect();
                let tags = if tags.is_empty() { "none".to_owned() } else { tags.join(", ") };
                notices.push(format!("tags were guessed: {tags}; name them with tags="));
            }
            let prepared = Prepared { source, shape };
            let progress = unwatched();
            let how = Check { wrongs: Wrongs::Fail, bounds: ALL_ROWS, profiles: false, progress: &progress };
            let checked = check(&prepared, Some(&roles), how, |_| Ok(()))?;
            if checked.repeats.replaced > 0 && !overwrites {
                let tags = table.as_ref().map(|table| table.list(Some(tidelake_format::schema::Role::Tag)));
                let repeats = &checked.repeats;
                let explained = keys::explain(&prepared, &roles, tags.as_deref(), repeats, Wrongs::Fail, ALL_ROWS)?;
                return Err(refusal(&prepared.source, repeats, &explained));
            }
            Ok((prepared, checked.repeats, notices))
        });
        let (prepared, repeats, notices) = checked.await?;
        let target = IngestTarget { database, table: name, if_absent: IfAbsent::Create, if_exists: IfExists::Append };
        let (tx, rx) = mpsc::channel(2);
        let (schema, held) = (prepared.shape.schema().clone(), self.held.clone());
        let reading = tokio::task::spawn_blocking(move || {
            let _held = held;
            let empty = (RecordBatch::new_empty(schema), Vec::new());
            let rows = prepared.rows(Wrongs::Fail, &unwatched());
            let rows = rows.map(|rows| rows.map(|numbered| (numbered.batch, numbered.places)));
            for batch in std::iter::once(Ok(empty)).chain(rows) {
                if tx.blocking_send(batch).is_err() {
                    break;
                }
            }
        });
        // Lines of the last batch: an error of the write path names a row of it.
        let lines: Arc<Mutex<Vec<u64>>> = Arc::default();
        let batches = stream::unfold((rx, lines.clone()), |(mut rx, lines)| async move {
            let batch = rx.recv().await?.map(|(batch, places)| {
                *lines.lock() = places;
                batch
            });
            Some((batch, (rx, lines)))
        });
        let written = self.ingest.ingest_batches(target, batches.boxed()).await.map_err(|e| {
            let row = e.context("row").and_then(|row| row.parse::<usize>().ok()?.checked_sub(1));
            match row.and_then(|row| lines.lock().get(row).copied()) {
                Some(line) => tidelake_import::at(format!("nothing was written: {} {line}", format.place()), &e),
                None => e,
            }
        })?;
        reading.await.map_err(|e| Error::internal("reading the file failed").with("reason", &e).source(e))?;
        let rows = RowCounts {
            written: written.accepted.saturating_sub(repeats.replaced),
            replaced: repeats.replaced,
            refused: 0,
        };
        Ok(done(&written, rows, notices))
    }

    /// Writes a file of line protocol in parts.
    async fn write_lines(self, input: Input) -> Result<Response, Fault> {
        let precision = self.parameters.precision.of_lines();
        let mut notices = self.parameters.without_effect();
        let bytes = PART_BYTES.min(self.ingest.config().body_bytes);
        let reader = input.reader(&unwatched())?;
        let mut parts = Parts::new(std::io::BufReader::with_capacity(1 << 20, reader));
        let (mut all, mut rows, mut number, mut named) = (Written::default(), RowCounts::default(), 0, 0);
        loop {
            let (rest, part) = blocking(self.held.clone(), move || {
                let part = parts.next_part(bytes).map_err(|e| unreadable(&e))?;
                Ok((parts, part))
            })
            .await?;
            parts = rest;
            if part.body.is_empty() {
                break;
            }
            number += 1;
            let ingest = self.ingest.for_part(number);
            let body = Bytes::from(part.body);
            let database = &self.parameters.database;
            let written =
                ingest.write_line_protocol(database, body, precision, Durability::Stored).await.map_err(|e| {
                    let before = part.first - 1;
                    tidelake_import::at(format!("{} rows of lines 1 to {before} were written", all.accepted), &e)
                })?;
            rows.written += written.accepted.saturating_sub(written.replaced);
            rows.replaced += written.replaced;
            rows.refused += written.dropped;
            for rejected in written.rejected.iter().take(NAMED - named) {
                named += 1;
                notices.push(format!("line {}: {}", part.first + rejected.line as u64 - 1, rejected.reason));
            }
            all.accepted += written.accepted;
            all.replayed |= written.replayed;
            all.token = written.token.or(all.token);
        }
        if rows.refused > 0 && all.accepted == 0 {
            let error = Error::invalid(format!("nothing was written: {} lines were refused", rows.refused));
            return Err(error.with("first", notices.join("; ").chars().take(1_000).collect::<String>()).into());
        }
        if rows.refused > named as u64 {
            notices.push(format!("and {} more lines were refused", rows.refused - named as u64));
        }
        Ok(done(&all, rows, notices))
    }
}

/// The whole records of a preview's body, which may be the first part of a larger file.
fn first_part(input: Input, format: FileFormat) -> Result<Input> {
    if input.bytes()? < PROBABLY_CUT { Ok(input) } else { input::whole_records(input, format) }
}

fn unreadable(error: &std::io::Error) -> Error {
    Error::invalid("the file cannot be read").with("reason", error)
}

/// The reply to an import.
fn done(written: &Written, rows: RowCounts, mut notices: Vec<String>) -> Response {
    notices.extend(written.notices.iter().cloned());
    let RowCounts { written: stored, replaced, refused } = rows;
    let body = json!({ "written": stored, "replaced": replaced, "refused": refused, "notices": notices });
    let mut response = json_answer(StatusCode::OK, &body).map(Body::from);
    let rows = (!written.replayed).then_some(rows);
    let write = WriteReply { token: written.token, replayed: written.replayed, rows, notices: &written.notices };
    describe(response.headers_mut(), write);
    response
}

/// The reply to a preview.
fn shown(preview: Preview) -> Response {
    let columns = preview.columns.into_iter().map(|column| {
        json!({
            "name": column.name,
            "role": column.role,
            "type": column.ty,
            "distinct": column.distinct,
            "nulls": column.nulls,
            "examples": column.examples,
            "note": column.note,
        })
    });
    let repeats = preview.repeats.map(|repeats| {
        let (example, hint) = (repeats.explained.example, repeats.explained.hint);
        json!({ "rows": repeats.rows, "example": example, "hint": hint })
    });
    let body = json!({
        "columns": columns.collect::<Vec<Value>>(),
        "rows": preview.rows,
        "rows_read": preview.rows_read,
        "rows_wrong": preview.wrong,
        "table_exists": preview.table_exists,
        "statement": preview.statement,
        "notices": preview.notices,
        "repeats": repeats,
    });
    json_answer(StatusCode::OK, &body).map(Body::from)
}

#[cfg(test)]
mod tests {
    use tidelake_format::Kind;

    use super::*;

    #[tokio::test]
    async fn a_file_that_waits_too_long_for_others_is_refused() {
        let reading = Arc::new(Semaphore::new(1));
        let first = turn(&reading, Duration::ZERO).await.unwrap();
        let error = turn(&reading, Duration::from_millis(1)).await.unwrap_err();
        assert_eq!(error.kind(), Kind::Unavailable);
        assert!(error.to_string().contains("other files are being imported"), "{error}");
        drop(first);
        drop(turn(&reading, Duration::ZERO).await.unwrap());
    }
}
