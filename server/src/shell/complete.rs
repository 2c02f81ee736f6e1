//! Completion: the words that fit at the cursor, chosen by the words before it.

use std::time::Duration;

use arrow::array::AsArray;

use super::{command::Command, print::Mode};
use crate::client::Client;

/// Keywords of statements, in order.
pub(super) const KEYWORDS: &[&str] = &[
    "all",
    "alter",
    "and",
    "as",
    "asc",
    "between",
    "by",
    "case",
    "cast",
    "count_window",
    "create",
    "cross",
    "database",
    "databases",
    "delete",
    "desc",
    "describe",
    "distinct",
    "drop",
    "else",
    "end",
    "event_window",
    "except",
    "exists",
    "explain",
    "false",
    "fill",
    "from",
    "full",
    "functions",
    "group",
    "having",
    "if",
    "in",
    "inner",
    "insert",
    "intersect",
    "interval",
    "into",
    "is",
    "join",
    "keep",
    "kill",
    "left",
    "like",
    "limit",
    "linear",
    "next",
    "not",
    "null",
    "offset",
    "on",
    "or",
    "order",
    "outer",
    "over",
    "partition",
    "precision",
    "prev",
    "queries",
    "query",
    "range",
    "right",
    "select",
    "session",
    "show",
    "sliding",
    "stable",
    "stables",
    "state_window",
    "table",
    "tables",
    "tags",
    "tbname",
    "then",
    "true",
    "union",
    "use",
    "using",
    "values",
    "variables",
    "when",
    "where",
    "with",
];
/// Words after which a table is named.
const BEFORE_TABLES: &[&str] = &["from", "join", "into", "table", "stable", "describe", "update"];
/// Words after which a database is named.
const BEFORE_DATABASES: &[&str] = &["use", "database"];
/// Number of values of a tag that are offered.
const VALUES: usize = 50;
/// Longest wait for them.
const VALUES_WITHIN: Duration = Duration::from_secs(1);

/// What a position can be completed with.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Offer {
    /// These texts, in place of the text from this offset on.
    Words(usize, Vec<String>),
    /// The values of a tag that begin with the text from this offset on.
    Values { start: usize, table: String, column: String, prefix: String },
}

/// A table and its columns.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Table {
    database: String,
    name: String,
    columns: Vec<String>,
}

/// The names that the server knows.
#[derive(Debug, Default)]
pub(super) struct Catalog {
    databases: Vec<String>,
    tables: Vec<Table>,
    functions: Vec<String>,
    /// The database of unqualified table names.
    pub(super) database: Option<String>,
}

impl Catalog {
    /// Reads the names; where the server does not return them, keywords are still completed.
    pub(super) async fn load(client: &mut Client) -> Self {
        let databases = texts(client, "show databases").await;
        let functions = texts(client, "select name from system.functions order by name").await;
        let names = "select table_schema || chr(10) || table_name || chr(10) || column_name as name \
                     from information_schema.columns where table_schema not in ('information_schema', 'system')";
        let mut tables: Vec<Table> = Vec::new();
        for name in texts(client, names).await {
            let mut parts = name.splitn(3, '\n').map(str::to_owned);
            let (Some(database), Some(name), Some(column)) = (parts.next(), parts.next(), parts.next()) else {
                continue;
            };
            match tables.last_mut().filter(|table| table.database == database && table.name == name) {
                Some(table) => table.columns.push(column),
                None => tables.push(Table { database, name, columns: vec![column] }),
            }
        }
        let database = client.database().map(str::to_owned);
        Self { databases, tables, functions, database }
    }

    /// The completions at the end of `head`, the text before the cursor; `text` is all of the input.
    pub(super) fn offer(&self, head: &str, text: &str) -> Offer {
        let line_start = head.rfind('\n').map_or(0, |at| at + 1);
        let line = &head[line_start..];
        if let Some(command) = line.find(['\\', '.']).filter(|at| line[..*at].trim().is_empty()) {
            return self.of_command(head, line_start + command);
        }
        if let Some(open) = open_quote(head) {
            return self.of_text(head, open, text);
        }
        let start = head
            .rfind(|c: char| !c.is_alphanumeric() && !matches!(c, '_' | '.'))
            .map_or(0, |at| at + head[at..].chars().next().map_or(1, char::len_utf8));
        let (word, before) = (&head[start..], last_word(&head[..start]));
        let all: Vec<String> = if BEFORE_DATABASES.contains(&before.as_str()) {
            self.databases.clone()
        } else if BEFORE_TABLES.contains(&before.as_str()) {
            self.table_names()
        } else if let Some((of, _)) = word.rsplit_once('.') {
            // A table, or an alias of one.
            let tables = self.mentioned(text);
            let named: Vec<&Table> = tables.iter().copied().filter(|t| t.name.eq_ignore_ascii_case(of)).collect();
            let tables = if named.is_empty() { tables } else { named };
            tables.iter().flat_map(|table| &table.columns).map(|column| format!("{of}.{}", quoted(column))).collect()
        } else {
            let mut tables = self.mentioned(text);
            if tables.is_empty() {
                // FROM is often typed last.
                tables.extend(self.tables.iter().filter(|table| self.is_chosen(table)));
            }
            let columns = tables.into_iter().flat_map(|table| &table.columns).map(|name| quoted(name));
            let functions = self.functions.iter().map(|name| format!("{name}("));
            columns.chain(KEYWORDS.iter().map(|word| (*word).to_owned())).chain(functions).collect()
        };
        Offer::Words(start, continuing(all, word))
    }

    fn of_command(&self, head: &str, start: usize) -> Offer {
        let text = &head[start..];
        let Some((name, argument)) = text.split_once(char::is_whitespace) else {
            return Offer::Words(start, continuing(Command::names().map(str::to_owned).collect(), text));
        };
        let argument_start = head.len() - argument.trim_start().len();
        let all = match name {
            "\\u" | "\\c" | ".use" => self.databases.clone(),
            "\\d" | ".schema" | "\\copy" => self.table_names(),
            "\\df" | ".functions" => self.functions.clone(),
            "\\f" | ".mode" => Mode::names().split(", ").map(str::to_owned).collect(),
            "\\x" | "\\timing" | ".timer" | "\\pager" => vec!["on".to_owned(), "off".to_owned()],
            _ => Vec::new(),
        };
        Offer::Words(argument_start, continuing(all, argument.trim_start()))
    }

    /// A text that is compared with a column: the column's values.
    fn of_text(&self, head: &str, open: usize, text: &str) -> Offer {
        let mut before = head[..open].trim_end();
        // The other values of a list.
        if let Some((list, _)) = before.rsplit_once('(').filter(|(list, _)| last_word(list) == "in") {
            before = &list[..list.trim_end().len() - 2];
        } else {
            before = before.trim_end_matches(['=', '<', '>', '!']).trim_end();
            before = if last_word(before) == "like" { &before[..before.len() - 4] } else { before };
        }
        let column = last_word(before);
        let is_compared = before.len() < head[..open].trim_end().len();
        let of_column = |table: &&Table| table.columns.iter().any(|name| name.eq_ignore_ascii_case(&column));
        match self.mentioned(text).into_iter().find(of_column).filter(|_| is_compared) {
            Some(table) => Offer::Values {
                start: open + 1,
                table: format!("{}.{}", quoted(&table.database), quoted(&table.name)),
                column,
                prefix: head[open + 1..].to_owned(),
            },
            None => Offer::Words(head.len(), Vec::new()),
        }
    }

    /// Tables of the chosen database by their names, all others with their databases, and databases.
    fn table_names(&self) -> Vec<String> {
        let of_table = |table: &Table| match self.is_chosen(table) {
            true => quoted(&table.name),
            false => format!("{}.{}", quoted(&table.database), quoted(&table.name)),
        };
        self.tables.iter().map(of_table).collect()
    }

    /// Whether a table is in the database of unqualified names.
    fn is_chosen(&self, table: &Table) -> bool {
        self.database.as_deref() == Some(&table.database)
    }

    /// The tables whose names are words of a text.
    fn mentioned(&self, text: &str) -> Vec<&Table> {
        let words: Vec<String> = text
            .split(|c: char| !c.is_alphanumeric() && c != '_')
            .filter(|word| !word.is_empty())
            .map(str::to_lowercase)
            .collect();
        let is_named = |name: &str| match name.chars().all(|c| c.is_alphanumeric() || c == '_') {
            true => words.contains(&name.to_lowercase()),
            false => text.contains(name),
        };
        let named = self.tables.iter().filter(|table| is_named(&table.name));
        let (here, elsewhere): (Vec<&Table>, Vec<&Table>) =
            named.partition(|table| is_named(&table.database) || self.is_chosen(table));
        if here.is_empty() { elsewhere } else { here }
    }
}

/// The values of a tag that begin with a text; none for a column that is not a tag, whose values are not indexed.
pub(super) async fn values(client: &mut Client, table: &str, column: &str, prefix: &str) -> Vec<String> {
    let found = async {
        let described = client.collect(&format!("describe {table}")).await.unwrap_or_default();
        let is_tag = described.iter().any(|batch| {
            let of = |at: usize| batch.columns().get(at).and_then(|column| column.as_string_opt::<i32>());
            let (Some(names), Some(notes)) = (of(0), of(3)) else { return false };
            (0..batch.num_rows()).any(|row| names.value(row).eq_ignore_ascii_case(column) && notes.value(row) == "TAG")
        });
        if !is_tag {
            return Vec::new();
        }
        let (column, pattern) = (quoted(column), prefix.replace('\'', "''").replace('%', "_"));
        let of = format!("select distinct {column} from {table} where {column} like '{pattern}%'");
        texts(client, &format!("{of} order by 1 limit {VALUES}")).await
    };
    tokio::time::timeout(VALUES_WITHIN, found).await.unwrap_or_default()
}

/// The first column of a query, as text.
async fn texts(client: &mut Client, sql: &str) -> Vec<String> {
    let batches = client.collect(sql).await.unwrap_or_default();
    let columns = batches.iter().filter_map(|batch| batch.columns().first()?.as_string_opt::<i32>());
    columns.flat_map(|column| column.iter().flatten().map(str::to_owned)).collect()
}

/// A name as statements write it.
fn quoted(name: &str) -> String {
    let is_plain = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') && !name.is_empty();
    if is_plain { name.to_owned() } else { format!("`{}`", name.replace('`', "``")) }
}

/// Those of the texts that begin with `start`, ignoring case, each once.
fn continuing(all: Vec<String>, start: &str) -> Vec<String> {
    let fits = |text: &str| text.get(..start.len()).is_some_and(|head| head.eq_ignore_ascii_case(start));
    let mut found: Vec<String> = Vec::new();
    for text in all {
        if fits(&text) && !found.contains(&text) {
            found.push(text);
        }
    }
    found
}

/// The last word of a text in lower case, without quotes; empty if something else follows it.
fn last_word(text: &str) -> String {
    let text = text.trim_end();
    let text = text.strip_suffix('`').unwrap_or(text);
    let start = text
        .rfind(|c: char| !c.is_alphanumeric() && c != '_')
        .map_or(0, |at| at + text[at..].chars().next().map_or(1, char::len_utf8));
    text[start..].to_lowercase()
}

/// The offset of a `'` that is not closed.
fn open_quote(text: &str) -> Option<usize> {
    let mut open = None;
    for (at, _) in text.match_indices('\'') {
        open = if open.is_some() { None } else { Some(at) };
    }
    open
}

#[cfg(test)]
mod tests {
    use super::*;

    fn catalog() -> Catalog {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let table = |database: &str, name: &str, columns: &[&str]| Table {
            database: database.to_owned(),
            name: name.to_owned(),
            columns: names(columns),
        };
        Catalog {
            databases: names(&["home", "plant"]),
            tables: vec![
                table("home", "climate", &["ts", "temperature", "room", "a tag"]),
                table("plant", "climate", &["ts", "pressure"]),
                table("plant", "pumps", &["ts", "speed", "hall"]),
            ],
            functions: names(&["avg", "first", "last"]),
            database: Some("home".to_owned()),
        }
    }

    fn words(head: &str, rest: &str) -> Vec<String> {
        match catalog().offer(head, &format!("{head}{rest}")) {
            Offer::Words(start, words) => words.into_iter().map(|word| format!("{}{word}", &head[..start])).collect(),
            other => panic!("{head}: {other:?}"),
        }
    }

    #[test]
    fn words_fit_their_place() {
        for (head, rest, expected) in [
            ("select * from cl", "", vec!["select * from climate"]),
            ("select * from pl", "", vec!["select * from plant.climate", "select * from plant.pumps"]),
            ("select temp", " from climate", vec!["select temperature"]),
            ("select max(roo", "", vec!["select max(room"]),
            ("select sp", " from plant.pumps", vec!["select speed"]),
            ("select c.pr", " from plant.climate c", vec!["select c.pressure"]),
            (
                "select a",
                " from climate",
                vec!["select all", "select alter", "select and", "select as", "select asc", "select avg("],
            ),
            ("use p", "", vec!["use plant"]),
            ("SELEC", "", vec!["select"]),
            ("\\d p", "", vec!["\\d plant.climate", "\\d plant.pumps"]),
            ("\\tim", "", vec!["\\timing"]),
            (".mode ma", "", vec![".mode markdown"]),
            ("\\x of", "", vec!["\\x off"]),
            ("select 'abc", "", vec![]),
        ] {
            assert_eq!(words(head, rest), expected, "{head}");
        }
    }

    #[test]
    fn a_text_that_is_compared_with_a_column_is_completed_with_its_values() {
        for (head, prefix) in [
            ("select * from climate where room = 'k", "k"),
            ("select * from climate where room='", ""),
            ("select * from climate where ROOM != '", ""),
            ("select * from climate where room in ('a', 'b", "b"),
            ("select * from climate where `room` like 'c", "c"),
        ] {
            let Offer::Values { start, table, column, prefix: found } = catalog().offer(head, head) else {
                panic!("{head}");
            };
            assert_eq!((table.as_str(), column.as_str()), ("home.climate", "room"), "{head}");
            assert_eq!((found.as_str(), &head[start..]), (prefix, prefix), "{head}");
        }
        assert_eq!(catalog().offer("select 'x", "select 'x from climate"), Offer::Words(9, Vec::new()));
    }

    #[test]
    fn keywords_are_in_order() {
        assert!(KEYWORDS.is_sorted());
    }
}
