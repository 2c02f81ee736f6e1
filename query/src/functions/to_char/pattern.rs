//! Translates patterns of TDengine, Oracle and PostgreSQL to chrono's.

use std::borrow::Cow;

use tidelake_format::{Error, Result};

/// Pattern words, case-insensitive, and their chrono equivalents; longer words come before their prefixes.
const WORDS: [(&str, &str); 24] = [
    ("yyyy", "%Y"),
    ("month", "%B"),
    ("a.m.", "%p"),
    ("p.m.", "%p"),
    ("hh24", "%H"),
    ("hh12", "%I"),
    ("mon", "%b"),
    ("day", "%A"),
    ("ddd", "%j"),
    ("am", "%p"),
    ("pm", "%p"),
    ("yy", "%y"),
    ("mm", "%m"),
    ("mi", "%M"),
    ("ms", "%3f"),
    ("dd", "%d"),
    ("dy", "%a"),
    ("hh", "%I"),
    ("iw", "%V"),
    ("ss", "%S"),
    ("us", "%6f"),
    ("ns", "%9f"),
    ("tzh", "%z"),
    ("tz", "%Z"),
];

/// Translates a pattern to chrono's; a pattern with a `%` or without letters is returned unchanged.
///
/// # Errors
/// Invalid for a word that is in neither language, or that is likely to be misunderstood.
pub(super) fn to_chrono(pattern: &str) -> Result<Cow<'_, str>> {
    if pattern.contains('%') || !pattern.contains(|c: char| c.is_ascii_alphabetic()) {
        return Ok(Cow::Borrowed(pattern));
    }
    let refused = |what: &str, found: &str| {
        Err(Error::invalid(what.to_owned())
            .with("pattern", crate::error::shorten(pattern))
            .with("found", found)
            .with("expected", "yyyy yy month mon mm ddd dd day dy hh24 hh12 am mi ss ms us ns, \"text\", or chrono's %Y %m %d %H %M %S %3f"))
    };
    let (mut chrono, mut rest) = (String::with_capacity(pattern.len() * 2), pattern);
    let (mut before, mut half_day, mut day_half) = ("", false, false);
    while let Some(first) = rest.chars().next() {
        if first == '"' {
            let Some(end) = rest[1..].find('"') else { return refused("unterminated quoted text in a pattern", rest) };
            chrono.push_str(&rest[1..1 + end]);
            rest = &rest[end + 2..];
            continue;
        }
        if !first.is_ascii_alphabetic() {
            chrono.push(first);
            rest = &rest[first.len_utf8()..];
            continue;
        }
        let found = WORDS.iter().find(|(word, _)| rest.get(..word.len()).is_some_and(|w| w.eq_ignore_ascii_case(word)));
        let Some((word, meaning)) = found else {
            let end = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
            return refused("unknown part of a to_char pattern", &rest[..end]);
        };
        if *meaning == "%m" && matches!(before, "%H" | "%I") {
            return refused("mm is the month; write mi, or %M, for minutes", &rest[..word.len()]);
        }
        half_day |= *word == "hh";
        day_half |= *meaning == "%p";
        chrono.push_str(if rest.starts_with("am") || rest.starts_with("pm") { "%P" } else { meaning });
        before = meaning;
        rest = &rest[word.len()..];
        if rest.starts_with(|c: char| c.is_ascii_digit()) && *word == "hh" {
            return refused("unknown part of a to_char pattern", &rest[..1]);
        }
    }
    if half_day && !day_half {
        return refused(
            "hh is a 12-hour clock, but the pattern has no am or pm; write hh24, or %H, for hours up to 23",
            "hh",
        );
    }
    Ok(Cow::Owned(chrono))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_of_other_databases_translate_to_chrono() {
        for (pattern, chrono) in [
            ("yyyy-MM-dd", "%Y-%m-%d"),
            ("YYYY/MM/DD hh24:mi:ss.ms", "%Y/%m/%d %H:%M:%S.%3f"),
            ("yyyymmdd", "%Y%m%d"),
            ("hh12:mi:ss am", "%I:%M:%S %P"),
            ("HH:MI AM", "%I:%M %p"),
            ("yyyy-mm-dd\"T\"hh24:mi:ss.us", "%Y-%m-%dT%H:%M:%S.%6f"),
            ("ss.ns", "%S.%9f"),
            ("Day, DD Month YY", "%A, %d %B %y"),
            ("dy mon ddd", "%a %b %j"),
            ("%Y-%m-%d", "%Y-%m-%d"),
            ("%Y yyyy", "%Y yyyy"),
            ("--", "--"),
            ("", ""),
        ] {
            assert_eq!(to_chrono(pattern).unwrap(), chrono, "{pattern}");
        }
    }

    #[test]
    fn ambiguous_and_unknown_words_are_refused() {
        for (pattern, says) in [
            ("yyyy-MM-dd HH:mm:ss", "minutes"),
            ("hh24:mm", "minutes"),
            ("hh:mi", "hh24"),
            ("today", "today"),
            ("yyyy-q", "q"),
            ("yyyy \"to", "unterminated"),
        ] {
            let error = to_chrono(pattern).unwrap_err().to_string();
            assert!(error.contains(says) && error.contains('%'), "{pattern}: {error}");
        }
    }
}
