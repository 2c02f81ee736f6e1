//! One schemaless request: its tables, the columns it needs, and rows that can be rolled back.

use std::sync::Arc;

use hashbrown::HashMap;
use tidelake_format::{
    ids::{ColumnId, TableId},
    rows::Block,
    schema::{Column, Database, Role, Supertable, check_name},
    types::Type,
};

use super::{
    Decoded, Limits, Lookup, Rejected, SchemaChange, Words,
    builder::{BlockBuilder, Tag, canonical_name},
    time::{self, Implausible},
};

/// A table's schema: the catalog's, or a draft extended by the request.
enum Schema {
    Known(Arc<Supertable>),
    Draft(Box<Supertable>),
}

/// One table of the request.
pub(super) struct Target {
    schema: Schema,
    /// Whether the whole table is missing in the catalog.
    new: bool,
    /// Columns with this id or a higher one are missing in the catalog.
    first_new: u32,
    /// The oldest accepted timestamp, in ticks.
    oldest: i64,
    /// Whether schema changes are refused.
    is_fixed: bool,
    /// Limits on schema changes.
    limits: Limits,
    words: &'static Words,
    pub(super) builder: BlockBuilder,
}

/// The state before a row, restored if the row is rejected.
#[derive(Clone, Copy)]
pub(super) struct Mark {
    next_column: u32,
    columns: usize,
}

impl Target {
    pub(super) fn table(&self) -> &Supertable {
        match &self.schema {
            Schema::Known(table) => table,
            Schema::Draft(table) => table,
        }
    }

    pub(super) fn mark(&self) -> Mark {
        Mark { next_column: self.table().next_column, columns: self.builder.column_count() }
    }

    /// Removes the unfinished row and every column that it added.
    pub(super) fn roll_back(&mut self, mark: Mark) {
        if let Schema::Draft(table) = &mut self.schema {
            table.columns.retain(|c| c.id.0 < mark.next_column);
            table.next_column = mark.next_column;
        }
        self.builder.truncate_columns(mark.columns);
        self.builder.cancel_row();
    }

    /// The column of this name and role; added to the draft with type `ty` if missing.
    ///
    /// # Errors
    /// The reason why the column cannot exist, in the words of the format.
    pub(super) fn column(&mut self, name: &str, role: Role, ty: Type) -> Result<(ColumnId, Type), String> {
        if let Some(column) = self.table().column(name) {
            if column.role == role {
                return Ok((column.id, column.ty));
            }
            let is = match column.role {
                Role::Time => "it is the time column",
                Role::Field => "it already exists as a field",
                Role::Tag => "it already exists as a tag",
            };
            return Err(format!("{}: {is}", self.bad_column(name, role)));
        }
        if self.is_fixed {
            return Err(FIXED.to_owned());
        }
        self.limits.check_column(self.table())?;
        if let Schema::Known(known) = &self.schema {
            self.schema = Schema::Draft(Box::new(Supertable::clone(known)));
        }
        let Schema::Draft(table) = &mut self.schema else { return Err(self.bad_column(name, role)) };
        match table.add_column(name, role, ty) {
            Ok(id) => Ok((id, ty)),
            Err(e) => Err(format!("{}: {e}", self.bad_column(name, role))),
        }
    }

    /// The index of a field's column in the builder; adds the field with type `ty` if missing.
    ///
    /// # Errors
    /// As [`column`](Self::column).
    pub(super) fn field(&mut self, name: &str, ty: Type) -> Result<usize, String> {
        let (id, _) = self.column(name, Role::Field, ty)?;
        let table = match &self.schema {
            Schema::Known(table) => table.as_ref(),
            Schema::Draft(table) => table.as_ref(),
        };
        let column = table.column_by_id(id).expect("the table has just named this column");
        Ok(self.builder.column(column))
    }

    fn bad_column(&self, name: &str, role: Role) -> String {
        (self.words.bad_column)(&self.table().name, name, role)
    }

    /// The series with these tags, with its canonical name.
    pub(super) fn series(&mut self, tags: &[(ColumnId, Tag<'_>)], name: &mut String) -> u32 {
        let table = match &self.schema {
            Schema::Known(table) => table.as_ref(),
            Schema::Draft(table) => table.as_ref(),
        };
        let mut tags: Vec<(&Column, Tag<'_>)> =
            tags.iter().filter_map(|(id, tag)| table.column_by_id(*id).map(|c| (c, *tag))).collect();
        canonical_name(&table.name, &mut tags, name);
        self.builder.series(name, &tags)
    }
}

/// Lookup key of a target.
#[derive(PartialEq, Eq, Hash)]
enum Key {
    Known(TableId),
    New(String),
}

/// The tables and rejected rows of a request.
pub(super) struct Request<'a> {
    lookup: &'a dyn Lookup,
    pub(super) database: &'a Database,
    /// The wall clock in ticks.
    now: i64,
    words: &'static Words,
    /// Whether rows that need schema changes are rejected.
    is_fixed: bool,
    limits: Limits,
    /// Tables of the database, counted when the first new table is needed.
    existing: Option<usize>,
    /// Number of new tables that have a row.
    created: usize,
    pub(super) targets: Vec<Target>,
    places: HashMap<Key, usize>,
    pub(super) accepted: usize,
    dropped: usize,
    rejected: Vec<Rejected>,
    /// Bytes of the texts in `rejected`.
    described: usize,
    /// Scratch space for series names.
    pub(super) name: String,
    implausible: Implausible,
    /// Describes the first time that seems to be in another unit and was accepted nevertheless.
    doubtful: Option<String>,
}

/// Rows gathered over several requests for the same database and catalog, whose schema may not grow.
#[derive(Default)]
pub(super) struct Rows {
    targets: Vec<Target>,
    places: HashMap<Key, usize>,
    name: String,
}

impl Rows {
    /// Continues with these rows as a request.
    pub(super) fn resume<'a>(
        self,
        lookup: &'a dyn Lookup,
        database: &'a Database,
        now: i64,
        words: &'static Words,
    ) -> Request<'a> {
        let Self { targets, places, name } = self;
        let new = Request::new(lookup, database, now, words);
        let mut request = Request { is_fixed: true, targets, places, name, ..new };
        if request.implausible == Implausible::Warn {
            request.implausible = Implausible::Refuse; // the line then takes the other path, which can report the doubt
        }
        request
    }

    /// Rows times columns, summed over all tables.
    pub(super) fn cells(&self) -> usize {
        self.targets.iter().map(|target| target.builder.rows() * target.builder.column_count()).sum()
    }

    /// Builds the blocks.
    ///
    /// # Errors
    /// As [`BlockBuilder::finish`].
    pub(super) fn finish(self) -> tidelake_format::Result<Vec<Block>> {
        let targets = self.targets.into_iter().filter(|t| t.builder.rows() > 0);
        targets.map(|target| target.builder.finish()).collect()
    }
}

impl<'a> Request<'a> {
    pub(super) fn new(lookup: &'a dyn Lookup, database: &'a Database, now: i64, words: &'static Words) -> Self {
        Self {
            lookup,
            database,
            now,
            words,
            is_fixed: false,
            limits: lookup.limits(),
            existing: None,
            created: 0,
            targets: Vec::new(),
            places: HashMap::new(),
            accepted: 0,
            dropped: 0,
            rejected: Vec::new(),
            described: 0,
            name: String::new(),
            implausible: lookup.implausible(),
            doubtful: None,
        }
    }

    /// Checks that a time plausibly is in the given unit.
    ///
    /// # Errors
    /// A description of the doubt, if implausible times are refused.
    #[inline]
    pub(super) fn check_unit(&mut self, value: i64, unit_nanos: i64) -> Result<(), String> {
        if self.implausible == Implausible::Accept {
            return Ok(());
        }
        match time::doubt(value, unit_nanos) {
            None => Ok(()),
            Some(doubt) if self.implausible == Implausible::Refuse => Err(doubt),
            Some(doubt) => {
                self.doubtful.get_or_insert(doubt);
                Ok(())
            }
        }
    }

    /// The index of the table of this name; adds a draft if the catalog lacks it.
    ///
    /// # Errors
    /// The reason why the name is invalid or no more tables can be created.
    pub(super) fn target(&mut self, name: &str) -> Result<usize, String> {
        let known = self.lookup.table(self.database.id, name);
        // Names of new tables that differ only in case denote one table, as they will once created.
        let key = match &known {
            Some(table) => Key::Known(table.id),
            None => Key::New(name.to_ascii_lowercase()),
        };
        if let Some(at) = self.places.get(&key).copied() {
            self.check_room(at)?;
            return Ok(at);
        }
        let kept_ms = known.as_ref().map_or(self.database.keep_ms, |table| table.kept_ms(self.database));
        let oldest = time::oldest_kept(kept_ms, self.database.precision, self.now);
        let target = match known {
            Some(table) => Target {
                oldest,
                is_fixed: self.is_fixed,
                limits: self.limits,
                words: self.words,
                builder: BlockBuilder::new(&table, self.database.precision),
                new: false,
                first_new: table.next_column,
                schema: Schema::Known(table),
            },
            None if self.is_fixed => return Err(FIXED.to_owned()),
            None => {
                check_name(self.words.table, name).map_err(|e| e.to_string())?;
                self.check_new_table(name)?;
                let mut table = Supertable::without_columns(TableId(u32::MAX), self.database.id, name);
                table.add_column(TIME, Role::Time, Type::Timestamp).map_err(|e| e.to_string())?;
                Target {
                    oldest,
                    is_fixed: false,
                    limits: self.limits,
                    words: self.words,
                    builder: BlockBuilder::new(&table, self.database.precision),
                    new: true,
                    first_new: 0,
                    schema: Schema::Draft(Box::new(table)),
                }
            }
        };
        self.targets.push(target);
        self.places.insert(key, self.targets.len() - 1);
        Ok(self.targets.len() - 1)
    }

    /// Checks that the table of a target may have its first row: a new table takes one of the database's remaining places.
    /// Places are given in the order of the lines.
    ///
    /// # Errors
    /// The reason for the refusal.
    pub(super) fn check_room(&mut self, target: usize) -> Result<(), String> {
        let target = &self.targets[target];
        if !target.new || target.builder.rows() > 0 {
            return Ok(());
        }
        let name = target.table().name.clone();
        self.check_new_table(&name)
    }

    fn check_new_table(&mut self, name: &str) -> Result<(), String> {
        if self.created >= self.limits.new_tables {
            let limit = self.limits.new_tables;
            return Err(format!(
                "too many new tables in one request: send this line in another request (table: {name}, limit: {limit})"
            ));
        }
        let existing = *self.existing.get_or_insert_with(|| self.lookup.table_count(self.database.id));
        self.limits.check_table(name, existing + self.created)
    }

    /// Counts rejected rows; describes them in one entry unless the descriptions have reached their limit.
    pub(super) fn reject(&mut self, rows: usize, describe: impl FnOnce() -> Rejected) {
        self.dropped += rows;
        if self.rejected.len() < Rejected::MAX_LISTED && self.described < Rejected::MAX_LISTED_BYTES {
            let rejected = describe();
            self.described += rejected.reason.len() + rejected.text.len();
            self.rejected.push(rejected);
        }
    }

    /// Completes a row of a target, possibly its first.
    pub(super) fn end_row(&mut self, target: usize, series: u32, ts: i64) {
        let target = &mut self.targets[target];
        self.created += usize::from(target.new && target.builder.rows() == 0);
        target.builder.end_row(series, ts);
    }

    /// Takes the rows out, for a later request that continues with them.
    pub(super) fn suspend(self) -> Rows {
        Rows { targets: self.targets, places: self.places, name: self.name }
    }

    /// Checks that the table's retention includes this time.
    ///
    /// # Errors
    /// The reason, in the words of the format.
    #[inline]
    pub(super) fn check_kept(&self, target: usize, ticks: i64) -> Result<(), String> {
        if ticks < self.targets[target].oldest {
            return Err(self.words.too_old.to_owned());
        }
        Ok(())
    }

    /// Returns the blocks, or the schema changes to commit first.
    pub(super) fn finish(mut self) -> Decoded {
        let mut missing = Vec::new();
        for target in self.targets.iter().filter(|t| t.builder.rows() > 0) {
            let table = target.table();
            let added = table.columns.iter().filter(|c| c.id.0 >= target.first_new);
            if target.new {
                let columns = added.map(|c| (c.name.clone(), c.role, c.ty)).collect();
                missing.push(SchemaChange::CreateTable { name: table.name.clone(), columns });
            } else {
                let mut added: Vec<_> = added.collect();
                added.sort_by_key(|c| c.id);
                missing.extend(added.into_iter().map(|c| SchemaChange::AddColumn {
                    table: table.id,
                    name: c.name.clone(),
                    role: c.role,
                    ty: c.ty,
                }));
            }
        }
        let mut blocks = Vec::new();
        if missing.is_empty() {
            for target in std::mem::take(&mut self.targets).into_iter().filter(|t| t.builder.rows() > 0) {
                let (rows, name) = (target.builder.rows(), target.table().name.clone());
                match target.builder.finish() {
                    Ok(block) => blocks.push(block),
                    Err(e) => {
                        self.accepted -= rows;
                        self.reject(rows, || Rejected { line: 0, reason: e.to_string(), text: name });
                    }
                }
            }
        }
        Decoded {
            blocks,
            accepted: self.accepted,
            dropped: self.dropped,
            rejected: self.rejected,
            missing,
            doubtful: self.doubtful,
        }
    }
}

/// Rejection reason of a row that needs a schema change where none is allowed; never reported.
const FIXED: &str = "the catalog lacks it";

/// The time column of tables that a request creates.
pub(super) const TIME: &str = "ts";
