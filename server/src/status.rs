//! `tidelake status`: the state of a server on one screen.

use std::{fmt::Write as _, time::Duration};

use anyhow::{Context, bail, ensure};
use clap::Args;
use indicatif::{HumanBytes, HumanCount, HumanDuration};
use reqwest::RequestBuilder;
use serde_json::Value;
use tidelake_import::words::many;

use crate::{arguments::ServerArgs, client, terminal};

/// Request timeout; the figures of two seconds are asked for.
const LIMIT: Duration = Duration::from_secs(10);
/// Tables that are shown.
const TABLES: usize = 10;

/// Nodes that are shown.
const NODES: usize = 20;
/// The nodes of the root, those that have segments to fold first, as of the server's clock.
const NODES_SQL: &str = "select role, address, host, version, cast(extract(epoch from now() - last_seen) as bigint) as ago, segments, bytes, id \
                         from system.nodes order by segments desc, id";

/// Options of `status`.
#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    server: ServerArgs,
    /// Print the figures of `GET /api/v1/node` as JSON
    #[arg(long)]
    json: bool,
}

/// Prints the figures of a server, with rates over one second. With `--database` only tables of this database are listed.
///
/// # Errors
/// The server does not answer, the user is no administrator, or a critical alarm is raised.
#[expect(clippy::print_stdout, reason = "a command prints its result")]
pub(crate) async fn run(args: StatusArgs) -> anyhow::Result<()> {
    let server = &args.server;
    let url = server.url.trim_end_matches('/');
    let path = if args.json { "/api/v1/node" } else { "/api/v1/node/events?count=2" };
    let password = match (&server.token, &server.user) {
        (None, Some(user)) => Some(client::password_of(user)?),
        _ => None,
    };
    let http = server.tls.http(LIMIT)?;
    let ask = async |request: RequestBuilder| {
        let request = match (&server.token, &server.user) {
            (Some(token), _) => request.bearer_auth(token.expose()),
            (None, Some(user)) => request.basic_auth(user, password.as_ref()),
            (None, None) => request,
        };
        let reply = request.send().await.with_context(|| format!("no server answers at {url}"))?;
        let (status, text) = (reply.status(), reply.text().await?);
        if !status.is_success() {
            let error: Value = serde_json::from_str(&text).unwrap_or_default();
            let message = error.pointer("/error/message").and_then(Value::as_str).unwrap_or(&text).to_owned();
            bail!("{url} refused the request with {status}: {message}");
        }
        Ok(text)
    };
    let text = ask(http.get(format!("{url}{path}"))).await?;
    if args.json {
        println!("{text}");
        return Ok(());
    }
    let nodes = nodes(&text)?;
    let [before, now] = &nodes[..] else {
        bail!("expected the figures of two seconds from {url}, found {}", nodes.len())
    };
    let nodes = ask(http.post(format!("{url}/api/v1/sql?format=json")).body(NODES_SQL)).await;
    let nodes = nodes.map_or_else(|error| vec![format!("unknown: {error:#}")], |nodes| nodes_of(&nodes));
    print!("{}", terminal::escaped(&screen(url, before, now, server.database.as_deref(), &nodes)));
    let critical = list(now, "/alarms").iter().filter(|alarm| text_at(alarm, "/severity") == "critical").count();
    ensure!(critical == 0, "{critical} critical alarms");
    Ok(())
}

/// The rows of [`NODES_SQL`] as lines.
fn nodes_of(reply: &str) -> Vec<String> {
    let reply: Value = serde_json::from_str(reply).unwrap_or_default();
    let line = |row: &Value| {
        let text = |at: usize| row[at].as_str();
        let count = |at: usize| row[at].as_u64().unwrap_or(0);
        let seen = HumanDuration(Duration::from_secs(count(4)));
        let log = format!("{}, {} not folded", many(count(5), "segment"), HumanBytes(count(6)));
        let role = text(0).unwrap_or("?");
        match (text(1), text(2), text(3)) {
            (Some(address), Some(host), Some(version)) => {
                format!("{role} {address} on {host}, version {version}, seen {seen} ago; {log}")
            }
            // A function, or a server of an earlier version.
            _ => format!("{role} {}, wrote {seen} ago; {log}", text(7).unwrap_or("?")),
        }
    };
    let rows = list(&reply, "/data");
    let more = rows.len().saturating_sub(NODES);
    let more = (more > 0).then(|| format!("and {} more: select * from system.nodes", HumanCount(more as u64)));
    rows.iter().take(NODES).map(line).chain(more).collect()
}

/// The bodies of the `node` events of a stream.
fn nodes(stream: &str) -> anyhow::Result<Vec<Value>> {
    let events = stream.split("\n\n").filter_map(|event| event.strip_prefix("event: node\ndata: "));
    events.map(|data| serde_json::from_str(data).context("the server sent figures that are not JSON")).collect()
}

fn text_at<'a>(value: &'a Value, path: &str) -> &'a str {
    value.pointer(path).and_then(Value::as_str).unwrap_or("?")
}

fn number(value: &Value, path: &str) -> f64 {
    value.pointer(path).and_then(Value::as_f64).unwrap_or(0.0)
}

fn list<'a>(value: &'a Value, path: &str) -> &'a [Value] {
    value.pointer(path).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The screen; rates are differences between two readings.
fn screen(url: &str, before: &Value, now: &Value, database: Option<&str>, nodes: &[String]) -> String {
    let seconds = (number(now, "/uptime_seconds") - number(before, "/uptime_seconds")).max(0.001);
    let rate = |path: &str| rate_of(number(before, path), number(now, path), seconds);
    let count = |path: &str| HumanCount(number(now, path) as u64);
    let bytes = |path: &str| HumanBytes(number(now, path) as u64);
    let mut screen = Screen::default();
    let up = HumanDuration(Duration::from_secs_f64(number(now, "/uptime_seconds")));
    screen.line("server", &format!("{url}, version {}, up {up}", text_at(now, "/version")));
    screen.line("store", text_at(now, "/store/name"));
    for alarm in list(now, "/alarms") {
        let (severity, name) = (text_at(alarm, "/severity"), text_at(alarm, "/name"));
        let (text, page) = (text_at(alarm, "/text"), text_at(alarm, "/page"));
        screen.line("alarm", &format!("{severity} {name}: {text}; see docs/operations/{page}.md"));
    }
    if list(now, "/alarms").is_empty() {
        screen.line("alarms", "none");
    }
    let [rows, rejected] = ["/ingest/rows_total", "/ingest/rejected_total"].map(count);
    let [refused, lost] = ["/ingest/throttled_total", "/ingest/lost_rows_total"].map(count);
    let written = rate("/ingest/rows_total");
    screen.line(
        "writes",
        &format!("{written} rows/s; {rows} rows, {rejected} rejected, {lost} lost, {refused} requests refused"),
    );
    let [running, most, waiting, queue] =
        ["running", "running_limit", "waiting", "waiting_limit"].map(|name| count(&format!("/queries/{name}")));
    let [ended, refused] = ["/queries/ended_total", "/queries/refused_total"].map(count);
    let queries = rate("/queries/ended_total");
    screen.line(
        "queries",
        &format!(
            "{queries}/s; {running} of {most} running, {waiting} of {queue} waiting; {ended} ended, {refused} refused"
        ),
    );
    let mut log = format!("{} segments, {} not folded", count("/log/segments"), bytes("/log/bytes"));
    match now.pointer("/log/oldest_seconds").and_then(Value::as_f64) {
        Some(seconds) => drop(write!(log, ", the oldest {seconds:.0} s old")),
        None if now.pointer("/log/segments").is_none_or(Value::is_null) => "unknown: no answer".clone_into(&mut log),
        None => {}
    }
    screen.line("log", &log);
    for (at, node) in nodes.iter().enumerate() {
        screen.line(if at == 0 { "nodes" } else { "" }, node);
    }
    let [tables, partitions, files, to_merge, rows] =
        ["tables", "partitions", "files", "to_merge", "rows"].map(|name| count(&format!("/files/{name}")));
    let size = bytes("/files/bytes");
    screen.line(
        "files",
        &format!("{files} of {tables} tables in {partitions} partitions, {to_merge} to merge; {rows} rows, {size}"),
    );
    let pools = list(now, "/memory").iter().map(|pool| {
        let [used, limit] = ["/used_bytes", "/limit_bytes"].map(|path| HumanBytes(number(pool, path) as u64));
        format!("{} {used} of {limit}", text_at(pool, "/pool"))
    });
    screen.line("memory", &pools.collect::<Vec<_>>().join("; "));
    let busy = (number(now, "/process/processor_seconds") - number(before, "/process/processor_seconds")) / seconds;
    let [processors, threads, open] =
        ["processors", "threads", "open_files"].map(|name| count(&format!("/process/{name}")));
    screen.line("process", &format!("{busy:.2} of {processors} processors busy, {threads} threads, {open} open files"));
    let kinds = ["put", "get", "head", "list", "delete"];
    let requests = kinds.map(|kind| format!("{} {}", rate(&format!("/store/requests/{kind}")), kind.to_uppercase()));
    screen.line("requests", &format!("{} a second", requests.join(", ")));
    let mut clients = format!("{} of {} connections", count("/connections/open"), count("/connections/limit"));
    for protocol in list(now, "/protocols").iter().filter(|one| one["requests_total"].is_number()) {
        let earlier = same(list(before, "/protocols"), protocol, &["protocol"], "requests_total");
        let requests = rate_of(earlier, number(protocol, "/requests_total"), seconds);
        let _ = write!(clients, "; {} {requests}/s", text_at(protocol, "/protocol"));
    }
    screen.line("clients", &clients);
    let tables = list(now, "/tables").iter();
    let tables = tables.filter(|table| database.is_none_or(|name| text_at(table, "/database") == name));
    for (at, table) in tables.take(TABLES).enumerate() {
        let earlier = same(list(before, "/tables"), table, &["database", "table"], "rows_total");
        let total = number(table, "/rows_total");
        let (rows, total) = (rate_of(earlier, total, seconds), HumanCount(total as u64));
        let name = format!("{}.{}", text_at(table, "/database"), text_at(table, "/table"));
        screen
            .line(if at == 0 { "tables" } else { "" }, &format!("{name}: {rows} rows/s, {total} rows since the start"));
    }
    screen.0
}

/// The value of `name` in the entry of `all` whose `keys` are those of `entry`; 0 without such an entry.
fn same(all: &[Value], entry: &Value, keys: &[&str], name: &str) -> f64 {
    let found = all.iter().find(|other| keys.iter().all(|key| other[key] == entry[key]));
    found.and_then(|other| other[name].as_f64()).unwrap_or(0.0)
}

/// A rate per second; a total that is smaller than before began again.
fn rate_of(before: f64, now: f64, seconds: f64) -> String {
    let rate = (if now < before { now } else { now - before }) / seconds;
    match rate {
        small if small > 0.0 && small < 10.0 => format!("{small:.1}"),
        rate => HumanCount(rate.round() as u64).to_string(),
    }
}

/// Lines with a name.
#[derive(Default)]
struct Screen(String);

impl Screen {
    fn line(&mut self, name: &str, text: &str) {
        let _ = writeln!(self.0, "{name:<9} {text}");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rates_are_differences_and_a_restarted_total_counts_from_zero() {
        assert_eq!(rate_of(100.0, 350.0, 2.0), "125");
        assert_eq!(rate_of(100.0, 103.0, 1.0), "3.0");
        assert_eq!(rate_of(100.0, 100.0, 1.0), "0");
        assert_eq!(rate_of(100.0, 40.0, 1.0), "40");
        assert_eq!(rate_of(0.0, 1_234_567.0, 1.0), "1,234,567");
    }

    #[test]
    fn the_screen_shows_alarms_and_the_tables_of_one_database() {
        let table = |database: &str, rows: u64| json!({"database": database, "table": "t", "rows_total": rows});
        let node = |seconds: f64, rows: u64, alarms: Value| {
            json!({
                "uptime_seconds": seconds, "ingest": {"rows_total": rows}, "alarms": alarms,
                "log": {"segments": 3, "bytes": 2048, "oldest_seconds": 90.4},
                "tables": [table("a", rows), table("b", 7)],
            })
        };
        let alarm = json!([{"name": "log_lag", "severity": "warning", "text": "90 s", "page": "lag"}]);
        let (before, now) = (node(10.0, 1_000, json!([])), node(12.0, 6_000, alarm));
        let rows = json!({"data": [
            ["writer", "127.0.0.1:8086", "one", "0.1.0", 5, 3, 2048, "0a"],
            ["writer", null, null, null, 125, 1, 10, "0b"],
        ]});
        let shown = screen("http://here", &before, &now, Some("a"), &nodes_of(&rows.to_string()));
        for expected in [
            "nodes     writer 127.0.0.1:8086 on one, version 0.1.0, seen 5 seconds ago; 3 segments, 2.00 KiB not folded",
            "          writer 0b, wrote 2 minutes ago; 1 segment, 10 B not folded",
            "alarm     warning log_lag: 90 s; see docs/operations/lag.md",
            "writes    2,500 rows/s; 6,000 rows,",
            "log       3 segments, 2.00 KiB not folded, the oldest 90 s old",
            "tables    a.t: 2,500 rows/s, 6,000 rows since the start",
        ] {
            assert!(shown.contains(expected), "{expected:?} in:\n{shown}");
        }
        assert!(!shown.contains("b.t"), "{shown}");
    }

    #[test]
    fn figures_are_found_between_the_lines_of_the_log() {
        let stream = "event: log\ndata: {\"message\":\"x\"}\n\nevent: node\ndata: {\"n\":1}\n\n: \n\nevent: node\ndata: {\"n\":2}\n\n";
        assert_eq!(nodes(stream).unwrap(), [json!({"n": 1}), json!({"n": 2})]);
        assert!(nodes("event: node\ndata: {\n\n").is_err());
    }
}
