//! What an import would do, for a person: columns with roles, types and values, the statement that creates the table.

use arrow::datatypes::{Schema, TimeUnit};
use serde_json::Value;
use tidelake_format::{Error, Result, schema::Role, types::Type};
use tidelake_ingest::decode::arrow::infer_table;

use crate::{
    check::{Check, Checked, Profile, check},
    input::unwatched,
    keys::{self, Bounds, Explained},
    roles::{self, Named, Roles},
    shape::{Prepared, Shape},
    source::{Source, Wrong, Wrongs},
    table::{Table, short_name},
    value::value,
    words::many,
};

/// Number of rows shown.
pub const SHOWN_ROWS: usize = 20;
/// Number of wrong rows described.
pub const SHOWN_WRONG: usize = 10;

/// A column of an import.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Column {
    /// Name.
    pub name: String,
    /// `time`, `tag`, `field`, `name` (of the series) or `omitted`.
    pub role: &'static str,
    /// Type as the option for types takes it.
    pub ty: String,
    /// Number of distinct values; `None` if there are too many to count.
    pub distinct: Option<u64>,
    /// Number of nulls.
    pub nulls: u64,
    /// The first distinct values.
    pub examples: Vec<String>,
    /// A remark.
    pub note: Option<String>,
}

/// What an import would do.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Preview {
    /// The columns, in the order of the files.
    pub columns: Vec<Column>,
    /// The first rows, with the columns that are not omitted.
    pub rows: Vec<Vec<Value>>,
    /// Number of rows that were read.
    pub rows_read: u64,
    /// Number of rows that cannot be read.
    pub wrong: u64,
    /// Whether there are more rows, which were not read.
    pub is_partial: bool,
    /// Whether the table exists.
    pub table_exists: bool,
    /// The statement that creates the table; `None` if it exists or its time column is not known.
    pub statement: Option<String>,
    /// Remarks.
    pub notices: Vec<String>,
    /// Rows with the series and time of another row.
    pub repeats: Option<Repeated>,
}

/// Rows that would replace each other.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Repeated {
    /// Their number.
    pub rows: u64,
    /// An example.
    pub explained: Explained,
}

/// The target and the options of an import.
pub struct Target<'a> {
    /// The database, if it is known.
    pub database: Option<&'a str>,
    /// The table.
    pub name: &'a str,
    /// The table, if it exists.
    pub table: Option<&'a Table>,
    /// The roles named by the user.
    pub named: &'a Named,
    /// The unit of numeric times.
    pub unit: TimeUnit,
    /// Whether times that seem to be in another unit are wrong.
    pub checks: bool,
}

/// Reads the first rows and describes what an import would do.
///
/// A file without a time column is described, too, with a notice: the user may name the column then.
///
/// # Errors
/// A file cannot be read, or the roles contradict the files or the table.
pub fn preview(source: Source, target: &Target<'_>, bounds: Bounds) -> Result<Preview> {
    let mut found = Preview { table_exists: target.table.is_some(), ..Preview::default() };
    let roles = match roles::roles(&source, target.named, target.table) {
        Ok((roles, _)) => Some(roles),
        Err(error) if target.named.time.is_none() && target.table.is_none() && !roles::has_time(&source) => {
            found.notices.push(error.to_string());
            None
        }
        Err(error) => return Err(error),
    };
    found.notices.extend(source.notices().map(str::to_owned));
    let prepared = match &roles {
        Some(roles) => {
            let shape = Shape::new(&source, roles, target.unit, target.table.is_none(), target.checks)?;
            if target.table.is_none() {
                found.statement = Some(statement(shape.schema(), target.database, target.name)?);
            }
            Prepared { source, shape }
        }
        None => Prepared { shape: Shape::plain(&source), source },
    };
    let progress = unwatched();
    let how = Check { wrongs: Wrongs::Skip, bounds, profiles: true, progress: &progress };
    let mut wrongs: Vec<Wrong> = Vec::new();
    let checked = check(&prepared, roles.as_ref(), how, |wrong| {
        if wrongs.len() < SHOWN_WRONG {
            wrongs.push(wrong);
        }
        Ok(())
    })?;
    describe_wrong(&prepared.source, &wrongs, checked.wrong, &mut found.notices);
    found.columns = columns(&prepared, roles.as_ref(), &checked);
    found.rows = first_rows(&prepared)?;
    (found.rows_read, found.wrong, found.is_partial) = (checked.repeats.rows, checked.wrong, checked.is_partial);
    if checked.repeats.replaced > 0
        && let Some(roles) = &roles
    {
        let tags = target.table.map(|table| table.list(Some(Role::Tag)));
        let repeats = &checked.repeats;
        let explained = keys::explain(&prepared, roles, tags.as_deref(), repeats, Wrongs::Skip, bounds)?;
        found.repeats = Some(Repeated { rows: repeats.replaced, explained });
    }
    Ok(found)
}

/// Adds notices for the first wrong rows, and for the number of the others.
pub fn describe_wrong(source: &Source, wrongs: &[Wrong], count: u64, notices: &mut Vec<String>) {
    notices
        .extend(wrongs.iter().map(|wrong| format!("{}: {}", source.position(wrong.file, wrong.place), wrong.reason)));
    let others = count.saturating_sub(wrongs.len() as u64);
    if others > 0 {
        notices.push(format!("and {} that cannot be read", many(others, "more row")));
    }
}

fn columns(prepared: &Prepared, roles: Option<&Roles>, checked: &Checked) -> Vec<Column> {
    let fields = prepared.shape.schema().fields().iter().zip(&checked.profiles).enumerate();
    let kept = fields.map(|(at, (field, profile))| {
        let Profile { nulls, distinct, examples, .. } = profile;
        Column {
            name: field.name().clone(),
            role: roles.map_or("field", |roles| roles.role(at)),
            ty: short_name(field.data_type()),
            distinct: distinct.map(|n| n as u64),
            nulls: *nulls,
            examples: examples.clone(),
            note: None,
        }
    });
    let omitted = prepared.source.omitted.iter().map(|omitted| Column {
        name: omitted.name.clone(),
        role: "omitted",
        ty: "text".to_owned(),
        distinct: (!omitted.by_request).then_some(0),
        nulls: if omitted.by_request { 0 } else { checked.repeats.rows },
        examples: Vec::new(),
        note: (!omitted.by_request).then(|| "no row has a value in it".to_owned()),
    });
    kept.chain(omitted).collect()
}

fn first_rows(prepared: &Prepared) -> Result<Vec<Vec<Value>>> {
    let mut rows = Vec::new();
    for numbered in prepared.rows(Wrongs::Skip, &unwatched()) {
        let batch = numbered?.batch;
        let more = batch.num_rows().min(SHOWN_ROWS - rows.len());
        rows.extend((0..more).map(|row| batch.columns().iter().map(|column| value(column, row)).collect()));
        if rows.len() == SHOWN_ROWS {
            break;
        }
    }
    Ok(rows)
}

/// The statement that creates the table of these batches.
///
/// # Errors
/// Invalid naming the column whose type no table has.
pub fn statement(schema: &Schema, database: Option<&str>, table: &str) -> Result<String> {
    create(&infer_table(schema)?, database, table)
}

/// The statement that creates a table with these columns.
///
/// # Errors
/// Invalid if a table cannot have these columns.
pub fn create(columns: &[(String, Role, Type)], database: Option<&str>, table: &str) -> Result<String> {
    use tidelake_format::{
        ids::{DatabaseId, TableId},
        schema::Supertable,
    };
    Supertable::new(TableId(1), DatabaseId(1), table, columns.iter().cloned())?;
    let list = |is_listed: fn(Role) -> bool| {
        let listed = columns.iter().filter(|(_, role, _)| is_listed(*role));
        listed.map(|(name, _, ty)| format!("{} {ty}", quoted(name))).collect::<Vec<_>>().join(", ")
    };
    let database = database.map(|name| quoted(name) + ".").unwrap_or_default();
    let mut create = format!("CREATE STABLE {database}{} ({})", quoted(table), list(|role| role != Role::Tag));
    if columns.iter().any(|(_, role, _)| *role == Role::Tag) {
        create.push_str(&format!(" TAGS ({})", list(|role| role == Role::Tag)));
    }
    Ok(create)
}

/// A name in backticks.
fn quoted(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

/// The error for rows that replace each other.
pub fn refusal(source: &Source, repeats: &keys::Repeats, explained: &Explained) -> Error {
    let keys::Repeats { rows, replaced, .. } = repeats;
    let place = match (source.len(), source.name(0)) {
        (1, name) if !name.is_empty() => format!("{name}: "),
        _ => String::new(),
    };
    let mut text = format!(
        "{place}nothing was written: {replaced} of {} {} the same series and time as another row and would replace it",
        many(*rows, "row"),
        if *replaced == 1 { "has" } else { "have" }
    );
    let Explained { example, hint } = explained;
    if !example.is_empty() {
        text += &format!(", for example {example}; {hint}");
    }
    let overwrite = source.words.overwrite;
    Error::invalid(format!("{text}; {overwrite} imports them, and the last row of each series and time wins"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        input::{FileFormat, spool},
        source::Reading,
        words::Words,
    };

    fn of(text: &str, named: &Named) -> Result<Preview> {
        let input = spool(text.as_bytes(), "").unwrap();
        let reading = Reading { nulls: Vec::new(), types: Vec::new(), sample: 100, words: Words::HTTP };
        let source = Source::inspect(vec![(input, FileFormat::Csv)], reading).unwrap();
        let target =
            Target { database: Some("db"), name: "t", table: None, named, unit: TimeUnit::Second, checks: true };
        preview(source, &target, Bounds { rows: 1_000, in_memory: 1_000 })
    }

    #[test]
    fn columns_rows_and_the_statement_are_described() {
        let text = "ts,host,v,w\n2026-01-01T00:00:00Z,a,1.5,\n2026-01-01T00:00:01Z,a,,\n2026-01-01T00:00:02Z,b,3,\n";
        let found = of(text, &Named { time: None, tags: Some(vec!["host".to_owned()]) }).unwrap();
        let expected = "CREATE STABLE `db`.`t` (`ts` TIMESTAMP, `v` DOUBLE) TAGS (`host` VARCHAR)";
        assert_eq!(found.statement.as_deref(), Some(expected));
        let columns: Vec<_> = found.columns.iter().map(|c| (c.name.as_str(), c.role, c.ty.as_str(), c.nulls)).collect();
        let expected = [
            ("ts", "time", "timestamp", 0),
            ("host", "tag", "text", 0),
            ("v", "field", "double", 1),
            ("w", "omitted", "text", 3),
        ];
        assert_eq!(columns, expected);
        assert_eq!(
            (found.columns[1].distinct, found.columns[1].examples.clone()),
            (Some(2), vec!["a".to_owned(), "b".to_owned()])
        );
        assert_eq!(found.rows_read, 3);
        assert_eq!(serde_json::json!(found.rows[0]), serde_json::json!(["2026-01-01T00:00:00Z", "a", 1.5]));
        assert_eq!(found.repeats, None);
    }

    #[test]
    fn repeats_and_a_missing_time_are_described() {
        let text = "ts,host,v\n1,a,1\n1,b,2\n";
        let found = of(text, &Named { time: None, tags: Some(Vec::new()) }).unwrap();
        let repeats = found.repeats.unwrap();
        assert_eq!((repeats.rows, repeats.explained.hint.as_str()), (1, "tags=host makes each row unique"));
        let found = of("a,b\nx,1\n", &Named::default()).unwrap();
        assert_eq!((found.statement, found.rows.len()), (None, 1));
        assert!(found.notices[0].starts_with("no time column"), "{:?}", found.notices);
        assert!(of("a,b\nx,1\n", &Named { time: Some("c".to_owned()), tags: None }).is_err());
    }
}
