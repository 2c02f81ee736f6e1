//! The log on standard error and its filter, which can be changed at run time.

pub(super) mod tail;
pub(super) mod wanted;

use std::{io::IsTerminal, sync::OnceLock};

use anyhow::Context;
use parking_lot::Mutex;
use tidelake_format::{Error, Result, access::audit};
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

/// The log filter in force and the function that replaces it.
struct Log {
    filter: Mutex<String>,
    put: Box<dyn Fn(EnvFilter) -> bool + Send + Sync>,
}

static LOG: OnceLock<Log> = OnceLock::new();

/// Log levels.
const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// Rejects words that are not levels: the library would take each as a target name and log only that target.
fn check(text: &str) -> Result<()> {
    let words = text.split(',').map(str::trim).filter(|word| !word.contains(['=', '[', ']', '{', '}']));
    let mut unknown = words.filter(|word| !LEVELS.iter().any(|level| word.eq_ignore_ascii_case(level)));
    let Some(word) = unknown.next() else { return Ok(()) };
    let error = Error::invalid("invalid log level").with("found", word);
    Err(error.suggest(word, LEVELS).with("expected", "off, error, warn, info, debug, trace, or target=level"))
}

/// Parses a log filter.
fn filter(text: &str) -> Result<EnvFilter> {
    check(text)?;
    // The disk cache logs read errors itself, once a minute; its library would log one per block.
    EnvFilter::try_new(format!("foyer=off,{text}")).map_err(|e| {
        let expected = "a level, or target=level, several separated by commas: info,tidelake_ingest=debug";
        Error::invalid("invalid log filter").with("expected", expected).with("found", text).source(e)
    })
}

/// Whether an event or span cannot hold request headers. The HTTP libraries log headers with credentials below INFO;
/// these events are dropped whatever the filter says.
fn holds_no_header(metadata: &Metadata<'_>) -> bool {
    let library = metadata.target().split("::").next().unwrap_or_default();
    *metadata.level() <= Level::INFO || !["h2", "hyper", "hyper_util"].contains(&library)
}

/// Layers of the log and of the audit log. The log filter does not affect the audit log, which is written for the whole
/// run of the process unless the settings turn it off at start.
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

/// Starts logging to standard error and tracing to the collector according to the settings; a second call has no effect.
///
/// # Errors
/// The log filter or the collector's address is invalid.
pub fn start(settings: &Settings) -> anyhow::Result<()> {
    let log = settings.get(&declared::LOG);
    let (filter, handle) = reload::Layer::new(filter(&log).context("log")?);
    let format = settings.get(&declared::LOG_FORMAT);
    let lines = move || {
        let lines = fmt::layer().with_writer(std::io::stderr).with_ansi(std::io::stderr().is_terminal());
        match format {
            LogFormat::Text => lines.and_then(tail::Keep).boxed(),
            LogFormat::Json => lines.json().and_then(tail::Keep).boxed(),
        }
    };
    let layers = layers(lines, filter, &log);
    let subscriber = tracing_subscriber::registry().with(layers).with(traces::layer(settings)?);
    // Fails only if a subscriber is already set.
    if subscriber.try_init().is_ok() {
        let put = Box::new(move |filter| handle.reload(filter).is_ok());
        let _ = LOG.set(Log { filter: Mutex::new(log), put });
    }
    Ok(())
}

/// The log filter in force; `None` in a process without a log.
pub(super) fn current() -> Option<String> {
    LOG.get().map(|log| log.filter.lock().clone())
}

/// Whether the log surely has the warnings of this crate: the filter has a level for all crates that includes them, and no directive that
/// may concern this one.
pub(super) fn shows_warnings() -> bool {
    current().is_some_and(|text| shows(&text))
}

fn shows(filter: &str) -> bool {
    let is_level = |part: &str| LEVELS[2..].iter().any(|level| part.trim().eq_ignore_ascii_case(level));
    // A target matches each one that begins with it; brackets select spans and fields.
    let concerns = |part: &str| {
        let target = part.split(['=', '[']).next().unwrap_or_default().trim();
        part.contains('[')
            || (!is_level(part)
                && (env!("CARGO_CRATE_NAME").starts_with(target) || target.starts_with(env!("CARGO_CRATE_NAME"))))
    };
    filter.split(',').any(is_level) && !filter.split(',').any(concerns)
}

/// Replaces the log filter until the process ends. The audit log is not affected.
///
/// # Errors
/// Invalid for an invalid filter; Unsupported in a process without a log.
pub(super) fn change(text: &str) -> Result<()> {
    let filter = filter(text)?;
    let log = LOG.get().ok_or_else(|| Error::unsupported("this process has no log"))?;
    let mut current = log.filter.lock();
    if !(log.put)(filter) {
        return Err(Error::internal("cannot change the log filter"));
    }
    text.clone_into(&mut current);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_shows_warnings_if_its_own_level_includes_them() {
        for (filter, expected) in [
            ("info", true),
            ("WARN", true),
            ("info,tidelake_ingest=error", true),
            ("error", false),
            ("off", false),
            ("error,tidelake::slow=warn", false),
            ("info,tidelake=error", false),
            ("info,tidelake_node=error", false),
        ] {
            assert_eq!(shows(filter), expected, "{filter}");
        }
    }

    #[test]
    fn a_word_that_is_no_level_is_refused_and_names_the_nearest() {
        for good in
            ["info", "WARN", "off", "info,tidelake_ingest=debug", "error,tidelake::slow=warn", "[request]=debug"]
        {
            assert!(filter(good).is_ok(), "{good}");
        }
        for (wrong, words) in [
            ("verbose", "invalid log level (found: verbose,"),
            ("inof", "did you mean: info"),
            ("info,debgu", "did you mean: debug"),
            ("tidelake_ingest", "target=level"),
            ("info,", "invalid log level"),
            ("tidelake_ingest=loud", "invalid log filter"),
        ] {
            let error = filter(wrong).map(drop).unwrap_err().to_string();
            assert!(error.contains(words), "{wrong}: {error}");
        }
    }
}
