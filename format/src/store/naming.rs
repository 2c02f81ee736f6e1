//! How a file of a directory gets the name of an object.

use std::{
    fs, io,
    path::{Path as FsPath, PathBuf},
};

use object_store::path::Path;

/// Where an object lies.
pub(super) fn path_in(root: &FsPath, location: &Path) -> PathBuf {
    let mut path = root.to_owned();
    path.extend(location.parts().map(|p| p.as_ref().to_owned()));
    path
}

/// Gives a staging file the name of an object, unless that is taken.
pub(super) fn publish(staging: &FsPath, target: &FsPath) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        match renameat_with(CWD, staging, CWD, target, RenameFlags::NOREPLACE) {
            // Not every file system has this.
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => {}
            done => return Ok(done?),
        }
    }
    fs::hard_link(staging, target)?;
    // The link stays; a leftover is collected when the root is opened.
    let _ = fs::remove_file(staging);
    Ok(())
}
