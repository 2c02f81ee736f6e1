//! Builds the site of the documents with mdBook.
//!
//! Each Markdown file of the repository is a page. Pages and their images are copied with their paths into a temporary
//! directory, so relative links stay as they are.

mod check;
mod links;
mod summary;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, ensure};
use mdbook_driver::{MDBook, config::Config};

/// The text of each page by its path from the root of the repository.
type Pages = BTreeMap<String, String>;

/// Written into each site; marks a directory whose content may be replaced.
const MARK: &str = "toc.html";

/// Builds the site in `out` and checks its links.
///
/// # Errors
/// `out` holds other files, a page is in no chapter, a link leads nowhere, or a file cannot be read or written.
#[expect(clippy::print_stdout, reason = "a task says what it made")]
pub(crate) fn book(workspace: &Path, out: Option<PathBuf>) -> Result<()> {
    let out = std::path::absolute(out.unwrap_or_else(|| workspace.join("target/book")))?;
    check_replaceable(&out)?;
    let pages = pages(workspace)?;
    let stage = tempfile::tempdir().context("make a temporary directory")?;
    write(&stage.path().join("SUMMARY.md"), &summary::summary(&pages)?)?;
    for (path, text) in &pages {
        let adapted = links::adapt(path, text, &pages, |target| workspace.join(target).exists());
        write(&stage.path().join(path), &adapted.text)?;
        for image in adapted.images {
            let bytes =
                fs::read(workspace.join(&image)).with_context(|| format!("read {image}, an image of {path}"))?;
            write(&stage.path().join(image), bytes)?;
        }
    }

    let settings = workspace.join("docs/book.toml");
    let mut config = Config::from_disk(&settings).with_context(|| format!("read {}", settings.display()))?;
    config.book.src = PathBuf::from(".");
    config.build.create_missing = false;
    config.build.build_dir.clone_from(&out);
    MDBook::load_with_config(stage.path(), config)?.build().context("build the site")?;

    let site = check::check(&out)?;
    ensure!(site.has_search, "{} has no search index", out.display());
    println!("{}: {} pages, {} bytes, {} links checked", out.display(), pages.len(), site.bytes, site.links);
    Ok(())
}

/// mdBook deletes what is in the directory, so only an earlier site may be there.
fn check_replaceable(out: &Path) -> Result<()> {
    let is_empty = fs::read_dir(out).map_or(true, |mut entries| entries.next().is_none());
    ensure!(
        is_empty || out.join(MARK).exists(),
        "{}: expected no directory, an empty one or an earlier site, found other files; use another --out",
        out.display()
    );
    Ok(())
}

/// The Markdown files that git tracks, and new ones that it does not ignore.
fn pages(workspace: &Path) -> Result<Pages> {
    let output = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard", "-z", "--", "*.md"])
        .current_dir(workspace)
        .output()
        .context("start git")?;
    ensure!(output.status.success(), "git ls-files: {}", String::from_utf8_lossy(&output.stderr));
    let mut pages = Pages::new();
    for path in String::from_utf8(output.stdout)?.split_terminator('\0') {
        // A deleted file is listed until the deletion is staged.
        let file = workspace.join(path);
        if file.exists() {
            pages.insert(path.to_owned(), fs::read_to_string(file).with_context(|| format!("read {path}"))?);
        }
    }
    Ok(pages)
}

fn write(path: &Path, bytes: impl AsRef<[u8]>) -> Result<()> {
    let context = || format!("write {}", path.display());
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory).with_context(context)?;
    }
    fs::write(path, bytes).with_context(context)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_empty_directory_or_an_earlier_site_is_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let out = directory.path().join("site");
        check_replaceable(&out).unwrap();
        fs::create_dir(&out).unwrap();
        check_replaceable(&out).unwrap();
        fs::write(out.join("letter.txt"), "").unwrap();
        assert!(check_replaceable(&out).unwrap_err().to_string().contains("found other files"));
        fs::write(out.join(MARK), "").unwrap();
        check_replaceable(&out).unwrap();
    }
}
