//! Parts of a Markdown page: headings, tables, formatted numbers.

use std::fmt::Write;

pub(super) fn section(page: &mut String, title: &str) {
    let _ = writeln!(page, "## {title}\n");
}

pub(super) fn paragraph(page: &mut String, text: &str) {
    let _ = writeln!(page, "{text}\n");
}

pub(super) fn bullet(page: &mut String, text: &str) {
    let _ = writeln!(page, "- {text}");
}

/// Appends a table; the first column is left-aligned, the others right-aligned.
pub(super) fn table(page: &mut String, header: &[String], rows: impl Iterator<Item = Vec<String>>) {
    let _ = writeln!(page, "| {} |", header.join(" | "));
    let _ = writeln!(page, "|---|{}", "---:|".repeat(header.len().saturating_sub(1)));
    for row in rows {
        let _ = writeln!(page, "| {} |", row.join(" | "));
    }
    page.push('\n');
}

/// Formats an integer with a space between groups of three digits.
pub(super) fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

/// Formats milliseconds with significant decimals only.
pub(super) fn millis(value: f64) -> String {
    match value {
        value if !value.is_finite() => String::new(),
        value if value < 10.0 => format!("{value:.2}"),
        value if value < 100.0 => format!("{value:.1}"),
        value => grouped(value.round() as u64),
    }
}

/// Formats bytes in decimal units.
pub(super) fn bytes(value: u64) -> String {
    let value = value as f64;
    match value {
        value if value < 1e3 => format!("{value} B"),
        value if value < 1e6 => format!("{:.1} kB", value / 1e3),
        value if value < 1e9 => format!("{:.1} MB", value / 1e6),
        value => format!("{:.2} GB", value / 1e9),
    }
}
