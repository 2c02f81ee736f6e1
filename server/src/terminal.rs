//! Escapes control characters in text from a database or a server before it is printed on a terminal.

use std::borrow::Cow;

/// Replaces control characters by escapes, except line feeds and tabs.
pub(crate) fn escaped(text: &str) -> Cow<'_, str> {
    let is_obeyed = |c: char| c.is_control() && c != '\n' && c != '\t';
    if !text.contains(is_obeyed) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            c if is_obeyed(c) => out.extend(c.escape_unicode()),
            c => out.push(c),
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::escaped;

    #[test]
    fn a_terminal_gets_no_control_character_but_lines_and_tabs() {
        assert_eq!(escaped("plain äöü\n\tx"), "plain äöü\n\tx");
        assert_eq!(escaped("\u{1b}[2Jx\r\u{7f}\u{9b}31m"), "\\u{1b}[2Jx\\u{d}\\u{7f}\\u{9b}31m");
    }
}
