//! Compresses the files of the web console and makes the program contain them: a third of their size, and no work for the server.

use std::{
    env,
    fmt::Write as _,
    fs, io,
    io::Write as _,
    path::{Path, PathBuf},
};

use flate2::{Compression, write::GzEncoder};

/// The files that `npm run build` makes in `console`.
const FILES: &str = "console/dist";

fn main() -> io::Result<()> {
    println!("cargo:rerun-if-changed={FILES}");
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or_else(|| io::Error::other("Cargo sets OUT_DIR"))?);
    let mut files = Vec::new();
    list(Path::new(FILES), &mut files)?;
    files.sort();
    let mut table = "[\n".to_owned();
    for (at, file) in files.iter().enumerate() {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(&fs::read(file)?)?;
        let compressed = out.join(format!("{at}.gz"));
        fs::write(&compressed, encoder.finish()?)?;
        let name = file.strip_prefix(FILES).map_err(io::Error::other)?.to_string_lossy().replace('\\', "/");
        let _ = writeln!(table, "    ({name:?}, include_bytes!({compressed:?})),");
    }
    table.push_str("]\n");
    fs::write(out.join("console.rs"), table)
}

/// Adds the files of a directory and of those in it.
fn list(directory: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        match entry.file_type()?.is_dir() {
            true => list(&entry.path(), files)?,
            false => files.push(entry.path()),
        }
    }
    Ok(())
}
