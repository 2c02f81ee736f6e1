//! Names and JSON of the sections of a version.
//!
//! | section | content |
//! |---|---|
//! | `databases` | the next ids and every database |
//! | `access` | users, the tokens of their programs and what is granted to them |
//! | `q/<owner>/<name>` | a saved query; the owner is a user, or empty while authentication is off |
//! | `t/<table>` | one supertable |
//! | `p/<table>` | partition → summary of its files |
//! | `f/<table>/<partition>` | the files of one partition, lowest order first |
//! | `log/<digit>` | writer → watermark, of the writers whose id starts with this hexadecimal digit |

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Watermark, saved};
use crate::{
    ids::{TableId, WriterId},
    schema::Database,
};

pub(super) const DATABASES: &str = "databases";
pub(super) const ACCESS: &str = "access";

/// The section `databases`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Databases {
    pub(super) next_database: u32,
    pub(super) next_table: u32,
    pub(super) databases: Vec<Database>,
}

/// A section `log/<digit>`.
pub(super) type Watermarks = BTreeMap<WriterId, Watermark>;

/// The parsed name of a section.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Section {
    Databases,
    Access,
    Table(TableId),
    Partitions(TableId),
    Files(TableId, i64),
    Log(u8),
}

impl Section {
    pub(super) fn name(self) -> String {
        match self {
            Section::Databases => DATABASES.to_owned(),
            Section::Access => ACCESS.to_owned(),
            Section::Table(t) => format!("t/{}", t.0),
            Section::Partitions(t) => format!("p/{}", t.0),
            Section::Files(t, partition) => format!("f/{}/{partition}", t.0),
            Section::Log(digit) => format!("log/{digit:x}"),
        }
    }

    /// `None` for a section unknown to this release; it is kept unchanged.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        if name == DATABASES {
            return Some(Section::Databases);
        }
        if name == ACCESS {
            return Some(Section::Access);
        }
        let (kind, rest) = name.split_once('/')?;
        let section = match kind {
            "t" => Section::Table(TableId(rest.parse().ok()?)),
            "p" => Section::Partitions(TableId(rest.parse().ok()?)),
            "f" => {
                let (table, partition) = rest.split_once('/')?;
                Section::Files(TableId(table.parse().ok()?), partition.parse().ok()?)
            }
            "log" => Section::Log(u8::from_str_radix(rest, 16).ok().filter(|digit| *digit < 16)?),
            _ => return None,
        };
        (section.name() == name).then_some(section)
    }

    /// Whether every reader of the catalog needs the section.
    pub(super) fn is_eager(name: &str) -> bool {
        !name.starts_with("f/") && !name.starts_with(saved::PREFIX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn section_names_survive_parsing() {
        for section in [
            Section::Databases,
            Section::Access,
            Section::Table(TableId(7)),
            Section::Partitions(TableId(u32::MAX)),
            Section::Files(TableId(0), -3),
            Section::Log(15),
        ] {
            assert_eq!(Section::parse(&section.name()), Some(section));
        }
        for other in ["", "t/", "t/07", "f/1", "f/1/x", "log/10", "later/1"] {
            assert_eq!(Section::parse(other), None, "{other}");
        }
    }
}
