//! One layer of settings as text: flags and environment variables, or a file.

use std::{collections::BTreeMap, path::Path};

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use tidelake_format::nearest::nearest;
use tidelake_protocol::settings::{ALL, About, STORE_OPTIONS, Setting, store_option};

/// One layer of settings as text.
///
/// Values stay text until [`Settings::resolve`](super::Settings::resolve) checks them, so that all faults of all layers
/// are reported at once.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Layer {
    /// Texts by setting name.
    pub(super) texts: BTreeMap<&'static str, String>,
    /// Names and values of store options, or a fault for an invalid one; a file's options come before those of flags.
    pub(super) options: Vec<Result<(String, String), &'static str>>,
}

impl Layer {
    /// Sets a setting from text.
    pub fn set<T>(&mut self, setting: &Setting<T>, text: impl Into<String>) {
        self.texts.insert(setting.about.name, text.into());
    }

    /// Reads the settings of a file. Invalid entries are skipped and added to `faults`.
    pub(super) fn read(path: &Path, faults: &mut Vec<String>) -> Self {
        let mut layer = Self::default();
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(e) => {
                faults.push(format!("{}: {e}", path.display()));
                return layer;
            }
        };
        let table: toml::Table = match text.parse() {
            Ok(table) => table,
            Err(e) => {
                // Omit the line's text: it may hold a secret.
                let begun = e.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
                let line = begun.matches('\n').count() + 1;
                faults.push(format!("{}: line {line}: {}", path.display(), e.message()));
                return layer;
            }
        };
        for (name, value) in table {
            match value {
                toml::Value::Table(options) if name == STORE_OPTIONS.about.name => {
                    for (option, value) in options {
                        match text_of(value) {
                            Ok(value) => layer.options.push(Ok((option, value))),
                            Err(fault) => faults.push(format!("{}: {name}.{option}: {fault}", path.display())),
                        }
                    }
                }
                value => {
                    if let Err(fault) = layer.take(&name, value) {
                        faults.push(format!("{}: {name}: {fault}", path.display()));
                    }
                }
            }
        }
        layer
    }

    /// Adds one entry of a file.
    fn take(&mut self, name: &str, value: toml::Value) -> Result<(), String> {
        let Some(setting) = ALL.iter().find(|setting| setting.about().name == name) else {
            let names = ALL.iter().map(|setting| setting.about().name);
            let hint = nearest(name, names).map_or(String::new(), |name| format!("; did you mean {name}?"));
            return Err(format!("unknown setting{hint}"));
        };
        if name == STORE_OPTIONS.about.name {
            return Err("expected a table of options".to_owned());
        }
        self.texts.insert(setting.about().name, text_of(value)?);
        Ok(())
    }
}

/// Converts a value of a file to text.
fn text_of(value: toml::Value) -> Result<String, String> {
    match value {
        toml::Value::String(s) => Ok(s),
        toml::Value::Integer(i) => Ok(i.to_string()),
        toml::Value::Float(f) => Ok(f.to_string()),
        toml::Value::Boolean(b) => Ok(b.to_string()),
        // Omit the value: it may hold a secret.
        other => Err(format!("expected text, a number or a boolean, found {}", other.type_str())),
    }
}

/// Help text of a setting with range and default.
fn help(about: &About) -> String {
    let range = about.range.words().map_or(String::new(), |range| format!(" [range: {range}]"));
    format!("{}{range} [default: {}]", about.help, about.default.words())
}

impl Args for Layer {
    fn augment_args(command: Command) -> Command {
        ALL.iter().fold(command, |command, setting| {
            let about = setting.about();
            let argument = Arg::new(about.name)
                .long(about.flag)
                .env(about.variable)
                .value_name(about.value_name)
                .help(help(about));
            command.arg(match about.name == STORE_OPTIONS.about.name {
                true => argument.action(ArgAction::Append).value_delimiter(','),
                false => argument,
            })
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Layer {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut layer = Self::default();
        layer.update_from_arg_matches(matches)?;
        Ok(layer)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        for About { name, .. } in ALL.iter().map(|setting| setting.about()) {
            let mut given = matches.get_many::<String>(name).into_iter().flatten().cloned();
            if *name == STORE_OPTIONS.about.name {
                self.options.extend(given.map(|text| store_option(&text)));
            } else if let Some(text) = given.next() {
                self.texts.insert(name, text);
            }
        }
        Ok(())
    }
}
