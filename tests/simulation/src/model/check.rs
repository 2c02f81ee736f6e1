//! Checks whether a read is allowed.

use std::collections::{BTreeMap, BTreeSet};

use tidelake_format::ids::Token;

use super::{End, Event, Key, Model, Seen};
use crate::server::DAY_MS;

/// Upper bound of a process's clock error without faults.
const CLOCKS_OFF_MS: u64 = 300_000;

/// The initial tag of a series; it differs between series of lines and of statements.
fn first_site(series: &str) -> &'static str {
    if series.starts_with("line") { "x" } else { "y" }
}

impl Model {
    /// Whether a read that began after this event must see its effect.
    fn is_past(&self, id: usize, seen: &Seen) -> bool {
        match self.events[id].end {
            End::Acknowledged { at, .. } => at + seen.staleness_ms < seen.begun || seen.tokens.contains(&id),
            _ => false,
        }
    }

    /// Whether one event certainly took effect before another began.
    fn ends_before(&self, first: usize, second: usize) -> bool {
        self.events[first].latest().is_some_and(|latest| latest < self.events[second].begun)
    }

    /// Whether one write is certainly older than another.
    fn is_older(&self, first: usize, second: usize) -> bool {
        let (a, b) = (&self.events[first], &self.events[second]);
        if let (
            End::Acknowledged { token: Some(Token::Position(p)), .. },
            End::Acknowledged { token: Some(Token::Position(q)), .. },
        ) = (a.end, b.end)
            && p.writer == q.writer
        {
            return p.seq < q.seq;
        }
        b.after.contains(&first) || a.latest().is_some_and(|latest| latest + self.tick_ms < b.begun)
    }

    /// Whether a removal may have taken effect after another event and before the end of a read.
    fn may_follow(&self, removal: usize, other: usize, seen: &Seen) -> bool {
        let event = &self.events[removal];
        event.end != End::Refused && event.begun <= seen.ended && !self.ends_before(removal, other)
    }

    /// Time at which a row's day expires.
    fn expires(&self, table: &str, ts: i64) -> Option<u64> {
        let keep = self.kept.get(table)?;
        let end = (ts.div_euclid(DAY_MS) + 1) * DAY_MS + keep - self.begins_ms;
        Some(u64::try_from(end).unwrap_or(0))
    }

    /// Whether no removal can have removed a write before the end of a read.
    fn stands(&self, table: &str, key: &Key, write: usize, seen: &Seen) -> bool {
        let mut removals = self.removals.iter().filter(|(_, r)| r.covers(table, key));
        self.expires(table, key.1).is_none_or(|at| seen.ended < at)
            && removals.all(|(id, _)| !self.may_follow(*id, write, seen))
    }

    /// Whether a removal has certainly removed a write for a read.
    fn is_gone(&self, table: &str, key: &Key, write: usize, seen: &Seen) -> bool {
        seen.is_tidied && self.expires(table, key.1).is_some_and(|at| at + CLOCKS_OFF_MS < seen.begun)
            || self
                .removals
                .iter()
                .any(|(id, r)| r.covers(table, key) && self.is_past(*id, seen) && self.ends_before(write, *id))
    }

    /// Writes of which a read shows a value that no other write has: the read must show these writes completely.
    fn visible(&self, seen: &Seen) -> BTreeSet<usize> {
        let mut visible = BTreeSet::new();
        let Some(known) = self.cells.get(&seen.table) else { return visible };
        for (key, row) in &seen.rows {
            for (field, value) in row {
                let written = known.get(key).and_then(|cells| cells.get(field)).into_iter().flatten();
                let mut brought = written.filter(|(id, v)| v == value && self.events[*id].end != End::Refused);
                if let (Some((id, _)), None) = (brought.next(), brought.next()) {
                    visible.insert(*id);
                }
            }
        }
        visible
    }

    /// Checks a read against the model.
    ///
    /// # Errors
    /// The first violated guarantee.
    pub fn check(&self, seen: &Seen) -> Result<(), String> {
        let table = seen.table.as_str();
        let none = BTreeMap::new();
        let known = self.cells.get(table).unwrap_or(&none);
        let visible = self.visible(seen);
        for (key, row) in &seen.rows {
            for (field, value) in row {
                let written = known.get(key).and_then(|cells| cells.get(field)).map_or(&[][..], Vec::as_slice);
                self.check_value(seen, &visible, key, written, *value)
                    .map_err(|e| format!("{e}: {table} {key:?} {field} = {value}; {}", self.history(table, written)))?;
            }
        }
        for (key, cells) in known {
            for (field, written) in cells {
                if seen.rows.get(key).is_some_and(|row| row.contains_key(field)) {
                    continue;
                }
                let must = |(id, _): &&(usize, i64)| {
                    (self.is_past(*id, seen) || visible.contains(id)) && self.stands(table, key, *id, seen)
                };
                if let Some((id, value)) = written.iter().find(must) {
                    let what = if self.is_past(*id, seen) {
                        "an acknowledged value is not there"
                    } else {
                        "a write is there in part"
                    };
                    return Err(format!(
                        "{what}: {table} {key:?} {field} = {value} of event {id}; {}",
                        self.history(table, written)
                    ));
                }
            }
        }
        seen.sites.iter().try_for_each(|(series, site)| self.check_site(seen, series, site))
    }

    fn check_value(
        &self,
        seen: &Seen,
        visible: &BTreeSet<usize>,
        key: &Key,
        written: &[(usize, i64)],
        value: i64,
    ) -> Result<(), &'static str> {
        let table = seen.table.as_str();
        let of_value = written.iter().filter(|(_, v)| *v == value).map(|(id, _)| *id);
        let began: Vec<usize> = of_value
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
                    && (self.is_past(*other, seen) || visible.contains(other))
                    && self.is_older(*id, *other)
                    && self.stands(table, key, *other, seen)
            })
        };
        if alive.iter().all(is_outdated) {
            return Err("an older value than the newest");
        }
        Ok(())
    }

    /// Whether a series may have this tag.
    fn check_site(&self, seen: &Seen, series: &str, site: &str) -> Result<(), String> {
        let table = seen.table.as_str();
        let none = Vec::new();
        let set = self.sites.get(&(table.to_owned(), series.to_owned())).unwrap_or(&none);
        let removals = || self.removals.iter().filter(|(_, r)| r.concerns(table, series));
        let was_reset = |id: usize, by_drops_only: bool| {
            removals().any(|(r, removal)| (removal.drops || !by_drops_only) && self.may_follow(*r, id, seen))
        };
        let expires = self.kept.contains_key(table);
        let is_gone = |id: usize| {
            removals().any(|(r, removal)| removal.drops && self.is_past(*r, seen) && self.ends_before(id, *r))
        };
        let may = if site == first_site(series) {
            // A series without rows may be dropped, and is created again by its next row.
            expires || !set.iter().any(|(id, _)| self.is_past(*id, seen) && !was_reset(*id, false))
        } else {
            let is_outdated = |id: usize| {
                let later = |other: usize| {
                    other != id && self.is_past(other, seen) && self.ends_before(id, other) && !was_reset(other, true)
                };
                set.iter().any(|(other, _)| later(*other))
            };
            set.iter().filter(|(_, s)| s == site).any(|(id, _)| {
                let event = &self.events[*id];
                event.begun <= seen.ended && event.end != End::Refused && !is_gone(*id) && !is_outdated(*id)
            })
        };
        if may {
            return Ok(());
        }
        let history = set.iter().map(|(id, site)| {
            let Event { process, begun, end, .. } = &self.events[*id];
            format!("event {id} of p{process} at {begun} set {site}: {end:?}")
        });
        let history: Vec<String> = history.collect();
        let history = format!("{}; {}", history.join("; "), self.history(table, &[]));
        Err(format!("a tag that the series cannot have: {table} {series} site = {site}; {history}"))
    }

    fn history(&self, table: &str, written: &[(usize, i64)]) -> String {
        let one = |(id, value): &(usize, i64)| {
            let event = &self.events[*id];
            let Event { process, begun, end, .. } = event;
            format!("event {id} of p{process} at {begun} wrote {value}: {end:?}, at the latest {:?}", event.latest())
        };
        let removals = self.removals.iter().filter(|(_, r)| r.table == table).map(|(id, removal)| {
            let Event { process, begun, end, .. } = &self.events[*id];
            format!("event {id} of p{process} at {begun} removed {removal:?}: {end:?}")
        });
        written.iter().map(one).chain(removals).collect::<Vec<_>>().join("; ")
    }
}
