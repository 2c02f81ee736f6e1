//! `?` and `$n`: which value of an execution each is.

use tidelake_format::{Error, Result};

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
