//! Links and names in documents refer to existing things.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

fn documents(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() && !["target", "node_modules"].contains(&name) && !name.starts_with('.') {
            documents(&path, found);
        } else if name.ends_with(".md") {
            found.push(path);
        }
    }
}

/// Link targets in `](…)`, without the part after `#`.
fn links(text: &str) -> impl Iterator<Item = &str> {
    text.split("](").skip(1).filter_map(|rest| rest.split([')', '#', ' ']).next())
}

#[test]
fn every_relative_link_of_a_document_leads_to_a_file() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut found = Vec::new();
    documents(root, &mut found);
    assert!(found.len() >= 6, "{found:?}");
    for document in found {
        let text = std::fs::read_to_string(&document).unwrap();
        for link in links(&text).filter(|link| !link.is_empty() && !link.contains("://")) {
            let target = document.parent().unwrap().join(link);
            assert!(target.exists(), "{} points at {link}, which does not exist", document.display());
        }
    }
}

/// The source files of the workspace, joined.
fn sources(directory: &Path, text: &mut String) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() && !["target", "node_modules"].contains(&name) && !name.starts_with('.') {
            sources(&path, text);
        } else if name.ends_with(".rs") {
            text.push_str(&std::fs::read_to_string(&path).unwrap());
        }
    }
}

#[test]
fn every_metric_is_documented_and_no_other() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let page = std::fs::read_to_string(root.join("docs/operations/watch.md")).unwrap();
    let mut code = String::new();
    for part in ["format/src", "protocol", "ingest/src", "query/src", "server"] {
        sources(&root.join(part), &mut code);
    }
    let names = |text: &str| -> BTreeSet<String> {
        let words = text.split(|c: char| !(c.is_ascii_lowercase() || c == '_'));
        let is_metric = |word: &&str| ["_total", "_seconds", "_bytes"].iter().any(|end| word.ends_with(end));
        words.filter(|word| word.starts_with("tidelake_")).filter(is_metric).map(str::to_owned).collect()
    };
    let (told, made) = (names(&page), names(&code));
    assert!(made.len() > 20, "{made:?}");
    assert_eq!(told, made);
}

#[test]
fn every_test_that_the_page_on_durability_names_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let page = std::fs::read_to_string(root.join("docs/durability.md")).unwrap();
    let mut code = String::new();
    sources(root, &mut code);
    // names in backticks that look like test names
    let names: Vec<&str> =
        page.split('`').skip(1).step_by(2).filter(|n| n.matches('_').count() > 2 && !n.contains([' ', '-'])).collect();
    assert!(names.len() > 30, "{names:?}");
    for name in names.iter().filter(|n| !n.starts_with("tidelake_")) {
        assert!(code.contains(&format!("fn {name}(")), "no test is called {name}");
    }
}
