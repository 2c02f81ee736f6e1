//! What an import would do, printed for the user; nothing is written.

use std::fmt::Write as _;

use anyhow::bail;
use tidelake_import::{preview::Preview, words::many};

use crate::terminal;

/// Prints a preview.
///
/// # Errors
/// The import would fail.
#[expect(clippy::print_stdout, reason = "the command's result")]
pub(super) fn show(preview: &Preview, allows_overwrite: bool, allows_wrong: bool) -> anyhow::Result<()> {
    print!("{}", terminal::escaped(&described(preview)));
    if preview.columns.iter().all(|column| column.role != "time") {
        bail!("dry run: the import would fail: no time column; nothing was written");
    }
    if preview.wrong > 0 && !allows_wrong {
        bail!("dry run: the import would fail: {} cannot be read; nothing was written", many(preview.wrong, "row"));
    }
    if preview.rows_read == 0 && preview.wrong > 0 {
        bail!("dry run: the import would fail: no row can be read; nothing was written");
    }
    if let Some(repeats) = preview.repeats.as_ref().filter(|_| !allows_overwrite) {
        bail!(
            "dry run: the import would fail: {} would replace another row; {}; --allow-overwrite imports them; \
             nothing was written",
            many(repeats.rows, "row"),
            repeats.explained.hint
        );
    }
    Ok(())
}

fn described(preview: &Preview) -> String {
    let head = ["column", "role", "type", "nulls", "distinct", "examples"].map(str::to_owned);
    let rows = preview.columns.iter().map(|column| {
        let distinct = column.distinct.map_or_else(|| "many".to_owned(), |n| n.to_string());
        let examples = match &column.note {
            Some(note) if column.examples.is_empty() => format!("({note})"),
            _ => column.examples.join(", "),
        };
        [column.name.clone(), column.role.to_owned(), column.ty.clone(), column.nulls.to_string(), distinct, examples]
    });
    let rows: Vec<[String; 6]> = std::iter::once(head).chain(rows).collect();
    let width = |at: usize| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..5).map(width).collect();
    let mut out = String::new();
    // Writing to a String cannot fail.
    for row in &rows {
        for (cell, width) in row.iter().zip(&widths) {
            let _ = write!(out, "{cell:<width$}  ");
        }
        let _ = writeln!(out, "{}", row[5]);
    }
    let _ = writeln!(out, "rows: {}", preview.rows_read);
    let _ = writeln!(out, "rows that cannot be read: {}", preview.wrong);
    let (repeated, example) = match &preview.repeats {
        Some(repeats) => (repeats.rows, format!(", for example {}", repeats.explained.example)),
        None => (0, String::new()),
    };
    let _ = writeln!(out, "rows with the series and time of another row: {repeated}{example}");
    match &preview.statement {
        Some(statement) => {
            let _ = writeln!(out, "the table would be created by:\n{statement};");
        }
        None if preview.table_exists => out.push_str("the table exists\n"),
        None => {}
    }
    preview.notices.iter().for_each(|notice| {
        let _ = writeln!(out, "{notice}");
    });
    out
}
