//! The log lines that a client wants to follow.

use tidelake_format::{Error, Result};
use tracing::Level;

use super::tail::Line;

/// A level, and words that a line must contain.
#[derive(Debug, Clone)]
pub(in crate::serve) struct Wanted {
    most: Level,
    words: Vec<String>,
}

impl Wanted {
    /// Lines of a level or a more severe one, all by default, with all of some words.
    ///
    /// # Errors
    /// Invalid if the level is none.
    pub(in crate::serve) fn new(level: Option<&str>, words: Option<&str>) -> Result<Self> {
        let unknown = |level: &str| {
            Error::invalid("unknown level of log lines")
                .with("expected", "level=error, warn, info, debug or trace")
                .with("found", format!("level={level}"))
        };
        let most = match level {
            Some(level) if level.bytes().all(|b| b.is_ascii_alphabetic()) => {
                level.parse().map_err(|_| unknown(level))?
            }
            Some(level) => return Err(unknown(level)),
            None => Level::TRACE,
        };
        let words = words.unwrap_or_default().split_whitespace().map(str::to_lowercase).collect();
        Ok(Self { most, words })
    }

    pub(in crate::serve) fn has(&self, line: &Line) -> bool {
        if line.level > self.most {
            return false;
        }
        if self.words.is_empty() {
            return true;
        }
        let text = line.text().to_lowercase();
        self.words.iter().all(|word| text.contains(word))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_wanted_by_level_and_words() {
        let line = Line::of(Level::WARN, "tidelake::compact", "merge failed", &[("table", "Climate")]);
        let has = |level, words| Wanted::new(level, words).unwrap().has(&line);
        assert!(has(None, None) && has(Some("warn"), None) && has(Some("INFO"), Some("  ")));
        assert!(!has(Some("error"), None));
        assert!(has(None, Some("MERGE table=climate")) && has(Some("debug"), Some("tidelake::compact failed")));
        assert!(!has(None, Some("merge table=indoor")));
    }

    #[test]
    fn a_level_that_is_none_is_named() {
        for level in ["loud", "", "3"] {
            let error = Wanted::new(Some(level), None).unwrap_err().to_string();
            assert!(
                error.contains("error, warn, info, debug or trace") && error.contains(&format!("level={level}")),
                "{error}"
            );
        }
    }
}
