//! The list of chapters, in mdBook's format `SUMMARY.md`.

use std::fmt::Write as _;

use anyhow::{Context as _, Result, ensure};
use mdbook_markdown::pulldown_cmark::{Event, HeadingLevel, Tag, TagEnd};

use super::{
    Pages,
    links::{events, resolve, target},
};

/// The page that lists the others by kind.
const INDEX: &str = "docs/README.md";

/// A group of chapters under a heading of the index.
#[derive(Debug, PartialEq)]
struct Part {
    title: String,
    /// Label and page of each link.
    chapters: Vec<(String, String)>,
}

/// Makes the list of chapters: the README.md and the index, then the pages of the index under its headings. Pages in the folder of
/// a README.md, or below, to which it links are chapters within it, unless the index lists them.
///
/// # Errors
/// The index has a link that leads to no page, or a page is in no chapter.
pub(super) fn summary(pages: &Pages) -> Result<String> {
    let mut placed = vec!["README.md".to_owned(), INDEX.to_owned()];
    let mut text = String::from("# Summary\n\n");
    for path in &placed {
        writeln!(text, "[{}]({path})", title(path, pages)?)?;
    }
    let mut parts = parts(pages)?;
    for part in &mut parts {
        part.chapters.retain(|(_, path)| {
            let is_new = !placed.contains(path);
            placed.extend(is_new.then(|| path.clone()));
            is_new
        });
    }
    for Part { title, chapters } in parts {
        writeln!(text, "\n# {title}\n")?;
        for (label, path) in chapters {
            writeln!(text, "- [{label}]({path})")?;
            for (label, path) in below(&path, &placed, pages)? {
                writeln!(text, "    - [{label}]({path})")?;
                placed.push(path);
            }
        }
    }
    let missing: Vec<&str> = pages.keys().filter(|path| !placed.contains(path)).map(String::as_str).collect();
    ensure!(
        missing.is_empty(),
        "in no chapter: {}; add a link to {INDEX}, or to the README.md of the folder if that is a chapter",
        missing.join(", ")
    );
    Ok(text)
}

/// The headings of the index with their links.
fn parts(pages: &Pages) -> Result<Vec<Part>> {
    let text = pages.get(INDEX).with_context(|| format!("no {INDEX}"))?;
    let (mut parts, mut words) = (Vec::<Part>::new(), String::new());
    let mut link = None;
    for (event, _) in events(text) {
        match event {
            Event::Start(Tag::Heading { .. }) => words.clear(),
            Event::End(TagEnd::Heading(HeadingLevel::H2)) => {
                parts.push(Part { title: std::mem::take(&mut words), chapters: Vec::new() });
            }
            Event::Start(Tag::Link { dest_url, .. }) => {
                words.clear();
                link = Some(dest_url);
            }
            Event::End(TagEnd::Link) => {
                if let (Some(link), Some(part)) = (link.take(), parts.last_mut())
                    && resolve(INDEX, &link).is_some()
                {
                    let path = target(INDEX, &link, pages);
                    let path = path.with_context(|| format!("{INDEX} has a link to {link}, which is not a page"))?;
                    part.chapters.push((std::mem::take(&mut words), path));
                }
            }
            Event::Text(word) | Event::Code(word) => words += &word,
            _ => {}
        }
    }
    Ok(parts)
}

/// The pages to which a README.md links, in its folder or below, that have no place yet, with their titles.
fn below(page: &str, placed: &[String], pages: &Pages) -> Result<Vec<(String, String)>> {
    let Some(folder) = page.strip_suffix("README.md") else { return Ok(Vec::new()) };
    let mut found: Vec<(String, String)> = Vec::new();
    for (event, _) in events(pages.get(page).map_or("", String::as_str)) {
        if let Event::Start(Tag::Link { dest_url, .. }) = event
            && let Some(path) = target(page, &dest_url, pages)
            && path.starts_with(folder)
            && !placed.contains(&path)
            && found.iter().all(|(_, other)| *other != path)
        {
            found.push((title(&path, pages)?, path));
        }
    }
    // Reports of one workload have one title; their folders differ.
    let titles: Vec<String> = found.iter().map(|(title, _)| title.clone()).collect();
    for (title, path) in &mut found {
        if titles.iter().filter(|other| *other == title).count() > 1 {
            *title += &format!(" ({})", path.rsplit('/').nth(1).unwrap_or(path));
        }
    }
    Ok(found)
}

/// The first heading of a page.
fn title(path: &str, pages: &Pages) -> Result<String> {
    let text = pages.get(path).with_context(|| format!("no {path}"))?;
    let mut words = None;
    for (event, _) in events(text) {
        match event {
            Event::Start(Tag::Heading { .. }) => words = Some(String::new()),
            Event::End(TagEnd::Heading(_)) => break,
            Event::Text(word) | Event::Code(word) => words.iter_mut().for_each(|words| *words += &word),
            _ => {}
        }
    }
    words.with_context(|| format!("{path} has no heading"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const INDEX_TEXT: &str = "# Documentation\n\n## Tutorials: learn\n\n| page | what |\n|---|---|\n\
        | [README: Try it](../README.md#try-it) | build |\n| [Connect a client](clients/) | [site](https://example.com) |\n\n\
        ## Reference\n\n| page | content |\n|---|---|\n| [`SQL`](sql.md), [HTTP](clients/http.md) | |\n\
        | [Benchmarks](benchmarks/README.md) | |\n";

    fn pages(more: &[(&str, &str)]) -> Pages {
        let all = [
            ("README.md", "# Tidelake\n"),
            ("docs/README.md", INDEX_TEXT),
            ("docs/sql.md", "# SQL\n"),
            (
                "docs/clients/README.md",
                "# Clients\n\n[go](go.md#use), [http](http.md), [go](go.md), [sql](../sql.md)\n",
            ),
            ("docs/clients/go.md", "# Go: `database/sql`\n"),
            ("docs/clients/http.md", "# HTTP\n"),
            ("docs/benchmarks/README.md", "# Measured\n\n[1](w1/report.md), [2](w2/report.md), [3](w3/report.md)\n"),
            ("docs/benchmarks/w1/report.md", "# Load test\n"),
            ("docs/benchmarks/w2/report.md", "# Load test\n"),
            ("docs/benchmarks/w3/report.md", "# Fleet\n"),
        ];
        all.iter().chain(more).map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect()
    }

    #[test]
    fn chapters_are_in_the_order_of_the_index_with_the_pages_of_their_folders() {
        assert_eq!(
            summary(&pages(&[])).unwrap(),
            "# Summary\n\n[Tidelake](README.md)\n[Documentation](docs/README.md)\n\n\
             # Tutorials: learn\n\n\
             - [Connect a client](docs/clients/README.md)\n    - [Go: database/sql](docs/clients/go.md)\n\n\
             # Reference\n\n\
             - [SQL](docs/sql.md)\n- [HTTP](docs/clients/http.md)\n- [Benchmarks](docs/benchmarks/README.md)\n    \
             - [Load test (w1)](docs/benchmarks/w1/report.md)\n    - [Load test (w2)](docs/benchmarks/w2/report.md)\n    \
             - [Fleet](docs/benchmarks/w3/report.md)\n"
        );
    }

    #[test]
    fn a_page_in_no_chapter_is_an_error_that_names_it() {
        let error = summary(&pages(&[("docs/lost.md", "# Lost\n"), ("docs/clients/c.md", "# C\n")])).unwrap_err();
        assert!(error.to_string().starts_with("in no chapter: docs/clients/c.md, docs/lost.md; "), "{error}");
    }

    #[test]
    fn a_link_of_the_index_to_no_page_is_an_error_that_names_it() {
        let mut pages = pages(&[]);
        pages.remove("docs/sql.md");
        assert_eq!(
            summary(&pages).unwrap_err().to_string(),
            "docs/README.md has a link to sql.md, which is not a page"
        );
    }

    #[test]
    fn a_page_without_a_heading_is_an_error_that_names_it() {
        let error = summary(&pages(&[("docs/clients/go.md", "no heading\n")])).unwrap_err();
        assert_eq!(error.to_string(), "docs/clients/go.md has no heading");
    }
}
