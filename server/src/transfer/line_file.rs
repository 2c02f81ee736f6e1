//! Sends a line protocol file to `/api/v2/write` in requests of whole lines.

use std::{
    io::BufReader,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use anyhow::{Context, bail};
use futures::{StreamExt as _, TryStreamExt as _};
use indicatif::ProgressBar;
use reqwest::StatusCode;
use serde_json::Value;
use tidelake_format::access::Secret;
use tidelake_import::{
    input::{Input, unwatched},
    lines::{Part, Parts},
    trial::Trial,
    words::many,
};
use tidelake_ingest::decode::time::Implausible;
use tidelake_protocol::http::headers;

use super::{
    bytes_bar, dry_run,
    import::{Counts, ImportArgs, lacks_database, moving, say},
    rejects::Rejects,
    resume::State,
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

/// What files of lines have in common while they are sent.
struct Sending<'a> {
    args: &'a ImportArgs,
    target: Target,
    bar: ProgressBar,
    shared: Mutex<Shared>,
}

/// What changes while lines are sent.
struct Shared {
    counts: Counts,
    rejects: Option<Rejects>,
    state: Option<State>,
}

impl Shared {
    /// Notes that lines of a file are done; returns the counts so far. The state counts exactly the lines that are in the reject
    /// file by then.
    fn advance(&mut self, file: usize, lines: u64) -> anyhow::Result<Counts> {
        if let Some(state) = &mut self.state {
            if let Some(rejects) = &mut self.rejects {
                state.rejects = rejects.kept()?;
            }
            state.counts = self.counts;
            state.advance(file, lines)?;
        }
        Ok(self.counts)
    }
}

impl Sending<'_> {
    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sends files. Lines that the server rejects are printed, or written to the reject file; the other lines are stored. Returns
/// nothing after a dry run.
///
/// # Errors
/// A request as a whole fails; the error names its first line and the rows written before it.
pub(super) async fn send(args: &ImportArgs, files: Vec<Input>, state: Option<State>) -> anyhow::Result<Option<Counts>> {
    if args.dry_run {
        return dry_run(args, &files).map(|()| None);
    }
    let target = Target::new(args)?;
    let is_new = lacks_database(&mut Client::connect(&args.server).await?).await?;
    let counts = state.as_ref().map(|state| state.counts).unwrap_or_default();
    let rejects =
        args.reject_file.as_ref().map(|path| Rejects::open(path, args.reject_limit, state.as_ref())).transpose()?;
    if let Some(state) = state.as_ref().filter(|state| state.all_done() > 0) {
        say([format!("continuing: {} of an earlier run", many(state.all_done(), "line"))]);
    }
    let bytes = files.iter().try_fold(0, |sum, file| anyhow::Ok(sum + file.bytes()?))?;
    let shared = Mutex::new(Shared { counts, rejects, state });
    let sending = Sending { args, target, bar: bytes_bar(bytes), shared };
    let jobs = usize::try_from(args.jobs).unwrap_or(1);
    let each = files.iter().enumerate().map(|(index, file)| send_file(&sending, index, file));
    let sent = futures::stream::iter(each).buffer_unordered(jobs).try_collect::<Vec<()>>().await;
    sending.bar.finish_and_clear();
    let mut shared = sending.shared();
    if let Some(rejects) = &mut shared.rejects {
        rejects.kept()?;
    }
    sent?;
    if is_new && shared.counts.written > 0 {
        say(args.server.database.iter().map(|database| format!("created the database {database:?}")));
    }
    if let Some(state) = &shared.state {
        state.end()?;
    }
    Ok(Some(shared.counts))
}

/// Decodes the lines of the files without sending them.
fn dry_run(args: &ImportArgs, files: &[Input]) -> anyhow::Result<()> {
    let database = args.server.database.as_deref().context("line protocol needs --database")?;
    let implausible = if args.allow_implausible_times { Implausible::Accept } else { Implausible::Refuse };
    let mut trial = Trial::new(None, implausible);
    let now_ns = chrono::Utc::now().timestamp_nanos_opt().unwrap_or_default();
    for file in files {
        let mut parts = Parts::new(BufReader::with_capacity(1 << 20, file.reader(&unwatched())?));
        loop {
            let part = parts.next_part(REQUEST_BYTES).with_context(|| file.name.clone())?;
            if part.body.is_empty() {
                break;
            }
            trial.add(&file.name, &part, args.precision.name().parse()?, now_ns)?;
        }
    }
    let preview = trial.preview(Some(database))?;
    if preview.rows_read == 0 && preview.wrong == 0 {
        say(["the files have no lines".to_owned()]);
        return Ok(());
    }
    dry_run::show(&preview, true, args.reject_file.is_some())
}

/// Sends the lines of one file in requests, one after the other.
async fn send_file(sending: &Sending<'_>, index: usize, file: &Input) -> anyhow::Result<()> {
    let name = &file.name;
    let reader = file.reader(&moving(&sending.bar))?;
    let mut parts = Parts::new(BufReader::with_capacity(1 << 20, reader));
    let done = sending.shared().state.as_ref().map_or(0, |state| state.done(index));
    parts.skip(done).with_context(|| name.clone())?;
    loop {
        let part = tokio::task::block_in_place(|| parts.next_part(REQUEST_BYTES)).with_context(|| name.clone())?;
        if part.body.is_empty() {
            return Ok(());
        }
        let posted = post(&sending.target, part.body.clone()).await;
        let reply = posted.with_context(|| {
            let (first, counts) = (part.first, sending.shared().counts);
            let kept = match counts.written + counts.replaced + counts.refused + counts.rejected {
                0 => format!("{name}: nothing was written"),
                _ => format!("{name}: before line {first}: {counts}"),
            };
            let again = if sending.args.resume.is_some() { "; run the command again to continue" } else { "" };
            format!("{kept}; the request from line {first} failed{again}")
        })?;
        let counts = match sending.args.reject_file.is_some() {
            true => reject(sending, index, name, &part, reply).await?,
            false => refuse(sending, index, name, &part, reply)?,
        };
        sending.bar.set_message(format!("{} rows", counts.written + counts.replaced));
    }
}

/// Counts and prints refused lines; returns the counts so far.
fn refuse(sending: &Sending<'_>, index: usize, name: &str, part: &Part, reply: Reply) -> anyhow::Result<Counts> {
    let mut shared = sending.shared();
    let shown = SHOWN.saturating_sub(shared.counts.refused);
    reply.add_to(&mut shared.counts);
    let counts = shared.advance(index, part.lines)?;
    drop(shared);
    let named = reply.lines.iter().take(usize::try_from(shown).unwrap_or(0));
    let said = named.map(|(line, reason)| format!("{name}: line {}: {reason}", part.first + line - 1));
    sending.bar.suspend(|| say(said));
    if counts.refused > MOST_REFUSED {
        let next = part.first + part.lines;
        bail!("{name}: more than {MOST_REFUSED} lines were refused, the rest from line {next} was not sent; {counts}");
    }
    Ok(counts)
}

/// Writes refused lines to the reject file; returns the counts so far.
async fn reject(sending: &Sending<'_>, index: usize, name: &str, part: &Part, reply: Reply) -> anyhow::Result<Counts> {
    let lines = refused_lines(&sending.target, part, &reply).await?;
    let mut shared = sending.shared();
    shared.counts.written += reply.written;
    shared.counts.replaced += reply.replaced;
    shared.counts.rejected += reply.refused;
    if let Some(rejects) = &mut shared.rejects {
        let texts = part.texts();
        for (line, reason) in &lines {
            rejects.add(name, *line, reason, &texts.get(*line))?;
        }
    }
    shared.advance(index, part.lines)
}

/// The refused lines of a part, by their number in the file. A reply names only the first ones: then halves of the part are sent
/// again, which writes the same rows again.
async fn refused_lines(target: &Target, part: &Part, reply: &Reply) -> anyhow::Result<Vec<(u64, String)>> {
    let in_file = |(line, reason): &(u64, String)| (part.first + line - 1, reason.clone());
    let named: Vec<(u64, String)> = reply.lines.iter().map(in_file).collect();
    if named.len() as u64 >= reply.refused || part.lines <= 1 {
        return Ok(named);
    }
    let (half, mut parts, mut lines) = (part.body.len() / 2 + 1, Parts::new(&part.body[..]), Vec::new());
    loop {
        let mut piece = parts.next_part(half)?;
        if piece.body.is_empty() {
            return Ok(lines);
        }
        if piece.lines == part.lines {
            return Ok(named);
        }
        piece.first += part.first - 1;
        let reply = post(target, piece.body.clone()).await?;
        lines.extend(Box::pin(refused_lines(target, &piece, &reply)).await?);
    }
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

    fn add_to(&self, counts: &mut Counts) {
        counts.written += self.written;
        counts.replaced += self.replaced;
        counts.refused += self.refused;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_lines_are_counted_and_named() {
        let mut headers = reqwest::header::HeaderMap::new();
        headers.insert("x-tidelake-rows-written", "3".parse().unwrap());
        headers.insert("x-tidelake-rows-refused", "1".parse().unwrap());
        let reply = Reply::read(&headers, r#"{"code":"invalid","errors":[{"line":2,"message":"no","text":"x"}]}"#);
        let mut counts = Counts::default();
        reply.add_to(&mut counts);
        assert_eq!((counts.written, counts.refused, reply.lines), (3, 1, vec![(2, "no".to_owned())]));
    }
}
