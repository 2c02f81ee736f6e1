//! Names of HTTP headers, which are also the metadata keys of Flight SQL calls.

use tidelake_format::{Result, ids::Token, rows::RowCounts};

/// Requests and replies: tokens separated by commas.
///
/// The reply to a write has the token of that write. A query that sends the token back sees the write, or fails.
pub const TOKEN: &str = "x-tidelake-token";

/// Requests: the idempotency key of a write, 1 to 255 bytes. A repeated request is answered without being written again.
pub const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// Replies: `true` if the request repeated an earlier one.
pub const REPLAYED: &str = "idempotency-replayed";

/// Requests and replies: the ID of the statement, listed by SHOW QUERIES and accepted by KILL QUERY. A request of HTTP chooses it: 1 to 64
/// letters, digits, `-`, `_` or `.`; without the header the server does.
pub const QUERY: &str = "x-tidelake-query";

/// Replies: notices about an executed request, such as options without effect and implausible times.
pub const NOTICE: &str = "x-tidelake-notice";

/// Requests: handling of times that seem to be in another unit: `refuse`, `warn` or `accept`.
pub const IMPLAUSIBLE_TIMES: &str = "x-tidelake-implausible-times";

/// Replies to writes: the number of rows stored, each under a series and time of its own.
pub const ROWS_WRITTEN: &str = "x-tidelake-rows-written";
/// Replies to writes: the number of rows that a later row of the same request with the same series and time replaced.
pub const ROWS_REPLACED: &str = "x-tidelake-rows-replaced";
/// Replies to writes: the number of rows that were not stored.
pub const ROWS_REFUSED: &str = "x-tidelake-rows-refused";

/// Requests: the database of unqualified table names. If both are sent, the second is used.
pub const DATABASE: [&str; 2] = ["schema", "database"];

/// Requests: the time zone of the session, an IANA name.
pub const TIME_ZONE: &str = "time-zone";

/// Requests: the sources that may answer aggregates (`manifests`, `rollups`, `scan`), for comparisons.
pub const AGGREGATE_LEVELS: &str = "aggregate-levels";

/// Tidelake's own request headers.
pub const OF_REQUESTS: [&str; 8] =
    [TOKEN, QUERY, IDEMPOTENCY_KEY, IMPLAUSIBLE_TIMES, DATABASE[0], DATABASE[1], TIME_ZONE, AGGREGATE_LEVELS];

/// Tidelake's own reply headers.
pub const OF_REPLIES: [&str; 7] = [TOKEN, REPLAYED, QUERY, NOTICE, ROWS_WRITTEN, ROWS_REPLACED, ROWS_REFUSED];

/// Contents of the headers of a write's reply.
#[derive(Debug, Clone, Copy, Default)]
pub struct WriteReply<'a> {
    /// The token of the write; `None` if nothing was stored.
    pub token: Option<Token>,
    /// Whether the request repeated an earlier one.
    pub replayed: bool,
    /// Row counts; `None` for a request without rows.
    pub rows: Option<RowCounts>,
    /// Notices.
    pub notices: &'a [String],
}

impl WriteReply<'_> {
    /// The headers and their values, which are printable ASCII. Counts of replaced and refused rows are omitted if 0,
    /// because most requests write one row.
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

/// Text as a header value: other characters than printable ASCII become `?`.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_ascii_graphic() || c == ' ' { c } else { '?' }).collect()
}

/// Parses the tokens in the value of the header [`TOKEN`].
///
/// # Errors
/// [`Kind::Invalid`](tidelake_format::Kind::Invalid) with the text that is not a token.
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
