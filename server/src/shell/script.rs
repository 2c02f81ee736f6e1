//! Splits the input of the shell into statements and commands.

use std::ops::Range;

use tidelake_protocol::sql::comment_end;

/// A part of the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Item<'a> {
    /// A statement without its `;`.
    Statement(&'a str),
    /// A command: the rest of a line from `\` on, or a line that begins with `.` and a letter, as in SQLite and DuckDB.
    Command(&'a str),
}

/// Words that people type to leave the shell or to get help, and their commands.
const WORDS: [(&str, &str); 3] = [("help", "\\?"), ("quit", "\\q"), ("exit", "\\q")];

/// Splits a whole text, whose last statement needs no `;`; returns each part with the line in which it begins, from 1.
pub(super) fn whole(text: &str) -> Vec<(usize, Item<'_>)> {
    let (mut items, rest) = split(text);
    items.extend(statement(text, rest..text.len()));
    let (mut line, mut counted) = (1, 0);
    let numbered = items.into_iter().map(|(at, item)| {
        line += text[counted..at].matches('\n').count();
        counted = at;
        (line, item)
    });
    numbered.collect()
}

/// Whether each statement of the text ends with `;`, so that no further line belongs to it.
pub(super) fn is_complete(text: &str) -> bool {
    statement(text, split(text).1..text.len()).is_none_or(|(_, rest)| matches!(rest, Item::Command(_)))
}

/// Splits text at `;` and at commands, outside quotes and comments; returns the parts with their offsets, and the offset of the rest
/// after the last one.
fn split(text: &str) -> (Vec<(usize, Item<'_>)>, usize) {
    let (mut items, mut start, mut quote) = (Vec::new(), 0, None);
    let bytes = text.as_bytes();
    let mut i = 0;
    while i < bytes.len() {
        if quote.is_none()
            && let Some(end) = comment_end(bytes, i)
        {
            i = end;
            continue;
        }
        match (quote, bytes[i]) {
            (None, b @ (b'\'' | b'"' | b'`')) => quote = Some(b),
            (Some(q), b) if b == q => quote = None,
            (None, b';') => {
                items.extend(statement(text, start..i));
                start = i + 1;
            }
            (None, _) if begins_command(&text[start..], i - start) => {
                items.extend(statement(text, start..i));
                let end = text[i..].find('\n').map_or(text.len(), |line| i + line);
                items.push((i, Item::Command(text[i..end].trim())));
                (start, i) = (end, end);
                continue;
            }
            _ => {}
        }
        i += 1;
    }
    (items, start)
}

/// Whether a command begins at offset `at` of a text that begins behind the last statement.
fn begins_command(text: &str, at: usize) -> bool {
    match text.as_bytes()[at] {
        b'\\' => true,
        b'.' => text.as_bytes().get(at + 1).is_some_and(u8::is_ascii_alphabetic) && is_blank(&text[..at]),
        _ => false,
    }
}

/// The statement in a part of the text without `;`, with its offset, unless there are only spaces and comments.
fn statement(text: &str, part: Range<usize>) -> Option<(usize, Item<'_>)> {
    let untrimmed = &text[part.clone()];
    let at = part.start + untrimmed.len() - untrimmed.trim_start().len();
    let trimmed = untrimmed.trim();
    let word = WORDS.iter().find(|(word, _)| trimmed.eq_ignore_ascii_case(word));
    match word {
        Some((_, command)) => Some((at, Item::Command(command))),
        None => (!is_blank(trimmed)).then_some((at, Item::Statement(trimmed))),
    }
}

fn is_blank(text: &str) -> bool {
    let bytes = text.as_bytes();
    let mut i = 0;
    while let Some(byte) = bytes.get(i) {
        match comment_end(bytes, i) {
            Some(end) => i = end,
            None if byte.is_ascii_whitespace() => i += 1,
            None => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::{
        Item::{Command, Statement},
        *,
    };

    fn items(text: &str) -> Vec<Item<'_>> {
        whole(text).into_iter().map(|(_, item)| item).collect()
    }

    #[test]
    fn parts_have_the_number_of_the_line_in_which_they_begin() {
        let text = "select 1;\n\n select\n2; \\x\n-- note\nselect 3";
        let lines: Vec<usize> = whole(text).into_iter().map(|(line, _)| line).collect();
        assert_eq!(lines, [1, 3, 4, 5], "a comment belongs to the statement behind it");
    }

    #[test]
    fn statements_end_at_semicolons_outside_quotes_and_comments() {
        for (text, expected) in [
            ("select ';' ; -- no; end\nselect 2;\n select", vec!["select ';'", "-- no; end\nselect 2", "select"]),
            ("select /* it's; /* a; */ b; */ 1; select /* ", vec!["select /* it's; /* a; */ b; */ 1", "select /*"]),
            ("use home; select 1", vec!["use home", "select 1"]),
            ("select 1; -- ; the end\n /* of ; it */ ", vec!["select 1"]),
            (";; ; -- nothing", vec![]),
            ("select `a;b`, \"c;d\\\";", vec!["select `a;b`, \"c;d\\\""]),
            ("select .5; select a.b", vec!["select .5", "select a.b"]),
        ] {
            let expected: Vec<Item<'_>> = expected.into_iter().map(Statement).collect();
            assert_eq!(items(text), expected, "{text}");
        }
    }

    #[test]
    fn commands_are_lines_and_may_follow_a_statement() {
        for (text, expected) in [
            ("\\d t", vec![Command("\\d t")]),
            ("  .mode csv\nselect 1;", vec![Command(".mode csv"), Statement("select 1")]),
            ("select 1 \\watch 2\nselect 2", vec![Statement("select 1"), Command("\\watch 2"), Statement("select 2")]),
            ("select 1; \\x", vec![Statement("select 1"), Command("\\x")]),
            ("\\copy (select ';') to 'a b.csv'", vec![Command("\\copy (select ';') to 'a b.csv'")]),
            ("-- note\n.quit", vec![Command(".quit")]),
            ("  QUIT ;", vec![Command("\\q")]),
            ("help", vec![Command("\\?")]),
            ("exit;", vec![Command("\\q")]),
            ("help me", vec![Statement("help me")]),
        ] {
            assert_eq!(items(text), expected, "{text}");
        }
    }

    #[test]
    fn a_text_is_complete_when_nothing_follows_its_last_semicolon() {
        for text in ["", " ", "-- note", "select 1;", "select 1; -- end", "\\d", ".tables", "help", "quit", "a;\nb;"] {
            assert!(is_complete(text), "{text}");
        }
        for text in ["select 1", "select ';", "select 1; select", "select /* ;", "helpful"] {
            assert!(!is_complete(text), "{text}");
        }
    }
}
