//! Audit log entries of statements: action and objects, without passwords.

use std::fmt::{Display, Formatter, Result as Written};

use tidelake_format::{access::Deed, layout, schema::Role};

use super::statement::{
    AccessStatement, AlterAction, Comparison, CreateDatabase, CreateTable, Kill, Literal, Predicate, Statement,
    TableName,
};

impl Statement {
    /// The audit entry of the statement in a session with this database.
    pub fn deed(&self, database: Option<&str>) -> Deed {
        let object = |table: &TableName| match table.database.as_deref().or(database) {
            Some(database) => format!("{database}.{}", table.name),
            None => table.name.clone(),
        };
        match self {
            Statement::CreateDatabase(create) => Deed::new("CREATE DATABASE", &create.name).with(create.to_string()),
            Statement::DropDatabase { name, .. } => Deed::new("DROP DATABASE", name),
            Statement::AlterDatabase(alter) => {
                Deed::new("ALTER DATABASE", &alter.name).with(alter.keep_ms.map_or(String::new(), keep))
            }
            Statement::CreateTable(create) => Deed::new("CREATE TABLE", object(&create.table)).with(create.to_string()),
            Statement::CreateSubtables(creates) => {
                let mut using: Vec<String> = creates.iter().map(|create| object(&create.using)).collect();
                using.dedup();
                let objects = creates.iter().map(|create| object(&create.table)).collect();
                Deed { action: "CREATE TABLE", objects, detail: format!("USING {}", using.join(", ")) }
            }
            Statement::DropTables(drop) => {
                let objects = drop.tables.iter().map(|(table, _)| object(table)).collect();
                Deed { action: "DROP TABLE", objects, detail: String::new() }
            }
            Statement::Alter(alter) => Deed::new("ALTER TABLE", object(&alter.table)).with(alter.action.to_string()),
            Statement::Delete(delete) => {
                let filter = delete.filter.as_ref().map_or(String::new(), |filter| format!("WHERE {filter}"));
                Deed::new("DELETE", object(&delete.table)).with(filter)
            }
            Statement::Access(access) => {
                let (action, object) = access.names();
                Deed::new(action, object).with(access.to_string())
            }
            Statement::GiveUp(position) => Deed::new("GIVE UP", layout::log_key(*position)),
            Statement::Insert(_) => Deed { action: "INSERT", ..Deed::default() },
            Statement::Use(name) => Deed::new("USE", name),
            Statement::Kill(Kill::Query(id)) => Deed::new("KILL QUERY", id),
            Statement::Kill(Kill::Connection(id)) => Deed::new("KILL CONNECTION", id),
        }
    }
}

impl AccessStatement {
    fn names(&self) -> (&'static str, &str) {
        match self {
            AccessStatement::CreateUser { name, .. } => ("CREATE USER", name),
            AccessStatement::AlterUser { name, .. } => ("ALTER USER", name),
            AccessStatement::DropUser { name, .. } => ("DROP USER", name),
            AccessStatement::Grant { user, .. } => ("GRANT", user),
            AccessStatement::Revoke { user, .. } => ("REVOKE", user),
            AccessStatement::CreateToken { name, .. } => ("CREATE TOKEN", name),
            AccessStatement::DropToken { name, .. } => ("DROP TOKEN", name),
            AccessStatement::RotateSessions { user } => ("ROTATE SESSIONS", user.as_deref().unwrap_or("*")),
        }
    }
}

fn keep(keep_ms: i64) -> String {
    format!("KEEP {}m", keep_ms / 60_000)
}

impl Display for CreateDatabase {
    fn fmt(&self, f: &mut Formatter<'_>) -> Written {
        let precision = self.precision.map(|precision| format!("PRECISION {precision:?}"));
        let duration = self.partition_ms.map(|length| format!("DURATION {}m", length / 60_000));
        let given: Vec<String> = [precision, self.keep_ms.map(keep), duration].into_iter().flatten().collect();
        f.write_str(&given.join(" "))
    }
}

impl Display for CreateTable {
    fn fmt(&self, f: &mut Formatter<'_>) -> Written {
        for (n, (name, role, ty)) in self.columns.iter().enumerate() {
            let tag = if *role == Role::Tag { "TAG " } else { "" };
            write!(f, "{}{tag}{name} {ty}", if n == 0 { "" } else { ", " })?;
        }
        self.keep_ms.map_or(Ok(()), |keep_ms| write!(f, " {}", keep(keep_ms)))
    }
}

impl Display for AlterAction {
    fn fmt(&self, f: &mut Formatter<'_>) -> Written {
        let what = |role: &Role| if *role == Role::Tag { "TAG" } else { "COLUMN" };
        match self {
            AlterAction::Add { name, role, ty } => write!(f, "ADD {} {name} {ty}", what(role)),
            AlterAction::Drop { name, role } => write!(f, "DROP {} {name}", what(role)),
            AlterAction::Modify { name, role, ty } => write!(f, "MODIFY {} {name} {ty}", what(role)),
            AlterAction::Rename { name, role, to } => write!(f, "RENAME {} {name} {to}", what(role)),
            AlterAction::SetTags(tags) => {
                for (n, (name, value)) in tags.iter().enumerate() {
                    write!(f, "{}{name} = {value}", if n == 0 { "SET TAG " } else { ", " })?;
                }
                Ok(())
            }
            AlterAction::Keep(keep_ms) => f.write_str(&keep(*keep_ms)),
        }
    }
}

impl Display for Predicate {
    fn fmt(&self, f: &mut Formatter<'_>) -> Written {
        let mut joined = |all: &[Predicate], word: &str| {
            for (n, one) in all.iter().enumerate() {
                write!(f, "{}({one})", if n == 0 { "" } else { word })?;
            }
            Ok(())
        };
        match self {
            Predicate::And(all) => joined(all, " AND "),
            Predicate::Or(all) => joined(all, " OR "),
            Predicate::Not(one) => write!(f, "NOT ({one})"),
            Predicate::Compare { column, op, value } => write!(f, "{column} {op} {value}"),
            Predicate::In { column, values } => {
                write!(f, "{column} IN (")?;
                for (n, value) in values.iter().enumerate() {
                    write!(f, "{}{value}", if n == 0 { "" } else { ", " })?;
                }
                f.write_str(")")
            }
            Predicate::Like { column, pattern } => write!(f, "{column} LIKE {pattern}"),
            Predicate::IsNull { column } => write!(f, "{column} IS NULL"),
        }
    }
}

impl Display for Comparison {
    fn fmt(&self, f: &mut Formatter<'_>) -> Written {
        f.write_str(match self {
            Comparison::Equal => "=",
            Comparison::NotEqual => "<>",
            Comparison::Less => "<",
            Comparison::LessOrEqual => "<=",
            Comparison::Greater => ">",
            Comparison::GreaterOrEqual => ">=",
        })
    }
}

impl Display for Literal {
    fn fmt(&self, f: &mut Formatter<'_>) -> Written {
        match self {
            Literal::Text(text) => write!(f, "'{}'", text.replace('\'', "''")),
            Literal::Bare(text) => f.write_str(text),
            Literal::Instant(ns) => write!(f, "{ns}"),
            Literal::Parameter(_) => f.write_str("?"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{DoubleQuotes, parse};

    #[test]
    fn a_statement_is_recorded_by_what_it_does_and_to_what() {
        let segment = "log/000000000000000000000000000000ab/00000000000000000007";
        let comment = format!("/*{}*/", "x".repeat(5_000));
        for (sql, action, objects, detail) in [
            (format!("drop {comment} database `Victim`"), "DROP DATABASE", "Victim", ""),
            (format!("drop table {comment} if exists a, other.b"), "DROP TABLE", "home.a, other.b", ""),
            ("create database d keep 10d".into(), "CREATE DATABASE", "d", "KEEP 14400m"),
            ("alter database d keep 2d".into(), "ALTER DATABASE", "d", "KEEP 2880m"),
            ("create table t (ts timestamp, v double) tags (k int)".into(), "CREATE TABLE", "home.t", "v DOUBLE"),
            (
                "create table a using t tags (1) b using t tags (2)".into(),
                "CREATE TABLE",
                "home.a, home.b",
                "USING home.t",
            ),
            ("alter table t drop column v".into(), "ALTER TABLE", "home.t", "DROP COLUMN v"),
            ("alter table a set tag k = 7".into(), "ALTER TABLE", "home.a", "SET TAG k = 7"),
            ("delete from t where ts > 5 and k in ('a''b', 'c')".into(), "DELETE", "home.t", "IN ('a''b', 'c')"),
            ("create user eve password 'correct horse'".into(), "CREATE USER", "eve", "PASSWORD '***'"),
            ("grant admin to eve".into(), "GRANT", "eve", "ADMIN"),
            (format!("give up '{segment}'"), "GIVE UP", segment, ""),
        ] {
            let statement = parse(&sql, DoubleQuotes::Text).unwrap_or_else(|e| panic!("{sql}: {e}")).unwrap();
            let deed = statement.deed(Some("home"));
            assert_eq!((deed.action, deed.objects.join(", ").as_str()), (action, objects), "{action}");
            assert!(deed.detail.contains(detail) && !deed.detail.contains("horse"), "{action}: {}", deed.detail);
        }
    }
}
