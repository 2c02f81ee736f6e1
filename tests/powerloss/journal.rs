//! Simulates a power loss on a directory: only synced data survives.
//!
//! Each sync of a process records, in the directory of [`JOURNAL`], what it makes durable: the content of a file, or
//! the names in a directory. [`restore`] builds the state after a power loss: a file never synced is empty, a name
//! created but not synced is gone, a name removed but not synced is back.
//!
//! Files are identified by inode and time of birth, so a reused inode number means another file.

use std::{
    fs::{self, Metadata},
    io,
    os::unix::fs::MetadataExt,
    path::Path,
    process,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::UNIX_EPOCH,
};

/// Environment variable with the directory of the journal; without it nothing is recorded.
pub const JOURNAL: &str = "TIDELAKE_POWERLOSS_JOURNAL";

/// Records everything below `root` as durable: the start of a test, and the effect of a file system sync.
///
/// # Errors
/// Those of the file system.
pub fn seed(journal: &Path, root: &Path) -> io::Result<()> {
    // files removed meanwhile are skipped
    let there = |done: io::Result<()>| match done {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    };
    for entry in fs::read_dir(root)? {
        let path = entry?.path();
        there(if path.is_dir() { seed(journal, &path) } else { remember(journal, &path) })?;
    }
    remember(journal, root)
}

/// Builds in `target`, which must not exist, the state of `root` after a power loss.
///
/// # Errors
/// Those of the file system.
pub fn restore(journal: &Path, root: &Path, target: &Path) -> io::Result<()> {
    directory(journal, &identity(&fs::metadata(root)?), target)
}

/// Restores a directory recursively.
fn directory(journal: &Path, identity: &str, target: &Path) -> io::Result<()> {
    fs::create_dir(target)?;
    let entries = match fs::read_to_string(journal.join(identity)) {
        Ok(entries) => entries,
        // created and named in a synced directory, but never synced itself
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(e),
    };
    for line in entries.lines() {
        let malformed = || io::Error::new(io::ErrorKind::InvalidData, format!("not a line of a journal: {line}"));
        let [kind, identity, name] = line.splitn(3, ' ').collect::<Vec<_>>().try_into().map_err(|_| malformed())?;
        let target = target.join(name);
        match kind {
            "d" => directory(journal, identity, &target)?,
            _ => match fs::copy(journal.join(identity), &target) {
                Ok(_) => {}
                Err(e) if e.kind() == io::ErrorKind::NotFound => fs::write(&target, b"")?,
                Err(e) => return Err(e),
            },
        }
    }
    Ok(())
}

/// Records the current content of a file or directory.
///
/// # Errors
/// Those of the file system.
pub fn remember(journal: &Path, object: &Path) -> io::Result<()> {
    static WRITTEN: AtomicU64 = AtomicU64::new(0);
    // one at a time: an older listing must not replace a newer one
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let metadata = fs::metadata(object)?;
    let draft = journal.join(format!("draft-{}-{}", process::id(), WRITTEN.fetch_add(1, Ordering::Relaxed)));
    if metadata.is_dir() {
        let mut entries = String::new();
        for entry in fs::read_dir(object)? {
            let entry = entry?;
            let metadata = match entry.metadata() {
                Ok(metadata) => metadata,
                // removed since it was listed
                Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
                Err(e) => return Err(e),
            };
            let kind = if metadata.is_dir() { 'd' } else { 'f' };
            let name = entry.file_name();
            entries.push_str(&format!("{kind} {} {}\n", identity(&metadata), name.to_string_lossy()));
        }
        fs::write(&draft, entries)?;
    } else {
        fs::copy(object, &draft)?;
    }
    // atomic, also if the process is killed here
    fs::rename(&draft, journal.join(identity(&metadata)))
}

fn identity(metadata: &Metadata) -> String {
    let born = metadata.created().ok().and_then(|t| t.duration_since(UNIX_EPOCH).ok());
    format!("{}-{}", metadata.ino(), born.map_or(0, |t| t.as_nanos()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn only_what_was_synced_is_left() {
        let all = tempfile::tempdir().unwrap();
        let [journal, root, left] = ["journal", "root", "left"].map(|name| all.path().join(name));
        fs::create_dir(&journal).unwrap();
        fs::create_dir_all(root.join("old")).unwrap();
        fs::write(root.join("old/a"), "a").unwrap();
        fs::write(root.join("removed"), "r").unwrap();
        seed(&journal, &root).unwrap();

        fs::remove_file(root.join("removed")).unwrap();
        for name in ["synced", "torn", "unnamed"] {
            fs::write(root.join("old").join(name), name).unwrap();
        }
        remember(&journal, &root.join("old/synced")).unwrap();
        fs::remove_file(root.join("old/unnamed")).unwrap();
        remember(&journal, &root.join("old")).unwrap();
        fs::write(root.join("old/unnamed"), "unnamed").unwrap();
        remember(&journal, &root.join("old/unnamed")).unwrap();
        fs::create_dir(root.join("new")).unwrap();

        restore(&journal, &root, &left).unwrap();
        let read = |name: &str| fs::read_to_string(left.join(name)).ok();
        assert_eq!(read("old/a").as_deref(), Some("a"));
        assert_eq!(read("removed").as_deref(), Some("r"), "its removal was not synced");
        assert_eq!(read("old/synced").as_deref(), Some("synced"));
        assert_eq!(read("old/torn").as_deref(), Some(""), "its name was synced, its content was not");
        assert_eq!(read("old/unnamed"), None, "its content was synced, its name was not");
        assert!(!left.join("new").exists());
    }
}
