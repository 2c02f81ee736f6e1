//! The settings of the server, each declared once. The flag, environment variable, file key, validation, SHOW
//! VARIABLES, help and the table in docs/settings.md come from the declaration. The cloud functions read the settings
//! they share with the server by the same declarations.

mod declared;
mod kinds;
pub mod network;

use std::borrow::Cow;

pub use declared::*;
use kinds::Kind;
pub use kinds::{Auth, LogFormat, Names, Networks, store_option, without_credentials};

/// A setting with values of the type `T`.
pub struct Setting<T> {
    /// The part that does not depend on the type.
    pub about: About,
    kind: Kind<T>,
}

/// Description of a setting, independent of the type of its value.
pub struct About {
    /// The name in the file and in SHOW VARIABLES.
    pub name: &'static str,
    /// The name of the flag, without leading dashes.
    pub flag: &'static str,
    /// The name of the environment variable.
    pub variable: &'static str,
    /// Placeholder of the value in the help.
    pub value_name: &'static str,
    /// Default value.
    pub default: DefaultValue,
    /// The least and the greatest value.
    pub range: Range,
    /// Help text.
    pub help: &'static str,
    /// Cost of a higher value; empty if values have no order.
    pub raised: &'static str,
    /// Cost of a lower value; empty if values have no order.
    pub lowered: &'static str,
}

/// The least and the greatest value of a setting, as texts of its kind.
#[derive(Clone, Copy)]
pub struct Range {
    least: Option<&'static str>,
    most: Option<&'static str>,
}

impl Range {
    /// Every value of the kind.
    const ANY: Self = Self { least: None, most: None };

    const fn at_least(least: &'static str) -> Self {
        Self { least: Some(least), most: None }
    }

    const fn at_most(most: &'static str) -> Self {
        Self { least: None, most: Some(most) }
    }

    const fn between(least: &'static str, most: &'static str) -> Self {
        Self { least: Some(least), most: Some(most) }
    }

    /// The range in words; `None` if only the kind limits the values.
    pub fn words(&self) -> Option<String> {
        match (self.least, self.most) {
            (Some(least), Some(most)) => Some(format!("{least} to {most}")),
            (Some(least), None) => Some(format!("{least} or more")),
            (None, Some(most)) => Some(format!("at most {most}")),
            (None, None) => None,
        }
    }
}

/// Default of a setting.
pub enum DefaultValue {
    /// A text of the setting's kind.
    Text(&'static str),
    /// Not set, with the meaning in words.
    Unset(&'static str),
    /// A share of the memory.
    Share(Share),
    /// The memory limit that the system sets for the process.
    SystemMemory,
    /// The number of concurrent queries for which the memory suffices.
    QueriesOfMemory,
    /// Half of `max_connections`.
    HalfOfConnections,
}

impl DefaultValue {
    /// The default in words.
    pub fn words(&self) -> Cow<'static, str> {
        match self {
            DefaultValue::Text(words) | DefaultValue::Unset(words) => Cow::Borrowed(words),
            DefaultValue::Share(share) => Cow::Owned(share.words()),
            DefaultValue::SystemMemory => {
                Cow::Borrowed("the smallest limit of the process's control groups, else the machine's memory")
            }
            DefaultValue::QueriesOfMemory => Cow::Borrowed("16, less where the memory is below 2GiB"),
            DefaultValue::HalfOfConnections => Cow::Borrowed("half of max_connections"),
        }
    }
}

/// A share of the setting `memory`.
#[derive(Clone, Copy)]
pub struct Share {
    /// The numerator of the share.
    pub numerator: usize,
    /// The denominator of the share.
    pub denominator: usize,
    /// The least share, in MiB; 0 for none.
    pub least_mib: usize,
    /// The greatest share, in MiB; `None` for no limit.
    pub most_mib: Option<usize>,
}

impl Share {
    const fn of_memory(numerator: usize, denominator: usize) -> Self {
        Self { numerator, denominator, least_mib: 0, most_mib: None }
    }

    const fn at_least_mib(self, least_mib: usize) -> Self {
        Self { least_mib, ..self }
    }

    const fn at_most_mib(self, most_mib: usize) -> Self {
        Self { most_mib: Some(most_mib), ..self }
    }

    fn words(&self) -> String {
        let Self { numerator, denominator, least_mib, most_mib } = *self;
        let mut words = match (numerator, denominator) {
            (1, 4) => "a quarter of the memory".to_owned(),
            (1, 8) => "an eighth of the memory".to_owned(),
            (3, 8) => "three eighths of the memory".to_owned(),
            (1, 16) => "a sixteenth of the memory".to_owned(),
            _ => format!("{numerator}/{denominator} of the memory"),
        };
        if least_mib > 0 {
            words += &format!(", at least {least_mib}MiB");
        }
        if let Some(most) = most_mib {
            words += &format!(", at most {most}MiB");
        }
        words
    }
}

impl<T: Clone + PartialOrd> Setting<T> {
    /// Parses a value and checks its range.
    ///
    /// # Errors
    /// The expected kind of value, or the range.
    pub fn parse(&self, text: &str) -> Result<T, Cow<'static, str>> {
        let value = (self.kind.parse)(text)?;
        let bound = |text: Option<&str>| text.and_then(|text| (self.kind.parse)(text).ok());
        let Range { least, most } = self.about.range;
        let is_low = bound(least).is_some_and(|least| value < least);
        let is_high = bound(most).is_some_and(|most| value > most);
        match self.about.range.words().filter(|_| is_low || is_high) {
            Some(words) => Err(Cow::Owned(words)),
            None => Ok(value),
        }
    }

    /// Parses a value; without text, returns the value of a setting that is not set.
    ///
    /// # Errors
    /// The expected kind of value, the range, or that a value is required.
    pub fn value(&self, text: Option<&str>) -> Result<T, Cow<'static, str>> {
        match text {
            Some(text) => self.parse(text),
            None => self.kind.unset.clone().ok_or(Cow::Borrowed("a value")),
        }
    }
}

/// A setting without its value type, for lists of all settings.
pub trait Declared: Sync {
    /// Description of the setting.
    fn about(&self) -> &About;

    /// Parses a value as [`Setting::value`] and formats it for SHOW VARIABLES.
    ///
    /// # Errors
    /// As for [`Setting::value`].
    fn show(&self, text: Option<&str>) -> Result<String, Cow<'static, str>>;
}

impl<T: Clone + PartialOrd + Sync> Declared for Setting<T> {
    fn about(&self) -> &About {
        &self.about
    }

    fn show(&self, text: Option<&str>) -> Result<String, Cow<'static, str>> {
        self.value(text).map(|value| (self.kind.show)(&value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_declaration_is_whole() {
        for setting in ALL {
            let About { name, flag, variable, value_name, default, range, help, raised, lowered } = setting.about();
            let shown = match default {
                DefaultValue::Text(text) => setting.show(Some(text)),
                DefaultValue::Unset(_) => setting.show(None),
                _ => Ok(String::new()),
            };
            assert!(shown.is_ok(), "{name}: {shown:?} is expected, {} is the default", default.words());
            for bound in [range.least, range.most].into_iter().flatten() {
                assert!(setting.show(Some(bound)).is_ok(), "{name}: {bound}");
            }
            assert_eq!(format!("TIDELAKE_{}", name.to_uppercase()), *variable);
            assert!(
                !flag.contains('_') && !value_name.is_empty() && !help.is_empty() && !help.ends_with('.'),
                "{name}"
            );
            let is_ordered = ["SIZE", "COUNT", "DURATION", "RATIO"].contains(value_name);
            assert_eq!((!raised.is_empty(), !lowered.is_empty()), (is_ordered, is_ordered), "{name}: costs");
            assert_eq!(ALL.iter().filter(|other| other.about().name == *name).count(), 1, "{name} is declared twice");
        }
    }

    #[test]
    fn values_out_of_the_range_are_refused_with_the_range() {
        assert_eq!(MAX_HEADER.parse("8KiB"), Ok(8 << 10));
        assert_eq!(MAX_HEADER.parse("1KiB"), Err("8KiB to 16MiB".into()));
        assert_eq!(DISK_CACHE_SIZE.parse("1MiB"), Err("16MiB or more".into()));
        assert_eq!(FLUSH_INTERVAL.parse("11s"), Err("at most 10s".into()));
        assert_eq!(FLUSH_INTERVAL.parse("soon"), Err("a duration such as 500ms, 5s, 5m or 1h".into()));
        assert_eq!((FLUSH_INTERVAL.value(None), MAX_BODY.value(None)), (Ok(None), Err("a value".into())));
    }

    #[test]
    fn one_identifier_gives_all_names() {
        let About { name, flag, variable, .. } = MAX_CLIENT_CONNECTIONS.about;
        assert_eq!(
            (name, flag, variable),
            ("max_client_connections", "max-client-connections", "TIDELAKE_MAX_CLIENT_CONNECTIONS")
        );
        assert_eq!(TLS_CLIENT_CA.show(Some("")), Ok(String::new()));
        assert_eq!(COMPACT_MEMORY.about.default.words(), "a quarter of the memory, at least 64MiB");
        assert_eq!(TAIL_CACHE.about.default.words(), "an eighth of the memory, at most 256MiB");
    }
}
