//! The names of headers: of HTTP, and of Flight SQL as metadata of a call.

use tidelake_format::{Result, ids::Token, rows::RowCounts};

/// Requests and replies: tokens separated by commas.
///
/// The reply to a write has the token of that write. A query that sends the token back sees the write, or fails.
pub const TOKEN: &str = "x-tidelake-token";

/// Requests: a name for a request that writes, 1 to 255 bytes. A copy of the request is answered and not written again.
pub const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// Replies: `true` where the request was a copy of an earlier one.
pub const REPLAYED: &str = "idempotency-replayed";

/// Replies: the ID of the statement, listed by SHOW QUERIES and accepted by KILL QUERY.
pub const QUERY: &str = "x-tidelake-query";

/// Replies: remarks on a request that was executed, such as options without effect and times that seem to be wrong.
pub const NOTICE: &str = "x-tidelake-notice";

/// Requests: what is done with times that seem to be in another unit: `refuse`, `warn` or `accept`.
pub const IMPLAUSIBLE_TIMES: &str = "x-tidelake-implausible-times";

/// Replies to writes: the number of rows stored, each under a series and time of its own.
pub const ROWS_WRITTEN: &str = "x-tidelake-rows-written";
/// Replies to writes: the number of rows that a later row of the same request with the same series and time replaced.
pub const ROWS_REPLACED: &str = "x-tidelake-rows-replaced";
/// Replies to writes: the number of rows that were not stored.
pub const ROWS_REFUSED: &str = "x-tidelake-rows-refused";

/// Requests: the database of unqualified table names. Where both are sent, the second one is used.
pub const DATABASE: [&str; 2] = ["schema", "database"];

/// Requests: the time zone of the session, an IANA name.
pub const TIME_ZONE: &str = "time-zone";

/// Requests: what may answer aggregates beside rows (`manifests`, `rollups`, `scan`), to compare them.
pub const AGGREGATE_LEVELS: &str = "aggregate-levels";

/// The headers that a client may send to Tidelake, beside those of HTTP and of other systems.
pub const OF_REQUESTS: [&str; 7] =
    [TOKEN, IDEMPOTENCY_KEY, IMPLAUSIBLE_TIMES, DATABASE[0], DATABASE[1], TIME_ZONE, AGGREGATE_LEVELS];

/// The headers that a reply of Tidelake may have, beside those of HTTP and of other systems.
pub const OF_REPLIES: [&str; 7] = [TOKEN, REPLAYED, QUERY, NOTICE, ROWS_WRITTEN, ROWS_REPLACED, ROWS_REFUSED];

/// What the headers of the reply to a write say.
#[derive(Debug, Clone, Copy, Default)]
pub struct WriteReply<'a> {
    /// The token of the write; `None` where nothing was stored.
    pub token: Option<Token>,
    /// Whether the request was a copy of an earlier one.
    pub replayed: bool,
    /// What became of the rows; `None` of a request that brings none.
    pub rows: Option<RowCounts>,
    /// Remarks.
    pub notices: &'a [String],
}

impl WriteReply<'_> {
    /// The headers and their values, which are printable ASCII text. Replaced and refused rows are left out where there are
    /// none, as most replies are to one row.
    pub fn headers(&self) -> impl Iterator<Item = (&'static str, String)> {
        let rows = self.rows.map(|rows| {
            let some = |count: u64| (count > 0).then_some(count);
            [
                (ROWS_WRITTEN, Some(rows.written)),
                (ROWS_REPLACED, some(rows.replaced)),
                (ROWS_REFUSED, some(rows.refused)),
            ]
        });
        let rows = rows.into_iter().flatten().filter_map(|(name, count)| Some((name, count?.to_string())));
        let token = self.token.map(|token| (TOKEN, token.to_string()));
        let replayed = self.replayed.then(|| (REPLAYED, "true".to_owned()));
        let notices = (!self.notices.is_empty()).then(|| (NOTICE, printable(&self.notices.join("; "))));
        rows.chain(token).chain(replayed).chain(notices)
    }
}

/// Text as the value of a header: what is not printable ASCII becomes `?`.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_ascii_graphic() || c == ' ' { c } else { '?' }).collect()
}

/// The tokens in the value of the header [`TOKEN`].
///
/// # Errors
/// [`Kind::Invalid`](tidelake_format::Kind::Invalid) naming the text that is no token.
pub fn tokens(list: &str) -> Result<Vec<Token>> {
    list.split(',').map(str::trim).filter(|token| !token.is_empty()).map(str::parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(reply: WriteReply<'_>) -> Vec<(&'static str, String)> {
        reply.headers().collect()
    }

    #[test]
    fn a_reply_says_what_is_not_nothing() {
        let rows = |written, replaced, refused| Some(RowCounts { written, replaced, refused });
        assert_eq!(headers(WriteReply::default()), []);
        let one = WriteReply { rows: rows(1, 0, 0), ..WriteReply::default() };
        assert_eq!(headers(one), [(ROWS_WRITTEN, "1".to_owned())]);
        let token: Token = "v3".parse().unwrap();
        let notices = ["KEEP is ignored".to_owned(), "caf\u{e9}\n".to_owned()];
        let all = WriteReply { token: Some(token), replayed: true, rows: rows(0, 2, 3), notices: &notices };
        let expected = [
            (ROWS_WRITTEN, "0"),
            (ROWS_REPLACED, "2"),
            (ROWS_REFUSED, "3"),
            (TOKEN, "v3"),
            (REPLAYED, "true"),
            (NOTICE, "KEEP is ignored; caf??"),
        ];
        assert_eq!(headers(all), expected.map(|(name, value)| (name, value.to_owned())));
        assert!(headers(all).iter().all(|(name, _)| OF_REPLIES.contains(name)));
    }

    #[test]
    fn tokens_are_separated_by_commas() {
        assert_eq!(tokens("v1, v2,,").unwrap().iter().map(Token::to_string).collect::<Vec<_>>(), ["v1", "v2"]);
        assert!(tokens("").unwrap().is_empty());
        assert!(tokens("v1,x").is_err());
    }
}
