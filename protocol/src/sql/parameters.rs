//! `?` and `$n`: which value of an execution each is.

use tidelake_format::{Error, Result};

use super::{DoubleQuotes, TokenKind, Tokens};

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

/// How many parameters a statement has outside quotes and comments: the number of `?`, or the highest `$n`. Those after a
/// place that cannot be read do not count: nothing executes such a statement.
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
