//! Sizes and durations in settings.

use std::time::Duration;

/// Parses a size in bytes: a positive whole number with B, KiB, MiB, GiB or no unit.
///
/// # Errors
/// The expected format.
pub fn size(s: &str) -> Result<usize, &'static str> {
    let expected = "a size such as 64MiB (B, KiB, MiB, GiB)";
    let (number, unit) = s.split_at(s.find(|c: char| !c.is_ascii_digit()).unwrap_or(s.len()));
    let scale = match unit.trim() {
        "" | "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return Err(expected),
    };
    let bytes = number.parse::<usize>().ok().and_then(|n| n.checked_mul(scale));
    bytes.filter(|n| *n > 0).ok_or(expected)
}

/// Parses a duration: a whole number with ms, s, m or h; at most a year.
///
/// # Errors
/// The expected format.
pub fn duration(s: &str) -> Result<Duration, &'static str> {
    let expected = "a duration such as 500ms, 5s, 5m or 1h";
    let (number, unit) = s.split_at(s.find(|c: char| !c.is_ascii_digit()).unwrap_or(s.len()));
    let ms = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return Err(expected),
    };
    let ms = number.parse::<u64>().ok().and_then(|n| n.checked_mul(ms)).ok_or(expected)?;
    // The limit bounds every wait of the server and keeps deadlines far from overflow.
    if ms > 365 * 86_400_000 { Err("a duration of at most a year") } else { Ok(Duration::from_millis(ms)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_durations_have_units_and_limits() {
        assert_eq!(size("2GiB"), Ok(2 << 30));
        assert!(size("0").is_err() && size("1GB").is_err() && size("99999999999GiB").is_err());
        assert_eq!(duration("90s"), Ok(Duration::from_secs(90)));
        assert!(duration("5").is_err() && duration("99999999999999999999h").is_err() && duration("9999999h").is_err());
    }
}
