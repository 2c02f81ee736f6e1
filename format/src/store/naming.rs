//! Gives a file in a directory store the name of an object.

use std::{
    fs, io,
    path::{Path as FsPath, PathBuf},
};

use object_store::path::Path;

/// The path of an object's file.
pub(super) fn path_in(root: &FsPath, location: &Path) -> PathBuf {
    let mut path = root.to_owned();
    path.extend(location.parts().map(|p| p.as_ref().to_owned()));
    path
}

/// Renames a staging file to the name of an object, unless the name is taken.
pub(super) fn publish(staging: &FsPath, target: &FsPath) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        match renameat_with(CWD, staging, CWD, target, RenameFlags::NOREPLACE) {
            // Not every file system supports this flag.
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => {}
            done => return Ok(done?),
        }
    }
    fs::hard_link(staging, target)?;
    // The link stays; a leftover is removed when the root is opened.
    let _ = fs::remove_file(staging);
    Ok(())
}
