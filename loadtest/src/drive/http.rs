//! A small HTTP/1.1 client: one keep-alive connection, one request at a time, bounded waits and sizes.
//!
//! With one row per request, HTTP dominates the cost of a load test. This client writes head and body in one call and reads the
//! reply into one buffer, which is far cheaper than a general-purpose client. Plain TCP only.

use anyhow::{Context, Result, bail};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout_at};

/// Maximum size of a reply's head, in bytes.
const MAX_HEAD: usize = 64 << 10;
/// Maximum number of header lines.
const MAX_HEADERS: usize = 64;

/// Limits and headers of a client.
#[derive(Debug, Clone)]
pub struct HttpOptions {
    /// Timeout of one request and its reply. Default 60 s.
    pub request_timeout: Duration,
    /// Timeout of a request including retries. Default 120 s.
    pub retry_deadline: Duration,
    /// Wait before the first retry; doubles up to [`HttpOptions::longest_wait`]. Default 10 ms.
    pub first_wait: Duration,
    /// Maximum wait between retries. Default 1 s.
    pub longest_wait: Duration,
    /// Maximum size of a reply, in bytes. Default 1 GiB.
    pub max_reply: usize,
    /// `Host` header instead of the URL's host and port: for an address that serves several names.
    pub host: Option<String>,
    /// `Authorization` header, sent unchanged: `Bearer …`, `Basic …`.
    pub authorization: Option<String>,
    /// Levels that may answer aggregates: value of the header `aggregate-levels`; all by default.
    pub levels: Option<String>,
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self {
            request_timeout: Duration::from_secs(60),
            retry_deadline: Duration::from_secs(120),
            first_wait: Duration::from_millis(10),
            longest_wait: Duration::from_secs(1),
            max_reply: 1 << 30,
            host: None,
            authorization: None,
            levels: None,
        }
    }
}

/// A complete reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// The status code.
    pub status: u16,
    /// The read-your-write token, if the server sent one.
    pub token: Option<String>,
    /// Value of `Retry-After`, in seconds.
    pub retry_after: Option<u64>,
    /// The body.
    pub body: Vec<u8>,
}

/// The reply's header that carries the read-your-write token.
pub const TOKEN_HEADER: &str = "x-tidelake-token";
/// The request header that names the levels that may answer aggregates.
pub const LEVELS_HEADER: &str = "aggregate-levels";

impl Reply {
    /// Whether the status is 2xx.
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// Whether the server was busy and the same request may succeed later: 503, 429, 502 and 504 of a gateway whose
    /// function ended or took too long, or 500 with "timeout" (what InfluxDB's version-1 endpoint answers then).
    pub fn is_busy(&self) -> bool {
        match self.status {
            429 | 502..=504 => true,
            500 => self.body.windows(7).take(1024).any(|window| window == b"timeout"),
            _ => false,
        }
    }

    /// Beginning of the body, for error messages.
    pub fn excerpt(&self) -> String {
        let text = String::from_utf8_lossy(&self.body[..self.body.len().min(600)]).into_owned();
        format!("HTTP status {}: {}", self.status, text.trim())
    }
}

/// Number of retries of a request, by reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Repeats {
    /// Because the server was busy.
    pub busy: u64,
    /// Because the connection failed.
    pub broken: u64,
}

/// A client of one server, with at most one connection, opened on demand.
#[derive(Debug)]
pub struct Client {
    /// `host:port`.
    authority: String,
    /// Prefix of every request's path, without a trailing slash.
    base: String,
    options: HttpOptions,
    /// Value of [`TOKEN_HEADER`]; not sent when empty.
    tokens: String,
    stream: Option<TcpStream>,
    out: Vec<u8>,
    input: Vec<u8>,
}

impl Client {
    /// Creates a client of `http://host[:port][/path]`; it connects at the first request.
    ///
    /// # Errors
    /// A URL of another scheme or shape.
    pub fn new(url: &str, options: HttpOptions) -> Result<Self> {
        let rest = url.strip_prefix("http://").with_context(|| format!("expected http://host:port, found {url:?}"))?;
        let (authority, base) = rest.split_once('/').map_or((rest, String::new()), |(authority, path)| {
            (authority, format!("/{path}").trim_end_matches('/').to_owned())
        });
        if authority.is_empty() || authority.contains(['@', '?', '#']) {
            bail!("expected http://host:port, found {url:?}");
        }
        let has_port = authority.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let authority = if has_port { authority.to_owned() } else { format!("{authority}:80") };
        Ok(Self { authority, base, options, tokens: String::new(), stream: None, out: Vec::new(), input: Vec::new() })
    }

    /// Sets the read-your-write tokens sent with every later request.
    pub fn set_tokens(&mut self, tokens: &[String]) {
        self.tokens = tokens.join(",");
    }

    /// Sends a request once. Retries once only if a reused connection turns out to be closed before any byte of the reply.
    ///
    /// # Errors
    /// No connection, a broken connection, a reply that is not HTTP/1.1, too large or too late. The connection is then closed.
    pub async fn send(&mut self, method: &str, target: &str, content_type: &str, body: &[u8]) -> Result<Reply> {
        let deadline = Instant::now() + self.options.request_timeout;
        let result = match timeout_at(deadline, self.exchange(method, target, content_type, body)).await {
            Ok(result) => result,
            Err(_) => Err(anyhow::anyhow!("no reply within {:?}", self.options.request_timeout)),
        };
        if result.is_err() {
            self.stream = None;
        }
        result.with_context(|| format!("{method} http://{}{}{target}", self.authority, self.base))
    }

    /// Sends a request until the server accepts or rejects it: retries with doubling waits while the server is busy or the
    /// connection breaks, until [`HttpOptions::retry_deadline`].
    ///
    /// Only for idempotent requests, such as writing rows with explicit timestamps.
    ///
    /// # Errors
    /// The last failure, when the deadline has passed.
    pub async fn send_again(
        &mut self,
        method: &str,
        target: &str,
        content_type: &str,
        body: &[u8],
    ) -> Result<(Reply, Repeats)> {
        let deadline = Instant::now() + self.options.retry_deadline;
        let mut wait = self.options.first_wait;
        let mut repeats = Repeats::default();
        loop {
            let result = self.send(method, target, content_type, body).await;
            let asked = match &result {
                Ok(reply) if reply.is_busy() => {
                    repeats.busy += 1;
                    Duration::from_secs(reply.retry_after.unwrap_or(0))
                }
                Ok(_) => return result.map(|reply| (reply, repeats)),
                Err(_) => {
                    repeats.broken += 1;
                    Duration::ZERO
                }
            };
            let pause = wait.max(asked.min(self.options.longest_wait));
            if Instant::now() + pause >= deadline {
                let tries = repeats.busy + repeats.broken;
                let reply = result.with_context(|| format!("given up after {tries} tries"))?;
                bail!("{method} {target}: given up after {tries} tries: {}", reply.excerpt());
            }
            sleep(pause).await;
            wait = (wait * 2).min(self.options.longest_wait);
        }
    }

    async fn exchange(&mut self, method: &str, target: &str, content_type: &str, body: &[u8]) -> Result<Reply> {
        self.out.clear();
        use std::io::Write;
        write!(
            self.out,
            "{method} {}{target} HTTP/1.1\r\nhost: {}\r\ncontent-length: {}\r\n",
            self.base,
            self.options.host.as_deref().unwrap_or(&self.authority),
            body.len()
        )?;
        if !content_type.is_empty() {
            write!(self.out, "content-type: {content_type}\r\n")?;
        }
        if let Some(authorization) = &self.options.authorization {
            write!(self.out, "authorization: {authorization}\r\n")?;
        }
        if let Some(levels) = &self.options.levels {
            write!(self.out, "{LEVELS_HEADER}: {levels}\r\n")?;
        }
        if !self.tokens.is_empty() {
            write!(self.out, "{TOKEN_HEADER}: {}\r\n", self.tokens)?;
        }
        self.out.extend_from_slice(b"\r\n");
        self.out.extend_from_slice(body);
        if let Some(stream) = self.stream.take() {
            self.input.clear();
            match self.try_on(stream).await {
                // A server may close an idle connection at any time, so a failure on a reused connection is not the request's.
                Err(_) if self.input.is_empty() => {}
                result => return result,
            }
        }
        let stream = TcpStream::connect(&self.authority).await.context("connect")?;
        stream.set_nodelay(true).context("set TCP_NODELAY")?;
        self.try_on(stream).await
    }

    /// Sends the bytes of `out` and reads the reply; keeps the connection if it is reusable.
    async fn try_on(&mut self, mut stream: TcpStream) -> Result<Reply> {
        stream.write_all(&self.out).await.context("send the request")?;
        let (reply, keep) = read_reply(&mut stream, &mut self.input, self.options.max_reply).await?;
        if keep {
            self.stream = Some(stream);
        }
        Ok(reply)
    }
}

/// Framing of a body.
enum Body {
    Length(usize),
    Chunked,
    UntilClose,
}

struct Head {
    status: u16,
    body: Body,
    keep: bool,
    token: Option<String>,
    retry_after: Option<u64>,
    bytes: usize,
}

/// Reads one reply; the second value is whether the connection is reusable.
async fn read_reply(stream: &mut TcpStream, input: &mut Vec<u8>, max: usize) -> Result<(Reply, bool)> {
    input.clear();
    let head = loop {
        if let Some(head) = parse_head(input)? {
            // Skip interim replies such as 100 Continue.
            if (100..200).contains(&head.status) {
                input.drain(..head.bytes);
                continue;
            }
            break head;
        }
        if input.len() > MAX_HEAD {
            bail!("the reply's head exceeds {MAX_HEAD} bytes");
        }
        read_more(stream, input).await?;
    };
    input.drain(..head.bytes);
    let body = match head.body {
        Body::Length(length) if length > max => bail!("a reply of {length} bytes exceeds the limit of {max}"),
        Body::Length(length) => {
            input.reserve(length.saturating_sub(input.len()));
            while input.len() < length {
                read_more(stream, input).await?;
            }
            let rest = input.split_off(length);
            if !rest.is_empty() {
                bail!("{} bytes follow the reply", rest.len());
            }
            std::mem::take(input)
        }
        Body::Chunked => read_chunks(stream, input, max).await?,
        Body::UntilClose => {
            while stream.read_buf(input).await.context("read the reply")? > 0 {
                if input.len() > max {
                    bail!("the reply exceeds the limit of {max} bytes");
                }
            }
            std::mem::take(input)
        }
    };
    let reply = Reply { status: head.status, token: head.token, retry_after: head.retry_after, body };
    Ok((reply, head.keep))
}

async fn read_more(stream: &mut TcpStream, input: &mut Vec<u8>) -> Result<()> {
    input.reserve(16 << 10);
    if stream.read_buf(input).await.context("read the reply")? == 0 {
        bail!("the server closed the connection in the middle of a reply");
    }
    Ok(())
}

fn parse_head(input: &[u8]) -> Result<Option<Head>> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut response = httparse::Response::new(&mut headers);
    let bytes = match response.parse(input).context("expected an HTTP/1.1 reply")? {
        httparse::Status::Complete(bytes) => bytes,
        httparse::Status::Partial => return Ok(None),
    };
    let status = response.code.context("the reply has no status")?;
    let has_no_body = status == 204 || status == 304 || (100..200).contains(&status);
    let mut head = Head {
        status,
        body: if has_no_body { Body::Length(0) } else { Body::UntilClose },
        keep: response.version == Some(1),
        token: None,
        retry_after: None,
        bytes,
    };
    for header in response.headers.iter() {
        let value = std::str::from_utf8(header.value).unwrap_or_default().trim();
        if header.name.eq_ignore_ascii_case("content-length") && !has_no_body {
            let length =
                value.parse().with_context(|| format!("content-length: expected a number, found {value:?}"))?;
            head.body = Body::Length(length);
        } else if header.name.eq_ignore_ascii_case("transfer-encoding") && !has_no_body {
            head.body = Body::Chunked;
        } else if header.name.eq_ignore_ascii_case("connection") && value.eq_ignore_ascii_case("close") {
            head.keep = false;
        } else if header.name.eq_ignore_ascii_case(TOKEN_HEADER) {
            head.token = Some(value.to_owned());
        } else if header.name.eq_ignore_ascii_case("retry-after") {
            head.retry_after = value.parse().ok();
        }
    }
    head.keep &= !matches!(head.body, Body::UntilClose);
    Ok(Some(head))
}

async fn read_chunks(stream: &mut TcpStream, input: &mut Vec<u8>, max: usize) -> Result<Vec<u8>> {
    let mut body = Vec::new();
    let mut at = 0;
    loop {
        let (header, size) = loop {
            match httparse::parse_chunk_size(&input[at..]) {
                Ok(httparse::Status::Complete(found)) => break found,
                Ok(httparse::Status::Partial) => read_more(stream, input).await?,
                Err(_) => bail!("invalid chunk size in the reply"),
            }
        };
        at += header;
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        if size > max.saturating_sub(body.len()) {
            bail!("the reply exceeds the limit of {max} bytes");
        }
        // The chunk and its line end; trailing headers may follow the last, empty chunk.
        while input.len() < at + size + 2 {
            read_more(stream, input).await?;
        }
        body.extend_from_slice(&input[at..at + size]);
        if size == 0 {
            while !ends_trailers(&input[at..]) {
                if input.len() - at > MAX_HEAD {
                    bail!("the reply's trailing headers exceed {MAX_HEAD} bytes");
                }
                read_more(stream, input).await?;
            }
            return Ok(body);
        }
        at += size + 2;
        if at > 1 << 20 {
            input.drain(..at);
            at = 0;
        }
    }
}

fn ends_trailers(bytes: &[u8]) -> bool {
    bytes.starts_with(b"\r\n") || bytes.ends_with(b"\r\n\r\n")
}

#[cfg(test)]
mod tests;
