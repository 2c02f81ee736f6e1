//! The model of allowed reads: every write and removal with the interval in which it took effect, and the consequences
//! for readers (`check`).
//!
//! The model knows no logs, files or versions, only the requests of clients with their times and replies. Between
//! sending and the last moment at which a write can take effect, either state is allowed; outside of it, the guarantees
//! hold. A value is never reused for a cell, except by copies of one batch.

mod check;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use tidelake_format::ids::Token;

/// A row's key: series (the value of its tag `dev`) and time.
pub type Key = (String, i64);
/// Rows read from a table: their fields that are not null.
pub type Rows = BTreeMap<Key, BTreeMap<String, i64>>;
/// Tags `site` read from series.
pub type Sites = BTreeMap<String, String>;

/// Reply to one attempt of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Told {
    /// Done.
    Done(Option<Token>),
    /// Refused: this attempt never takes effect.
    Refused,
}

/// Outcome of a write or removal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// Running or unknown.
    Open,
    /// Took effect before this time.
    Acknowledged { at: u64, token: Option<Token> },
    /// Never takes effect.
    Refused,
}

/// A row sent by a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Its tag `dev`.
    pub series: String,
    /// Its time.
    pub ts: i64,
    /// Its fields.
    pub fields: Vec<(String, i64)>,
}

/// Rows of one table sent in one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// The table.
    pub table: String,
    /// The rows, later ones newer.
    pub rows: Vec<Row>,
}

/// A removal of all rows of a table, or those of some series and times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Removal {
    /// The table.
    pub table: String,
    /// The tag `dev` of the series; `None` is all.
    pub series: Option<String>,
    /// From and to, both inclusive.
    pub range: (i64, i64),
    /// Whether series are removed with their tags, as by DROP.
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
    /// The process that sent the event first.
    process: u64,
    /// Writes whose tokens were sent with the event.
    after: Vec<usize>,
    begun: u64,
    end: End,
    /// Processes that may still execute the event.
    open: Vec<u64>,
    /// Time by which attempts of dead processes have taken effect, if ever.
    until: u64,
}

impl Event {
    /// Latest time at which the event takes effect; `None` is unbounded.
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
    /// The tags of the series with rows.
    pub sites: Sites,
    /// When the read began.
    pub begun: u64,
    /// When it ended.
    pub ended: u64,
    /// Writes whose tokens the reader sent.
    pub tokens: Vec<usize>,
    /// Allowed staleness of the reader's snapshot, in milliseconds.
    pub staleness_ms: u64,
    /// Whether rows that are expired when the read begins must be gone.
    pub is_tidied: bool,
}

/// All requests of clients and the replies.
#[derive(Debug)]
pub struct Model {
    tick_ms: u64,
    events: Vec<Event>,
    /// Per table, key and field: the values in the order of sending, each with its event.
    cells: BTreeMap<String, BTreeMap<Key, BTreeMap<String, Vec<(usize, i64)>>>>,
    removals: Vec<(usize, Removal)>,
    /// Per table and series: the tags that were set.
    sites: BTreeMap<(String, String), Vec<(usize, String)>>,
    /// Per table: offset from the end of a row's day to its expiry.
    kept: BTreeMap<String, i64>,
    /// The true time when the run began, in milliseconds since the epoch.
    begins_ms: i64,
}

impl Model {
    /// A model of a run that begins at this time. Writes of different processes are ordered if at least `tick_ms` lies
    /// between them.
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

    /// Sets a table's KEEP: rows expire when their whole day is older.
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

    /// The client sends the tokens of other writes with a write.
    pub fn brings(&mut self, id: usize, tokens: &[usize]) {
        self.events[id].after.extend(tokens);
    }

    /// A client resends a batch under its idempotency key: the same write. A process may accept a batch that another
    /// refused, because its clock decides which rows are too old.
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

    /// Records a process's reply to a client. After an error that is not a refusal the outcome is unknown.
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

    /// A process died: its running requests take effect by `until` or never.
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

    /// Numbers of acknowledged, refused and other writes.
    pub fn counts(&self) -> (usize, usize, usize) {
        let of = |which: fn(&End) -> bool| self.events.iter().filter(|e| which(&e.end)).count();
        (
            of(|e| matches!(e, End::Acknowledged { .. })),
            of(|e| matches!(e, End::Refused)),
            of(|e| matches!(e, End::Open)),
        )
    }

    /// Number of removals of a table sent before the end of a read; `None` if one was running.
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
