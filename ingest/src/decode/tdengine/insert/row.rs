//! One row of VALUES.

use std::sync::Arc;

use tidelake_format::{
    Error, Result,
    schema::{Column, check_name},
    types::Type,
};
use tidelake_protocol::{
    number::Number,
    sql::{Cursor, TableName, Value},
};

use super::{Slot, Target, bound};
use crate::decode::{
    builder::{Fault, Tag, canonical_name},
    tdengine::{parameters::Parameters, typed::Typed as _},
    time::{Implausible, doubt, nanos_per_tick},
};

/// A row being parsed, after its `(`.
pub(super) struct Row<'r, 'a> {
    pub(super) target: &'r mut Target,
    pub(super) slots: &'r [Slot],
    pub(super) cursor: &'r mut Cursor<'a>,
    pub(super) parameters: &'r mut Option<Parameters<'a>>,
    pub(super) name: &'r TableName,
    /// Row number from 1, for messages.
    pub(super) row: usize,
}

impl Row<'_, '_> {
    /// Parses the values of a row of one series.
    #[inline]
    pub(super) fn of(&mut self, series: u32) -> Result<()> {
        let mut ts = None;
        for (nth, slot) in self.slots.iter().enumerate() {
            match *slot {
                Slot::Time => ts = Some(self.time(nth)?),
                Slot::Field(place, ty) => self.field(place, ty, nth)?,
                Slot::Tag(_) | Slot::Name => return Err(Error::internal("a row of a series was laid out with tags")),
            }
            self.separator(nth)?;
        }
        self.end(series, ts)
    }

    /// Parses a row that contains its own name or tags.
    pub(super) fn named(&mut self) -> Result<()> {
        let (mut ts, mut name, mut tags) = (None, None, Vec::new());
        for (nth, slot) in self.slots.iter().enumerate() {
            match *slot {
                Slot::Time => ts = Some(self.time(nth)?),
                Slot::Field(place, ty) => self.field(place, ty, nth)?,
                Slot::Tag(at) => {
                    let ty = self.target.table.columns[at].ty;
                    let value = bound(self.cursor, self.parameters)?;
                    let described = value.describe();
                    tags.push((nth, at, value.into_bytes(ty).map_err(|fault| self.fault(nth, &described, fault))?));
                }
                Slot::Name => match bound(self.cursor, self.parameters)? {
                    Value::Text(text) => name = Some(text.into_owned()),
                    other => return Err(self.fault(nth, &other.describe(), Fault::Type)),
                },
            }
            self.separator(nth)?;
        }
        let table = Arc::clone(&self.target.table);
        let mut typed: Vec<(&Column, Tag<'_>)> = Vec::with_capacity(tags.len());
        for (nth, at, value) in &tags {
            let column = &table.columns[*at];
            let tag = value
                .typed(self.cursor.sql, column.ty, self.target.clock)
                .map_err(|fault| self.fault(*nth, &value.describe(), fault))?;
            typed.extend(tag.map(|tag| (column, tag)));
        }
        let name = match name {
            Some(name) => {
                check_name("table", &name)?;
                name
            }
            None => {
                let mut name = String::new();
                canonical_name(&table.name, &mut typed, &mut name);
                name
            }
        };
        let series = self.target.builder.series(&name, &typed);
        self.end(series, ts)
    }

    #[inline]
    fn end(&mut self, series: u32, ts: Option<i64>) -> Result<()> {
        let Some(ts) = ts else { return Err(Error::internal("a row was laid out without a time")) };
        self.target.builder.end_row(series, ts);
        Ok(())
    }

    /// Takes the `,` after the nth value, or the `)` after the last.
    #[inline]
    fn separator(&mut self, nth: usize) -> Result<()> {
        let wanted = if nth + 1 == self.slots.len() { b')' } else { b',' };
        if self.cursor.take(wanted) {
            return Ok(());
        }
        let found = match self.cursor.byte() {
            b',' => "more",
            b')' => "fewer",
            _ => return Err(self.cursor.unexpected(&format!("'{}'", wanted as char)).with("row", self.row)),
        };
        Err(Error::invalid("number of columns and number of values differ")
            .with("table", self.name)
            .with("row", self.row)
            .with("expected", self.slots.len())
            .with("found", found))
    }

    /// Scans a decimal number right at the cursor, followed by `,` or `)`: the form of nearly every value.
    #[inline(always)]
    fn plain_number(&mut self) -> Option<Number> {
        if self.cursor.byte() == b' ' {
            self.cursor.skip();
        }
        if !matches!(self.cursor.byte(), b'0'..=b'9' | b'-') {
            return None;
        }
        let bytes = self.cursor.bytes();
        let number = Number::scan(bytes, self.cursor.at);
        matches!(bytes.get(number.end), Some(b',' | b')')).then_some(number)
    }

    /// Parses the time, in ticks.
    #[inline]
    fn time(&mut self, nth: usize) -> Result<i64> {
        let (oldest, precision) = (self.target.oldest, self.target.clock.precision);
        if let Some(number) = self.plain_number()
            && let Some(ticks) = number.short_integer()
            && crate::decode::time::in_range(ticks, precision)
            && ticks >= oldest
        {
            self.cursor.at = number.end;
            self.check_unit(ticks)?;
            return Ok(ticks);
        }
        let value = bound(self.cursor, self.parameters)?;
        let ticks = value
            .ticks(self.cursor.sql, self.target.clock)
            .map_err(|fault| self.fault(nth, &value.describe(), fault))?;
        let is_number = match &value {
            Value::Number(..) | Value::Integer(_) => true,
            Value::Text(text) => text.trim().parse::<i64>().is_ok(),
            _ => false,
        };
        if is_number {
            self.check_unit(ticks)?;
        }
        if ticks < oldest {
            return Err(Error::invalid("Timestamp data out of range: older than the retention of the database")
                .with("table", self.name)
                .with("row", self.row)
                .with("expected", format!("at least {oldest}"))
                .with("found", ticks));
        }
        Ok(ticks)
    }

    /// Checks that a number of ticks plausibly is in the database's unit.
    #[inline]
    fn check_unit(&mut self, ticks: i64) -> Result<()> {
        let target = &mut *self.target;
        if target.implausible == Implausible::Accept {
            return Ok(());
        }
        let Some(doubt) = doubt(ticks, nanos_per_tick(target.clock.precision)) else { return Ok(()) };
        if target.implausible == Implausible::Warn {
            target.doubtful.get_or_insert(doubt);
            return Ok(());
        }
        Err(Error::invalid(doubt).with("table", self.name).with("row", self.row))
    }

    /// Parses the nth value into its column.
    #[inline]
    fn field(&mut self, place: usize, ty: Type, nth: usize) -> Result<()> {
        if let Some(number) = self.plain_number() {
            let bytes = self.cursor.bytes();
            let (cell, row) = self.target.builder.cell(place);
            let set = match ty {
                Type::Float => number.float(bytes).map(|value| cell.set_float32(row, value)),
                Type::Double => number.double(bytes).map(|value| cell.set_float(row, value)),
                _ if ty.is_numeric() => number.short_integer().map(|value| cell.set_int(row, value)),
                _ => None,
            };
            if let Some(Ok(())) = set {
                self.cursor.at = number.end;
                return Ok(());
            }
        }
        self.any_field(place, ty, nth)
    }

    #[inline(never)]
    fn any_field(&mut self, place: usize, ty: Type, nth: usize) -> Result<()> {
        let mut value = bound(self.cursor, self.parameters)?;
        if matches!(ty, Type::VarBinary(_)) {
            let described = value.describe();
            value = value.into_bytes(ty).map_err(|fault| self.fault(nth, &described, fault))?;
        }
        let typed = value.typed(self.cursor.sql, ty, self.target.clock);
        let (cell, row) = self.target.builder.cell(place);
        let set = typed.and_then(|typed| match typed {
            Some(value) => cell.set(row, value),
            None => {
                cell.set_null(row);
                Ok(())
            }
        });
        set.map_err(|fault| self.fault(nth, &value.describe(), fault))
    }

    #[cold]
    fn fault(&self, nth: usize, found: &str, fault: Fault) -> Error {
        let table = &self.target.table;
        let time = table.time();
        let (column, ty) = match self.slots[nth] {
            Slot::Time => (time.name.as_str(), time.ty),
            Slot::Field(place, ty) => (self.target.builder.column_name(place), ty),
            Slot::Tag(at) => (table.columns[at].name.as_str(), table.columns[at].ty),
            Slot::Name => (tidelake_format::schema::TBNAME, Type::Binary(Some(192))),
        };
        Error::invalid(format!("invalid value: {fault}"))
            .with("table", self.name)
            .with("row", self.row)
            .with("column", column)
            .with("expected", ty)
            .with("found", found)
    }
}
