//! A data set as a file of TDengine INSERT statements, one per line, for tools that run statements one by one.

use super::encode::Text;
use super::{Devices, Order, Source};
use anyhow::{Context, Result, ensure};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

/// Writes the file and returns the number of statements. `progress` gets the number of rows written.
///
/// # Errors
/// Zero rows per statement, or any error of the file system.
pub fn write_file(
    set: &Devices,
    order: Order,
    rows_per_statement: usize,
    path: &Path,
    progress: &mut dyn FnMut(u64),
) -> Result<u64> {
    ensure!(rows_per_statement > 0, "expected at least one row a statement");
    let failed = || format!("write {}", path.display());
    let mut file = BufWriter::with_capacity(1 << 20, File::create(path).with_context(failed)?);
    let (mut statements, mut rows, mut line) = (0, 0, Vec::new());
    for mut feed in Source::Generated(*set, order).feeds(1) {
        loop {
            line.clear();
            Text::TdEngine.begin(&mut line);
            let more = feed.next(rows_per_statement, &mut |device, run| Text::TdEngine.push(&mut line, device, run))?;
            if more == 0 {
                break;
            }
            Text::TdEngine.end(&mut line);
            line.push(b'\n');
            file.write_all(&line).with_context(failed)?;
            (statements, rows) = (statements + 1, rows + more as u64);
            progress(rows);
        }
    }
    file.flush().with_context(failed)?;
    Ok(statements)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn each_line_is_a_statement_of_so_many_rows() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("inserts.sql");
        let set = Devices { devices: 3, rows: 10, seed: 1 };
        assert_eq!(write_file(&set, Order::Device, 4, &path, &mut |_| ()).unwrap(), 8);
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text.lines().count(), 8);
        assert!(text.starts_with("insert into dev1 using devices tags(1,'dev_1',1) values(1563249700000,"), "{text}");
        assert!(text.lines().all(|line| line.starts_with("insert into dev") && line.ends_with(");")), "{text}");
        assert_eq!(text.matches("(15632497").count(), 30);
        assert!(write_file(&set, Order::Device, 0, &path, &mut |_| ()).is_err());
    }
}
