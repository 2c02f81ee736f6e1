//! The log on standard error, and its filter, which may change while the process runs.

use std::{io::IsTerminal, sync::OnceLock};

use anyhow::Context;
use parking_lot::Mutex;
use tidelake_format::{Error, Result, access::audit, nearest::nearest};
use tidelake_protocol::settings::{self as declared, LogFormat};
use tracing::{Level, Metadata, Subscriber, level_filters::LevelFilter};
use tracing_subscriber::{
    EnvFilter, Layer,
    filter::{FilterExt as _, filter_fn},
    fmt,
    layer::{Filter, SubscriberExt as _},
    registry::LookupSpan,
    reload,
    util::SubscriberInitExt as _,
};

use super::traces;
use crate::settings::Settings;

/// What the log is filtered by, and how to have it filtered by something else.
struct Log {
    filter: Mutex<String>,
    put: Box<dyn Fn(EnvFilter) -> bool + Send + Sync>,
}

static LOG: OnceLock<Log> = OnceLock::new();

/// Levels of the log.
const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// Refuses words that are no level: the library takes each for the name of a target, and logs nothing else.
fn check(text: &str) -> Result<()> {
    let words = text.split(',').map(str::trim).filter(|word| !word.contains(['=', '[', ']', '{', '}']));
    let mut unknown = words.filter(|word| !LEVELS.iter().any(|level| word.eq_ignore_ascii_case(level)));
    let Some(word) = unknown.next() else { return Ok(()) };
    let error = Error::invalid("not a level of the log").with("found", word);
    let error = match nearest(word, &LEVELS) {
        Some(level) => error.with("did you mean", level),
        None => error,
    };
    Err(error.with("expected", "off, error, warn, info, debug, trace, or target=level"))
}

/// The filter that this text asks for.
fn filter(text: &str) -> Result<EnvFilter> {
    check(text)?;
    // The disk cache tells what it cannot read itself, once a minute: the library beneath says so for each block.
    EnvFilter::try_new(format!("foyer=off,{text}")).map_err(|e| {
        let expected = "a level, or target=level, several separated by commas: info,tidelake_ingest=debug";
        Error::invalid("not a filter of the log").with("expected", expected).with("found", text).source(e)
    })
}

/// Whether an event or span comes from where no header is traced, or is no trace of one. The libraries of HTTP trace headers as they
/// are, with credentials; no filter, however exact, asks for that.
fn holds_no_header(metadata: &Metadata<'_>) -> bool {
    let library = metadata.target().split("::").next().unwrap_or_default();
    *metadata.level() <= Level::INFO || !["h2", "hyper", "hyper_util"].contains(&library)
}

/// The layers of the log's lines and of the audit log's. What filters the one has no hold on the other: the audit log is
/// written from the start to the end of the process, unless the settings turn it off at the start.
pub(super) fn layers<S>(
    lines: impl Fn() -> Box<dyn Layer<S> + Send + Sync>,
    filter: impl Filter<S> + Send + Sync + 'static,
    settings: &str,
) -> Vec<Box<dyn Layer<S> + Send + Sync>>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    let is_audit = |metadata: &Metadata<'_>| metadata.target() == audit::TARGET;
    let others = filter_fn(move |metadata| !is_audit(metadata) && holds_no_header(metadata));
    let others = others.with_max_level_hint(LevelFilter::TRACE);
    let mut layers = vec![lines().with_filter(filter.and(others)).boxed()];
    if !audit::is_turned_off(settings) {
        let only = filter_fn(is_audit).with_max_level_hint(LevelFilter::INFO);
        layers.push(lines().with_filter(only).boxed());
    }
    layers
}

/// Sends log lines to standard error and traces to their collector as the settings say; a second call changes nothing.
///
/// # Errors
/// When the filter is none, or traces cannot be sent to such an address.
pub fn start(settings: &Settings) -> anyhow::Result<()> {
    let log = settings.get(&declared::LOG);
    let (filter, handle) = reload::Layer::new(filter(&log).context("log")?);
    let format = settings.get(&declared::LOG_FORMAT);
    let lines = move || {
        let lines = fmt::layer().with_writer(std::io::stderr).with_ansi(std::io::stderr().is_terminal());
        match format {
            LogFormat::Text => lines.boxed(),
            LogFormat::Json => lines.json().boxed(),
        }
    };
    let layers = layers(lines, filter, &log);
    let subscriber = tracing_subscriber::registry().with(layers).with(traces::layer(settings)?);
    // The only error is that a subscriber is set already.
    if subscriber.try_init().is_ok() {
        let put = Box::new(move |filter| handle.reload(filter).is_ok());
        let _ = LOG.set(Log { filter: Mutex::new(log), put });
    }
    Ok(())
}

/// What the log is filtered by; `None` in a process that has no log.
pub(super) fn current() -> Option<String> {
    LOG.get().map(|log| log.filter.lock().clone())
}

/// Has the log filtered by something else, until the process ends. The audit log stays as it is.
///
/// # Errors
/// Invalid for what is no filter; Unsupported in a process that has no log.
pub(super) fn change(text: &str) -> Result<()> {
    let filter = filter(text)?;
    let log = LOG.get().ok_or_else(|| Error::unsupported("this process has no log"))?;
    let mut current = log.filter.lock();
    if !(log.put)(filter) {
        return Err(Error::internal("the filter of the log cannot be changed"));
    }
    text.clone_into(&mut current);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_is_no_level_is_refused_and_names_the_nearest() {
        for good in
            ["info", "WARN", "off", "info,tidelake_ingest=debug", "error,tidelake::slow=warn", "[request]=debug"]
        {
            assert!(filter(good).is_ok(), "{good}");
        }
        for (wrong, words) in [
            ("verbose", "not a level of the log (found: verbose,"),
            ("inof", "did you mean: info"),
            ("info,debgu", "did you mean: debug"),
            ("tidelake_ingest", "target=level"),
            ("info,", "not a level"),
            ("tidelake_ingest=loud", "not a filter"),
        ] {
            let error = filter(wrong).map(drop).unwrap_err().to_string();
            assert!(error.contains(words), "{wrong}: {error}");
        }
    }
}
