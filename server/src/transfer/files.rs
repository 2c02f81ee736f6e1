//! The files of an import: names, patterns, objects of buckets, and standard input.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::{Context, bail, ensure};
use object_store::ObjectStore;
use tidelake_import::input::{FileFormat, Input, spool};
use url::Url;

use super::bucket::{self, Address, Object};

/// Characters that make a name a pattern.
pub(crate) const WILDCARDS: [char; 3] = ['*', '?', '['];
/// The name that means standard input.
const STDIN: &str = "-";

/// The files that names and patterns mean, each with its format. Standard input is copied into a temporary file, because the rows
/// are read more than once.
///
/// # Errors
/// A pattern matches no file, a bucket cannot be read, or the format of a file is not known.
pub(super) fn open(names: &[PathBuf], format: Option<super::FileFormat>) -> anyhow::Result<Vec<(Input, FileFormat)>> {
    let mut files = Vec::new();
    for name in names {
        if name.as_os_str() == STDIN {
            let format = format.context("standard input needs --format: it has no extension that names the format")?;
            ensure!(!has_stdin(&files), "standard input can be read only once: name - only once");
            let input = spool(std::io::stdin().lock(), "standard input").context("cannot read standard input")?;
            files.push((input, format.into()));
            continue;
        }
        let inputs: Vec<Input> = match bucket::is_url(name) {
            true => Address::of(name)?
                .objects()?
                .into_iter()
                .map(|o| Input::ranges(o.url().to_owned(), Arc::new(o)))
                .collect(),
            false => matches(name)?.into_iter().map(Input::path).collect(),
        };
        for input in inputs {
            let format = format.map_or_else(|| super::FileFormat::of(Path::new(&input.name)), Ok)?;
            files.push((input, format.into()));
        }
    }
    let is_line = |file: &(Input, FileFormat)| file.1 == FileFormat::Line;
    if files.iter().any(is_line) && !files.iter().all(is_line) {
        let named = |is: bool| files.iter().find(|file| is_line(file) == is).map_or("", |file| file.0.name.as_str());
        bail!(
            "line protocol and files of rows cannot be imported together: {} is line protocol, {} is not",
            named(true),
            named(false)
        );
    }
    Ok(files)
}

/// The URLs of the files that a path, a pattern or the URL of a bucket means, and the client of the bucket.
///
/// # Errors
/// There is no such file, or the bucket cannot be read.
pub(crate) fn locate(name: &Path) -> anyhow::Result<(Vec<Url>, Option<Arc<dyn ObjectStore>>)> {
    if bucket::is_url(name) {
        let address = Address::of(name)?;
        let urls = address.objects()?.iter().map(Object::location).collect::<anyhow::Result<_>>()?;
        return Ok((urls, Some(address.store())));
    }
    let urls = matches(name)?.into_iter().map(|path| {
        ensure!(path.is_file(), "no such file: {}", path.display());
        let absolute = std::path::absolute(&path).with_context(|| path.display().to_string())?;
        Url::from_file_path(&absolute).map_err(|()| anyhow::anyhow!("not the path of a file: {}", path.display()))
    });
    Ok((urls.collect::<anyhow::Result<_>>()?, None))
}

/// Whether standard input is one of the files.
pub(super) fn has_stdin(files: &[(Input, FileFormat)]) -> bool {
    files.iter().any(|(input, _)| input.origin().is_none())
}

/// The files that a name or a pattern means, in alphabetical order.
fn matches(name: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let text = name.to_str().unwrap_or_default();
    // A file whose name looks like a pattern is meant literally.
    if !text.contains(WILDCARDS) || name.exists() {
        return Ok(vec![name.to_owned()]);
    }
    let paths = glob::glob(text).with_context(|| format!("invalid pattern {text:?}"))?;
    let mut found =
        paths.collect::<Result<Vec<_>, _>>().with_context(|| format!("cannot list the files of {text:?}"))?;
    found.retain(|path| path.is_file());
    ensure!(!found.is_empty(), "no file matches {text:?}: expected at least one");
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_expanded_and_faults_name_what_is_wrong() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["b.csv", "a.csv", "c.txt", "x[1].csv"] {
            std::fs::write(directory.path().join(name), "").unwrap();
        }
        let names = |pattern: &str| {
            let found = matches(&directory.path().join(pattern));
            found.map(|found| {
                found.iter().map(|p| p.file_name().unwrap().to_str().unwrap().to_owned()).collect::<Vec<_>>()
            })
        };
        assert_eq!(names("[ab].csv").unwrap(), ["a.csv", "b.csv"]);
        assert_eq!(names("x[1].csv").unwrap(), ["x[1].csv"]);
        assert_eq!(names("none.csv").unwrap(), ["none.csv"]);
        assert!(names("z*.csv").unwrap_err().to_string().contains("no file matches"));
        let error = open(&[directory.path().join("*")], None).map(drop).unwrap_err().to_string();
        assert!(error.contains("c.txt is line protocol") && error.contains("a.csv is not"), "{error}");
        assert!(open(&["-".into()], None).map(drop).unwrap_err().to_string().contains("--format"));
    }
}
