//! `?` and `$n`: which value of an execution each is.

use tidelake_format::{Error, Result};

use super::{DoubleQuotes, lexer::comment_end};

/// Which parameter is which: `?` counts, `$n` says so.
#[derive(Debug, Clone, Copy, Default)]
pub struct Numbers {
    /// How many there are as far as they were read.
    pub count: usize,
    unnamed: bool,
    numbered: bool,
}

impl Numbers {
    /// The place of the next one, from 0.
    ///
    /// # Errors
    /// [`Kind::Invalid`](tidelake_format::Kind::Invalid) for a statement with both kinds.
    pub fn place(&mut self, number: Option<usize>) -> Result<usize> {
        self.unnamed |= number.is_none();
        self.numbered |= number.is_some();
        if self.unnamed && self.numbered {
            return Err(Error::invalid("parameters are either all '?' or all '$n'").with("found", "both"));
        }
        let place = number.unwrap_or(self.count);
        self.count = self.count.max(place + 1);
        Ok(place)
    }
}

/// How many parameters a statement has outside quotes and comments: the number of `?`, or the highest `$n`.
pub(super) fn count(sql: &str, quotes: DoubleQuotes) -> usize {
    let bytes = sql.as_bytes();
    let (mut i, mut unnamed, mut highest) = (0, 0, 0);
    let in_word = |at: usize| at > 0 && (bytes[at - 1].is_ascii_alphanumeric() || matches!(bytes[at - 1], b'_' | b'$'));
    while i < bytes.len() {
        match bytes[i] {
            b'?' => unnamed += 1,
            b'$' if !in_word(i) => {
                let digits = bytes[i + 1..].iter().take_while(|b| b.is_ascii_digit()).count();
                highest = highest.max(sql[i + 1..i + 1 + digits].parse().unwrap_or(0));
            }
            quote @ (b'\'' | b'"' | b'`') => {
                let escapes = quote != b'`' && quotes == DoubleQuotes::Text;
                i += 1;
                while i < bytes.len() && bytes[i] != quote {
                    i += if escapes && bytes[i] == b'\\' { 2 } else { 1 };
                }
            }
            _ => {
                if let Some(end) = comment_end(bytes, i) {
                    i = end;
                    continue;
                }
            }
        }
        i += 1;
    }
    unnamed.max(highest)
}
