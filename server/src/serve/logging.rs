//! The log on standard error, and its filter, which may change while the process runs.

use std::{io::IsTerminal, sync::OnceLock};

use anyhow::Context;
use parking_lot::Mutex;
use tidelake_format::{Error, Result};
use tracing_subscriber::EnvFilter;

use crate::settings::{LogFormat, Settings};

/// What the log is filtered by, and how to have it filtered by something else.
struct Log {
    filter: Mutex<String>,
    put: Box<dyn Fn(EnvFilter) -> bool + Send + Sync>,
}

static LOG: OnceLock<Log> = OnceLock::new();

/// The filter that this text asks for.
fn filter(text: &str) -> Result<EnvFilter> {
    // The disk cache tells what it cannot read itself, once a minute: the library beneath says so for each block. The audit
    // log is kept unless it is turned off by its name. What the libraries of HTTP trace holds credentials.
    EnvFilter::try_new(format!("foyer=off,tidelake::audit=info,{text},h2=info,hyper=info,hyper_util=info")).map_err(
        |e| {
            let expected = "a level, or target=level, several separated by commas: info,tidelake_ingest=debug";
            Error::invalid("not a filter of the log").with("expected", expected).with("found", text).source(e)
        },
    )
}

/// Sends log lines to standard error as the settings say; a second call changes nothing.
///
/// # Errors
/// When the filter is none.
pub(crate) fn start(settings: &Settings) -> anyhow::Result<()> {
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter(&settings.log).context("log")?)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    let text = Mutex::new(settings.log.clone());
    // The only error is that a subscriber is set already.
    match settings.log_format {
        LogFormat::Text => {
            let builder = builder.with_filter_reloading();
            let handle = builder.reload_handle();
            if builder.try_init().is_ok() {
                let _ = LOG.set(Log { filter: text, put: Box::new(move |filter| handle.reload(filter).is_ok()) });
            }
        }
        LogFormat::Json => {
            let builder = builder.json().with_filter_reloading();
            let handle = builder.reload_handle();
            if builder.try_init().is_ok() {
                let _ = LOG.set(Log { filter: text, put: Box::new(move |filter| handle.reload(filter).is_ok()) });
            }
        }
    }
    Ok(())
}

/// What the log is filtered by; `None` in a process that has no log.
pub(super) fn current() -> Option<String> {
    LOG.get().map(|log| log.filter.lock().clone())
}

/// Has the log filtered by something else, until the process ends.
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
    tracing::info!(before = *current, after = text, "the filter of the log was changed");
    text.clone_into(&mut current);
    Ok(())
}
