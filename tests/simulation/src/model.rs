//! What may be seen: every write and removal with the time in which it took effect, and what follows for a reader.
//!
//! The model knows nothing of logs, files or versions: only when a client sent what, and what it was told. Between
//! sending and the last moment at which the write can take effect, anything may be true; outside of it, the promises
//! hold. Values are never used twice for one cell but by copies of one batch.

use std::collections::BTreeMap;

use tidelake_format::ids::Token;

/// A row's place: series (the value of its tag `dev`) and time.
pub type Key = (String, i64);
/// What a reader saw of a table: the fields that are not null.
pub type Rows = BTreeMap<Key, BTreeMap<String, i64>>;

/// How a write or removal ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// It is under way, or nobody knows: it may take effect at any time up to this moment, or for ever.
    Unknown {
        /// In milliseconds since the start.
        until: Option<u64>,
    },
    /// It took effect before this moment.
    Acknowledged {
        /// In milliseconds since the start.
        at: u64,
        /// What a reader brings to see it.
        token: Option<Token>,
    },
    /// It was refused: it never takes effect.
    Refused,
}

impl End {
    /// When it takes effect at the latest.
    fn latest(self) -> Option<u64> {
        match self {
            End::Acknowledged { at, .. } => Some(at),
            End::Unknown { until } => until,
            End::Refused => Some(0),
        }
    }
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
}

impl Removal {
    fn covers(&self, table: &str, key: &Key) -> bool {
        self.table == table
            && self.series.as_ref().is_none_or(|s| *s == key.0)
            && (self.range.0..=self.range.1).contains(&key.1)
    }
}

#[derive(Debug)]
struct Event {
    process: u64,
    begun: u64,
    end: End,
}

/// A read of one table.
#[derive(Debug)]
pub struct Seen {
    /// The table.
    pub table: String,
    /// Its rows.
    pub rows: Rows,
    /// When the read began.
    pub begun: u64,
    /// When it ended.
    pub ended: u64,
    /// The writes that it brought tokens of.
    pub tokens: Vec<usize>,
    /// How old a snapshot the reader may use, in milliseconds.
    pub staleness_ms: u64,
}

/// Everything that clients sent and were told.
#[derive(Debug)]
pub struct Model {
    tick_ms: u64,
    events: Vec<Event>,
    /// Per table and key: per field the values in the order of sending, with the event that brought each.
    cells: BTreeMap<String, BTreeMap<Key, BTreeMap<String, Vec<(usize, i64)>>>>,
    removals: Vec<(usize, Removal)>,
}

impl Model {
    /// A model of a store whose clock ticks so often.
    pub fn new(tick_ms: u64) -> Self {
        Self { tick_ms, events: Vec::new(), cells: BTreeMap::new(), removals: Vec::new() }
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

    /// A client sends a removal.
    pub fn remove(&mut self, process: u64, begun: u64, removal: Removal) -> usize {
        let id = self.event(process, begun);
        self.removals.push((id, removal));
        id
    }

    fn event(&mut self, process: u64, begun: u64) -> usize {
        self.events.push(Event { process, begun, end: End::Unknown { until: None } });
        self.events.len() - 1
    }

    /// What the client was told.
    pub fn end(&mut self, id: usize, end: End) {
        self.events[id].end = end;
    }

    /// A process died: what it had under way takes effect by then or never.
    pub fn died(&mut self, process: u64, until: u64) {
        for event in self.events.iter_mut().filter(|e| e.process == process) {
            if let End::Unknown { until: end @ None } = &mut event.end {
                *end = Some(until);
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

    /// How many were acknowledged, refused, and neither.
    pub fn counts(&self) -> (usize, usize, usize) {
        let of = |which: fn(&End) -> bool| self.events.iter().filter(|e| which(&e.end)).count();
        (
            of(|e| matches!(e, End::Acknowledged { .. })),
            of(|e| matches!(e, End::Refused)),
            of(|e| matches!(e, End::Unknown { .. })),
        )
    }

    /// When a write was acknowledged.
    pub fn acknowledged_at(&self, id: usize) -> Option<u64> {
        match self.events[id].end {
            End::Acknowledged { at, .. } => Some(at),
            _ => None,
        }
    }

    /// Whether a read that sees the state after its beginning must see this event's effect.
    fn is_past(&self, id: usize, seen: &Seen) -> bool {
        match self.events[id].end {
            End::Acknowledged { at, .. } => at + seen.staleness_ms < seen.begun || seen.tokens.contains(&id),
            _ => false,
        }
    }

    /// Whether one event surely took effect before another.
    fn is_before(&self, first: usize, second: usize) -> bool {
        let (a, b) = (&self.events[first], &self.events[second]);
        if let (
            End::Acknowledged { token: Some(Token::Position(p)), .. },
            End::Acknowledged { token: Some(Token::Position(q)), .. },
        ) = (a.end, b.end)
            && p.writer == q.writer
        {
            return p.seq < q.seq;
        }
        a.end.latest().is_some_and(|latest| latest + self.tick_ms < b.begun)
    }

    /// Whether no removal can have taken a write away before the end of a read.
    fn stands(&self, table: &str, key: &Key, write: usize, seen: &Seen) -> bool {
        self.removals.iter().filter(|(_, r)| r.covers(table, key)).all(|(id, _)| {
            let removal = &self.events[*id];
            removal.end == End::Refused
                || removal.begun > seen.ended
                || removal.end.latest().is_some_and(|latest| latest + self.tick_ms < self.events[write].begun)
        })
    }

    /// Whether a removal has surely taken a write away for a read.
    fn is_gone(&self, table: &str, key: &Key, write: usize, seen: &Seen) -> bool {
        self.removals.iter().filter(|(_, r)| r.covers(table, key)).any(|(id, _)| {
            let latest = self.events[write].end.latest();
            self.is_past(*id, seen) && latest.is_some_and(|latest| latest + self.tick_ms < self.events[*id].begun)
        })
    }

    /// Compares what was seen with what may be.
    ///
    /// # Errors
    /// The first promise that does not hold.
    pub fn check(&self, seen: &Seen) -> Result<(), String> {
        let table = seen.table.as_str();
        let none = BTreeMap::new();
        let known = self.cells.get(table).unwrap_or(&none);
        for (key, row) in &seen.rows {
            for (field, value) in row {
                let written = known.get(key).and_then(|cells| cells.get(field)).map_or(&[][..], Vec::as_slice);
                self.check_value(seen, key, written, *value)
                    .map_err(|e| format!("{e}: {table} {key:?} {field} = {value}; {}", self.history(written)))?;
            }
        }
        for (key, cells) in known {
            for (field, written) in cells {
                if seen.rows.get(key).is_some_and(|row| row.contains_key(field)) {
                    continue;
                }
                let must = |(id, _): &&(usize, i64)| self.is_past(*id, seen) && self.stands(table, key, *id, seen);
                if let Some((id, value)) = written.iter().find(must) {
                    return Err(format!(
                        "an acknowledged value is not there: {table} {key:?} {field} = {value} of event {id}; {}",
                        self.history(written)
                    ));
                }
            }
        }
        Ok(())
    }

    fn check_value(&self, seen: &Seen, key: &Key, written: &[(usize, i64)], value: i64) -> Result<(), &'static str> {
        let table = seen.table.as_str();
        let of_value: Vec<usize> = written.iter().filter(|(_, v)| *v == value).map(|(id, _)| *id).collect();
        let began: Vec<usize> = of_value
            .into_iter()
            .filter(|id| self.events[*id].begun <= seen.ended && self.events[*id].end != End::Refused)
            .collect();
        if began.is_empty() {
            return Err("a value that nobody wrote");
        }
        let alive: Vec<usize> = began.into_iter().filter(|id| !self.is_gone(table, key, *id, seen)).collect();
        if alive.is_empty() {
            return Err("a value that was removed");
        }
        let is_outdated = |id: &usize| {
            written.iter().any(|(other, v)| {
                *v != value
                    && self.is_past(*other, seen)
                    && self.is_before(*id, *other)
                    && self.stands(table, key, *other, seen)
            })
        };
        if alive.iter().all(is_outdated) {
            return Err("an older value than the newest");
        }
        Ok(())
    }

    fn history(&self, written: &[(usize, i64)]) -> String {
        let one = |(id, value): &(usize, i64)| {
            let Event { process, begun, end } = &self.events[*id];
            format!("event {id} of p{process} at {begun} wrote {value}: {end:?}")
        };
        let removals = self.removals.iter().map(|(id, removal)| {
            let Event { process, begun, end } = &self.events[*id];
            format!("event {id} of p{process} at {begun} removed {removal:?}: {end:?}")
        });
        written.iter().map(one).chain(removals).collect::<Vec<_>>().join("; ")
    }
}
