//! Names of the options in messages: those of the command line, or the parameters of the HTTP route.

/// The options of one interface, each up to its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Words {
    /// Tag columns.
    pub tags: &'static str,
    /// Time column.
    pub time: &'static str,
    /// Types of columns.
    pub types: &'static str,
    /// Text that means null.
    pub null: &'static str,
    /// Unit of numeric times.
    pub precision: &'static str,
    /// Accepts rows that replace each other; without a value.
    pub overwrite: &'static str,
    /// Accepts times that seem to be in another unit; without a value.
    pub implausible: &'static str,
}

impl Words {
    /// The options of `tidelake import`.
    pub const COMMAND_LINE: Words = Words {
        tags: "--tags ",
        time: "--time ",
        types: "--types ",
        null: "--null ",
        precision: "--precision ",
        overwrite: "--allow-overwrite",
        implausible: "--allow-implausible-times",
    };
    /// The parameters of `POST /api/v1/import`.
    pub const HTTP: Words = Words {
        tags: "tags=",
        time: "time=",
        types: "types=",
        null: "null=",
        precision: "precision=",
        overwrite: "overwrite=true",
        implausible: "the header x-tidelake-implausible-times: accept",
    };
}

/// The name of an option without its value.
pub(crate) fn name(option: &'static str) -> &'static str {
    option.trim_end_matches([' ', '='])
}

/// A number of things, such as "1 row" or "2 rows".
pub fn many(n: u64, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}
