//! Settings of the write path in a function.

use tidelake_ingest::config::{CompactConfig, IngestConfig};
use tidelake_lambda::{settings, variables::Variables};

/// Default body limit. The platform sends at most 6 MB with one event, base64 included; a packed body may be larger when
/// unpacked.
const BODY: usize = 32 << 20;

/// Settings of writing in a function with this much memory: one writer that puts each group at once, acknowledges only stored
/// rows, and leaves compaction to the compaction function.
pub fn writing(variables: &mut Variables<'_>, memory: usize) -> IngestConfig {
    let buffer = (memory / 4).clamp(16 << 20, 256 << 20);
    let body = variables.get_or(&settings::MAX_BODY, &BODY.min(buffer).to_string());
    if body > buffer {
        variables.fault(format!(
            "{}: expected at most a quarter of the memory, {buffer}, found {body}",
            settings::MAX_BODY.about.variable
        ));
    }
    let mut config = IngestConfig {
        writers: Some(1),
        flush_interval_ms: Some(0),
        group_bytes: (16 << 20).min(buffer),
        buffer_bytes: buffer,
        body_bytes: body.min(buffer),
        line_bytes: variables.get(&settings::MAX_LINE),
        tables: variables.get(&settings::MAX_TABLES),
        columns: variables.get(&settings::MAX_COLUMNS),
        auto_create_database: variables.get(&settings::AUTO_CREATE_DATABASE),
        implausible_times: variables.get(&settings::IMPLAUSIBLE_TIMES),
        no_sync: false,
        ..IngestConfig::default()
    };
    config.compact.background = false;
    for fault in config.faults() {
        variables.fault(fault);
    }
    config
}

/// Settings of compaction in a function with this much memory.
pub fn compaction(memory: usize) -> CompactConfig {
    let share = |part: usize, least: usize, most: usize| (memory / part).clamp(least, most);
    CompactConfig {
        background: false,
        // In memory some ten times as much.
        fold_max_bytes: share(32, 4 << 20, 48 << 20) as u64,
        file_bytes: share(8, 16 << 20, 256 << 20),
        window_bytes: share(64, 2 << 20, 16 << 20),
        ..CompactConfig::default()
    }
    .within(memory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_fit_every_memory_size_of_the_platform() {
        for megabytes in [128, 256, 512, 1_024, 3_008, 10_240] {
            let mut variables = Variables::new(|_| None);
            let config = writing(&mut variables, megabytes << 20);
            variables.finish().unwrap();
            assert!(config.faults().is_empty() && !config.no_sync && !config.compact.background, "{megabytes}");
            assert!(config.buffer_bytes <= megabytes << 18, "{megabytes}");
            let compact = compaction(megabytes << 20);
            assert!(compact.fold_max_bytes as usize * 10 <= (megabytes << 20).max(40 << 20), "{megabytes}");
        }
    }

    #[test]
    fn a_body_limit_beyond_the_memory_is_refused_at_startup() {
        let mut variables = Variables::new(|name| (name == "TIDELAKE_MAX_BODY").then(|| "1GiB".to_owned()));
        writing(&mut variables, 512 << 20);
        assert!(variables.finish().unwrap_err().to_string().contains("TIDELAKE_MAX_BODY"));
    }
}
