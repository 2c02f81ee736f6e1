//! The file of rows that an import left out.

use std::{
    fs::File,
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};

/// CSV with a header: file, line, reason, text. It is created for the first row.
pub(super) struct Rejects {
    path: PathBuf,
    file: Option<csv::Writer<File>>,
    /// The most rows.
    limit: Option<u64>,
    /// Number of rows in it.
    pub(super) count: u64,
}

impl Rejects {
    /// A file that must not exist, unless an earlier run that is resumed wrote it.
    ///
    /// # Errors
    /// The file exists.
    pub(super) fn new(path: &Path, limit: Option<u64>, is_resumed: bool) -> anyhow::Result<Self> {
        if !is_resumed && path.exists() {
            bail!("--reject-file: {} exists: expected a new file, so that no earlier rows are lost", path.display());
        }
        Ok(Self { path: path.to_owned(), file: None, limit, count: 0 })
    }

    /// Continues a file that an earlier run wrote, which holds this number of rows.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub(super) fn append(path: &Path, limit: Option<u64>, count: u64) -> anyhow::Result<Self> {
        let mut rejects = Self::new(path, limit, true)?;
        if count > 0 {
            let file = File::options().append(true).open(path).with_context(|| rejects.name())?;
            rejects.file = Some(csv::Writer::from_writer(file));
        }
        rejects.count = count;
        Ok(rejects)
    }

    /// Adds a row.
    ///
    /// # Errors
    /// The file cannot be written, or there are more rows than the limit.
    pub(super) fn add(&mut self, file: &str, line: u64, reason: &str, text: &str) -> anyhow::Result<()> {
        let writer = match &mut self.file {
            Some(writer) => writer,
            none => {
                let file =
                    File::create(&self.path).with_context(|| format!("--reject-file {}", self.path.display()))?;
                let writer = none.insert(csv::Writer::from_writer(file));
                writer.write_record(["file", "line", "reason", "text"])?;
                writer
            }
        };
        writer.write_record([file, &line.to_string(), reason, text])?;
        self.count += 1;
        if self.limit.is_some_and(|limit| self.count > limit) {
            self.flush()?;
            let limit = self.limit.unwrap_or(0);
            bail!("more than --reject-limit {limit} rows were rejected; the last one is {file}: line {line}: {reason}");
        }
        Ok(())
    }

    /// Writes what is buffered.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn flush(&mut self) -> anyhow::Result<()> {
        match &mut self.file {
            Some(writer) => writer.flush().with_context(|| format!("--reject-file {}", self.path.display())),
            None => Ok(()),
        }
    }

    /// The name of the file.
    pub(super) fn name(&self) -> String {
        self.path.display().to_string()
    }
}
