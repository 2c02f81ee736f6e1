//! Completion of keywords, functions, tables and columns.

use arrow::array::{Array, AsArray};
use rustyline::{
    Context, Helper, Highlighter, Hinter, Validator,
    completion::{Completer, Pair},
};

use crate::client::Client;

const KEYWORDS: &[&str] = &[
    "and",
    "as",
    "asc",
    "avg(",
    "between",
    "by",
    "count(",
    "create",
    "database",
    "databases",
    "desc",
    "describe",
    "distinct",
    "drop",
    "exists",
    "explain",
    "fill(",
    "first(",
    "from",
    "group",
    "having",
    "if",
    "in",
    "insert",
    "interval(",
    "into",
    "is",
    "last(",
    "last_row(",
    "like",
    "limit",
    "max(",
    "min(",
    "not",
    "null",
    "offset",
    "or",
    "order",
    "partition",
    "select",
    "show",
    "sliding(",
    "spread(",
    "stable",
    "stables",
    "stddev(",
    "sum(",
    "table",
    "tables",
    "tags",
    "tbname",
    "union",
    "use",
    "using",
    "values",
    "where",
];

/// Words offered for completion.
#[derive(Debug, Default)]
pub(crate) struct Words(Vec<String>);

impl Words {
    /// Keywords and, if the server returns them, the names of its databases, tables and columns.
    pub(crate) async fn load(client: &mut Client) -> Self {
        let mut words: Vec<String> = KEYWORDS.iter().map(|w| (*w).to_owned()).collect();
        let names = "select table_schema, table_name, column_name from information_schema.columns";
        // On failure the shell still completes keywords.
        for batch in client.collect(names).await.unwrap_or_default() {
            for column in batch.columns() {
                if let Some(names) = column.as_string_opt::<i32>() {
                    words.extend((0..names.len()).map(|i| names.value(i).to_owned()));
                }
            }
        }
        words.sort();
        words.dedup();
        Self(words)
    }

    /// The words that begin with `start`, ignoring case.
    fn continuing<'a>(&'a self, start: &'a str) -> impl Iterator<Item = &'a String> {
        let fits = move |w: &str| w.get(..start.len()).is_some_and(|head| head.eq_ignore_ascii_case(start));
        self.0.iter().filter(move |w| !start.is_empty() && fits(w))
    }
}

/// The editor's helper: completion only.
#[derive(Helper, Highlighter, Hinter, Validator)]
pub(crate) struct ShellHelper {
    words: Words,
}

impl ShellHelper {
    pub(crate) fn new(words: Words) -> Self {
        Self { words }
    }
}

impl Completer for ShellHelper {
    type Candidate = Pair;

    fn complete(&self, line: &str, pos: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<Pair>)> {
        let head = &line[..pos];
        let start = head
            .rfind(|c: char| !c.is_alphanumeric() && c != '_')
            .map_or(0, |i| i + head[i..].chars().next().map_or(1, char::len_utf8));
        let pair = |w: &String| Pair { display: w.clone(), replacement: w.clone() };
        Ok((start, self.words.continuing(&head[start..]).map(pair).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::Words;

    #[test]
    fn words_continue_what_was_typed_without_case() {
        let words = Words(vec!["devices".into(), "devid".into(), "select".into(), "é".into()]);
        assert_eq!(words.continuing("DEV").collect::<Vec<_>>(), ["devices", "devid"]);
        assert_eq!(words.continuing("").count(), 0);
    }
}
