//! Sends the rows of files to the server, part by part.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, bail, ensure};
use arrow::array::RecordBatch;
use arrow_flight::error::FlightError;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use indicatif::ProgressBar;
use tidelake_import::{shape::Prepared, source::Wrongs, words::many};
use tokio::sync::mpsc;

use super::{import::moving, rejects::Rejects, resume::State};
use crate::client::Client;

/// The most rows that the server refuses one by one; each costs some requests.
const MOST_REFUSED: u64 = 10_000;

/// Rows on their way to the server.
pub(super) struct Sending {
    table: String,
    prepared: Prepared,
    wrongs: Wrongs,
    part_rows: usize,
    bar: ProgressBar,
    shared: Mutex<Shared>,
}

/// What changes while rows are sent.
struct Shared {
    /// Number of rows stored, those of earlier runs included.
    stored: u64,
    /// Number of rows that the server refused in this run.
    refused: u64,
    rejects: Option<Rejects>,
    state: Option<State>,
}

/// Rows of a file, each with its place and, if there is a reject file, its text.
struct Piece {
    batch: RecordBatch,
    places: Vec<u64>,
    texts: Vec<String>,
}

/// What the server did with a part.
#[derive(Default)]
struct Outcome {
    stored: u64,
    /// Place, reason and text of each row that it refused.
    refused: Vec<(u64, String, String)>,
}

/// Sends the rows of all files; returns the number of rows stored, those of earlier runs included, and of rows in the reject file.
pub(super) async fn send(client: &mut Client, sending: Arc<Sending>, jobs: usize) -> anyhow::Result<(u64, u64)> {
    let files = 0..sending.prepared.source.len();
    let each = files.map(|file| {
        let mut other = client.another();
        if let Some(database) = client.database() {
            other.use_database(database);
        }
        sending.clone().file(other, file)
    });
    let sent = stream::iter(each).buffer_unordered(jobs).try_collect::<Vec<()>>().await;
    sending.bar.finish_and_clear();
    sent?;
    if sending.shared().stored == 0 {
        // Creates the table.
        let empty = RecordBatch::new_empty(sending.prepared.shape.schema().clone());
        client.ingest(&sending.table, stream::iter([Ok::<_, FlightError>(empty)])).await?;
    }
    let mut shared = sending.shared();
    let rejected = shared.rejects.as_mut().map_or(Ok(0), |rejects| rejects.kept().map(|kept| kept.count))?;
    if let Some(state) = &shared.state {
        state.end()?;
    }
    Ok((shared.stored, rejected))
}

impl Sending {
    /// Rows of files behind those that an earlier run has sent.
    pub(super) fn new(
        table: String,
        prepared: Prepared,
        part_rows: usize,
        bar: ProgressBar,
        rejects: Option<Rejects>,
        state: Option<State>,
    ) -> Self {
        let wrongs = if rejects.is_some() { Wrongs::Keep } else { Wrongs::Fail };
        let stored = state.as_ref().map_or(0, |state| state.counts.written);
        let shared = Mutex::new(Shared { stored, refused: 0, rejects, state });
        Self { table, prepared, wrongs, part_rows, bar, shared }
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends the rows of one file, part by part.
    async fn file(self: Arc<Self>, mut client: Client, file: usize) -> anyhow::Result<()> {
        let skip = self.shared().state.as_ref().map_or(0, |state| state.done(file));
        let (tx, mut rx) = mpsc::channel(4);
        let this = self.clone();
        let reading = tokio::task::spawn_blocking(move || this.read(file, skip, &tx));
        let (mut last, mut done) = (0, false);
        while !done {
            let (mut part, mut rows, mut end) = (Vec::new(), 0, last);
            while rows < self.part_rows {
                let Some(piece) = rx.recv().await else {
                    done = true;
                    break;
                };
                let piece: Piece = piece.with_context(|| self.kept(file, last))?;
                rows += piece.batch.num_rows();
                end = piece.places.last().copied().unwrap_or(end);
                part.push(piece);
            }
            if part.is_empty() {
                break;
            }
            let outcome = self.store(&mut client, part).await.with_context(|| self.kept(file, last))?;
            let stored = self.advance(file, rows as u64, outcome)?;
            last = end;
            self.bar.set_message(many(stored, "row"));
        }
        reading.await.context("the reader stopped")
    }

    /// Stores the rows of a part. With a reject file, a row that the server refuses is left out.
    async fn store(&self, client: &mut Client, part: Vec<Piece>) -> anyhow::Result<Outcome> {
        let batches: Vec<_> = part.iter().map(|piece| Ok::<_, FlightError>(piece.batch.clone())).collect();
        let mut outcome = Outcome::default();
        match client.ingest(&self.table, stream::iter(batches)).await {
            Ok(stored) => outcome.stored = stored.unsigned_abs(),
            Err(error) if self.wrongs != Wrongs::Keep || !is_of_a_row(&error) => return Err(error),
            Err(_) => {
                for piece in part {
                    self.store_divided(client, piece, &mut outcome).await?;
                }
            }
        }
        Ok(outcome)
    }

    /// Stores rows of which the server may refuse some: halves them until a refused row is alone.
    async fn store_divided(&self, client: &mut Client, piece: Piece, outcome: &mut Outcome) -> anyhow::Result<()> {
        // The first rows are on top, so that rows are sent in their order.
        let mut left = vec![piece];
        while let Some(piece) = left.pop() {
            let rows = piece.batch.num_rows();
            let batch = Ok::<_, FlightError>(piece.batch.clone());
            match client.ingest(&self.table, stream::iter([batch])).await {
                Ok(stored) => outcome.stored += stored.unsigned_abs(),
                Err(error) if !is_of_a_row(&error) => return Err(error),
                Err(error) if rows == 1 => {
                    let reason = without_row(&format!("{error:#}"));
                    let (refused, left) = {
                        let shared = self.shared();
                        let left = shared.rejects.as_ref().and_then(Rejects::left);
                        (shared.refused + outcome.refused.len() as u64, left)
                    };
                    if left.is_some_and(|left| outcome.refused.len() as u64 >= left) {
                        bail!(
                            "more rows were rejected than --reject-limit allows; the server refused the last one: {reason}"
                        );
                    }
                    ensure!(
                        refused < MOST_REFUSED,
                        "the server refused more than {MOST_REFUSED} rows, the last one because: {reason}"
                    );
                    let text = piece.texts.first().cloned().unwrap_or_default();
                    outcome.refused.push((piece.places[0], reason, text));
                }
                Err(_) => {
                    let (first, second) = piece.halves();
                    left.extend([second, first]);
                }
            }
        }
        Ok(())
    }

    /// Notes that rows of a file are done; returns the number of rows stored.
    fn advance(&self, file: usize, rows: u64, outcome: Outcome) -> anyhow::Result<u64> {
        let mut shared = self.shared();
        shared.stored += outcome.stored;
        shared.refused += outcome.refused.len() as u64;
        let Shared { stored, rejects, state, .. } = &mut *shared;
        if let Some(rejects) = rejects {
            for (place, reason, text) in &outcome.refused {
                rejects.add(self.prepared.source.name(file), *place, reason, text)?;
            }
        }
        if let Some(state) = state {
            if let Some(rejects) = rejects {
                state.rejects = rejects.kept()?;
            }
            state.counts.written = *stored;
            state.advance(file, rows)?;
        }
        Ok(*stored)
    }

    /// Reads the rows of a file after the first `skip` ones.
    fn read(&self, file: usize, skip: u64, to: &mpsc::Sender<anyhow::Result<Piece>>) {
        let rows = match self.prepared.rows_of(file, self.wrongs, &moving(&self.bar)) {
            Ok(rows) => rows,
            // An error of sending means that the receiver has failed.
            Err(error) => return drop(to.blocking_send(Err(error.into()))),
        };
        let mut skip = usize::try_from(skip).unwrap_or(usize::MAX);
        for numbered in rows {
            let numbered = match numbered {
                Ok(numbered) => numbered,
                Err(error) => return drop(to.blocking_send(Err(error.into()))),
            };
            let rows = numbered.batch.num_rows();
            let whole = Piece { batch: numbered.batch, places: numbered.places, texts: numbered.texts };
            let mut from = skip.min(rows);
            skip -= from;
            while from < rows {
                let length = self.part_rows.min(rows - from);
                if to.blocking_send(Ok(whole.slice(from, length))).is_err() {
                    return;
                }
                from += length;
            }
        }
    }

    /// Message about the rows stored before a failure.
    fn kept(&self, file: usize, last: u64) -> String {
        let shared = self.shared();
        let (source, stored) = (&self.prepared.source, shared.stored);
        if stored == 0 {
            return "nothing was written".to_owned();
        }
        let again = if shared.state.is_some() { "; run the command again to continue" } else { "" };
        let written = format!("{} {} written", many(stored, "row"), if stored == 1 { "was" } else { "were" });
        match (last, source.len()) {
            (0, _) => format!("{written}, none of {} in this run{again}", source.name(file)),
            (_, 1) => format!("{written}, up to {} {last}{again}", source.place(file)),
            _ => format!("{written}, those of {} up to {} {last}{again}", source.name(file), source.place(file)),
        }
    }
}

impl Piece {
    fn slice(&self, from: usize, length: usize) -> Self {
        let texts = self.texts.get(from..from + length).unwrap_or_default().to_vec();
        Self { batch: self.batch.slice(from, length), places: self.places[from..from + length].to_vec(), texts }
    }

    fn halves(&self) -> (Self, Self) {
        let (rows, half) = (self.batch.num_rows(), self.batch.num_rows() / 2);
        (self.slice(0, half), self.slice(half, rows - half))
    }
}

/// The position of a row in a refusal: the text before it, its number, and the text behind it. The server counts the rows of a
/// message, which are not those of a part.
fn row_in(text: &str) -> Option<(&str, &str)> {
    let (before, rest) = text.rsplit_once("row: ").filter(|(before, _)| before.ends_with(['(', ' ']))?;
    let behind = rest.trim_start_matches(|c: char| c.is_ascii_digit());
    (behind.len() < rest.len() && behind.starts_with([',', ')'])).then_some((before, behind))
}

/// Whether the server refuses one row, not the table or the request.
fn is_of_a_row(error: &anyhow::Error) -> bool {
    row_in(&format!("{error:#}")).is_some()
}

/// A refusal without the position of its row.
fn without_row(text: &str) -> String {
    let Some((before, behind)) = row_in(text) else { return text.to_owned() };
    match behind.strip_prefix(", ") {
        Some(behind) => format!("{before}{behind}"),
        None => format!("{}{}", before.trim_end_matches([' ', '(', ',']), behind.trim_start_matches(')')),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_of_a_row_is_told_from_others() {
        for (text, expected) in [
            ("out of range (row: 17, column: ts, found: 3)", "out of range (column: ts, found: 3)"),
            ("tbname must not be null (row: 1)", "tbname must not be null"),
        ] {
            assert!(is_of_a_row(&anyhow::anyhow!("{text}")));
            assert_eq!(without_row(text), expected);
        }
        for text in
            ["Invalid column name: row: x (table: t)", "no server answers", "unsupported Arrow type (column: row: 7x)"]
        {
            assert!(!is_of_a_row(&anyhow::anyhow!("{text}")), "{text}");
        }
    }
}
