//! Documents do not point at what is not there.

use std::path::{Path, PathBuf};

fn documents(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() && name != "target" && !name.starts_with('.') {
            documents(&path, found);
        } else if name.ends_with(".md") {
            found.push(path);
        }
    }
}

/// What stands in `](…)`, without the part after `#`.
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
