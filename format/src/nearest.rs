//! The error for a misspelt name, with the nearest known name.

use crate::error::Error;

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
/// ```
pub fn unknown_parameter(found: &str, known: &[&str]) -> Error {
    let shown: String = found.chars().take(80).collect();
    let error = Error::invalid(UNKNOWN_PARAMETER).with("found", shown);
    let error = match nearest(found, known) {
        Some(name) => error.with("did you mean", name),
        None => error,
    };
    error.with("expected one of", known.join(", "))
}

/// The known name with the smallest edit distance; `None` if more than a third of the letters differ.
pub fn nearest<'a>(found: &str, known: &[&'a str]) -> Option<&'a str> {
    let found: Vec<char> = found.chars().take(100).flat_map(char::to_lowercase).collect();
    let most = (found.len() / 3).max(1);
    let distance = |name: &&str| distance(&found, &name.chars().flat_map(char::to_lowercase).collect::<Vec<_>>());
    let is_as_long = |name: &&&str| name.chars().count().abs_diff(found.len()) <= most;
    let distances = known.iter().filter(is_as_long).map(|name| (distance(name), *name));
    let (steps, name) = distances.min_by_key(|(steps, _)| *steps)?;
    (steps <= most).then_some(name)
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
            assert_eq!(nearest(found, &known), expected, "{found}");
        }
        assert_eq!(nearest("x", &[]), None);
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
