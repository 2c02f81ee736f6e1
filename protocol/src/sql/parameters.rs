//! Numbering of the parameters `?` and `$n`.

use tidelake_format::{Error, Result};

use super::{DoubleQuotes, TokenKind, Tokens};

/// Assigns indexes to parameters: `?` in order, `$n` by its number.
#[derive(Debug, Clone, Copy, Default)]
pub struct Numbers {
    /// Number of parameters read so far.
    pub count: usize,
    unnamed: bool,
    numbered: bool,
}

impl Numbers {
    /// The index of the next parameter, from 0.
    ///
    /// # Errors
    /// [`Kind::Invalid`](tidelake_format::Kind::Invalid) if a statement mixes both kinds.
    pub fn place(&mut self, number: Option<usize>) -> Result<usize> {
        self.unnamed |= number.is_none();
        self.numbered |= number.is_some();
        if self.unnamed && self.numbered {
            return Err(Error::invalid("mixed parameters: expected all '?' or all '$n'").with("found", "both"));
        }
        let place = number.unwrap_or(self.count);
        self.count = self.count.max(place + 1);
        Ok(place)
    }
}

/// Number of parameters outside quotes and comments: the number of `?`, or the highest `$n`. Parameters after an
/// unreadable token are not counted, because such a statement is never executed.
pub(super) fn count(sql: &str, quotes: DoubleQuotes) -> usize {
    let (mut unnamed, mut highest) = (0, 0);
    for token in Tokens::new(sql, quotes).map_while(Result::ok) {
        let TokenKind::Parameter(text) = token.kind else { continue };
        match text.strip_prefix('$') {
            Some(number) => highest = highest.max(number.parse().unwrap_or(0)),
            None => unnamed += 1,
        }
    }
    unnamed.max(highest)
}
