//! Time, machine and command of a measurement.

use serde::{Deserialize, Serialize};

use super::text::{bullet, bytes, section};
use crate::measure::{self, Machine};

/// Head of every report.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Conditions {
    /// Start time, RFC 3339 in UTC.
    pub started: String,
    /// Commit of the source tree, if known.
    pub commit: Option<String>,
    /// The machine, shared by server and clients.
    pub machine: Machine,
    /// The command line.
    pub command: Vec<String>,
}

impl Conditions {
    /// Returns the current time, this machine and this command.
    pub fn here() -> Self {
        Self {
            started: chrono::Utc::now().to_rfc3339_opts(chrono::SecondsFormat::Secs, true),
            commit: measure::commit(),
            machine: measure::machine(),
            command: std::env::args().collect(),
        }
    }

    /// Appends a section with a list that ends with `more`.
    pub(super) fn tell(&self, page: &mut String, more: &[String]) {
        let (commit, machine) = (self.commit.as_deref().unwrap_or("unknown"), &self.machine);
        section(page, "Conditions");
        bullet(page, &format!("Started {}, commit `{commit}`.", self.started));
        bullet(
            page,
            &format!(
                "{}, {} cores, {} of memory, {}; shared by server and clients.",
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
