//! Settings from environment variables: all faults are told at once.

use tidelake_format::{Error, Result, units};

/// Environment variables, and what is wrong with those that were read.
pub struct Variables<'a> {
    get: Box<dyn Fn(&str) -> Option<String> + 'a>,
    faults: Vec<String>,
}

impl Default for Variables<'_> {
    /// Those of this process.
    fn default() -> Self {
        Self::new(|name| std::env::var(name).ok())
    }
}

impl<'a> Variables<'a> {
    /// Variables by name.
    pub fn new(get: impl Fn(&str) -> Option<String> + 'a) -> Self {
        Self { get: Box::new(get), faults: Vec::new() }
    }

    /// Text that may be absent; empty text is absent.
    pub fn text(&self, name: &str) -> Option<String> {
        (self.get)(name).map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
    }

    /// Text that must be there.
    pub fn required(&mut self, name: &str, expected: &str) -> Option<String> {
        let found = self.text(name);
        if found.is_none() {
            self.fault(format!("{name}: expected {expected}, found nothing"));
        }
        found
    }

    /// What `parse` makes of a variable, or of its default where it is absent or wrong.
    ///
    /// # Panics
    /// When the default is wrong, which is a bug.
    pub fn parsed<T>(&mut self, name: &str, default: &str, parse: impl Fn(&str) -> Result<T, &'static str>) -> T {
        let fallback = || parse(default).unwrap_or_else(|expected| panic!("the default of {name} is not {expected}"));
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

    /// A whole number above 0.
    pub fn count(&mut self, name: &str, default: usize) -> usize {
        let parse = |text: &str| text.parse().ok().filter(|n| *n > 0).ok_or("a whole number above 0");
        self.parsed(name, &default.to_string(), parse)
    }

    /// Bytes such as `64MiB`.
    pub fn size(&mut self, name: &str, default: usize) -> usize {
        self.parsed(name, &default.to_string(), units::size)
    }

    /// A time such as `30s`.
    pub fn duration(&mut self, name: &str, default: &str) -> std::time::Duration {
        self.parsed(name, default, units::duration)
    }

    /// Something else that is wrong.
    pub fn fault(&mut self, fault: String) {
        self.faults.push(fault);
    }

    /// # Errors
    /// Invalid, naming every fault.
    pub fn finish(self) -> Result<()> {
        match self.faults.len() {
            0 => Ok(()),
            n => Err(Error::invalid(format!("{n} of the settings cannot be used: {}", self.faults.join("; ")))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_is_told_with_name_expectation_and_value() {
        let given = [("A", "maybe"), ("B", "-1"), ("C", "64 MB"), ("D", "soon"), ("F", " "), ("G", "2s"), ("H", "3")];
        let mut variables =
            Variables::new(|name| given.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned()));
        assert!(variables.boolean("A", true));
        assert_eq!(variables.count("B", 7), 7);
        assert_eq!(variables.size("C", 1 << 20), 1 << 20);
        assert_eq!(variables.duration("D", "5s").as_secs(), 5);
        assert_eq!(variables.required("F", "a name"), None);
        assert_eq!((variables.duration("G", "5s").as_secs(), variables.count("H", 1)), (2, 3));
        assert_eq!((variables.text("F"), variables.count("absent", 9)), (None, 9));
        let error = variables.finish().unwrap_err().to_string();
        assert!(error.starts_with("5 of the settings"), "{error}");
        for part in ["A: expected true or false, found \"maybe\"", "B: ", "C: ", "D: ", "F: expected a name"] {
            assert!(error.contains(part), "{part} is not in {error}");
        }
        assert!(Variables::new(|_| None).finish().is_ok());
    }
}
