//! Shows the place of an error in a statement.

/// The line of the statement that an error names, with a caret below the column; empty if the error names none.
///
/// Errors of the server end with a list of details in parentheses: `(…, line: 2, column: 8)`, both counted from 1, in
/// characters.
pub(super) fn place(message: &str, statement: &str) -> String {
    let number = |name: &str| {
        let (_, rest) = message.rsplit_once(name)?;
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        digits.parse::<usize>().ok()?.checked_sub(1)
    };
    let (Some(line), Some(column)) = (number("line: "), number("column: ")) else { return String::new() };
    let Some(text) = statement.lines().nth(line) else { return String::new() };
    // Tabs keep their width in the line of the caret.
    let before: String = text.chars().take(column).map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
    let number = line + 1;
    format!("{number:>4} │ {text}\n     │ {before}^\n")
}

#[cfg(test)]
mod tests {
    use super::place;

    #[test]
    fn a_caret_is_below_the_column_that_the_error_names() {
        let statement = "select host\n\t, usäge from cpu";
        let found = place("no such column (column: usage, expected one of: ts, line: 2, column: 4)", statement);
        assert_eq!(found, "   2 │ \t, usäge from cpu\n     │ \t  ^\n");
        assert_eq!(place("x (line: 1, column: 1)", "selec 1"), "   1 │ selec 1\n     │ ^\n");
    }

    #[test]
    fn an_error_without_a_place_has_no_caret() {
        for message in ["out of memory", "x (line: 9, column: 1)", "x (line: a, column: 1)", "x (line: 0, column: 0)"] {
            assert_eq!(place(message, "select 1"), "", "{message}");
        }
    }
}
