//! When, where and by what command something was measured.

use serde::{Deserialize, Serialize};

use super::text::{bullet, bytes, section};
use crate::measure::{self, Machine};

/// What stands at the head of every report.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Conditions {
    /// When it began, RFC 3339 in UTC.
    pub started: String,
    /// The source tree's commit, where known.
    pub commit: Option<String>,
    /// The machine, which server and clients share.
    pub machine: Machine,
    /// The command line.
    pub command: Vec<String>,
}

impl Conditions {
    /// Now, on this machine, by this command.
    pub fn here() -> Self {
        Self {
            started: chrono::Utc::now().to_rfc3339_opts(chrono::SecondsFormat::Secs, true),
            commit: measure::commit(),
            machine: measure::machine(),
            command: std::env::args().collect(),
        }
    }

    /// A section with a list, which ends with `more`.
    pub(super) fn tell(&self, page: &mut String, more: &[String]) {
        let (commit, machine) = (self.commit.as_deref().unwrap_or("unknown"), &self.machine);
        section(page, "Conditions");
        bullet(page, &format!("Begun {}, commit `{commit}`.", self.started));
        bullet(
            page,
            &format!(
                "{}, {} cores, {} of memory, {}; server and clients share it.",
                machine.cpu,
                machine.cores,
                bytes(machine.memory),
                machine.system
            ),
        );
        bullet(page, &format!("`{}`", self.command.join(" ")));
        more.iter().for_each(|line| bullet(page, line));
        page.push('\n');
    }
}
