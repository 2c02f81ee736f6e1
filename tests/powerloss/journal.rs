//! What a power loss would leave of a directory: only what was synced.
//!
//! Each sync of a process writes down, in the directory that [`JOURNAL`] names, what it makes durable: the content of a
//! file, or the names in a directory. [`restore`] builds from that what is left after the power went off: a file that was
//! never synced is empty, a name that was made but not synced is gone, a name that was removed but not synced is back.
//!
//! Files are told apart by inode and time of birth, so that a number that is used again means another file.

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

/// The environment variable that names the directory of the journal; nothing is written down without it.
pub const JOURNAL: &str = "TIDELAKE_POWERLOSS_JOURNAL";

/// Writes down that all below `root` is durable: how a test begins, and what a sync of a file system does.
///
/// # Errors
/// Those of the file system.
pub fn seed(journal: &Path, root: &Path) -> io::Result<()> {
    // what is removed meanwhile need not be remembered
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

/// Builds in `target`, which must not exist, what a power loss leaves of `root`.
///
/// # Errors
/// Those of the file system.
pub fn restore(journal: &Path, root: &Path, target: &Path) -> io::Result<()> {
    directory(journal, &identity(&fs::metadata(root)?), target)
}

/// One directory and all below it.
fn directory(journal: &Path, identity: &str, target: &Path) -> io::Result<()> {
    fs::create_dir(target)?;
    let entries = match fs::read_to_string(journal.join(identity)) {
        Ok(entries) => entries,
        // made, and named by a synced directory, but itself never synced
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

/// Writes down what is in a file or directory now.
///
/// # Errors
/// Those of the file system.
pub fn remember(journal: &Path, object: &Path) -> io::Result<()> {
    static WRITTEN: AtomicU64 = AtomicU64::new(0);
    // one at a time: an older look at a directory must not take the place of a newer one
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
    // whole or not at all, also when the process is killed here
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
