//! Settings from environment variables; all faults are reported at once.

use tidelake_format::{Error, Result};
use tidelake_protocol::settings::{DefaultValue, Setting};

/// Environment variables, and the faults of those that were read.
pub struct Variables<'a> {
    get: Box<dyn Fn(&str) -> Option<String> + 'a>,
    faults: Vec<String>,
}

impl Default for Variables<'_> {
    /// The variables of this process.
    fn default() -> Self {
        Self::new(|name| std::env::var(name).ok())
    }
}

impl<'a> Variables<'a> {
    /// Reads variables with `get`.
    pub fn new(get: impl Fn(&str) -> Option<String> + 'a) -> Self {
        Self { get: Box::new(get), faults: Vec::new() }
    }

    /// Optional text; empty text counts as absent.
    pub fn text(&self, name: &str) -> Option<String> {
        (self.get)(name).map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
    }

    /// Required text.
    pub fn required(&mut self, name: &str, expected: &str) -> Option<String> {
        let found = self.text(name);
        if found.is_none() {
            self.fault(format!("{name}: expected {expected}, found nothing"));
        }
        found
    }

    /// Parses a variable, or its default if it is absent or invalid.
    ///
    /// # Panics
    /// If the default is invalid, which is a bug.
    pub fn parsed<T>(&mut self, name: &str, default: &str, parse: impl Fn(&str) -> Result<T, &'static str>) -> T {
        let fallback = || parse(default).unwrap_or_else(|expected| panic!("default of {name}: expected {expected}"));
        let Some(text) = self.text(name) else { return fallback() };
        parse(&text).unwrap_or_else(|expected| {
            self.fault(format!("{name}: expected {expected}, found {text:?}"));
            fallback()
        })
    }

    /// `true` or `false`.
    pub fn boolean(&mut self, name: &str, default: bool) -> bool {
        self.parsed(name, if default { "true" } else { "false" }, |text| text.parse().map_err(|_| "true or false"))
    }

    /// The value of a setting shared with the server, or its default.
    ///
    /// # Panics
    /// If the setting's default exists only in a server, which is a bug.
    pub fn get<T: Clone + PartialOrd>(&mut self, setting: &Setting<T>) -> T {
        let default = match setting.about.default {
            DefaultValue::Text(text) => Some(text),
            _ => None,
        };
        self.value(setting, default)
    }

    /// The value of a setting shared with the server, with another default.
    ///
    /// # Panics
    /// If the default is invalid, which is a bug.
    pub fn get_or<T: Clone + PartialOrd>(&mut self, setting: &Setting<T>, default: &str) -> T {
        self.value(setting, Some(default))
    }

    fn value<T: Clone + PartialOrd>(&mut self, setting: &Setting<T>, default: Option<&str>) -> T {
        let name = setting.about.variable;
        let fallback =
            || setting.value(default).unwrap_or_else(|expected| panic!("default of {name}: expected {expected}"));
        let Some(text) = self.text(name) else { return fallback() };
        setting.parse(&text).unwrap_or_else(|expected| {
            self.fault(format!("{name}: expected {expected}, found {text:?}"));
            fallback()
        })
    }

    /// Adds a fault.
    pub fn fault(&mut self, fault: String) {
        self.faults.push(fault);
    }

    /// # Errors
    /// Invalid, with every fault.
    pub fn finish(self) -> Result<()> {
        match self.faults.len() {
            0 => Ok(()),
            n => Err(Error::invalid(format!("{n} invalid settings: {}", self.faults.join("; ")))),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tidelake_protocol::settings;

    use super::*;

    #[test]
    fn every_fault_is_told_with_name_expectation_and_value() {
        let given = [
            ("A", "maybe"),
            ("TIDELAKE_MAX_TABLES", "-1"),
            ("TIDELAKE_MAX_LINE", "64 MB"),
            ("TIDELAKE_QUERY_TIMEOUT", "soon"),
            ("TIDELAKE_MAX_COLUMNS", "2"),
            ("F", " "),
            ("TIDELAKE_MAX_STALENESS", "2s"),
            ("TIDELAKE_MAX_BODY", "3"),
        ];
        let mut variables =
            Variables::new(|name| given.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned()));
        assert!(variables.boolean("A", true));
        assert_eq!(variables.get(&settings::MAX_TABLES), 10_000);
        assert_eq!(variables.get(&settings::MAX_LINE), 1 << 20);
        assert_eq!(variables.get_or(&settings::QUERY_TIMEOUT, "5s").as_secs(), 5);
        assert_eq!(variables.get(&settings::MAX_COLUMNS), 1_024);
        assert_eq!(variables.required("F", "a name"), None);
        assert_eq!(variables.get(&settings::MAX_STALENESS), Some(Duration::from_secs(2)));
        assert_eq!((variables.get_or(&settings::MAX_BODY, "1MiB"), variables.text("F")), (3, None));
        assert_eq!((variables.get(&settings::FLUSH_INTERVAL), variables.get_or(&settings::TAIL_CACHE, "9")), (None, 9));
        let error = variables.finish().unwrap_err().to_string();
        assert!(error.starts_with("6 invalid settings"), "{error}");
        for part in [
            "A: expected true or false, found \"maybe\"",
            "TIDELAKE_MAX_TABLES: ",
            "TIDELAKE_MAX_LINE: ",
            "TIDELAKE_QUERY_TIMEOUT: ",
            "TIDELAKE_MAX_COLUMNS: expected 3 to 4096, found \"2\"",
            "F: expected a name",
        ] {
            assert!(error.contains(part), "{part} is not in {error}");
        }
        assert!(Variables::new(|_| None).finish().is_ok());
    }
}
