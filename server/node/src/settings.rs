//! Checked settings, in ascending precedence: defaults, TOML file, `TIDELAKE_*` variables, flags. All faults are
//! reported at once. The settings are declared in `protocol/src/settings/declared.rs`.

mod layer;
#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
};

use tidelake_protocol::settings::{self as declared, ALL, Auth, DefaultValue, Setting, without_credentials};

pub use self::layer::Layer;
use crate::memory;

/// TLS files, all PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The server's certificate, followed by its intermediate certificates.
    pub certificate: PathBuf,
    /// The server's private key.
    pub key: PathBuf,
    /// CA certificates for client certificates; if set, clients need a certificate.
    pub client_ca: Option<PathBuf>,
}

/// Checked settings of a server.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// The settings file that was found in the working directory without being named.
    pub found_file: Option<PathBuf>,
    /// The options of the store.
    pub store_options: Vec<(String, String)>,
    /// The TLS files, if TLS is on.
    pub tls: Option<TlsFiles>,
    /// Checked texts of all settings that are given or have a default.
    texts: BTreeMap<&'static str, String>,
}

/// All faults of the settings, one per line.
#[derive(Debug)]
pub struct Faults(Vec<String>);

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} invalid settings:", self.0.len())?;
        self.0.iter().try_for_each(|fault| write!(f, "\n  {fault}"))
    }
}

impl std::error::Error for Faults {}

impl Settings {
    /// Merges the file (if any) with the flags, which take precedence, and checks all settings.
    ///
    /// # Errors
    /// All faults together: an unreadable file, unknown names, values that do not parse or are out of range.
    pub fn resolve(file: Option<&Path>, flags: Layer) -> Result<Self, Faults> {
        let mut faults = Vec::new();
        let mut given = file.map(|path| Layer::read(path, &mut faults)).unwrap_or_default();
        given.texts.extend(flags.texts);
        given.options.extend(flags.options);

        let mut store_options = Vec::new();
        for option in given.options {
            match option {
                Ok(option) => store_options.push(option),
                Err(found) => faults.push(fault("store-option", "name=value", found)),
            }
        }
        let mut settings = Self { found_file: None, store_options, tls: None, texts: given.texts };
        for setting in ALL {
            let name = setting.about().name;
            let text = settings.texts.get(name).map(String::as_str);
            if let (Some(found), Err(expected)) = (text, setting.show(text)) {
                faults.push(fault(name, &expected, found));
                // Use the default instead, because other settings depend on it.
                settings.texts.remove(name);
            }
        }
        settings.add_defaults();
        settings.tls = settings.tls_files(&mut faults);
        if faults.is_empty() { Ok(settings) } else { Err(Faults(faults)) }
    }

    /// Adds the defaults of the settings that are not given.
    fn add_defaults(&mut self) {
        self.texts.entry(declared::MEMORY.about.name).or_insert_with(|| memory::found().to_string());
        let memory = memory::Limit::of(self.get(&declared::MEMORY));
        for about in ALL.iter().map(|setting| setting.about()) {
            let text = match &about.default {
                DefaultValue::Unset(_) | DefaultValue::SystemMemory => continue,
                DefaultValue::Text(text) => (*text).to_owned(),
                DefaultValue::Share(share) => memory.share_of(*share).to_string(),
                DefaultValue::QueriesOfMemory => memory.queries().to_string(),
                // `max_connections` is declared before, so it has its text.
                DefaultValue::HalfOfConnections => (self.get(&declared::MAX_CONNECTIONS) / 2).max(1).to_string(),
            };
            self.texts.entry(about.name).or_insert(text);
        }
    }

    fn tls_files(&self, faults: &mut Vec<String>) -> Option<TlsFiles> {
        let certificate = self.get(&declared::TLS_CERTIFICATE);
        let key = self.get(&declared::TLS_KEY);
        match (certificate, key, self.get(&declared::TLS_CLIENT_CA)) {
            (Some(certificate), Some(key), client_ca) => Some(TlsFiles { certificate, key, client_ca }),
            (None, None, None) => None,
            (certificate, key, _) => {
                for (setting, file) in [(&declared::TLS_CERTIFICATE, certificate), (&declared::TLS_KEY, key)] {
                    if file.is_none() {
                        let expected = "a file of PEM, because other TLS settings are given";
                        faults.push(fault(setting.about.name, expected, "none"));
                    }
                }
                None
            }
        }
    }

    /// The value of a setting.
    ///
    /// # Panics
    /// When a default is not a value of its setting, which is a bug.
    pub fn get<T: Clone + PartialOrd>(&self, setting: &Setting<T>) -> T {
        let name = setting.about.name;
        let value = setting.value(self.texts.get(name).map(String::as_str));
        value.unwrap_or_else(|expected| panic!("invalid default of {name}: expected {expected}"))
    }

    /// The settings in force by name, as shown by SHOW VARIABLES: sizes in bytes, secrets hidden.
    pub fn variables(&self) -> Vec<(String, String)> {
        let others = ALL.iter().filter(|setting| setting.about().name != declared::STORE_OPTIONS.about.name);
        let shown = others.map(|setting| {
            let name = setting.about().name;
            let value = setting.show(self.texts.get(name).map(String::as_str)).unwrap_or_default();
            (name.to_owned(), value)
        });
        let options = self.store_options.iter().map(|(name, value)| {
            let is_secret =
                ["secret", "token", "password", "key"].iter().any(|word| name.to_lowercase().contains(word));
            let value = if is_secret { "…".to_owned() } else { without_credentials(value) };
            (format!("store_options.{name}"), value)
        });
        let mut shown: Vec<_> = shown.chain(options).collect();
        shown.sort();
        shown
    }

    /// Whether requests need credentials.
    pub fn asks_who(&self) -> bool {
        match self.get(&declared::AUTH) {
            Auth::On => true,
            Auth::Off => false,
            Auth::Auto => {
                let addresses = [Some(self.get(&declared::LISTEN)), self.get(&declared::FLIGHT_LISTEN)];
                addresses.into_iter().flatten().any(|address| !address.ip().to_canonical().is_loopback())
            }
        }
    }
}

fn fault(name: &str, expected: &str, found: &str) -> String {
    format!("{name}: expected {expected}, found {:?}", without_credentials(found))
}

/// The settings file used without `--config`: `tidelake.toml` in the working directory, if it exists.
pub fn default_file() -> Option<PathBuf> {
    let path = PathBuf::from("tidelake.toml");
    path.is_file().then_some(path)
}
