//! Line protocol decoded without writing it: what its lines would create and hold, and which lines would be refused.

use std::{collections::BTreeMap, hash::RandomState, sync::Arc};

use arrow::{array::ArrayRef, compute::take};
use serde_json::Value;
use tidelake_format::{
    Result,
    ids::{ColumnId, DatabaseId, TableId},
    rows::Block,
    schema::{Database, Role, Supertable, field_id},
    types::Precision,
};
use tidelake_ingest::decode::{
    Lookup, Rejected, SchemaChange, Subtable,
    line_protocol::{LinePrecision, decode},
    time::{Implausible, nanos_per_tick},
};

use crate::{
    at,
    check::Profile,
    lines::Part,
    preview::{Column, Preview, SHOWN_ROWS, SHOWN_WRONG, create},
    table::short_name_of,
    value::value,
};

/// Most rounds of decoding a part: each adds the schema that the previous one lacked.
const ROUNDS: usize = 4;

/// The tables of a database while lines are tried.
struct Tables {
    database: Arc<Database>,
    tables: Vec<Arc<Supertable>>,
    implausible: Implausible,
}

impl Lookup for Tables {
    fn database(&self, name: &str) -> Option<Arc<Database>> {
        self.database.name.eq_ignore_ascii_case(name).then(|| self.database.clone())
    }

    fn table(&self, _: DatabaseId, name: &str) -> Option<Arc<Supertable>> {
        let exact = self.tables.iter().find(|table| table.name == name);
        exact.or_else(|| self.tables.iter().find(|table| table.name.eq_ignore_ascii_case(name))).cloned()
    }

    fn subtable(&self, _: DatabaseId, _: &str) -> Option<Subtable> {
        None
    }

    fn implausible(&self) -> Implausible {
        self.implausible
    }
}

/// Values of a column.
struct Values {
    valid: u64,
    profile: Profile,
}

/// A trial of lines.
pub struct Trial {
    tables: Tables,
    /// Number of tables that existed before.
    known: usize,
    /// Rows of each table.
    rows: BTreeMap<TableId, u64>,
    values: BTreeMap<(TableId, ColumnId), Values>,
    shown: Vec<(TableId, BTreeMap<ColumnId, Value>)>,
    state: RandomState,
    notices: Vec<String>,
    read: u64,
    wrong: u64,
}

impl Trial {
    /// Begins with the tables of an existing database, or of a new one.
    pub fn new(database: Option<(Arc<Database>, Vec<Arc<Supertable>>)>, implausible: Implausible) -> Self {
        let new = || {
            let database = Database {
                id: DatabaseId(1),
                name: String::new(),
                precision: Precision::Nano,
                keep_ms: i64::MAX,
                partition_ms: Database::DEFAULT_PARTITION_MS,
            };
            (Arc::new(database), Vec::new())
        };
        let (database, tables) = database.unwrap_or_else(new);
        Self {
            known: tables.len(),
            tables: Tables { database, tables, implausible },
            rows: BTreeMap::new(),
            values: BTreeMap::new(),
            shown: Vec::new(),
            state: RandomState::new(),
            notices: Vec::new(),
            read: 0,
            wrong: 0,
        }
    }

    /// Number of lines read.
    pub fn read(&self) -> u64 {
        self.read + self.wrong
    }

    /// Tries a part of a file. `now_ns` is the time of lines without one. Returns the lines that would be refused; at most
    /// [`Rejected::MAX_LISTED`] are described.
    ///
    /// # Errors
    /// The schema of the lines contradicts itself.
    pub fn add(&mut self, name: &str, part: &Part, precision: LinePrecision, now_ns: i64) -> Result<Vec<Rejected>> {
        let database = self.tables.database.clone();
        let now = now_ns / nanos_per_tick(database.precision);
        let mut decoded = decode(&part.body, &self.tables, &database, precision, now);
        for _ in 0..ROUNDS {
            if decoded.missing.is_empty() {
                break;
            }
            for change in std::mem::take(&mut decoded.missing) {
                self.apply(change)?;
            }
            decoded = decode(&part.body, &self.tables, &database, precision, now);
        }
        self.read += decoded.accepted as u64;
        self.wrong += decoded.dropped as u64;
        for block in &decoded.blocks {
            self.profile(block)?;
        }
        for rejected in &decoded.rejected {
            if self.notices.len() < SHOWN_WRONG {
                let line = part.first + rejected.line as u64 - 1;
                let place = if name.is_empty() { format!("line {line}") } else { format!("{name}: line {line}") };
                self.notices.push(format!("{place}: {}", rejected.reason));
            }
        }
        Ok(decoded.rejected)
    }

    fn apply(&mut self, change: SchemaChange) -> Result<()> {
        match change {
            SchemaChange::CreateTable { name, columns } => {
                let last = self.tables.tables.iter().map(|table| table.id.0).max().unwrap_or(0);
                let table = Supertable::new(TableId(last + 1), self.tables.database.id, &name, columns);
                self.tables.tables.push(Arc::new(table.map_err(|e| at(&name, &e))?));
            }
            SchemaChange::AddColumn { table, name, role, ty } => {
                if let Some(table) = self.tables.tables.iter_mut().find(|known| known.id == table) {
                    Arc::make_mut(table).add_column(&name, role, ty)?;
                }
            }
        }
        Ok(())
    }

    fn profile(&mut self, block: &Block) -> Result<()> {
        *self.rows.entry(block.table).or_default() += block.len() as u64;
        let series = block.rows.column(0);
        let mut columns: Vec<(ColumnId, ArrayRef)> = Vec::new();
        for (field, column) in block.rows.schema().fields().iter().zip(block.rows.columns()).skip(1) {
            columns.extend(field_id(field).map(|id| (id, column.clone())));
        }
        for (field, tag) in block.series.batch().schema().fields().iter().zip(block.series.batch().columns()).skip(1) {
            if let Some(id) = field_id(field) {
                columns.push((id, take(tag, series, None)?));
            }
        }
        for (id, column) in &columns {
            let none = || Values { valid: 0, profile: Profile::new() };
            let values = self.values.entry((block.table, *id)).or_insert_with(none);
            values.valid += (column.len() - column.null_count()) as u64;
            values.profile.add(column, &self.state);
        }
        for row in 0..block.len().min(SHOWN_ROWS - self.shown.len()) {
            let of_row = columns.iter().map(|(id, column)| (*id, value(column, row))).collect();
            self.shown.push((block.table, of_row));
        }
        Ok(())
    }

    /// What an import of the lines would do.
    ///
    /// # Errors
    /// A table cannot be created.
    pub fn preview(self, database: Option<&str>) -> Result<Preview> {
        let used: Vec<(usize, &Arc<Supertable>)> =
            self.tables.tables.iter().enumerate().filter(|(_, table)| self.rows.contains_key(&table.id)).collect();
        let mut preview =
            Preview { rows_read: self.read, wrong: self.wrong, notices: self.notices, ..Preview::default() };
        let others = self.wrong.saturating_sub(preview.notices.len() as u64);
        if others > 0 {
            preview.notices.push(format!("and {others} more lines that would be refused"));
        }
        let (mut places, mut statements) = (BTreeMap::new(), Vec::new());
        preview.table_exists = !used.is_empty();
        for (index, table) in &used {
            let rows = self.rows.get(&table.id).copied().unwrap_or(0);
            for column in &table.columns {
                let values = self.values.get(&(table.id, column.id));
                places.insert((table.id, column.id), preview.columns.len());
                preview.columns.push(Column {
                    name: if used.len() == 1 { column.name.clone() } else { format!("{}.{}", table.name, column.name) },
                    role: match column.role {
                        Role::Time => "time",
                        Role::Tag => "tag",
                        Role::Field => "field",
                    },
                    ty: short_name_of(column.ty).to_owned(),
                    distinct: values.map_or(Some(0), |values| values.profile.distinct.map(|n| n as u64)),
                    nulls: rows - values.map_or(0, |values| values.valid),
                    examples: values.map(|values| values.profile.examples.clone()).unwrap_or_default(),
                    note: Some(format!("table {}", table.name)),
                });
            }
            if *index >= self.known {
                preview.table_exists = false;
                let columns = table.columns.iter().map(|column| (column.name.clone(), column.role, column.ty));
                statements.push(create(&columns.collect::<Vec<_>>(), database, &table.name)?);
            }
        }
        preview.statement = (!statements.is_empty()).then(|| statements.join(";\n"));
        preview.rows = self
            .shown
            .into_iter()
            .map(|(table, mut values)| {
                let mut row = vec![Value::Null; preview.columns.len()];
                let of_table = places.iter().filter(|((of, _), _)| *of == table);
                of_table.for_each(|((_, column), place)| row[*place] = values.remove(column).unwrap_or(Value::Null));
                row
            })
            .collect();
        Ok(preview)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lines_are_described_by_table_and_wrong_ones_are_named() {
        let text = b"m,h=a v=1i 1\nm,h=b v=2i,w=t 2\n# x\nm,h=b v=oops 3\nn f=\"x\" 4\n";
        let part = Part { body: text.to_vec(), first: 11, lines: 5 };
        let mut trial = Trial::new(None, Implausible::Refuse);
        let rejected = trial.add("a.lp", &part, LinePrecision::Second, 0).unwrap();
        assert_eq!((rejected.len(), rejected[0].line), (1, 4));
        let preview = trial.preview(Some("d")).unwrap();
        assert_eq!((preview.rows_read, preview.wrong), (3, 1));
        assert!(preview.notices[0].starts_with("a.lp: line 14: "), "{:?}", preview.notices);
        let statement = preview.statement.unwrap();
        assert!(
            statement.starts_with("CREATE STABLE `d`.`m` (`ts` TIMESTAMP, `v` BIGINT, `w` BOOL) TAGS (`h` "),
            "{statement}"
        );
        let columns: Vec<_> =
            preview.columns.iter().map(|c| (c.name.as_str(), c.role, c.ty.as_str(), c.nulls)).collect();
        let expected = [
            ("m.ts", "time", "timestamp", 0),
            ("m.v", "field", "int", 0),
            ("m.w", "field", "bool", 1),
            ("m.h", "tag", "text", 0),
            ("n.ts", "time", "timestamp", 0),
            ("n.f", "field", "text", 0),
        ];
        assert_eq!(columns, expected);
        let first = json!(["1970-01-01T00:00:01Z", 1, null, "a", null, null]);
        assert_eq!(json!(preview.rows[0]), first);
    }
}
