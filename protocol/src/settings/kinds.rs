//! Kinds of setting values: how each is parsed, and how SHOW VARIABLES shows it.

use std::{fmt, net::SocketAddr, path::PathBuf, time::Duration};

use tidelake_format::units;

use super::network::Network;
use crate::times::{Implausible, LinePrecision};

/// Parser and formatter of a setting's values.
pub(super) struct Kind<T> {
    /// Parses a value; the error is the expected form.
    pub(super) parse: fn(&str) -> Result<T, &'static str>,
    /// Formats a value for SHOW VARIABLES, without credentials.
    pub(super) show: fn(&T) -> String,
    /// Value of a setting that is not set, if the kind allows that.
    pub(super) unset: Option<T>,
}

/// Names, separated by commas.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd)]
pub struct Names(pub Vec<String>);

impl fmt::Display for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(","))
    }
}

/// Networks of addresses, each with its text.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd)]
pub struct Networks(pub Vec<(String, Network)>);

impl fmt::Display for Networks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let written: Vec<&str> = self.0.iter().map(|(text, _)| text.as_str()).collect();
        f.write_str(&written.join(","))
    }
}

/// The format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd)]
pub enum LogFormat {
    /// Human-readable text.
    Text,
    /// One JSON object per line.
    Json,
}

/// Whether requests need credentials.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd)]
pub enum Auth {
    /// If the server listens on an address that is not a loopback address.
    Auto,
    /// Always.
    On,
    /// Never: every client that reaches the server has all rights.
    Off,
}

/// Bytes, such as `64MiB`.
pub(super) const SIZE: Kind<usize> = Kind { parse: units::size, show: plain, unset: None };
/// A time, such as `5s`.
pub(super) const DURATION: Kind<Duration> = Kind { parse: units::duration, show: debug, unset: None };
/// A time, or none.
pub(super) const OPTIONAL_DURATION: Kind<Option<Duration>> =
    Kind { parse: |text| units::duration(text).map(Some), show: |value| optional(value, debug), unset: Some(None) };
/// A whole number above 0.
pub(super) const COUNT: Kind<usize> = Kind {
    parse: |text| text.parse().ok().filter(|n| *n > 0).ok_or("a whole number above 0"),
    show: plain,
    unset: None,
};
/// A ratio from 0 to 1.
pub(super) const RATIO: Kind<f64> = Kind {
    parse: |text| text.parse().ok().filter(|ratio| (0.0..=1.0).contains(ratio)).ok_or("a number from 0 to 1"),
    show: plain,
    unset: None,
};
/// `true` or `false`.
pub(super) const BOOLEAN: Kind<bool> =
    Kind { parse: |text| text.parse().map_err(|_| "true or false"), show: plain, unset: None };
/// Any text.
pub(super) const TEXT: Kind<String> = Kind { parse: |text| Ok(text.to_owned()), show: plain, unset: None };
/// A directory or a URL.
pub(super) const PLACE: Kind<String> =
    Kind { parse: |text| Ok(text.to_owned()), show: |place| without_credentials(place), unset: None };
/// A text that is not empty.
pub(super) const NAME: Kind<String> =
    Kind { parse: |text| if text.is_empty() { Err("a name") } else { Ok(text.to_owned()) }, show: plain, unset: None };
/// A directory, or none.
pub(super) const DIRECTORY: Kind<Option<PathBuf>> =
    Kind { parse: |text| Ok(Some(text.into())), show: show_path, unset: Some(None) };
/// A file, or none; the empty text also means none.
pub(super) const FILE: Kind<Option<PathBuf>> = Kind {
    parse: |text| Ok(Some(PathBuf::from(text)).filter(|_| !text.is_empty())),
    show: show_path,
    unset: Some(None),
};
/// An address with a port.
pub(super) const ADDRESS: Kind<SocketAddr> = Kind { parse: address, show: plain, unset: None };
/// An address with a port, or none.
pub(super) const OPTIONAL_ADDRESS: Kind<Option<SocketAddr>> =
    Kind { parse: |text| address(text).map(Some), show: |value| optional(value, plain), unset: Some(None) };
/// An HTTP URL, or none; the empty text also means none.
pub(super) const ENDPOINT: Kind<Option<String>> =
    Kind { parse: endpoint, show: |value| optional(value, |url| without_credentials(url)), unset: Some(None) };
/// Host names without scheme and port; `*` allows any.
pub(super) const HOSTS: Kind<Names> = Kind { parse: hosts, show: plain, unset: Some(Names(Vec::new())) };
/// Origins of web pages.
pub(super) const ORIGINS: Kind<Names> = Kind { parse: origins, show: plain, unset: Some(Names(Vec::new())) };
/// Networks of addresses.
pub(super) const NETWORKS: Kind<Networks> = Kind { parse: networks, show: plain, unset: Some(Networks(Vec::new())) };
/// An option of a store, or none.
pub(super) const OPTION: Kind<Option<(String, String)>> = Kind {
    parse: |text| store_option(text).map(Some).map_err(|_| "name=value"),
    show: |_| String::new(),
    unset: Some(None),
};
/// Whether requests need credentials.
pub(super) const AUTH: Kind<Auth> = Kind { parse: auth, show: lower, unset: None };
/// The format of log lines.
pub(super) const LOG_FORMAT: Kind<LogFormat> = Kind { parse: log_format, show: lower, unset: None };
/// The unit of timestamps of line protocol.
pub(super) const PRECISION: Kind<LinePrecision> =
    Kind { parse: |text| text.parse().map_err(|_| "ns, us, ms, s, m or h"), show: lower, unset: None };
/// Handling of rows whose times seem to be in another unit.
pub(super) const IMPLAUSIBLE: Kind<Implausible> =
    Kind { parse: |text| text.parse().map_err(|_| "refuse, warn or accept"), show: lower, unset: None };

fn plain<T: fmt::Display>(value: &T) -> String {
    value.to_string()
}

fn debug<T: fmt::Debug>(value: &T) -> String {
    format!("{value:?}")
}

fn lower<T: fmt::Debug>(value: &T) -> String {
    debug(value).to_lowercase()
}

fn optional<T>(value: &Option<T>, show: fn(&T) -> String) -> String {
    value.as_ref().map_or(String::new(), show)
}

fn show_path(path: &Option<PathBuf>) -> String {
    optional(path, |path| path.display().to_string())
}

fn address(text: &str) -> Result<SocketAddr, &'static str> {
    text.parse().map_err(|_| "an address such as 127.0.0.1:8086")
}

fn endpoint(text: &str) -> Result<Option<String>, &'static str> {
    if text.is_empty() {
        return Ok(None);
    }
    let url = url::Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    url.map(|_| Some(text.to_owned())).ok_or("a URL such as http://localhost:4317")
}

/// An option of a store, `name=value`.
///
/// # Errors
/// A description of what was found, without its text, which may be part of a secret.
pub fn store_option(text: &str) -> Result<(String, String), &'static str> {
    let (name, value) = text.split_once('=').ok_or("a text without '=', which is not shown as it may be secret")?;
    Ok((name.to_owned(), value.to_owned()))
}

/// Masks user, password and query of a URL; other text is returned unchanged.
pub fn without_credentials(text: &str) -> String {
    let Ok(mut url) = url::Url::parse(text) else { return text.to_owned() };
    let has_user = !url.username().is_empty() || url.password().is_some();
    if !has_user && url.query().is_none() {
        return text.to_owned();
    }
    if has_user {
        // These fail for URLs that cannot have a user.
        let _ = url.set_username("***");
        let _ = url.set_password(None);
    }
    if url.query().is_some() {
        url.set_query(Some("***"));
    }
    url.into()
}

/// Parses a comma-separated list with `part`.
fn parts<T>(text: &str, part: impl Fn(&str) -> Option<T>) -> Option<Vec<T>> {
    text.split(',').map(str::trim).filter(|text| !text.is_empty()).map(part).collect()
}

fn hosts(text: &str) -> Result<Names, &'static str> {
    let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    let host = |text: &str| (text == "*" || text.bytes().all(is_of_name)).then(|| text.to_ascii_lowercase());
    let expected = "names of hosts without scheme and port, separated by commas, such as db.example,db.internal";
    parts(text, host).map(Names).ok_or(expected)
}

fn networks(text: &str) -> Result<Networks, &'static str> {
    let network = |text: &str| Some((text.to_owned(), text.parse().ok()?));
    let expected = "networks of addresses, separated by commas, such as 10.0.0.0/8,2001:db8::/32";
    parts(text, network).map(Networks).ok_or(expected)
}

fn origins(text: &str) -> Result<Names, &'static str> {
    let origin = |text: &str| {
        let url = url::Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https"))?;
        let origin = url.origin().ascii_serialization();
        // Only the origin: no path, no user.
        (url.as_str().strip_suffix('/') == Some(origin.as_str())).then_some(origin)
    };
    let expected = "origins of web pages, separated by commas, such as https://app.example,http://localhost:3000";
    parts(text, origin).map(Names).ok_or(expected)
}

fn auth(text: &str) -> Result<Auth, &'static str> {
    match text {
        "auto" => Ok(Auth::Auto),
        "on" => Ok(Auth::On),
        "off" => Ok(Auth::Off),
        _ => Err("auto, on or off"),
    }
}

fn log_format(text: &str) -> Result<LogFormat, &'static str> {
    match text {
        "text" => Ok(LogFormat::Text),
        "json" => Ok(LogFormat::Json),
        _ => Err("text or json"),
    }
}
