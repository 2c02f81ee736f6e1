//! Links of pages: what they point at, and what they become on the site.

use std::ops::Range;

use mdbook_markdown::{
    MarkdownOptions, new_cmark_parser,
    pulldown_cmark::{Event, Tag},
};

use super::Pages;

/// A page as the site has it.
#[derive(Debug, PartialEq)]
pub(super) struct Adapted {
    pub(super) text: String,
    /// Images of the page by their paths from the root of the repository.
    pub(super) images: Vec<String>,
}

/// Events of mdBook's own parser with their places in the text.
pub(super) fn events(text: &str) -> impl Iterator<Item = (Event<'_>, Range<usize>)> {
    let mut options = MarkdownOptions::default();
    (options.smart_punctuation, options.definition_lists) = (false, false);
    new_cmark_parser(text, &options).into_offset_iter()
}

/// The path from the root of the repository that a link of a page has; `None` for an address, an anchor of the page itself and a
/// path that leaves the repository.
pub(super) fn resolve(page: &str, link: &str) -> Option<String> {
    let path = link.split('#').next().unwrap_or_default();
    if path.is_empty() || path.starts_with('/') || path.contains(':') {
        return None;
    }
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

/// The page that a link leads to: itself, or the README.md of a folder.
pub(super) fn target(page: &str, link: &str, pages: &Pages) -> Option<String> {
    let path = resolve(page, link)?;
    let index = format!("{path}/README.md");
    [path, index].into_iter().find(|path| pages.contains_key(path))
}

/// Adapts the links of a page: README.md becomes index.md, as mdBook calls it; a link to a file that is not on the site becomes
/// text that has the path as its title. A link to nothing stays, and the check of the site reports it.
pub(super) fn adapt(page: &str, text: &str, pages: &Pages, exists: impl Fn(&str) -> bool) -> Adapted {
    let mut adapted = Adapted { text: String::with_capacity(text.len()), images: Vec::new() };
    let mut copied = 0;
    for (event, range) in events(text) {
        match event {
            Event::Start(Tag::Image { dest_url, .. }) => adapted.images.extend(resolve(page, &dest_url)),
            Event::Start(Tag::Link { dest_url, .. }) => {
                // Only `[label](target)` is adapted; the check of the site reports other links that lead nowhere.
                let Some(middle) = text[range.clone()].rfind("](").map(|at| range.start + at) else { continue };
                let Some(after) = text[middle + 2..range.end].strip_prefix(&*dest_url) else { continue };
                let label = &text[range.start..middle];
                let new = match (target(page, &dest_url, pages), resolve(page, &dest_url)) {
                    (Some(target), _) => format!("{label}]({}{after}", address(&dest_url, &target)),
                    (None, Some(path)) if exists(&path) => format!("<span title=\"{path}\">{}</span>", &label[1..]),
                    (None, _) => continue,
                };
                adapted.text += &text[copied..range.start];
                adapted.text += &new;
                copied = range.end;
            }
            _ => {}
        }
    }
    adapted.text += &text[copied..];
    adapted
}

/// The link to a page, with the name that the page has in mdBook.
fn address(link: &str, target: &str) -> String {
    let (path, anchor) = link.find('#').map_or((link, ""), |at| link.split_at(at));
    if target != "README.md" && !target.ends_with("/README.md") {
        return link.to_owned();
    }
    let folder = path.trim_end_matches("README.md").trim_end_matches('/');
    if folder.is_empty() { format!("index.md{anchor}") } else { format!("{folder}/index.md{anchor}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages() -> Pages {
        let paths = ["README.md", "docs/README.md", "docs/sql.md", "docs/clients/README.md"];
        paths.map(|path| (path.to_owned(), String::new())).into()
    }

    fn adapted(page: &str, text: &str) -> Adapted {
        adapt(page, text, &pages(), |path| ["src/lib.rs", "src", "docs"].contains(&path))
    }

    #[test]
    fn paths_are_relative_to_the_folder_of_the_page() {
        assert_eq!(resolve("docs/sql.md", "clients/go.md#use").as_deref(), Some("docs/clients/go.md"));
        assert_eq!(resolve("docs/sql.md", "../src/./lib.rs").as_deref(), Some("src/lib.rs"));
        assert_eq!(resolve("README.md", "docs/").as_deref(), Some("docs"));
        for link in ["#use", "https://example.com/a.md", "mailto:a@example.com", "/etc/passwd", "../../a.md"] {
            assert_eq!(resolve("docs/sql.md", link), None, "{link}");
        }
    }

    #[test]
    fn a_link_to_a_readme_or_its_folder_leads_to_the_index() {
        for (page, link, expected) in [
            ("docs/sql.md", "clients/README.md#types", "clients/index.md#types"),
            ("docs/sql.md", "clients/", "clients/index.md"),
            ("docs/sql.md", "clients", "clients/index.md"),
            ("docs/sql.md", "README.md", "index.md"),
            ("docs/sql.md", "../README.md#on-s3", "../index.md#on-s3"),
            ("docs/sql.md", "README.md \"title\"", "index.md \"title\""),
            ("docs/clients/README.md", "../sql.md#types", "../sql.md#types"),
        ] {
            assert_eq!(adapted(page, &format!("See [it]({link}).")).text, format!("See [it]({expected})."));
        }
    }

    #[test]
    fn a_link_to_a_file_that_is_no_page_becomes_text_with_its_path() {
        let text = "Read [`lib.rs`](../src/lib.rs) or [all](../src).\n\n| a |\n|---|\n| [x](../src/lib.rs) |\n";
        assert_eq!(
            adapted("docs/sql.md", text).text,
            "Read <span title=\"src/lib.rs\">`lib.rs`</span> or <span title=\"src\">all</span>.\n\n\
             | a |\n|---|\n| <span title=\"src/lib.rs\">x</span> |\n"
        );
    }

    #[test]
    fn code_addresses_anchors_and_links_to_nothing_stay() {
        let text = "`[a](README.md)` [b](https://example.com) [c](#d) [e](missing.md)\n\n```\n[f](README.md)\n```\n";
        assert_eq!(adapted("docs/sql.md", text), Adapted { text: text.to_owned(), images: Vec::new() });
    }

    #[test]
    fn images_are_named_and_stay_also_within_links() {
        let page = adapted(
            "docs/sql.md",
            "![a](images/a.svg) [![b](images/b.png)](README.md) ![c](https://example.com/c.png)",
        );
        assert_eq!(page.images, ["docs/images/a.svg", "docs/images/b.png"]);
        assert!(page.text.contains("[![b](images/b.png)](index.md)"), "{}", page.text);
    }
}
