//! Colours of the parts of a statement in the editor.

use std::borrow::Cow;

use tidelake_protocol::sql::comment_end;

use super::complete::KEYWORDS;

/// What a part of a statement is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Keyword,
    Function,
    Text,
    Number,
    Comment,
    Other,
}

impl Part {
    /// The ANSI colour, one that light and dark terminals show.
    fn colour(self) -> Option<&'static str> {
        match self {
            Part::Keyword => Some("1;34"),
            Part::Function => Some("36"),
            Part::Text => Some("32"),
            Part::Number => Some("35"),
            Part::Comment => Some("90"),
            Part::Other => None,
        }
    }
}

/// The statement with colours.
pub(super) fn highlighted(text: &str) -> Cow<'_, str> {
    let parts = parts(text);
    if parts.iter().all(|(part, _)| part.colour().is_none()) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() * 2);
    for (part, text) in parts {
        match part.colour() {
            Some(colour) => out.extend(["\u{1b}[", colour, "m", text, "\u{1b}[0m"]),
            None => out.push_str(text),
        }
    }
    Cow::Owned(out)
}

/// Splits a text into parts, which together are the text.
fn parts(text: &str) -> Vec<(Part, &str)> {
    let bytes = text.as_bytes();
    let (mut parts, mut i) = (Vec::new(), 0);
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80;
    while i < bytes.len() {
        let (part, end) = match (comment_end(bytes, i), bytes[i]) {
            (Some(end), _) => (Part::Comment, end.min(bytes.len())),
            (None, quote @ (b'\'' | b'"' | b'`')) => {
                let end = bytes[i + 1..].iter().position(|b| *b == quote).map_or(bytes.len(), |at| i + at + 2);
                (if quote == b'\'' { Part::Text } else { Part::Other }, end)
            }
            (None, byte) if byte.is_ascii_digit() => {
                let is_number = |b: u8| is_word(b) || b == b'.';
                (Part::Number, bytes[i..].iter().position(|b| !is_number(*b)).map_or(bytes.len(), |at| i + at))
            }
            (None, byte) if is_word(byte) => {
                let end = bytes[i..].iter().position(|b| !is_word(*b)).map_or(bytes.len(), |at| i + at);
                let word = text[i..end].to_ascii_lowercase();
                let part = match (KEYWORDS.binary_search(&word.as_str()), bytes.get(end)) {
                    (Ok(_), _) => Part::Keyword,
                    (Err(_), Some(b'(')) => Part::Function,
                    _ => Part::Other,
                };
                (part, end)
            }
            _ => {
                let is_other = |b: u8| !is_word(b) && !matches!(b, b'\'' | b'"' | b'`' | b'-' | b'/');
                (Part::Other, bytes[i + 1..].iter().position(|b| !is_other(*b)).map_or(bytes.len(), |at| i + 1 + at))
            }
        };
        parts.push((part, &text[i..end]));
        i = end;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keywords_functions_texts_numbers_and_comments_have_their_colours() {
        let text = "select Avg(v), \"from\" from t where h = 'it''s' and x > 1.5e3 -- note";
        let found = parts(text);
        assert_eq!(found.iter().map(|(_, part)| *part).collect::<String>(), text);
        for expected in [
            (Part::Keyword, "select"),
            (Part::Function, "Avg"),
            (Part::Other, "\"from\""),
            (Part::Keyword, "from"),
            (Part::Text, "'it'"),
            (Part::Number, "1.5e3"),
            (Part::Comment, "-- note"),
        ] {
            assert!(found.contains(&expected), "{expected:?} in {found:?}");
        }
    }

    #[test]
    fn unfinished_text_and_letters_of_any_language_are_kept() {
        for text in ["", "select 'open", "/* open", "sélect ä(1)", "a\n\tb", "1..2", "'", "é'é", "-- é", "\\d é"]
        {
            assert_eq!(parts(text).iter().map(|(_, part)| *part).collect::<String>(), text);
            let plain = highlighted(text).replace("\u{1b}[0m", "");
            assert!(plain.len() >= text.len());
        }
    }
}
