//! The new files of an export: in directories and in buckets.

use std::{
    fs::{self, File},
    io::Write,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use anyhow::{Context, ensure};

use super::{
    bucket::{self, Address, Upload},
    import::say,
};

/// A new file or object.
pub(super) enum Output {
    File {
        path: PathBuf,
        file: File,
    },
    /// It becomes visible when it is complete.
    Object(Upload),
}

impl Output {
    /// Creates a file, or an object if the name is a URL.
    ///
    /// # Errors
    /// It exists, or cannot be created.
    pub(super) fn create(name: &Path) -> anyhow::Result<Self> {
        match bucket::is_url(name) {
            true => Ok(Self::Object(Upload::create(&Address::of(name)?)?)),
            false => Self::file(name.to_owned()),
        }
    }

    fn file(path: PathBuf) -> anyhow::Result<Self> {
        let file = File::create_new(&path).with_context(|| format!("cannot create {}", path.display()))?;
        Ok(Self::File { path, file })
    }

    /// Appends to it.
    ///
    /// # Errors
    /// The process has too many open files.
    pub(super) fn writer(&self) -> anyhow::Result<Box<dyn Write + Send>> {
        Ok(match self {
            Self::File { path, file } => {
                Box::new(file.try_clone().with_context(|| format!("cannot write {}", path.display()))?)
            }
            Self::Object(upload) => upload.writer(),
        })
    }

    /// Makes what was written durable; an object also visible.
    ///
    /// # Errors
    /// It cannot be stored.
    pub(super) fn complete(&self) -> anyhow::Result<()> {
        match self {
            Self::File { path, file } => file.sync_all().with_context(|| format!("cannot write {}", path.display())),
            Self::Object(upload) => upload.complete(),
        }
    }

    /// Removes what was written.
    ///
    /// # Errors
    /// A file cannot be removed.
    pub(super) fn discard(self) -> anyhow::Result<()> {
        match self {
            Self::File { path, .. } => {
                fs::remove_file(&path).with_context(|| format!("cannot remove the incomplete file {}", path.display()))
            }
            // Its parts are removed when the last writer is dropped.
            Self::Object(_) => Ok(()),
        }
    }
}

/// A directory, or a prefix of a bucket, that is being filled; unless it is completed, the files in it are removed.
pub(super) struct Directory {
    place: Place,
    is_complete: bool,
}

enum Place {
    Path {
        root: PathBuf,
        is_new: bool,
        files: Vec<PathBuf>,
    },
    /// Each object with whether it may be visible.
    Bucket {
        root: Address,
        objects: Vec<(Address, Arc<AtomicBool>)>,
    },
}

impl Directory {
    /// # Errors
    /// The path is a file, or a directory or prefix that is not empty.
    pub(super) fn create(root: &Path) -> anyhow::Result<Self> {
        let refused = |found: &str| format!("--partition-by: expected a directory that is new or empty, but {found}");
        let place = if bucket::is_url(root) {
            let root = Address::of(root)?;
            let first = root.first_below()?;
            ensure!(first.is_none(), refused(&format!("{} exists", first.unwrap_or_default())));
            Place::Bucket { root, objects: Vec::new() }
        } else {
            let is_new = !root.exists();
            if is_new {
                fs::create_dir_all(root).with_context(|| format!("cannot create the directory {}", root.display()))?;
            }
            let entries = fs::read_dir(root).with_context(|| refused(&format!("found {}", root.display())));
            ensure!(entries?.next().is_none(), refused(&format!("{} has files", root.display())));
            Place::Path { root: root.to_owned(), is_new, files: Vec::new() }
        };
        Ok(Self { place, is_complete: false })
    }

    /// Creates a file by its path in the directory.
    ///
    /// # Errors
    /// It cannot be created.
    pub(super) fn file(&mut self, name: &Path) -> anyhow::Result<Output> {
        match &mut self.place {
            Place::Path { root, files, .. } => {
                let path = root.join(name);
                if let Some(parent) = path.parent() {
                    fs::create_dir_all(parent).with_context(|| format!("cannot create {}", path.display()))?;
                }
                let output = Output::file(path.clone())?;
                files.push(path);
                Ok(output)
            }
            Place::Bucket { root, objects } => {
                let address = root.below(&name.to_string_lossy());
                let upload = Upload::create(&address)?;
                objects.push((address, upload.is_requested()));
                Ok(Output::Object(upload))
            }
        }
    }

    /// Keeps the files.
    pub(super) fn complete(&mut self) {
        self.is_complete = true;
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        if self.is_complete {
            return;
        }
        match &mut self.place {
            // Each of these may fail only if another process changed the directory.
            Place::Path { root, is_new, files } => {
                for file in files {
                    let _ = fs::remove_file(&*file);
                    let parents = file.ancestors().skip(1).take_while(|parent| *parent != root.as_path());
                    parents.for_each(|parent| drop(fs::remove_dir(parent)));
                }
                if *is_new {
                    let _ = fs::remove_dir(root);
                }
            }
            // The other objects do not exist, or are those of another export.
            Place::Bucket { objects, .. } => {
                let visible = std::mem::take(objects).into_iter().filter(|(_, is)| is.load(Ordering::Acquire));
                if let Err(error) = Address::remove(visible.map(|(address, _)| address).collect()) {
                    say([format!("incomplete files remain: {error:#}")]);
                }
            }
        }
    }
}
