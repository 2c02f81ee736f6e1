//! Checks the links of a built site: each leads to a file of the site, and its anchor exists.
//!
//! A test checks the links of the Markdown files; anchors exist only in the built pages.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use anyhow::{Context as _, Result, bail};

use super::links::resolve;

/// What a site holds.
#[derive(Debug, PartialEq)]
pub(super) struct Site {
    pub(super) bytes: usize,
    /// Links within the site.
    pub(super) links: usize,
    pub(super) has_search: bool,
}

/// Checks the links of all pages below `root`.
///
/// # Errors
/// Names each page and link whose file or anchor does not exist.
pub(super) fn check(root: &Path) -> Result<Site> {
    let mut files = BTreeMap::new();
    read(root, "", &mut files)?;
    let pages: BTreeMap<&str, Vec<(&str, &str)>> = files
        .iter()
        .filter(|(path, _)| path.ends_with(".html"))
        .map(|(path, bytes)| Ok((path.as_str(), attributes(std::str::from_utf8(bytes)?))))
        .collect::<Result<_>>()?;
    let anchors: BTreeMap<&str, BTreeSet<&str>> = pages
        .iter()
        .map(|(path, found)| (*path, found.iter().filter(|(name, _)| *name == "id").map(|(_, value)| *value).collect()))
        .collect();
    let (mut links, mut faults) = (0, BTreeSet::new());
    for (page, found) in &pages {
        for (_, link) in found.iter().filter(|(name, _)| ["href", "src"].contains(name)) {
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            if path.contains(':') {
                // An address of another site.
                continue;
            }
            links += 1;
            let file = if path.is_empty() { Some((*page).to_owned()) } else { resolve(page, path) };
            match file.filter(|file| files.contains_key(file)) {
                None => drop(faults.insert(format!("{page}: {link} leads to no file"))),
                Some(_) if anchor.is_empty() => {}
                Some(file) if anchors.get(file.as_str()).is_some_and(|of| of.contains(anchor)) => {}
                Some(_) => drop(faults.insert(format!("{page}: {link} leads to no anchor"))),
            }
        }
    }
    if !faults.is_empty() {
        bail!("links that lead nowhere:\n{}", faults.into_iter().collect::<Vec<_>>().join("\n"));
    }
    let has_search = files.keys().any(|path| path.starts_with("searchindex"));
    Ok(Site { bytes: files.values().map(Vec::len).sum(), links, has_search })
}

/// Reads the files of a directory and below by their paths from the root of the site.
fn read(directory: &Path, prefix: &str, files: &mut BTreeMap<String, Vec<u8>>) -> Result<()> {
    let context = || format!("read {}", directory.display());
    for entry in fs::read_dir(directory).with_context(context)? {
        let path = entry.with_context(context)?.path();
        let name = format!("{prefix}{}", path.file_name().unwrap_or_default().to_string_lossy());
        if path.is_dir() {
            read(&path, &format!("{name}/"), files)?;
        } else {
            files.insert(name, fs::read(&path).with_context(|| format!("read {}", path.display()))?);
        }
    }
    Ok(())
}

/// Names and values of the attributes of all tags. The pages are mdBook's, so `<` begins a tag or a comment except in scripts.
fn attributes(html: &str) -> Vec<(&str, &str)> {
    let mut found = Vec::new();
    let mut rest = html;
    while let Some(at) = rest.find('<') {
        rest = &rest[at + 1..];
        if let Some(comment) = rest.strip_prefix("!--") {
            rest = comment.split_once("-->").map_or("", |(_, after)| after);
            continue;
        }
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
        let tag = &rest[..end];
        if tag.is_empty() {
            continue;
        }
        rest = &rest[end..];
        while let Some((attribute, after)) = attribute(rest) {
            found.extend(attribute);
            rest = after;
        }
        if tag == "script" {
            rest = rest.find("</script").map_or("", |at| &rest[at..]);
        }
    }
    found
}

/// The next attribute of a tag, if it has a value, and the text after it; `None` at the end of the tag.
fn attribute(tag: &str) -> Option<(Option<(&str, &str)>, &str)> {
    let tag = tag.trim_start_matches(|c: char| c.is_whitespace() || c == '/');
    if tag.is_empty() || tag.starts_with('>') {
        return None;
    }
    let end = tag.find(|c: char| c.is_whitespace() || "=>/".contains(c)).unwrap_or(tag.len());
    let (name, after) = tag.split_at(end);
    let Some(value) = after.strip_prefix('=') else { return Some((None, after)) };
    let (value, after) = match value.chars().next() {
        Some(quote @ ('"' | '\'')) => value[1..].split_once(quote).unwrap_or((&value[1..], "")),
        _ => value.split_at(value.find(|c: char| c.is_whitespace() || c == '>').unwrap_or(value.len())),
    };
    Some((Some((name, value)), after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_read_from_tags_and_not_from_text_comments_or_scripts() {
        let html = "<!DOCTYPE html><p id=a class='b c'>&lt;a href=\"no\"> href=\"no\"<!-- <a href=\"no\"> -->\
                    <script src=\"s.js\" defer>x = '<a href=\"no\">' < y</script><br/><a\n  title=\"a > b\" href=\"d.html\">d</a>";
        assert_eq!(
            attributes(html),
            [("id", "a"), ("class", "b c"), ("src", "s.js"), ("title", "a > b"), ("href", "d.html")]
        );
    }

    fn site(files: &[(&str, &str)]) -> Result<Site> {
        let directory = tempfile::tempdir().unwrap();
        for (path, text) in files {
            super::super::write(&directory.path().join(path), text).unwrap();
        }
        check(directory.path())
    }

    #[test]
    fn links_to_files_anchors_and_other_sites_pass() {
        let page = "<h1 id=\"top\"></h1><a href=\"#top\"></a><a href=\"docs/sql.html#types\"></a><img src=\"a.svg\">\
                    <a href=\"https://example.com/none.html#none\"></a>";
        let sql = "<h2 id=\"types\"></h2><a href=\"../index.html\"></a>";
        let files = [("index.html", page), ("docs/sql.html", sql), ("a.svg", "<svg/>"), ("searchindex-1.js", "")];
        let site = site(&files).unwrap();
        assert_eq!((site.links, site.has_search), (4, true));
        assert_eq!(site.bytes, page.len() + sql.len() + 6);
    }

    #[test]
    fn a_missing_file_or_anchor_is_an_error_that_names_page_and_link() {
        let page = "<a href=\"none.html\"></a><a href=\"docs/sql.html#none\"></a><a href=\"#none\"></a><img src=\"none.svg\">\
                    <a href=\"../docs/sql.html\"></a><a href=\"/docs/sql.html\"></a>";
        let error = site(&[("index.html", page), ("docs/sql.html", "<p id=\"types\">")]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "links that lead nowhere:\n\
             index.html: #none leads to no anchor\n\
             index.html: ../docs/sql.html leads to no file\n\
             index.html: /docs/sql.html leads to no file\n\
             index.html: docs/sql.html#none leads to no anchor\n\
             index.html: none.html leads to no file\n\
             index.html: none.svg leads to no file"
        );
    }
}
