//! Suggestions in errors: the known name nearest to a misspelt one, or what to use instead.

use crate::error::Error;

impl Error {
    /// Adds the nearest of the known names to an error about a misspelt one, as `did you mean`, if one is near. At most
    /// 1 000 names are compared.
    #[must_use]
    pub fn suggest<'a>(self, found: &str, known: impl IntoIterator<Item = &'a str>) -> Self {
        match nearest(found, known) {
            Some(name) => self.with("did you mean", name),
            None => self,
        }
    }

    /// Adds what to use instead, as `use`, where that is known; else the nearest name, as [`Error::suggest`].
    #[must_use]
    pub fn suggest_or<'a>(self, instead: Option<&str>, found: &str, known: impl IntoIterator<Item = &'a str>) -> Self {
        match instead {
            Some(instead) => self.with("use", instead),
            None => self.suggest(found, known),
        }
    }
}

/// The message of [`unknown_parameter`].
pub const UNKNOWN_PARAMETER: &str = "unknown query parameter";

/// The error of a query parameter that no route of this path accepts.
///
/// ```
/// let error = tidelake_format::nearest::unknown_parameter("databse", &["db", "database", "format"]);
/// assert_eq!(
///     error.to_string(),
///     "unknown query parameter (found: databse, did you mean: database, expected one of: db, database, format)"
/// );
/// let error = tidelake_format::nearest::unknown_parameter("x", &[]);
/// assert_eq!(error.to_string(), "unknown query parameter (found: x, expected: none)");
/// ```
pub fn unknown_parameter(found: &str, known: &[&str]) -> Error {
    let shown: String = found.chars().take(80).collect();
    let error = Error::invalid(UNKNOWN_PARAMETER).with("found", shown).suggest(found, known.iter().copied());
    if known.is_empty() { error.with("expected", "none") } else { error.with("expected one of", known.join(", ")) }
}

/// The most names that are compared: the work of one error stays below a millisecond.
const MOST_COMPARED: usize = 1_000;

/// The known name with the smallest edit distance; `None` if more than a third of the letters differ, or all.
pub fn nearest<'a>(found: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let found: Vec<char> = found.chars().take(100).flat_map(char::to_lowercase).collect();
    let most = (found.len() / 3).max(1);
    let near = |name: &'a str| {
        let letters: Vec<char> = name.chars().take(200).flat_map(char::to_lowercase).collect();
        if letters.len().abs_diff(found.len()) > most {
            return None;
        }
        let steps = distance(&found, &letters);
        (steps <= most && steps < found.len().max(letters.len())).then_some((steps, name))
    };
    known.into_iter().take(MOST_COMPARED).filter_map(near).min_by_key(|(steps, _)| *steps).map(|(_, name)| name)
}

/// Edit distance: the minimum number of letters to insert, delete, replace or swap with a neighbour.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut rows = vec![(0..=b.len()).collect::<Vec<usize>>()];
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let least = (rows[i][j] + usize::from(x != y)).min(rows[i][j + 1] + 1).min(row[j] + 1);
            let is_swap = i > 0 && j > 0 && *x == b[j - 1] && a[i - 1] == *y;
            row.push(if is_swap { least.min(rows[i - 1][j - 1] + 1) } else { least });
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_reported_only_if_it_is_near() {
        let known = ["db", "database", "format", "max_rows", "precision"];
        for (found, expected) in [
            ("databse", Some("database")),
            ("DATABASE", Some("database")),
            ("maxrows", Some("max_rows")),
            ("precison", Some("precision")),
            ("fromat", Some("format")),
            ("d", Some("db")),
            ("epoch", None),
            ("", None),
        ] {
            assert_eq!(nearest(found, known), expected, "{found}");
        }
        assert_eq!((nearest("x", []), nearest("x", ["v"])), (None, None));
        let long = "d".repeat(1 << 20);
        assert!(unknown_parameter(&long, &known).to_string().len() < 300);
    }

    #[test]
    fn distances_of_known_pairs_are_correct() {
        let chars = |text: &str| text.chars().collect::<Vec<_>>();
        for (a, b, expected) in [("kitten", "sitting", 3), ("ab", "ba", 1), ("", "abc", 3), ("same", "same", 0)] {
            assert_eq!(distance(&chars(a), &chars(b)), expected, "{a} {b}");
        }
    }
}
