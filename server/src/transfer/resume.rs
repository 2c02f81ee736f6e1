//! The state of an import that can be resumed.

use std::{
    fs,
    path::{Path, PathBuf},
    time::UNIX_EPOCH,
};

use anyhow::{Context, bail, ensure};
use serde::{Deserialize, Serialize};
use tidelake_import::input::{FileFormat, Input, Origin};

use super::{import::Counts, rejects::Kept};

/// The option that names the reject file.
pub(super) const REJECT_FILE: &str = "--reject-file";
/// Version of the file.
const VERSION: u32 = 2;

/// What an import has done so far. Saved after each part that the server acknowledged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct State {
    tidelake_import: u32,
    /// The options that decide which rows are written, each as text.
    options: Vec<(String, String)>,
    files: Vec<Progress>,
    /// Result of the check of all files, once it is done.
    pub(super) checked: Option<Checked>,
    /// Lines of line protocol, or the number of rows, that are stored so far.
    pub(super) counts: Counts,
    /// What the reject file holds.
    pub(super) rejects: Kept,
    #[serde(skip)]
    path: PathBuf,
    #[serde(skip)]
    pub(super) is_resumed: bool,
}

/// Result of the check of all files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Checked {
    pub(super) replaced: u64,
}

/// A file, and how much of it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Progress {
    name: String,
    bytes: u64,
    modified_ns: u128,
    /// The version of an object of a bucket.
    version: Option<String>,
    /// Number of rows, or lines of line protocol, that the server acknowledged.
    done: u64,
}

impl Progress {
    fn of(input: &Input) -> anyhow::Result<Self> {
        let path = match input.origin() {
            None => bail!("--resume: standard input cannot be read again: expected files"),
            Some(Origin::Version(version)) => {
                let (name, version) = (input.name.clone(), Some(version.to_owned()));
                return Ok(Self { name, bytes: input.bytes()?, modified_ns: 0, version, done: 0 });
            }
            Some(Origin::Path(path)) => path,
        };
        let metadata = fs::metadata(path).with_context(|| input.name.clone())?;
        let modified = metadata.modified().with_context(|| input.name.clone())?;
        let modified_ns = modified.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
        let name = std::path::absolute(path).with_context(|| input.name.clone())?.display().to_string();
        Ok(Self { name, bytes: metadata.len(), modified_ns, version: None, done: 0 })
    }

    /// The size and the version or time of the content, for messages.
    fn content(&self) -> String {
        match &self.version {
            Some(version) => format!("{} bytes, version {version}", self.bytes),
            None => format!("{} bytes, modified at {} ns", self.bytes, self.modified_ns),
        }
    }
}

impl State {
    /// Reads the state of an earlier run of the same import, or begins one.
    ///
    /// # Errors
    /// The state is that of another import, or a file has changed.
    pub(super) fn open(
        path: &Path,
        files: &[(Input, FileFormat)],
        options: Vec<(String, String)>,
    ) -> anyhow::Result<Self> {
        let name = path.display();
        let now = files.iter().map(|(input, _)| Progress::of(input)).collect::<anyhow::Result<Vec<_>>>()?;
        let new = |files| Self {
            tidelake_import: VERSION,
            options: options.clone(),
            files,
            checked: None,
            counts: Counts::default(),
            rejects: Kept::default(),
            path: path.to_owned(),
            is_resumed: false,
        };
        let text = match fs::read(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(new(now)),
            Err(error) => return Err(error).with_context(|| format!("--resume: cannot read {name}")),
        };
        let state: Self = serde_json::from_slice(&text).with_context(|| {
            format!("--resume: {name} is no state of an import: expected a file that --resume wrote")
        })?;
        let version = state.tidelake_import;
        ensure!(version == VERSION, "--resume: {name} has version {version}: expected {VERSION}");
        // Nothing is stored and no file is checked: the import begins anew, also with other options. It continues the reject file
        // if that is the same.
        if state.checked.is_none() && state.all_done() == 0 {
            let rejects = |options: &[(String, String)]| options.iter().find(|(name, _)| name == REJECT_FILE).cloned();
            return Ok(Self { is_resumed: rejects(&state.options) == rejects(&options), ..new(now) });
        }
        let anew = format!("remove {name} to import from the start");
        for (before, now) in state.options.iter().zip(&options) {
            ensure!(
                before == now,
                "--resume: {} has changed since the import began: expected {:?}, found {:?}; {anew}",
                now.0,
                before.1,
                now.1
            );
        }
        let names = |files: &[Progress]| files.iter().map(|file| file.name.clone()).collect::<Vec<_>>();
        let (before, found) = (names(&state.files), names(&now));
        ensure!(
            before == found,
            "--resume: the files are not those of the import: expected {}, found {}; {anew}",
            before.join(", "),
            found.join(", ")
        );
        for (before, now) in state.files.iter().zip(&now) {
            let (expected, found) = (before.content(), now.content());
            ensure!(
                expected == found,
                "--resume: {} has changed since the import began: expected {expected}, found {found}; {anew}",
                now.name
            );
        }
        Ok(Self { path: path.to_owned(), is_resumed: true, ..state })
    }

    /// Number of rows or lines of a file that are stored.
    pub(super) fn done(&self, file: usize) -> u64 {
        self.files[file].done
    }

    /// Number of rows or lines of all files that are stored.
    pub(super) fn all_done(&self) -> u64 {
        self.files.iter().map(|file| file.done).sum()
    }

    /// Saves that more rows or lines of a file are stored.
    ///
    /// # Errors
    /// The state cannot be written.
    pub(super) fn advance(&mut self, file: usize, more: u64) -> anyhow::Result<()> {
        self.files[file].done += more;
        self.save()
    }

    /// Saves the state: a crash leaves the former one or this one.
    ///
    /// # Errors
    /// The state cannot be written.
    pub(super) fn save(&self) -> anyhow::Result<()> {
        let context = || format!("--resume: cannot write {}", self.path.display());
        let mut beside = self.path.clone().into_os_string();
        beside.push(".new");
        let written = (|| {
            let file = fs::File::create(&beside)?;
            serde_json::to_writer(&file, self).map_err(std::io::Error::from)?;
            file.sync_data()?;
            fs::rename(&beside, &self.path)
        })();
        written.with_context(context)
    }

    /// Removes the state of a complete import.
    ///
    /// # Errors
    /// The file cannot be removed.
    pub(super) fn end(&self) -> anyhow::Result<()> {
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(error).with_context(|| format!("--resume: cannot remove {}", self.path.display()))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_continued_only_by_the_same_import_of_the_same_files() {
        let directory = tempfile::tempdir().unwrap();
        let (path, file) = (directory.path().join("state"), directory.path().join("a.csv"));
        fs::write(&file, "ts,v\n1,1\n").unwrap();
        let files = [(Input::path(file.clone()), FileFormat::Csv)];
        let options = |table: &str| vec![("--table".to_owned(), table.to_owned())];
        let rejects = |file: &str| [options("t"), vec![(REJECT_FILE.to_owned(), file.to_owned())]].concat();
        // Interrupted before the files were checked: every option may change, the reject file is continued.
        State::open(&path, &files, rejects("r")).unwrap().save().unwrap();
        assert!(State::open(&path, &files, rejects("r")).unwrap().is_resumed);
        assert!(!State::open(&path, &files, rejects("s")).unwrap().is_resumed);
        let mut state = State::open(&path, &files, options("t")).unwrap();
        assert!(!state.is_resumed);
        state.advance(0, 5).unwrap();
        let again = State::open(&path, &files, options("t")).unwrap();
        assert_eq!((again.is_resumed, again.done(0)), (true, 5));
        let refused = |options| State::open(&path, &files, options).unwrap_err().to_string();
        let error = refused(options("u"));
        assert!(error.contains("--table") && error.contains("expected \"t\", found \"u\""), "{error}");
        fs::write(&file, "ts,v\n1,1\n2,2\n").unwrap();
        let error = refused(options("t"));
        assert!(error.contains("a.csv has changed") && error.contains("expected 9 bytes"), "{error}");
        fs::write(&path, "{}").unwrap();
        assert!(refused(options("t")).contains("no state of an import"));
        again.end().unwrap();
        again.end().unwrap();
        assert!(!path.exists());
    }
}
