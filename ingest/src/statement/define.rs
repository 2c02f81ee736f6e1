//! Definitions: CREATE, DROP and ALTER of databases and supertables.

use std::time::Duration;

use tidelake_format::{
    Error, Kind, Reason, Result,
    ids::{DatabaseId, TableId, Token},
    meta::{Draft, PROBE_AGE},
    schema::{Column, Database, Role, Supertable},
    types::Type,
};
use tidelake_protocol::sql::{Alter, AlterAction, AlterDatabase, CreateDatabase, CreateTable, DropTables};
use tokio::time::{Instant, sleep};

use super::{
    delete::{ATTEMPTS, bury},
    no_database,
};
use crate::write::{Executed, Ingest};

/// The shortest default partition length.
const LEAST_PARTITION_MS: i64 = 3_600_000;

impl Ingest {
    /// Commits a change of definitions on a catalog that is not older than the statement, with the handle's mark if it has one.
    pub(super) async fn define<T: Send>(
        &self,
        start: Instant,
        mut change: impl FnMut(&mut Draft) -> Result<T> + Send,
    ) -> Result<(T, Executed)> {
        self.shared.probe.catalog(start.elapsed()).await?;
        let change = |draft: &mut Draft| {
            self.mark.as_ref().map_or(Ok(()), |mark| mark.leave(draft))?;
            change(draft)
        };
        let (value, catalog) = self.shared.root.commit(&[], change).await?;
        let token = Some(Token::Version(catalog.version));
        Ok((value, Executed { token, ..Executed::default() }))
    }

    pub(super) async fn create_database(&self, create: CreateDatabase) -> Result<Executed> {
        self.principal.check_create(&create.name)?;
        let change = |draft: &mut Draft| {
            if draft.catalog().database(&create.name).is_some() {
                if create.if_not_exists {
                    return Ok(());
                }
                return Err(Error::invalid("Database already exists")
                    .because(Reason::DatabaseExists)
                    .with("found", &create.name)
                    .with("use", "CREATE DATABASE IF NOT EXISTS, or another name"));
            }
            let keep = create.keep_ms.unwrap_or(Database::DEFAULT_KEEP_MS);
            let partition = partition_ms(create.partition_ms, keep)?;
            draft.create_database(&create.name, create.precision.unwrap_or_default(), keep, partition)?;
            Ok(())
        };
        Ok(self.define(Instant::now(), change).await?.1)
    }

    pub(super) async fn drop_database(&self, name: &str, if_exists: bool, start: Instant) -> Result<Executed> {
        self.principal.check_admin("drop a database")?;
        let change = |draft: &mut Draft| match draft.catalog().database(name).map(|d| d.id) {
            Some(id) => draft.drop_database(id).map(|()| true),
            None if if_exists => Ok(false),
            None => {
                let names = draft.catalog().databases().map(|database| database.name.as_str());
                Err(no_database(name).suggest(name, names))
            }
        };
        let (dropped, executed) = self.define(start, change).await?;
        self.forbidden(dropped).await;
        Ok(executed)
    }

    /// Waits until no writer acknowledges rows on a version from before a change that forbids them.
    pub(super) async fn forbidden(&self, forbids: bool) {
        if forbids {
            sleep(PROBE_AGE + Duration::from_millis(1)).await;
        }
    }

    pub(super) async fn create_table(
        &self,
        database: Option<&str>,
        create: CreateTable,
        start: Instant,
    ) -> Result<Executed> {
        let (_, database) = self.database_of(&create.table, database, start).await?;
        let name = &create.table.name;
        let change = |draft: &mut Draft| {
            if draft.catalog().table(database.id, name).is_some() {
                if create.if_not_exists {
                    return Ok(());
                }
                return Err(Error::invalid("Table already exists")
                    .because(Reason::TableExists)
                    .with("found", name)
                    .with("use", "CREATE TABLE IF NOT EXISTS, or another name"));
            }
            let table = draft.create_table(database.id, name, create.columns.iter().cloned())?;
            if create.keep_ms.is_some() {
                draft.put_table(Supertable { keep_ms: create.keep_ms, ..table.as_ref().clone() })?;
            }
            Ok(())
        };
        Ok(self.define(start, change).await?.1)
    }

    pub(super) async fn drop_tables(
        &self,
        database: Option<&str>,
        drop: DropTables,
        start: Instant,
    ) -> Result<Executed> {
        let (mut tables, mut series) = (Vec::new(), Vec::new());
        for (table, if_exists) in &drop.tables {
            let (mut catalog, database) = self.database_of(table, database, start).await?;
            if catalog.table(database.id, &table.name).is_none() {
                // Another process may just have created the table, beside a subtable of the same name.
                catalog = self.shared.probe.since(start).await?;
            }
            match catalog.table(database.id, &table.name) {
                None => match self.supertable_of(database.id, &table.name).await? {
                    Some(supertable) => series.push((supertable.id, table.name.clone())),
                    None => tables.push((database.id, table.name.as_str(), *if_exists)),
                },
                Some(_) => tables.push((database.id, table.name.as_str(), *if_exists)),
            }
        }
        let mut attempt = 0;
        let (dropped, mut executed) = loop {
            match self.drop_once(&tables, &series, start).await {
                // A fold in the same version took the rows to drop.
                Err(e) if e.kind() == Kind::Conflict && attempt < ATTEMPTS => attempt += 1,
                result => break result?,
            }
        };
        self.forbidden(dropped).await;
        // Rows of writers that did not know of the drop yet are dropped as well.
        if let Some(token) = self.bury_late(&series, executed.token).await? {
            executed.token = Some(token);
        }
        Ok(executed)
    }

    async fn drop_once(
        &self,
        tables: &[(DatabaseId, &str, bool)],
        series: &[(TableId, String)],
        start: Instant,
    ) -> Result<(bool, Executed)> {
        let reach = self.reach_of_series(series).await?;
        let change = |draft: &mut Draft| {
            let mut dropped = bury(draft, &reach)?;
            for (database, name, if_exists) in tables {
                match draft.catalog().table(*database, name).map(|t| t.id) {
                    Some(id) => {
                        draft.drop_table(id)?;
                        dropped = true;
                    }
                    None if *if_exists => {}
                    None => {
                        return Err(self.no_table(draft.catalog(), *database, name));
                    }
                }
            }
            Ok(dropped)
        };
        self.define(start, change).await
    }

    pub(super) async fn alter_database(&self, alter: AlterDatabase, start: Instant) -> Result<Executed> {
        self.principal.check_admin("alter a database")?;
        let change = |draft: &mut Draft| {
            let found = draft.catalog().database(&alter.name).cloned();
            let old = found.ok_or_else(|| no_database(&alter.name))?;
            let keep_ms = alter.keep_ms.unwrap_or(old.keep_ms);
            if keep_ms < old.partition_ms {
                return Err(shorter_than_a_partition(keep_ms, old.partition_ms));
            }
            if keep_ms != old.keep_ms {
                draft.put_database(Database { keep_ms, ..old.as_ref().clone() })?;
            }
            Ok(keep_ms < old.keep_ms)
        };
        let (shorter, executed) = self.define(start, change).await?;
        self.forbidden(shorter).await;
        Ok(executed)
    }

    pub(super) async fn alter(&self, database: Option<&str>, alter: Alter, start: Instant) -> Result<Executed> {
        let (catalog, of) = self.database_of(&alter.table, database, start).await?;
        let name = &alter.table.name;
        if let AlterAction::SetTags(tags) = &alter.action {
            return self.set_tags(&of, name, tags, start).await;
        }
        if catalog.table(of.id, name).is_none() && self.supertable_of(of.id, name).await?.is_some() {
            return Err(
                Error::invalid("cannot alter the columns of a subtable; alter its supertable").with("table", name)
            );
        }
        let change = |draft: &mut Draft| {
            let table = draft.catalog().table(of.id, name).cloned();
            let table = table.ok_or_else(|| self.no_table(draft.catalog(), of.id, name))?;
            let mut changed = table.as_ref().clone();
            let forbids = apply(&mut changed, &alter.action, &of, draft)?;
            if changed != *table {
                draft.put_table(changed)?;
            }
            Ok(forbids)
        };
        let (forbids, executed) = self.define(start, change).await?;
        self.forbidden(forbids).await;
        Ok(executed)
    }
}

/// Changes a supertable; returns whether the change forbids formerly allowed writes.
fn apply(table: &mut Supertable, action: &AlterAction, database: &Database, draft: &Draft) -> Result<bool> {
    match action {
        AlterAction::Add { name, role, ty } => table.add_column(name, *role, *ty).map(|_| false),
        AlterAction::Drop { name, role } => {
            let id = find(table, name, *role)?.id;
            if *role == Role::Field && table.fields().nth(1).is_none() {
                return Err(Error::invalid("cannot drop the last field of a table").with("table", &table.name));
            }
            if *role == Role::Tag && table.tags().nth(1).is_none() {
                return Err(Error::invalid("cannot drop the last tag of a supertable").with("table", &table.name));
            }
            table.columns.retain(|c| c.id != id);
            table.overrides.values_mut().for_each(|tags| {
                tags.remove(&id);
            });
            table.overrides.retain(|_, tags| !tags.is_empty());
            // The same version may contain a fold.
            table.stale = draft.version().next();
            Ok(true)
        }
        AlterAction::Modify { name, role, ty } => {
            let column = find(table, name, *role)?;
            if !widens(column.ty, *ty) {
                return Err(Error::invalid("a column type can only be widened")
                    .with("table", &table.name)
                    .with("column", name)
                    .with("found", column.ty)
                    .with("expected", format!("a wider type, not {ty}")));
            }
            let id = column.id;
            table.columns.iter_mut().filter(|c| c.id == id).for_each(|c| c.ty = *ty);
            Ok(false)
        }
        AlterAction::Rename { name, role, to } => {
            let id = find(table, name, *role)?.id;
            let taken = table.columns.iter().any(|c| c.id != id && c.name.eq_ignore_ascii_case(to));
            if taken || to.eq_ignore_ascii_case(tidelake_format::schema::TBNAME) {
                return Err(Error::invalid("a column of this name already exists")
                    .with("table", &table.name)
                    .with("column", to));
            }
            table.columns.iter_mut().filter(|c| c.id == id).for_each(|c| to.clone_into(&mut c.name));
            Ok(true)
        }
        AlterAction::Keep(keep_ms) => {
            if *keep_ms < database.partition_ms {
                return Err(shorter_than_a_partition(*keep_ms, database.partition_ms));
            }
            let before = table.kept_ms(database);
            table.keep_ms = Some(*keep_ms);
            Ok(*keep_ms < before)
        }
        AlterAction::SetTags(_) => Err(Error::internal("SET TAG on a supertable")),
    }
}

/// Finds a field or tag by name.
fn find<'a>(table: &'a Supertable, name: &str, role: Role) -> Result<&'a Column> {
    let what = if role == Role::Tag { "tag" } else { "column" };
    let column = table.column(name).ok_or_else(|| {
        Error::not_found(format!("Invalid column name: no such {what}"))
            .because(Reason::ColumnNotFound)
            .with("table", &table.name)
            .with("column", name)
    })?;
    if column.role != role {
        let is = match column.role {
            Role::Time => "the time column, which cannot be altered",
            Role::Field => "a column",
            Role::Tag => "a tag",
        };
        return Err(Error::invalid(format!("expected a {what}, found {is}"))
            .with("table", &table.name)
            .with("column", name));
    }
    Ok(column)
}

/// Whether a type contains every value of another, unchanged and in the same order.
fn widens(from: Type, to: Type) -> bool {
    use Type::{
        BigInt, Binary, Double, Float, Int, NChar, SmallInt, TinyInt, UBigInt, UInt, USmallInt, UTinyInt, VarBinary,
    };
    let wider = |a: Option<u32>, b: Option<u32>| b.is_none_or(|b| a.is_some_and(|a| a <= b));
    from == to
        || match (from, to) {
            (TinyInt, SmallInt | Int | BigInt) | (SmallInt, Int | BigInt) | (Int, BigInt) => true,
            (UTinyInt, USmallInt | UInt | UBigInt) | (USmallInt, UInt | UBigInt) | (UInt, UBigInt) => true,
            (Float, Double) => true,
            // A text of n bytes has at most n characters.
            (Binary(a), Binary(b) | NChar(b)) | (NChar(a), NChar(b)) | (VarBinary(a), VarBinary(b)) => wider(a, b),
            _ => false,
        }
}

/// The partition length of a new database.
fn partition_ms(given: Option<i64>, keep_ms: i64) -> Result<i64> {
    match given {
        Some(given) if given > keep_ms => Err(shorter_than_a_partition(keep_ms, given)),
        Some(given) => Ok(given),
        None => Ok(Database::DEFAULT_PARTITION_MS.min((keep_ms / 3).max(LEAST_PARTITION_MS))),
    }
}

fn shorter_than_a_partition(keep_ms: i64, partition_ms: i64) -> Error {
    Error::invalid("KEEP must not be shorter than DURATION: rows expire by whole partitions")
        .with("expected", format!("at least {}m", partition_ms / 60_000))
        .with("found", format!("{}m", keep_ms / 60_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_widens_only_if_no_value_changes() {
        use Type::*;
        let wider = [
            (TinyInt, BigInt),
            (UInt, UBigInt),
            (Float, Double),
            (Binary(Some(4)), Binary(Some(5))),
            (Binary(Some(4)), Binary(None)),
            (Binary(Some(4)), NChar(Some(4))),
            (Int, Int),
        ];
        assert!(wider.into_iter().all(|(from, to)| widens(from, to)));
        let narrower = [
            (BigInt, Int),
            (UInt, BigInt),
            (Int, Double),
            (Double, Float),
            (Binary(None), Binary(Some(65_517))),
            (NChar(Some(4)), Binary(Some(4))),
            (Binary(Some(4)), VarBinary(Some(4))),
            (Bool, TinyInt),
        ];
        assert!(!narrower.into_iter().any(|(from, to)| widens(from, to)));
    }

    #[test]
    fn partitions_are_no_longer_than_the_retention() {
        let day = 86_400_000;
        assert_eq!(partition_ms(None, 3_650 * day).unwrap(), 10 * day);
        assert_eq!(partition_ms(None, day).unwrap(), day / 3);
        assert_eq!(partition_ms(Some(day), day).unwrap(), day);
        assert!(partition_ms(Some(day + 1), day).is_err());
    }
}
