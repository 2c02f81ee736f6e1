//! Sends a line protocol file to `/api/v2/write` in requests of whole lines.

use std::{
    fs::File,
    io::{BufRead, BufReader},
    time::Duration,
};

use anyhow::{Context, bail};
use reqwest::StatusCode;
use serde_json::Value;
use tidelake_format::access::Secret;
use tidelake_protocol::http::headers;

use super::{
    bytes_bar,
    import::{Counts, ImportArgs, lacks_database, say},
};
use crate::client::{Client, password_of};

/// Target size of a request body, in bytes.
const REQUEST_BYTES: usize = 4 << 20;
/// Maximum number of attempts per request to a busy server.
const ATTEMPTS: u32 = 10;
/// Request timeout.
const ANSWER: Duration = Duration::from_secs(120);
/// Maximum number of rejected lines that are printed.
const SHOWN: u64 = 10;
/// Number of rejected lines after which the rest of the file is not sent.
const MOST_REFUSED: u64 = 1_000;

/// Destination and credentials of requests.
struct Target {
    http: reqwest::Client,
    endpoint: url::Url,
    allows_implausible_times: bool,
    who: Option<Who>,
}

/// Credentials of a request.
enum Who {
    Token(Secret),
    User(String, Secret),
}

impl Target {
    fn new(args: &ImportArgs) -> anyhow::Result<Self> {
        let (server, precision) = (&args.server, args.precision.name());
        let database = server.database.as_deref().context("line protocol needs --database")?;
        let mut endpoint = url::Url::parse(&server.url).with_context(|| format!("invalid URL {}", server.url))?;
        endpoint.set_path("/api/v2/write");
        endpoint.query_pairs_mut().append_pair("bucket", database).append_pair("precision", precision);
        let who = match (&server.token, &server.user) {
            (Some(token), _) => Some(Who::Token(token.clone())),
            (None, Some(user)) => Some(Who::User(user.clone(), Secret::new(password_of(user)?))),
            (None, None) => None,
        };
        Ok(Self {
            http: server.tls.http(ANSWER)?,
            endpoint,
            allows_implausible_times: args.allow_implausible_times,
            who,
        })
    }
}

/// Sends the file. Lines that the server rejects are printed; the other lines are stored.
///
/// # Errors
/// A request as a whole fails; the error names its first line and the rows written before it.
pub(super) async fn send(args: &ImportArgs) -> anyhow::Result<Counts> {
    let target = Target::new(args)?;
    let name = args.file.display().to_string();
    let file = File::open(&args.file).with_context(|| format!("cannot open {name}"))?;
    let is_new = lacks_database(&mut Client::connect(&args.server).await?).await?;
    let bar = bytes_bar(file.metadata()?.len());
    let mut reader = BufReader::with_capacity(1 << 20, file);
    let (mut counts, mut first_line) = (Counts::default(), 1);
    loop {
        let (body, lines) = whole_lines(&mut reader).with_context(|| format!("{name}, from line {first_line}"))?;
        if body.is_empty() {
            break;
        }
        let size = body.len() as u64;
        let refused = match post(&target, body).await {
            Ok(reply) => reply.add_to(&mut counts),
            Err(error) => {
                let kept = match first_line {
                    1 => format!("{name}: nothing was written"),
                    _ => format!("{name}: before line {first_line}: {counts}"),
                };
                return Err(error.context(format!("{kept}; the request from line {first_line} failed")));
            }
        };
        bar.inc(size);
        let shown = SHOWN.saturating_sub(counts.refused - refused.count);
        let named = refused.lines.iter().take(usize::try_from(shown).unwrap_or(0));
        bar.suspend(|| say(named.map(|(line, reason)| format!("{name}: line {}: {reason}", first_line + line - 1))));
        first_line += lines;
        if counts.refused > MOST_REFUSED {
            bail!(
                "{name}: more than {MOST_REFUSED} lines were refused, the rest from line {first_line} was not sent; {counts}"
            );
        }
    }
    bar.finish_and_clear();
    if is_new && counts.written > 0 {
        say(args.server.database.iter().map(|database| format!("created the database {database:?}")));
    }
    Ok(counts)
}

/// Reads the next lines up to about [`REQUEST_BYTES`]; returns them and their number.
fn whole_lines(reader: &mut impl BufRead) -> std::io::Result<(Vec<u8>, u64)> {
    let (mut body, mut lines) = (Vec::with_capacity(REQUEST_BYTES), 0);
    while body.len() < REQUEST_BYTES {
        let start = body.len();
        if reader.read_until(b'\n', &mut body)? == 0 {
            break;
        }
        lines += 1;
        // A newline inside a quoted string does not end the point.
        while !balanced(&body[start..]) && reader.read_until(b'\n', &mut body)? > 0 {
            lines += 1;
        }
    }
    Ok((body, lines))
}

/// The server's reply to a request.
#[derive(Debug, Default, PartialEq, Eq)]
struct Reply {
    written: u64,
    replaced: u64,
    refused: u64,
    /// Rejected lines of the request, from 1, with the reason.
    lines: Vec<(u64, String)>,
}

/// Rejected lines.
struct Refused {
    count: u64,
    lines: Vec<(u64, String)>,
}

impl Reply {
    fn read(headers: &reqwest::header::HeaderMap, body: &str) -> Self {
        let count = |name: &str| headers.get(name).and_then(|v| v.to_str().ok()?.parse().ok()).unwrap_or(0);
        let body: Value = serde_json::from_str(body).unwrap_or_default();
        let line = |line: &Value| Some((line["line"].as_u64()?, line["message"].as_str()?.to_owned()));
        Self {
            written: count(headers::ROWS_WRITTEN),
            replaced: count(headers::ROWS_REPLACED),
            refused: count(headers::ROWS_REFUSED),
            lines: body["errors"].as_array().into_iter().flatten().filter_map(line).collect(),
        }
    }

    fn add_to(self, counts: &mut Counts) -> Refused {
        counts.written += self.written;
        counts.replaced += self.replaced;
        counts.refused += self.refused;
        Refused { count: self.refused, lines: self.lines }
    }
}

async fn post(target: &Target, body: Vec<u8>) -> anyhow::Result<Reply> {
    let body = bytes::Bytes::from(body);
    for attempt in 0.. {
        let request = target.http.post(target.endpoint.clone()).body(body.clone());
        let request = match &target.who {
            None => request,
            Some(Who::Token(token)) => request.bearer_auth(token.expose()),
            Some(Who::User(user, password)) => request.basic_auth(user, Some(password.expose())),
        };
        let request = match target.allows_implausible_times {
            true => request.header(headers::IMPLAUSIBLE_TIMES, "accept"),
            false => request,
        };
        let reply = request.send().await?;
        let (status, headers) = (reply.status(), reply.headers().clone());
        let text = reply.text().await.unwrap_or_default();
        let is_partial = status == StatusCode::BAD_REQUEST && headers.contains_key(headers::ROWS_REFUSED);
        if status.is_success() || is_partial {
            return Ok(Reply::read(&headers, &text));
        }
        if status != StatusCode::SERVICE_UNAVAILABLE || attempt >= ATTEMPTS {
            let body: Value = serde_json::from_str(&text).unwrap_or_default();
            bail!("the server answered {status}: {}", body["message"].as_str().unwrap_or(text.trim()));
        }
        tokio::time::sleep(Duration::from_millis(50 << attempt.min(6))).await;
    }
    unreachable!("the loop returns or fails")
}

/// Whether all quotes, except escaped ones, are closed.
fn balanced(line: &[u8]) -> bool {
    let (mut open, mut i) = (false, 0);
    while i < line.len() {
        match line[i] {
            b'\\' => i += 1,
            b'"' => open = !open,
            _ => {}
        }
        i += 1;
    }
    !open
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quoted_newline_does_not_end_a_line() {
        assert!(!balanced(b"m f=\"a\n"));
        assert!(balanced(b"m f=\"a\\\"b\" 1\n"));
        let (body, lines) = whole_lines(&mut &b"m f=\"a\nb\" 1\nm f=2 2"[..]).unwrap();
        assert_eq!((body.len(), lines), (19, 3));
    }

    #[test]
    fn refused_lines_are_counted_and_named() {
        let mut headers = reqwest::header::HeaderMap::new();
        headers.insert("x-tidelake-rows-written", "3".parse().unwrap());
        headers.insert("x-tidelake-rows-refused", "1".parse().unwrap());
        let reply = Reply::read(&headers, r#"{"code":"invalid","errors":[{"line":2,"message":"no","text":"x"}]}"#);
        let mut counts = Counts::default();
        let refused = reply.add_to(&mut counts);
        assert_eq!((counts.written, counts.refused, refused.lines), (3, 1, vec![(2, "no".to_owned())]));
    }
}
