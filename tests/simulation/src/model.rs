//! What may be seen: every write and removal with the time in which it took effect, and what follows for a reader
//! (`check`).
//!
//! The model knows nothing of logs, files or versions: only when a client sent what, and what it was told. Between
//! sending and the last moment at which the write can take effect, anything may be true; outside of it, the promises
//! hold. Values are never used twice for one cell but by copies of one batch.

mod check;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use tidelake_format::ids::Token;

/// A row's place: series (the value of its tag `dev`) and time.
pub type Key = (String, i64);
/// What a reader saw of a table: the fields that are not null.
pub type Rows = BTreeMap<Key, BTreeMap<String, i64>>;
/// What a reader saw of series: the tag `site`.
pub type Sites = BTreeMap<String, String>;

/// What a client was told of one attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Told {
    /// It is done.
    Done(Option<Token>),
    /// It was refused: this attempt never takes effect.
    Refused,
}

/// How a write or removal ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// It is under way, or nobody knows.
    Open,
    /// It took effect before this moment.
    Acknowledged { at: u64, token: Option<Token> },
    /// It never takes effect.
    Refused,
}

/// One row that a client sends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Its tag `dev`.
    pub series: String,
    /// Its time.
    pub ts: i64,
    /// Its fields.
    pub fields: Vec<(String, i64)>,
}

/// Rows of one table that are sent in one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// The table.
    pub table: String,
    /// The rows, later ones newer.
    pub rows: Vec<Row>,
}

/// What is taken away: all rows of a table, or those of some series and times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Removal {
    /// The table.
    pub table: String,
    /// The tag `dev` of the series; `None` is all.
    pub series: Option<String>,
    /// From and to, both inclusive.
    pub range: (i64, i64),
    /// Whether series go as a whole, with their tags: a DROP.
    pub drops: bool,
}

impl Removal {
    fn concerns(&self, table: &str, series: &str) -> bool {
        self.table == table && self.series.as_ref().is_none_or(|s| s == series)
    }

    fn covers(&self, table: &str, key: &Key) -> bool {
        self.concerns(table, &key.0) && (self.range.0..=self.range.1).contains(&key.1)
    }
}

#[derive(Debug)]
struct Event {
    /// Who sent it first.
    process: u64,
    /// The writes whose tokens it brought.
    after: Vec<usize>,
    begun: u64,
    end: End,
    /// The processes that may still bring it about.
    open: Vec<u64>,
    /// What those that are gone had under way takes effect by then.
    until: u64,
}

impl Event {
    /// When it takes effect at the latest; `None` is any time.
    fn latest(&self) -> Option<u64> {
        match self.end {
            End::Acknowledged { at, .. } => Some(at),
            End::Open if self.open.is_empty() => Some(self.until),
            End::Open => None,
            End::Refused => Some(0),
        }
    }
}

/// A read of one table.
#[derive(Debug, Default)]
pub struct Seen {
    /// The table.
    pub table: String,
    /// Its rows.
    pub rows: Rows,
    /// The tags of its series, of those that have rows.
    pub sites: Sites,
    /// When the read began.
    pub begun: u64,
    /// When it ended.
    pub ended: u64,
    /// The writes that it brought tokens of.
    pub tokens: Vec<usize>,
    /// How old a snapshot the reader may use, in milliseconds.
    pub staleness_ms: u64,
    /// Whether what is expired when it begins must be gone.
    pub is_tidied: bool,
}

/// Everything that clients sent and were told.
#[derive(Debug)]
pub struct Model {
    tick_ms: u64,
    events: Vec<Event>,
    /// Per table and key: per field the values in the order of sending, with the event that brought each.
    cells: BTreeMap<String, BTreeMap<Key, BTreeMap<String, Vec<(usize, i64)>>>>,
    removals: Vec<(usize, Removal)>,
    /// Per table and series: the tags that were set.
    sites: BTreeMap<(String, String), Vec<(usize, String)>>,
    /// Per table: what is to be subtracted from a row's time (in its day, at its end) to know when it expires.
    kept: BTreeMap<String, i64>,
    /// The true time when the run began, in milliseconds since the epoch.
    begins_ms: i64,
}

impl Model {
    /// A model of a run that begins at this time, of a store in which writes of one process after another are ordered if
    /// there is so much time between them.
    pub fn new(begins_ms: i64, tick_ms: u64) -> Self {
        Self {
            begins_ms,
            tick_ms,
            events: Vec::new(),
            cells: BTreeMap::new(),
            removals: Vec::new(),
            sites: BTreeMap::new(),
            kept: BTreeMap::new(),
        }
    }

    /// Rows of a table go when the whole of their day is older than this.
    pub fn keep(&mut self, table: &str, keep_ms: i64) {
        self.kept.insert(table.to_owned(), keep_ms);
    }

    /// A client sends a batch.
    pub fn write(&mut self, process: u64, begun: u64, batch: &Batch) -> usize {
        let id = self.event(process, begun);
        let table = self.cells.entry(batch.table.clone()).or_default();
        for row in &batch.rows {
            let cells = table.entry((row.series.clone(), row.ts)).or_default();
            for (field, value) in &row.fields {
                cells.entry(field.clone()).or_default().push((id, *value));
            }
        }
        id
    }

    /// The client brings the tokens of other writes with a write.
    pub fn brings(&mut self, id: usize, tokens: &[usize]) {
        self.events[id].after.extend(tokens);
    }

    /// A client sends a batch again under its idempotency key: it is the same write. A process may take what another one refused, for
    /// its clock decides which rows are too old.
    pub fn write_again(&mut self, id: usize, process: u64) {
        let event = &mut self.events[id];
        event.open.push(process);
        if event.end == End::Refused {
            event.end = End::Open;
        }
    }

    /// A client sends a removal.
    pub fn remove(&mut self, process: u64, begun: u64, removal: Removal) -> usize {
        let id = self.event(process, begun);
        self.removals.push((id, removal));
        id
    }

    /// A client sets the tag of a series.
    pub fn set_site(&mut self, process: u64, begun: u64, table: &str, series: &str, site: &str) -> usize {
        let id = self.event(process, begun);
        self.sites.entry((table.to_owned(), series.to_owned())).or_default().push((id, site.to_owned()));
        id
    }

    fn event(&mut self, process: u64, begun: u64) -> usize {
        let after = Vec::new();
        self.events.push(Event { process, after, begun, end: End::Open, open: vec![process], until: 0 });
        self.events.len() - 1
    }

    /// What a client was told by a process. Nothing is known where it was told of an error that is no refusal.
    pub fn told(&mut self, id: usize, process: u64, at: u64, told: Told) {
        let event = &mut self.events[id];
        match told {
            Told::Done(token) if !matches!(event.end, End::Acknowledged { .. }) => {
                event.end = End::Acknowledged { at, token };
            }
            Told::Done(_) => {}
            Told::Refused => {
                if let Some(place) = event.open.iter().position(|p| *p == process) {
                    event.open.remove(place);
                }
                if event.open.is_empty() && event.until == 0 && event.end == End::Open {
                    event.end = End::Refused;
                }
            }
        }
    }

    /// A process died: what it had under way takes effect by then or never.
    pub fn died(&mut self, process: u64, until: u64) {
        for event in &mut self.events {
            let before = event.open.len();
            event.open.retain(|p| *p != process);
            if event.open.len() < before {
                event.until = event.until.max(until);
            }
        }
    }

    /// Writes that were acknowledged with a token, of a table.
    pub fn acknowledged(&self) -> Vec<(usize, Token)> {
        let acknowledged = |(id, event): (usize, &Event)| match event.end {
            End::Acknowledged { token: Some(token), .. } => Some((id, token)),
            _ => None,
        };
        self.events.iter().enumerate().filter_map(acknowledged).collect()
    }

    /// The rows of one write, in the order of their keys; `None` for an event that wrote none.
    pub fn batch(&self, id: usize) -> Option<Batch> {
        let of_table = |(table, keys): (&String, &BTreeMap<Key, BTreeMap<String, Vec<(usize, i64)>>>)| {
            let rows = keys.iter().filter_map(|((series, ts), fields)| {
                let written = fields.iter().filter_map(|(field, values)| {
                    values.iter().rev().find(|(event, _)| *event == id).map(|(_, value)| (field.clone(), *value))
                });
                let fields: Vec<(String, i64)> = written.collect();
                (!fields.is_empty()).then(|| Row { series: series.clone(), ts: *ts, fields })
            });
            let rows: Vec<Row> = rows.collect();
            (!rows.is_empty()).then(|| Batch { table: table.clone(), rows })
        };
        self.cells.iter().find_map(of_table)
    }

    /// How many were acknowledged, refused, and neither.
    pub fn counts(&self) -> (usize, usize, usize) {
        let of = |which: fn(&End) -> bool| self.events.iter().filter(|e| which(&e.end)).count();
        (
            of(|e| matches!(e, End::Acknowledged { .. })),
            of(|e| matches!(e, End::Refused)),
            of(|e| matches!(e, End::Open)),
        )
    }

    /// How many removals of a table were sent before the end of a read; `None` while one was under way.
    pub fn removals(&self, table: &str, begun: u64, ended: u64) -> Option<usize> {
        let of = || self.removals.iter().filter(|(_, r)| r.table == table).map(|(id, _)| &self.events[*id]);
        let is_settled = |e: &Event| e.begun > ended || e.latest().is_some_and(|latest| latest < begun);
        of().all(is_settled).then(|| of().filter(|e| e.begun <= ended).count())
    }

    /// When a write was acknowledged.
    pub fn acknowledged_at(&self, id: usize) -> Option<u64> {
        match self.events[id].end {
            End::Acknowledged { at, .. } => Some(at),
            _ => None,
        }
    }
}
