//! The file of rows that an import left out.

use std::{
    fs::{self, File},
    io::{self, Seek as _},
    path::{Path, PathBuf},
};

use anyhow::{Context, bail, ensure};
use serde::{Deserialize, Serialize};

use super::resume::State;

/// CSV with a header: file, line, reason, text. It is created for the first row.
pub(super) struct Rejects {
    path: PathBuf,
    file: Option<csv::Writer<File>>,
    /// The most rows.
    limit: Option<u64>,
    kept: Kept,
}

/// What the file holds. A resumed import continues behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct Kept {
    /// Number of rows.
    pub(super) count: u64,
    /// Size of the file.
    pub(super) bytes: u64,
}

impl Rejects {
    /// A file that must not exist; a resumed import continues the file of the earlier run, without the rows that the state does not
    /// count: they are found again.
    ///
    /// # Errors
    /// The file exists, or is not that of the earlier run.
    pub(super) fn open(path: &Path, limit: Option<u64>, state: Option<&State>) -> anyhow::Result<Self> {
        match state.filter(|state| state.is_resumed) {
            Some(state) => Self::append(path, limit, state.rejects),
            None if path.exists() => {
                bail!("--reject-file: {} exists: expected a new file, so that no earlier rows are lost", path.display())
            }
            None => Ok(Self { path: path.to_owned(), file: None, limit, kept: Kept::default() }),
        }
    }

    fn append(path: &Path, limit: Option<u64>, kept: Kept) -> anyhow::Result<Self> {
        let mut rejects = Self { path: path.to_owned(), file: None, limit, kept };
        if kept.bytes == 0 {
            return match fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error).with_context(|| rejects.context()),
                _ => Ok(rejects),
            };
        }
        let opened = File::options().write(true).open(path).and_then(|file| Ok((file.metadata()?.len(), file)));
        let (found, mut file) = opened.with_context(|| rejects.context())?;
        ensure!(
            found >= kept.bytes,
            "{}: expected the {} bytes that the interrupted import wrote, found {found}",
            rejects.context(),
            kept.bytes
        );
        let cut = file.set_len(kept.bytes).and_then(|()| file.seek(io::SeekFrom::End(0)));
        cut.with_context(|| rejects.context())?;
        rejects.file = Some(csv::Writer::from_writer(file));
        Ok(rejects)
    }

    /// Adds a row.
    ///
    /// # Errors
    /// The file cannot be written, or there are more rows than the limit.
    pub(super) fn add(&mut self, file: &str, line: u64, reason: &str, text: &str) -> anyhow::Result<()> {
        let context = self.context();
        let writer = match &mut self.file {
            Some(writer) => writer,
            none => {
                let file = File::create(&self.path).context(context)?;
                let writer = none.insert(csv::Writer::from_writer(file));
                writer.write_record(["file", "line", "reason", "text"])?;
                writer
            }
        };
        writer.write_record([file, &line.to_string(), reason, text])?;
        self.kept.count += 1;
        if let Some(limit) = self.limit.filter(|limit| self.kept.count > *limit) {
            self.kept()?;
            bail!("more than --reject-limit {limit} rows were rejected; the last one is {file}: line {line}: {reason}");
        }
        Ok(())
    }

    /// The number of rows that may be added; `None` without a limit.
    pub(super) fn left(&self) -> Option<u64> {
        self.limit.map(|limit| limit.saturating_sub(self.kept.count))
    }

    /// Makes the rows durable; returns what the file holds.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn kept(&mut self) -> anyhow::Result<Kept> {
        let context = self.context();
        if let Some(writer) = &mut self.file {
            let synced = writer.flush().and_then(|()| writer.get_ref().sync_data());
            self.kept.bytes = synced.and_then(|()| Ok(writer.get_ref().metadata()?.len())).context(context)?;
        }
        Ok(self.kept)
    }

    /// The name of the file.
    pub(super) fn name(&self) -> String {
        self.path.display().to_string()
    }

    fn context(&self) -> String {
        format!("--reject-file {}", self.path.display())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_behind_those_of_the_state_are_cut_off() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("rejects.csv");
        let mut first = Rejects::append(&path, None, Kept::default()).unwrap();
        first.add("a.csv", 2, "no number", "1,x").unwrap();
        let kept = first.kept().unwrap();
        assert_eq!((kept.count, kept.bytes), (1, fs::metadata(&path).unwrap().len()));
        first.add("a.csv", 9, "no number", "2,y").unwrap();
        drop(first);
        let mut second = Rejects::append(&path, None, kept).unwrap();
        second.add("a.csv", 9, "no number", "2,y").unwrap();
        assert_eq!(second.kept().unwrap().count, 2);
        let expected = "file,line,reason,text\na.csv,2,no number,\"1,x\"\na.csv,9,no number,\"2,y\"\n";
        assert_eq!(fs::read_to_string(&path).unwrap(), expected);

        let lost = Rejects::append(&path, None, Kept { bytes: 1_000, ..kept }).map(drop).unwrap_err().to_string();
        assert!(lost.contains("expected the 1000 bytes"), "{lost}");
        drop(Rejects::append(&path, None, Kept::default()).unwrap());
        assert!(!path.exists(), "nothing of it was counted");
    }
}
