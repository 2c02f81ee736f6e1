//! Modes of files and directories on a local file system: only the owner may read them, regardless of the umask.
//!
//! A root contains no usable credentials, but all of the data. The group may read the objects under `data/` if the
//! operator allows it by the mode of the root itself, `0710`: no process sets that mode, and every process that opens
//! the root sees the same setting.

use std::{
    fs::{self, DirBuilder, OpenOptions, Permissions},
    io,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt},
    path::Path,
};

/// Mode of a directory.
pub(super) const DIRECTORY: u32 = 0o700;
/// Mode of a file.
pub(super) const FILE: u32 = 0o600;
/// Mode of a root whose `data/` the group may read.
pub(super) const SHARED_ROOT: u32 = 0o710;
/// Mode of the directories under a shared `data/`.
pub(super) const SHARED_DIRECTORY: u32 = 0o750;
/// Mode of the files under a shared `data/`.
pub(super) const SHARED_FILE: u32 = 0o640;

/// The bits for reading, writing and searching.
const ALL: u32 = 0o777;

/// Open options that give a newly created file this mode.
pub(super) fn options(mode: u32) -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(mode);
    options
}

/// Creates a directory and its missing ancestors with a mode.
///
/// # Errors
/// Those of the file system.
pub(super) fn create_dir_all(path: &Path, mode: u32) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(mode).create(path)
}

/// Writes a new file with a mode.
///
/// # Errors
/// Those of the file system.
pub(super) fn write_new(path: &Path, mode: u32, bytes: &[u8]) -> io::Result<()> {
    io::Write::write_all(&mut options(mode).write(true).create_new(true).open(path)?, bytes)
}

/// The mode of a file or directory; 0 if it cannot be read.
pub(super) fn of(path: &Path) -> u32 {
    fs::metadata(path).map_or(0, |meta| meta.permissions().mode() & ALL)
}

/// Sets the permissions of group and others to those of `mode`; the owner's permissions are unchanged.
///
/// # Errors
/// Those of the file system: PermissionDenied if the process does not own it.
pub(super) fn set(path: &Path, mode: u32) -> io::Result<()> {
    let found = fs::metadata(path)?.permissions().mode();
    if found & 0o077 == mode & 0o077 {
        return Ok(());
    }
    fs::set_permissions(path, Permissions::from_mode((found & !0o077) | (mode & 0o077)))
}

#[cfg(test)]
mod tests {
    use std::{path::PathBuf, sync::Arc};

    use object_store::{ObjectStore, PutMode, PutPayload, path::Path as Key};

    use super::{
        super::{
            directory::Directory,
            disk::{DiskCache, LEAST_BYTES},
        },
        *,
    };

    /// Every entry below a directory, and the directory itself, with its mode.
    fn walk(path: &Path) -> Vec<(PathBuf, bool, u32)> {
        let is_directory = path.is_dir();
        let mut found = vec![(path.to_owned(), is_directory, of(path))];
        if is_directory {
            fs::read_dir(path).unwrap().for_each(|entry| found.extend(walk(&entry.unwrap().path())));
        }
        found
    }

    /// Puts some objects of every kind and size: through the page cache, past it, and through a journal.
    async fn fill(root: &Path) -> Arc<Directory> {
        let store = Arc::new(Directory::open(root, 7).unwrap());
        let put = async |key: String, len: usize| {
            let payload = PutPayload::from(vec![7_u8; len]);
            store.put_opts(&Key::from(key), payload, PutMode::Create.into()).await.unwrap();
        };
        for (n, len) in [10, 300 << 10].into_iter().enumerate() {
            for place in ["meta", "log/0a", "idem", "data/1/2", "results"] {
                put(format!("{place}/{n}"), len).await;
            }
        }
        for n in 10..400 {
            put(format!("log/0b/{n:020}"), 100).await;
        }
        store
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_root_is_its_owners_alone_also_one_that_was_open_to_others() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("above/root");
        let store = fill(&root).await;
        let all = walk(&directory.path().join("above"));
        assert!(all.len() > 400 && all.iter().any(|(path, ..)| path.ends_with("log/.journal")), "{all:?}");
        for (path, is_directory, mode) in &all {
            assert_eq!(*mode, if *is_directory { 0o700 } else { 0o600 }, "{mode:o} {}", path.display());
        }
        drop(store);
        let open = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        for (path, mode) in [("", 0o2775), ("meta", 0o755), ("data", 0o777), (".staging", 0o750)] {
            open(&root.join(path), mode);
        }
        Directory::open(&root, 8).unwrap();
        for path in ["", "meta", "data", ".staging", "log"] {
            assert_eq!(of(&root.join(path)), 0o700, "{path}");
        }
        assert_eq!(fs::metadata(&root).unwrap().permissions().mode() & 0o7000, 0o2000, "other bits stay");
        // A directory with other content, named by mistake.
        let other = directory.path().join("other");
        fs::create_dir_all(other.join("log")).unwrap();
        fs::write(other.join("notes"), "").unwrap();
        for path in [&other, &other.join("log")] {
            open(path, 0o755);
        }
        Directory::open(&other, 9).unwrap();
        assert_eq!((of(&other), of(&other.join("log")), of(&other.join(".staging"))), (0o755, 0o755, 0o700));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn the_group_reads_data_where_the_root_says_so_and_nothing_else() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("root");
        fs::create_dir(&root).unwrap();
        fs::set_permissions(&root, Permissions::from_mode(SHARED_ROOT)).unwrap();
        for _ in 0..2 {
            drop(fill(&root).await);
            for (path, is_directory, mode) in walk(&root) {
                let below = path.strip_prefix(&root).unwrap();
                let expected = match (below.starts_with("data"), is_directory) {
                    (true, true) => 0o750,
                    (true, false) => 0o640,
                    (false, true) if path == root => 0o710,
                    (false, true) => 0o700,
                    (false, false) => 0o600,
                };
                assert_eq!(mode, expected, "{mode:o} {}", path.display());
            }
            // Once more over a root that lacks the modes, as after `chmod -R go= ROOT; chmod 0710 ROOT`.
            fs::remove_dir_all(root.join("data/1")).unwrap();
            fs::set_permissions(root.join("data"), Permissions::from_mode(0o700)).unwrap();
            for place in ["meta", "log", "idem", "results"] {
                fs::remove_dir_all(root.join(place)).unwrap();
            }
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn the_disk_cache_is_private_to_its_owner() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("cache");
        for _ in 0..2 {
            let cache = DiskCache::open(&path, LEAST_BYTES).await.unwrap().unwrap();
            let all = walk(&path);
            assert!(all.len() > 8, "{all:?}");
            for (path, is_directory, mode) in all {
                assert_eq!(mode, if is_directory { 0o700 } else { 0o600 }, "{mode:o} {}", path.display());
            }
            cache.close().await;
            for (path, is_directory, _) in walk(&path) {
                let mode = if is_directory { 0o755 } else { 0o644 };
                fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
            }
        }
    }
}
